// The order in a ClusterQueue with admission fair sharing.
#include <string>

#include "queueing/queue_manager.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::At;
using Names = std::vector<std::string>;

constexpr ClusterQueueOptions kBestEffort{QueueingStrategy::kBestEffortFifo, true, true};
constexpr ClusterQueueOptions kStrict{QueueingStrategy::kStrictFifo, true, true};
const ObjectKey kA{"ns", "a"};
const ObjectKey kB{"ns", "b"};

ObjectKey Key(const std::string& name) { return {"ns", name}; }
UsageValue Cores(int cores) {
  return UsageValue::Of(NanosOf({{"cpu", cores * 1000}}), {}, Quantity::FromInt(1));
}

class Fixture {
 public:
  explicit Fixture(const ClusterQueueOptions& options) { queues.AddClusterQueue("cq", options); }

  void Add(const std::string& name, const ObjectKey& local_queue, double created,
           const char* cpu = "1", int32_t priority = 0) {
    build::Workload workload(name);
    workload.Queue(local_queue.name).Created(At(created)).Request("cpu", cpu).Priority(priority);
    queues.AddOrUpdate(MakeWorkloadInfo(workload.Shared(), "cq", {}, {}), At(0));
    queues.CheckInvariants();
  }
  void Use(const ObjectKey& local_queue, int cores) {
    queues.SetLocalQueueUsage(local_queue, Cores(cores));
    queues.CheckInvariants();
  }
  std::string Head() {
    Names names;
    for (const WorkloadInfoPtr& head : queues.Heads(At(0))) names.push_back(head->Key().name);
    queues.CheckInvariants();
    REQUIRE(names.size() <= 1);
    return names.empty() ? "" : names[0];
  }
  Place Back(const std::string& name, RequeueReason reason) {
    RequeueRequest request;
    request.reason = reason;
    request.condition_reason = "WaitingForQuota";
    const Place place = queues.Requeue(Key(name), request, At(0));
    queues.CheckInvariants();
    return place;
  }
  Names Order() const {
    Names names;
    for (const PendingWorkload& pending : queues.Snapshot("cq")) {
      names.push_back(pending.info->Key().name);
    }
    return names;
  }

  QueueManager queues;
};

TEST_CASE("the LocalQueue with the lowest usage goes first, whatever the priority") {
  Fixture fixture(GENERATE(kBestEffort, kStrict));
  fixture.Add("a1", kA, 1, "1", 9);
  fixture.Add("a2", kA, 2, "1", 9);
  fixture.Add("b1", kB, 3);
  fixture.Add("b2", kB, 4, "1", 1);
  CHECK(fixture.Order() == Names{"a1", "a2", "b2", "b1"});
  fixture.Use(kA, 6);
  fixture.Use(kB, 5);
  CHECK(fixture.Order() == Names{"b2", "b1", "a1", "a2"});
  CHECK(fixture.Head() == "b2");
  // Weight zero comes last.
  fixture.queues.SetLocalQueueUsage(kB, UsageValue::Infinite());
  CHECK(fixture.Head() == "a1");
  fixture.queues.ForgetLocalQueueUsage(kB);
  CHECK(fixture.Head() == "b1");
  CHECK(fixture.Order() == Names{"b2", "b1", "a1", "a2"});
}

TEST_CASE("the setting of the first sight counts until the queue is removed") {
  Fixture fixture({QueueingStrategy::kBestEffortFifo, true, false});
  fixture.Add("a", kA, 1);
  fixture.Add("b", kB, 2);
  fixture.Use(kA, 6);
  CHECK(fixture.Order() == Names{"a", "b"});
  fixture.queues.UpdateClusterQueue("cq", kBestEffort);
  CHECK(fixture.Order() == Names{"a", "b"});
  fixture.queues.RemoveClusterQueue("cq");
  fixture.queues.AddClusterQueue("cq", kBestEffort);
  fixture.queues.CheckInvariants();
  CHECK(fixture.Order() == Names{"b", "a"});
  fixture.queues.UpdateClusterQueue("cq", {QueueingStrategy::kBestEffortFifo, true, false});
  CHECK(fixture.Head() == "b");
}

