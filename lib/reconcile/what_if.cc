#include "reconcile/what_if.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "admission/earliest_start.h"
#include "admission/explain_text.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "queueing/backfill.h"
#include "reconcile/explain.h"

namespace sluice::reconcile {
namespace {

using admission::ExplanationTree;
using api::Json;
using Verdict = admission::Explanation::Verdict;

constexpr char kGpu[] = "nvidia.com/gpu";
constexpr size_t kMostDomains = 8;  // in a text; data has them all

// The job or Workload itself.
const Json& Inner(const Json& object) {
  const Json* spec = object.Find("spec");
  return spec != nullptr && spec->Has("apiVersion") && spec->Has("kind") ? *spec : object;
}

// A LocalQueue of the namespace that points to the ClusterQueue.
absl::StatusOr<std::string> QueueFor(const state::World& world, const std::string& ns,
                                     const std::string& cluster_queue) {
  for (const ObjectKey& key : world.LocalQueuesOf(cluster_queue)) {
    if (key.ns == ns) return key.name;
  }
  return InvalidArgument("namespace {} has no LocalQueue of ClusterQueue {}", ns, cluster_queue);
}

absl::StatusOr<api::Workload> WorkloadOfJob(const state::World& world, const Json& object) {
  ASSIGN_OR_RETURN(api::Job job, api::Decode<api::Job>(object));
  ASSIGN_OR_RETURN(std::vector<api::PodSet> pod_sets,
                   jobs::BatchJob::PodSets(job, jobs::PodTopologyOf(world.settings().gates)));
  absl::StatusOr<jobs::NewWorkload> made =
      jobs::ConstructWorkload(world, job.metadata, std::move(pod_sets));
  if (!made.ok()) return InvalidArgument("{}", std::string(made.status().message()));
  return api::Decode<api::Workload>(made->body);
}

absl::StatusOr<api::Workload> WorkloadOf(const state::World& world, Json object,
                                         const std::string& cluster_queue, absl::Time now) {
  const std::string version = object.GetString("apiVersion");
  const std::string kind = object.GetString("kind");
  Json& metadata = object["metadata"];
  if (metadata.GetString("namespace").empty()) metadata.Set("namespace", "default");
  if (metadata.GetString("name").empty()) {
    const std::string prefix = metadata.GetString("generateName");
    metadata.Set("name", prefix.empty() ? "whatif" : prefix + "whatif");
  }
  const std::string ns = metadata.GetString("namespace");
  absl::StatusOr<api::Workload> workload = absl::InternalError("");
  if (kind == "Job" && version.starts_with("batch/")) {
    if (object.GetString("metadata", "labels", api::kQueueNameLabel).empty()) {
      std::string queue = api::kDefaultQueueName;
      if (!cluster_queue.empty()) {
        ASSIGN_OR_RETURN(queue, QueueFor(world, ns, cluster_queue));
      }
      metadata["labels"].Set(api::kQueueNameLabel, queue);
    }
    workload = WorkloadOfJob(world, object);
  } else if (kind == "Workload" && version.starts_with(std::string(api::kKueueGroup) + "/")) {
    workload = api::Decode<api::Workload>(object);
  } else {
    return InvalidArgument("{} {}: only Jobs of batch/v1 and Workloads can be asked about", version,
                           kind);
  }
  if (!workload.ok()) return InvalidArgument("{}", std::string(workload.status().message()));
  if (workload->spec.pod_sets.empty()) return InvalidArgument("spec.podSets: there are none");
  if (workload->spec.queue_name.empty() && !cluster_queue.empty()) {
    ASSIGN_OR_RETURN(workload->spec.queue_name, QueueFor(world, ns, cluster_queue));
  }
  if (world.workloads().Contains(workload->metadata.Key())) workload->metadata.name += "-whatif";
  workload->metadata.creation_timestamp = now;
  workload->metadata.uid.clear();
  workload->status = {};
  return workload;
}

// Who would be looked at before it, in the order of its ClusterQueue.
void FindPosition(const state::World& world, const queueing::WorkloadInfo& info,
                  ExplanationTree& tree) {
  admission::QueuePosition position;
  const queueing::QueueManager& queues = world.queues();
  const auto queue = world.cluster_queues().Find({"", info.cluster_queue});
  const bool fifo =
      queue != nullptr && queueing::StrategyOf(*queue) == queueing::QueueingStrategy::kStrictFifo;
  position.strict = fifo && !queueing::BackfillOf(*queue).on();
  const bool usage_based = world.UsageBased(info.cluster_queue);
  const queueing::UsageValue& usage = queues.LocalQueueUsage(info.local_queue);
  const auto precedes = [&](const queueing::WorkloadInfo& other) {
    if (usage_based) {
      const auto order = queues.LocalQueueUsage(other.local_queue) <=> usage;
      if (order != 0) return order < 0;
    }
    // Victims are on their way out for it.
    if (!fifo && queues.IsPreemptor(other.Key())) return true;
    return queueing::OrderedBefore(other, info);
  };
  const auto look = [&](const queueing::WorkloadInfo& other) {
    if (precedes(other) && position.ahead++ == 0) position.head = other.Key().ToString();
  };
  if (position.strict) {
    for (const auto& pending : queues.Snapshot(info.cluster_queue)) look(*pending.info);
  } else {
    // What is parked stands in nobody's way; often that is nearly all.
    constexpr size_t kAll = std::numeric_limits<size_t>::max();
    for (const auto& other : queues.First(info.cluster_queue, kAll)) look(*other);
  }
  tree.position = std::move(position);
}

WhatIfVictim VictimOf(const state::World& world, const std::string& name, absl::Time now) {
  WhatIfVictim victim;
  const size_t slash = name.find('/');
  victim.workload = {name.substr(0, slash), name.substr(slash + 1)};
  const auto workload = world.AssumedOrStored(victim.workload);
  if (workload == nullptr || !workload->status.admission) return victim;
  victim.cluster_queue = workload->status.admission->cluster_queue;
  absl::btree_map<ResourceName, int64_t> held;
  for (const api::PodSetAssignment& pod_set : workload->status.admission->pod_set_assignments) {
    for (const auto& [resource, quantity] : pod_set.resource_usage) {
      held[resource] = SaturatingAdd(held[resource], AmountOf(resource, quantity));
    }
  }
  victim.resource = held.contains(kGpu) ? ResourceName(kGpu) : ResourceName(kCpu);
  victim.amount = held[victim.resource];
  const api::Condition* admitted = api::FindCondition(workload->status.conditions, api::kAdmitted);
  if (admitted == nullptr || admitted->status != api::ConditionStatus::kTrue) return victim;
  const absl::Time start = admitted->last_transition_time.value_or(now);
  victim.ran = std::max(now - start, absl::ZeroDuration());
  victim.lost = LostTime(*workload, start, now);
  return victim;
}

// Only where what runs is in its way: when others that wait come first, their start is what
// matters.
std::optional<WhatIfForecast> ForecastOf(state::World& world, const WhatIf& answer,
                                         const queueing::WorkloadInfoPtr& info, absl::Time now) {
  const Verdict verdict = answer.tree.verdict.verdict;
  if (verdict != Verdict::kNoFit && verdict != Verdict::kNoCandidates &&
      verdict != Verdict::kProtected) {
    return std::nullopt;
  }
  WhatIfForecast forecast;
  forecast.assumption =
      "what runs ends when its maximum execution time or sluice.dev/expected-runtime says, nothing "
      "is preempted, and nothing that waits starts before it";
  if (answer.tree.position && answer.tree.position->ahead > 0) {
    forecast.assumption += fmt::format(", though {} {} before it", answer.tree.position->ahead,
                                       answer.tree.position->ahead == 1 ? "waits" : "wait");
  }
  using Kind = admission::EarliestStart::Kind;
  const auto found = admission::FindEarliestStart(world.snapshot(), info, now);
  if (found.kind == Kind::kAt) forecast.start = found.at;
  if (found.kind == Kind::kUnbounded) {
    forecast.unknown = "what it needs is held by workloads of which nothing tells when they end";
  } else if (found.kind == Kind::kNever) {
    forecast.unknown = "it could not start with everything idle";
  }
  return forecast;
}

std::string Amount(const ResourceName& resource, int64_t amount) {
  return QuantityOf(resource, amount).ToString();
}

std::string FlavorsText(const WhatIf& answer) {
  std::string text;
  for (const flavor::PodSetAssignment& pod_set : answer.tree.verdict.pod_sets) {
    for (const auto& [resource, choice] : pod_set.flavors) {
      text += fmt::format("{}{}: {} from {}", text.empty() ? "" : ", ", pod_set.name, resource,
                          choice.flavor);
    }
  }
  return text;
}

// The domains of a pod set, "" when it has none.
std::string PlacesText(const admission::PlacedPods& placed) {
  std::string text;
  size_t named = 0;
  for (const topology::AssignedDomain& domain : placed.assignment.domains) {
    if (++named > kMostDomains) continue;
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", domain.count,
                        fmt::join(domain.values, "/"));
  }
  if (named > kMostDomains) text += fmt::format(" and {} more domains", named - kMostDomains);
  return text;
}

Json PlacesJson(const admission::PlacedPods& placed) {
  Json domains = Json::MakeArray();
  for (const topology::AssignedDomain& domain : placed.assignment.domains) {
    Json values = Json::MakeArray();
    for (const std::string& value : domain.values) values.Append(value);
    domains.Append(Json::MakeObject({{"values", std::move(values)}, {"count", domain.count}}));
  }
  Json levels = Json::MakeArray();
  for (const std::string& level : placed.assignment.levels) levels.Append(level);
  return Json::MakeObject({{"levels", std::move(levels)}, {"domains", std::move(domains)}});
}

}  // namespace

