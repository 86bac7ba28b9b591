#include "sim/trace_cluster.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <utility>

#include "api/codec.h"
#include "api/names.h"
#include "base/check.h"
#include "base/status.h"
#include "base/time.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "quota/credits.h"
#include "reconcile/checkpoint.h"
#include "reconcile/plan.h"
#include "reconcile/reconcilers.h"
#include "state/credit_history.h"
#include "webhook/conversion.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::ObjectEvent;

// Kinds in the order in which they are created: what others name comes first.
constexpr Kind kKinds[] = {
    Kind::kNamespace,     Kind::kLimitRange,   Kind::kRuntimeClass,   Kind::kPriorityClass,
    Kind::kNode,          Kind::kTopology,     Kind::kResourceFlavor, Kind::kWorkloadPriorityClass,
    Kind::kCohort,        Kind::kClusterQueue, Kind::kLocalQueue,     Kind::kCreditPolicy,
    Kind::kCreditAccount, Kind::kJob,          Kind::kWorkload};

int RankOf(Kind kind) {
  const auto* found = std::find(std::begin(kKinds), std::end(kKinds), kind);
  return found == std::end(kKinds) ? -1 : static_cast<int>(found - std::begin(kKinds));
}

absl::Status ErrorAt(const std::string& path, const YamlDocument& document,
                     const std::string& message) {
  return InvalidArgument("{}:{}: {}", path, document.LineFor(message), message);
}

// The annotation of the object, or of its pod template.
std::string AnnotationOf(const Json& object, const char* name) {
  const std::string own = object.GetString("metadata", "annotations", name);
  if (!own.empty()) return own;
  return object.GetString("spec", "template", "metadata", "annotations", name);
}

// How long a Job needs when its pods run for the given times, the last of which counts for all
// others: as many pods at a time as `parallelism` says, each taking the first place that is free.
Micros Makespan(const std::vector<Micros>& times, int64_t completions, int64_t parallelism) {
  std::priority_queue<Micros, std::vector<Micros>, std::greater<>> busy;
  Micros last = 0;
  for (int64_t i = 0; i < completions; ++i) {
    Micros begin = 0;
    if (static_cast<int64_t>(busy.size()) >= parallelism) {
      begin = busy.top();
      busy.pop();
    }
    const size_t index = std::min(static_cast<size_t>(i), times.size() - 1);
    const Micros end = std::min(kMaxMicros, begin + times[index]);
    last = std::max(last, end);
    busy.push(end);
  }
  return last;
}

absl::StatusOr<std::vector<Micros>> Times(const std::string& text) {
  std::vector<Micros> times;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    ASSIGN_OR_RETURN(const Micros time, ParseMicros(part));
    times.push_back(time);
  }
  return times;
}

// Nodes are what flavors with a topology place pods on (status.allocatable, else capacity). One
// that says nothing about its conditions is ready.
Json NodeStatus(const Json& node) {
  const Json* given = node.Find("status");
  Json status = given == nullptr ? Json::MakeObject() : *given;
  if (!status.Has("allocatable") && status.Has("capacity")) {
    status.Set("allocatable", *status.Find("capacity"));
  }
  if (!status.Has("conditions")) {
    status.Set("conditions",
               Json::MakeArray({Json::MakeObject({{"type", "Ready"}, {"status", "True"}})}));
  }
  return status;
}

absl::StatusOr<absl::Time> MadeAt(const Json& object) {
  return sluice::ParseTime(object.GetString("metadata", "creationTimestamp"));
}

// Of the policies that name a queue the oldest governs it. One that does not say when it was made
// is younger than all that do.
void SetAges(const std::vector<Json*>& policies) {
  absl::Time youngest = DefaultTraceStart();
  for (const Json* policy : policies) {
    youngest = std::max(youngest, MadeAt(*policy).value_or(youngest) + absl::Seconds(1));
  }
  for (Json* policy : policies) {
    if (MadeAt(*policy).ok()) continue;
    (*policy)["metadata"].Set("creationTimestamp", sluice::FormatTime(youngest));
  }
}

