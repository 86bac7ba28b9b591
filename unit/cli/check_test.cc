// `check` over the objects of a cluster: no cycle has run here, and the answer is the controller's
// all the same.
#include <fstream>
#include <string>

#include "api/json.h"
#include "unit/catch.h"
#include "unit/cli/call.h"
#include "unit/cli/dump.h"

namespace sluice::cli {
namespace {

constexpr char kSpec[] = R"(
  spec:
    queueName: q
    podSets:
    - name: main
      count: 1
      template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {nvidia.com/gpu: 8}}}]}}
)";

std::string Running(const std::string& name, const std::string& since,
                    const std::string& annotations) {
  return "- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: Workload\n  metadata: {name: " + name +
         ", namespace: team, uid: " + name + ", creationTimestamp: \"" + since +
         "\", annotations: {" + annotations + "}}" + kSpec +
         "  status:\n    conditions:\n"
         "    - {type: QuotaReserved, status: \"True\", reason: QuotaReserved, message: \"\", "
         "lastTransitionTime: \"" +
         since +
         "\"}\n    - {type: Admitted, status: \"True\", reason: Admitted, message: \"\", "
         "lastTransitionTime: \"" +
         since +
         "\"}\n    admission:\n      clusterQueue: a\n      podSetAssignments: [{name: main, "
         "count: "
         "1, flavors: {nvidia.com/gpu: f}, resourceUsage: {nvidia.com/gpu: 8}}]\n";
}

// `more`: of the spec of the ClusterQueue.
std::string ClusterFile(const std::string& more, const std::string& workloads) {
  const std::string path = "check_test_cluster.yaml";
  std::ofstream(path) << DumpHead("2026-01-01T06:00:00Z")
                      << R"(- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q, namespace: team}, spec: {clusterQueue: a}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: high}, value: 9}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: ClusterQueue
  metadata: {name: a}
  spec:
    namespaceSelector: {}
)" << more << R"(    resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors: [{name: f, resources: [{name: nvidia.com/gpu, nominalQuota: 24}]}]
)" << workloads;
  return path;
}

std::string AskedFile() {
  const std::string path = "check_test_job.yaml";
  std::ofstream(path)
      << "apiVersion: batch/v1\nkind: Job\nmetadata: {name: new, namespace: team, labels: "
         "{kueue.x-k8s.io/queue-name: q, kueue.x-k8s.io/priority-class: high}}\nspec:\n  "
         "template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: "
         "{requests: {nvidia.com/gpu: 8}, limits: {nvidia.com/gpu: 8}}}]}}\n";
  return path;
}

TEST_CASE("check names the victim that loses the least work, as the controller would") {
  const std::string file = ClusterFile(
      "    preemption: {withinClusterQueue: LowerPriority}\n",
      Running("a", "2026-01-01T01:00:00Z",
              "sluice.dev/last-checkpoint: \"2026-01-01T05:57:00Z\", sluice.dev/restart-cost: 5m") +
          Running("b", "2026-01-01T05:50:00Z", "") +
          Running("c", "2026-01-01T04:00:00Z", "sluice.dev/checkpoint-interval: 45m"));
  const Outcome outcome = Call({"check", "-f", AskedFile(), "--from", file});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out ==
        "It would be admitted in ClusterQueue a (main: nvidia.com/gpu from f) by preempting:\n"
        "  team/a of ClusterQueue a: 8 nvidia.com/gpu, loses 8m0s of work\n");
}

TEST_CASE("check says that quota comes before admission checks") {
  const std::string file = ClusterFile(
      "    admissionChecksStrategy: {admissionChecks: [{name: budget}]}\n",
      "- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: AdmissionCheck\n  metadata: {name: budget}\n  "
      "spec: {controllerName: example.com/c}\n  status: {conditions: [{type: Active, status: "
      "\"True\", reason: Active, message: \"\", lastTransitionTime: \"2026-01-01T00:00:00Z\"}]}\n");
  const Outcome outcome = Call({"check", "-f", AskedFile(), "--from", file});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 1);
  CHECK(outcome.out.find(
            "It would get its quota now in ClusterQueue a (main: nvidia.com/gpu from f), and wait "
            "for its admission checks: budget.\nReason: CheckPending\nWould help: its admission "
            "checks are Ready: budget\nForecast: none: nothing tells when its admission checks are "
            "ready\n") == 0);
}

}  // namespace
}  // namespace sluice::cli
