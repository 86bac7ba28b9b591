// Annotations about checkpoints, which are the same for jobs, pods and Workloads.
#include "preemption/checkpoint.h"
#include "webhook/rules.h"

namespace sluice::webhook {

void CheckCheckpointAnnotations(const Path& metadata, const api::StringMap& annotations,
                                const api::StringMap* old_annotations, FieldErrors* errors) {
  for (const std::string& name : preemption::CheckpointAnnotations()) {
    const auto found = annotations.find(name);
    if (found == annotations.end()) continue;
    // What is there already must not keep anything else from being changed.
    if (old_annotations != nullptr) {
      const auto before = old_annotations->find(name);
      if (before != old_annotations->end() && before->second == found->second) continue;
    }
    if (const auto problem = preemption::CheckpointProblem(name, found->second)) {
      errors->push_back(FieldError::Invalid(metadata.Child("annotations").Key(name.c_str()),
                                            found->second, *problem));
    }
  }
}

}  // namespace sluice::webhook
