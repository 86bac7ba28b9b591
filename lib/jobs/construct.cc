#include "jobs/construct.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/status.h"
#include "jobs/job_kind.h"
#include "jobs/pod_template.h"
#include "jobs/workload_name.h"
#include "preemption/checkpoint.h"
#include "queueing/topology_inputs.h"

namespace sluice::jobs {
namespace {

using api::Json;

constexpr size_t kMaxLabelValue = 63;
constexpr char kSchedulingGroup[] = "scheduling.k8s.io";

ResolvedPriority OfClass(const std::string& name, int32_t value) {
  return {api::PriorityClassRef{kSchedulingGroup, "PriorityClass", name}, value};
}

bool IsDnsLabel(const std::string& text) {
  const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !text.empty() && text.size() <= kMaxLabelValue && alnum(text.front()) &&
         alnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [&](char c) { return alnum(c) || c == '-'; });
}

bool IsOfJob(const api::Workload& workload) {
  const api::OwnerReference* owner = workload.metadata.Controller();
  return owner != nullptr && owner->kind == BatchJob::kKind;
}

Json PodSetJson(const api::PodSet& pod_set, bool partial_admission) {
  Json json = Json::MakeObject({{"name", pod_set.name},
                                {"count", static_cast<int64_t>(pod_set.count)},
                                {"template", TemplateJson(pod_set.pod_template)}});
  if (partial_admission && pod_set.min_count) {
    json.Set("minCount", static_cast<int64_t>(*pod_set.min_count));
  }
  if (pod_set.topology_request) {
    json.Set("topologyRequest", api::Encode(*pod_set.topology_request));
  }
  return json;
}

bool SameTolerations(const std::vector<api::Toleration>& a, const std::vector<api::Toleration>& b) {
  return a == b;
}

bool SamePodSets(const std::vector<api::PodSet>& job, const std::vector<api::PodSet>& workload,
                 bool partial_admission, bool compare_tolerations) {
  if (job.size() != workload.size()) return false;
  for (size_t i = 0; i < job.size(); ++i) {
    if (job[i].count != workload[i].count) return false;
    if (partial_admission && job[i].min_count.value_or(-1) != workload[i].min_count.value_or(-1)) {
      return false;
    }
    if (compare_tolerations && !SameTolerations(job[i].pod_template.spec->tolerations,
                                                workload[i].pod_template.spec->tolerations)) {
      return false;
    }
    if (!SameContainers(job[i].pod_template, workload[i].pod_template)) return false;
  }
  return true;
}

// The pod sets as the job has them while it runs: what the admission injects is merged in.
std::optional<std::vector<api::PodSet>> ExpectedRunning(const state::World& world,
                                                        const api::Workload& workload) {
  const absl::StatusOr<std::vector<PodSetInfo>> infos = InfosOf(world, workload);
  if (!infos.ok() || infos->size() != workload.spec.pod_sets.size()) return std::nullopt;
  std::vector<api::PodSet> expected = workload.spec.pod_sets;
  const bool partial =
      std::any_of(expected.begin(), expected.end(), [](const api::PodSet& pod_set) {
        return pod_set.min_count && pod_set.count > *pod_set.min_count;
      });
  for (size_t i = 0; i < expected.size(); ++i) {
    std::vector<api::Toleration>& tolerations = expected[i].pod_template.spec->tolerations;
    for (const api::Toleration& toleration : (*infos)[i].tolerations) {
      const bool known =
          std::any_of(tolerations.begin(), tolerations.end(),
                      [&](const api::Toleration& t) { return SameToleration(t, toleration); });
      if (!known) tolerations.push_back(toleration);
    }
    if (partial && expected[i].min_count) expected[i].count = (*infos)[i].count;
  }
  return expected;
}

std::string NameFor(const state::World& world, const api::ObjectMeta& job,
                    const std::string& extra) {
  const bool short_names = world.settings().gates.Enabled("ShortWorkloadNames");
  return WorkloadName({BatchJob::kKind, BatchJob::kGroup, job.name, job.uid, extra},
                      short_names ? 63 : 253);
}

// Each size of a job has a generation of its own. Should a slice of this generation have ended
// already, the next one gets another name.
std::string NewSliceName(const state::World& world, const api::ObjectMeta& job) {
  const std::string generation = std::to_string(job.generation);
  std::string name = NameFor(world, job, generation);
  for (int i = 1; world.workloads().Find({job.ns, name}) != nullptr; ++i) {
    name = NameFor(world, job, fmt::format("{}_{}", generation, i));
  }
  return name;
}

// The pods wait until each is given its place. Those that do not say themselves that they are
// placed get an annotation that does, or they would be taken for pods of somebody else.
void AddPlacement(const api::Workload& workload, const std::string& name, PodSetInfo& info) {
  info.scheduling_gates.push_back(api::kTopologyGate);
  const auto& pod_sets = workload.spec.pod_sets;
  const auto pod_set = std::find_if(pod_sets.begin(), pod_sets.end(),
                                    [&](const api::PodSet& one) { return one.name == name; });
  if (pod_set != pod_sets.end() && pod_set->topology_request.has_value()) {
    const api::PodSetTopologyRequest& request = *pod_set->topology_request;
    if (request.required || request.preferred || request.unconstrained) return;
  }
  info.annotations[queueing::kUnconstrainedTopology] = "true";
}

void AddSliceAnnotations(Json& annotations, const std::string& name,
                         const api::Workload* replaced) {
  annotations.Set(api::kElasticJob, "true");
  annotations.Set(api::kWorkloadSliceName, replaced == nullptr ? name : SliceName(*replaced));
  if (replaced == nullptr) return;
  annotations.Set(api::kWorkloadSliceReplacementFor, replaced->metadata.Key().ToString());
}

constexpr char kNeverPreempts[] = "Never";

// Of several the API server takes the one of the least value.
std::shared_ptr<const api::PriorityClass> DefaultClass(const state::World& world) {
  std::shared_ptr<const api::PriorityClass> lowest;
  for (const auto& [key, priority_class] : world.priority_classes().all()) {
    if (!priority_class->global_default) continue;
    if (lowest == nullptr || priority_class->value < lowest->value) lowest = priority_class;
  }
  return lowest;
}

}  // namespace

