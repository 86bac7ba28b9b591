// The configuration file as values: kind Configuration of config.kueue.x-k8s.io, version v1beta2.
//
// Member initializers are the defaults of v1beta2. std::optional marks what may be absent with a
// meaning of its own. A file of version v1beta1 is read into the same structs; the members marked
// v1beta1 exist only there and are gone once defaults are applied.
//
// Source: "Kueue Configuration API" in the reference part of kueue.sigs.k8s.io/docs.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_types.h"
#include "resource/quantity.h"

namespace sluice::config {

template <typename T>
using TextMap = absl::btree_map<std::string, T>;

struct WebhookFile {
  int32_t port = 9443;
  std::string host;
  std::string cert_dir = "/tmp/k8s-webhook-server/serving-certs";
};

struct LeaderElectionFile {
  bool leader_elect = true;
  std::string resource_name = "c1f6bfd2.kueue.x-k8s.io";
  std::string resource_lock = "leases";
  std::string resource_namespace;  // "": the namespace of the mounted service account
  absl::Duration lease_duration = absl::Seconds(15);
  absl::Duration renew_deadline = absl::Seconds(10);
  absl::Duration retry_period = absl::Seconds(2);
};

struct LocalQueueMetricsFile {
  bool enable = false;
  std::optional<api::LabelSelector> local_queue_selector;  // absent: every LocalQueue
};

struct CustomLabelFile {
  std::string name;
  std::string source_label_key;
  std::string source_annotation_key;
  std::string source_kind;  // "": ClusterQueue
  std::vector<std::string> tracked_values;
};

struct MetricsFile {
  std::string bind_address = ":8443";  // "0": off
  bool enable_cluster_queue_resources = false;
  std::optional<LocalQueueMetricsFile> local_queue_metrics;
  std::vector<CustomLabelFile> custom_labels;
};

struct HealthFile {
  std::string health_probe_bind_address = ":8081";  // "0": off
  std::string readiness_endpoint_name = "/readyz";
  std::string liveness_endpoint_name = "/healthz";
};

struct ControllerFile {
  TextMap<int32_t> group_kind_concurrency;
  std::optional<int64_t> cache_sync_timeout;  // nanoseconds
};

struct TlsFile {
  std::string min_version;
  std::vector<std::string> cipher_suites;  // names of Go's crypto/tls
  std::vector<int32_t> curve_preferences;  // IANA numbers
};

struct InternalCertManagementFile {
  std::optional<bool> enable;
  std::string webhook_service_name;
  std::string webhook_secret_name;
};

struct RequeuingStrategyFile {
  std::string timestamp = "Eviction";
  std::optional<int32_t> backoff_limit_count;
  std::optional<int32_t> backoff_base_seconds;
  std::optional<int32_t> backoff_max_seconds;
};

struct WaitForPodsReadyFile {
  std::optional<bool> enable;  // v1beta1
  std::optional<absl::Duration> timeout;
  std::optional<absl::Duration> recovery_timeout;
  std::optional<bool> block_admission;
  std::optional<RequeuingStrategyFile> requeuing_strategy;
};

struct ClientConnectionFile {
  std::optional<double> qps;
  std::optional<int32_t> burst;
};

struct PodOptionsFile {  // v1beta1; read and ignored
  std::optional<api::LabelSelector> namespace_selector;
  std::optional<api::LabelSelector> pod_selector;
};

struct IntegrationsFile {
  std::vector<std::string> frameworks;
  std::vector<std::string> external_frameworks;
  std::optional<PodOptionsFile> pod_options;
  std::vector<std::string> label_keys_to_copy;
};

struct ExecEnvFile {
  std::string name;
  std::string value;
};

struct ExecConfigFile {
  std::string command;
  std::vector<std::string> args;
  std::vector<ExecEnvFile> env;
  std::string api_version;
  std::string install_hint;
  bool provide_cluster_info = false;
  std::string interactive_mode;
};

struct CredentialsProviderFile {
  std::string name;
  std::optional<ExecConfigFile> exec_config;
};

struct ClusterProfileFile {
  std::vector<CredentialsProviderFile> access_providers;
  std::vector<CredentialsProviderFile> credentials_providers;
};

struct MultiKueueExternalFrameworkFile {
  std::string name;
};

struct IncrementalDispatcherFile {
  std::optional<int32_t> step_size;
};

struct MultiKueueFile {
  std::optional<absl::Duration> gc_interval;
  std::string origin;
  std::optional<absl::Duration> worker_lost_timeout;
  std::string dispatcher_name;
  std::vector<MultiKueueExternalFrameworkFile> external_frameworks;
  std::optional<ClusterProfileFile> cluster_profile;
  std::optional<IncrementalDispatcherFile> incremental_dispatcher_config;
};

struct FairSharingFile {
  std::optional<bool> enable;  // v1beta1
  std::vector<std::string> preemption_strategies;
};

struct AdmissionFairSharingFile {
  absl::Duration usage_half_life_time;
  absl::Duration usage_sampling_interval;
  TextMap<double> resource_weights;
};

struct TransformationFile {
  std::string input;
  std::string strategy;
  std::string multiply_by;
  TextMap<Quantity> outputs;
};

struct CelSelectorFile {
  std::string expression;
};

struct DeviceSelectorFile {
  std::optional<CelSelectorFile> cel;
};

struct DeviceSourceFile {
  std::string name;
  std::string driver;
  std::optional<DeviceSelectorFile> device_selector;
};

struct DeviceClassSourceFile {
  std::optional<DeviceSourceFile> counter;
  std::optional<DeviceSourceFile> capacity;
};

struct DeviceClassMappingFile {
  std::string name;
  std::vector<std::string> device_class_names;
  std::vector<DeviceClassSourceFile> sources;
};

struct ResourcesFile {
  std::string quota_check_strategy;  // "": BlockUndeclared
  std::vector<std::string> exclude_resource_prefixes;
  std::vector<TransformationFile> transformations;
  std::vector<DeviceClassMappingFile> device_class_mappings;
};

struct WorkloadRetentionFile {
  std::optional<absl::Duration> after_finished;
  std::optional<absl::Duration> after_deactivated_by_kueue;
};

struct ObjectRetentionFile {
  std::optional<WorkloadRetentionFile> workloads;
};

struct VisibilityServerFile {
  std::optional<std::string> bind_address;
  std::optional<int32_t> bind_port;
};

struct QueueVisibilityClusterQueuesFile {
  int32_t max_count = 10;
};

struct QueueVisibilityFile {  // v1beta1; read and ignored
  std::optional<QueueVisibilityClusterQueuesFile> cluster_queues;
  int32_t update_interval_seconds = 5;
};

struct PreemptionFile {  // of our own, in both versions
  std::optional<absl::Duration> checkpoint_grace_period;
  std::optional<int32_t> max_per_workload;
  std::optional<absl::Duration> window;
};

struct TopologyFile {          // of our own, in both versions
  std::string node_lifecycle;  // Exclude, Ignore; empty: Exclude
  std::string maintenance;     // the same
};

struct ConfigurationFile {
  std::string ns;
  WebhookFile webhook;
  LeaderElectionFile leader_election;
  MetricsFile metrics;
  HealthFile health;
  std::string pprof_bind_address;
  ControllerFile controller;
  std::optional<TlsFile> tls;
  bool manage_jobs_without_queue_name = false;
  std::optional<api::LabelSelector> managed_jobs_namespace_selector;
  InternalCertManagementFile internal_cert_management;
  std::optional<WaitForPodsReadyFile> wait_for_pods_ready;
  ClientConnectionFile client_connection;
  IntegrationsFile integrations;
  std::optional<QueueVisibilityFile> queue_visibility;
  MultiKueueFile multi_kueue;
  std::optional<FairSharingFile> fair_sharing;
  std::optional<AdmissionFairSharingFile> admission_fair_sharing;
  ResourcesFile resources;
  std::optional<TextMap<bool>> feature_gates;
  ObjectRetentionFile object_retention_policies;
  PreemptionFile preemption;
  TopologyFile topology;
  std::optional<VisibilityServerFile> visibility_server;
};

}  // namespace sluice::config
