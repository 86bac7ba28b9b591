// Checkpoints of a job: what its owner says goes to its Workload, and a request goes to the job.
//
// The job, its pod template and its pods may carry the annotations (preemption/checkpoint.h). A
// value of the job goes before one of the template; of times of checkpoints the newest counts. They
// are copied to the Workload as long as it lives. What was copied is noted there in the annotation
// kCopiedAnnotations, so that a value goes when it goes from the job, while one that somebody wrote
// on the Workload itself stays. Nothing is remembered here, so a crash between any two writes
// changes nothing.
//
// Contract: pure. Values that cannot be read, and times in the future, are left out and named: in
// the annotation kIgnoredAnnotations of the Workload, and in an event once that says something new.
#pragma once

#include <absl/time/time.h>

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kueue_types.h"
#include "reconcile/plan.h"

namespace sluice::reconcile {

// On a Workload: names of the annotations that come from the job, separated by commas.
inline constexpr char kCopiedAnnotations[] = "sluice.dev/copied-annotations";

// On a Workload: what of the job's annotations is ignored and why, a sentence each, separated by
// semicolons.
inline constexpr char kIgnoredAnnotations[] = "sluice.dev/ignored-annotations";

// Reasons of the events about them.
inline constexpr char kInvalidCheckpoint[] = "InvalidCheckpoint";
inline constexpr char kInvalidExpectedRuntime[] = "InvalidExpectedRuntime";

struct IgnoredAnnotation {
  const char* reason = kInvalidCheckpoint;
  std::string text;
  bool operator==(const IgnoredAnnotation&) const = default;
};

struct DeclaredCheckpoints {
  api::StringMap annotations;               // those that can be read
  std::vector<IgnoredAnnotation> problems;  // one for each of the others
  // When a time of a checkpoint that is in the future now will not be any more.
  absl::Time look_again = absl::InfiniteFuture();

  // `place` names where the annotations are ("annotation", "pod template: annotation", ...).
  // What was declared before stays, but for times of checkpoints.
  void Add(const api::StringMap& from, const std::string& place, absl::Time now);
};

// The merge patch that makes the Workload say so too; nullopt when it does.
std::optional<api::Json> CheckpointPatch(const api::Workload& workload,
                                         const DeclaredCheckpoints& declared);
// The same as a write of the plan; nullptr when there is none to do.
Write* PlanCheckpoints(const api::Workload& workload, const DeclaredCheckpoints& declared,
                       Plan& plan);
// Those of the problems that the Workload does not tell of yet.
std::vector<IgnoredAnnotation> NewProblems(const api::Workload& workload,
                                           const DeclaredCheckpoints& declared);
// The same for a Workload that is to be created.
void SetCheckpoints(api::Json& body, const DeclaredCheckpoints& declared);

// What the annotation kCheckpointRequestedAt of the job and its pods has to be; "" for none.
std::string CheckpointRequestTime(const api::Workload& workload);
// The patch (without UID) that makes it so; nullopt when it is.
std::optional<api::Json> CheckpointRequestPatch(const api::StringMap& annotations,
                                                const std::string& wanted);

}  // namespace sluice::reconcile
