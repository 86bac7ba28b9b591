// Oracle: what preemption should find, from the definitions.
//
// Nothing is stored between two questions but which workloads are taken: after every change all
// usage is counted again, every list is made again, and every set is judged from the start. It
// shares no code with lib/, only the plain data of cluster.h. Slow on purpose, and meant for small
// numbers: shares are compared by cross-multiplication in 64 bits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "unit/preemption/cluster.h"

namespace sluice::preemption {

class Oracle {
 public:
  // borrowed / (lendable * weight); with weight 0 that borrows, more than any other.
  struct Share {
    int64_t borrowed = 0;
    int64_t lendable = 1;
    int64_t weight_milli = 1000;
    bool Infinite() const { return borrowed > 0 && weight_milli == 0; }
  };
  static bool Less(const Share& a, const Share& b);

  explicit Oracle(const Cluster& cluster);

  // Per node and cell.
  int64_t Quota(int node, size_t cell) const { return quota_[At(node)][cell]; }
  int64_t Guaranteed(int node, size_t cell) const { return guaranteed_[At(node)][cell]; }
  int64_t Potential(int node, size_t cell) const { return potential_[At(node)][cell]; }
  int64_t Usage(int node, size_t cell) const { return usage_[At(node)][cell]; }
  int64_t Available(int node, size_t cell) const;
  Share ShareOf(int node) const;
  struct Level {
    int level = 0;
    bool may_reclaim = false;
  };
  Level LevelFor(int queue, size_t cell, int64_t request) const;

  // The cells that need preemption: as given, or those that lack room.
  const std::vector<size_t>& contested() const { return contested_; }
  std::vector<Victim> Find();
  // What is wrong with a result; empty when nothing is.
  std::string Judge(const std::vector<Victim>& victims);
  bool FitsNow();

 private:
  using Row = std::array<int64_t, kMostCells>;
  struct Taken {
    Victim victim;
    std::optional<Strategy> test;  // the share test that allowed it
  };
  struct Candidate {
    int workload = 0;
    int list = 0;  // classical: 0 hierarchical, 1 by priority, 2 own
  };

  static size_t At(int index) { return static_cast<size_t>(index); }
  const NodeSpec& Node(int node) const { return cluster_.nodes[At(node)]; }
  const WorkloadSpec& Work(int workload) const { return cluster_.running[At(workload)]; }
  int Me() const { return cluster_.preemptor.queue; }
  bool IsAncestor(int cohort, int node) const;
  int Height(int node) const;
  int64_t LocalAvailable(int node, size_t cell) const;
  void CountQuota();
  void Count();
  void Remove(int workload);
  void PutBack(int workload);

  bool Fits(bool borrowing);
  bool WithinQuota(int node) const;
  bool Borrowing(int node) const;
  bool Qualifies(int workload) const;
  bool Before(int a, int b, bool by_usage) const;
  // oracle_checkpoint.cc
  int64_t CostOf(int workload) const;
  bool Protected(const WorkloadSpec& work) const;
  bool Often(const WorkloadSpec& work) const;
  bool AnyCost() const;
  std::vector<int> ReturnOrder(const std::vector<Taken>& taken) const;
  std::vector<int> CandidatesOf(int queue) const;
  std::vector<Taken> Minimal(std::vector<Taken> taken, bool borrowing);
  bool TestsHold(const std::vector<Taken>& taken);
  static std::vector<Victim> Victims(const std::vector<Taken>& taken);

  std::vector<Victim> FindClassical();
  std::vector<Candidate> ClassicalCandidates() const;
  std::vector<Candidate> Ordered(std::vector<Candidate> all) const;
  bool MayTakeWhileBorrowing(int workload) const;
  bool StillOver(int queue) const;
  bool UsesBorrowed(int workload) const;
  Reason ClassicalReason(const Candidate& candidate) const;

  std::vector<Victim> FindFair();
  std::vector<Taken> FairSet();
  bool Lasts(const std::vector<Taken>& taken);
  bool BelowQuota(int queue, bool without_room) const;
  int Choose(int cohort, const std::vector<std::vector<int>>& candidates) const;
  int ChooseFromRoot(const std::vector<std::vector<int>>& candidates) const;
  void Sides(int queue, int& mine, int& theirs) const;
  bool Passes(int workload, Strategy strategy);

  const Cluster& cluster_;
  std::vector<size_t> contested_;
  std::vector<Row> quota_, guaranteed_, potential_, usage_;
  std::vector<bool> taken_;
  bool booked_ = false;
  bool careful_ = false;
  bool borrows_ = false;      // the preemptor, as things are at the start
  bool by_cost_ = false;      // a candidate tells of its checkpoints
  bool spare_often_ = false;  // those that were preempted often are no candidates
};

}  // namespace sluice::preemption
