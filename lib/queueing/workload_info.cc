#include "queueing/workload_info.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "api/names.h"
#include "queueing/backfill.h"
#include "queueing/topology_inputs.h"

namespace sluice::queueing {
namespace {

// Text that is equal exactly when two workloads get the same answer. Every field ends in a byte
// that cannot occur in it, so that fields cannot run into each other.
class Signature {
 public:
  void Add(const std::string& text) {
    text_ += text;
    text_ += '\0';
  }
  void Add(int64_t number) { Add(std::to_string(number)); }
  void Add(const std::vector<std::string>& values) {
    Add(static_cast<int64_t>(values.size()));
    for (const std::string& value : values) Add(value);
  }
  void Add(const Requests& requests) {
    Add(static_cast<int64_t>(requests.size()));
    for (const auto& [resource, amount] : requests) {
      Add(resource);
      Add(amount);
    }
  }
  void Add(const std::vector<api::NodeSelectorRequirement>& requirements) {
    Add(static_cast<int64_t>(requirements.size()));
    for (const api::NodeSelectorRequirement& requirement : requirements) {
      Add(requirement.key);
      Add(requirement.op);
      Add(requirement.values);
    }
  }
  // Fields of the node (matchFields) never count for a flavor, but they do for a place.
  void Add(const api::NodeSelectorTerm& term) {
    Add(term.match_expressions);
    Add(term.match_fields);
  }
  void Add(const api::PodSpec& spec) {
    Add(static_cast<int64_t>(spec.node_selector.size()));
    for (const auto& [key, value] : spec.node_selector) {
      Add(key);
      Add(value);
    }
    const std::vector<api::NodeSelectorTerm> none;
    const auto& terms = spec.node_affinity.has_value() ? spec.node_affinity->required : none;
    Add(static_cast<int64_t>(terms.size()));
    for (const api::NodeSelectorTerm& term : terms) Add(term);
    Add(static_cast<int64_t>(spec.tolerations.size()));
    for (const api::Toleration& toleration : spec.tolerations) {
      Add(toleration.key);
      Add(toleration.op);
      Add(toleration.value);
      Add(toleration.effect);
    }
  }
  void Add(const api::PodSetTopologyRequest& request) {
    const auto text = [this](const std::optional<std::string>& value) {
      Add(value.has_value() ? "+" + *value : "-");
    };
    text(request.required);
    text(request.preferred);
    Add(request.unconstrained.value_or(false) ? 1 : 0);
    text(request.pod_index_label);
    text(request.sub_group_index_label);
    Add(request.sub_group_count.value_or(-1));
    text(request.pod_set_group_name);
    text(request.pod_set_slice_required_topology);
    Add(request.pod_set_slice_size.value_or(-1));
    for (const auto& constraint : request.pod_set_slice_required_topology_constraints) {
      Add(constraint.topology);
      Add(constraint.size);
    }
  }

  // Two independent 64-bit hashes (FNV-1a, and a multiplicative mix of 8-byte blocks).
  EquivalenceClass Hash() const {
    uint64_t fnv = 14695981039346656037ULL;
    uint64_t mix = 0x9e3779b97f4a7c15ULL ^ text_.size();
    uint64_t block = 0;
    int filled = 0;
    const auto absorb = [&] {
      mix = (mix ^ block) * 0xff51afd7ed558ccdULL;
      mix ^= mix >> 32;
      block = 0;
      filled = 0;
    };
    for (const char c : text_) {
      const auto byte = static_cast<unsigned char>(c);
      fnv = (fnv ^ byte) * 1099511628211ULL;
      block = block << 8 | byte;
      if (++filled == 8) absorb();
    }
    absorb();
    return {fnv, mix};
  }

 private:
  std::string text_;
};

// Whether what counts for quota may be something else than what the pods ask nodes for.
bool QuotaDiffersFromPods(const RequestContext& context) {
  return context.options != nullptr &&
         !(context.options->exclude_prefixes.empty() && context.options->transformations.empty());
}

EquivalenceClass Classify(const WorkloadInfo& info, const RequestContext& context,
                          const OrderOptions& options) {
  Signature signature;
  if (!options.equivalence_hashing) {
    signature.Add(info.workload->metadata.ns);
    signature.Add(info.workload->metadata.name);
    return signature.Hash();
  }
  signature.Add(info.priority);
  if (options.concurrent_admission) {
    signature.Add(info.workload->metadata.Annotation(api::kAllowedResourceFlavors));
  }
  // Nodes whose maintenance is planned take only what ends before it.
  if (const auto bound = BoundOf(*info.workload)) signature.Add(absl::ToInt64Nanoseconds(*bound));
  // A slice needs only what the one before does not hold, in that one's flavors and places.
  if (const std::optional<ObjectKey> replaced = ReplacedSlice(*info.workload)) {
    signature.Add(replaced->ToString());
  }
  for (size_t i = 0; i < info.requests.size(); ++i) {
    const api::PodSet& pod_set = info.workload->spec.pod_sets[i];
    signature.Add(info.requests[i].name);
    signature.Add(info.requests[i].count);
    signature.Add(info.requests[i].total);
    if (QuotaDiffersFromPods(context)) signature.Add(PodSetPerPod(pod_set, context));
    signature.Add(pod_set.min_count.value_or(-1));
    signature.Add(pod_set.topology_request.has_value() ? 1 : 0);
    if (pod_set.topology_request.has_value()) signature.Add(*pod_set.topology_request);
    const auto placement = pod_set.pod_template.annotations.find(kPlacement);
    if (placement != pod_set.pod_template.annotations.end()) signature.Add(placement->second);
    signature.Add(*pod_set.pod_template.spec);
  }
  return signature.Hash();
}

absl::Time TransitionTime(const api::Condition& condition) {
  return condition.last_transition_time.value_or(absl::UnixEpoch());
}

}  // namespace

int64_t EffectivePriority(const api::Workload& workload, bool priority_boost) {
  const int64_t base = workload.spec.priority.value_or(0);
  if (!priority_boost) return base;
  std::string text = workload.metadata.Annotation(api::kPriorityBoost);
  if (!text.empty() && text[0] == '+') text.erase(0, 1);
  int32_t boost = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, boost);
  // The webhook refuses other texts; one that got past it counts for nothing.
  if (parsed.ec != std::errc() || parsed.ptr != end) return base;
  return base + boost;
}

