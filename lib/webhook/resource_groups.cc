#include <fmt/format.h>

#include <set>

#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

// Names that occurred so far, over all groups of the object.
struct Seen {
  std::set<std::string, std::less<>> resources;
  std::set<std::string, std::less<>> flavors;
};

void CheckNotNegative(const Path& path, const Quantity& quantity, FieldErrors* errors) {
  if (quantity.Sign() < 0) {
    errors->push_back(FieldError::Invalid(path, quantity.ToString(), "must not be negative"));
  }
}

void CheckLimit(const Path& path, const std::optional<Quantity>& limit,
                const ResourceGroupRules& rules, FieldErrors* errors) {
  if (!limit) return;
  CheckNotNegative(path, *limit, errors);
  if (!rules.has_parent) {
    errors->push_back(FieldError::Invalid(path, limit->ToString(),
                                          "a limit needs a cohort to borrow from or "
                                          "lend to"));
  }
}

void CheckQuota(const Path& path, const api::ResourceQuota& quota, const ResourceGroupRules& rules,
                FieldErrors* errors) {
  CheckNotNegative(path.Child("nominalQuota"), quota.nominal_quota, errors);
  CheckLimit(path.Child("borrowingLimit"), quota.borrowing_limit, rules, errors);
  CheckLimit(path.Child("lendingLimit"), quota.lending_limit, rules, errors);
  if (rules.lending_within_quota && quota.lending_limit &&
      *quota.lending_limit > quota.nominal_quota) {
    errors->push_back(FieldError::Invalid(path.Child("lendingLimit"),
                                          quota.lending_limit->ToString(),
                                          "must not exceed the nominalQuota"));
  }
}

void CheckFlavor(const Path& path, const api::FlavorQuotas& flavor,
                 const std::vector<ResourceName>& covered, const ResourceGroupRules& rules,
                 FieldErrors* errors) {
  for (size_t i = 0; i < flavor.resources.size(); ++i) {
    const api::ResourceQuota& quota = flavor.resources[i];
    const Path item = path.Child("resources").Index(i);
    if (i < covered.size() && quota.name != covered[i]) {
      errors->push_back(FieldError::Invalid(
          item.Child("name"), quota.name,
          fmt::format("must be {}, as at this place of coveredResources", Quote(covered[i]))));
    }
    CheckQuota(item, quota, rules, errors);
  }
}

void CheckGroup(const Path& path, const api::ResourceGroup& group, const ResourceGroupRules& rules,
                Seen* seen, FieldErrors* errors) {
  for (size_t i = 0; i < group.covered_resources.size(); ++i) {
    const ResourceName& name = group.covered_resources[i];
    const Path item = path.Child("coveredResources").Index(i);
    CheckLabelName(item, name, errors);
    if (!seen->resources.insert(name).second) errors->push_back(FieldError::Duplicate(item, name));
  }
  for (size_t i = 0; i < group.flavors.size(); ++i) {
    const api::FlavorQuotas& flavor = group.flavors[i];
    const Path item = path.Child("flavors").Index(i);
    CheckFlavor(item, flavor, group.covered_resources, rules, errors);
    if (!seen->flavors.insert(flavor.name).second) {
      errors->push_back(FieldError::Duplicate(item.Child("name"), flavor.name));
    }
  }
}

}  // namespace

void CheckResourceGroups(const std::vector<api::ResourceGroup>& groups,
                         const ResourceGroupRules& rules, FieldErrors* errors) {
  const Path path = Path("spec").Child("resourceGroups");
  Seen seen;
  for (size_t i = 0; i < groups.size(); ++i) {
    CheckGroup(path.Index(i), groups[i], rules, &seen, errors);
  }
}

void CheckFairSharing(const std::optional<api::FairSharing>& fair_sharing, FieldErrors* errors) {
  if (!fair_sharing || !fair_sharing->weight) return;
  const Quantity& weight = *fair_sharing->weight;
  const Path path = Path("spec").Child("fairSharing");
  if (weight.Sign() < 0) {
    errors->push_back(
        FieldError::Invalid(path, weight.ToString(), "the weight must not be negative"));
  } else if (weight.Sign() > 0 && weight.nanos() <= 1) {
    errors->push_back(FieldError::Invalid(path, weight.ToString(),
                                          "the weight must be zero or greater than 10^-9"));
  }
}

}  // namespace sluice::webhook
