#include "admission/cycle.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "admission/conditions.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

using build::At;
using queueing::MakeWorkloadInfo;
using queueing::QueueManager;
using queueing::RequeueReason;
using queueing::WorkloadInfoPtr;
using Names = std::vector<std::string>;

// A small cluster: a snapshot and the queues, as the World keeps them.
class Cluster {
 public:
  Cluster() { Add(build::Namespace("ns")); }

  void Add(const build::Namespace& ns) {
    snapshot.namespaces[ns.Get().metadata.name] = ns.Shared();
  }
  void Add(const build::Flavor& flavor) {
    snapshot.flavors[flavor.Get().metadata.name] = flavor.Shared();
  }
  void Add(const build::ClusterQueue& queue, bool active = true) {
    const api::ClusterQueue& object = queue.Get();
    const std::string& name = object.metadata.name;
    for (const api::ResourceGroup& group : object.spec.resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        if (!snapshot.flavors.contains(flavor.name)) Add(build::Flavor(flavor.name));
      }
    }
    snapshot.cluster_queues[name] = {queue.Shared(), active};
    snapshot.tree.SetClusterQueue(name, object.spec.cohort_name,
                                  LimitsOf(object.spec.resource_groups));
    queues.AddClusterQueue(name, {queueing::StrategyOf(object), active});
  }
  WorkloadInfoPtr Info(const build::Workload& workload, const std::string& queue = "cq") {
    return MakeWorkloadInfo(workload.Shared(), queue, {});
  }
  void Add(const build::Workload& workload, const std::string& queue = "cq") {
    queues.AddOrUpdate(Info(workload, queue), At(0));
  }
  // What the loop does with the decisions.
  Names Run(size_t max_admissions = 1000) {
    Names admitted;
    last = Schedule(snapshot, queues, At(100), max_admissions);
    for (const Decision& decision : last) {
      if (decision.kind != Decision::Kind::kAdmit) continue;
      snapshot.tree.AddUsage(decision.info->cluster_queue, decision.usage);
      admitted.push_back(decision.info->Key().name);
    }
    queues.CheckInvariants();
    snapshot.tree.CheckInvariants();
    return admitted;
  }
  const Decision& DecisionOf(const std::string& name) const {
    for (const Decision& decision : last) {
      if (decision.info->Key().name == name) return decision;
    }
    FAIL("no decision for " << name);
    return last.front();
  }

  Snapshot snapshot;
  QueueManager queues;
  std::vector<Decision> last;
};

build::Workload Job(const std::string& name, const char* cpu, double created = 0) {
  return build::Workload(name).Queue("lq").Request("cpu", cpu).Created(At(created));
}

TEST_CASE("workloads are admitted into free quota, the rest says what is missing") {
  Cluster cluster;
  cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}));
  cluster.Add(Job("a", "3", 1));
  cluster.Add(Job("b", "4", 2));
  cluster.Add(Job("c", "2", 3));
  CHECK(cluster.Run() == Names{"a", "c"});
  const Decision& a = cluster.DecisionOf("a");
  CHECK(a.admission.cluster_queue == "cq");
  CHECK(a.admission.pod_set_assignments.at(0).flavors.at("cpu") == "f");
  CHECK(a.admission.pod_set_assignments.at(0).resource_usage.at("cpu").ToString() == "3");
  CHECK(QuotaReservedEventText(a, At(101)) ==
        "Quota reserved in ClusterQueue cq, wait time since queued was 100s");
  const Decision& b = cluster.DecisionOf("b");
  CHECK(b.kind == Decision::Kind::kWait);
  CHECK(b.reason == kWaitingForQuota);
  CHECK(b.message ==
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor f, 2 "
        "more needed");
  CHECK(b.requeue.reason == RequeueReason::kPreemptionNoCandidates);
  CHECK(cluster.Run().empty());
  CHECK(cluster.last.empty());  // nothing changed, nothing is judged again
  cluster.snapshot.tree.RemoveUsage("cq", a.usage);
}

TEST_CASE("quota that is freed admits the one that waits") {
  Cluster cluster;
  cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}));
  cluster.Add(Job("a", "3", 1));
  cluster.Add(Job("b", "4", 2));
  CHECK(cluster.Run() == Names{"a"});
  cluster.snapshot.tree.RemoveUsage("cq", cluster.DecisionOf("a").usage);
  CHECK(cluster.Run().empty());
  cluster.queues.ReleaseParked("cq", At(100));
  CHECK(cluster.Run() == Names{"b"});
}

