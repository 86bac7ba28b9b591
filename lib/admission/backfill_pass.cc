#include "admission/backfill_pass.h"

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "quota/overlay.h"

namespace sluice::admission {
namespace {

using preemption::ReservedWorkload;
using quota::CellAmounts;
using Verdict = Explanation::Verdict;

bool HasChecks(const api::ClusterQueue& cluster_queue) {
  return !RequiredChecks(cluster_queue, nullptr).empty() ||
         cluster_queue.spec.admission_checks_strategy.has_value();
}

// It waits, as it says, only for what is reserved for others.
bool SaysHeld(const api::Workload& workload) {
  const api::Condition* condition =
      api::FindCondition(workload.status.conditions, api::kQuotaReserved);
  return condition != nullptr && condition->status == api::ConditionStatus::kFalse &&
         condition->reason == kWaitsForReservation;
}

absl::Time DeadlineOf(const ReservedWorkload& workload) {
  return queueing::DeadlineOf(*workload.workload, workload.started_at, workload.evicted);
}

}  // namespace

BackfillPass::BackfillPass(Snapshot& snapshot, const queueing::QueueManager& queues, Places& places,
                           absl::Time now, const std::string& cluster_queue)
    : snapshot_(snapshot),
      queues_(queues),
      nominator_(snapshot, &queues, places),
      places_(places),
      now_(now),
      profile_(now) {
  for (const std::string& name : Concerned(cluster_queue)) AddPlan(name);
  FindOptions();
  std::erase_if(plans_, [](const Plan& plan) { return plan.items.empty(); });
  std::sort(plans_.begin(), plans_.end(), [](const Plan& a, const Plan& b) {
    return queueing::OrderedBefore(*a.items.front().info, *b.items.front().info);
  });
  BuildProfile();
  for (Plan& plan : plans_) {
    if (plan.items.front().info->Key().ToString() == plan.top) Stays(plan, 0);
  }
}

// ClusterQueues with backfill that share quota, or nodes, with that one, and whose head waits.
std::vector<std::string> BackfillPass::Concerned(const std::string& cluster_queue) const {
  std::vector<std::string> names;
  const auto root = [&](const std::string& name) -> const quota::Node* {
    const quota::Node* node = snapshot_.tree.FindQueue(name);
    return node == nullptr || !quota::Tree::Sound(*node) ? nullptr : &node->Root();
  };
  const quota::Node* mine = root(cluster_queue);
  const bool places = places_.Concern(cluster_queue);
  for (const std::string& name : queues_.BackfillQueues()) {
    if (!queues_.WaitingQueues().contains(name) || root(name) == nullptr) continue;
    if (root(name) == mine || (places && places_.Concern(name))) names.push_back(name);
  }
  return names;
}

void BackfillPass::AddPlan(const std::string& name) {
  const ClusterQueueSnapshot* found = snapshot_.FindClusterQueue(name);
  if (found == nullptr) return;
  Plan plan;
  plan.name = name;
  plan.policy = queueing::BackfillOf(*found->cluster_queue);
  plan.queue = snapshot_.tree.FindQueue(name);
  plan.checks = HasChecks(*found->cluster_queue);
  const bool easy = plan.policy.mode == queueing::BackfillMode::kEasy;
  for (auto& info : queues_.First(name, plan.policy.depth + (easy ? 1 : 0))) {
    if (plan.top.empty()) plan.top = info->Key().ToString();
    if (nominator_.Barred(*info)) continue;
    Item item;
    item.ends_at = plan.checks ? absl::InfiniteFuture() : queueing::EndOf(*info->workload, now_);
    item.info = std::move(info);
    plan.items.push_back(std::move(item));
  }
  names_.insert(name);
  roots_.insert(&plan.queue->Root());
  plans_.push_back(std::move(plan));
}

// In an idle tree; equal workloads get equal options.
void BackfillPass::FindOptions() {
  quota::Overlay idle;
  for (const auto& [name, queue] : snapshot_.cluster_queues) {
    quota::Node* node = snapshot_.tree.FindQueue(name);
    if (node == nullptr || !quota::Tree::Sound(*node) || !roots_.contains(&node->Root())) continue;
    for (const ReservedWorkload* one : snapshot_.reserved.Of(name)) idle.Remove(*node, one->usage);
  }
  using Shape = std::pair<std::string, queueing::EquivalenceClass>;
  absl::btree_map<Shape, const std::vector<flavor::Assignment>*> known;
  for (Plan& plan : plans_) {
    for (Item& item : plan.items) {
      const auto [shape, added] = known.insert({{plan.name, item.info->equivalence}, nullptr});
      if (added || item.info->equivalence == queueing::EquivalenceClass()) {
        shape->second = &options_.emplace_back(nominator_.Options(item.info));
      }
      item.options = shape->second;
    }
  }
  for (Plan& plan : plans_) {
    for (Item& item : plan.items) {
      for (const flavor::Assignment& option : *item.options) {
        item.requests.push_back(snapshot_.tree.IdsOf(option.usage));
        if (!places_.Concern(plan.name)) continue;
        for (const auto& [cell, amount] : option.usage) {
          item.needs_place = item.needs_place || snapshot_.HasTopology(cell.flavor);
        }
      }
    }
    std::erase_if(plan.items, [](const Item& item) { return item.options->empty(); });
  }
}

void BackfillPass::BuildProfile() {
  std::vector<quota::Node*> queues;
  std::vector<quota::CellId> cells;
  bool needs_place = false;
  for (const Plan& plan : plans_) {
    queues.push_back(plan.queue);
    for (const Item& item : plan.items) {
      needs_place = needs_place || item.needs_place;
      for (const CellAmounts& request : item.requests) {
        for (const quota::CellAmount& one : request) cells.push_back(one.cell);
      }
    }
  }
  for (const auto& [name, queue] : snapshot_.cluster_queues) {
    quota::Node* node = snapshot_.tree.FindQueue(name);
    if (node == nullptr || !quota::Tree::Sound(*node) || !roots_.contains(&node->Root())) continue;
    for (const ReservedWorkload* one : snapshot_.reserved.Of(name)) {
      profile_.AddRunning(*node, one->usage, DeadlineOf(*one));
    }
  }
  if (needs_place) ListPlaces();
  profile_.Build(std::move(queues), std::move(cells));
}

// A step begins also where something ends that only gives places back.
void BackfillPass::ListPlaces() {
  nodes_.emplace(*snapshot_.topology);
  for (const auto& [name, queue] : snapshot_.cluster_queues) {
    for (const ReservedWorkload* one : snapshot_.reserved.Of(name)) {
      if (const auto* booking = places_.UsageOf(*one)) {
        nodes_->AddRunning(DeadlineOf(*one), *booking);
      }
    }
  }
  for (const absl::Time at : nodes_->Endings()) profile_.AddInstant(at);
  search_.emplace(*snapshot_.topology, *nodes_);
}

absl::Duration BackfillPass::BoundFrom(const Item& item) const {
  return queueing::BoundOf(*item.info->workload).value_or(absl::InfiniteDuration());
}

BackfillPass::Wish& BackfillPass::WishOf(const Item& item, size_t option) {
  const auto [known, added] = wishes_.insert({WishKey{item.options, option}, {}});
  Wish& wish = known->second;
  if (!added) return wish;
  auto request = nominator_.PlacesAskedBy(*item.info, (*item.options)[option]);
  wish.possible = request.has_value();
  if (!wish.possible || request->pod_sets.empty()) return wish;
  wish.question = &search_->Prepare(*std::move(request));
  wish.not_before = search_->NotBefore(*wish.question);
  return wish;
}

// Each step from there on is tried. Where counting does not tell, after some that were in vain
// fewer and fewer of them are, so that one workload never costs many looks.
std::optional<BackfillPass::Start> BackfillPass::FindPlace(const Plan& plan, const Item& item,
                                                           size_t option, size_t before) {
  constexpr size_t kEachStep = 16;
  const absl::Duration bound = BoundFrom(item);
  Wish& wish = WishOf(item, option);
  if (!wish.possible || wish.not_before == absl::InfiniteFuture()) return std::nullopt;
  std::optional<BackfillProfile::Fit> fit;  // by quota, the first one that is not before `step`
  size_t stride = 1;
  size_t in_vain = 0;
  for (size_t step = std::max<size_t>(1, profile_.StepAt(wish.not_before)); step < before;) {
    const absl::Time from = profile_.TimeOf(step);
    if (wish.question != nullptr && search_->RuledOut(*wish.question, from, from + bound)) {
      ++step;
      continue;
    }
    if (!fit || fit->step < step) {
      fit = profile_.EarliestFit(*plan.queue, {item.requests[option]}, bound, step);
    }
    if (!fit || fit->step >= before) return std::nullopt;
    if (fit->step > step) {
      step = fit->step;
      continue;
    }
    fit->option = option;
    if (wish.question == nullptr) return Start{*fit, {}};
    if (stride == 1) {
      const absl::Time none = search_->RuledOutUpTo(*wish.question, from, from + bound);
      while (step < before && profile_.TimeOf(step) <= none) ++step;
      if (from <= none) continue;
    }
    const size_t asked = search_->asked();
    if (auto taken = search_->Look(*wish.question, from, from + bound)) {
      if (stride == 1) wish.not_before = from;
      return Start{*fit, *std::move(taken)};
    }
    if (search_->asked() > asked && ++in_vain > kEachStep) stride *= 2;
    step += stride;
  }
  return std::nullopt;
}

bool BackfillPass::LookedEnough() const {
  return search_->asked() >= kMostAsked || nodes_->changes() >= kMostChanges;
}

std::optional<BackfillPass::Start> BackfillPass::FindStart(const Plan& plan, const Item& item) {
  // Behind the heads quota has to do once many were looked at.
  const bool enough = item.needs_place && plan.head.has_value() && LookedEnough();
  if (!item.needs_place || enough) {
    const auto fit = profile_.EarliestFit(*plan.queue, item.requests, BoundFrom(item), 1);
    return fit ? std::optional<Start>({*fit, {}}) : std::nullopt;
  }
  std::optional<Start> best;
  for (size_t option = 0; option < item.requests.size(); ++option) {
    const size_t before = best ? best->fit.step : profile_.steps();
    if (auto start = FindPlace(plan, item, option, before)) best = std::move(start);
  }
  return best;
}

// On nodes on which nothing of ours runs.
bool BackfillPass::CouldBePlaced(const Item& item) {
  if (!item.needs_place) return true;
  for (size_t option = 0; option < item.options->size(); ++option) {
    const Wish& wish = WishOf(item, option);
    if (!wish.possible) continue;
    if (wish.question == nullptr || search_->EverFits(*wish.question)) return true;
  }
  return false;
}

// It does not start now: not before the second step. False: it never could.
bool BackfillPass::Reserve(Plan& plan, Item& item) {
  auto start = FindStart(plan, item);
  if (!start) {
    if (!CouldBePlaced(item)) return false;
    ReserveUnknown(plan, item);
    return true;
  }
  const BackfillProfile::Fit& fit = start->fit;
  const absl::Duration bound = BoundFrom(item);
  const absl::Time from = profile_.TimeOf(fit.step);
  item.reservation = Reservation{plan.name, fit.at};
  profile_.Reserve(*plan.queue, item.requests[fit.option], fit, bound);
  if (item.needs_place) {
    nodes_->Reserve(std::move(start->taken), from, from + bound);
    places_until_ = std::min(places_until_, fit.at);
  }
  return true;
}

// The first that waits gets a reservation in any case.
void BackfillPass::Stays(Plan& plan, size_t index) {
  const bool first = !plan.head.has_value();
  if (!first && plan.policy.mode != queueing::BackfillMode::kConservative) return;
  if (Reserve(plan, plan.items[index]) && first) plan.head = index;
}

void BackfillPass::ReserveUnknown(Plan& plan, Item& item) {
  item.reservation = Reservation{plan.name, std::nullopt};
  if (plan.policy.allow_unknown) return;
  for (const CellAmounts& request : item.requests) {
    for (const quota::CellAmount& one : request) {
      unknown_.insert({one.cell, item.info->Key().ToString()});
    }
  }
  if (item.needs_place) places_until_ = absl::InfinitePast();
}

bool BackfillPass::Passes(const Plan& plan, const Item& item, const CellAmounts& usage) const {
  if (item.needs_place && item.ends_at > places_until_) return false;
  for (const quota::CellAmount& one : usage) {
    if (unknown_.contains(one.cell)) return false;
  }
  return profile_.FitsUntil(*plan.queue, usage, item.ends_at);
}

std::optional<BackfillPass::Candidate> BackfillPass::Next() {
  auto candidate = Advance();
  if (nodes_) nodes_->Restore();
  return candidate;
}

std::optional<BackfillPass::Candidate> BackfillPass::Advance() {
  for (; plan_ < plans_.size(); ++plan_, item_ = 0) {
    Plan& plan = plans_[plan_];
    for (; item_ < plan.items.size(); ++item_) {
      if (plan.head == item_) continue;
      if (auto candidate = CandidateOf(plan)) {
        ++item_;
        return candidate;
      }
      if (plan.head) Hold(plan, plan.items[item_]);
      Stays(plan, item_);
    }
  }
  return std::nullopt;
}

// The item at which it stands, with the first option that delays nobody.
std::optional<BackfillPass::Candidate> BackfillPass::CandidateOf(const Plan& plan) const {
  const Item& item = plan.items[item_];
  for (size_t option = 0; option < item.requests.size(); ++option) {
    if (!Passes(plan, item, item.requests[option])) continue;
    Candidate candidate{item.info, &(*item.options)[option], {}, plan_, item_};
    candidate.note.before = plan.top;
    candidate.note.ends_at = item.ends_at;
    if (plan.head) {
      const Item& head = plan.items[*plan.head];
      candidate.note.before = head.info->Key().ToString();
      candidate.note.reserved_at = head.reservation->at;
    }
    return candidate;
  }
  return std::nullopt;
}

// Says so where it would fit now if nothing was reserved. Where the Workload says so and that is no
// longer all there is to it, it is told what it lacks now.
void BackfillPass::Hold(const Plan& plan, const Item& item) {
  const bool fits = std::any_of(
      item.requests.begin(), item.requests.end(),
      [&](const CellAmounts& request) { return quota::Tree::Fits(*plan.queue, request); });
  if (!fits && !SaysHeld(*item.info->workload)) return;
  if (!fits) {
    if (nodes_) nodes_->Restore();
    Entry entry = nominator_.Nominate(item.info);
    if (!entry.nominated) return;
    const bool never = entry.assignment.mode == flavor::Mode::kNoFit;
    Wait(entry.decision, never ? Verdict::kNoFit : Verdict::kNoCandidates,
         queueing::RequeueReason::kNoFit);
    held_.push_back(std::move(entry.decision));
    return;
  }
  const Item& head = plan.items[*plan.head];
  Decision decision;
  decision.info = item.info;
  decision.explanation.cluster_queue = plan.name;
  decision.explanation.held_by = head.info->Key().ToString();
  decision.explanation.held_until = head.reservation->at;
  Wait(decision, Verdict::kReserved, queueing::RequeueReason::kGeneric);
  held_.push_back(std::move(decision));
}

bool BackfillPass::Allows(const Candidate& candidate, const CellAmounts& usage) const {
  const Plan& plan = plans_[candidate.plan];
  return Passes(plan, plan.items[candidate.item], usage);
}

void BackfillPass::Started(const Candidate& candidate, const CellAmounts& usage) {
  Plan& plan = plans_[candidate.plan];
  const Item& item = plan.items[candidate.item];
  profile_.Start(*plan.queue, usage, item.ends_at);
  if (!nodes_) return;
  const ReservedWorkload* started = snapshot_.reserved.Find(item.info->Key());
  const auto* places = started == nullptr ? nullptr : places_.UsageOf(*started);
  if (places == nullptr) return;
  nodes_->AddRunning(item.ends_at, *places);
  search_->AddEnding(item.ends_at);
}

void BackfillPass::Refused(const Candidate& candidate) {
  Stays(plans_[candidate.plan], candidate.item);
}

void BackfillPass::Report(Reservations* reservations) const {
  if (reservations == nullptr) return;
  for (const std::string& name : names_) reservations->queues[name] = 0;
  for (const Plan& plan : plans_) {
    for (const Item& item : plan.items) {
      if (!item.reservation) continue;
      ++reservations->queues[plan.name];
      reservations->by_workload.insert_or_assign(item.info->Key(), *item.reservation);
    }
  }
}

}  // namespace sluice::admission
