#include "unit/build/builders.h"

#include <algorithm>

#include "api/names.h"
#include "base/check.h"
#include "queueing/requests.h"

namespace sluice::build {
namespace {

api::Toleration Toleration(const std::string& key, const std::string& value,
                           const std::string& effect) {
  api::Toleration toleration;
  toleration.key = key;
  toleration.op = "Equal";
  toleration.value = value;
  toleration.effect = effect;
  return toleration;
}

}  // namespace

absl::Time Epoch() { return absl::FromUnixSeconds(1767225600); }
absl::Time At(double seconds) { return Epoch() + absl::Seconds(seconds); }

Quantity Q(const std::string& text) {
  absl::StatusOr<Quantity> parsed = Quantity::Parse(text);
  SLUICE_CHECK(parsed.ok(), "quantity \"{}\"", text);
  return *parsed;
}

ResourceList Resources(Pairs amounts) {
  ResourceList list;
  for (const auto& [resource, amount] : amounts) list[resource] = Q(amount);
  return list;
}

FlavorResourceAmounts Amounts(
    std::initializer_list<std::pair<std::pair<std::string, std::string>, int64_t>> amounts) {
  FlavorResourceAmounts result;
  for (const auto& [cell, amount] : amounts) result[{cell.first, cell.second}] = amount;
  return result;
}

api::Container MakeContainer(Pairs requests, Pairs limits) {
  api::Container container;
  container.name = "c";
  container.resources.requests = Resources(requests);
  container.resources.limits = Resources(limits);
  return container;
}

template <typename Object, typename Self>
Builder<Object, Self>::Builder(const std::string& ns, const std::string& name) {
  object_.metadata.ns = ns;
  object_.metadata.name = name;
  object_.metadata.uid = "uid-" + name;
  object_.metadata.generation = 1;
  object_.metadata.creation_timestamp = Epoch();
}

template <typename Object, typename Self>
Self& Builder<Object, Self>::OwnedBy(const std::string& api_version, const std::string& kind,
                                     const std::string& name, const std::string& uid) {
  api::OwnerReference owner;
  owner.api_version = api_version;
  owner.kind = kind;
  owner.name = name;
  owner.uid = uid;
  owner.controller = true;
  owner.block_owner_deletion = true;
  object_.metadata.owner_references.push_back(owner);
  return This();
}

template class Builder<api::Workload, Workload>;
template class Builder<api::ClusterQueue, ClusterQueue>;
template class Builder<api::LocalQueue, LocalQueue>;
template class Builder<api::ResourceFlavor, Flavor>;
template class Builder<api::Job, Job>;
template class Builder<api::Namespace, Namespace>;
template class Builder<api::LimitRange, LimitRange>;
template class Builder<api::WorkloadPriorityClass, WorkloadPriorityClass>;
template class Builder<api::PriorityClass, PriorityClass>;
template class Builder<api::RuntimeClass, RuntimeClass>;
template class Builder<api::AdmissionCheck, AdmissionCheck>;

// ---- Workload ----

Workload::Workload(const std::string& name) : Builder("ns", name) {
  object_.spec.active = true;
  object_.spec.pod_sets.emplace_back();
  Last().pod_template.spec->containers.push_back(MakeContainer({}));
}
Workload& Workload::Queue(const std::string& name) { return object_.spec.queue_name = name, *this; }
Workload& Workload::Priority(int32_t priority) { return object_.spec.priority = priority, *this; }
Workload& Workload::Active(bool active) { return object_.spec.active = active, *this; }
Workload& Workload::MaximumExecutionTime(int32_t seconds) {
  return object_.spec.maximum_execution_time_seconds = seconds, *this;
}
Workload& Workload::Count(int32_t count) { return Last().count = count, *this; }
Workload& Workload::MinCount(int32_t count) { return Last().min_count = count, *this; }
Workload& Workload::Request(const std::string& resource, const std::string& amount) {
  Last().pod_template.spec->containers.at(0).resources.requests[resource] = Q(amount);
  return *this;
}
Workload& Workload::Limit(const std::string& resource, const std::string& amount) {
  Last().pod_template.spec->containers.at(0).resources.limits[resource] = Q(amount);
  return *this;
}
Workload& Workload::NodeSelector(const std::string& key, const std::string& value) {
  Last().pod_template.spec->node_selector[key] = value;
  return *this;
}
Workload& Workload::Tolerate(const std::string& key, const std::string& value,
                             const std::string& effect) {
  Last().pod_template.spec->tolerations.push_back(Toleration(key, value, effect));
  return *this;
}
Workload& Workload::RequiredAffinity(std::vector<api::NodeSelectorTerm> terms) {
  api::NodeAffinity affinity;
  affinity.required = std::move(terms);
  Last().pod_template.spec->node_affinity = affinity;
  return *this;
}
Workload& Workload::Spec(api::PodSpec spec) {
  Last().pod_template.spec = std::move(spec);
  return *this;
}
Workload& Workload::PodSet(const std::string& name, int32_t count) {
  if (!std::exchange(fresh_, false)) {
    object_.spec.pod_sets.emplace_back();
    Last().pod_template.spec->containers.push_back(MakeContainer({}));
  }
  Last().name = name;
  Last().count = count;
  return *this;
}
Workload& Workload::Condition(const std::string& type, api::ConditionStatus status,
                              const std::string& reason, absl::Time since,
                              const std::string& message) {
  api::Condition condition;
  condition.type = type;
  condition.status = status;
  condition.reason = reason;
  condition.message = message;
  condition.observed_generation = object_.metadata.generation;
  condition.last_transition_time = since;
  auto& conditions = object_.status.conditions;
  std::erase_if(conditions, [&](const api::Condition& other) { return other.type == type; });
  conditions.push_back(condition);
  return *this;
}
Workload& Workload::Reserved(const std::string& cluster_queue, const std::string& flavor,
                             absl::Time since) {
  api::Admission admission;
  admission.cluster_queue = cluster_queue;
  for (const queueing::PodSetRequests& requests : queueing::TotalRequests(object_, {})) {
    api::PodSetAssignment assignment;
    assignment.name = requests.name;
    assignment.count = requests.count;
    for (const auto& [resource, amount] : requests.total) {
      assignment.flavors[resource] = flavor;
      assignment.resource_usage[resource] = QuantityOf(resource, amount);
    }
    admission.pod_set_assignments.push_back(assignment);
  }
  object_.status.admission = admission;
  return Condition(api::kQuotaReserved, api::ConditionStatus::kTrue, "QuotaReserved", since,
                   "Quota reserved in ClusterQueue " + cluster_queue);
}
Workload& Workload::Admitted(const std::string& cluster_queue, const std::string& flavor,
                             absl::Time since) {
  Reserved(cluster_queue, flavor, since);
  return Condition(api::kAdmitted, api::ConditionStatus::kTrue, "Admitted", since,
                   "The workload is admitted");
}
Workload& Workload::Evicted(const std::string& reason, absl::Time since,
                            const std::string& message) {
  return Condition(api::kEvicted, api::ConditionStatus::kTrue, reason, since, message);
}
Workload& Workload::Finished(absl::Time since) {
  return Condition(api::kFinished, api::ConditionStatus::kTrue, "Succeeded", since, "done");
}
Workload& Workload::Requeued(bool requeued, const std::string& reason, absl::Time since) {
  return Condition(api::kRequeued,
                   requeued ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse, reason,
                   since);
}
Workload& Workload::RequeueAt(absl::Time time, int32_t count) {
  api::RequeueState state;
  state.count = count;
  state.requeue_at = time;
  object_.status.requeue_state = state;
  return *this;
}
Workload& Workload::Reclaimable(const std::string& pod_set, int32_t count) {
  api::ReclaimablePod pod;
  pod.name = pod_set;
  pod.count = count;
  object_.status.reclaimable_pods.push_back(pod);
  return *this;
}
Workload& Workload::Check(const std::string& name, const std::string& state,
                          const std::string& message) {
  api::AdmissionCheckState check;
  check.name = name;
  check.state = state;
  check.message = message;
  check.last_transition_time = Epoch();
  object_.status.admission_checks.push_back(check);
  return *this;
}

// ---- queues and flavors ----

ClusterQueue::ClusterQueue(const std::string& name) : Builder("", name) {
  object_.spec.namespace_selector = api::LabelSelector();
}
ClusterQueue& ClusterQueue::Cohort(const std::string& name) {
  return object_.spec.cohort_name = name, *this;
}
ClusterQueue& ClusterQueue::StrictFifo() {
  return object_.spec.queueing_strategy = "StrictFIFO", *this;
}
ClusterQueue& ClusterQueue::StopPolicy(const std::string& policy) {
  return object_.spec.stop_policy = policy, *this;
}
ClusterQueue& ClusterQueue::NamespaceSelector(std::optional<api::LabelSelector> selector) {
  return object_.spec.namespace_selector = std::move(selector), *this;
}
ClusterQueue& ClusterQueue::Flavor(const std::string& name, Pairs nominal) {
  std::vector<ResourceName> covered;
  api::FlavorQuotas quotas;
  quotas.name = name;
  for (const auto& [resource, amount] : nominal) {
    covered.push_back(resource);
    api::ResourceQuota quota;
    quota.name = resource;
    quota.nominal_quota = Q(amount);
    quotas.resources.push_back(quota);
  }
  auto& groups = object_.spec.resource_groups;
  if (groups.empty() || groups.back().covered_resources != covered) {
    groups.emplace_back();
    groups.back().covered_resources = covered;
  }
  groups.back().flavors.push_back(quotas);
  return *this;
}
api::ResourceQuota& ClusterQueue::LastQuota(const std::string& resource) {
  for (api::ResourceQuota& quota : object_.spec.resource_groups.back().flavors.back().resources) {
    if (quota.name == resource) return quota;
  }
  SLUICE_CHECK(false, "no quota for {}", resource);
}
ClusterQueue& ClusterQueue::BorrowingLimit(const std::string& resource, const std::string& amount) {
  return LastQuota(resource).borrowing_limit = Q(amount), *this;
}
ClusterQueue& ClusterQueue::LendingLimit(const std::string& resource, const std::string& amount) {
  return LastQuota(resource).lending_limit = Q(amount), *this;
}
ClusterQueue& ClusterQueue::Fungibility(const std::string& when_can_borrow,
                                        const std::string& when_can_preempt,
                                        const std::string& preference) {
  api::FlavorFungibility fungibility;
  fungibility.when_can_borrow = when_can_borrow;
  fungibility.when_can_preempt = when_can_preempt;
  fungibility.preference = preference;
  object_.spec.flavor_fungibility = fungibility;
  return *this;
}
ClusterQueue& ClusterQueue::Check(const std::string& name, std::vector<std::string> on_flavors) {
  if (!object_.spec.admission_checks_strategy.has_value()) {
    object_.spec.admission_checks_strategy.emplace();
  }
  api::AdmissionCheckStrategyRule rule;
  rule.name = name;
  rule.on_flavors = std::move(on_flavors);
  object_.spec.admission_checks_strategy->admission_checks.push_back(rule);
  return *this;
}

LocalQueue::LocalQueue(const std::string& name, const std::string& cluster_queue)
    : Builder("ns", name) {
  object_.spec.cluster_queue = cluster_queue;
}
LocalQueue& LocalQueue::StopPolicy(const std::string& policy) {
  return object_.spec.stop_policy = policy, *this;
}

Flavor::Flavor(const std::string& name) : Builder("", name) {}
Flavor& Flavor::NodeLabel(const std::string& key, const std::string& value) {
  return object_.spec.node_labels[key] = value, *this;
}
Flavor& Flavor::Taint(const std::string& key, const std::string& value, const std::string& effect) {
  api::Taint taint;
  taint.key = key;
  taint.value = value;
  taint.effect = effect;
  object_.spec.node_taints.push_back(taint);
  return *this;
}
Flavor& Flavor::Tolerate(const std::string& key, const std::string& value,
                         const std::string& effect) {
  object_.spec.tolerations.push_back(Toleration(key, value, effect));
  return *this;
}
Flavor& Flavor::Topology(const std::string& name) {
  return object_.spec.topology_name = name, *this;
}

// ---- core and batch ----

Job::Job(const std::string& name) : Builder("ns", name) {
  object_.spec.suspend = true;
  object_.spec.parallelism = 1;
  object_.spec.completions = 1;
  object_.spec.pod_template.spec->containers.push_back(MakeContainer({}));
  object_.spec.pod_template.spec->restart_policy = "Never";
}
Job& Job::Queue(const std::string& name) { return Label(api::kQueueNameLabel, name); }
Job& Job::Suspend(bool suspend) { return object_.spec.suspend = suspend, *this; }
Job& Job::Parallelism(int32_t parallelism) { return object_.spec.parallelism = parallelism, *this; }
Job& Job::Completions(int32_t completions) { return object_.spec.completions = completions, *this; }
Job& Job::Request(const std::string& resource, const std::string& amount) {
  object_.spec.pod_template.spec->containers.at(0).resources.requests[resource] = Q(amount);
  return *this;
}
Job& Job::Limit(const std::string& resource, const std::string& amount) {
  object_.spec.pod_template.spec->containers.at(0).resources.limits[resource] = Q(amount);
  return *this;
}
Job& Job::Condition(const std::string& type, absl::Time since, const std::string& reason,
                    const std::string& message) {
  api::Condition condition;
  condition.type = type;
  condition.status = api::ConditionStatus::kTrue;
  condition.reason = reason;
  condition.message = message;
  condition.last_transition_time = since;
  object_.status.conditions.push_back(condition);
  return *this;
}

Namespace::Namespace(const std::string& name) : Builder("", name) {
  object_.metadata.labels["kubernetes.io/metadata.name"] = name;
}

LimitRange::LimitRange(const std::string& name) : Builder("ns", name) {}
LimitRange& LimitRange::Container(Pairs default_requests, Pairs default_limits, Pairs min,
                                  Pairs max) {
  api::LimitRangeItem item;
  item.type = "Container";
  item.default_requests = Resources(default_requests);
  item.default_limits = Resources(default_limits);
  item.min = Resources(min);
  item.max = Resources(max);
  object_.limits.push_back(item);
  return *this;
}
LimitRange& LimitRange::Pod(Pairs min, Pairs max) {
  api::LimitRangeItem item;
  item.type = "Pod";
  item.min = Resources(min);
  item.max = Resources(max);
  object_.limits.push_back(item);
  return *this;
}

WorkloadPriorityClass::WorkloadPriorityClass(const std::string& name, int32_t value)
    : Builder("", name) {
  object_.value = value;
}
PriorityClass::PriorityClass(const std::string& name, int32_t value) : Builder("", name) {
  object_.value = value;
}
PriorityClass& PriorityClass::GlobalDefault() { return object_.global_default = true, *this; }
RuntimeClass::RuntimeClass(const std::string& name, Pairs overhead) : Builder("", name) {
  object_.overhead = Resources(overhead);
}
AdmissionCheck::AdmissionCheck(const std::string& name, const std::string& controller, bool active)
    : Builder("", name) {
  object_.spec.controller_name = controller;
  api::Condition condition;
  condition.type = api::kActive;
  condition.status = active ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse;
  condition.reason = active ? "Active" : "Inactive";
  condition.last_transition_time = Epoch();
  object_.conditions.push_back(condition);
}

}  // namespace sluice::build