Json ControllerReference(const std::string& api_version, const std::string& kind,
                         const api::ObjectMeta& owner) {
  return Json::MakeObject({{"apiVersion", api_version},
                           {"kind", kind},
                           {"name", owner.name},
                           {"uid", owner.uid},
                           {"controller", true},
                           {"blockOwnerDeletion", true}});
}

absl::StatusOr<ResolvedPriority> ResolvePriority(const state::World& world,
                                                 const std::string& class_label,
                                                 const std::vector<api::PodSet>& pod_sets) {
  if (!class_label.empty()) {
    const auto found = world.workload_priority_classes().Find({"", class_label});
    if (found == nullptr) return NotFound("WorkloadPriorityClass {} does not exist", class_label);
    return ResolvedPriority{
        api::PriorityClassRef{api::kKueueGroup, "WorkloadPriorityClass", class_label},
        found->value};
  }
  for (const api::PodSet& pod_set : pod_sets) {
    const std::string& name = pod_set.pod_template.spec->priority_class_name;
    if (name.empty()) continue;
    const auto found = world.priority_classes().Find({"", name});
    if (found == nullptr) return NotFound("PriorityClass {} does not exist", name);
    return OfClass(name, found->value);
  }
  const auto by_default = DefaultClass(world);
  if (by_default == nullptr) return ResolvedPriority{};
  return OfClass(by_default->metadata.name, by_default->value);
}

std::string PreemptionPolicyOf(const state::World& world, const std::string& priority_class) {
  const auto found = priority_class.empty() ? DefaultClass(world)
                                            : world.priority_classes().Find({"", priority_class});
  const bool never = found != nullptr && found->preemption_policy == kNeverPreempts;
  return never ? kNeverPreempts : "";
}

std::optional<int32_t> MaxExecutionTime(const api::ObjectMeta& job) {
  const std::string text = job.Label(api::kMaxExecTimeLabel);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0) return std::nullopt;
  return value;
}

