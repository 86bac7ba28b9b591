// Pods of Jobs as API objects, and the PodGroups that the Job controller makes.
// Source: Kubernetes documentation, "Jobs"; KEP-5547 "Integrate Workload APIs with Job".
#include <fmt/format.h>

#include <algorithm>

#include "base/time.h"
#include "sim/job_controller.h"
#include "sim/object_metadata.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Verb;

constexpr char kIndexLabel[] = "batch.kubernetes.io/job-completion-index";

std::string GroupOfJob(const Json& job) { return job.GetString("metadata", "name") + "-jc"; }

Json Owners(const Json& job) {
  return Json::MakeArray({Json::MakeObject({{"apiVersion", "batch/v1"},
                                            {"kind", "Job"},
                                            {"name", job.GetString("metadata", "name")},
                                            {"uid", job.GetString("metadata", "uid")},
                                            {"controller", true}})});
}

state::Action ActionOn(Verb verb, Kind kind, const Json& job, const std::string& name) {
  state::Action action;
  action.verb = verb;
  action.kind = kind;
  action.key = {job.GetString("metadata", "namespace"), name};
  action.field_manager = "kube-controller-manager";
  return action;
}

int64_t MinCount(const Json& job) {
  const Json* given = job.Find("spec", "scheduling", "schedulingPolicy", "gang");
  if (const Json* count = given->Find("minCount")) return count->AsInt();
  const Json* parallelism = job.Find("spec", "parallelism");
  return std::max<int64_t>(1, parallelism == nullptr ? 1 : parallelism->AsInt());
}

bool Gated(const Json& pod) {
  const Json* gates = pod.Find("spec", "schedulingGates");
  return gates != nullptr && !gates->AsArray().empty();
}

}  // namespace

void JobController::SyncPodGroup(const Json& job, absl::Time now) {
  const Json* gang = job.Find("spec", "scheduling", "schedulingPolicy", "gang");
  if (gang == nullptr || !api_.features().job_scheduling) return;
  const std::string name = GroupOfJob(job);
  const Json* group = api_.Find(Kind::kPodGroup, {job.GetString("metadata", "namespace"), name});
  const int64_t wanted = MinCount(job);
  if (group == nullptr) {
    // Only a Job that was never looked at before gets one.
    if (job.Find("status", "conditions") != nullptr) return;
    state::Action action = ActionOn(Verb::kCreate, Kind::kPodGroup, job, name);
    action.body["metadata"] = Json::MakeObject({{"name", name}, {"ownerReferences", Owners(job)}});
    action.body["spec"]["schedulingPolicy"]["gang"].Set("minCount", wanted);
    const std::string priority_class =
        job.GetString("spec", "template", "spec", "priorityClassName");
    if (!priority_class.empty()) action.body["spec"].Set("priorityClassName", priority_class);
    api_.Execute(action, now);
    return;
  }
  const Json* count = group->Find("spec", "schedulingPolicy", "gang", "minCount");
  if (count != nullptr && count->AsInt() == wanted) return;
  state::Action action = ActionOn(Verb::kMergePatch, Kind::kPodGroup, job, name);
  action.body["spec"]["schedulingPolicy"]["gang"].Set("minCount", wanted);
  api_.Execute(action, now);
}

void JobController::MakeObject(Pod& pod, JobState& state, const Json& job, absl::Time now) {
  pod.object = fmt::format("{}-{:04d}", job.GetString("metadata", "name"), state.objects++);
  pod.waiting = true;
  pod.ready_at = pod.ends_at = absl::InfiniteFuture();
  const Json* pod_template = job.Find("spec", "template");
  state::Action action = ActionOn(Verb::kCreate, Kind::kPod, job, pod.object);
  Json metadata = Json::MakeObject({{"name", pod.object}, {"ownerReferences", Owners(job)}});
  for (const char* field : {"labels", "annotations"}) {
    if (const Json* map = pod_template->Find("metadata", field)) metadata.Set(field, *map);
  }
  if (job.GetString("spec", "completionMode") == "Indexed") {
    for (const char* field : {"labels", "annotations"}) {
      metadata[field].Set(kIndexLabel, std::to_string(pod.index));
    }
  }
  action.body.Set("metadata", std::move(metadata));
  action.body.Set("spec", *pod_template->Find("spec"));
  const bool has_group = api_.Find(Kind::kPodGroup, {action.key.ns, GroupOfJob(job)}) != nullptr;
  if (has_group && job.Find("spec", "scheduling") != nullptr) {
    action.body["spec"]["schedulingGroup"].Set("podGroupName", GroupOfJob(job));
  }
  api_.Execute(action, now);
}

