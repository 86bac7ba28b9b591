// What only tidies up waits while users wait for other writes.
#include <string>
#include <utility>
#include <vector>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/reconcile/operator_fixture.h"

namespace sluice::reconcile {
namespace {

OperatorOptions FewAtOnce() {
  OperatorOptions options;
  options.tidying_in_flight = 2;
  return options;
}

// Two admissions are on their way, and a Job is seen to have ended.
class Busy : public Fixture {
 public:
  Busy() : Fixture(true, FewAtOnce()) {
    Pending("a", "1");
    Pending("b", "1");
    controller.Run(now);
    admissions = sink.Of(Kind::kWorkload);
    REQUIRE(admissions.size() == 2);
    for (const state::Action& action : std::exchange(sink.actions, {})) {
      if (action.kind != Kind::kWorkload) Reply(action, 404);  // no other writes are on their way
    }
    Seen(Kind::kJob, api::Encode(build::Job("j")
                                     .Queue("q")
                                     .Uid("job-uid")
                                     .Request("cpu", "1")
                                     .ResourceVersion("5")
                                     .Condition("Complete", build::At(5))
                                     .Get()));
    Seen(Kind::kWorkload, api::Encode(Ended().Get()));
    controller.Run(now);
  }

  static build::Workload Ended() {
    return build::Workload("w")
        .Queue("q")
        .Request("cpu", "1")
        .ResourceVersion("6")
        .Finalizer(api::kResourceInUse)
        .OwnedBy("batch/v1", "Job", "j", "job-uid")
        .Finished(build::At(6));
  }
  // Of the ended Workload.
  size_t Writes() const {
    size_t found = 0;
    for (const state::Action& action : sink.Of(Kind::kWorkload)) found += action.key.name == "w";
    return found;
  }

  std::vector<state::Action> admissions;
};

TEST_CASE("The finalizer of an ended Workload waits for admissions on their way") {
  Busy f;
  CHECK(f.Writes() == 0);
  CHECK_FALSE(f.controller.Idle());
  // Nothing runs in circles meanwhile.
  CHECK(f.controller.NextDue(f.now) > f.now + absl::Milliseconds(5));
  f.Reply(f.admissions[0], 200,
          api::Encode(build::Workload(f.admissions[0].key.name)
                          .Queue("q")
                          .Request("cpu", "1")
                          .Admitted("cq", "default")
                          .ResourceVersion("8")
                          .Get()));
  CHECK(f.controller.NextDue(f.now) == f.now);
  f.controller.Run(f.now);
  REQUIRE(f.Writes() == 1);
  CHECK(f.sink.Of(Kind::kWorkload).back().body.Find("metadata", "finalizers")->AsArray().empty());
  f.controller.Run(f.now);
  CHECK(f.Writes() == 1);
}

TEST_CASE("It waits a minute at most") {
  Busy f;
  f.now += absl::Seconds(59);
  f.controller.Run(f.now);
  CHECK(f.Writes() == 0);
  f.now += absl::Seconds(1);
  f.controller.Run(f.now);
  CHECK(f.Writes() == 1);
}

TEST_CASE("It does not wait when somebody deletes the Workload") {
  Busy f;
  f.Seen(Kind::kWorkload, api::Encode(Busy::Ended().ResourceVersion("7").Deleted(f.now).Get()));
  f.controller.Run(f.now);
  CHECK(f.Writes() == 1);
}

TEST_CASE("Nothing is left to tidy up of what went, or for another leader") {
  Busy f;
  SECTION("the Workload went") {
    f.controller.Step(ObjectEvent{Type::kDelete, Kind::kWorkload, api::Encode(Busy::Ended().Get())},
                      f.now);
  }
  SECTION("it does not lead any more") { f.controller.Step(state::LeaderChange{false}, f.now); }
  for (const state::Action& admission : f.admissions) f.Reply(admission, 404);
  f.now += absl::Minutes(2);
  f.controller.Run(f.now);
  CHECK(f.Writes() == 0);
}

}  // namespace
}  // namespace sluice::reconcile
