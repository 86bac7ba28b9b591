package validation

import (
	"strings"
	"testing"
)

const podSpec = "{restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}"

// podSet is a pod set with more fields.
func podSet(name, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return "{name: " + name + ", template: {spec: " + podSpec + "}" + fields + "}"
}

// workload is a Workload with these pod sets and more fields of its spec.
func workload(podSets, fields string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return "spec: {podSets: [" + podSets + "]" + fields + "}"
}

const at = "lastTransitionTime: '2026-01-01T00:00:00Z'"

func condition(kind string) string {
	return "{type: " + kind + ", status: 'True', reason: Test, message: '', " + at + "}"
}

// reserved is a status with a reservation for pod set main; more are further fields of the status.
func reserved(assignment, more string) string {
	if more != "" {
		more = ", " + more
	}
	return "status: {conditions: [" + condition("QuotaReserved") + "], admission: {clusterQueue: cq, podSetAssignments: [" + assignment + "]}" + more + "}"
}

const oneCPU = "{name: main, count: 1, flavors: {cpu: f}, resourceUsage: {cpu: 1}}"

func TestWorkloadSpec(t *testing.T) {
	main := podSet("main", "")
	template := func(spec string) string { return "spec: {podSets: [{name: main, template: {spec: " + spec + "}}]}" }
	const first = "spec.podSets[0].template.spec"
	runCreations(t, "Workload", []creation{
		{"one pod set", workload(main, ""), accepted, nil},
		{"without pod sets", "spec: {}", accepted, nil},
		{"empty list of pod sets", workload("", ""), schema, words("spec.podSets")},
		{"18 pod sets", workload(strings.Trim(list(18, podSet("p#", "")), "[]"), ""), accepted, nil},
		{"19 pod sets", workload(strings.Trim(list(19, podSet("p#", "")), "[]"), ""), schema, words("spec.podSets")},
		{"pod set twice", workload(main+", "+main, ""), schema, words("spec.podSets[1]", "Duplicate value")},
		{"pod set with a bad name", workload(podSet("Main", ""), ""), schema, words("spec.podSets[0].name")},
		{"pod set with a long name", workload(podSet(strings.Repeat("a", 64), ""), ""), schema, words("spec.podSets[0].name")},
		{"pod set without template", "spec: {podSets: [{name: main}]}", schema, words("spec.podSets[0].template")},
		{"negative count", workload(podSet("main", "count: -1"), ""), schema, words("spec.podSets[0].count")},
		{"count 0", workload(podSet("main", "count: 0"), ""), accepted, nil},
		{"minCount 0", workload(podSet("main", "count: 2, minCount: 0"), ""), schema, words("spec.podSets[0].minCount")},
		{"minCount above count", workload(podSet("main", "count: 2, minCount: 3"), ""), schema, words("spec.podSets[0]")},
		{"minCount of two pod sets", workload(podSet("a", "count: 2, minCount: 1")+", "+podSet("b", "count: 2, minCount: 1"), ""), webhook, words("spec.podSets")},
		{"queue with a bad name", workload(main, "queueName: Q_"), schema, words("spec.queueName")},
		{"queue with a long name", workload(main, "queueName: "+longName), schema, words("spec.queueName")},
		{"maximum execution time 0", workload(main, "maximumExecutionTimeSeconds: 0"), schema, words("spec.maximumExecutionTimeSeconds")},
		{"priority without class", workload(main, "priority: 5"), accepted, nil},
		{"class without priority", workload(main, "priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: c}"), schema, words("spec")},
		{"class of an unknown group", workload(main, "priority: 1, priorityClassRef: {group: example.com, kind: PriorityClass, name: c}"), schema, words("spec.priorityClassRef.group")},
		{"class of an unknown kind", workload(main, "priority: 1, priorityClassRef: {group: kueue.x-k8s.io, kind: Class, name: c}"), schema, words("spec.priorityClassRef.kind")},
		{"class of the wrong kind", workload(main, "priority: 1, priorityClassRef: {group: kueue.x-k8s.io, kind: PriorityClass, name: c}"), schema, words("spec.priorityClassRef")},
		{"class of the wrong group", workload(main, "priority: 1, priorityClassRef: {group: scheduling.k8s.io, kind: WorkloadPriorityClass, name: c}"), schema, words("spec.priorityClassRef")},
		{"class without a name", workload(main, "priority: 1, priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass}"), schema, words("spec.priorityClassRef.name")},
		{"9 preemption gates", workload(main, "preemptionGates: "+list(9, "{name: g#}")), schema, words("spec.preemptionGates")},
		{"preemption gate twice", workload(main, "preemptionGates: [{name: g}, {name: g}]"), schema, words("spec.preemptionGates[1]")},
		{"preemption gate without a name", workload(main, `preemptionGates: [{name: ""}]`), schema, words("spec.preemptionGates[0].name")},

		{"pod template with a bad label", "spec: {podSets: [{name: main, template: {metadata: {labels: {\"a b\": c}}, spec: " + podSpec + "}}]}", webhook, words("spec.podSets[0].template.metadata.labels")},
		{"pod template with a bad annotation", "spec: {podSets: [{name: main, template: {metadata: {annotations: {\"a b\": c}}, spec: " + podSpec + "}}]}", webhook, words("spec.podSets[0].template.metadata.annotations")},
		{"request of pods", template("{containers: [{name: c, image: i, resources: {requests: {pods: 1}}}]}"), webhook, words(first + ".containers[0].resources.requests[pods]")},
		{"limit of pods", template("{containers: [{name: c, image: i, resources: {limits: {pods: 1}}}]}"), webhook, words(first + ".containers[0].resources.limits[pods]")},
		{"request of pods by an init container", template("{initContainers: [{name: c, image: i, resources: {requests: {pods: 1}}}], containers: [{name: d, image: i}]}"), webhook, words(first + ".initContainers[0].resources.requests[pods]")},
		{"request of pods by the pod", template("{resources: {requests: {pods: 1}}, containers: [{name: d, image: i}]}"), webhook, words(first + ".resources.requests[pods]")},
		{"negative request", template("{containers: [{name: c, image: i, resources: {requests: {cpu: -1}}}]}"), webhook, words(first + ".containers[0].resources.requests[cpu]")},
		{"negative limit of an init container", template("{initContainers: [{name: c, image: i, resources: {limits: {cpu: -1}}}], containers: [{name: d, image: i}]}"), webhook, words(first + ".initContainers[0].resources.limits[cpu]")},
		{"negative request of the pod", template("{resources: {requests: {cpu: -1}}, containers: [{name: d, image: i}]}"), webhook, words(first + ".resources.requests[cpu]")},
	})
	request := func(fields string) string { return workload(podSet("main", "topologyRequest: {"+fields+"}"), "") }
	const path = "spec.podSets[0].topologyRequest"
	long := strings.Repeat("a", 64)
	runCreations(t, "Workload", []creation{
		{"long required level", request("required: " + long), schema, words(path + ".required")},
		{"long preferred level", request("preferred: " + long), schema, words(path + ".preferred")},
		{"long podIndexLabel", request("podIndexLabel: " + strings.Repeat("a", 318)), schema, words(path + ".podIndexLabel")},
		{"long subGroupIndexLabel", request("subGroupIndexLabel: " + strings.Repeat("a", 318)), schema, words(path + ".subGroupIndexLabel")},
		{"negative subGroupCount", request("subGroupCount: -1"), schema, words(path + ".subGroupCount")},
		{"long podSetGroupName", request("podSetGroupName: " + strings.Repeat("a", 257)), schema, words(path + ".podSetGroupName")},
		{"long slice level", request("podSetSliceSize: 1, podSetSliceRequiredTopology: " + long), schema, words(path + ".podSetSliceRequiredTopology")},
		{"slice size 0", request("podSetSliceSize: 0, podSetSliceRequiredTopology: a"), schema, words(path + ".podSetSliceSize")},
		{"slice level without size", request("podSetSliceRequiredTopology: a"), webhook, words(path+".podSetSliceSize", "Required value")},
		{"slice size without level", request("podSetSliceSize: 2"), webhook, words(path+".podSetSliceSize", "Forbidden")},
		{"slice size and level", request("podSetSliceSize: 2, podSetSliceRequiredTopology: a"), accepted, nil},
		{"4 layers of slices", request("podsetSliceRequiredTopologyConstraints: " + list(4, "{topology: t#, size: 1}")), schema, words(path + ".podsetSliceRequiredTopologyConstraints")},
		{"layer of size 0", request("podsetSliceRequiredTopologyConstraints: [{topology: t, size: 0}]"), schema, words(path + ".podsetSliceRequiredTopologyConstraints[0].size")},
		{"layer without topology", request("podsetSliceRequiredTopologyConstraints: [{size: 1}]"), schema, words(path + ".podsetSliceRequiredTopologyConstraints[0].topology")},
	})
	const gated = "kueue.x-k8s.io/admission-gated-by"
	runCreations(t, "Workload", []creation{
		{"gate without domain", "metadata: {annotations: {" + gated + ": review}}\n" + workload(main, ""), webhook, words("metadata.annotations[" + gated + "]")},
		{"gate twice", "metadata: {annotations: {" + gated + `: "a.b/c,a.b/c"}}` + "\n" + workload(main, ""), webhook, words("metadata.annotations[" + gated + "]")},
	})
	runUpdates(t, "Workload", []update{
		{"gate is added", workload(main, ""), "", "metadata: {annotations: {" + gated + ": a.b/c}}", false, webhook, words("metadata.annotations[" + gated + "]")},
		{"pod sets change while it waits", workload(main, ""), "", workload(podSet("other", ""), ""), false, accepted, nil},
		{"count grows with a reservation", workload(main, ""), reserved(oneCPU, ""), workload(podSet("main", "count: 2"), ""), false, webhook, words("spec.podSets.0")},
		{"count shrinks with a reservation", workload(podSet("main", "count: 2"), ""), reserved("{name: main, count: 2, flavors: {cpu: f}, resourceUsage: {cpu: 2}}", ""), workload(main, ""), false, accepted, nil},
		{"template changes with a reservation", workload(main, ""), reserved(oneCPU, ""), strings.ReplaceAll(workload(main, ""), "image: i", "image: j"), false, webhook, words("spec.podSets.0")},
		{"queue changes while it waits", workload(main, "queueName: a"), "", "spec: {queueName: b}", false, accepted, nil},
		{"queue changes with a reservation", workload(main, "queueName: a"), reserved(oneCPU, ""), "spec: {queueName: b}", false, schema, words("queueName")},
		{"queue is removed with a reservation", workload(main, "queueName: a"), reserved(oneCPU, ""), "spec: {queueName: null}", false, schema, words("queueName")},
		{"class is added with a reservation", workload(main, "priority: 1"), reserved(oneCPU, ""), "spec: {priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: c}}", false, schema, words("priorityClassRef")},
		{"class is removed with a reservation", workload(main, "priority: 1, priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: c}"), reserved(oneCPU, ""), "spec: {priorityClassRef: null}", false, schema, words("priorityClassRef")},
		{"group and kind of the class change with a reservation", workload(main, "priority: 1, priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: c}"), reserved(oneCPU, ""), "spec: {priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass}}", false, schema, words("priorityClassRef")},
		{"name of a WorkloadPriorityClass changes with a reservation", workload(main, "priority: 1, priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: c}"), reserved(oneCPU, ""), "spec: {priorityClassRef: {name: d}}", false, accepted, nil},
		{"name of a PriorityClass changes with a reservation", workload(main, "priority: 1, priorityClassRef: {group: scheduling.k8s.io, kind: PriorityClass, name: c}"), reserved(oneCPU, ""), "spec: {priorityClassRef: {name: d}}", false, schema, words("PriorityClass")},
		{"priority changes with a reservation", workload(main, "priority: 1"), reserved(oneCPU, ""), "spec: {priority: 2}", false, accepted, nil},
		{"execution time changes when admitted", workload(main, "maximumExecutionTimeSeconds: 5"), strings.Replace(reserved(oneCPU, ""), "conditions: [", "conditions: ["+condition("Admitted")+", ", 1), "spec: {maximumExecutionTimeSeconds: 6}", false, schema, words("maximumExecutionTimeSeconds")},
		{"execution time changes while it waits", workload(main, "maximumExecutionTimeSeconds: 5"), "", "spec: {maximumExecutionTimeSeconds: 6}", false, accepted, nil},
	})
}

