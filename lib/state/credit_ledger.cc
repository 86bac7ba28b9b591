#include "state/credit_ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/names.h"
#include "state/credit_replay.h"

namespace sluice::state {
namespace {

using quota::Credits;
using quota::CreditTimeline;
using quota::Node;
using quota::Tree;

constexpr size_t kMostReservations = 16;  // in an annotation

// FNV-1a: short, and the same in every process.
uint64_t HashOf(const std::string& text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

std::string CreditAccountName(bool is_cohort, const std::string& name) {
  std::string account = (is_cohort ? "co-" : "cq-") + name;
  constexpr size_t kLongest = 253;
  if (account.size() <= kLongest) return account;
  return account.substr(0, kLongest - 17) + fmt::format("-{:016x}", HashOf(name));
}

quota::CreditRules RulesOf(const api::CreditPolicySpec& spec) {
  quota::CreditRules rules;
  rules.horizon = std::max(spec.horizon, absl::Seconds(1));
  rules.half_life = spec.half_life;
  rules.max_bank = spec.max_bank;
  rules.max_debt = spec.max_debt;
  return rules;
}

api::CreditAccountRules ShownRules(const api::CreditPolicySpec& spec) {
  api::CreditAccountRules rules{spec.resources, spec.half_life, spec.max_bank, spec.max_debt};
  if (rules.resources.empty()) rules.resources.push_back({"nvidia.com/gpu", Quantity::FromInt(1)});
  return rules;
}

// The oldest first: it governs what several of them name.
std::vector<CreditLedger::Governing> CreditLedger::SortedPolicies() const {
  std::vector<std::pair<absl::Time, Governing>> sorted;
  for (const auto& [key, policy] : sources_.policies->all()) {
    if (policy->metadata.Deleting()) continue;
    Governing governing;
    governing.name = key.name;
    governing.uid = policy->metadata.uid;
    governing.spec = std::make_shared<const api::CreditPolicySpec>(policy->spec);
    governing.weights = std::make_shared<quota::CreditWeights>(WeightsOf(ShownRules(policy->spec)));
    auto terms = std::make_shared<quota::CreditStanding::Policy>();
    terms->name = key.name;
    terms->weights = governing.weights;
    terms->protects = policy->spec.effect == "Protect";
    terms->max_lender_delay = policy->spec.max_lender_delay;
    governing.terms = std::move(terms);
    sorted.emplace_back(policy->metadata.creation_timestamp.value_or(absl::InfiniteFuture()),
                        std::move(governing));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Governing> policies;
  for (auto& [created, governing] : sorted) policies.push_back(std::move(governing));
  return policies;
}

void CreditLedger::Claim(const Node& node, const Governing& policy, Claims& claims) {
  CreditPolicyView& view = policies_[policy.name];
  const bool real = node.is_cohort() || sources_.queue(node.name()).exists;
  if (real) {
    // Also of what another policy governs: it counts for the cohorts above it.
    for (const FlavorResource& cell : sources_.cells(node.is_cohort(), node.name())) {
      policy.weights->AddCell(*sources_.tree, cell);
    }
    const auto [claim, added] = claims.emplace(&node, &policy);
    if (added) {
      ++(node.is_cohort() ? view.cohorts : view.cluster_queues);
    } else {
      ++view.conflicts[claim->second->name];
    }
  }
  for (const Node* child : node.cohorts()) Claim(*child, policy, claims);
  for (const Node* child : node.queues()) Claim(*child, policy, claims);
}

void CreditLedger::QueuesBelow(const Node& node, std::vector<std::string>& names) const {
  if (!node.is_cohort()) names.push_back(node.name());
  for (const Node* child : node.cohorts()) QueuesBelow(*child, names);
  for (const Node* child : node.queues()) names.push_back(child->name());
}

CreditLedger::Picos CreditLedger::HeldBelow(const Node& node,
                                            const quota::CreditWeights& weights) const {
  std::vector<std::string> queues;
  QueuesBelow(node, queues);
  Picos held = 0;
  for (const std::string& name : queues) {
    const QueueFacts facts = sources_.queue(name);
    if (facts.held != nullptr) held += weights.Weigh(*facts.held);
  }
  return held;
}

// What the stopped queues of a cohort leave unused.
CreditLedger::Picos CreditLedger::WithheldBelow(const Node& node,
                                                const quota::CreditWeights& weights) const {
  if (!node.is_cohort()) return 0;  // whether it earns says all
  std::vector<std::string> queues;
  QueuesBelow(node, queues);
  Picos withheld = 0;
  for (const std::string& name : queues) {
    const QueueFacts facts = sources_.queue(name);
    if (facts.earns) continue;
    const Picos held = facts.held == nullptr ? 0 : weights.Weigh(*facts.held);
    withheld += std::max<Picos>(0, weights.NominalOf(*sources_.tree->FindQueue(name)) - held);
  }
  return withheld;
}

void CreditLedger::Renew(const Node& node, const Governing& policy, GovernedNode& entry) {
  entry.is_cohort = node.is_cohort();
  entry.name = node.name();
  entry.policy = policy.name;
  entry.policy_uid = policy.uid;
  entry.spec = policy.spec;
  entry.weights = policy.weights;
  entry.terms = policy.terms;
  entry.entitlement = policy.weights->NominalOf(node) / 1'000'000;
  entry.earns = node.is_cohort() || sources_.queue(node.name()).earns;
}

void CreditLedger::Sync(const Node& node, GovernedNode& entry, const std::string& account) {
  CreditTimeline& timeline = *entry.timeline;
  CreditTimeline::Change change{now_, 0, {}, {}, {}};
  change.usage = HeldBelow(node, *entry.weights) - timeline.usage();
  change.withheld = WithheldBelow(node, *entry.weights) - timeline.withheld();
  if (timeline.entitlement() != entry.entitlement) change.entitlement = entry.entitlement;
  if (timeline.earns() != entry.earns) change.earns = entry.earns;
  if (const quota::CreditRules rules = RulesOf(*entry.spec); !(timeline.rules() == rules)) {
    change.rules = rules;
  }
  const bool terms = change.entitlement || change.earns || change.rules || change.withheld != 0;
  if (change.usage == 0 && !terms) return;
  if (terms) entry.terms_since = now_;
  timeline.Add(change);
  changed_.insert(account);
}

// `old`: the nodes of before that were not met yet.
void CreditLedger::Follow(const Node& node, const Governing& policy,
                          absl::btree_map<std::string, GovernedNode>& old, LookAgain& again) {
  const std::string name = CreditAccountName(node.is_cohort(), node.name());
  GovernedNode entry;
  if (const auto found = old.find(name); found != old.end()) {
    const GovernedNode& before = found->second;
    if (before.bursting && before.spec->burst_limit != policy.spec->burst_limit) {
      again.limits.insert(before.name);
    }
    if (before.policy_uid == policy.uid) {
      entry = std::move(found->second);
      old.erase(found);
    } else if (before.bursting) {
      again.limits.insert(before.name);
    }
  }
  Renew(node, policy, entry);
  const auto object = sources_.accounts->Find({"", name});
  if (object == nullptr || object->metadata.uid != entry.account_uid) entry.timeline.reset();
  if (!entry.timeline.has_value()) {
    Begin(name, node, entry);
    again.accounts.insert(name);
  }
  if (entry.timeline.has_value()) Sync(node, entry, name);
  if (!entry.is_cohort && !entry.spec->burst_limit.empty()) {
    with_bursts_.push_back(name);
  } else {
    entry.bursting = false;
  }
  nodes_.insert_or_assign(name, std::move(entry));
  std::vector<std::string> queues;
  QueuesBelow(node, queues);
  for (const std::string& queue : queues) chains_[queue].push_back(name);
}

CreditLedger::LookAgain CreditLedger::Rebuild(absl::Time now) {
  LookAgain again;
  SetNow(now);
  stale_ = false;
  const auto views = std::exchange(policies_, {});
  auto old = std::exchange(nodes_, {});
  chains_.clear();
  with_bursts_.clear();
  standing_.Clear();
  const std::vector<Governing> governing = SortedPolicies();
  Claims claims;
  for (const Governing& policy : governing) {
    CreditPolicyView& view = policies_[policy.name];
    const Node* root = sources_.tree->FindCohort(policy.spec->cohort);
    view.cohort_found = root != nullptr && Tree::Sound(*root);
    if (!view.cohort_found) continue;
    for (const Node* child : root->cohorts()) Claim(*child, policy, claims);
    for (const Node* child : root->queues()) Claim(*child, policy, claims);
  }
  // A tool that makes the only ClusterQueue of a Cohort anew takes no bank away.
  absl::erase_if(claims, [&](const auto& claim) {
    const auto& [node, policy] = claim;
    const bool loses = LosesBank(*node, *policy, old);
    if (loses) --policies_[policy->name].cohorts;
    return loses;
  });
  for (const auto& [node, policy] : claims) Follow(*node, *policy, old, again);
  std::sort(with_bursts_.begin(), with_bursts_.end());
  // The map stands still from here on, so that its accounts can be pointed to.
  for (const auto& [node, policy] : claims) {
    const GovernedNode& entry = nodes_.at(CreditAccountName(node->is_cohort(), node->name()));
    standing_.Set(*node, policy->terms, entry.entitlement,
                  entry.timeline.has_value() ? &*entry.timeline : nullptr);
  }
  for (const auto& [name, entry] : old) {
    again.accounts.insert(name);
    if (entry.bursting) again.limits.insert(entry.name);
  }
  Keep(old, again);
  for (const auto& [name, view] : policies_) {
    const auto before = views.find(name);
    if (before == views.end() || !(before->second == view)) again.policies.insert(name);
  }
  return again;
}

void CreditLedger::Restart() {
  for (auto& [name, entry] : nodes_) entry.timeline.reset();
  kept_.clear();
  standing_.Clear();
  chains_.clear();
  stale_ = true;
}

void CreditLedger::PolicyChanged(const api::CreditPolicy* before, const api::CreditPolicy* after) {
  if (before == nullptr || after == nullptr || before->spec != after->spec ||
      before->metadata.Deleting() != after->metadata.Deleting()) {
    MarkStale();
  }
}

void CreditLedger::AccountChanged(const std::string& name, const api::CreditAccount* before,
                                  const api::CreditAccount* after) {
  if (const auto kept = kept_.find(name); kept != kept_.end()) {
    const bool written = before != nullptr && after != nullptr && before->status != after->status;
    // It stands at what was written, a grant that was on its way included.
    if (written) kept->second.settled.reset();
  }
  const auto found = nodes_.find(name);
  if (found == nodes_.end()) {
    if (before == nullptr || after == nullptr) stale_ = true;
    return;
  }
  GovernedNode& entry = found->second;
  if (!entry.timeline.has_value() && after != nullptr) {
    if (stale_) return;  // Rebuild begins it
    const Node* node = entry.is_cohort ? sources_.tree->FindCohort(entry.name)
                                       : sources_.tree->FindQueue(entry.name);
    Begin(name, *node, entry);
    if (!entry.timeline.has_value()) return;
    Sync(*node, entry, name);
    standing_.Set(*node, entry.terms, entry.entitlement, &*entry.timeline);
    changed_.insert(name);
    return;
  }
  const bool same = after != nullptr && entry.timeline.has_value() &&
                    after->metadata.uid == entry.account_uid && !after->metadata.Deleting();
  if (!same) {
    if (entry.timeline.has_value() || after != nullptr) stale_ = true;
    // Another account, or none: what was banked is gone with the old one.
    entry.timeline.reset();
    standing_.Clear();
    return;
  }
  if (after->status.last_settled.has_value()) entry.timeline->Rebase(CheckpointOf(*after, now_));
}

void CreditLedger::Hold(const std::string& cluster_queue, const FlavorResourceAmounts& amounts,
                        int sign, absl::Time at) {
  const auto chain = chains_.find(cluster_queue);
  if (chain == chains_.end()) return;
  const bool stopped = chain->second.size() > 1 && !sources_.queue(cluster_queue).earns;
  for (const std::string& name : chain->second) {
    GovernedNode& entry = nodes_.at(name);
    const Picos weight = entry.weights->Weigh(amounts);
    if (weight == 0 || !entry.timeline.has_value()) continue;
    if (sign < 0) entry.released = std::max(entry.released, at);
    CreditTimeline::Change change{at, sign * weight, {}, {}, {}};
    // While it is stale the tree may have circles, and Rebuild looks at all of it.
    if (stopped && entry.is_cohort && !stale_) {
      const Node& cohort = *sources_.tree->FindCohort(entry.name);
      change.withheld = WithheldBelow(cohort, *entry.weights) - entry.timeline->withheld();
    }
    entry.timeline->Add(change);
    changed_.insert(name);
  }
}

absl::Time CreditLedger::OldestCheckpoint(const std::string& cluster_queue) const {
  absl::Time oldest = absl::InfiniteFuture();
  const auto chain = chains_.find(cluster_queue);
  if (chain == chains_.end()) return oldest;
  for (const std::string& name : chain->second) {
    const auto object = sources_.accounts->Find({"", name});
    if (object == nullptr || !nodes_.at(name).timeline.has_value()) continue;
    oldest = std::min(oldest, object->status.last_settled.value_or(
                                  object->metadata.creation_timestamp.value_or(absl::UnixEpoch())));
  }
  return oldest;
}

bool CreditLedger::Charges(const std::string& cluster_queue,
                           const FlavorResourceAmounts& amounts) const {
  const auto chain = chains_.find(cluster_queue);
  return chain != chains_.end() &&
         std::any_of(chain->second.begin(), chain->second.end(), [&](const std::string& name) {
           const GovernedNode& entry = nodes_.at(name);
           return entry.timeline.has_value() && entry.weights->Weigh(amounts) > 0;
         });
}

bool CreditLedger::Charges(const std::string& cluster_queue, const Requests& amounts) const {
  FlavorResourceAmounts cells;
  for (const auto& [resource, amount] : amounts) cells[{"", resource}] = amount;
  return Charges(cluster_queue, cells);
}

api::StringMap CreditLedger::AnnotationsFor(const api::Workload& waiting,
                                            const std::string& cluster_queue,
                                            const FlavorResourceAmounts& amounts,
                                            absl::Time now) const {
  std::vector<Reservation> reservations = PastReservations(waiting, true);
  std::erase_if(reservations, [&](const Reservation& one) {
    return one.to.has_value() &&
           (*one.to <= one.from || *one.to <= OldestCheckpoint(one.cluster_queue));
  });
  if (reservations.size() >= kMostReservations) {
    reservations.erase(reservations.begin(), reservations.end() - (kMostReservations - 1));
  }
  Reservation next;
  next.from = quota::FloorMilli(now);
  next.cluster_queue = cluster_queue;
  absl::btree_set<ResourceName> counted;
  for (const std::string& name : chains_.at(cluster_queue)) {
    for (const auto& [cell, amount] : amounts) {
      if (nodes_.at(name).weights->Of(cell.resource) > 0) counted.insert(cell.resource);
    }
  }
  for (const auto& [cell, amount] : amounts) {
    if (!counted.contains(cell.resource)) continue;
    next.amounts[cell.resource] = SaturatingAdd(next.amounts[cell.resource], amount);
  }
  reservations.push_back(next);
  return {{api::kReservedAt, FormatMilliTime(next.from)},
          {api::kReservations, FormatReservations(reservations)}};
}

const GovernedNode* CreditLedger::Find(const std::string& account) const {
  const auto found = nodes_.find(account);
  return found == nodes_.end() ? nullptr : &found->second;
}

const KeptAccount* CreditLedger::FindKept(const std::string& account) const {
  const auto found = kept_.find(account);
  return found == kept_.end() ? nullptr : &found->second;
}

const CreditPolicyView* CreditLedger::FindPolicy(const std::string& policy) const {
  const auto found = policies_.find(policy);
  return found == policies_.end() ? nullptr : &found->second;
}

std::vector<std::string> CreditLedger::UpdateBursts(absl::Time now, absl::Time& due) {
  std::vector<std::string> flipped;
  due = absl::InfiniteFuture();
  for (const std::string& name : with_bursts_) {
    GovernedNode& entry = nodes_.at(name);
    bool bursting = false;
    if (entry.timeline.has_value()) {
      const quota::CreditAccount account = entry.timeline->At(now);
      bursting = account.balance() > Credits();
      if (bursting) {
        if (const auto empty = account.EmptyAt())
          due = std::min(due, *empty + absl::Milliseconds(1));
      } else if (account.Rate() > 0) {
        const auto debt = static_cast<int64_t>(-account.balance().value() / account.Rate());
        due = std::min(due, std::max(now, account.last_settled()) + absl::Nanoseconds(debt) +
                                absl::Milliseconds(1));
      }
    }
    if (bursting != std::exchange(entry.bursting, bursting)) flipped.push_back(entry.name);
  }
  return flipped;
}

std::optional<int64_t> CreditLedger::BurstLimit(const std::string& cluster_queue,
                                                const FlavorResource& cell) const {
  const GovernedNode* entry = Find(CreditAccountName(false, cluster_queue));
  if (entry == nullptr || !entry->bursting) return std::nullopt;
  for (const api::BurstLimit& one : entry->spec->burst_limit) {
    if (one.flavor == cell.flavor && one.resource == cell.resource) {
      return AmountOf(one.resource, one.limit);
    }
  }
  return std::nullopt;
}

std::vector<std::string> CreditLedger::Spending(absl::Time now) const {
  std::vector<std::string> queues;
  for (const auto& [name, entry] : nodes_) {
    if (entry.is_cohort || !entry.timeline.has_value()) continue;
    const quota::CreditAccount account = entry.timeline->At(now);
    if (account.Rate() < 0 && account.balance() > Credits()) queues.push_back(entry.name);
  }
  return queues;
}

}  // namespace sluice::state
