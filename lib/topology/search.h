// Search: finds the leaves for one pod set, or for workers with their leader, in one tree.
//
// Three steps. Counting, from the leaves up: how many pods and slices each domain could take, with
// and without the leader in it. Choosing: the lowest level at which one domain takes everything,
// and the tightest such domain; or several domains where the request allows it. Distributing, from
// the chosen domains down to the leaves. Between domains that are equally good the first in tree
// order wins, so equal questions have equal answers.
//
// Contract: internal to the room. What was counted stays with the tree (counts.h): a search costs
// O(leaves that changed * depth) plus the domains that it looks at, and O(leaves) the first time
// that a shape is asked about. Positions are those of the tree's layout and hold until the tree
// changes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "topology/counts.h"
#include "topology/failure.h"
#include "topology/tree.h"
#include "topology/types.h"

namespace sluice::topology {

// Usage of pod sets placed earlier in the same computation.
using Assumed = std::vector<LeafUsage>;

struct SearchRequest {
  const Tree* tree = nullptr;
  Needs worker;
  std::optional<Needs> leader;
  const NodeFilter* filter = nullptr;
  int64_t count = 0;
  size_t level = 0;
  bool required = false;
  bool unconstrained = false;
  size_t slice_level = 0;
  int64_t slice_size = 1;
  std::vector<std::pair<size_t, int64_t>> layers;  // level, size; outermost first
  std::vector<int64_t> inner;                      // by level: size of the inner layer, or 0
  bool simulate_empty = false;
  bool even = false;                                   // Spreading::kSpread
  std::optional<std::pair<size_t, int32_t>> confined;  // level, position
  int32_t banned_leaf = -1;                            // slot
  int64_t now = 0;
  std::optional<int64_t> bound;
  bool brief = false;  // a failure for want of room says only that
};

struct Found {
  std::vector<std::pair<int32_t, int64_t>> workers;  // leaf position, pods; by position
  int32_t leader = -1;                               // leaf position
};

class Searcher {
 public:
  explicit Searcher(const Options& options) : options_(options) {}
  std::variant<Found, Failure> Run(const SearchRequest& request, const Assumed& assumed);
  // For how many slices there is room at most, where the request has them: Run finds no places for
  // more than that. Not for one that is confined, or by a Searcher that looks at maintenance.
  int64_t Room(const SearchRequest& request);
  // Stops the process when counts that are kept with the tree differ from new ones.
  static void CheckKept(const Tree& tree, const Options& options);

 private:
  using State = DomainState;
  // What a domain gets.
  struct Given {
    int32_t domain = 0;
    int64_t pods = 0;
    bool leader = false;
  };
  using List = std::vector<int32_t>;
  struct Range {
    int32_t first = 0;
    int32_t last = 0;
  };
  // How an amount is handed out over a list.
  struct Hand {
    int64_t unit = 1;        // pods in one of what is handed out
    bool by_slices = false;  // else single pods
    bool recount = false;    // slices are pods / unit, whatever the level says
  };
  struct Choice {
    size_t level = 0;
    List domains;
  };

  // counting
  void Count();
  bool CanKeep() const;
  void CountWithin();
  void CountAll(Counts& counts);
  void BringUp(Counts& counts);
  void CountLeaf(int32_t position, const LeafUsage* assumed);
  void Recount(int32_t slot, const LeafUsage* assumed);
  void Propagate(int32_t position, State before);
  int64_t Fit(const Needs& needs, int32_t slot, const LeafUsage* assumed, const Needs* taken) const;
  int64_t Free(uint32_t resource, int32_t slot, const LeafUsage* assumed) const;
  bool InMaintenance(int32_t slot) const;
  void CountParents();
  void CountParent(size_t level, int32_t position);

  // orders
  bool PlainLess(size_t level, int32_t a, int32_t b) const;
  bool LeaderLess(size_t level, int32_t a, int32_t b) const;
  void SortPlain(size_t level, List& list) const;
  void SortLeader(size_t level, List& list) const;