func TestWorkloadStatus(t *testing.T) {
	main := workload(podSet("main", "count: 3"), "")
	const assignments = "status.admission.podSetAssignments"
	set := func(name, change string, code int, words []string) update {
		return update{name, main, "", change, true, code, words}
	}
	three := "{name: main, count: 3, flavors: {cpu: f}, resourceUsage: {cpu: 1500m, memory: 3}}"
	runUpdates(t, "Workload", []update{
		set("reservation", reserved(three, ""), accepted, nil),
		set("reservation without admission", "status: {conditions: ["+condition("QuotaReserved")+"]}", webhook, words("status.admission", "Required value")),
		set("too few assignments", reserved("", ""), schema, words("podSetAssignments")),
		set("assignment of an unknown pod set", reserved("{name: other, count: 3}", ""), webhook, words(assignments+"[0].name", "Not found")),
		set("CPU that is not divisible", reserved("{name: main, count: 3, flavors: {cpu: f}, resourceUsage: {cpu: 1}}", ""), webhook, words(assignments+"[0].resourceUsage[cpu]")),
		set("CPU that is divisible in milli", reserved("{name: main, count: 3, flavors: {cpu: f}, resourceUsage: {cpu: 1500m}}", ""), accepted, nil),
		set("memory that is not divisible", reserved("{name: main, count: 3, flavors: {memory: f}, resourceUsage: {memory: 10}}", ""), webhook, words(assignments+"[0].resourceUsage[memory]")),
		set("negative count", reserved("{name: main, count: -1}", ""), schema, words(assignments+"[0].count")),
		set("flavor with a bad name", reserved("{name: main, flavors: {cpu: F_}}", ""), schema, words(assignments+"[0].flavors")),
		set("assignment twice", reserved("{name: main}, {name: main}", ""), schema, words(assignments+"[1]")),
		set("unknown delayedTopologyRequest", reserved("{name: main, delayedTopologyRequest: Later}", ""), schema, words(assignments+"[0].delayedTopologyRequest")),
		set("no ClusterQueue", "status: {admission: {podSetAssignments: []}}", accepted, nil),
		set("condition of a bad type", "status: {conditions: [{type: 'a b', status: 'True', reason: R, message: '', "+at+"}]}", schema, words("status.conditions[0].type")),
		set("reclaimable pods of an unknown pod set", "status: {reclaimablePods: [{name: other, count: 1}]}", webhook, words("status.reclaimablePods[other].name", "Unsupported value")),
		set("more reclaimable pods than pods", "status: {reclaimablePods: [{name: main, count: 4}]}", webhook, words("status.reclaimablePods[main].count")),
		set("negative reclaimable pods", "status: {reclaimablePods: [{name: main, count: -1}]}", schema, words("status.reclaimablePods[0].count")),
		set("negative requeue count", "status: {requeueState: {count: -1}}", schema, words("status.requeueState.count")),
		set("9 admission checks", "status: {admissionChecks: "+list(9, "{name: c#, state: Pending, message: '', "+at+"}")+"}", schema, words("status.admissionChecks")),
		set("unknown state of a check", "status: {admissionChecks: [{name: c, state: Odd, message: '', "+at+"}]}", schema, words("status.admissionChecks[0].state")),
		set("check without a message", "status: {admissionChecks: [{name: c, state: Pending, "+at+"}]}", schema, words("status.admissionChecks[0].message")),
		set("negative retryCount", "status: {admissionChecks: [{name: c, state: Pending, message: '', retryCount: -1, "+at+"}]}", schema, words("status.admissionChecks[0].retryCount")),
		set("update of an unknown pod set", "status: {admissionChecks: [{name: c, state: Ready, message: '', "+at+", podSetUpdates: [{name: other}]}]}", webhook, words("status.admissionChecks[0].podSetUpdates[0].name", "Unsupported value")),
		set("update with a bad label", "status: {admissionChecks: [{name: c, state: Ready, message: '', "+at+", podSetUpdates: [{name: main, labels: {\"a b\": c}}]}]}", webhook, words("status.admissionChecks[0].podSetUpdates[0].labels")),
		set("update with a bad annotation", "status: {admissionChecks: [{name: c, state: Ready, message: '', "+at+", podSetUpdates: [{name: main, annotations: {\"a b\": c}}]}]}", webhook, words("status.admissionChecks[0].podSetUpdates[0].annotations")),
		set("update with a bad node selector", "status: {admissionChecks: [{name: c, state: Ready, message: '', "+at+", podSetUpdates: [{name: main, nodeSelector: {\"a b\": c}}]}]}", webhook, words("status.admissionChecks[0].podSetUpdates[0].nodeSelector")),
		set("update with a bad toleration", "status: {admissionChecks: [{name: c, state: Ready, message: '', "+at+", podSetUpdates: [{name: main, tolerations: [{key: 'a b', operator: Exists}]}]}]}", webhook, words("status.admissionChecks[0].podSetUpdates[0].tolerations[0].key")),
		set("update with a toleration without key", "status: {admissionChecks: [{name: c, state: Ready, message: '', "+at+", podSetUpdates: [{name: main, tolerations: [{value: v}]}]}]}", schema, words("status.admissionChecks[0].podSetUpdates[0].tolerations")),
		set("21 nominated clusters", "status: {nominatedClusterNames: "+list(21, "c#")+"}", schema, words("status.nominatedClusterNames")),
		set("cluster beside nominated ones", "status: {clusterName: a, nominatedClusterNames: [a]}", schema, words("status")),
		set("9 unhealthy nodes", "status: {unhealthyNodes: "+list(9, "{name: n#}")+"}", schema, words("status.unhealthyNodes")),
		set("preemption gate in an unknown position", "status: {preemptionGates: [{name: g, position: Ajar, "+at+"}]}", schema, words("status.preemptionGates[0].position")),
		set("257 kinds of eviction", "status: {schedulingStats: {evictions: "+list(257, "{reason: R#, underlyingCause: '', count: 1}")+"}}", schema, words("status.schedulingStats.evictions")),
		set("eviction without a cause", "status: {schedulingStats: {evictions: [{reason: R, count: 1}]}}", schema, words("status.schedulingStats.evictions[0].underlyingCause")),
	})
	check := "{name: c, state: Ready, message: '', " + at + ", podSetUpdates: [{name: main, labels: {a: b}}]}"
	runUpdates(t, "Workload", []update{
		{"admission changes", main, reserved(three, ""), reserved(strings.Replace(three, "cpu: f", "cpu: g", 1), ""), true, webhook, words("status.admission")},
		{"admission moves to another queue", main, reserved(three, ""), "status: {admission: {clusterQueue: other}}", true, webhook, words("status.admission")},
		{"reservation ends", main, reserved(three, ""), "status: {admission: null, conditions: []}", true, accepted, nil},
		{"reclaimable pods grow", main, reserved(three, "reclaimablePods: [{name: main, count: 1}]"), "status: {reclaimablePods: [{name: main, count: 2}]}", true, accepted, nil},
		{"reclaimable pods shrink", main, reserved(three, "reclaimablePods: [{name: main, count: 2}]"), "status: {reclaimablePods: [{name: main, count: 1}]}", true, webhook, words("status.reclaimablePods[main].count")},
		{"reclaimable pods vanish", main, reserved(three, "reclaimablePods: [{name: main, count: 2}]"), "status: {reclaimablePods: []}", true, webhook, words("status.reclaimablePods[main]", "Required value")},
		{"reclaimable pods shrink without a reservation", main, reserved(three, "reclaimablePods: [{name: main, count: 2}]"), "status: {admission: null, conditions: [], reclaimablePods: [{name: main, count: 0}]}", true, accepted, nil},
		{"updates of a check that is Ready change", main, "status: {admissionChecks: [" + check + "]}", "status: {admissionChecks: [" + strings.Replace(check, "a: b", "a: c", 1) + "]}", true, webhook, words("status.admissionChecks[0].podSetUpdates")},
		{"cluster changes", main, "status: {nominatedClusterNames: [a]}", "status: {clusterName: b, nominatedClusterNames: null}", true, webhook, words("status.clusterName")},
		{"cluster is one of the nominated", main, "status: {nominatedClusterNames: [a, b]}", "status: {clusterName: b, nominatedClusterNames: null}", true, accepted, nil},
	})
	topology := func(assignment string) string {
		return reserved("{name: main, count: 3, topologyAssignment: {"+assignment+"}}", "")
	}
	const place = assignments + "[0].topologyAssignment"
	runUpdates(t, "Workload", []update{
		set("topology", topology("levels: [a], slices: [{domainCount: 1, valuesPerLevel: [{universal: x}], podCounts: {universal: 3}}]"), accepted, nil),
		set("topology without levels", topology("levels: [], slices: []"), schema, words(place+".levels")),
		set("topology without slices", topology("levels: [a]"), schema, words(place+".slices")),
		set("topology with too few values", topology("levels: [a, b], slices: [{domainCount: 1, valuesPerLevel: [{universal: x}], podCounts: {universal: 3}}]"), schema, words(place)),
		set("topology with both kinds of values", topology("levels: [a], slices: [{domainCount: 1, valuesPerLevel: [{universal: x, individual: {roots: [y]}}], podCounts: {universal: 3}}]"), schema, words(place+".slices[0].valuesPerLevel[0]")),
		set("topology with too few roots", topology("levels: [a], slices: [{domainCount: 2, valuesPerLevel: [{individual: {roots: [y]}}], podCounts: {universal: 3}}]"), schema, words(place+".slices[0]")),
		set("topology with too few counts", topology("levels: [a], slices: [{domainCount: 2, valuesPerLevel: [{universal: x}], podCounts: {individual: [3]}}]"), schema, words(place+".slices[0]")),
		set("topology without counts", topology("levels: [a], slices: [{domainCount: 1, valuesPerLevel: [{universal: x}], podCounts: {}}]"), schema, words(place+".slices[0].podCounts")),
		set("topology without domains", topology("levels: [a], slices: [{domainCount: 0, valuesPerLevel: [{universal: x}], podCounts: {universal: 3}}]"), schema, words(place+".slices[0].domainCount")),
	})
	runUpdates(t, "Workload", []update{
		{"cluster is exchanged", main, "status: {nominatedClusterNames: [a]}\n---\nstatus: {clusterName: a, nominatedClusterNames: null}", "status: {clusterName: b}", true, schema, words("clusterName")},
		{"cluster is taken back", main, "status: {nominatedClusterNames: [a]}\n---\nstatus: {clusterName: a, nominatedClusterNames: null}", "status: {clusterName: null}", true, accepted, nil},
	})
}
