#include <string>

#include "queueing/queue_manager.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

// Heads that wait, preemptors, and the memory of the flavor scan.
namespace sluice::queueing {
namespace {

using build::At;
using Names = std::vector<std::string>;

constexpr ClusterQueueOptions kBestEffort{QueueingStrategy::kBestEffortFifo, true, false};
constexpr ClusterQueueOptions kStrict{QueueingStrategy::kStrictFifo, true, false};

build::Workload Pending(const std::string& name, double created) {
  return build::Workload(name).Queue("lq").Created(At(created)).Request("cpu", "1").Generation(1);
}
WorkloadInfoPtr Info(const build::Workload& workload, const std::string& queue = "cq") {
  return MakeWorkloadInfo(workload.Shared(), queue, {}, {});
}
ObjectKey Key(const std::string& name) { return {"ns", name}; }

Names NamesOf(const std::vector<WorkloadInfoPtr>& heads) {
  Names names;
  for (const WorkloadInfoPtr& head : heads) names.push_back(head->Key().name);
  return names;
}
Names HeadNames(QueueManager& queues) {
  Names names = NamesOf(queues.Heads(At(0)));
  queues.CheckInvariants();
  return names;
}
Names HeldNames(QueueManager& queues, const Names& cluster_queues = {"cq"}) {
  Names names = NamesOf(queues.HeldHeads(cluster_queues));
  queues.CheckInvariants();
  return names;
}
RequeueRequest Because(RequeueReason reason, bool hold = false) {
  RequeueRequest request;
  request.reason = reason;
  request.hold = hold;
  return request;
}
Place Back(QueueManager& queues, const std::string& name, const RequeueRequest& request) {
  const Place place = queues.Requeue(Key(name), request, At(0));
  queues.CheckInvariants();
  return place;
}

TEST_CASE("heads that wait take part when the cycle asks for them") {
  QueueManager queues;
  queues.AddClusterQueue("b", kStrict);
  queues.AddClusterQueue("a", kStrict);
  queues.AddClusterQueue("free", kStrict);
  queues.AddOrUpdate(Info(Pending("wb", 1), "b"), At(0));
  queues.AddOrUpdate(Info(Pending("wb2", 2), "b"), At(0));
  queues.AddOrUpdate(Info(Pending("wa", 1), "a"), At(0));
  REQUIRE(HeadNames(queues) == Names{"wa", "wb"});
  // In flight: nothing waits.
  CHECK(HeldNames(queues, {"a", "b"}).empty());
  Back(queues, "wa", Because(RequeueReason::kNoFit));
  Back(queues, "wb", Because(RequeueReason::kPreemptionNoCandidates));
  REQUIRE(HeadNames(queues).empty());
  CHECK(HeldNames(queues, {"b", "missing", "a", "b", "free"}) == Names{"wa", "wb"});
  CHECK(queues.PlaceOf(Key("wa")) == Place::kInFlight);
  // The one behind a held head is not a head.
  CHECK(HeadNames(queues) == Names{"wb2"});
  Back(queues, "wb2", Because(RequeueReason::kNoFit));
  Back(queues, "wb", Because(RequeueReason::kNoFit));
  Back(queues, "wa", Because(RequeueReason::kNoFit));
  CHECK(HeadNames(queues).empty());
  CHECK(HeldNames(queues, {"b"}) == Names{"wb"});
  Back(queues, "wb", Because(RequeueReason::kNoFit));
  // Inactive: neither.
  queues.UpdateClusterQueue("a", {QueueingStrategy::kStrictFifo, false, false});
  CHECK(HeldNames(queues, {"a", "b"}) == Names{"wb"});
}

TEST_CASE("a queue with a workload in flight gives no second head") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kStrict);
  queues.AddOrUpdate(Info(Pending("held", 5)), At(0));
  HeadNames(queues);
  Back(queues, "held", Because(RequeueReason::kNoFit));
  queues.AddOrUpdate(Info(Pending("before", 1)), At(0));
  CHECK(HeldNames(queues).empty());  // it is not at the head any more
  CHECK(HeadNames(queues) == Names{"before"});
  CHECK(HeldNames(queues).empty());
}

