// Config: everything that is decided at start, from the command line and the configuration file.
//
// One immutable value, made once by Load (config/load.h) and shared by const reference or
// shared_ptr; safe from any thread.
#pragma once

#include <absl/status/statusor.h>

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "config/endpoint.h"
#include "config/file.h"
#include "config/flags.h"
#include "config/tls.h"
#include "state/settings.h"

namespace sluice::config {

struct Config {
  Flags flags;
  // The file with its defaults applied, as v1beta2: webhook, leader election, certificates, ...
  ConfigurationFile file;
  // The part that decisions need.
  state::Settings settings;

  // Where we listen; nullopt: that server is off.
  Endpoint webhook;
  std::optional<Endpoint> metrics;
  std::optional<Endpoint> health;
  std::optional<Endpoint> visibility;
  TlsOptions tls;

  // Sentences for the log: options that were accepted without effect.
  std::vector<std::string> notices;
};

// The file as it took effect, for the log. Json is YAML: the text can be used as a file again (only
// a v1beta1 file without waitForPodsReady cannot be told in v1beta2, where its absence means on).
api::Json EffectiveFile(const Config& config);

// The namespace of the Lease: leaderElection.resourceNamespace, else the one of the service
// account. An error when leader election is on and neither is known (outside a pod).
absl::StatusOr<std::string> LeaseNamespace(const Config& config,
                                           const std::string& service_account_namespace);

}  // namespace sluice::config
