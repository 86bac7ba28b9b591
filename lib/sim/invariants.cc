#include "sim/invariants.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "api/codec.h"
#include "api/names.h"
#include "queueing/workload_info.h"
#include "resource/quantity.h"
#include "sim/place_invariants.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

bool ConditionTrue(const Json& object, const char* type) {
  const Json* conditions = object.Find("status", "conditions");
  if (conditions == nullptr) return false;
  const auto& list = conditions->AsArray();
  return std::any_of(list.begin(), list.end(), [&](const Json& condition) {
    return condition.GetString("type") == type && condition.GetString("status") == "True";
  });
}

// Finished or deactivated Workloads hold nothing, whatever their conditions say; what the parent of
// variants shows is held by one of those.
bool Holds(const Json& workload) {
  if (!workload.GetString("metadata", "labels", api::kConcurrentAdmissionParent).empty()) {
    return false;
  }
  const Json* active = workload.Find("spec", "active");
  return ConditionTrue(workload, api::kQuotaReserved) && !ConditionTrue(workload, api::kFinished) &&
         (active == nullptr || active->AsBool(true));
}

int64_t Milli(const Json& quantity) {
  const std::string text = quantity.IsString() ? quantity.AsString() : quantity.Text();
  const auto parsed = Quantity::Parse(text);
  return parsed.ok() ? parsed->MilliValue() : 0;
}

// The pods of the pod set in the spec; without such a pod set there is no bound.
int64_t CountOf(const Json& workload, const std::string& pod_set) {
  int64_t count = std::numeric_limits<int64_t>::max();
  if (const Json* pod_sets = workload.Find("spec", "podSets")) {
    for (const Json& item : pod_sets->AsArray()) {
      if (item.GetString("name") != pod_set) continue;
      if (const Json* value = item.Find("count")) count = value->AsInt();
    }
  }
  return count;
}

int64_t Reclaimed(const Json& workload, const std::string& pod_set) {
  if (const Json* pods = workload.Find("status", "reclaimablePods")) {
    for (const Json& item : pods->AsArray()) {
      if (item.GetString("name") == pod_set) return item.Find("count")->AsInt();
    }
  }
  return 0;
}

void AddUsage(const Json& workload, absl::btree_map<std::string, int64_t>& usage) {
  const std::string queue = workload.GetString("status", "admission", "clusterQueue");
  const Json* assignments = workload.Find("status", "admission", "podSetAssignments");
  if (assignments == nullptr) return;
  for (const Json& assignment : assignments->AsArray()) {
    const std::string name = assignment.GetString("name");
    const Json* flavors = assignment.Find("flavors");
    const Json* amounts = assignment.Find("resourceUsage");
    if (flavors == nullptr || amounts == nullptr) continue;
    const Json* assigned = assignment.Find("count");
    const int64_t count = assigned == nullptr ? CountOf(workload, name) : assigned->AsInt();
    // A pod set that shrank in place holds what it still asks for.
    const int64_t asked = std::min(count, CountOf(workload, name));
    const int64_t kept = std::max<int64_t>(asked - Reclaimed(workload, name), 0);
    for (const auto& [resource, amount] : amounts->AsObject()) {
      const std::string flavor = flavors->GetString(resource);
      const int64_t total = Milli(amount);
      usage[fmt::format("{}/{}/{}", queue, flavor, resource)] +=
          count == 0 ? 0 : total / count * kept;
    }
  }
}

std::string NameOf(const Json& workload) {
  return workload.GetString("metadata", "namespace") + "/" + workload.GetString("metadata", "name");
}

// Workloads whose place a slice of the same elastic job took. Both hold a reservation until the old
// one has ended, but what the new one holds is all that the job has.
std::set<std::string> TakenOver(const ApiServer& api) {
  std::map<std::string, std::string> taken;  // and the ClusterQueue of the new one
  api.ForEach(Kind::kWorkload, [&](const Json& workload) {
    const std::string old =
        workload.GetString("metadata", "annotations", api::kWorkloadSliceReplacementFor);
    if (old.empty() || !Holds(workload)) return;
    taken.emplace(old, workload.GetString("status", "admission", "clusterQueue"));
  });
  std::set<std::string> names;
  if (taken.empty()) return names;
  api.ForEach(Kind::kWorkload, [&](const Json& workload) {
    const auto found = taken.find(NameOf(workload));
    if (found != taken.end() && !ConditionTrue(workload, api::kEvicted) &&
        workload.GetString("status", "admission", "clusterQueue") == found->second) {
      names.insert(found->first);
    }
  });
  return names;
}

}  // namespace

