#include "sim/quota_invariants.h"

#include <fmt/format.h>

#include <algorithm>

#include "admission/still_refused.h"
#include "api/names.h"
#include "preemption/preemption.h"
#include "queueing/workload_info.h"
#include "resource/quantity.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using Victim = admission::Decision::Victim;

// Longer than a write of the controller can be on its way.
constexpr absl::Duration kGrace = absl::Seconds(45);

NaiveTree::Amounts AmountsOf(const FlavorResourceAmounts& usage) {
  NaiveTree::Amounts amounts;
  for (const auto& [cell, amount] : usage) {
    amounts[cell.flavor + "/" + cell.resource] = QuantityOf(cell.resource, amount).MilliValue();
  }
  return amounts;
}

// What a slice of an elastic job has already by the one whose place it takes.
int64_t HeldAlready(const flavor::PodSetAssignment& pod_set, const ResourceName& resource) {
  const auto held = pod_set.held.find(resource);
  return held == pod_set.held.end() ? 0 : QuantityOf(resource, held->second).MilliValue();
}

// Of a preemption decision.
class PreemptionCheck {
 public:
  PreemptionCheck(const state::World& world, const admission::Decision& decision)
      : world_(world), decision_(decision), queue_(decision.info->cluster_queue) {
    for (const auto& [key, queue] : world.cluster_queues().all()) {
      tree_.AddQueue(key.name, queue->spec.cohort_name,
                     NaiveTree::CellsOf(queue->spec.resource_groups));
    }
    for (const auto& [key, cohort] : world.cohorts().all()) {
      tree_.AddCohort(key.name, cohort->spec.parent_name,
                      NaiveTree::CellsOf(cohort->spec.resource_groups));
    }
    policies_ = preemption::PoliciesOf(world.cluster_queues().Find({"", queue_})->spec);
    for (const auto& pod_set : decision.explanation.pod_sets) {
      for (const auto& [resource, choice] : pod_set.flavors) {
        wanted_[choice.flavor + "/" + resource] +=
            QuantityOf(resource, pod_set.requests.at(resource)).MilliValue() -
            HeldAlready(pod_set, resource);
      }
    }
  }

  Violations Run() {
    Book();
    for (const Victim& victim : decision_.victims) CheckVictim(victim);
    for (const auto& [key, leaving] : leaving_) tree_.Use(leaving.queue, leaving.usage, -1);
    if (!tree_.Fits(queue_, wanted_)) {
      Broken("does not fit when its {} victims have gone", decision_.victims.size());
    }
    CheckLast();
    return std::move(broken_);
  }

 private:
  struct Held {
    std::string queue;
    NaiveTree::Amounts usage;
  };

  template <typename... Args>
  void Broken(fmt::format_string<Args...> text, Args&&... args) {
    broken_.push_back(fmt::format("{} in ClusterQueue {} {}", decision_.info->Key().ToString(),
                                  queue_, fmt::format(text, std::forward<Args>(args)...)));
  }

  // Everything that holds quota; what leaves is remembered.
  void Book() {
    for (const auto& [key, stored] : world_.workloads().all()) {
      const auto workload = world_.AssumedOrStored(key);
      if (!queueing::HoldsQuota(*workload) || !workload->status.admission ||
          world_.TakenOverBy(key) != nullptr || world_.IsParent(*workload)) {
        continue;
      }
      const Held held{workload->status.admission->cluster_queue,
                      AmountsOf(queueing::AdmittedUsage(
                          *workload, world_.settings().gates.Enabled("ReclaimablePods")))};
      tree_.Use(held.queue, held.usage);
      const bool chosen =
          std::any_of(decision_.victims.begin(), decision_.victims.end(),
                      [&key = key](const Victim& victim) { return victim.workload->Key() == key; });
      if (chosen || world_.IsEvictionAssumed(key) ||
          api::IsTrue(workload->status.conditions, api::kEvicted)) {
        leaving_[key] = held;
        others_leave_ = others_leave_ || !chosen;
      }
    }
  }

