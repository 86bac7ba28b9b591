// batch/v1 Job.
#include <fmt/format.h>

#include <algorithm>

#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

constexpr char kFramework[] = "batch/job";

bool IsSuspended(const api::Job& job) {
  return job.spec.suspend.value_or(false) && job.metadata.Annotation(api::kStopping) != "true";
}

int64_t PodCount(const api::Job& job) {
  const int64_t parallelism = job.spec.parallelism.value_or(1);
  return job.spec.completions ? std::min<int64_t>(parallelism, *job.spec.completions) : parallelism;
}

Path AnnotationPath(const char* key) { return Path("metadata").Child("annotations").Key(key); }

JobFacts FactsOf(const api::Job& job) {
  return {.metadata = job.metadata,
          .suspended = IsSuspended(job),
          .prebuilt_supported = true,
          .elastic_supported = true};
}

const std::string* FindAnnotation(const api::Job& job, const char* key) {
  const auto found = job.metadata.annotations.find(key);
  return found == job.metadata.annotations.end() ? nullptr : &found->second;
}

void CheckMinParallelism(const api::Job& job, FieldErrors* errors) {
  const std::string* text = FindAnnotation(job, api::kJobMinParallelism);
  if (text == nullptr) return;
  const std::optional<int64_t> value = ParseInt64(*text);
  const Path path = AnnotationPath(api::kJobMinParallelism);
  if (!value) {
    errors->push_back(FieldError::Invalid(path, *text, "must be an integer"));
  } else if (*value <= 0 || *value >= PodCount(job)) {
    errors->push_back(FieldError::Invalid(
        path, *value, fmt::format("should be between 0 and {}", PodCount(job) - 1)));
  }
}

bool CompletionsFollow(const api::Job& job) {
  const std::string* text = FindAnnotation(job, api::kJobCompletionsEqualParallelism);
  return text != nullptr && ParseBool(*text).value_or(false);
}

void CheckCompletionsFollow(const api::Job& job, FieldErrors* errors) {
  const std::string* text = FindAnnotation(job, api::kJobCompletionsEqualParallelism);
  if (text == nullptr) return;
  const Path path = AnnotationPath(api::kJobCompletionsEqualParallelism);
  if (!ParseBool(*text)) {
    errors->push_back(FieldError::Invalid(path, *text, "must be true or false"));
    return;
  }
  if (!CompletionsFollow(job)) return;
  if (job.spec.completion_mode != "Indexed") {
    errors->push_back(FieldError::Invalid(path, *text, "needs the completionMode Indexed"));
  }
  if (job.spec.parallelism.value_or(1) != job.spec.completions.value_or(1)) {
    errors->push_back(
        FieldError::Invalid(path, *text, "needs completions to be equal to parallelism"));
  }
}

void CheckElastic(const View& view, const api::Job& job, FieldErrors* errors) {
  if (!IsElasticJob(view, job.metadata)) return;
  if (FindAnnotation(job, api::kJobMinParallelism) != nullptr) {
    errors->push_back(FieldError::Invalid(AnnotationPath(api::kJobMinParallelism),
                                          *FindAnnotation(job, api::kJobMinParallelism),
                                          "does not go with an elastic job"));
  }
  const Path annotations = Path("spec").Child("template", "metadata", "annotations");
  for (const char* key :
       {"kueue.x-k8s.io/podset-required-topology", "kueue.x-k8s.io/podset-preferred-topology"}) {
    if (job.spec.pod_template.annotations.count(key) == 0) continue;
    errors->push_back(
        FieldError::Forbidden(annotations.Key(key), "does not go with an elastic job"));
  }
}

// Rules of creation that hold for every later state as well.
void CheckAlways(const View& view, const api::Job& job, FieldErrors* errors) {
  CheckJobCreate(view, FactsOf(job), errors);
  CheckCompletionsFollow(job, errors);
  CheckElastic(view, job, errors);
  CheckTopologyAnnotations(view, Path("spec").Child("template", "metadata"),
                           job.spec.pod_template.annotations, PodCount(job), errors);
}

// `old_job` is nullptr at creation.
void CheckCheckpoints(const api::Job& job, const api::Job* old_job, FieldErrors* errors) {
  const auto old_template = [&] { return &old_job->spec.pod_template.annotations; };
  CheckCheckpointAnnotations(Path("metadata"), job.metadata.annotations,
                             old_job == nullptr ? nullptr : &old_job->metadata.annotations, errors);
  CheckCheckpointAnnotations(Path("spec").Child("template", "metadata"),
                             job.spec.pod_template.annotations,
                             old_job == nullptr ? nullptr : old_template(), errors);
}