absl::Time QueueOrderTime(const api::Workload& workload, const OrderOptions& options) {
  const api::Condition* evicted = api::FindCondition(workload.status.conditions, api::kEvicted);
  if (evicted != nullptr && evicted->status == api::ConditionStatus::kTrue) {
    if (options.order_by_eviction && evicted->reason == "PodsReadyTimeout") {
      return TransitionTime(*evicted);
    }
    if (evicted->reason == "AdmissionCheck") return TransitionTime(*evicted);
    // A gang that fell apart had its turn already and goes on first.
    if (evicted->reason == "GangBroken") return absl::UnixEpoch();
  }
  if (!options.priority_sorting_within_cohort) {
    const api::Condition* preempted =
        api::FindCondition(workload.status.conditions, api::kPreempted);
    if (preempted != nullptr && preempted->status == api::ConditionStatus::kTrue &&
        preempted->reason == "InCohortReclaimWhileBorrowing") {
      return TransitionTime(*preempted) + absl::Milliseconds(1);
    }
  }
  return workload.metadata.creation_timestamp.value_or(absl::UnixEpoch());
}

bool IsAdmissible(const api::Workload& workload, const OrderOptions& options) {
  const api::Conditions& conditions = workload.status.conditions;
  if (workload.metadata.Deleting()) return false;
  if (!workload.spec.active.value_or(true)) return false;
  if (api::IsTrue(conditions, api::kFinished)) return false;
  if (api::IsTrue(conditions, api::kWaitingForReplacementPods)) return false;
  const api::Condition* reserved = api::FindCondition(conditions, api::kQuotaReserved);
  if (reserved != nullptr && reserved->status == api::ConditionStatus::kTrue) return false;
  if (reserved != nullptr && reserved->status == api::ConditionStatus::kFalse &&
      (reserved->reason == "OnHold" || reserved->reason == "GangRefused")) {
    return false;
  }
  return !options.admission_gated_by ||
         workload.metadata.Annotation(api::kAdmissionGatedBy).empty();
}

bool BackoffOver(const api::Workload& workload, absl::Time now) {
  if (api::IsFalse(workload.status.conditions, api::kRequeued)) return false;
  const auto& state = workload.status.requeue_state;
  return !state.has_value() || !state->requeue_at.has_value() || *state->requeue_at <= now;
}

bool HasClosedPreemptionGate(const api::Workload& workload) {
  const auto& states = workload.status.preemption_gates;
  const auto& gates = workload.spec.preemption_gates;
  return std::any_of(gates.begin(), gates.end(), [&](const std::string& gate) {
    return std::none_of(states.begin(), states.end(), [&](const api::PreemptionGateState& state) {
      return state.name == gate && state.position == "Open";
    });
  });
}

std::optional<ObjectKey> ReplacedSlice(const api::Workload& workload) {
  const std::string text = workload.metadata.Annotation(api::kWorkloadSliceReplacementFor);
  const size_t slash = text.find('/');
  if (slash == std::string::npos || text.substr(0, slash) != workload.metadata.ns) {
    return std::nullopt;
  }
  ObjectKey key{workload.metadata.ns, text.substr(slash + 1)};
  if (key.name.empty() || key.name == workload.metadata.name) return std::nullopt;
  return key;
}

ObjectKey LocalQueueKey(const api::Workload& workload) {
  return {workload.metadata.ns, workload.spec.queue_name};
}

bool OrderedBefore(const WorkloadInfo& a, const WorkloadInfo& b, bool by_priority) {
  if (by_priority && a.priority != b.priority) return a.priority > b.priority;
  const api::ObjectMeta& left = a.workload->metadata;
  const api::ObjectMeta& right = b.workload->metadata;
  return std::tie(a.queue_order_time, left.uid, left.ns, left.name) <
         std::tie(b.queue_order_time, right.uid, right.ns, right.name);
}

WorkloadInfoPtr MakeWorkloadInfo(std::shared_ptr<const api::Workload> workload,
                                 std::string cluster_queue, const RequestContext& context,
                                 const OrderOptions& options) {
  auto info = std::make_shared<WorkloadInfo>();
  info->cluster_queue = std::move(cluster_queue);
  info->local_queue = LocalQueueKey(*workload);
  info->priority = EffectivePriority(*workload, options.priority_boost);
  info->queue_order_time = QueueOrderTime(*workload, options);
  info->requests = TotalRequests(*workload, context);
  info->problems = ValidateResources(*workload, context);
  info->preemption_gated = options.preemption_gates && HasClosedPreemptionGate(*workload);
  info->workload = std::move(workload);
  info->equivalence = Classify(*info, context, options);
  return info;
}

}  // namespace sluice::queueing