TEST_CASE("strict order is never overtaken") {
  Cluster cluster;
  cluster.Add(build::ClusterQueue("cq").StrictFifo().Flavor("f", {{"cpu", "5"}}));
  cluster.Add(Job("a", "3", 1));
  cluster.Add(Job("b", "4", 2));
  cluster.Add(Job("c", "1", 3));
  CHECK(cluster.Run() == Names{"a"});
  CHECK(cluster.Run().empty());
  cluster.snapshot.tree.RemoveUsage("cq", {{{"f", "cpu"}, 3000}});
  cluster.queues.ReleaseParked("cq", At(100));
  CHECK(cluster.Run() == Names{"b", "c"});
}

TEST_CASE("the limit on admissions only splits the work") {
  Cluster cluster;
  cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "3"}}));
  for (int i = 0; i < 5; ++i) cluster.Add(Job("w" + std::to_string(i), "1", i));
  CHECK(cluster.Run(2) == Names{"w0", "w1"});
  CHECK(cluster.queues.HasHeads(At(100)));
  CHECK(cluster.Run(2) == Names{"w2"});
  CHECK_FALSE(cluster.queues.HasHeads(At(100)));
}

TEST_CASE("what keeps a head from being assigned at all") {
  Cluster cluster;
  cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}));
  const auto decide = [&](const build::Workload& workload, const std::string& queue = "cq") {
    return RunCycle(cluster.snapshot, {cluster.Info(workload, queue)}).at(0);
  };
  SECTION("a failed check") {
    const Decision decision = decide(Job("w", "1").Check("a", "Retry"));
    CHECK(decision.reason == kPendingEvaluation);
    CHECK(decision.message == "The workload has failed admission checks");
  }
  SECTION("an inactive or missing queue") {
    cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}), false);
    CHECK(decide(Job("w", "1")).message == "ClusterQueue cq is inactive");
    CHECK(decide(Job("w", "1")).reason == kSuspended);
    CHECK(decide(Job("w", "1"), "gone").message == "ClusterQueue gone not found");
    CHECK(decide(Job("w", "1"), "gone").reason == kMisconfigured);
  }
  SECTION("the namespace") {
    api::LabelSelector selector;
    selector.match_labels["team"] = "x";
    cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}).NamespaceSelector(selector));
    const Decision decision = decide(Job("w", "1"));
    CHECK(decision.reason == kMisconfigured);
    CHECK(decision.message == "workload namespace doesn't match ClusterQueue selector");
    CHECK(decision.requeue.reason == RequeueReason::kNamespaceMismatch);
    cluster.Add(build::Namespace("ns").Label("team", "x"));
    CHECK(decide(Job("w", "1")).kind == Decision::Kind::kAdmit);
    cluster.Add(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}).NamespaceSelector({}));
    CHECK(decide(Job("w", "1")).reason == kMisconfigured);
    CHECK(decide(Job("w", "1").Namespace("elsewhere")).message == "namespace elsewhere not found");
  }
  SECTION("invalid resources") {
    const Decision decision = decide(Job("w", "2").Limit("cpu", "1"));
    CHECK(decision.reason == kMisconfigured);
    CHECK(decision.message.find("resources validation failed: ") == 0);
  }
  SECTION("it holds quota already") {
    CHECK(decide(Job("w", "1").Reserved("cq", "f")).kind == Decision::Kind::kDrop);
  }
}

TEST_CASE("reasons and texts of what does not fit") {
  Cluster cluster;
  cluster.Add(build::Flavor("spot").Taint("k", "v", "NoSchedule"));
  cluster.Add(build::Flavor("arm").NodeLabel("arch", "arm"));
  cluster.Add(build::ClusterQueue("cq")
                  .Flavor("on-demand", {{"cpu", "5"}})
                  .Flavor("spot", {{"cpu", "5"}})
                  .Flavor("arm", {{"cpu", "5"}}));
  const auto decide = [&](const build::Workload& workload) {
    return RunCycle(cluster.snapshot, {cluster.Info(workload)}).at(0);
  };
  const Decision large = decide(Job("w", "6500m").NodeSelector("arch", "x86"));
  CHECK(large.reason == kExceedsMaxQuota);
  CHECK(large.message ==
        "couldn't assign flavors to pod set main: flavor arm doesn't match node affinity, "
        "insufficient quota for cpu in flavor on-demand, previously considered podsets requests "
        "(0) + current podset request (6500m) > maximum capacity (5), untolerated taint {k v "
        "NoSchedule <nil>} in flavor spot");
  CHECK(large.requeue.reason == RequeueReason::kNoFit);
  const Decision uncovered = decide(Job("w", "1").Request("gpu", "1"));
  CHECK(uncovered.reason == kNoMatchingFlavor);
  CHECK(uncovered.message ==
        "couldn't assign flavors to pod set main: resource gpu unavailable in ClusterQueue");
  cluster.snapshot.tree.AddUsage("cq", {{{"on-demand", "cpu"}, 3000}});
  const Decision waits = decide(Job("w", "4").NodeSelector("arch", "x86"));
  CHECK(waits.reason == kWaitingForQuota);
  CHECK(RenderConsidered(waits.explanation) ==
        "main: arm(NoFit;flavor arm doesn't match node affinity), "
        "on-demand(preemptionMode=NoCandidates;insufficient unused quota for cpu in flavor "
        "on-demand, 2 more needed), spot(NoFit;untolerated taint {k v NoSchedule <nil>} in flavor "
        "spot)");
  const Decision next = decide(Job("w", "4"));
  CHECK(next.kind == Decision::Kind::kAdmit);
  CHECK(next.admission.pod_set_assignments[0].flavors.at("cpu") == "arm");
  cluster.snapshot.flavors.erase("arm");
  CHECK(decide(Job("w", "4")).message.find("flavor arm not found") != std::string::npos);
}

