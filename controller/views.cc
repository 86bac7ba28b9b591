#include "views.h"

#include <limits>

#include "admission/reservation.h"
#include "api/names.h"
#include "jobs/construct.h"
#include "topology/fragmentation.h"

namespace sluice {
namespace {

double Amount(const ResourceName& resource, int64_t amount) {
  return static_cast<double>(amount) / (resource == kCpu ? 1000.0 : 1.0);
}

double Find(const FlavorResourceAmounts& amounts, const FlavorResource& cell) {
  const auto found = amounts.find(cell);
  return found == amounts.end() ? 0 : Amount(cell.resource, found->second);
}

std::vector<metrics::FlavorResourceView> ResourceViews(const api::ClusterQueueSpec& spec,
                                                       const state::QueueTotals& totals) {
  std::vector<metrics::FlavorResourceView> views;
  for (const api::ResourceGroup& group : spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        metrics::FlavorResourceView view;
        view.flavor = flavor.name;
        view.resource = quota.name;
        view.nominal = Amount(quota.name, AmountOf(quota.name, quota.nominal_quota));
        if (quota.borrowing_limit) {
          view.borrowing_limit = Amount(quota.name, AmountOf(quota.name, *quota.borrowing_limit));
        }
        if (quota.lending_limit) {
          view.lending_limit = Amount(quota.name, AmountOf(quota.name, *quota.lending_limit));
        }
        view.reservation = Find(totals.reservation, {flavor.name, quota.name});
        view.usage = Find(totals.usage, {flavor.name, quota.name});
        views.push_back(std::move(view));
      }
    }
  }
  return views;
}

// Per queue: finished Workloads, those with a reservation, and the unadmitted ones by their
// reasons.
struct WorkloadCounts {
  int64_t finished = 0;
  int64_t reservations = 0;  // of starts, with backfill
  absl::btree_map<std::pair<std::string, std::string>, int64_t> unadmitted;
};

void Count(const api::Workload& workload, WorkloadCounts& counts) {
  const api::Conditions& conditions = workload.status.conditions;
  if (api::IsTrue(conditions, api::kFinished)) {
    ++counts.finished;
    return;
  }
  if (api::IsTrue(conditions, api::kAdmitted) || workload.metadata.Deleting()) return;
  if (admission::ShowsReservation(workload)) ++counts.reservations;
  const api::Condition* admitted = api::FindCondition(conditions, api::kAdmitted);
  const api::Condition* reserved = api::FindCondition(conditions, api::kQuotaReserved);
  std::string cause;
  if (reserved == nullptr) {
    cause = "PendingEvaluation";
  } else if (reserved->status == api::ConditionStatus::kFalse) {
    cause = reserved->reason;
  }
  ++counts.unadmitted[{admitted == nullptr ? "NoReservation" : admitted->reason, cause}];
}

std::vector<metrics::UnadmittedCount> UnadmittedViews(const WorkloadCounts& counts) {
  std::vector<metrics::UnadmittedCount> views;
  for (const auto& [reasons, count] : counts.unadmitted) {
    views.push_back({reasons.first, reasons.second, count});
  }
  return views;
}

