#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

constexpr size_t kMaxFlavors = 256;
constexpr size_t kMaxCoveredResources = 256;
constexpr size_t kMaxCombinationsInGroup = 512;
constexpr size_t kMaxConcurrentFlavors = 16;

using Flavors = std::set<FlavorName, std::less<>>;

Flavors FlavorsOf(const api::ClusterQueue& queue) {
  Flavors flavors;
  for (const api::ResourceGroup& group : queue.spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) flavors.insert(flavor.name);
  }
  return flavors;
}

void CheckSizes(const std::vector<api::ResourceGroup>& groups, FieldErrors* errors) {
  const Path path = Path("spec").Child("resourceGroups");
  size_t flavors = 0;
  size_t resources = 0;
  for (size_t i = 0; i < groups.size(); ++i) {
    flavors += groups[i].flavors.size();
    resources += groups[i].covered_resources.size();
    const size_t combinations = groups[i].flavors.size() * groups[i].covered_resources.size();
    if (combinations > kMaxCombinationsInGroup) {
      errors->push_back(
          FieldError::Invalid(path.Index(i), static_cast<int64_t>(combinations),
                              fmt::format("must have at most {} pairs of flavor and resource",
                                          kMaxCombinationsInGroup)));
    }
  }
  if (flavors > kMaxFlavors) {
    errors->push_back(FieldError::Invalid(
        path, static_cast<int64_t>(flavors),
        fmt::format("must have at most {} flavors in all groups together", kMaxFlavors)));
  }
  if (resources > kMaxCoveredResources) {
    errors->push_back(
        FieldError::Invalid(path, static_cast<int64_t>(resources),
                            fmt::format("must cover at most {} resources in all groups together",
                                        kMaxCoveredResources)));
  }
}

void CheckPreemption(const api::ClusterQueue& queue, FieldErrors* errors) {
  if (!queue.spec.preemption || !queue.spec.preemption->borrow_within_cohort) return;
  const std::string& reclaim = queue.spec.preemption->reclaim_within_cohort;
  const std::string& borrow = queue.spec.preemption->borrow_within_cohort->policy;
  const bool reclaims = !reclaim.empty() && reclaim != "Never";
  const bool borrows = !borrow.empty() && borrow != "Never";
  if (reclaims || !borrows) return;
  errors->push_back(
      FieldError::Invalid(Path("spec").Child("preemption"), borrow,
                          "borrowWithinCohort needs a reclaimWithinCohort other than Never"));
}

void CheckFungibility(const api::ClusterQueue& queue, FieldErrors* errors) {
  const std::optional<api::FlavorFungibility>& fungibility = queue.spec.flavor_fungibility;
  if (!fungibility || fungibility->preference.empty()) return;
  constexpr std::string_view kTryNext = "TryNextFlavor";
  if (fungibility->when_can_borrow == kTryNext && fungibility->when_can_preempt == kTryNext) return;
  errors->push_back(FieldError::Invalid(
      Path("spec").Child("flavorFungibility", "preference"), fungibility->preference,
      "needs TryNextFlavor for both whenCanBorrow and whenCanPreempt"));
}

// A rule that was stored before it was checked stays acceptable as long as neither it nor the
// flavors it speaks of change.
bool IsLegacyRule(const api::AdmissionCheckStrategyRule& rule, const Flavors& flavors,
                  const api::ClusterQueue* old_queue) {
  if (old_queue == nullptr || !old_queue->spec.admission_checks_strategy) return false;
  if (FlavorsOf(*old_queue) != flavors) return false;
  const Flavors named(rule.on_flavors.begin(), rule.on_flavors.end());
  const auto& old_rules = old_queue->spec.admission_checks_strategy->admission_checks;
  return std::any_of(old_rules.begin(), old_rules.end(), [&](const auto& old_rule) {
    return old_rule.name == rule.name &&
           Flavors(old_rule.on_flavors.begin(), old_rule.on_flavors.end()) == named;
  });
}

void CheckAdmissionChecks(const api::ClusterQueue& queue, const api::ClusterQueue* old_queue,
                          const View& view, FieldErrors* errors) {
  if (!queue.spec.admission_checks_strategy) return;
  const Flavors flavors = FlavorsOf(queue);
  const std::vector<std::string> supported(flavors.begin(), flavors.end());
  const Path path = Path("spec").Child("admissionChecksStrategy", "admissionChecks");
  const auto& rules = queue.spec.admission_checks_strategy->admission_checks;
  for (size_t i = 0; i < rules.size(); ++i) {
    if (!view.GateOn("RejectUpdatesToCQWithInvalidOnFlavors") &&
        IsLegacyRule(rules[i], flavors, old_queue)) {
      continue;
    }
    const Path on_flavors = path.Index(i).Child("onFlavors");
    for (size_t j = 0; j < rules[i].on_flavors.size(); ++j) {
      const FlavorName& flavor = rules[i].on_flavors[j];
      if (flavors.count(flavor) > 0) continue;
      errors->push_back(FieldError::NotSupported(on_flavors.Index(j), flavor, supported));
    }
  }
}

