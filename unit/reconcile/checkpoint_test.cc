#include "reconcile/checkpoint.h"

#include "base/time.h"
#include "preemption/checkpoint.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

const absl::Time kNow = *ParseTime("2026-01-01T10:00:00Z");

api::Workload Carrying(const api::StringMap& annotations) {
  api::Workload workload = build::Workload("w").Request("cpu", "1").Get();
  workload.metadata.annotations = annotations;
  return workload;
}

std::string PatchText(const api::StringMap& has, const DeclaredCheckpoints& declared) {
  const auto patch = CheckpointPatch(Carrying(has), declared);
  return patch.has_value() ? patch->Text() : "";
}

TEST_CASE("the newest checkpoint counts, other values are those of the job first") {
  DeclaredCheckpoints declared;
  declared.Add(
      {{"sluice.dev/restart-cost", "5m"}, {"sluice.dev/last-checkpoint", "2026-01-01T09:00:00Z"}},
      "annotation", kNow);
  declared.Add({{"sluice.dev/restart-cost", "9m"}, {"sluice.dev/min-runtime", "1h"}},
               "pod template: annotation", kNow);
  declared.Add({{"sluice.dev/last-checkpoint", "2026-01-01T09:30:00Z"}}, "pod a: annotation", kNow);
  declared.Add({{"sluice.dev/last-checkpoint", "2026-01-01T11:15:00+02:00"}}, "pod b: annotation",
               kNow);
  CHECK(declared.problems.empty());
  CHECK(declared.look_again == absl::InfiniteFuture());
  CHECK(declared.annotations ==
        api::StringMap{{"sluice.dev/last-checkpoint", "2026-01-01T09:30:00Z"},
                       {"sluice.dev/min-runtime", "1h"},
                       {"sluice.dev/restart-cost", "5m"}});
}

TEST_CASE("what cannot be read and what is in the future is named and left out") {
  DeclaredCheckpoints declared;
  declared.Add({{"sluice.dev/restart-cost", "soon"},
                {"sluice.dev/last-checkpoint", "2026-01-01T10:00:05Z"},
                {"sluice.dev/checkpoint-on-request", "true"}},
               "annotation", kNow);
  declared.Add({{"sluice.dev/last-checkpoint", "today"}}, "pod a: annotation", kNow);
  CHECK(declared.annotations == api::StringMap{{"sluice.dev/checkpoint-on-request", "true"}});
  CHECK(declared.look_again == kNow + absl::Seconds(5));
  REQUIRE(declared.problems.size() == 3);
  CHECK(declared.problems[0].text ==
        "annotation sluice.dev/last-checkpoint: \"2026-01-01T10:00:05Z\" is in the future and is "
        "ignored");
  CHECK(declared.problems[1].text ==
        "annotation sluice.dev/restart-cost: \"soon\" is ignored, it must be a duration such as "
        "30m or 1h30m");
  CHECK(declared.problems[2].text ==
        "pod a: annotation sluice.dev/last-checkpoint: \"today\" is ignored, it must be a time as "
        "in RFC 3339: 2026-01-31T10:00:00Z");
}

TEST_CASE("what is ignored is on the Workload, and told once as long as it stays the same") {
  DeclaredCheckpoints declared;
  declared.Add({{"sluice.dev/expected-runtime", "long"}}, "annotation", kNow);
  declared.Add({{"sluice.dev/last-checkpoint", "2026-01-01T10:00:05Z"}}, "pod a: annotation", kNow);
  REQUIRE(declared.problems.size() == 2);
  CHECK(declared.problems[0].reason == std::string("InvalidExpectedRuntime"));
  CHECK(declared.problems[1].reason == std::string("InvalidCheckpoint"));
  CHECK(NewProblems(Carrying({}), declared) == declared.problems);
  const auto patch = CheckpointPatch(Carrying({}), declared);
  REQUIRE(patch.has_value());
  const std::string told = patch->GetString("metadata", "annotations", kIgnoredAnnotations);
  CHECK(told == declared.problems[0].text + "; " + declared.problems[1].text);
  const api::Workload tells = Carrying({{kIgnoredAnnotations, told}});
  CHECK_FALSE(CheckpointPatch(tells, declared).has_value());
  CHECK(NewProblems(tells, declared).empty());
  // A second one is new, the others are not.
  DeclaredCheckpoints more = declared;
  more.Add({{"sluice.dev/min-runtime", "-1s"}}, "annotation", kNow);
  REQUIRE(NewProblems(tells, more).size() == 1);
  CHECK(NewProblems(tells, more)[0] == more.problems[2]);
  // Once the time has come there is nothing wrong with it any more.
  DeclaredCheckpoints later;
  later.Add({{"sluice.dev/last-checkpoint", "2026-01-01T10:00:05Z"}}, "pod a: annotation",
            kNow + absl::Seconds(5));
  const auto clears = CheckpointPatch(tells, later);
  REQUIRE(clears.has_value());
  CHECK(clears->Text().find(R"("sluice.dev/ignored-annotations":null)") != std::string::npos);
}