constexpr int64_t kMaxPodsOfJob = 1'000'000;

absl::StatusOr<Micros> RunTime(const Json& object, Kind kind) {
  const std::string text = AnnotationOf(object, kRunSecondsAnnotation);
  if (text.empty()) return kForever;
  absl::StatusOr<std::vector<Micros>> times = Times(text);
  if (!times.ok()) {
    return InvalidArgument("metadata.annotations.{}: {}", kRunSecondsAnnotation,
                           std::string(times.status().message()));
  }
  if (kind == Kind::kWorkload) return *std::max_element(times->begin(), times->end());
  const auto number = [&](const char* field) {
    const Json* value = object.Find("spec", field);
    return value == nullptr ? int64_t{1} : value->AsInt(1);
  };
  const int64_t parallelism = number("parallelism");
  const int64_t completions =
      object.Find("spec", "completions") == nullptr ? parallelism : number("completions");
  if (completions > kMaxPodsOfJob) {
    return InvalidArgument("spec.completions: a simulated Job has at most {} pods", kMaxPodsOfJob);
  }
  return Makespan(*times, completions, std::max<int64_t>(1, parallelism));
}

}  // namespace

absl::Time DefaultTraceStart() { return absl::FromUnixSeconds(1767225600); }

TraceCluster::TraceCluster(const state::Settings& settings)
    : settings_(settings), api_(settings_, {}), world_(settings_) {}

absl::StatusOr<std::unique_ptr<TraceCluster>> TraceCluster::Load(
    const std::vector<SourceFile>& files, const state::Settings& settings) {
  auto cluster = std::unique_ptr<TraceCluster>(new TraceCluster(settings));
  std::vector<Manifest> manifests;
  for (const SourceFile& file : files) RETURN_IF_ERROR(cluster->Read(file, manifests));
  std::stable_sort(manifests.begin(), manifests.end(), [](const Manifest& a, const Manifest& b) {
    return RankOf(a.kind) < RankOf(b.kind);
  });
  std::vector<Json*> policies;
  for (Manifest& manifest : manifests) {
    if (manifest.kind == Kind::kCreditPolicy) policies.push_back(&manifest.document.json);
  }
  SetAges(policies);
  for (Manifest& manifest : manifests) {
    if (manifest.kind == Kind::kCreditAccount) {
      RETURN_IF_ERROR(cluster->TakeBalance(manifest));
      continue;
    }
    RETURN_IF_ERROR(cluster->Create(manifest));
    RETURN_IF_ERROR(cluster->CheckSupported(manifest));
    if (manifest.kind == Kind::kJob || manifest.kind == Kind::kWorkload) {
      cluster->workloads_.push_back(std::move(manifest));
    }
  }
  cluster->BuildWorld();
  return cluster;
}

absl::Status TraceCluster::Read(const SourceFile& file, std::vector<Manifest>& manifests) const {
  absl::StatusOr<std::vector<YamlDocument>> documents = YamlDocuments(file.text);
  if (!documents.ok()) {
    return InvalidArgument("{}:{}", file.path, std::string(documents.status().message()));
  }
  for (YamlDocument& document : *documents) {
    const Json* items = document.json.Find("items");
    if (document.json.GetString("kind") != "List" || items == nullptr) {
      RETURN_IF_ERROR(Take(file, std::move(document), manifests));
      continue;
    }
    for (size_t i = 0; i < items->AsArray().size(); ++i) {
      YamlDocument item;
      item.json = items->AsArray()[i];
      const std::string prefix = fmt::format("items[{}]", i);
      for (const auto& [path, line] : document.lines) {
        if (path == prefix) item.line = line;
        if (path.starts_with(prefix + ".")) item.lines[path.substr(prefix.size() + 1)] = line;
      }
      RETURN_IF_ERROR(Take(file, std::move(item), manifests));
    }
  }
  return absl::OkStatus();
}

