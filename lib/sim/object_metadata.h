// Finalizers and deletion of objects in JSON. Pure.
#pragma once

#include <string>
#include <vector>

#include "api/json.h"

namespace sluice::sim {

inline constexpr char kForeground[] = "foregroundDeletion";

std::vector<std::string> Finalizers(const api::Json& object);
// An empty list takes the member away.
void SetFinalizers(api::Json& object, const std::vector<std::string>& list);
bool Deleting(const api::Json& object);

}  // namespace sluice::sim
