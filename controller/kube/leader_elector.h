// LeaderElector: holds a coordination.k8s.io/v1 Lease, so that one process of several writes.
//
// Expiry is judged by how long this process has seen the lease unchanged on its own steady clock,
// never by the times written in it: clocks of different machines need not agree. A leader that
// could not renew for renew_deadline has lost and must stop writing at once. Taking over needs the
// lease to be unchanged for the duration that its holder wrote into it, or a holder that released
// it.
//
// Threads: Run blocks its caller (give it a thread); callbacks come on that thread; Stop from any.
// Source: Kubernetes documentation "Leases"; KEP-589 for the Lease API.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/status.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <functional>
#include <optional>
#include <string>

#include "api/json.h"
#include "base/object_key.h"
#include "base/time.h"
#include "kube/client.h"

namespace sluice::kube {

struct LeaderElectorOptions {
  ObjectKey lease = {};
  std::string identity = {};  // unique per process; "" makes "<host name>_<random>"
  absl::Duration lease_duration = absl::Seconds(15);
  absl::Duration renew_deadline = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(2);
  // Tests replace them; null is the real clock. The steady one measures, the wall one is written
  // down.
  const Clock* steady = nullptr;
  const Clock* wall = nullptr;
};

struct LeaderElectorCallbacks {
  std::function<void(bool leading)> on_change = {};  // became the leader, lost it
  std::function<void(const std::string& holder)>
      on_holder;                                           // another holder was seen; may be empty
  std::function<void(const absl::Status&)> on_error = {};  // a try failed; may be empty
};

class LeaderElector {
 public:
  // InvalidArgument when the durations are not lease > renew > 1.2 * retry, or a name is missing.
  static absl::Status Validate(const LeaderElectorOptions& options);

  LeaderElector(Client client, LeaderElectorOptions options, LeaderElectorCallbacks callbacks);

  // Tries until Stop, or until leadership was held and lost (then true: the process should end).
  bool Run();
  // One try, on the calling thread; Run is a loop over it. Returns the wait before the next.
  absl::Duration Step();
  // Ends Run. The lease is not released by it: release after all workers have stopped.
  void Stop();
  // Gives the lease up so that a successor need not wait. Does nothing when not leading.
  absl::Status Release();

  // Whether this process may write now: leading and renewed within renew_deadline. Thread-safe.
  bool IsLeader() const;
  const std::string& identity() const { return options_.identity; }

 private:
  struct Record {
    std::string holder;
    int64_t duration_seconds = 0;
    std::string acquire_time;
    std::string renew_time;
    int64_t transitions = 0;
    bool operator==(const Record&) const = default;
  };

  absl::Time SteadyTime() const;
  absl::Time WallTime() const;
  CallOptions Limits() const;
  // True when the lease is ours after the try.
  absl::StatusOr<bool> TryAcquireOrRenew();
  absl::Status WriteLease(const api::Json* current, const Record& record);
  void Observe(const Record& record);
  void SetLeading(bool leading);

  Client client_;
  LeaderElectorOptions options_;
  LeaderElectorCallbacks callbacks_;

  std::optional<Record> observed_;  // last content of the lease
  absl::Time observed_at_;          // steady time when it was first seen
  api::Json observed_object_;
  std::string reported_holder_;

  mutable absl::Mutex mutex_;
  absl::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool leading_ ABSL_GUARDED_BY(mutex_) = false;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time renewed_at_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace sluice::kube
