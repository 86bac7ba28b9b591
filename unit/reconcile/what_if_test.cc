#include "reconcile/what_if.h"

#include <absl/time/clock.h>

#include <string>
#include <vector>

#include "admission/cycle.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/time.h"
#include "reconcile/explain.h"
#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/reconcile/synced_world.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using api::Kind;
using build::At;

class Fixture : public SyncedWorld {
 public:
  Fixture() {
    Add(Kind::kResourceFlavor, api::Encode<api::ResourceFlavor>(build::Flavor("f")));
    api::ClusterQueue queue = build::ClusterQueue("cq").Flavor("f", {{"cpu", "4"}});
    queue.spec.preemption.emplace();
    queue.spec.preemption->within_cluster_queue = "LowerPriority";
    Add(Kind::kClusterQueue, api::Encode<api::ClusterQueue>(queue));
    Add(Kind::kClusterQueue,
        api::Encode<api::ClusterQueue>(
            build::ClusterQueue("strict").StrictFifo().Flavor("f", {{"cpu", "4"}})));
    Add(Kind::kLocalQueue, api::Encode<api::LocalQueue>(build::LocalQueue("q", "cq")));
    Add(Kind::kLocalQueue, api::Encode<api::LocalQueue>(build::LocalQueue("s", "strict")));
  }

  absl::StatusOr<WhatIf> Ask(const std::string& cpu, const std::string& queue = "q",
                             const std::string& cluster_queue = "", int priority = 0) {
    Json workload = api::Encode<api::Workload>(
        build::Workload("new").Queue(queue).Priority(priority).Request("cpu", cpu).Get());
    workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
    workload.Set("kind", "Workload");
    return AskWhatIf(world, workload, cluster_queue, At(7200));
  }

  state::World& asked() { return world; }
};

TEST_CASE("what fits would be admitted now") {
  Fixture fixture;
  const auto answer = fixture.Ask("2");
  REQUIRE(answer.ok());
  CHECK(answer->admitted);
  CHECK(answer->cluster_queue == "cq");
  CHECK(WhatIfText(*answer) == "It would be admitted now in ClusterQueue cq (main: cpu from f).\n");
  // Nothing was created, and nothing is counted.
  CHECK(fixture.world.workloads().size() == 0);
  CHECK(fixture.world.queues().size() == 0);
  CHECK(fixture.world.tree().Usage("cq", {"f", "cpu"}) == 0);
  fixture.world.tree().CheckInvariants();
}

TEST_CASE("what does not fit says what is short") {
  Fixture fixture;
  const auto answer = fixture.Ask("5");
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->admitted);
  CHECK(WhatIfText(*answer) == "It would wait in ClusterQueue cq.\n");
  CHECK(WhatIfJson(*answer).Find("explanation")->GetString("reason") == "ExceedsMaxQuota");
}

TEST_CASE("victims are named with what they lose") {
  Fixture fixture;
  build::Workload low("low");
  low.Queue("q").Request("cpu", "3").Admitted("cq", "f", At(0));
  low.Annotation("sluice.dev/last-checkpoint", "2026-01-01T01:30:00Z")
      .Annotation("sluice.dev/restart-cost", "5m");
  fixture.Add(low);
  const auto answer = fixture.Ask("2", "q", "cq", 5);
  REQUIRE(answer.ok());
  CHECK(answer->after_preemption);
  REQUIRE(answer->victims.size() == 1);
  CHECK(answer->victims[0].workload.ToString() == "ns/low");
  CHECK(answer->victims[0].ran == absl::Hours(2));
  CHECK(answer->victims[0].lost == absl::Minutes(35));
  CHECK(answer->victims[0].amount == 3000);
  CHECK(WhatIfJson(*answer).Find("victims")->AsArray()[0].GetString("lostTime") == "35m0s");
  CHECK(fixture.world.tree().Usage("cq", {"f", "cpu"}) == 3000);
  CHECK_FALSE(fixture.Ask("2")->after_preemption);  // of equal priority
}

TEST_CASE("those that wait before it are counted") {
  Fixture fixture;
  fixture.Add(build::Workload("head").Queue("s").Request("cpu", "5").Created(At(1)).Uid("1"));
  const auto answer = fixture.Ask("1", "s");
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->admitted);
  CHECK(answer->tree.position->ahead == 1);
  CHECK(WhatIfText(*answer) ==
        "It would fit now in ClusterQueue strict (main: cpu from f), but 1 workload waits before "
        "it, the first is ns/head.\n");
  CHECK(fixture.Ask("1", "s", "", 9)->admitted);
}

