// Status and finalizers of ClusterQueues, LocalQueues and what ClusterQueues refer to.
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <vector>

#include "api/codec.h"
#include "api/names.h"
#include "queueing/backfill.h"
#include "reconcile/reconcilers.h"
#include "state/spec_defaults.h"

namespace sluice::reconcile {
namespace {

using api::Json;

// Total of one cell as the API shows it.
Quantity Total(const FlavorResourceAmounts& amounts, const FlavorResource& cell) {
  const auto found = amounts.find(cell);
  return QuantityOf(cell.resource, found == amounts.end() ? 0 : found->second);
}

// One entry for every flavor of the spec, in its order; resources sorted by name.
std::vector<api::FlavorUsage> FlavorUsages(const api::ClusterQueueSpec& spec,
                                           const FlavorResourceAmounts& amounts) {
  std::vector<api::FlavorUsage> usages;
  for (const api::ResourceGroup& group : spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      api::FlavorUsage usage;
      usage.name = flavor.name;
      for (const api::ResourceQuota& quota : flavor.resources) {
        const FlavorResource cell{flavor.name, quota.name};
        const Quantity total = Total(amounts, cell);
        const Quantity excess = total - quota.nominal_quota;
        const bool borrows = !spec.cohort_name.empty() && excess.Sign() > 0;
        usage.resources.push_back({quota.name, total,
                                   borrows ? QuantityOf(quota.name, AmountOf(quota.name, excess))
                                           : QuantityOf(quota.name, 0)});
      }
      std::sort(usage.resources.begin(), usage.resources.end(),
                [](const auto& a, const auto& b) { return a.name < b.name; });
      usages.push_back(std::move(usage));
    }
  }
  return usages;
}

std::vector<api::LocalQueueFlavorUsage> LocalUsages(const api::ClusterQueueSpec& spec,
                                                    const FlavorResourceAmounts& amounts) {
  std::vector<api::LocalQueueFlavorUsage> usages;
  for (const api::FlavorUsage& flavor : FlavorUsages(spec, amounts)) {
    api::LocalQueueFlavorUsage usage;
    usage.name = flavor.name;
    for (const api::ResourceUsage& resource : flavor.resources) {
      usage.resources.push_back({resource.name, resource.total});
    }
    usages.push_back(std::move(usage));
  }
  return usages;
}

void SetActive(api::Conditions& conditions, const state::QueueActivity& activity,
               int64_t generation, absl::Time now) {
  api::Condition condition;
  condition.type = api::kActive;
  condition.status = activity.active ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse;
  condition.reason = activity.reason;
  condition.message = activity.message;
  condition.observed_generation = generation;
  api::SetCondition(conditions, std::move(condition), now);
}

constexpr std::initializer_list<const char*> kQueueStatusFields = {"flavorsReservation",
                                                                   "flavorsUsage", "fairSharing"};

// The whole status as a merge patch. Nobody else writes the status of queues and cohorts, so the
// patch needs no resource version; what is absent of `fields`, and the consumed resources of
// before, must be cleared by name.
template <typename Status>
state::Action StatusPatch(api::Kind kind, const ObjectKey& key, const Status& status,
                          std::initializer_list<const char*> fields,
                          const ResourceList& dropped = {}) {
  Json encoded = api::Encode(status);
  Json* consumed = &encoded;
  for (const char* name : {"fairSharing", "admissionFairSharingStatus", "consumedResources"}) {
    if (consumed != nullptr) consumed = consumed->Find(name);
  }
  for (const auto& [resource, quantity] : dropped) {
    if (consumed != nullptr && !consumed->Has(resource)) consumed->Set(resource, Json());
  }
  for (const char* field : fields) {
    if (!encoded.Has(field)) encoded.Set(field, Json());
  }
  return MergePatchAction(kind, key, "status", Json::MakeObject({{"status", std::move(encoded)}}),
                          "");
}

// The share that fair sharing goes by, as the API shows it; nothing while it is off.
void SetWeightedShare(const state::World& world, const quota::Node* node,
                      std::optional<api::FairSharingStatus>& status) {
  if (!world.settings().fair_sharing.has_value() || node == nullptr) {
    status.reset();
    return;
  }
  if (!status.has_value()) status.emplace();
  status->weighted_share = quota::Tree::Sound(*node) ? world.tree().ShareOf(*node).Rounded() : 0;
}

// Adds the in-use finalizer to a live object, takes it off a dying one that nothing uses.
// Returns whether the plan got a write.
bool Protect(Plan& plan, api::Kind kind, const api::ObjectMeta& metadata, bool in_use) {
  const bool has = metadata.HasFinalizer(api::kResourceInUse);
  if (!metadata.Deleting() && !has) {
    plan.Add(FinalizersAction(kind, metadata.Key(), With(metadata.finalizers, api::kResourceInUse),
                              metadata.resource_version));
    return true;
  }
  if (metadata.Deleting() && has && !in_use) {
    plan.Add(FinalizersAction(kind, metadata.Key(),
                              Without(metadata.finalizers, api::kResourceInUse),
                              metadata.resource_version));
    return true;
  }
  return false;
}

// Shows the last sample of admission fair sharing, as long as samples are taken.
void ShowConsumed(const state::World& world, const ObjectKey& key, api::LocalQueueStatus& status,
                  Plan& plan) {
  const queueing::UsageLedger* ledger = world.usage_ledger();
  if (ledger == nullptr || !world.LocalQueueActive(key)) return;
  plan.RecheckAt(ledger->NextSample(key));
  const queueing::UsageLedger::Sample* sample = ledger->LastSample(key);
  if (sample == nullptr) return;
  if (!status.fair_sharing) status.fair_sharing.emplace();
  status.fair_sharing->admission_fair_sharing_status = {sample->consumed_resources, sample->time};
}

ResourceList ConsumedIn(const api::LocalQueueStatus& status) {
  if (!status.fair_sharing || !status.fair_sharing->admission_fair_sharing_status) return {};
  return status.fair_sharing->admission_fair_sharing_status->consumed_resources;
}

}  // namespace

