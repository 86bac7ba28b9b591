// Credential plugins: programs that print a credential (kubernetes.io "client-go credential
// plugins").
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <string>

#include "kube/credentials.h"

namespace sluice::kube {

// What the plugin gave: a token, or a certificate with its key, or both.
struct ExecCredential {
  std::string token;
  std::string client_cert;
  std::string client_key;
  absl::Time expires = absl::InfiniteFuture();
};

// Runs the program and waits for it, at most plugin.timeout; its output is bounded to 1 MiB. Errors
// begin with `source` and carry the first line of its error output. Thread-safe.
absl::StatusOr<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, const std::string& source);

// Reads the ExecCredential object from the output of a plugin.
absl::StatusOr<ExecCredential> ParseExecCredential(const ExecPlugin& plugin,
                                                   const std::string& output);

}  // namespace sluice::kube