TEST_CASE("who starts before it takes its room") {
  Fixture fixture;
  fixture.Add(build::Workload("head")
                  .Queue("s")
                  .Request("cpu", "4")
                  .Created(At(1))
                  .Uid("1")
                  .MaximumExecutionTime(3600));
  Json workload =
      api::Encode<api::Workload>(build::Workload("new").Queue("s").Request("cpu", "1").Get());
  workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
  workload.Set("kind", "Workload");
  const auto answer = AskWhatIf(fixture.world, workload, "", At(7200), WithForecast::kYes);
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->enters());
  CHECK(answer->why.reason == "QuotaExceeded");
  CHECK(answer->tree.position->ahead == 0);
  REQUIRE(answer->forecast.has_value());
  CHECK(answer->forecast->start == At(10800));
}

TEST_CASE("what is parked is not before it, and backfill lets it pass a head") {
  Fixture fixture;
  fixture.Add(build::Workload("huge").Queue("q").Request("cpu", "9").Created(At(1)).Uid("1"));
  // Whether or not a cycle has parked it.
  for (const bool decided : {false, true}) {
    if (decided) admission::Schedule(fixture.world.snapshot(), fixture.world.queues(), At(2));
    const auto answer = fixture.Ask("1");
    REQUIRE(answer.ok());
    CHECK(answer->admitted);
    CHECK(answer->tree.position->ahead == 0);
  }

  fixture.Add(build::Workload("head").Queue("s").Request("cpu", "9").Created(At(1)).Uid("2"));
  CHECK(fixture.Ask("1", "s")->tree.position->strict);
  fixture.Add(Kind::kClusterQueue,
              api::Encode<api::ClusterQueue>(build::ClusterQueue("filled")
                                                 .StrictFifo()
                                                 .Annotation("sluice.dev/backfill", "EASY")
                                                 .Flavor("f", {{"cpu", "4"}})));
  fixture.Add(Kind::kLocalQueue, api::Encode<api::LocalQueue>(build::LocalQueue("b", "filled")));
  fixture.Add(build::Workload("first").Queue("b").Request("cpu", "9").Created(At(1)).Uid("3"));
  const auto answer = fixture.Ask("1", "b");
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->tree.position->strict);
  CHECK(answer->tree.position->ahead == 1);
  // What could never start is no reason to wait.
  CHECK(answer->admitted);
  CHECK(answer->passes == "ns/first");
}

// Eight CPUs, six of them until t=60; a head that needs all of them.
TEST_CASE("backfill: what ends before a reservation starts at once, what does not waits for it") {
  Fixture fixture;
  fixture.Queue(build::ClusterQueue("easy")
                    .Annotation("sluice.dev/backfill", "EASY")
                    .Flavor("f", {{"cpu", "8"}}));
  fixture.Add(build::Workload("a")
                  .Queue("to-easy")
                  .Request("cpu", "6")
                  .MaximumExecutionTime(7260)
                  .Admitted("easy", "f", At(0)));
  fixture.Add(build::Workload("b").Queue("to-easy").Request("cpu", "8").Created(At(7100)).Uid("b"));
  const auto ask = [&](int32_t runs) {
    Json workload = api::Encode<api::Workload>(build::Workload("new")
                                                   .Queue("to-easy")
                                                   .Request("cpu", "2")
                                                   .MaximumExecutionTime(runs)
                                                   .Get());
    workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
    workload.Set("kind", "Workload");
    auto answer = AskWhatIf(fixture.world, workload, "", At(7200), WithForecast::kYes);
    REQUIRE(answer.ok());
    return *std::move(answer);
  };
  const WhatIf c = ask(50);
  CHECK(c.admitted);
  CHECK(WhatIfText(c) ==
        "It would be admitted now in ClusterQueue easy (main: cpu from f).\n"
        "  before ns/b, which waits and is not delayed by it\n");
  const WhatIf d = ask(70);
  CHECK_FALSE(d.enters());
  CHECK(d.why.reason == "Reserved");
  CHECK(d.why.help == "ns/b has started");
  REQUIRE(d.forecast.has_value());
  // b runs from t=60 on, and nobody knows for how long.
  CHECK_FALSE(d.forecast->start.has_value());
  CHECK(fixture.world.queues().size() == 1);
  CHECK(fixture.world.tree().Usage("easy", {"f", "cpu"}) == 6000);
  fixture.world.tree().CheckInvariants();
}