void CheckPartialAdmissionUpdate(const api::Job& job, const api::Job& old_job,
                                 FieldErrors* errors) {
  const std::string* min = FindAnnotation(job, api::kJobMinParallelism);
  const std::string* old_min = FindAnnotation(old_job, api::kJobMinParallelism);
  const bool changed =
      (min == nullptr) != (old_min == nullptr) || (min != nullptr && *min != *old_min);
  if (changed) CheckMinParallelism(job, errors);
  if (old_min != nullptr && !old_job.spec.suspend.value_or(false) &&
      job.spec.parallelism.value_or(1) != old_job.spec.parallelism.value_or(1)) {
    errors->push_back(FieldError::Forbidden(
        Path("spec").Child("parallelism"),
        "cannot change when partial admission is enabled and the job is not suspended"));
  }
  if (!IsSuspended(job) && !IsSuspended(old_job) &&
      CompletionsFollow(job) != CompletionsFollow(old_job)) {
    errors->push_back(FieldError::Forbidden(AnnotationPath(api::kJobCompletionsEqualParallelism),
                                            "cannot change while the job is not suspended"));
  }
}

absl::StatusOr<api::Job> ReadJob(const api::Json& object) { return api::Decode<api::Job>(object); }

// Operations that add labels, with the map itself if there is none yet.
void AddLabels(const api::Json& object, const api::StringMap& labels, PatchOps* ops) {
  if (labels.empty()) return;
  const api::Json* existing = object.Find("metadata", "labels");
  if (existing != nullptr && existing->IsObject()) {
    for (const auto& [key, value] : labels) {
      ops->push_back(AddOp("/metadata/labels/" + PointerPart(key), value));
    }
    return;
  }
  api::Json map = api::Json::MakeObject();
  for (const auto& [key, value] : labels) map.Set(key, value);
  const bool has_metadata = object.Has("metadata") && object.Find("metadata")->IsObject();
  ops->push_back(has_metadata ? AddOp("/metadata/labels", std::move(map))
                              : AddOp("/metadata", api::Json::MakeObject({{"labels", map}})));
}

// The pods of an elastic job wait for their slice of the Workload by this scheduling gate.
void AddElasticGate(const api::Json& object, PatchOps* ops) {
  const api::Json* spec = object.Find("spec", "template", "spec");
  if (spec == nullptr || !spec->IsObject()) return;
  const api::Json gate = api::Json::MakeObject({{"name", api::kElasticJob}});
  const api::Json* gates = spec->Find("schedulingGates");
  if (gates == nullptr || !gates->IsArray()) {
    ops->push_back(AddOp("/spec/template/spec/schedulingGates", api::Json::MakeArray({gate})));
    return;
  }
  const auto same = [](const api::Json& item) {
    return item.GetString("name") == api::kElasticJob;
  };
  if (std::any_of(gates->AsArray().begin(), gates->AsArray().end(), same)) return;
  ops->push_back(AddOp("/spec/template/spec/schedulingGates/-", gate));
}

}  // namespace

absl::StatusOr<PatchOps> DefaultJob(const Request& request, const View& view) {
  PatchOps ops;
  if (!view.settings->integrations.Enabled(kFramework)) return ops;
  ASSIGN_OR_RETURN(const api::Job job, ReadJob(*request.object));
  ASSIGN_OR_RETURN(const api::StringMap labels, DefaultJobLabels(view, job.metadata, request.ns));
  AddLabels(*request.object, labels, &ops);
  const auto defaulted = labels.find(api::kQueueNameLabel);
  const std::string queue_name =
      defaulted != labels.end() ? defaulted->second : job.metadata.Label(api::kQueueNameLabel);
  ASSIGN_OR_RETURN(const bool suspend, MustSuspend(view, job.metadata, request.ns, queue_name));
  if (suspend && !job.spec.suspend.value_or(false)) {
    const api::Json* spec = request.object->Find("spec");
    const bool has_spec = spec != nullptr && spec->IsObject();
    ops.push_back(has_spec ? AddOp("/spec/suspend", true)
                           : AddOp("/spec", api::Json::MakeObject({{"suspend", true}})));
  }
  if (IsElasticJob(view, job.metadata)) AddElasticGate(*request.object, &ops);
  if (suspend) AddNativeGang(request, view, job, &ops);
  return ops;
}

absl::StatusOr<FieldErrors> ValidateJob(const Request& request, const View& view) {
  FieldErrors errors;
  if (!view.settings->integrations.Enabled(kFramework)) return errors;
  ASSIGN_OR_RETURN(const api::Job job, ReadJob(*request.object));
  // Whatever is wrong with a job that goes away, its finalizers must be removable.
  if (job.metadata.Deleting()) return errors;
  CheckAlways(view, job, &errors);
  const bool gates = view.GateOn("AdmissionGatedBy");
  if (request.old_object == nullptr) {
    CheckMinParallelism(job, &errors);
    CheckGang(request, view, job, nullptr, &errors);
    CheckCheckpoints(job, nullptr, &errors);
    if (gates) CheckAdmissionGatedBy(job.metadata, nullptr, &errors);
    return errors;
  }
  ASSIGN_OR_RETURN(const api::Job old_job, ReadJob(*request.old_object));
  CheckJobUpdate(view, FactsOf(job), FactsOf(old_job), request.ns, &errors);
  CheckPartialAdmissionUpdate(job, old_job, &errors);
  CheckGang(request, view, job, &old_job, &errors);
  CheckCheckpoints(job, &old_job, &errors);
  if (gates) CheckAdmissionGatedBy(job.metadata, &old_job.metadata, &errors);
  return errors;
}

}  // namespace sluice::webhook
