#include "preemption/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "api/names.h"
#include "base/time.h"

namespace sluice::preemption {
namespace {

constexpr char kTimesPrefix[] = "Preempted at ";
constexpr size_t kMostTimes = 32;  // in one condition

absl::Duration DurationOf(const api::ObjectMeta& metadata, const char* annotation) {
  const auto found = metadata.annotations.find(annotation);
  if (found == metadata.annotations.end()) return absl::ZeroDuration();
  const absl::StatusOr<absl::Duration> value = ParseDuration(found->second);
  return value.ok() ? std::max(*value, absl::ZeroDuration()) : absl::ZeroDuration();
}

std::vector<absl::Time> TimesOf(const api::Workload& workload) {
  std::vector<absl::Time> times;
  const api::Condition* often = api::FindCondition(workload.status.conditions, kPreemptedOften);
  if (often == nullptr || !often->message.starts_with(kTimesPrefix)) return times;
  for (size_t begin = sizeof(kTimesPrefix) - 1; begin < often->message.size();) {
    const size_t end = std::min(often->message.find(", ", begin), often->message.size());
    const absl::StatusOr<absl::Time> time = ParseTime(often->message.substr(begin, end - begin));
    if (time.ok()) times.push_back(*time);
    begin = end + 2;
  }
  return times;
}

bool IsGpu(const ResourceName& resource) { return resource.ends_with("/gpu"); }

int64_t Saturated(LostWork value) {
  constexpr LostWork kMost = std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(std::clamp<LostWork>(value, 0, kMost));
}

// What a policy counts before GPUs, and those before CPUs, whatever order they come in.
class Weights {
 public:
  explicit Weights(const quota::CreditWeights* policy) : policy_(policy) {}
  void Add(const ResourceName& resource, int64_t amount) {
    if (policy_ != nullptr) counted_ += policy_->WeighOne(resource, amount);
    if (IsGpu(resource)) gpus_ += static_cast<LostWork>(amount) * 1000;
    if (resource == kCpu) cpus_ += amount;  // in thousandths already
  }
  int64_t Millis() const {
    constexpr LostWork kPicosPerMilli = 1'000'000'000;
    if (counted_ > 0) return Saturated(std::max<LostWork>(1, counted_ / kPicosPerMilli));
    return Saturated(gpus_ > 0 ? gpus_ : cpus_);
  }

