#include "sim/job_controller.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <fmt/format.h>

#include <algorithm>

#include "base/time.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

int64_t Number(const Json& job, const char* part, const char* field, int64_t fallback) {
  const Json* value = job.Find(part, field);
  return value == nullptr || value->IsNull() ? fallback : value->AsInt(fallback);
}

bool Suspended(const Json& job) {
  const Json* suspend = job.Find("spec", "suspend");
  return suspend != nullptr && suspend->AsBool();
}

bool HasCondition(const Json& status, const std::string& type) {
  const Json* conditions = status.Find("conditions");
  if (conditions == nullptr) return false;
  const auto& list = conditions->AsArray();
  return std::any_of(list.begin(), list.end(), [&](const Json& condition) {
    return condition.GetString("type") == type && condition.GetString("status") == "True";
  });
}

bool Ended(const Json& job) {
  const Json* status = job.Find("status");
  return status != nullptr &&
         (HasCondition(*status, "Complete") || HasCondition(*status, "Failed"));
}

void SetCondition(Json& status, const char* type, bool value, const char* reason,
                  const std::string& message, absl::Time now) {
  Json condition = Json::MakeObject({{"type", type},
                                     {"status", value ? "True" : "False"},
                                     {"lastProbeTime", sluice::FormatTime(now)},
                                     {"lastTransitionTime", sluice::FormatTime(now)},
                                     {"reason", reason},
                                     {"message", message}});
  Json& conditions = status["conditions"];
  if (!conditions.IsArray()) conditions = Json::MakeArray();
  for (Json& old : conditions.MutableArray()) {
    if (old.GetString("type") != type) continue;
    if (old.GetString("status") != condition.GetString("status")) old = std::move(condition);
    return;
  }
  conditions.Append(std::move(condition));
}

// The time that the annotation gives for the pod of that index.
absl::Duration TimeOf(const Json& job, const char* annotation, int64_t index,
                      absl::Duration fallback) {
  const std::string text = job.GetString("metadata", "annotations", annotation);
  if (text.empty()) return fallback;
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const size_t at = std::min(static_cast<size_t>(index), parts.size() - 1);
  double seconds = 0;
  return absl::SimpleAtod(parts[at], &seconds) ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

int64_t Parallelism(const Json& job) { return Number(job, "spec", "parallelism", 1); }
// Without completions any success is enough, and then no new pods are made.
int64_t Completions(const Json& job) {
  return Number(job, "spec", "completions", Parallelism(job));
}
bool Indexed(const Json& job) { return job.GetString("spec", "completionMode") == "Indexed"; }

}  // namespace

void JobController::Run(absl::Time now) {
  last_run_ = now;
  for (auto it = jobs_.begin(); it != jobs_.end();) {
    const Json* job = api_.Find(Kind::kJob, it->first);
    const bool same = job != nullptr && job->GetString("metadata", "uid") == it->second.uid;
    it = same ? std::next(it) : jobs_.erase(it);
  }
  for (const Json& job : api_.List(Kind::kJob)) {
    if (options_.pod_objects) SyncPodGroup(job, now);
    Reconcile(job, now);
  }
}

void JobController::Reconcile(const Json& job, absl::Time now) {
  const ObjectKey key{job.GetString("metadata", "namespace"), job.GetString("metadata", "name")};
  const std::string managed_by = job.GetString("spec", "managedBy");
  if (!managed_by.empty() && managed_by != "kubernetes.io/job-controller") return;
  JobState& state = jobs_[key];
  if (state.uid.empty()) {
    state.uid = job.GetString("metadata", "uid");
    state.succeeded = Number(job, "status", "succeeded", 0);
    state.failed_pods = Number(job, "status", "failed", 0);
  }
  SyncPods(state, job, now);
  AdvancePods(state, job, now);
  FailPods(state, job);
  if (Ended(job) || !job.GetString("metadata", "deletionTimestamp").empty() || Suspended(job)) {
    StopPods(state, job, now);
  } else {
    MakePods(state, job, now);
    AdvancePods(state, job, now);
  }
  RemoveObjects(state, job, now);
  Json status = StatusOf(state, job, now);
  const Json* old = job.Find("status");
  if (old != nullptr ? *old == status : status.AsObject().empty()) return;
  state::Action action;
  action.verb = state::Verb::kUpdate;
  action.kind = Kind::kJob;
  action.key = key;
  action.subresource = "status";
  action.body = job;
  action.body.Set("status", std::move(status));
  action.field_manager = "kube-controller-manager";
  api_.Execute(action, now);
}

void JobController::AdvancePods(JobState& state, const Json& job, absl::Time now) const {
  const bool fails = job.GetString("metadata", "annotations", kFailAnnotation) == "true";
  for (const Pod& pod : state.pods) {
    if (pod.ends_at > now || pod.gone_at < pod.ends_at) continue;
    if (fails) {
      state.failed = true;
      continue;
    }
    ++state.succeeded;
    if (!pod.object.empty()) state.done.push_back(pod.object);
    if (Indexed(job)) state.completed_indexes.push_back(pod.index);
  }
  std::erase_if(state.pods,
                [&](const Pod& pod) { return pod.ends_at <= now || pod.gone_at <= now; });
}

void JobController::FailPods(JobState& state, const Json& job) const {
  int64_t wanted = 0;
  const std::string text = job.GetString("metadata", "annotations", kFailedPodsAnnotation);
  if (!absl::SimpleAtoi(text, &wanted)) return;
  for (auto pod = state.pods.begin(); pod != state.pods.end() && state.failed_pods < wanted;) {
    pod = state.pods.erase(pod);
    ++state.failed_pods;
  }
}

