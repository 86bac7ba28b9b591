#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/time.h"
#include "sim/place_invariants.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Action;
using state::Event;
using state::ObjectEvent;
using state::Reply;
using state::Verb;

// More steps than this at one instant mean that the controller runs in a circle.
constexpr uint64_t kMaxStepsAtOneInstant = 200000;
constexpr size_t kMaxViolations = 20;

const char* VerbName(Verb verb) {
  switch (verb) {
    case Verb::kCreate:
      return "create";
    case Verb::kUpdate:
      return "update";
    case Verb::kMergePatch:
      return "patch";
    case Verb::kJsonPatch:
      return "json-patch";
    case Verb::kApply:
      return "apply";
    case Verb::kDelete:
      return "delete";
    case Verb::kGet:
      return "get";
  }
  return "";
}

// What the end of a list of now says.
Json EndOfList(const ApiServer& api) {
  return Json::MakeObject(
      {{"metadata", Json::MakeObject({{"resourceVersion", std::to_string(api.versions())}})}});
}

}  // namespace

// One process of the controller.
struct Simulation::Replica : state::ActionSink, reconcile::Observer {
  Replica(Simulation& simulation, size_t own_index) : sim(simulation), index(own_index) {}

  void Submit(Action action) override { sim.Submit(index, std::move(action)); }
  void OnDecision(const admission::Decision& decision, absl::Time /*now*/) override {
    if (!sim.options_.check) return;
    for (std::string& text : CheckStrictFifo(controller->world(), decision)) {
      sim.Violation(std::move(text));
    }
    for (std::string& text : CheckPlaces(controller->world(), decision)) {
      sim.Violation(std::move(text));
    }
    for (std::string& text : CheckPreemption(controller->world(), decision)) {
      sim.Violation(std::move(text));
    }
    for (std::string& text : CheckStillRefused(controller->asked_world().snapshot(), decision)) {
      sim.Violation(std::move(text));
    }
  }
  void OnRejected(const state::Rejection& rejection, bool first, uint64_t /*count*/) override {
    if (first) rejections.push_back(rejection.error);
  }

  Simulation& sim;
  size_t index;
  uint64_t incarnation = 0;
  bool crashed = false;
  std::unique_ptr<reconcile::Operator> controller;
  std::vector<std::string> rejections;
  absl::btree_map<Kind, absl::Duration> watch_delay;
  absl::btree_map<Kind, absl::Time> watched_until;  // when the last event came, or will come
};

Simulation::Simulation(SimulationOptions options)
    : options_(std::move(options)),
      now_(options_.start),
      api_(options_.settings, options_.api),
      jobs_(api_, options_.jobs),
      pods_(api_, options_.jobs),
      scheduler_(api_) {
  api_.SetListener([this](const ObjectEvent& event) { OnApiEvent(event); });
}

Simulation::~Simulation() = default;

const reconcile::Operator& Simulation::controller(size_t replica) const {
  return *replicas_.at(replica)->controller;
}

void Simulation::Start() {
  SLUICE_CHECK(replicas_.empty(), "the simulation was started before");
  for (size_t i = 0; i < options_.replicas; ++i) {
    replicas_.push_back(std::make_unique<Replica>(*this, i));
    Boot(i);
  }
  SetLeader(0);
}

void Simulation::Boot(size_t index) {
  Replica& replica = *replicas_[index];
  ++replica.incarnation;
  replica.crashed = false;
  replica.controller = std::make_unique<reconcile::Operator>(options_.settings, options_.controller,
                                                             replica, &replica);
  replica.controller->Step(api_.features(), now_);
  ListInto(replica);
  if (leader_ == static_cast<int>(index)) {
    replica.controller->Step(ElectionOf(), now_);
  }
}

void Simulation::ListInto(Replica& replica) {
  using Type = ObjectEvent::Type;
  std::vector<Kind> kinds = state::World::WatchedKinds(options_.settings);
  if (Watched(Kind::kPodGroup)) kinds.push_back(Kind::kPodGroup);
  for (const Kind kind : kinds) {
    replica.controller->Step(ObjectEvent{Type::kListBegin, kind, {}}, now_);
    for (Json& object : api_.List(kind)) {
      replica.controller->Step(ObjectEvent{Type::kUpsert, kind, std::move(object)}, now_);
    }
    replica.controller->Step(ObjectEvent{Type::kListEnd, kind, EndOfList(api_)}, now_);
  }
}

