// The two entry points, and their instances for Kubernetes' own kinds.
#include "api/codec.h"

#include "api/codec_impl.h"
#include "api/core_fields.h"

namespace sluice::api {

SLUICE_CODEC(OwnerReference);
SLUICE_CODEC(ObjectMeta);
SLUICE_CODEC(Condition);
SLUICE_CODEC(LabelSelectorRequirement);
SLUICE_CODEC(LabelSelector);
SLUICE_CODEC(ResourceRequirements);
SLUICE_CODEC(Container);
SLUICE_CODEC(Toleration);
SLUICE_CODEC(Taint);
SLUICE_CODEC(NodeSelectorRequirement);
SLUICE_CODEC(NodeSelectorTerm);
SLUICE_CODEC(PreferredSchedulingTerm);
SLUICE_CODEC(NodeAffinity);
SLUICE_CODEC(PodResourceClaim);
SLUICE_CODEC(PodSpec);
SLUICE_CODEC(PodTemplate);
SLUICE_CODEC(SchedulingPolicy);
SLUICE_CODEC(JobScheduling);
SLUICE_CODEC(JobSpec);
SLUICE_CODEC(JobStatus);
SLUICE_CODEC(Job);
SLUICE_CODEC(Namespace);
SLUICE_CODEC(LimitRangeItem);
SLUICE_CODEC(LimitRange);
SLUICE_CODEC(PriorityClass);
SLUICE_CODEC(RuntimeClass);
SLUICE_CODEC(Pod);
SLUICE_CODEC(Node);
SLUICE_CODEC(Secret);
SLUICE_CODEC(LeaseSpec);
SLUICE_CODEC(Lease);
SLUICE_CODEC(ObjectReference);
SLUICE_CODEC(EventSeries);
SLUICE_CODEC(Event);
SLUICE_CODEC(PodGroup);
SLUICE_CODEC(GroupVersionKind);
SLUICE_CODEC(UserInfo);
SLUICE_REVIEW_CODEC(AdmissionRequest);
SLUICE_REVIEW_CODEC(ConversionRequest);

SLUICE_CODEC(ResourceList);
SLUICE_CODEC(StringMap);
SLUICE_CODEC(Conditions);
SLUICE_CODEC(std::vector<OwnerReference>);
SLUICE_CODEC(std::vector<Toleration>);
SLUICE_CODEC(std::vector<Taint>);
SLUICE_CODEC(std::vector<Container>);

}  // namespace sluice::api