TEST_CASE("the order within a cycle, and the check before the last capacity is given") {
  Cluster cluster;
  cluster.snapshot.tree.SetCohort("pool", "", {{{"f", "cpu"}, {6000, {}, {}}}});
  cluster.Add(build::ClusterQueue("qa").Cohort("pool").Flavor("f", {{"cpu", "3"}}));
  cluster.Add(build::ClusterQueue("qb").Cohort("pool").Flavor("f", {{"cpu", "3"}}));
  const std::vector<WorkloadInfoPtr> heads = {cluster.Info(Job("a", "7", 2), "qa"),
                                              cluster.Info(Job("b", "7", 1), "qb")};
  const std::vector<Decision> decisions = RunCycle(cluster.snapshot, heads);
  REQUIRE(decisions.size() == 2);
  CHECK(decisions[0].info->Key().name == "b");
  CHECK(decisions[0].kind == Decision::Kind::kAdmit);
  CHECK(decisions[0].borrow_level == 1);
  CHECK(decisions[1].message == "Workload no longer fits after processing another workload");
  CHECK(decisions[1].explanation.rivals ==
        std::vector<Explanation::Rival>{{"ns/b", "qb", {{{"f", "cpu"}, 7000}}}});
  CHECK(RenderRivals(decisions[1].explanation) == "ns/b of ClusterQueue qb took 7 cpu of flavor f");
  CHECK(RenderRivals(decisions[1].explanation, Naming::kQueuesOnly) ==
        "a workload of ClusterQueue qb took 7 cpu of flavor f");
  CHECK(decisions[1].reason == kWaitingForQuota);
  CHECK(decisions[1].requeue.reason == RequeueReason::kFailedAfterNomination);
  CHECK(cluster.snapshot.tree.UsageOf("qb").empty());  // the cycle leaves no trace
  // Within its own quota goes before borrowing, whatever the priority.
  const std::vector<Decision> mixed = RunCycle(
      cluster.snapshot,
      {cluster.Info(Job("a", "7", 1).Priority(10), "qa"), cluster.Info(Job("b", "3", 2), "qb")});
  CHECK(mixed[0].info->Key().name == "b");
  const std::vector<Decision> by_priority = RunCycle(
      cluster.snapshot,
      {cluster.Info(Job("a", "1", 1), "qa"), cluster.Info(Job("b", "1", 2).Priority(1), "qb")});
  CHECK(by_priority[0].info->Key().name == "b");
}

