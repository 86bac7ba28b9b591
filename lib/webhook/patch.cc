#include <algorithm>

#include "webhook/rules.h"

namespace sluice::webhook {

using api::Json;

Json AddOp(const std::string& pointer, Json value) {
  Json op = Json::MakeObject({{"op", "add"}, {"path", pointer}});
  op.Set("value", std::move(value));
  return op;
}

Json RemoveOp(const std::string& pointer) {
  return Json::MakeObject({{"op", "remove"}, {"path", pointer}});
}

std::string PointerPart(std::string_view name) {
  std::string part;
  for (const char c : name) {
    if (c == '~') {
      part += "~0";
    } else if (c == '/') {
      part += "~1";
    } else {
      part += c;
    }
  }
  return part;
}

void AddFinalizer(const Json& object, const std::string& finalizer, PatchOps* ops) {
  const Json* metadata = object.Find("metadata");
  if (metadata == nullptr || !metadata->IsObject()) {
    ops->push_back(
        AddOp("/metadata", Json::MakeObject({{"finalizers", Json::MakeArray({Json(finalizer)})}})));
    return;
  }
  const Json* finalizers = metadata->Find("finalizers");
  if (finalizers == nullptr || !finalizers->IsArray()) {
    ops->push_back(AddOp("/metadata/finalizers", Json::MakeArray({Json(finalizer)})));
    return;
  }
  const Json::Array& list = finalizers->AsArray();
  if (std::find(list.begin(), list.end(), Json(finalizer)) != list.end()) return;
  ops->push_back(AddOp("/metadata/finalizers/-", finalizer));
}

}  // namespace sluice::webhook
