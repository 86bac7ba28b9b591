#include "queueing/queue_manager.h"

#include <random>
#include <set>
#include <string>

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::At;
using Names = std::vector<std::string>;

constexpr ClusterQueueOptions kBestEffort{QueueingStrategy::kBestEffortFifo, true, false};
constexpr ClusterQueueOptions kStrict{QueueingStrategy::kStrictFifo, true, false};

WorkloadInfoPtr Info(const build::Workload& workload, const std::string& queue = "cq") {
  return MakeWorkloadInfo(workload.Shared(), queue, {}, {});
}
build::Workload Pending(const std::string& name, double created, const char* cpu = "1",
                        int32_t priority = 0) {
  return build::Workload(name)
      .Queue("lq")
      .Created(At(created))
      .Request("cpu", cpu)
      .Priority(priority);
}
ObjectKey Key(const std::string& name) { return {"ns", name}; }

Names HeadNames(QueueManager& queues, absl::Time now = At(0)) {
  Names names;
  for (const WorkloadInfoPtr& head : queues.Heads(now)) names.push_back(head->Key().name);
  queues.CheckInvariants();
  return names;
}
Place Back(QueueManager& queues, const std::string& name, RequeueReason reason,
           absl::Time now = At(0)) {
  const Place place =
      queues.Requeue(Key(name), {.reason = reason, .condition_reason = "WaitingForQuota"}, now);
  queues.CheckInvariants();
  return place;
}
RequeueRequest Untried(RequeueReason reason) {
  RequeueRequest request;
  request.reason = reason;
  request.untried_flavors = true;
  return request;
}
Names Order(const QueueManager& queues, const std::string& queue = "cq") {
  Names names;
  for (const PendingWorkload& pending : queues.Snapshot(queue)) {
    names.push_back(pending.info->Key().name);
  }
  return names;
}

TEST_CASE("heads come in order, one per active queue") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddClusterQueue("other", kStrict);
  queues.AddClusterQueue("stopped", {QueueingStrategy::kBestEffortFifo, false, false});
  queues.AddOrUpdate(Info(Pending("w1", 0)), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 60, "1", 5)), At(0));
  queues.AddOrUpdate(Info(Pending("w3", 120, "1", 5)), At(0));
  queues.AddOrUpdate(Info(Pending("o", 0), "other"), At(0));
  queues.AddOrUpdate(Info(Pending("s", 0), "stopped"), At(0));
  CHECK(Order(queues) == Names{"w2", "w3", "w1"});
  CHECK(HeadNames(queues) == Names{"w2", "o"});
  CHECK(queues.PlaceOf(Key("w2")) == Place::kInFlight);
  CHECK(HeadNames(queues) == Names{"w3"});
  CHECK(queues.Pending("cq") == PendingCounts{3, 0});
  CHECK(queues.Pending("stopped") == PendingCounts{0, 1});
  queues.UpdateClusterQueue("stopped", kBestEffort);
  CHECK(HeadNames(queues) == Names{"w1", "s"});
  CHECK_FALSE(queues.HasHeads(At(0)));
}

TEST_CASE("best effort passes over a class that does not fit") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w1", 1, "8")), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 2, "3")), At(0));
  queues.AddOrUpdate(Info(Pending("w3", 3, "8")), At(0));
  CHECK(HeadNames(queues) == Names{"w1"});
  CHECK(Back(queues, "w1", RequeueReason::kNoFit) == Place::kParked);
  CHECK(queues.PlaceOf(Key("w3")) == Place::kParked);
  CHECK(queues.BypassReason(Key("w3")) == std::optional<std::string>("WaitingForQuota"));
  CHECK_FALSE(queues.BypassReason(Key("w1")).has_value());
  CHECK_FALSE(queues.BypassReason(Key("w2")).has_value());
  CHECK(queues.Pending("cq") == PendingCounts{1, 2});
  CHECK(queues.PendingOfLocalQueue({"ns", "lq"}) == PendingCounts{1, 2});
  CHECK(HeadNames(queues) == Names{"w2"});
  queues.Remove(Key("w2"));
  // New ones of the class wait with it, until something changed.
  CHECK(queues.AddOrUpdate(Info(Pending("w4", 4, "8")), At(0)) == Place::kParked);
  CHECK(HeadNames(queues).empty());
  CHECK(queues.ReleaseParked("cq", At(0)) == 3);
  CHECK(HeadNames(queues) == Names{"w1"});
  CHECK(queues.PlaceOf(Key("w4")) == Place::kActive);
}