TEST_CASE("the Workload follows, and what was written on it by others stays") {
  DeclaredCheckpoints nothing;
  CHECK(PatchText({}, nothing).empty());
  CHECK(PatchText({{"sluice.dev/restart-cost", "1m"}}, nothing).empty());
  DeclaredCheckpoints declared;
  declared.annotations = {{"sluice.dev/last-checkpoint", "2026-01-01T09:00:00Z"},
                          {"sluice.dev/restart-cost", "5m"}};
  CHECK(
      PatchText({}, declared) ==
      R"({"metadata":{"annotations":{"sluice.dev/last-checkpoint":"2026-01-01T09:00:00Z",)"
      R"("sluice.dev/restart-cost":"5m","sluice.dev/copied-annotations":"sluice.dev/restart-cost")"
      R"(}}})");
  api::StringMap has = declared.annotations;
  has["sluice.dev/copied-annotations"] = "sluice.dev/restart-cost";
  CHECK(PatchText(has, declared).empty());
  // A value that is gone from the job goes, a reported checkpoint stays, and so does what the job
  // never said.
  has["sluice.dev/min-runtime"] = "1h";
  CHECK(PatchText(has, nothing) == R"({"metadata":{"annotations":{"sluice.dev/restart-cost":null,)"
                                   R"("sluice.dev/copied-annotations":null}}})");
  // An older checkpoint does not replace a newer one.
  DeclaredCheckpoints older;
  older.annotations = {{"sluice.dev/last-checkpoint", "2026-01-01T08:00:00Z"},
                       {"sluice.dev/restart-cost", "5m"}};
  CHECK(PatchText(has, older).empty());
}

TEST_CASE("a new Workload carries what the job says") {
  DeclaredCheckpoints declared;
  declared.annotations = {{"sluice.dev/min-runtime", "1h"}};
  api::Json body = api::Json::MakeObject();
  SetCheckpoints(body, DeclaredCheckpoints());
  CHECK(body.Text() == "{}");
  SetCheckpoints(body, declared);
  api::Workload workload = Carrying(
      {{"sluice.dev/min-runtime",
        body.GetString("metadata", "annotations", "sluice.dev/min-runtime")},
       {kCopiedAnnotations, body.GetString("metadata", "annotations", kCopiedAnnotations)}});
  CHECK_FALSE(CheckpointPatch(workload, declared).has_value());
}

TEST_CASE("the request is on the job as long as it is open") {
  api::Workload workload = Carrying({});
  CHECK(CheckpointRequestTime(workload).empty());
  CHECK_FALSE(CheckpointRequestPatch({}, "").has_value());
  api::Condition asked;
  asked.type = preemption::kCheckpointRequested;
  asked.status = api::ConditionStatus::kTrue;
  api::SetCondition(workload.status.conditions, asked, kNow);
  const std::string time = CheckpointRequestTime(workload);
  CHECK(time == "2026-01-01T10:00:00Z");
  CHECK(CheckpointRequestPatch({}, time)->Text() ==
        R"({"metadata":{"annotations":{"sluice.dev/checkpoint-requested-at":)"
        R"("2026-01-01T10:00:00Z"}}})");
  CHECK_FALSE(CheckpointRequestPatch({{"sluice.dev/checkpoint-requested-at", time}}, time));
  CHECK(CheckpointRequestPatch({{"sluice.dev/checkpoint-requested-at", time}}, "")->Text() ==
        R"({"metadata":{"annotations":{"sluice.dev/checkpoint-requested-at":null}}})");
}

}  // namespace
}  // namespace sluice::reconcile
