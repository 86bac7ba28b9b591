#include "reconcile/what_if.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "admission/conditions.h"
#include "admission/earliest_start.h"
#include "admission/explain_text.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "queueing/topology_inputs.h"
#include "reconcile/explain.h"

namespace sluice::reconcile {
namespace {

using admission::ExplanationTree;
using api::Json;
using Verdict = admission::Explanation::Verdict;

constexpr char kGpuSuffix[] = "/gpu";  // nvidia.com/gpu, amd.com/gpu, ...
constexpr size_t kMostDomains = 8;     // in a text; data has them all

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
  // The class governs whoever names it, as soon as the controller has seen the Workload.
  if (const auto& ref = workload->spec.priority_class_ref; ref && ref->group == api::kKueueGroup) {
    const auto found = world.workload_priority_classes().Find({"", ref->name});
    if (found != nullptr) workload->spec.priority = found->value;
  }
  workload->metadata.creation_timestamp = now;
  workload->metadata.uid.clear();
  workload->status = {};
  return workload;
}

// What counts as the victim's work: of the resources that the CreditPolicy of its ClusterQueue
// weighs the one that weighs most, else GPUs, or CPUs where there are none.
ResourceName ResourceThatCounts(const state::World& world, const std::string& cluster_queue,
                                const absl::btree_map<ResourceName, int64_t>& held) {
  const auto* policy = world.credits().standing().PolicyOf(world.tree(), cluster_queue);
  ResourceName most;
  quota::CreditWeights::Picos weight = 0;
  for (const auto& [resource, amount] : held) {
    if (policy == nullptr) break;
    const auto one = policy->weights->WeighOne(resource, amount);
    if (one <= weight) continue;
    weight = one;
    most = resource;
  }
  if (!most.empty()) return most;
  most = kCpu;
  int64_t gpus = 0;
  for (const auto& [resource, amount] : held) {
    if (!resource.ends_with(kGpuSuffix) || amount <= gpus) continue;
    gpus = amount;
    most = resource;
  }
  return most;
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
  victim.resource = ResourceThatCounts(world, victim.cluster_queue, held);
  victim.amount = held[victim.resource];
  const api::Condition* admitted = api::FindCondition(workload->status.conditions, api::kAdmitted);
  if (admitted == nullptr || admitted->status != api::ConditionStatus::kTrue) return victim;
  const absl::Time start = admitted->last_transition_time.value_or(now);
  victim.ran = std::max(now - start, absl::ZeroDuration());
  victim.lost = LostTime(*workload, start, now);
  return victim;
}

bool WouldStart(const ExplanationTree& tree) {
  return tree.verdict.verdict == Verdict::kFits || tree.verdict.verdict == Verdict::kPreempting;
}

// What starts before it: at once, then those before it in its queue, and those of others that win
// its cycle.
admission::StartsBefore BeforeIt(state::World& world, const ExplanationTree& tree,
                                 const NextCycles& next) {
  admission::StartsBefore before{next.started, next.position.strict};
  before.workloads.insert(before.workloads.end(), next.before.begin(), next.before.end());
  for (const admission::Explanation::Rival& rival : tree.verdict.rivals) {
    const size_t slash = rival.workload.find('/');
    const auto info =
        world.queues().Find({rival.workload.substr(0, slash), rival.workload.substr(slash + 1)});
    const auto& known = before.workloads;
    if (info == nullptr || std::find(known.begin(), known.end(), info) != known.end()) continue;
    before.workloads.push_back(info);
  }
  return before;
}

// What nothing can be told about; "" where the bounds of what runs tell.
std::string Untold(const WhatIf& answer, const NextCycles& next) {
  if (answer.reserved) return "nothing tells when its admission checks are ready";
  switch (answer.tree.verdict.verdict) {
    case Verdict::kOthersNotReady:
      return "nothing tells when the pods of others are ready";
    case Verdict::kPreemptionGated:
      return "nothing tells when its preemption gates are open";
    default:
      break;
  }
  const bool all = next.position.ahead <= static_cast<int64_t>(next.before.size());
  return all && next.unseen == 0 ? "" : "too many wait before it to look at";
}

bool HasForecast(const WhatIf& answer) {
  switch (answer.tree.verdict.verdict) {
    case Verdict::kChecksFailed:
    case Verdict::kQueueInactive:
    case Verdict::kQueueNotFound:
    case Verdict::kNamespaceMismatch:
    case Verdict::kNamespaceGone:
    case Verdict::kInvalidResources:
      return false;
    default:
      return true;
  }
}

WhatIfForecast ForecastOf(state::World& world, const WhatIf& answer, const NextCycles& next,
                          const queueing::WorkloadInfoPtr& info, absl::Time now) {
  WhatIfForecast forecast;
  const admission::StartsBefore before = BeforeIt(world, answer.tree, next);
  const size_t count = before.workloads.size();
  forecast.assumption =
      "what runs ends when its maximum execution time or sluice.dev/expected-runtime says, nothing "
      "is preempted, and ";
  forecast.assumption +=
      count == 0 ? "nothing that waits starts before it"
                 : fmt::format(
                       "of what waits only {} that {} before it {} first, as soon as there "
                       "is quota for {}",
                       count == 1 ? "the one" : fmt::format("the {}", count),
                       count == 1 ? "comes" : "come", count == 1 ? "starts" : "start",
                       count == 1 ? "it" : "them");
  forecast.unknown = Untold(answer, next);
  if (!forecast.unknown.empty()) return forecast;
  using Kind = admission::EarliestStart::Kind;
  const auto reserved = next.trial.reservations.by_workload.find(info->Key());
  if (reserved != next.trial.reservations.by_workload.end() && reserved->second.at) {
    forecast.start = std::max(now, *reserved->second.at);
    return forecast;
  }
  const auto found = admission::FindEarliestStart(world.snapshot(), info, now, before);
  const bool loses = WouldStart(answer.tree) || next.trial.decision.has_value();
  if (!found.behind.empty()) {
    forecast.unknown = found.behind + " comes before it, and nothing tells when that starts";
  } else if (found.kind == Kind::kUnbounded) {
    forecast.unknown = "what it needs is held by workloads of which nothing tells when they end";
  } else if (found.kind == Kind::kNever) {
    forecast.unknown = "it could not start with everything idle";
  } else if (loses && found.at <= now) {
    forecast.unknown = "others come before it, and nothing tells for how long";
  } else {
    forecast.start = found.at;
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

std::vector<admission::PlacedPods> PlacesOf(const api::Admission& admission) {
  std::vector<admission::PlacedPods> places;
  for (const api::PodSetAssignment& pod_set : admission.pod_set_assignments) {
    if (!pod_set.topology_assignment) continue;
    auto decoded = queueing::DecodeAssignment(*pod_set.topology_assignment);
    if (decoded.ok()) places.push_back({pod_set.name, *std::move(decoded)});
  }
  return places;
}

// What the cycles decided takes the place of what it would get if it were alone.
void Adopt(admission::Decision decision, WhatIf& answer) {
  using Kind = admission::Decision::Kind;
  ExplanationTree& tree = answer.tree;
  if (decision.kind == Kind::kAdmit) {
    tree.places = PlacesOf(decision.admission);
    if (decision.backfill) answer.passes = decision.backfill->before;
  } else if (decision.explanation.preempting.empty() ||
             decision.explanation.preempting != tree.verdict.preempting) {
    tree.places.clear();
  }
  tree.verdict = std::move(decision.explanation);
  for (const admission::Explanation::Rival& rival : tree.verdict.rivals) {
    if (tree.wake_ups.size() >= admission::kMostNamed) break;
    tree.wake_ups.push_back({admission::WakeUp::Kind::kHeadLeaves, rival.workload});
  }
  if (!tree.verdict.held_by.empty()) {
    tree.wake_ups.push_back({admission::WakeUp::Kind::kHeadLeaves, tree.verdict.held_by});
  }
}

// The admission checks that the flavors of the answer need.
std::vector<std::string> ChecksOf(const state::World& world, const WhatIf& answer) {
  const auto queue = world.cluster_queues().Find({"", answer.cluster_queue});
  api::Admission admission;
  for (const flavor::PodSetAssignment& pod_set : answer.tree.verdict.pod_sets) {
    api::PodSetAssignment& assignment = admission.pod_set_assignments.emplace_back();
    for (const auto& [resource, choice] : pod_set.flavors) {
      assignment.flavors[resource] = choice.flavor;
    }
  }
  return admission::RequiredChecks(*queue, &admission);
}

// What happens to it, from what it would get and whose turn it is.
void Conclude(state::World& world, const NextCycles& next, absl::Time now, WhatIf& answer) {
  answer.judged = next.trial.judged;
  answer.unseen = next.unseen;
  // Given up, with nobody before it in its own queue: as if it were alone.
  const bool given_up = !next.trial.complete && next.position.ahead == 0;
  const bool its_turn = next.alone || next.trial.decision.has_value() || given_up;
  const bool enters = WouldStart(answer.tree) && its_turn && next.unseen == 0;
  const bool fits = enters && answer.tree.verdict.verdict == Verdict::kFits;
  if (WouldStart(answer.tree)) answer.checks = ChecksOf(world, answer);
  answer.admitted = fits && answer.checks.empty();
  answer.reserved = fits && !answer.checks.empty();
  answer.after_preemption = enters && !fits;
  for (const std::string& victim : answer.tree.verdict.preempting) {
    answer.victims.push_back(VictimOf(world, victim, now));
  }
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

void PrepareToAsk(state::World& world, absl::Time now) {
  state::Refs nobodys_work;
  world.PrepareCredits(now, nobodys_work);
  world.RestartUsage(now);
}

absl::StatusOr<WhatIf> AskWhatIf(state::World& world, const Json& object,
                                 const std::string& cluster_queue, absl::Time now,
                                 WithForecast with_forecast, Effort effort) {
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
  NextCycles next = FindNextCycles(world, info, WouldStart(answer.tree), effort, now);
  answer.tree.position = next.position;
  if (next.trial.decision) Adopt(*next.trial.decision, answer);
  Conclude(world, next, now, answer);
  if (answer.enters()) return answer;
  if (answer.reserved) {
    answer.why = {
        "CheckPending", "",
        fmt::format("its admission checks are Ready: {}", fmt::join(answer.checks, ", "))};
  } else {
    answer.why = WhyOf(world, answer.tree, *workload);
  }
  if (with_forecast == WithForecast::kYes && HasForecast(answer)) {
    answer.forecast = ForecastOf(world, answer, next, info, now);
  }
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
  Json checks = Json::MakeArray();
  for (const std::string& check : answer.checks) checks.Append(check);
  Json json = Json::MakeObject({{"admitted", answer.admitted},
                                {"quotaReserved", answer.admitted || answer.reserved},
                                {"afterPreemption", answer.after_preemption},
                                {"admissionChecks", std::move(checks)},
                                {"clusterQueue", answer.cluster_queue},
                                {"localQueue", answer.local_queue.ToString()},
                                {"podSets", std::move(flavors)},
                                {"victims", std::move(victims)},
                                {"message", WhatIfText(answer)},
                                {"explanation", admission::RenderJson(answer.tree)}});
  if (answer.tree.position) json.Set("ahead", answer.tree.position->ahead);
  if (answer.judged > 0) json.Set("judged", static_cast<int64_t>(answer.judged));
  if (answer.unseen > 0) json.Set("notLookedAt", answer.unseen);
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
  } else if (answer.reserved) {
    text = fmt::format(
        "It would get its quota now in ClusterQueue {} ({}), and wait for its admission checks: "
        "{}.\n",
        answer.cluster_queue, FlavorsText(answer), fmt::join(answer.checks, ", "));
  } else if (tree.judged && tree.verdict.verdict == Verdict::kFits && ahead > 0) {
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
    if (!answer.after_preemption && ahead > 0) {
      text += fmt::format("  after {} {} before it\n", ahead,
                          ahead == 1 ? "workload that waits" : "workloads that wait");
    }
    if (!answer.checks.empty()) {
      text += fmt::format("  then it waits for its admission checks: {}\n",
                          fmt::join(answer.checks, ", "));
    }
  } else {
    text = fmt::format("It would wait in ClusterQueue {}.\n", answer.cluster_queue);
  }
  if (!answer.passes.empty()) {
    text += fmt::format("  before {}, which waits and is not delayed by it\n", answer.passes);
  }
  if (answer.unseen > 0) {
    text +=
        fmt::format("  of those before it {} were not looked at: too many wait\n", answer.unseen);
  }
  for (const admission::PlacedPods& placed : tree.places) {
    text += fmt::format("  {} would run: {}\n", placed.pod_set, PlacesText(placed));
  }
  return text;
}

}  // namespace sluice::reconcile