// Candidates that tie on priority: by what the eviction costs, though nothing was decided here yet.
TEST_CASE("a World that has decided nothing names the victim that loses the least") {
  Fixture fixture;
  api::ClusterQueue queue = build::ClusterQueue("gpus").Flavor("f", {{"amd.com/gpu", "24"}});
  queue.spec.preemption.emplace();
  queue.spec.preemption->within_cluster_queue = "LowerPriority";
  fixture.Queue(queue);
  const absl::Time now = At(20000);
  const auto add = [&](const char* name, absl::Duration ago, const char* key,
                       const std::string& value, const char* restart) {
    build::Workload workload(name);
    workload.Queue("to-gpus")
        .Request("amd.com/gpu", "8")
        .Uid(name)
        .Admitted("gpus", "f", now - ago);
    if (key != nullptr) workload.Annotation(key, value);
    if (restart != nullptr) workload.Annotation("sluice.dev/restart-cost", restart);
    fixture.Add(workload);
  };
  add("a", absl::Hours(5), "sluice.dev/last-checkpoint", sluice::FormatTime(now - absl::Minutes(3)),
      "5m");
  add("b", absl::Minutes(10), nullptr, "", nullptr);
  add("c", absl::Hours(2), "sluice.dev/checkpoint-interval", "45m", nullptr);
  Json workload = api::Encode<api::Workload>(
      build::Workload("new").Queue("to-gpus").Priority(5).Request("amd.com/gpu", "8").Get());
  workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
  workload.Set("kind", "Workload");
  const auto answer = AskWhatIf(fixture.world, workload, "", now);
  REQUIRE(answer.ok());
  REQUIRE(answer->victims.size() == 1);
  CHECK(answer->victims[0].workload.name == "a");
  CHECK(answer->victims[0].lost == absl::Minutes(8));
  CHECK(answer->victims[0].resource == "amd.com/gpu");
  CHECK(answer->victims[0].amount == 8);
  // What is asked about one that waits: the same.
  fixture.Add(build::Workload("waits")
                  .Queue("to-gpus")
                  .Priority(5)
                  .Request("amd.com/gpu", "8")
                  .Created(now)
                  .Uid("w"));
  CHECK(ExplainWorkload(fixture.world, {"ns", "waits"}, now).verdict.preempting ==
        std::vector<std::string>{"ns/a"});
  // As the cycle decides.
  const auto decisions = admission::Schedule(fixture.world.snapshot(), fixture.world.queues(), now);
  REQUIRE(decisions.size() == 1);
  REQUIRE(decisions[0].victims.size() == 1);
  CHECK(decisions[0].victims[0].workload->Key().name == "a");
}

TEST_CASE("what a victim loses is named in what the CreditPolicy of its ClusterQueue weighs") {
  Fixture fixture;
  api::ClusterQueue queue = build::ClusterQueue("gpus").Cohort("org").Flavor(
      "f", {{"nvidia.com/gpu", "8"}, {"memory", "64"}});
  queue.spec.preemption.emplace();
  queue.spec.preemption->within_cluster_queue = "LowerPriority";
  fixture.Add(Kind::kCohort, *api::ParseJson(R"({"metadata":{"name":"org"},"spec":{}})"));
  fixture.Queue(queue);
  fixture.Add(build::Workload("low")
                  .Queue("to-gpus")
                  .Request("nvidia.com/gpu", "8")
                  .Request("memory", "64")
                  .Uid("low")
                  .Admitted("gpus", "f", At(0)));
  const auto victim = [&] {
    state::Refs touched;
    fixture.asked().PrepareCredits(At(7200), touched);
    Json workload = api::Encode<api::Workload>(
        build::Workload("new").Queue("to-gpus").Priority(5).Request("nvidia.com/gpu", "1").Get());
    workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
    workload.Set("kind", "Workload");
    const auto answer = AskWhatIf(fixture.asked(), workload, "", At(7200));
    REQUIRE(answer.ok());
    REQUIRE(answer->victims.size() == 1);
    return answer->victims[0].resource + " " + std::to_string(answer->victims[0].amount);
  };
  CHECK(victim() == "nvidia.com/gpu 8");
  fixture.Add(
      Kind::kCreditPolicy,
      *api::ParseJson(R"({"metadata":{"name":"p","uid":"p"},"spec":{"selector":)"
                      R"({"cohort":"org"},"resources":[{"name":"memory","weight":"1"}]}})"));
  CHECK(victim() == "memory 64");
}

