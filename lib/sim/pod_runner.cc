#include "sim/pod_runner.h"

#include <absl/strings/numbers.h>

#include <algorithm>

#include "base/time.h"
#include "sim/object_metadata.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

absl::Duration Seconds(const Json& pod, const char* annotation, absl::Duration fallback) {
  const std::string text = pod.GetString("metadata", "annotations", annotation);
  double seconds = 0;
  if (text.empty()) return fallback;
  return absl::SimpleAtod(text, &seconds) ? absl::Seconds(seconds) : absl::InfiniteDuration();
}

bool Gated(const Json& pod) {
  const Json* gates = pod.Find("spec", "schedulingGates");
  return gates != nullptr && !gates->AsArray().empty();
}

bool Ended(const std::string& phase) { return phase == "Succeeded" || phase == "Failed"; }

bool OfJob(const Json& pod) {
  const Json* owners = pod.Find("metadata", "ownerReferences");
  if (owners == nullptr) return false;
  const auto& list = owners->AsArray();
  return std::any_of(list.begin(), list.end(), [](const Json& owner) {
    return owner.GetString("kind") == "Job" && owner.Has("controller");
  });
}

std::string ConditionStatus(const Json& pod, const std::string& type) {
  const Json* conditions = pod.Find("status", "conditions");
  if (conditions == nullptr) return "";
  for (const Json& condition : conditions->AsArray()) {
    if (condition.GetString("type") == type) return condition.GetString("status");
  }
  return "";
}

Json ConditionOf(const char* type, bool value, const std::string& reason, absl::Time now) {
  Json condition = Json::MakeObject({{"type", type},
                                     {"status", value ? "True" : "False"},
                                     {"lastTransitionTime", sluice::FormatTime(now)}});
  if (!value && !reason.empty()) condition.Set("reason", reason);
  return condition;
}

}  // namespace

void PodRunner::Run(absl::Time now) {
  next_due_ = absl::InfiniteFuture();
  for (auto it = times_.begin(); it != times_.end();) {
    const Json* pod = api_.Find(Kind::kPod, it->first);
    const bool same = pod != nullptr && pod->GetString("metadata", "uid") == it->second.uid;
    it = same ? std::next(it) : times_.erase(it);
  }
  for (const Json& pod : api_.List(Kind::kPod)) Advance(pod, now);
}

void PodRunner::DueAt(absl::Time time, absl::Time now) {
  if (time > now) next_due_ = std::min(next_due_, time);
}

PodRunner::Times& PodRunner::TimesOf(const ObjectKey& key, const Json& pod, absl::Time now) {
  Times& times = times_[key];
  const std::string uid = pod.GetString("metadata", "uid");
  if (times.uid == uid) return times;
  times = Times();
  times.uid = uid;
  times.ready_at = now + Seconds(pod, kReadySecondsAnnotation, options_.readiness_delay);
  times.ends_at = now + Seconds(pod, kRunSecondsAnnotation, absl::InfiniteDuration());
  return times;
}

void PodRunner::Advance(const Json& pod, absl::Time now) {
  const ObjectKey key{pod.GetString("metadata", "namespace"), pod.GetString("metadata", "name")};
  const std::string phase = pod.GetString("status", "phase");
  const bool bound = !pod.GetString("spec", "nodeName").empty();
  if (options_.pod_objects && OfJob(pod)) return;
  if (!bound) {
    if (!options_.pod_objects && !Gated(pod) && !Deleting(pod) && !Ended(phase))
      Bind(key, pod, now);
    return;
  }
  const Json* node = api_.Find(Kind::kNode, {"", pod.GetString("spec", "nodeName")});
  if (node != nullptr && !Answers(node)) {
    // Its kubelet says nothing, whatever becomes of the pod; others say that it is not ready.
    if (phase == "Running") Report(key, pod, phase, false, now);
    return;
  }
  Times& times = TimesOf(key, pod, now);
  if (Deleting(pod)) {
    const Json* grace = pod.Find("metadata", "deletionGracePeriodSeconds");
    if (grace == nullptr || grace->AsInt() == 0) return;  // only finalizers hold it
    times.stops_at =
        std::min(times.stops_at, now + Seconds(pod, kStopSecondsAnnotation, options_.stop_time));
  }
  const absl::Time end = std::min(times.ends_at, times.stops_at);
  if (!Ended(phase)) {
    const bool ready = times.ready_at <= now;
    if (end > now) {
      Report(key, pod, "Running", ready, now);
      DueAt(end, now);
      DueAt(times.ready_at, now);
      return;
    }
    const bool fails = pod.GetString("metadata", "annotations", kFailAnnotation) == "true";
    const bool stopped = times.stops_at < times.ends_at;
    Report(key, pod, fails || stopped ? "Failed" : "Succeeded", false, now);
  }
  if (Deleting(pod)) Remove(key, pod, now);
}

void PodRunner::Bind(const ObjectKey& key, const Json& pod, absl::Time now) {
  state::Action action;
  action.verb = state::Verb::kMergePatch;
  action.kind = Kind::kPod;
  action.key = key;
  const std::string host = pod.GetString("spec", "nodeSelector", "kubernetes.io/hostname");
  action.body["spec"].Set("nodeName", host.empty() ? "node" : host);
  action.field_manager = "kube-scheduler";
  if (!api_.Execute(action, now).ok()) return;
  const Json* bound = api_.Find(Kind::kPod, key);
  TimesOf(key, pod, now);
  if (bound != nullptr) Advance(Json(*bound), now);
}

void PodRunner::Report(const ObjectKey& key, const Json& pod, const std::string& phase, bool ready,
                       absl::Time now) {
  if (pod.GetString("status", "phase") == phase &&
      ConditionStatus(pod, "Ready") == (ready ? "True" : "False")) {
    return;
  }
  const std::string reason = phase == "Failed"      ? "PodFailed"
                             : phase == "Succeeded" ? "PodCompleted"
                                                    : "ContainersNotReady";
  Json conditions = Json::MakeArray();
  if (const Json* old = pod.Find("status", "conditions")) {
    for (const Json& condition : old->AsArray()) {
      const std::string type = condition.GetString("type");
      if (type != "Ready" && type != "ContainersReady") conditions.Append(condition);
    }
  }
  conditions.Append(ConditionOf("Ready", ready, reason, now));
  conditions.Append(ConditionOf("ContainersReady", ready, reason, now));
  state::Action action;
  action.verb = state::Verb::kMergePatch;
  action.kind = Kind::kPod;
  action.key = key;
  action.subresource = "status";
  action.body["status"].Set("phase", phase);
  action.body["status"].Set("conditions", std::move(conditions));
  action.field_manager = "kubelet";
  api_.Execute(action, now);
}

void PodRunner::Remove(const ObjectKey& key, const Json& pod, absl::Time now) {
  state::Action action;
  action.verb = state::Verb::kDelete;
  action.kind = Kind::kPod;
  action.key = key;
  action.body = Json::MakeObject(
      {{"gracePeriodSeconds", 0},
       {"preconditions", Json::MakeObject({{"uid", pod.GetString("metadata", "uid")}})}});
  api_.Execute(action, now);
}

}  // namespace sluice::sim