TEST_CASE("who loses a cycle is told of those without whom it would fit") {
  Cluster cluster;
  cluster.snapshot.tree.SetCohort("pool", "", {{{"f", "cpu"}, {10'000, {}, {}}}});
  for (const char* name : {"qa", "qb", "qc", "qd", "other"}) {
    auto queue = build::ClusterQueue(name).Flavor("f", {{"cpu", "0"}});
    cluster.Add(std::string(name) == "other" ? queue.Flavor("g", {{"cpu", "9"}})
                                             : queue.Cohort("pool"));
  }
  const std::vector<WorkloadInfoPtr> heads = {
      cluster.Info(Job("first", "5", 1), "qa"), cluster.Info(Job("small", "2", 2), "qb"),
      cluster.Info(Job("elsewhere", "9", 3), "other"), cluster.Info(Job("last", "3", 4), "qc"),
      cluster.Info(Job("loser", "4", 5), "qd")};
  const auto told = [&](size_t most) {
    for (const Decision& decision : RunCycle(cluster.snapshot, heads, nullptr, most)) {
      if (decision.info == heads.back()) return RenderRivals(decision.explanation);
    }
    return std::string();
  };
  // "last" alone would leave 3, and "small" with it 5: "first" has nothing to do with it.
  CHECK(told(32) ==
        "ns/last of ClusterQueue qc took 3 cpu of flavor f; ns/small of ClusterQueue qb took 2 cpu "
        "of flavor f");
  CHECK(told(1) == "ns/last of ClusterQueue qc took 3 cpu of flavor f");
  CHECK(cluster.snapshot.tree.UsageOf("qb").empty());
  cluster.snapshot.tree.CheckInvariants();
}

// The slow model: a queue in order; every workload that fits is taken, with strict order only up to
// the first that does not.
Names NaiveAdmissions(std::vector<WorkloadInfoPtr> pending, int64_t free, bool strict) {
  std::sort(pending.begin(), pending.end(),
            [](const auto& a, const auto& b) { return queueing::OrderedBefore(*a, *b); });
  Names admitted;
  for (const WorkloadInfoPtr& info : pending) {
    const int64_t needed = info->requests.at(0).total.at("cpu");
    if (needed <= free) {
      free -= needed;
      admitted.push_back(info->Key().name);
    } else if (strict) {
      break;
    }
  }
  return admitted;
}

TEST_CASE("quota and queue agree with the naive model over time") {
  for (unsigned seed = 1; seed <= 25; ++seed) {
    std::mt19937 random(seed);
    const auto pick = [&](int limit) {
      return static_cast<int>(random() % static_cast<unsigned>(limit));
    };
    const bool strict = pick(2) == 0;
    const int64_t quota = 10;
    Cluster cluster;
    build::ClusterQueue queue("cq");
    queue.Flavor("f", {{"cpu", std::to_string(quota)}});
    if (strict) queue.StrictFifo();
    cluster.Add(queue);
    std::map<std::string, WorkloadInfoPtr> pending;
    std::map<std::string, FlavorResourceAmounts> running;
    for (int step = 0; step < 60; ++step) {
      for (int i = pick(4); i > 0; --i) {
        const std::string name = "w" + std::to_string(step) + "-" + std::to_string(i);
        const std::string cpu = std::to_string(1 + pick(12));
        const auto workload = Job(name, cpu.c_str(), pick(1000)).Priority(pick(3));
        pending[name] = cluster.Info(workload);
        cluster.Add(workload);
      }
      if (!running.empty() && pick(2) == 0) {
        auto done = std::next(running.begin(), pick(static_cast<int>(running.size())));
        cluster.snapshot.tree.RemoveUsage("cq", done->second);
        running.erase(done);
        cluster.queues.ReleaseParked("cq", At(step));
      }
      std::vector<WorkloadInfoPtr> waiting;
      for (const auto& [name, info] : pending) waiting.push_back(info);
      const Names expected =
          NaiveAdmissions(waiting, cluster.snapshot.tree.Available("cq", {"f", "cpu"}), strict);
      INFO("seed " << seed << " step " << step << (strict ? " strict" : " best effort"));
      // In one go, or one by one: the outcome is the same.
      const size_t limit = pick(2) == 0 ? 1 : 1000;
      Names admitted;
      while (true) {
        const Names more = cluster.Run(limit);
        admitted.insert(admitted.end(), more.begin(), more.end());
        for (const Decision& decision : cluster.last) {
          if (decision.kind != Decision::Kind::kAdmit) continue;
          running[decision.info->Key().name] = decision.usage;
          pending.erase(decision.info->Key().name);
        }
        if (more.empty()) break;
      }
      REQUIRE(admitted == expected);
      REQUIRE(cluster.queues.size() == static_cast<int64_t>(pending.size()));
      REQUIRE(cluster.snapshot.tree.Usage("cq", {"f", "cpu"}) <= quota * 1000);
    }
  }
}

TEST_CASE("the preemptor of a workload is read from the message of its condition") {
  CHECK(PreemptorUid("Preempted to accommodate a workload (UID: a-1, JobUID: b-2) due to x") ==
        "a-1");
  CHECK(PreemptorUid("Previously: Preempted to accommodate a workload (UID: a-1, JobUID: b)") ==
        "a-1");
  CHECK(
      PreemptorUid("Preempted to accommodate a workload (UID: UNKNOWN, JobUID: UNKNOWN)").empty());
  CHECK(PreemptorUid("Preempted to accommodate a workload (UID: a-1").empty());
  CHECK(PreemptorUid("").empty());
}

}  // namespace
}  // namespace sluice::admission
