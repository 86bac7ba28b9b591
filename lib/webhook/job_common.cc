// Rules that hold for every kind of job.
#include <fmt/format.h>

#include "api/names.h"
#include "base/status.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

// From this length on a name fits into an annotation only.
constexpr size_t kMaxLabelValue = 63;

Path LabelPath(const char* key) { return Path("metadata").Child("labels").Key(key); }
Path AnnotationPath(const char* key) { return Path("metadata").Child("annotations").Key(key); }

// The name of a Workload that exists already, and the place where it was found.
struct Prebuilt {
  std::string name;
  Path path;
};

Prebuilt FindPrebuilt(const View& view, const api::ObjectMeta& metadata) {
  const std::string label = metadata.Label(api::kPrebuiltWorkload);
  const std::string annotation = metadata.Annotation(api::kPrebuiltWorkload);
  const Prebuilt by_label = {label, LabelPath(api::kPrebuiltWorkload)};
  const Prebuilt by_annotation = {annotation, AnnotationPath(api::kPrebuiltWorkload)};
  if (view.GateOn("WorkloadIdentifierAnnotations")) {
    return annotation.empty() ? by_label : by_annotation;
  }
  return label.empty() && annotation.size() > kMaxLabelValue ? by_annotation : by_label;
}

void CheckPrebuilt(const View& view, const JobFacts& job, FieldErrors* errors) {
  const Prebuilt prebuilt = FindPrebuilt(view, job.metadata);
  if (prebuilt.name.empty()) return;
  CheckDnsSubdomain(prebuilt.path, prebuilt.name, errors);
  if (!job.prebuilt_supported) {
    errors->push_back(
        FieldError::Forbidden(prebuilt.path, "this kind of job cannot use a prebuilt workload"));
  }
}

void CheckMaxExecTime(const api::ObjectMeta& metadata, FieldErrors* errors) {
  const auto found = metadata.labels.find(api::kMaxExecTimeLabel);
  if (found == metadata.labels.end()) return;
  const std::optional<int64_t> seconds = ParseInt64(found->second);
  if (seconds && *seconds > 0) return;
  errors->push_back(FieldError::Invalid(LabelPath(api::kMaxExecTimeLabel), found->second,
                                        "must be an integer greater than 0"));
}

void CheckQueueNameUpdate(const View& view, const JobFacts& job, const JobFacts& old_job,
                          const std::string& ns, FieldErrors* errors) {
  const std::string queue = job.metadata.Label(api::kQueueNameLabel);
  const std::string old_queue = old_job.metadata.Label(api::kQueueNameLabel);
  if (queue == old_queue) return;
  const Path path = LabelPath(api::kQueueNameLabel);
  if (!job.suspended) {
    errors->push_back(FieldError::Invalid(path, queue, "field is immutable while the job runs"));
  }
  const NamespaceView* home = view.FindNamespace(ns);
  if (queue.empty() && home != nullptr && home->has_default_queue) {
    errors->push_back(FieldError::Invalid(
        path, queue, "must not be removed in a namespace with a default LocalQueue"));
  }
}

void CheckPrebuiltUpdate(const View& view, const JobFacts& job, const JobFacts& old_job,
                         FieldErrors* errors) {
  // While suspended the rule of creation holds, and nothing more.
  if (job.suspended || IsElasticJob(view, old_job.metadata)) return;
  const Prebuilt now = FindPrebuilt(view, job.metadata);
  const Prebuilt before = FindPrebuilt(view, old_job.metadata);
  if (now.name == before.name) return;
  errors->push_back(FieldError::Invalid(now.name.empty() ? before.path : now.path, now.name,
                                        "field is immutable while the job runs"));
}

void CheckMaxExecTimeUpdate(const JobFacts& job, const JobFacts& old_job, FieldErrors* errors) {
  if (job.suspended && old_job.suspended) return;
  const std::string now = job.metadata.Label(api::kMaxExecTimeLabel);
  if (now == old_job.metadata.Label(api::kMaxExecTimeLabel)) return;
  errors->push_back(FieldError::Invalid(LabelPath(api::kMaxExecTimeLabel), now,
                                        "field is immutable while the job runs"));
}