std::string PrebuiltName(const state::Settings& settings, const api::ObjectMeta& job) {
  const std::string annotation = job.Annotation(api::kPrebuiltWorkload);
  const std::string label = job.Label(api::kPrebuiltWorkload);
  if (settings.gates.Enabled("WorkloadIdentifierAnnotations")) {
    return annotation.empty() ? label : annotation;
  }
  if (!label.empty()) return label;
  return annotation.size() > kMaxLabelValue ? annotation : std::string();
}

Json PodSetsJson(const state::World& world, const std::vector<api::PodSet>& pod_sets) {
  Json sets = Json::MakeArray();
  const bool partial = world.settings().gates.Enabled("PartialAdmission");
  for (const api::PodSet& pod_set : pod_sets) sets.Append(PodSetJson(pod_set, partial));
  return sets;
}

std::string SliceName(const api::Workload& workload) {
  const std::string name = workload.metadata.Annotation(api::kWorkloadSliceName);
  return name.empty() ? workload.metadata.name : name;
}

absl::StatusOr<Json> WorkloadSpec(const state::World& world, const api::ObjectMeta& job,
                                  const std::vector<api::PodSet>& pod_sets,
                                  std::optional<bool> active) {
  ASSIGN_OR_RETURN(const ResolvedPriority priority,
                   ResolvePriority(world, job.Label(api::kPriorityClassLabel), pod_sets));
  Json spec = Json::MakeObject();
  spec.Set("podSets", PodSetsJson(world, pod_sets));
  if (const std::string queue = job.Label(api::kQueueNameLabel); !queue.empty()) {
    spec.Set("queueName", queue);
  }
  if (priority.ref) spec.Set("priorityClassRef", api::Encode(*priority.ref));
  spec.Set("priority", static_cast<int64_t>(priority.value));
  if (const std::optional<int32_t> limit = MaxExecutionTime(job)) {
    spec.Set("maximumExecutionTimeSeconds", static_cast<int64_t>(*limit));
  }
  if (active) spec.Set("active", *active);
  return spec;
}

absl::StatusOr<NewWorkload> ConstructWorkload(const state::World& world, const api::ObjectMeta& job,
                                              std::vector<api::PodSet> pod_sets,
                                              std::optional<Slice> slice) {
  ASSIGN_OR_RETURN(Json spec, WorkloadSpec(world, job, pod_sets, std::nullopt));
  NewWorkload workload;
  workload.key = {job.ns, slice ? NewSliceName(world, job) : NameFor(world, job, "")};
  Json labels = Json::MakeObject();
  for (const std::string& key : world.settings().integrations.label_keys_to_copy) {
    if (const auto found = job.labels.find(key); found != job.labels.end()) {
      labels.Set(key, found->second);
    }
  }
  if (job.uid.size() <= kMaxLabelValue) labels.Set(api::kJobUidLabel, job.uid);
  Json annotations = Json::MakeObject();
  for (const auto& [key, value] : job.annotations) {
    if (key.starts_with(api::kProvReqPrefix)) annotations.Set(key, value);
  }
  const std::string gates = job.Annotation(api::kAdmissionGatedBy);
  if (!gates.empty() && world.settings().gates.Enabled("AdmissionGatedBy")) {
    annotations.Set(api::kAdmissionGatedBy, gates);
  }
  if (slice) AddSliceAnnotations(annotations, workload.key.name, slice->replaced);
  Json metadata = Json::MakeObject(
      {{"name", workload.key.name},
       {"namespace", workload.key.ns},
       {"labels", std::move(labels)},
       {"finalizers", Json::MakeArray({api::kResourceInUse})},
       {"ownerReferences",
        Json::MakeArray({ControllerReference(BatchJob::kApiVersion, BatchJob::kKind, job)})}});
  if (!annotations.AsObject().empty()) metadata.Set("annotations", std::move(annotations));
  workload.body = Json::MakeObject({{"apiVersion", api::ApiVersionOf(api::Kind::kWorkload)},
                                    {"kind", "Workload"},
                                    {"metadata", std::move(metadata)},
                                    {"spec", std::move(spec)}});
  return workload;
}