absl::btree_map<std::string, int64_t> HeldQuota(const ApiServer& api) {
  absl::btree_map<std::string, int64_t> usage;
  const std::set<std::string> taken_over = TakenOver(api);
  api.ForEach(Kind::kWorkload, [&](const Json& workload) {
    if (Holds(workload) && !taken_over.contains(NameOf(workload))) AddUsage(workload, usage);
  });
  return usage;
}

Violations QuotaWatch::Check(const ApiServer& api) {
  absl::btree_map<std::string, int64_t> usage = HeldQuota(api);
  absl::btree_map<std::string, int64_t> quota;
  api.ForEach(Kind::kClusterQueue, [&](const Json& queue) {
    const Json* groups = queue.Find("spec", "resourceGroups");
    if (groups == nullptr || !queue.GetString("spec", "cohortName").empty()) return;
    for (const Json& group : groups->AsArray()) {
      for (const Json& flavor : group.Find("flavors")->AsArray()) {
        for (const Json& resource : flavor.Find("resources")->AsArray()) {
          quota[fmt::format("{}/{}/{}", queue.GetString("metadata", "name"),
                            flavor.GetString("name"), resource.GetString("name"))] =
              Milli(*resource.Find("nominalQuota"));
        }
      }
    }
  });
  Violations broken;
  for (const auto& [cell, used] : usage) {
    const auto limit = quota.find(cell);
    if (limit == quota.end() || used <= limit->second) continue;
    const auto last = last_.find(cell);
    if (last != last_.end() && used <= last->second) continue;
    broken.push_back(
        fmt::format("{} milli of {} are reserved, the quota is {}", used, cell, limit->second));
  }
  last_ = std::move(usage);
  return broken;
}

Violations GangWatch::Check(const ApiServer& api) {
  Violations violations;
  if (!api.features().pod_groups) return violations;  // then nobody promises it
  absl::btree_map<ObjectKey, int64_t> bound;
  absl::btree_map<ObjectKey, int64_t> done;
  api.ForEach(Kind::kPod, [&](const Json& pod) {
    const std::string group = pod.GetString("spec", "schedulingGroup", "podGroupName");
    if (group.empty() || pod.GetString("spec", "nodeName").empty()) return;
    const ObjectKey key{pod.GetString("metadata", "namespace"), group};
    ++(pod.GetString("status", "phase") == "Succeeded" ? done : bound)[key];
  });
  for (const auto& [key, count] : bound) {
    const int64_t before = bound_.contains(key) ? bound_.at(key) : 0;
    const Json* group = api.Find(Kind::kPodGroup, key);
    if (count <= before || group == nullptr) continue;
    const Json* minimum = group->Find("spec", "schedulingPolicy", "gang", "minCount");
    if (minimum == nullptr) continue;
    if (count < minimum->AsInt()) {
      violations.push_back(fmt::format("{} pods of gang {} were bound, of {}", count,
                                       key.ToString(), minimum->AsInt()));
    }
    const Json* owners = group->Find("metadata", "ownerReferences");
    if (before > 0 || done.contains(key) || owners == nullptr) continue;
    const std::string owner = owners->AsArray().front().GetString("name");
    if (owners->AsArray().front().GetString("kind") == "Workload") {
      const Json* workload = api.Find(Kind::kWorkload, {key.ns, owner});
      const Json* pod_sets = workload == nullptr ? nullptr : workload->Find("spec", "podSets");
      int64_t pods = 0;
      if (pod_sets != nullptr) {
        for (const Json& pod_set : pod_sets->AsArray()) pods += pod_set.Find("count")->AsInt();
      }
      if (count < pods) {
        violations.push_back(
            fmt::format("pod group {} started with {} of {} pods", owner, count, pods));
      }
      continue;
    }
    const Json* job = api.Find(Kind::kJob, {key.ns, owner});
    if (job == nullptr || job->GetString("metadata", "annotations", api::kGangMode).empty())
      continue;
    const Json* parallelism = job->Find("spec", "parallelism");
    const Json* completions = job->Find("spec", "completions");
    int64_t pods = parallelism == nullptr ? 1 : parallelism->AsInt();
    if (completions != nullptr) pods = std::min(pods, completions->AsInt());
    if (count < pods) {
      violations.push_back(fmt::format("Job {} started with {} of {} pods", owner, count, pods));
    }
  }
  bound_ = std::move(bound);
  return violations;
}