void CheckPriorityClassUpdate(const JobFacts& job, const JobFacts& old_job, FieldErrors* errors) {
  const std::string now = job.metadata.Label(api::kPriorityClassLabel);
  const std::string before = old_job.metadata.Label(api::kPriorityClassLabel);
  const Path path = LabelPath(api::kPriorityClassLabel);
  if (before.empty() && !now.empty() && !job.suspended) {
    errors->push_back(FieldError::Invalid(path, now, "must not be added to a running job"));
  } else if (!before.empty() && now.empty()) {
    errors->push_back(FieldError::Invalid(path, now, "must not be removed"));
  }
}

void CheckElasticUpdate(const View& view, const JobFacts& job, const JobFacts& old_job,
                        FieldErrors* errors) {
  if (IsElasticJob(view, job.metadata) == IsElasticJob(view, old_job.metadata)) return;
  errors->push_back(FieldError::Invalid(AnnotationPath(api::kElasticJob),
                                        job.metadata.Annotation(api::kElasticJob), kImmutable));
}

absl::StatusOr<bool> NamespaceIsManaged(const View& view, const std::string& ns) {
  const NamespaceView* home = view.FindNamespace(ns);
  if (home == nullptr) return NotFound("namespace {} is not known", Quote(ns));
  return view.settings->managed_jobs_namespace_selector.Matches(home->labels);
}

}  // namespace

bool IsElasticJob(const View& view, const api::ObjectMeta& metadata) {
  return view.GateOn("ElasticJobsViaWorkloadSlices") &&
         metadata.Annotation(api::kElasticJob) == "true";
}

void CheckJobCreate(const View& view, const JobFacts& job, FieldErrors* errors) {
  const auto queue = job.metadata.labels.find(api::kQueueNameLabel);
  if (queue != job.metadata.labels.end()) {
    CheckDnsSubdomain(LabelPath(api::kQueueNameLabel), queue->second, errors);
  }
  CheckPrebuilt(view, job, errors);
  CheckMaxExecTime(job.metadata, errors);
  if (IsElasticJob(view, job.metadata) && !job.elastic_supported) {
    errors->push_back(FieldError::Forbidden(AnnotationPath(api::kElasticJob),
                                            "this kind of job cannot be elastic"));
  }
}

void CheckJobUpdate(const View& view, const JobFacts& job, const JobFacts& old_job,
                    const std::string& ns, FieldErrors* errors) {
  CheckQueueNameUpdate(view, job, old_job, ns, errors);
  CheckPrebuiltUpdate(view, job, old_job, errors);
  CheckMaxExecTimeUpdate(job, old_job, errors);
  CheckPriorityClassUpdate(job, old_job, errors);
  CheckElasticUpdate(view, job, old_job, errors);
}

absl::StatusOr<api::StringMap> DefaultJobLabels(const View& view, const api::ObjectMeta& metadata,
                                                const std::string& ns) {
  api::StringMap labels;
  if (OwnerKindIsManaged(view, metadata)) return labels;
  const NamespaceView* home = view.FindNamespace(ns);
  if (home != nullptr && home->has_default_queue && metadata.Label(api::kQueueNameLabel).empty() &&
      view.settings->managed_jobs_namespace_selector.Matches(home->labels)) {
    labels[api::kQueueNameLabel] = api::kDefaultQueueName;
  }
  if (view.GateOn("WorkloadPriorityClassDefaulting") && view.has_default_priority_class &&
      metadata.Label(api::kPriorityClassLabel).empty()) {
    labels[api::kPriorityClassLabel] = "default";
  }
  return labels;
}

absl::StatusOr<bool> MustSuspend(const View& view, const api::ObjectMeta& metadata,
                                 const std::string& ns, const std::string& queue_name) {
  if (metadata.Deleting() && view.GateOn("SkipAncestorCheckForDeletedWorkloads")) return false;
  ASSIGN_OR_RETURN(const bool has_ancestor, HasManagedAncestor(view, metadata, ns));
  if (has_ancestor) return false;
  if (!queue_name.empty()) return true;
  if (!view.settings->manage_jobs_without_queue_name) return false;
  return NamespaceIsManaged(view, ns);
}

}  // namespace sluice::webhook
