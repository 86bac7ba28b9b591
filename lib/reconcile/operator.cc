#include "reconcile/operator.h"

#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "reconcile/operator_parts.h"

namespace sluice::reconcile {
namespace {

constexpr int kConflict = 409;
// After how long what was to be written is planned anew where no answer came.
constexpr absl::Duration kUnansweredTime = absl::Seconds(30);
constexpr absl::Duration kConflictTime = absl::Seconds(1);
// A few at a time, so that an admission never finds a queue of them in front of it.
constexpr size_t kMaxEventsInFlight = 4;

ObjectKey KeyOf(const api::Json& object) {
  return {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
}

bool IsQueueStatus(const state::Action& action) {
  return action.subresource == "status" &&
         (action.kind == api::Kind::kClusterQueue || action.kind == api::Kind::kLocalQueue ||
          action.kind == api::Kind::kCohort);
}

bool Deleting(const api::Json& object) {
  return !object.GetString("metadata", "deletionTimestamp").empty();
}

// An object whose last finalizer went while it was being deleted no longer exists, unless it is a
// pod that still has time to stop.
bool Gone(const api::Json& object) {
  const api::Json* finalizers = object.Find("metadata", "finalizers");
  const api::Json* grace = object.Find("metadata", "deletionGracePeriodSeconds");
  return Deleting(object) && (finalizers == nullptr || finalizers->AsArray().empty()) &&
         (grace == nullptr || grace->AsInt() == 0);
}

// Nobody has to evict it any more.
bool IsOut(const api::Workload* workload) {
  return workload == nullptr || !queueing::HoldsQuota(*workload) ||
         api::IsTrue(workload->status.conditions, api::kEvicted);
}

}  // namespace

Operator::Operator(const state::Settings& settings, OperatorOptions options,
                   state::ActionSink& sink, Observer* observer)
    : options_(std::move(options)),
      sink_(sink),
      observer_(observer),
      world_(settings),
      recorder_(options_.events),
      event_pace_(options_.event_burst),
      waiting_pace_(options_.waiting_burst),
      queue_pace_(options_.queue_status_burst) {}

void Operator::Step(const state::Event& event, absl::Time now) {
  if (const auto* object = std::get_if<state::ObjectEvent>(&event)) {
    OnObject(*object, now);
    fence_.Note(*object);
    if (awaited_ && fence_.Reached(*awaited_)) Lead(now);
  } else if (const auto* reply = std::get_if<state::Reply>(&event)) {
    OnReply(*reply, now);
  } else if (const auto* leader = std::get_if<state::LeaderChange>(&event)) {
    OnLeader(*leader, now);
  } else if (const auto* features = std::get_if<state::ClusterFeatures>(&event)) {
    state::Refs touched;
    world_.SetFeatures(*features, touched);
    if (leading_) dirty_.insert(touched.begin(), touched.end());
  }
}

void Operator::OnObject(const state::ObjectEvent& event, absl::Time now) {
  using Type = state::ObjectEvent::Type;
  if (event.type == Type::kBookmark) return;  // nothing has changed
  const bool single = event.type == Type::kUpsert || event.type == Type::kDelete;
  const state::Ref ref{event.kind, single ? KeyOf(event.object) : ObjectKey{}};
  std::shared_ptr<const api::Workload> before;
  if (single && event.kind == api::Kind::kWorkload) before = world_.workloads().Find(ref.key);
  state::Refs touched;
  const std::optional<state::Rejection> rejected = world_.Apply(event, now, touched);
  if (rejected) {
    ++rejected_;
    std::string& known = rejection_texts_[rejected->ref];
    const bool first = known != rejected->error;
    known = rejected->error;
    if (observer_ != nullptr) observer_->OnRejected(*rejected, first, rejected_);
    if (first && leading_) {
      Record({rejected->ref.kind, rejected->ref.key, rejected->uid, kWorkloadSource, true,
              "DecodeFailed", "The object cannot be read and is ignored: " + rejected->error},
             now);
    }
  }
  if (event.type == Type::kDelete) {
    rejection_texts_.erase(ref);
    queue_status_at_.erase(ref);
    failures_.erase(ref);
    for (auto& [id, write] : in_flight_) {
      if (write.target == ref) write.deleted_version = VersionOf(event.object);
    }
  }
  if (single && event.kind == api::Kind::kWorkload) {
    const std::shared_ptr<const api::Workload> after = world_.workloads().Find(ref.key);
    if (observer_ != nullptr && before != after) {
      observer_->OnWorkload(before.get(), after.get(), now);
    }
    if (after == nullptr) ForgetWorkload(ref.key);
    if (IsOut(after.get())) EndRefusedEviction(ref.key, now);
    FollowSettling(ref.key, now, touched);
    FollowPlaces(ref.key, now);
    FollowReservation(ref.key);
  }
  if (event.type == Type::kListEnd) {
    // Objects that went while nobody watched.
    ForgetGone(event.kind, touched, now);
    if (observer_ != nullptr) {
      for (const state::Ref& changed : touched) observer_->OnChange(changed);
    }
  }
  if (single) {
    if (observer_ != nullptr) observer_->OnChange(ref);
    if (const auto waiting = unblocks_.find(ref); waiting != unblocks_.end()) {
      for (const state::Ref& owner : waiting->second) {
        blocked_.erase(owner);
        touched.insert(owner);
      }
      unblocks_.erase(waiting);
    }
  }
  if (leading_) Touch(touched, single && event.kind == api::Kind::kPod, now);
}

void Operator::ForgetGone(api::Kind kind, const state::Refs& touched, absl::Time now) {
  const auto forget = [&](auto& map) {
    for (auto it = map.lower_bound(state::Ref{kind, {}});
         it != map.end() && it->first.kind == kind;) {
      it = world_.Contains(it->first) ? std::next(it) : map.erase(it);
    }
  };
  forget(failures_);
  forget(rejection_texts_);
  forget(queue_status_at_);
  forget(unblocks_);
  if (kind != api::Kind::kWorkload) return;
  const auto gone = [this](const auto& entry) { return !world_.workloads().Contains(entry.first); };
  absl::erase_if(said_at_, gone);
  absl::erase_if(grace_until_, gone);
  absl::erase_if(refused_evictions_, gone);
  for (auto& [victim, refused] : refused_evictions_) absl::erase_if(refused.waiting, gone);
  absl::erase_if(settling_, gone);
  for (const state::Ref& ref : touched) {
    if (ref.kind == kind && !world_.workloads().Contains(ref.key)) FollowPlaces(ref.key, now);
  }
}

void Operator::Touch(const state::Refs& touched, bool by_pod, absl::Time now) {
  for (const state::Ref& ref : touched) {
    // The pods of a gang come one after the other, and are looked at together.
    if (by_pod && ref.kind == api::Kind::kPod && state::ChainOfKey(ref.key)) {
      WakeAt(ref, now + options_.placement_batch);
    } else {
      dirty_.insert(ref);
    }
  }
}

void Operator::OnReply(const state::Reply& reply, absl::Time now) {
  const auto found = in_flight_.find(reply.action_id);
  if (found == in_flight_.end()) return;
  const InFlight write = std::move(found->second);
  in_flight_.erase(found);
  if (!write.action.best_effort) --essential_in_flight_;
  if (IsQueueStatus(write.action)) --counts_in_flight_;
  for (const state::Ref& ref : {write.target, write.owner}) {
    if (--busy_[ref] == 0) {
      busy_.erase(ref);
      if (held_.erase(ref) > 0 && leading_) dirty_.insert(ref);
    }
    if (write.target == write.owner) break;
  }
  if (write.action.kind == api::Kind::kEvent) return;  // nothing depends on it
  if (write.action.verb == state::Verb::kGet) {
    OnRead(write, reply, now);
  } else if (reply.ok()) {
    OnWritten(write, reply, now);
  } else {
    OnRefused(write, reply, now);
  }
  SendReserving(write.target, now);
  SendReserving(write.owner, now);
}

void Operator::OnWritten(const InFlight& write, const state::Reply& reply, absl::Time now) {
  const bool no_effect = !write.base_version.empty() && !write.admission && !write.eviction &&
                         write.base_version == VersionOf(reply.object);
  if (!no_effect) failures_.erase(write.owner);
  dirty_.insert(write.owner);
  for (const Note& note : write.notes) Record(note, now);
  if (observer_ != nullptr) {
    for (const GateRemoval& removal : write.gates) observer_->OnGateRemoved(removal, now);
  }
  // The answer to the deletion of a pod that stays for a while is the pod as it is then.
  const bool deletion = write.action.verb == state::Verb::kDelete;
  const bool stays = deletion && write.target.kind == api::Kind::kPod && Deleting(reply.object);
  // The object of before a deletion that was seen must not come back; one that was made since, with
  // the same name, has a later version, and only the reply may show it.
  const bool of_deleted = ShowsDeleted(reply.object, write.deleted_version);
  const bool has_object = reply.object.Has("metadata") && world_.Watches(write.target.kind) &&
                          (!deletion || stays) && !of_deleted;
  const bool shown = has_object && !Gone(reply.object);
  if (shown) {
    OnObject({state::ObjectEvent::Type::kUpsert, write.target.kind, reply.object, true}, now);
  }
  // Planned again from the same object it would be the same write, for ever: an apply, for
  // example, cannot take away what another field manager owns as well.
  if (no_effect) BlockUntilNewer(write.owner, write.target, now, NextBackoff(write.owner));
  // Whoever picks pods out of a group must see what became of those picked before.
  if (write.target.kind == api::Kind::kPod && !shown && !of_deleted) {
    BlockUntilNewer(write.owner, write.target, now, kConflictTime);
  }
  if (write.then_reserve != nullptr) {
    return SendReservation(std::move(*write.then_reserve), now);
  }
  if (write.admission && world_.IsAssumed(write.target.key)) {
    if (!reply.object.Has("metadata") || world_.Unreadable(write.target)) {
      // It has happened, but what the object is now cannot be told.
      Unsettle(write, reply.code, kConflictTime, now);
    } else if (!reserving_.contains(write.target.key)) {
      // The write changed nothing, or its object says otherwise: count what the API says.
      world_.Forget(write.target.key, now, dirty_);
    }
  }
  if (write.eviction) {
    world_.ForgetEviction(write.target.key);
    EndRefusedEviction(write.target.key, now);
  }
}

void Operator::OnRefused(const InFlight& write, const state::Reply& reply, absl::Time now) {
  if (observer_ != nullptr) observer_->OnRefused(write.action, reply);
  const bool unanswered = reply.code == 0;
  const bool conflict = reply.code == kConflict;
  const absl::Duration asked = AskedPause(reply);
  const absl::Duration backoff =
      std::max(asked, unanswered || conflict ? kConflictTime : NextBackoff(write.owner));
  if (write.admission) {
    // Whether the write has happened is not certain, and a queue's order must not depend on a lost
    // answer.
    Unsettle(write, reply.code, backoff, now);
    return;
  }
  const absl::Duration pause = unanswered ? kUnansweredTime : backoff;
  // Decided anew; the next try of the same victim waits until what refused this one is known.
  if (write.eviction) world_.ForgetEviction(write.target.key);
  if (reply.code == kNotFound) return;  // the watch tells what became of it
  NoteRefusedEviction(write, reply);
  if (asked > absl::ZeroDuration()) {
    // The object is not why, so a newer one changes nothing about it.
    Block(write.owner, now + pause);
  } else {
    BlockUntilNewer(write.owner, write.target, now, pause);
  }
  if (write.waiting == nullptr) return;
  said_at_.erase(write.target.key);
  if (!waiting_.contains(write.target.key)) SetWaiting(write.target.key, *write.waiting, now);
}

void Operator::BlockUntilNewer(const state::Ref& owner, const state::Ref& target, absl::Time now,
                               absl::Duration limit) {
  unblocks_[target].insert(owner);
  Block(owner, now + limit);
}

void Operator::Block(const state::Ref& owner, absl::Time until) {
  blocked_[owner] = until;
  dirty_.insert(owner);
  WakeAt(owner, until);
}

absl::Duration Operator::NextBackoff(const state::Ref& ref) {
  const int failures = std::min(failures_[ref]++, 20);
  return std::min(options_.first_backoff * (1 << failures), options_.max_backoff);
}

void Operator::OnLeader(const state::LeaderChange& change, absl::Time now) {
  awaited_.reset();
  if (!change.leading) return StopLeading(now);
  if (leading_ || fence_.Reached(change.at_least)) return Lead(now);
  awaited_ = change.at_least;
}

void Operator::Lead(absl::Time now) {
  awaited_.reset();
  leading_ = true;
  world_.RestartUsage(now);
  world_.RestartCredits();
  TouchAll();
}

void Operator::StopLeading(absl::Time now) {
  leading_ = false;
  for (const auto& [key, reserving] : reserving_) world_.Forget(key, now, dirty_);
  reserving_.clear();
  dirty_.clear();
  held_.clear();
  counts_.clear();
  counts_due_.clear();
  tidying_.clear();
  tidying_due_.clear();
  paced_.clear();
  // Nobody here will write them any more.
  for (const auto& [key, eviction] : evictions_) world_.ForgetEviction(key);
  evictions_.clear();
  refused_evictions_.clear();
  grace_until_.clear();
  reservations_.clear();
}

void Operator::TouchAll() {
  const auto touch = [this](api::Kind kind, const auto& store) {
    for (const auto& [key, object] : store.all()) dirty_.insert({kind, key});
  };
  touch(api::Kind::kClusterQueue, world_.cluster_queues());
  touch(api::Kind::kLocalQueue, world_.local_queues());
  touch(api::Kind::kCohort, world_.cohorts());
  touch(api::Kind::kResourceFlavor, world_.flavors());
  touch(api::Kind::kTopology, world_.topologies());
  touch(api::Kind::kAdmissionCheck, world_.admission_checks());
  touch(api::Kind::kCreditPolicy, world_.credit_policies());
  touch(api::Kind::kCreditAccount, world_.credit_accounts());
  touch(api::Kind::kWorkload, world_.workloads());
  touch(api::Kind::kJob, world_.jobs());
  for (const auto& [key, pod] : world_.pods().all()) {
    dirty_.insert({api::Kind::kPod, state::PodIndex::WorkKey(*pod)});
  }
  for (const ObjectKey& chain : world_.placements().Chains()) {
    dirty_.insert({api::Kind::kPod, state::PlacementKey(chain.ns, chain.name)});
  }
  // A Workload whose job has gone is found through the job's key.
  for (const auto& [key, workload] : world_.workloads().all()) {
    world_.TouchOwners(key, *workload, dirty_);
  }
}

bool Operator::Idle() const {
  return dirty_.empty() && counts_.empty() && in_flight_.empty() && waiting_.empty() &&
         tidying_.empty() && settling_.empty() && evictions_.empty() && events_.empty() &&
         reservations_.empty() && !world_.HasReleases() && !world_.NextRelease() &&
         second_passes_.empty() && !world_.queues().HasRechecks();
}

void Operator::Run(absl::Time now) {
  FollowClock(now);
  if (!leading_ || !world_.Synced()) return;
  FireTimers(now);
  world_.PrepareCredits(now, dirty_);
  RunSecondPasses(now);
  Admit(now);
  SendEvictions(now);
  TakeCounts(now);
  TidyUp(now);
  ReconcileDirty(now);
  SayReservations(now);
  SayWhyWaiting(now);
  SendEvents(now);
}

absl::Time Operator::NextDue(absl::Time now) const {
  if (!leading_ || !world_.Synced()) return absl::InfiniteFuture();
  absl::Time next = due_.empty() ? absl::InfiniteFuture() : due_.begin()->first;
  next = std::min(next, world_.CreditsDue(now));
  if (const std::optional<absl::Time> due = world_.queues().NextDue()) next = std::min(next, *due);
  const bool room = essential_in_flight_ < options_.max_in_flight;
  if (room && (world_.HasReleases() || world_.queues().HasHeads(now))) return now;
  if (const auto release = world_.NextRelease()) next = std::min(next, *release);
  if (!second_passes_due_.empty() && room) next = std::min(next, second_passes_due_.begin()->first);
  if (!evictions_.empty()) next = std::min(next, now + absl::Milliseconds(50));
  if (room) next = std::min(next, world_.NextProtectionEnd());
  if (!reservations_.empty()) {
    next = std::min(
        next, std::max(now + absl::Milliseconds(20), waiting_pace_.Next(now, WaitingRate(now))));
  }
  if (!waiting_due_.empty()) {
    next = std::min(
        next, std::max(waiting_due_.begin()->first, waiting_pace_.Next(now, WaitingRate(now))));
  }
  if (!counts_due_.empty()) {
    next = std::min(next, std::max(counts_due_.begin()->first, CountsDue(now)));
  }
  if (!tidying_due_.empty()) {
    // With many writes on their way the next reply wakes the loop.
    const bool few = essential_in_flight_ < options_.tidying_in_flight;
    next = std::min(next, few ? now : tidying_due_.begin()->first);
  }
  next = std::min(next, EventsDue(now));
  return room && !dirty_.empty() ? now : next;
}

void Operator::WakeAt(const state::Ref& ref, absl::Time time) {
  if (time == absl::InfiniteFuture()) return;
  const auto found = timers_.find(ref);
  if (found != timers_.end()) {
    if (found->second <= time) return;
    due_.erase({found->second, ref});
  }
  timers_[ref] = time;
  due_.insert({time, ref});
}

void Operator::DropTimer(const state::Ref& ref) {
  const auto found = timers_.find(ref);
  if (found == timers_.end()) return;
  due_.erase({found->second, ref});
  timers_.erase(found);
}

void Operator::FireTimers(absl::Time now) {
  while (!due_.empty() && due_.begin()->first <= now) {
    const state::Ref ref = due_.begin()->second;
    due_.erase(due_.begin());
    timers_.erase(ref);
    dirty_.insert(ref);
    if (ref.kind == api::Kind::kWorkload) ReadUnsettled(ref, now);
  }
}

void Operator::Record(const Note& note, absl::Time now) {
  if (!leading_) return;
  const bool routine =
      !note.warning && (note.reason == api::kQuotaReserved || note.reason == api::kAdmitted);
  const size_t most = routine ? options_.max_routine_events : options_.max_waiting_events;
  // Not recorded either: the next one like it must make the event that a series needs.
  if (events_.size() >= most) return;
  std::optional<state::Action> action = recorder_.Record(note, now);
  if (!action) return;
  std::string body = std::exchange(action->body, api::Json()).Text();
  events_.push_back({*std::move(action), std::move(body)});
}

absl::Time Operator::EventsDue(absl::Time now) const {
  if (events_.empty()) return absl::InfiniteFuture();
  if (Calm(now) && essential_in_flight_ == 0) {
    // With enough of them on their way the next reply wakes the loop.
    return in_flight_.size() >= kMaxEventsInFlight ? absl::InfiniteFuture() : now;
  }
  const absl::Time calm = Calm(now) ? absl::InfiniteFuture() : admitted_at_ + options_.calm_after;
  return std::min(calm, event_pace_.Next(now, options_.events_per_second));
}

void Operator::SendOldestEvent() {
  WaitingEvent event = std::move(events_.front());
  events_.pop_front();
  state::Action action = std::move(event.action);
  absl::StatusOr<api::Json> body = api::ParseJson(event.body);
  if (!body.ok()) return;  // not UTF-8: the API server would refuse it as well
  action.body = *std::move(body);
  const state::Ref target{api::Kind::kEvent, action.key};
  Send(std::move(action), target, {});
}

void Operator::SendEvents(absl::Time now) {
  while (!events_.empty()) {
    const bool idle = Calm(now) && essential_in_flight_ == 0;
    if (idle && in_flight_.size() >= kMaxEventsInFlight) return;
    if (!idle) {
      if (!event_pace_.Ready(now, options_.events_per_second)) return;
      event_pace_.Take();
    }
    SendOldestEvent();
  }
}

void Operator::Send(state::Action action, const state::Ref& owner, std::vector<Note> notes,
                    Purpose purpose, std::vector<GateRemoval> gates) {
  action.id = next_id_++;
  InFlight write;
  write.target = {action.kind, action.key};
  write.owner = owner;
  write.notes = std::move(notes);
  write.gates = std::move(gates);
  write.admission = purpose == Purpose::kAdmission;
  write.eviction = purpose == Purpose::kEviction;
  if (action.verb != state::Verb::kDelete) write.base_version = VersionOf(action.body);
  write.action = action;
  write.action.body = api::Json();
  ++busy_[write.target];
  if (!(write.target == owner)) ++busy_[owner];
  if (!action.best_effort) ++essential_in_flight_;
  if (IsQueueStatus(action)) ++counts_in_flight_;
  in_flight_.emplace(action.id, std::move(write));
  sink_.Submit(std::move(action));
}

}  // namespace sluice::reconcile
