// From text to Config.
//
// Three stages: read the file and apply defaults, then feature gates, then the rules and what this
// program supports. All violations of one stage are reported together, joined by "; ", each with
// its path; a later stage runs only when the earlier ones found nothing.
//
//   ASSIGN_OR_RETURN(Config config, LoadFile(flags, ReadServiceAccountNamespace()));
#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "config/config.h"
#include "config/flags.h"

namespace sluice::config {

// The file that the flags name (the defaults when they name none). Errors begin with its path.
absl::StatusOr<Config> LoadFile(const Flags& flags, const std::string& service_account_namespace);

// The same for a text; pure.
absl::StatusOr<Config> Load(const std::string& text, const Flags& flags,
                            const std::string& service_account_namespace);

// The first stages alone: the file with its defaults, before any rule is checked. Pure.
absl::StatusOr<ConfigurationFile> ReadFileText(const std::string& text,
                                               const std::string& service_account_namespace);

// The namespace of the service account that is mounted into the pod; "" outside a pod.
std::string ReadServiceAccountNamespace();

}  // namespace sluice::config
