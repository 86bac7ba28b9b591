#include "cli/live_trace.h"

#include <algorithm>
#include <utility>

#include "api/codec.h"
#include "api/crd.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "queueing/workload_info.h"
#include "resource/quantity.h"

namespace sluice::cli {
namespace {

using api::Json;
using api::Kind;
using sim::Micros;

constexpr Kind kPlayed[] = {
    Kind::kNamespace,    Kind::kLimitRange,     Kind::kRuntimeClass,          Kind::kPriorityClass,
    Kind::kTopology,     Kind::kResourceFlavor, Kind::kWorkloadPriorityClass, Kind::kCohort,
    Kind::kClusterQueue, Kind::kLocalQueue};

// What a user would have written.
Json Manifest(const Json& object) {
  Json metadata = Json::MakeObject();
  for (const char* key : {"name", "namespace", "labels", "annotations"}) {
    if (const Json* value = object.Find("metadata", key)) metadata.Set(key, *value);
  }
  Json manifest = Json::MakeObject();
  for (const auto& [key, value] : object.AsObject()) {
    if (key == "status") continue;
    manifest.Set(key, key == "metadata" ? metadata : value);
  }
  return manifest;
}

std::string NameOf(const Json& object) {
  const std::string ns = object.GetString("metadata", "namespace");
  return (ns.empty() ? "" : ns + "/") + object.GetString("metadata", "name");
}

// False: it cannot be played at all.
bool MakePlayable(Kind kind, Json& object, std::vector<std::string>& notes) {
  Json* spec = object.Find("spec");
  if (kind == Kind::kClusterQueue && spec != nullptr && spec->Erase("admissionChecksStrategy")) {
    notes.push_back(fmt::format("ClusterQueue {}: its admission checks count as passed at once",
                                NameOf(object)));
  }
  if (kind == Kind::kResourceFlavor && spec != nullptr && spec->Erase("topologyName")) {
    notes.push_back(fmt::format("ResourceFlavor {}: only its quota is simulated, not its topology",
                                NameOf(object)));
  }
  if (kind == Kind::kLocalQueue && spec != nullptr) {
    const std::string stop = spec->GetString("stopPolicy");
    if (!stop.empty() && stop != "None") {
      notes.push_back(
          fmt::format("LocalQueue {} is stopped: its workloads are left out", NameOf(object)));
      return false;
    }
  }
  return true;
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

std::optional<absl::Time> Since(const api::Workload& workload, const char* type) {
  const api::Condition* condition = api::FindCondition(workload.status.conditions, type);
  if (condition == nullptr || condition->status != api::ConditionStatus::kTrue) return std::nullopt;
  return condition->last_transition_time;
}

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

  // From now on.
  Micros Left(const api::Workload& workload) {
    const std::optional<Micros> total = Total(workload);
    if (!total) return sim::kForever;
    const auto start = Since(workload, api::kAdmitted);
    const Micros ran = start ? absl::ToInt64Microseconds(now_ - *start) : 0;
    // One that should have ended already may end at any moment.
    return std::max<Micros>(*total - std::max<Micros>(ran, 0), sim::kSecond);
  }
  const RunTimeSources& sources() const { return sources_; }

 private:
  std::optional<Micros> Total(const api::Workload& workload) {
    const std::string expected = workload.metadata.Annotation(kExpectedRuntime);
    if (const auto time = sim::ParseMicros(expected); !expected.empty() && time.ok()) {
      ++sources_.expected;
      return *time;
    }
    if (workload.spec.maximum_execution_time_seconds) {
      ++sources_.limit;
      return *workload.spec.maximum_execution_time_seconds * sim::kSecond;
    }
    const auto of_queue = by_queue_.find(queueing::LocalQueueKey(workload));
    if (of_queue != by_queue_.end() || all_.count > 0) {
      ++sources_.mean;
      return of_queue != by_queue_.end() ? of_queue->second.Value() : all_.Value();
    }
    ++(fallback_ ? sources_.fallback : sources_.unknown);
    return fallback_;
  }

  absl::Time now_;
  std::optional<Micros> fallback_;
  absl::btree_map<ObjectKey, Mean> by_queue_;
  Mean all_;
  RunTimeSources sources_;
};

// ---- changes

// "A=B" -> both.
absl::StatusOr<std::pair<std::string, std::string>> Split(const std::string& text, char at,
                                                          const char* form) {
  const size_t found = text.find(at);
  if (found == std::string::npos || found == 0 || found + 1 == text.size()) {
    return InvalidArgument("\"{}\" is not {}", text, form);
  }
  return std::pair(text.substr(0, found), text.substr(found + 1));
}

// Calls `visit(quota)` for each quota of a ClusterQueue, with its flavor.
template <typename Visit>
void ForEachQuota(Json& cluster_queue, Visit visit) {
  Json* groups = cluster_queue.Find("spec") == nullptr
                     ? nullptr
                     : cluster_queue.Find("spec")->Find("resourceGroups");
  if (groups == nullptr || !groups->IsArray()) return;
  for (Json& group : groups->MutableArray()) {
    Json* flavors = group.Find("flavors");
    if (flavors == nullptr || !flavors->IsArray()) continue;
    for (Json& flavor : flavors->MutableArray()) {
      Json* resources = flavor.Find("resources");
      if (resources == nullptr || !resources->IsArray()) continue;
      for (Json& quota : resources->MutableArray()) visit(flavor.GetString("name"), quota);
    }
  }
}

absl::Status SetQuota(const std::string& text, ClusterObjects& objects) {
  constexpr char kForm[] = "CLUSTERQUEUE/FLAVOR/RESOURCE=QUANTITY";
  ASSIGN_OR_RETURN(const auto assignment, Split(text, '=', kForm));
  ASSIGN_OR_RETURN(const auto queue, Split(assignment.first, '/', kForm));
  ASSIGN_OR_RETURN(const auto cell, Split(queue.second, '/', kForm));
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(assignment.second);
  if (!quantity.ok()) return quantity.status();
  if (quantity->Sign() < 0) return InvalidArgument("\"{}\" is negative", assignment.second);
  bool done = false;
  for (Json& object : objects.kinds[Kind::kClusterQueue]) {
    if (object.GetString("metadata", "name") != queue.first) continue;
    ForEachQuota(object, [&](const std::string& flavor, Json& quota) {
      if (flavor != cell.first || quota.GetString("name") != cell.second) return;
      quota.Set("nominalQuota", assignment.second);
      done = true;
    });
  }
  if (done) return absl::OkStatus();
  return InvalidArgument("ClusterQueue {} has no quota for {} in flavor {}", queue.first,
                         cell.second, cell.first);
}

absl::Status RemovePolicy(const std::string& text, ClusterObjects& objects) {
  const size_t colon = text.find(':');
  const std::string policy = text.substr(0, colon);
  const std::string queue = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (policy != "preemption" && policy != "borrowing" && policy != "lending") {
    return InvalidArgument(
        "\"{}\": preemption, borrowing and lending can be removed; policies of fair-share credits "
        "are not part of the simulation yet",
        text);
  }
  bool found = queue.empty();
  for (Json& object : objects.kinds[Kind::kClusterQueue]) {
    if (!queue.empty() && object.GetString("metadata", "name") != queue) continue;
    found = true;
    if (policy == "preemption") {
      object["spec"].Erase("preemption");
      continue;
    }
    const bool in_cohort = !object.GetString("spec", "cohortName").empty();
    ForEachQuota(object, [&](const std::string&, Json& quota) {
      if (in_cohort) quota.Set(policy == "borrowing" ? "borrowingLimit" : "lendingLimit", "0");
    });
  }
  return found ? absl::OkStatus() : InvalidArgument("ClusterQueue {} does not exist", queue);
}

}  // namespace

std::string AssumptionText(const RunTimeSources& sources) {
  std::string text;
  const auto add = [&](int count, const char* how) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, how);
  };
  add(sources.expected, "by their expected runtime");
  add(sources.limit, "by their maximum execution time");
  add(sources.mean, "by the mean of finished workloads");
  add(sources.fallback, "by the default runtime");
  add(sources.unknown, "never (nothing tells how long they run)");
  return "nothing else arrives, no preempted work is lost, and workloads end: " +
         (text.empty() ? "there are none" : text);
}

