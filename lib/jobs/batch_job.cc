#include <algorithm>
#include <charconv>
#include <set>

#include "api/codec.h"
#include "api/names.h"
#include "base/status.h"
#include "jobs/gang.h"
#include "jobs/job_kind.h"
#include "jobs/pod_template.h"

namespace sluice::jobs {
namespace {

constexpr char kCompletionIndexLabel[] = "batch.kubernetes.io/job-completion-index";
// Labels by which the Job controller finds its pods. They belong to the one Job and stay on it.
constexpr const char* kManagedLabels[] = {"job-name", "controller-uid",
                                          "batch.kubernetes.io/job-name",
                                          "batch.kubernetes.io/controller-uid"};
// Those that a Workload must not carry over to another Job of the same name.
constexpr const char* kUidLabels[] = {"job-name", "controller-uid",
                                      "batch.kubernetes.io/controller-uid"};

std::optional<int32_t> ParseInt32(const std::string& text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int32_t Parallelism(const api::Job& job) { return job.spec.parallelism.value_or(1); }

bool Stopping(const api::Job& job) { return job.metadata.Annotation(api::kStopping) == "true"; }

bool RawSuspended(const api::Job& job) { return job.spec.suspend.value_or(false); }

// Distinct indexes below `limit` in texts such as "1,3-5"; broken parts are skipped.
void CountIndexes(const std::string& text, int32_t limit, std::set<int32_t>& indexes) {
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, comma - begin);
    begin = comma + 1;
    const size_t dash = part.find('-');
    const auto first = ParseInt32(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : ParseInt32(part.substr(dash + 1));
    if (!first || !last || *first < 0) continue;
    for (int32_t index = *first; index <= std::min(*last, limit - 1); ++index)
      indexes.insert(index);
  }
}

int32_t TerminatedFor(const api::Job& job, int32_t completions) {
  if (job.spec.completion_mode != "Indexed") return job.status.succeeded;
  std::set<int32_t> indexes;
  CountIndexes(job.status.completed_indexes, completions, indexes);
  CountIndexes(job.status.failed_indexes, completions, indexes);
  return static_cast<int32_t>(indexes.size());
}

// A merge patch of the map that turns `now` into `wanted`: changed keys, and null for gone ones.
api::Json MapDiff(const api::Json* now, const api::Json* wanted) {
  api::Json diff = api::Json::MakeObject();
  if (wanted != nullptr) {
    for (const auto& [key, value] : wanted->AsObject()) {
      const api::Json* old = now == nullptr ? nullptr : now->Find(key);
      if (old == nullptr || !(*old == value)) diff.Set(key, value);
    }
  }
  if (now != nullptr) {
    for (const auto& [key, value] : now->AsObject()) {
      if (wanted == nullptr || !wanted->Has(key)) diff.Set(key, api::Json());
    }
  }
  return diff;
}

void DiffMapInto(api::Json& patch, const char* parent, const char* key, const api::Json& now,
                 const api::Json& wanted) {
  api::Json diff = MapDiff(now.Find(parent, key), wanted.Find(parent, key));
  if (!diff.AsObject().empty()) patch[parent].Set(key, std::move(diff));
}

void DiffListInto(api::Json& patch, const char* key, const api::Json& now,
                  const api::Json& wanted) {
  const api::Json* old = now.Find("spec", key);
  const api::Json* value = wanted.Find("spec", key);
  if (SemanticallyEqual(old, value)) return;
  patch["spec"].Set(key, value == nullptr ? api::Json() : *value);
}

// A merge patch of the template with only what scheduling may change.
api::Json TemplateDiff(const api::Json& now, const api::Json& wanted) {
  api::Json patch = api::Json::MakeObject();
  DiffMapInto(patch, "metadata", "labels", now, wanted);
  DiffMapInto(patch, "metadata", "annotations", now, wanted);
  DiffMapInto(patch, "spec", "nodeSelector", now, wanted);
  DiffListInto(patch, "tolerations", now, wanted);
  DiffListInto(patch, "schedulingGates", now, wanted);
  return patch;
}

bool EqualCompletions(const api::Job& job) {
  return job.metadata.Annotation(api::kJobCompletionsEqualParallelism) == "true";
}

void SetParallelism(api::Json& spec, const api::Job& job, int32_t count) {
  if (Parallelism(job) != count) spec.Set("parallelism", count);
  if (EqualCompletions(job) && job.spec.completions.value_or(1) != count) {
    spec.Set("completions", count);
  }
}

std::optional<int32_t> MinCount(const api::Job& job) {
  const std::string text = job.metadata.Annotation(api::kJobMinParallelism);
  std::optional<int32_t> count = text.empty() ? std::nullopt : ParseInt32(text);
  // With fewer pods than its own gang asks for the Job would wait for ever.
  if (count) count = std::max(*count, GangOf(job).minimum.value_or(0));
  return count;
}

// Template and counts as the Workload has them, as a merge patch of spec.
api::Json RestorePatch(const api::Job& job, const api::Workload& workload) {
  api::Json spec = api::Json::MakeObject();
  if (workload.spec.pod_sets.size() != 1) return spec;
  const api::PodSet& pod_set = workload.spec.pod_sets.front();
  const api::Json now = TemplateJson(job.spec.pod_template);
  api::Json wanted = now;
  RestoreTemplate(wanted, TemplateJson(pod_set.pod_template));
  for (const char* label : kManagedLabels) {
    const auto current = job.spec.pod_template.labels.find(label);
    if (current != job.spec.pod_template.labels.end()) {
      wanted["metadata"]["labels"].Set(label, current->second);
    }
  }
  api::Json diff = TemplateDiff(now, wanted);
  if (!diff.AsObject().empty()) spec.Set("template", std::move(diff));
  if (MinCount(job)) SetParallelism(spec, job, pod_set.count);
  return spec;
}

}  // namespace

bool BatchJob::Suspended(const api::Job& job) { return RawSuspended(job) && !Stopping(job); }

std::optional<JobFinish> BatchJob::Finished(const api::Job& job) {
  for (const api::Condition& condition : job.status.conditions) {
    const bool complete = condition.type == "Complete";
    if ((complete || condition.type == "Failed") &&
        condition.status == api::ConditionStatus::kTrue) {
      return JobFinish{complete, condition.message};
    }
  }
  return std::nullopt;
}

int32_t BatchJob::PodCount(const api::Job& job) {
  return std::min(Parallelism(job), job.spec.completions.value_or(Parallelism(job)));
}

absl::StatusOr<std::vector<api::PodSet>> BatchJob::PodSets(const api::Job& job,
                                                           const TopologyOptions& topology) {
  api::Json json = TemplateJson(job.spec.pod_template);
  if (api::Json* metadata = json.Find("metadata")) {
    if (api::Json* labels = metadata->Find("labels")) {
      for (const char* label : kUidLabels) labels->Erase(label);
    }
    metadata->Erase("creationTimestamp");
  }
  RemoveDuplicateEnv(json);
  api::PodSet pod_set;
  pod_set.name = "main";
  pod_set.count = PodCount(job);
  pod_set.min_count = MinCount(job);
  pod_set.pod_template = job.spec.pod_template;
  for (const char* label : kUidLabels) pod_set.pod_template.labels.erase(label);
  pod_set.pod_template.raw = std::make_shared<const std::string>(json.Text());
  ASSIGN_OR_RETURN(pod_set.topology_request, TopologyRequestOf(job.spec.pod_template.annotations,
                                                               kCompletionIndexLabel, topology));
  return std::vector<api::PodSet>{std::move(pod_set)};
}

bool BatchJob::PodsReady(const api::Job& job) {
  const int32_t ready =
      job.status.succeeded + job.status.ready.value_or(0) + job.status.uncounted_succeeded;
  return ready >= PodCount(job);
}

std::vector<api::ReclaimablePod> BatchJob::Reclaimable(const api::Job& job) {
  const int32_t parallelism = Parallelism(job);
  const int32_t completions = job.spec.completions.value_or(parallelism);
  const int32_t terminated = TerminatedFor(job, completions);
  const int32_t remaining = std::max(completions - terminated, 0);
  if (parallelism <= 1 || terminated == 0 || remaining >= parallelism) return {};
  return {api::ReclaimablePod{"main", parallelism - remaining}};
}

absl::StatusOr<JobPatch> BatchJob::Start(const api::Job& job,
                                         const std::vector<PodSetInfo>& infos) {
  if (infos.size() != 1) {
    return absl::FailedPreconditionError(fmt::format("expecting 1 podset, got {}", infos.size()));
  }
  const api::Json now = TemplateJson(job.spec.pod_template);
  api::Json wanted = now;
  RETURN_IF_ERROR(MergeIntoTemplate(wanted, infos.front()));
  api::Json spec = api::Json::MakeObject({{"suspend", false}});
  api::Json diff = TemplateDiff(now, wanted);
  if (!diff.AsObject().empty()) spec.Set("template", std::move(diff));
  if (MinCount(job)) SetParallelism(spec, job, infos.front().count);
  return JobPatch{"", api::Json::MakeObject({{"spec", std::move(spec)}})};
}

std::optional<JobPatch> BatchJob::NextStop(const api::Job& job, const api::Workload* workload) {
  if (!RawSuspended(job)) {
    return JobPatch{
        "", api::Json::MakeObject(
                {{"metadata",
                  api::Json::MakeObject(
                      {{"annotations", api::Json::MakeObject({{api::kStopping, "true"}})}})},
                 {"spec", api::Json::MakeObject({{"suspend", true}})}})};
  }
  if (job.status.start_time) {
    return JobPatch{"status", api::Json::MakeObject(
                                  {{"status", api::Json::MakeObject({{"startTime", nullptr}})}})};
  }
  // The API server lets the template change only when no pod is left. Until then the mark stays.
  if (job.status.active != 0) return std::nullopt;
  api::Json body = api::Json::MakeObject();
  if (Stopping(job)) {
    body["metadata"]["annotations"].Set(api::kStopping, api::Json());
  }
  if (workload != nullptr) {
    api::Json spec = RestorePatch(job, *workload);
    if (!spec.AsObject().empty()) body.Set("spec", std::move(spec));
  }
  if (body.AsObject().empty()) return std::nullopt;
  return JobPatch{"", std::move(body)};
}

}  // namespace sluice::jobs
