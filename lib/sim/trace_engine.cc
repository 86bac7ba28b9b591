#include "sim/trace_engine.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "admission/conditions.h"
#include "admission/pods_ready.h"
#include "api/names.h"
#include "base/check.h"
#include "base/status.h"

namespace sluice::sim {
namespace {

using admission::Decision;
using State = JobOutcome::State;

// More rounds of decisions at one instant than that only happen when workloads preempt each other
// in circles.
constexpr int kMaxRounds = 100'000;
constexpr size_t kMaxAdmissions = 1000;

}  // namespace

bool TraceEngine::Timer::operator>(const Timer& other) const {
  return std::tie(time, kind, job, start) >
         std::tie(other.time, other.kind, other.job, other.start);
}

TraceEngine::TraceEngine(TraceCluster& cluster, const Trace& trace, const TraceOptions& options)
    : cluster_(cluster), world_(cluster.world()), trace_(trace), options_(options) {
  outcomes_.resize(trace_.jobs.size());
  starts_.resize(trace_.jobs.size());
  MakePrototypes();
  for (uint32_t job = 0; !trace_.live.empty() && job < trace_.jobs.size(); ++job) {
    const LiveWorkload* live = LiveOf(job);
    if (live == nullptr || live->workload->metadata.uid.empty()) continue;
    live_uids_.try_emplace(live->workload->metadata.uid, job);
  }
}

TraceEngine::~TraceEngine() = default;

const LiveWorkload* TraceEngine::LiveOf(uint32_t job) const {
  const uint32_t live = trace_.jobs[job].live;
  return live == 0 ? nullptr : &trace_.live[live - 1];
}

// Conditions of live workloads name others by their uids, so those stay. Of others it is the number
// of the workload, written so that the order of uids is that of arrivals.
std::string TraceEngine::UidOf(uint32_t job) const {
  if (const LiveWorkload* live = LiveOf(job)) {
    const auto known = live_uids_.find(live->workload->metadata.uid);
    if (known != live_uids_.end() && known->second == job) return known->first;
  }
  return fmt::format("{:010}", job);
}

uint32_t TraceEngine::JobOf(const api::Workload& workload) const {
  const auto live = live_uids_.find(workload.metadata.uid);
  if (live != live_uids_.end()) return live->second;
  uint32_t job = 0;
  const bool known = absl::SimpleAtoi(workload.metadata.uid, &job);
  SLUICE_CHECK(known, "workload {} is not of the trace", workload.metadata.name);
  return job;
}

// What equal workloads share is computed once.
void TraceEngine::MakePrototypes() {
  for (const TraceShape& shape : trace_.shapes) {
    const TraceCluster::Queue& queue = cluster_.local_queues()[shape.local_queue];
    auto workload = std::make_shared<api::Workload>();
    workload->metadata.ns = queue.key.ns;
    workload->metadata.generation = 1;
    workload->spec.queue_name = queue.key.name;
    workload->spec.priority = shape.priority;
    workload->spec.pod_sets = shape.pod_sets;
    workload->spec.maximum_execution_time_seconds = shape.maximum_execution_time_seconds;
    workload->metadata.annotations = shape.annotations;
    prototypes_.push_back(queueing::MakeWorkloadInfo(std::move(workload), queue.cluster_queue,
                                                     world_.RequestContextFor(queue.key.ns),
                                                     world_.order_options()));
    Requests requests;
    for (const queueing::PodSetRequests& pod_set : prototypes_.back()->requests) {
      for (const auto& [resource, amount] : pod_set.total) {
        requests[resource] = SaturatingAdd(requests[resource], amount);
      }
    }
    requests_.push_back(std::move(requests));
  }
  waiting_reasons_.resize(trace_.shapes.size());
  usages_.resize(trace_.shapes.size());
}

const std::string& TraceEngine::ClusterQueueOf(uint32_t shape) const {
  return prototypes_[shape]->cluster_queue;
}

ObjectKey TraceEngine::KeyOf(uint32_t job) const {
  return {prototypes_[trace_.jobs[job].shape]->local_queue.ns, trace_.jobs[job].name};
}

void TraceEngine::Emit(TraceEvent::Kind kind, uint32_t job, const FlavorResourceAmounts* usage,
                       std::string detail) {
  const TraceEvent event{kind, now_, job, usage, std::move(detail)};
  for (TraceListener* listener : listeners_) listener->OnTraceEvent(event);
}

// The same few amounts come again and again.
const FlavorResourceAmounts* TraceEngine::Intern(uint32_t shape, FlavorResourceAmounts usage) {
  auto& known = usages_[shape];
  for (const auto& candidate : known) {
    if (*candidate == usage) return candidate.get();
  }
  known.push_back(std::make_unique<FlavorResourceAmounts>(std::move(usage)));
  return known.back().get();
}

std::optional<Micros> TraceEngine::NextTime() const {
  std::optional<Micros> next;
  if (next_arrival_ < trace_.jobs.size()) next = trace_.jobs[next_arrival_].submit;
  if (!timers_.empty() && (!next || timers_.top().time < *next)) next = timers_.top().time;
  if (next && *next > options_.until) return std::nullopt;
  return next;
}

absl::Status TraceEngine::Run() {
  GoOnAll();  // before the accounts begin, which then count what is held
  cluster_.StartCredits(At(0));
  int64_t rounds = 0;  // at this instant
  while (const std::optional<Micros> next = NextTime()) {
    rounds = *next == now_ ? rounds + 1 : 0;
    if (rounds > kMaxRounds) return Circles();
    now_ = *next;
    PrepareCredits();
    TakeIn();
    RETURN_IF_ERROR(Decide());
    ScheduleWake();
  }
  return absl::OkStatus();
}

absl::Status TraceEngine::Circles() const {
  return absl::InternalError(
      fmt::format("at {} s the decisions go round in circles", FormatMicros(now_)));
}

void TraceEngine::TakeIn() {
  while (!timers_.empty() && timers_.top().time <= now_) {
    const Timer timer = timers_.top();
    timers_.pop();
    if (timer.kind == Timer::Kind::kWake) {
      wake_at_ = -1;
    } else if (timer.start == starts_[timer.job]) {
      const State state = outcomes_[timer.job].state;
      if (timer.kind == Timer::Kind::kFinish && state == State::kRunning) Finish(timer.job);
      if (timer.kind == Timer::Kind::kAsked && state == State::kRunning) Asked(timer.job);
      if (timer.kind == Timer::Kind::kStopped && state == State::kStopping) Stopped(timer.job);
    }
  }
  while (next_arrival_ < trace_.jobs.size() && trace_.jobs[next_arrival_].submit <= now_) {
    Submit(static_cast<uint32_t>(next_arrival_++));
  }
}

absl::Status TraceEngine::Decide() {
  const absl::Time now = At(now_);
  PrepareCredits();
  world_.RunReleases(now);
  for (int round = 0; world_.queues().HasHeads(now); ++round) {
    if (round > kMaxRounds) return Circles();
    for (const Decision& decision :
         admission::Schedule(world_.snapshot(), world_.queues(), now, kMaxAdmissions)) {
      Handle(decision);
    }
    PrepareCredits();
    world_.RunReleases(now);
  }
  return absl::OkStatus();
}

void TraceEngine::PrepareCredits() {
  state::Refs touched;
  world_.PrepareCredits(At(now_), touched);
}

void TraceEngine::Handle(const Decision& decision) {
  const uint32_t job = JobOf(*decision.info->workload);
  switch (decision.kind) {
    case Decision::Kind::kAdmit:
      Admit(job, decision);
      break;
    case Decision::Kind::kPreempt:
    case Decision::Kind::kWait:
      waiting_reasons_[trace_.jobs[job].shape] = decision.message;
      break;
    case Decision::Kind::kDrop:
      break;
  }
  for (const Decision::Victim& victim : decision.victims) Preempt(decision, victim);
  if (const auto until = decision.explanation.protected_until) {
    world_.NoteLender(decision.info->Key(), *until);
  }
}

std::shared_ptr<api::Workload> TraceEngine::NewWorkload(uint32_t job) const {
  const LiveWorkload* live = LiveOf(job);
  auto workload = std::make_shared<api::Workload>(
      live == nullptr ? *prototypes_[trace_.jobs[job].shape]->workload : *live->workload);
  workload->metadata.uid = UidOf(job);
  if (live == nullptr) workload->metadata.name = trace_.jobs[job].name;
  if (live == nullptr || !workload->metadata.creation_timestamp) {
    workload->metadata.creation_timestamp = At(now_);
  }
  return workload;
}

void TraceEngine::Submit(uint32_t job) {
  if (outcomes_[job].state != State::kNotSubmitted) return;  // it holds quota from the start
  const queueing::WorkloadInfo& prototype = *prototypes_[trace_.jobs[job].shape];
  std::shared_ptr<api::Workload> workload = NewWorkload(job);
  queueing::WorkloadInfoPtr next;
  if (LiveOf(job) != nullptr) {
    NotePreemptor(*workload);
    next = queueing::MakeWorkloadInfo(std::move(workload), prototype.cluster_queue,
                                      world_.RequestContextFor(prototype.local_queue.ns),
                                      world_.order_options());
  } else {
    auto info = std::make_shared<queueing::WorkloadInfo>(prototype);
    info->queue_order_time = queueing::QueueOrderTime(*workload, world_.order_options());
    info->workload = std::move(workload);
    next = std::move(info);
  }
  world_.queues().AddOrUpdate(std::move(next), At(now_));
  world_.snapshot().history.NoteEvent();
  outcomes_[job].state = State::kWaiting;
  Emit(TraceEvent::Kind::kSubmit, job, nullptr);
}

// As the controller reads it from the condition when it starts.
void TraceEngine::NotePreemptor(const api::Workload& workload) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, api::kPreempted);
  const std::string preemptor =
      condition == nullptr ? "" : admission::PreemptorUid(condition->message);
  if (preemptor.empty()) return;
  world_.snapshot().history.SetNow(At(now_));
  world_.snapshot().history.Record(workload.metadata.uid, preemptor);
}

