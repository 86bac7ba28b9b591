// CreditPolicies and CreditAccounts: an account for every governed queue, its status as the
// checkpoint of the ledger, adjustments by annotation.
//
// An adjustment is applied once, whatever happens in between: the status counts those that the
// balance contains, and an annotation counts those that were taken off. Where the status is ahead,
// the annotation that is there (if it is the same) is part of the balance already and only has to
// go. Every write fails with Conflict when the account changed since it was read.
#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <algorithm>

#include "api/codec.h"
#include "api/credit_types.h"
#include "api/names.h"
#include "reconcile/reconcilers.h"
#include "state/credit_history.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using quota::CreditAccount;
using quota::Credits;

constexpr char kCreditSource[] = "sluice-credits";
constexpr char kAdjusted[] = "Adjusted";  // condition: what became of the last annotation
// So long an account stays whose policy does not govern its target: a tool that makes a queue or a
// Cohort anew, or somebody who corrects a name, finds the bank again.
constexpr absl::Duration kKeepUngoverned = absl::Hours(1);

Note NoteOn(api::Kind kind, const api::ObjectMeta& metadata, bool warning, std::string reason,
            std::string message) {
  Note note;
  note.kind = kind;
  note.key = metadata.Key();
  note.uid = metadata.uid;
  note.source = kCreditSource;
  note.warning = warning;
  note.reason = std::move(reason);
  note.message = std::move(message);
  return note;
}

