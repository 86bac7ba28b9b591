#include "config/supported.h"

#include "config/names.h"
#include "config/tls.h"

namespace sluice::config {
namespace {

// Every option that is refused as long as its feature is missing. Remove a row with the feature.
struct Row {
  const char* path;
  bool (*wanted)(const ConfigurationFile& file);
  const char* feature;
};

template <typename T>
bool Differs(const std::optional<T>& value, const T& neutral) {
  return value.has_value() && *value != neutral;
}

using File = ConfigurationFile;

const Row kNotYet[] = {
    {"leaderElection.resourceLock",
     [](const File& f) { return f.leader_election.resource_lock != "leases"; },
     "a lock other than \"leases\""},
    {"pprofBindAddress", [](const File& f) { return !f.pprof_bind_address.empty(); },
     "the profiling server"},
    {"integrations.externalFrameworks",
     [](const File& f) { return !f.integrations.external_frameworks.empty(); },
     "kinds of other controllers"},
    {"multiKueue.gcInterval",
     [](const File& f) { return Differs(f.multi_kueue.gc_interval, absl::Minutes(1)); },
     "MultiKueue"},
    {"multiKueue.origin", [](const File& f) { return f.multi_kueue.origin != "multikueue"; },
     "MultiKueue"},
    {"multiKueue.workerLostTimeout",
     [](const File& f) { return Differs(f.multi_kueue.worker_lost_timeout, absl::Minutes(15)); },
     "MultiKueue"},
    {"multiKueue.dispatcherName",
     [](const File& f) { return f.multi_kueue.dispatcher_name != kDispatcherAllAtOnce; },
     "MultiKueue"},
    {"multiKueue.externalFrameworks",
     [](const File& f) { return !f.multi_kueue.external_frameworks.empty(); }, "MultiKueue"},
    {"multiKueue.clusterProfile",
     [](const File& f) { return f.multi_kueue.cluster_profile.has_value(); }, "MultiKueue"},
    {"resources.deviceClassMappings",
     [](const File& f) { return !f.resources.device_class_mappings.empty(); },
     "accounting of dynamic resources"},
};

}  // namespace

void CheckSupported(const ConfigurationFile& file, const state::FeatureGates& gates,
                    Violations* violations) {
  for (const Row& row : kNotYet) {
    const std::string path = row.path;
    if (path.starts_with("waitForPodsReady") && gates.Enabled("DisableWaitForPodsReady")) continue;
    if (row.wanted(file)) violations->Add(path, "{} is not supported yet", row.feature);
  }
  for (std::size_t i = 0; i < file.integrations.frameworks.size(); ++i) {
    const Framework* framework = FindFramework(file.integrations.frameworks[i]);
    if (framework != nullptr && !framework->supported) {
      violations->Add(fmt::format("integrations.frameworks[{}]", i), "{} is not supported yet",
                      framework->name);
    }
  }
  if (file.tls) UnsupportedTls(*file.tls, violations);
}

std::vector<std::string> NoEffectNotices(const ConfigurationFile& raw,
                                         const state::FeatureGates& gates) {
  std::vector<std::string> notices;
  const auto note = [&](bool given, const char* path, const char* why) {
    if (given) notices.push_back(fmt::format("{} has no effect: {}", path, why));
  };
  note(!raw.controller.group_kind_concurrency.empty(), "controller.groupKindConcurrency",
       "one thread decides for all kinds");
  note(!raw.metrics.custom_labels.empty() && !gates.Enabled("CustomMetricLabels"),
       "metrics.customLabels", "the feature gate CustomMetricLabels is off");
  note(raw.queue_visibility.has_value(), "queueVisibility", "the feature no longer exists");
  note(raw.integrations.pod_options.has_value(), "integrations.podOptions",
       "managedJobsNamespaceSelector took its place");
  note(!raw.resources.quota_check_strategy.empty() && !gates.Enabled("QuotaCheckStrategy"),
       "resources.quotaCheckStrategy", "the feature gate QuotaCheckStrategy is off");
  return notices;
}

}  // namespace sluice::config