Violations CheckJobs(const ApiServer& api) {
  Violations broken;
  absl::btree_map<std::string, std::string> holders;
  const std::set<std::string> taken_over = TakenOver(api);
  api.ForEach(Kind::kWorkload, [&](const Json& workload) {
    const std::string name = NameOf(workload);
    const bool reserved = ConditionTrue(workload, api::kQuotaReserved);
    if (reserved && workload.Find("status", "admission") == nullptr) {
      broken.push_back(
          fmt::format("Workload {} has QuotaReserved=True without an admission", name));
    }
    if (!reserved && workload.Find("status", "admission") != nullptr) {
      broken.push_back(
          fmt::format("Workload {} has an admission without QuotaReserved=True", name));
    }
    if (ConditionTrue(workload, api::kAdmitted) && !reserved) {
      broken.push_back(fmt::format("Workload {} is Admitted without QuotaReserved=True", name));
    }
    const Json* owners = workload.Find("metadata", "ownerReferences");
    if (!Holds(workload) || owners == nullptr || taken_over.contains(name)) return;
    for (const Json& owner : owners->AsArray()) {
      if (owner.GetString("kind") == "Workload") continue;  // variants compete
      const auto [first, fresh] = holders.emplace(owner.GetString("uid"), name);
      if (!fresh) {
        broken.push_back(fmt::format("Workloads {} and {} hold quota for one {} {}", first->second,
                                     name, owner.GetString("kind"), owner.GetString("name")));
      }
    }
  });
  return broken;
}

Violations CheckTotals(const state::World& world) {
  Violations broken;
  absl::btree_map<std::string, state::QueueTotals> expected;
  int64_t not_ready = 0;
  for (const auto& [key, stored] : world.workloads().all()) {
    const auto workload = world.AssumedOrStored(key);
    if (!queueing::HoldsQuota(*workload) || !workload->status.admission ||
        world.TakenOverBy(key) != nullptr || world.IsParent(*workload)) {
      continue;
    }
    state::QueueTotals& totals = expected[workload->status.admission->cluster_queue];
    const FlavorResourceAmounts usage =
        queueing::AdmittedUsage(*workload, world.settings().gates.Enabled("ReclaimablePods"));
    const bool admitted = api::IsTrue(workload->status.conditions, api::kAdmitted);
    ++totals.reserving;
    totals.admitted += admitted ? 1 : 0;
    not_ready += api::IsTrue(workload->status.conditions, api::kPodsReady) ? 0 : 1;
    for (const auto& [cell, amount] : usage) {
      if (amount < 0) broken.push_back(fmt::format("Workload {} uses {}", key.ToString(), amount));
      if (amount == 0) continue;
      for (FlavorResourceAmounts* sum : {&totals.reservation, admitted ? &totals.usage : nullptr}) {
        if (sum != nullptr) (*sum)[cell] = SaturatingAdd((*sum)[cell], amount);
      }
    }
  }
  for (const auto& [name, queue] : world.cluster_queues().all()) {
    if (!(world.ClusterQueueTotals(name.name) == expected[name.name])) {
      broken.push_back(
          fmt::format("totals of ClusterQueue {} are not those of its Workloads", name.name));
    }
  }
  if (world.WorkloadsNotReady() != not_ready) {
    broken.push_back(fmt::format("{} Workloads that hold quota count as not ready, {} are not",
                                 world.WorkloadsNotReady(), not_ready));
  }
  world.queues().CheckInvariants();
  return broken;
}

namespace {

// What is banked follows from the objects. An account of which a write is due is left out: a
// Workload may be gone that is not part of its checkpoint yet.
void CompareCredits(const state::World& world, state::World& fresh, absl::Time now,
                    Violations& broken) {
  state::Refs touched;
  if (world.credits().stale() || !world.credits().active()) return;
  fresh.PrepareCredits(now, touched);
  for (const auto& [name, node] : world.credits().nodes()) {
    const auto object = world.credit_accounts().Find({"", name});
    if (!node.timeline.has_value() || object == nullptr || !object->status.last_settled) continue;
    const quota::CreditAccount kept = node.timeline->At(now);
    const auto shown = quota::Credits::Parse(object->status.usage);
    if (!shown.ok() ||
        shown->value() != kept.usage() * quota::Credits::FromHours(1).value() / 1'000'000) {
      continue;
    }
    const state::GovernedNode* other = fresh.credits().Find(name);
    if (other == nullptr || !other->timeline.has_value()) {
      broken.push_back("account " + name + " is not there in a World built anew");
      continue;
    }
    const quota::CreditAccount rebuilt = other->timeline->At(now);
    const auto difference = (kept.balance() - rebuilt.balance()).value();
    const auto limit = quota::Credits::FromHours(1).value() / 1'000'000;
    if (difference > limit || difference < -limit || kept.usage() != rebuilt.usage()) {
      broken.push_back(fmt::format("account {} has {} and uses {}, in a World built anew {} and {}",
                                   name, kept.balance().ToString(),
                                   static_cast<int64_t>(kept.usage()), rebuilt.balance().ToString(),
                                   static_cast<int64_t>(rebuilt.usage())));
    }
  }
}

}  // namespace

