// Settings: what decisions need to know of the controller's configuration.
//
// A plain immutable value. Default-constructed it means the same as an empty configuration file of
// version config.kueue.x-k8s.io/v1beta2; controller/config fills it from a file. It is made once at
// start and shared by const reference, so it is safe from any thread.
//
// Source of the options and their meaning: the configuration reference of Kueue
// (kueue.sigs.k8s.io/docs/reference).
//
//   state::Settings settings;                        // all defaults
//   if (settings.gates.Enabled("ReclaimablePods")) ...
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta_types.h"
#include "resource/resource.h"
#include "state/feature_gates.h"

namespace sluice::state {

// The namespaces that are managed unless the file says otherwise: all but kube-system and our own.
api::LabelSelector DefaultManagedJobsNamespaceSelector(const std::string& installation_namespace);

// Which instant orders a workload that was evicted because its pods were not ready.
enum class RequeuingTimestamp { kEviction, kCreation };

struct RequeuingStrategy {
  RequeuingTimestamp timestamp = RequeuingTimestamp::kEviction;
  std::optional<int32_t> backoff_limit_count;  // nullopt: no limit
  int32_t backoff_base_seconds = 60;
  int32_t backoff_max_seconds = 3600;
  bool operator==(const RequeuingStrategy&) const = default;
};

struct WaitForPodsReady {
  absl::Duration timeout = absl::Minutes(30);
  absl::Duration recovery_timeout = absl::Minutes(30);  // zero: recovery is not watched
  bool block_admission = false;
  RequeuingStrategy requeuing_strategy;
  bool operator==(const WaitForPodsReady&) const = default;
};

struct Integrations {
  std::vector<std::string> frameworks = {"batch/job"};
  // "Kind.version.group" of kinds whose workloads another controller makes.
  std::vector<std::string> external_frameworks;
  // Labels of a job that its Workload receives at creation.
  std::vector<std::string> label_keys_to_copy;

  bool Enabled(std::string_view framework) const;
};

enum class PreemptionStrategy { kLessThanOrEqualToFinalShare, kLessThanInitialShare };

struct FairSharing {
  std::vector<PreemptionStrategy> preemption_strategies;
};

struct AdmissionFairSharing {
  absl::Duration usage_half_life_time = absl::ZeroDuration();  // zero: usage is forgotten at once
  absl::Duration usage_sampling_interval = absl::Minutes(5);
  // Weight 1 for a resource that is not named. Exact to 10^-9.
  absl::btree_map<ResourceName, Quantity> resource_weights;
};

// What to do with a requested resource that the ClusterQueue does not cover.
enum class QuotaCheckStrategy { kBlockUndeclared, kIgnoreUndeclared };

// Turns one requested resource into others before quota is counted.
struct ResourceTransformation {
  enum class Strategy { kRetain, kReplace };  // keep or drop the input
  ResourceName input;
  Strategy strategy = Strategy::kRetain;
  ResourceName multiply_by;  // "": not multiplied
  ResourceList outputs;      // per unit of the input
};

struct ResourceSettings {
  QuotaCheckStrategy quota_check_strategy = QuotaCheckStrategy::kBlockUndeclared;
  std::vector<std::string> exclude_resource_prefixes;
  std::vector<ResourceTransformation> transformations;  // inputs are unique
};

struct ObjectRetention {
  // How long after it finished a Workload is deleted; nullopt: never.
  std::optional<absl::Duration> after_finished;
  // How long after its eviction the job of a Workload that the controller deactivated is deleted.
  std::optional<absl::Duration> after_deactivated_by_kueue;
};

// Checkpoint-aware preemption; see preemption/checkpoint.h.
struct Preemption {
  // How long a workload that was asked for a checkpoint may take for it; zero: nobody is asked.
  absl::Duration checkpoint_grace_period = absl::Minutes(2);
  // A workload is not preempted more than so often in the window while others will do; 0: no bound.
  int32_t max_per_workload = 3;
  absl::Duration window = absl::Hours(1);
  bool operator==(const Preemption&) const = default;
};

// What conditions of nodes mean for placement. Source: Kubernetes API reference, Node conditions.
struct TopologySettings {
  // Nodes that are drained, maintained or shut down right now take no new pods.
  bool exclude_leaving = true;
  // Nodes with planned maintenance take no pods of what may run into it.
  bool exclude_maintenance = true;
  bool operator==(const TopologySettings&) const = default;
};

struct Settings {
  // The namespace the controller is installed in. Its jobs are never managed.
  std::string installation_namespace = "kueue-system";
  // Manage (suspend) jobs that name no queue.
  bool manage_jobs_without_queue_name = false;
  // Only jobs in namespaces whose labels match are managed, with or without a queue name.
  api::LabelSelector managed_jobs_namespace_selector =
      DefaultManagedJobsNamespaceSelector("kueue-system");
  // nullopt: the feature is off (no readiness is awaited).
  std::optional<WaitForPodsReady> wait_for_pods_ready = WaitForPodsReady{};
  Integrations integrations;
  std::optional<FairSharing> fair_sharing;                     // nullopt: off
  std::optional<AdmissionFairSharing> admission_fair_sharing;  // nullopt: off
  ResourceSettings resources;
  ObjectRetention object_retention;
  Preemption preemption;
  TopologySettings topology;
  FeatureGates gates;
};

}  // namespace sluice::state
