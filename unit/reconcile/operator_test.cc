#include "reconcile/operator.h"

#include <utility>
#include <vector>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/reconcile/operator_fixture.h"

namespace sluice::reconcile {
namespace {

TEST_CASE("A follower writes nothing and keeps its World warm") {
  Fixture f(false);
  f.Pending("a", "1");
  f.controller.Run(f.now);
  CHECK(f.sink.actions.empty());
  CHECK(f.controller.world().workloads().size() == 1);
  CHECK(f.controller.NextDue(f.now) == absl::InfiniteFuture());
  f.controller.Step(state::LeaderChange{true}, f.now);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kWorkload).size() == 1);
}

// What the predecessor wrote last is not known yet.
TEST_CASE("A new leader decides nothing before it has seen what its predecessor wrote") {
  Fixture f(false);
  f.Pending("a", "3");
  const auto bookmark = [&](Kind kind, const char* version) {
    f.controller.Step(
        ObjectEvent{
            Type::kBookmark, kind,
            Json::MakeObject({{"metadata", Json::MakeObject({{"resourceVersion", version}})}})},
        f.now);
    f.controller.Run(f.now);
  };
  f.controller.Step(
      state::LeaderChange{true, {{Kind::kWorkload, "20"}, {Kind::kCreditAccount, "20"}}}, f.now);
  f.controller.Run(f.now);
  CHECK(f.controller.catching_up());
  bookmark(Kind::kWorkload, "19");
  bookmark(Kind::kCreditAccount, "21");
  CHECK_FALSE(f.controller.leading());
  CHECK(f.controller.NextDue(f.now) == absl::InfiniteFuture());
  // The predecessor has given the quota to this one.
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kWorkload,
                                api::Encode(build::Workload("b")
                                                .Queue("q")
                                                .Request("cpu", "3")
                                                .Reserved("cq", "default")
                                                .ResourceVersion("18")
                                                .Get())},
                    f.now);
  CHECK(f.sink.actions.empty());
  SECTION("a bookmark shows that there is no more") { bookmark(Kind::kWorkload, "20"); }
  SECTION("a list does") {
    f.controller.Step(ObjectEvent{Type::kListBegin, Kind::kWorkload, {}}, f.now);
    for (const char* name : {"a", "b"}) {
      f.controller.Step(
          ObjectEvent{Type::kUpsert, Kind::kWorkload,
                      api::Encode(*f.controller.world().workloads().Find({"ns", name}))},
          f.now);
    }
    CHECK(f.controller.catching_up());
    f.controller.Step(
        ObjectEvent{
            Type::kListEnd, Kind::kWorkload,
            Json::MakeObject({{"metadata", Json::MakeObject({{"resourceVersion", "25"}})}})},
        f.now);
    f.controller.Run(f.now);
  }
  CHECK(f.controller.leading());
  CHECK_FALSE(f.controller.catching_up());
  CHECK_FALSE(f.sink.actions.empty());
  CHECK_FALSE(f.controller.world().IsAssumed({"ns", "a"}));
}

TEST_CASE("A leader that has seen as much already decides at once, a follower never") {
  Fixture f(false);
  f.Pending("a", "3");  // version 1
  f.controller.Step(state::LeaderChange{true, {{Kind::kWorkload, "1"}}}, f.now);
  CHECK(f.controller.leading());
  f.controller.Step(state::LeaderChange{false}, f.now);
  f.controller.Step(state::LeaderChange{true, {{Kind::kWorkload, "7"}}}, f.now);
  f.controller.Step(state::LeaderChange{false}, f.now);
  f.controller.Step(
      ObjectEvent{Type::kBookmark, Kind::kWorkload,
                  Json::MakeObject({{"metadata", Json::MakeObject({{"resourceVersion", "9"}})}})},
      f.now);
  CHECK_FALSE(f.controller.leading());
  CHECK_FALSE(f.controller.catching_up());
}

