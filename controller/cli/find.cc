#include "cli/find.h"

#include "base/status.h"

namespace sluice::cli {

absl::StatusOr<ObjectKey> FindWorkload(const Scene& scene, const std::vector<std::string>& what) {
  const state::World& world = *scene.world;
  std::string kind = what.size() > 1 ? what[0] : "";
  std::string name = what.back();
  if (const size_t slash = name.find('/'); slash != std::string::npos && kind.empty()) {
    kind = name.substr(0, slash);
    name = name.substr(slash + 1);
  }
  if (kind == "job" || kind == "jobs" || kind == "job.batch") {
    const std::vector<ObjectKey> owned = world.WorkloadsOwnedBy(scene.ns, "Job", name);
    if (owned.empty()) return NotFound("Job {}/{} has no Workload", scene.ns, name);
    return owned.back();
  }
  if (!kind.empty() && kind != "workload" && kind != "workloads" && kind != "wl") {
    return InvalidArgument("{}: only workloads and jobs can be asked about", kind);
  }
  const ObjectKey key{scene.ns, name};
  if (world.workloads().Contains(key)) return key;
  return NotFound("Workload {} does not exist in {}", key.ToString(), scene.objects.source);
}

}  // namespace sluice::cli
