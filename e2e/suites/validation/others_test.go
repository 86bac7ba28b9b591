package validation

import (
	"strings"
	"testing"
)

func tolerationRules(at string, wrap func(string) string) []creation {
	path := words(at + ".tolerations")
	return []creation{
		{"toleration without key and operator", wrap("[{value: v}]"), schema, path},
		{"toleration without key, Exists", wrap("[{operator: Exists}]"), accepted, nil},
		{"tolerationSeconds with another effect", wrap("[{key: k, operator: Exists, effect: NoSchedule, tolerationSeconds: 5}]"), schema, path},
		{"tolerationSeconds with NoExecute", wrap("[{key: k, operator: Exists, effect: NoExecute, tolerationSeconds: 5}]"), accepted, nil},
		{"toleration with an unknown operator", wrap("[{key: k, operator: Near}]"), schema, path},
		{"toleration Exists with a value", wrap("[{key: k, operator: Exists, value: v}]"), schema, path},
		{"toleration with an unknown effect", wrap("[{key: k, operator: Exists, effect: NoRun}]"), schema, path},
		{"9 tolerations", wrap(list(9, "{key: k#, operator: Exists}")), schema, path},
	}
}

func TestResourceFlavor(t *testing.T) {
	runCreations(t, "ResourceFlavor", tolerationRules("spec", func(tolerations string) string {
		return "spec: {tolerations: " + tolerations + "}"
	}))
	runCreations(t, "ResourceFlavor", []creation{
		{"without spec", "{}", accepted, nil},
		{"9 node labels", "spec: {nodeLabels: {a: a, b: a, c: a, d: a, e: a, f: a, g: a, h: a, i: a}}", schema, words("spec.nodeLabels")},
		{"node label with a bad key", `spec: {nodeLabels: {"a b": c}}`, webhook, words("spec.nodeLabels", "Invalid value")},
		{"node label with a bad value", `spec: {nodeLabels: {a: "b c"}}`, webhook, words("spec.nodeLabels", "Invalid value")},
		{"9 taints", "spec: {nodeTaints: " + list(9, "{key: k#, effect: NoSchedule}") + "}", schema, words("spec.nodeTaints")},
		{"taint without effect", "spec: {nodeTaints: [{key: k}]}", schema, words("spec.nodeTaints[0].effect")},
		{"taint without key", "spec: {nodeTaints: [{effect: NoSchedule}]}", schema, words("spec.nodeTaints[0].key")},
		{"taint with an unknown effect", "spec: {nodeTaints: [{key: k, effect: Never}]}", schema, words("spec.nodeTaints")},
		{"taint with a bad key", `spec: {nodeTaints: [{key: "a b", effect: NoSchedule}]}`, webhook, words("spec.nodeTaints[0].key")},
		{"taint with a bad value", `spec: {nodeTaints: [{key: k, value: "a b", effect: NoSchedule}]}`, webhook, words("spec.nodeTaints[0].value")},
		{"taint twice", "spec: {nodeTaints: [{key: k, value: a, effect: NoSchedule}, {key: k, value: b, effect: NoSchedule}]}", webhook, words("spec.nodeTaints[1]", "Duplicate value")},
		{"taint with two effects", "spec: {nodeTaints: [{key: k, effect: NoSchedule}, {key: k, effect: NoExecute}]}", accepted, nil},
		{"toleration with a bad key", `spec: {tolerations: [{key: "a b", operator: Exists}]}`, webhook, words("spec.tolerations[0].key")},
		{"topology without node labels", "spec: {topologyName: t}", schema, words("spec")},
		{"topology with node labels", "spec: {topologyName: t, nodeLabels: {a: b}}", accepted, nil},
		{"topology with a bad name", "spec: {topologyName: T_, nodeLabels: {a: b}}", schema, words("spec.topologyName")},
	})
	runUpdates(t, "ResourceFlavor", []update{
		{"topology is added", "spec: {nodeLabels: {a: b}}", "", "spec: {topologyName: t}", false, accepted, nil},
		{"topology changes", "spec: {nodeLabels: {a: b}, topologyName: t}", "", "spec: {topologyName: u}", false, schema, words("spec")},
		{"topology is removed", "spec: {nodeLabels: {a: b}, topologyName: t}", "", "spec: {topologyName: null}", false, schema, words("spec")},
		{"node labels change", "spec: {nodeLabels: {a: b}}", "", "spec: {nodeLabels: {a: c}}", false, accepted, nil},
		{"node label becomes invalid", "spec: {nodeLabels: {a: b}}", "", `spec: {nodeLabels: {a: "b c"}}`, false, webhook, words("spec.nodeLabels")},
	})
}