TEST_CASE("One write carries reservation and admission where no check waits") {
  Fixture f;
  f.Pending("a", "1");
  f.controller.Run(f.now);
  const auto writes = f.sink.Of(Kind::kWorkload);
  REQUIRE(writes.size() == 1);
  CHECK(writes[0].subresource == "status");
  CHECK(writes[0].field_manager == "kueue-admission");
  CHECK(writes[0].body.GetString("status", "admission", "clusterQueue") == "cq");
  int true_conditions = 0;
  for (const Json& condition : writes[0].body.Find("status", "conditions")->AsArray()) {
    const std::string type = condition.GetString("type");
    if (type != "QuotaReserved" && type != "Admitted") continue;
    CHECK(condition.GetString("status") == "True");
    ++true_conditions;
  }
  CHECK(true_conditions == 2);
}

TEST_CASE("An admission on its way counts, so the next one does not take its quota") {
  Fixture f;
  f.Pending("a", "3");
  f.controller.Run(f.now);
  f.Pending("b", "3");
  f.controller.Run(f.now);
  int admissions = 0;
  for (const state::Action& action : f.sink.Of(Kind::kWorkload)) {
    admissions += action.body.Find("status", "admission") != nullptr ? 1 : 0;
  }
  CHECK(admissions == 1);
}

TEST_CASE("A lost answer keeps the quota until a read tells, then it is tried again") {
  Fixture f;
  f.Pending("a", "3");
  f.controller.Run(f.now);
  const auto writes = f.sink.Of(Kind::kWorkload);
  REQUIRE(writes.size() == 1);
  CHECK(writes[0].body.GetString("metadata", "resourceVersion") == "1");
  f.Reply(writes[0], 0);
  const auto read = [&] {
    REQUIRE(f.controller.NextDue(f.now) < absl::InfiniteFuture());
    f.sink.actions.clear();
    f.now += absl::Minutes(1);
    f.controller.Run(f.now);
    f.controller.Run(f.now);
    const auto reads = f.sink.Of(Kind::kWorkload);
    REQUIRE(reads.size() == 1);
    CHECK(reads[0].verb == state::Verb::kGet);
    CHECK(f.controller.world().IsAssumed({"ns", "a"}));
    return reads[0];
  };
  const auto object = [](const char* version) {
    return build::Workload("a").Queue("q").Request("cpu", "3").ResourceVersion(version);
  };
  f.Reply(read(), 503);
  f.Reply(read(), 0);
  const state::Action last = read();
  f.sink.actions.clear();
  SECTION("it did not happen") {
    f.Reply(last, 200, api::Encode(object("1").Get()));
    f.controller.Run(f.now);
    REQUIRE(f.sink.Of(Kind::kWorkload).size() == 1);
    CHECK(f.sink.Of(Kind::kWorkload)[0].body.Find("status", "admission") != nullptr);
  }
  SECTION("it happened") {
    f.Reply(last, 200, api::Encode(object("2").Admitted("cq", "default").Get()));
    f.controller.Run(f.now);
    CHECK_FALSE(f.controller.world().IsAssumed({"ns", "a"}));
    CHECK(f.controller.world().ClusterQueueTotals("cq").reserving == 1);
  }
  SECTION("somebody else changed it") {
    f.Reply(last, 200, api::Encode(object("2").Active(false).Get()));
    CHECK(f.controller.world().ClusterQueueTotals("cq").reserving == 0);
  }
  SECTION("it is not there") {
    f.Reply(last, 404);
    f.controller.Run(f.now);
    CHECK(f.controller.world().ClusterQueueTotals("cq").reserving == 0);
    CHECK(f.sink.Of(Kind::kWorkload).empty());
  }
}

TEST_CASE("An admission that was answered without its object counts") {
  Fixture f;
  f.Pending("a", "3");
  f.controller.Run(f.now);
  const auto writes = f.sink.Of(Kind::kWorkload);
  REQUIRE(writes.size() == 1);
  f.Reply(writes[0], 200);  // the body could not be read
  f.Pending("b", "3");
  f.controller.Run(f.now);
  CHECK(f.controller.world().IsAssumed({"ns", "a"}));
  CHECK_FALSE(f.controller.world().IsAssumed({"ns", "b"}));
}