TEST_CASE("whoever was judged before a release is passed over like others after it") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 2)), At(0));
  CHECK(HeadNames(queues) == Names{"w1"});
  Back(queues, "w1", RequeueReason::kNoFit);
  CHECK_FALSE(queues.BypassReason(Key("w1")).has_value());
  queues.ReleaseParked("cq", At(1));
  queues.AddOrUpdate(Info(Pending("w0", 0)), At(1));
  CHECK(HeadNames(queues) == Names{"w0"});
  Back(queues, "w0", RequeueReason::kNoFit);
  const std::optional<std::string> reason = "WaitingForQuota";
  CHECK(queues.BypassReason(Key("w1")) == reason);
  CHECK(queues.BypassReason(Key("w2")) == reason);
  CHECK_FALSE(queues.BypassReason(Key("w0")).has_value());
  // It leaves: nobody is the judged one then, and who comes back was not judged either.
  queues.Remove(Key("w0"));
  queues.AddOrUpdate(Info(Pending("w0", 0)), At(2));
  CHECK(queues.BypassReason(Key("w0")) == reason);
}

TEST_CASE("a strict queue is held by its head and does not spin") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kStrict);
  queues.AddOrUpdate(Info(Pending("w1", 1, "8")), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 2, "3")), At(0));
  CHECK(HeadNames(queues) == Names{"w1"});
  CHECK(Back(queues, "w1", RequeueReason::kNoFit) == Place::kActive);
  CHECK(HeadNames(queues).empty());
  CHECK(queues.Pending("cq") == PendingCounts{2, 0});
  // A workload before it is tried; it holds the queue then.
  queues.AddOrUpdate(Info(Pending("w0", 3, "9", 1)), At(0));
  CHECK(HeadNames(queues) == Names{"w0"});
  CHECK(Back(queues, "w0", RequeueReason::kNoFit) == Place::kActive);
  CHECK(HeadNames(queues).empty());
  queues.Remove(Key("w0"));
  CHECK(HeadNames(queues) == Names{"w1"});
  Back(queues, "w1", RequeueReason::kGeneric);
  CHECK(HeadNames(queues).empty());
  queues.ReleaseParked("cq", At(0));
  CHECK(HeadNames(queues) == Names{"w1"});
  Back(queues, "w1", RequeueReason::kNoFit);
  // The head itself changed.
  queues.AddOrUpdate(Info(Pending("w1", 1, "2").Generation(2)), At(0));
  CHECK(HeadNames(queues) == Names{"w1"});
  Back(queues, "w1", RequeueReason::kNoFit);
  // A write of its own status is no change that matters.
  queues.AddOrUpdate(Info(Pending("w1", 1, "2").Generation(2).ResourceVersion("7")), At(0));
  CHECK(HeadNames(queues).empty());
}