// Micro-units as a decimal number without trailing zeros.
std::string Units(CreditAccount::Micros micros) {
  std::string text = Credits::Of(micros * Credits::Value{3'600'000'000'000}).ToString();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

void SetCondition(api::Conditions& conditions, const char* type, api::ConditionStatus status,
                  std::string reason, std::string message, int64_t generation, absl::Time now) {
  api::Condition condition;
  condition.type = type;
  condition.status = status;
  condition.reason = std::move(reason);
  condition.message = std::move(message);
  condition.observed_generation = generation;
  api::SetCondition(conditions, std::move(condition), now);
}

void SetCondition(api::Conditions& conditions, const char* type, bool is, std::string reason,
                  std::string message, int64_t generation, absl::Time now) {
  SetCondition(conditions, type, is ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse,
               std::move(reason), std::move(message), generation, now);
}

template <typename Status>
state::Action StatusAction(api::Kind kind, const api::ObjectMeta& metadata, const Status& status) {
  Json encoded = api::Encode(status);
  if (kind == api::Kind::kCreditAccount && !encoded.Has("emptyAt")) encoded.Set("emptyAt", Json());
  return MergePatchAction(kind, metadata.Key(), "status",
                          Json::MakeObject({{"status", std::move(encoded)}}),
                          metadata.resource_version);
}

Json NewAccount(const std::string& name, const state::GovernedNode& node) {
  const Json owner = Json::MakeObject({{"apiVersion", api::ApiVersionOf(api::Kind::kCreditPolicy)},
                                       {"kind", "CreditPolicy"},
                                       {"name", node.policy},
                                       {"uid", node.policy_uid},
                                       {"controller", true}});
  return Json::MakeObject(
      {{"apiVersion", api::ApiVersionOf(api::Kind::kCreditAccount)},
       {"kind", "CreditAccount"},
       {"metadata",
        Json::MakeObject({{"name", name}, {"ownerReferences", Json::MakeArray({owner})}})}});
}

// What it is about could not be read, or a Cohort that leads to it: nothing may be concluded from
// its absence.
bool MayExist(const state::World& world, const api::CreditAccount& account) {
  const std::string name =
      account.metadata.name.substr(std::min<size_t>(3, account.metadata.name.size()));
  const api::OwnerReference* owner = account.metadata.Controller();
  return world.Unreadable({api::Kind::kClusterQueue, {"", name}}) ||
         world.AnyUnreadable(api::Kind::kCohort) ||
         (owner != nullptr && world.Unreadable({api::Kind::kCreditPolicy, {"", owner->name}}));
}

void ShowBalance(const CreditAccount& account, api::CreditAccountStatus& status) {
  status.balance = account.balance().ToString();
  status.last_settled = account.last_settled();
  status.lifetime_earned = account.totals().earned.ToString();
  status.lifetime_spent = account.totals().spent.ToString();
  status.lifetime_expired = account.totals().expired.ToString();
}

// `account` is the checkpoint, as of a whole second; rates are those of now.
api::CreditAccountStatus StatusOf(const state::GovernedNode& node, const CreditAccount& account,
                                  const api::CreditAccount& object, absl::Time now) {
  const CreditAccount current = node.timeline->At(now);
  api::CreditAccountStatus status = object.status;
  ShowBalance(account, status);
  status.entitlement = Units(current.entitlement());
  status.usage = Units(current.usage());
  status.rate = Units(current.Rate());
  status.bank_limit = current.BankLimit().ToString();
  status.empty_at = current.EmptyAt();
  status.rules = state::ShownRules(*node.spec);
  const std::string policy = fmt::format("governed by CreditPolicy {}", node.policy);
  if (node.earns) {
    SetCondition(status.conditions, api::kActive, true, "Active", policy, 0, now);
  } else {
    SetCondition(status.conditions, api::kActive, true, state::kPaused,
                 policy + "; earns nothing while the ClusterQueue is stopped or inactive", 0, now);
  }
  return status;
}

bool Moved(const api::CreditAccountStatus& before, const api::CreditAccountStatus& after) {
  return before.balance != after.balance || before.lifetime_earned != after.lifetime_earned ||
         before.lifetime_spent != after.lifetime_spent ||
         before.lifetime_expired != after.lifetime_expired;
}

// Something other than the passing of time made it different.
bool RatesChanged(const api::CreditAccountStatus& before, const api::CreditAccountStatus& after) {
  return !before.last_settled.has_value() || before.entitlement != after.entitlement ||
         before.usage != after.usage || before.rate != after.rate ||
         before.bank_limit != after.bank_limit || before.rules != after.rules ||
         before.conditions != after.conditions;
}

// When the status is written next if only time passes: a minute after the last time, or up to half
// a minute earlier, so that accounts which were written together do not stay together.
absl::Time NextWrite(const std::string& name, absl::Time last) {
  constexpr int64_t kLength = 60'000;
  uint64_t hash = 1469598103934665603u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  const auto phase = static_cast<int64_t>(hash % static_cast<uint64_t>(kLength));
  const int64_t earliest = absl::ToUnixMillis(last) + kLength / 2;
  const int64_t behind = ((earliest - phase) % kLength + kLength) % kLength;
  const int64_t wait = behind == 0 ? 0 : kLength - behind;
  return absl::FromUnixMillis(earliest + std::min(wait, kLength / 2));
}

int64_t AdjustmentsTakenOff(const api::CreditAccount& account) {
  int64_t count = 0;
  static_cast<void>(absl::SimpleAtoi(account.metadata.Annotation(api::kCreditAdjustments), &count));
  return std::max<int64_t>(0, count);
}

// Takes the annotation off (where `remove`) and counts that.
state::Action TakeOff(const api::CreditAccount& account, bool remove, int64_t count) {
  Json annotations = Json::MakeObject({{api::kCreditAdjustments, std::to_string(count)}});
  if (remove) annotations.Set(api::kCreditAdjust, Json());
  Json body = Json::MakeObject();
  body["metadata"].Set("annotations", std::move(annotations));
  return MergePatchAction(api::Kind::kCreditAccount, account.metadata.Key(), "", std::move(body),
                          account.metadata.resource_version);
}

absl::StatusOr<Credits> ParseAdjustment(const std::string& text) {
  constexpr size_t kLongest = 64;
  if (text.size() > kLongest) {
    return absl::InvalidArgumentError(
        fmt::format("a text of {} characters is no number of credit-hours", text.size()));
  }
  return Credits::Parse(text);
}

// The condition first, then the event with the removal of the annotation: so neither is lost.
void RefuseAdjustment(const state::GovernedNode& node, const CreditAccount& account,
                      const api::CreditAccount& object, const absl::Status& problem, absl::Time now,
                      Plan& plan) {
  const std::string message =
      fmt::format("The annotation {} is ignored, the balance stays as it is: {}",
                  api::kCreditAdjust, std::string(problem.message()));
  api::CreditAccountStatus status = StatusOf(node, account, object, now);
  SetCondition(status.conditions, kAdjusted, false, "InvalidAdjustment", message, 0, now);
  if (status.conditions != object.status.conditions) {
    plan.Add(StatusAction(api::Kind::kCreditAccount, object.metadata, status));
    return;
  }
  Write& write = plan.Add(TakeOff(object, true, AdjustmentsTakenOff(object)));
  write.notes.push_back(
      NoteOn(api::Kind::kCreditAccount, object.metadata, true, "InvalidAdjustment", message));
}

// True when the plan has a write for an adjustment.
bool PlanAdjustment(const state::GovernedNode& node, CreditAccount& account,
                    const api::CreditAccount& object, absl::Time now, Plan& plan) {
  const std::string text = object.metadata.Annotation(api::kCreditAdjust);
  const int64_t taken_off = AdjustmentsTakenOff(object);
  const int64_t applied = object.status.adjustments;
  if (applied > taken_off) {
    plan.Add(TakeOff(object, !text.empty() && text == object.status.last_adjustment, applied));
    return true;
  }
  if (text.empty()) return false;
  const absl::StatusOr<Credits> amount = ParseAdjustment(text);
  if (!amount.ok()) {
    RefuseAdjustment(node, account, object, amount.status(), now, plan);
    return true;
  }
  account.Adjust(*amount, account.last_settled());
  api::CreditAccountStatus status = StatusOf(node, account, object, now);
  CreditAccount current = node.timeline->At(now);
  current.Adjust(*amount, now);
  status.empty_at = current.EmptyAt();
  SetCondition(status.conditions, kAdjusted, true, "Adjusted",
               fmt::format("{} credit-hours", amount->ToString()), 0, now);
  status.adjustments = taken_off + 1;
  status.last_adjustment = text;
  Write& write = plan.Add(StatusAction(api::Kind::kCreditAccount, object.metadata, status));
  write.notes.push_back(NoteOn(api::Kind::kCreditAccount, object.metadata, false, "Adjusted",
                               fmt::format("Balance adjusted by {} credit-hours to {}",
                                           amount->ToString(), status.balance)));
  return true;
}

}  // namespace