  void CheckVictim(const Victim& victim) {
    const preemption::ReservedWorkload& workload = *victim.workload;
    const std::string name = workload.Key().ToString();
    const bool own = workload.cluster_queue == queue_;
    const int64_t priority = decision_.info->priority;
    using preemption::Policy;
    const Policy policy = own ? policies_.within_cluster_queue : policies_.reclaim_within_cohort;
    const bool newer = workload.queue_order_time > decision_.info->queue_order_time;
    const bool allowed =
        policy == Policy::kAny ||
        (policy == Policy::kLowerPriority && workload.priority < priority) ||
        (policy == Policy::kLowerOrNewerEqualPriority &&
         (workload.priority < priority || (workload.priority == priority && newer)));
    if (!allowed) Broken("may not preempt {} by its policies", name);
    if (own != (victim.reason == preemption::Reason::kInClusterQueue)) {
      Broken("preempts {} of {} for the reason {}", name, workload.cluster_queue,
             preemption::ReasonName(victim.reason));
    }
    if (victim.reason == preemption::Reason::kInCohortReclaimWhileBorrowing &&
        (workload.priority >= priority ||
         workload.priority > policies_.max_priority_threshold.value_or(workload.priority))) {
      Broken("may not preempt {} while it borrows", name);
    }
    if (tree_.RootOf(workload.cluster_queue) != tree_.RootOf(queue_)) {
      Broken("preempts {} in another tree", name);
    }
    const bool above = std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& wanted) {
      return tree_.Used(workload.cluster_queue, wanted.first) >
             tree_.Nominal(workload.cluster_queue, wanted.first);
    });
    if (!own && !above && !Expects(workload.cluster_queue)) {
      Broken("preempts {} in a ClusterQueue within its quota", name);
    }
  }

  // One of its workloads waits for room that is being made, which counts as its usage in the cycle.
  bool Expects(const std::string& cluster_queue) const {
    const std::vector<queueing::PendingWorkload> pending = world_.queues().Snapshot(cluster_queue);
    return std::any_of(pending.begin(), pending.end(), [&](const auto& one) {
      return world_.queues().IsPreemptor(one.info->Key());
    });
  }

  // Where nothing else is going on, the last victim must be needed. Fair sharing may want more than
  // room, and a preemptor that may not borrow more than a fit: only what is certain is judged.
  void CheckLast() {
    if (decision_.victims.empty() || others_leave_ || world_.settings().fair_sharing) return;
    // It may have been preempted for its place on a node, not for its quota.
    const auto needs_place = [&](const auto& pod_set) {
      return std::any_of(pod_set.flavors.begin(), pod_set.flavors.end(), [&](const auto& choice) {
        const auto flavor = world_.flavors().Find({"", choice.second.flavor});
        return flavor != nullptr && !flavor->spec.topology_name.empty();
      });
    };
    const auto& pod_sets = decision_.explanation.pod_sets;
    if (std::any_of(pod_sets.begin(), pod_sets.end(), needs_place)) return;
    for (const auto& [key, queue] : world_.cluster_queues().all()) {
      if (key.name != queue_ && tree_.RootOf(key.name) == tree_.RootOf(queue_) &&
          world_.queues().Pending(key.name).Total() > 0) {
        return;
      }
    }
    const Held& last = leaving_[decision_.victims.back().workload->Key()];
    tree_.Use(last.queue, last.usage);
    const bool within = std::all_of(wanted_.begin(), wanted_.end(), [&](const auto& wanted) {
      return tree_.Used(queue_, wanted.first) + wanted.second <=
             tree_.Nominal(queue_, wanted.first);
    });
    if (within && tree_.Fits(queue_, wanted_)) {
      Broken("would fit without preempting {}",
             decision_.victims.back().workload->Key().ToString());
    }
  }

  const state::World& world_;
  const admission::Decision& decision_;
  const std::string queue_;
  preemption::Policies policies_;
  NaiveTree tree_;
  NaiveTree::Amounts wanted_;
  absl::btree_map<ObjectKey, Held> leaving_;
  bool others_leave_ = false;
  Violations broken_;
};