func TestTopology(t *testing.T) {
	levels := func(names ...string) string {
		items := make([]string, len(names))
		for i, name := range names {
			items[i] = "{nodeLabel: " + name + "}"
		}
		return "spec: {levels: [" + strings.Join(items, ", ") + "]}"
	}
	host := "kubernetes.io/hostname"
	runCreations(t, "Topology", []creation{
		{"three levels", levels("example.com/block", "example.com/rack", host), accepted, nil},
		{"no level", "spec: {levels: []}", schema, words("spec.levels")},
		{"levels missing", "spec: {}", schema, words("spec.levels")},
		{"17 levels", "spec: {levels: " + list(17, "{nodeLabel: l#}") + "}", schema, words("spec.levels")},
		{"level twice", levels("a", "b", "a"), schema, words("spec.levels")},
		{"hostname before the end", levels("a", host, "b"), schema, words("spec.levels")},
		{"level that is no label key", levels(`"a b"`), schema, words("spec.levels[0].nodeLabel")},
		{"level that is empty", levels(`""`), schema, words("spec.levels[0].nodeLabel")},
		{"level without a label", "spec: {levels: [{}]}", schema, words("spec.levels[0].nodeLabel")},
		{"level with a long label", levels(strings.Repeat("a.", 127) + "com/" + strings.Repeat("b", 63)), schema, words("spec.levels[0].nodeLabel")},
	})
	runUpdates(t, "Topology", []update{
		{"levels change", levels("a", "b"), "", levels("a", "c"), false, schema, words("spec.levels")},
		{"levels above the hosts change", levels("a", "b", host), "", levels("c", host), false, accepted, nil},
		{"hosts are added", levels("a", "b"), "", levels("a", "b", host), false, schema, words("spec.levels")},
		{"levels change through v1beta1", "apiVersion: kueue.x-k8s.io/v1beta1\n" + levels("a", host), "", "apiVersion: kueue.x-k8s.io/v1beta1\n" + levels("b", host), false, schema, words("spec.levels")},
	})
}

func TestAdmissionCheck(t *testing.T) {
	runCreations(t, "AdmissionCheck", []creation{
		{"with parameters", "spec: {controllerName: a/b, parameters: {apiGroup: example.com, kind: Some-Kind, name: some}}", accepted, nil},
		{"no controllerName", "spec: {}", schema, words("spec.controllerName")},
		{"empty controllerName", `spec: {controllerName: ""}`, schema, words("spec.controllerName")},
		{"long controllerName", "spec: {controllerName: " + longName + "}", schema, words("spec.controllerName")},
		{"parameters without apiGroup", "spec: {controllerName: c, parameters: {kind: K, name: some}}", schema, words("spec.parameters.apiGroup")},
		{"parameters without kind", "spec: {controllerName: c, parameters: {apiGroup: g, name: some}}", schema, words("spec.parameters.kind")},
		{"parameters without name", "spec: {controllerName: c, parameters: {apiGroup: g, kind: K}}", schema, words("spec.parameters.name")},
		{"parameters with a bad apiGroup", "spec: {controllerName: c, parameters: {apiGroup: G_, kind: K, name: some}}", schema, words("spec.parameters.apiGroup")},
		{"parameters with a bad kind", "spec: {controllerName: c, parameters: {apiGroup: g, kind: K_, name: some}}", schema, words("spec.parameters.kind")},
		{"parameters with a bad name", "spec: {controllerName: c, parameters: {apiGroup: g, kind: K, name: N_}}", schema, words("spec.parameters.name")},
		{"parameters with a long name", "spec: {controllerName: c, parameters: {apiGroup: g, kind: K, name: " + strings.Repeat("a", 64) + "}}", schema, words("spec.parameters.name")},
	})
	runUpdates(t, "AdmissionCheck", []update{
		{"controllerName changes", "spec: {controllerName: a}", "", "spec: {controllerName: b}", false, schema, words("spec.controllerName")},
		{"parameters change", "spec: {controllerName: a, parameters: {apiGroup: g, kind: K, name: some}}", "", "spec: {parameters: {name: m}}", false, accepted, nil},
		{"parameters are removed", "spec: {controllerName: a, parameters: {apiGroup: g, kind: K, name: some}}", "", "spec: {parameters: null}", false, accepted, nil},
	})
}