Plan ReconcileCreditPolicy(const state::World& world, const ObjectKey& key, absl::Time now) {
  Plan plan;
  const auto policy = world.credit_policies().Find(key);
  const state::CreditPolicyView* view = world.credits().FindPolicy(key.name);
  if (policy == nullptr || view == nullptr || policy->metadata.Deleting()) return plan;
  const int64_t generation = policy->metadata.generation;
  api::CreditPolicyStatus status = policy->status;
  std::string conflict;
  for (const auto& [older, count] : view->conflicts) {
    conflict += fmt::format(
        "{}{} of the ClusterQueues and Cohorts are governed by the older "
        "CreditPolicy {}",
        conflict.empty() ? "" : "; ", count, older);
  }
  if (!view->cohort_found) {
    SetCondition(
        status.conditions, api::kActive, false, "CohortNotFound",
        fmt::format("There is no Cohort {} with a sound chain of parents", policy->spec.cohort),
        generation, now);
  } else if (view->cluster_queues + view->cohorts == 0 && !conflict.empty()) {
    SetCondition(status.conditions, api::kActive, false, "Conflict", conflict, generation, now);
  } else {
    SetCondition(status.conditions, api::kActive, true, "Active",
                 fmt::format("Governs {} ClusterQueue(s) and {} Cohort(s)", view->cluster_queues,
                             view->cohorts),
                 generation, now);
  }
  const bool had_conflict = api::IsTrue(policy->status.conditions, "Conflict");
  if (!conflict.empty()) {
    SetCondition(status.conditions, "Conflict", true, "Conflict", conflict, generation, now);
  } else if (had_conflict) {
    SetCondition(status.conditions, "Conflict", false, "NoConflict", "No other policy interferes",
                 generation, now);
  }
  if (status == policy->status) return plan;
  Write& write = plan.Add(StatusAction(api::Kind::kCreditPolicy, policy->metadata, status));
  if (!conflict.empty() && !had_conflict) {
    write.notes.push_back(
        NoteOn(api::Kind::kCreditPolicy, policy->metadata, true, "Conflict", conflict));
  }
  return plan;
}