// A policy with burst limits may raise borrowing limits; whether a bank is empty is not judged
// here.
void RaiseToBurst(const ApiServer& api, NaiveTree::Cells& cells) {
  api.ForEach(Kind::kCreditPolicy, [&](const Json& policy) {
    const Json* bursts = policy.Find("spec", "burstLimit");
    if (bursts == nullptr) return;
    for (const Json& burst : bursts->AsArray()) {
      NaiveTree::RaiseBorrowing(cells, burst);
    }
  });
}

}  // namespace

Violations TreeWatch::Check(const ApiServer& api, absl::Time now) {
  std::string limits;
  for (const Kind kind : {Kind::kClusterQueue, Kind::kCohort}) {
    api.ForEach(kind, [&](const Json& object) {
      limits += fmt::format("{} {};", object.GetString("metadata", "name"),
                            object.Find("metadata", "generation")->AsInt());
    });
  }
  if (limits != limits_) judge_from_ = now + kGrace;
  limits_ = limits;
  absl::btree_map<std::string, int64_t> usage = HeldQuota(api);
  std::vector<std::string> grown;
  for (const auto& [cell, amount] : usage) {
    const auto before = last_.find(cell);
    if (before == last_.end() || before->second < amount) grown.push_back(cell);
  }
  last_ = std::move(usage);
  if (now < judge_from_ || grown.empty()) return {};
  NaiveTree tree;
  api.ForEach(Kind::kClusterQueue, [&](const Json& queue) {
    NaiveTree::Cells cells = NaiveTree::CellsOf(*queue.Find("spec"));
    RaiseToBurst(api, cells);
    tree.AddQueue(queue.GetString("metadata", "name"), queue.GetString("spec", "cohortName"),
                  cells);
  });
  api.ForEach(Kind::kCohort, [&](const Json& cohort) {
    const Json* spec = cohort.Find("spec");
    tree.AddCohort(cohort.GetString("metadata", "name"), cohort.GetString("spec", "parentName"),
                   spec == nullptr ? NaiveTree::Cells() : NaiveTree::CellsOf(*spec));
  });
  const auto split = [](const std::string& cell) {
    const size_t slash = cell.find('/');
    return std::make_pair(cell.substr(0, slash), cell.substr(slash + 1));
  };
  for (const auto& [key, amount] : last_) {
    const auto [queue, cell] = split(key);
    if (tree.Has(queue)) tree.Use(queue, {{cell, amount}});
  }
  Violations broken;
  for (const std::string& key : grown) {
    const auto [queue, cell] = split(key);
    if (!tree.Has(queue) || tree.RootOf(queue).empty()) continue;
    for (std::string& text : tree.AboveLimits(queue, cell)) broken.push_back(std::move(text));
  }
  return broken;
}

Violations CheckPreemption(const state::World& world, const admission::Decision& decision) {
  const bool issued = std::any_of(decision.victims.begin(), decision.victims.end(),
                                  [](const Victim& victim) { return !victim.ongoing; });
  // Decisions whose victims were chosen in an earlier cycle of the same round describe another
  // state of the tree.
  const bool migrates = std::any_of(
      decision.victims.begin(), decision.victims.end(),
      [](const Victim& victim) { return victim.reason == preemption::Reason::kFlavorMigration; });
  if (migrates || !issued || decision.kind != admission::Decision::Kind::kPreempt) return {};
  return PreemptionCheck(world, decision).Run();
}

Violations CheckStillRefused(const admission::Snapshot& snapshot,
                             const admission::Decision& decision) {
  if (decision.kind != admission::Decision::Kind::kAdmit ||
      !admission::StillRefused(snapshot, *decision.info)) {
    return {};
  }
  return {fmt::format("{} was admitted, but would be passed over under load",
                      decision.info->Key().ToString())};
}

}  // namespace sluice::sim