TEST_CASE("more room on nodes helps those only that found no places") {
  const auto back = [](QueueManager& queues, const char* name, RequeueReason reason,
                       bool places_matter) {
    RequeueRequest request;
    request.reason = reason;
    request.condition_reason = "WaitingForQuota";
    request.places_matter = places_matter;
    return queues.Requeue(Key(name), request, At(0));
  };
  const auto release = [](QueueManager& queues, Release what) {
    return queues.ReleaseParked("cq", At(0), nullptr, what);
  };
  QueueManager queues;
  SECTION("classes that wait") {
    queues.AddClusterQueue("cq", kBestEffort);
    queues.AddOrUpdate(Info(Pending("quota", 1, "8")), At(0));
    queues.AddOrUpdate(Info(Pending("places", 2, "4")), At(0));
    CHECK(HeadNames(queues) == Names{"quota"});
    back(queues, "quota", RequeueReason::kNoFit, false);
    CHECK(HeadNames(queues) == Names{"places"});
    back(queues, "places", RequeueReason::kNoFit, true);
    CHECK(HeadNames(queues).empty());
    CHECK(release(queues, Release::kPlaces) == 1);
    CHECK(HeadNames(queues) == Names{"places"});
    back(queues, "places", RequeueReason::kNoFit, true);
    CHECK(HeadNames(queues).empty());
    CHECK(release(queues, Release::kAll) == 2);
    CHECK(HeadNames(queues) == Names{"quota"});
  }
  SECTION("one that is parked by itself") {
    queues.AddClusterQueue("cq", kBestEffort);
    queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
    CHECK(HeadNames(queues) == Names{"w1"});
    const bool matters = GENERATE(false, true);
    CHECK(back(queues, "w1", RequeueReason::kGeneric, matters) == Place::kParked);
    CHECK(release(queues, Release::kPlaces) == (matters ? 1 : 0));
    CHECK(HeadNames(queues) == (matters ? Names{"w1"} : Names()));
  }
  SECTION("a head that waits") {
    queues.AddClusterQueue("cq", kStrict);
    queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
    CHECK(HeadNames(queues) == Names{"w1"});
    const bool matters = GENERATE(false, true);
    back(queues, "w1", RequeueReason::kNoFit, matters);
    CHECK(HeadNames(queues).empty());
    release(queues, Release::kPlaces);
    CHECK(HeadNames(queues) == (matters ? Names{"w1"} : Names()));
    if (matters) back(queues, "w1", RequeueReason::kNoFit, matters);
    release(queues, Release::kAll);
    CHECK(HeadNames(queues) == Names{"w1"});
  }
}

TEST_CASE("a namespace that does not match parks in both strategies") {
  const ClusterQueueOptions options = GENERATE(kStrict, kBestEffort);
  QueueManager queues;
  queues.AddClusterQueue("cq", options);
  queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 2)), At(0));
  CHECK(HeadNames(queues) == Names{"w1"});
  CHECK(Back(queues, "w1", RequeueReason::kNamespaceMismatch) == Place::kParked);
  CHECK(HeadNames(queues) == Names{"w2"});
  queues.Remove(Key("w2"));
  CHECK(queues.ReleaseParked("cq", At(0), [](const std::string&) { return false; }) == 0);
  CHECK(HeadNames(queues).empty());
  CHECK(queues.ReleaseParked("cq", At(0), [](const std::string& ns) { return ns == "ns"; }) == 1);
  CHECK(HeadNames(queues) == Names{"w1"});
}

TEST_CASE("a release while a workload is decided counts for it") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
  queues.ReleaseParked("cq", At(0));  // before: does not count
  CHECK(HeadNames(queues) == Names{"w1"});
  queues.ReleaseParked("cq", At(0));
  CHECK(Back(queues, "w1", RequeueReason::kNoFit) == Place::kActive);
  CHECK(HeadNames(queues) == Names{"w1"});
  CHECK(Back(queues, "w1", RequeueReason::kNoFit) == Place::kParked);
}

TEST_CASE("an answer that follows from what happened to one workload is no answer for its class") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 2)), At(0));
  REQUIRE(HeadNames(queues) == Names{"w1"});
  RequeueRequest request{.reason = RequeueReason::kPreemptionNoCandidates};
  request.own_answer = true;
  CHECK(queues.Requeue(Key("w1"), request, At(0)) == Place::kParked);
  CHECK(HeadNames(queues) == Names{"w2"});
  CHECK(Back(queues, "w2", RequeueReason::kPreemptionNoCandidates) == Place::kParked);
  queues.CheckInvariants();
  CHECK(queues.ReleaseParked("cq", At(1)) == 2);
}

TEST_CASE("flavors that were not tried bring a workload back at once") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
  HeadNames(queues);
  CHECK(queues.Requeue(Key("w1"), Untried(RequeueReason::kNoFit), At(0)) == Place::kActive);
  CHECK(HeadNames(queues) == Names{"w1"});
}

