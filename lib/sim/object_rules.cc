#include "sim/object_rules.h"

#include <algorithm>

#include "api/schema.h"
#include "sim/gang_rules.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

void SetDefault(Json& object, const char* key, Json value) {
  if (const Json* found = object.Find(key); found == nullptr || found->IsNull()) {
    object.Set(key, std::move(value));
  }
}

void DefaultContainers(Json& spec, const char* list) {
  Json* containers = spec.Find(list);
  if (containers == nullptr || !containers->IsArray()) return;
  for (Json& container : containers->MutableArray()) {
    SetDefault(container, "terminationMessagePath", "/dev/termination-log");
    SetDefault(container, "terminationMessagePolicy", "File");
    const std::string image = container.GetString("image");
    const bool latest = image.find(':') == std::string::npos || image.ends_with(":latest");
    SetDefault(container, "imagePullPolicy", latest ? "Always" : "IfNotPresent");
    SetDefault(container, "resources", Json::MakeObject());
  }
}

void DefaultJob(Json& job) {
  Json& spec = job["spec"];
  if (!spec.IsObject()) spec = Json::MakeObject();
  const bool no_completions = !spec.Has("completions") || spec.Find("completions")->IsNull();
  const bool no_parallelism = !spec.Has("parallelism") || spec.Find("parallelism")->IsNull();
  if (no_completions && no_parallelism) spec.Set("completions", 1);
  SetDefault(spec, "parallelism", 1);
  SetDefault(spec, "backoffLimit", 6);
  SetDefault(spec, "completionMode", "NonIndexed");
  SetDefault(spec, "suspend", false);
  SetDefault(spec, "manualSelector", false);
  SetDefault(spec, "podReplacementPolicy", "TerminatingOrFailed");
  Json& pod_template = spec["template"];
  if (!pod_template.IsObject()) pod_template = Json::MakeObject();
  Json& pod = pod_template["spec"];
  if (!pod.IsObject()) pod = Json::MakeObject();
  SetDefault(pod, "dnsPolicy", "ClusterFirst");
  SetDefault(pod, "schedulerName", "default-scheduler");
  SetDefault(pod, "securityContext", Json::MakeObject());
  SetDefault(pod, "terminationGracePeriodSeconds", 30);
  DefaultContainers(pod, "containers");
  DefaultContainers(pod, "initContainers");
}

void DefaultPod(Json& pod) {
  Json& spec = pod["spec"];
  if (!spec.IsObject()) spec = Json::MakeObject();
  SetDefault(spec, "dnsPolicy", "ClusterFirst");
  SetDefault(spec, "restartPolicy", "Always");
  SetDefault(spec, "schedulerName", "default-scheduler");
  SetDefault(spec, "terminationGracePeriodSeconds", 30);
  DefaultContainers(spec, "containers");
  DefaultContainers(spec, "initContainers");
  // A pod waits this long on a node that is gone (admission plugin DefaultTolerationSeconds).
  for (const char* key : {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}) {
    const auto same = [&](const Json& toleration) { return toleration.GetString("key") == key; };
    Json& tolerations = spec["tolerations"];
    if (tolerations.IsArray() &&
        std::any_of(tolerations.AsArray().begin(), tolerations.AsArray().end(), same)) {
      continue;
    }
    tolerations.Append(Json::MakeObject({{"key", key},
                                         {"operator", "Exists"},
                                         {"effect", "NoExecute"},
                                         {"tolerationSeconds", 300}}));
  }
}

bool ConditionTrue(const Json& object, const std::string& type) {
  const Json* conditions = object.Find("status", "conditions");
  if (conditions == nullptr) return false;
  const auto& list = conditions->AsArray();
  return std::any_of(list.begin(), list.end(), [&](const Json& condition) {
    return condition.GetString("type") == type && condition.GetString("status") == "True";
  });
}

bool Same(const Json* a, const Json* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return *a == *b;
}

// A template without what may change in a suspended Job that has no pods.
Json WithoutScheduling(const Json* pod_template) {
  if (pod_template == nullptr) return Json();
  Json stripped = *pod_template;
  if (Json* metadata = stripped.Find("metadata")) {
    metadata->Erase("labels");
    metadata->Erase("annotations");
    if (metadata->AsObject().empty()) stripped.Erase("metadata");
  }
  if (Json* spec = stripped.Find("spec")) {
    for (const char* field : {"nodeSelector", "tolerations", "schedulingGates"}) spec->Erase(field);
    if (Json* affinity = spec->Find("affinity")) affinity->Erase("nodeAffinity");
    for (const char* list : {"containers", "initContainers"}) {
      if (Json* containers = spec->Find(list)) {
        for (Json& container : containers->MutableArray()) container.Erase("resources");
      }
    }
  }
  return stripped;
}

bool Suspended(const Json& job) {
  const Json* suspend = job.Find("spec", "suspend");
  return suspend != nullptr && suspend->AsBool();
}

