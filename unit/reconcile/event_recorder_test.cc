#include "reconcile/event_recorder.h"

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

Note MakeNote(const std::string& message, const std::string& uid = "u1") {
  return {api::Kind::kWorkload, {"ns", "w"}, uid, "kueue-admission", false, "Admitted", message};
}

TEST_CASE("the first note of a kind is an event of its own") {
  EventRecorder recorder({});
  const auto action = recorder.Record(MakeNote("hello"), build::At(1));
  REQUIRE(action);
  CHECK(action->verb == state::Verb::kCreate);
  CHECK(action->best_effort);
  CHECK(action->body.GetString("note") == "hello");
  CHECK(action->body.GetString("type") == "Normal");
  CHECK(action->body.GetString("eventTime") == "2026-01-01T00:00:01.000000Z");
  CHECK(action->body.GetString("regarding", "uid") == "u1");
  CHECK(action->key.ns == "ns");
}

TEST_CASE("a repeated note becomes a series that is seldom written") {
  EventRecorder recorder({});
  const auto first = recorder.Record(MakeNote("again"), build::At(0));
  const auto second = recorder.Record(MakeNote("again"), build::At(1));
  REQUIRE(second);
  CHECK(second->verb == state::Verb::kMergePatch);
  CHECK(second->key == first->key);
  CHECK(second->body.Find("series", "count")->AsInt() == 2);
  for (int i = 2; i < 100; ++i) CHECK_FALSE(recorder.Record(MakeNote("again"), build::At(i)));
  // After six quiet minutes it is a new event.
  const auto later = recorder.Record(MakeNote("again"), build::At(100 + 361));
  REQUIRE(later);
  CHECK(later->verb == state::Verb::kCreate);
  CHECK(!(later->key == first->key));
}

TEST_CASE("an object's budget bounds what it can cause, and refills") {
  EventRecorder recorder({});
  int written = 0;
  for (int i = 0; i < 100; ++i) {
    written += recorder.Record(MakeNote("n" + std::to_string(i)), build::At(0)) ? 1 : 0;
  }
  CHECK(written == 25);
  CHECK(recorder.dropped() == 75);
  CHECK(recorder.Record(MakeNote("another object", "u2"), build::At(0)));
  CHECK(recorder.Record(MakeNote("later"), build::At(301)));
  CHECK_FALSE(recorder.Record(MakeNote("too soon"), build::At(302)));
}

TEST_CASE("a long note is cut to what the API accepts") {
  EventRecorder recorder({});
  const auto action = recorder.Record(MakeNote(std::string(5000, 'x')), build::At(0));
  CHECK(action->body.GetString("note").size() == api::kMaxEventMessage);
}

}  // namespace
}  // namespace sluice::reconcile
