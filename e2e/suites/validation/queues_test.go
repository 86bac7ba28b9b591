package validation

import (
	"fmt"
	"strings"
	"testing"
)

// group is the spec of a queue with one resource group of one flavor; extra are more fields.
func group(resource, extra string) string {
	text := fmt.Sprintf("spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: f, resources: [%s]}]}]", resource)
	if extra != "" {
		text += ", " + extra
	}
	return text + "}"
}

// grid is a resource group of that size.
func grid(flavors, resources int, name string) string {
	quotas := list(resources, "{name: example.com/"+name+"#, nominalQuota: 1}")
	items := make([]string, flavors)
	for i := range items {
		items[i] = fmt.Sprintf("{name: %s%d, resources: %s}", name, i, quotas)
	}
	return fmt.Sprintf("{coveredResources: %s, flavors: [%s]}",
		list(resources, "example.com/"+name+"#"), strings.Join(items, ", "))
}

func groups(parts ...string) string {
	return "spec: {resourceGroups: [" + strings.Join(parts, ", ") + "]}"
}

// flavorGroups is count groups of one resource with that many flavors each.
func flavorGroups(count, flavors int) string {
	parts := make([]string, count)
	for i := range parts {
		parts[i] = grid(flavors, 1, fmt.Sprintf("g%dx", i))
	}
	return groups(parts...)
}

func resourceGroups(count, resources int) string {
	parts := make([]string, count)
	for i := range parts {
		parts[i] = grid(1, resources, fmt.Sprintf("g%dx", i))
	}
	return groups(parts...)
}

const cpu = "{name: cpu, nominalQuota: 5}"

var longName = strings.Repeat("a", 254)

