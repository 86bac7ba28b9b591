// PodRunner: scheduler, kubelet and nodes for pods that are API objects, for the simulator.
//
// A pod without scheduling gates is bound at once; any node fits. With the option pod_objects a
// scheduler binds them (sim/scheduler.h), and the Job controller runs those of Jobs. It becomes
// ready after the readiness delay and ends after its run time, both given by the annotations that
// Jobs use (sim/job_controller.h: run-seconds, ready-seconds, fail, stop-seconds). A pod that is
// deleted while it runs takes its time to stop, ends as Failed, and is gone when no finalizer holds
// it. On a node that does not answer nothing happens to it but that it is said to be not ready.
//
// Writes only nodeName and status of pods, and deletes those that have stopped. Everything but
// start times can be seen in the API. Single thread, deterministic.
// Source: Kubernetes documentation, "Pod Lifecycle", "Pod Scheduling Readiness".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <string>

#include "sim/api_server.h"
#include "sim/job_controller.h"

namespace sluice::sim {

class PodRunner {
 public:
  PodRunner(ApiServer& api, JobControllerOptions options) : api_(api), options_(options) {}

  // Brings every pod to where it should be at `now`.
  void Run(absl::Time now);
  // When Run has something to do without a change in the API.
  absl::Time NextDue() const { return next_due_; }

 private:
  struct Times {
    std::string uid;
    absl::Time ready_at;
    absl::Time ends_at;
    absl::Time stops_at = absl::InfiniteFuture();
  };

  void Advance(const api::Json& pod, absl::Time now);
  void Bind(const ObjectKey& key, const api::Json& pod, absl::Time now);
  void Report(const ObjectKey& key, const api::Json& pod, const std::string& phase, bool ready,
              absl::Time now);
  void Remove(const ObjectKey& key, const api::Json& pod, absl::Time now);
  Times& TimesOf(const ObjectKey& key, const api::Json& pod, absl::Time now);
  void DueAt(absl::Time time, absl::Time now);

  ApiServer& api_;
  JobControllerOptions options_;
  absl::btree_map<ObjectKey, Times> times_;
  absl::Time next_due_ = absl::InfiniteFuture();
};

}  // namespace sluice::sim
