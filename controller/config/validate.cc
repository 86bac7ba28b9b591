#include "config/validate.h"

#include <arpa/inet.h>
#include <fmt/ranges.h>

#include <set>

#include "base/time.h"
#include "config/endpoint.h"
#include "config/names.h"
#include "config/tls.h"

namespace sluice::config {
namespace {

void NotNegative(const std::string& path, absl::Duration value, Violations* violations) {
  if (value < absl::ZeroDuration()) {
    violations->Add(path, "must not be negative (it is {})", sluice::FormatDuration(value));
  }
}

void NotNegative(const std::string& path, const std::optional<absl::Duration>& value,
                 Violations* violations) {
  if (value) NotNegative(path, *value, violations);
}

void NotNegative(const std::string& path, const std::optional<int32_t>& value,
                 Violations* violations) {
  if (value && *value < 0) violations->Add(path, "must not be negative (it is {})", *value);
}

void ValidatePort(const std::string& path, int32_t port, Violations* violations) {
  if (port < 1 || port > 65535) violations->Add(path, "must be from 1 to 65535 (it is {})", port);
}

void ValidateAddress(const std::string& path, const std::string& address, Violations* violations) {
  const absl::StatusOr<std::optional<Endpoint>> endpoint = ParseBindAddress(address);
  if (!endpoint.ok()) violations->Add(path, "{}", std::string(endpoint.status().message()));
}

void ValidatePath(const std::string& path, const std::string& value, Violations* violations) {
  if (!value.starts_with('/')) violations->Add(path, "must start with '/' (it is \"{}\")", value);
}

void ValidateServers(const ConfigurationFile& file, Violations* violations) {
  ValidatePort("webhook.port", file.webhook.port, violations);
  ValidateAddress("metrics.bindAddress", file.metrics.bind_address, violations);
  ValidateAddress("health.healthProbeBindAddress", file.health.health_probe_bind_address,
                  violations);
  ValidatePath("health.readinessEndpointName", file.health.readiness_endpoint_name, violations);
  ValidatePath("health.livenessEndpointName", file.health.liveness_endpoint_name, violations);
  if (file.health.readiness_endpoint_name == file.health.liveness_endpoint_name) {
    violations->Add("health.livenessEndpointName", "must differ from readinessEndpointName");
  }
  if (file.visibility_server) {
    const VisibilityServerFile& visibility = *file.visibility_server;
    unsigned char buffer[16];
    if (visibility.bind_address &&
        inet_pton(AF_INET, visibility.bind_address->c_str(), buffer) != 1 &&
        inet_pton(AF_INET6, visibility.bind_address->c_str(), buffer) != 1) {
      violations->Add("visibilityServer.bindAddress", "must be an IP address (it is \"{}\")",
                      *visibility.bind_address);
    }
    ValidatePort("visibilityServer.bindPort", visibility.bind_port.value_or(8082), violations);
  }
  if (file.tls) ValidateTls(*file.tls, violations);
}

// A lease that can run out while its holder still tries to renew it would have two leaders.
void ValidateLeaderElection(const LeaderElectionFile& election, Violations* violations) {
  if (!election.leader_elect) return;
  const std::string path = "leaderElection.";
  NotNegative(path + "retryPeriod", election.retry_period, violations);
  if (election.lease_duration <= election.renew_deadline) {
    violations->Add(path + "leaseDuration", "must be longer than renewDeadline");
  }
  if (election.renew_deadline <= election.retry_period * 1.2) {
    violations->Add(path + "renewDeadline", "must be longer than 1.2 times retryPeriod");
  }
  violations->AddIf(path + "resourceName", CheckDns1123Subdomain(election.resource_name));
  if (!election.resource_namespace.empty()) {
    violations->AddIf(path + "resourceNamespace", CheckDns1123Label(election.resource_namespace));
  }
}

void ValidateCertificates(const InternalCertManagementFile& certificates, Violations* violations) {
  if (!certificates.enable.value_or(true)) return;
  violations->AddIf("internalCertManagement.webhookServiceName",
                    CheckDns1035Label(certificates.webhook_service_name));
  violations->AddIf("internalCertManagement.webhookSecretName",
                    CheckDns1123Subdomain(certificates.webhook_secret_name));
}

void ValidateManagedNamespaces(const ConfigurationFile& file, Violations* violations) {
  const std::string path = "managedJobsNamespaceSelector";
  const api::LabelSelector& selector = *file.managed_jobs_namespace_selector;
  const std::size_t before = violations->lines().size();
  ValidateSelector(path, selector, violations);
  if (violations->lines().size() != before) return;
  for (const std::string& name : {std::string("kube-system"), file.ns}) {
    if (selector.Matches({{"kubernetes.io/metadata.name", name}})) {
      violations->Add(path, "must not match the namespace {}", name);
    }
  }
}

void ValidateWaitForPodsReady(const WaitForPodsReadyFile& wait, Violations* violations) {
  const std::string path = "waitForPodsReady.";
  NotNegative(path + "timeout", wait.timeout, violations);
  if (wait.timeout == absl::ZeroDuration()) violations->Add(path + "timeout", "must not be zero");
  NotNegative(path + "recoveryTimeout", wait.recovery_timeout, violations);
  if (!wait.requeuing_strategy) return;
  const RequeuingStrategyFile& requeuing = *wait.requeuing_strategy;
  const std::string deeper = path + "requeuingStrategy.";
  if (requeuing.timestamp != "Eviction" && requeuing.timestamp != "Creation") {
    violations->Add(deeper + "timestamp", "must be Eviction or Creation (it is \"{}\")",
                    requeuing.timestamp);
  }
  NotNegative(deeper + "backoffLimitCount", requeuing.backoff_limit_count, violations);
  NotNegative(deeper + "backoffBaseSeconds", requeuing.backoff_base_seconds, violations);
  NotNegative(deeper + "backoffMaxSeconds", requeuing.backoff_max_seconds, violations);
}

void ValidateIntegrations(const IntegrationsFile& integrations, Violations* violations) {
  std::set<std::string> kinds;
  for (std::size_t i = 0; i < integrations.frameworks.size(); ++i) {
    const std::string path = fmt::format("integrations.frameworks[{}]", i);
    const Framework* framework = FindFramework(integrations.frameworks[i]);
    if (framework == nullptr) {
      std::vector<std::string_view> known;
      for (const Framework& each : AllFrameworks()) known.push_back(each.name);
      violations->Add(path, "\"{}\" is not a known framework; known are {}",
                      integrations.frameworks[i], fmt::join(known, ", "));
    } else if (!kinds.insert(framework->kind.ToString()).second) {
      violations->Add(path, "\"{}\" is given twice", framework->name);
    }
  }
  for (std::size_t i = 0; i < integrations.external_frameworks.size(); ++i) {
    const std::string path = fmt::format("integrations.externalFrameworks[{}]", i);
    const std::string& text = integrations.external_frameworks[i];
    const std::optional<KindName> kind = ParseKindName(text);
    if (!kind) {
      violations->Add(path, "\"{}\" must have the form Kind.version.group", text);
    } else if (!kinds.insert(kind->ToString()).second) {
      violations->Add(path, "\"{}\" is given twice or served by an enabled framework", text);
    }
  }
  for (std::size_t i = 0; i < integrations.label_keys_to_copy.size(); ++i) {
    violations->AddIf(fmt::format("integrations.labelKeysToCopy[{}]", i),
                      CheckLabelKey(integrations.label_keys_to_copy[i]));
  }
}

void ValidateFairSharing(const ConfigurationFile& file, Violations* violations) {
  if (file.fair_sharing) {
    using List = std::vector<std::string>;
    const std::string path = "fairSharing.preemptionStrategies";
    const List& list = file.fair_sharing->preemption_strategies;
    const std::string final_share = "LessThanOrEqualToFinalShare";
    const std::string initial_share = "LessThanInitialShare";
    if (list.empty()) {
      violations->Add(path, "is required");
    } else if (list != List{final_share} && list != List{initial_share} &&
               list != List{final_share, initial_share}) {
      violations->Add(path, "[{}] is not supported; use [{}], [{}] or both in this order",
                      fmt::join(list, ", "), final_share, initial_share);
    }
  }
  if (file.admission_fair_sharing) {
    const AdmissionFairSharingFile& fair = *file.admission_fair_sharing;
    const std::string path = "admissionFairSharing.";
    NotNegative(path + "usageHalfLifeTime", fair.usage_half_life_time, violations);
    if (fair.usage_sampling_interval <= absl::ZeroDuration()) {
      violations->Add(path + "usageSamplingInterval", "must be greater than 0 (it is {})",
                      sluice::FormatDuration(fair.usage_sampling_interval));
    }
    for (const auto& [resource, weight] : fair.resource_weights) {
      if (weight < 0) {
        violations->Add(fmt::format("{}resourceWeights[{}]", path, resource),
                        "must not be negative (it is {})", weight);
      }
    }
  }
}

void ValidateRetention(const ObjectRetentionFile& retention, Violations* violations) {
  if (!retention.workloads) return;
  const std::string path = "objectRetentionPolicies.workloads.";
  NotNegative(path + "afterFinished", retention.workloads->after_finished, violations);
  NotNegative(path + "afterDeactivatedByKueue", retention.workloads->after_deactivated_by_kueue,
              violations);
}

void ValidatePreemption(const PreemptionFile& preemption, Violations* violations) {
  NotNegative("preemption.checkpointGracePeriod", preemption.checkpoint_grace_period, violations);
  NotNegative("preemption.maxPerWorkload", preemption.max_per_workload, violations);
  // So many times are kept with a Workload.
  if (preemption.max_per_workload.value_or(0) > 32) {
    violations->Add("preemption.maxPerWorkload", "must be at most 32 (it is {})",
                    *preemption.max_per_workload);
  }
  if (preemption.window && *preemption.window <= absl::ZeroDuration()) {
    violations->Add("preemption.window", "must be greater than 0 (it is {})",
                    sluice::FormatDuration(*preemption.window));
  }
}

void ValidateTopology(const TopologyFile& topology, Violations* violations) {
  const auto check = [&](const char* path, const std::string& value) {
    if (value.empty() || value == "Exclude" || value == "Ignore") return;
    violations->Add(path, "must be Exclude or Ignore (it is \"{}\")", value);
  };
  check("topology.nodeLifecycle", topology.node_lifecycle);
  check("topology.maintenance", topology.maintenance);
}

}  // namespace

void ValidateSelector(const std::string& path, const api::LabelSelector& selector,
                      Violations* violations) {
  for (const auto& [key, value] : selector.match_labels) {
    const std::string at = fmt::format("{}.matchLabels[{}]", path, key);
    violations->AddIf(at, CheckLabelKey(key));
    violations->AddIf(at, CheckLabelValue(value));
  }
  for (std::size_t i = 0; i < selector.match_expressions.size(); ++i) {
    const api::LabelSelectorRequirement& requirement = selector.match_expressions[i];
    const std::string at = fmt::format("{}.matchExpressions[{}].", path, i);
    violations->AddIf(at + "key", CheckLabelKey(requirement.key));
    const bool listing = requirement.op == "In" || requirement.op == "NotIn";
    if (!listing && requirement.op != "Exists" && requirement.op != "DoesNotExist") {
      violations->Add(at + "operator", "must be In, NotIn, Exists or DoesNotExist (it is \"{}\")",
                      requirement.op);
    } else if (listing == requirement.values.empty()) {
      violations->Add(at + "values", "{} for the operator {}",
                      listing ? "are required" : "must be absent", requirement.op);
    }
    for (std::size_t j = 0; j < requirement.values.size(); ++j) {
      violations->AddIf(fmt::format("{}values[{}]", at, j), CheckLabelValue(requirement.values[j]));
    }
  }
}

void Validate(const ConfigurationFile& file, const state::FeatureGates& gates,
              Violations* violations) {
  violations->AddIf("namespace", CheckDns1123Label(file.ns));
  ValidateServers(file, violations);
  ValidateLeaderElection(file.leader_election, violations);
  ValidateMetrics(file.metrics, violations);
  ValidateCertificates(file.internal_cert_management, violations);
  ValidateManagedNamespaces(file, violations);
  if (file.wait_for_pods_ready && !gates.Enabled("DisableWaitForPodsReady")) {
    ValidateWaitForPodsReady(*file.wait_for_pods_ready, violations);
  }
  ValidateIntegrations(file.integrations, violations);
  ValidateMultiKueue(file.multi_kueue, file.integrations, violations);
  ValidateFairSharing(file, violations);
  ValidateResources(file.resources, gates, violations);
  ValidateRetention(file.object_retention_policies, violations);
  ValidatePreemption(file.preemption, violations);
  ValidateTopology(file.topology, violations);
}

}  // namespace sluice::config
