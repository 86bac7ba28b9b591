// New batch Jobs become gangs of kube-scheduler.
// Source: KEP-5547 "Integrate Workload APIs with Job" (spec.scheduling), KEP-4671 "Gang Scheduling"
// (pod.spec.schedulingGroup).
#include <fmt/format.h>

#include "api/names.h"
#include "jobs/gang.h"
#include "jobs/job_kind.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

using api::Json;

// The Job controller may make up to five characters of a name that it generates.
constexpr size_t kGeneratedPart = 5;

Path AnnotationPath(const char* key) { return Path("metadata").Child("annotations").Key(key); }

// One pod is no gang, unless the user insists.
bool Wanted(const View& view, const api::Job& job) {
  const std::string wish = job.metadata.Annotation(api::kNativeGang);
  if (!wish.empty()) return wish == "true";
  return view.GateOn("NativeGangs") && jobs::BatchJob::PodCount(job) > 1;
}

// Why a Job that asks for a gang cannot be made one; "" when it can, or when it is one by itself.
std::string Obstacle(const View& view, const api::Job& job, const std::string& ns) {
  if (job.metadata.Controller() != nullptr) {
    return fmt::format("{} {}, which owns the Job, decides about its pods",
                       job.metadata.Controller()->kind, job.metadata.Controller()->name);
  }
  if (job.spec.managed_by && *job.spec.managed_by != "kubernetes.io/job-controller") {
    return fmt::format("the Job is managed by {}", *job.spec.managed_by);
  }
  const NamespaceView* home = view.FindNamespace(ns);
  if (home == nullptr || !view.settings->managed_jobs_namespace_selector.Matches(home->labels)) {
    return "the namespace is not managed";
  }
  return "";
}

bool AlreadyGrouped(const api::Job& job) {
  return job.spec.scheduling.has_value() || !job.spec.pod_template.spec->scheduling_group.empty();
}

std::string BaseName(const api::Job& job) {
  return job.metadata.name.empty() ? job.metadata.generate_name : job.metadata.name;
}

bool NameFits(const api::Job& job) {
  const std::string part = job.metadata.name.empty() ? std::string(kGeneratedPart, 'x') : "";
  return jobs::NameFitsJobController(BaseName(job) + part);
}

bool IsRoot(const api::Job& job) { return job.metadata.Controller() == nullptr; }

bool NeverPreempts(const View& view, const api::Job& job) {
  return view.never_preempting.Contains(job.spec.pod_template.spec->priority_class_name);
}

// The Job controller does not copy the preemption policy of the pods' class into the PodGroup, and
// the API server (feature gate PodGroupPreemptionPolicy) refuses one that differs from the class.
// Of an elastic Job it asks for all pods, also for those that have no quota yet.
bool JobControllerTakes(const View& view, const api::Job& job) {
  return NameFits(job) && !IsElasticJob(view, job.metadata) && !NeverPreempts(view, job);
}

// With spec.scheduling of its own, or with none, the Job controller makes a PodGroup for every Job
// that has no owner; where it cannot, the Job has no pods. A PodGroup of ours can say all that the
// Job does except for claims of devices.
bool NeedsOwnGroup(const View& view, const Json& object, const api::Job& job) {
  const Json* claims = object.Find("spec", "scheduling", "resourceClaims");
  return view.features.job_scheduling && view.features.pod_groups && IsRoot(job) &&
         job.spec.pod_template.spec->scheduling_group.empty() &&
         (NeverPreempts(view, job) || !NameFits(job)) &&
         (claims == nullptr || !claims->IsArray() || claims->AsArray().empty());
}

void AddMode(const Json& object, const char* mode, PatchOps* ops) {
  const Json* annotations = object.Find("metadata", "annotations");
  if (annotations != nullptr && annotations->IsObject()) {
    ops->push_back(AddOp("/metadata/annotations/" + PointerPart(api::kGangMode), mode));
  } else {
    ops->push_back(
        AddOp("/metadata/annotations", Json::MakeObject({{api::kGangMode, Json(mode)}})));
  }
}

}  // namespace

void CheckGangAnnotations(const api::ObjectMeta& metadata, const std::string& no_shrink,
                          FieldErrors* errors) {
  const std::string wish = metadata.Annotation(api::kNativeGang);
  if (!wish.empty() && wish != "true" && wish != "false") {
    errors->push_back(
        FieldError::NotSupported(AnnotationPath(api::kNativeGang), wish, {"true", "false"}));
  }
  const std::string policy = metadata.Annotation(api::kOnGangBroken);
  const auto parsed = jobs::ParseOnGangBroken(policy);
  if (!parsed) {
    errors->push_back(FieldError::NotSupported(AnnotationPath(api::kOnGangBroken), policy,
                                               {"Repair", "Requeue", "Shrink", "Ignore"}));
  } else if (*parsed == jobs::OnGangBroken::kShrink && !no_shrink.empty()) {
    errors->push_back(FieldError::Invalid(AnnotationPath(api::kOnGangBroken), policy, no_shrink));
  }
  const std::string timeout = metadata.Annotation(api::kRepairTimeout);
  if (!jobs::ParseRepairTimeout(timeout)) {
    errors->push_back(FieldError::Invalid(AnnotationPath(api::kRepairTimeout), timeout,
                                          "must be a positive duration, such as 5m"));
  }
}