absl::Status TraceCluster::Take(const SourceFile& file, YamlDocument document,
                                std::vector<Manifest>& manifests) const {
  const std::string version = document.json.GetString("apiVersion");
  const std::string name = document.json.GetString("kind");
  const size_t slash = version.find('/');
  const std::string group = slash == std::string::npos ? "" : version.substr(0, slash);
  const api::KindInfo* info = api::FindKind(group, name);
  if (version.empty() || name.empty()) {
    return ErrorAt(file.path, document, "a manifest needs apiVersion and kind");
  }
  if (info == nullptr || RankOf(info->kind) < 0) {
    return ErrorAt(file.path, document,
                   fmt::format("kind: {} of {} has no meaning in a trace simulation", name,
                               group.empty() ? version : group));
  }
  Manifest manifest;
  manifest.kind = info->kind;
  if (group == api::kKueueGroup) {
    absl::StatusOr<Json> converted =
        webhook::ConvertObject(std::move(document.json), api::ApiVersionOf(info->kind),
                               webhook::ConversionOptionsOf(settings_));
    if (!converted.ok()) {
      return ErrorAt(file.path, document,
                     "apiVersion: " + std::string(converted.status().message()));
    }
    document.json = *std::move(converted);
  } else if (version != api::ApiVersionOf(info->kind)) {
    return ErrorAt(file.path, document,
                   fmt::format("apiVersion: {} of {} is not known, only {}", name, version,
                               api::ApiVersionOf(info->kind)));
  }
  manifest.key.name = document.json.GetString("metadata", "name");
  if (info->namespaced) {
    manifest.key.ns = document.json.GetString("metadata", "namespace");
    if (manifest.key.ns.empty()) manifest.key.ns = "default";
  }
  manifest.path = file.path;
  manifest.document = std::move(document);
  manifests.push_back(std::move(manifest));
  return absl::OkStatus();
}

absl::Status TraceCluster::Create(Manifest& manifest) {
  // "default" and "kube-system" are there from the start.
  if (manifest.kind == Kind::kNamespace && api_.Find(manifest.kind, manifest.key) != nullptr) {
    const Json* labels = manifest.document.json.Find("metadata", "labels");
    if (labels == nullptr) return absl::OkStatus();
  }
  const bool given = api_.Find(manifest.kind, manifest.key) != nullptr;
  state::Action action;
  action.verb =
      given && manifest.kind == Kind::kNamespace ? state::Verb::kMergePatch : state::Verb::kCreate;
  action.kind = manifest.kind;
  action.key = manifest.key;
  action.body = manifest.document.json;
  const absl::Time made = MadeAt(manifest.document.json).value_or(DefaultTraceStart());
  const bool policy = manifest.kind == Kind::kCreditPolicy;
  const state::Reply reply = api_.Execute(action, policy ? made : DefaultTraceStart());
  if (!reply.ok()) return ErrorAt(manifest.path, manifest.document, reply.message);
  if (manifest.kind == Kind::kNode) {
    action.verb = state::Verb::kMergePatch;
    action.subresource = "status";
    action.body = Json::MakeObject({{"status", NodeStatus(manifest.document.json)}});
    const state::Reply status = api_.Execute(action, DefaultTraceStart());
    if (!status.ok()) return ErrorAt(manifest.path, manifest.document, status.message);
    manifest.document.json = status.object;
    return absl::OkStatus();
  }
  // As stored: with the defaults.
  manifest.document.json = reply.object;
  return absl::OkStatus();
}

