#include "config/settings.h"

#include <fmt/format.h>

namespace sluice::config {
namespace {

state::WaitForPodsReady MakeWait(const WaitForPodsReadyFile& file) {
  const state::WaitForPodsReady defaults;
  state::WaitForPodsReady wait;
  wait.timeout = file.timeout.value_or(defaults.timeout);
  wait.recovery_timeout = file.recovery_timeout.value_or(wait.timeout);
  wait.block_admission = file.block_admission.value_or(false);
  if (!file.requeuing_strategy) return wait;
  state::RequeuingStrategy& requeuing = wait.requeuing_strategy;
  requeuing.timestamp = file.requeuing_strategy->timestamp == "Creation"
                            ? state::RequeuingTimestamp::kCreation
                            : state::RequeuingTimestamp::kEviction;
  requeuing.backoff_limit_count = file.requeuing_strategy->backoff_limit_count;
  requeuing.backoff_base_seconds =
      file.requeuing_strategy->backoff_base_seconds.value_or(requeuing.backoff_base_seconds);
  requeuing.backoff_max_seconds =
      file.requeuing_strategy->backoff_max_seconds.value_or(requeuing.backoff_max_seconds);
  return wait;
}

state::FairSharing MakeFairSharing(const FairSharingFile& file) {
  state::FairSharing fair;
  for (const std::string& strategy : file.preemption_strategies) {
    fair.preemption_strategies.push_back(
        strategy == "LessThanInitialShare"
            ? state::PreemptionStrategy::kLessThanInitialShare
            : state::PreemptionStrategy::kLessThanOrEqualToFinalShare);
  }
  return fair;
}

state::AdmissionFairSharing MakeAdmissionFairSharing(const AdmissionFairSharingFile& file) {
  state::AdmissionFairSharing fair;
  fair.usage_half_life_time = file.usage_half_life_time;
  fair.usage_sampling_interval = file.usage_sampling_interval;
  for (const auto& [resource, weight] : file.resource_weights) {
    // Rounded once here, to 10^-9; from then on the weight is exact.
    const absl::StatusOr<Quantity> exact = Quantity::Parse(fmt::format("{:.9f}", weight));
    if (exact.ok()) fair.resource_weights[resource] = *exact;
  }
  return fair;
}

state::ResourceSettings MakeResources(const ResourcesFile& file, const state::FeatureGates& gates) {
  state::ResourceSettings resources;
  if (gates.Enabled("QuotaCheckStrategy") && file.quota_check_strategy == "IgnoreUndeclared") {
    resources.quota_check_strategy = state::QuotaCheckStrategy::kIgnoreUndeclared;
  }
  resources.exclude_resource_prefixes = file.exclude_resource_prefixes;
  for (const TransformationFile& each : file.transformations) {
    state::ResourceTransformation transformation;
    transformation.input = each.input;
    transformation.strategy = each.strategy == "Replace"
                                  ? state::ResourceTransformation::Strategy::kReplace
                                  : state::ResourceTransformation::Strategy::kRetain;
    transformation.multiply_by = each.multiply_by;
    transformation.outputs.insert(each.outputs.begin(), each.outputs.end());
    resources.transformations.push_back(std::move(transformation));
  }
  return resources;
}

}  // namespace

state::Settings MakeSettings(const ConfigurationFile& file, const state::FeatureGates& gates) {
  state::Settings settings;
  settings.gates = gates;
  settings.installation_namespace = file.ns;
  settings.manage_jobs_without_queue_name = file.manage_jobs_without_queue_name;
  settings.managed_jobs_namespace_selector = file.managed_jobs_namespace_selector.value_or(
      state::DefaultManagedJobsNamespaceSelector(file.ns));
  settings.wait_for_pods_ready.reset();
  if (file.wait_for_pods_ready && !gates.Enabled("DisableWaitForPodsReady")) {
    settings.wait_for_pods_ready = MakeWait(*file.wait_for_pods_ready);
  }
  settings.integrations = {file.integrations.frameworks, file.integrations.external_frameworks,
                           file.integrations.label_keys_to_copy};
  if (file.fair_sharing) settings.fair_sharing = MakeFairSharing(*file.fair_sharing);
  if (file.admission_fair_sharing) {
    settings.admission_fair_sharing = MakeAdmissionFairSharing(*file.admission_fair_sharing);
  }
  settings.resources = MakeResources(file.resources, gates);
  if (file.object_retention_policies.workloads) {
    const WorkloadRetentionFile& retention = *file.object_retention_policies.workloads;
    settings.object_retention = {retention.after_finished, retention.after_deactivated_by_kueue};
  }
  const state::Preemption defaults;
  settings.preemption = {
      file.preemption.checkpoint_grace_period.value_or(defaults.checkpoint_grace_period),
      file.preemption.max_per_workload.value_or(defaults.max_per_workload),
      file.preemption.window.value_or(defaults.window)};
  settings.topology = {file.topology.node_lifecycle != "Ignore",
                       file.topology.maintenance != "Ignore"};
  return settings;
}

}  // namespace sluice::config
