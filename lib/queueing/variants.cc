#include "queueing/variants.h"

#include <absl/strings/ascii.h>
#include <absl/strings/str_split.h>

#include <algorithm>

#include "api/kind.h"
#include "api/names.h"

namespace sluice::queueing {

bool IsVariant(const api::Workload& workload) {
  const api::OwnerReference* owner = workload.metadata.Controller();
  return owner != nullptr && owner->kind == "Workload" &&
         owner->api_version.starts_with(std::string(api::kKueueGroup) + "/");
}

bool IsMarkedParent(const api::Workload& workload) {
  return workload.metadata.Label(api::kConcurrentAdmissionParent) == "true";
}

std::optional<std::vector<FlavorName>> AllowedFlavors(const api::Workload& workload) {
  const auto found = workload.metadata.annotations.find(api::kAllowedResourceFlavors);
  if (found == workload.metadata.annotations.end()) return std::nullopt;
  std::vector<FlavorName> flavors;
  for (std::string& part : std::vector<std::string>(absl::StrSplit(found->second, ','))) {
    absl::StripAsciiWhitespace(&part);
    if (!part.empty()) flavors.push_back(std::move(part));
  }
  return flavors;
}

FlavorName VariantFlavor(const api::Workload& workload) {
  const auto allowed = AllowedFlavors(workload);
  return allowed.has_value() && !allowed->empty() ? allowed->front() : FlavorName();
}

FlavorName AdmittedFlavor(const api::Workload& workload) {
  if (!workload.status.admission) return "";
  for (const api::PodSetAssignment& assignment : workload.status.admission->pod_set_assignments) {
    if (!assignment.flavors.empty()) return assignment.flavors.begin()->second;
  }
  return "";
}

size_t Migration::PositionOf(const FlavorName& flavor) const {
  return static_cast<size_t>(std::find(flavors.begin(), flavors.end(), flavor) - flavors.begin());
}

std::optional<Migration> MigrationOf(const api::ClusterQueueSpec& spec) {
  if (!spec.concurrent_admission_policy) return std::nullopt;
  const api::ConcurrentAdmissionMigration& policy = spec.concurrent_admission_policy->migration;
  Migration migration;
  for (const api::ResourceGroup& group : spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) migration.flavors.push_back(flavor.name);
  }
  migration.retain_first = policy.mode == "RetainFirstAdmission";
  if (policy.constraints && !migration.retain_first) {
    migration.last_acceptable = policy.constraints->last_acceptable_flavor_name;
  }
  return migration;
}

}  // namespace sluice::queueing
