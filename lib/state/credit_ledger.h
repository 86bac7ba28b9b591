// CreditLedger: the accounts of all governed ClusterQueues and Cohorts, kept current.
//
// The World feeds it policies, accounts, the quota tree, and every reservation with its begin and
// end. What an account has is a function of its checkpoint (the status of the CreditAccount), of
// those times and of the entitlement; see quota/credit_timeline.h. A change of quotas or of a
// policy counts from the second in which it is seen; as objects do not say when they changed, one
// that no controller wrote down counts from the start of the next. It keeps the CreditStanding for
// decisions.
//
// A state that passes takes no bank away. While the policy of an account is there but does not
// govern its target (the tree has a circle, the target is made anew, a name is mistyped), the
// account stands still: it neither earns nor spends nor decays, and goes on from there when it is
// governed again.
//
// A stopped queue earns nothing, and neither does what it leaves unused for the cohorts above it:
// so the rates of the members of a cohort add up to that of the cohort.
//
// Single thread, no clock. Rebuild costs O(governed nodes); a reservation one settle for each
// account above its ClusterQueue.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/credit_types.h"
#include "quota/credit_standing.h"
#include "quota/credit_timeline.h"
#include "quota/tree.h"
#include "state/credit_history.h"
#include "state/store.h"

namespace sluice::state {

// "cq-<name>" or "co-<name>"; a name that would be too long ends in a hash.
std::string CreditAccountName(bool is_cohort, const std::string& name);

// Reasons of the condition Active of an account: it earns nothing for now; it stands still.
inline constexpr char kPaused[] = "Paused";
inline constexpr char kNotGoverned[] = "NotGoverned";

// What a policy governs, for its status.
struct CreditPolicyView {
  bool cohort_found = false;
  int64_t cluster_queues = 0;
  int64_t cohorts = 0;
  // Names of older policies, and how many nodes each of them governs instead.
  absl::btree_map<std::string, int64_t> conflicts;
  bool operator==(const CreditPolicyView&) const = default;
};

// Of a governed node.
struct GovernedNode {
  bool is_cohort = false;
  std::string name;
  std::string policy;
  std::string policy_uid;
  std::shared_ptr<const api::CreditPolicySpec> spec;
  std::shared_ptr<const quota::CreditWeights> weights;
  std::shared_ptr<const quota::CreditStanding::Policy> terms;
  quota::CreditAccount::Micros entitlement = 0;
  bool earns = true;
  std::string account_uid;                          // of the object that `timeline` follows
  std::optional<quota::CreditTimeline> timeline{};  // none before there is an object
  bool bursting = false;
  // Since when what a replay needs to know, beside reservations, is as it is now.
  absl::Time terms_since = absl::InfinitePast();
  absl::Time released = absl::InfinitePast();  // the last end of a reservation in it
};

// An account that its policy does not govern for now.
struct KeptAccount {
  std::string policy;
  std::string account_uid;
  // Whom the policy governs cannot be told: there is no sound chain of parents.
  bool unknown = false;
  // A Cohort that is entitled to nothing and has no ClusterQueue: governed, it would lose its bank.
  bool empty = false;
  // As it stood when it was governed last, where no status says so yet.
  std::optional<quota::CreditAccount> settled{};
};

class CreditLedger {
 public:
  using Picos = quota::CreditTimeline::Picos;

  // What the World knows of a ClusterQueue.
  struct QueueFacts {
    bool exists = false;
    bool earns = false;                           // active and not stopped
    const FlavorResourceAmounts* held = nullptr;  // by all that hold quota
  };
  struct Sources {
    const quota::Tree* tree = nullptr;
    const Store<api::CreditPolicy>* policies = nullptr;
    const Store<api::CreditAccount>* accounts = nullptr;
    // All cells that the quotas of the governed nodes name.
    std::function<std::vector<FlavorResource>(bool is_cohort, const std::string& name)> cells;
    std::function<QueueFacts(const std::string& cluster_queue)> queue;
    // Reservations of Workloads in the ClusterQueue, also those that are over; `to` is not set
    // while they last.
    std::function<std::vector<Reservation>(const std::string& cluster_queue)> history;
  };

  explicit CreditLedger(Sources sources) : sources_(std::move(sources)) {}

  // There is a policy. Without one nothing here costs anything.
  bool active() const { return !nodes_.empty() || sources_.policies->size() > 0; }
  void SetNow(absl::Time now) { now_ = quota::FloorSecond(now); }

  // Quotas, activity, policies or accounts changed: Rebuild is due.
  void MarkStale() { stale_ = true; }
  // Stale if what the policy says has changed, or if it came, is going or went.
  void PolicyChanged(const api::CreditPolicy* before, const api::CreditPolicy* after);
  bool stale() const { return stale_; }
  // Follows the sources.
  struct LookAgain {
    absl::btree_set<std::string> accounts;
    absl::btree_set<std::string> policies;
    absl::btree_set<std::string> limits;  // of ClusterQueues: another burst limit, or none any more
  };
  LookAgain Rebuild(absl::Time now);
  // Begins anew with what the objects say.
  void Restart();
  // The object came, changed or went.
  void AccountChanged(const std::string& name, const api::CreditAccount* before,
                      const api::CreditAccount* after);

