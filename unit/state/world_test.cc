#include "state/world.h"

#include <limits>

#include "api/codec.h"
#include "api/names.h"
#include "state/recording.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Json;
using api::Kind;
using Type = ObjectEvent::Type;

class Fixture {
 public:
  Fixture() : world(settings) {}

  template <typename T>
  std::optional<Rejection> Put(Kind kind, const T& object) {
    return world.Apply({Type::kUpsert, kind, api::Encode(object)}, build::At(0), touched);
  }
  void Base() {
    Put(Kind::kNamespace, build::Namespace("ns").Get());
    Put(Kind::kResourceFlavor, build::Flavor("default").Get());
    Put(Kind::kClusterQueue, build::ClusterQueue("cq").Flavor("default", {{"cpu", "4"}}).Get());
    Put(Kind::kLocalQueue, build::LocalQueue("q", "cq").Get());
  }

  Settings settings;
  World world;
  Refs touched;
};

TEST_CASE("A World is synced when every kind has been listed") {
  Fixture f;
  CHECK_FALSE(f.world.Synced());
  for (const Kind kind : World::WatchedKinds()) {
    CHECK_FALSE(f.world.Synced());
    f.world.Apply({Type::kListBegin, kind, {}}, build::At(0), f.touched);
    f.world.Apply({Type::kListEnd, kind, {}}, build::At(0), f.touched);
  }
  CHECK(f.world.Synced());
}

TEST_CASE("A list removes what did not come") {
  Fixture f;
  f.Base();
  f.Put(Kind::kWorkload, build::Workload("a").Queue("q").Request("cpu", "1").Get());
  CHECK(f.world.queues().Pending("cq").Total() == 1);
  f.world.Apply({Type::kListBegin, Kind::kWorkload, {}}, build::At(1), f.touched);
  f.world.Apply({Type::kListEnd, Kind::kWorkload, {}}, build::At(1), f.touched);
  CHECK(f.world.workloads().size() == 0);
  CHECK(f.world.queues().Pending("cq").Total() == 0);
}

// A ghost would hold quota until the next list, and what came since would give it to others.
TEST_CASE("A list keeps what only a reply has shown where that is newer, and nothing else") {
  Fixture f;
  f.Base();
  const auto answer = [&](const char* name, const char* version) {
    const auto object = build::Workload(name)
                            .Queue("q")
                            .Request("cpu", "1")
                            .Admitted("cq", "default")
                            .ResourceVersion(version)
                            .Get();
    f.world.Apply({Type::kUpsert, Kind::kWorkload, api::Encode(object), true}, build::At(1),
                  f.touched);
  };
  const auto names = [&] {
    std::string text;
    for (const auto& [key, workload] : f.world.workloads().all()) text += key.name;
    return text;
  };
  answer("a", "99");   // deleted before the list was taken
  answer("b", "101");  // written after it, and answered before its first page
  f.world.Apply({Type::kListBegin, Kind::kWorkload, {}}, build::At(1), f.touched);
  answer("c", "98");
  answer("d", "102");
  CHECK(f.world.ClusterQueueTotals("cq").reserving == 4);
  Json end;
  SECTION("the list says of which version it is") {
    end = Json::MakeObject({{"metadata", Json::MakeObject({{"resourceVersion", "100"}})}});
    f.touched.clear();
    f.world.Apply({Type::kListEnd, Kind::kWorkload, end}, build::At(1), f.touched);
    CHECK(names() == "bd");
    CHECK(f.touched.contains(Ref{Kind::kWorkload, {"ns", "c"}}));
  }
  SECTION("it does not") {
    f.world.Apply({Type::kListEnd, Kind::kWorkload, end}, build::At(1), f.touched);
    CHECK(names() == "cd");
  }
  CHECK(f.world.ClusterQueueTotals("cq").reserving == 2);
}

TEST_CASE("A Workload that is said to be missing is not queued until an event or the end of time") {
  Fixture f;
  f.Base();
  const auto pending = build::Workload("a").Queue("q").Request("cpu", "3").ResourceVersion("1");
  f.Put(Kind::kWorkload, pending.Get());
  auto admitted = pending;
  f.world.Assume(admitted.Admitted("cq", "default").Shared());
  f.world.ForgetMissing({"ns", "a"}, build::At(30), build::At(1), f.touched);
  CHECK(f.world.ClusterQueueTotals("cq").reserving == 0);
  CHECK(f.world.queues().Pending("cq").Total() == 0);
  CHECK(f.world.NextRelease() == build::At(30));
  SECTION("it was made again") {
    auto again = pending;
    f.Put(Kind::kWorkload, again.ResourceVersion("5").Get());
  }
  SECTION("nothing comes") {
    f.world.RunReleases(build::At(29));
    CHECK(f.world.queues().Pending("cq").Total() == 0);
    f.world.RunReleases(build::At(30));
  }
  CHECK(f.world.queues().Pending("cq").Total() == 1);
  CHECK_FALSE(f.world.NextRelease().has_value());
}