// quotaRules hold for ClusterQueues and Cohorts alike; parent is the field that names the parent.
func quotaRules(parent string) []creation {
	first := "spec.resourceGroups[0].flavors[0].resources[0]"
	return []creation{
		{"no resource groups", "spec: {}", accepted, nil},
		{"one flavor", group(cpu, ""), accepted, nil},
		{"limits with a parent", group("{name: cpu, nominalQuota: 5, borrowingLimit: 0, lendingLimit: 0}", parent+": c"), accepted, nil},
		{"resource that is no qualified name", strings.ReplaceAll(group(cpu, ""), "cpu", `"@cpu"`), webhook, words("spec.resourceGroups[0].coveredResources[0]", "Invalid value")},
		{"resource twice in a group", "spec: {resourceGroups: [{coveredResources: [cpu, cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}, {name: memory, nominalQuota: 1}]}]}]}",
			webhook, words("spec.resourceGroups[0].coveredResources[1]", "Duplicate value")},
		{"resource in two groups", groups("{coveredResources: [memory], flavors: [{name: f, resources: [{name: memory, nominalQuota: 1}]}]}",
			"{coveredResources: [cpu, memory], flavors: [{name: g, resources: [{name: cpu, nominalQuota: 1}, {name: memory, nominalQuota: 1}]}]}"),
			webhook, words("spec.resourceGroups[1].coveredResources[1]", "Duplicate value")},
		{"flavor in two groups", groups("{coveredResources: [memory], flavors: [{name: f, resources: [{name: memory, nominalQuota: 1}]}]}",
			"{coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: 1}]}]}"),
			webhook, words("spec.resourceGroups[1].flavors[0].name", "Duplicate value")},
		{"resources in another order", groups("{coveredResources: [cpu, memory], flavors: [{name: f, resources: [{name: memory, nominalQuota: 1}, {name: cpu, nominalQuota: 1}]}]}"),
			webhook, words("spec.resourceGroups[0].flavors[0].resources[0].name", "spec.resourceGroups[0].flavors[0].resources[1].name")},
		{"negative nominalQuota", group("{name: cpu, nominalQuota: -1}", ""), webhook, words(first + ".nominalQuota")},
		{"negative borrowingLimit", group("{name: cpu, nominalQuota: 5, borrowingLimit: -1}", parent+": c"), webhook, words(first + ".borrowingLimit")},
		{"negative lendingLimit", group("{name: cpu, nominalQuota: 5, lendingLimit: -1}", parent+": c"), webhook, words(first + ".lendingLimit")},
		{"lendingLimit without a parent", group("{name: cpu, nominalQuota: 5, lendingLimit: 1}", ""), webhook, words(first + ".lendingLimit")},
		{"negative weight", "spec: {fairSharing: {weight: -1}}", webhook, words("spec.fairSharing")},
		{"weight too small", "spec: {fairSharing: {weight: 1n}}", webhook, words("spec.fairSharing")},
		{"weight smaller still", "spec: {fairSharing: {weight: 0.1n}}", webhook, words("spec.fairSharing")},
		{"smallest weight", "spec: {fairSharing: {weight: 2n}}", accepted, nil},
		{"weight 0", "spec: {fairSharing: {weight: 0}}", accepted, nil},

		{"17 groups", resourceGroups(17, 1), schema, words("spec.resourceGroups")},
		{"no covered resource", groups("{coveredResources: [], flavors: [{name: f, resources: [" + cpu + "]}]}"), schema, words("spec.resourceGroups[0].coveredResources")},
		{"65 covered resources", groups(grid(1, 65, "r")), schema, words("spec.resourceGroups[0].coveredResources")},
		{"no flavor", groups("{coveredResources: [cpu], flavors: []}"), schema, words("spec.resourceGroups[0].flavors")},
		{"65 flavors in a group", groups(grid(65, 1, "r")), schema, words("spec.resourceGroups[0].flavors")},
		{"flavor twice in a group", groups("{coveredResources: [cpu], flavors: [{name: f, resources: [" + cpu + "]}, {name: f, resources: [" + cpu + "]}]}"), schema, words("spec.resourceGroups[0].flavors[1]", "Duplicate value")},
		{"flavor without a name", groups("{coveredResources: [cpu], flavors: [{resources: [" + cpu + "]}]}"), schema, words("spec.resourceGroups[0].flavors[0].name")},
		{"flavor with a bad name", groups("{coveredResources: [cpu], flavors: [{name: F_, resources: [" + cpu + "]}]}"), schema, words("spec.resourceGroups[0].flavors[0].name")},
		{"flavor without resources", groups("{coveredResources: [cpu], flavors: [{name: f, resources: []}]}"), schema, words("spec.resourceGroups[0].flavors[0].resources")},
		{"fewer resources than covered", groups("{coveredResources: [cpu, memory], flavors: [{name: f, resources: [" + cpu + "]}]}"), schema, words("spec.resourceGroups[0]")},
		{"resource twice in a flavor", groups("{coveredResources: [cpu, memory], flavors: [{name: f, resources: [" + cpu + ", " + cpu + "]}]}"), schema, words("spec.resourceGroups[0].flavors[0].resources[1]", "Duplicate value")},
		{"resource without a name", group("{nominalQuota: 1}", ""), schema, words(first + ".name")},
		{"no nominalQuota", group("{name: cpu}", ""), schema, words(first + ".nominalQuota")},
		{"nominalQuota that is no quantity", group("{name: cpu, nominalQuota: many}", ""), schema, words(first + ".nominalQuota")},
		{"parent with a bad name", "spec: {" + parent + ": Big_}", schema, words("spec." + parent)},
		{"parent with an empty name", "spec: {" + parent + `: ""}`, schema, words("spec." + parent)},
		{"parent with a long name", "spec: {" + parent + ": " + longName + "}", schema, words("spec." + parent)},
		{"weight that is no quantity", "spec: {fairSharing: {weight: heavy}}", schema, words("spec.fairSharing.weight")},
	}
}

