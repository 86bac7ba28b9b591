#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

void CheckTaints(const Path& path, const std::vector<api::Taint>& taints, FieldErrors* errors) {
  for (size_t i = 0; i < taints.size(); ++i) {
    const api::Taint& taint = taints[i];
    const Path item = path.Index(i);
    CheckLabelName(item.Child("key"), taint.key, errors);
    CheckLabelValue(item.Child("value"), taint.value, errors);
    for (size_t before = 0; before < i; ++before) {
      if (taints[before].key != taint.key || taints[before].effect != taint.effect) continue;
      errors->push_back(FieldError::Duplicate(item, taint.key + ":" + taint.effect));
      break;
    }
  }
}

}  // namespace

absl::StatusOr<PatchOps> DefaultResourceFlavor(const Request& request, const View&) {
  PatchOps ops;
  AddFinalizer(*request.object, api::kResourceInUse, &ops);
  return ops;
}

absl::StatusOr<FieldErrors> ValidateResourceFlavor(const Request& request, const View&) {
  ASSIGN_OR_RETURN(const api::ResourceFlavor flavor,
                   api::Decode<api::ResourceFlavor>(*request.object));
  const Path spec("spec");
  FieldErrors errors;
  CheckLabels(spec.Child("nodeLabels"), flavor.spec.node_labels, &errors);
  CheckTaints(spec.Child("nodeTaints"), flavor.spec.node_taints, &errors);
  for (size_t i = 0; i < flavor.spec.tolerations.size(); ++i) {
    const std::string& key = flavor.spec.tolerations[i].key;
    if (!key.empty()) CheckLabelName(spec.Child("tolerations").Index(i).Child("key"), key, &errors);
  }
  return errors;
}

}  // namespace sluice::webhook
