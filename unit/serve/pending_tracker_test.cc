#include "serve/pending_tracker.h"

#include <deque>
#include <random>
#include <string>

#include "api/json.h"
#include "base/status.h"
#include "reconcile/operator.h"
#include "sim/api_server.h"
#include "topology/failure.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::serve {
namespace {

using api::Json;
using api::Kind;
using build::At;
using Type = state::ObjectEvent::Type;

// A controller beside a simulated API server that answers at once, or refuses now and then.
class Controller : public state::ActionSink, public reconcile::Observer {
 public:
  explicit Controller(const state::Settings& settings)
      : api_(settings, {}), op_(settings, {}, *this, this) {
    api_.SetListener([this](const state::ObjectEvent& event) {
      if (op_.world().Watches(event.kind)) events_.push_back(event);
    });
    for (const Kind kind : state::World::WatchedKinds(settings)) {
      op_.Step(state::ObjectEvent{Type::kListBegin, kind, {}}, now);
      for (Json& object : api_.List(kind)) {
        op_.Step(state::ObjectEvent{Type::kUpsert, kind, std::move(object)}, now);
      }
      op_.Step(state::ObjectEvent{Type::kListEnd, kind, {}}, now);
    }
    op_.Step(state::LeaderChange{true}, now);
  }

  void OnChange(const state::Ref& ref) override { tracker.OnChange(ref); }
  void OnDecision(const admission::Decision& decision, absl::Time) override {
    tracker.OnDecision(decision);
  }
  void OnRefused(const state::Action& action, const state::Reply&) override {
    tracker.OnRefused(action);
  }
  void Submit(state::Action action) override {
    state::Reply reply;
    if (refuse_ > 0 && ++writes_ % refuse_ == 0) {
      reply.action_id = action.id;
      reply.code = 500;
      reply.reason = "InternalError";
    } else {
      reply = api_.Execute(action, now);
    }
    events_.push_back(std::move(reply));
  }
  // As a user does it; a refusal is fine.
  void Do(state::Verb verb, Kind kind, const ObjectKey& key, Json body) {
    state::Action action;
    action.verb = verb;
    action.kind = kind;
    action.key = key;
    action.body = std::move(body);
    api_.Execute(action, now);
  }
  // One event, and what follows from it.
  bool Step() {
    if (events_.empty()) {
      op_.Run(now);
      if (events_.empty()) return false;
    }
    const state::Event event = std::move(events_.front());
    events_.pop_front();
    op_.Step(event, now);
    op_.Run(now);
    tracker.Publish(op_.world(), now);
    return true;
  }
  void RefuseEvery(uint64_t writes) { refuse_ = writes; }
  const state::World& world() const { return op_.world(); }
  const sim::ApiServer& api() const { return api_; }

  absl::Time now = At(0);
  PendingTracker tracker{std::make_shared<PendingIndex>()};

 private:
  sim::ApiServer api_;
  reconcile::Operator op_;
  std::deque<state::Event> events_;
  uint64_t refuse_ = 0;
  uint64_t writes_ = 0;
};

std::string Names(const state::World& world, const std::string& name, absl::Time now) {
  std::string text;
  for (const queueing::PendingWorkload& pending : world.queues().Snapshot(name)) {
    if (!queueing::BackoffOver(*pending.info->workload, now)) continue;
    text += pending.info->Key().ToString() + "\n";
  }
  return text;
}

void CheckSame(Controller& controller, const std::string& name) {
  INFO(name);
  bool prepared = false;
  controller.tracker.index()->Prepare(controller.now, [&] { prepared = true; });
  if (!prepared) controller.tracker.Publish(controller.world(), controller.now);
  REQUIRE(prepared);
  const auto view = controller.tracker.index()->OfClusterQueue(name, controller.now);
  REQUIRE((view != nullptr) == controller.world().cluster_queues().Contains({"", name}));
  if (view == nullptr) return;
  std::string text;
  absl::btree_map<ObjectKey, int64_t> next;
  for (const PendingPosition& entry : view->entries) {
    text += entry.item->key.ToString() + "\n";
    CHECK(entry.in_local_queue == next[entry.item->local_queue]++);
  }
  CHECK(text == Names(controller.world(), name, controller.now));
}

Json Yaml(const std::string& text) { return *api::ParseJson(text); }

constexpr char kWorkload[] =
    R"({{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{{"name":"{0}",)"
    R"("namespace":"default"}},"spec":{{"queueName":"{1}","priority":{2},"podSets":[{{"name":)"
    R"("main","count":1,"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c",)"
    R"("image":"i","resources":{{"requests":{{"cpu":"{3}"}}}}}}]}}}}}}]}}}})";
constexpr char kClusterQueue[] =
    R"({{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ClusterQueue","metadata":{{"name":"{0}"}},)"
    R"("spec":{{"namespaceSelector":{{}},"queueingStrategy":"{1}",{2}"preemption":)"
    R"({{"withinClusterQueue":"LowerPriority"}},"resourceGroups":[{{"coveredResources":["cpu"],)"
    R"("flavors":[{{"name":"f","resources":[{{"name":"cpu","nominalQuota":"3"}}]}}]}}]}}}})";