namespace {

// The webhook refuses such values; without it they have no effect, which must not go unnoticed.
void AddBackfillNotes(const api::ClusterQueue& cluster_queue, Plan& plan) {
  for (const std::string& name : queueing::BackfillAnnotations()) {
    const auto found = cluster_queue.metadata.annotations.find(name);
    if (found == cluster_queue.metadata.annotations.end()) continue;
    const auto problem = queueing::BackfillProblem(name, found->second);
    if (!problem) continue;
    Note note;
    note.kind = api::Kind::kClusterQueue;
    note.key = cluster_queue.metadata.Key();
    note.uid = cluster_queue.metadata.uid;
    note.source = kAdmissionSource;
    note.warning = true;
    note.reason = "InvalidBackfill";
    note.message = fmt::format("metadata.annotations[{}]: \"{}\" is ignored, it {}", name,
                               api::TruncateMessage(found->second, 64), *problem);
    plan.notes.push_back(std::move(note));
  }
}

// Amounts of the node that cannot be counted, told on the object of that kind and name.
void AddOverflowNotes(const state::World& world, const quota::Node& node, Note note, Plan& plan) {
  for (const quota::Tree::Overflow& found : world.tree().OverflowsOf(node)) {
    note.reason = "QuotaOverflow";
    note.message = fmt::format(
        "The {} of {} in flavor {} in {} {}{} is more than {}, the largest amount that is counted: "
        "it counts as {}",
        found.usage ? "usage" : "quota", found.cell.resource, found.cell.flavor,
        node.is_cohort() ? "Cohort" : "ClusterQueue", node.name(),
        node.is_cohort() ? " with all below it" : "",
        QuantityOf(found.cell.resource, quota::kUnlimited).ToString(),
        found.usage ? "that much" : "unlimited");
    plan.notes.push_back(note);
  }
}

// Of the parent as well where that has no object, on one of its children.
void AddOverflowNotes(const state::World& world, const quota::Node* node, const Note& note,
                      Plan& plan) {
  if (node == nullptr || !quota::Tree::Sound(*node)) return;
  AddOverflowNotes(world, *node, note, plan);
  const quota::Node* parent = node->parent();
  if (parent == nullptr || world.cohorts().Contains({"", parent->name()})) return;
  const bool first = parent->queues().empty() ? parent->cohorts().front() == node
                                              : parent->queues().front() == node;
  if (first) AddOverflowNotes(world, *parent, note, plan);
}

}  // namespace

Plan ReconcileClusterQueue(const state::World& world, const ObjectKey& key, absl::Time now) {
  Plan plan;
  const auto cluster_queue = world.cluster_queues().Find(key);
  if (cluster_queue == nullptr) return plan;
  const state::QueueTotals& totals = world.ClusterQueueTotals(key.name);
  if (Protect(plan, api::Kind::kClusterQueue, cluster_queue->metadata, totals.reserving > 0)) {
    return plan;
  }
  AddBackfillNotes(*cluster_queue, plan);
  AddOverflowNotes(
      world, world.tree().FindQueue(key.name),
      {api::Kind::kClusterQueue, key, cluster_queue->metadata.uid, kAdmissionSource, true, "", ""},
      plan);
  api::ClusterQueueStatus status = cluster_queue->status;
  SetActive(status.conditions, world.ActivityOf(key.name), cluster_queue->metadata.generation, now);
  status.flavors_reservation = FlavorUsages(cluster_queue->spec, totals.reservation);
  status.flavors_usage = FlavorUsages(cluster_queue->spec, totals.usage);
  status.pending_workloads = static_cast<int32_t>(world.queues().Pending(key.name).Total());
  status.reserving_workloads = totals.reserving;
  status.admitted_workloads = totals.admitted;
  SetWeightedShare(world, world.tree().FindQueue(key.name), status.fair_sharing);
  if (status == cluster_queue->status) return plan;
  plan.Add(StatusPatch(api::Kind::kClusterQueue, key, status, kQueueStatusFields));
  return plan;
}

