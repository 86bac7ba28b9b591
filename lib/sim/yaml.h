// YAML files of several documents, with the line of every field, so that an error can point at it.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "api/json.h"

namespace sluice::sim {

struct YamlDocument {
  api::Json json;
  int line = 1;  // where it starts
  // Path of each field ("spec.resourceGroups[0].flavors") -> its line.
  absl::btree_map<std::string, int> lines;

  // The line of the longest field path that the text names, else the first line.
  int LineFor(const std::string& message) const;
};

// The documents that are not empty. An error says the line.
absl::StatusOr<std::vector<YamlDocument>> YamlDocuments(const std::string& text);

}  // namespace sluice::sim