// The versions of both are known when the other write is answered.
TEST_CASE("A reservation waits for the answer to another write to the same Workload") {
  Fixture f;
  f.Pending("a", "9");
  f.controller.Run(f.now);
  const auto texts = f.sink.Of(Kind::kWorkload);  // why it waits
  REQUIRE(texts.size() == 1);
  f.sink.actions.clear();
  const auto queue = [](const char* cpu) {
    return api::Encode(build::ClusterQueue("cq")
                           .Finalizer("kueue.x-k8s.io/resource-in-use")
                           .Flavor("default", {{"cpu", cpu}})
                           .ResourceVersion("50")
                           .Get());
  };
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kClusterQueue, queue("9")}, f.now);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kWorkload).empty());
  CHECK(f.controller.world().IsAssumed({"ns", "a"}));
  auto next = build::Workload("a").Queue("q").Request("cpu", "9").ResourceVersion("7");
  SECTION("nothing else happened") {
    f.Reply(texts[0], 200, api::Encode(next.Get()));
    REQUIRE(f.sink.Of(Kind::kWorkload).size() == 1);
    CHECK(f.sink.Of(Kind::kWorkload)[0].body.GetString("metadata", "resourceVersion") == "7");
  }
  SECTION("it was refused") {
    f.Reply(texts[0], 409);
    REQUIRE(f.sink.Of(Kind::kWorkload).size() == 1);
    CHECK(f.sink.Of(Kind::kWorkload)[0].body.GetString("metadata", "resourceVersion") == "1");
  }
  SECTION("it was stopped") {
    f.Reply(texts[0], 200, api::Encode(next.Active(false).Get()));
    CHECK(f.sink.Of(Kind::kWorkload).empty());
    CHECK_FALSE(f.controller.world().IsAssumed({"ns", "a"}));
  }
  SECTION("it leads no more") {
    f.controller.Step(state::LeaderChange{false}, f.now);
    CHECK_FALSE(f.controller.world().IsAssumed({"ns", "a"}));
    f.Reply(texts[0], 200, api::Encode(next.Get()));
    CHECK(f.sink.Of(Kind::kWorkload).empty());
  }
}

// An NTP step, or a virtual machine that goes on after a pause.
TEST_CASE("A clock that is set back makes nothing wait longer") {
  Fixture f;
  f.Pending("a", "3");
  f.Pending("b", "9");
  f.controller.Run(f.now);
  f.now += absl::Seconds(1);
  f.controller.Run(f.now);
  std::vector<state::Action> refused = std::exchange(f.sink.actions, {});
  REQUIRE(refused.size() > 3);
  for (const state::Action& action : refused) f.Reply(action, 500);
  f.controller.Run(f.now);
  REQUIRE(f.sink.actions.empty());
  f.now -= absl::Minutes(10);
  f.controller.Run(f.now);
  f.now += absl::Seconds(2);
  for (int i = 0; i < 3; ++i) f.controller.Run(f.now);
  // Each is tried again; of the admission it is asked what became of it.
  absl::btree_set<state::Ref> before;
  absl::btree_set<state::Ref> after;
  for (const state::Action& action : refused) before.insert({action.kind, action.key});
  for (const state::Action& action : f.sink.actions) after.insert({action.kind, action.key});
  CHECK(before == after);
  CHECK(f.controller.NextDue(f.now) == absl::InfiniteFuture());  // all of it is on its way
}

TEST_CASE("Events go on after the clock was set back") {
  EventRecorder recorder({});
  Note note{Kind::kWorkload, {"ns", "a"}, "uid", "kueue-admission", false, "Reason", "text"};
  REQUIRE(recorder.Record(note, build::At(1000)).has_value());
  note.message = "other";
  REQUIRE(recorder.Record(note, build::At(100)).has_value());
  note.message = "more";
  CHECK(recorder.Record(note, build::At(101)).has_value());
}