absl::Status TraceCluster::CheckSupported(const Manifest& manifest) const {
  const Json& object = manifest.document.json;
  const auto refuse = [&](const char* field, const char* what) {
    return ErrorAt(manifest.path, manifest.document,
                   fmt::format("{}: {} cannot be simulated with a trace", field, what));
  };
  if (manifest.kind == Kind::kClusterQueue) {
    const Json* checks = object.Find("spec", "admissionChecksStrategy", "admissionChecks");
    if (checks != nullptr && !checks->AsArray().empty()) {
      return refuse("spec.admissionChecksStrategy", "admission checks");
    }
  }
  if (manifest.kind == Kind::kLocalQueue) {
    const std::string queue = object.GetString("spec", "clusterQueue");
    if (api_.Find(Kind::kClusterQueue, {"", queue}) == nullptr) {
      return ErrorAt(manifest.path, manifest.document,
                     fmt::format("spec.clusterQueue: ClusterQueue {} does not exist", queue));
    }
    const std::string stop = object.GetString("spec", "stopPolicy");
    if (!stop.empty() && stop != "None") return refuse("spec.stopPolicy", "a stopped LocalQueue");
  }
  if (manifest.kind == Kind::kJob &&
      !object.GetString("metadata", "labels", api::kMaxExecTimeLabel).empty()) {
    return refuse("metadata.labels", "maximum execution times");
  }
  if (manifest.kind == Kind::kWorkload &&
      object.Find("spec", "maximumExecutionTimeSeconds") != nullptr) {
    return refuse("spec.maximumExecutionTimeSeconds", "maximum execution times");
  }
  return absl::OkStatus();
}

absl::Status TraceCluster::TakeBalance(const Manifest& manifest) {
  const std::string balance = manifest.document.json.GetString("status", "balance");
  if (balance.empty()) return absl::OkStatus();
  const absl::StatusOr<quota::Credits> credits = quota::Credits::Parse(balance);
  if (!credits.ok()) {
    return ErrorAt(manifest.path, manifest.document,
                   "status.balance: " + std::string(credits.status().message()));
  }
  balances_[manifest.key.name] = balance;
  return absl::OkStatus();
}

void TraceCluster::Store(state::Action action, absl::Time now) {
  const state::Reply reply = api_.Execute(action, now);
  SLUICE_CHECK(reply.ok(), "{}: {}", action.key.name, reply.message);
  state::Refs touched;
  world_.Apply({ObjectEvent::Type::kUpsert, action.kind, reply.object}, now, touched);
}

// The accounts are made as the controller makes them, with what they have for a status.
void TraceCluster::StartCredits(absl::Time start) {
  if (world_.credit_policies().size() == 0) return;
  state::Refs touched;
  world_.PrepareCredits(start, touched);
  std::vector<std::string> names;
  for (const auto& [name, node] : world_.credits().nodes()) names.push_back(name);
  for (const std::string& name : names) {
    const ObjectKey key{"", name};
    if (world_.credit_accounts().Find(key) == nullptr) {
      reconcile::Plan plan = reconcile::ReconcileCreditAccount(world_, key, start);
      for (reconcile::Write& write : plan.writes) Store(std::move(write.action), start);
    }
    Json status = Json::MakeObject({{"lastSettled", state::FormatMilliTime(start)}});
    const auto balance = balances_.find(name);
    status.Set("balance", balance == balances_.end() ? "0" : balance->second);
    Store(reconcile::MergePatchAction(Kind::kCreditAccount, key, "status",
                                      Json::MakeObject({{"status", std::move(status)}}), ""),
          start);
  }
  world_.PrepareCredits(start, touched);
}

void TraceCluster::BuildWorld() {
  const absl::Time now = DefaultTraceStart();
  state::Refs touched;
  for (const Kind kind : state::World::WatchedKinds(world_.settings())) {
    world_.Apply({ObjectEvent::Type::kListBegin, kind, {}}, now, touched);
    if (kind != Kind::kJob && kind != Kind::kWorkload) {
      api_.ForEach(kind, [&](const Json& object) {
        world_.Apply({ObjectEvent::Type::kUpsert, kind, object}, now, touched);
      });
    }
    world_.Apply({ObjectEvent::Type::kListEnd, kind, {}}, now, touched);
  }
  for (const auto& [key, queue] : world_.local_queues().all()) {
    local_queues_.push_back({key, queue->spec.cluster_queue});
  }
}

absl::Status TraceCluster::AddManifestWorkloads(TraceBuilder& builder) const {
  std::string source;
  for (const Manifest& manifest : workloads_) {
    if (manifest.path != source) builder.SetSource(source = manifest.path);
    builder.SetLine(static_cast<uint32_t>(manifest.document.line));
    RETURN_IF_ERROR(AddManifestWorkload(manifest, builder));
  }
  return absl::OkStatus();
}