TEST_CASE("with admission checks it would hold quota and wait for them") {
  Fixture fixture;
  fixture.Add(Kind::kAdmissionCheck,
              api::Encode<api::AdmissionCheck>(build::AdmissionCheck("budget", "example.com/c")));
  api::ClusterQueue queue =
      build::ClusterQueue("checked").Check("budget").Flavor("f", {{"cpu", "4"}});
  queue.spec.preemption.emplace();
  queue.spec.preemption->within_cluster_queue = "LowerPriority";
  fixture.Queue(queue);
  const auto answer = fixture.Ask("2", "to-checked");
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->enters());
  CHECK(answer->reserved);
  CHECK(answer->why.reason == "CheckPending");
  CHECK(WhatIfText(*answer) ==
        "It would get its quota now in ClusterQueue checked (main: cpu from f), and wait for its "
        "admission checks: budget.\n");
  const Json json = WhatIfJson(*answer);
  CHECK(json.Find("quotaReserved")->AsBool());
  CHECK(json.Find("admissionChecks")->Text() == R"(["budget"])");
  fixture.Add(build::Workload("low")
                  .Queue("to-checked")
                  .Request("cpu", "3")
                  .Admitted("checked", "f", At(0)));
  const auto preempts = fixture.Ask("2", "to-checked", "", 5);
  REQUIRE(preempts.ok());
  CHECK(preempts->after_preemption);
  CHECK(WhatIfText(*preempts).find("then it waits for its admission checks: budget\n") !=
        std::string::npos);
}

TEST_CASE("the class that a Workload names gives its priority") {
  Fixture fixture;
  fixture.Add(Kind::kWorkloadPriorityClass,
              api::Encode<api::WorkloadPriorityClass>(build::WorkloadPriorityClass("high", 7)));
  fixture.Add(build::Workload("low").Queue("q").Request("cpu", "3").Admitted("cq", "f", At(0)));
  Json workload =
      api::Encode<api::Workload>(build::Workload("new").Queue("q").Request("cpu", "2").Get());
  workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
  workload.Set("kind", "Workload");
  workload.Find("spec")->Set(
      "priorityClassRef",
      *api::ParseJson(
          R"({"group":"kueue.x-k8s.io","kind":"WorkloadPriorityClass","name":"high"})"));
  const auto answer = AskWhatIf(fixture.world, workload, "", At(7200));
  REQUIRE(answer.ok());
  CHECK(answer->after_preemption);
}

// Two queues of one cohort; in the first one a workload waits for room and keeps what is free,
// which one of the second could borrow. `said`: of its condition QuotaReserved=False.
void AddContest(Fixture& fixture, const std::string& said = "") {
  for (const char* name : {"pa", "pb"}) {
    const char* nominal = std::string(name) == "pa" ? "5" : "0";
    fixture.Add(
        Kind::kClusterQueue,
        api::Encode<api::ClusterQueue>(
            build::ClusterQueue(name).StrictFifo().Cohort("pool").Flavor("f", {{"cpu", nominal}})));
    fixture.Add(Kind::kLocalQueue,
                api::Encode<api::LocalQueue>(build::LocalQueue(std::string("l") + name, name)));
  }
  fixture.Add(build::Workload("runs").Queue("lpa").Request("cpu", "3").Admitted("pa", "f", At(0)));
  fixture.Add(build::Workload("keeps")
                  .Queue("lpa")
                  .Request("cpu", "5")
                  .Created(At(1))
                  .Priority(5)
                  .Uid("k"));
  build::Workload loses("loses");
  loses.Queue("lpb").Request("cpu", "2").Created(At(2)).Uid("l");
  if (!said.empty()) {
    loses.Condition(api::kQuotaReserved, api::ConditionStatus::kFalse, "WaitingForQuota", At(3),
                    said);
  }
  fixture.Add(loses);
}

