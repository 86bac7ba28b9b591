// The workloads of a cluster as those of a trace: what runs with what it holds, and what waits.
#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <algorithm>
#include <utility>

#include "admission/conditions.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "cli/live_trace.h"
#include "queueing/topology_encoding.h"
#include "queueing/workload_info.h"

namespace sluice::cli {
namespace {

using api::Json;
using api::Kind;
using sim::Micros;

const std::vector<Json>& Of(const ClusterObjects& objects, Kind kind) {
  static const std::vector<Json> none;
  const auto found = objects.kinds.find(kind);
  return found == objects.kinds.end() ? none : found->second;
}

std::optional<absl::Time> Since(const api::Workload& workload, const char* type) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, type);
  if (condition == nullptr || condition->status != api::ConditionStatus::kTrue) return std::nullopt;
  return condition->last_transition_time;
}

// ---- run times

struct Mean {
  double sum = 0;
  int count = 0;
  void Add(absl::Duration duration) {
    sum += absl::ToDoubleMicroseconds(duration);
    ++count;
  }
  Micros Value() const { return static_cast<Micros>(sum / count); }
};

class RunTimes {
 public:
  RunTimes(const std::vector<api::Workload>& workloads, absl::Time now,
           std::optional<Micros> fallback)
      : now_(now), fallback_(fallback) {
    for (const api::Workload& workload : workloads) {
      const auto start = Since(workload, api::kAdmitted);
      const auto end = Since(workload, api::kFinished);
      if (!start || !end || *end <= *start) continue;
      by_queue_[queueing::LocalQueueKey(workload)].Add(*end - *start);
      all_.Add(*end - *start);
    }
  }

  // How long it runs already.
  Micros Ran(const api::Workload& workload) const {
    const auto start = Since(workload, api::kAdmitted);
    return start ? std::max<Micros>(0, absl::ToInt64Microseconds(now_ - *start)) : 0;
  }
  // From now on. One that should have ended already may end at any moment.
  Micros Left(const api::Workload& workload) {
    const std::optional<Micros> left = Known(workload, Ran(workload));
    return left ? std::max<Micros>(*left, sim::kSecond) : sim::kForever;
  }
  RunTimeSources& sources() { return sources_; }

 private:
  std::optional<Micros> Known(const api::Workload& workload, Micros ran) {
    const std::optional<Micros> expected = ByExpectation(workload, ran);
    const std::optional<Micros> limit = ByLimit(workload, ran);
    if (expected && (!limit || *expected <= *limit)) {
      ++sources_.expected;
      return expected;
    }
    if (limit) {
      ++sources_.limit;
      return limit;
    }
    const auto of_queue = by_queue_.find(queueing::LocalQueueKey(workload));
    if (of_queue != by_queue_.end() || all_.count > 0) {
      ++sources_.mean;
      return (of_queue != by_queue_.end() ? of_queue->second : all_).Value() - ran;
    }
    ++(fallback_ ? sources_.fallback : sources_.unknown);
    if (!fallback_) return std::nullopt;
    return *fallback_ - ran;
  }

  static std::optional<Micros> ByExpectation(const api::Workload& workload, Micros ran) {
    const std::string expected = workload.metadata.Annotation(kExpectedRuntime);
    const auto time = sim::ParseMicros(expected);
    if (expected.empty() || !time.ok()) return std::nullopt;
    return *time - ran;
  }

  // It ends all runs together.
  static std::optional<Micros> ByLimit(const api::Workload& workload, Micros ran) {
    const std::optional<int32_t>& limit = workload.spec.maximum_execution_time_seconds;
    if (!limit) return std::nullopt;
    const Micros past = workload.status.accumulated_past_execution_time_seconds.value_or(0);
    return (*limit - past) * sim::kSecond - ran;
  }

  absl::Time now_;
  std::optional<Micros> fallback_;
  absl::btree_map<ObjectKey, Mean> by_queue_;
  Mean all_;
  RunTimeSources sources_;
};

// ---- queues and places