  // choosing
  std::variant<Found, Failure> Find();
  std::variant<Choice, Failure> Choose() const;
  std::variant<Choice, Failure> ChooseAll() const;
  int32_t FirstByLeader(size_t level, bool fitting) const;
  int32_t Tightest(size_t level, int32_t top) const;
  std::optional<Failure> SpreadOver(size_t level, Choice& choice) const;
  bool TakeSmallest(size_t level, List& chosen) const;
  size_t TightestInRest(size_t level, std::span<const int32_t> rest, int64_t amount, int leaders,
                        const Hand& hand) const;
  void LeaderFirst(size_t level, List& list, int64_t amount, int leaders, const Hand& hand) const;
  int64_t Capacity(size_t level, int32_t domain, bool with_leader, const Hand& hand) const;

  // distributing
  // Both may change the order of the list.
  void Distribute(size_t level, List& list, int64_t amount, int leaders, const Hand& hand,
                  std::vector<Given>& out) const;
  void DistributeEvenly(size_t level, List& list, int64_t amount, int leaders, const Hand& hand,
                        std::vector<Given>& out) const;
  std::vector<Given> StepDown(size_t level, const std::vector<Given>& current,
                              bool parents_bind) const;
  void DistributePlain(size_t level, List& list, int64_t amount, const Hand& hand,
                       std::vector<Given>& out) const;
  Range ChildrenOf(size_t level, int32_t domain) const;
  void AddChildren(size_t level, int32_t domain, List& list) const;
  std::variant<Found, Failure> Descend(size_t level, std::vector<Given> current,
                                       bool parents_bind) const;

  // balanced placement
  struct Greedy {
    bool fits = false;
    size_t domains = 0;
    int32_t last_leader = -1;
    int32_t last_worker = -1;
  };
  struct Balanced {
    size_t level = 0;
    std::vector<Given> given;
  };
  // Leaves the numbers pruned; Unprune puts them back.
  std::optional<Balanced> Balance();
  std::optional<Balanced> BalanceIn(const List& set, int64_t threshold);
  Greedy TestGreedily(size_t level, List list) const;
  struct Pruned {
    int64_t threshold = 0;
    size_t domains = 0;
  };
  struct Undo {
    size_t level;
    int32_t domain;
    State state;
  };
  std::optional<Pruned> TryThreshold(const List& set, int64_t best);
  Greedy Prune(const List& set, int64_t threshold);
  void Unprune();
  State& Touch(size_t level, int32_t domain);
  void ClearBelow(size_t level, int32_t domain);
  std::optional<List> OptimalSubset(size_t level, const List& list, size_t size) const;
  double EntropyOf(size_t level, int32_t domain) const;
  void SortByEntropy(size_t level, List& list) const;
  size_t LowLevel() const;
  List LowList(const List& set) const;

  // failing
  Failure NoRoom(size_t level, int64_t fit) const;
  Exclusions Excluded(size_t level, int32_t domain) const;
  static constexpr int32_t kOutOfDomain = -1;
  static constexpr int32_t kMaintenance = -2;
  static constexpr int32_t kFirstNeed = -3;  // and below: which of the worker's needs
  int32_t ReasonOf(int32_t position) const;
  std::string ReasonText(int32_t reason) const;
  Failure Incomplete(int64_t placed) const;

  int leaders() const { return request_->leader.has_value() ? 1 : 0; }
  int64_t needed() const { return request_->count / request_->slice_size; }
  bool best_fit() const { return !(request_->unconstrained && options_.mixed_profile); }
  size_t bottom() const { return request_->tree->depth() - 1; }
  const State& At(size_t level, int32_t domain) const {
    return (*states_)[level][static_cast<size_t>(domain)];
  }
  State& StateOf(size_t level, int32_t domain) {
    return (*states_)[level][static_cast<size_t>(domain)];
  }
  // How many domains the level has.
  int32_t Domains(size_t level) const { return static_cast<int32_t>((*states_)[level].size()); }

  const Options options_;
  const SearchRequest* request_ = nullptr;
  const Assumed* assumed_ = nullptr;
  const Tree::Mask* mask_ = nullptr;
  DomainStates* states_ = nullptr;  // those kept with the tree, or `own_`
  DomainStates own_;
  std::vector<Undo> undo_;
};

}  // namespace sluice::topology
