#include "config/defaults.h"

#include "config/names.h"
#include "state/settings.h"

namespace sluice::config {
namespace {

// Go's decoder cannot tell an empty value from an absent one, so both get the default.
template <typename T>
void FillEmpty(T* field, const T& value) {
  if (*field == T()) *field = value;
}

template <typename T>
void FillAbsent(std::optional<T>* field, const T& value) {
  if (!*field) *field = value;
}

// Sections whose fields carry their defaults: an explicit zero means the default as well.
void DefaultServers(ConfigurationFile* file) {
  const ConfigurationFile fresh;
  FillEmpty(&file->webhook.port, fresh.webhook.port);
  FillEmpty(&file->webhook.cert_dir, fresh.webhook.cert_dir);
  FillEmpty(&file->metrics.bind_address, fresh.metrics.bind_address);
  if (!file->metrics.local_queue_metrics) {
    file->metrics.local_queue_metrics = LocalQueueMetricsFile{true, {}};
  }
  FillEmpty(&file->health.health_probe_bind_address, fresh.health.health_probe_bind_address);
  FillEmpty(&file->health.readiness_endpoint_name, fresh.health.readiness_endpoint_name);
  FillEmpty(&file->health.liveness_endpoint_name, fresh.health.liveness_endpoint_name);
  if (file->tls) FillEmpty(&file->tls->min_version, std::string("VersionTLS12"));
  LeaderElectionFile& election = file->leader_election;
  FillEmpty(&election.resource_name, fresh.leader_election.resource_name);
  FillEmpty(&election.resource_lock, fresh.leader_election.resource_lock);
  FillEmpty(&election.lease_duration, fresh.leader_election.lease_duration);
  FillEmpty(&election.renew_deadline, fresh.leader_election.renew_deadline);
  FillEmpty(&election.retry_period, fresh.leader_election.retry_period);
  InternalCertManagementFile& certificates = file->internal_cert_management;
  FillAbsent(&certificates.enable, true);
  if (*certificates.enable) {
    FillEmpty(&certificates.webhook_service_name, std::string("kueue-webhook-service"));
    FillEmpty(&certificates.webhook_secret_name, std::string("kueue-webhook-server-cert"));
  }
}

void DefaultWaitForPodsReady(FileVersion version, ConfigurationFile* file) {
  std::optional<WaitForPodsReadyFile>& wait = file->wait_for_pods_ready;
  const bool beta1 = version == FileVersion::kV1beta1;
  if (beta1) {
    if (!wait || !wait->enable.value_or(false)) {
      wait.reset();
      return;
    }
    wait->enable.reset();
    FillAbsent(&wait->timeout, absl::Minutes(5));
    FillAbsent(&wait->block_admission, true);
  } else {
    if (!wait) wait.emplace();
    if (wait->timeout == absl::ZeroDuration()) wait->timeout.reset();
    FillAbsent(&wait->timeout, absl::Minutes(30));
    FillAbsent(&wait->block_admission, false);
  }
  FillAbsent(&wait->recovery_timeout, *wait->timeout);
  if (!wait->requeuing_strategy) wait->requeuing_strategy.emplace();
  FillEmpty(&wait->requeuing_strategy->timestamp, std::string("Eviction"));
  FillAbsent(&wait->requeuing_strategy->backoff_base_seconds, 60);
  FillAbsent(&wait->requeuing_strategy->backoff_max_seconds, 3600);
}

void DefaultFairSharing(FileVersion version, ConfigurationFile* file) {
  std::optional<FairSharingFile>& fair = file->fair_sharing;
  if (version == FileVersion::kV1beta1 && fair) {
    if (!fair->enable.value_or(false)) {
      fair.reset();
    } else {
      fair->enable.reset();
      if (fair->preemption_strategies.empty()) {
        fair->preemption_strategies = {"LessThanOrEqualToFinalShare", "LessThanInitialShare"};
      }
    }
  }
  if (file->admission_fair_sharing) {
    FillEmpty(&file->admission_fair_sharing->usage_sampling_interval, absl::Minutes(5));
  }
}

void DefaultMultiKueue(ConfigurationFile* file) {
  MultiKueueFile& multi = file->multi_kueue;
  FillAbsent(&multi.gc_interval, absl::Minutes(1));
  FillEmpty(&multi.origin, std::string("multikueue"));
  FillAbsent(&multi.worker_lost_timeout, absl::Minutes(15));
  FillEmpty(&multi.dispatcher_name, std::string(kDispatcherAllAtOnce));
  if (multi.dispatcher_name == kDispatcherIncremental) {
    if (!multi.incremental_dispatcher_config) multi.incremental_dispatcher_config.emplace();
    FillAbsent(&multi.incremental_dispatcher_config->step_size, 3);
  }
}

}  // namespace

void ApplyDefaults(FileVersion version, const std::string& service_account_namespace,
                   ConfigurationFile* file) {
  FillEmpty(&file->ns, service_account_namespace);
  FillEmpty(&file->ns, std::string("kueue-system"));
  DefaultServers(file);
  DefaultWaitForPodsReady(version, file);
  DefaultFairSharing(version, file);
  DefaultMultiKueue(file);
  if (file->integrations.frameworks.empty()) file->integrations.frameworks = {"batch/job"};
  file->integrations.pod_options.reset();
  file->queue_visibility.reset();
  FillAbsent(&file->managed_jobs_namespace_selector,
             state::DefaultManagedJobsNamespaceSelector(file->ns));
  FillAbsent(&file->client_connection.qps, 300.0);
  FillAbsent(&file->client_connection.burst, 500);
  FillAbsent(&file->controller.cache_sync_timeout, int64_t{120'000'000'000});
  for (TransformationFile& transformation : file->resources.transformations) {
    FillEmpty(&transformation.strategy, std::string("Retain"));
  }
  if (!file->visibility_server && version == FileVersion::kV1beta2)
    file->visibility_server.emplace();
  if (file->visibility_server) FillAbsent(&file->visibility_server->bind_port, 8082);
}

}  // namespace sluice::config
