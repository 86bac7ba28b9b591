// Whether pods may go to a node: taints, node selector, required and preferred node affinity.
//
// Contract: pure. Labels of a node are kept compactly (NodeLabels), because there are thousands of
// nodes with the same twenty keys; the keys are numbers of a KeyTable, which only grows by keys
// that nodes carry. Source: Kubernetes documentation, "Assigning Pods to Nodes" and "Taints and
// Tolerations".
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "topology/types.h"

namespace sluice::topology {

class KeyTable {
 public:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  uint32_t Intern(const std::string& key);
  uint32_t Find(const std::string& key) const;  // kUnknown when no node ever had it

 private:
  absl::btree_map<std::string, uint32_t> ids_;
};

class NodeLabels {
 public:
  NodeLabels() = default;
  NodeLabels(const Labels& labels, KeyTable& keys);
  std::optional<std::string_view> Get(uint32_t key) const;
  bool operator==(const NodeLabels&) const = default;
  size_t MemoryBytes() const;

 private:
  std::vector<std::pair<uint32_t, uint32_t>> index_;  // key, end of its value; sorted by key
  std::string values_;
};

bool Tolerates(const Toleration& toleration, const Taint& taint);
// "key=value:Effect", or "key:Effect" without a value.
std::string TaintText(const Taint& taint);

// What is wrong with a filter, or nothing; placement refuses such a pod set.
std::optional<std::string> FindInvalid(const NodeFilter& filter);

// A filter made ready to be asked about many nodes.
class NodeMatcher {
 public:
  NodeMatcher(const NodeFilter& filter, const std::vector<Toleration>& more_tolerations,
              const KeyTable& keys);
  NodeMatcher(const NodeMatcher&) = delete;  // what is inside points to each other
  NodeMatcher& operator=(const NodeMatcher&) = delete;

  // The first taint with effect NoSchedule or NoExecute that nothing tolerates.
  const Taint* FirstUntolerated(const std::vector<Taint>& taints) const;
  bool SelectorMatches(const NodeLabels& labels) const;
  bool AffinityMatches(const NodeLabels& labels, const NodeName& name) const;
  // The sum of the weights of the preferred terms that match.
  int64_t Score(const NodeLabels& labels, const NodeName& name) const;

 private:
  struct Check {
    uint32_t key = KeyTable::kUnknown;
    const Requirement* requirement = nullptr;
  };
  struct Term {
    std::vector<Check> labels;
    const SelectorTerm* source = nullptr;
  };
  static Term Prepare(const SelectorTerm& term, const KeyTable& keys);
  static bool Matches(const Term& term, const NodeLabels& labels, const NodeName& name);

  NodeFilter filter_;
  std::vector<Toleration> tolerations_;
  std::vector<std::pair<uint32_t, std::string>> selector_;
  std::vector<Term> required_;
  std::vector<std::pair<int64_t, Term>> preferred_;
};

}  // namespace sluice::topology