absl::StatusOr<std::vector<PodSetInfo>> InfosOf(const state::World& world,
                                                const api::Workload& workload) {
  std::vector<PodSetInfo> infos;
  if (!workload.status.admission) return infos;
  const api::Admission& admission = *workload.status.admission;
  for (size_t i = 0; i < admission.pod_set_assignments.size(); ++i) {
    const api::PodSetAssignment& assignment = admission.pod_set_assignments[i];
    PodSetInfo info;
    info.name = assignment.name;
    const int32_t spec_count =
        i < workload.spec.pod_sets.size() ? workload.spec.pod_sets[i].count : 0;
    info.count = assignment.count.value_or(spec_count);
    std::set<std::string> flavors;
    for (const auto& [resource, flavor] : assignment.flavors) flavors.insert(flavor);
    for (const std::string& name : flavors) {
      const auto flavor = world.flavors().Find({"", name});
      if (flavor == nullptr) return NotFound("ResourceFlavor {} does not exist", name);
      for (const auto& [key, value] : flavor->spec.node_labels) info.node_selector[key] = value;
      PodSetInfo tolerations;
      tolerations.tolerations = flavor->spec.tolerations;
      RETURN_IF_ERROR(Merge(info, tolerations));
    }
    if (world.settings().gates.Enabled("TopologyAwareScheduling")) {
      info.annotations[api::kWorkloadAnnotation] = workload.metadata.name;
    }
    if (workload.metadata.Annotation(api::kElasticJob) == "true" &&
        world.settings().gates.Enabled("ElasticJobsViaWorkloadSlices")) {
      info.annotations[api::kWorkloadSliceName] = SliceName(workload);
      info.labels[api::kManagedLabel] = api::kManagedElastic;
    } else if (IsOfJob(workload) && preemption::CheckpointsOf(workload).has_value()) {
      // Its pods may tell of checkpoints, and may be asked for one.
      info.labels[api::kManagedLabel] = preemption::kManagedCheckpoint;
    }
    info.labels[api::kPodSetLabel] = assignment.name;
    if (assignment.topology_assignment.has_value()) AddPlacement(workload, assignment.name, info);
    if (world.settings().gates.Enabled("AssignQueueLabelsForPods")) {
      info.labels[api::kLocalQueueNameLabel] = workload.spec.queue_name;
      if (IsDnsLabel(admission.cluster_queue)) {
        info.labels[api::kClusterQueueNameLabel] = admission.cluster_queue;
      }
    }
    for (const api::AdmissionCheckState& check : workload.status.admission_checks) {
      const auto update =
          std::find_if(check.pod_set_updates.begin(), check.pod_set_updates.end(),
                       [&](const api::PodSetUpdate& u) { return u.name == assignment.name; });
      if (update == check.pod_set_updates.end()) continue;
      const PodSetInfo extra{
          update->name,        0, update->labels, update->annotations, update->node_selector,
          update->tolerations, {}};
      if (absl::Status merged = Merge(info, extra); !merged.ok()) {
        return Annotate(merged, "in admission check \"" + check.name + "\"");
      }
    }
    infos.push_back(std::move(info));
  }
  return infos;
}

bool Matches(const state::World& world, const api::Workload& workload, const api::ObjectMeta& job,
             const std::vector<api::PodSet>& pod_sets, bool suspended) {
  const api::OwnerReference* owner = workload.metadata.Controller();
  if (owner == nullptr || owner->name != job.name) return false;
  if (world.settings().gates.Enabled("FinishOrphanedWorkloads") && owner->uid != job.uid) {
    return false;
  }
  if (workload.spec.maximum_execution_time_seconds.value_or(-1) !=
      MaxExecutionTime(job).value_or(-1)) {
    return false;
  }
  const bool partial = world.settings().gates.Enabled("PartialAdmission");
  const bool admitted = api::IsTrue(workload.status.conditions, api::kAdmitted);
  if (workload.status.admission) {
    const auto expected = ExpectedRunning(world, workload);
    if (expected && SamePodSets(pod_sets, *expected, partial, !admitted)) return true;
    if (expected && !suspended) return false;
  }
  return SamePodSets(pod_sets, workload.spec.pod_sets, partial, !admitted);
}

}  // namespace sluice::jobs
