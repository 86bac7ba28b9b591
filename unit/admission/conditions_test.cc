#include "admission/conditions.h"

#include "api/names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

using api::Condition;
using api::ConditionStatus;
using build::At;

const Condition& Get(const api::Workload& workload, const std::string& type) {
  const Condition* found = api::FindCondition(workload.status.conditions, type);
  REQUIRE(found != nullptr);
  return *found;
}
bool Has(const api::Workload& workload, const std::string& type) {
  return api::FindCondition(workload.status.conditions, type) != nullptr;
}
api::Admission Somewhere() {
  api::Admission admission;
  admission.cluster_queue = "cq";
  api::PodSetAssignment assignment;
  assignment.count = 1;
  assignment.flavors["cpu"] = "f";
  assignment.resource_usage["cpu"] = build::Q("1");
  admission.pod_set_assignments = {assignment};
  return admission;
}

TEST_CASE("reservation and admission in one write where no check waits") {
  api::Workload workload =
      build::Workload("w").Generation(3).Evicted("Preempted", At(1), "to make room");
  SetPreempted(workload, "InClusterQueue", "to make room", At(1));
  workload.status.resource_requests.emplace_back();
  REQUIRE(SetQuotaReservation(workload, Somewhere(), {}, At(5)));
  CHECK(Get(workload, api::kQuotaReserved).message == "Quota reserved in ClusterQueue cq");
  CHECK(Get(workload, api::kQuotaReserved).observed_generation == 3);
  CHECK(Get(workload, api::kAdmitted).status == ConditionStatus::kTrue);
  CHECK(Get(workload, api::kAdmitted).message == "The workload is admitted");
  CHECK(Get(workload, api::kEvicted).status == ConditionStatus::kFalse);
  CHECK(Get(workload, api::kEvicted).reason == "QuotaReserved");
  CHECK(Get(workload, api::kEvicted).message == "Previously: to make room");
  CHECK(Get(workload, api::kPreempted).status == ConditionStatus::kFalse);
  CHECK(Get(workload, api::kPreempted).observed_generation == 0);
  CHECK(workload.status.resource_requests.empty());
  // Once more changes nothing, and the times stay.
  CHECK_FALSE(SetQuotaReservation(workload, Somewhere(), {}, At(9)));
  CHECK(Get(workload, api::kQuotaReserved).last_transition_time == At(5));
}

TEST_CASE("checks that are missing or not ready keep it from being admitted") {
  api::Workload missing = build::Workload("w");
  SetQuotaReservation(missing, Somewhere(), {"prov"}, At(5));
  CHECK(Get(missing, api::kAdmitted).status == ConditionStatus::kFalse);
  CHECK(Get(missing, api::kAdmitted).reason == "UnsatisfiedAdmissionChecks");
  api::Workload waiting = build::Workload("w").Check("prov", "Pending");
  SetQuotaReservation(waiting, Somewhere(), {"prov"}, At(5));
  CHECK_FALSE(api::IsTrue(waiting.status.conditions, api::kAdmitted));
  waiting.status.admission_checks[0].state = "Ready";
  CHECK(SyncAdmitted(waiting, At(6)));
  CHECK(api::IsTrue(waiting.status.conditions, api::kAdmitted));
  CHECK_FALSE(SyncAdmitted(waiting, At(7)));
  api::Workload ready = build::Workload("w").Check("prov", "Ready");
  SetQuotaReservation(ready, Somewhere(), {"prov"}, At(5));
  CHECK(api::IsTrue(ready.status.conditions, api::kAdmitted));
  api::Workload legacy = build::Workload("w");
  SetQuotaReservation(legacy, Somewhere(), {"prov"}, At(5), {.granular_reasons = false});
  CHECK_FALSE(Has(legacy, api::kAdmitted));
}

TEST_CASE("pending shows what is asked for") {
  api::Workload workload = build::Workload("w").Request("cpu", "2").Reserved("cq", "f");
  const auto requests = queueing::TotalRequests(workload, {});
  CHECK(SetPending(workload, kWaitingForQuota, "1 more needed", &requests, At(5)));
  CHECK_FALSE(workload.status.admission.has_value());
  CHECK(workload.status.resource_requests.at(0).resources.at("cpu").ToString() == "2");
  CHECK(Get(workload, api::kAdmitted).reason == "NoReservation");
  CHECK_FALSE(SetPending(workload, kWaitingForQuota, "1 more needed", &requests, At(6)));
  CHECK(SetPending(workload, kWaitingForQuota, "2 more needed", &requests, At(7)));
  CHECK(Get(workload, api::kQuotaReserved).last_transition_time == At(5));
}

