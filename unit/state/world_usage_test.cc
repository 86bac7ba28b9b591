// Admission fair sharing in the World: when an entry penalty is pending, settled or dropped, and
// when samples are taken.
#include "api/codec.h"
#include "api/names.h"
#include "state/world.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::ConditionStatus;
using api::Kind;
using build::At;
using Type = ObjectEvent::Type;

constexpr char kUsageBased[] = "UsageBasedAdmissionFairSharing";
constexpr char kNone[] = "NoAdmissionFairSharing";
constexpr double kPenalty = 1.171572875;  // of 4 cpus
const ObjectKey kQueue{"ns", "q"};
const ObjectKey kOther{"ns", "other"};
const ObjectKey kWork{"ns", "w"};

Settings TenMinutes() {
  Settings settings;
  settings.admission_fair_sharing = AdmissionFairSharing{absl::Minutes(10), absl::Minutes(5), {}};
  return settings;
}

double Number(const queueing::UsageValue& usage) {
  return static_cast<double>(usage.ToNanos()) / 1e9;
}

build::Workload Four(const std::string& queue = "q") {
  return build::Workload("w").Queue(queue).Request("cpu", "4");
}
build::Workload Reserved(const std::string& queue = "q") {
  build::Workload workload = Four(queue);
  workload.Reserved("cq", "default");
  return workload;
}
build::Workload Admitted(const std::string& queue = "q") {
  build::Workload workload = Four(queue);
  workload.Admitted("cq", "default");
  return workload;
}
build::Workload Unreserved() {
  build::Workload workload = Four();
  workload.Condition(api::kQuotaReserved, ConditionStatus::kFalse, "Pending", At(1));
  return workload;
}

// A World that has listed a ClusterQueue with two LocalQueues and perhaps a Workload.
class Fixture {
 public:
  explicit Fixture(const char* mode = kUsageBased, const build::Workload* listed = nullptr,
                   const Settings& settings = TenMinutes())
      : world(settings) {
    for (const Kind kind : World::WatchedKinds()) {
      world.Apply({Type::kListBegin, kind, {}}, At(0), touched);
    }
    if (listed != nullptr) Put(Kind::kWorkload, listed->Get());
    Put(Kind::kNamespace, build::Namespace("ns").Get());
    Put(Kind::kResourceFlavor, build::Flavor("default").Get());
    Put(Kind::kLocalQueue, build::LocalQueue("q", "cq").Get());
    Put(Kind::kLocalQueue, build::LocalQueue("other", "cq").Get());
    PutClusterQueue(mode);
    for (const Kind kind : World::WatchedKinds()) {
      world.Apply({Type::kListEnd, kind, {}}, At(0), touched);
    }
    REQUIRE(world.Synced());
  }

  template <typename T>
  void Put(Kind kind, T object, absl::Time now = At(0)) {
    object.metadata.resource_version = std::to_string(++version_);
    REQUIRE_FALSE(world.Apply({Type::kUpsert, kind, api::Encode(object)}, now, touched));
    world.queues().CheckInvariants();
  }
  void Put(const build::Workload& workload, absl::Time now = At(0)) {
    Put(Kind::kWorkload, workload.Get(), now);
  }
  template <typename T>
  void Delete(Kind kind, T object) {
    object.metadata.resource_version = std::to_string(++version_);
    world.Apply({Type::kDelete, kind, api::Encode(object)}, At(0), touched);
  }
  void PutClusterQueue(const char* mode) {
    api::ClusterQueue queue = build::ClusterQueue("cq").Flavor("default", {{"cpu", "100"}}).Get();
    queue.spec.admission_scope = api::AdmissionScope{mode};
    Put(Kind::kClusterQueue, queue);
  }
  double Usage(const ObjectKey& queue = kQueue) const {
    return Number(world.usage_ledger()->Usage(queue));
  }
  bool Pending() const { return world.usage_ledger()->HasEntryPenalty(kWork); }
  double Consumed(const ObjectKey& queue = kQueue) const {
    const ResourceList list = world.usage_ledger()->ConsumedResources(queue);
    const auto found = list.find("cpu");
    return found == list.end() ? 0 : static_cast<double>(found->second.nanos()) / 1e9;
  }

  World world;
  Refs touched;

 private:
  int version_ = 0;
};

TEST_CASE("a decided admission is charged at once and settled when it is Admitted") {
  Fixture f;
  f.Put(Four());
  f.world.Assume(Reserved().Shared());
  CHECK(f.Pending());
  CHECK(f.Usage() == Approx(kPenalty));
  CHECK(Number(f.world.queues().LocalQueueUsage(kQueue)) == Approx(kPenalty));
  // The write is confirmed; checks are still out. Not charged twice.
  f.Put(Reserved());
  CHECK(f.Pending());
  CHECK(f.Usage() == Approx(kPenalty));
  f.world.TakeCounted();
  f.Put(Admitted(), At(600));
  CHECK_FALSE(f.Pending());
  // Decayed with the usage that includes the workload itself, then the penalty.
  CHECK(f.Consumed() == Approx(2 + kPenalty));
  CHECK(f.Usage() == Approx(2 + kPenalty));
  CHECK(f.world.TakeCounted().contains({Kind::kLocalQueue, kQueue}));
  // A later update changes nothing.
  f.Put(Admitted().Label("a", "b"), At(700));
  CHECK(f.Consumed() == Approx(2 + kPenalty));
}