  // More (or less) is held in the ClusterQueue from that instant on.
  void Hold(const std::string& cluster_queue, const FlavorResourceAmounts& amounts, int sign,
            absl::Time at);
  bool Governs(const std::string& cluster_queue) const { return chains_.contains(cluster_queue); }
  // Every account of which a reservation in the ClusterQueue is part is settled up to here.
  absl::Time OldestCheckpoint(const std::string& cluster_queue) const;
  // There is an account that such a reservation in the ClusterQueue is charged to.
  bool Charges(const std::string& cluster_queue, const FlavorResourceAmounts& amounts) const;
  bool Charges(const std::string& cluster_queue, const Requests& amounts) const;
  // The annotations of a reservation that begins now; `waiting` is the Workload as it was until
  // then.
  api::StringMap AnnotationsFor(const api::Workload& waiting, const std::string& cluster_queue,
                                const FlavorResourceAmounts& amounts, absl::Time now) const;

  // nullptr when no such account is due.
  const GovernedNode* Find(const std::string& account) const;
  const absl::btree_map<std::string, GovernedNode>& nodes() const { return nodes_; }
  // nullptr when the account is governed, or has no policy any more.
  const KeptAccount* FindKept(const std::string& account) const;
  const CreditPolicyView* FindPolicy(const std::string& policy) const;
  // Accounts whose rates changed since the last call.
  absl::btree_set<std::string> TakeChanged() { return std::exchange(changed_, {}); }
  bool HasChanged() const { return !changed_.empty(); }

  // ClusterQueues whose bank became empty or filled since the last call; sets `due` to when the
  // next one will.
  std::vector<std::string> UpdateBursts(absl::Time now, absl::Time& due);
  // The limit that takes the place of a smaller borrowing limit now.
  std::optional<int64_t> BurstLimit(const std::string& cluster_queue,
                                    const FlavorResource& cell) const;
  // ClusterQueues that use more than their entitlement and pay for it.
  std::vector<std::string> Spending(absl::Time now) const;

  quota::CreditStanding& standing() { return standing_; }
  const quota::CreditStanding& standing() const { return standing_; }

 private:
  struct Governing {
    std::string name;
    std::string uid;
    std::shared_ptr<const api::CreditPolicySpec> spec;
    std::shared_ptr<quota::CreditWeights> weights;
    std::shared_ptr<const quota::CreditStanding::Policy> terms;
  };
  using Claims = absl::btree_map<const quota::Node*, const Governing*>;

  std::vector<Governing> SortedPolicies() const;
  void Claim(const quota::Node& node, const Governing& policy, Claims& claims);
  void Renew(const quota::Node& node, const Governing& policy, GovernedNode& entry);
  void Follow(const quota::Node& node, const Governing& policy,
              absl::btree_map<std::string, GovernedNode>& old, LookAgain& again);
  void Begin(const std::string& account, const quota::Node& node, GovernedNode& entry);
  void Sync(const quota::Node& node, GovernedNode& entry, const std::string& account);
  void Keep(const absl::btree_map<std::string, GovernedNode>& old, LookAgain& again);
  // That an account of that name belongs to; nullptr: it is not there.
  const quota::Node* NodeOf(const std::string& account) const;
  bool LosesBank(const quota::Node& node, const Governing& policy,
                 const absl::btree_map<std::string, GovernedNode>& old) const;
  bool HasQueueBelow(const quota::Node& node) const;
  // What the account had, if it stood still until now.
  std::optional<quota::CreditTimeline::Checkpoint> StoodStill(
      const std::string& account, const api::CreditAccount& object) const;
  struct Replay;
  void ReplayQueue(const std::string& cluster_queue, const GovernedNode& entry,
                   Replay& replay) const;
  Picos StoppedEntitlement(const std::string& cluster_queue, const GovernedNode& entry) const;
  Picos HeldBelow(const quota::Node& node, const quota::CreditWeights& weights) const;
  Picos WithheldBelow(const quota::Node& node, const quota::CreditWeights& weights) const;
  void QueuesBelow(const quota::Node& node, std::vector<std::string>& names) const;

  Sources sources_;
  absl::Time now_ = absl::InfinitePast();
  bool stale_ = true;
  absl::btree_map<std::string, GovernedNode> nodes_;  // by name of the account
  absl::btree_map<std::string, KeptAccount> kept_;    // the same
  absl::btree_map<std::string, CreditPolicyView> policies_;
  absl::btree_map<std::string, std::vector<std::string>> chains_;  // by ClusterQueue
  std::vector<std::string> with_bursts_;
  absl::btree_set<std::string> changed_;
  quota::CreditStanding standing_;
};

quota::CreditRules RulesOf(const api::CreditPolicySpec& spec);
// What a replay needs to know of the policy, as it is written down with a balance.
api::CreditAccountRules ShownRules(const api::CreditPolicySpec& spec);

}  // namespace sluice::state