metrics::ClusterQueueView ClusterQueueViewOf(const state::World& world,
                                             const api::ClusterQueue& queue,
                                             const WorkloadCounts& counts) {
  using Status = metrics::ClusterQueueView::Status;
  const std::string& name = queue.metadata.name;
  const state::QueueTotals& totals = world.ClusterQueueTotals(name);
  metrics::ClusterQueueView view;
  view.name = name;
  view.cohort = queue.spec.cohort_name;
  view.root_cohort = queue.spec.cohort_name;
  view.status = queue.metadata.Deleting()       ? Status::kTerminating
                : world.ActivityOf(name).active ? Status::kActive
                                                : Status::kPending;
  const queueing::PendingCounts pending = world.queues().Pending(name);
  view.pending_active = pending.active;
  view.pending_inadmissible = pending.inadmissible;
  view.reserving = totals.reserving;
  view.admitted = totals.admitted;
  view.finished = counts.finished;
  if (world.queues().BackfillQueues().contains(name)) view.reservations = counts.reservations;
  view.resources = ResourceViews(queue.spec, totals);
  view.unadmitted = UnadmittedViews(counts);
  absl::btree_map<ResourceName, int64_t> waiting;
  for (const api::ResourceGroup& group : queue.spec.resource_groups) {
    for (const ResourceName& resource : group.covered_resources) waiting[resource] = 0;
  }
  for (const queueing::PendingWorkload& workload : world.queues().Snapshot(name)) {
    for (const queueing::PodSetRequests& pod_set : workload.info->requests) {
      for (const auto& [resource, amount] : pod_set.total) {
        const auto found = waiting.find(resource);
        if (found != waiting.end()) found->second = SaturatingAdd(found->second, amount);
      }
    }
  }
  for (const auto& [resource, amount] : waiting) {
    view.pending_resources.push_back({resource, Amount(resource, amount)});
  }
  return view;
}

metrics::LocalQueueView LocalQueueViewOf(const state::World& world, const ObjectKey& key,
                                         const api::LocalQueue& queue,
                                         const WorkloadCounts& counts) {
  using Active = metrics::LocalQueueView::Active;
  const state::QueueTotals& totals = world.LocalQueueTotals(key);
  metrics::LocalQueueView view;
  view.ns = key.ns;
  view.name = key.name;
  view.cluster_queue = queue.spec.cluster_queue;
  const api::Condition* active = api::FindCondition(queue.status.conditions, api::kActive);
  view.active = active == nullptr                               ? Active::kUnknown
                : active->status == api::ConditionStatus::kTrue ? Active::kTrue
                                                                : Active::kFalse;
  const queueing::PendingCounts pending = world.queues().PendingOfLocalQueue(key);
  view.pending_active = pending.active;
  view.pending_inadmissible = pending.inadmissible;
  view.reserving = totals.reserving;
  view.admitted = totals.admitted;
  view.finished = counts.finished;
  if (const auto cluster_queue = world.cluster_queues().Find({"", queue.spec.cluster_queue})) {
    view.resources = ResourceViews(cluster_queue->spec, totals);
  }
  view.unadmitted = UnadmittedViews(counts);
  if (const queueing::UsageLedger* ledger = world.usage_ledger()) {
    const queueing::UsageValue usage = ledger->Usage(key);
    view.fair_sharing_usage = usage.IsInfinite() ? std::numeric_limits<double>::infinity()
                                                 : static_cast<double>(usage.ToNanos()) / 1e9;
  }
  return view;
}

