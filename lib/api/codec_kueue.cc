// Decoding and encoding of the kinds of kueue.x-k8s.io.
#include "api/codec.h"
#include "api/codec_impl.h"
#include "api/kueue_fields.h"

namespace sluice::api {

SLUICE_CODEC(ResourceQuota);
SLUICE_CODEC(FlavorQuotas);
SLUICE_CODEC(ResourceGroup);
SLUICE_CODEC(FairSharing);
SLUICE_CODEC(ResourceUsage);
SLUICE_CODEC(FlavorUsage);
SLUICE_CODEC(LocalQueueResourceUsage);
SLUICE_CODEC(LocalQueueFlavorUsage);
SLUICE_CODEC(AdmissionFairSharingStatus);
SLUICE_CODEC(FairSharingStatus);
SLUICE_CODEC(FlavorFungibility);
SLUICE_CODEC(BorrowWithinCohort);
SLUICE_CODEC(ClusterQueuePreemption);
SLUICE_CODEC(AdmissionCheckStrategyRule);
SLUICE_CODEC(AdmissionChecksStrategy);
SLUICE_CODEC(AdmissionScope);
SLUICE_CODEC(ConcurrentAdmissionConstraints);
SLUICE_CODEC(ConcurrentAdmissionMigration);
SLUICE_CODEC(ConcurrentAdmissionPolicy);
SLUICE_CODEC(ClusterQueueSpec);
SLUICE_CODEC(ClusterQueueStatus);
SLUICE_CODEC(ClusterQueue);
SLUICE_CODEC(LocalQueueSpec);
SLUICE_CODEC(LocalQueueStatus);
SLUICE_CODEC(LocalQueue);
SLUICE_CODEC(CohortSpec);
SLUICE_CODEC(CohortStatus);
SLUICE_CODEC(Cohort);
SLUICE_CODEC(ResourceFlavorSpec);
SLUICE_CODEC(ResourceFlavor);
SLUICE_CODEC(TopologyLevel);
SLUICE_CODEC(TopologySpec);
SLUICE_CODEC(Topology);
SLUICE_CODEC(TopologySliceConstraint);
SLUICE_CODEC(PodSetTopologyRequest);
SLUICE_CODEC(PodSet);
SLUICE_CODEC(PriorityClassRef);
SLUICE_CODEC(WorkloadSpec);
SLUICE_CODEC(TopologyLevelValues);
SLUICE_CODEC(TopologyPodCounts);
SLUICE_CODEC(TopologyAssignmentSlice);
SLUICE_CODEC(TopologyAssignment);
SLUICE_CODEC(PodSetAssignment);
SLUICE_CODEC(Admission);
SLUICE_CODEC(RequeueState);
SLUICE_CODEC(ReclaimablePod);
SLUICE_CODEC(PodSetUpdate);
SLUICE_CODEC(AdmissionCheckState);
SLUICE_CODEC(PodSetRequest);
SLUICE_CODEC(EvictionStat);
SLUICE_CODEC(SchedulingStats);
SLUICE_CODEC(PreemptionGateState);
SLUICE_CODEC(WorkloadStatus);
SLUICE_CODEC(Workload);
SLUICE_CODEC(WorkloadPriorityClass);
SLUICE_CODEC(AdmissionCheckParametersReference);
SLUICE_CODEC(AdmissionCheckSpec);
SLUICE_CODEC(AdmissionCheck);
SLUICE_CODEC(ProvisioningRequestRetryStrategy);
SLUICE_CODEC(ProvisioningNodeSelectorUpdate);
SLUICE_CODEC(ProvisioningRequestConfigSpec);
SLUICE_CODEC(ProvisioningRequestConfig);
SLUICE_CODEC(MultiKueueConfigSpec);
SLUICE_CODEC(MultiKueueConfig);
SLUICE_CODEC(KubeConfigSource);
SLUICE_CODEC(ClusterSource);
SLUICE_CODEC(MultiKueueClusterSpec);
SLUICE_CODEC(MultiKueueCluster);
SLUICE_CODEC(std::vector<ResourceGroup>);
SLUICE_CODEC(std::vector<FlavorUsage>);
SLUICE_CODEC(std::vector<LocalQueueFlavorUsage>);
SLUICE_CODEC(std::vector<PodSet>);
SLUICE_CODEC(std::vector<PodSetAssignment>);
SLUICE_CODEC(std::vector<ReclaimablePod>);
SLUICE_CODEC(std::vector<AdmissionCheckState>);
SLUICE_CODEC(std::vector<PodSetRequest>);
SLUICE_CODEC(std::vector<PodSetUpdate>);
SLUICE_CODEC(std::vector<PreemptionGateState>);

}  // namespace sluice::api
