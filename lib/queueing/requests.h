// Requests of a pod set in full: what one pod asks for with init containers, sidecars, overhead,
// pod-level resources, the defaults of LimitRanges and the configured transformations, times the
// number of pods that count.
//
// Contract: pure functions; the workload itself is never changed. Amounts are in the units of
// resource/resource.h, rounded up per pod before the multiplication, and saturate.
// Sources: Kubernetes documentation "Sidecar containers" (resource sharing within containers), "Pod
// Overhead", "Limit Ranges", "Assign pod-level CPU and memory"; Kueue documentation of the
// Configuration API (resources).
//
//   RequestContext context{.limit_ranges = ..., .options = &options};
//   std::vector<PodSetRequests> requests = TotalRequests(workload, context);
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "api/kueue_types.h"
#include "resource/resource.h"

namespace sluice::queueing {

// Turns one requested resource into others before quota is counted.
struct ResourceTransformation {
  ResourceName input;
  bool replace = false;      // drop the input (strategy Replace), else keep it (Retain)
  ResourceName multiply_by;  // "": not multiplied
  ResourceList outputs;      // per unit of the input
};

// From the configuration; the same for all workloads.
struct RequestOptions {
  std::vector<std::string> exclude_prefixes;
  std::vector<ResourceTransformation> transformations;  // inputs are unique
  // Whether reclaimable pods lower the count (gate ReclaimablePods).
  bool reclaimable_pods = true;
  // Devices that pods claim (dynamic resource allocation) are not counted, so workloads with such
  // claims are refused (gate KueueDRARejectWorkloadsWhenDRADisabled).
  bool refuse_claims = true;
};

// What the requests of a workload depend on beside the workload. Pointers must outlive the call.
struct RequestContext {
  // The LimitRanges of the workload's namespace, in a stable order (by name).
  std::vector<const api::LimitRange*> limit_ranges{};
  // The RuntimeClass of that name, or nullptr. May be empty: no RuntimeClass is known.
  std::function<const api::RuntimeClass*(const std::string&)> runtime_class{};
  const RequestOptions* options = nullptr;  // nullptr: the defaults
};

struct PodSetRequests {
  std::string name;
  int32_t count = 0;  // the pods that count (reclaimable ones are gone)
  Requests total;     // of one pod, times count
  bool operator==(const PodSetRequests&) const = default;
};

// The pod spec with overhead, LimitRange defaults and limits as requests filled in.
api::PodSpec AdjustPodSpec(const api::PodSpec& spec, const RequestContext& context);

// Requests of one pod whose spec was adjusted, exact.
ResourceList PodRequests(const api::PodSpec& adjusted);
// Of one that may have to be adjusted; it is copied only then.
ResourceList PodRequests(const api::PodSpec& spec, const RequestContext& context);

// The requests of every pod set, in the order of the spec, for a workload without admission.
std::vector<PodSetRequests> TotalRequests(const api::Workload& workload,
                                          const RequestContext& context);

// Why the workload cannot be admitted at all: requests above their own limits, LimitRange
// violations. Each entry is a whole message; empty when all is well.
std::vector<std::string> ValidateResources(const api::Workload& workload,
                                           const RequestContext& context);

// What the workload's admission holds: resourceUsage per flavor and resource, scaled down (integer
// division per resource first) when fewer pods are left than were admitted. Empty without
// admission.
FlavorResourceAmounts AdmittedUsage(const api::Workload& workload, bool reclaimable_pods = true);

// The same, of one pod set of the admission, and of the pod set with that name in the spec.
Requests AdmittedAmounts(const api::Workload& workload, const api::PodSetAssignment& assignment,
                         bool reclaimable_pods = true);

// Whether the workload's admission is counted as usage: quota reserved, active, not finished.
bool HoldsQuota(const api::Workload& workload);

// The form in which status.resourceRequests shows them.
std::vector<api::PodSetRequest> StatusRequests(const std::vector<PodSetRequests>& requests);

}  // namespace sluice::queueing