// It was asked for a checkpoint by one that is there too.
std::optional<TraceEngine::Eviction> TraceEngine::AskedBefore(const api::Workload& workload) const {
  const api::Condition* condition =
      api::FindCondition(workload.status.conditions, preemption::kCheckpointRequested);
  if (condition == nullptr || condition->status != api::ConditionStatus::kTrue) return std::nullopt;
  const auto preemptor = live_uids_.find(admission::PreemptorUid(condition->message));
  if (preemptor == live_uids_.end()) return std::nullopt;
  return Eviction{KeyOf(preemptor->second), preemptor->first, condition->reason,
                  condition->message};
}

void TraceEngine::GoOnAll() {
  for (uint32_t job = 0; !trace_.live.empty() && job < trace_.jobs.size(); ++job) {
    const LiveWorkload* live = LiveOf(job);
    if (live != nullptr && queueing::HoldsQuota(*live->workload)) GoOn(job);
  }
}

void TraceEngine::GoOn(uint32_t job) {
  const LiveWorkload& live = *LiveOf(job);
  JobOutcome& outcome = outcomes_[job];
  std::shared_ptr<api::Workload> workload = NewWorkload(job);
  api::Conditions& conditions = workload->status.conditions;
  const bool evicted = api::IsTrue(conditions, api::kEvicted);
  std::optional<Eviction> asked = evicted ? std::nullopt : AskedBefore(*workload);
  api::RemoveCondition(conditions, preemption::kCheckpointRequested);
  if (!evicted) Start(*workload);
  NotePreemptor(*workload);
  const FlavorResourceAmounts* usage = Intern(
      trace_.jobs[job].shape,
      queueing::AdmittedUsage(*workload, world_.settings().gates.Enabled("ReclaimablePods")));
  world_.Assume(workload);
  // The work before its last checkpoint is safe.
  const auto checkpoints = preemption::CheckpointsOf(*workload);
  if (checkpoints && checkpoints->last) {
    const Micros since = absl::ToInt64Microseconds(At(0) - *checkpoints->last);
    outcome.saved = std::clamp<Micros>(live.ran - since, 0, live.ran);
  }
  const Micros begin = outcome.saved - live.ran;
  Running& running = running_[job] = {std::move(workload), usage, begin, begin, {}};
  outcome.state = evicted ? State::kStopping : State::kRunning;
  outcome.first_start = outcome.last_start = 0;
  ++starts_[job];
  Emit(TraceEvent::Kind::kSubmit, job, nullptr);
  Emit(TraceEvent::Kind::kAdmit, job, usage);
  if (evicted) {
    ++outcome.preemptions;
    outcome.saved = Kept(job, running, live.ran, false);
    Emit(TraceEvent::Kind::kPreempt, job, nullptr, "before the start");
    timers_.push({options_.stop_time, Timer::Kind::kStopped, job, starts_[job]});
    return;
  }
  if (trace_.jobs[job].run != kForever) {
    const Micros end = begin + trace_.jobs[job].run - outcome.saved;
    timers_.push({std::max<Micros>(0, end), Timer::Kind::kFinish, job, starts_[job]});
  }
  if (asked) Ask(job, *std::move(asked));
}

