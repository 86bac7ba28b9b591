// The search for an owner that is managed in place of the job itself.
#include <fmt/format.h>

#include <set>

#include "base/status.h"
#include "webhook/rules.h"

namespace sluice::webhook {
namespace {

constexpr int kMaxOwners = 10;

struct KnownKind {
  std::string_view framework;  // "" for kinds that only stand between a job and its owner
  std::string_view api_version;
  std::string_view kind;
};

// Kinds through which the search goes on. One that is not enabled is passed by; one that is not in
// this table ends the search.
constexpr KnownKind kKnownKinds[] = {
    {"batch/job", "batch/v1", "Job"},
    {"pod", "v1", "Pod"},
    {"deployment", "apps/v1", "Deployment"},
    {"statefulset", "apps/v1", "StatefulSet"},
    {"leaderworkerset.x-k8s.io/leaderworkerset", "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"},
    {"jobset.x-k8s.io/jobset", "jobset.x-k8s.io/v1alpha2", "JobSet"},
    {"kubeflow.org/mpijob", "kubeflow.org/v2beta1", "MPIJob"},
    {"kubeflow.org/pytorchjob", "kubeflow.org/v1", "PyTorchJob"},
    {"kubeflow.org/tfjob", "kubeflow.org/v1", "TFJob"},
    {"kubeflow.org/xgboostjob", "kubeflow.org/v1", "XGBoostJob"},
    {"kubeflow.org/paddlejob", "kubeflow.org/v1", "PaddleJob"},
    {"kubeflow.org/jaxjob", "kubeflow.org/v1", "JAXJob"},
    {"trainer.kubeflow.org/trainjob", "trainer.kubeflow.org/v1alpha1", "TrainJob"},
    {"ray.io/rayjob", "ray.io/v1", "RayJob"},
    {"ray.io/raycluster", "ray.io/v1", "RayCluster"},
    {"ray.io/rayservice", "ray.io/v1", "RayService"},
    {"workload.codeflare.dev/appwrapper", "workload.codeflare.dev/v1beta2", "AppWrapper"},
    {"sparkoperator.k8s.io/sparkapplication", "sparkoperator.k8s.io/v1beta2", "SparkApplication"},
    {"", "apps/v1", "ReplicaSet"},
};

const KnownKind* FindKnown(const api::OwnerReference& owner) {
  for (const KnownKind& known : kKnownKinds) {
    if (known.kind == owner.kind && known.api_version == owner.api_version) return &known;
  }
  return nullptr;
}

// "Kind.version.group" of the configuration against apiVersion and kind.
bool IsExternal(const View& view, const api::OwnerReference& owner) {
  const size_t slash = owner.api_version.find('/');
  if (slash == std::string::npos) return false;
  const std::string wanted =
      fmt::format("{}.{}.{}", owner.kind, owner.api_version.substr(slash + 1),
                  owner.api_version.substr(0, slash));
  for (const std::string& framework : view.settings->integrations.external_frameworks) {
    if (framework == wanted) return true;
  }
  return false;
}

bool IsManagedKind(const View& view, const api::OwnerReference& owner) {
  const KnownKind* known = FindKnown(owner);
  if (known != nullptr && !known->framework.empty() &&
      view.settings->integrations.Enabled(known->framework)) {
    return true;
  }
  return IsExternal(view, owner);
}

std::string Describe(const api::OwnerReference& owner, const std::string& ns) {
  return fmt::format("{} {}/{}", owner.kind, ns, owner.name);
}

OwnerLookup::Answer LookUp(const View& view, const api::OwnerReference& owner,
                           const std::string& ns) {
  if (view.owners == nullptr) return {};
  return view.owners->Find(owner.api_version, owner.kind, {ns, owner.name});
}

}  // namespace

bool OwnerKindIsManaged(const View& view, const api::ObjectMeta& metadata) {
  const api::OwnerReference* owner = metadata.Controller();
  return owner != nullptr && IsManagedKind(view, *owner);
}

absl::StatusOr<bool> HasManagedAncestor(const View& view, const api::ObjectMeta& metadata,
                                        const std::string& ns) {
  bool found = false;
  std::set<std::string> seen = {metadata.uid};
  std::optional<api::OwnerReference> next;
  if (const api::OwnerReference* controller = metadata.Controller()) next = *controller;
  for (int owners = 0; next; ++owners) {
    if (FindKnown(*next) == nullptr && !IsExternal(view, *next)) break;
    const OwnerLookup::Answer answer = LookUp(view, *next, ns);
    if (answer.kind == OwnerLookup::Answer::Kind::kNotWatched) break;
    if (answer.kind == OwnerLookup::Answer::Kind::kMissing) {
      return NotFound("workload owner not found: {}", Describe(*next, ns));
    }
    if (owners >= kMaxOwners) {
      return Errorf(absl::StatusCode::kFailedPrecondition,
                    "{}: the chain of owners is longer than {}", Describe(*next, ns), kMaxOwners);
    }
    if (answer.owner.uid != next->uid) break;
    if (!seen.insert(answer.owner.uid).second) {
      return Errorf(absl::StatusCode::kFailedPrecondition, "{}: cyclic ownership",
                    Describe(*next, ns));
    }
    if (IsManagedKind(view, *next) &&
        (view.settings->manage_jobs_without_queue_name || !answer.owner.queue_name.empty())) {
      found = true;
    }
    next = answer.owner.controller;
  }
  return found;
}

}  // namespace sluice::webhook