TEST_CASE("usage comes before the preemptor, the preemptor before the others of its LocalQueue") {
  Fixture fixture(kBestEffort);
  fixture.Use(kB, 1);
  fixture.Add("a9", kA, 9);
  REQUIRE(fixture.Head() == "a9");
  fixture.Back("a9", RequeueReason::kPendingPreemption);
  fixture.Add("a1", kA, 1);
  fixture.Add("b1", kB, 1);
  CHECK(fixture.Order() == Names{"a9", "a1", "b1"});
  CHECK(fixture.Head() == "");  // it waits at the head
  // The other LocalQueue used less now: its workload does not wait for the preemptor.
  fixture.Use(kA, 2);
  CHECK(fixture.Order() == Names{"b1", "a9", "a1"});
  CHECK(fixture.Head() == "b1");
  fixture.Back("b1", RequeueReason::kNoFit);
  // The class of all three is parked; a release frees them.
  CHECK(fixture.Head() == "");
  fixture.queues.ReleaseParked("cq", At(0));
  CHECK(fixture.Head() == "b1");
  CHECK(fixture.Head() == "a9");
}

TEST_CASE("a class that does not fit is passed over in every LocalQueue") {
  Fixture fixture(kBestEffort);
  fixture.Add("a8", kA, 1, "8");
  fixture.Add("b8", kB, 2, "8");
  fixture.Add("b3", kB, 3, "3");
  fixture.Add("a3", kA, 4, "3");
  fixture.Use(kB, 5);
  REQUIRE(fixture.Head() == "a8");
  CHECK(fixture.Back("a8", RequeueReason::kNoFit) == Place::kParked);
  CHECK(fixture.queues.PlaceOf(Key("b8")) == Place::kParked);
  CHECK(fixture.queues.BypassReason(Key("b8")) == std::optional<std::string>("WaitingForQuota"));
  CHECK(fixture.queues.PendingOfLocalQueue(kB) == PendingCounts{1, 1});
  CHECK(fixture.Head() == "a3");
  CHECK(fixture.Head() == "b3");
  CHECK(fixture.queues.ReleaseParked("cq", At(0)) == 2);
  CHECK(fixture.Head() == "a8");
}

TEST_CASE("a change of usage makes another one the head of a strict queue that waits") {
  Fixture fixture(kStrict);
  fixture.Add("a", kA, 1, "8");
  fixture.Add("b", kB, 2);
  REQUIRE(fixture.Head() == "a");
  fixture.Back("a", RequeueReason::kNoFit);
  CHECK(fixture.Head() == "");
  fixture.Use(kA, 1);
  CHECK(fixture.Head() == "b");
  fixture.Back("b", RequeueReason::kNoFit);
  CHECK(fixture.Head() == "");
}

TEST_CASE("penalties of admissions make LocalQueues take turns") {
  Fixture fixture(kBestEffort);
  UsageLedger ledger({absl::Hours(10), absl::Minutes(5), {}});
  for (const ObjectKey& queue : {kA, kB}) ledger.Start(queue, std::nullopt, At(0));
  for (int i = 0; i < 3; ++i) {
    fixture.Add("a" + std::to_string(i), kA, i, "2");
    fixture.Add("b" + std::to_string(i), kB, 10 + i, "2");
  }
  int told = 0;
  fixture.queues.SetAdmitListener(
      [&](const WorkloadInfo& info, const FlavorResourceAmounts& usage) {
        ++told;
        CHECK(usage.at({"f", "cpu"}) == 2000);
        ledger.PushEntryPenalty(info.Key(), info.local_queue, {{"cpu", 2000}});
        fixture.queues.SetLocalQueueUsage(info.local_queue, ledger.Usage(info.local_queue));
      });
  Names admitted;
  for (int i = 0; i < 6; ++i) {
    admitted.push_back(fixture.Head());
    fixture.queues.Admit(Key(admitted.back()), {{{"f", "cpu"}, 2000}});
    fixture.queues.CheckInvariants();
  }
  CHECK(admitted == Names{"a0", "b0", "a1", "b1", "a2", "b2"});
  CHECK(told == 6);
  fixture.queues.Admit(Key("unknown"), {});
  CHECK(told == 6);
  CHECK(fixture.queues.size() == 0);
}

}  // namespace
}  // namespace sluice::queueing