TEST_CASE("An object older than the one held is ignored") {
  Fixture f;
  f.Base();
  f.Put(
      Kind::kWorkload,
      build::Workload("a").Queue("q").Request("cpu", "1").ResourceVersion("10").Priority(5).Get());
  f.Put(Kind::kWorkload,
        build::Workload("a").Queue("q").Request("cpu", "1").ResourceVersion("9").Priority(1).Get());
  CHECK(f.world.workloads().Find({"ns", "a"})->spec.priority == 5);
}

TEST_CASE("An assumed admission counts until it is confirmed or forgotten") {
  Fixture f;
  f.Base();
  const auto pending = build::Workload("a").Queue("q").Request("cpu", "3").ResourceVersion("1");
  f.Put(Kind::kWorkload, pending.Get());
  auto admitted = build::Workload("a").Queue("q").Request("cpu", "3").ResourceVersion("1");
  admitted.Admitted("cq", "default");
  f.world.Assume(admitted.Shared());
  CHECK(f.world.IsAssumed({"ns", "a"}));
  CHECK(f.world.ClusterQueueTotals("cq").reserving == 1);
  CHECK(f.world.queues().Pending("cq").Total() == 0);

  SECTION("forgotten") {
    f.world.Forget({"ns", "a"}, build::At(1), f.touched);
    CHECK(f.world.ClusterQueueTotals("cq").reserving == 0);
    CHECK(f.world.queues().Pending("cq").Total() == 1);
  }
  SECTION("confirmed") {
    f.Put(Kind::kWorkload, admitted.ResourceVersion("2").Get());
    CHECK_FALSE(f.world.IsAssumed({"ns", "a"}));
    CHECK(f.world.ClusterQueueTotals("cq").reserving == 1);
    CHECK(f.world.ClusterQueueTotals("cq").admitted == 1);
  }
  SECTION("deleted meanwhile") {
    f.world.Apply({Type::kDelete, Kind::kWorkload, api::Encode(pending.Get())}, build::At(1),
                  f.touched);
    CHECK_FALSE(f.world.IsAssumed({"ns", "a"}));
    CHECK(f.world.ClusterQueueTotals("cq").reserving == 0);
  }
}

TEST_CASE("A total beyond all numbers stops there and comes back") {
  Fixture f;
  f.Base();
  const auto put = [&](const char* name, const char* cpu) {
    f.Put(Kind::kWorkload,
          build::Workload(name).Queue("q").Request("cpu", cpu).Admitted("cq", "default").Get());
  };
  const auto gone = [&](const char* name) {
    const auto workload = build::Workload(name).Queue("q").Request("cpu", "1");
    f.world.Apply({Type::kDelete, Kind::kWorkload, api::Encode(workload.Get())}, build::At(1),
                  f.touched);
  };
  const auto held = [&] {
    const QueueTotals& queue = f.world.LocalQueueTotals({"ns", "q"});
    CHECK(queue.usage == f.world.ClusterQueueTotals("cq").usage);
    CHECK(queue.reservation == queue.usage);
    const auto found = queue.usage.find({"default", "cpu"});
    return found == queue.usage.end() ? 0 : found->second;
  };
  put("small", "1");
  put("large", "9e15");
  put("huge", "9e15");
  CHECK(held() == std::numeric_limits<int64_t>::max());
  gone("large");
  CHECK(held() == 9'000'000'000'000'001'000);
  gone("huge");
  CHECK(held() == 1000);
  gone("small");
  CHECK(held() == 0);
}

TEST_CASE("An object that cannot be read is rejected and stops nothing") {
  Fixture f;
  f.Base();
  api::Json broken = api::Encode(build::ClusterQueue("cq").Flavor("default", {{"cpu", "4"}}).Get());
  broken["metadata"].Set("resourceVersion", "99");
  broken["spec"].Set("resourceGroups", "many");
  const auto rejected =
      f.world.Apply({Type::kUpsert, Kind::kClusterQueue, broken}, build::At(1), f.touched);
  REQUIRE(rejected.has_value());
  CHECK(rejected->ref.key.name == "cq");
  CHECK(rejected->error.find("spec.resourceGroups") != std::string::npos);
  CHECK(f.world.cluster_queues().Contains({"", "cq"}));
}