namespace {

void CheckAnnotations(const api::Job& job, FieldErrors* errors) {
  std::string no_shrink;
  if (!jobs::DeclaredMinimum(job)) {
    no_shrink = fmt::format(
        "needs a minimum below all pods: the annotation {}, or an own "
        "spec.scheduling.schedulingPolicy.gang.minCount",
        api::kJobMinParallelism);
  }
  CheckGangAnnotations(job.metadata, no_shrink, errors);
}

void Warn(const Request& request, const View& view, const api::Job& job) {
  const bool grouped = AlreadyGrouped(job);
  if (job.metadata.Annotation(api::kNativeGang) == "true" && !grouped) {
    std::string why = Obstacle(view, job, request.ns);
    if (why.empty() && !view.features.pod_groups && !view.features.job_scheduling) {
      why = "the cluster does not serve PodGroups of scheduling.k8s.io/v1beta1";
    }
    if (!why.empty()) {
      request.warnings->push_back(fmt::format(
          "{}: kube-scheduler will place the pods one by one: {}", api::kNativeGang, why));
    }
  }
  const bool grouped_by_template = !job.spec.pod_template.spec->scheduling_group.empty();
  if (!view.features.job_scheduling || !IsRoot(job) || grouped_by_template) return;
  if (!NameFits(job)) {
    request.warnings->push_back(
        "metadata.name: with the feature gate WorkloadWithJob the Job controller makes no pods for "
        "a Job whose name has a dot or more than 57 characters");
  }
  if (NeverPreempts(view, job)) {
    request.warnings->push_back(
        "spec.template.spec.priorityClassName: where the API server has the feature gate "
        "PodGroupPreemptionPolicy, it refuses the PodGroup that the Job controller makes for pods "
        "whose class never preempts, and then there are no pods; a PodGroup of your own, named in "
        "spec.template.spec.schedulingGroup, can say so");
  }
}

}  // namespace

namespace {

// A request has a UID of its own; the Job's is not known yet, and its name perhaps neither.
void AddOwnGroup(const Request& request, const api::Job& job, const char* mode, PatchOps* ops) {
  const std::string name = jobs::PodGroupName(
      BaseName(job), fmt::format("{}\n{}\n{}", request.ns, BaseName(job), request.uid));
  ops->push_back(
      AddOp("/spec/template/spec/schedulingGroup", Json::MakeObject({{"podGroupName", name}})));
  AddMode(*request.object, mode, ops);
}

}  // namespace

void AddNativeGang(const Request& request, const View& view, const api::Job& job, PatchOps* ops) {
  if (!job.metadata.Annotation(api::kGangMode).empty() ||
      !Obstacle(view, job, request.ns).empty()) {
    return;
  }
  const Json& object = *request.object;
  if (object.Find("spec", "template", "spec") == nullptr || object.Find("metadata") == nullptr) {
    return;  // refused anyway
  }
  if (!Wanted(view, job) || AlreadyGrouped(job)) {
    if (!NeedsOwnGroup(view, object, job)) return;
    const bool gang = job.spec.scheduling && job.spec.scheduling->policy.gang;
    return AddOwnGroup(request, job, gang ? jobs::kModePodGroup : jobs::kModeBasicPodGroup, ops);
  }
  if (view.features.job_scheduling && JobControllerTakes(view, job)) {
    const Json policy = Json::MakeObject({{"gang", Json::MakeObject()}});
    const Json mode = Json::MakeObject({{"all", Json::MakeObject()}});
    ops->push_back(AddOp("/spec/scheduling", Json::MakeObject({{"schedulingPolicy", policy},
                                                               {"disruptionMode", mode}})));
    AddMode(object, jobs::kModeJobScheduling, ops);
  } else if (view.features.pod_groups) {
    AddOwnGroup(request, job, jobs::kModePodGroup, ops);
  } else {
    AddMode(object, jobs::kModeFallback, ops);
  }
}

void CheckGang(const Request& request, const View& view, const api::Job& job,
               const api::Job* old_job, FieldErrors* errors) {
  if (old_job == nullptr) {
    CheckAnnotations(job, errors);
    Warn(request, view, job);
    return;
  }
  // What slipped in while nobody checked must not keep the Job from being written to.
  const auto changed = [&](const char* key) {
    return job.metadata.Annotation(key) != old_job->metadata.Annotation(key);
  };
  if (changed(api::kNativeGang) || changed(api::kOnGangBroken) || changed(api::kRepairTimeout)) {
    CheckAnnotations(job, errors);
  }
  if (changed(api::kGangMode)) {
    const std::string mode = job.metadata.Annotation(api::kGangMode);
    errors->push_back(FieldError::Invalid(AnnotationPath(api::kGangMode), mode, kImmutable));
  }
}

}  // namespace sluice::webhook
