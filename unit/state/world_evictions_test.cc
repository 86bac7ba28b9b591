// Who was evicted for whom follows from the objects.
#include "admission/conditions.h"
#include "api/codec.h"
#include "api/names.h"
#include "state/world.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Kind;
using Type = ObjectEvent::Type;
using Uids = absl::btree_set<std::string>;

class Fixture {
 public:
  explicit Fixture(const Settings& settings = {}) : world(settings) {
    Put(Kind::kNamespace, build::Namespace("ns").Get());
    Put(Kind::kResourceFlavor, build::Flavor("default").Get());
    Put(Kind::kLocalQueue, build::LocalQueue("q", "cq").Get());
    Put(Kind::kClusterQueue, build::ClusterQueue("cq").Flavor("default", {{"cpu", "4"}}).Get());
  }
  template <typename T>
  void Put(Kind kind, T object) {
    object.metadata.resource_version = std::to_string(++version_);
    world.Apply({Type::kUpsert, kind, api::Encode(object)}, build::At(0), touched);
  }
  void Delete(api::Workload workload) {
    workload.metadata.resource_version = std::to_string(++version_);
    world.Apply({Type::kDelete, Kind::kWorkload, api::Encode(workload)}, build::At(0), touched);
  }
  preemption::Evictors EvictorsOf(const std::string& uid) {
    return world.snapshot().history.EvictorsOf(uid);
  }

  World world;
  Refs touched;

 private:
  int version_ = 0;
};

api::Workload Named(const std::string& name) {
  api::Workload workload = build::Workload(name).Queue("q").Request("cpu", "1").Get();
  workload.metadata.uid = "uid-" + name;
  return workload;
}

api::Workload PreemptedFor(const std::string& name, const std::string& preemptor, int second) {
  api::Workload workload = Named(name);
  const std::string message = "Preempted to accommodate a workload (UID: uid-" + preemptor +
                              ", JobUID: UNKNOWN) due to reclamation within the cohort";
  admission::SetPreempted(workload, "InCohortReclamation", message, build::At(second));
  return workload;
}

TEST_CASE("the Preempted condition tells for whom a workload was evicted") {
  Fixture f;
  f.Put(Kind::kWorkload, Named("a"));
  CHECK(f.EvictorsOf("uid-a").uids.empty());
  f.Put(Kind::kWorkload, PreemptedFor("a", "b", 1));
  CHECK(f.EvictorsOf("uid-a").uids == Uids{"uid-b"});
  f.Put(Kind::kWorkload, PreemptedFor("a", "c", 2));
  CHECK(f.EvictorsOf("uid-a").uids == Uids{"uid-b", "uid-c"});
  f.Delete(Named("a"));
  CHECK(f.EvictorsOf("uid-a").uids.empty());
}

TEST_CASE("a controller that starts knows it too, also of one that was admitted again") {
  Fixture f;
  api::Workload workload = PreemptedFor("a", "b", 1);
  SECTION("it waits") {}
  SECTION("it runs") {
    api::Admission admission;
    admission.cluster_queue = "cq";
    admission::SetQuotaReservation(workload, admission, {}, build::At(2));
    REQUIRE_FALSE(api::IsTrue(workload.status.conditions, api::kPreempted));
  }
  f.Put(Kind::kWorkload, workload);
  CHECK(f.EvictorsOf("uid-a").uids == Uids{"uid-b"});
}

