#include "observer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "admission/cycle.h"
#include "api/names.h"
#include "metrics/workload_records.h"

namespace sluice {
namespace {

// Gauges may lag this much; building them costs a look at every Workload.
constexpr absl::Duration kMetricsInterval = absl::Seconds(5);

bool Is(const api::Workload* workload, const char* type) {
  return workload != nullptr && api::IsTrue(workload->status.conditions, type);
}

// "main: cpu=default, memory=default".
std::string FlavorsOf(const api::Admission& admission) {
  std::string text;
  for (const api::PodSetAssignment& pod_set : admission.pod_set_assignments) {
    text += fmt::format("{}{}:", text.empty() ? "" : "; ", pod_set.name);
    const char* separator = " ";
    for (const auto& [resource, flavor] : pod_set.flavors) {
      text += fmt::format("{}{}={}", separator, resource, flavor);
      separator = ", ";
    }
  }
  return text;
}

absl::Time Since(const api::Workload& workload, const char* type, absl::Time fallback) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, type);
  return condition == nullptr ? fallback : condition->last_transition_time.value_or(fallback);
}

// Why it waits, when that is another reason than before: the text that its condition has.
void LogWait(const api::Workload* before, const api::Workload& after, const loop::Log& log) {
  const auto find = [](const api::Workload& workload) {
    return api::FindCondition(workload.status.conditions, api::kQuotaReserved);
  };
  const api::Condition* now = find(after);
  const api::Condition* then = find(*before);
  if (now == nullptr || (then != nullptr && then->reason == now->reason)) return;
  log.Info("waits", {{"workload", after.metadata.Key().ToString()},
                     {"reason", now->reason},
                     {"message", now->message}});
}

}  // namespace

void ShellObserver::OnChange(const state::Ref& ref) {
  metrics_view_stale_ = true;
  if (pending_) pending_->OnChange(ref);
  switch (ref.kind) {
    case api::Kind::kJob:
      changed_jobs_.insert(ref.key);
      break;
    case api::Kind::kNamespace:
    case api::Kind::kLocalQueue:
    case api::Kind::kWorkloadPriorityClass:
    case api::Kind::kPriorityClass:
      webhook_view_stale_ = true;
      break;
    default:
      break;
  }
}

metrics::QueueLabels ShellObserver::LabelsOf(const api::Workload& workload) const {
  metrics::QueueLabels labels;
  if (workload.status.admission) labels.cluster_queue = workload.status.admission->cluster_queue;
  const auto& local = config_.file.metrics.local_queue_metrics;
  if (local && local->enable && !local->local_queue_selector) {
    labels.local_queue = queueing::LocalQueueKey(workload);
  }
  if (workload.spec.priority_class_ref) {
    labels.priority_class = workload.spec.priority_class_ref->name;
  }
  return labels;
}

void ShellObserver::OnWorkload(const api::Workload* before, const api::Workload* after,
                               absl::Time now) {
  if (after == nullptr || !counts_) return;
  // The first sight of an object tells nothing about when it changed.
  if (before == nullptr) {
    created_.push_back(after->metadata.Key());
    return;
  }
  const auto turned = [&](const char* type) { return !Is(before, type) && Is(after, type); };
  if (turned(api::kQuotaReserved)) {
    metrics_.Observe(metrics::QuotaReservedRecord{
        LabelsOf(*after),
        Since(*after, api::kQuotaReserved, now) - admission::QueuedSince(*before)});
  }
  if (turned(api::kAdmitted)) {
    metrics::AdmittedRecord record{
        LabelsOf(*after), Since(*after, api::kAdmitted, now) - admission::QueuedSince(*before), {}};
    if (!after->status.admission_checks.empty()) {
      record.checks_wait =
          Since(*after, api::kAdmitted, now) - Since(*after, api::kQuotaReserved, now);
    }
    metrics_.Observe(record);
    log_.Info("admitted", {{"workload", after->metadata.Key().ToString()},
                           {"clusterQueue", LabelsOf(*after).cluster_queue},
                           {"wait", record.wait}});
  }
  if (!Is(after, api::kQuotaReserved)) LogWait(before, *after, log_);
  if (const auto ready = metrics::PodsReadyBetween(*before, *after, LabelsOf(*after), now)) {
    metrics_.Observe(*ready);
  }
  if (const auto eviction = metrics::EvictionBetween(*before, *after, LabelsOf(*after), now)) {
    metrics_.Observe(*eviction);
    const api::Condition* evicted = api::FindCondition(after->status.conditions, api::kEvicted);
    log_.Info("evicted", {{"workload", after->metadata.Key().ToString()},
                          {"reason", evicted->reason},
                          {"cause", eviction->underlying_cause},
                          {"message", evicted->message}});
  }
  if (const auto lost = metrics::LostWorkBetween(*before, *after, now, WeightsFor(*before))) {
    metrics_.Observe(*lost);
  }
  if (const auto request = metrics::CheckpointRequestBetween(*before, *after)) {
    metrics_.Observe(*request);
  }
  if (const auto completed = metrics::EvictionCompletedBetween(*before, *after, now)) {
    metrics_.Observe(*completed);
  }
  if (turned(api::kFinished)) Finished(*after, now);
}

const quota::CreditWeights* ShellObserver::WeightsFor(const api::Workload& workload) const {
  if (world_ == nullptr || !workload.status.admission) return nullptr;
  const auto* policy = world_->credits().standing().PolicyOf(
      world_->tree(), workload.status.admission->cluster_queue);
  return policy == nullptr ? nullptr : policy->weights.get();
}

