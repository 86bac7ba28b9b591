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

void SetCondition(api::Conditions& conditions, const char* type, bool is, std::string reason,
                  std::string message, int64_t generation, absl::Time now) {
  api::Condition condition;
  condition.type = type;
  condition.status = is ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse;
  condition.reason = std::move(reason);
  condition.message = std::move(message);
  condition.observed_generation = generation;
  api::SetCondition(conditions, std::move(condition), now);
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

// What it is about could not be read: nothing may be concluded from its absence.
bool MayExist(const state::World& world, const api::CreditAccount& account) {
  const std::string name =
      account.metadata.name.substr(std::min<size_t>(3, account.metadata.name.size()));
  const api::OwnerReference* owner = account.metadata.Controller();
  return world.Unreadable({api::Kind::kClusterQueue, {"", name}}) ||
         world.Unreadable({api::Kind::kCohort, {"", name}}) ||
         (owner != nullptr && world.Unreadable({api::Kind::kCreditPolicy, {"", owner->name}}));
}

api::CreditAccountStatus StatusOf(const state::GovernedNode& node, const CreditAccount& account,
                                  const api::CreditAccount& object, absl::Time now) {
  api::CreditAccountStatus status = object.status;
  status.balance = account.balance().ToString();
  status.entitlement = Units(account.entitlement());
  status.usage = Units(account.usage());
  status.rate = Units(account.Rate());
  status.bank_limit = account.BankLimit().ToString();
  status.empty_at = account.EmptyAt();
  status.last_settled = account.last_settled();
  status.lifetime_earned = account.totals().earned.ToString();
  status.lifetime_spent = account.totals().spent.ToString();
  status.lifetime_expired = account.totals().expired.ToString();
  const std::string policy = fmt::format("governed by CreditPolicy {}", node.policy);
  if (node.earns) {
    SetCondition(status.conditions, api::kActive, true, "Active", policy, 0, now);
  } else {
    SetCondition(status.conditions, api::kActive, true, "Paused",
                 policy + "; earns nothing while the ClusterQueue is stopped or inactive", 0, now);
  }
  return status;
}

// Something other than the passing of time made it different.
bool RatesChanged(const api::CreditAccountStatus& before, const api::CreditAccountStatus& after) {
  return !before.last_settled.has_value() || before.entitlement != after.entitlement ||
         before.usage != after.usage || before.rate != after.rate ||
         before.bank_limit != after.bank_limit || before.conditions != after.conditions;
}

// When the status is written next if only time passes: at least half an interval after the last
// time, and not all accounts at once.
absl::Time NextWrite(const std::string& name, absl::Time last, absl::Duration interval) {
  uint64_t hash = 1469598103934665603u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  const int64_t length = absl::ToInt64Milliseconds(interval);
  const auto phase = static_cast<int64_t>(hash % static_cast<uint64_t>(length));
  const int64_t earliest = absl::ToUnixMillis(last) + length / 2;
  const int64_t behind = ((earliest - phase) % length + length) % length;
  return absl::FromUnixMillis(behind == 0 ? earliest : earliest + length - behind);
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
  const absl::StatusOr<Credits> amount = Credits::Parse(text);
  if (!amount.ok() || text.size() > 64) {
    Write& write = plan.Add(TakeOff(object, true, taken_off));
    write.notes.push_back(NoteOn(
        api::Kind::kCreditAccount, object.metadata, true, "InvalidAdjustment",
        fmt::format("The annotation {} is ignored: {}", api::kCreditAdjust,
                    std::string(amount.ok() ? "it is too long" : amount.status().message()))));
    return true;
  }
  account.Adjust(*amount, now);
  api::CreditAccountStatus status = StatusOf(node, account, object, now);
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
  const api::OwnerReference* owner = object->metadata.Controller();
  if (node == nullptr || owner == nullptr || owner->uid != node->policy_uid) {
    if (!MayExist(world, *object)) {
      plan.Add(DeleteAction(api::Kind::kCreditAccount, key, object->metadata.uid));
    }
    return plan;
  }
  if (!node->timeline.has_value()) return plan;
  now = quota::FloorMilli(now);
  CreditAccount account = node->timeline->At(now);
  if (PlanAdjustment(*node, account, *object, now, plan)) return plan;
  const absl::Time last = object->status.last_settled.value_or(absl::InfinitePast());
  if (now + absl::Seconds(1) < last) {
    plan.notes.push_back(NoteOn(
        api::Kind::kCreditAccount, object->metadata, true, "ClockWentBack",
        fmt::format("The clock is behind the last settlement at {}: the balance stands still until "
                    "then",
                    state::FormatMilliTime(last))));
  }
  const api::CreditAccountStatus status = StatusOf(*node, account, *object, now);
  const absl::Time due = last == absl::InfinitePast()
                             ? now
                             : NextWrite(key.name, last, world.credits().WriteInterval());
  const bool moved = status.balance != object->status.balance;
  if (RatesChanged(object->status, status) || (moved && now >= due)) {
    plan.Add(StatusAction(api::Kind::kCreditAccount, object->metadata, status));
    return plan;
  }
  // With a full bank, or without anything in it, nothing changes by time alone.
  CreditAccount later = account;
  later.Settle(std::max(now, account.last_settled()) + absl::Hours(1));
  if (moved || later.balance() != account.balance()) plan.RecheckAt(std::max(due, now));
  return plan;
}

}  // namespace sluice::reconcile
