#include "sim/object_metadata.h"

#include <algorithm>

namespace sluice::sim {

using api::Json;

std::vector<std::string> Finalizers(const Json& object) {
  std::vector<std::string> list;
  if (const Json* finalizers = object.Find("metadata", "finalizers")) {
    for (const Json& item : finalizers->AsArray()) list.push_back(item.AsString());
  }
  return list;
}

void SetFinalizers(Json& object, const std::vector<std::string>& list) {
  if (list.empty()) {
    object["metadata"].Erase("finalizers");
    return;
  }
  object["metadata"].Set("finalizers", Json::Array(list.begin(), list.end()));
}

bool Deleting(const Json& object) {
  return !object.GetString("metadata", "deletionTimestamp").empty();
}

bool Answers(const Json* node) {
  if (node == nullptr) return false;
  const Json* conditions = node->Find("status", "conditions");
  if (conditions == nullptr) return true;
  const auto& list = conditions->AsArray();
  return std::none_of(list.begin(), list.end(), [](const Json& condition) {
    return condition.GetString("type") == "Ready" && condition.GetString("status") != "True";
  });
}

}  // namespace sluice::sim
