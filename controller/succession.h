// Succession: from the lease to the first decision.
//
// What the predecessor wrote last may not have come through the watches of this process yet. So it
// asks the API server, after it has got the lease, how new the collections are that a leader writes
// down its decisions in, tells the loop, which decides nothing before it has seen as much
// (reconcile/operator.h), and has the watches of these kinds show it soon. A question that is not
// answered is asked again and again.
//
// Threads: Begin and Complaint from any, Follow from the loop's.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <memory>
#include <string>

#include "kube/client.h"
#include "kube/executor.h"
#include "loop/inbox.h"
#include "loop/log.h"
#include "reconcile/operator.h"
#include "watches.h"

namespace sluice {

class Succession {
 public:
  // All of them outlive this. `pushes` is for what may wait for room in the inbox.
  Succession(const state::Settings& settings, Watches& watches, loop::Inbox& inbox,
             kube::Executor& timers, kube::Executor& pushes, loop::Log log);

  // The lease is ours. Asks for as long as `go_on` says so.
  void Begin(const kube::Client& client, std::function<bool()> go_on);
  void Follow(const reconcile::Operator& op);
  // For readiness: that this process has the lease and cannot decide yet. "": no such thing.
  std::string Complaint() const;

 private:
  struct Answers;
  void Tell(const Answers& answers);

  const state::Settings& settings_;
  Watches& watches_;
  loop::Inbox& inbox_;
  kube::Executor& timers_;
  kube::Executor& pushes_;
  loop::Log log_;
  mutable absl::Mutex mutex_;
  absl::Time since_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // steady; that: no wait
  absl::Time next_log_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace sluice