TEST_CASE("backoff parks until its instant, or until Requeued is True") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("timed", 1).RequeueAt(At(300))), At(0));
  queues.AddOrUpdate(
      Info(Pending("held", 2).RequeueAt(At(100)).Requeued(false, "PodsReadyTimeout")), At(0));
  CHECK(queues.NextDue() == std::optional<absl::Time>(At(300)));
  queues.ReleaseParked("cq", At(240));
  CHECK(HeadNames(queues, At(299)).empty());
  CHECK(queues.HasHeads(At(300)));
  CHECK(HeadNames(queues, At(300)) == Names{"timed"});
  CHECK_FALSE(queues.NextDue().has_value());
  queues.AddOrUpdate(Info(Pending("held", 2).Requeued(true, "BackoffFinished")), At(301));
  CHECK(HeadNames(queues, At(301)) == Names{"held"});
  // Requeued into a backoff that began meanwhile.
  queues.AddOrUpdate(Info(Pending("held", 2).RequeueAt(At(900))), At(302));
  CHECK(Back(queues, "held", RequeueReason::kFailedAfterNomination, At(302)) == Place::kParked);
  CHECK(queues.NextDue() == std::optional<absl::Time>(At(900)));
  queues.Remove(Key("held"));
  CHECK_FALSE(queues.NextDue().has_value());
}

TEST_CASE("a preemptor stays before the others of a best-effort queue") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("preemptor", 5, "2")), At(0));
  CHECK(HeadNames(queues) == Names{"preemptor"});
  queues.AddOrUpdate(Info(Pending("older", 1)), At(0));
  CHECK(Back(queues, "preemptor", RequeueReason::kPendingPreemption) == Place::kActive);
  CHECK(Order(queues) == Names{"preemptor", "older"});
  CHECK(HeadNames(queues).empty());  // it waits for its victims
  queues.ReleaseParked("cq", At(0));
  CHECK(HeadNames(queues) == Names{"preemptor"});
  queues.Remove(Key("preemptor"));
  CHECK(HeadNames(queues) == Names{"older"});
}

TEST_CASE("changes of a workload while it is in flight are used when it comes back") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w", 1)), At(0));
  HeadNames(queues);
  CHECK(queues.AddOrUpdate(Info(Pending("w", 1).Priority(9).Generation(2)), At(0)) ==
        Place::kInFlight);
  CHECK(HeadNames(queues).empty());
  Back(queues, "w", RequeueReason::kFailedAfterNomination);
  CHECK(queues.Find(Key("w"))->priority == 9);
  HeadNames(queues);
  CHECK(queues.Remove(Key("w")));
  CHECK(Back(queues, "w", RequeueReason::kNoFit) == Place::kNone);
  CHECK_FALSE(queues.Remove(Key("w")));
}

TEST_CASE("what changed decides whether a parked workload is tried again") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w", 1)), At(0));
  HeadNames(queues);
  Back(queues, "w", RequeueReason::kGeneric);
  CHECK(queues.AddOrUpdate(Info(Pending("w", 1).Label("a", "b")), At(0)) == Place::kParked);
  CHECK(queues.AddOrUpdate(Info(Pending("w", 1).Priority(3)), At(0)) == Place::kActive);
}

TEST_CASE("workloads and queues come in any order and move") {
  QueueManager queues;
  queues.AddOrUpdate(Info(Pending("w", 1), "later"), At(0));
  CHECK(queues.Pending("later") == PendingCounts{0, 1});
  CHECK(HeadNames(queues).empty());
  queues.AddClusterQueue("later", kBestEffort);
  queues.AddClusterQueue("cq", kBestEffort);
  CHECK(queues.Pending("later") == PendingCounts{1, 0});
  queues.AddOrUpdate(Info(Pending("w", 1)), At(0));
  CHECK(queues.Pending("later") == PendingCounts{0, 0});
  queues.RemoveClusterQueue("cq");
  CHECK(HeadNames(queues).empty());
  queues.AddClusterQueue("cq", kBestEffort);
  CHECK(HeadNames(queues) == Names{"w"});
  queues.Remove(Key("w"));
  CHECK(queues.size() == 0);
  CHECK(queues.PendingOfLocalQueue({"ns", "lq"}) == PendingCounts{0, 0});
}

TEST_CASE("a class that is blocked is free again in strict order") {
  QueueManager queues;
  queues.AddClusterQueue("cq", kBestEffort);
  queues.AddOrUpdate(Info(Pending("w1", 1)), At(0));
  queues.AddOrUpdate(Info(Pending("w2", 2)), At(0));
  HeadNames(queues);
  Back(queues, "w1", RequeueReason::kNoFit);
  queues.UpdateClusterQueue("cq", kStrict);
  CHECK(HeadNames(queues) == Names{"w1"});
}

