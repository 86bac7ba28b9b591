// The rules of each kind: what a webhook sets by default and what it refuses.
//
// Contract: pure functions of the request and the View. Defaulting returns JSON patch operations
// that may be applied to the object as it came; they are idempotent. Validation returns field
// errors. Both return an error Status only when the object cannot be read at all (InvalidArgument)
// or when the request must be refused for another reason than one of its fields.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "api/core_types.h"
#include "api/json.h"
#include "api/kueue_types.h"
#include "webhook/field_error.h"
#include "webhook/view.h"

namespace sluice::webhook {

// One admission request, by reference to the review it stands in.
struct Request {
  std::string uid;
  std::string operation;  // CREATE, UPDATE, DELETE, CONNECT
  std::string ns;
  std::string sub_resource;
  const api::Json* object = nullptr;             // never null for CREATE and UPDATE
  const api::Json* old_object = nullptr;         // never null for UPDATE
  std::vector<std::string>* warnings = nullptr;  // for the user, beside the answer; never null
};

// Operations of RFC 6902.
using PatchOps = api::Json::Array;
api::Json AddOp(const std::string& pointer, api::Json value);
api::Json RemoveOp(const std::string& pointer);
// A member name as a JSON pointer spells it.
std::string PointerPart(std::string_view name);
// Puts a finalizer at the end of the list, unless it is there.
void AddFinalizer(const api::Json& object, const std::string& finalizer, PatchOps* ops);

absl::StatusOr<PatchOps> DefaultClusterQueue(const Request& request, const View& view);
absl::StatusOr<PatchOps> DefaultResourceFlavor(const Request& request, const View& view);
absl::StatusOr<PatchOps> DefaultWorkload(const Request& request, const View& view);
absl::StatusOr<PatchOps> DefaultJob(const Request& request, const View& view);

absl::StatusOr<FieldErrors> ValidateClusterQueue(const Request& request, const View& view);
absl::StatusOr<FieldErrors> ValidateCohort(const Request& request, const View& view);
absl::StatusOr<FieldErrors> ValidateResourceFlavor(const Request& request, const View& view);
absl::StatusOr<FieldErrors> ValidateWorkload(const Request& request, const View& view);
absl::StatusOr<FieldErrors> ValidateJob(const Request& request, const View& view);

// ---- shared by ClusterQueue and Cohort ----

struct ResourceGroupRules {
  bool has_parent = false;           // belongs to a cohort: limits are allowed
  bool lending_within_quota = true;  // lendingLimit must not exceed nominalQuota
};
void CheckResourceGroups(const std::vector<api::ResourceGroup>& groups,
                         const ResourceGroupRules& rules, FieldErrors* errors);
void CheckFairSharing(const std::optional<api::FairSharing>& fair_sharing, FieldErrors* errors);

// ---- parts of the Workload's validation, in files of their own ----

// What the checks of a Workload share. Nothing here outlives the request.
struct WorkloadContext {
  const View& view;
  const api::Workload& workload;
  const api::Workload* old_workload;  // nullptr at creation
  bool elastic = false;               // the annotation is set and the gate is on
};
void CheckWorkloadSpec(const WorkloadContext& context, FieldErrors* errors);
void CheckWorkloadStatus(const WorkloadContext& context, FieldErrors* errors);
// `object` and `old_object` are the same two in JSON form.
void CheckWorkloadUpdate(const WorkloadContext& context, const api::Json& object,
                         const api::Json& old_object, FieldErrors* errors);

// Whether two pod templates mean the same: quantities by value, absent and empty alike where the
// API makes no difference.
bool SamePodTemplate(const api::Json& a, const api::Json& b);

// ---- native gangs of batch Jobs (job_gang.cc) ----

// Makes a new Job that will be managed a gang of kube-scheduler, when it or the configuration asks
// for it and nothing in the Job says otherwise: through the Job controller where that can do it,
// else by a PodGroup of our own. The annotation sluice.dev/gang-mode tells which, so that a field
// which the API server drops is noticed.
void AddNativeGang(const Request& request, const View& view, const api::Job& job, PatchOps* ops);
// The annotations about gangs of a Job or pod. `no_shrink`: why it cannot do with fewer pods than
// all, "" when it can.
void CheckGangAnnotations(const api::ObjectMeta& metadata, const std::string& no_shrink,
                          FieldErrors* errors);
// The annotations about gangs; with `warnings` also what a new Job will not get.
void CheckGang(const Request& request, const View& view, const api::Job& job,
               const api::Job* old_job, FieldErrors* errors);

// ---- parts of the validation of jobs, common to all job kinds ----

// What every kind of job has, for the common rules.
struct JobFacts {
  const api::ObjectMeta& metadata;
  bool suspended = false;
  bool prebuilt_supported = true;  // the kind can use a Workload that exists already
  bool elastic_supported = false;  // the kind can be resized while it runs
};
// The annotation kueue.x-k8s.io/elastic-job is "true" and its gate is on.
bool IsElasticJob(const View& view, const api::ObjectMeta& metadata);
void CheckJobCreate(const View& view, const JobFacts& job, FieldErrors* errors);
// Rules that compare; those of creation are not run again.
void CheckJobUpdate(const View& view, const JobFacts& job, const JobFacts& old_job,
                    const std::string& ns, FieldErrors* errors);

// The labels that a job receives at creation: the default queue and the default priority class.
// NotFound when the decision needs a namespace that is not known.
absl::StatusOr<api::StringMap> DefaultJobLabels(const View& view, const api::ObjectMeta& metadata,
                                                const std::string& ns);
// Whether a new job has to wait; `metadata` is that of the request, `queue_name` what holds after
// defaulting.
absl::StatusOr<bool> MustSuspend(const View& view, const api::ObjectMeta& metadata,
                                 const std::string& ns, const std::string& queue_name);

// Topology annotations of one pod template with `count` pods (KEP-2724). `path` is that of the
// template's metadata.
void CheckTopologyAnnotations(const View& view, const Path& path, const api::StringMap& annotations,
                              int64_t count, FieldErrors* errors);

// The annotations sluice.dev/... that tell of checkpoints and of how long a job runs: values that
// cannot be read are refused, unless they were there before (`old_annotations`; nullptr at
// creation).
void CheckCheckpointAnnotations(const Path& metadata, const api::StringMap& annotations,
                                const api::StringMap* old_annotations, FieldErrors* errors);
// The same for those of a ClusterQueue about backfill.
void CheckBackfillAnnotations(const api::StringMap& annotations,
                              const api::StringMap* old_annotations, FieldErrors* errors);

// The owner of a job that is itself managed and so decides in the job's place.
// OK and true: there is one. NotFound: an owner on the way does not exist. Other errors: the chain
// of owners makes no sense.
absl::StatusOr<bool> HasManagedAncestor(const View& view, const api::ObjectMeta& metadata,
                                        const std::string& ns);
// Whether the object's direct controller is of a kind that is managed here or by another
// controller.
bool OwnerKindIsManaged(const View& view, const api::ObjectMeta& metadata);

}  // namespace sluice::webhook