bool Simulation::Watched(Kind kind) const {
  if (kind == Kind::kPodGroup) return api_.features().pod_groups;
  const std::vector<Kind> kinds = state::World::WatchedKinds(options_.settings);
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

void Simulation::SetFeatures(const state::ClusterFeatures& features) {
  api_.set_features(features);
  for (size_t i = 0; i < replicas_.size(); ++i) {
    replicas_[i]->controller->Step(features, now_);
    Relist(i);
  }
}

void Simulation::SetLeader(int replica) {
  if (leader_ >= 0 && leader_ != replica) {
    Replica& old = *replicas_[static_cast<size_t>(leader_)];
    old.controller->Step(state::LeaderChange{false}, now_);
    LandWrites(old);
  }
  leader_ = replica;
  if (replica < 0) return;
  Replica& next = *replicas_[static_cast<size_t>(replica)];
  next.controller->Step(ElectionOf(), now_);
  if (next.controller->catching_up()) ProveCurrent(next);
  RunReplica(next);
  RestartCrashed();
}

void Simulation::Crash(size_t replica) {
  replicas_[replica]->crashed = true;
  RestartCrashed();
}

void Simulation::RestartCrashed() {
  for (const auto& replica : replicas_) {
    while (replica->crashed) {
      LandWrites(*replica);
      Boot(replica->index);
      replica->controller->Run(now_);
    }
  }
}

// The next to lead waits for the lease, which is longer than a request may take: what the former
// leader has sent is at the server by then.
void Simulation::LandWrites(const Replica& replica) {
  for (auto it = arrivals_.begin(); it != arrivals_.end();) {
    const Arrival& arrival = it->second;
    if (!std::holds_alternative<Action>(arrival.what) || arrival.replica != replica.index ||
        arrival.incarnation != replica.incarnation) {
      ++it;
      continue;
    }
    const auto key = it->first;
    Arrival landed = std::move(it->second);
    arrivals_.erase(it);
    ArriveAtServer(landed);
    it = arrivals_.upper_bound(key);
  }
}

// What the shell finds out when it has got the lease.
state::LeaderChange Simulation::ElectionOf() const {
  state::LeaderChange change;
  change.leading = true;
  for (const Kind kind : state::World::RecordedKinds(options_.settings)) {
    change.at_least[kind] = std::to_string(api_.versions());
  }
  return change;
}

// The shell asks the watches of these kinds to show how far they are. In order: however late a
// watch is, the bookmark comes behind what it has yet to bring.
void Simulation::ProveCurrent(Replica& replica) {
  for (const Kind kind : state::World::RecordedKinds(options_.settings)) {
    absl::Time& last = replica.watched_until.try_emplace(kind, now_).first->second;
    last = std::max(last, now_ + options_.watch_latency);
    Schedule(last, {replica.index,
                    replica.incarnation,
                    Event(ObjectEvent{ObjectEvent::Type::kBookmark, kind, EndOfList(api_)}),
                    false,
                    {},
                    false});
  }
}

void Simulation::Relist(size_t replica) {
  Replica& target = *replicas_[replica];
  // The old watch ends: what it had not yet delivered comes with the list.
  for (auto it = arrivals_.begin(); it != arrivals_.end();) {
    const auto* event = std::get_if<Event>(&it->second.what);
    const bool watch = event != nullptr && it->second.replica == replica &&
                       std::holds_alternative<ObjectEvent>(*event);
    it = watch ? arrivals_.erase(it) : std::next(it);
  }
  ListInto(target);
  RunReplica(target);
  RestartCrashed();
}

Reply Simulation::Create(Kind kind, const std::string& ns, Json object) {
  Action action;
  action.verb = Verb::kCreate;
  action.kind = kind;
  action.key = {ns, object.GetString("metadata", "name")};
  action.body = std::move(object);
  action.field_manager = "user";
  return api_.Execute(action, now_);
}

Reply Simulation::Patch(Kind kind, const ObjectKey& key, Json patch,
                        const std::string& subresource) {
  Action action;
  action.verb = Verb::kMergePatch;
  action.kind = kind;
  action.key = key;
  action.subresource = subresource;
  action.body = std::move(patch);
  action.field_manager = "user";
  return api_.Execute(action, now_);
}

Reply Simulation::Delete(Kind kind, const ObjectKey& key, const std::string& propagation) {
  Action action;
  action.verb = Verb::kDelete;
  action.kind = kind;
  action.key = key;
  action.body = Json::MakeObject({{"propagationPolicy", propagation}});
  return api_.Execute(action, now_);
}

void Simulation::Schedule(absl::Time time, Arrival arrival) {
  arrivals_.emplace(std::make_pair(time, sequence_++), std::move(arrival));
}

void Simulation::OnApiEvent(const ObjectEvent& event) {
  if (api_observer_) api_observer_(event);
  const bool of_pods = event.kind == Kind::kPod || event.kind == Kind::kNode;
  if (event.kind == Kind::kJob || of_pods) {
    jobs_due_ = std::min(jobs_due_, now_ + options_.controller_latency);
  }
  if (options_.jobs.pod_objects && (of_pods || event.kind == Kind::kPodGroup)) {
    scheduler_due_ = std::min(scheduler_due_, now_ + options_.controller_latency);
  }
  if (!Watched(event.kind)) return;
  for (const auto& replica : replicas_) {
    const auto delay = replica->watch_delay.find(event.kind);
    absl::Time due = now_ + options_.watch_latency;
    if (delay != replica->watch_delay.end()) due += delay->second;
    absl::Time& last = replica->watched_until.try_emplace(event.kind, due).first->second;
    last = std::max(last, due);
    Schedule(last, {replica->index, replica->incarnation, Event(event), false, {}, false});
  }
}

void Simulation::SetWatchDelay(Kind kind, absl::Duration delay) {
  for (const auto& replica : replicas_) replica->watch_delay[kind] = delay;
}

void Simulation::Submit(size_t index, Action action) {
  Replica& replica = *replicas_[index];
  if (replica.crashed) return;  // it died at an earlier write of the same step
  if (action.best_effort || action.kind == Kind::kEvent) {
    Dispatch(index, std::move(action), {});
    return;
  }
  ++writes_;
  const FaultDecision decision = fault_hook_ ? fault_hook_(action, writes_) : FaultDecision{};
  Dispatch(index, std::move(action), decision);
}

void Simulation::Dispatch(size_t index, Action action, const FaultDecision& decision) {
  Replica& replica = *replicas_[index];
  Arrival arrival{index, replica.incarnation, std::move(action), false, {}, false};
  const uint64_t id = std::get<Action>(arrival.what).id;
  absl::Duration latency = options_.request_latency;
  switch (decision.fault) {
    case Fault::kNone:
      break;
    case Fault::kLoseRequest: {
      Reply reply;
      reply.action_id = id;
      Answer(arrival, std::move(reply), options_.reply_timeout);
      return;
    }
    case Fault::kFail: {
      Reply reply;
      reply.action_id = id;
      reply.code = decision.code;
      reply.reason = "Fault";
      reply.message = "injected";
      reply.retry_after = decision.retry_after;
      Answer(arrival, std::move(reply), options_.request_latency + options_.reply_latency);
      return;
    }
    case Fault::kLoseReply:
      arrival.answer = 0;
      break;
    case Fault::kFailAfter:
      arrival.answer = decision.code;
      break;
    case Fault::kDelay:
      latency += decision.delay;
      break;
    case Fault::kDuplicate:
      arrival.duplicate = true;
      break;
    case Fault::kCrashBefore:
      replica.crashed = true;
      return;
    case Fault::kCrashAfter:
      replica.crashed = true;
      arrival.crash = true;
      break;
  }
  Schedule(now_ + latency, std::move(arrival));
}

void Simulation::Answer(const Arrival& arrival, Reply reply, absl::Duration after) {
  Schedule(now_ + after,
           {arrival.replica, arrival.incarnation, Event(std::move(reply)), false, {}, false});
}

void Simulation::ArriveAtServer(Arrival& arrival) {
  const Action& action = std::get<Action>(arrival.what);
  Reply reply = api_.Execute(action, now_);
  if (arrival.duplicate) reply = api_.Execute(action, now_);
  if (action.kind != Kind::kEvent) {
    trace_.push_back(
        fmt::format("{} {} {} {}{} -> {}{}", absl::ToDoubleSeconds(now_ - options_.start),
                    VerbName(action.verb), api::InfoOf(action.kind).name, action.key.ToString(),
                    action.subresource.empty() ? "" : "/" + action.subresource, reply.code,
                    reply.ok() ? "" : " " + reply.message));
  }
  if (arrival.answer) {
    Reply instead;
    instead.action_id = action.id;
    instead.code = *arrival.answer;
    instead.reason = instead.code == 0 ? "" : "Fault";
    Answer(arrival, std::move(instead),
           instead.code == 0 ? options_.reply_timeout : options_.reply_latency);
    return;
  }
  Answer(arrival, std::move(reply), options_.reply_latency);
}

void Simulation::RunReplica(Replica& replica) {
  world_changed_ = true;
  if (!replica.crashed) replica.controller->Run(now_);
}

absl::Time Simulation::NextTime() const {
  absl::Time next = std::min({jobs_due_, jobs_.NextDue(), pods_.NextDue(), garbage_due_,
                              scheduler_due_, scheduler_.NextDue()});
  if (api_.HasGarbage() && garbage_due_ == absl::InfiniteFuture()) {
    next = std::min(next, now_ + options_.controller_latency);
  }
  if (!arrivals_.empty()) next = std::min(next, arrivals_.begin()->first.first);
  for (const auto& replica : replicas_) {
    next = std::min(next, replica->controller->NextDue(now_));
  }
  return std::max(next, now_);
}

bool Simulation::Step() {
  const absl::Time next = NextTime();
  if (next == absl::InfiniteFuture()) return false;
  steps_at_now_ = next == now_ ? steps_at_now_ + 1 : 0;
  SLUICE_CHECK(steps_at_now_ < kMaxStepsAtOneInstant, "the controller runs in a circle at {}",
               sluice::FormatMicroTime(now_));
  if (api_.HasGarbage() && garbage_due_ == absl::InfiniteFuture()) {
    garbage_due_ = now_ + options_.controller_latency;
  }
  now_ = next;
  if (!arrivals_.empty() && arrivals_.begin()->first.first <= now_) {
    Arrival arrival = std::move(arrivals_.begin()->second);
    arrivals_.erase(arrivals_.begin());
    if (std::holds_alternative<Action>(arrival.what)) {
      ArriveAtServer(arrival);
    } else {
      Replica& replica = *replicas_[arrival.replica];
      if (replica.incarnation == arrival.incarnation) {
        replica.controller->Step(std::get<Event>(arrival.what), now_);
        world_changed_ = true;
        RunReplica(replica);
      }
    }
  } else if (garbage_due_ <= now_) {
    garbage_due_ = absl::InfiniteFuture();
    api_.CollectGarbage(now_);
  } else if (scheduler_due_ <= now_ || scheduler_.NextDue() <= now_) {
    scheduler_due_ = absl::InfiniteFuture();
    scheduler_.Run(now_);
  } else if (jobs_due_ <= now_ || jobs_.NextDue() <= now_ || pods_.NextDue() <= now_) {
    jobs_due_ = absl::InfiniteFuture();
    jobs_.Run(now_);
    pods_.Run(now_);
  } else {
    for (const auto& replica : replicas_) {
      if (replica->controller->NextDue(now_) <= now_) RunReplica(*replica);
    }
  }
  RestartCrashed();
  CheckStep();
  return true;
}

void Simulation::RunUntil(absl::Time time) {
  while (NextTime() <= time && Step()) {
  }
  now_ = std::max(now_, time);
  steps_at_now_ = 0;
}

void Simulation::RunUntilQuiet(absl::Time limit) {
  while (NextTime() <= limit && Step()) {
  }
}

bool Simulation::ReplicaBusy(size_t index) const {
  const Replica& replica = *replicas_[index];
  return replica.controller->in_flight() > 0 || replica.controller->NextDue(now_) <= now_;
}

bool Simulation::Settled() const {
  if (!arrivals_.empty() || api_.HasGarbage() || jobs_due_ <= now_ || garbage_due_ <= now_ ||
      scheduler_due_ <= now_ + options_.controller_latency) {
    return false;
  }
  for (size_t i = 0; i < replicas_.size(); ++i) {
    if (ReplicaBusy(i)) return false;
  }
  return true;
}

void Simulation::CheckStep() {
  if (!options_.check) return;
  if (api_.versions() != checked_version_) {
    checked_version_ = api_.versions();
    for (std::string& text : quota_watch_.Check(api_)) Violation(std::move(text));
    for (std::string& text : tree_watch_.Check(api_, now_)) Violation(std::move(text));
    for (std::string& text : CheckJobs(api_)) Violation(std::move(text));
    for (std::string& text : gang_watch_.Check(api_)) Violation(std::move(text));
  }
  if (std::exchange(world_changed_, false)) {
    for (const auto& replica : replicas_) {
      for (std::string& text : CheckTotals(replica->controller->world())) {
        Violation(std::move(text));
      }
    }
  }
  if (rebuilt_version_ == api_.versions() || !Settled()) return;
  rebuilt_version_ = api_.versions();
  for (const auto& replica : replicas_) {
    for (std::string& text : CheckRebuilt(replica->controller->world(), api_, now_)) {
      Violation(std::move(text));
    }
  }
}

namespace {

// Keeps what a probing controller would write.
struct Collector : state::ActionSink {
  void Submit(Action action) override {
    if (!action.best_effort && action.kind != Kind::kEvent) actions.push_back(std::move(action));
  }
  std::vector<Action> actions;
};

}  // namespace

// A Workload that waits keeps the text of its last evaluation while others take quota; a controller
// that evaluates it anew words it anew. That changes nobody's chances.
bool Simulation::OnlyRewords(const Action& action) const {
  if (action.kind != Kind::kWorkload || action.subresource != "status") return false;
  const auto reserved_status = [](const Json* object) -> std::string {
    const Json* conditions = object == nullptr ? nullptr : object->Find("status", "conditions");
    if (conditions == nullptr) return "";
    for (const Json& condition : conditions->AsArray()) {
      if (condition.GetString("type") == "QuotaReserved") {
        return condition.GetString("status");
      }
    }
    return "";
  };
  const std::string next = reserved_status(&action.body);
  return next.starts_with("False") && next == reserved_status(api_.Find(action.kind, action.key));
}

void Simulation::CheckSettled() {
  SLUICE_CHECK(Settled(), "CheckSettled while something is on its way");
  // Whoever was passed over because an equivalent Workload was refused has been told.
  if (leader_ >= 0) {
    const state::World& world = replicas_[static_cast<size_t>(leader_)]->controller->world();
    for (const auto& [key, workload] : world.workloads().all()) {
      if (!reconcile::ReconcileWorkload(world, key, now_).waiting) continue;
      Violation(fmt::format("Workload {} is not told why it waits", key.ToString()));
    }
  }
  Collector collector;
  reconcile::Operator probe(options_.settings, options_.controller, collector, nullptr);
  using Type = ObjectEvent::Type;
  probe.Step(api_.features(), now_);
  std::vector<Kind> kinds = state::World::WatchedKinds(options_.settings);
  if (Watched(Kind::kPodGroup)) kinds.push_back(Kind::kPodGroup);
  for (const Kind kind : kinds) {
    probe.Step(ObjectEvent{Type::kListBegin, kind, {}}, now_);
    for (Json& object : api_.List(kind)) {
      probe.Step(ObjectEvent{Type::kUpsert, kind, std::move(object)}, now_);
    }
    probe.Step(ObjectEvent{Type::kListEnd, kind, EndOfList(api_)}, now_);
  }
  probe.Step(state::LeaderChange{true}, now_);
  probe.Run(now_);
  for (int i = 0; i < 100 && probe.NextDue(now_) <= now_ && collector.actions.empty(); ++i) {
    probe.Run(now_);
  }
  for (const Action& action : collector.actions) {
    if (OnlyRewords(action)) continue;
    Violation(fmt::format("a new controller would {} {} {} although nothing happened: {}",
                          VerbName(action.verb), api::InfoOf(action.kind).name,
                          action.key.ToString(), action.body.Text()));
  }
}

void Simulation::Violation(std::string text) {
  if (violations_.size() >= kMaxViolations) return;
  violations_.push_back(
      fmt::format("at {}s: {}", absl::ToDoubleSeconds(now_ - options_.start), text));
}

}  // namespace sluice::sim