absl::Status TraceCluster::AddManifestWorkload(const Manifest& manifest,
                                               TraceBuilder& builder) const {
  const Json& object = manifest.document.json;
  const auto fail = [&](const std::string& message) {
    return ErrorAt(manifest.path, manifest.document, message);
  };
  const std::string submit_text = AnnotationOf(object, kSubmitSecondsAnnotation);
  const absl::StatusOr<Micros> submit = ParseMicros(submit_text.empty() ? "0" : submit_text);
  if (!submit.ok()) {
    return fail(fmt::format("metadata.annotations.{}: {}", kSubmitSecondsAnnotation,
                            std::string(submit.status().message())));
  }
  const absl::StatusOr<Micros> run = RunTime(object, manifest.kind);
  if (!run.ok()) return fail(std::string(run.status().message()));
  absl::StatusOr<api::Workload> workload = absl::InternalError("");
  if (manifest.kind == Kind::kJob) {
    absl::StatusOr<api::Job> job = api::Decode<api::Job>(object);
    if (!job.ok()) return fail(std::string(job.status().message()));
    if (job->metadata.Label(api::kQueueNameLabel).empty()) {
      return fail(fmt::format("metadata.labels: Job {} names no queue ({})",
                              manifest.key.ToString(), api::kQueueNameLabel));
    }
    absl::StatusOr<std::vector<api::PodSet>> pod_sets =
        jobs::BatchJob::PodSets(*job, jobs::PodTopologyOf(world_.settings().gates));
    if (!pod_sets.ok()) return fail(std::string(pod_sets.status().message()));
    absl::StatusOr<jobs::NewWorkload> made =
        jobs::ConstructWorkload(world_, job->metadata, *std::move(pod_sets));
    if (!made.ok()) return fail(std::string(made.status().message()));
    workload = api::Decode<api::Workload>(made->body);
    if (workload.ok()) {
      workload->metadata.name = manifest.key.name;
      reconcile::DeclaredCheckpoints declared;
      declared.Add(job->metadata.annotations, "annotation", absl::InfiniteFuture());
      declared.Add(job->spec.pod_template.annotations, "pod template: annotation",
                   absl::InfiniteFuture());
      for (const auto& [name, value] : declared.annotations) {
        workload->metadata.annotations[name] = value;
      }
    }
  } else {
    workload = api::Decode<api::Workload>(object);
  }
  if (!workload.ok()) return fail(std::string(workload.status().message()));
  const auto& reference = workload->spec.priority_class_ref;
  if (!workload->spec.priority && reference && reference->group == api::kKueueGroup) {
    const auto found = world_.workload_priority_classes().Find({"", reference->name});
    if (found == nullptr) {
      return fail(fmt::format("spec.priorityClassRef: WorkloadPriorityClass {} does not exist",
                              reference->name));
    }
    workload->spec.priority = found->value;
  }
  if (!queueing::IsAdmissible(*workload, world_.order_options())) {
    return fail("spec: a workload that is inactive or gated never enters its queue");
  }
  return builder.Add(*workload, *submit, *run);
}

std::optional<uint32_t> TraceCluster::FindLocalQueue(const ObjectKey& key) const {
  const auto found =
      std::lower_bound(local_queues_.begin(), local_queues_.end(), key,
                       [](const Queue& queue, const ObjectKey& k) { return queue.key < k; });
  if (found == local_queues_.end() || found->key != key) return std::nullopt;
  return static_cast<uint32_t>(found - local_queues_.begin());
}

std::vector<std::string> TraceCluster::InactiveQueues() const {
  std::vector<std::string> texts;
  for (const auto& [key, queue] : world_.cluster_queues().all()) {
    const state::QueueActivity activity = world_.ActivityOf(key.name);
    if (!activity.active) {
      texts.push_back(fmt::format("ClusterQueue {}: {}", key.name, activity.message));
    }
  }
  return texts;
}

}  // namespace sluice::sim