void CheckConcurrentConstraints(const api::ClusterQueue& queue, FieldErrors* errors) {
  const api::ConcurrentAdmissionMigration& migration =
      queue.spec.concurrent_admission_policy->migration;
  if (!migration.constraints) return;
  const Path path = Path("spec").Child("concurrentAdmissionPolicy", "migration", "constraints");
  if (!migration.mode.empty() && migration.mode != "TryPreferredFlavors") {
    errors->push_back(FieldError::Forbidden(path, "needs the mode TryPreferredFlavors"));
    return;
  }
  const FlavorName& flavor = migration.constraints->last_acceptable_flavor_name;
  if (!flavor.empty() && FlavorsOf(queue).count(flavor) == 0) {
    errors->push_back(FieldError::Invalid(path.Child("lastAcceptableFlavorName"), flavor,
                                          "must be a flavor of this ClusterQueue"));
  }
}

void CheckConcurrentAdmission(const api::ClusterQueue& queue, const View& view,
                              FieldErrors* errors) {
  if (!view.GateOn("ConcurrentAdmission") || !queue.spec.concurrent_admission_policy) return;
  const Path spec("spec");
  const auto& groups = queue.spec.resource_groups;
  if (groups.size() != 1) {
    errors->push_back(
        FieldError::Invalid(spec.Child("resourceGroups"), static_cast<int64_t>(groups.size()),
                            "concurrentAdmissionPolicy needs exactly one resource group"));
  } else if (groups[0].flavors.size() > kMaxConcurrentFlavors) {
    errors->push_back(FieldError::Invalid(
        spec.Child("resourceGroups").Index(0).Child("flavors"),
        static_cast<int64_t>(groups[0].flavors.size()),
        fmt::format("concurrentAdmissionPolicy allows at most {} flavors", kMaxConcurrentFlavors)));
  }
  CheckConcurrentConstraints(queue, errors);
  if (queue.spec.queueing_strategy == "StrictFIFO") {
    errors->push_back(FieldError::Invalid(spec.Child("queueingStrategy"), "StrictFIFO",
                                          "does not go with concurrentAdmissionPolicy"));
  }
}

void CheckImmutable(const Request& request, const api::ClusterQueue& queue,
                    const api::ClusterQueue& old_queue, FieldErrors* errors) {
  if (queue.spec.concurrent_admission_policy == old_queue.spec.concurrent_admission_policy) return;
  const api::Json* policy = request.object->Find("spec", "concurrentAdmissionPolicy");
  errors->push_back(FieldError::Invalid(Path("spec").Child("concurrentAdmissionPolicy"),
                                        policy == nullptr ? api::Json() : *policy, kImmutable));
}

}  // namespace

absl::StatusOr<PatchOps> DefaultClusterQueue(const Request& request, const View&) {
  PatchOps ops;
  AddFinalizer(*request.object, api::kResourceInUse, &ops);
  return ops;
}

absl::StatusOr<FieldErrors> ValidateClusterQueue(const Request& request, const View& view) {
  ASSIGN_OR_RETURN(const api::ClusterQueue queue, api::Decode<api::ClusterQueue>(*request.object));
  std::optional<api::ClusterQueue> old_queue;
  if (request.old_object != nullptr) {
    ASSIGN_OR_RETURN(old_queue, api::Decode<api::ClusterQueue>(*request.old_object));
  }
  FieldErrors errors;
  CheckFairSharing(queue.spec.fair_sharing, &errors);
  CheckResourceGroups(queue.spec.resource_groups,
                      {.has_parent = !queue.spec.cohort_name.empty(), .lending_within_quota = true},
                      &errors);
  CheckSizes(queue.spec.resource_groups, &errors);
  if (queue.spec.namespace_selector) {
    CheckLabelSelector(Path("spec").Child("namespaceSelector"), *queue.spec.namespace_selector,
                       &errors);
  }
  CheckPreemption(queue, &errors);
  CheckFungibility(queue, &errors);
  CheckAdmissionChecks(queue, old_queue ? &*old_queue : nullptr, view, &errors);
  CheckConcurrentAdmission(queue, view, &errors);
  CheckBackfillAnnotations(queue.metadata.annotations,
                           old_queue ? &old_queue->metadata.annotations : nullptr, &errors);
  if (old_queue) CheckImmutable(request, queue, *old_queue, &errors);
  return errors;
}

}  // namespace sluice::webhook
