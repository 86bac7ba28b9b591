#include "admission/backfill_pass.h"

#include <algorithm>

#include "admission/conditions.h"
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
  if (needs_place) ListEndings();
  for (const Ending& ending : endings_) profile_.AddInstant(ending.at);
  profile_.Build(std::move(queues), std::move(cells));
}

void BackfillPass::ListEndings() {
  for (const auto& [name, queue] : snapshot_.cluster_queues) {
    for (const ReservedWorkload* one : snapshot_.reserved.Of(name)) {
      const absl::Time at = DeadlineOf(*one);
      if (at != absl::InfiniteFuture()) endings_.push_back({at, one});
    }
  }
  std::sort(endings_.begin(), endings_.end(), [](const Ending& a, const Ending& b) {
    if (a.at != b.at) return a.at < b.at;
    return a.workload->Key() < b.workload->Key();
  });
}

absl::Duration BackfillPass::BoundFrom(const Item& item) const {
  return queueing::BoundOf(*item.info->workload).value_or(absl::InfiniteDuration());
}

// The first step from which on there are places for the option; the more has ended, the more there
// are.
std::optional<size_t> BackfillPass::PlaceStep(const Item& item, size_t option) const {
  std::vector<preemption::Target> gone;
  const auto fits = [&](size_t ended) {
    gone.clear();
    for (size_t i = 0; i < ended; ++i) gone.push_back({endings_[i].workload});
    return nominator_.PlaceFits(*item.info, (*item.options)[option], gone);
  };
  if (!fits(endings_.size())) return std::nullopt;
  size_t low = 0;
  size_t high = endings_.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (fits(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low == 0 ? 1 : std::max<size_t>(1, profile_.StepAt(endings_[low - 1].at));
}

std::optional<BackfillProfile::Fit> BackfillPass::FitWithPlace(const Plan& plan,
                                                               const Item& item) const {
  std::optional<BackfillProfile::Fit> best;
  for (size_t option = 0; option < item.requests.size(); ++option) {
    const auto from = PlaceStep(item, option);
    if (!from) continue;
    auto fit = profile_.EarliestFit(*plan.queue, {item.requests[option]}, BoundFrom(item), *from);
    if (!fit || (best && best->step <= fit->step)) continue;
    fit->option = option;
    best = fit;
  }
  return best;
}

// It does not start now: not before the second step.
void BackfillPass::Reserve(Plan& plan, size_t index) {
  Item& item = plan.items[index];
  const auto fit = item.needs_place && index == plan.head
                       ? FitWithPlace(plan, item)
                       : profile_.EarliestFit(*plan.queue, item.requests, BoundFrom(item), 1);
  if (!fit) return ReserveUnknown(plan, item);
  item.reservation = Reservation{plan.name, fit->at};
  profile_.Reserve(*plan.queue, item.requests[fit->option], *fit, BoundFrom(item));
  if (item.needs_place) places_until_ = std::min(places_until_, fit->at);
}

// The first that waits gets a reservation in any case.
void BackfillPass::Stays(Plan& plan, size_t index) {
  const bool first = !plan.head.has_value();
  if (first) plan.head = index;
  if (first || plan.policy.mode == queueing::BackfillMode::kConservative) Reserve(plan, index);
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
  for (; plan_ < plans_.size(); ++plan_, item_ = 0) {
    Plan& plan = plans_[plan_];
    for (; item_ < plan.items.size(); ++item_) {
      if (plan.head == item_) continue;
      const Item& item = plan.items[item_];
      for (size_t option = 0; option < item.requests.size(); ++option) {
        if (!Passes(plan, item, item.requests[option])) continue;
        Candidate candidate{item.info, &(*item.options)[option], {}, plan_, item_++};
        candidate.note.before = plan.top;
        candidate.note.ends_at = item.ends_at;
        if (plan.head) {
          const Item& head = plan.items[*plan.head];
          candidate.note.before = head.info->Key().ToString();
          candidate.note.reserved_at = head.reservation->at;
        }
        return candidate;
      }
      if (plan.head) Hold(plan, item);
      Stays(plan, item_);
    }
  }
  return std::nullopt;
}

// Says so where it would fit now if nothing was reserved.
void BackfillPass::Hold(const Plan& plan, const Item& item) {
  const bool fits = std::any_of(
      item.requests.begin(), item.requests.end(),
      [&](const CellAmounts& request) { return quota::Tree::Fits(*plan.queue, request); });
  if (!fits) return;
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
  profile_.Start(*plan.queue, usage, plan.items[candidate.item].ends_at);
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
