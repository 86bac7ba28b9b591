// Descriptions of metadata and of the parts of Kubernetes' own kinds that we read or write.
//
// Declarations of the descriptions (see fields.h); the text of each is in the .cc file of that
// name.
#pragma once

#include "api/core_types.h"
#include "api/fields.h"

namespace sluice::api {

void Describe(Fields<OwnerReference>& f);
void Describe(Fields<ObjectMeta>& f);
void Describe(Fields<Condition>& f);
void Describe(Fields<LabelSelectorRequirement>& f);
void Describe(Fields<LabelSelector>& f);
void Describe(Fields<ResourceRequirements>& f);
void Describe(Fields<Container>& f);
void Describe(Fields<Toleration>& f);
void Describe(Fields<Taint>& f);
void Describe(Fields<NodeSelectorRequirement>& f);
void Describe(Fields<NodeSelectorTerm>& f);
void Describe(Fields<PreferredSchedulingTerm>& f);
void Describe(Fields<NodeAffinity>& f);
void Describe(Fields<PodResourceClaim>& f);
void Describe(Fields<PodSpec>& f);
void Describe(Fields<PodTemplate>& f);
void Describe(Fields<Marker>& f);
void Describe(Fields<GangPolicy>& f);
void Describe(Fields<SchedulingPolicy>& f);
void Describe(Fields<DisruptionMode>& f);
void Describe(Fields<TopologyConstraint>& f);
void Describe(Fields<PodGroup>& f);
void Describe(Fields<JobScheduling>& f);
void Describe(Fields<JobSpec>& f);
void Describe(Fields<JobStatus>& f);
void Describe(Fields<Job>& f);
void Describe(Fields<Namespace>& f);
void Describe(Fields<LimitRangeItem>& f);
void Describe(Fields<LimitRange>& f);
void Describe(Fields<PriorityClass>& f);
void Describe(Fields<RuntimeClass>& f);
void Describe(Fields<Pod>& f);
void Describe(Fields<Node>& f);
void Describe(Fields<Secret>& f);
void Describe(Fields<LeaseSpec>& f);
void Describe(Fields<Lease>& f);
void Describe(Fields<ObjectReference>& f);
void Describe(Fields<EventSeries>& f);
void Describe(Fields<Event>& f);
void Describe(Fields<GroupVersionKind>& f);
void Describe(Fields<UserInfo>& f);
void Describe(Fields<AdmissionRequest>& f);
void Describe(Fields<ConversionRequest>& f);

}  // namespace sluice::api
