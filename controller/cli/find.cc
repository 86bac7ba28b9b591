#include "cli/find.h"

#include "api/pod_names.h"
#include "base/status.h"
#include "kube/client.h"

namespace sluice::cli {

namespace {

struct Words {
  std::string kind;  // "" when none was said
  std::string name;
};

Words WordsOf(const std::vector<std::string>& what) {
  Words words{what.size() > 1 ? what[0] : "", what.back()};
  if (const size_t slash = words.name.find('/'); slash != std::string::npos && words.kind.empty()) {
    words.kind = words.name.substr(0, slash);
    words.name = words.name.substr(slash + 1);
  }
  if (words.kind == "jobs" || words.kind == "job.batch") words.kind = "job";
  if (words.kind == "workloads" || words.kind == "wl") words.kind = "workload";
  if (words.kind == "pods" || words.kind == "po") words.kind = "pod";
  return words;
}

// The group that a pod is in, "" when it is in none or cannot be read.
std::string GroupOf(Scene& scene, const std::string& pod) {
  if (scene.connection == nullptr) return "";
  const auto object =
      scene.connection->Ask(fmt::format("/api/v1/namespaces/{}/pods/{}", scene.ns, pod));
  return object.ok() ? object->GetString("metadata", "labels", api::kPodGroupName) : "";
}

}  // namespace

absl::StatusOr<ObjectKey> FindWorkload(const Scene& scene, const std::vector<std::string>& what) {
  const state::World& world = *scene.world;
  const Words words = WordsOf(what);
  if (words.kind == "job" || words.kind == "pod") {
    const char* kind = words.kind == "job" ? "Job" : "Pod";
    const std::vector<ObjectKey> owned = world.WorkloadsOwnedBy(scene.ns, kind, words.name);
    if (owned.empty()) return NotFound("{} {}/{} has no Workload", kind, scene.ns, words.name);
    return owned.back();
  }
  if (!words.kind.empty() && words.kind != "workload" && words.kind != "podgroup") {
    return InvalidArgument("{}: only workloads, jobs, pods and podgroups can be asked about",
                           words.kind);
  }
  const ObjectKey key{scene.ns, words.name};
  if (world.workloads().Contains(key)) return key;
  return NotFound("Workload {} does not exist in {}", key.ToString(), scene.objects.source);
}

std::string IncompleteGroup(Scene& scene, const std::vector<std::string>& what) {
  const Words words = WordsOf(what);
  if (scene.connection == nullptr || (words.kind != "pod" && words.kind != "podgroup")) return "";
  const std::string group = words.kind == "pod" ? GroupOf(scene, words.name) : words.name;
  if (group.empty()) return "";
  kube::ListOptions list;
  list.ns = scene.ns;
  list.label_selector = fmt::format("{}={}", api::kPodGroupName, group);
  const auto pods = scene.connection->client().List(api::Kind::kPod, list);
  if (!pods.ok() || pods->empty()) return "";
  const std::string total =
      pods->front().GetString("metadata", "annotations", api::kPodGroupTotalCount);
  return fmt::format("{} of {} pods of group {} are created", pods->size(),
                     total.empty() ? "an unknown number of" : total, group);
}

}  // namespace sluice::cli
