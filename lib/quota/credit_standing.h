// CreditStanding: what credits say about the nodes of a quota tree at one instant.
//
// A governed node (ClusterQueue or Cohort) has an entitlement e, the weighted sum of its nominal
// quota, and a standing entitlement v, which is e and what its bank allows beyond that. Usage is
// the weighted sum of what the subtree of the node has booked in the tree, as it is at the moment
// of the question; so a what-if in the tree counts.
//
// Contract: thread-compatible; nodes must not go while they are set. Of() is one lookup; usage of a
// ClusterQueue costs its weighted cells, of a Cohort those of its subtree. Without any policy it is
// empty, and nobody asks.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "quota/credit_timeline.h"
#include "quota/tree.h"

namespace sluice::quota {

// How much one unit of the amounts of quota counts, by resource and by cell; in 10^-12.
class CreditWeights {
 public:
  using Picos = CreditTimeline::Picos;

  // A weight is per whole unit (per core), in 10^-9. Those that are not above zero are left out.
  explicit CreditWeights(const absl::btree_map<ResourceName, Quantity>& weights);

  Picos Of(const ResourceName& resource) const;
  // A cell of the tree in which somebody may hold quota.
  void AddCell(const Tree& tree, const FlavorResource& cell);

  Picos WeighOne(const ResourceName& resource, int64_t amount) const;
  Picos Weigh(const FlavorResourceAmounts& amounts) const;
  Picos Weigh(const CellAmounts& amounts) const;
  Picos Weigh(const Requests& amounts) const;
  Picos UsageOf(const Node& node) const;    // with its subtree
  Picos NominalOf(const Node& node) const;  // the same
  bool operator==(const CreditWeights& other) const { return by_resource_ == other.by_resource_; }

 private:
  Picos Cells(const Node& node, bool usage) const;

  absl::btree_map<ResourceName, Picos> by_resource_;
  absl::btree_map<CellId, Picos> by_cell_;
};

// What a policy says for all nodes that it governs.
struct CreditPolicyTerms {
  std::string name;
  std::shared_ptr<const CreditWeights> weights;
  bool protects = false;
  absl::Duration max_lender_delay;
};
// Of a node, at the instant.
struct CreditTerms {
  const CreditPolicyTerms* policy = nullptr;
  CreditTimeline::Picos entitlement = 0;
  CreditTimeline::Picos standing = 0;
};

class CreditStanding {
 public:
  using Picos = CreditTimeline::Picos;
  using Micros = CreditAccount::Micros;

  using Policy = CreditPolicyTerms;
  using Terms = CreditTerms;
  // Use above v and e, to be compared as a fraction.
  struct Overage {
    Picos above = 0;
    Picos entitlement = 0;
    // The larger one is further above.
    friend std::strong_ordering operator<=>(const Overage& a, const Overage& b);
    friend bool operator==(const Overage& a, const Overage& b) { return (a <=> b) == 0; }
  };

  // `account` is null where there is no account yet: nothing is banked.
  void Set(const Node& node, std::shared_ptr<const Policy> policy, Micros entitlement,
           const CreditTimeline* account);
  void Clear() { nodes_.clear(); }
  bool empty() const { return nodes_.empty(); }
  // The instant for which it answers.
  void SetNow(absl::Time now);
  absl::Time now() const { return now_; }

  // nullptr when the node is not governed.
  const Terms* Of(const Node& node) const;
  // The policy that governs a ClusterQueue, by name; nullptr: there is none, or no such queue.
  const Policy* PolicyOf(const Tree& tree, const std::string& cluster_queue) const;
  Picos UsageOf(const Node& node, const Terms& terms) const {
    return terms.policy->weights->UsageOf(node);
  }
  // The node uses, with `more`, no more than v. Of a governed node.
  bool Within(const Node& node, const Terms& terms, const CellAmounts& more = {}) const;
  // Zero for a node that is not governed.
  Overage OverageOf(const Node& node) const;
  // The share of the node in its tree; of the weighted resources only what is used above v counts
  // as borrowed. As in the tree for a node that is not governed.
  Share ShareOf(const Tree& tree, const Node& node) const;
  // No lender may reclaim from the node now.
  bool Protected(const Node& node) const;

  // When a lender's claim on what the credits of others protect comes true, by UID of its workload.
  void SetLender(const std::string& uid, absl::Time until) { lenders_[uid] = until; }
  void ForgetLender(const std::string& uid) { lenders_.erase(uid); }
  std::optional<absl::Time> LenderUntil(const std::string& uid) const;

 private:
  struct Entry {
    Entry() {}  // not implicit: g++ wants the initializers above the end of the outer class
    std::shared_ptr<const Policy> policy;
    Micros entitlement = 0;
    const CreditTimeline* account = nullptr;
    mutable uint64_t computed = 0;  // in which epoch
    mutable Terms terms;
  };
  absl::btree_map<const Node*, Entry> nodes_;  // only looked up, never iterated
  absl::btree_map<std::string, absl::Time> lenders_;
  absl::Time now_ = absl::InfinitePast();
  uint64_t epoch_ = 1;
};

}  // namespace sluice::quota