absl::Duration LostTime(const api::Workload& workload, absl::Time start, absl::Time now) {
  if (now <= start) return absl::ZeroDuration();
  absl::Time saved = start;
  const std::string last = workload.metadata.Annotation("sluice.dev/last-checkpoint");
  const std::string every = workload.metadata.Annotation("sluice.dev/checkpoint-interval");
  if (const auto time = sluice::ParseTime(last); !last.empty() && time.ok() && *time <= now) {
    saved = std::max(saved, *time);
  } else if (const auto interval = sluice::ParseDuration(every);
             !every.empty() && interval.ok() && *interval > absl::ZeroDuration()) {
    saved += absl::Floor(now - start, *interval);
  }
  absl::Duration lost = now - saved;
  const std::string restart = workload.metadata.Annotation("sluice.dev/restart-cost");
  if (const auto cost = sluice::ParseDuration(restart); !restart.empty() && cost.ok()) {
    lost += std::max(*cost, absl::ZeroDuration());
  }
  return lost;
}

absl::StatusOr<WhatIf> AskWhatIf(state::World& world, const Json& object,
                                 const std::string& cluster_queue, absl::Time now,
                                 WithForecast with_forecast) {
  if (!cluster_queue.empty() && !world.cluster_queues().Contains({"", cluster_queue})) {
    return NotFound("ClusterQueue {} does not exist", cluster_queue);
  }
  ASSIGN_OR_RETURN(api::Workload made, WorkloadOf(world, Inner(object), cluster_queue, now));
  const auto workload = std::make_shared<const api::Workload>(std::move(made));
  WhatIf answer;
  answer.workload = workload->metadata.Key();
  answer.made = workload;
  answer.local_queue = queueing::LocalQueueKey(*workload);
  answer.cluster_queue = world.ClusterQueueOf(*workload);
  if (answer.cluster_queue.empty()) {
    return NotFound("LocalQueue {} does not exist", answer.local_queue.ToString());
  }
  if (!cluster_queue.empty() && answer.cluster_queue != cluster_queue) {
    return InvalidArgument("LocalQueue {} points to ClusterQueue {}, not {}",
                           answer.local_queue.ToString(), answer.cluster_queue, cluster_queue);
  }
  answer.tree = ExplainAsIf(world, *workload, now);
  if (!answer.tree.judged) {
    answer.why = WhyOf(world, answer.tree, *workload);
    return answer;
  }
  const queueing::WorkloadInfoPtr info = queueing::MakeWorkloadInfo(
      workload, answer.cluster_queue, world.RequestContextFor(workload->metadata.ns),
      world.order_options());
  FindPosition(world, *info, answer.tree);
  LookAtRivals(world, info, answer.tree);
  for (const std::string& victim : answer.tree.verdict.preempting) {
    answer.victims.push_back(VictimOf(world, victim, now));
  }
  const bool behind = answer.tree.position->ahead > 0;
  answer.admitted = answer.tree.verdict.verdict == Verdict::kFits && !behind;
  answer.after_preemption = answer.tree.verdict.verdict == Verdict::kPreempting && !behind;
  if (answer.enters()) return answer;
  answer.why = WhyOf(world, answer.tree, *workload);
  if (with_forecast == WithForecast::kYes) answer.forecast = ForecastOf(world, answer, info, now);
  return answer;
}

