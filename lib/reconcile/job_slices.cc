#include "reconcile/job_slices.h"

#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "admission/conditions.h"
#include "api/names.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "queueing/workload_info.h"
#include "reconcile/reconcilers.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using jobs::BatchJob;

constexpr char kOutOfSync[] = "OutOfSync";

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}
bool Evicted(const api::Workload& workload) { return Has(workload, api::kEvicted); }
bool Reserved(const api::Workload& workload) { return Has(workload, api::kQuotaReserved); }

Note JobNote(const api::Job& job, std::string reason, std::string message) {
  return {api::Kind::kJob, job.metadata.Key(), job.metadata.uid,  BatchJob::kEventSource,
          false,           std::move(reason),  std::move(message)};
}

// Which slice takes the place of which; one that holds quota is preferred.
absl::btree_map<ObjectKey, WorkloadPtr> Replacements(const std::vector<WorkloadPtr>& live) {
  absl::btree_map<ObjectKey, WorkloadPtr> by_old;
  for (const WorkloadPtr& slice : live) {
    if (Evicted(*slice)) continue;
    const std::optional<ObjectKey> old = queueing::ReplacedSlice(*slice);
    if (!old) continue;
    WorkloadPtr& known = by_old[*old];
    if (known == nullptr || (Reserved(*slice) && !Reserved(*known))) known = slice;
  }
  return by_old;
}

// One look at the slices of one Job.
class SlicePass {
 public:
  SlicePass(const state::World& world, const api::Job& job,
            const std::vector<api::PodSet>& pod_sets, absl::Time now, Plan& plan)
      : world_(world), job_(job), pod_sets_(pod_sets), now_(now), plan_(plan) {}

  SliceStep Run() {
    if (!Collect()) return {};
    if (const auto finish = BatchJob::Finished(job_)) {
      EndAll(*finish);
      return {};
    }
    if (live_.empty()) return WithoutLive();
    const SliceChoice choice = SortSlices(live_);
    if (const std::optional<SliceStep> step = EndSurplus(choice)) return *step;
    // Whatever the next slice is: without this one nothing may run.
    if (choice.running != nullptr && choice.running->metadata.Deleting()) {
      return Use(choice.running, choice.running);
    }
    if (choice.selected == nullptr) return {SliceStep::Next::kCreate, nullptr, choice.running};
    return Follow(choice.selected, choice.running);
  }

 private:
  static SliceStep Use(const WorkloadPtr& workload, const WorkloadPtr& running) {
    return {SliceStep::Next::kUse, workload, running};
  }

  // False when nothing can be said now.
  bool Collect() {
    for (const ObjectKey& key :
         world_.WorkloadsOwnedBy(job_.metadata.ns, BatchJob::kKind, job_.metadata.name)) {
      if (world_.Unreadable({api::Kind::kWorkload, key}) || world_.IsAssumed(key)) return false;
      const WorkloadPtr slice = world_.workloads().Find(key);
      if (slice == nullptr) continue;
      const api::OwnerReference* owner = slice->metadata.Controller();
      if (owner == nullptr || owner->uid != job_.metadata.uid) {
        foreign_ = true;
      } else if (Has(*slice, api::kFinished)) {
        ended_.push_back(slice);
      } else if (world_.TakenOverBy(key) == nullptr) {
        live_.push_back(slice);  // others are about to end
      }
    }
    std::sort(live_.begin(), live_.end(), SliceCreatedBefore);
    std::sort(ended_.begin(), ended_.end(), SliceCreatedBefore);
    for (const WorkloadPtr& slice : ended_) RemoveFinalizer(plan_, world_, *slice, now_);
    return plan_.writes.empty();
  }