func TestClusterQueue(t *testing.T) {
	runCreations(t, "ClusterQueue", quotaRules("cohortName"))
	runCreations(t, "ClusterQueue", []creation{
		{"borrowingLimit without cohort", group("{name: cpu, nominalQuota: 5, borrowingLimit: 0}", ""), schema, words("spec", "borrowingLimit")},
		{"lendingLimit above nominalQuota", group("{name: cpu, nominalQuota: 5, lendingLimit: 6}", "cohortName: c"), webhook, words("spec.resourceGroups[0].flavors[0].resources[0].lendingLimit")},
		{"borrowingLimit above nominalQuota", group("{name: cpu, nominalQuota: 5, borrowingLimit: 6}", "cohortName: c"), accepted, nil},
		{"256 flavors in all", flavorGroups(4, 64), accepted, nil},
		{"257 flavors in all", strings.TrimSuffix(flavorGroups(4, 64), "]}") + ", " + grid(1, 1, "last") + "]}", webhook, words("spec.resourceGroups", "256")},
		{"257 resources in all", strings.TrimSuffix(resourceGroups(4, 64), "]}") + ", " + grid(1, 1, "last") + "]}", webhook, words("spec.resourceGroups", "256")},
		{"512 combinations in a group", groups(grid(32, 16, "r")), accepted, nil},
		{"528 combinations in a group", groups(grid(33, 16, "r")), webhook, words("spec.resourceGroups[0]", "512")},
		{"selector with a bad operator", "spec: {namespaceSelector: {matchExpressions: [{key: a, operator: Near, values: [b]}]}}", webhook, words("spec.namespaceSelector.matchExpressions[0].operator")},
		{"selector without values", "spec: {namespaceSelector: {matchExpressions: [{key: a, operator: In}]}}", webhook, words("spec.namespaceSelector.matchExpressions[0].values")},
		{"selector with a bad key", `spec: {namespaceSelector: {matchLabels: {"a b": c}}}`, webhook, words("spec.namespaceSelector.matchLabels")},
		{"borrowing preemption without reclaim", "spec: {preemption: {reclaimWithinCohort: Never, borrowWithinCohort: {policy: LowerPriority}}}", schema, words("spec.preemption")},
		{"borrowing preemption with reclaim", "spec: {preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 5}}}", accepted, nil},
		{"preference alone", "spec: {flavorFungibility: {preference: PreemptionOverBorrowing}}", schema, words("spec.flavorFungibility")},
		{"preference with both fields", "spec: {flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor, preference: PreemptionOverBorrowing}}", accepted, nil},
		{"check for an unknown flavor", group(cpu, "admissionChecksStrategy: {admissionChecks: [{name: c, onFlavors: [f, other]}]}"), webhook, words("spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]", "Unsupported value")},
		{"check for a known flavor", group(cpu, "admissionChecksStrategy: {admissionChecks: [{name: c, onFlavors: [f]}]}"), accepted, nil},

		{"unknown strategy", "spec: {queueingStrategy: Random}", schema, words("spec.queueingStrategy")},
		{"unknown stopPolicy", "spec: {stopPolicy: Maybe}", schema, words("spec.stopPolicy")},
		{"unknown whenCanBorrow", "spec: {flavorFungibility: {whenCanBorrow: Borrow}}", schema, words("spec.flavorFungibility.whenCanBorrow")},
		{"whenCanBorrow of v1beta1", "apiVersion: kueue.x-k8s.io/v1beta1\nspec: {flavorFungibility: {whenCanBorrow: Borrow}}", accepted, nil},
		{"unknown whenCanPreempt", "spec: {flavorFungibility: {whenCanPreempt: Preempt}}", schema, words("spec.flavorFungibility.whenCanPreempt")},
		{"unknown preference", "spec: {flavorFungibility: {preference: Cheapest}}", schema, words("spec.flavorFungibility.preference")},
		{"unknown reclaimWithinCohort", "spec: {preemption: {reclaimWithinCohort: Sometimes}}", schema, words("spec.preemption.reclaimWithinCohort")},
		{"unknown withinClusterQueue", "spec: {preemption: {withinClusterQueue: Any}}", schema, words("spec.preemption.withinClusterQueue")},
		{"unknown borrowing policy", "spec: {preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: Any}}}", schema, words("spec.preemption.borrowWithinCohort.policy")},
		{"no admission check in a strategy", "spec: {admissionChecksStrategy: {admissionChecks: []}}", schema, words("spec.admissionChecksStrategy.admissionChecks")},
		{"65 admission checks", "spec: {admissionChecksStrategy: {admissionChecks: " + list(65, "{name: c#}") + "}}", schema, words("spec.admissionChecksStrategy.admissionChecks")},
		{"admission check twice", "spec: {admissionChecksStrategy: {admissionChecks: [{name: c}, {name: c}]}}", schema, words("spec.admissionChecksStrategy.admissionChecks[1]")},
		{"admission check without a name", `spec: {admissionChecksStrategy: {admissionChecks: [{name: ""}]}}`, schema, words("spec.admissionChecksStrategy.admissionChecks[0].name")},
		{"admission check with a long name", "spec: {admissionChecksStrategy: {admissionChecks: [{name: " + strings.Repeat("a", 317) + "}]}}", schema, words("spec.admissionChecksStrategy.admissionChecks[0].name")},
		{"flavor twice for a check", group(cpu, "admissionChecksStrategy: {admissionChecks: [{name: c, onFlavors: [f, f]}]}"), schema, words("spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]")},
		{"65 flavors for a check", group(cpu, "admissionChecksStrategy: {admissionChecks: [{name: c, onFlavors: "+list(65, "f#")+"}]}"), schema, words("spec.admissionChecksStrategy.admissionChecks[0].onFlavors")},
		{"unknown admissionMode", "spec: {admissionScope: {admissionMode: Fair}}", schema, words("spec.admissionScope.admissionMode")},
		{"no admissionMode", "spec: {admissionScope: {}}", schema, words("spec.admissionScope.admissionMode")},
		{"unknown migration mode", "spec: {concurrentAdmissionPolicy: {migration: {mode: All}}}", schema, words("spec.concurrentAdmissionPolicy.migration.mode")},
		{"no migration", "spec: {concurrentAdmissionPolicy: {}}", schema, words("spec.concurrentAdmissionPolicy.migration")},
		{"threshold that is no integer", "spec: {preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: high}}}", schema, words("spec.preemption.borrowWithinCohort.maxPriorityThreshold")},
	})
	runUpdates(t, "ClusterQueue", []update{
		{"cohort and strategy may change", "spec: {cohortName: a}", "", "spec: {cohortName: b, queueingStrategy: StrictFIFO}", false, accepted, nil},
		{"concurrentAdmissionPolicy is added", "spec: {}", "", "spec: {concurrentAdmissionPolicy: {migration: {mode: RetainFirstAdmission}}}", false, webhook, words("spec.concurrentAdmissionPolicy")},
		{"quota becomes negative", group(cpu, ""), "", group("{name: cpu, nominalQuota: -5}", ""), false, webhook, words("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota")},
		{"borrowingLimit without cohort", group(cpu, "cohortName: c"), "", group("{name: cpu, nominalQuota: 5, borrowingLimit: 1}", "cohortName: null"), false, schema, words("spec")},
		{"17 conditions", "spec: {}", "", "status: {conditions: " + list(17, "{type: T#, status: 'True', reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}") + "}", true, schema, words("status.conditions")},
		{"condition with a bad reason", "spec: {}", "", "status: {conditions: [{type: T, status: 'True', reason: '1', message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}", true, schema, words("status.conditions[0].reason")},
		{"condition with an unknown status", "spec: {}", "", "status: {conditions: [{type: T, status: Perhaps, reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}]}", true, schema, words("status.conditions[0].status")},
		{"condition twice", "spec: {}", "", "status: {conditions: " + list(2, "{type: T, status: 'True', reason: R, message: '', lastTransitionTime: '2026-01-01T00:00:00Z'}") + "}", true, schema, words("status.conditions[1]")},
		{"257 flavors of usage", "spec: {}", "", "status: {flavorsUsage: " + list(257, "{name: f#, resources: []}") + "}", true, schema, words("status.flavorsUsage")},
		{"flavor of usage twice", "spec: {}", "", "status: {flavorsReservation: " + list(2, "{name: f, resources: []}") + "}", true, schema, words("status.flavorsReservation[1]")},
	})
}