// Pods run at once here, and are ready at once: the next one may go ahead.
void TraceEngine::Start(api::Workload& workload) const {
  if (!api::IsTrue(workload.status.conditions, api::kAdmitted)) {
    admission::SetWorkloadCondition(workload, api::kAdmitted, api::ConditionStatus::kTrue,
                                    "Admitted", "The workload is admitted", At(now_));
  }
  if (world_.settings().wait_for_pods_ready &&
      world_.settings().wait_for_pods_ready->block_admission) {
    admission::SetWorkloadCondition(workload, api::kPodsReady, api::ConditionStatus::kTrue,
                                    admission::kPodsStarted, "All pods are ready", At(now_));
  }
}

void TraceEngine::Admit(uint32_t job, const Decision& decision) {
  JobOutcome& outcome = outcomes_[job];
  auto workload = std::make_shared<api::Workload>(*decision.info->workload);
  admission::SetQuotaReservation(*workload, decision.admission, {}, At(now_));
  Start(*workload);
  if (decision.replaces != nullptr) {
    const uint32_t slice = JobOf(*decision.replaces);
    if (outcomes_[slice].state == State::kRunning) Finish(slice);
  }
  const FlavorResourceAmounts* usage =
      Intern(trace_.jobs[job].shape, queueing::AdmittedUsage(*workload));
  world_.Assume(workload);
  const auto checkpoints = preemption::CheckpointsOf(*workload);
  Running& running = running_[job] = {std::move(workload), usage, now_, now_, {}};
  if (outcome.saved > 0 && checkpoints) {
    running.useful_from += absl::ToInt64Microseconds(checkpoints->restart_cost);
  }
  outcome.state = State::kRunning;
  outcome.last_start = now_;
  if (outcome.first_start < 0) outcome.first_start = now_;
  ++starts_[job];
  if (trace_.jobs[job].run != kForever) {
    const Micros end =
        running.useful_from + std::max<Micros>(0, trace_.jobs[job].run - outcome.saved);
    timers_.push({end, Timer::Kind::kFinish, job, starts_[job]});
  }
  Emit(TraceEvent::Kind::kAdmit, job, usage);
}