  void End(const WorkloadPtr& slice, const char* reason, const std::string& message,
           std::vector<Note> notes) {
    api::Workload next = *slice;
    if (!admission::SetFinished(next, reason, message, now_)) return;
    plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true)).notes = std::move(notes);
  }

  void EndAll(const jobs::JobFinish& finish) {
    for (const WorkloadPtr& slice : live_) {
      End(slice, finish.success ? "Succeeded" : "Failed", finish.message,
          {JobNote(job_, "FinishedWorkload",
                   fmt::format("Workload '{}' is declared finished",
                               slice->metadata.Key().ToString()))});
    }
  }

  SliceStep WithoutLive() const {
    // Workloads of a former Job of this name must go first.
    if (foreign_) return {SliceStep::Next::kOrdinary, nullptr, nullptr};
    if (!ended_.empty()) {
      const WorkloadPtr& last = ended_.back();
      const api::Condition* finished = api::FindCondition(last->status.conditions, api::kFinished);
      // What has ended for another reason than a new slice is never opened again.
      if (finished->reason != admission::kWorkloadSliceReplaced && finished->reason != kOutOfSync &&
          CompareSize(*last, pod_sets_) == SliceSize::kSame) {
        return Use(last, nullptr);
      }
    }
    return {SliceStep::Next::kCreate, nullptr, nullptr};
  }

  std::optional<SliceStep> EndSurplus(const SliceChoice& choice) {
    for (const auto& [slice, reason] : choice.surplus) {
      // Its quota is in use until the pods have gone.
      const bool stopped =
          job_.spec.suspend.value_or(false) && BatchJob::Suspended(job_) && !BatchJob::Active(job_);
      if (Evicted(*slice) && Reserved(*slice) && !stopped) {
        return SliceStep{SliceStep::Next::kStop, slice, nullptr};
      }
      End(slice, reason,
          reason == kOutOfSync ? "The workload slice is out of sync with its job"
                               : "The workload slice was replaced by another one of its job",
          {});
    }
    if (plan_.writes.empty()) return std::nullopt;
    return SliceStep{};
  }

  SliceStep Follow(const WorkloadPtr& slice, const WorkloadPtr& running) {
    const bool suspended = BatchJob::Suspended(job_);
    switch (CompareSize(*slice, pod_sets_)) {
      case SliceSize::kOther:
        return {SliceStep::Next::kOrdinary, nullptr, nullptr};
      case SliceSize::kSame:
        // A slice that was made while the Job ran has the template of the one before.
        if (running == nullptr && suspended &&
            !jobs::Matches(world_, *slice, job_.metadata, pod_sets_, suspended)) {
          return {SliceStep::Next::kOrdinary, nullptr, nullptr};
        }
        return Use(slice, running);
      case SliceSize::kShrink:
        break;
      case SliceSize::kGrow:
        if (!Reserved(*slice)) break;
        // One that is on its way out is resized when it waits again.
        if (Evicted(*slice)) return Use(slice, running);
        return {SliceStep::Next::kCreate, nullptr, running};
    }
    if (slice->metadata.Deleting()) return Use(slice, running);
    Resize(*slice);
    return {};
  }

  void Resize(const api::Workload& slice) {
    std::vector<api::PodSet> resized = slice.spec.pod_sets;
    for (size_t i = 0; i < resized.size(); ++i) resized[i].count = CountFor(resized[i].name);
    Json body = Json::MakeObject();
    body["spec"].Set("podSets", jobs::PodSetsJson(world_, resized));
    plan_
        .Add(MergePatchAction(api::Kind::kWorkload, slice.metadata.Key(), "", std::move(body),
                              slice.metadata.resource_version))
        .notes.push_back(JobNote(job_, "UpdatedWorkload",
                                 "Updated Workload: " + slice.metadata.Key().ToString()));
  }

  int32_t CountFor(const std::string& pod_set) const {
    return std::find_if(pod_sets_.begin(), pod_sets_.end(),
                        [&](const api::PodSet& each) { return each.name == pod_set; })
        ->count;
  }

  const state::World& world_;
  const api::Job& job_;
  const std::vector<api::PodSet>& pod_sets_;
  absl::Time now_;
  Plan& plan_;
  std::vector<WorkloadPtr> live_;
  std::vector<WorkloadPtr> ended_;
  bool foreign_ = false;
};

}  // namespace

bool IsElastic(const state::World& world, const api::ObjectMeta& metadata) {
  return metadata.Annotation(api::kElasticJob) == "true" &&
         world.settings().gates.Enabled("ElasticJobsViaWorkloadSlices");
}

bool SliceCreatedBefore(const WorkloadPtr& a, const WorkloadPtr& b) {
  const absl::Time x = a->metadata.creation_timestamp.value_or(absl::UnixEpoch());
  const absl::Time y = b->metadata.creation_timestamp.value_or(absl::UnixEpoch());
  return x != y ? x < y : a->metadata.uid < b->metadata.uid;
}

SliceChoice SortSlices(const std::vector<WorkloadPtr>& live) {
  SliceChoice choice;
  if (live.size() == 1) {
    choice.selected = live.front();
    if (Reserved(*live.front()) && !Evicted(*live.front())) choice.running = live.front();
    return choice;
  }
  const absl::btree_map<ObjectKey, WorkloadPtr> by_old = Replacements(live);
  const auto replacement = [&](const WorkloadPtr& slice) -> WorkloadPtr {
    const auto found = by_old.find(slice->metadata.Key());
    return found == by_old.end() ? nullptr : found->second;
  };
  WorkloadPtr newest;
  for (const WorkloadPtr& slice : live) {
    if (Evicted(*slice)) continue;
    newest = slice;
    const WorkloadPtr next = replacement(slice);
    if (Reserved(*slice) && (next == nullptr || !Reserved(*next))) choice.running = slice;
  }
  if (choice.running != nullptr) choice.selected = replacement(choice.running);
  if (choice.selected == nullptr) choice.selected = choice.running;
  if (choice.selected == nullptr) choice.selected = newest;
  for (const WorkloadPtr& slice : live) {
    if (slice == choice.selected || slice == choice.running) continue;
    choice.surplus.emplace_back(
        slice, replacement(slice) != nullptr ? admission::kWorkloadSliceReplaced : kOutOfSync);
  }
  return choice;
}

SliceSize CompareSize(const api::Workload& slice, const std::vector<api::PodSet>& pod_sets) {
  if (slice.spec.pod_sets.size() != pod_sets.size()) return SliceSize::kOther;
  bool lower = false;
  bool higher = false;
  for (const api::PodSet& pod_set : pod_sets) {
    const auto& own = slice.spec.pod_sets;
    const auto same = std::find_if(
        own.begin(), own.end(), [&](const api::PodSet& each) { return each.name == pod_set.name; });
    if (same == own.end()) return SliceSize::kOther;
    lower = lower || pod_set.count < same->count;
    higher = higher || pod_set.count > same->count;
  }
  if (higher) return SliceSize::kGrow;
  return lower ? SliceSize::kShrink : SliceSize::kSame;
}

SliceStep NextSliceStep(const state::World& world, const api::Job& job,
                        const std::vector<api::PodSet>& pod_sets, absl::Time now, Plan& plan) {
  return SlicePass(world, job, pod_sets, now, plan).Run();
}

std::vector<api::PodSet> SlicePodSets(const WorkloadPtr& running,
                                      const std::vector<api::PodSet>& pod_sets) {
  if (running == nullptr) return pod_sets;
  std::vector<api::PodSet> result = running->spec.pod_sets;
  for (api::PodSet& pod_set : result) {
    for (const api::PodSet& wanted : pod_sets) {
      if (wanted.name == pod_set.name) pod_set.count = wanted.count;
    }
  }
  return result;
}

}  // namespace sluice::reconcile
