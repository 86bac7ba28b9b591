#include "queueing/backfill.h"

#include <absl/strings/numbers.h>

#include <algorithm>

#include "api/names.h"
#include "base/time.h"

namespace sluice::queueing {
namespace {

constexpr int kMostDepth = 10000;

absl::Time FloorSecond(absl::Time time) { return absl::FromUnixSeconds(absl::ToUnixSeconds(time)); }
absl::Time CeilSecond(absl::Time time) {
  const absl::Time second = FloorSecond(time);
  return second == time ? second : second + absl::Seconds(1);
}

}  // namespace

BackfillPolicy BackfillOf(const api::ClusterQueue& cluster_queue) {
  BackfillPolicy policy;
  const api::ObjectMeta& metadata = cluster_queue.metadata;
  if (metadata.annotations.empty()) return policy;
  const std::string mode = metadata.Annotation(kBackfill);
  if (mode == "EASY") policy.mode = BackfillMode::kEasy;
  if (mode == "Conservative") policy.mode = BackfillMode::kConservative;
  int depth = 0;
  if (absl::SimpleAtoi(metadata.Annotation(kBackfillDepth), &depth) && depth >= 1) {
    policy.depth = static_cast<size_t>(std::min(depth, kMostDepth));
  }
  policy.allow_unknown = metadata.Annotation(kBackfillUnknown) == "Allow";
  return policy;
}

const std::vector<std::string>& BackfillAnnotations() {
  static const std::vector<std::string> kAll = {kBackfill, kBackfillDepth, kBackfillUnknown};
  return kAll;
}

std::optional<std::string> BackfillProblem(const std::string& annotation,
                                           const std::string& value) {
  if (annotation == kBackfill) {
    if (value == "EASY" || value == "Conservative") return std::nullopt;
    return "must be EASY or Conservative";
  }
  if (annotation == kBackfillDepth) {
    int depth = 0;
    const bool digits =
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (digits && absl::SimpleAtoi(value, &depth) && depth >= 1 && depth <= kMostDepth) {
      return std::nullopt;
    }
    return "must be a whole number from 1 to 10000";
  }
  if (annotation == kBackfillUnknown) {
    if (value == "Allow" || value == "Deny") return std::nullopt;
    return "must be Allow or Deny";
  }
  const absl::StatusOr<absl::Duration> duration = ParseDuration(value);
  if (!duration.ok()) return "must be a duration such as 30m or 1h30m";
  if (*duration <= absl::ZeroDuration()) return "must be more than zero";
  return std::nullopt;
}

std::optional<absl::Duration> BoundOf(const api::Workload& workload) {
  if (const auto& limit = workload.spec.maximum_execution_time_seconds) {
    const int64_t past = workload.status.accumulated_past_execution_time_seconds.value_or(0);
    return absl::Seconds(std::max<int64_t>(0, *limit - past));
  }
  const auto found = workload.metadata.annotations.find(kExpectedRuntime);
  if (found == workload.metadata.annotations.end()) return std::nullopt;
  if (BackfillProblem(kExpectedRuntime, found->second)) return std::nullopt;
  return *ParseDuration(found->second);
}

absl::Time EndOf(const api::Workload& workload, absl::Time admitted_at) {
  const auto bound = BoundOf(workload);
  return bound ? CeilSecond(CeilSecond(admitted_at) + *bound) : absl::InfiniteFuture();
}

absl::Time DeadlineOf(const api::Workload& workload, absl::Time started_at, bool evicted) {
  if (evicted) return absl::InfinitePast();
  const auto bound = BoundOf(workload);
  if (!bound || started_at == absl::InfiniteFuture()) return absl::InfiniteFuture();
  return FloorSecond(FloorSecond(started_at) + *bound);
}

}  // namespace sluice::queueing
