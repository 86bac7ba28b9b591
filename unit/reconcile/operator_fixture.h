// An Operator without an API server: a test shows it objects, sees its writes and answers them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/codec.h"
#include "reconcile/operator.h"
#include "unit/build/builders.h"

namespace sluice::reconcile {

using api::Json;
using api::Kind;
using state::ObjectEvent;
using Type = state::ObjectEvent::Type;

// Keeps what is written.
struct Sink : state::ActionSink {
  void Submit(state::Action action) override {
    if (action.kind == Kind::kEvent) {
      ++events;
      event_actions.push_back(std::move(action));
    } else {
      actions.push_back(std::move(action));
    }
  }
  // The writes of a kind since the last call of Clear.
  std::vector<state::Action> Of(Kind kind) const {
    std::vector<state::Action> found;
    for (const state::Action& action : actions) {
      if (action.kind == kind) found.push_back(action);
    }
    return found;
  }
  std::vector<state::Action> actions;
  int events = 0;
  std::vector<state::Action> event_actions;
};

// A leader with quota for four CPUs in "cq", and its LocalQueue "q".
class Fixture {
 public:
  explicit Fixture(bool leading = true, const OperatorOptions& options = {})
      : controller(settings, options, sink, nullptr) {
    List(Kind::kNamespace, {api::Encode(build::Namespace("ns").Get())});
    List(Kind::kResourceFlavor,
         {api::Encode(build::Flavor("default").Finalizer("kueue.x-k8s.io/resource-in-use").Get())});
    List(Kind::kClusterQueue, {api::Encode(build::ClusterQueue("cq")
                                               .Finalizer("kueue.x-k8s.io/resource-in-use")
                                               .Flavor("default", {{"cpu", "4"}})
                                               .Get())});
    List(Kind::kLocalQueue, {api::Encode(build::LocalQueue("q", "cq").Get())});
    for (const Kind kind : state::World::WatchedKinds()) {
      const bool listed = kind == Kind::kNamespace || kind == Kind::kResourceFlavor ||
                          kind == Kind::kClusterQueue || kind == Kind::kLocalQueue;
      if (!listed) List(kind, {});
    }
    controller.Step(state::LeaderChange{leading}, now);
  }
  void List(Kind kind, std::vector<Json> objects) {
    controller.Step(ObjectEvent{Type::kListBegin, kind, {}}, now);
    for (Json& object : objects) {
      controller.Step(ObjectEvent{Type::kUpsert, kind, std::move(object)}, now);
    }
    controller.Step(ObjectEvent{Type::kListEnd, kind, {}}, now);
  }
  void Pending(const std::string& name, const std::string& cpu) {
    controller.Step(
        ObjectEvent{
            Type::kUpsert, Kind::kWorkload,
            api::Encode(
                build::Workload(name).Queue("q").Request("cpu", cpu).ResourceVersion("1").Get())},
        now);
  }
  // Something was seen by a watch.
  void Seen(Kind kind, Json object) {
    controller.Step(ObjectEvent{Type::kUpsert, kind, std::move(object)}, now);
  }
  void Reply(const state::Action& action, int code, Json object = {}) {
    state::Reply reply;
    reply.action_id = action.id;
    reply.code = code;
    reply.object = std::move(object);
    controller.Step(reply, now);
  }

  state::Settings settings;
  Sink sink;
  absl::Time now = build::At(10);
  Operator controller;
};

}  // namespace sluice::reconcile