int64_t Active(const Json& job) {
  const Json* active = job.Find("status", "active");
  return active == nullptr ? 0 : active->AsInt();
}

std::vector<std::string> JobErrors(const std::string& subresource, const Json* old,
                                   const Json& next) {
  std::vector<std::string> errors;
  const Json* containers = next.Find("spec", "template", "spec", "containers");
  if (containers == nullptr || containers->AsArray().empty()) {
    errors.push_back("spec.template.spec.containers: Required value");
  }
  const std::string policy = next.GetString("spec", "template", "spec", "restartPolicy");
  if (policy != "Never" && policy != "OnFailure") {
    errors.push_back(
        "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"");
  }
  for (std::string& error : JobSchedulingErrors(old, next)) errors.push_back(std::move(error));
  if (old == nullptr) return errors;
  if (subresource == "status") {
    if (old->Has("status") && old->Find("status")->Has("startTime") &&
        next.GetString("status", "startTime").empty() && !Suspended(next) &&
        !ConditionTrue(*old, "Complete")) {
      errors.push_back(
          "status.startTime: Required value: startTime cannot be removed for unsuspended job");
    }
    return errors;
  }
  const Json* before = old->Find("spec", "template");
  const Json* after = next.Find("spec", "template");
  const bool started = !old->GetString("status", "startTime").empty();
  const bool scheduling_mutable =
      Suspended(*old) && Active(*old) == 0 && (!started || ConditionTrue(*old, "Suspended"));
  const bool same = scheduling_mutable ? WithoutScheduling(before) == WithoutScheduling(after)
                                       : Same(before, after);
  if (!same) errors.push_back("spec.template: Invalid value: field is immutable");
  const bool indexed = old->GetString("spec", "completionMode") == "Indexed";
  if (!indexed && !Same(old->Find("spec", "completions"), next.Find("spec", "completions"))) {
    errors.push_back("spec.completions: Invalid value: field is immutable");
  }
  return errors;
}

size_t ListSize(const Json* list) { return list == nullptr ? 0 : list->AsArray().size(); }

// What of a pod's spec may change is compared apart.
Json WithoutMutable(const Json& spec) {
  Json rest = spec;
  for (const char* field : {"schedulingGates", "nodeSelector", "tolerations", "nodeName"}) {
    rest.Erase(field);
  }
  return rest;
}

// Every member or item of `before` is still there.
bool OnlyAdded(const Json* before, const Json* after) {
  if (before == nullptr) return true;
  if (after == nullptr) return before->AsArray().empty() && before->AsObject().empty();
  for (const auto& [key, value] : before->AsObject()) {
    const Json* now = after->Find(key);
    if (now == nullptr || !(*now == value)) return false;
  }
  const auto& list = after->AsArray();
  return std::all_of(before->AsArray().begin(), before->AsArray().end(), [&](const Json& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  });
}

std::vector<std::string> PodErrors(const std::string& subresource, const Json* old,
                                   const Json& next) {
  std::vector<std::string> errors;
  const Json* containers = next.Find("spec", "containers");
  if (ListSize(containers) == 0) errors.push_back("spec.containers: Required value");
  if (old == nullptr || !subresource.empty()) return errors;
  const Json* before = old->Find("spec");
  const Json* after = next.Find("spec");
  const bool gated = ListSize(before->Find("schedulingGates")) > 0;
  if (!OnlyAdded(after->Find("schedulingGates"), before->Find("schedulingGates"))) {
    errors.push_back("spec.schedulingGates: Forbidden: only deletion is allowed");
  }
  if (!Same(before->Find("nodeSelector"), after->Find("nodeSelector")) &&
      !(gated && OnlyAdded(before->Find("nodeSelector"), after->Find("nodeSelector")))) {
    errors.push_back("spec.nodeSelector: Invalid value: only additions to a gated pod are allowed");
  }
  if (!OnlyAdded(before->Find("tolerations"), after->Find("tolerations"))) {
    errors.push_back("spec.tolerations: Forbidden: existing tolerations can not be modified");
  }
  const bool binds = before->GetString("nodeName").empty();
  if (!binds && !Same(before->Find("nodeName"), after->Find("nodeName"))) {
    errors.push_back("spec.nodeName: Invalid value: field is immutable");
  }
  if (binds && after->Has("nodeName") && ListSize(after->Find("schedulingGates")) > 0) {
    errors.push_back("spec.nodeName: Invalid value: a pod with scheduling gates cannot be bound");
  }
  if (!(WithoutMutable(*before) == WithoutMutable(*after))) {
    errors.push_back("spec: Forbidden: pod updates may not change this field");
  }
  return errors;
}

void WorkloadReference(const Json& old, const Json& next, std::vector<std::string>& errors) {
  const Json* before = old.Find("spec", "priorityClassRef");
  const Json* after = next.Find("spec", "priorityClassRef");
  if ((before == nullptr) != (after == nullptr)) {
    errors.push_back("priorityClassRef can be neither added nor removed while quota is reserved");
    return;
  }
  if (before == nullptr) return;
  for (const char* field : {"group", "kind"}) {
    if (before->GetString(field) != after->GetString(field)) {
      errors.push_back(std::string("the ") + field +
                       " of priorityClassRef cannot be changed while quota is reserved");
    }
  }
  if (after->GetString("kind") == "PriorityClass" &&
      before->GetString("name") != after->GetString("name")) {
    errors.push_back("the name of a PriorityClass cannot be changed while quota is reserved");
  }
}

std::vector<std::string> WorkloadErrors(const Json* old, const Json& next) {
  std::vector<std::string> errors;
  const bool reserved = ConditionTrue(next, "QuotaReserved");
  if (reserved && next.Find("status", "admission") != nullptr &&
      ListSize(next.Find("status", "admission", "podSetAssignments")) !=
          ListSize(next.Find("spec", "podSets"))) {
    errors.push_back("podSetAssignments must have one entry per pod set while quota is reserved");
  }
  if (old == nullptr) return errors;
  const bool was_reserved = ConditionTrue(*old, "QuotaReserved");
  if (was_reserved) WorkloadReference(*old, next, errors);
  if (was_reserved && reserved &&
      !Same(old->Find("spec", "queueName"), next.Find("spec", "queueName"))) {
    errors.push_back("queueName cannot be changed while quota is reserved");
  }
  if (ConditionTrue(*old, "Admitted") && ConditionTrue(next, "Admitted") &&
      !Same(old->Find("spec", "maximumExecutionTimeSeconds"),
            next.Find("spec", "maximumExecutionTimeSeconds"))) {
    errors.push_back(
        "maximumExecutionTimeSeconds cannot be changed while the Workload is admitted");
  }
  const std::string cluster = old->GetString("status", "clusterName");
  if (!cluster.empty() && !next.GetString("status", "clusterName").empty() &&
      next.GetString("status", "clusterName") != cluster) {
    errors.push_back("status: clusterName cannot be changed once it is set");
  }
  return errors;
}

}  // namespace