TEST_CASE("Objects may come in any order") {
  Fixture forward;
  forward.Base();
  forward.Put(Kind::kWorkload, build::Workload("a").Queue("q").Request("cpu", "1").Get());
  Fixture backward;
  backward.Put(Kind::kWorkload, build::Workload("a").Queue("q").Request("cpu", "1").Get());
  backward.Put(Kind::kLocalQueue, build::LocalQueue("q", "cq").Get());
  backward.Put(Kind::kClusterQueue,
               build::ClusterQueue("cq").Flavor("default", {{"cpu", "4"}}).Get());
  backward.Put(Kind::kResourceFlavor, build::Flavor("default").Get());
  backward.Put(Kind::kNamespace, build::Namespace("ns").Get());
  CHECK(forward.world.ActivityOf("cq") == backward.world.ActivityOf("cq"));
  CHECK(forward.world.queues().Pending("cq") == backward.world.queues().Pending("cq"));
  CHECK(backward.world.ActivityOf("cq").active);
}

TEST_CASE("Recorded events come back as they were") {
  const Event events[] = {
      ObjectEvent{Type::kUpsert, Kind::kWorkload, api::Encode(build::Workload("a").Get())},
      ObjectEvent{Type::kListBegin, Kind::kJob, {}},
      ObjectEvent{Type::kBookmark, Kind::kJob, {}},
      LeaderChange{true},
      LeaderChange{true, {{Kind::kWorkload, "17"}, {Kind::kCreditAccount, "18"}}},
      Reply{7, 409, "Conflict", "text", {}, {}},
      Reply{7, 429, "TooManyRequests", "text", absl::Seconds(9), {}}};
  for (const Event& event : events) {
    const std::string line = EncodeEvent(event, build::At(1.5));
    CHECK(line.find('\n') == std::string::npos);
    const auto back = DecodeLine(line);
    REQUIRE(back.ok());
    CHECK(back->time == build::At(1.5));
    CHECK(back->event->index() == event.index());
    CHECK(EncodeEvent(*back->event, back->time) == line);
  }
  CHECK_FALSE(DecodeLine("{").ok());
  CHECK_FALSE(DecodeLine("{}").ok());
}

TEST_CASE("Workloads that hold quota without ready pods are counted") {
  Fixture f;
  f.Base();
  int version = 10;
  const auto make = [&](const std::string& name) {
    build::Workload workload(name);
    workload.Queue("q").Uid(name).Request("cpu", "1").ResourceVersion(std::to_string(++version));
    return workload;
  };
  const auto ready = [](build::Workload workload) {
    return workload.Condition(api::kPodsReady, api::ConditionStatus::kTrue, "Started",
                              build::At(1));
  };
  f.Put(Kind::kWorkload, make("a").Get());
  CHECK(f.world.WorkloadsNotReady() == 0);
  f.world.Assume(make("a").Admitted("cq", "default").Shared());
  CHECK(f.world.WorkloadsNotReady() == 1);
  f.Put(Kind::kWorkload, make("a").Admitted("cq", "default").Get());
  f.Put(Kind::kWorkload, make("b").Reserved("cq", "default").Get());
  CHECK(f.world.WorkloadsNotReady() == 2);
  const QueueTotals before = f.world.ClusterQueueTotals("cq");
  f.touched.clear();
  f.Put(Kind::kWorkload, ready(make("a").Admitted("cq", "default")).Get());
  CHECK(f.world.WorkloadsNotReady() == 1);
  // Readiness is no part of what the queues show.
  CHECK(f.world.ClusterQueueTotals("cq") == before);
  CHECK(f.touched == Refs{{Kind::kWorkload, {"ns", "a"}}});
  f.Put(Kind::kWorkload, make("a").Admitted("cq", "default").Get());
  CHECK(f.world.WorkloadsNotReady() == 2);
  f.Put(Kind::kWorkload, make("a").Admitted("cq", "default").Finished().Get());
  CHECK(f.world.WorkloadsNotReady() == 1);
  f.Put(Kind::kWorkload, make("b").Reserved("cq", "default").Active(false).Get());
  CHECK(f.world.WorkloadsNotReady() == 0);
  f.Put(Kind::kWorkload, make("b").Reserved("cq", "default").Get());
  CHECK(f.world.WorkloadsNotReady() == 1);
  f.world.Apply({Type::kListBegin, Kind::kWorkload, {}}, build::At(2), f.touched);
  f.world.Apply({Type::kListEnd, Kind::kWorkload, {}}, build::At(2), f.touched);
  CHECK(f.world.WorkloadsNotReady() == 0);
}

}  // namespace
}  // namespace sluice::state
