#include "state/feature_gates.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/check.h"
#include "base/status.h"

namespace sluice::state {
namespace {

using Stage = GateInfo::Stage;
using Support = GateInfo::Support;

// Sorted by name (byte order); the look-up is a binary search.
constexpr GateInfo kGates[] = {
    {"AdmissionFairSharing", Stage::kBeta, true, Support::kSwitch, ""},
    {"AdmissionGatedBy", Stage::kBeta, true, Support::kSwitch, ""},
    {"AssignQueueLabelsForPods", Stage::kBeta, true, Support::kSwitch, ""},
    {"CleanupProvisioningRequestsOnEviction", Stage::kBeta, true, Support::kNotYet, ""},
    {"ConcurrentAdmission", Stage::kAlpha, false, Support::kSwitch, ""},
    {"CustomMetricLabels", Stage::kAlpha, false, Support::kNotYet, ""},
    {"DeferRayServiceFinalizationForRedisCleanup", Stage::kBeta, true, Support::kNotYet, ""},
    {"DisableWaitForPodsReady", Stage::kAlpha, false, Support::kSwitch, ""},
    {"ElasticJobsViaWorkloadSlices", Stage::kBeta, true, Support::kSwitch, ""},
    // Pods that run keep their places with either value: to place them anew, as if they had not
    // started, would only make the books say what is not so.
    {"ElasticJobsViaWorkloadSlicesWithTAS", Stage::kAlpha, false, Support::kNoEffect,
     "ElasticJobsViaWorkloadSlices,TopologyAwareScheduling"},
    {"FailureRecoveryPolicy", Stage::kAlpha, false, Support::kNotYet, ""},
    {"FairSharingPreemptWithinNominal", Stage::kBeta, true, Support::kSwitch, ""},
    {"FairSharingPrioritizeNonBorrowing", Stage::kBeta, true, Support::kSwitch, ""},
    {"FastQuotaReleaseInPodIntegration", Stage::kAlpha, false, Support::kSwitch, ""},
    {"FinishOrphanedWorkloads", Stage::kBeta, true, Support::kSwitch, ""},
    {"FlavorFungibility", Stage::kBeta, true, Support::kSwitch, ""},
    {"FlavorFungibilityPreserveScanProgress", Stage::kBeta, true, Support::kSwitch,
     "FlavorFungibility"},
    {"KueueDRAIntegration", Stage::kBeta, true, Support::kNotYet, ""},
    {"KueueDRAIntegrationConsumableCapacity", Stage::kAlpha, false, Support::kNotYet,
     "KueueDRAIntegration"},
    {"KueueDRAIntegrationExtendedResource", Stage::kBeta, true, Support::kNotYet,
     "KueueDRAIntegration"},
    {"KueueDRAIntegrationPartitionableDevices", Stage::kBeta, true, Support::kNotYet,
     "KueueDRAIntegration"},
    {"KueueDRARejectWorkloadsWhenDRADisabled", Stage::kBeta, true, Support::kSwitch, ""},
    {"LWSImmutableGroupSize", Stage::kBeta, true, Support::kNotYet, ""},
    {"LocalQueueMetrics", Stage::kBeta, true, Support::kSwitch, ""},
    {"ManagedJobsNamespaceSelectorAlwaysRespected", Stage::kGa, true, Support::kAlways, ""},
    {"MetricForWorkloadCreationLatency", Stage::kBeta, true, Support::kSwitch, ""},
    {"MetricsForCohorts", Stage::kBeta, true, Support::kNotYet, ""},
    {"MultiKueue", Stage::kBeta, true, Support::kNotYet, ""},
    {"MultiKueueAdaptersForCustomJobs", Stage::kBeta, true, Support::kNotYet, ""},
    {"MultiKueueClusterProfile", Stage::kAlpha, false, Support::kNotYet, ""},
    {"MultiKueueIncrementalDispatcherConfig", Stage::kBeta, true, Support::kNotYet, ""},
    {"MultiKueueIncrementalDispatcherRespectConfigOrder", Stage::kBeta, true, Support::kNotYet, ""},
    {"MultiKueueKubeConfigPathValidation", Stage::kBeta, true, Support::kNotYet, ""},
    {"MultiKueueManagerQuotaAutomation", Stage::kAlpha, false, Support::kNotYet, ""},
    {"MultiKueueOrchestratedPreemption", Stage::kAlpha, false, Support::kSwitch, ""},
    {"MultiKueueRemoteSpecSync", Stage::kBeta, true, Support::kNotYet, ""},
    // Ours, not Kueue's: new Jobs become gangs of kube-scheduler where the cluster has them.
    {"NativeGangs", Stage::kAlpha, false, Support::kSwitch, ""},
    {"PartialAdmission", Stage::kBeta, true, Support::kSwitch, ""},
    {"PodIntegrationValidateGroupOwner", Stage::kBeta, true, Support::kSwitch, ""},
    {"PrioritizePreemptorWorkloads", Stage::kAlpha, false, Support::kSwitch, ""},
    {"PriorityBoost", Stage::kAlpha, false, Support::kSwitch, ""},
    {"PrioritySortingWithinCohort", Stage::kBeta, true, Support::kSwitch, ""},
    {"QuotaCheckStrategy", Stage::kBeta, true, Support::kSwitch, ""},
    {"ReclaimablePods", Stage::kBeta, true, Support::kSwitch, ""},
    {"RecomputeAssignmentUponPreemptionTargetsOverlap", Stage::kBeta, true, Support::kSwitch, ""},
    {"RejectUpdatesToCQWithInvalidOnFlavors", Stage::kAlpha, false, Support::kSwitch, ""},
    {"RemoveFinalizersWithStrictPatch", Stage::kBeta, true, Support::kNoEffect, ""},
    {"SchedulerLibraryIntegration", Stage::kAlpha, false, Support::kNoEffect, ""},
    {"SchedulingEquivalenceHashing", Stage::kBeta, true, Support::kSwitch, ""},
    {"ShortWorkloadNames", Stage::kAlpha, false, Support::kSwitch, ""},
    {"SkipAncestorCheckForDeletedWorkloads", Stage::kBeta, true, Support::kSwitch, ""},
    {"SkipReassignmentForPodOwnedWorkloads", Stage::kBeta, true, Support::kSwitch, ""},
    {"SparkApplicationIntegration", Stage::kAlpha, false, Support::kNotYet, ""},
    {"TASAssignmentsEncodingByHostnamePrefix", Stage::kBeta, true, Support::kSwitch, ""},
    {"TASBalancedPlacement", Stage::kAlpha, false, Support::kSwitch, "TopologyAwareScheduling"},
    {"TASCacheNodeMatchResults", Stage::kBeta, true, Support::kNoEffect, ""},
    {"TASCacheTopologyTree", Stage::kBeta, true, Support::kNoEffect, ""},
    {"TASCachingRemainingResources", Stage::kBeta, true, Support::kNoEffect, ""},
    {"TASFailedNodeReplacement", Stage::kBeta, true, Support::kSwitch, "TopologyAwareScheduling"},
    {"TASFailedNodeReplacementFailFast", Stage::kBeta, true, Support::kSwitch,
     "TopologyAwareScheduling,TASFailedNodeReplacement"},
    {"TASHandleOverlappingFlavors", Stage::kBeta, true, Support::kSwitch,
     "TopologyAwareScheduling"},
    {"TASMultiLayerTopology", Stage::kBeta, true, Support::kSwitch, "TopologyAwareScheduling"},
    {"TASProfileMixed", Stage::kBeta, true, Support::kSwitch, "TopologyAwareScheduling"},
    {"TASRecomputeAssignmentWithinSchedulingCycle", Stage::kBeta, true, Support::kSwitch,
     "TopologyAwareScheduling"},
    {"TASReplaceNodeDueToNotReadyOverFixedTime", Stage::kDeprecated, false, Support::kSwitch,
     "TopologyAwareScheduling,TASFailedNodeReplacement"},
    {"TASReplaceNodeOnNodeTaints", Stage::kBeta, true, Support::kSwitch, "TopologyAwareScheduling"},
    {"TASReplaceNodeOnPodTermination", Stage::kBeta, true, Support::kSwitch,
     "TopologyAwareScheduling,TASFailedNodeReplacement"},
    {"TASRespectNodeAffinityPreferred", Stage::kAlpha, false, Support::kSwitch,
     "TopologyAwareScheduling"},
    {"TASValidateWorkloadSliceSize", Stage::kBeta, true, Support::kSwitch, ""},
    {"TLSOptions", Stage::kGa, true, Support::kAlways, ""},
    {"TopologyAwareScheduling", Stage::kBeta, true, Support::kSwitch, ""},
    {"UnadmittedWorkloadsExplicitStatus", Stage::kBeta, false, Support::kSwitch,
     "UnadmittedWorkloadsObservability"},
    {"UnadmittedWorkloadsObservability", Stage::kBeta, true, Support::kSwitch, ""},
    {"ValidateRayAndSparkJobUpdates", Stage::kBeta, true, Support::kNotYet, ""},
    {"VectorizedResourceRequests", Stage::kBeta, true, Support::kNoEffect, ""},
    {"VisibilityOnDemand", Stage::kBeta, true, Support::kSwitch, ""},
    {"WorkloadIdentifierAnnotations", Stage::kBeta, true, Support::kSwitch, ""},
    {"WorkloadPriorityClassDefaulting", Stage::kBeta, true, Support::kSwitch, ""},
    {"WorkloadRequestUseMergePatch", Stage::kAlpha, false, Support::kNoEffect, ""},
    {"WorkloadValidateResourcesAreNonNegative", Stage::kBeta, true, Support::kSwitch, ""},
    {"WorkloadValidationForPodSetMetadata", Stage::kBeta, true, Support::kSwitch, ""},
};
static_assert(std::size(kGates) == kFeatureGateCount);
static_assert(std::is_sorted(std::begin(kGates), std::end(kGates),
                             [](const GateInfo& a, const GateInfo& b) { return a.name < b.name; }));

constexpr std::string_view kAllAlpha = "AllAlpha";
constexpr std::string_view kAllBeta = "AllBeta";

std::size_t IndexOf(const GateInfo& gate) { return static_cast<std::size_t>(&gate - kGates); }

std::string_view Word(bool value) { return value ? "true" : "false"; }

// The value that the user gave for a gate, by name or through its stage; nullptr when none.
const bool* GivenValue(const GateInfo& gate, const absl::btree_map<std::string, bool>& values) {
  const auto find = [&](std::string_view name) -> const bool* {
    const auto found = values.find(std::string(name));
    return found == values.end() ? nullptr : &found->second;
  };
  const bool* named = find(gate.name);
  if (named != nullptr) return named;
  if (gate.stage == Stage::kAlpha) return find(kAllAlpha);
  if (gate.stage == Stage::kBeta) return find(kAllBeta);
  return nullptr;
}

std::vector<std::string_view> Dependencies(const GateInfo& gate) {
  std::vector<std::string_view> names;
  std::string_view rest = gate.depends_on;
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    names.push_back(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return names;
}

// Names that are unknown, or locked to the other value.
void CheckNames(const absl::btree_map<std::string, bool>& values,
                std::vector<std::string>* errors) {
  for (const auto& [name, value] : values) {
    if (name == kAllAlpha || name == kAllBeta) continue;
    const GateInfo* gate = FindFeatureGate(name);
    if (gate == nullptr) {
      errors->push_back(fmt::format("unknown feature gate {}", name));
    } else if (gate->locked() && value != gate->default_value) {
      errors->push_back(
          fmt::format("feature gate {} is locked to {}", name, Word(gate->default_value)));
    }
  }
}

}  // namespace

std::span<const GateInfo> AllFeatureGates() { return kGates; }

const GateInfo* FindFeatureGate(std::string_view name) {
  const GateInfo* found =
      std::lower_bound(std::begin(kGates), std::end(kGates), name,
                       [](const GateInfo& gate, std::string_view key) { return gate.name < key; });
  return found != std::end(kGates) && found->name == name ? found : nullptr;
}

FeatureGates::FeatureGates() {
  for (const GateInfo& gate : kGates) enabled_[IndexOf(gate)] = gate.default_value;
}

absl::StatusOr<FeatureGates> FeatureGates::Make(const absl::btree_map<std::string, bool>& values) {
  std::vector<std::string> errors;
  CheckNames(values, &errors);
  FeatureGates gates;
  for (const GateInfo& gate : kGates) {
    const bool* value = GivenValue(gate, values);
    if (value != nullptr) gates.enabled_[IndexOf(gate)] = *value;
  }
  for (const GateInfo& gate : kGates) {
    if (!gates.Enabled(gate.name)) continue;
    for (const std::string_view needed : Dependencies(gate)) {
      if (gates.Enabled(needed)) continue;
      errors.push_back(
          fmt::format("feature gate {} needs {}, which is disabled", gate.name, needed));
    }
  }
  if (!errors.empty()) return InvalidArgument("{}", fmt::join(errors, "; "));
  return gates;
}

bool FeatureGates::Enabled(std::string_view name) const {
  const GateInfo* gate = FindFeatureGate(name);
  SLUICE_CHECK(gate != nullptr, "unknown feature gate {}", name);
  return enabled_[IndexOf(*gate)];
}

std::vector<std::string> FeatureGates::Unsupported(
    const absl::btree_map<std::string, bool>& values) const {
  std::vector<std::string> messages;
  for (const GateInfo& gate : kGates) {
    const bool* value = GivenValue(gate, values);
    if (value == nullptr || *value == gate.default_value) continue;
    if (gate.support == Support::kNotYet && *value) {
      messages.push_back(fmt::format("{}: this feature is not supported yet", gate.name));
    } else if (gate.support == Support::kAlways) {
      messages.push_back(fmt::format("{}: this feature cannot be switched off", gate.name));
    }
  }
  return messages;
}

std::vector<std::string> FeatureGates::Describe() const {
  std::vector<std::string> lines;
  for (const GateInfo& gate : kGates) {
    lines.push_back(fmt::format("{}={}", gate.name, Word(Enabled(gate.name))));
  }
  return lines;
}

}  // namespace sluice::state