TEST_CASE("hold keeps a head that another try would not help") {
  const RequeueReason reason =
      GENERATE(RequeueReason::kFailedAfterNomination, RequeueReason::kPreemptionFailed,
               RequeueReason::kPendingPreemption);
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w", 5)), At(0));
  queues.AddOrUpdate(Info(Pending("behind", 6)), At(0));
  REQUIRE(HeadNames(queues) == Names{"w"});
  CHECK(Back(queues, "w", Because(reason, true)) == Place::kActive);
  CHECK(HeadNames(queues).empty());
  SECTION("until a release") {
    queues.ReleaseParked("cq", At(0));
    CHECK(HeadNames(queues) == Names{"w"});
  }
  SECTION("until something changed without one") {
    queues.Retry("cq");
    CHECK(HeadNames(queues) == Names{"w"});
  }
  SECTION("until it changes") {
    queues.AddOrUpdate(Info(Pending("w", 5).Generation(2)), At(0));
    CHECK(HeadNames(queues) == Names{"w"});
  }
  SECTION("until it goes") {
    queues.Remove(Key("w"));
    CHECK(HeadNames(queues) == Names{"behind"});
  }
  SECTION("and takes part where it is asked for") {
    CHECK(HeldNames(queues) == Names{"w"});
    Back(queues, "w", Because(reason, true));
    CHECK(HeadNames(queues).empty());
  }
  SECTION("a release while it was in flight is stronger") {
    CHECK(HeldNames(queues) == Names{"w"});
    queues.ReleaseParked("cq", At(0));
    Back(queues, "w", Because(reason, true));
    CHECK(HeadNames(queues) == Names{"w"});
  }
}

TEST_CASE("hold is stronger than flavors that were not tried; without it they bring it back") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w", 1)), At(0));
  HeadNames(queues);
  RequeueRequest request = Because(RequeueReason::kFailedAfterNomination);
  request.untried_flavors = true;
  Back(queues, "w", request);
  CHECK(HeadNames(queues) == Names{"w"});
  request.hold = true;
  Back(queues, "w", request);
  CHECK(HeadNames(queues).empty());
}

TEST_CASE("after preemptions and behind a gate the scan starts over") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w", 1)), At(0));
  HeadNames(queues);
  RequeueRequest request = Because(RequeueReason::kPendingPreemption);
  request.untried_flavors = true;
  CHECK(Back(queues, "w", request) == Place::kActive);
  CHECK(HeadNames(queues).empty());
  queues.Retry("cq");
  HeadNames(queues);
  request.reason = RequeueReason::kPreemptionGated;
  CHECK(Back(queues, "w", request) == Place::kParked);
}

TEST_CASE("one preemptor per queue: a later one replaces it") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("first", 5)), At(0));
  HeadNames(queues);
  Back(queues, "first", Because(RequeueReason::kPendingPreemption));
  CHECK(queues.IsPreemptor(Key("first")));
  queues.AddOrUpdate(Info(Pending("second", 9)), At(0));
  // Parked it is still remembered, but others go on.
  queues.Retry("cq");
  HeadNames(queues);
  Back(queues, "first", Because(RequeueReason::kGeneric));
  CHECK(queues.IsPreemptor(Key("first")));
  CHECK(HeadNames(queues) == Names{"second"});
  queues.ReleaseParked("cq", At(0));
  Back(queues, "second", Because(RequeueReason::kFailedAfterNomination));
  CHECK(HeadNames(queues) == Names{"first"});  // sticky again
  CHECK(HeadNames(queues) == Names{"second"});
  Back(queues, "second", Because(RequeueReason::kPendingPreemption));
  CHECK(queues.IsPreemptor(Key("second")));
  CHECK_FALSE(queues.IsPreemptor(Key("first")));
  Back(queues, "first", Because(RequeueReason::kFailedAfterNomination));
  CHECK(queues.Snapshot("cq").front().info->Key().name == "second");
  queues.Remove(Key("second"));
  queues.AddOrUpdate(Info(Pending("second", 9)), At(0));
  CHECK_FALSE(queues.IsPreemptor(Key("second")));
  CHECK_FALSE(queues.IsPreemptor(Key("unknown")));
}

