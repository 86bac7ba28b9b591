// Names of the Workloads that belong to jobs.
//
// The name is "<kind in lower case>-<owner name>-<hash>", cut so that it stays a valid object name.
// The hash is taken over kind, group, owner name and UID, so that two jobs of one name that live
// one after the other have different Workloads. Other programs compute the same names (Kueue
// documentation, "Workload"), so the form is part of the API.
#pragma once

#include <string>

namespace sluice::jobs {

struct WorkloadOwner {
  std::string kind;
  std::string group;  // "" for the core group
  std::string name;
  std::string uid;
  std::string extra;  // "" for ordinary jobs
};

// max_length: 253, or 63 with short names.
std::string WorkloadName(const WorkloadOwner& owner, size_t max_length = 253);

// The name of the variant of a Workload for one flavor, where a Workload tries several at once.
std::string VariantName(const std::string& parent, const std::string& parent_uid,
                        const std::string& flavor, size_t max_length = 253);

// The first digits of the SHA-1 of a text, in hexadecimal; at most 40.
std::string ShortHash(const std::string& text, size_t digits);

}  // namespace sluice::jobs
