#include "api/template_pool.h"

#include <algorithm>

namespace sluice::api {

void TemplatePool::Share(PodTemplate& pod_template) {
  if (pod_template.raw == nullptr) return;
  const auto found = entries_.find(*pod_template.raw);
  if (found != entries_.end()) {
    pod_template.raw = found->raw;
    pod_template.spec = found->spec;
    return;
  }
  if (entries_.size() >= sweep_at_) Sweep();
  entries_.insert({pod_template.raw, pod_template.spec});
}

void TemplatePool::Share(Workload& workload) {
  for (PodSet& pod_set : workload.spec.pod_sets) Share(pod_set.pod_template);
}

// The next sweep comes when as many entries were added as are left now, or more.
void TemplatePool::Sweep() {
  absl::erase_if(entries_, [](const Entry& entry) { return entry.raw.use_count() == 1; });
  sweep_at_ = std::max<size_t>(64, 2 * entries_.size());
}

}  // namespace sluice::api
