#include "jobs/gang.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/codec.h"
#include "api/names.h"
#include "base/time.h"
#include "jobs/job_kind.h"
#include "jobs/workload_name.h"

namespace sluice::jobs {
namespace {

using api::Json;

constexpr size_t kMaxName = 200;
// What the Job controller appends to the name still has to be a DNS label.
constexpr size_t kMaxNameOfJobController = 57;

bool LetterOrDigit(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

std::optional<int32_t> MinParallelism(const api::Job& job) {
  const std::string text = job.metadata.Annotation(api::kJobMinParallelism);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

Gang GangOf(const api::Job& job) {
  Gang gang;
  const std::string mode = job.metadata.Annotation(api::kGangMode);
  const std::string& named = job.spec.pod_template.spec->scheduling_group;
  const bool by_job = job.spec.scheduling.has_value();
  if (mode != kModeJobScheduling) gang.minimum = ExplicitMinCount(job);
  if (!named.empty()) {
    gang.basic = mode == kModeBasicPodGroup;
    gang.ours = gang.basic || mode == kModePodGroup;
    gang.form = gang.ours ? GangForm::kOwn : GangForm::kForeign;
    gang.pod_group = {job.metadata.ns, named};
  } else if (by_job && job.spec.scheduling->policy.gang) {
    gang.form = GangForm::kJobController;
    gang.ours = mode == kModeJobScheduling;
  } else if (!mode.empty() && mode != kModeBasicPodGroup && !by_job) {
    gang.form = GangForm::kFallback;
    gang.ours = true;
    if (mode == kModeJobScheduling) gang.lost = "spec.scheduling";
    if (mode == kModePodGroup) gang.lost = "spec.template.spec.schedulingGroup";
  }
  return gang;
}

int32_t PodsToRun(const api::Job& job) {
  int32_t count = job.spec.parallelism.value_or(1);
  for (const api::ReclaimablePod& ended : BatchJob::Reclaimable(job)) count -= ended.count;
  return std::min(count, BatchJob::PodCount(job));
}

int32_t PodsRunning(const api::Job& job) {
  return job.status.ready.value_or(0) + job.status.uncounted_succeeded;
}

std::optional<int32_t> ExplicitMinCount(const api::Job& job) {
  if (!job.spec.scheduling || !job.spec.scheduling->policy.gang) return std::nullopt;
  return job.spec.scheduling->policy.gang->min_count;
}

std::optional<int32_t> DeclaredMinimum(const api::Job& job) {
  if (const auto partial = MinParallelism(job)) return partial;
  return GangOf(job).minimum;
}

std::optional<OnGangBroken> ParseOnGangBroken(const std::string& text) {
  if (text.empty() || text == "Repair") return OnGangBroken::kRepair;
  if (text == "Requeue") return OnGangBroken::kRequeue;
  if (text == "Shrink") return OnGangBroken::kShrink;
  if (text == "Ignore") return OnGangBroken::kIgnore;
  return std::nullopt;
}

std::optional<absl::Duration> ParseRepairTimeout(const std::string& text) {
  if (text.empty()) return kDefaultRepairTimeout;
  const absl::StatusOr<absl::Duration> parsed = sluice::ParseDuration(text);
  if (!parsed.ok() || *parsed <= absl::ZeroDuration()) return std::nullopt;
  return *parsed;
}

OnGangBroken OnGangBrokenOf(const api::ObjectMeta& metadata) {
  return ParseOnGangBroken(metadata.Annotation(api::kOnGangBroken)).value_or(OnGangBroken::kRepair);
}

absl::Duration RepairTimeoutOf(const api::ObjectMeta& metadata) {
  return ParseRepairTimeout(metadata.Annotation(api::kRepairTimeout))
      .value_or(kDefaultRepairTimeout);
}

bool NameFitsJobController(const std::string& name) {
  return name.size() <= kMaxNameOfJobController && name.find('.') == std::string::npos;
}

std::string PodGroupName(const std::string& base, const std::string& seed) {
  std::string name = base.substr(0, kMaxName);
  while (!name.empty() && !LetterOrDigit(name.back())) name.pop_back();
  if (name.empty()) name = "job";
  return name + "-" + ShortHash(seed, 10);
}

std::string RefusalOfParent(const api::PodGroup& group) {
  if (group.parent.empty()) return "";
  return fmt::format(
      "PodGroup {} is a part of CompositePodGroup {}: groups of groups are not supported, since "
      "their parts would be admitted one by one",
      group.metadata.name, group.parent);
}

Json PodGroupBody(const NewPodGroup& group) {
  api::PodGroup object;
  object.metadata.name = group.key.name;
  object.metadata.ns = group.key.ns;
  object.metadata.owner_references = {group.owner};
  if (group.min_count) {
    object.policy.gang = api::GangPolicy{group.min_count};
    object.disruption_mode = group.disruption_mode;
  } else {
    object.policy.basic = api::Marker{};
  }
  object.topology = group.topology;
  object.priority_class_name = group.priority_class_name;
  object.preemption_policy = group.preemption_policy;
  return api::Encode(object);
}

Json MinCountPatch(int32_t min_count) {
  Json body = Json::MakeObject();
  body["spec"]["schedulingPolicy"]["gang"].Set("minCount", static_cast<int64_t>(min_count));
  return body;
}

}  // namespace sluice::jobs