TEST_CASE("writing the same eviction twice counts once, and admissions are no event") {
  Fixture f;
  for (int time = 1; time <= 3; ++time) {
    const api::Workload preempted = PreemptedFor("a", "b", time);
    f.Put(Kind::kWorkload, preempted);
    f.Put(Kind::kWorkload, preempted);
    CHECK(f.EvictorsOf("uid-a").tired == (time == 3));
    api::Workload again = preempted;
    api::Admission admission;
    admission.cluster_queue = "cq";
    admission::SetQuotaReservation(again, admission, {}, build::At(time));
    f.Put(Kind::kWorkload, again);
    CHECK(f.EvictorsOf("uid-a").tired == (time == 3));
  }
  SECTION("another workload comes") { f.Put(Kind::kWorkload, Named("new")); }
  SECTION("its spec changes") {
    api::Workload changed = Named("a");
    changed.metadata.generation = 2;
    f.Put(Kind::kWorkload, changed);
  }
  SECTION("a quota changes") {
    f.Put(Kind::kClusterQueue, build::ClusterQueue("cq").Flavor("default", {{"cpu", "5"}}).Get());
    CHECK(f.EvictorsOf("uid-a").uids.empty());
  }
  CHECK_FALSE(f.EvictorsOf("uid-a").tired);
}

TEST_CASE("who was to spare a workload is judged again when it is gone") {
  Fixture f;
  f.Put(Kind::kWorkload, PreemptedFor("a", "b", 1));
  f.Put(Kind::kWorkload, Named("b"));
  f.world.RunReleases(build::At(0));
  REQUIRE_FALSE(f.world.HasReleases());
  SECTION("deleted") { f.Delete(Named("b")); }
  SECTION("finished") {
    api::Workload finished = Named("b");
    admission::SetWorkloadCondition(finished, api::kFinished, api::ConditionStatus::kTrue,
                                    "Succeeded", "done", build::At(1));
    f.Put(Kind::kWorkload, finished);
  }
  CHECK(f.world.HasReleases());
}

TEST_CASE("who was evicted often looks for victims again when its rest is over") {
  Settings settings;
  settings.fair_sharing.emplace();
  Fixture f(settings);
  f.Put(Kind::kWorkload, Named("a"));
  for (const char* preemptor : {"b", "c", "d"}) {
    f.Put(Kind::kWorkload, PreemptedFor("a", preemptor, 1));
  }
  queueing::QueueManager& queues = f.world.queues();
  const ObjectKey key{"ns", "a"};
  f.world.RunReleases(build::At(1));
  REQUIRE(queues.Heads(build::At(1)).size() == 1);
  queues.Requeue(key,
                 {.reason = queueing::RequeueReason::kPreemptionNoCandidates, .own_answer = true},
                 build::At(1));
  REQUIRE(f.world.NextProtectionEnd() == build::At(0) + preemption::History::kRest);
  f.world.RunReleases(build::At(59));
  REQUIRE(queues.PlaceOf(key) == queueing::Place::kParked);
  f.world.RunReleases(build::At(60));
  CHECK(queues.PlaceOf(key) == queueing::Place::kActive);
  CHECK(f.world.NextProtectionEnd() == absl::InfiniteFuture());
  SECTION("one that ended rests no more") {
    f.Put(Kind::kWorkload, PreemptedFor("a", "e", 61));
    REQUIRE(f.world.NextProtectionEnd() < absl::InfiniteFuture());
    f.Delete(Named("a"));
    CHECK(f.world.NextProtectionEnd() == absl::InfiniteFuture());
  }
}

TEST_CASE("room that was kept for one that does not wait any more is looked at again") {
  Fixture f;
  f.Put(Kind::kWorkload, Named("a"));
  f.world.RunReleases(build::At(0));
  REQUIRE_FALSE(f.world.HasReleases());
  SECTION("deleted") { f.Delete(Named("a")); }
  SECTION("deactivated") {
    api::Workload workload = Named("a");
    workload.spec.active = false;
    f.Put(Kind::kWorkload, workload);
  }
  SECTION("its LocalQueue is on hold") {
    api::LocalQueue queue = build::LocalQueue("q", "cq").Get();
    queue.spec.stop_policy = "Hold";
    f.Put(Kind::kLocalQueue, queue);
  }
  CHECK(f.world.HasReleases());
}

}  // namespace
}  // namespace sluice::state