constexpr char kLocalQueue[] =
    R"({{"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"LocalQueue","metadata":{{"name":"{0}",)"
    R"("namespace":"default"}},"spec":{{"clusterQueue":"{1}"}}}})";

class Random {
 public:
  explicit Random(uint32_t seed, const state::Settings& settings)
      : random_(seed), controller_(settings) {
    Create(Kind::kResourceFlavor, R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":)"
                                  R"("ResourceFlavor","metadata":{"name":"f"}})");
    Queue("strict", "StrictFIFO", "");
    Queue("best", "BestEffortFIFO", "");
    Queue("usage", "BestEffortFIFO",
          R"("admissionScope":{"admissionMode":"UsageBasedAdmissionFairSharing"},)");
    for (int i = 0; i < 6; ++i) {
      Create(Kind::kLocalQueue, fmt::format(kLocalQueue, Local(i), kQueues[i % 3]));
    }
    if (Below(2) == 0) controller_.RefuseEvery(5);
  }

  void Run(int steps) {
    for (int step = 0; step < steps; ++step) {
      Change();
      const bool asks = Below(4) > 0;
      for (int i = Below(12); i > 0 && controller_.Step(); --i) {
        if (asks) Check();
      }
      if (Below(10) == 0) controller_.now += absl::Seconds(Below(400));
      if (Below(20) == 0) Rest();
    }
    for (int i = 0; i < 20000 && controller_.Step(); ++i) {
    }
    Check();
  }

  int rests() const { return rests_; }

 private:
  // Nobody asks for so long that nobody follows the queues any more.
  void Rest() {
    controller_.now += PendingTracker::kIdle + absl::Seconds(1);
    controller_.tracker.Publish(controller_.world(), controller_.now);
    controller_.now += PendingTracker::kIdle;
    controller_.tracker.Publish(controller_.world(), controller_.now);
    CHECK_FALSE(controller_.tracker.following());
    ++rests_;
    for (int i = Below(12); i > 0 && controller_.Step(); --i) {
    }
  }

  static constexpr const char* kQueues[] = {"strict", "best", "usage"};

  int Below(uint32_t limit) { return static_cast<int>(random_() % limit); }
  static std::string Local(int i) { return fmt::format("lq{}", i); }
  void Create(Kind kind, const std::string& text) {
    controller_.Do(state::Verb::kCreate, kind, {"default", ""}, Yaml(text));
  }
  void Queue(const char* name, const char* strategy, const char* more) {
    Create(Kind::kClusterQueue, fmt::format(kClusterQueue, name, strategy, more));
  }
  void Change() {
    const ObjectKey workload{"default", fmt::format("w{}", Below(25))};
    switch (Below(9)) {
      case 0:
        controller_.Do(state::Verb::kDelete, Kind::kWorkload, workload, {});
        break;
      case 1:
        controller_.Do(state::Verb::kMergePatch, Kind::kWorkload, workload,
                       Yaml(fmt::format(R"({{"spec":{{"active":{}}}}})", Below(2) == 0)));
        break;
      case 2:
        controller_.Do(state::Verb::kMergePatch, Kind::kWorkload, workload,
                       Yaml(fmt::format(R"({{"spec":{{"priority":{}}}}})", Below(3))));
        break;
      case 3: {
        const ObjectKey queue{"default", Local(Below(6))};
        if (Below(2) == 0) {
          controller_.Do(state::Verb::kDelete, Kind::kLocalQueue, queue, {});
        } else {
          Create(Kind::kLocalQueue, fmt::format(kLocalQueue, queue.name, kQueues[Below(3)]));
        }
        break;
      }
      case 4:
        controller_.Do(state::Verb::kMergePatch, Kind::kClusterQueue, {"", kQueues[Below(3)]},
                       Yaml(fmt::format(R"({{"spec":{{"stopPolicy":"{}"}}}})",
                                        Below(2) == 0 ? "None" : "Hold")));
        break;
      default:
        Create(Kind::kWorkload,
               fmt::format(kWorkload, workload.name, Local(Below(6)), Below(3), 1 + Below(3)));
    }
  }
  void Check() {
    for (const char* name : kQueues) CheckSame(controller_, name);
  }

  std::mt19937 random_;
  Controller controller_;
  int rests_ = 0;
};

TEST_CASE("Random: the index shows the queues as they are, whatever happens") {
  state::Settings settings;
  settings.admission_fair_sharing.emplace();
  int rests = 0;
  for (uint32_t seed = 1; seed <= 25; ++seed) {
    INFO("seed " << seed);
    Random random(seed, settings);
    random.Run(120);
    rests += random.rests();
  }
  CHECK(rests > 25);
}

// The Workload "w" and its queues.
void CreateOneThatWaits(Controller& controller) {
  controller.Do(state::Verb::kCreate, Kind::kClusterQueue, {"", ""},
                Yaml(fmt::format(kClusterQueue, "cq", "BestEffortFIFO", "")));
  controller.Do(state::Verb::kCreate, Kind::kLocalQueue, {"default", ""},
                Yaml(fmt::format(kLocalQueue, "lq", "cq")));
  controller.Do(state::Verb::kCreate, Kind::kWorkload, {"default", ""},
                Yaml(fmt::format(kWorkload, "w", "lq", 0, 9)));
}

// "QuotaExceeded: its sentence", of the only one that waits.
std::string WhyListed(const Controller& controller, const std::string& cluster_queue) {
  const auto view = controller.tracker.index()->OfClusterQueue(cluster_queue, controller.now);
  REQUIRE(view->entries.size() == 1);
  const PendingItem& item = *view->entries.front().item;
  return item.reason + ": " + item.sentence;
}

TEST_CASE("who waits is listed with the reason, known before or found out since") {
  const state::Settings settings;
  Controller controller(settings);
  CreateOneThatWaits(controller);
  const auto settle = [&] {
    while (controller.Step()) {
    }
    controller.tracker.index()->Prepare(controller.now, [] {});
    controller.tracker.Publish(controller.world(), controller.now);
  };
  settle();
  // The flavor of its queue does not exist.
  CHECK(WhyListed(controller, "cq") == "QueueStopped: ClusterQueue cq is inactive");
  controller.now += absl::Seconds(10);
  controller.Do(state::Verb::kCreate, Kind::kResourceFlavor, {"", ""},
                Yaml(R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"ResourceFlavor","metadata":)"
                     R"({"name":"f"}})"));
  settle();
  // The condition follows when it is its turn.
  CHECK(WhyListed(controller, "cq").starts_with("QuotaExceeded: "));
  // A decision that says more than the condition.
  admission::Decision decision;
  decision.info = controller.world().queues().Find({"default", "w"});
  decision.explanation.verdict = admission::Explanation::Verdict::kNoFit;
  auto failure = std::make_shared<topology::Failure>();
  failure->kind = topology::Failure::Kind::kNoRoom;
  failure->total = failure->needed = 2;
  flavor::Finding finding;
  finding.kind = flavor::Finding::Kind::kNoPlace;
  finding.place = failure;
  decision.explanation.pod_sets.emplace_back().findings.push_back(finding);
  controller.tracker.OnDecision(decision);
  settle();
  CHECK(WhyListed(controller, "cq").starts_with("TopologyFragmented: "));
  controller.Do(state::Verb::kMergePatch, Kind::kClusterQueue, {"", "cq"},
                Yaml(R"({"spec":{"stopPolicy":"Hold"}})"));
  settle();
  CHECK(WhyListed(controller, "cq").starts_with("QueueStopped: "));
}

