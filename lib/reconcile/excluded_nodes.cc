#include "reconcile/excluded_nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "queueing/requests.h"
#include "queueing/topology_inputs.h"

namespace sluice::reconcile {
namespace {

constexpr int kSamples = 16;
constexpr char kHostname[] = "kubernetes.io/hostname";

// The cause under which placement's own reason is counted; "" for a node that is only full or lies
// outside of the domain that was asked for.
std::string CauseOf(const std::string& reason) {
  if (reason.starts_with("taint ")) return "taint";
  if (reason == "nodeSelector" || reason == "affinity") return "affinity";
  if (reason == "nodeLifecycle") return "drain";
  if (reason == "maintenance") return "maintenance";
  return "";
}

// Why no tree has the node; "" when that is not known here.
const char* AbsenceOf(const api::Node& node, bool leaving_counts) {
  if (node.unschedulable) return "cordon";
  if (!api::IsTrue(node.conditions, "Ready")) return "notReady";
  if (!leaving_counts) return "";
  // Most nodes have no other condition that is True, and the look at all that they say is dear.
  const bool healthy = std::none_of(
      node.conditions.begin(), node.conditions.end(), [](const api::Condition& condition) {
        return condition.status == api::ConditionStatus::kTrue && condition.type != "Ready";
      });
  return !healthy && queueing::TopologyNode(node).leaving ? "drain" : "";
}

bool Belongs(const api::Node& node, const api::ResourceFlavor& flavor,
             const api::Topology& topology) {
  const api::StringMap& labels = node.metadata.labels;
  for (const auto& [key, value] : flavor.spec.node_labels) {
    const auto found = labels.find(key);
    if (found == labels.end() || found->second != value) return false;
  }
  return std::all_of(topology.spec.levels.begin(), topology.spec.levels.end(),
                     [&](const auto& level) { return labels.contains(level.node_label); });
}

int64_t PodsOn(const Requests& free, const Requests& per_pod) {
  int64_t pods = std::numeric_limits<int64_t>::max();
  const auto limit = [&](const ResourceName& resource, int64_t amount) {
    const auto found = free.find(resource);
    const int64_t there = found == free.end() ? 0 : std::max<int64_t>(0, found->second);
    pods = std::min(pods, there / amount);
  };
  for (const auto& [resource, amount] : per_pod) {
    if (amount > 0) limit(resource, amount);
  }
  limit("pods", 1);
  return pods;
}

void Subtract(const topology::Booking& booking, absl::btree_map<std::string, Requests>& free) {
  for (const topology::PodSetUsage& pod_set : booking.usage()) {
    for (const topology::AssignedDomain& domain : pod_set.assignment.domains) {
      if (domain.values.empty()) continue;
      const auto host = free.find(domain.values.back());
      if (host == free.end()) continue;
      for (const auto& [resource, amount] : pod_set.per_pod) {
        host->second[resource] -= amount * domain.count;
      }
      host->second["pods"] -= domain.count;
    }
  }
}

// Takes what workloads hold on these hosts from what is free there.
void SubtractUsage(state::World& world, absl::btree_map<std::string, Requests>& free) {
  const topology::Inventory& inventory = world.topology()->inventory();
  const admission::Snapshot& snapshot = world.snapshot();
  for (const auto& [name, queue] : snapshot.cluster_queues) {
    for (const preemption::ReservedWorkload* holder : snapshot.reserved.Of(name)) {
      const topology::Booking* booking = inventory.FindWorkload(holder->Key().ToString());
      if (booking != nullptr) Subtract(*booking, free);
    }
  }
}

int64_t PodsOnAll(const absl::btree_map<std::string, Requests>& free, const Requests& per_pod) {
  int64_t pods = 0;
  for (const auto& [host, amounts] : free) pods = SaturatingAdd(pods, PodsOn(amounts, per_pod));
  return pods;
}

struct InTree {
  int64_t excluded = 0;  // nodes
  int64_t each = 1;      // so much fits on each, as on those that take part
};
InTree CountInTree(const topology::Failure& failure, ExcludedNodes& excluded) {
  InTree found;
  int64_t full = 0;
  for (const auto& [reason, leaves] : failure.excluded) {
    const std::string cause = CauseOf(reason);
    (cause.empty() ? full : found.excluded) += leaves;
    if (!cause.empty()) excluded.by_cause[cause] += leaves;
  }
  const int64_t used = std::max<int64_t>(1, failure.leaves - full - found.excluded);
  found.each = std::max<int64_t>(1, (failure.total + used - 1) / used);
  return found;
}

const api::PodSet* FindPodSet(const api::Workload& workload, const std::string& name) {
  for (const api::PodSet& pod_set : workload.spec.pod_sets) {
    if (pod_set.name == name) return &pod_set;
  }
  return nullptr;
}

}  // namespace

int64_t ExcludedNodes::Count() const {
  int64_t count = 0;
  for (const auto& [cause, number] : by_cause) count += number;
  return count;
}

std::string ExcludedNodes::Text() const {
  std::string causes;
  for (const auto& [cause, number] : by_cause) {
    causes += fmt::format("{}{} {}", causes.empty() ? "" : ", ", cause, number);
  }
  return fmt::format("{} of {} may not be used ({})", Count(), nodes, causes);
}

ExcludedNodes FindExcluded(state::World& world, const api::Workload& workload,
                           const std::string& pod_set_name, const FlavorName& flavor_name,
                           const topology::Failure& failure) {
  ExcludedNodes excluded;
  excluded.nodes = failure.leaves;
  excluded.missing = std::max<int64_t>(1, failure.needed - failure.total);
  const InTree in_tree = CountInTree(failure, excluded);
  int64_t each = in_tree.each;
  const auto finish = [&] {
    excluded.room = SaturatingAdd(excluded.room, in_tree.excluded * each);
  };

  const api::PodSet* pod_set = FindPodSet(workload, pod_set_name);
  const auto flavor = world.flavors().Find({"", flavor_name});
  const auto topology =
      flavor == nullptr ? nullptr : world.topologies().Find({"", flavor->spec.topology_name});
  const bool known = pod_set != nullptr && topology != nullptr && !topology->spec.levels.empty();
  if (!known || world.topology() == nullptr) {
    finish();
    return excluded;
  }
  const Requests per_pod =
      queueing::PodSetPerPod(*pod_set, world.RequestContextFor(workload.metadata.ns));
  const int64_t slice = !failure.slices || !pod_set->topology_request.has_value()
                            ? 1
                            : pod_set->topology_request->pod_set_slice_size.value_or(1);
  const auto units = [&](int64_t pods) { return pods / std::max<int64_t>(1, slice); };
  // Without any domain nobody has counted.
  if (failure.needed == 0) excluded.missing = std::max<int64_t>(1, units(pod_set->count));
  const bool ends_in_hosts = topology->spec.levels.back().node_label == kHostname;
  const bool leaving_counts =
      !ends_in_hosts && world.topology()->inventory().options().exclude_leaving;
  absl::btree_map<std::string, Requests> free;  // by host, of those in no tree
  int samples = 0;
  for (const auto& [key, node] : world.nodes().all()) {
    const char* cause = AbsenceOf(*node, leaving_counts);
    const bool in_a_tree = *cause == '\0';
    const bool sample = in_a_tree && in_tree.excluded > 0 && samples < kSamples;
    if ((in_a_tree && !sample) || !Belongs(*node, *flavor, *topology)) continue;
    const Requests allocatable = RequestsOf(node->allocatable);
    if (sample) {  // some tell how large nodes are here
      ++samples;
      each = std::max(each, units(PodsOn(allocatable, per_pod)));
      continue;
    }
    ++excluded.by_cause[cause];
    ++excluded.nodes;
    const auto host = node->metadata.labels.find(kHostname);
    free[host == node->metadata.labels.end() ? key.name : host->second] = allocatable;
  }
  excluded.room = units(PodsOnAll(free, per_pod));
  finish();
  // What runs there matters only where they would be enough without it.
  if (free.empty() || excluded.room < excluded.missing) return excluded;
  SubtractUsage(world, free);
  excluded.room = units(PodsOnAll(free, per_pod));
  finish();
  return excluded;
}

}  // namespace sluice::reconcile