namespace {

// It stands still; it goes when that was so for long and it is certain.
Plan PlanKept(const state::World& world, const state::KeptAccount& kept,
              const api::CreditAccount& object, absl::Time now) {
  Plan plan;
  api::CreditAccountStatus status = object.status;
  const absl::Time last = status.last_settled.value_or(absl::InfinitePast());
  if (kept.settled.has_value() && kept.settled->last_settled() >= last) {
    ShowBalance(*kept.settled, status);
  }
  status.rate = "0";
  status.empty_at.reset();
  const std::string what =
      kept.unknown ? fmt::format("CreditPolicy {} finds no sound chain of parents", kept.policy)
      : kept.empty
          ? "The Cohort has neither quota nor a ClusterQueue; its account is kept for an hour"
          : fmt::format("CreditPolicy {} does not govern it; it is kept for an hour", kept.policy);
  SetCondition(status.conditions, api::kActive,
               kept.unknown ? api::ConditionStatus::kUnknown : api::ConditionStatus::kFalse,
               state::kNotGoverned, what + "; the balance stands still", 0, now);
  if (status != object.status) {
    plan.Add(StatusAction(api::Kind::kCreditAccount, object.metadata, status));
    return plan;
  }
  if (kept.unknown) return plan;
  const auto* active = api::FindCondition(status.conditions, api::kActive);
  const absl::Time end = active->last_transition_time.value_or(now) + kKeepUngoverned;
  if (now < end) {
    plan.RecheckAt(end);
  } else if (!MayExist(world, object)) {
    plan.Add(DeleteAction(api::Kind::kCreditAccount, object.metadata.Key(), object.metadata.uid));
  }
  return plan;
}

// The status, where it has to be written now; else when to look again. `account` is what can be
// written.
void PlanStatus(const state::GovernedNode& node, const CreditAccount& account,
                const api::CreditAccount& object, absl::Time now, Plan& plan) {
  const absl::Time last = object.status.last_settled.value_or(absl::InfinitePast());
  const bool ended = node.released > last;  // Workloads may wait for it to be written down
  const bool certain = account.last_settled() >= node.released;
  const api::CreditAccountStatus status = StatusOf(node, account, object, now);
  absl::Time due = last == absl::InfinitePast() ? now : NextWrite(object.metadata.name, last);
  // That the bank is empty is written down soon.
  if (const auto& empty = object.status.empty_at; empty.has_value() && *empty >= last) {
    due = std::min(due, quota::FloorSecond(*empty) + absl::Seconds(1));
  }
  const bool moved = Moved(object.status, status);
  if ((ended && certain) || RatesChanged(object.status, status) || (moved && now >= due)) {
    plan.Add(StatusAction(api::Kind::kCreditAccount, object.metadata, status));
    return;
  }
  if (ended) plan.RecheckAt(now + absl::Seconds(1));
  // An empty bank that nothing is earned for, or at the limit of the debt, stays as it is.
  CreditAccount later = node.timeline->At(now);
  const CreditAccount current = later;
  later.Settle(current.last_settled() + absl::Hours(1));
  if (moved || later.balance() != current.balance() || !(later.totals() == current.totals())) {
    plan.RecheckAt(due > now ? due : now + absl::Minutes(1));
  }
}

}  // namespace

Plan ReconcileCreditAccount(const state::World& world, const ObjectKey& key, absl::Time now) {
  Plan plan;
  const state::GovernedNode* node = world.credits().Find(key.name);
  const auto object = world.credit_accounts().Find(key);
  if (object == nullptr) {
    if (node != nullptr && !world.Unreadable({api::Kind::kCreditAccount, key})) {
      plan.Add(CreateAction(api::Kind::kCreditAccount, key, NewAccount(key.name, *node)));
    }
    return plan;
  }
  if (object->metadata.Deleting()) return plan;
  if (const state::KeptAccount* kept = world.credits().FindKept(key.name);
      kept != nullptr && kept->account_uid == object->metadata.uid) {
    return PlanKept(world, *kept, *object, now);
  }
  const api::OwnerReference* owner = object->metadata.Controller();
  if (node == nullptr || owner == nullptr || owner->uid != node->policy_uid) {
    if (!MayExist(world, *object)) {
      plan.Add(DeleteAction(api::Kind::kCreditAccount, key, object->metadata.uid));
    }
    return plan;
  }
  if (!node->timeline.has_value()) return plan;
  CreditAccount account = node->timeline->AsOf(world.CreditsCertainUntil(now));
  // A status would say of its time what was not so yet.
  if (account.last_settled() < node->terms_since) {
    plan.RecheckAt(now + absl::Seconds(1));
    return plan;
  }
  if (PlanAdjustment(*node, account, *object, now, plan)) return plan;
  const absl::Time last = object->status.last_settled.value_or(absl::InfinitePast());
  if (now + absl::Seconds(1) < last) {
    plan.notes.push_back(NoteOn(
        api::Kind::kCreditAccount, object->metadata, true, "ClockWentBack",
        fmt::format("The clock is behind the last settlement at {}: the balance stands still until "
                    "then",
                    state::FormatMilliTime(last))));
  }
  PlanStatus(*node, account, *object, now, plan);
  return plan;
}

}  // namespace sluice::reconcile
