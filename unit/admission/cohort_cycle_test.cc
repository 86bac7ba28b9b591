// One cycle over the heads of a cohort: order, reservations, overlaps, the resumed scan of flavors.
#include <algorithm>
#include <map>
#include <string>

#include "admission/conditions.h"
#include "admission/cycle.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

using build::At;
using queueing::WorkloadInfoPtr;
using Names = std::vector<std::string>;
using Kind = Decision::Kind;

class Cluster {
 public:
  Cluster() { snapshot.namespaces["ns"] = build::Namespace("ns").Shared(); }

  // With policies for its own workloads and those of others; "" is Never.
  void Add(const build::ClusterQueue& queue, const std::string& within = "",
           const std::string& reclaim = "", const std::string& borrow_within = "") {
    api::ClusterQueue object = queue.Get();
    object.spec.preemption.emplace();
    object.spec.preemption->within_cluster_queue = within;
    object.spec.preemption->reclaim_within_cohort = reclaim;
    if (!borrow_within.empty()) {
      object.spec.preemption->borrow_within_cohort.emplace();
      object.spec.preemption->borrow_within_cohort->policy = borrow_within;
    }
    const std::string name = object.metadata.name;
    for (const api::ResourceGroup& group : object.spec.resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        snapshot.flavors[flavor.name] = build::Flavor(flavor.name).Shared();
      }
    }
    snapshot.tree.SetClusterQueue(name, object.spec.cohort_name,
                                  LimitsOf(object.spec.resource_groups), weights[name]);
    queues.AddClusterQueue(name, {queueing::StrategyOf(object), true});
    snapshot.cluster_queues[name] = {std::make_shared<const api::ClusterQueue>(object), true};
  }
  // Runs already, since that second.
  void Run(const std::string& name, const std::string& queue, int64_t cpu, int32_t priority = 0,
           double since = 1, const std::string& flavor = "f", bool evicted = false) {
    const build::Workload workload =
        build::Workload(name).Queue("lq").Uid(name).Priority(priority).Reserved(queue, flavor,
                                                                                At(since));
    preemption::ReservedWorkload reserved;
    reserved.workload = workload.Shared();
    reserved.cluster_queue = queue;
    reserved.priority = priority;
    reserved.queue_order_time = At(since);
    reserved.reserved_at = At(since);
    reserved.evicted = evicted;
    const FlavorResourceAmounts usage = {{{flavor, "cpu"}, cpu * 1000}};
    reserved.usage = snapshot.tree.IdsOf(usage);
    snapshot.tree.AddUsage(queue, usage);
    snapshot.reserved.Put(std::move(reserved));
  }
  void End(const std::string& name) {
    const preemption::ReservedWorkload* reserved = snapshot.reserved.Find({"ns", name});
    REQUIRE(reserved != nullptr);
    quota::Tree::RemoveUsage(*snapshot.tree.FindQueue(reserved->cluster_queue), reserved->usage);
    snapshot.reserved.Remove({"ns", name});
  }
  void Head(const std::string& name, const std::string& queue, int64_t cpu, int32_t priority = 0,
            double created = 0, const std::string& gpu = "") {
    build::Workload workload = build::Workload(name).Queue("lq").Uid(name).Priority(priority);
    workload.Request("cpu", std::to_string(cpu)).Created(At(created));
    if (!gpu.empty()) workload.Request("gpu", gpu);
    queues.AddOrUpdate(queueing::MakeWorkloadInfo(workload.Shared(), queue, {}), At(0));
  }
  // One cycle; what comes back is put back as the loop does it.
  void Cycle() {
    last = RunCycle(snapshot, queues.Heads(At(100)), &queues);
    for (const Decision& decision : last) {
      if (decision.kind == Kind::kAdmit || decision.kind == Kind::kDrop) {
        queues.Remove(decision.info->Key());
      } else {
        queues.Requeue(decision.info->Key(), decision.requeue, At(100));
      }
    }
    snapshot.tree.CheckInvariants();
  }
  Names Order() const {
    Names names;
    for (const Decision& decision : last) names.push_back(decision.info->Key().name);
    return names;
  }
  const Decision& Of(const std::string& name) const {
    const auto found = std::find_if(last.begin(), last.end(), [&](const Decision& decision) {
      return decision.info->Key().name == name;
    });
    REQUIRE(found != last.end());
    return *found;
  }
  Names VictimsOf(const std::string& name) const {
    Names names;
    for (const auto& victim : Of(name).victims) names.push_back(victim.workload->Key().name);
    return names;
  }
  std::string FlavorOf(const std::string& name) const {
    REQUIRE(Of(name).kind == Kind::kAdmit);
    return Of(name).admission.pod_set_assignments.at(0).flavors.at("cpu");
  }

  std::map<std::string, quota::Weight> weights;
  Snapshot snapshot;
  queueing::QueueManager queues;
  std::vector<Decision> last;
};