TEST_CASE("an admission in one write is settled when the API shows it") {
  Fixture f;
  f.Put(Four());
  f.world.Assume(Admitted().Shared());
  CHECK(f.Pending());
  f.Put(Admitted());
  CHECK_FALSE(f.Pending());
  CHECK(f.Consumed() == Approx(kPenalty));
}

TEST_CASE("a penalty is dropped when the admission comes to nothing") {
  Fixture f;
  f.Put(Four());
  f.world.Assume(Reserved().Shared());
  SECTION("the write failed") { f.world.Forget(kWork, At(1), f.touched); }
  SECTION("deleted") { f.Delete(Kind::kWorkload, Four().Get()); }
  SECTION("another object of the same name") { f.Put(Four().Uid("another")); }
  SECTION("finished without admission") {
    f.Put(Reserved());
    f.Put(Reserved().Finished());
  }
  SECTION("deactivated after it lost its reservation") {
    f.Put(Reserved());
    f.Put(Reserved().Active(false));
    CHECK(f.Pending());
    f.Put(Unreserved().Active(false));
  }
  SECTION("moved to another LocalQueue") {
    f.Put(Reserved());
    f.Put(Unreserved());
    CHECK(f.Pending());
    f.Put(Unreserved().Queue("other"));
  }
  SECTION("the LocalQueue went") {
    f.Delete(Kind::kLocalQueue, build::LocalQueue("q", "cq").Get());
  }
  CHECK_FALSE(f.Pending());
  CHECK(f.Usage() == 0);
  CHECK(Number(f.world.queues().LocalQueueUsage(kQueue)) == 0);
}

TEST_CASE("an evicted workload that waits again keeps its penalty until the next one replaces it") {
  Fixture f;
  f.Put(Four());
  f.world.Assume(Reserved().Shared());
  f.Put(Reserved());
  f.Put(Reserved().Evicted("Preempted", At(10)));
  f.Put(Unreserved().Evicted("Preempted", At(10)));
  CHECK(f.Pending());
  CHECK(f.Usage() == Approx(kPenalty));
  auto larger = build::Workload("w").Queue("q").Request("cpu", "8");
  larger.Reserved("cq", "default");
  f.world.Assume(larger.Shared());
  CHECK(f.Usage() == Approx(2 * kPenalty));
}

TEST_CASE("a second pass of a reservation is not charged") {
  Fixture f;
  f.Put(Four());
  f.world.Assume(Admitted().Shared());
  f.Put(Admitted());
  f.world.Assume(Admitted().Shared());
  CHECK_FALSE(f.Pending());
  CHECK(f.Usage() == Approx(kPenalty));
}

TEST_CASE("the penalty of a cycle's admission counts before the next head is chosen") {
  Fixture f;
  f.Put(Four().Created(At(0)));
  f.Put(build::Workload("w2").Queue("q").Request("cpu", "4").Created(At(1)));
  f.Put(build::Workload("o").Queue("other").Request("cpu", "4").Created(At(2)));
  const auto head = [&] {
    const auto heads = f.world.queues().Heads(At(0));
    REQUIRE(heads.size() == 1);
    return heads[0]->Key().name;
  };
  CHECK(head() == "w");
  f.world.queues().Admit(kWork, {{{"default", "cpu"}, 4000}, {{"default", "pods"}, 1}});
  CHECK(f.Usage() == Approx(kPenalty));
  CHECK(head() == "o");
  CHECK(f.world.snapshot().used_more(kQueue, kOther));
  CHECK_FALSE(f.world.snapshot().used_more(kOther, kQueue));
}

TEST_CASE("a ClusterQueue that is not usage-based charges nothing") {
  Fixture f(kNone);
  f.Put(Four());
  f.world.Assume(Reserved().Shared());
  f.Put(Reserved());
  CHECK_FALSE(f.Pending());
  f.Put(Admitted(), At(600));
  CHECK(f.Consumed() == 0);
}

TEST_CASE("a changed mode reaches the settlement at once and the order after a restart") {
  Fixture f;
  f.Put(Four().Created(At(0)));
  f.Put(build::Workload("o").Queue("other").Request("cpu", "4").Created(At(2)));
  f.world.Assume(Reserved().Shared());
  f.Put(Reserved());
  f.Put(build::Workload("w2").Queue("q").Request("cpu", "4").Created(At(1)));
  f.PutClusterQueue(kNone);
  f.Put(Admitted(), At(600));
  CHECK_FALSE(f.Pending());
  CHECK(f.Consumed() == 0);
  f.PutClusterQueue(kUsageBased);
  f.world.Assume(Admitted("other").Shared());
  CHECK_FALSE(f.Pending());  // it held quota already
  CHECK(f.world.queues().Snapshot("cq").front().info->Key().name == "w2");
}

