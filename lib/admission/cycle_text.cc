// What is told about decisions: conditions of victims and texts of events.
#include <fmt/format.h>

#include <algorithm>

#include "admission/cycle.h"
#include "admission/nominator.h"
#include "api/names.h"
#include "base/time.h"

namespace sluice::admission {

std::string PreemptionMessage(const Decision& decision, const Decision::Victim& victim,
                              const quota::Tree& tree) {
  if (victim.reason == preemption::Reason::kFlavorMigration) {
    return fmt::format("Evicted to accommodate a workload (UID: {}) due to {}",
                       decision.info->workload->metadata.uid,
                       preemption::ReasonText(victim.reason));
  }
  return fmt::format("{} due to {}; preemptor path: {}; preemptee path: {}",
                     PreemptorText(*decision.info->workload), preemption::ReasonText(victim.reason),
                     tree.PathOf(decision.info->cluster_queue),
                     tree.PathOf(victim.workload->cluster_queue));
}

std::string PreemptorUid(const std::string& message) {
  constexpr std::string_view kMark = "workload (UID: ";
  const size_t mark = message.find(kMark);
  if (mark == std::string::npos) return "";
  const size_t begin = mark + kMark.size();
  const size_t end = message.find_first_of(",)", begin);
  if (end == std::string::npos) return "";
  std::string uid = message.substr(begin, end - begin);
  return uid == "UNKNOWN" ? "" : uid;
}

absl::Time QueuedSince(const api::Workload& workload) {
  const api::Condition* requeued = api::FindCondition(workload.status.conditions, api::kRequeued);
  if (requeued != nullptr && requeued->last_transition_time.has_value()) {
    return *requeued->last_transition_time;
  }
  return workload.metadata.creation_timestamp.value_or(absl::UnixEpoch());
}

std::string QuotaReservedEventText(const Decision& decision, absl::Time now) {
  const absl::Duration waited =
      std::max(absl::ZeroDuration(), now - QueuedSince(*decision.info->workload));
  std::string text =
      fmt::format("Quota reserved in ClusterQueue {}, wait time since queued was {:.0f}s",
                  decision.info->cluster_queue, absl::ToDoubleSeconds(waited));
  const std::string considered = RenderConsidered(decision.explanation);
  if (!considered.empty()) text += "; Flavors considered: " + considered;
  return text;
}

std::string BackfilledEventText(const Decision::Backfill& backfill) {
  const std::string whose = backfill.reserved_at ? "whose start is reserved for " +
                                                       sluice::FormatTime(*backfill.reserved_at)
                                                 : std::string("whose start is not known");
  const std::string end = backfill.ends_at == absl::InfiniteFuture()
                              ? std::string("it takes nothing that is needed then")
                              : "it ends by " + sluice::FormatTime(backfill.ends_at);
  return fmt::format("Started before workload {}, {}; {}", backfill.before, whose, end);
}

}  // namespace sluice::admission