 private:
  const quota::CreditWeights* policy_;
  LostWork counted_ = 0;
  LostWork gpus_ = 0;
  LostWork cpus_ = 0;
};

}  // namespace

const std::vector<std::string>& CheckpointAnnotations() {
  static const std::vector<std::string> kAll = {kLastCheckpoint, kCheckpointInterval, kRestartCost,
                                                kCheckpointOnRequest, kMinRuntime};
  return kAll;
}

std::optional<std::string> CheckpointProblem(const std::string& annotation,
                                             const std::string& value) {
  if (annotation == kLastCheckpoint) {
    if (!ParseTime(value).ok()) return "must be a time as in RFC 3339: 2026-01-31T10:00:00Z";
    return std::nullopt;
  }
  if (annotation == kCheckpointOnRequest) {
    if (value != "true" && value != "false") return "must be true or false";
    return std::nullopt;
  }
  const absl::StatusOr<absl::Duration> duration = ParseDuration(value);
  if (!duration.ok()) return "must be a duration such as 30m or 1h30m";
  if (*duration < absl::ZeroDuration()) return "must not be negative";
  if (annotation == kCheckpointInterval && *duration < absl::Milliseconds(1)) {
    return "must be at least 1ms";
  }
  return std::nullopt;
}

std::optional<Checkpoints> CheckpointsOf(const api::Workload& workload) {
  const api::ObjectMeta& metadata = workload.metadata;
  bool any = false;
  for (const std::string& name : CheckpointAnnotations()) {
    const auto found = metadata.annotations.find(name);
    any = any || (found != metadata.annotations.end() && !CheckpointProblem(name, found->second));
  }
  if (!any) return std::nullopt;
  Checkpoints checkpoints;
  const auto last = metadata.annotations.find(kLastCheckpoint);
  if (last != metadata.annotations.end()) {
    if (const auto time = ParseTime(last->second); time.ok()) checkpoints.last = *time;
  }
  checkpoints.interval = DurationOf(metadata, kCheckpointInterval);
  checkpoints.restart_cost = DurationOf(metadata, kRestartCost);
  checkpoints.min_runtime = DurationOf(metadata, kMinRuntime);
  checkpoints.on_request = metadata.Annotation(kCheckpointOnRequest) == "true";
  checkpoints.preemptions = TimesOf(workload);
  return checkpoints;
}

absl::Time StartOf(const api::Workload& workload) {
  const api::Condition* admitted = api::FindCondition(workload.status.conditions, api::kAdmitted);
  if (admitted == nullptr || admitted->status != api::ConditionStatus::kTrue) {
    return absl::InfiniteFuture();
  }
  return admitted->last_transition_time.value_or(absl::InfiniteFuture());
}

absl::Duration LostTime(const Checkpoints* checkpoints, absl::Time start, absl::Time now) {
  if (start == absl::InfiniteFuture()) return absl::ZeroDuration();
  const absl::Duration ran = std::max(absl::ZeroDuration(), now - start);
  if (checkpoints == nullptr) return ran;
  absl::Duration lost = ran;
  // One that is said to be in the future says nothing.
  if (checkpoints->last.has_value() && *checkpoints->last <= now) {
    lost = std::min(ran, now - *checkpoints->last);
  } else if (checkpoints->interval > absl::ZeroDuration()) {
    absl::IDivDuration(ran, checkpoints->interval, &lost);
  }
  return lost + checkpoints->restart_cost;
}

int64_t WeightedMillis(const FlavorResourceAmounts& amounts, const quota::CreditWeights* weights) {
  Weights sum(weights);
  for (const auto& [cell, amount] : amounts) sum.Add(cell.resource, amount);
  return sum.Millis();
}

int64_t WeightedMillis(const quota::Tree& tree, const quota::CellAmounts& amounts,
                       const quota::CreditWeights* weights) {
  Weights sum(weights);
  for (const quota::CellAmount& used : amounts) {
    sum.Add(tree.CellOf(used.cell).resource, used.amount);
  }
  return sum.Millis();
}

LostWork LostWorkOf(absl::Duration lost_time, int64_t weighted_millis) {
  return static_cast<LostWork>(absl::ToInt64Milliseconds(lost_time)) * weighted_millis;
}

int64_t ResourceSeconds(LostWork work) { return Saturated(work / 1000000); }

bool PreemptedOften(const Checkpoints& checkpoints, const CheckpointRules& rules, absl::Time now) {
  if (rules.max_per_workload <= 0) return false;
  const absl::Time since = now - rules.window;
  const auto recent = std::count_if(checkpoints.preemptions.begin(), checkpoints.preemptions.end(),
                                    [&](absl::Time time) { return time > since; });
  return recent >= rules.max_per_workload;
}

void NotePreemption(api::Workload& workload, const CheckpointRules& rules, absl::Time now) {
  std::vector<absl::Time> times = TimesOf(workload);
  std::erase_if(times, [&](absl::Time time) { return time <= now - rules.window; });
  times.push_back(now);
  if (times.size() > kMostTimes) times.erase(times.begin(), times.end() - kMostTimes);
  const bool limit =
      rules.max_per_workload > 0 && times.size() >= static_cast<size_t>(rules.max_per_workload);
  std::string message = kTimesPrefix;
  for (const absl::Time time : times) {
    if (!message.ends_with(kTimesPrefix)) message += ", ";
    message += sluice::FormatTime(time);
  }
  api::Condition condition;
  condition.type = kPreemptedOften;
  condition.status = limit ? api::ConditionStatus::kTrue : api::ConditionStatus::kFalse;
  condition.reason = limit ? "LimitReached" : "BelowLimit";
  condition.message = std::move(message);
  condition.observed_generation = workload.metadata.generation;
  api::SetCondition(workload.status.conditions, std::move(condition), now);
}

}  // namespace sluice::preemption
