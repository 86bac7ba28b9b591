// When a node counts as failed for a workload. Each row is a situation and what is made of it.
#include "topology/node_health.h"

#include "unit/catch.h"

namespace sluice::topology {
namespace {

constexpr HealthRules kDefaults;
constexpr HealthRules kAtOnce{.on_pod_termination = false};
constexpr HealthRules kFixedTime{.over_fixed_time = true};
constexpr HealthRules kNoTaints{.taints = false};
const Taint kMaintenance{"maint", "true", "NoSchedule"};
const Taint kSoft{"maint", "true", "PreferNoSchedule"};
const Taint kExecute{"maint", "true", "NoExecute"};

NodeState Ready(std::vector<Taint> taints = {}) { return {true, true, 0, std::move(taints)}; }
NodeState NotReadySince(int64_t since) { return {true, false, since, {}}; }

NodeUse Use(bool running, std::vector<TimedToleration> tolerations = {}) {
  return {true, running, {std::move(tolerations)}};
}
TimedToleration Tolerating(bool limited, const std::string& op = "Exists") {
  return {{"maint", op, op == "Exists" ? "" : "true", ""}, limited};
}

const Judgement kHealthyNow{NodeVerdict::kHealthy, std::nullopt, false};
const Judgement kFailedNow{NodeVerdict::kFailed, std::nullopt, false};
const Judgement kFailedQuiet{NodeVerdict::kFailed, std::nullopt, true};
const Judgement kRunning{NodeVerdict::kWait, std::nullopt, true};

TEST_CASE("verdicts about nodes") {
  struct Row {
    const char* name;
    NodeState node;
    NodeUse use;
    HealthRules rules;
    int64_t now;
    Judgement expected;
  };
  const Row rows[] = {
      {"gone", {}, Use(true), kDefaults, 100, kFailedNow},
      {"healthy", Ready(), Use(true), kDefaults, 100, kHealthyNow},
      {"94 not ready for long, the pod runs", NotReadySince(0), Use(true), kDefaults, 300,
       kRunning},
      {"94 the pod has gone", NotReadySince(0), Use(false), kDefaults, 300, kFailedQuiet},
      {"not ready just now, no pod", NotReadySince(99), Use(false), kDefaults, 100, kFailedQuiet},
      {"at once: within the grace",
       NotReadySince(90),
       Use(true),
       kAtOnce,
       100,
       {NodeVerdict::kWait, 120, false}},
      {"at once: after it", NotReadySince(70), Use(true), kAtOnce, 100, kFailedNow},
      {"fixed time: within the grace",
       NotReadySince(90),
       Use(true),
       kFixedTime,
       100,
       {NodeVerdict::kWait, 120, true}},
      {"fixed time: after it", NotReadySince(70), Use(true), kFixedTime, 100, kFailedNow},
      {"95 tainted, the pod runs", Ready({kMaintenance}), Use(true), kDefaults, 0, kRunning},
      {"95 tainted, drained", Ready({kMaintenance}), Use(false), kDefaults, 0, kFailedQuiet},
      {"tainted, at once", Ready({kMaintenance}), Use(true), kAtOnce, 0, kFailedNow},
      {"tainted, taints off", Ready({kMaintenance}), Use(false), kNoTaints, 0, kHealthyNow},
      {"only preferred", Ready({kSoft}), Use(false), kDefaults, 0, kHealthyNow},
      {"tolerated", Ready({kExecute}), Use(false, {Tolerating(false)}), kDefaults, 0, kHealthyNow},
      {"96 tolerated for a while, runs", Ready({kExecute}), Use(true, {Tolerating(true)}),
       kDefaults, 0, kRunning},
      {"96 tolerated for a while, stopped", Ready({kExecute}), Use(false, {Tolerating(true)}),
       kDefaults, 0, kFailedQuiet},
      {"tolerated twice, once without limit", Ready({kExecute}),
       Use(false, {Tolerating(true), Tolerating(false)}), kDefaults, 0, kHealthyNow},
      {"numbers do not count", Ready({{"maint", "5", "NoExecute"}}),
       Use(false, {{{"maint", "Gt", "1", ""}, false}}), kDefaults, 0, kFailedQuiet},
      {"one pod set does not tolerate it",
       Ready({kExecute}),
       {true, false, {{Tolerating(false)}, {}}},
       kDefaults,
       0,
       kFailedQuiet},
      {"not in the assignment",
       Ready({kExecute}),
       {false, false, {}},
       kDefaults,
       0,
       {NodeVerdict::kHealthy, std::nullopt, true}},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(JudgeNode(row.node, row.use, row.rules, row.now) == row.expected);
  }
}

}  // namespace
}  // namespace sluice::topology