std::string WinnersOver(Fixture& fixture, const std::string& name) {
  return admission::RenderRivals(ExplainWorkload(fixture.world, {"ns", name}, At(4)).verdict);
}

TEST_CASE("who would lose a cycle is told who wins it") {
  Fixture fixture;
  AddContest(fixture);
  admission::Schedule(fixture.world.snapshot(), fixture.world.queues(), At(3));
  CHECK(WinnersOver(fixture, "loses") == "ns/keeps of ClusterQueue pa waits for 5 cpu of flavor f");
  CHECK(WinnersOver(fixture, "keeps").empty());
  const auto answer = fixture.Ask("2", "lpb", "", 1);  // before "loses"
  REQUIRE(answer.ok());
  CHECK_FALSE(answer->enters());
  CHECK(answer->why.reason == "QuotaExceeded");
  CHECK(answer->why.help == "ns/keeps has started, or waits no longer");
  const Json json = WhatIfJson(*answer);
  const Json::Array& rivals = json.Find("explanation")->Find("rivals")->AsArray();
  REQUIRE(rivals.size() == 1);
  CHECK(rivals[0].Text() ==
        R"({"workload":"ns/keeps","clusterQueue":"pa","waits":true,"places":false,)"
        R"("amounts":[{"flavor":"f","resource":"cpu","amount":"5"}]})");
  fixture.world.tree().CheckInvariants();
}

TEST_CASE("a World that has decided nothing knows from the condition who lost a cycle") {
  const std::string said = "Workload no longer fits after processing another workload";
  Fixture lost;
  AddContest(lost, said);
  CHECK(WinnersOver(lost, "loses") == "ns/keeps of ClusterQueue pa waits for 5 cpu of flavor f");
  Fixture other;
  AddContest(other, "something else");
  CHECK(WinnersOver(other, "loses").empty());
}

TEST_CASE("questions that cannot be answered") {
  Fixture fixture;
  CHECK(fixture.Ask("1", "none").status().message() == "LocalQueue ns/none does not exist");
  CHECK(fixture.Ask("1", "q", "none").status().message() == "ClusterQueue none does not exist");
  CHECK(fixture.Ask("1", "q", "strict").status().message() ==
        "LocalQueue ns/q points to ClusterQueue cq, not strict");
  const auto ask = [&](const char* text, const char* queue = "") {
    return std::string(
        AskWhatIf(fixture.asked(), *api::ParseJson(text), queue, At(0)).status().message());
  };
  CHECK(ask("{}") == " : only Jobs of batch/v1 and Workloads can be asked about");
  CHECK(ask(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload"})") ==
        "spec.podSets: there are none");
}

TEST_CASE("a Job is asked about as it is written, or as the spec of a question") {
  Fixture fixture;
  const Json job = *api::ParseJson(
      R"({"apiVersion":"batch/v1","kind":"Job","metadata":{"generateName":"a-","namespace":"ns"},)"
      R"("spec":{"parallelism":2,"template":{"spec":{"containers":[{"name":"c","image":"i",)"
      R"("resources":{"requests":{"cpu":"2"}}}]}}}})");
  const auto answer = AskWhatIf(fixture.asked(), job, "cq", At(0));
  REQUIRE(answer.ok());
  CHECK(answer->admitted);
  CHECK(answer->local_queue.ToString() == "ns/q");
  const auto same = AskWhatIf(fixture.asked(),
                              Json::MakeObject({{"kind", "WhatIf"}, {"spec", job}}), "cq", At(0));
  REQUIRE(same.ok());
  CHECK(WhatIfJson(*same) == WhatIfJson(*answer));
}