TEST_CASE("Nothing is kept about objects that went while nobody watched") {
  Fixture f;
  f.controller.Run(f.now);
  for (const state::Action& action : std::exchange(f.sink.actions, {})) f.Reply(action, 200);
  f.controller.Run(f.now);
  const size_t before = f.controller.remembered();
  for (int i = 0; i < 20; ++i) {
    const std::string name = "x" + std::to_string(i);
    f.Pending(name, "9");
    Json broken =
        api::Encode(build::Job("b" + std::to_string(i)).Uid(name).ResourceVersion("5").Get());
    broken["spec"].Set("parallelism", "many");
    f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kJob, broken}, f.now);
    f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kLocalQueue,
                                  api::Encode(build::LocalQueue(name, "cq").Get())},
                      f.now);
    f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kResourceFlavor,
                                  api::Encode(build::Flavor(name).ResourceVersion("7").Get())},
                      f.now);
  }
  for (int round = 0; round < 3; ++round) {
    f.now += absl::Seconds(1);
    f.controller.Run(f.now);
    for (const state::Action& action : std::exchange(f.sink.actions, {})) f.Reply(action, 500);
  }
  CHECK(f.controller.remembered() > before + 60);
  f.List(Kind::kWorkload, {});
  f.List(Kind::kJob, {});
  f.List(Kind::kLocalQueue, {api::Encode(build::LocalQueue("q", "cq").Get())});
  f.List(Kind::kResourceFlavor,
         {api::Encode(build::Flavor("default").Finalizer("kueue.x-k8s.io/resource-in-use").Get())});
  CHECK(f.controller.remembered() <= before + 4);  // of the queues that are still there
}

TEST_CASE("Why a Workload waits is said again where the write of it was refused") {
  Fixture f;
  f.Pending("a", "9");
  f.controller.Run(f.now);
  const auto writes = f.sink.Of(Kind::kWorkload);
  REQUIRE(writes.size() == 1);
  const int code = GENERATE(0, 409, 429, 500);
  CAPTURE(code);
  f.sink.actions.clear();
  f.Reply(writes[0], code);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kWorkload).empty());  // not at once
  f.now += absl::Minutes(1);
  f.controller.Run(f.now);
  f.controller.Run(f.now);
  const auto again = f.sink.Of(Kind::kWorkload);
  REQUIRE(again.size() == 1);
  const Json* conditions = again[0].body.Find("status", "conditions");
  REQUIRE(conditions != nullptr);
  CHECK(conditions->AsArray()[0].GetString("status") == "False");
}

TEST_CASE("A reply brings back nothing that is deleted, but shows what was made again") {
  const auto object = [](const char* version) {
    return api::Encode(
        build::Workload("a").Queue("q").Request("cpu", "1").ResourceVersion(version).Get());
  };
  for (const char* version : {"4", "5", "16"}) {
    Fixture f;
    f.Pending("a", "1");
    f.controller.Run(f.now);
    const auto writes = f.sink.Of(Kind::kWorkload);
    REQUIRE(writes.size() == 1);
    f.controller.Step(ObjectEvent{Type::kDelete, Kind::kWorkload, object("5")}, f.now);
    f.Reply(writes[0], 200, object(version));
    CAPTURE(version);
    CHECK(f.controller.world().workloads().Contains({"ns", "a"}) == (version == std::string("16")));
  }
}