build::ClusterQueue Queue(const std::string& name, const std::string& cpu) {
  return build::ClusterQueue(name).Cohort("pool").Flavor("f", {{"cpu", cpu}});
}

TEST_CASE("within the own quota first, then priority, then time") {
  Cluster cluster;
  for (const char* name : {"q1", "q4"}) cluster.Add(Queue(name, "0"));
  for (const char* name : {"q2", "q3"}) cluster.Add(Queue(name, "1"));
  cluster.Add(Queue("rest", "10"));
  cluster.Head("w1", "q1", 1, 10, 0);
  cluster.Head("w2", "q2", 1, 0, 300);
  cluster.Head("w3", "q3", 1, 0, 120);
  cluster.Head("w4", "q4", 1, 5, 60);
  cluster.Cycle();
  CHECK(cluster.Order() == Names{"w3", "w2", "w1", "w4"});
  for (const Decision& decision : cluster.last) CHECK(decision.kind == Kind::kAdmit);
}

TEST_CASE("without sorting by priority the older one goes first") {
  Cluster cluster;
  cluster.snapshot.options.priority_sorting_within_cohort = false;
  cluster.Add(Queue("q1", "2"));
  cluster.Add(Queue("q2", "2"));
  cluster.Head("high", "q1", 1, 10, 60);
  cluster.Head("old", "q2", 1, 0, 0);
  cluster.Cycle();
  CHECK(cluster.Order() == Names{"old", "high"});
}

TEST_CASE("who waits without candidates keeps room, unless it may take it back later") {
  const bool may_reclaim = GENERATE(false, true);
  Cluster cluster;
  cluster.Add(Queue("a", "5"), "Never", may_reclaim ? "Any" : "LowerPriority");
  cluster.Add(Queue("b", "0"));
  cluster.Run("runs", "a", 3);
  cluster.Head("wa", "a", 5, 0, 0);
  cluster.Head("wb", "b", 2, 0, 60);
  cluster.Cycle();
  CHECK(cluster.Order() == Names{"wa", "wb"});
  CHECK(cluster.Of("wa").requeue.reason == queueing::RequeueReason::kPreemptionNoCandidates);
  CHECK(cluster.Of("wa").borrow_level == 1);
  CHECK((cluster.Of("wb").kind == Kind::kAdmit) == may_reclaim);
  if (!may_reclaim) {
    CHECK(cluster.Of("wb").message == "Workload no longer fits after processing another workload");
    CHECK(RenderRivals(cluster.Of("wb").explanation) ==
          "ns/wa of ClusterQueue a waits for 5 cpu of flavor f");
    CHECK(cluster.Of("wb").reason == kWaitingForQuota);
  }
}

TEST_CASE("within its own quota it keeps no more than is left of that") {
  Cluster cluster;
  cluster.Add(Queue("a", "5"));
  cluster.Add(Queue("b", "4"));
  cluster.Add(Queue("c", "0"));
  cluster.Run("lent", "b", 8);  // 1 is free, and a may use 5
  cluster.Head("wa", "a", 3, 0, 0);
  cluster.Head("wc", "c", 1, 0, 60);
  cluster.Cycle();
  CHECK(cluster.Of("wa").kind == Kind::kWait);
  CHECK(cluster.Of("wc").kind == Kind::kWait);  // 3 of the 5 are kept for a
}

TEST_CASE("a target that another head took already is replaced, or waited for") {
  Cluster cluster;
  cluster.Add(Queue("a", "3"), "", "Any");
  cluster.Add(Queue("b", "3"), "", "Any");
  cluster.Add(Queue("c", "0"));
  cluster.Head("wa", "a", 3, 0, 0);
  cluster.Head("wb", "b", 3, 0, 60);
  SECTION("replaced by a disjoint one") {
    cluster.Run("c1", "c", 4, 0, 20);
    cluster.Run("c2", "c", 2, 0, 10);
    cluster.Cycle();
    CHECK(cluster.VictimsOf("wa") == Names{"c1"});
    CHECK(cluster.VictimsOf("wb") == Names{"c2"});
  }
  SECTION("it makes room for both") {
    cluster.Run("c1", "c", 6);
    cluster.Cycle();
    CHECK(cluster.VictimsOf("wa") == Names{"c1"});
    CHECK(cluster.VictimsOf("wb").empty());
    CHECK(cluster.Of("wb").requeue.reason == queueing::RequeueReason::kPendingPreemption);
    CHECK(cluster.Of("wb").reason == kWaitingForPreemptedWorkloads);
    CHECK(cluster.Of("wb").message ==
          "Workload has overlapping preemption targets with another workload, but will fit after "
          "these preemptions complete");
    CHECK(RenderRivals(cluster.Of("wb").explanation) ==
          "ns/wa of ClusterQueue a preempts the same workloads");
  }
  SECTION("without the gate it is skipped") {
    cluster.snapshot.options.recompute_on_overlap = false;
    cluster.Run("c1", "c", 6);
    cluster.Cycle();
    CHECK(cluster.Of("wb").reason == kWaitingForQuota);
    CHECK(cluster.Of("wb").message ==
          "Workload has overlapping preemption targets with another workload");
    CHECK(RenderRivals(cluster.Of("wb").explanation) ==
          "ns/wa of ClusterQueue a preempts the same workloads");
  }
}

