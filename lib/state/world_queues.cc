// The part of World that follows ClusterQueues, Cohorts and LocalQueues: quota, activity,
// membership.
#include <algorithm>

#include "api/names.h"
#include "queueing/backfill.h"
#include "state/spec_defaults.h"
#include "state/world.h"

namespace sluice::state {
namespace {

constexpr char kMultiKueueController[] = "kueue.x-k8s.io/multikueue";
constexpr char kProvisioningController[] = "kueue.x-k8s.io/provisioning-request";

std::string Join(const std::vector<std::string>& parts, const char* separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (!joined.empty()) joined += separator;
    joined += part;
  }
  return joined;
}

std::vector<std::string> FlavorsOf(const api::ClusterQueueSpec& spec) {
  std::vector<std::string> names;
  for (const api::ResourceGroup& group : spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) names.push_back(flavor.name);
  }
  return names;
}

std::vector<std::string> ChecksOf(const api::ClusterQueueSpec& spec) {
  std::vector<std::string> names;
  if (spec.admission_checks_strategy) {
    for (const auto& rule : spec.admission_checks_strategy->admission_checks) {
      names.push_back(rule.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsConcurrent(const api::ClusterQueue* queue) {
  return queue != nullptr && queue->spec.concurrent_admission_policy.has_value();
}

// Parents of variants are not queued, whatever they were before their ClusterQueue was known.
void DropParents(World& world, const std::string& cluster_queue) {
  for (const ObjectKey& queue : world.LocalQueuesOf(cluster_queue)) {
    for (const ObjectKey& key : world.WorkloadsOfLocalQueue(queue)) {
      const auto workload = world.workloads().Find(key);
      if (workload != nullptr && world.IsParent(*workload)) world.queues().Remove(key);
    }
  }
}

void SetUser(absl::btree_set<std::string>& users, const std::string& name, bool uses) {
  if (uses) {
    users.insert(name);
  } else {
    users.erase(name);
  }
}

}  // namespace

void World::CohortChanged(const std::string& name, const api::Cohort* before,
                          const api::Cohort* after, Refs& touched) {
  if (before != nullptr && after != nullptr && before->spec == after->spec) return;
  // What a new controller sees for the first time is no change.
  if (before != nullptr || Synced()) snapshot_.history.Clear();
  // Both the tree that the cohort leaves and the one it comes to may have more room than before:
  // what it borrowed stays behind, and its own children no longer share with those who overuse. The
  // end of a cycle shows here as well, even when it comes with the deletion of a cohort.
  const bool was_in_cycle = snapshot_.tree.CohortInCycle(name);
  const std::vector<std::string> left = snapshot_.tree.TreeOfCohort(name);
  TouchTree(left, touched);
  releases_.insert(left.begin(), left.end());
  credits_.MarkStale();
  if (after == nullptr) {
    snapshot_.tree.RemoveCohort(name);
  } else {
    snapshot_.tree.SetCohort(name, after->spec.parent_name,
                             admission::LimitsOf(after->spec.resource_groups),
                             quota::Weight(FairWeight(after->spec.fair_sharing)));
  }
  const std::vector<std::string> joined = snapshot_.tree.TreeOfCohort(name);
  TouchTree(joined, touched);
  releases_.insert(joined.begin(), joined.end());
  // Workloads say that their queue is inactive while it is below a cycle.
  for (const std::string& queue : left) {
    if (snapshot_.tree.InCycle(queue)) TouchMembers(queue, touched);
  }
  if (was_in_cycle) {
    for (const std::string& queue : joined) TouchMembers(queue, touched);
  }
}

void World::TouchTree(const std::vector<std::string>& cluster_queues, Refs& touched) const {
  for (const std::string& name : cluster_queues) {
    touched.insert({api::Kind::kClusterQueue, {"", name}});
  }
  if (!cluster_queues.empty()) TouchCohorts(cluster_queues.front(), touched);
}

void World::TouchCohorts(const std::string& cluster_queue, Refs& touched) const {
  for (std::string& cohort : snapshot_.tree.CohortsOf(cluster_queue)) {
    touched.insert({api::Kind::kCohort, {"", std::move(cohort)}});
  }
}

std::vector<std::string> World::ReleasedWith(const std::string& cluster_queue) const {
  // In a cycle nothing can be decided; breaking it releases the tree.
  if (snapshot_.tree.InCycle(cluster_queue)) return {};
  return snapshot_.tree.TreeOf(cluster_queue);
}

void World::ClusterQueueChanged(const std::string& name, const api::ClusterQueue* before,
                                const std::shared_ptr<const api::ClusterQueue>& after,
                                Refs& touched) {
  const auto index = [&](const api::ClusterQueue& queue, bool add) {
    for (const std::string& flavor : FlavorsOf(queue.spec)) {
      touched.insert({api::Kind::kResourceFlavor, {"", flavor}});
      SetUser(by_flavor_[flavor], name, add);
    }
    for (const std::string& check : ChecksOf(queue.spec)) {
      touched.insert({api::Kind::kAdmissionCheck, {"", check}});
      SetUser(by_check_[check], name, add);
    }
  };
  const bool spec_changed = before == nullptr || after == nullptr || before->spec != after->spec;
  if (spec_changed) {
    if (before != nullptr || Synced()) snapshot_.history.Clear();
    if (before != nullptr) index(*before, false);
    if (after != nullptr) index(*after, true);
  }
  // Its Workloads turn from queued ones into parents, or get other variants.
  const bool variants = order_options_.concurrent_admission && spec_changed &&
                        (IsConcurrent(before) || IsConcurrent(after.get()));
  if (variants) {
    TouchMembers(name, touched);
    DropParents(*this, name);
  }
  if (spec_changed) credits_.MarkStale();
  if (after == nullptr) {
    const std::vector<std::string> tree = snapshot_.tree.TreeOf(name);
    releases_.insert(tree.begin(), tree.end());
    snapshot_.tree.RemoveClusterQueue(name);
    if (settings_.fair_sharing) TouchTree(tree, touched);
    queues_.RemoveClusterQueue(name);
    activity_.erase(name);
    snapshot_.cluster_queues.erase(name);
    TouchMembers(name, touched);
    return;
  }
  if (before != nullptr && before->spec.stop_policy != after->spec.stop_policy) {
    TouchMembers(name, touched);
  }
  if (spec_changed) {
    const std::vector<std::string> tree = snapshot_.tree.TreeOf(name);
    if (settings_.fair_sharing) TouchTree(tree, touched);
    if (before != nullptr && before->spec.cohort_name != after->spec.cohort_name) {
      releases_.insert(tree.begin(), tree.end());  // what it had borrowed is free there
    }
    const bool was_in_cycle = snapshot_.tree.InCycle(name);
    snapshot_.tree.SetClusterQueue(name, after->spec.cohort_name, LimitsFor(name, after->spec),
                                   quota::Weight(FairWeight(after->spec.fair_sharing)));
    if (snapshot_.tree.InCycle(name) != was_in_cycle) TouchMembers(name, touched);
    // Their status lists its flavors.
    for (const ObjectKey& key : LocalQueuesOf(name)) touched.insert({api::Kind::kLocalQueue, key});
    if (settings_.fair_sharing) TouchTree(snapshot_.tree.TreeOf(name), touched);
    releases_.insert(name);
  }
  RefreshActivity(name, touched);
}

void World::RefreshActivity(const std::string& name, Refs& touched) {
  const std::shared_ptr<const api::ClusterQueue> cluster_queue = cluster_queues_.Find({"", name});
  if (cluster_queue == nullptr) return;
  const QueueActivity activity = ComputeActivity(*cluster_queue);
  admission::ClusterQueueSnapshot snapshot(cluster_queue, activity.active);
  SetTopology(snapshot);
  const bool backfill = queueing::BackfillOf(*cluster_queue).on();
  const bool started = backfill != queues_.BackfillQueues().contains(name);
  // Order is strict there, but for those that delay nobody.
  queues_.AddClusterQueue(name, {backfill ? queueing::QueueingStrategy::kStrictFifo
                                          : queueing::StrategyOf(*cluster_queue),
                                 snapshot.active, UsageBased(name), backfill});
  if (started) {
    releases_.insert(name);
    TouchMembers(name, touched);  // they may tell of reservations that are none any more
  }
  snapshot_.cluster_queues.insert_or_assign(name, std::move(snapshot));
  QueueActivity& stored = activity_[name];
  if (stored == activity) return;
  const bool flipped = stored.active != activity.active || stored.reason.empty();
  stored = activity;
  credits_.MarkStale();
  touched.insert({api::Kind::kClusterQueue, {"", name}});
  if (flipped) TouchMembers(name, touched);
}

void World::TouchMembers(const std::string& cluster_queue, Refs& touched) const {
  for (const ObjectKey& key : LocalQueuesOf(cluster_queue)) {
    touched.insert({api::Kind::kLocalQueue, key});
    for (const ObjectKey& workload : WorkloadsOfLocalQueue(key)) {
      touched.insert({api::Kind::kWorkload, workload});
    }
  }
}

QueueActivity World::ComputeActivity(const api::ClusterQueue& cluster_queue) const {
  if (cluster_queue.metadata.Deleting()) {
    return {false, "Terminating", "Can't admit new workloads; clusterQueue is terminating"};
  }
  std::vector<std::string> reasons;
  std::vector<std::string> texts;
  const auto add = [&](const char* reason, std::string text) {
    reasons.emplace_back(reason);
    texts.push_back(std::move(text));
  };
  if (IsStopped(cluster_queue.spec.stop_policy)) add("Stopped", "is stopped");
  std::vector<std::string> missing;
  for (const std::string& flavor : FlavorsOf(cluster_queue.spec)) {
    if (!flavors_.Contains({"", flavor})) missing.push_back(flavor);
  }
  if (!missing.empty()) {
    add("FlavorNotFound", "references missing ResourceFlavor(s): " + Join(missing, ","));
  }
  ComplainAboutChecks(cluster_queue.spec, add);
  if (topology_ != nullptr && !ChosenElsewhere(cluster_queue.spec)) {
    for (const std::string& flavor : FlavorsOf(cluster_queue.spec)) {
      if (!HasTopology(flavor)) continue;
      const std::string& topology = flavors_.Find({"", flavor})->spec.topology_name;
      if (topologies_.Contains({"", topology})) continue;
      add("TopologyNotFound",
          "there is no Topology \"" + topology + "\" for TAS flavor \"" + flavor + "\"");
    }
  }
  if (reasons.empty()) return {true, "Ready", "Can admit new workloads"};
  return {false, reasons.front(), "Can't admit new workloads: " + Join(texts, ", ") + "."};
}

// Other clusters choose the places of workloads that go there.
bool World::ChosenElsewhere(const api::ClusterQueueSpec& spec) const {
  const std::vector<std::string> checks = ChecksOf(spec);
  return std::any_of(checks.begin(), checks.end(), [&](const std::string& name) {
    const std::shared_ptr<const api::AdmissionCheck> check = admission_checks_.Find({"", name});
    return check != nullptr && check->spec.controller_name == kMultiKueueController;
  });
}

void World::SetTopology(admission::ClusterQueueSnapshot& snapshot) const {
  if (topology_ == nullptr) return;
  const api::ClusterQueueSpec& spec = snapshot.cluster_queue->spec;
  const std::vector<std::string> flavors = FlavorsOf(spec);
  const auto has = [&](const std::string& flavor) { return HasTopology(flavor); };
  snapshot.has_topology = std::any_of(flavors.begin(), flavors.end(), has);
  // One without flavors serves topology only as well: nothing fits there anyway.
  snapshot.only_topology = std::all_of(flavors.begin(), flavors.end(), has);
  if (!snapshot.has_topology) return;
  // What is free on nodes is not known before all of them were listed.
  snapshot.active = snapshot.active && NodesKnown();
  snapshot.places_elsewhere = ChosenElsewhere(spec);
  if (!spec.admission_checks_strategy) return;
  for (const auto& rule : spec.admission_checks_strategy->admission_checks) {
    const std::shared_ptr<const api::AdmissionCheck> check =
        admission_checks_.Find({"", rule.name});
    if (check == nullptr || check->spec.controller_name != kProvisioningController) continue;
    const auto& covered = rule.on_flavors.empty() ? flavors : rule.on_flavors;
    snapshot.provisioned.insert(covered.begin(), covered.end());
  }
}

void World::ComplainAboutChecks(const api::ClusterQueueSpec& spec, const Complain& add) const {
  std::vector<std::string> missing_checks;
  std::vector<std::string> inactive_checks;
  std::vector<std::string> multikueue_checks;
  for (const std::string& name : ChecksOf(spec)) {
    const std::shared_ptr<const api::AdmissionCheck> check = admission_checks_.Find({"", name});
    if (check == nullptr) {
      missing_checks.push_back(name);
      continue;
    }
    if (!api::IsTrue(check->conditions, api::kActive)) inactive_checks.push_back(name);
    if (check->spec.controller_name == kMultiKueueController) multikueue_checks.push_back(name);
  }
  if (!missing_checks.empty()) {
    add("AdmissionCheckNotFound",
        "references missing AdmissionCheck(s): " + Join(missing_checks, ","));
  }
  if (!inactive_checks.empty()) {
    add("AdmissionCheckInactive",
        "references inactive AdmissionCheck(s): " + Join(inactive_checks, ","));
  }
  if (multikueue_checks.size() > 1) {
    add("MultipleMultiKueueAdmissionChecks",
        "Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: " +
            Join(multikueue_checks, ","));
  }
}

void World::LocalQueueChanged(const ObjectKey& key, const api::LocalQueue* before,
                              const api::LocalQueue* after, absl::Time now, Refs& touched) {
  FollowUsageOfLocalQueue(key, before, after, now);
  if (before != nullptr && after != nullptr && before->spec == after->spec &&
      before->metadata.Deleting() == after->metadata.Deleting()) {
    return;
  }
  if (before != nullptr) {
    local_queues_by_cluster_queue_[before->spec.cluster_queue].erase(key);
    touched.insert({api::Kind::kClusterQueue, {"", before->spec.cluster_queue}});
  }
  if (after != nullptr) {
    local_queues_by_cluster_queue_[after->spec.cluster_queue].insert(key);
    touched.insert({api::Kind::kClusterQueue, {"", after->spec.cluster_queue}});
  }
  for (const ObjectKey& workload : WorkloadsOfLocalQueue(key)) {
    touched.insert({api::Kind::kWorkload, workload});
    Enqueue(workload, now);
  }
}

std::vector<ObjectKey> World::LocalQueuesOf(const std::string& cluster_queue) const {
  const auto found = local_queues_by_cluster_queue_.find(cluster_queue);
  if (found == local_queues_by_cluster_queue_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

const QueueTotals& World::ClusterQueueTotals(const std::string& name) const {
  static const QueueTotals kNone;
  const auto found = cluster_queue_totals_.find(name);
  return found == cluster_queue_totals_.end() ? kNone : found->second;
}

const QueueTotals& World::LocalQueueTotals(const ObjectKey& key) const {
  static const QueueTotals kNone;
  const auto found = local_queue_totals_.find(key);
  return found == local_queue_totals_.end() ? kNone : found->second;
}

QueueActivity World::ActivityOf(const std::string& cluster_queue) const {
  const auto found = activity_.find(cluster_queue);
  return found == activity_.end() ? QueueActivity{} : found->second;
}

std::vector<std::string> World::UsersOfFlavor(const std::string& flavor) const {
  const auto found = by_flavor_.find(flavor);
  if (found == by_flavor_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

std::vector<std::string> World::UsersOfCheck(const std::string& check) const {
  const auto found = by_check_.find(check);
  if (found == by_check_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

bool World::NamespaceAllowed(const std::string& cluster_queue, const std::string& ns) const {
  const std::shared_ptr<const api::ClusterQueue> queue = cluster_queues_.Find({"", cluster_queue});
  const std::shared_ptr<const api::Namespace> object = namespaces_.Find({"", ns});
  return queue != nullptr && object != nullptr && admission::NamespaceMatches(*queue, *object);
}

}  // namespace sluice::state
