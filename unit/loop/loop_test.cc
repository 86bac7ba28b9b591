#include "loop/loop.h"

#include <fmt/format.h>

#include <deque>
#include <sstream>
#include <thread>

#include "api/codec.h"
#include "loop/inbox.h"
#include "loop/questions.h"
#include "state/recording.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::loop {
namespace {

state::ObjectEvent Upsert(api::Kind kind, api::Json object) {
  return {state::ObjectEvent::Type::kUpsert, kind, std::move(object)};
}

// A stream in which one Workload waits in a queue that has room.
std::vector<state::Event> SmallStream() {
  std::vector<state::Event> events;
  const auto list = [&](api::Kind kind, std::vector<api::Json> objects) {
    events.emplace_back(std::in_place_type<state::ObjectEvent>,
                        state::ObjectEvent{state::ObjectEvent::Type::kListBegin, kind, {}});
    for (api::Json& object : objects) events.emplace_back(Upsert(kind, std::move(object)));
    events.emplace_back(std::in_place_type<state::ObjectEvent>,
                        state::ObjectEvent{state::ObjectEvent::Type::kListEnd, kind, {}});
  };
  for (const api::Kind kind : state::World::WatchedKinds()) {
    std::vector<api::Json> objects;
    if (kind == api::Kind::kNamespace) {
      objects.push_back(api::Encode<api::Namespace>(build::Namespace("ns")));
    } else if (kind == api::Kind::kResourceFlavor) {
      objects.push_back(api::Encode<api::ResourceFlavor>(build::Flavor("default")));
    } else if (kind == api::Kind::kClusterQueue) {
      objects.push_back(api::Encode<api::ClusterQueue>(
          build::ClusterQueue("cq").Flavor("default", {{"cpu", "4"}})));
    } else if (kind == api::Kind::kLocalQueue) {
      objects.push_back(api::Encode<api::LocalQueue>(build::LocalQueue("q", "cq")));
    } else if (kind == api::Kind::kWorkload) {
      objects.push_back(
          api::Encode<api::Workload>(build::Workload("w").Queue("q").Request("cpu", "2")));
    }
    list(kind, std::move(objects));
  }
  events.emplace_back(std::in_place_type<state::LeaderChange>, state::LeaderChange{true});
  return events;
}

TEST_CASE("events survive being recorded") {
  for (const state::Event& event : SmallStream()) {
    const std::string line = state::EncodeEvent(event, build::At(1.5));
    const auto back = state::DecodeLine(line);
    REQUIRE(back.ok());
    CHECK(back->time == build::At(1.5));
    CHECK(state::EncodeEvent(*back->event, back->time) == line);
  }
  state::Reply reply;
  reply.action_id = 7;
  reply.code = 409;
  reply.reason = "Conflict";
  reply.message = "a \"quoted\" text";
  const std::string line = state::EncodeEvent(reply, build::Epoch());
  const auto back = state::DecodeLine(line);
  REQUIRE(back.ok());
  CHECK(std::get<state::Reply>(*back->event).message == reply.message);
}

TEST_CASE("lines that are no events are refused with a reason") {
  CHECK_FALSE(state::DecodeLine("{").ok());
  CHECK_FALSE(state::DecodeLine("{}").ok());
  CHECK_FALSE(state::DecodeLine(R"({"time":"2026-01-01T00:00:00Z"})").ok());
  const auto unknown = state::DecodeLine(
      R"({"time":"2026-01-01T00:00:00Z","object":{"type":"upsert","group":"","kind":"Nothing"}})");
  REQUIRE_FALSE(unknown.ok());
  CHECK(std::string(unknown.status().message()).find("Nothing") != std::string::npos);
}

TEST_CASE("a replay makes the decision that was made, and the same one each time") {
  std::string text;
  for (const state::Event& event : SmallStream()) {
    text += state::EncodeEvent(event, build::At(10)) + "\n";
  }
  text += state::EncodeRun(build::At(10)) + "\n";
  std::vector<std::string> outputs;
  for (int i = 0; i < 2; ++i) {
    std::istringstream recording(text);
    std::ostringstream out;
    REQUIRE(Replay(recording, state::Settings{}, out).ok());
    outputs.push_back(out.str());
  }
  CHECK(outputs[0] == outputs[1]);
  CHECK(outputs[0].find("admit ns/w: cq") != std::string::npos);
  CHECK(outputs[0].find("apply Workload ns/w/status") != std::string::npos);
  std::istringstream broken("\n{\n");
  std::ostringstream out;
  CHECK(std::string(Replay(broken, state::Settings{}, out).message()).find("line 2") == 0);
}

class FixedClock : public Clock {
 public:
  absl::Time Now() const override { return now; }
  absl::Time now = absl::FromUnixSeconds(1'800'000'000);
};

// Refuses each write at first, and notes them; nothing is waited for.
class RefusingApiServer : public state::ActionSink, public state::EventSource {
 public:
  std::optional<state::Event> Next(absl::Time) override {
    if (events.empty()) return std::nullopt;
    state::Event event = std::move(events.front());
    events.pop_front();
    return event;
  }
  void Submit(state::Action action) override {
    writes.push_back(fmt::format("#{} {}", action.id, action.key.ToString()));
    if (writes.size() > 20) return;  // the others are on their way when the process dies
    state::Reply reply;
    reply.action_id = action.id;
    reply.code = 503;
    reply.reason = "ServiceUnavailable";
    events.emplace_back(std::move(reply));
  }
  std::vector<std::string> writes;
  std::deque<state::Event> events;
};

TEST_CASE("what was recorded is replayed write by write, also what came by time alone") {
  RefusingApiServer server;
  reconcile::Operator op(state::Settings{}, {}, server, nullptr);
  FixedClock clock;
  std::string text;
  int batches = 0;
  int without_event = 0;
  bool event_came = false;
  LoopHooks hooks;
  hooks.on_event = [&](const state::Event& event, absl::Time now) {
    text += state::EncodeEvent(event, now) + "\n";
    event_came = true;
  };
  hooks.on_run = [&](absl::Time now) {
    text += state::EncodeRun(now) + "\n";
    if (!std::exchange(event_came, false)) ++without_event;
  };
  hooks.heartbeat = absl::ZeroDuration();
  hooks.after_batch = [&](const reconcile::Operator&, absl::Time, absl::Duration) {
    clock.now += absl::Milliseconds(37);
    ++batches;
  };
  hooks.stop = [&] { return batches == 2000; };
  for (state::Event& event : SmallStream()) server.events.push_back(std::move(event));
  RunLoop(op, server, clock, hooks);
  REQUIRE(server.writes.size() > 20);
  CHECK(without_event > 0);

  std::istringstream recording(text);
  std::ostringstream out;
  REQUIRE(Replay(recording, state::Settings{}, out).ok());
  std::vector<std::string> replayed;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    const size_t number = line.find("  #");
    if (number != 0) continue;
    std::istringstream words(line);
    std::string id, verb, kind, key;
    words >> id >> verb >> kind >> key;
    replayed.push_back(id + " " + key.substr(0, key.rfind("/status")));
  }
  CHECK(replayed == server.writes);
}

TEST_CASE("events that come soon after a batch are gathered, later ones are not") {
  class Nowhere : public state::ActionSink {
    void Submit(state::Action) override {}
  } sink;
  reconcile::Operator op(state::Settings{}, {}, sink, nullptr);
  Inbox inbox(100);
  FixedClock clock;
  std::vector<absl::Duration> pauses;
  std::vector<int> batches;
  int seen = 0;
  LoopHooks hooks;
  hooks.gather = absl::Milliseconds(10);
  hooks.on_event = [&](const state::Event&, absl::Time) { ++seen; };
  hooks.pause = [&](absl::Duration rest) {
    pauses.push_back(rest);
    clock.now += rest;
    inbox.Push(state::LeaderChange{true});
  };
  hooks.after_batch = [&](const reconcile::Operator&, absl::Time, absl::Duration) {
    batches.push_back(std::exchange(seen, 0));
    clock.now += batches.size() == 1 ? absl::Milliseconds(4) : absl::Milliseconds(30);
    if (batches.size() < 3) inbox.Push(state::LeaderChange{true});
  };
  hooks.stop = [&] { return batches.size() == 3; };
  inbox.Push(state::LeaderChange{true});
  RunLoop(op, inbox, clock, hooks);
  CHECK(batches == std::vector<int>{1, 2, 1});
  CHECK(pauses == std::vector<absl::Duration>{absl::Milliseconds(6)});
}

TEST_CASE("nothing is decided once the loop is asked to end, whatever it has just taken in") {
  struct Counter : public state::ActionSink {
    void Submit(state::Action) override { ++writes; }
    int writes = 0;
  };
  for (const bool ends : {true, false}) {
    Counter sink;
    reconcile::Operator op(state::Settings{}, {}, sink, nullptr);
    Inbox inbox(1000);
    for (state::Event& event : SmallStream()) inbox.Push(std::move(event));
    FixedClock clock;
    bool asked = false;
    int batches = 0;
    LoopHooks hooks;
    hooks.on_event = [&](const state::Event& event, absl::Time) {
      if (ends && std::holds_alternative<state::LeaderChange>(event)) asked = true;
    };
    hooks.after_batch = [&](const reconcile::Operator&, absl::Time, absl::Duration) {
      ++batches;
      asked = true;
    };
    hooks.stop = [&] { return asked; };
    RunLoop(op, inbox, clock, hooks);
    CHECK(batches == (ends ? 0 : 1));
    CHECK((sink.writes == 0) == ends);
  }
}

TEST_CASE("the inbox keeps order, holds its bound and ends when closed") {
  Inbox inbox(2);
  CHECK(inbox.Push(state::LeaderChange{true}));
  CHECK(inbox.Push(state::LeaderChange{false}));
  state::Event too_much = state::LeaderChange{true};
  CHECK_FALSE(inbox.TryPush(too_much));
  CHECK(std::get<state::LeaderChange>(too_much).leading);
  bool third = false;
  std::thread pusher([&] { third = inbox.Push(state::LeaderChange{true}); });
  const auto first = inbox.Next(absl::InfiniteFuture());
  REQUIRE(first);
  CHECK(std::get<state::LeaderChange>(*first).leading);
  pusher.join();
  CHECK(third);
  CHECK(inbox.size() == 2);
  inbox.Close();
  CHECK_FALSE(inbox.Push(state::LeaderChange{true}));
  CHECK(inbox.Next(absl::InfinitePast()));
  CHECK(inbox.Next(absl::InfinitePast()));
  CHECK_FALSE(inbox.Next(absl::InfiniteFuture()));
  // Nobody waits for what comes after the end.
  CHECK(inbox.TryPush(too_much));
  CHECK(inbox.size() == 0);
}

TEST_CASE("questions wake the loop, are answered a few at a time, and turned away when too many") {
  Inbox inbox;
  Questions questions([&] { inbox.Wake(); }, [] { return build::At(0); });
  state::World world{state::Settings()};
  int answered = 0;
  const auto ask = [&] {
    return questions.Ask([&](state::World& asked, absl::Time now) {
      CHECK(&asked == &world);
      CHECK(now == build::At(5));
      ++answered;
    });
  };
  for (size_t i = 0; i < Questions::kMostWaiting; ++i) CHECK(ask());
  CHECK_FALSE(ask());
  // The wait ends though no event has come.
  CHECK_FALSE(inbox.Next(absl::InfiniteFuture()).has_value());
  questions.Answer(world, build::At(5));
  CHECK(answered > 0);
  CHECK(answered <= Questions::kMostAtOnce);                    // fewer on a machine that is busy
  CHECK_FALSE(inbox.Next(absl::InfiniteFuture()).has_value());  // the rest has woken it again
  while (answered < static_cast<int>(Questions::kMostWaiting)) {
    questions.Answer(world, build::At(5));
  }
  CHECK(ask());
  questions.Close();
  questions.Answer(world, build::At(5));
  CHECK(answered == static_cast<int>(Questions::kMostWaiting));
  CHECK_FALSE(ask());
}

TEST_CASE("questions that take long hold up the loop one at a time") {
  int woken = 0;
  absl::Time clock = build::At(0);
  std::vector<absl::Duration> held;
  Questions questions([&] { ++woken; }, [&] { return clock; },
                      [&](absl::Duration time) { held.push_back(time); });
  state::World world{state::Settings()};
  questions.Answer(world, build::At(5));
  CHECK(held.empty());  // there were none
  int answered = 0;
  for (int i = 0; i < 3; ++i) {
    questions.Ask([&](state::World&, absl::Time) {
      clock += Questions::kMostTime + absl::Milliseconds(1);
      ++answered;
    });
  }
  for (int batch = 1; batch <= 3; ++batch) {
    questions.Answer(world, build::At(5));
    CHECK(answered == batch);
  }
  CHECK(held == std::vector<absl::Duration>(3, Questions::kMostTime + absl::Milliseconds(1)));
  CHECK(woken == 3 + 2);  // once for each, and for the rest after the first and the second
}

}  // namespace
}  // namespace sluice::loop