TEST_CASE("what is computed again stays in the flavor that was nominated") {
  Cluster cluster;
  cluster.Add(Queue("a", "3"), "", "LowerPriority");
  cluster.Add(build::ClusterQueue("b")
                  .Cohort("pool")
                  .Flavor("f", {{"cpu", "3"}})
                  .Flavor("g", {{"cpu", "3"}})
                  .Fungibility("", "MayStopSearch"),
              "", "LowerPriority");
  cluster.Add(Queue("c", "0"));
  cluster.Run("c1", "c", 4, 0, 20);
  cluster.Run("c2", "c", 2, 9, 10);
  cluster.Head("wa", "a", 3, 5, 0);
  cluster.Head("wb", "b", 3, 5, 60);
  cluster.Cycle();
  CHECK(cluster.VictimsOf("wa") == Names{"c1"});
  // c1 gone and wa in, 1 is left of f, and c2 may not be taken; g has room, but that is for the
  // next cycle to find.
  CHECK(cluster.Of("wb").kind == Kind::kWait);
  CHECK(cluster.VictimsOf("wb").empty());
  CHECK(cluster.Of("wb").requeue.reason == queueing::RequeueReason::kPreemptionNoCandidates);
}

// Flavors f1 (2), f2 (4), f3 (4); "low" holds the 2 of f1, another queue lends 4 there.
void ThreeFlavors(Cluster& cluster) {
  cluster.Add(build::ClusterQueue("a")
                  .Cohort("pool")
                  .Flavor("f1", {{"cpu", "2"}})
                  .Flavor("f2", {{"cpu", "4"}})
                  .Flavor("f3", {{"cpu", "4"}})
                  .Fungibility("MayStopSearch", "MayStopSearch"),
              "LowerPriority", "Any", "LowerPriority");
  cluster.Add(build::ClusterQueue("b").Cohort("pool").Flavor("f1", {{"cpu", "4"}}));
  cluster.Run("low", "a", 2, -5, 1, "f1");
}

TEST_CASE("the scan of flavors goes on where it stopped when the workload was skipped") {
  const bool preserve = GENERATE(true, false);
  Cluster cluster;
  cluster.snapshot.options.preserve_scan_progress = preserve;
  ThreeFlavors(cluster);
  cluster.Head("in", "a", 4, 5, 60);
  cluster.Head("hb", "b", 4, 0, 0);
  cluster.Cycle();
  CHECK(cluster.FlavorOf("hb") == "f1");
  CHECK(cluster.Of("in").message == "Workload no longer fits after processing another workload");
  CHECK(cluster.VictimsOf("in").empty());
  // hb has gone again before the next cycle.
  cluster.Cycle();
  CHECK(cluster.FlavorOf("in") == (preserve ? "f2" : "f1"));
}

TEST_CASE("after preemptions were issued the scan starts over") {
  Cluster cluster;
  ThreeFlavors(cluster);
  cluster.Run("busy", "b", 2, 0, 2, "f1");
  cluster.Head("in", "a", 4, 5, 60);
  cluster.Cycle();
  CHECK(cluster.VictimsOf("in") == Names{"low"});
  CHECK_FALSE(cluster.Of("in").requeue.scan_progress.has_value());
  CHECK_FALSE(cluster.Of("in").requeue.untried_flavors);
  cluster.End("low");
  cluster.queues.ReleaseParked("a", At(100));
  cluster.Cycle();
  CHECK(cluster.FlavorOf("in") == "f1");
}