UsageValue Usage(int cores) {
  return UsageValue::Of(NanosOf({{"cpu", cores * 1000}}), {}, Quantity::FromInt(1));
}

// Random operations on three queues, with a plain set as the model of who is known.
class RandomRun {
 public:
  explicit RandomRun(unsigned seed) : random_(seed) {}

  void Step(int step) {
    const std::string name = "w" + std::to_string(Pick(25));
    const std::string queue = "q" + std::to_string(Pick(3));
    const absl::Time now = At(step);
    switch (Pick(10)) {
      case 0:
      case 1:
        AddOrUpdate(name, queue, step);
        break;
      case 2:
        CHECK(queues.Remove(Key(name)) == (known.erase(name) == 1));
        in_flight_.erase(name);
        break;
      case 3:
        for (const WorkloadInfoPtr& head : queues.Heads(now)) {
          REQUIRE(known.contains(head->Key().name));
          REQUIRE(in_flight_.insert(head->Key().name).second);
        }
        break;
      case 4:
        RequeueOne(now);
        break;
      case 5:
        Release(queue, now);
        break;
      case 6:
        for (const WorkloadInfoPtr& head : queues.HeldHeads({"q0", "q1", "q2"})) {
          REQUIRE(in_flight_.insert(head->Key().name).second);
        }
        break;
      case 7:
        queues.Retry(queue);
        break;
      case 8:
        queues.SetLocalQueueUsage({"ns", "lq" + std::to_string(Pick(2))},
                                  Pick(4) == 0 ? UsageValue::Infinite() : Usage(Pick(4)));
        break;
      default:
        ChangeQueue(queue);
    }
  }

  QueueManager queues;
  std::set<std::string> known;

 private:
  int Pick(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  void AddOrUpdate(const std::string& name, const std::string& queue, int step) {
    auto workload = Pending(name, Pick(50), Pick(2) == 0 ? "1" : "2", Pick(3));
    workload.Queue("lq" + std::to_string(Pick(2))).Generation(step + 1);
    if (Pick(5) == 0) workload.RequeueAt(At(step + Pick(20)));
    if (Pick(20) == 0) workload.Requeued(false, "PodsReadyTimeout");
    queues.AddOrUpdate(Info(workload, queue), At(step));
    if (queues.PlaceOf(Key(name)) != Place::kInFlight) in_flight_.erase(name);
    known.insert(name);
  }

  void RequeueOne(absl::Time now) {
    if (in_flight_.empty()) return;
    const std::string popped = *in_flight_.begin();
    RequeueRequest request;
    request.reason = static_cast<RequeueReason>(Pick(8));
    request.condition_reason = "r";
    request.untried_flavors = Pick(9) == 0;
    request.hold = Pick(4) == 0;
    CHECK(queues.Requeue(Key(popped), request, now) != Place::kNone);
    in_flight_.erase(popped);
  }

  // After a release exactly those wait whose backoff is not over.
  void Release(const std::string& queue, absl::Time now) {
    queues.ReleaseParked(queue, now);
    for (const PendingWorkload& pending : queues.Snapshot(queue)) {
      if (pending.place == Place::kInFlight) continue;
      const bool waits = !BackoffOver(*pending.info->workload, now);
      CHECK((pending.place == Place::kParked) == waits);
    }
  }

  void ChangeQueue(const std::string& queue) {
    if (Pick(4) == 0) {
      queues.RemoveClusterQueue(queue);
      return;
    }
    const auto strategy =
        Pick(2) == 0 ? QueueingStrategy::kStrictFifo : QueueingStrategy::kBestEffortFifo;
    queues.AddClusterQueue(queue, {strategy, Pick(4) != 0, Pick(2) == 0});
  }

  std::mt19937 random_;
  std::set<std::string> in_flight_;
};

TEST_CASE("no workload is lost under random operations") {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    RandomRun run(seed);
    for (int step = 0; step < 400; ++step) {
      INFO("seed " << seed << " step " << step);
      run.Step(step);
      run.queues.CheckInvariants();
      REQUIRE(run.queues.size() == static_cast<int64_t>(run.known.size()));
      for (const std::string& name : run.known) {
        REQUIRE(run.queues.PlaceOf(Key(name)) != Place::kNone);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::queueing