TEST_CASE("names of reasons in the older scheme") {
  const StatusOptions legacy{.granular_reasons = false};
  CHECK(PendingReason(kSuspended, true, {}) == "Suspended");
  CHECK(PendingReason(kSuspended, true, legacy) == "Pending");
  CHECK(PendingReason(kSuspended, false, legacy) == "Inadmissible");
  CHECK(PendingReason(kWaitingForPodsReady, true, legacy) == "Waiting");
  CHECK(PendingReason(kNoMatchingFlavor, true, legacy) == "Pending");
  CHECK(PendingReason(kOnHold, false, legacy) == "OnHold");
}

TEST_CASE("an eviction in two phases") {
  api::Workload workload = build::Workload("w")
                               .Request("cpu", "2")
                               .Admitted("cq", "f", At(0))
                               .Check("a", "Ready")
                               .Check("b", "Retry")
                               .Check("c", "Pending", "asking");
  workload.status.admission_checks[0].retry_count = 4;
  workload.status.admission_checks[0].requeue_after_seconds = 7;
  workload.status.admission_checks[0].pod_set_updates.emplace_back();
  workload.status.admission_checks[1].retry_count = 4;
  workload.status.nominated_cluster_names = {"x"};
  workload.status.unhealthy_nodes = {"n"};
  REQUIRE(SetEvicted(workload, kEvictedPreempted, "", "to make room", At(10)));
  CHECK(workload.status.admission.has_value());
  CHECK(api::IsTrue(workload.status.conditions, api::kAdmitted));
  CHECK(workload.status.nominated_cluster_names.empty());
  CHECK(workload.status.unhealthy_nodes.empty());
  const auto& checks = workload.status.admission_checks;
  CHECK(checks[0].state == "Pending");
  CHECK(checks[0].message == "Reset to Pending after eviction. Previously: Ready");
  CHECK_FALSE(checks[0].retry_count.has_value());
  CHECK(checks[0].requeue_after_seconds == 7);
  CHECK(checks[0].pod_set_updates.empty());
  CHECK(checks[1].retry_count == 5);
  CHECK(checks[2].message == "asking");
  CHECK(workload.status.scheduling_stats->evictions.at(0).count == 1);
  CHECK_FALSE(SetEvicted(workload, kEvictedPreempted, "", "to make room", At(11)));
  CHECK(workload.status.scheduling_stats->evictions.at(0).count == 1);

  REQUIRE(ReleaseQuota(workload, At(70)));
  CHECK_FALSE(workload.status.admission.has_value());
  CHECK(Get(workload, api::kQuotaReserved).reason == kPendingEvaluation);
  CHECK(Get(workload, api::kQuotaReserved).message == "to make room");
  CHECK(Get(workload, api::kRequeued).status == ConditionStatus::kTrue);
  CHECK(Get(workload, api::kRequeued).reason == "Preempted");
  CHECK(Get(workload, api::kAdmitted).reason == "NoReservation");
  CHECK(workload.status.accumulated_past_execution_time_seconds == 70);
  CHECK(api::IsTrue(workload.status.conditions, api::kEvicted));
  CHECK_FALSE(ReleaseQuota(workload, At(71)));
}

TEST_CASE("only some evictions go straight back to the queue") {
  const auto requeued = [](const std::string& reason, bool never) {
    api::Workload workload = build::Workload("w").Admitted("cq", "f");
    SetEvicted(workload, reason, "", "m", At(1));
    ReleaseQuota(workload, At(2), {}, never);
    return api::IsTrue(workload.status.conditions, api::kRequeued);
  };
  CHECK(requeued(kEvictedPreempted, false));
  CHECK(requeued(kEvictedNodeFailures, false));
  CHECK_FALSE(requeued(kEvictedPreempted, true));
  CHECK_FALSE(requeued(kEvictedPodsReadyTimeout, false));
  CHECK_FALSE(requeued(kEvictedClusterQueueStopped, false));
}