TEST_CASE("room that is being made goes to the one it is made for") {
  const bool fair = GENERATE(false, true);
  Cluster cluster;
  if (fair) {
    using preemption::Strategy;
    cluster.snapshot.options.fair_sharing.emplace();
    cluster.snapshot.options.fair_sharing->strategies = {Strategy::kLessThanOrEqualToFinalShare,
                                                         Strategy::kLessThanInitialShare};
  }
  cluster.Add(Queue("al", "3"), "LowerPriority", "Any", "LowerPriority");
  cluster.Add(Queue("be", "0"));
  cluster.Add(Queue("ga", "1"));
  cluster.Run("b1", "be", 2, 0, 1);
  cluster.Run("b2", "be", 2, 0, 2);
  cluster.Head("p", "al", 4, 3, 60);
  cluster.Cycle();
  CHECK(cluster.VictimsOf("p") == Names{"b2", "b1"});
  // The first victim has gone; c would fit into its own quota.
  cluster.End("b1");
  cluster.End("b2");
  cluster.Run("b2", "be", 2, 0, 2, "f", true);
  cluster.Head("c", "ga", 1, 9, 0);
  cluster.queues.ReleaseParked("al", At(100));
  cluster.Cycle();
  CHECK(cluster.Order() == Names{"p", "c"});
  CHECK(cluster.Of("p").kind == Kind::kPreempt);
  REQUIRE(cluster.VictimsOf("p") == Names{"b2"});
  CHECK(cluster.Of("p").victims[0].ongoing);
  CHECK(cluster.Of("c").kind == Kind::kWait);
  cluster.End("b2");
  cluster.queues.ReleaseParked("al", At(100));
  cluster.queues.ReleaseParked("ga", At(100));
  cluster.Cycle();
  CHECK(cluster.Order() == Names{"p", "c"});
  CHECK(cluster.Of("p").kind == Kind::kAdmit);
  CHECK(cluster.Of("c").kind == Kind::kWait);
}

TEST_CASE("a fitting head is admitted only beside what still runs") {
  Cluster cluster;
  cluster.Add(Queue("a", "4"), "", "Any");
  cluster.Add(Queue("b", "0"));
  cluster.Add(Queue("c", "2"));
  cluster.Run("b1", "b", 5);
  cluster.Head("wa", "a", 3, 0, 0);
  cluster.Head("wc", "c", 1, 0, 60);
  cluster.Cycle();
  CHECK(cluster.VictimsOf("wa") == Names{"b1"});
  // 6 in all, 5 held by the victim, 1 free: c's 1 fits now and beside wa afterwards.
  CHECK(cluster.Of("wc").kind == Kind::kAdmit);
  Cluster full;
  full.Add(Queue("a", "4"), "", "Any");
  full.Add(Queue("b", "0"));
  full.Add(Queue("c", "2"));
  full.Run("b1", "b", 6);
  full.Head("wa", "a", 3, 0, 0);
  full.Head("wc", "c", 1, 0, 60);
  full.Cycle();
  CHECK(full.VictimsOf("wa") == Names{"b1"});
  CHECK(full.Of("wc").kind != Kind::kAdmit);  // nothing is free before b1 has ended
}

TEST_CASE("fair sharing: the lowest share goes first") {
  Cluster cluster;
  cluster.snapshot.options.fair_sharing.emplace();
  cluster.snapshot.options.fair_sharing->strategies = {
      preemption::Strategy::kLessThanOrEqualToFinalShare};
  cluster.weights["d"] = quota::Weight(build::Q("2"));
  for (const char* name : {"a", "b", "d"}) cluster.Add(Queue(name, "4"));
  cluster.Run("ra", "a", 3);
  cluster.Run("rb", "b", 4);
  cluster.Run("rd", "d", 1);
  cluster.Head("wa", "a", 2, 0, 50);
  cluster.Head("wb", "b", 1, 0, 60);
  cluster.Head("wd", "d", 4, 0, 70);
  cluster.Cycle();
  CHECK(cluster.Order() == Names{"wd", "wa", "wb"});  // 41.7, then two of 83.3 by time
}

TEST_CASE("fair sharing: who borrows nothing of what it asks for goes first") {
  const bool gate = GENERATE(true, false);
  Cluster cluster;
  cluster.snapshot.options.prioritize_non_borrowing = gate;
  cluster.snapshot.options.fair_sharing.emplace();
  cluster.snapshot.options.fair_sharing->strategies = {
      preemption::Strategy::kLessThanOrEqualToFinalShare};
  const auto queue = [](const std::string& name, const char* cpu, const char* gpu) {
    return build::ClusterQueue(name).Cohort("pool").Flavor("f", {{"cpu", cpu}, {"gpu", gpu}});
  };
  cluster.Add(queue("a", "4", "0"));
  cluster.Add(queue("b", "0", "0"));
  cluster.Add(queue("rest", "16", "10"));
  cluster.snapshot.tree.AddUsage("a", {{{"f", "gpu"}, 3}});
  cluster.Head("wa", "a", 2, 0, 60);
  cluster.Head("wb", "b", 1, 0, 0);
  cluster.Cycle();
  CHECK(cluster.Order() == (gate ? Names{"wa", "wb"} : Names{"wb", "wa"}));
}

}  // namespace
}  // namespace sluice::admission
