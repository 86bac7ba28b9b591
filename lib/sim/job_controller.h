// JobController: the controller of batch/v1 Jobs and the pods it makes, for the simulator.
//
// A Job that is not suspended gets pods at once, up to its parallelism and to what is left of its
// completions. A pod becomes ready after the readiness delay and succeeds after its run time, which
// the Job's annotation sluice.dev/run-seconds gives: one number for all pods, or a list for the
// first, second, ... pod (the last number counts for all others). Without the annotation a pod runs
// for ever. sluice.dev/fail: "true" makes the first pod that ends fail the Job.
// sluice.dev/ready-seconds says in the same way when pods become ready ("never": they do not), and
// overrides the option. Pods are counted anew each time the Job is started. sluice.dev/failed-pods:
// "N" is how many pods of the Job have failed by now: when it grows, so many of the oldest pods
// fail and the Job controller replaces each by the next one.
// A Job that becomes suspended loses its pods; they count as active for the time of the annotation
// sluice.dev/stop-seconds (else of the option), then status.active is 0 and Suspended is True.
// Pods are no API objects and any node fits, with two exceptions. Those of a Job whose template has
// scheduling gates are objects, and start when the last gate has been taken off. With the option
// pod_objects all are, a scheduler has to bind them, they go when their node goes (on one that does
// not answer they are deleted and stay until it does), and a Job with spec.scheduling gets a
// PodGroup whose minimum follows the Job. The times of a pod count from its start; the objects of
// those that succeeded stay.
//
// Writes only the status of Jobs, and only when it differs. Everything but the pods' start times
// can be seen in the API. Single thread, deterministic. Source: Kubernetes documentation, "Jobs".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

#include "sim/api_server.h"

namespace sluice::sim {

inline constexpr char kRunSecondsAnnotation[] = "sluice.dev/run-seconds";
inline constexpr char kStopSecondsAnnotation[] = "sluice.dev/stop-seconds";
inline constexpr char kFailAnnotation[] = "sluice.dev/fail";
inline constexpr char kReadySecondsAnnotation[] = "sluice.dev/ready-seconds";
inline constexpr char kFailedPodsAnnotation[] = "sluice.dev/failed-pods";

struct JobControllerOptions {
  absl::Duration readiness_delay = absl::ZeroDuration();
  absl::Duration stop_time = absl::ZeroDuration();
  bool pod_objects = false;
};

class JobController {
 public:
  JobController(ApiServer& api, JobControllerOptions options) : api_(api), options_(options) {}

  // Brings every Job to where it should be at `now`.
  void Run(absl::Time now);
  // When Run has something to do without a change in the API.
  absl::Time NextDue() const;
  // Pods that exist now, of all Jobs; those being stopped too.
  int64_t RunningPods(const ObjectKey& job) const;

 private:
  struct Pod {
    absl::Time ready_at;
    absl::Time ends_at = absl::InfiniteFuture();
    absl::Time gone_at = absl::InfiniteFuture();  // set when it is being stopped
    int64_t index = 0;
    std::string object;    // the name of its API object, "" for none
    bool waiting = false;  // for its last scheduling gate to go, or for its node
  };
  struct JobState {
    std::string uid;
    std::vector<Pod> pods;
    int64_t started = 0;  // pods ever made since the last start
    int64_t succeeded = 0;
    int64_t failed_pods = 0;
    std::vector<int64_t> completed_indexes;
    bool failed = false;
    int64_t objects = 0;            // ever made
    std::vector<std::string> done;  // names of objects of pods that succeeded
  };

  void Reconcile(const api::Json& job, absl::Time now);
  void AdvancePods(JobState& state, const api::Json& job, absl::Time now) const;
  // Pods that are objects: what became of them, and making and deleting them.
  void SyncPods(JobState& state, const api::Json& job, absl::Time now);
  void MakeObject(Pod& pod, JobState& state, const api::Json& job, absl::Time now);
  void SetTimes(Pod& pod, const api::Json& job, absl::Time now) const;
  void DeleteObject(const std::string& ns, const Pod& pod, absl::Time now);
  void SyncPodGroup(const api::Json& job, absl::Time now);
  void Strand(const api::Json& pod, const api::Json& job, absl::Time now);
  void RemoveObjects(JobState& state, const api::Json& job, absl::Time now);

  // For the next pod: the number of pods made before it. Of an indexed Job the lowest index that no
  // pod has, nor has had with success.
  static int64_t NextIndex(JobState& state, const api::Json& job);
  void FailPods(JobState& state, const api::Json& job) const;
  void MakePods(JobState& state, const api::Json& job, absl::Time now);
  void StopPods(JobState& state, const api::Json& job, absl::Time now) const;
  api::Json StatusOf(const JobState& state, const api::Json& job, absl::Time now) const;

  ApiServer& api_;
  JobControllerOptions options_;
  absl::btree_map<ObjectKey, JobState> jobs_;
  absl::Time last_run_ = absl::InfinitePast();
};

}  // namespace sluice::sim