TEST_CASE("a preemptor is one only at the generation that was evaluated") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kStrict);
  queues.AddOrUpdate(Info(Pending("old", 1)), At(0));
  queues.AddOrUpdate(Info(Pending("w", 5)), At(0));
  REQUIRE(HeadNames(queues) == Names{"old"});
  REQUIRE(HeadNames(queues) == Names{"w"});
  // Changed while it was decided: what was evaluated is the older generation.
  queues.AddOrUpdate(Info(Pending("w", 5).Generation(2)), At(0));
  Back(queues, "w", Because(RequeueReason::kPendingPreemption));
  CHECK_FALSE(queues.IsPreemptor(Key("w")));
  Back(queues, "old", Because(RequeueReason::kPendingPreemption));
  CHECK(queues.IsPreemptor(Key("old")));
  queues.AddOrUpdate(Info(Pending("old", 1).Label("a", "b")), At(0));
  CHECK(queues.IsPreemptor(Key("old")));
  queues.AddOrUpdate(Info(Pending("old", 1).Generation(2)), At(0));
  CHECK_FALSE(queues.IsPreemptor(Key("old")));
}

TEST_CASE("in strict order a preemptor is not sticky; a change of strategy makes it so") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kStrict);
  queues.AddOrUpdate(Info(Pending("w", 5)), At(0));
  HeadNames(queues);
  Back(queues, "w", Because(RequeueReason::kPendingPreemption));
  queues.AddOrUpdate(Info(Pending("older", 1)), At(0));
  CHECK(HeadNames(queues) == Names{"older"});
  Back(queues, "older", Because(RequeueReason::kNoFit));
  CHECK(queues.Snapshot("cq").front().info->Key().name == "older");
  queues.UpdateClusterQueue("cq", kBestEffort);
  CHECK(queues.Snapshot("cq").front().info->Key().name == "w");
  CHECK(HeadNames(queues) == Names{"w"});
}

ScanProgress Progress() {
  ScanProgress progress;
  progress.pod_sets = {{{"cpu", 1}, {"memory", -1}}};
  progress.quota_generation = 7;
  progress.cycle = 3;
  return progress;
}

TEST_CASE("the progress of the flavor scan is remembered while the workload waits") {
  const bool preserve = GENERATE(true, false);
  QueueManager queues({preserve});
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddClusterQueue("other", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w", 1)), At(0));
  CHECK_FALSE(queues.ProgressOf(Key("w")).has_value());
  HeadNames(queues);
  RequeueRequest request = Because(RequeueReason::kFailedAfterNomination);
  request.scan_progress = Progress();
  Back(queues, "w", request);
  REQUIRE(queues.ProgressOf(Key("w")) == std::optional<ScanProgress>(Progress()));
  HeadNames(queues);  // in flight it can still be asked for
  CHECK(queues.ProgressOf(Key("w")).has_value());
  SECTION("an update drops it only with the gate off") {
    queues.AddOrUpdate(Info(Pending("w", 1).Label("a", "b")), At(0));
    CHECK(queues.ProgressOf(Key("w")).has_value() == preserve);
    Back(queues, "w", request);
    queues.AddOrUpdate(Info(Pending("w", 1).Label("a", "c")), At(0));
    CHECK(queues.ProgressOf(Key("w")).has_value() == preserve);
  }
  SECTION("a request without one drops it") {
    Back(queues, "w", Because(RequeueReason::kPendingPreemption));
    CHECK_FALSE(queues.ProgressOf(Key("w")).has_value());
  }
  SECTION("leaving the queue drops it") {
    Back(queues, "w", request);
    queues.AddOrUpdate(Info(Pending("w", 1), "other"), At(0));
    CHECK_FALSE(queues.ProgressOf(Key("w")).has_value());
    queues.Remove(Key("w"));
    CHECK_FALSE(queues.ProgressOf(Key("w")).has_value());
  }
}

TEST_CASE("positions of the flavor scan") {
  const ScanProgress progress = Progress();
  CHECK(progress.PositionOf(0, "cpu") == 1);
  CHECK(progress.PositionOf(0, "memory") == -1);
  CHECK(progress.PositionOf(0, "pods") == -1);
  CHECK(progress.PositionOf(1, "cpu") == -1);
  CHECK(progress.HasUntriedFlavors());
  ScanProgress whole;
  whole.pod_sets = {{{"cpu", -1}}, {}};
  CHECK_FALSE(whole.HasUntriedFlavors());
}

}  // namespace
}  // namespace sluice::queueing