func TestWorkloadPriorityClass(t *testing.T) {
	runCreations(t, "WorkloadPriorityClass", []creation{
		{"with value", "value: 5", accepted, nil},
		{"negative value", "value: -5", accepted, nil},
		{"no value", "description: nothing", schema, words("value")},
		{"value that is no integer", "value: high", schema, words("value")},
		{"value beyond 32 bits", "value: 3000000000", schema, words("value")},
		{"long description", "value: 1\ndescription: " + strings.Repeat("a", 2049), schema, words("description")},
		{"long description in v1beta1", "apiVersion: kueue.x-k8s.io/v1beta1\nvalue: 1\ndescription: " + strings.Repeat("a", 2049), accepted, nil},
	})
	runUpdates(t, "WorkloadPriorityClass", []update{
		{"value changes", "value: 5", "", "value: 6", false, accepted, nil},
	})
}

func TestProvisioningRequestConfig(t *testing.T) {
	selector := func(items string) string {
		return "spec: {provisioningClassName: c, podSetUpdates: {nodeSelector: " + items + "}}"
	}
	runCreations(t, "ProvisioningRequestConfig", []creation{
		{"smallest", "spec: {provisioningClassName: c}", accepted, nil},
		{"no provisioningClassName", "spec: {}", schema, words("spec.provisioningClassName")},
		{"bad provisioningClassName", "spec: {provisioningClassName: C_}", schema, words("spec.provisioningClassName")},
		{"empty provisioningClassName", `spec: {provisioningClassName: ""}`, schema, words("spec.provisioningClassName")},
		{"101 parameters", "spec: {provisioningClassName: c, parameters: {" + strings.Trim(list(101, "p#: v"), "[]") + "}}", schema, words("spec.parameters")},
		{"long parameter", "spec: {provisioningClassName: c, parameters: {p: " + strings.Repeat("a", 256) + "}}", schema, words("spec.parameters")},
		{"101 managedResources", "spec: {provisioningClassName: c, managedResources: " + list(101, "r#") + "}", schema, words("spec.managedResources")},
		{"managedResource twice", "spec: {provisioningClassName: c, managedResources: [r, r]}", schema, words("spec.managedResources[1]")},
		{"9 node selectors", selector(list(9, "{key: k#, valueFromProvisioningClassDetail: d}")), schema, words("spec.podSetUpdates.nodeSelector")},
		{"node selector twice", selector(list(2, "{key: k, valueFromProvisioningClassDetail: d}")), schema, words("spec.podSetUpdates.nodeSelector[1]")},
		{"node selector with a bad key", selector(`[{key: "a b", valueFromProvisioningClassDetail: d}]`), schema, words("spec.podSetUpdates.nodeSelector[0].key")},
		{"node selector without detail", selector("[{key: k}]"), schema, words("spec.podSetUpdates.nodeSelector[0].valueFromProvisioningClassDetail")},
		{"unknown podSetMergePolicy", "spec: {provisioningClassName: c, podSetMergePolicy: All}", schema, words("spec.podSetMergePolicy")},
		{"no retry", "spec: {provisioningClassName: c, retryStrategy: {backoffLimitCount: 0}}", accepted, nil},
	})
}