Violations CheckRebuilt(const state::World& world, const ApiServer& api, absl::Time now) {
  for (const auto& [key, workload] : world.workloads().all()) {
    if (world.IsAssumed(key)) return {};  // ahead of the API on purpose
  }
  state::World fresh(world.settings());
  state::Refs touched;
  for (const Kind kind : state::World::WatchedKinds(world.settings())) {
    using Type = state::ObjectEvent::Type;
    fresh.Apply({Type::kListBegin, kind, {}}, now, touched);
    api.ForEach(kind, [&](const Json& object) {
      fresh.Apply({Type::kUpsert, kind, object}, now, touched);
    });
    fresh.Apply({Type::kListEnd, kind, {}}, now, touched);
  }
  Violations broken;
  const auto compare = [&](bool same, const std::string& what) {
    if (!same) broken.push_back(what + " differs from that of a World built anew");
  };
  compare(world.workloads().size() == fresh.workloads().size(), "the number of Workloads");
  compare(world.jobs().size() == fresh.jobs().size(), "the number of Jobs");
  compare(world.pods().all().size() == fresh.pods().all().size(), "the number of managed pods");
  compare(FreeOnNodes(world) == FreeOnNodes(fresh), "what is free on nodes");
  compare(world.cluster_queues().size() == fresh.cluster_queues().size(),
          "the number of ClusterQueues");
  compare(world.queues().size() == fresh.queues().size(), "the number of pending Workloads");
  for (const auto& [key, queue] : fresh.cluster_queues().all()) {
    const std::string& name = key.name;
    compare(world.ClusterQueueTotals(name) == fresh.ClusterQueueTotals(name),
            "what is held in ClusterQueue " + name);
    compare(world.ActivityOf(name) == fresh.ActivityOf(name),
            "the activity of ClusterQueue " + name);
    compare(world.queues().Pending(name).Total() == fresh.queues().Pending(name).Total(),
            "the pending count of ClusterQueue " + name);
  }
  for (const auto& [key, queue] : fresh.local_queues().all()) {
    compare(world.LocalQueueTotals(key) == fresh.LocalQueueTotals(key),
            "what is held in LocalQueue " + key.ToString());
    compare(world.queues().PendingOfLocalQueue(key).Total() ==
                fresh.queues().PendingOfLocalQueue(key).Total(),
            "the pending count of LocalQueue " + key.ToString());
  }
  for (const auto& [key, workload] : fresh.workloads().all()) {
    const auto kept = world.workloads().Find(key);
    compare(
        kept != nullptr && kept->metadata.resource_version == workload->metadata.resource_version,
        "Workload " + key.ToString());
  }
  CompareCredits(world, fresh, now, broken);
  return broken;
}

Violations CheckStrictFifo(const state::World& world, const admission::Decision& decision) {
  Violations broken;
  const std::string& name = decision.info->cluster_queue;
  const auto queue = world.cluster_queues().Find({"", name});
  if (decision.kind != admission::Decision::Kind::kAdmit || queue == nullptr ||
      queue->spec.queueing_strategy != "StrictFIFO" || decision.backfill.has_value()) {
    return broken;
  }
  const auto order = [](const api::Workload& workload) {
    return std::make_tuple(-workload.spec.priority.value_or(0),
                           workload.metadata.creation_timestamp.value_or(absl::InfinitePast()),
                           workload.metadata.uid);
  };
  const auto evicted = [](const api::Workload& workload) {
    return api::IsTrue(workload.status.conditions, api::kEvicted);  // ordered by its eviction
  };
  if (evicted(*decision.info->workload)) return broken;
  for (const queueing::PendingWorkload& pending : world.queues().Snapshot(name)) {
    if (pending.place == queueing::Place::kParked || evicted(*pending.info->workload)) continue;
    // Where usage decides between LocalQueues, order holds within one only.
    if (world.UsageBased(name) && pending.info->local_queue != decision.info->local_queue) continue;
    if (order(*pending.info->workload) < order(*decision.info->workload)) {
      broken.push_back(fmt::format("{} was admitted in StrictFIFO ClusterQueue {} before {}",
                                   decision.info->Key().ToString(), name,
                                   pending.info->Key().ToString()));
    }
  }
  return broken;
}

}  // namespace sluice::sim
