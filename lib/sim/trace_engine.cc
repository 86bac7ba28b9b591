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

// The number of the workload, written so that the order of uids is that of arrivals.
std::string UidOf(uint32_t job) { return fmt::format("{:010}", job); }
uint32_t JobOf(const api::Workload& workload) {
  uint32_t job = 0;
  const bool known = absl::SimpleAtoi(workload.metadata.uid, &job);
  SLUICE_CHECK(known, "workload {} is not of the trace", workload.metadata.name);
  return job;
}

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
}

TraceEngine::~TraceEngine() = default;

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
  int64_t rounds = 0;  // at this instant
  while (const std::optional<Micros> next = NextTime()) {
    rounds = *next == now_ ? rounds + 1 : 0;
    if (rounds > kMaxRounds) return Circles();
    now_ = *next;
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
      if (timer.kind == Timer::Kind::kStopped && state == State::kStopping) Stopped(timer.job);
    }
  }
  while (next_arrival_ < trace_.jobs.size() && trace_.jobs[next_arrival_].submit <= now_) {
    Submit(static_cast<uint32_t>(next_arrival_++));
  }
}

absl::Status TraceEngine::Decide() {
  const absl::Time now = At(now_);
  world_.RunReleases(now);
  for (int round = 0; world_.queues().HasHeads(now); ++round) {
    if (round > kMaxRounds) return Circles();
    for (const Decision& decision :
         admission::Schedule(world_.snapshot(), world_.queues(), now, kMaxAdmissions)) {
      Handle(decision);
    }
    world_.RunReleases(now);
  }
  return absl::OkStatus();
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
}

void TraceEngine::Submit(uint32_t job) {
  const queueing::WorkloadInfo& prototype = *prototypes_[trace_.jobs[job].shape];
  auto workload = std::make_shared<api::Workload>(*prototype.workload);
  workload->metadata.name = trace_.jobs[job].name;
  workload->metadata.uid = UidOf(job);
  workload->metadata.creation_timestamp = At(now_);
  auto info = std::make_shared<queueing::WorkloadInfo>(prototype);
  info->queue_order_time = queueing::QueueOrderTime(*workload, world_.order_options());
  info->workload = std::move(workload);
  world_.queues().AddOrUpdate(std::move(info), At(now_));
  world_.snapshot().history.NoteEvent();
  outcomes_[job].state = State::kWaiting;
  Emit(TraceEvent::Kind::kSubmit, job, nullptr);
}

void TraceEngine::Admit(uint32_t job, const Decision& decision) {
  JobOutcome& outcome = outcomes_[job];
  auto workload = std::make_shared<api::Workload>(*decision.info->workload);
  admission::SetQuotaReservation(*workload, decision.admission, {}, At(now_));
  // Pods are ready at once here; the next one may go ahead.
  if (world_.settings().wait_for_pods_ready &&
      world_.settings().wait_for_pods_ready->block_admission) {
    admission::SetWorkloadCondition(*workload, api::kPodsReady, api::ConditionStatus::kTrue,
                                    admission::kPodsStarted, "All pods are ready", At(now_));
  }
  const FlavorResourceAmounts* usage =
      Intern(trace_.jobs[job].shape, queueing::AdmittedUsage(*workload));
  world_.Assume(workload);
  running_[job] = {std::move(workload), usage};
  outcome.state = State::kRunning;
  outcome.last_start = now_;
  if (outcome.first_start < 0) outcome.first_start = now_;
  ++starts_[job];
  if (trace_.jobs[job].run != kForever) {
    const Micros end = now_ + std::max<Micros>(0, trace_.jobs[job].run - outcome.saved);
    timers_.push({end, Timer::Kind::kFinish, job, starts_[job]});
  }
  Emit(TraceEvent::Kind::kAdmit, job, usage);
}

// The pods are told to stop; the quota is held until they are gone.
void TraceEngine::Preempt(const Decision& decision, const Decision::Victim& victim) {
  const uint32_t job = JobOf(*victim.workload->workload);
  JobOutcome& outcome = outcomes_[job];
  if (victim.ongoing || outcome.state != State::kRunning) return;
  Running& running = running_.at(job);
  const std::string message = admission::PreemptionMessage(decision, victim, world_.tree());
  auto workload = std::make_shared<api::Workload>(*running.workload);
  admission::SetEvicted(*workload, admission::kEvictedPreempted, "", message, At(now_));
  admission::SetPreempted(*workload, preemption::ReasonName(victim.reason), message, At(now_));
  world_.snapshot().history.Record(UidOf(job), decision.info->workload->metadata.uid);
  running.workload = std::move(workload);
  outcome.state = State::kStopping;
  ++outcome.preemptions;
  const Micros work = outcome.saved + now_ - outcome.last_start;
  Micros kept = 0;
  if (options_.checkpoint.has_value()) {
    kept = *options_.checkpoint == 0 ? work
                                     : std::max(outcome.saved, work - work % *options_.checkpoint);
  }
  outcome.lost += work - kept;
  outcome.saved = kept;
  Emit(TraceEvent::Kind::kPreempt, job, nullptr,
       fmt::format("for {} ({})", decision.info->Key().ToString(),
                   preemption::ReasonName(victim.reason)));
  // Now or later: other decisions of this instant must not see the quota free before all are done.
  world_.Assume(running.workload);
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
  world_.queues().AddOrUpdate(
      queueing::MakeWorkloadInfo(std::move(workload), prototype.cluster_queue,
                                 world_.RequestContextFor(prototype.local_queue.ns),
                                 world_.order_options()),
      At(now_));
  outcomes_[job].state = State::kWaiting;
  Emit(TraceEvent::Kind::kRequeue, job, running.usage);
}

void TraceEngine::Finish(uint32_t job) {
  const auto found = running_.find(job);
  const FlavorResourceAmounts* usage = found->second.usage;
  running_.erase(found);
  state::Refs touched;
  world_.Forget(KeyOf(job), At(now_), touched);
  outcomes_[job].state = State::kFinished;
  outcomes_[job].finish = now_;
  Emit(TraceEvent::Kind::kFinish, job, usage);
}

// The end of a backoff is an event too.
void TraceEngine::ScheduleWake() {
  const std::optional<absl::Time> due = world_.queues().NextDue();
  if (!due) return;
  // Rounded up, so that it is over then.
  const Micros at = absl::ToInt64Microseconds(*due - trace_.start + absl::Nanoseconds(999));
  if (wake_at_ >= 0 && wake_at_ <= at) return;
  wake_at_ = std::max(at, now_ + 1);
  timers_.push({wake_at_, Timer::Kind::kWake, 0, 0});
}

}  // namespace sluice::sim
