// A follower sees what the leader sees, and answers questions as the leader does.
#include <fmt/format.h>

#include <deque>
#include <memory>
#include <string>

#include "api/json.h"
#include "reconcile/operator.h"
#include "reconcile/what_if.h"
#include "sim/api_server.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using api::Kind;
using build::At;
using Type = state::ObjectEvent::Type;

// It must write nothing.
struct Nobody : state::ActionSink {
  void Submit(state::Action action) override { FAIL("a follower writes " << action.key.name); }
};

// Two replicas beside one API server that answers at once.
class Pair : public state::ActionSink {
 public:
  explicit Pair(const state::Settings& settings)
      : api_(settings, {}),
        leader_(settings, {}, *this, nullptr),
        follower_(settings, {}, nobody_, nullptr) {
    api_.SetListener([this](const state::ObjectEvent& event) {
      if (leader_.world().Watches(event.kind)) events_.emplace_back(event);
    });
    for (const Kind kind : state::World::WatchedKinds(settings)) {
      Both(state::ObjectEvent{Type::kListBegin, kind, {}});
      for (Json& object : api_.List(kind)) {
        Both(state::ObjectEvent{Type::kUpsert, kind, std::move(object)});
      }
      Both(state::ObjectEvent{Type::kListEnd, kind, {}});
    }
    leader_.Step(state::LeaderChange{true}, now);
  }

  void Submit(state::Action action) override { events_.emplace_back(api_.Execute(action, now)); }

  void Create(const Json& object) {
    state::Action action;
    action.verb = state::Verb::kCreate;
    const std::string version = object.GetString("apiVersion");
    action.kind =
        api::FindKind(version.substr(0, version.find('/')), object.GetString("kind"))->kind;
    action.key = {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
    action.body = object;
    const state::Reply reply = api_.Execute(action, now);
    INFO(reply.message);
    REQUIRE(reply.ok());
    Settle();
  }
  // Minute by minute, so that samples are taken.
  void Wait(int minutes) {
    for (int i = 0; i < minutes; ++i) {
      now += absl::Minutes(1);
      Settle();
    }
  }
  // The answers of both, which are the same.
  Json Ask(const Json& object) {
    PrepareToAsk(follower_.asked_world(), now);
    const auto answer = [&](Operator& replica) {
      const auto found = AskWhatIf(replica.asked_world(), object, "", now, WithForecast::kYes);
      REQUIRE(found.ok());
      Json json = WhatIfJson(*found);
      json.Erase("judged");  // how many looks it took: a leader has judged many of them before
      return json;
    };
    Json leaders = answer(leader_);
    CHECK(answer(follower_).Text() == leaders.Text());
    return leaders;
  }

  absl::Time now = At(0);

 private:
  void Both(const state::ObjectEvent& event) {
    leader_.Step(event, now);
    follower_.Step(event, now);
  }
  void Settle() {
    leader_.Run(now);
    follower_.Run(now);
    while (!events_.empty()) {
      const state::Event event = std::move(events_.front());
      events_.pop_front();
      leader_.Step(event, now);
      if (std::holds_alternative<state::ObjectEvent>(event)) follower_.Step(event, now);
      leader_.Run(now);
      follower_.Run(now);
    }
  }

  sim::ApiServer api_;
  Nobody nobody_;
  Operator leader_;
  Operator follower_;
  std::deque<state::Event> events_;
};

Json Object(const std::string& kind, const std::string& name, const std::string& spec,
            const std::string& ns = "") {
  const std::string group =
      kind == "CreditPolicy" ? "sluice.dev/v1alpha1" : "kueue.x-k8s.io/v1beta2";
  return *api::ParseJson(fmt::format(
      R"({{"apiVersion":"{}","kind":"{}","metadata":{{"name":"{}"{}}},"spec":{}}})", group, kind,
      name, ns.empty() ? "" : fmt::format(R"(,"namespace":"{}")", ns), spec));
}

Json Workload(const std::string& name, const std::string& queue, int cpu, int priority = 0) {
  return Object(
      "Workload", name,
      fmt::format(
          R"({{"queueName":"{}","priority":{},"podSets":[{{"name":"main","count":1,"template":)"
          R"({{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i",)"
          R"("resources":{{"requests":{{"cpu":"{}"}}}}}}]}}}}}}]}})",
          queue, priority, cpu),
      "default");
}

void MakeQueues(Pair& pair) {
  pair.Create(Object("ResourceFlavor", "f", "{}"));
  pair.Create(Object("Cohort", "org", "{}"));
  for (const char* name : {"one", "two"}) {
    pair.Create(
        Object("ClusterQueue", name,
               R"({"cohortName":"org","namespaceSelector":{},"preemption":{"withinClusterQueue":)"
               R"("LowerPriority","reclaimWithinCohort":"Any"},"admissionScope":{"admissionMode":)"
               R"("UsageBasedAdmissionFairSharing"},"resourceGroups":[{"coveredResources":["cpu"],)"
               R"("flavors":[{"name":"f","resources":[{"name":"cpu","nominalQuota":"4"}]}]}]})"));
  }
  pair.Create(Object("LocalQueue", "a", R"({"clusterQueue":"one"})", "default"));
  pair.Create(Object("LocalQueue", "b", R"({"clusterQueue":"one"})", "default"));
  pair.Create(Object("LocalQueue", "c", R"({"clusterQueue":"two"})", "default"));
}

TEST_CASE("a follower knows what LocalQueues used, and answers as the leader") {
  state::Settings settings;
  settings.admission_fair_sharing.emplace();
  settings.admission_fair_sharing->usage_half_life_time = absl::Hours(1);
  Pair pair(settings);
  MakeQueues(pair);
  pair.Create(Workload("a1", "a", 4));
  pair.Create(Workload("c1", "c", 4));
  pair.Wait(31);
  // They come later in their queue, but theirs has used nothing.
  pair.Create(Workload("a2", "a", 4));
  pair.Wait(1);
  CHECK(pair.Ask(Workload("new", "b", 4)).Find("ahead")->AsInt() == 0);
  CHECK(pair.Ask(Workload("new", "b", 4, 9)).Find("victims")->AsArray().size() == 1);
  CHECK_FALSE(pair.Ask(Workload("new", "c", 9)).Find("admitted")->AsBool());
}

TEST_CASE("a follower knows what credits protect, and answers as the leader") {
  const state::Settings settings;
  Pair pair(settings);
  MakeQueues(pair);
  pair.Create(Object("CreditPolicy", "p",
                     R"({"selector":{"cohort":"org"},"resources":[{"name":"cpu","weight":"1"}],)"
                     R"("effect":"Protect"})"));
  pair.Wait(120);
  pair.Create(Workload("a1", "a", 4));
  pair.Create(Workload("b1", "b", 4));
  pair.Wait(2);
  const Json answer = pair.Ask(Workload("new", "c", 4));
  CHECK(answer.GetString("structuredReason") == "CreditsBehind");
  pair.Wait(120);
  CHECK(pair.Ask(Workload("new", "c", 4)).Find("victims")->AsArray().size() == 1);
}

}  // namespace
}  // namespace sluice::reconcile
