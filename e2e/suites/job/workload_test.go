package job

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

func contains(text, word string) bool { return strings.Contains(text, word) }

func TestDeactivation(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	job := fill(t, q, "2")
	workload := workloadName(t, q.Namespace, job)
	c.MustPatch(t, kueue("Workload"), q.Namespace, workload, `{"spec":{"active":false}}`)
	c.ExpectSuspended(t, q.Namespace, job, true)
	c.ExpectWorkload(t, q.Namespace, job, "Evicted", "True", "Deactivated")
	c.ExpectWorkload(t, q.Namespace, job, "QuotaReserved", "False", "")
	expectUsage(t, q, "cpu", "0")
	expectEvent(t, q.Namespace, "Workload", workload, "EvictedDueToDeactivated")

	other := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, other, false)
	staysSuspended(t, q.Namespace, job)
	c.MustPatch(t, kueue("Workload"), q.Namespace, workload, `{"spec":{"active":true}}`)
	expectMessage(t, q.Namespace, job, "WaitingForQuota")
	c.Delete(t, harness.JobKind, q.Namespace, other)
	c.ExpectSuspended(t, q.Namespace, job, false)
}

func TestMaximumExecutionTime(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{Labels: []string{"kueue.x-k8s.io/max-exec-time-seconds=3"}})
	// Three seconds may be over before anybody looks: what happened is in the events.
	workload := c.ExpectWorkload(t, q.Namespace, job, "Evicted", "True", "DeactivatedDueToMaximumExecutionTimeExceeded")
	expectEvent(t, q.Namespace, "Job", job, "Started")
	if have := harness.Field(workload, "spec", "active"); have != "false" {
		t.Errorf("active is %s", have)
	}
	c.ExpectSuspended(t, q.Namespace, job, true)
	expectUsage(t, q, "cpu", "0")
	expectEvent(t, q.Namespace, "Workload", workload.GetName(), "MaximumExecutionTimeExceeded")
}

// twoFlavors is a queue with two CPUs in each of two flavors, the first on labelled and tainted nodes.
func twoFlavors(t *testing.T) (harness.Queue, string, string) {
	t.Helper()
	c := harness.Shared
	q := harness.Queue{Namespace: c.Namespace(t), Local: "main", Cluster: harness.Name("cq")}
	first, second := harness.Name("first"), harness.Name("second")
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec:
  nodeLabels: {topology.sluice.dev/block: block-0}
  tolerations: [{key: example.com/reserved, operator: Exists, effect: NoSchedule}]
`, first))
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec: {nodeLabels: {kubernetes.io/arch: amd64}}
`, second))
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: %s, resources: [{name: cpu, nominalQuota: 2}]}
    - {name: %s, resources: [{name: cpu, nominalQuota: 2}]}
