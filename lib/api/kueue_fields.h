// Descriptions of the kinds of kueue.x-k8s.io/v1beta2.
//
// Declarations of the descriptions (see fields.h); the text of each is in the .cc file of that
// name.
#pragma once

#include "api/core_fields.h"
#include "api/fields.h"
#include "api/kueue_types.h"

namespace sluice::api {

void Describe(Fields<ResourceQuota>& f);
void Describe(Fields<FlavorQuotas>& f);
void Describe(Fields<ResourceGroup>& f);
void Describe(Fields<FairSharing>& f);
void Describe(Fields<ResourceUsage>& f);
void Describe(Fields<FlavorUsage>& f);
void Describe(Fields<LocalQueueResourceUsage>& f);
void Describe(Fields<LocalQueueFlavorUsage>& f);
void Describe(Fields<AdmissionFairSharingStatus>& f);
void Describe(Fields<FairSharingStatus>& f);
void Describe(Fields<FlavorFungibility>& f);
void Describe(Fields<BorrowWithinCohort>& f);
void Describe(Fields<ClusterQueuePreemption>& f);
void Describe(Fields<AdmissionCheckStrategyRule>& f);
void Describe(Fields<AdmissionChecksStrategy>& f);
void Describe(Fields<AdmissionScope>& f);
void Describe(Fields<ConcurrentAdmissionConstraints>& f);
void Describe(Fields<ConcurrentAdmissionMigration>& f);
void Describe(Fields<ConcurrentAdmissionPolicy>& f);
void Describe(Fields<ClusterQueueSpec>& f);
void Describe(Fields<ClusterQueueStatus>& f);
void Describe(Fields<ClusterQueue>& f);
void Describe(Fields<LocalQueueSpec>& f);
void Describe(Fields<LocalQueueStatus>& f);
void Describe(Fields<LocalQueue>& f);
void Describe(Fields<CohortSpec>& f);
void Describe(Fields<CohortStatus>& f);
void Describe(Fields<Cohort>& f);
void Describe(Fields<ResourceFlavorSpec>& f);
void Describe(Fields<ResourceFlavor>& f);
void Describe(Fields<TopologyLevel>& f);
void Describe(Fields<TopologySpec>& f);
void Describe(Fields<Topology>& f);
void Describe(Fields<TopologySliceConstraint>& f);
void Describe(Fields<PodSetTopologyRequest>& f);
void Describe(Fields<PodSet>& f);
void Describe(Fields<PriorityClassRef>& f);
void Describe(Fields<WorkloadSpec>& f);
void Describe(Fields<TopologyLevelValues>& f);
void Describe(Fields<TopologyPodCounts>& f);
void Describe(Fields<TopologyAssignmentSlice>& f);
void Describe(Fields<TopologyAssignment>& f);
void Describe(Fields<PodSetAssignment>& f);
void Describe(Fields<Admission>& f);
void Describe(Fields<RequeueState>& f);
void Describe(Fields<ReclaimablePod>& f);
void Describe(Fields<PodSetUpdate>& f);
void Describe(Fields<AdmissionCheckState>& f);
void Describe(Fields<PodSetRequest>& f);
void Describe(Fields<EvictionStat>& f);
void Describe(Fields<SchedulingStats>& f);
void Describe(Fields<PreemptionGateState>& f);
void Describe(Fields<WorkloadStatus>& f);
void Describe(Fields<Workload>& f);
void Describe(Fields<WorkloadPriorityClass>& f);
void Describe(Fields<AdmissionCheckParametersReference>& f);
void Describe(Fields<AdmissionCheckSpec>& f);
void Describe(Fields<AdmissionCheck>& f);
void Describe(Fields<ProvisioningRequestRetryStrategy>& f);
void Describe(Fields<ProvisioningNodeSelectorUpdate>& f);
void Describe(Fields<ProvisioningRequestConfigSpec>& f);
void Describe(Fields<ProvisioningRequestConfig>& f);
void Describe(Fields<MultiKueueConfigSpec>& f);
void Describe(Fields<MultiKueueConfig>& f);
void Describe(Fields<KubeConfigSource>& f);
void Describe(Fields<ClusterSource>& f);
void Describe(Fields<MultiKueueClusterSpec>& f);
void Describe(Fields<MultiKueueCluster>& f);

}  // namespace sluice::api
