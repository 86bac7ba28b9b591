// One description of every field of the configuration file, shared by the reader and the writer.
//
// Fields(visitor, value) calls visitor("fieldName", member) once for each field of the struct, in
// the order of the reference. A visitor also says beta1() (a v1beta1 file is being read), and calls
// made under that condition describe fields that exist in only one of the two versions.
#pragma once

#include "config/file.h"

namespace sluice::config {

template <typename V>
void Fields(V& v, WebhookFile& x) {
  v("port", x.port);
  v("host", x.host);
  v("certDir", x.cert_dir);
}

template <typename V>
void Fields(V& v, LeaderElectionFile& x) {
  v("leaderElect", x.leader_elect);
  v("leaseDuration", x.lease_duration);
  v("renewDeadline", x.renew_deadline);
  v("retryPeriod", x.retry_period);
  v("resourceLock", x.resource_lock);
  v("resourceName", x.resource_name);
  v("resourceNamespace", x.resource_namespace);
}

template <typename V>
void Fields(V& v, api::LabelSelectorRequirement& x) {
  v("key", x.key);
  v("operator", x.op);
  v("values", x.values);
}

template <typename V>
void Fields(V& v, api::LabelSelector& x) {
  v("matchLabels", x.match_labels);
  v("matchExpressions", x.match_expressions);
}

template <typename V>
void Fields(V& v, LocalQueueMetricsFile& x) {
  v("enable", x.enable);
  v("localQueueSelector", x.local_queue_selector);
}

template <typename V>
void Fields(V& v, CustomLabelFile& x) {
  v("name", x.name);
  v("sourceLabelKey", x.source_label_key);
  v("sourceAnnotationKey", x.source_annotation_key);
  if (!v.beta1()) v("sourceKind", x.source_kind);
  if (!v.beta1()) v("trackedValues", x.tracked_values);
}

template <typename V>
void Fields(V& v, MetricsFile& x) {
  v("bindAddress", x.bind_address);
  v("enableClusterQueueResources", x.enable_cluster_queue_resources);
  v("localQueueMetrics", x.local_queue_metrics);
  v("customLabels", x.custom_labels);
}

template <typename V>
void Fields(V& v, HealthFile& x) {
  v("healthProbeBindAddress", x.health_probe_bind_address);
  v("readinessEndpointName", x.readiness_endpoint_name);
  v("livenessEndpointName", x.liveness_endpoint_name);
}

template <typename V>
void Fields(V& v, ControllerFile& x) {
  v("groupKindConcurrency", x.group_kind_concurrency);
  v("cacheSyncTimeout", x.cache_sync_timeout);
}

template <typename V>
void Fields(V& v, TlsFile& x) {
  v("minVersion", x.min_version);
  v("cipherSuites", x.cipher_suites);
  v("curvePreferences", x.curve_preferences);
}

template <typename V>
void Fields(V& v, InternalCertManagementFile& x) {
  v("enable", x.enable);
  v("webhookServiceName", x.webhook_service_name);
  v("webhookSecretName", x.webhook_secret_name);
}

template <typename V>
void Fields(V& v, RequeuingStrategyFile& x) {
  v("timestamp", x.timestamp);
  v("backoffLimitCount", x.backoff_limit_count);
  v("backoffBaseSeconds", x.backoff_base_seconds);
  v("backoffMaxSeconds", x.backoff_max_seconds);
}

template <typename V>
void Fields(V& v, WaitForPodsReadyFile& x) {
  if (v.beta1()) v("enable", x.enable);
  v("timeout", x.timeout);
  v("blockAdmission", x.block_admission);
  v("requeuingStrategy", x.requeuing_strategy);
  v("recoveryTimeout", x.recovery_timeout);
}

template <typename V>
void Fields(V& v, ClientConnectionFile& x) {
  v("qps", x.qps);
  v("burst", x.burst);
}

template <typename V>
void Fields(V& v, PodOptionsFile& x) {
  v("namespaceSelector", x.namespace_selector);
  v("podSelector", x.pod_selector);
}

template <typename V>
void Fields(V& v, IntegrationsFile& x) {
  v("frameworks", x.frameworks);
  v("externalFrameworks", x.external_frameworks);
  if (v.beta1()) v("podOptions", x.pod_options);
  v("labelKeysToCopy", x.label_keys_to_copy);
}

template <typename V>
void Fields(V& v, ExecEnvFile& x) {
  v("name", x.name);
  v("value", x.value);
}

template <typename V>
void Fields(V& v, ExecConfigFile& x) {
  v("command", x.command);
  v("args", x.args);
  v("env", x.env);
  v("apiVersion", x.api_version);
  v("installHint", x.install_hint);
  v("provideClusterInfo", x.provide_cluster_info);
  v("interactiveMode", x.interactive_mode);
}

template <typename V>
void Fields(V& v, CredentialsProviderFile& x) {
  v("name", x.name);
  v("execConfig", x.exec_config);
}

template <typename V>
void Fields(V& v, ClusterProfileFile& x) {
  v("accessProviders", x.access_providers);
  v("credentialsProviders", x.credentials_providers);
}

template <typename V>
void Fields(V& v, MultiKueueExternalFrameworkFile& x) {
  v("name", x.name);
}

template <typename V>
void Fields(V& v, IncrementalDispatcherFile& x) {
  v("stepSize", x.step_size);
}

template <typename V>
void Fields(V& v, MultiKueueFile& x) {
  v("gcInterval", x.gc_interval);
  v("origin", x.origin);
  v("workerLostTimeout", x.worker_lost_timeout);
  v("dispatcherName", x.dispatcher_name);
  v("externalFrameworks", x.external_frameworks);
  if (!v.beta1()) v("clusterProfile", x.cluster_profile);
  if (!v.beta1()) v("incrementalDispatcherConfig", x.incremental_dispatcher_config);
}

template <typename V>
void Fields(V& v, FairSharingFile& x) {
  if (v.beta1()) v("enable", x.enable);
  v("preemptionStrategies", x.preemption_strategies);
}

template <typename V>
void Fields(V& v, AdmissionFairSharingFile& x) {
  v("usageHalfLifeTime", x.usage_half_life_time);
  v("usageSamplingInterval", x.usage_sampling_interval);
  v("resourceWeights", x.resource_weights);
}

template <typename V>
void Fields(V& v, PreemptionFile& x) {
  v("checkpointGracePeriod", x.checkpoint_grace_period);
  v("maxPerWorkload", x.max_per_workload);
  v("window", x.window);
}

template <typename V>
void Fields(V& v, TopologyFile& x) {
  v("nodeLifecycle", x.node_lifecycle);
  v("maintenance", x.maintenance);
}

template <typename V>
void Fields(V& v, TransformationFile& x) {
  v("input", x.input);
  v("strategy", x.strategy);
  v("multiplyBy", x.multiply_by);
  v("outputs", x.outputs);
}

template <typename V>
void Fields(V& v, CelSelectorFile& x) {
  v("expression", x.expression);
}

template <typename V>
void Fields(V& v, DeviceSelectorFile& x) {
  v("cel", x.cel);
}

template <typename V>
void Fields(V& v, DeviceSourceFile& x) {
  v("name", x.name);
  v("driver", x.driver);
  v("deviceSelector", x.device_selector);
}

template <typename V>
void Fields(V& v, DeviceClassSourceFile& x) {
  v("counter", x.counter);
  v("capacity", x.capacity);
}

template <typename V>
void Fields(V& v, DeviceClassMappingFile& x) {
  v("name", x.name);
  v("deviceClassNames", x.device_class_names);
  if (!v.beta1()) v("sources", x.sources);
}

template <typename V>
void Fields(V& v, ResourcesFile& x) {
  if (!v.beta1()) v("quotaCheckStrategy", x.quota_check_strategy);
  v("excludeResourcePrefixes", x.exclude_resource_prefixes);
  v("transformations", x.transformations);
  v("deviceClassMappings", x.device_class_mappings);
}

template <typename V>
void Fields(V& v, WorkloadRetentionFile& x) {
  v("afterFinished", x.after_finished);
  v("afterDeactivatedByKueue", x.after_deactivated_by_kueue);
}

template <typename V>
void Fields(V& v, ObjectRetentionFile& x) {
  v("workloads", x.workloads);
}

template <typename V>
void Fields(V& v, VisibilityServerFile& x) {
  v("bindAddress", x.bind_address);
  v("bindPort", x.bind_port);
}

template <typename V>
void Fields(V& v, QueueVisibilityClusterQueuesFile& x) {
  v("maxCount", x.max_count);
}

template <typename V>
void Fields(V& v, QueueVisibilityFile& x) {
  v("clusterQueues", x.cluster_queues);
  v("updateIntervalSeconds", x.update_interval_seconds);
}

template <typename V>
void Fields(V& v, ConfigurationFile& x) {
  v("namespace", x.ns);
  v("webhook", x.webhook);
  v("leaderElection", x.leader_election);
  v("metrics", x.metrics);
  v("health", x.health);
  v("pprofBindAddress", x.pprof_bind_address);
  v("controller", x.controller);
  v("tls", x.tls);
  v("manageJobsWithoutQueueName", x.manage_jobs_without_queue_name);
  v("managedJobsNamespaceSelector", x.managed_jobs_namespace_selector);
  v("internalCertManagement", x.internal_cert_management);
  v("waitForPodsReady", x.wait_for_pods_ready);
  v("clientConnection", x.client_connection);
  v("integrations", x.integrations);
  if (v.beta1()) v("queueVisibility", x.queue_visibility);
  v("multiKueue", x.multi_kueue);
  v("fairSharing", x.fair_sharing);
  v("admissionFairSharing", x.admission_fair_sharing);
  v("resources", x.resources);
  v("featureGates", x.feature_gates);
  v("objectRetentionPolicies", x.object_retention_policies);
  v("preemption", x.preemption);
  v("topology", x.topology);
  if (!v.beta1()) v("visibilityServer", x.visibility_server);
}

}  // namespace sluice::config