TEST_CASE("lost time") {
  const absl::Time start = At(0);
  const absl::Time now = At(7200);
  const auto lost = [&](const build::Workload& workload) {
    return LostTime(workload.Get(), start, now);
  };
  const auto with = [](const char* key, const char* value) {
    return build::Workload("w").Annotation(key, value);
  };
  CHECK(lost(build::Workload("w")) == absl::Hours(2));
  CHECK(lost(with("sluice.dev/checkpoint-interval", "45m")) == absl::Minutes(30));
  CHECK(lost(with("sluice.dev/last-checkpoint", "2026-01-01T01:57:00Z")) == absl::Minutes(3));
  CHECK(lost(with("sluice.dev/last-checkpoint", "2026-01-01T03:00:00Z")) == absl::Hours(2));
  CHECK(lost(with("sluice.dev/last-checkpoint", "yesterday")) == absl::Hours(2));
  CHECK(lost(with("sluice.dev/last-checkpoint", "2025-12-31T00:00:00Z")) == absl::Hours(2));
  CHECK(lost(with("sluice.dev/restart-cost", "5m")) == absl::Minutes(125));
  CHECK(lost(with("sluice.dev/restart-cost", "-5m")) == absl::Hours(2));
  CHECK(LostTime(build::Workload("w").Get(), now, start) == absl::ZeroDuration());
}

TEST_CASE("a forecast follows from what runs, where that is in the way") {
  Fixture fixture;
  build::Workload runs("runs");
  runs.Queue("q").Request("cpu", "3").Admitted("cq", "f", At(0));
  fixture.Add(runs.Annotation("sluice.dev/expected-runtime", "3h"));
  const auto ask = [&](const std::string& cpu, WithForecast with = WithForecast::kYes) {
    Json workload =
        api::Encode<api::Workload>(build::Workload("new").Queue("q").Request("cpu", cpu).Get());
    workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
    workload.Set("kind", "Workload");
    const auto answer = AskWhatIf(fixture.world, workload, "", At(7200), with);
    REQUIRE(answer.ok());
    const Json json = WhatIfJson(*answer);
    const Json* forecast = json.Find("forecast");
    return forecast == nullptr ? Json() : *forecast;
  };
  CHECK(ask("2").GetString("start") == "2026-01-01T03:00:00Z");
  CHECK(ask("2").GetString("assumption").find("nothing that waits starts before it") !=
        std::string::npos);
  CHECK(ask("5").GetString("unknown") == "it could not start with everything idle");
  CHECK(ask("1").IsNull());  // it starts now
  CHECK(ask("2", WithForecast::kNo).IsNull());
  fixture.Add(build::Workload("endless")
                  .Queue("q")
                  .Request("cpu", "1")
                  .Uid("e")
                  .Admitted("cq", "f", At(0)));
  CHECK(ask("3").GetString("start") == "2026-01-01T03:00:00Z");
  CHECK(ask("4").GetString("unknown") ==
        "what it needs is held by workloads of which nothing tells when they end");
}

TEST_CASE("behind others the forecast is after those") {
  Fixture fixture;
  fixture.Add(build::Workload("runs")
                  .Queue("s")
                  .Request("cpu", "3")
                  .MaximumExecutionTime(10800)
                  .Admitted("strict", "f", At(0)));
  build::Workload head("head");
  head.Queue("s").Request("cpu", "4").Created(At(1)).Uid("1").MaximumExecutionTime(3600);
  fixture.Add(head);
  const auto ask = [&] {
    Json workload =
        api::Encode<api::Workload>(build::Workload("new").Queue("s").Request("cpu", "1").Get());
    workload.Set("apiVersion", "kueue.x-k8s.io/v1beta2");
    workload.Set("kind", "Workload");
    const auto answer = AskWhatIf(fixture.world, workload, "", At(7200), WithForecast::kYes);
    REQUIRE(answer.ok());
    CHECK(answer->why.reason == "BehindOthers");
    const Json json = WhatIfJson(*answer);
    REQUIRE(json.Find("forecast") != nullptr);
    return *json.Find("forecast");
  };
  // The head has all from 03:00 to 04:00.
  const Json forecast = ask();
  CHECK(forecast.GetString("start") == "2026-01-01T04:00:00Z");
  CHECK(forecast.GetString("assumption") ==
        "what runs ends when its maximum execution time or sluice.dev/expected-runtime says, "
        "nothing is preempted, and of what waits only the one that comes before it starts first, "
        "as soon as there is quota for it");
  fixture.Add(build::Workload("huge").Queue("s").Request("cpu", "9").Created(At(2)).Uid("2"));
  CHECK(ask().GetString("unknown") ==
        "ns/huge comes before it, and nothing tells when that starts");
}

}  // namespace
}  // namespace sluice::reconcile