// As of the last time at which the accounts were looked at: a minute ago at most while they move.
std::vector<metrics::CreditAccountView> CreditViewsOf(const state::CreditLedger& credits) {
  constexpr double kMicros = 1e6;
  constexpr double kCreditHour = 3.6e18;
  std::vector<metrics::CreditAccountView> views;
  for (const auto& [name, node] : credits.nodes()) {
    if (!node.timeline.has_value()) continue;
    const quota::CreditAccount account = node.timeline->At(credits.standing().now());
    metrics::CreditAccountView view;
    view.name = name;
    view.policy = node.policy;
    view.balance = static_cast<double>(account.balance().value()) / kCreditHour;
    view.bank_limit = static_cast<double>(account.BankLimit().value()) / kCreditHour;
    view.entitlement = static_cast<double>(account.entitlement()) / kMicros;
    view.usage = static_cast<double>(account.usage()) / kMicros;
    view.rate = static_cast<double>(account.Rate()) / kMicros;
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace

void JobIndex::Update(const state::World& world, const ObjectKey& key) {
  const auto job = world.jobs().Find(key);
  absl::MutexLock lock(&mutex_);
  if (job == nullptr) {
    owners_.erase(key);
    return;
  }
  webhook::Owner owner;
  owner.uid = job->metadata.uid;
  owner.queue_name = job->metadata.Label(api::kQueueNameLabel);
  if (const api::OwnerReference* controller = job->metadata.Controller()) {
    owner.controller = *controller;
  }
  owners_[key] = std::move(owner);
}

void JobIndex::SetSynced() {
  absl::MutexLock lock(&mutex_);
  synced_ = true;
}

webhook::OwnerLookup::Answer JobIndex::Find(const std::string& api_version, const std::string& kind,
                                            const ObjectKey& key) const {
  if (!api_version.starts_with("batch/") || kind != "Job") return {Answer::Kind::kNotWatched, {}};
  absl::MutexLock lock(&mutex_);
  const auto found = owners_.find(key);
  if (found != owners_.end()) return {Answer::Kind::kFound, found->second};
  return {synced_ ? Answer::Kind::kMissing : Answer::Kind::kNotWatched, {}};
}

std::shared_ptr<const webhook::View> MakeWebhookView(const state::World& world,
                                                     const state::Settings& settings,
                                                     std::shared_ptr<const JobIndex> jobs) {
  auto namespaces = std::make_shared<webhook::NamespaceViews>();
  for (const auto& [key, ns] : world.namespaces().all()) {
    const bool has_default = world.local_queues().Contains({key.name, api::kDefaultQueueName});
    namespaces->emplace(key.name, webhook::NamespaceView{ns->metadata.labels, has_default});
  }
  auto view = std::make_shared<webhook::View>();
  view->settings = &settings;
  view->features = world.features();
  view->namespaces = std::move(namespaces);
  view->has_default_priority_class =
      world.workload_priority_classes().Contains({"", api::kDefaultQueueName});
  for (const auto& [key, priority_class] : world.priority_classes().all()) {
    if (!jobs::PreemptionPolicyOf(world, key.name).empty()) {
      view->never_preempting.classes.insert(key.name);
    }
  }
  view->never_preempting.by_default = !jobs::PreemptionPolicyOf(world, "").empty();
  view->owners = std::move(jobs);
  return view;
}

namespace {

std::vector<metrics::FragmentationView> FragmentationViews(const state::World& world) {
  std::vector<metrics::FragmentationView> views;
  if (world.topology() == nullptr) return views;
  for (const auto& [key, flavor] : world.flavors().all()) {
    for (const topology::Fragmentation& part :
         topology::FragmentationOf(world.topology()->inventory(), key.name)) {
      views.push_back({key.name, part.level, part.resource, Amount(part.resource, part.free),
                       Amount(part.resource, part.largest)});
    }
  }
  return views;
}

}  // namespace

std::shared_ptr<const metrics::MetricsView> MakeMetricsView(const state::World& world,
                                                            const config::Config& config) {
  absl::btree_map<std::string, WorkloadCounts> by_cluster_queue;
  absl::btree_map<ObjectKey, WorkloadCounts> by_local_queue;
  for (const auto& [key, workload] : world.workloads().all()) {
    const std::string cluster_queue = workload->status.admission
                                          ? workload->status.admission->cluster_queue
                                          : world.ClusterQueueOf(*workload);
    Count(*workload, by_cluster_queue[cluster_queue]);
    Count(*workload, by_local_queue[queueing::LocalQueueKey(*workload)]);
  }
  auto view = std::make_shared<metrics::MetricsView>();
  view->pod_groups = world.features().pod_groups;
  view->job_scheduling = world.features().job_scheduling;
  view->credit_accounts = CreditViewsOf(world.credits());
  view->fragmentation = FragmentationViews(world);
  for (const auto& [key, queue] : world.cluster_queues().all()) {
    view->cluster_queues.push_back(ClusterQueueViewOf(world, *queue, by_cluster_queue[key.name]));
  }
  const auto& local = config.file.metrics.local_queue_metrics;
  if (local && local->enable) {
    for (const auto& [key, queue] : world.local_queues().all()) {
      if (local->local_queue_selector &&
          !local->local_queue_selector->Matches(queue->metadata.labels)) {
        continue;
      }
      view->local_queues.push_back(LocalQueueViewOf(world, key, *queue, by_local_queue[key]));
    }
  }
  return view;
}

}  // namespace sluice
