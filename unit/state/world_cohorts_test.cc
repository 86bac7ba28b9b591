// Changes of the quota tree wake whoever waits, on both sides of a move.
#include "admission/cycle.h"
#include "api/codec.h"
#include "state/world.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Kind;
using queueing::Place;
using Type = ObjectEvent::Type;

// Two LocalQueues, "qa" on ClusterQueue a and "qb" on b. Workload a holds 4 CPUs of a.
class Fixture {
 public:
  Fixture() : world(settings) {
    Put(Kind::kNamespace, build::Namespace("ns").Get());
    Put(Kind::kResourceFlavor, build::Flavor("default").Get());
    Put(Kind::kLocalQueue, build::LocalQueue("qa", "a").Get());
    Put(Kind::kLocalQueue, build::LocalQueue("qb", "b").Get());
    auto admitted = build::Workload("a").Queue("qa").Request("cpu", "4");
    Put(Kind::kWorkload, admitted.Admitted("a", "default").Get());
  }

  template <typename T>
  void Put(Kind kind, T object) {
    object.metadata.resource_version = std::to_string(++version_);
    world.Apply({Type::kUpsert, kind, api::Encode(object)}, build::At(0), touched);
  }
  void Queue(const std::string& name, const std::string& cohort, const std::string& cpu) {
    Put(Kind::kClusterQueue,
        build::ClusterQueue(name).Cohort(cohort).Flavor("default", {{"cpu", cpu}}).Get());
  }
  static api::Cohort MakeCohort(const std::string& name, const std::string& parent,
                                const std::string& cpu) {
    api::Cohort cohort;
    cohort.metadata.name = name;
    cohort.spec.parent_name = parent;
    if (!cpu.empty()) {
      cohort.spec.resource_groups =
          build::ClusterQueue("x").Flavor("default", {{"cpu", cpu}}).Get().spec.resource_groups;
    }
    return cohort;
  }
  void Cohort(const std::string& name, const std::string& parent, const std::string& cpu = "") {
    Put(Kind::kCohort, MakeCohort(name, parent, cpu));
  }
  void DeleteCohort(const std::string& name) {
    api::Cohort cohort = MakeCohort(name, "", "");
    cohort.metadata.resource_version = std::to_string(++version_);
    world.Apply({Type::kDelete, Kind::kCohort, api::Encode(cohort)}, build::At(0), touched);
  }
  // The names of the Workloads that are admitted when everything that can be decided now is.
  std::vector<std::string> Decide() {
    world.RunReleases(build::At(0));
    std::vector<std::string> admitted;
    for (const auto& decision :
         admission::Schedule(world.snapshot(), world.queues(), build::At(0), 100)) {
      if (decision.kind == admission::Decision::Kind::kAdmit) {
        admitted.push_back(decision.info->workload->metadata.name);
      }
    }
    return admitted;
  }
  // Workload b needs 4 CPUs and does not get them.
  void LetWait() {
    Put(Kind::kWorkload, build::Workload("b").Queue("qb").Request("cpu", "4").Get());
    REQUIRE(Decide().empty());
    REQUIRE(world.queues().PlaceOf({"ns", "b"}) != Place::kActive);
    REQUIRE(Decide().empty());
  }

  Settings settings;
  World world;
  Refs touched;

 private:
  int version_ = 0;
};

using Names = std::vector<std::string>;

TEST_CASE("A ClusterQueue that leaves a cohort leaves behind what it borrowed") {
  Fixture f;
  f.Cohort("old", "", "4");
  f.Queue("a", "old", "0");
  f.Queue("b", "old", "0");
  f.LetWait();
  f.Queue("a", "new", "0");
  CHECK(f.Decide() == Names{"b"});
}

TEST_CASE("A Cohort that leaves its parent leaves behind what it borrowed") {
  Fixture f;
  f.Cohort("org", "", "4");
  f.Cohort("team", "org");
  f.Queue("a", "team", "0");
  f.Queue("b", "org", "0");
  f.LetWait();
  SECTION("for another parent") { f.Cohort("team", "elsewhere"); }
  SECTION("because it is deleted") { f.DeleteCohort("team"); }
  CHECK(f.Decide() == Names{"b"});
}

TEST_CASE("A Cohort that leaves its parent takes its own quota out of the reach of others") {
  Fixture f;
  f.Cohort("org", "");
  f.Cohort("team", "org");
  f.Queue("a", "org", "0");
  f.Queue("b", "team", "4");
  f.LetWait();
  SECTION("for another parent") { f.Cohort("team", "elsewhere"); }
  SECTION("because it is deleted") { f.DeleteCohort("team"); }
  CHECK(f.Decide() == Names{"b"});
}

TEST_CASE("The end of a cycle of cohorts lets everything below it go on") {
  Fixture f;
  f.Cohort("x", "y", "4");
  f.Cohort("y", "x");
  f.Queue("a", "", "4");
  f.Queue("b", "y", "0");
  f.LetWait();
  CHECK(f.world.tree().InCycle("b"));
  SECTION("by another parent") { f.Cohort("x", "", "4"); }
  SECTION("because the queue leaves it") { f.Queue("b", "", "4"); }
  SECTION("by a deletion, with the ClusterQueue moved") {
    f.DeleteCohort("y");
    f.Cohort("x", "", "4");
    f.Queue("b", "x", "0");
  }
  CHECK(f.Decide() == Names{"b"});
}

TEST_CASE("Who waits below a cycle is looked at when it begins and when it ends") {
  Fixture f;
  f.Cohort("x", "");
  f.Cohort("y", "x");
  f.Queue("a", "", "4");
  f.Queue("b", "y", "0");
  f.LetWait();
  const Ref waiting{Kind::kWorkload, {"ns", "b"}};
  f.touched.clear();
  f.Cohort("x", "y");
  CHECK(f.touched.contains(waiting));
  f.touched.clear();
  f.Cohort("x", "");
  CHECK(f.touched.contains(waiting));
  f.touched.clear();
  f.Cohort("z", "z");
  CHECK_FALSE(f.touched.contains(waiting));
  f.Queue("b", "z", "0");
  CHECK(f.touched.contains(waiting));
}

TEST_CASE("The deletion of a Cohort can be the end of a cycle") {
  Fixture f;
  f.Cohort("x", "y");
  f.Cohort("y", "x");
  f.Queue("a", "", "4");
  f.Queue("b", "y", "4");
  f.LetWait();
  f.DeleteCohort("x");
  CHECK(f.Decide() == Names{"b"});
}

}  // namespace
}  // namespace sluice::state