func TestCohort(t *testing.T) {
	runCreations(t, "Cohort", quotaRules("parentName"))
	runCreations(t, "Cohort", []creation{
		{"borrowingLimit without parent", group("{name: cpu, nominalQuota: 5, borrowingLimit: 0}", ""), webhook, words("spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit")},
		{"lendingLimit above nominalQuota", group("{name: cpu, nominalQuota: 5, lendingLimit: 6}", "parentName: c"), accepted, nil},
		{"528 combinations in a group", groups(grid(33, 16, "r")), accepted, nil},
	})
	runUpdates(t, "Cohort", []update{
		{"quota becomes negative", group(cpu, ""), "", group("{name: cpu, nominalQuota: -5}", ""), false, webhook, words("nominalQuota")},
		{"no weightedShare", "spec: {}", "", "status: {fairSharing: {}}", true, schema, words("status.fairSharing.weightedShare")},
	})
}

func TestLocalQueue(t *testing.T) {
	runCreations(t, "LocalQueue", []creation{
		{"without ClusterQueue", "spec: {}", accepted, nil},
		{"any weight", "spec: {clusterQueue: c, fairSharing: {weight: -1}}", accepted, nil},
		{"ClusterQueue with a bad name", "spec: {clusterQueue: C_}", schema, words("spec.clusterQueue")},
		{"ClusterQueue with a long name", "spec: {clusterQueue: " + longName + "}", schema, words("spec.clusterQueue")},
		{"unknown stopPolicy", "spec: {stopPolicy: Drain}", schema, words("spec.stopPolicy")},
	})
	runUpdates(t, "LocalQueue", []update{
		{"ClusterQueue changes", "spec: {clusterQueue: a}", "", "spec: {clusterQueue: b}", false, schema, words("spec.clusterQueue")},
		{"ClusterQueue is set later", "spec: {}", "", "spec: {clusterQueue: b}", false, accepted, nil},
		{"usage of a flavor twice", "spec: {}", "", "status: {flavorsUsage: " + list(2, "{name: f, resources: []}") + "}", true, schema, words("status.flavorsUsage[1]")},
	})
}