void JobController::DeleteObject(const std::string& ns, const Pod& pod, absl::Time now) {
  state::Action action;
  action.verb = Verb::kDelete;
  action.kind = Kind::kPod;
  action.key = {ns, pod.object};
  action.body = Json::MakeObject({{"gracePeriodSeconds", 0}});
  action.field_manager = "kube-controller-manager";
  api_.Execute(action, now);
}

void JobController::SyncPods(JobState& state, const Json& job, absl::Time now) {
  const std::string ns = job.GetString("metadata", "namespace");
  for (Pod& pod : state.pods) {
    if (pod.object.empty()) continue;
    const Json* object = api_.Find(Kind::kPod, {ns, pod.object});
    const std::string node = object == nullptr ? "" : object->GetString("spec", "nodeName");
    const bool deleted = object == nullptr ||
                         !object->GetString("metadata", "deletionTimestamp").empty() ||
                         object->GetString("status", "phase") == "Failed";
    // Nodes that do not answer lose their pods at once here; in reality that takes minutes.
    const bool lost =
        options_.pod_objects && !node.empty() && !Answers(api_.Find(Kind::kNode, {"", node}));
    if (deleted || lost) {
      pod.gone_at = std::min(pod.gone_at, now);
      pod.ends_at = absl::InfiniteFuture();
      continue;
    }
    if (!pod.waiting || Gated(*object) || (options_.pod_objects && node.empty())) continue;
    pod.waiting = false;
    SetTimes(pod, job, now);
  }
}

// Deleted on a node that does not answer: it stays, since nobody says that it has stopped, and is
// said to be not ready.
void JobController::Strand(const Json& pod, const Json& job, absl::Time now) {
  if (Deleting(pod)) return;
  const std::string name = pod.GetString("metadata", "name");
  state::Action action = ActionOn(Verb::kMergePatch, Kind::kPod, job, name);
  action.subresource = "status";
  action.body["status"].Set(
      "conditions",
      Json::MakeArray({Json::MakeObject({{"type", "Ready"},
                                         {"status", "False"},
                                         {"reason", "NodeNotReady"},
                                         {"lastTransitionTime", sluice::FormatTime(now)}})}));
  api_.Execute(action, now);
  api_.Execute(ActionOn(Verb::kDelete, Kind::kPod, job, name), now);
}

// Objects of pods that are not in the list any more: those that ended well stay, as done.
void JobController::RemoveObjects(JobState& state, const Json& job, absl::Time now) {
  if (state.objects == 0) return;
  const std::string ns = job.GetString("metadata", "namespace");
  const std::string uid = job.GetString("metadata", "uid");
  for (const Json& object : api_.List(Kind::kPod)) {
    const Json* owners = object.Find("metadata", "ownerReferences");
    if (owners == nullptr || owners->AsArray().front().GetString("uid") != uid) continue;
    const std::string name = object.GetString("metadata", "name");
    const bool kept = std::any_of(state.pods.begin(), state.pods.end(),
                                  [&](const Pod& pod) { return pod.object == name; });
    if (kept || object.GetString("status", "phase") == "Succeeded") continue;
    if (std::find(state.done.begin(), state.done.end(), name) != state.done.end()) {
      state::Action action = ActionOn(Verb::kMergePatch, Kind::kPod, job, name);
      action.subresource = "status";
      action.body["status"].Set("phase", "Succeeded");
      api_.Execute(action, now);
      continue;
    }
    const std::string host = object.GetString("spec", "nodeName");
    const Json* node = host.empty() ? nullptr : api_.Find(Kind::kNode, {"", host});
    if (options_.pod_objects && node != nullptr && !Answers(node)) {
      Strand(object, job, now);
      continue;
    }
    Pod gone;
    gone.object = name;
    DeleteObject(ns, gone, now);
  }
}

}  // namespace sluice::sim
