// The options of kubectl-sluice simulate: how they are declared, and which of them go together.
//
// An option that would change nothing is refused, by its name and that of what it is not for.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cli/simulate.h"

namespace sluice::cli {

std::string Extension(const std::string& path);
bool IsScenario(const std::string& path);
// Of a trace: csv, jsonl or swf; "" when the name does not tell.
std::string FormatOf(const std::string& path);

struct Inputs {
  std::vector<std::string> manifests;
  std::vector<std::string> traces;
};
// What a directory has, or a file is; with the traces that the options name.
absl::StatusOr<Inputs> FindInputs(const std::string& path, const SimulateOptions& options);

bool Compares(const SimulateOptions& options);
// Whether the options fit the inputs, of which so many are no scenarios.
absl::Status CheckInputs(const SimulateOptions& options, std::ptrdiff_t clusters);
// Whether the options about traces fit those that are there.
absl::Status CheckTraces(const SimulateOptions& options);

}  // namespace sluice::cli