// The stop policies of the queues: a simulated cluster has none for LocalQueues, and nobody drains.
class Stops {
 public:
  explicit Stops(const ClusterObjects& objects) {
    for (const Json& queue : Of(objects, Kind::kLocalQueue)) {
      local_[{queue.GetString("metadata", "namespace"), queue.GetString("metadata", "name")}] =
          queue.GetString("spec", "stopPolicy");
    }
    for (const Json& queue : Of(objects, Kind::kClusterQueue)) {
      cluster_[queue.GetString("metadata", "name")] = queue.GetString("spec", "stopPolicy");
    }
  }
  // Whether its LocalQueue is there and not stopped.
  bool MayWait(const api::Workload& workload) const {
    const auto found = local_.find(queueing::LocalQueueKey(workload));
    return found != local_.end() && (found->second.empty() || found->second == "None");
  }
  // What the controller is about to do with one that holds quota: true, it evicts it.
  bool Drain(api::Workload& workload, absl::Time now) const {
    const auto local = local_.find(queueing::LocalQueueKey(workload));
    const auto cluster = cluster_.find(workload.status.admission->cluster_queue);
    if (cluster != cluster_.end() && cluster->second == "HoldAndDrain") {
      return admission::SetEvicted(workload, admission::kEvictedClusterQueueStopped, "",
                                   admission::kClusterQueueStoppedMessage, now);
    }
    if (local == local_.end() || local->second != "HoldAndDrain") return false;
    return admission::SetEvicted(workload, admission::kEvictedLocalQueueStopped, "",
                                 admission::kLocalQueueStoppedMessage, now);
  }

 private:
  absl::btree_map<ObjectKey, std::string> local_;
  absl::btree_map<std::string, std::string> cluster_;
};

// The domains that the nodes make up, whatever state the nodes are in.
class Places {
 public:
  explicit Places(const ClusterObjects& objects)
      : known_(objects.kinds.contains(Kind::kNode)), nodes_(Of(objects, Kind::kNode)) {}

  // It runs where no node is (any more).
  bool Gone(const api::Admission& admission) {
    for (const api::PodSetAssignment& pod_set : admission.pod_set_assignments) {
      if (!known_ || !pod_set.topology_assignment) continue;
      const auto domains = queueing::ExpandTopologyAssignment(*pod_set.topology_assignment);
      if (!domains.ok()) continue;
      const auto& there = DomainsOf(pod_set.topology_assignment->levels);
      for (const auto& domain : *domains) {
        if (!there.contains(domain.values)) return true;
      }
    }
    return false;
  }

 private:
  using Values = std::vector<std::string>;

  const absl::btree_set<Values>& DomainsOf(const Values& levels) {
    const auto [found, added] = domains_.try_emplace(levels);
    if (!added) return found->second;
    for (const Json& node : nodes_) {
      Values values;
      for (const std::string& level : levels) {
        values.push_back(node.GetString("metadata", "labels", level));
      }
      found->second.insert(std::move(values));
    }
    return found->second;
  }

  bool known_;
  const std::vector<Json>& nodes_;
  absl::btree_map<Values, absl::btree_set<Values>> domains_;  // by levels
};

absl::StatusOr<std::vector<api::Workload>> Workloads(const ClusterObjects& objects) {
  std::vector<api::Workload> all;
  for (const Json& object : Of(objects, Kind::kWorkload)) {
    absl::StatusOr<api::Workload> workload = api::Decode<api::Workload>(object);
    if (!workload.ok()) {
      return InvalidArgument("Workload {}/{}: {}", object.GetString("metadata", "namespace"),
                             object.GetString("metadata", "name"),
                             std::string(workload.status().message()));
    }
    // One that is only asked about comes last.
    if (!workload->metadata.creation_timestamp) {
      workload->metadata.creation_timestamp = objects.taken;
    }
    // Checks count as passed.
    workload->status.admission_checks.clear();
    for (api::PodSet& pod_set : workload->spec.pod_sets) pod_set.pod_template.raw = nullptr;
    all.push_back(*std::move(workload));
  }
  return all;
}

// As one that never started.
void TakeBack(api::Workload& workload) {
  workload.status.admission.reset();
  for (const char* type : {api::kQuotaReserved, api::kAdmitted, api::kPodsReady}) {
    api::RemoveCondition(workload.status.conditions, type);
  }
}

