// The part of CreditLedger that begins with what was written down: the replay of an account, and
// the accounts that stand still.
#include "state/credit_replay.h"

#include <algorithm>

#include "api/names.h"
#include "state/credit_ledger.h"

namespace sluice::state {

using quota::Credits;
using quota::CreditTimeline;
using quota::Node;
using quota::Tree;

namespace {

constexpr Credits::Value kNanosecondsPerHour = 3'600'000'000'000;
constexpr CreditTimeline::Picos kPicosPerMicro = 1'000'000;

// What the status says; nothing where it says nothing that can be read.
Credits CreditsIn(const std::string& text) {
  const absl::StatusOr<Credits> credits = Credits::Parse(text);
  return credits.ok() ? *credits : Credits();
}

std::optional<CreditTimeline::Micros> ShownEntitlement(const api::CreditAccount& account) {
  if (account.status.entitlement.empty()) return std::nullopt;
  return CreditsIn(account.status.entitlement).value() / kNanosecondsPerHour;
}

// Whether its queue earned when it was written down.
std::optional<bool> ShownEarning(const api::CreditAccount& account) {
  const auto* active = api::FindCondition(account.status.conditions, api::kActive);
  if (active == nullptr || active->status != api::ConditionStatus::kTrue) return std::nullopt;
  return active->reason != kPaused;
}

void SortByTime(std::vector<CreditTimeline::Change>& changes) {
  std::stable_sort(changes.begin(), changes.end(),
                   [](const auto& a, const auto& b) { return a.at < b.at; });
}

}  // namespace

CreditTimeline::Checkpoint CheckpointOf(const api::CreditAccount& account, absl::Time now) {
  const api::CreditAccountStatus& status = account.status;
  if (!status.last_settled.has_value()) {
    return {account.metadata.creation_timestamp.value_or(now), {}, {}};
  }
  return {*status.last_settled,
          CreditsIn(status.balance),
          {CreditsIn(status.lifetime_earned), CreditsIn(status.lifetime_spent),
           CreditsIn(status.lifetime_expired)}};
}

absl::btree_map<ResourceName, Quantity> WeightsOf(const api::CreditAccountRules& rules) {
  absl::btree_map<ResourceName, Quantity> weights;
  for (const api::CreditResource& one : rules.resources) weights[one.name] = one.weight;
  return weights;
}

// Of an account, from its checkpoint on.
struct CreditLedger::Replay {
  absl::Time from;
  const quota::CreditWeights* weights = nullptr;
  Picos usage = 0;     // at the checkpoint
  Picos withheld = 0;  // the same
  std::vector<CreditTimeline::Change> changes;
};

// The entitlement of a queue that was stopped when it was written down; zero for all others.
CreditLedger::Picos CreditLedger::StoppedEntitlement(const std::string& cluster_queue,
                                                     const GovernedNode& entry) const {
  if (!entry.is_cohort) return 0;
  bool earned = sources_.queue(cluster_queue).earns;
  std::optional<CreditTimeline::Micros> shown;
  const auto account = sources_.accounts->Find({"", CreditAccountName(false, cluster_queue)});
  if (account != nullptr) {
    earned = ShownEarning(*account).value_or(earned);
    const api::OwnerReference* owner = account->metadata.Controller();
    if (owner != nullptr && owner->uid == entry.policy_uid) shown = ShownEntitlement(*account);
  }
  if (earned) return 0;
  if (shown.has_value()) return *shown * kPicosPerMicro;
  return entry.weights->NominalOf(*sources_.tree->FindQueue(cluster_queue));
}

void CreditLedger::ReplayQueue(const std::string& cluster_queue, const GovernedNode& entry,
                               Replay& replay) const {
  Picos usage = 0;
  std::vector<CreditTimeline::Change> changes;
  for (const Reservation& one : sources_.history(cluster_queue)) {
    if (one.to.has_value() && *one.to <= replay.from) continue;
    const Picos weight = replay.weights->Weigh(one.amounts);
    if (weight == 0) continue;
    if (one.from <= replay.from) {
      usage += weight;
    } else {
      changes.push_back({one.from, weight, {}, {}, {}});
    }
    if (one.to.has_value()) changes.push_back({*one.to, -weight, {}, {}, {}});
  }
  SortByTime(changes);
  replay.usage += usage;
  if (const Picos entitlement = StoppedEntitlement(cluster_queue, entry); entitlement > 0) {
    Picos withheld = std::max<Picos>(0, entitlement - usage);
    replay.withheld += withheld;
    for (CreditTimeline::Change& change : changes) {
      usage += change.usage;
      change.withheld = std::max<Picos>(0, entitlement - usage) - withheld;
      withheld += change.withheld;
    }
  }
  replay.changes.insert(replay.changes.end(), changes.begin(), changes.end());
}

// Replays what happened since the account was written down, by what was written down of quota and
// policy: what is different by now is so from now on.
void CreditLedger::Begin(const std::string& account, const Node& node, GovernedNode& entry) {
  const auto object = sources_.accounts->Find({"", account});
  if (object == nullptr || object->metadata.Deleting()) return;
  const api::OwnerReference* owner = object->metadata.Controller();
  if (owner == nullptr || owner->uid != entry.policy_uid) return;  // that policy's, for now
  const std::optional<CreditTimeline::Checkpoint> stood_still = StoodStill(account, *object);
  const CreditTimeline::Checkpoint checkpoint = stood_still.value_or(CheckpointOf(*object, now_));
  quota::CreditRules rules = RulesOf(*entry.spec);
  CreditTimeline::Micros entitlement = entry.entitlement;
  bool earns = entry.earns;
  Replay replay{checkpoint.at, entry.weights.get(), 0, 0, {}};
  std::optional<quota::CreditWeights> weights;
  if (!stood_still.has_value()) {
    entitlement = ShownEntitlement(*object).value_or(entitlement);
    earns = ShownEarning(*object).value_or(earns);
    if (const auto& shown = object->status.rules; shown.has_value()) {
      rules.half_life = shown->half_life;
      rules.max_bank = shown->max_bank;
      rules.max_debt = shown->max_debt;
      replay.weights = &weights.emplace(WeightsOf(*shown));
    }
  }
  std::vector<std::string> queues;
  QueuesBelow(node, queues);
  for (const std::string& queue : queues) ReplayQueue(queue, entry, replay);
  SortByTime(replay.changes);
  entry.account_uid = object->metadata.uid;
  entry.timeline.emplace(rules, checkpoint, entitlement, earns, replay.usage, replay.withheld);
  for (const CreditTimeline::Change& change : replay.changes) {
    if (change.usage < 0) entry.released = std::max(entry.released, change.at);
    entry.timeline->Add(change);
  }
}

std::optional<CreditTimeline::Checkpoint> CreditLedger::StoodStill(
    const std::string& account, const api::CreditAccount& object) const {
  CreditTimeline::Checkpoint checkpoint = CheckpointOf(object, now_);
  const KeptAccount* kept = FindKept(account);
  if (kept != nullptr && kept->account_uid == object.metadata.uid) {
    if (kept->settled.has_value()) {
      checkpoint.balance = kept->settled->balance();
      checkpoint.totals = kept->settled->totals();
    }
  } else {
    const auto* active = api::FindCondition(object.status.conditions, api::kActive);
    if (active == nullptr || active->reason != kNotGoverned) return std::nullopt;
  }
  checkpoint.at = std::max(checkpoint.at, now_);
  return checkpoint;
}

// Only the policy's end takes an account away at once.
void CreditLedger::Keep(const absl::btree_map<std::string, GovernedNode>& old, LookAgain& again) {
  absl::btree_map<std::string, KeptAccount> kept;
  for (const auto& [key, object] : sources_.accounts->all()) {
    const api::OwnerReference* owner = object->metadata.Controller();
    if (owner == nullptr || object->metadata.Deleting()) continue;
    const auto policy = sources_.policies->Find({"", owner->name});
    if (policy == nullptr || policy->metadata.uid != owner->uid || policy->metadata.Deleting()) {
      continue;
    }
    const GovernedNode* node = Find(key.name);
    if (node != nullptr && node->policy_uid == owner->uid) continue;
    KeptAccount& one = kept[key.name];
    one.policy = owner->name;
    one.account_uid = object->metadata.uid;
    const Node* target = NodeOf(key.name);
    const bool in_circle = target != nullptr && !Tree::Sound(*target);
    one.unknown = !policies_[owner->name].cohort_found || in_circle;
    one.empty = !one.unknown && target != nullptr && target->is_cohort() && !HasQueueBelow(*target);
    const KeptAccount* before = FindKept(key.name);
    const auto governed = old.find(key.name);
    if (before != nullptr && before->account_uid == one.account_uid) {
      one.settled = before->settled;
    } else if (governed != old.end() && governed->second.account_uid == one.account_uid &&
               governed->second.timeline.has_value()) {
      one.settled = governed->second.timeline->At(now_);
    }
    again.accounts.insert(key.name);
  }
  for (const auto& [name, before] : kept_) again.accounts.insert(name);
  kept_ = std::move(kept);
}

bool CreditLedger::HasQueueBelow(const Node& node) const {
  std::vector<std::string> queues;
  QueuesBelow(node, queues);
  return std::any_of(queues.begin(), queues.end(), [&](const std::string& name) {
    const QueueFacts facts = sources_.queue(name);
    return facts.exists || (facts.held != nullptr && !facts.held->empty());
  });
}

// A Cohort that is entitled to nothing can hold no credits and owe none: what it has would be gone
// at once.
bool CreditLedger::LosesBank(const Node& node, const Governing& policy,
                             const absl::btree_map<std::string, GovernedNode>& old) const {
  if (!node.is_cohort() || policy.weights->NominalOf(node) != 0 || HasQueueBelow(node)) {
    return false;
  }
  const std::string name = CreditAccountName(true, node.name());
  const auto object = sources_.accounts->Find({"", name});
  if (object == nullptr || object->metadata.Deleting()) return false;
  const api::OwnerReference* owner = object->metadata.Controller();
  if (owner == nullptr || owner->uid != policy.uid) return false;
  const KeptAccount* kept = FindKept(name);
  if (kept != nullptr && kept->account_uid == object->metadata.uid && kept->settled.has_value()) {
    return kept->settled->balance() != Credits();
  }
  const auto governed = old.find(name);
  const bool known = governed != old.end() && governed->second.timeline.has_value() &&
                     governed->second.account_uid == object->metadata.uid;
  const Credits balance =
      known ? governed->second.timeline->At(now_).balance() : CreditsIn(object->status.balance);
  return balance != Credits();
}

const Node* CreditLedger::NodeOf(const std::string& account) const {
  if (account.size() < 3) return nullptr;
  const std::string name = account.substr(3);
  return account.starts_with("co-") ? sources_.tree->FindCohort(name)
                                    : sources_.tree->FindQueue(name);
}

}  // namespace sluice::state