bool HasStatus(Kind kind) {
  switch (kind) {
    case Kind::kClusterQueue:
    case Kind::kLocalQueue:
    case Kind::kCohort:
    case Kind::kWorkload:
    case Kind::kAdmissionCheck:
    case Kind::kMultiKueueCluster:
    case Kind::kCreditPolicy:
    case Kind::kCreditAccount:
    case Kind::kJob:
    case Kind::kPod:
    case Kind::kNode:
    case Kind::kNamespace:
    case Kind::kPodGroup:
      return true;
    default:
      return false;
  }
}

void DefaultBuiltin(Kind kind, Json& object) {
  if (kind == Kind::kJob) DefaultJob(object);
  if (kind == Kind::kPod) DefaultPod(object);
  if (kind == Kind::kPodGroup) DefaultPodGroup(object);
  if (kind == Kind::kNamespace) {
    object["metadata"]["labels"].Set("kubernetes.io/metadata.name",
                                     object.GetString("metadata", "name"));
  }
}

void AdoptJobTemplate(Json& job) {
  Json& spec = job["spec"];
  const Json* manual = spec.Find("manualSelector");
  if (manual != nullptr && manual->AsBool()) return;
  const std::string uid = job.GetString("metadata", "uid");
  const std::string name = job.GetString("metadata", "name");
  Json& labels = spec["template"]["metadata"]["labels"];
  labels.Set("batch.kubernetes.io/controller-uid", uid);
  labels.Set("batch.kubernetes.io/job-name", name);
  labels.Set("controller-uid", uid);
  labels.Set("job-name", name);
  spec["selector"]["matchLabels"].Set("batch.kubernetes.io/controller-uid", uid);
}

std::vector<std::string> RuleErrors(Kind kind, const std::string& subresource, const Json* old,
                                    const Json& next) {
  const auto unchanged = [&](const char* field, const char* text) -> std::vector<std::string> {
    if (old == nullptr || Same(old->Find("spec", field), next.Find("spec", field))) return {};
    return {std::string("spec.") + field + ": Invalid value: " + text};
  };
  switch (kind) {
    case Kind::kJob:
      return JobErrors(subresource, old, next);
    case Kind::kPod:
      return PodErrors(subresource, old, next);
    case Kind::kWorkload:
      return WorkloadErrors(old, next);
    case Kind::kPodGroup:
      return PodGroupErrors(old, next);
    case Kind::kLocalQueue:
      return unchanged("clusterQueue", "clusterQueue cannot be changed");
    case Kind::kAdmissionCheck:
      return unchanged("controllerName", "controllerName cannot be changed");
    case Kind::kResourceFlavor:
      if (old != nullptr && !old->GetString("spec", "topologyName").empty()) {
        return unchanged("topologyName", "topologyName cannot be changed once it is set");
      }
      return {};
    default:
      return {};
  }
}

}  // namespace sluice::sim
