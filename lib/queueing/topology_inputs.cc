#include "queueing/topology_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/json.h"
#include "base/status.h"
#include "base/time.h"
#include "queueing/topology_encoding.h"

namespace sluice::queueing {
namespace {

constexpr const char* kLeaving[] = {"DrainInProgress", "Drained", "MaintenanceInProgress",
                                    "GracefulNodeShutdownInProgress"};

std::vector<topology::Toleration> TolerationsOf(const std::vector<api::Toleration>& tolerations) {
  std::vector<topology::Toleration> result;
  for (const api::Toleration& one : tolerations) {
    result.push_back({one.key, one.op, one.value, one.effect});
  }
  return result;
}

topology::SelectorTerm TermOf(const api::NodeSelectorTerm& term) {
  const auto convert = [](const std::vector<api::NodeSelectorRequirement>& requirements) {
    std::vector<topology::Requirement> result;
    for (const auto& one : requirements) result.push_back({one.key, one.op, one.values});
    return result;
  };
  return {convert(term.match_expressions), convert(term.match_fields)};
}

const std::string* Find(const api::StringMap& map, const char* key) {
  auto found = map.find(key);
  return found == map.end() ? nullptr : &found->second;
}

std::optional<int32_t> ParseSize(const std::string& text) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

// What strconv.ParseBool of Go takes, since users know it from there.
std::optional<bool> ParseBool(const std::string& text) {
  for (const char* yes : {"1", "t", "T", "true", "TRUE", "True"}) {
    if (text == yes) return true;
  }
  for (const char* no : {"0", "f", "F", "false", "FALSE", "False"}) {
    if (text == no) return false;
  }
  return std::nullopt;
}

absl::StatusOr<std::vector<api::TopologySliceConstraint>> ParseConstraints(
    const std::string& text) {
  const absl::StatusOr<api::Json> json = api::ParseJson(text);
  if (!json.ok() || !json->IsArray()) {
    return InvalidArgument("annotation {}: not a JSON array", kSliceConstraints);
  }
  std::vector<api::TopologySliceConstraint> constraints;
  for (const api::Json& entry : json->AsArray()) {
    const api::Json* level = entry.IsObject() ? entry.Find("topology") : nullptr;
    const api::Json* size = entry.IsObject() ? entry.Find("size") : nullptr;
    if (level == nullptr || !level->IsString() || size == nullptr || !size->IsInt()) {
      return InvalidArgument("annotation {}: each entry needs a topology and a size",
                             kSliceConstraints);
    }
    const int64_t value = size->AsInt();
    if (value < 1 || value > std::numeric_limits<int32_t>::max()) {
      return InvalidArgument("annotation {}: size {} is out of range", kSliceConstraints, value);
    }
    constraints.push_back({level->AsString(), static_cast<int32_t>(value)});
  }
  if (constraints.empty() || constraints.size() > 3) {
    return InvalidArgument("annotation {}: has {} entries, must have 1 to 3", kSliceConstraints,
                           constraints.size());
  }
  return constraints;
}

}  // namespace

// ---- what is there ----

topology::Node TopologyNode(const api::Node& node) {
  topology::Node result;
  result.name = node.metadata.name;
  result.labels = node.metadata.labels;
  for (const api::Taint& taint : node.taints) {
    result.taints.push_back({taint.key, taint.value, taint.effect});
  }
  result.allocatable = RequestsOf(node.allocatable);
  result.ready = api::IsTrue(node.conditions, "Ready");
  result.unschedulable = node.unschedulable;
  result.leaving = std::any_of(std::begin(kLeaving), std::end(kLeaving), [&](const char* type) {
    return api::IsTrue(node.conditions, type);
  });
  result.maintenance_planned = api::IsTrue(node.conditions, "MaintenancePlanned");
  if (const std::string* start = Find(node.metadata.annotations, kMaintenanceStart)) {
    // A start that cannot be read is as good as none: the planned maintenance still counts.
    if (const auto time = sluice::ParseTime(*start); time.ok()) {
      result.maintenance_start = absl::ToUnixSeconds(*time);
    }
  }
  return result;
}

topology::Flavor TopologyFlavor(const api::ResourceFlavor& flavor, const api::Topology& topology) {
  topology::Flavor result;
  result.topology = topology.metadata.name;
  for (const api::TopologyLevel& level : topology.spec.levels) {
    result.levels.push_back(level.node_label);
  }
  result.node_labels = flavor.spec.node_labels;
  result.tolerations = TolerationsOf(flavor.spec.tolerations);
  return result;
}

bool IsForeignPod(const api::Pod& pod) {
  if (pod.spec.node_name.empty() || pod.phase == "Succeeded" || pod.phase == "Failed") return false;
  return !AnnotatedForTopology(pod.metadata.annotations);
}

bool AnnotatedForTopology(const api::StringMap& annotations) {
  for (const char* ours : {kRequiredTopology, kPreferredTopology, kUnconstrainedTopology,
                           kSliceRequiredTopology, kSliceConstraints}) {
    if (annotations.contains(ours)) return true;
  }
  return false;
}

Requests ForeignRequests(const api::Pod& pod) { return RequestsOf(PodRequests(pod.spec)); }

// ---- what is asked ----

absl::StatusOr<std::optional<api::PodSetTopologyRequest>> RequestOfAnnotations(
    const api::StringMap& annotations, bool multi_layer) {
  api::PodSetTopologyRequest request;
  bool asks = true;
  if (const std::string* required = Find(annotations, kRequiredTopology)) {
    request.required = *required;
  } else if (const std::string* preferred = Find(annotations, kPreferredTopology)) {
    request.preferred = *preferred;
  } else if (const std::string* unconstrained = Find(annotations, kUnconstrainedTopology)) {
    request.unconstrained = ParseBool(*unconstrained);
    if (!request.unconstrained.has_value()) {
      return InvalidArgument("annotation {}: \"{}\" is not a boolean", kUnconstrainedTopology,
                             *unconstrained);
    }
  } else {
    asks = false;
  }
  if (const std::string* placement = Find(annotations, kPlacement)) {
    if (const auto problem = PlacementProblem(*placement)) {
      return InvalidArgument("annotation {}: \"{}\" {}", kPlacement, *placement, *problem);
    }
  }
  const std::string* constraints = Find(annotations, kSliceConstraints);
  const std::string* level = Find(annotations, kSliceRequiredTopology);
  const std::string* size = Find(annotations, kSliceSize);
  if (multi_layer && constraints != nullptr) {
    ASSIGN_OR_RETURN(request.pod_set_slice_required_topology_constraints,
                     ParseConstraints(*constraints));
    asks = true;
  } else if (level != nullptr && size != nullptr) {
    request.pod_set_slice_required_topology = *level;
    request.pod_set_slice_size = ParseSize(*size);
    if (!request.pod_set_slice_size.has_value()) {
      return InvalidArgument("annotation {}: \"{}\" is not a number", kSliceSize, *size);
    }
    asks = true;
  }
  if (request.required.has_value() || request.preferred.has_value()) {
    if (const std::string* group = Find(annotations, kPodSetGroupName)) {
      request.pod_set_group_name = *group;
    }
  }
  if (!asks) return std::optional<api::PodSetTopologyRequest>();
  return std::optional(std::move(request));
}

std::optional<std::string> PlacementProblem(const std::string& value) {
  if (value == "Pack" || value == "Spread") return std::nullopt;
  return "must be Pack or Spread";
}

bool AsksForTopology(const api::PodSet& pod_set) {
  if (!pod_set.topology_request.has_value()) return false;
  const api::PodSetTopologyRequest& request = *pod_set.topology_request;
  return request.unconstrained.has_value() || request.required.has_value() ||
         request.preferred.has_value() || request.pod_set_slice_required_topology.has_value() ||
         request.pod_set_slice_size.has_value() ||
         !request.pod_set_slice_required_topology_constraints.empty();
}

topology::TopologyRequest TopologyRequestOf(const api::PodSet& pod_set, bool implied) {
  topology::TopologyRequest result;
  result.implied = implied;
  const std::string* placement = Find(pod_set.pod_template.annotations, kPlacement);
  if (placement != nullptr && *placement == "Spread") {
    result.spreading = topology::Spreading::kSpread;
  }
  if (!pod_set.topology_request.has_value()) return result;
  const api::PodSetTopologyRequest& request = *pod_set.topology_request;
  result.required = request.required.value_or("");
  result.preferred = request.preferred.value_or("");
  result.unconstrained = request.unconstrained.value_or(false);
  result.slice_level = request.pod_set_slice_required_topology.value_or("");
  if (request.pod_set_slice_size.has_value()) result.slice_size = *request.pod_set_slice_size;
  for (const auto& constraint : request.pod_set_slice_required_topology_constraints) {
    result.layers.push_back({constraint.topology, constraint.size});
  }
  result.group = request.pod_set_group_name.value_or("");
  return result;
}

absl::StatusOr<topology::NodeFilter> NodeFilterOf(const api::Workload& workload,
                                                  const api::PodSet& pod_set) {
  const api::PodSpec& spec = *std::as_const(pod_set.pod_template.spec);
  topology::NodeFilter filter;
  filter.node_selector = spec.node_selector;
  filter.tolerations = TolerationsOf(spec.tolerations);
  if (spec.node_affinity.has_value()) {
    for (const auto& term : spec.node_affinity->required) filter.required.push_back(TermOf(term));
    for (const auto& term : spec.node_affinity->preferred) {
      filter.preferred.push_back({term.weight, TermOf(term.preference)});
    }
  }
  for (const api::AdmissionCheckState& check : workload.status.admission_checks) {
    if (check.state != "Ready") continue;
    for (const api::PodSetUpdate& update : check.pod_set_updates) {
      if (update.name != pod_set.name) continue;
      for (const auto& [key, value] : update.node_selector) {
        const auto [place, added] = filter.node_selector.insert({key, value});
        if (added || place->second == value) continue;
        return InvalidArgument(
            "pod set {}: node selector \"{}\" is \"{}\", admission check {} wants \"{}\"",
            pod_set.name, key, place->second, check.name, value);
      }
      const std::vector<topology::Toleration> more = TolerationsOf(update.tolerations);
      filter.tolerations.insert(filter.tolerations.end(), more.begin(), more.end());
    }
  }
  return filter;
}

Requests PodSetPerPod(const api::PodSet& pod_set, const RequestContext& context) {
  return RequestsOf(PodRequests(*std::as_const(pod_set.pod_template.spec), context));
}

absl::StatusOr<topology::PodSetRequest> TopologyPodSet(const api::Workload& workload,
                                                       const api::PodSet& pod_set, int64_t count,
                                                       const FlavorName& flavor, bool implied,
                                                       const RequestContext& context) {
  topology::PodSetRequest result;
  result.name = pod_set.name;
  result.flavor = flavor;
  result.count = count;
  result.per_pod = PodSetPerPod(pod_set, context);
  result.topology = TopologyRequestOf(pod_set, implied);
  ASSIGN_OR_RETURN(result.filter, NodeFilterOf(workload, pod_set));
  return result;
}

// ---- what is known ----

bool HasPlaces(const api::Admission& admission) {
  return std::any_of(admission.pod_set_assignments.begin(), admission.pod_set_assignments.end(),
                     [](const auto& one) { return one.topology_assignment.has_value(); });
}

std::vector<PlacedPodSet> PlacedPodSets(const api::Workload& workload) {
  std::vector<PlacedPodSet> placed;
  if (!workload.status.admission) return placed;
  for (const api::PodSetAssignment& assigned : workload.status.admission->pod_set_assignments) {
    if (!assigned.topology_assignment.has_value()) continue;
    const auto& pod_sets = workload.spec.pod_sets;
    const auto pod_set = std::find_if(pod_sets.begin(), pod_sets.end(),
                                      [&](const auto& one) { return one.name == assigned.name; });
    if (pod_set == pod_sets.end()) continue;
    placed.push_back({&*pod_set, &assigned, DecodeAssignment(*assigned.topology_assignment)});
  }
  return placed;
}

absl::btree_set<FlavorName> FlavorsOf(const api::Workload& workload, const PlacedPodSet& placed) {
  absl::btree_set<FlavorName> flavors;
  for (const auto& [resource, flavor] : placed.assigned->flavors) flavors.insert(flavor);
  const auto group_of = [](const api::PodSet& one) {
    return one.topology_request ? one.topology_request->pod_set_group_name.value_or("") : "";
  };
  const std::string group = group_of(*placed.pod_set);
  if (!flavors.empty() || group.empty()) return flavors;
  for (const api::PodSet& other : workload.spec.pod_sets) {
    if (group_of(other) != group) continue;
    for (const api::PodSetAssignment& theirs : workload.status.admission->pod_set_assignments) {
      if (theirs.name != other.name) continue;
      for (const auto& [resource, flavor] : theirs.flavors) flavors.insert(flavor);
    }
  }
  return flavors;
}

topology::WorkloadUsage TopologyUsage(const api::Workload& workload,
                                      const RequestContext& context) {
  topology::WorkloadUsage usage;
  for (const PlacedPodSet& placed : PlacedPodSets(workload)) {
    if (!placed.places.ok()) continue;  // nothing is known of where it runs
    const Requests per_pod = PodSetPerPod(*placed.pod_set, context);
    for (const FlavorName& flavor : FlavorsOf(workload, placed)) {
      usage.push_back({flavor, per_pod, *placed.places});
    }
  }
  return usage;
}

api::TopologyAssignment EncodeAssignment(const topology::Assignment& assignment,
                                         bool by_hostname_prefix) {
  std::vector<TopologyDomain> domains;
  domains.reserve(assignment.domains.size());
  for (const topology::AssignedDomain& domain : assignment.domains) {
    domains.push_back({domain.values, static_cast<int32_t>(domain.count)});
  }
  return EncodeTopologyAssignment(assignment.levels, domains, by_hostname_prefix);
}

absl::StatusOr<topology::Assignment> DecodeAssignment(const api::TopologyAssignment& assignment) {
  ASSIGN_OR_RETURN(std::vector<TopologyDomain> domains, ExpandTopologyAssignment(assignment));
  topology::Assignment result;
  result.levels = assignment.levels;
  for (TopologyDomain& domain : domains) {
    result.domains.push_back({std::move(domain.values), domain.count});
  }
  return result;
}

}  // namespace sluice::queueing