TEST_CASE("deactivation says its cause in the condition and apart in the statistics") {
  api::Workload workload =
      build::Workload("w").Admitted("cq", "f").RequeueAt(At(500), 3).Active(false);
  CHECK(DeactivationMessage(workload) == "The workload is deactivated");
  SetDeactivationTarget(workload, kCauseMaximumExecutionTimeExceeded,
                        kMaximumExecutionTimeExceededMessage, At(1));
  const std::string message = DeactivationMessage(workload);
  CHECK(message == "The workload is deactivated due to exceeding the maximum execution time");
  REQUIRE(SetEvicted(workload, kDeactivated, kCauseMaximumExecutionTimeExceeded, message, At(2)));
  CHECK(Get(workload, api::kEvicted).reason == "DeactivatedDueToMaximumExecutionTimeExceeded");
  CHECK_FALSE(Has(workload, api::kDeactivationTarget));
  CHECK_FALSE(workload.status.requeue_state.has_value());
  const api::EvictionStat& stat = workload.status.scheduling_stats->evictions.at(0);
  CHECK(stat.reason == "Deactivated");
  CHECK(stat.underlying_cause == "MaximumExecutionTimeExceeded");
  CHECK(EvictedReason(kEvictedPodsReadyTimeout, "WaitForStart") == "PodsReadyTimeout");
}

TEST_CASE("finished is final") {
  api::Workload workload = build::Workload("w");
  CHECK(SetFinished(workload, "Succeeded", "done", At(1)));
  CHECK_FALSE(SetFinished(workload, "Failed", "no", At(2)));
  CHECK(Get(workload, api::kFinished).reason == "Succeeded");
}

TEST_CASE("a workload without conditions gets none for nothing") {
  api::Workload workload = build::Workload("w");
  CHECK_FALSE(SyncAdmitted(workload, At(1)));
  CHECK(SyncAdmitted(workload, At(1), {.granular_reasons = true, .explicit_status = true}));
  CHECK(Get(workload, api::kAdmitted).reason == "NoReservation");
}

TEST_CASE("which checks a workload needs") {
  const api::ClusterQueue queue = build::ClusterQueue("cq")
                                      .Flavor("f", {{"cpu", "1"}})
                                      .Flavor("g", {{"cpu", "1"}})
                                      .Check("everywhere")
                                      .Check("both", {"f", "g"})
                                      .Check("only-g", {"g"});
  CHECK(RequiredChecks(queue, nullptr) == std::vector<std::string>{"both", "everywhere"});
  const api::Admission admission = Somewhere();
  CHECK(RequiredChecks(queue, &admission) == std::vector<std::string>{"both", "everywhere"});
  api::Admission other = Somewhere();
  other.pod_set_assignments[0].flavors["cpu"] = "g";
  CHECK(RequiredChecks(queue, &other) == std::vector<std::string>{"both", "everywhere", "only-g"});
  api::Workload workload = build::Workload("w").Check("old", "Ready").Check("both", "Ready");
  CHECK(SyncAdmissionChecks(workload, {"both", "everywhere"}, At(1)));
  REQUIRE(workload.status.admission_checks.size() == 2);
  CHECK(workload.status.admission_checks[0].state == "Ready");
  CHECK(workload.status.admission_checks[1].state == "Pending");
  CHECK_FALSE(SyncAdmissionChecks(workload, {"both", "everywhere"}, At(2)));
}

TEST_CASE("the applied patch has everything its manager owns and nothing else") {
  api::Workload workload = build::Workload("w")
                               .Request("cpu", "2")
                               .Admitted("cq", "f", At(0))
                               .Check("a", "Ready")
                               .Reclaimable("main", 1)
                               .ResourceVersion("12");
  workload.status.conditions.push_back(Get(workload, api::kAdmitted));
  workload.status.conditions.back().type = api::kWaitingForReplacementPods;
  workload.status.requeue_state.emplace();
  const api::Json patch = AdmissionPatch(workload);
  CHECK(patch.GetString("apiVersion") == "kueue.x-k8s.io/v1beta2");
  CHECK(patch.GetString("metadata", "uid") == "uid-w");
  CHECK_FALSE(patch.Find("metadata")->Has("resourceVersion"));
  CHECK(AdmissionPatch(workload, true).GetString("metadata", "resourceVersion") == "12");
  const api::Json& status = *patch.Find("status");
  CHECK(status.GetString("admission", "clusterQueue") == "cq");
  REQUIRE(status.Has("resourceRequests"));
  CHECK(status.Find("resourceRequests")->AsArray().empty());
  CHECK(status.Find("conditions")->AsArray().size() == 2);
  CHECK(status.Find("admissionChecks")->AsArray().size() == 1);
  CHECK_FALSE(status.Has("reclaimablePods"));
  CHECK_FALSE(status.Has("requeueState"));
  SetPending(workload, kWaitingForQuota, "m", nullptr, At(1));
  CHECK_FALSE(AdmissionPatch(workload).Find("status")->Has("admission"));
}

}  // namespace
}  // namespace sluice::admission