std::vector<std::string> Unlike(const ClusterObjects& objects, const state::Settings& settings,
                                int gone) {
  std::vector<std::string> texts;
  if (gone > 0) {
    texts.push_back(fmt::format("{} that run where no node is any more are placed again", gone));
  }
  const auto& queues = Of(objects, Kind::kClusterQueue);
  if (std::any_of(queues.begin(), queues.end(), [](const Json& queue) {
        return queue.Find("spec", "admissionChecksStrategy") != nullptr;
      })) {
    texts.emplace_back("admission checks pass at once");
  }
  if (settings.wait_for_pods_ready && settings.wait_for_pods_ready->block_admission) {
    texts.emplace_back("pods are ready at once");
  }
  if (settings.admission_fair_sharing) {
    texts.emplace_back("what LocalQueues used before is forgotten");
  }
  return texts;
}

}  // namespace

std::string AssumptionText(const RunTimeSources& sources, bool keeps_work) {
  std::string text;
  const auto add = [&](int count, const char* how) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, how);
  };
  add(sources.expected, "by their expected runtime");
  add(sources.limit, "by their maximum execution time");
  add(sources.mean, "by the mean of finished workloads");
  add(sources.fallback, "by the default runtime");
  add(sources.unknown, "never (nothing tells how long they run)");
  std::string all = "nothing else arrives, ";
  if (keeps_work) all += "no preempted work is lost, ";
  for (const std::string& unlike : sources.unlike) all += unlike + ", ";
  return all + "and workloads end: " + (text.empty() ? "there are none" : text);
}

absl::StatusOr<RunTimeSources> AddLiveWorkloads(const ClusterObjects& objects,
                                                std::optional<Micros> fallback,
                                                sim::TraceBuilder& builder) {
  ASSIGN_OR_RETURN(std::vector<api::Workload> all, Workloads(objects));
  const state::World& world = builder.cluster().world();
  const Stops stops(objects);
  Places places(objects);
  RunTimes times(all, objects.taken, fallback);
  std::vector<std::pair<absl::Time, api::Workload*>> running;
  std::vector<std::pair<absl::Time, api::Workload*>> waiting;
  int gone = 0;
  for (api::Workload& workload : all) {
    const ObjectKey queue = queueing::LocalQueueKey(workload);
    if (Since(workload, api::kFinished) || !builder.cluster().FindLocalQueue(queue)) continue;
    if (world.IsParent(workload)) continue;
    if (queueing::HoldsQuota(workload) && workload.status.admission) {
      if (!places.Gone(*workload.status.admission)) {
        stops.Drain(workload, objects.taken);
        running.emplace_back(Since(workload, api::kQuotaReserved).value_or(objects.taken),
                             &workload);
        continue;
      }
      ++gone;
      TakeBack(workload);
    }
    if (!stops.MayWait(workload) || workload.metadata.Deleting()) continue;
    if (!queueing::IsAdmissible(workload, world.order_options())) continue;
    waiting.emplace_back(queueing::QueueOrderTime(workload, world.order_options()), &workload);
  }
  const auto by_time = [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return a.second->metadata.Key() < b.second->metadata.Key();
  };
  std::sort(running.begin(), running.end(), by_time);
  std::sort(waiting.begin(), waiting.end(), by_time);
  builder.set_start(objects.taken);
  builder.SetSource(objects.source);
  const auto add = [&](api::Workload& workload, Micros ran) {
    const Micros left = times.Left(workload);
    const Micros run = left == sim::kForever ? sim::kForever : ran + left;
    const bool returns = stops.MayWait(workload) && !workload.metadata.Deleting();
    return builder.AddLive(
        {std::make_shared<const api::Workload>(std::move(workload)), ran, returns}, run);
  };
  for (const auto& [time, workload] : running) {
    RETURN_IF_ERROR(add(*workload, times.Ran(*workload)));
  }
  for (const auto& [time, workload] : waiting) RETURN_IF_ERROR(add(*workload, 0));
  times.sources().unlike = Unlike(objects, world.settings(), gone);
  return times.sources();
}

}  // namespace sluice::cli