TEST_CASE("nobody follows the queues before somebody asks") {
  const state::Settings settings;
  Controller controller(settings);
  CreateOneThatWaits(controller);
  while (controller.Step()) {
  }
  CHECK_FALSE(controller.tracker.following());
  CHECK(controller.tracker.index()->synced());
  CHECK_FALSE(controller.tracker.index()->filled());
  int told = 0;
  controller.tracker.index()->Prepare(controller.now, [&] { ++told; });
  CHECK(told == 0);
  controller.tracker.Publish(controller.world(), controller.now);
  CHECK(told == 1);
  CHECK(controller.tracker.following());
  CHECK(controller.tracker.index()->OfClusterQueue("cq", controller.now)->entries.size() == 1);
  // A question keeps it for ten minutes from then on.
  controller.now += PendingTracker::kIdle - absl::Seconds(1);
  controller.tracker.index()->Prepare(controller.now, [&] { ++told; });
  CHECK(told == 2);
  controller.now += PendingTracker::kIdle;
  controller.tracker.Publish(controller.world(), controller.now);
  CHECK(controller.tracker.following());
  controller.now += PendingTracker::kIdle;
  controller.tracker.Publish(controller.world(), controller.now);
  CHECK_FALSE(controller.tracker.following());
  CHECK(controller.tracker.index()->OfClusterQueue("cq", controller.now) == nullptr);
}

}  // namespace
}  // namespace sluice::serve