Plan ReconcileCohort(const state::World& world, const ObjectKey& key) {
  Plan plan;
  const auto cohort = world.cohorts().Find(key);
  if (cohort == nullptr) return plan;
  if (world.tree().CohortInCycle(key.name)) {
    Note note;
    note.kind = api::Kind::kCohort;
    note.key = key;
    note.uid = cohort->metadata.uid;
    note.source = kCohortSource;
    note.warning = true;
    note.reason = "CohortCycle";
    note.message =
        "The chain of parents leads back to a cohort on it: nothing is admitted in this tree until "
        "spec.parentName of one of them is changed";
    plan.notes.push_back(std::move(note));
    return plan;
  }
  AddOverflowNotes(world, world.tree().FindCohort(key.name),
                   {api::Kind::kCohort, key, cohort->metadata.uid, kCohortSource, true, "", ""},
                   plan);
  api::CohortStatus status = cohort->status;
  SetWeightedShare(world, world.tree().FindCohort(key.name), status.fair_sharing);
  if (status == cohort->status) return plan;
  plan.Add(StatusPatch(api::Kind::kCohort, key, status, {"fairSharing"}));
  return plan;
}

Plan ReconcileLocalQueue(const state::World& world, const ObjectKey& key, absl::Time now) {
  Plan plan;
  const auto queue = world.local_queues().Find(key);
  if (queue == nullptr || queue->metadata.Deleting()) return plan;
  const auto cluster_queue = world.cluster_queues().Find({"", queue->spec.cluster_queue});
  const bool stopped = state::IsStopped(queue->spec.stop_policy);
  state::QueueActivity activity{true, "Ready", "Can submit new workloads to localQueue"};
  if (stopped) {
    activity = {false, "Stopped", "LocalQueue is stopped"};
  } else if (cluster_queue == nullptr) {
    activity = {false, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"};
  } else if (!world.ActivityOf(cluster_queue->metadata.name).active) {
    activity = {false, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"};
  }
  api::LocalQueueStatus status = queue->status;
  SetActive(status.conditions, activity, queue->metadata.generation, now);
  if (cluster_queue == nullptr) {
    status.pending_workloads = status.reserving_workloads = status.admitted_workloads = 0;
    status.flavors_reservation.clear();
    status.flavors_usage.clear();
  } else {
    const state::QueueTotals& totals = world.LocalQueueTotals(key);
    status.pending_workloads =
        static_cast<int32_t>(stopped ? 0 : world.queues().PendingOfLocalQueue(key).Total());
    status.reserving_workloads = totals.reserving;
    status.admitted_workloads = totals.admitted;
    status.flavors_reservation = LocalUsages(cluster_queue->spec, totals.reservation);
    status.flavors_usage = LocalUsages(cluster_queue->spec, totals.usage);
  }
  ShowConsumed(world, key, status, plan);
  if (status == queue->status) return plan;
  plan.Add(StatusPatch(api::Kind::kLocalQueue, key, status, kQueueStatusFields,
                       ConsumedIn(queue->status)));
  return plan;
}

Plan ReconcileResourceFlavor(const state::World& world, const ObjectKey& key) {
  Plan plan;
  if (const auto flavor = world.flavors().Find(key)) {
    Protect(plan, api::Kind::kResourceFlavor, flavor->metadata,
            !world.UsersOfFlavor(key.name).empty());
  }
  return plan;
}

Plan ReconcileAdmissionCheck(const state::World& world, const ObjectKey& key) {
  Plan plan;
  if (const auto check = world.admission_checks().Find(key)) {
    Protect(plan, api::Kind::kAdmissionCheck, check->metadata,
            !world.UsersOfCheck(key.name).empty());
  }
  return plan;
}

Plan ReconcileTopology(const state::World& world, const ObjectKey& key) {
  Plan plan;
  if (const auto topology = world.topologies().Find(key)) {
    const auto& flavors = world.flavors().all();
    const bool in_use = std::any_of(flavors.begin(), flavors.end(), [&](const auto& entry) {
      return entry.second->spec.topology_name == key.name;
    });
    Protect(plan, api::Kind::kTopology, topology->metadata, in_use);
  }
  return plan;
}

}  // namespace sluice::reconcile