sim::SourceFile ClusterFile(ClusterObjects& objects, bool keep_jobs) {
  std::string text;
  const auto add = [&](const Json& object) { text += "---\n" + api::ToYaml(object); };
  for (const Kind kind : kPlayed) {
    for (const Json& object : objects.kinds[kind]) {
      Json manifest = Manifest(object);
      if (MakePlayable(kind, manifest, objects.notes)) add(manifest);
    }
  }
  if (keep_jobs) {
    for (const Kind kind : {Kind::kJob, Kind::kWorkload}) {
      for (const Json& object : objects.kinds[kind]) add(Manifest(object));
    }
  }
  return {objects.source, std::move(text)};
}

absl::StatusOr<RunTimeSources> AddLiveWorkloads(const ClusterObjects& objects,
                                                std::optional<Micros> fallback,
                                                sim::TraceBuilder& builder) {
  std::vector<api::Workload> all;
  const auto listed = objects.kinds.find(Kind::kWorkload);
  if (listed != objects.kinds.end()) {
    for (const Json& object : listed->second) {
      absl::StatusOr<api::Workload> workload = api::Decode<api::Workload>(object);
      if (!workload.ok()) {
        return InvalidArgument("Workload {}: {}", NameOf(object),
                               std::string(workload.status().message()));
      }
      all.push_back(*std::move(workload));
    }
  }
  RunTimes times(all, objects.taken, fallback);
  std::vector<std::pair<absl::Time, api::Workload*>> running;
  std::vector<std::pair<absl::Time, api::Workload*>> waiting;
  for (api::Workload& workload : all) {
    const ObjectKey queue = queueing::LocalQueueKey(workload);
    if (Since(workload, api::kFinished) || !builder.cluster().FindLocalQueue(queue)) continue;
    if (const auto reserved = Since(workload, api::kQuotaReserved)) {
      running.emplace_back(*reserved, &workload);
    } else if (queueing::IsAdmissible(workload)) {
      waiting.emplace_back(queueing::QueueOrderTime(workload), &workload);
    }
  }
  const auto by_time = [](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return a.second->metadata.Key() < b.second->metadata.Key();
  };
  std::sort(running.begin(), running.end(), by_time);
  std::sort(waiting.begin(), waiting.end(), by_time);
  builder.set_start(objects.taken);
  builder.SetSource(objects.source);
  // An instant for each, so that the order is kept whatever the priorities are.
  Micros at = 0;
  for (const auto& [time, workload] : running) {
    RETURN_IF_ERROR(builder.Add(*workload, at++, times.Left(*workload)));
  }
  for (const auto& [time, workload] : waiting) {
    RETURN_IF_ERROR(builder.Add(*workload, at++, times.Left(*workload)));
  }
  return times.sources();
}

absl::Status ApplyChanges(const ClusterChanges& changes, ClusterObjects& objects) {
  constexpr char kNodes[] =
      "the simulation of a trace does not place pods on nodes yet, so nodes change nothing in it";
  if (!changes.add_nodes.empty()) return InvalidArgument("--add-nodes: {}", kNodes);
  if (!changes.drain.empty()) return InvalidArgument("--drain: {}", kNodes);
  for (const std::string& text : changes.set_quota) {
    RETURN_IF_ERROR(Annotate(SetQuota(text, objects), "--set-quota"));
  }
  for (const std::string& text : changes.remove_policy) {
    RETURN_IF_ERROR(Annotate(RemovePolicy(text, objects), "--remove-policy"));
  }
  return absl::OkStatus();
}

}  // namespace sluice::cli