TEST_CASE("A write that changed nothing is repeated ever later, or when its object changes") {
  Fixture f;
  const auto flavor = [](const std::string& version) {
    return api::Encode(build::Flavor("other").ResourceVersion(version).Get());
  };
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kResourceFlavor, flavor("7")}, f.now);
  const auto writes_after = [&](absl::Duration wait) {
    f.now += wait;
    f.controller.Run(f.now);
    const std::vector<state::Action> sent = f.sink.Of(Kind::kResourceFlavor);
    f.sink.actions.clear();
    for (const state::Action& action : sent) f.Reply(action, 200, flavor("7"));
    return sent.size();
  };
  CHECK(writes_after(absl::ZeroDuration()) == 1);  // its finalizer, which the answer does not have
  CHECK(writes_after(absl::Milliseconds(90)) == 0);
  CHECK(writes_after(absl::Milliseconds(20)) == 1);
  CHECK(writes_after(absl::Milliseconds(190)) == 0);
  CHECK(writes_after(absl::Milliseconds(20)) == 1);
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kResourceFlavor, flavor("8")}, f.now);
  CHECK(writes_after(absl::ZeroDuration()) == 1);
}

TEST_CASE("The status of a queue is written at most once a second") {
  Fixture f;
  f.controller.Run(f.now);
  for (const state::Action& action : f.sink.Of(Kind::kClusterQueue)) f.Reply(action, 200);
  for (const state::Action& action : f.sink.Of(Kind::kLocalQueue)) f.Reply(action, 200);
  f.sink.actions.clear();
  for (int i = 0; i < 5; ++i) {
    f.now += absl::Milliseconds(100);
    f.Pending("w" + std::to_string(i), "9");
    f.controller.Run(f.now);
  }
  CHECK(f.sink.Of(Kind::kClusterQueue).empty());
  f.now += absl::Seconds(1);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kClusterQueue).size() == 1);
}

TEST_CASE("Repeated notes become a series, and one object cannot flood the API server") {
  EventRecorder recorder({});
  Note note{Kind::kWorkload, {"ns", "a"}, "uid", "kueue-admission", false, "Reason", "text"};
  const auto first = recorder.Record(note, build::At(0));
  REQUIRE(first.has_value());
  CHECK(first->verb == state::Verb::kCreate);
  CHECK(first->best_effort);
  const auto second = recorder.Record(note, build::At(1));
  REQUIRE(second.has_value());
  CHECK(second->verb != state::Verb::kCreate);
  CHECK_FALSE(recorder.Record(note, build::At(2)).has_value());
  int written = 0;
  for (int i = 0; i < 100; ++i) {
    note.message = "text " + std::to_string(i);
    written += recorder.Record(note, build::At(3)).has_value() ? 1 : 0;
  }
  CHECK(written <= 25);
  CHECK(recorder.dropped() > 0);
}

TEST_CASE("An event that found no room is made by the next note like it") {
  OperatorOptions options;
  options.max_waiting_events = 1;
  Fixture f(true, options);
  const auto reject = [&](const char* name, const char* field) {
    Json job = api::Encode(build::Job(name).Queue("q").Uid(name).ResourceVersion("5").Get());
    job["spec"].Set(field, "many");
    f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kJob, job}, f.now);
  };
  std::vector<state::Verb> verbs;
  const auto run = [&] {
    f.now += absl::Seconds(1);
    f.controller.Run(f.now);
    for (const auto* actions : {&f.sink.actions, &f.sink.event_actions}) {
      for (const state::Action& action : *actions) f.Reply(action, 200);
    }
    for (const state::Action& action : f.sink.event_actions) verbs.push_back(action.verb);
    f.sink.actions.clear();
    f.sink.event_actions.clear();
  };
  run();
  reject("a", "parallelism");
  reject("b", "parallelism");  // there is no room for this one
  run();
  reject("b", "completions");
  run();
  reject("b", "parallelism");
  run();
  const std::vector<state::Verb> made(3, state::Verb::kCreate);
  CHECK(verbs == made);
}

