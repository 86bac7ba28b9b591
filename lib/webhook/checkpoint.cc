// Annotations about checkpoints and run times, which are the same for jobs, pods and Workloads, and
// those of a ClusterQueue about backfill.
#include "preemption/checkpoint.h"
#include "queueing/backfill.h"
#include "webhook/rules.h"

namespace sluice::webhook {
namespace {

using Problem = std::optional<std::string> (*)(const std::string& annotation,
                                               const std::string& value);

void Check(const std::string& name, Problem problem_of, const Path& metadata,
           const api::StringMap& annotations, const api::StringMap* old_annotations,
           FieldErrors* errors) {
  const auto found = annotations.find(name);
  if (found == annotations.end()) return;
  // What is there already must not keep anything else from being changed.
  if (old_annotations != nullptr) {
    const auto before = old_annotations->find(name);
    if (before != old_annotations->end() && before->second == found->second) return;
  }
  if (const auto problem = problem_of(name, found->second)) {
    errors->push_back(FieldError::Invalid(metadata.Child("annotations").Key(name.c_str()),
                                          found->second, *problem));
  }
}

}  // namespace

void CheckCheckpointAnnotations(const Path& metadata, const api::StringMap& annotations,
                                const api::StringMap* old_annotations, FieldErrors* errors) {
  for (const std::string& name : preemption::CheckpointAnnotations()) {
    Check(name, preemption::CheckpointProblem, metadata, annotations, old_annotations, errors);
  }
  Check(queueing::kExpectedRuntime, queueing::BackfillProblem, metadata, annotations,
        old_annotations, errors);
}

void CheckBackfillAnnotations(const api::StringMap& annotations,
                              const api::StringMap* old_annotations, FieldErrors* errors) {
  for (const std::string& name : queueing::BackfillAnnotations()) {
    Check(name, queueing::BackfillProblem, Path("metadata"), annotations, old_annotations, errors);
  }
}

}  // namespace sluice::webhook