void ShellObserver::Finished(const api::Workload& workload, absl::Time now) {
  metrics::FinishedRecord record{LabelsOf(workload), {}};
  if (Is(&workload, api::kAdmitted)) {
    record.execution_time =
        absl::Seconds(workload.status.accumulated_past_execution_time_seconds.value_or(0)) +
        (Since(workload, api::kFinished, now) - Since(workload, api::kAdmitted, now));
  }
  metrics_.Observe(record);
  const api::Condition* finished = api::FindCondition(workload.status.conditions, api::kFinished);
  log_.Info("finished",
            {{"workload", workload.metadata.Key().ToString()}, {"reason", finished->reason}});
}

// Times of creation are whole seconds. A Job that was changed since (another generation) may have
// got its queue long after it was created, so it tells nothing.
void ShellObserver::Created(const state::World& world, const ObjectKey& key) {
  const auto workload = world.workloads().Find(key);
  if (workload == nullptr) return;
  const api::OwnerReference* owner = workload->metadata.Controller();
  if (owner == nullptr || owner->kind != "Job" || !owner->api_version.starts_with("batch/")) return;
  const auto job = world.jobs().Find({key.ns, owner->name});
  if (job == nullptr || job->metadata.uid != owner->uid || job->metadata.generation != 1) return;
  const auto& begin = job->metadata.creation_timestamp;
  const auto& end = workload->metadata.creation_timestamp;
  if (begin && end) metrics_.WorkloadCreated(owner->kind, *end - *begin);
}

void ShellObserver::OnDecision(const admission::Decision& decision, absl::Time) {
  const bool admit = decision.kind == admission::Decision::Kind::kAdmit;
  ++decisions_;
  if (pending_) pending_->OnDecision(decision);
  if (admit) ++admissions_;
  if (admit && decision.backfill) metrics_.Backfilled(decision.info->cluster_queue);
  std::vector<std::string> victims;
  for (const admission::Decision::Victim& victim : decision.victims) {
    if (!victim.ongoing) victims.push_back(victim.workload->Key().ToString());
  }
  // What changes nothing is told only to those who want to know everything.
  const auto level = admit || !victims.empty() ? loop::LogLevel::kInfo : loop::LogLevel::kDebug;
  if (!log_.Enabled(level)) return;
  loop::LogFields fields = {{"workload", decision.info->Key().ToString()},
                            {"clusterQueue", decision.info->cluster_queue}};
  const std::string considered = admission::RenderConsidered(decision.explanation);
  if (admit) {
    fields.push_back({"flavors", FlavorsOf(decision.admission)});
  } else {
    fields.push_back({"reason", decision.reason});
    fields.push_back({"message", decision.message});
    const std::string rivals = admission::RenderRivals(decision.explanation);
    if (!rivals.empty()) fields.push_back({"cameFirst", rivals});
  }
  if (!considered.empty()) fields.push_back({"considered", considered});
  if (!victims.empty()) fields.push_back({"victims", fmt::format("{}", fmt::join(victims, ", "))});
  const char* what = admit ? "quota reserved" : victims.empty() ? "waits" : "preempts";
  if (level == loop::LogLevel::kInfo) {
    log_.Info(what, fields);
  } else {
    log_.Debug(what, fields);
  }
}

void ShellObserver::OnGateRemoved(const reconcile::GateRemoval& removal, absl::Time now) {
  if (!removal.admitted) return;
  metrics_.Observe(metrics::GateRemovedRecord{removal.gate, removal.cluster_queue, removal.of_group,
                                              now - *removal.admitted});
}

void ShellObserver::OnRejected(const state::Rejection& rejection, bool first, uint64_t count) {
  const char* kind = api::InfoOf(rejection.ref.kind).name;
  metrics_.ObjectRejected(kind);
  if (!first) return;
  log_.Warn("object cannot be read and is ignored", {{"kind", kind},
                                                     {"object", rejection.ref.key.ToString()},
                                                     {"error", rejection.error},
                                                     {"total", static_cast<int64_t>(count)}});
}

void ShellObserver::OnRefused(const state::Action& action, const state::Reply& reply) {
  if (pending_) pending_->OnRefused(action);
  // Conflicts and vanished objects are part of normal work.
  const bool normal = reply.code == 409 || reply.code == 404 || reply.reason == "Stopped";
  if (normal && !log_.Enabled(loop::LogLevel::kDebug)) return;
  const loop::LogFields fields = {{"kind", api::InfoOf(action.kind).name},
                                  {"object", action.key.ToString()},
                                  {"code", reply.code},
                                  {"reason", reply.reason},
                                  {"message", reply.message}};
  if (normal) {
    log_.Debug("write refused", fields);
  } else {
    log_.Warn("write refused", fields);
  }
}

void ShellObserver::Publish(const reconcile::Operator& op, absl::Time now, absl::Duration work) {
  if (decisions_ > 0) metrics_.AdmissionAttempt(admissions_ > 0, work);
  decisions_ = admissions_ = 0;
  const state::World& world = op.world();
  counts_ = op.leading() && world.Synced();
  for (const ObjectKey& key : created_) Created(world, key);
  created_.clear();
  for (const ObjectKey& key : changed_jobs_) jobs_->Update(world, key);
  changed_jobs_.clear();
  if (pending_) pending_->Publish(world, now);
  if (!world.Synced()) return;
  if (features_ != world.features()) {
    features_ = world.features();
    webhook_view_stale_ = metrics_view_stale_ = true;
  }
  if (webhook_view_stale_) {
    webhook_view_stale_ = false;
    jobs_->SetSynced();
    webhook_view_.Store(MakeWebhookView(world, config_.settings, jobs_));
  }
  if (metrics_view_stale_ && now >= next_metrics_view_) {
    metrics_view_stale_ = false;
    next_metrics_view_ = now + kMetricsInterval;
    metrics_view_.Store(MakeMetricsView(world, config_));
  }
}

}  // namespace sluice