Json WhatIfJson(const WhatIf& answer) {
  Json victims = Json::MakeArray();
  for (const WhatIfVictim& victim : answer.victims) {
    victims.Append(Json::MakeObject(
        {{"workload", victim.workload.ToString()},
         {"clusterQueue", victim.cluster_queue},
         {"ranFor", sluice::FormatDuration(absl::Trunc(victim.ran, absl::Seconds(1)))},
         {"lostTime", sluice::FormatDuration(absl::Trunc(victim.lost, absl::Seconds(1)))},
         {"resource", victim.resource},
         {"amount", Amount(victim.resource, victim.amount)}}));
  }
  Json flavors = Json::MakeArray();
  for (const flavor::PodSetAssignment& pod_set : answer.tree.verdict.pod_sets) {
    Json chosen = Json::MakeObject();
    for (const auto& [resource, choice] : pod_set.flavors) chosen.Set(resource, choice.flavor);
    Json item = Json::MakeObject(
        {{"name", pod_set.name}, {"count", pod_set.count}, {"flavors", std::move(chosen)}});
    for (const admission::PlacedPods& placed : answer.tree.places) {
      if (placed.pod_set == pod_set.name) item.Set("topologyAssignment", PlacesJson(placed));
    }
    flavors.Append(std::move(item));
  }
  Json json = Json::MakeObject({{"admitted", answer.admitted},
                                {"afterPreemption", answer.after_preemption},
                                {"clusterQueue", answer.cluster_queue},
                                {"localQueue", answer.local_queue.ToString()},
                                {"podSets", std::move(flavors)},
                                {"victims", std::move(victims)},
                                {"message", WhatIfText(answer)},
                                {"explanation", admission::RenderJson(answer.tree)}});
  if (answer.tree.position) json.Set("ahead", answer.tree.position->ahead);
  AddWhy(answer.why, json);
  if (answer.forecast) {
    Json forecast = Json::MakeObject({{"assumption", answer.forecast->assumption}});
    if (answer.forecast->start) {
      forecast.Set("start", sluice::FormatTime(*answer.forecast->start));
    } else {
      forecast.Set("unknown", answer.forecast->unknown);
    }
    json.Set("forecast", std::move(forecast));
  }
  return json;
}