`, q.Cluster, first, second))
	c.MustCreate(t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	return q, first, second
}

// TestFlavorsInOrder has two flavors, of which the first fills up first.
func TestFlavorsInOrder(t *testing.T) {
	c := cluster(t)
	q, first, second := twoFlavors(t)
	one := fill(t, q, "2")
	two := fill(t, q, "2")
	expectFlavor(t, q, one, first)
	expectFlavor(t, q, two, second)
	object := c.Get(t, harness.JobKind, q.Namespace, one)
	if have := template(object, "spec", "nodeSelector", "topology.sluice.dev/block"); have != "block-0" {
		t.Errorf("the node selector of the first flavor is %q", have)
	}
	if have := template(object, "spec", "tolerations"); !contains(have, "example.com/reserved") {
		t.Errorf("the tolerations of the first flavor are %q", have)
	}
	three := c.Submit(t, q, harness.Job{CPU: "2"})
	expectMessage(t, q.Namespace, three, "WaitingForQuota", first, second)

	// What the flavor put into the pod template goes when the Job is stopped.
	workload := workloadName(t, q.Namespace, one)
	c.MustPatch(t, kueue("Workload"), q.Namespace, workload, `{"spec":{"active":false}}`)
	c.ExpectSuspended(t, q.Namespace, one, true)
	harness.Eventually(t, "the pod template is as it was", func() error {
		object, err := c.Fetch(t.Context(), harness.JobKind, q.Namespace, one)
		if err != nil {
			return err
		}
		if have := template(object, "spec", "nodeSelector") + template(object, "spec", "tolerations"); have != "" && have != "map[][]" && have != "map[]" && have != "[]" {
			return fmt.Errorf("it has %s", have)
		}
		return nil
	})
	c.ExpectSuspended(t, q.Namespace, three, false)
	expectFlavor(t, q, three, first)
}

func expectFlavor(t *testing.T, q harness.Queue, job, want string) {
	t.Helper()
	workload := harness.Shared.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "")
	assignments, _, _ := unstructured.NestedSlice(workload.Object, "status", "admission", "podSetAssignments")
	if len(assignments) != 1 {
		t.Fatalf("%d assignments", len(assignments))
	}
	have, _, _ := unstructured.NestedString(assignments[0].(map[string]any), "flavors", "cpu")
	if have != want {
		t.Errorf("Job %s got flavor %s, want %s", job, have, want)
	}
}

func TestTaintAndAffinityOfFlavors(t *testing.T) {
	c := cluster(t)
	q := harness.Queue{Namespace: c.Namespace(t), Local: "main", Cluster: harness.Name("cq")}
	tainted, plain := harness.Name("tainted"), harness.Name("plain")
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec:
  nodeLabels: {kubernetes.io/arch: amd64}
  nodeTaints: [{key: example.com/spot, value: "true", effect: NoSchedule}]
`, tainted))
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: %s}
spec: {nodeLabels: {kubernetes.io/arch: arm64}}
`, plain))
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: %s, resources: [{name: cpu, nominalQuota: 2}]}
    - {name: %s, resources: [{name: cpu, nominalQuota: 2}]}
`, q.Cluster, tainted, plain))
	c.MustCreate(t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))

	submit := func(name, patch string) string {
		object := harness.Job{Name: name, Namespace: q.Namespace, Queue: q.Local}.Object()
		for key, value := range harness.Parse(patch).Object {
			harness.Set(object, value, "spec", "template", "spec", key)
		}
		c.MustCreate(t, object)
		return name
	}
	expectFlavor(t, q, submit("intolerant", `{}`), plain)
	expectFlavor(t, q, submit("tolerant", `{tolerations: [{key: example.com/spot, operator: Equal, value: "true", effect: NoSchedule}]}`), tainted)
	expectFlavor(t, q, submit("selects", `{nodeSelector: {kubernetes.io/arch: arm64}}`), plain)
	neither := submit("neither", `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]}]}}}}`)
	expectMessage(t, q.Namespace, neither, "NoMatchingFlavor", "example.com/spot", tainted, plain)
}

// TestRequestsInFull counts everything that a pod takes from its node.
func TestRequestsInFull(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "100", Quotas: []string{"memory=100Gi", "pods=50"}})
	runtime := harness.Name("heavy")
	c.MustCreate(t, harness.Parsef("{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: %s}, handler: heavy, overhead: {podFixed: {cpu: 250m}}}", runtime))
	c.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: LimitRange
metadata: {name: defaults, namespace: %s}
spec: {limits: [{type: Container, defaultRequest: {memory: 1Gi}}]}
`, q.Namespace))
	pod := harness.Parsef(`
