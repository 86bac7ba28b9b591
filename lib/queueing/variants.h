// Variants: one Workload that tries several flavors at the same time.
//
// In a ClusterQueue with concurrentAdmissionPolicy a Workload is the parent of one variant for each
// flavor. Only variants wait in queues and hold quota; the parent shows what the admitted variant
// has. The favour of a flavor is its place in the ClusterQueue, the first one being the best.
//
// Contract: pure functions. Source: KEP-8691 (concurrent admission).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/kueue_types.h"

namespace sluice::queueing {

// Its controller is a Workload.
bool IsVariant(const api::Workload& workload);
// It carries the label kueue.x-k8s.io/concurrent-admission-parent.
bool IsMarkedParent(const api::Workload& workload);

// The flavors that the annotation kueue.x-k8s.io/workload-allowed-resource-flavors names; nullopt
// without it: any.
std::optional<std::vector<FlavorName>> AllowedFlavors(const api::Workload& workload);
// The flavor of a variant, "" for none.
FlavorName VariantFlavor(const api::Workload& workload);
// The flavor that an admission of one resource group uses, "" without an admission.
FlavorName AdmittedFlavor(const api::Workload& workload);

// How far a workload moves from the flavor it was first admitted in.
struct Migration {
  std::vector<FlavorName> flavors;  // best first
  bool retain_first = false;        // never
  FlavorName last_acceptable;       // once it was admitted, none after this one; "": any
  // Position of the flavor; past the end when it is not there.
  size_t PositionOf(const FlavorName& flavor) const;
  // `a` comes before `b`.
  bool Better(const FlavorName& a, const FlavorName& b) const {
    return PositionOf(a) < PositionOf(b);
  }
  bool Acceptable(const FlavorName& flavor) const {
    return last_acceptable.empty() || PositionOf(flavor) <= PositionOf(last_acceptable);
  }
};
// nullopt: the ClusterQueue has no such policy.
std::optional<Migration> MigrationOf(const api::ClusterQueueSpec& spec);

}  // namespace sluice::queueing
