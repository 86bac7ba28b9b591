// Which Workload the words on a command line mean.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "cli/live.h"

namespace sluice::cli {

// "NAME", "workload NAME", "job NAME", "job/NAME", "pod NAME", "podgroup NAME", in the namespace of
// the scene. NotFound and InvalidArgument name it.
absl::StatusOr<ObjectKey> FindWorkload(const Scene& scene, const std::vector<std::string>& what);

// Of a group of plain pods that has no Workload because not all of its pods are there yet: a
// sentence with the counts. "" for everything else, and where there is no cluster to ask.
std::string IncompleteGroup(Scene& scene, const std::vector<std::string>& what);

}  // namespace sluice::cli