restartPolicy: Never
runtimeClassName: %s
initContainers:
- {name: side, image: i, restartPolicy: Always, resources: {requests: {cpu: 500m}}}
- {name: init, image: i, resources: {requests: {cpu: 3}}}
containers:
- {name: a, image: i, resources: {requests: {cpu: 1}}}
- {name: b, image: i, resources: {requests: {cpu: 1}}}
`, runtime).Object
	// The sidecar runs beside the init container: 0.5 + 3, which is more than 0.5 + 1 + 1; the
	// overhead adds 0.25; two pods take 7.5. Memory comes from the LimitRange, for the larger of
	// sidecar + init and sidecar + both containers.
	want := map[string]string{"cpu": "7500m", "memory": "6Gi", "pods": "2"}
	// Watches of different kinds have no common order: the first Job may come before the LimitRange.
	harness.Eventually(t, "a Job is counted in full", func() error {
		object := harness.Job{Name: harness.Name("full"), Namespace: q.Namespace, Queue: q.Local, Pods: 2}.Object()
		harness.Set(object, pod, "spec", "template", "spec")
		c.MustCreate(t, object)
		workload := c.ExpectWorkload(t, q.Namespace, object.GetName(), "Admitted", "True", "")
		assignments, _, _ := unstructured.NestedSlice(workload.Object, "status", "admission", "podSetAssignments")
		usage, _, _ := unstructured.NestedStringMap(assignments[0].(map[string]any), "resourceUsage")
		if !maps.Equal(usage, want) {
			c.Delete(t, harness.JobKind, q.Namespace, object.GetName())
			return fmt.Errorf("usage is %v, want %v", usage, want)
		}
		return nil
	})
	expectUsage(t, q, "cpu", "7500m")
	expectUsage(t, q, "pods", "2")
}

func TestPrebuiltWorkload(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := harness.Job{Name: "prebuilt", Namespace: q.Namespace, Queue: q.Local,
		Labels: []string{"kueue.x-k8s.io/prebuilt-workload-name=made-by-hand"}}.Object()
	c.MustCreate(t, job)
	staysSuspended(t, q.Namespace, "prebuilt")
	podSet := map[string]any{"name": "main", "count": int64(1), "template": job.Object["spec"].(map[string]any)["template"]}
	object := harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: made-by-hand, namespace: %s}, spec: {queueName: %s}}", q.Namespace, q.Local)
	harness.Set(object, []any{podSet}, "spec", "podSets")
	c.MustCreate(t, object)
	c.ExpectSuspended(t, q.Namespace, "prebuilt", false)
	workload := c.ExpectWorkload(t, q.Namespace, "prebuilt", "Admitted", "True", "")
	if workload.GetName() != "made-by-hand" {
		t.Errorf("the Job owns %s", workload.GetName())
	}
}

func TestMinimumParallelismIsKept(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	object := harness.Job{Name: "partial", Namespace: q.Namespace, Queue: q.Local, Pods: 3}.Object()
	object.SetAnnotations(map[string]string{"kueue.x-k8s.io/job-min-parallelism": "2"})
	c.MustCreate(t, object)
	workload := c.ExpectWorkload(t, q.Namespace, "partial", "Admitted", "True", "")
	sets, _, _ := unstructured.NestedSlice(workload.Object, "spec", "podSets")
	if have := fmt.Sprint(sets[0].(map[string]any)["minCount"]); have != "2" {
		t.Errorf("minCount is %s", have)
	}
}

func TestAdmissionGate(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	object := harness.Job{Name: "gated", Namespace: q.Namespace, Queue: q.Local}.Object()
	object.SetAnnotations(map[string]string{"kueue.x-k8s.io/admission-gated-by": "example.com/review"})
	c.MustCreate(t, object)
	expectMessage(t, q.Namespace, "gated", "AdmissionGated", "example.com/review")
	staysSuspended(t, q.Namespace, "gated")
	c.MustPatch(t, harness.JobKind, q.Namespace, "gated", `{"metadata":{"annotations":{"kueue.x-k8s.io/admission-gated-by":null}}}`)
	c.ExpectSuspended(t, q.Namespace, "gated", false)
}

// TestWorkloadShape has the name that other programs compute for a Job.
func TestWorkloadShape(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{Name: "shape"})
	workload := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "")
	// The admission is on record before the Job starts: its template comes with the start.
	c.ExpectSuspended(t, q.Namespace, job, false)
	uid := string(c.Get(t, harness.JobKind, q.Namespace, job).GetUID())
	if want := "job-shape-" + hash("Job\nbatch\nshape\n"+uid); workload.GetName() != want {
		t.Errorf("the Workload is called %s, want %s", workload.GetName(), want)
	}
	if have := workload.GetLabels()["kueue.x-k8s.io/job-uid"]; have != uid {
		t.Errorf("label job-uid is %q", have)
	}
	if have := workload.GetFinalizers(); len(have) != 1 || have[0] != "kueue.x-k8s.io/resource-in-use" {
		t.Errorf("finalizers are %v", have)
	}
	object := c.Get(t, harness.JobKind, q.Namespace, job)
	labels, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "metadata", "labels")
	for key, want := range map[string]string{"kueue.x-k8s.io/podset": "main", "kueue.x-k8s.io/local-queue-name": q.Local, "kueue.x-k8s.io/cluster-queue-name": q.Cluster} {
		if labels[key] != want {
			t.Errorf("pod label %s is %q, want %s", key, labels[key], want)
		}
	}
}
