// SearchRun: a Cluster as the code under test sees it.
#pragma once

#include <string>
#include <vector>

#include "preemption/diagnosis.h"
#include "preemption/preemption.h"
#include "unit/preemption/cluster.h"

namespace sluice::preemption {

class SearchRun {
 public:
  // `contested` as Oracle::contested() gives them.
  SearchRun(const Cluster& cluster, const std::vector<size_t>& contested);

  // Names of workloads that the preemptor spares.
  void SetEvictors(const Evictors& evictors);
  std::vector<Victim> Find();
  // Of the first contested cell alone.
  Diagnosis DiagnoseFirst() const;
  // The search promises that the preemptor fits without them.
  bool FitsWithoutAll(const std::vector<Victim>& victims) const;
  const quota::Tree& tree() const { return tree_; }
  const quota::Node& NodeOf(int node) const { return *nodes_.at(static_cast<size_t>(node)); }
  quota::CellId Id(size_t cell) const { return ids_.at(cell); }

 private:
  void BuildTree();
  void BuildWorkloads();
  void BuildCredits();

  const Cluster& cluster_;
  quota::Tree tree_;
  std::vector<quota::Node*> nodes_;
  std::vector<quota::CellId> ids_;
  ReservedWorkloads reserved_;
  quota::CreditStanding credits_;
  std::vector<const ReservedWorkload*> workloads_;
  Context context_;
  Preemptor preemptor_;
};

// Searches and compares with the oracle; says what differs or breaks a promise, "" when nothing
// does. `found` gets what the search found.
std::string CheckSearch(const Cluster& cluster, std::vector<Victim>* found = nullptr,
                        bool thorough = true);

// What is found, as text; the test fails when CheckSearch has something to say.
std::string Targets(const Cluster& cluster);

}  // namespace sluice::preemption
