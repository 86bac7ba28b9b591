#include "api/codec.h"
#include "base/status.h"
#include "webhook/rules.h"

namespace sluice::webhook {

absl::StatusOr<FieldErrors> ValidateCohort(const Request& request, const View&) {
  ASSIGN_OR_RETURN(const api::Cohort cohort, api::Decode<api::Cohort>(*request.object));
  FieldErrors errors;
  CheckFairSharing(cohort.spec.fair_sharing, &errors);
  // A cohort may lend more than its own quota: what its members do not use counts as well.
  CheckResourceGroups(
      cohort.spec.resource_groups,
      {.has_parent = !cohort.spec.parent_name.empty(), .lending_within_quota = false}, &errors);
  return errors;
}

}  // namespace sluice::webhook