std::string TraceEngine::Eviction::Detail() const {
  return fmt::format("for {} ({})", preemptor.ToString(), reason);
}

void TraceEngine::Preempt(const Decision& decision, const Decision::Victim& victim) {
  const uint32_t job = JobOf(*victim.workload->workload);
  if (victim.ongoing || outcomes_[job].state != State::kRunning) return;
  Running& running = running_.at(job);
  if (running.asked) return;
  Eviction eviction{decision.info->Key(), decision.info->workload->metadata.uid,
                    preemption::ReasonName(victim.reason),
                    admission::PreemptionMessage(decision, victim, world_.tree())};
  if (!AsksFirst(*running.workload, victim.reason)) return Evict(job, eviction, false);
  Ask(job, std::move(eviction));
}

void TraceEngine::Ask(uint32_t job, Eviction eviction) {
  const Micros grace =
      absl::ToInt64Microseconds(world_.settings().preemption.checkpoint_grace_period);
  world_.AssumeEviction(KeyOf(job));
  Emit(TraceEvent::Kind::kAsk, job, nullptr, eviction.Detail());
  running_.at(job).asked = std::move(eviction);
  timers_.push(
      {now_ + std::min(options_.checkpoint_time, grace), Timer::Kind::kAsked, job, starts_[job]});
}

bool TraceEngine::AsksFirst(const api::Workload& workload, preemption::Reason reason) const {
  if (reason == preemption::Reason::kFlavorMigration) return false;
  if (world_.settings().preemption.checkpoint_grace_period <= absl::ZeroDuration()) return false;
  const auto checkpoints = preemption::CheckpointsOf(workload);
  return checkpoints && checkpoints->on_request;
}

// The checkpoint is written, or the grace is over.
void TraceEngine::Asked(uint32_t job) {
  Running& running = running_.at(job);
  if (!running.asked) return;
  const Eviction eviction = *std::exchange(running.asked, std::nullopt);
  if (world_.queues().PlaceOf(eviction.preemptor) == queueing::Place::kNone) {
    world_.ForgetEviction(KeyOf(job));
    return Emit(TraceEvent::Kind::kWithdraw, job, nullptr);
  }
  const Micros grace =
      absl::ToInt64Microseconds(world_.settings().preemption.checkpoint_grace_period);
  Evict(job, eviction, options_.checkpoint_time <= grace);
}

