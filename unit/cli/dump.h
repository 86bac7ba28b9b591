// How a dump of kubectl-sluice begins, for tests that write the rest of one themselves.
#pragma once

#include <string>

namespace sluice::cli {

// Up to the first of its own items; with the default configuration of a controller, without which
// the questions say that they use their defaults.
inline std::string DumpHead(const std::string& taken_at = "2026-01-01T01:00:00Z") {
  return "apiVersion: v1\nkind: List\nmetadata: {annotations: {sluice.dev/taken-at: \"" + taken_at +
         "\"}}\nitems:\n"
         "- {apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: "
         "{controller_manager_config.yaml: \"{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: "
         "Configuration}\"}}\n";
}

}  // namespace sluice::cli
