// Finalizers and deletion of objects in JSON, and what a node says of itself. Pure.
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
// The node (null: there is none) has a kubelet that works.
bool Answers(const api::Json* node);

}  // namespace sluice::sim