func TestMultiKueue(t *testing.T) {
	runCreations(t, "MultiKueueConfig", []creation{
		{"two clusters", "spec: {clusters: [a, b]}", accepted, nil},
		{"no clusters", "spec: {}", schema, words("spec.clusters")},
		{"empty list of clusters", "spec: {clusters: []}", schema, words("spec.clusters")},
		{"21 clusters", "spec: {clusters: " + list(21, "c#") + "}", schema, words("spec.clusters")},
		{"cluster twice", "spec: {clusters: [a, a]}", schema, words("spec.clusters")},
		{"cluster with a long name", "spec: {clusters: [" + strings.Repeat("a", 257) + "]}", schema, words("spec.clusters[0]")},
		{"unknown quotaManagement", "spec: {clusters: [a], quotaManagement: Guess}", schema, words("spec.quotaManagement")},
	})
	runCreations(t, "MultiKueueCluster", []creation{
		{"kubeConfig", "spec: {clusterSource: {kubeConfig: {location: l}}}", accepted, nil},
		{"no source", "spec: {}", schema, words("spec.clusterSource")},
		{"empty source", "spec: {clusterSource: {}}", schema, words("spec.clusterSource")},
		{"two sources", "spec: {clusterSource: {kubeConfig: {location: l}, clusterProfileRef: {name: some}}}", schema, words("spec.clusterSource")},
		{"no location", "spec: {clusterSource: {kubeConfig: {}}}", schema, words("spec.clusterSource.kubeConfig.location")},
		{"empty location", `spec: {clusterSource: {kubeConfig: {location: ""}}}`, schema, words("spec.clusterSource.kubeConfig.location")},
		{"long location", "spec: {clusterSource: {kubeConfig: {location: " + strings.Repeat("a", 257) + "}}}", schema, words("spec.clusterSource.kubeConfig.location")},
		{"unknown locationType", "spec: {clusterSource: {kubeConfig: {location: l, locationType: Air}}}", schema, words("spec.clusterSource.kubeConfig.locationType")},
		{"profile without a name", "spec: {clusterSource: {clusterProfileRef: {}}}", schema, words("spec.clusterSource.clusterProfileRef.name")},
		{"v1beta1 without kubeConfig", "apiVersion: kueue.x-k8s.io/v1beta1\nspec: {}", schema, words("spec.kubeConfig")},
	})
}