TEST_CASE("penalties follow from the objects: a new process pushes and settles the same ones") {
  const build::Workload reserved = Reserved();
  Fixture f(kUsageBased, &reserved);
  CHECK(f.Pending());
  CHECK(f.Usage() == Approx(kPenalty));
  f.Put(Admitted());
  CHECK(f.Consumed() == Approx(kPenalty));

  // One that was Admitted before is part of the history.
  const build::Workload admitted = Admitted();
  Fixture after(kUsageBased, &admitted);
  CHECK_FALSE(after.Pending());
  CHECK(after.Usage() == 0);
  // One that is on its way out is not charged again.
  build::Workload evicted = Reserved();
  evicted.Evicted("Preempted", At(1));
  Fixture leaving(kUsageBased, &evicted);
  CHECK_FALSE(leaving.Pending());

  // A replica that does not decide sees the reservation of the one that does.
  Fixture follower;
  follower.Put(Four());
  follower.Put(Reserved());
  CHECK(follower.Pending());
}

TEST_CASE("samples are taken where work may be admitted, whatever the mode") {
  Fixture f(kNone);
  f.Put(Admitted());
  api::LocalQueue stopped = build::LocalQueue("other", "cq").StopPolicy("Hold").Get();
  f.Put(Kind::kLocalQueue, stopped);
  for (const ObjectKey& queue : {kQueue, kOther}) f.world.SampleUsage(queue, At(300));
  CHECK(f.Consumed() == Approx(2 * kPenalty / 2));
  CHECK(f.world.usage_ledger()->LastSample(kQueue)->time == At(300));
  CHECK(f.world.usage_ledger()->LastSample(kOther) == nullptr);
  // Not before the next one is due.
  f.world.SampleUsage(kQueue, At(599));
  CHECK(f.world.usage_ledger()->LastSample(kQueue)->time == At(300));
  f.world.SampleUsage(kQueue, At(600));
  CHECK(f.Consumed() == Approx(2));
  // An inactive ClusterQueue.
  f.Delete(Kind::kResourceFlavor, build::Flavor("default").Get());
  f.world.SampleUsage(kQueue, At(900));
  CHECK(f.Consumed() == Approx(2));
}

TEST_CASE("a new process begins with the persisted history, and again when it starts to decide") {
  Fixture f;
  f.Put(Admitted());
  api::LocalQueue queue = build::LocalQueue("new", "cq").Get();
  queue.status.fair_sharing.emplace();
  queue.status.fair_sharing->admission_fair_sharing_status = {{{"cpu", Quantity::FromInt(3)}},
                                                              At(-1000)};
  f.Put(Kind::kLocalQueue, queue, At(10));
  const ObjectKey key{"ns", "new"};
  CHECK(f.Consumed(key) == 3);
  // Written by whoever decides: a follower takes it over when its turn comes.
  queue.status.fair_sharing->admission_fair_sharing_status->consumed_resources["cpu"] =
      Quantity::FromInt(5);
  f.Put(Kind::kLocalQueue, queue, At(20));
  CHECK(f.Consumed(key) == 3);
  f.world.RestartUsage(At(600));
  CHECK(f.Consumed(key) == 5);
  f.world.SampleUsage(key, At(900));
  CHECK(f.Consumed(key) == Approx(5 - 5 * kPenalty / 4));  // five minutes, not fifteen
  // Another weight.
  queue.spec.fair_sharing = api::FairSharing{Quantity::FromInt(0)};
  f.Put(Kind::kLocalQueue, queue, At(900));
  CHECK(f.world.queues().LocalQueueUsage(key).IsInfinite());
  // Gone and back: without history.
  f.Delete(Kind::kLocalQueue, queue);
  CHECK(f.Usage(key) == 0);
}

TEST_CASE("with the gate off or without the configuration there is no ledger") {
  Settings off = TenMinutes();
  off.gates = FeatureGates::Make({{"AdmissionFairSharing", false}}).value();
  Fixture f(kUsageBased, nullptr, off);
  CHECK(f.world.usage_ledger() == nullptr);
  CHECK_FALSE(f.world.UsageBased("cq"));
  f.Put(Four());
  f.world.Assume(Admitted().Shared());
  f.Put(Admitted());
  f.world.SampleUsage(kQueue, At(300));
  f.world.RestartUsage(At(300));
  CHECK_FALSE(f.world.snapshot().used_more);
  Fixture unset(kUsageBased, nullptr, Settings());
  CHECK(unset.world.usage_ledger() == nullptr);
}

}  // namespace
}  // namespace sluice::state