// What cannot be read is still there: nothing may be concluded from its silence.
TEST_CASE("A Job that cannot be read keeps its Workload") {
  Fixture f;
  Json job = api::Encode(build::Job("j").Queue("q").Uid("job-uid").ResourceVersion("5").Get());
  job["spec"].Set("parallelism", "many");
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kJob, job}, f.now);
  CHECK(f.controller.rejected() == 1);
  const Json workload = api::Encode(build::Workload("w")
                                        .Queue("q")
                                        .Request("cpu", "1")
                                        .ResourceVersion("6")
                                        .Finalizer("kueue.x-k8s.io/resource-in-use")
                                        .OwnedBy("batch/v1", "Job", "j", "job-uid")
                                        .Admitted("cq", "default")
                                        .Get());
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kWorkload, workload}, f.now);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kWorkload).empty());
  CHECK(f.sink.Of(Kind::kJob).empty());
  CHECK(f.controller.world().ClusterQueueTotals("cq").admitted == 1);
}

TEST_CASE("A Workload that cannot be read holds its quota and is never admitted") {
  Fixture f;
  Json waiting =
      api::Encode(build::Workload("a").Queue("q").Request("cpu", "1").ResourceVersion("5").Get());
  waiting["spec"].Set("podSets", "many");
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kWorkload, waiting}, f.now);
  Json holding = api::Encode(build::Workload("b")
                                 .Queue("q")
                                 .Request("cpu", "3")
                                 .ResourceVersion("6")
                                 .Admitted("cq", "default")
                                 .Get());
  holding["spec"].Set("podSets", "many");
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kWorkload, holding}, f.now);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kWorkload).empty());
  CHECK(f.controller.world().ClusterQueueTotals("cq").reservation ==
        build::Amounts({{{"default", "cpu"}, 3000}}));
  // The next version is readable again.
  f.Pending("a", "1");
  CHECK(f.controller.world().queues().size() == 0);  // an older version changes nothing
  waiting =
      api::Encode(build::Workload("a").Queue("q").Request("cpu", "1").ResourceVersion("7").Get());
  f.controller.Step(ObjectEvent{Type::kUpsert, Kind::kWorkload, waiting}, f.now);
  f.controller.Run(f.now);
  CHECK(f.sink.Of(Kind::kWorkload).size() == 1);
}

TEST_CASE("A Workload is looked at when its pods must be ready, and not once they are") {
  // Without queues there is nothing else to do.
  const state::Settings settings;
  Sink sink;
  Operator controller(settings, {}, sink, nullptr);
  absl::Time now = build::At(10);
  for (const Kind kind : state::World::WatchedKinds()) {
    controller.Step(ObjectEvent{Type::kListBegin, kind, {}}, now);
    controller.Step(ObjectEvent{Type::kListEnd, kind, {}}, now);
  }
  controller.Step(state::LeaderChange{true}, now);
  int version = 100;
  const auto put = [&](build::Workload workload) {
    workload.Queue("q").Request("cpu", "1").ResourceVersion(std::to_string(++version));
    controller.Step(ObjectEvent{Type::kUpsert, Kind::kWorkload, api::Encode(workload.Get())}, now);
    for (int i = 0; i < 3; ++i) controller.Run(now);
    CHECK(sink.actions.empty());
  };
  const auto admitted = [] { return build::Workload("a").Admitted("cq", "default", build::At(5)); };
  const auto ready = [&](api::ConditionStatus status, const char* reason, double at) {
    return admitted().Condition(api::kPodsReady, status, reason, build::At(at));
  };
  const auto after = [](double seconds) { return build::At(seconds) + absl::Minutes(30); };
  put(admitted());
  CHECK(controller.NextDue(now) == after(5));
  put(ready(api::ConditionStatus::kTrue, "Started", 6));
  CHECK(controller.NextDue(now) == absl::InfiniteFuture());
  put(ready(api::ConditionStatus::kFalse, "WaitForRecovery", 8));
  CHECK(controller.NextDue(now) == after(8));
  now = after(8);
  controller.Run(now);
  REQUIRE(sink.Of(Kind::kWorkload).size() == 1);
  CHECK(sink.Of(Kind::kWorkload)[0].body.Find("status", "requeueState", "count")->AsInt() == 1);
}

}  // namespace
}  // namespace sluice::reconcile
