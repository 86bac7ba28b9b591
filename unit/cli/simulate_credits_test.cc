// What-if about credits: the same trace with and without a CreditPolicy, from manifests and from a
// dump.
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "unit/catch.h"
#include "unit/cli/call.h"
#include "unit/cli/dump.h"

namespace sluice::cli {
namespace {

// Two teams and a pool between them; the accounts say what each has banked.
std::string Dump() {
  std::string text = DumpHead() + R"(- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: Cohort
  metadata: {name: org}
  spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]}]}
- apiVersion: sluice.dev/v1alpha1
  kind: CreditPolicy
  metadata: {name: p}
  spec: {selector: {cohort: org}, resources: [{name: cpu, weight: 1}], halfLife: 0s}
- {apiVersion: sluice.dev/v1alpha1, kind: CreditAccount, metadata: {name: cq-a}, status: {balance: "12.5", lastSettled: "2026-01-01T00:59:30.000Z"}}
- {apiVersion: sluice.dev/v1alpha1, kind: CreditAccount, metadata: {name: cq-b}, status: {balance: "0", lastSettled: "2026-01-01T00:59:30.000Z"}}
)";
  for (const char* name : {"a", "b"}) {
    text += std::string(
                "- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: ") +
            name +
            "}, spec: {cohortName: org, namespaceSelector: {}, resourceGroups: [{coveredResources: "
            "[cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 4}]}]}]}}\n- "
            "{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: q" +
            name + ", namespace: team}, spec: {clusterQueue: " + name + "}}\n";
  }
  return text;
}

constexpr char kTrace[] =
    "name,submit,run,queue,cpu\n"
    "own-b,0,9000,team/qb,4\n"
    "own-a,0,9000,team/qa,4\n"
    "block,0,100,team/qb,4\n"
    "more-b,50,100,team/qb,4\n"
    "more-a,51,1000,team/qa,4\n";

std::string Line(const std::string& text, const std::string& begin) {
  const size_t at = text.find(begin);
  return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
}

TEST_CASE("simulate compares a trace with and without a credit policy") {
  const std::string dump = "simulate_credits_test_dump.yaml";
  const std::string trace = "simulate_credits_test_trace.csv";
  std::ofstream(dump) << Dump();
  std::ofstream(trace) << kTrace;
  const Outcome with = Call({"simulate", dump, "--trace", trace, "--timeline"});
  CHECK(with.err == "");
  CHECK(with.out.find("100 admit   team/more-a") != std::string::npos);
  const Outcome without =
      Call({"simulate", dump, "--trace", trace, "--timeline", "--remove-policy", "credits"});
  CHECK(without.err == "");
  CHECK(without.out.find("100 admit   team/more-b") != std::string::npos);
  for (const char* policy : {"credits", "credits:p"}) {
    const Outcome compared =
        Call({"simulate", dump, "--trace", trace, "--remove-policy", policy, "--compare"});
    CHECK(compared.err == "");
    CHECK(compared.code == 0);
    INFO(compared.out);
    // Without it the short one goes first, and the wait of both together is less.
    CHECK(Line(compared.out, "wait, mean").find("-8") != std::string::npos);
  }
  CHECK(Call({"simulate", dump, "--trace", trace, "--remove-policy", "credits:q"}).err ==
        "--remove-policy: CreditPolicy q does not exist\n");
}

// A saver that holds twice its quota of 4 CPUs, and a lender that wants its own back.
std::string ProtectedDump() {
  std::string text = DumpHead() + R"(- {apiVersion: v1, kind: Namespace, metadata: {name: team}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: f}}
- apiVersion: sluice.dev/v1alpha1
  kind: CreditPolicy
  metadata: {name: p, uid: policy-uid}
  spec: {selector: {cohort: org}, resources: [{name: cpu, weight: 1}], halfLife: 0s, horizon: 1h, maxBank: 24h, maxDebt: 0s, effect: Protect, maxLenderDelay: 10m}
- apiVersion: sluice.dev/v1alpha1
  kind: CreditAccount
  metadata:
    name: cq-saver
    uid: account-uid
    ownerReferences: [{apiVersion: sluice.dev/v1alpha1, kind: CreditPolicy, name: p, uid: policy-uid, controller: true}]
  status: {balance: "12.5", entitlement: "4", lastSettled: "2026-01-01T00:59:30.000Z"}
)";
  for (const char* name : {"saver", "lender"}) {
    text += std::string(
                "- {apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: ") +
            name +
            "}, spec: {cohortName: org, namespaceSelector: {}, preemption: {reclaimWithinCohort: "
            "Any}, resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: "
            "[{name: cpu, nominalQuota: 4}]}]}]}}\n- {apiVersion: kueue.x-k8s.io/v1beta2, kind: "
            "LocalQueue, metadata: {name: " +
            name + ", namespace: team}, spec: {clusterQueue: " + name + "}}\n";
  }
  const auto workload = [&](const std::string& name, const std::string& queue, bool admitted) {
    text += "- apiVersion: kueue.x-k8s.io/v1beta2\n  kind: Workload\n  metadata: {name: " + name +
            ", namespace: team, uid: " + name +
            "-uid, creationTimestamp: \"2026-01-01T00:00:00Z\"}\n  spec: {queueName: " + queue +
            ", podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, "
            "containers: [{name: c, image: i, resources: {requests: {cpu: 4}}}]}}}]}\n";
    if (!admitted) return;
    text +=
        "  status: {conditions: [{type: QuotaReserved, status: \"True\", reason: QuotaReserved, "
        "message: \"\", lastTransitionTime: \"2026-01-01T00:10:00Z\"}], admission: "
        "{clusterQueue: " +
        queue +
        ", podSetAssignments: [{name: main, count: 1, flavors: {cpu: f}, resourceUsage: {cpu: "
        "4}}]}}\n";
  };
  workload("own", "saver", true);
  workload("borrowed", "saver", true);
  workload("claim", "lender", false);
  return text;
}

TEST_CASE("explain knows what credits protect") {
  const std::string path = "simulate_credits_test_protected.yaml";
  std::ofstream(path) << ProtectedDump();
  const Outcome outcome = Call({"explain", "claim", "-n", "team", "--from", path});
  CHECK(outcome.err == "");
  INFO(outcome.out);
  CHECK(outcome.out.find("Reason: CreditsBehind\n") == 0);
  CHECK(outcome.out.find("credits no longer protect what it would reclaim") != std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
