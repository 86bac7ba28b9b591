// FeatureGates: the named switches of the controller, with the names, stages and defaults that
// users of Kueue know (kueue.sigs.k8s.io/docs/installation, "Change the feature gates
// configuration").
//
// One table (feature_gates.cc) lists every known gate and what this program does with it. A value
// is made once at start from text and never changes, so it is safe from any thread.
//
//   ASSIGN_OR_RETURN(FeatureGates gates, FeatureGates::Make({{"ReclaimablePods", false}}));
//   if (gates.Enabled("ReclaimablePods")) ...
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::state {

// The number of rows of the table.
inline constexpr std::size_t kFeatureGateCount = 81;

struct GateInfo {
  enum class Stage { kAlpha, kBeta, kGa, kDeprecated };
  enum class Support {
    kSwitch,    // the feature is there and the gate switches it
    kAlways,    // the feature is there and cannot be switched off
    kNoEffect,  // concerns only how another implementation works inside; both values are fine
    kNotYet,    // the feature is not there yet: switching it on by hand is refused
  };
  std::string_view name;
  Stage stage;
  bool default_value;
  Support support;
  std::string_view depends_on;  // names with commas between them, "" for none

  // A gate that left beta can be named only with its default.
  bool locked() const { return stage == Stage::kGa; }
};

class FeatureGates {
 public:
  // All defaults.
  FeatureGates();

  // Defaults, then AllAlpha and AllBeta, then the named gates. The error lists every unknown gate,
  // every locked gate set to the other value and every enabled gate with a disabled dependency.
  static absl::StatusOr<FeatureGates> Make(const absl::btree_map<std::string, bool>& values);

  // The value of a known gate; an unknown name is an error of the program and stops it.
  bool Enabled(std::string_view name) const;

  // One sentence for each value that the user set and this program cannot honour; empty when all is
  // well. Defaults are never complained about.
  std::vector<std::string> Unsupported(const absl::btree_map<std::string, bool>& values) const;

  // "Name=true" for every gate, by name.
  std::vector<std::string> Describe() const;

  bool operator==(const FeatureGates&) const = default;

 private:
  std::array<bool, kFeatureGateCount> enabled_;
};

// Every known gate, by name.
std::span<const GateInfo> AllFeatureGates();
// nullptr when there is none of that name.
const GateInfo* FindFeatureGate(std::string_view name);

}  // namespace sluice::state
