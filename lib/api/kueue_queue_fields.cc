// Descriptions of the queues: ClusterQueue, LocalQueue, Cohort and their parts.
#include "api/kueue_fields.h"
#include "api/rules.h"

namespace sluice::api {

// ---- shared ----

void Describe(Fields<ResourceQuota>& f) {
  f.Field("name", &ResourceQuota::name).Required();
  f.Field("nominalQuota", &ResourceQuota::nominal_quota)
      .Required()
      .Doc("Amount that is guaranteed to this queue, and that it may lend.");
  f.Field("borrowingLimit", &ResourceQuota::borrowing_limit)
      .Doc("Most that may be used above nominalQuota; absent means no limit.");
  f.Field("lendingLimit", &ResourceQuota::lending_limit)
      .Doc("Most of the unused nominalQuota that others may borrow; absent means all of it.");
}

void Describe(Fields<FlavorQuotas>& f) {
  Reference(f.Field("name", &FlavorQuotas::name).Required());
  f.Field("resources", &FlavorQuotas::resources)
      .Required()
      .KeyedBy({"name"})
      .MinItems(1)
      .MaxItems(64)
      .Doc("One entry per covered resource, in the order of coveredResources.");
}

void Describe(Fields<ResourceGroup>& f) {
  f.Field("coveredResources", &ResourceGroup::covered_resources)
      .Required()
      .Atomic()
      .MinItems(1)
      .MaxItems(64)
      .Doc("Resources that the flavors of this group provide.");
  f.Field("flavors", &ResourceGroup::flavors)
      .Required()
      .KeyedBy({"name"})
      .MinItems(1)
      .MaxItems(64)
      .Doc("Flavors in the order in which they are tried.");
  f.All().Cel("self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
              "each flavor must list exactly as many resources as coveredResources has");
}

void Describe(Fields<FairSharing>& f) {
  f.Field("weight", &FairSharing::weight)
      .Default(1)
      .Doc("Divides the share when it is compared with others; 0 makes any borrowing too much.");
}

void Describe(Fields<ResourceUsage>& f) {
  f.Field("name", &ResourceUsage::name).Required();
  f.Field("total", &ResourceUsage::total);
  f.Field("borrowed", &ResourceUsage::borrowed).Doc("The part of total above the nominal quota.");
}

void Describe(Fields<FlavorUsage>& f) {
  Reference(f.Field("name", &FlavorUsage::name).Required());
  f.Field("resources", &FlavorUsage::resources).Required().KeyedBy({"name"}).MaxItems(64);
}

void Describe(Fields<LocalQueueResourceUsage>& f) {
  f.Field("name", &LocalQueueResourceUsage::name).Required();
  f.Field("total", &LocalQueueResourceUsage::total);
}

void Describe(Fields<LocalQueueFlavorUsage>& f) {
  Reference(f.Field("name", &LocalQueueFlavorUsage::name).Required());
  f.Field("resources", &LocalQueueFlavorUsage::resources).Required().KeyedBy({"name"}).MaxItems(64);
}

void Describe(Fields<AdmissionFairSharingStatus>& f) {
  f.Field("consumedResources", &AdmissionFairSharingStatus::consumed_resources).Required();
  f.Field("lastUpdate", &AdmissionFairSharingStatus::last_update).Required();
}

void Describe(Fields<FairSharingStatus>& f) {
  f.Field("weightedShare", &FairSharingStatus::weighted_share)
      .Required()
      .Doc("Largest borrowed part of a resource of the cohort in thousandths, by weight.");
  f.Field("admissionFairSharingStatus", &FairSharingStatus::admission_fair_sharing_status);
}

// ---- ClusterQueue ----

void Describe(Fields<FlavorFungibility>& f) {
  f.Field("whenCanBorrow", &FlavorFungibility::when_can_borrow)
      .Enum({"MayStopSearch", "TryNextFlavor"})
      .Default("MayStopSearch")
      .Doc("Whether a flavor that fits only by borrowing ends the search.");
  f.Field("whenCanPreempt", &FlavorFungibility::when_can_preempt)
      .Enum({"MayStopSearch", "TryNextFlavor"})
      .Default("TryNextFlavor")
      .Doc("Whether a flavor that needs preemption ends the search.");
  f.Field("preference", &FlavorFungibility::preference)
      .Enum({"BorrowingOverPreemption", "PreemptionOverBorrowing"})
      .Doc("What to prefer when every flavor needs borrowing or preemption.");
  f.All().Cel(
      "!has(self.preference) || (has(self.whenCanBorrow) && self.whenCanBorrow == 'TryNextFlavor' "
      "&& has(self.whenCanPreempt) && self.whenCanPreempt == 'TryNextFlavor')",
      "preference needs TryNextFlavor in both whenCanBorrow and whenCanPreempt");
}

void Describe(Fields<BorrowWithinCohort>& f) {
  f.Field("policy", &BorrowWithinCohort::policy).Enum({"Never", "LowerPriority"}).Default("Never");
  f.Field("maxPriorityThreshold", &BorrowWithinCohort::max_priority_threshold)
      .Doc("Only Workloads up to this priority may be preempted while borrowing.");
}

void Describe(Fields<ClusterQueuePreemption>& f) {
  f.Field("reclaimWithinCohort", &ClusterQueuePreemption::reclaim_within_cohort)
      .Enum({"Never", "LowerPriority", "Any"})
      .Default("Never")
      .Doc("Which Workloads of the cohort may be preempted to get lent quota back.");
  f.Field("borrowWithinCohort", &ClusterQueuePreemption::borrow_within_cohort)
      .Default(Json::MakeObject())
      .Doc("Whether a Workload that must borrow may preempt others of the cohort.");
  f.Field("withinClusterQueue", &ClusterQueuePreemption::within_cluster_queue)
      .Enum({"Never", "LowerPriority", "LowerOrNewerEqualPriority"})
      .Default("Never")
      .Doc("Which Workloads of the same queue may be preempted.");
  f.All().Cel(
      "!has(self.reclaimWithinCohort) || self.reclaimWithinCohort != 'Never' || "
      "!has(self.borrowWithinCohort) || !has(self.borrowWithinCohort.policy) || "
      "self.borrowWithinCohort.policy == 'Never'",
      "borrowWithinCohort needs a reclaimWithinCohort other than Never");
}

void Describe(Fields<AdmissionCheckStrategyRule>& f) {
  f.Field("name", &AdmissionCheckStrategyRule::name).Required().MinLength(1).MaxLength(316);
  Rules name;
  f.Field("onFlavors", &AdmissionCheckStrategyRule::on_flavors)
      .Set()
      .MaxItems(64)
      .Each(Reference(name))
      .Doc("Flavors to which the check applies; none means all.");
}

void Describe(Fields<AdmissionChecksStrategy>& f) {
  f.Field("admissionChecks", &AdmissionChecksStrategy::admission_checks)
      .Required()
      .KeyedBy({"name"})
      .MinItems(1)
      .MaxItems(64);
}

void Describe(Fields<AdmissionScope>& f) {
  f.Field("admissionMode", &AdmissionScope::admission_mode)
      .Required()
      .Enum({"UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"});
}

void Describe(Fields<ConcurrentAdmissionConstraints>& f) {
  Reference(f.Field("lastAcceptableFlavorName",
                    &ConcurrentAdmissionConstraints::last_acceptable_flavor_name));
}

void Describe(Fields<ConcurrentAdmissionMigration>& f) {
  f.Field("mode", &ConcurrentAdmissionMigration::mode)
      .Required()
      .Enum({"TryPreferredFlavors", "RetainFirstAdmission"});
  f.Field("constraints", &ConcurrentAdmissionMigration::constraints);
}

void Describe(Fields<ConcurrentAdmissionPolicy>& f) {
  f.Field("migration", &ConcurrentAdmissionPolicy::migration).Required();
}

void Describe(Fields<ClusterQueueSpec>& f) {
  f.Field("resourceGroups", &ClusterQueueSpec::resource_groups)
      .Atomic()
      .MaxItems(16)
      .Doc("Quota by groups of resources that are assigned together.");
  Reference(f.Field("cohortName", &ClusterQueueSpec::cohort_name))
      .Doc("Cohort with which unused quota is shared; absent means no sharing.");
  f.Field("queueingStrategy", &ClusterQueueSpec::queueing_strategy)
      .Enum({"StrictFIFO", "BestEffortFIFO"})
      .Default("BestEffortFIFO")
      .Doc("Whether a Workload that cannot be admitted holds back those behind it.");
  f.Field("namespaceSelector", &ClusterQueueSpec::namespace_selector)
      .Doc("Namespaces that may submit; absent selects none, an empty selector all.");
  f.Field("flavorFungibility", &ClusterQueueSpec::flavor_fungibility).Default(Json::MakeObject());
  f.Field("preemption", &ClusterQueueSpec::preemption).Default(Json::MakeObject());
  f.Field("admissionChecksStrategy", &ClusterQueueSpec::admission_checks_strategy)
      .Doc("Checks that must pass before a Workload is admitted.");
  StopPolicy(f.Field("stopPolicy", &ClusterQueueSpec::stop_policy))
      .Doc("Hold stops new admissions, HoldAndDrain evicts as well.");
  f.Field("fairSharing", &ClusterQueueSpec::fair_sharing);
  f.Field("admissionScope", &ClusterQueueSpec::admission_scope);
  f.Field("concurrentAdmissionPolicy", &ClusterQueueSpec::concurrent_admission_policy);
  f.All().Cel(
      "has(self.cohortName) || !has(self.resourceGroups) || self.resourceGroups.all(g, "
      "g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
      "borrowingLimit needs a cohortName");
}

void Describe(Fields<ClusterQueueStatus>& f) {
  ConditionList(f.Field("conditions", &ClusterQueueStatus::conditions));
  f.Field("flavorsReservation", &ClusterQueueStatus::flavors_reservation)
      .KeyedBy({"name"})
      .MaxItems(256)
      .Doc("Quota held by Workloads with a reservation.");
  f.Field("flavorsUsage", &ClusterQueueStatus::flavors_usage)
      .KeyedBy({"name"})
      .MaxItems(256)
      .Doc("Quota held by admitted Workloads.");
  f.Field("pendingWorkloads", &ClusterQueueStatus::pending_workloads).Always();
  f.Field("reservingWorkloads", &ClusterQueueStatus::reserving_workloads).Always();
  f.Field("admittedWorkloads", &ClusterQueueStatus::admitted_workloads).Always();
  f.Field("fairSharing", &ClusterQueueStatus::fair_sharing);
}

void Describe(Fields<ClusterQueue>& f) {
  f.Root(Kind::kClusterQueue);
  f.Field("metadata", &ClusterQueue::metadata);
  f.Field("spec", &ClusterQueue::spec).Always();
  f.Field("status", &ClusterQueue::status).Always();
}

// ---- LocalQueue ----

void Describe(Fields<LocalQueueSpec>& f) {
  Reference(f.Field("clusterQueue", &LocalQueueSpec::cluster_queue))
      .Doc("The ClusterQueue that serves this queue; cannot be changed.")
      .Cel("self == oldSelf", "clusterQueue cannot be changed");
  StopPolicy(f.Field("stopPolicy", &LocalQueueSpec::stop_policy))
      .Doc("Hold stops new admissions, HoldAndDrain evicts as well.");
  f.Field("fairSharing", &LocalQueueSpec::fair_sharing);
}

void Describe(Fields<LocalQueueStatus>& f) {
  ConditionList(f.Field("conditions", &LocalQueueStatus::conditions));
  f.Field("pendingWorkloads", &LocalQueueStatus::pending_workloads).Always();
  f.Field("reservingWorkloads", &LocalQueueStatus::reserving_workloads).Always();
  f.Field("admittedWorkloads", &LocalQueueStatus::admitted_workloads).Always();
  f.Field("flavorsReservation", &LocalQueueStatus::flavors_reservation)
      .KeyedBy({"name"})
      .MaxItems(256);
  f.Field("flavorsUsage", &LocalQueueStatus::flavors_usage).KeyedBy({"name"}).MaxItems(256);
  f.Field("fairSharing", &LocalQueueStatus::fair_sharing);
}

void Describe(Fields<LocalQueue>& f) {
  f.Root(Kind::kLocalQueue);
  f.Field("metadata", &LocalQueue::metadata);
  f.Field("spec", &LocalQueue::spec).Always();
  f.Field("status", &LocalQueue::status).Always();
}

// ---- Cohort ----

void Describe(Fields<CohortSpec>& f) {
  Reference(f.Field("parentName", &CohortSpec::parent_name))
      .Doc("The cohort above; absent makes this one a root.");
  f.Field("resourceGroups", &CohortSpec::resource_groups)
      .Atomic()
      .MaxItems(16)
      .Doc("Quota in addition to that of the members.");
  f.Field("fairSharing", &CohortSpec::fair_sharing);
}

void Describe(Fields<CohortStatus>& f) { f.Field("fairSharing", &CohortStatus::fair_sharing); }

void Describe(Fields<Cohort>& f) {
  f.Root(Kind::kCohort);
  f.Field("metadata", &Cohort::metadata);
  f.Field("spec", &Cohort::spec).Always();
  f.Field("status", &Cohort::status);
}

}  // namespace sluice::api