void JobController::SetTimes(Pod& pod, const Json& job, absl::Time now) const {
  pod.ready_at = now + TimeOf(job, kReadySecondsAnnotation, pod.index, options_.readiness_delay);
  pod.ends_at = now + TimeOf(job, kRunSecondsAnnotation, pod.index, absl::InfiniteDuration());
}

int64_t JobController::NextIndex(JobState& state, const Json& job) {
  if (!Indexed(job)) return state.started++;
  const std::vector<int64_t>& done = state.completed_indexes;
  int64_t index = 0;
  const auto taken = [&] {
    return std::find(done.begin(), done.end(), index) != done.end() ||
           std::any_of(state.pods.begin(), state.pods.end(), [&](const Pod& pod) {
             return pod.index == index && pod.gone_at == absl::InfiniteFuture();
           });
  };
  while (taken()) ++index;
  return index;
}

void JobController::MakePods(JobState& state, const Json& job, absl::Time now) {
  const Json* gates = job.Find("spec", "template", "spec", "schedulingGates");
  const bool gated = gates != nullptr && !gates->AsArray().empty();
  const int64_t left = Completions(job) - state.succeeded;
  const int64_t wanted = state.failed ? 0 : std::min(Parallelism(job), left);
  int64_t live = std::count_if(state.pods.begin(), state.pods.end(), [](const Pod& pod) {
    return pod.gone_at == absl::InfiniteFuture();
  });
  for (; live < wanted; ++live) {
    Pod pod;
    pod.index = NextIndex(state, job);
    SetTimes(pod, job, now);
    if (gated || options_.pod_objects) MakeObject(pod, state, job, now);
    state.pods.push_back(pod);
  }
  // Those that did not start yet go first, and the younger before the older.
  for (const bool waiting : {true, false}) {
    for (auto pod = state.pods.rbegin(); pod != state.pods.rend() && live > wanted; ++pod) {
      if (pod->gone_at != absl::InfiniteFuture() || pod->waiting != waiting) continue;
      pod->gone_at = now;
      --live;
    }
  }
}

void JobController::StopPods(JobState& state, const Json& job, absl::Time now) const {
  absl::Duration stop = options_.stop_time;
  double seconds = 0;
  const std::string text = job.GetString("metadata", "annotations", kStopSecondsAnnotation);
  if (absl::SimpleAtod(text, &seconds)) stop = absl::Seconds(seconds);
  for (Pod& pod : state.pods) pod.gone_at = std::min(pod.gone_at, now + stop);
  std::erase_if(state.pods, [&](const Pod& pod) { return pod.gone_at <= now; });
  if (state.pods.empty()) state.started = state.succeeded;
}

Json JobController::StatusOf(const JobState& state, const Json& job, absl::Time now) const {
  Json status = job.Find("status") == nullptr ? Json::MakeObject() : *job.Find("status");
  const auto count = [&](const char* field, int64_t value) {
    if (value == 0 && std::string_view(field) != "ready") {
      status.Erase(field);
    } else {
      status.Set(field, value);
    }
  };
  const int64_t active = static_cast<int64_t>(state.pods.size());
  const int64_t ready = std::count_if(state.pods.begin(), state.pods.end(), [&](const Pod& pod) {
    return pod.ready_at <= now && pod.gone_at == absl::InfiniteFuture();
  });
  if (Ended(job)) return status;
  const bool suspended = Suspended(job);
  const bool known = status.Has("startTime") || status.Has("conditions") || active > 0;
  if (suspended) {
    if (active == 0) {
      SetCondition(status, "Suspended", true, "JobSuspended", "Job suspended", now);
    }
  } else {
    if (status.GetString("startTime").empty()) status.Set("startTime", sluice::FormatTime(now));
    if (HasCondition(status, "Suspended")) {
      SetCondition(status, "Suspended", false, "JobResumed", "Job resumed", now);
    }
  }
  if (!suspended || known) count("ready", ready);
  count("active", active);
  count("succeeded", state.succeeded);
  count("failed", state.failed_pods);
  if (Indexed(job) && !state.completed_indexes.empty()) {
    std::vector<int64_t> indexes = state.completed_indexes;
    std::sort(indexes.begin(), indexes.end());
    status.Set("completedIndexes", fmt::format("{}", fmt::join(indexes, ",")));
  }
  if (!suspended && state.failed) {
    SetCondition(status, "Failed", true, "BackoffLimitExceeded",
                 "Job has reached the specified backoff limit", now);
    count("active", 0);
    count("failed", 1);
  } else if (!suspended && state.succeeded >= Completions(job)) {
    const char* message = "Reached expected number of succeeded pods";
    SetCondition(status, "SuccessCriteriaMet", true, "CompletionsReached", message, now);
    SetCondition(status, "Complete", true, "CompletionsReached", message, now);
    status.Set("completionTime", sluice::FormatTime(now));
  }
  return status;
}

absl::Time JobController::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, state] : jobs_) {
    for (const Pod& pod : state.pods) {
      next = std::min({next, pod.ends_at, pod.gone_at});
      if (pod.ready_at > last_run_) next = std::min(next, pod.ready_at);
    }
  }
  return next;
}

int64_t JobController::RunningPods(const ObjectKey& job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? 0 : static_cast<int64_t>(found->second.pods.size());
}

}  // namespace sluice::sim
