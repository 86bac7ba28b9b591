#include <set>

#include "base/time.h"
#include "config/names.h"
#include "config/validate.h"

namespace sluice::config {
namespace {

// Paths of this list carry no index.
void ValidateProviders(const std::string& path,
                       const std::vector<CredentialsProviderFile>& providers,
                       Violations* violations) {
  for (const CredentialsProviderFile& provider : providers) {
    if (provider.name.empty()) violations->Add(path + ".name", "is required");
    const ExecConfigFile exec = provider.exec_config.value_or(ExecConfigFile{});
    const std::string deeper = path + ".execConfig.";
    if (exec.command.empty()) violations->Add(deeper + "command", "is required");
    if (exec.api_version.empty()) violations->Add(deeper + "apiVersion", "is required");
    for (const ExecEnvFile& env : exec.env) {
      if (env.name.empty()) violations->Add(deeper + "env.name", "is required");
    }
    if (exec.interactive_mode.empty()) {
      violations->Add(deeper + "interactiveMode", "is required");
    } else if (exec.interactive_mode != "Never" && exec.interactive_mode != "IfAvailable" &&
               exec.interactive_mode != "Always") {
      violations->Add(deeper + "interactiveMode",
                      "must be Never, IfAvailable or Always (it is \"{}\")", exec.interactive_mode);
    }
  }
}

void ValidateExternalFrameworks(const MultiKueueFile& multi, const IntegrationsFile& integrations,
                                Violations* violations) {
  std::set<std::string> served;
  for (const std::string& name : integrations.frameworks) {
    if (const Framework* framework = FindFramework(name)) served.insert(framework->kind.ToString());
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < multi.external_frameworks.size(); ++i) {
    const std::string path = fmt::format("multiKueue.externalFrameworks[{}].name", i);
    const std::string& text = multi.external_frameworks[i].name;
    const std::optional<KindName> kind = ParseKindName(text);
    if (!kind) {
      violations->Add(path, "\"{}\" must have the form kind.version.group", text);
    } else if (served.contains(kind->ToString())) {
      violations->Add(path, "\"{}\" is served by an enabled framework", text);
    } else if (!seen.insert(kind->ToString()).second) {
      violations->Add(path, "\"{}\" is given twice", text);
    }
  }
}

}  // namespace

void ValidateMultiKueue(const MultiKueueFile& multi, const IntegrationsFile& integrations,
                        Violations* violations) {
  const std::string path = "multiKueue.";
  if (multi.gc_interval && *multi.gc_interval < absl::ZeroDuration()) {
    violations->Add(path + "gcInterval", "must not be negative");
  }
  if (multi.worker_lost_timeout && *multi.worker_lost_timeout < absl::ZeroDuration()) {
    violations->Add(path + "workerLostTimeout", "must not be negative");
  }
  violations->AddIf(path + "origin", CheckLabelValue(multi.origin));
  ValidateExternalFrameworks(multi, integrations, violations);
  if (multi.cluster_profile) {
    const ClusterProfileFile& profile = *multi.cluster_profile;
    const std::string deeper = path + "clusterProfile.";
    if (!profile.access_providers.empty() && !profile.credentials_providers.empty()) {
      violations->Add(deeper + "credentialsProviders", "must not be set beside accessProviders");
    }
    ValidateProviders(deeper + "accessProviders", profile.access_providers, violations);
    ValidateProviders(deeper + "credentialsProviders", profile.credentials_providers, violations);
  }
  if (multi.incremental_dispatcher_config) {
    const std::string deeper = path + "incrementalDispatcherConfig";
    if (multi.dispatcher_name != kDispatcherIncremental) {
      violations->Add(deeper, "needs dispatcherName {}", kDispatcherIncremental);
    }
    const int32_t step = multi.incremental_dispatcher_config->step_size.value_or(3);
    if (step < 1) violations->Add(deeper + ".stepSize", "must be at least 1 (it is {})", step);
  }
}

}  // namespace sluice::config
