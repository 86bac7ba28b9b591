#include "admission/earliest_start.h"

#include <string>

#include "api/codec.h"
#include "api/names.h"
#include "queueing/backfill.h"
#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/reconcile/synced_world.h"

namespace sluice::reconcile {
namespace {

using admission::EarliestStart;
using api::Kind;
using build::At;
using Kinds = EarliestStart::Kind;

// Two ClusterQueues of one cohort with four cpus each, and one on its own.
class Fixture : public SyncedWorld {
 public:
  Fixture() {
    Add(Kind::kResourceFlavor, api::Encode<api::ResourceFlavor>(build::Flavor("f")));
    Queue(build::ClusterQueue("a").Cohort("org").Flavor("f", {{"cpu", "4"}}));
    Queue(build::ClusterQueue("b").Cohort("org").Flavor("f", {{"cpu", "4"}}));
    Queue(build::ClusterQueue("alone").Flavor("f", {{"cpu", "4"}}));
  }
  // `bound`: of its expected runtime, "" for none.
  void Runs(const std::string& name, const std::string& queue, const std::string& cpu,
            const std::string& bound) {
    build::Workload workload(name);
    workload.Queue("to-" + queue).Request("cpu", cpu).Uid(name).Admitted(queue, "f", At(0));
    if (!bound.empty()) workload.Annotation(queueing::kExpectedRuntime, bound);
    Add(Kind::kWorkload, api::Encode<api::Workload>(workload));
  }
  EarliestStart Ask(const std::string& queue, const std::string& cpu, absl::Time now = At(10)) {
    const auto workload = build::Workload("new").Queue("to-" + queue).Request("cpu", cpu).Shared();
    return admission::FindEarliestStart(
        world.snapshot(),
        queueing::MakeWorkloadInfo(workload, queue, world.RequestContextFor("ns"), {}), now);
  }
};

TEST_CASE("the earliest start follows from the bounds of what runs, in the whole tree") {
  Fixture fixture;
  fixture.Runs("first", "a", "2", "1m");
  fixture.Runs("second", "b", "3", "2m");
  fixture.Runs("third", "a", "2", "3m");
  fixture.Runs("elsewhere", "alone", "4", "");
  const auto at = [&](const std::string& cpu, absl::Time now = At(10)) {
    const EarliestStart found = fixture.Ask("a", cpu, now);
    CHECK(found.kind == Kinds::kAt);
    return found.at;
  };
  CHECK(at("1") == At(10));  // one of b is free
  CHECK(at("3") == At(60));
  CHECK(at("4") == At(120));
  CHECK(at("6") == At(120));
  CHECK(at("8") == At(180));
  CHECK(at("4", At(150)) == At(150));  // what is overdue counts as gone
  CHECK(fixture.Ask("a", "9").kind == Kinds::kNever);
  CHECK(fixture.Ask("alone", "1").kind == Kinds::kUnbounded);
  CHECK(fixture.world.tree().Usage("a", {"f", "cpu"}) == 4000);
  fixture.world.tree().CheckInvariants();
}

TEST_CASE("one without a bound is in the way of those that need its room only") {
  Fixture fixture;
  fixture.Runs("endless", "a", "3", "");
  fixture.Runs("bounded", "b", "4", "1m");
  CHECK(fixture.Ask("b", "5").at == At(60));
  CHECK(fixture.Ask("b", "6").kind == Kinds::kUnbounded);
  CHECK(fixture.Ask("b", "9").kind == Kinds::kNever);
}

TEST_CASE("the earliest start is the one that trying every instant finds") {
  for (int seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    Fixture fixture;
    uint32_t dice = static_cast<uint32_t>(seed) * 2654435761u + 1;
    const auto roll = [&](uint32_t sides) {
      dice = dice * 1664525u + 1013904223u;
      return (dice >> 16) % sides;
    };
    for (int i = 0; i < 6; ++i) {
      const std::string bound = roll(5) == 0 ? "" : std::to_string(1 + roll(9)) + "m";
      fixture.Runs("r" + std::to_string(i), roll(2) == 0 ? "a" : "b", std::to_string(1 + roll(2)),
                   bound);
    }
    const std::string queue = roll(2) == 0 ? "a" : "b";
    const int64_t cpu = 1 + roll(8);
    // What is free in the tree once all with a deadline until then are gone.
    const auto fits = [&](absl::Time time, bool all) {
      int64_t used = 0;
      for (const char* name : {"a", "b"}) {
        for (const auto* one : fixture.world.snapshot().reserved.Of(name)) {
          const absl::Time end =
              queueing::DeadlineOf(*one->workload, one->started_at, one->evicted);
          if (!all && end > time) used += one->usage.front().amount;
        }
      }
      return used + cpu * 1000 <= 8000;
    };
    const EarliestStart found = fixture.Ask(queue, std::to_string(cpu));
    absl::Time first = absl::InfiniteFuture();
    for (int minute = 10; minute >= 0; --minute) {
      if (fits(At(60 * minute), false)) first = At(60 * minute);
    }
    if (first == absl::InfiniteFuture()) {
      CHECK(found.kind == Kinds::kUnbounded);
    } else {
      REQUIRE(found.kind == Kinds::kAt);
      CHECK(found.at == std::max(first, At(10)));
    }
  }
}

}  // namespace
}  // namespace sluice::reconcile