std::string WhatIfText(const WhatIf& answer) {
  const ExplanationTree& tree = answer.tree;
  const int64_t ahead = tree.position ? tree.position->ahead : 0;
  std::string text;
  if (answer.admitted) {
    text = fmt::format("It would be admitted now in ClusterQueue {} ({}).\n", answer.cluster_queue,
                       FlavorsText(answer));
  } else if (tree.judged && tree.verdict.verdict == Verdict::kFits) {
    text = fmt::format(
        "It would fit now in ClusterQueue {} ({}), but {} {} before it, the first is {}.\n",
        answer.cluster_queue, FlavorsText(answer), ahead,
        ahead == 1 ? "workload waits" : "workloads wait", tree.position->head);
  } else if (tree.judged && tree.verdict.verdict == Verdict::kPreempting) {
    text = fmt::format("It would be admitted in ClusterQueue {} ({}) by preempting:\n",
                       answer.cluster_queue, FlavorsText(answer));
    for (const WhatIfVictim& victim : answer.victims) {
      text += fmt::format("  {} of ClusterQueue {}: {} {}, loses {} of work\n",
                          victim.workload.ToString(), victim.cluster_queue,
                          Amount(victim.resource, victim.amount), victim.resource,
                          sluice::FormatDuration(absl::Trunc(victim.lost, absl::Seconds(1))));
    }
    if (ahead > 0) text += fmt::format("  after {} workloads that wait before it\n", ahead);
  } else {
    text = fmt::format("It would wait in ClusterQueue {}.\n", answer.cluster_queue);
  }
  for (const admission::PlacedPods& placed : tree.places) {
    text += fmt::format("  {} would run: {}\n", placed.pod_set, PlacesText(placed));
  }
  return text;
}

}  // namespace sluice::reconcile
