// FeatureProbe: finds out whether the API server has native gangs, at start and from then on.
//
// Three questions, each only after the one before was answered with yes: does the group version
// scheduling.k8s.io/v1beta1 list PodGroups; may we read them; does a Job keep spec.scheduling (a
// dry run of a creation, in our own namespace, since a field whose gate is off vanishes without a
// word). Asked again after `interval`, and soon after AskSoon: a watch that breaks may mean that
// another API server answers from now on. A question that fails for reasons of its own is asked
// again, and what was known stays. It cannot be seen from here whether kube-scheduler has the gate
// too.
//
// Threads: on_report is called on the executor of the timers, once for the first answer and then
// for every change. Source: KEP-4671 "Gang Scheduling", KEP-5547 "Integrate Workload APIs with
// Job".
#pragma once

#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>

#include "kube/client.h"
#include "kube/executor.h"
#include "state/ports.h"

namespace sluice::kube {

struct FeatureProbeOptions {
  std::string ns;  // where the Job of the dry run would be
  absl::Duration interval = absl::Minutes(5);
  absl::Duration soon = absl::Seconds(3);  // also the pause after a question that failed
};

struct FeatureReport {
  state::ClusterFeatures features;
  std::string detail;  // why something is missing, "" when nothing is
  bool operator==(const FeatureReport&) const = default;
};

class FeatureProbe {
 public:
  using ReportCallback = std::function<void(const FeatureReport&)>;
  // The executor must outlive the probe.
  FeatureProbe(Client client, Executor& timers, FeatureProbeOptions options,
               ReportCallback on_report);
  ~FeatureProbe();  // Stop
  FeatureProbe(const FeatureProbe&) = delete;
  FeatureProbe& operator=(const FeatureProbe&) = delete;

  void Start();
  // From any thread.
  void AskSoon();
  // No call of on_report begins after this returned. Not from on_report.
  void Stop();

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace sluice::kube