// TestJob has the rules about the metadata of Jobs; see the suite job for what they do.
func TestJob(t *testing.T) {
	job := func(labels, annotations, spec string) string {
		return "metadata: {labels: {" + labels + "}, annotations: {" + annotations + "}}\nspec: {" + spec +
			"template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}"
	}
	const queue = "kueue.x-k8s.io/queue-name"
	const seconds = "kueue.x-k8s.io/max-exec-time-seconds"
	const minimum = "kueue.x-k8s.io/job-min-parallelism"
	const equal = "kueue.x-k8s.io/job-completions-equal-parallelism"
	const gated = "kueue.x-k8s.io/admission-gated-by"
	const class = "kueue.x-k8s.io/priority-class"
	const elastic = "kueue.x-k8s.io/elastic-job"
	const prebuilt = "kueue.x-k8s.io/prebuilt-workload-name"
	gates := []creation{
		{"gate without domain", job(queue+": q", gated+": review", ""), webhook, words("metadata.annotations[" + gated + "]")},
		{"empty gate between others", job(queue+": q", gated+`: "a/b,,c/d"`, ""), webhook, words("metadata.annotations[" + gated + "]")},
		{"gate twice", job(queue+": q", gated+`: "a.b/c, a.b/c"`, ""), webhook, words("metadata.annotations[" + gated + "]")},
		{"long gate", job(queue+": q", gated+": a.b/"+strings.Repeat("c", 60), ""), webhook, words("metadata.annotations[" + gated + "]")},
		{"two gates", job(queue+": q", gated+`: "a.b/c, a.b/d"`, ""), accepted, nil},
	}
	runCreations(t, "Job", gates)
	runCreations(t, "Job", []creation{
		{"queue that is no name", job(queue+": Q_q", "", ""), webhook, words("metadata.labels["+queue+"]", "Invalid value")},
		{"prebuilt Workload that is no name", job(queue+": q, "+prebuilt+": P_p", "", ""), webhook, words("metadata.labels[" + prebuilt + "]")},
		{"no time", job(queue+": q, "+seconds+`: "0"`, "", ""), webhook, words("metadata.labels[" + seconds + "]")},
		{"time that is no number", job(queue+": q, "+seconds+`: "long"`, "", ""), webhook, words("metadata.labels[" + seconds + "]")},
		{"minimum that is no number", job(queue+": q", minimum+`: "few"`, "parallelism: 4, completions: 4, "), webhook, words("metadata.annotations[" + minimum + "]")},
		{"minimum of 0", job(queue+": q", minimum+`: "0"`, "parallelism: 4, completions: 4, "), webhook, words("metadata.annotations[" + minimum + "]")},
		{"minimum of all", job(queue+": q", minimum+`: "4"`, "parallelism: 4, completions: 4, "), webhook, words("metadata.annotations[" + minimum + "]")},
		{"minimum of some", job(queue+": q", minimum+`: "3"`, "parallelism: 4, completions: 4, "), accepted, nil},
		{"equality that is no boolean", job(queue+": q", equal+": maybe", ""), webhook, words("metadata.annotations[" + equal + "]")},
		{"equality of a Job without indexes", job(queue+": q", equal+`: "true"`, "parallelism: 4, completions: 4, "), webhook, words("Indexed")},
		{"equality of different numbers", job(queue+": q", equal+`: "true"`, "completionMode: Indexed, parallelism: 3, completions: 4, "), webhook, words("completions")},
	})
	runUpdates(t, "Job", []update{
		{"queue changes while it waits", job(queue+": q", "", ""), "", "metadata: {labels: {" + queue + ": r}}", false, accepted, nil},
		{"queue changes while it runs", job("", "", ""), "", "metadata: {labels: {" + queue + ": r}}", false, webhook, words("metadata.labels[" + queue + "]")},
		{"priority class is added while it runs", job("", "", ""), "", "metadata: {labels: {" + class + ": c}}", false, webhook, words("metadata.labels[" + class + "]")},
		{"priority class is removed", job(queue+": q, "+class+": c", "", ""), "", "metadata: {labels: {" + class + ": null}}", false, webhook, words("metadata.labels[" + class + "]")},
		{"priority class changes", job(queue+": q, "+class+": c", "", ""), "", "metadata: {labels: {" + class + ": d}}", false, accepted, nil},
		{"time changes while it waits", job(queue+": q, "+seconds+`: "5"`, "", ""), "", "metadata: {labels: {" + seconds + `: "6"}}`, false, accepted, nil},
		{"time changes when it is started", job(queue+": q, "+seconds+`: "5"`, "", ""), "", "metadata: {labels: {" + seconds + `: "6"}}` + "\nspec: {suspend: false}", false, webhook, words("metadata.labels[" + seconds + "]")},
		{"elastic changes", job(queue+": q", "", ""), "", "metadata: {annotations: {" + elastic + `: "true"}}`, false, webhook, words("metadata.annotations[" + elastic + "]")},
		{"gate is added", job(queue+": q", "", ""), "", "metadata: {annotations: {" + gated + ": a.b/c}}", false, webhook, words("metadata.annotations[" + gated + "]")},
		{"gate is exchanged", job(queue+": q", gated+": a.b/c", ""), "", "metadata: {annotations: {" + gated + ": a.b/d}}", false, webhook, words("metadata.annotations[" + gated + "]")},
		{"gate is removed", job(queue+": q", gated+`: "a.b/c,a.b/d"`, ""), "", "metadata: {annotations: {" + gated + ": a.b/d}}", false, accepted, nil},
		{"gates are removed", job(queue+": q", gated+`: "a.b/c,a.b/d"`, ""), "", "metadata: {annotations: {" + gated + ": null}}", false, accepted, nil},
	})
}
