#include <memory>
#include <string>

#include "queueing/queue_manager.h"
#include "topology/inventory.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::At;
using Names = std::vector<std::string>;

// One ClusterQueue "cq" with a small workload `s` behind a large one `l`; both were refused, and
// then something was released.
struct Fixture {
  explicit Fixture(QueueingStrategy strategy = QueueingStrategy::kBestEffortFifo) {
    queues.AddClusterQueue("cq", {.strategy = strategy});
    Add("l", "8", 1);
    Add("s", "1", 2);
    while (true) {
      const auto heads = queues.Heads(At(10));
      if (heads.empty()) break;
      for (const auto& head : heads) {
        queues.Requeue(head->Key(), {.reason = RequeueReason::kNoFit, .condition_reason = "Quota"},
                       At(10));
      }
    }
    queues.ReleaseParked("cq", At(11));
  }
  void Add(const std::string& name, const std::string& cpu, double created, int32_t priority = 0) {
    queues.AddOrUpdate(MakeWorkloadInfo(build::Workload(name)
                                            .Queue("lq")
                                            .Created(At(created))
                                            .Request("cpu", cpu)
                                            .Priority(priority)
                                            .Shared(),
                                        "cq", {}, {}),
                       At(11));
  }
  // Pops heads until there are none; those of `fails` are refused without a try.
  Names Tried(absl::Time now, const Names& fails) {
    const PassOver pass_over{[&](const WorkloadInfo& info) {
                               return std::find(fails.begin(), fails.end(), info.Key().name) !=
                                      fails.end();
                             },
                             absl::Seconds(1)};
    Names names;
    while (true) {
      const auto heads = queues.Heads(now, &pass_over);
      queues.CheckInvariants();
      if (heads.empty()) return names;
      for (const auto& head : heads) {
        names.push_back(head->Key().name);
        queues.Requeue(head->Key(), {.reason = RequeueReason::kNoFit, .condition_reason = "Quota"},
                       now);
      }
    }
  }
  QueueManager queues;
};

TEST_CASE("Who would be refused again is passed over, and judged after the time for that") {
  Fixture f;
  CHECK(f.Tried(At(11), {"l"}) == Names{"s"});
  CHECK(f.queues.PlaceOf({"ns", "l"}) == Place::kParked);
  CHECK(f.queues.BypassReason({"ns", "l"}) == "Quota");
  CHECK(f.queues.HasRechecks());
  CHECK(f.queues.NextDue() == At(12));
  CHECK_FALSE(f.queues.HasHeads(At(11.5)));
  CHECK(f.queues.HasHeads(At(12)));
  CHECK(f.Tried(At(12), {"l", "s"}) == Names{"l", "s"});
  CHECK_FALSE(f.queues.HasRechecks());
  CHECK_FALSE(f.queues.NextDue().has_value());
  CHECK_FALSE(f.queues.HasHeads(At(20)));
}

TEST_CASE("Releases in the meantime do not put the next judgement off") {
  Fixture f;
  CHECK(f.Tried(At(11), {"l", "s"}).empty());
  f.queues.ReleaseParked("cq", At(11.9));
  CHECK(f.Tried(At(11.9), {"l", "s"}).empty());
  CHECK(f.queues.NextDue() == At(12));
  CHECK(f.Tried(At(12), {"l", "s"}) == Names{"l", "s"});
  f.queues.ReleaseParked("cq", At(12));
  CHECK(f.Tried(At(12), {"l"}) == Names{"s"});
  CHECK(f.queues.NextDue() == At(13));
}

TEST_CASE("Nobody is passed over who was not refused as he is now") {
  Fixture f;
  f.Add("l", "7", 1);  // another class
  f.Add("n", "2", 3);
  CHECK(f.Tried(At(11), {"l", "n", "s"}) == Names{"l", "n"});
  f.Add("s", "1", 2, 5);
  f.queues.ReleaseParked("cq", At(11));
  CHECK(f.Tried(At(11), {"l", "n", "s"}) == Names{"s"});
}

TEST_CASE("Who was outdone by others of a cycle is passed over likewise") {
  Fixture f;
  const RequeueRequest outdone{.reason = RequeueReason::kFailedAfterNomination,
                               .condition_reason = "Quota"};
  f.Add("n", "2", 0);
  REQUIRE(f.queues.Heads(At(11)).size() == 1);
  CHECK(f.queues.Requeue({"ns", "n"}, outdone, At(11)) == Place::kActive);
  CHECK(f.Tried(At(11), {"n", "l"}) == Names{"s"});
  CHECK(f.queues.PlaceOf({"ns", "n"}) == Place::kParked);
  CHECK_FALSE(f.queues.BypassReason({"ns", "n"}).has_value());  // the answer is its own
  CHECK(f.queues.NextDue() == At(12));
  CHECK(f.Tried(At(12), {"n", "l", "s"}) == Names{"n", "l", "s"});
}

TEST_CASE("A head keeps its places for as long as it waits") {
  Fixture f(QueueingStrategy::kStrictFifo);
  const auto place = std::make_shared<const topology::Booking>();
  CHECK(f.queues.KeptPlace("cq") == nullptr);
  REQUIRE(f.queues.Heads(At(11)).size() == 1);
  f.queues.Requeue({"ns", "l"},
                   {.reason = RequeueReason::kPendingPreemption, .hold = true, .place = place},
                   At(11));
  CHECK(f.queues.KeptPlace("cq") == place);
  CHECK(f.queues.KeptPlace("another") == nullptr);
  f.queues.ReleaseParked("cq", At(12));
  CHECK(f.queues.KeptPlace("cq") == nullptr);
  REQUIRE(f.queues.Heads(At(12)).size() == 1);
  f.queues.Requeue({"ns", "l"}, {.reason = RequeueReason::kNoFit, .hold = true}, At(12));
  CHECK(f.queues.WaitingQueues().contains("cq"));
  CHECK(f.queues.KeptPlace("cq") == nullptr);
}

TEST_CASE("The head of a StrictFIFO queue is always judged") {
  Fixture f(QueueingStrategy::kStrictFifo);
  CHECK(f.Tried(At(11), {"l", "s"}) == Names{"l"});
  CHECK_FALSE(f.queues.HasRechecks());
}

TEST_CASE("A ClusterQueue that goes takes its next judgement along") {
  Fixture f;
  CHECK(f.Tried(At(11), {"l", "s"}).empty());
  f.queues.RemoveClusterQueue("cq");
  f.queues.CheckInvariants();
  CHECK_FALSE(f.queues.HasRechecks());
  f.queues.AddClusterQueue("cq", {});
  CHECK(f.Tried(At(12), {"l", "s"}) == Names{"l", "s"});
}

}  // namespace
}  // namespace sluice::queueing