// Of all the work that it has done so far.
Micros TraceEngine::Kept(uint32_t job, const Running& running, Micros work, bool answered) const {
  if (answered) return work;
  const Micros saved = outcomes_[job].saved;
  const auto checkpoints = preemption::CheckpointsOf(*running.workload);
  if (checkpoints && checkpoints->interval > absl::ZeroDuration()) {
    const Micros interval = std::max<Micros>(1, absl::ToInt64Microseconds(checkpoints->interval));
    return work - (work - saved) % interval;
  }
  if (!options_.checkpoint.has_value()) return checkpoints ? saved : 0;
  if (*options_.checkpoint == 0) return work;
  return std::max(saved, work - work % *options_.checkpoint);
}

// The pods are told to stop; the quota is held until they are gone.
void TraceEngine::Evict(uint32_t job, const Eviction& eviction, bool answered) {
  JobOutcome& outcome = outcomes_[job];
  Running& running = running_.at(job);
  auto workload = std::make_shared<api::Workload>(*running.workload);
  admission::SetEvicted(*workload, admission::kEvictedPreempted, "", eviction.message, At(now_));
  admission::SetPreempted(*workload, eviction.reason, eviction.message, At(now_));
  if (preemption::CheckpointsOf(*workload)) {
    const state::Preemption& rules = world_.settings().preemption;
    preemption::NotePreemption(*workload, {rules.max_per_workload, rules.window}, At(now_));
  }
  world_.snapshot().history.Record(workload->metadata.uid, eviction.preemptor_uid);
  outcome.state = State::kStopping;
  ++outcome.preemptions;
  const Micros work = outcome.saved + std::max<Micros>(0, now_ - running.useful_from);
  const Micros kept = Kept(job, running, work, answered);
  outcome.lost += std::min(now_, running.useful_from) - running.begin + work - kept;
  outcome.saved = kept;
  running.workload = std::move(workload);
  Emit(TraceEvent::Kind::kPreempt, job, nullptr,
       eviction.Detail() + (answered ? ", after a checkpoint" : ""));
  // Now or later: other decisions of this instant must not see the quota free before all are done.
  world_.Assume(running.workload);
  world_.ForgetEviction(KeyOf(job));
  timers_.push({now_ + options_.stop_time, Timer::Kind::kStopped, job, starts_[job]});
}

void TraceEngine::Stopped(uint32_t job) {
  const auto found = running_.find(job);
  const Running running = found->second;
  running_.erase(found);
  state::Refs touched;
  world_.Forget(KeyOf(job), At(now_), touched);
  auto workload = std::make_shared<api::Workload>(*running.workload);
  admission::ReleaseQuota(*workload, At(now_));
  const queueing::WorkloadInfo& prototype = *prototypes_[trace_.jobs[job].shape];
  const LiveWorkload* live = LiveOf(job);
  const bool stays_out =
      live != nullptr &&
      !(live->returns && queueing::IsAdmissible(*workload, world_.order_options()));
  if (!stays_out) {
    world_.queues().AddOrUpdate(
        queueing::MakeWorkloadInfo(std::move(workload), prototype.cluster_queue,
                                   world_.RequestContextFor(prototype.local_queue.ns),
                                   world_.order_options()),
        At(now_));
  }
  outcomes_[job].state = State::kWaiting;
  Emit(TraceEvent::Kind::kRequeue, job, running.usage);
}

void TraceEngine::Finish(uint32_t job) {
  const auto found = running_.find(job);
  const FlavorResourceAmounts* usage = found->second.usage;
  outcomes_[job].lost += found->second.useful_from - found->second.begin;
  if (found->second.asked) world_.ForgetEviction(KeyOf(job));
  running_.erase(found);
  state::Refs touched;
  world_.Forget(KeyOf(job), At(now_), touched);
  outcomes_[job].state = State::kFinished;
  outcomes_[job].finish = now_;
  Emit(TraceEvent::Kind::kFinish, job, usage);
}

// What time alone changes is an event too: the end of a backoff or of a protection, a bank that is
// empty.
void TraceEngine::ScheduleWake() {
  absl::Time due = std::min(world_.CreditsDue(At(now_)), world_.NextProtectionEnd());
  if (const auto backoff = world_.queues().NextDue()) due = std::min(due, *backoff);
  if (due == absl::InfiniteFuture()) return;
  // Rounded up, so that it is over then.
  const Micros at = absl::ToInt64Microseconds(due - trace_.start + absl::Nanoseconds(999));
  if (wake_at_ >= 0 && wake_at_ <= at) return;
  wake_at_ = std::max(at, now_ + 1);
  timers_.push({wake_at_, Timer::Kind::kWake, 0, 0});
}

}  // namespace sluice::sim
