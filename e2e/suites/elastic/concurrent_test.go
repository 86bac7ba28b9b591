package elastic

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// pair is a queue with four CPUs in each of two flavors, which are tried at the same time.
type pair struct {
	harness.Queue
	better, worse string
}

// variantsCanBeMade waits until the API server takes Workloads that Workloads own: one that has just
// been given the definitions refuses them for a while (admission plugin
// OwnerReferencesPermissionEnforcement), and the controller tries again after longer and longer pauses.
func variantsCanBeMade(t *testing.T) {
	t.Helper()
	c := harness.Shared
	owned := harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata:
  name: owned
  namespace: default
  ownerReferences: [{apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, name: owner, uid: 00000000-0000-4000-8000-000000000000, controller: true, blockOwnerDeletion: true}]
spec: {podSets: [{name: main, count: 1, template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}]}
`)
	client, err := c.Resource(owned.GroupVersionKind(), "default")
	if err != nil {
		t.Fatal(err)
	}
	harness.EventuallyWithin(t, 2*harness.Patience, "Workloads may own Workloads", func() error {
		_, err := client.Create(t.Context(), owned, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

func newPair(t *testing.T, mode string) pair {
	t.Helper()
	c := harness.Shared
	variantsCanBeMade(t)
	p := pair{harness.Queue{Namespace: c.Namespace(t), Local: "main", Cluster: harness.Name("cq")}, harness.Name("better"), harness.Name("worse")}
	for flavor, label := range map[string]string{p.better: "topology.sluice.dev/block: block-0", p.worse: "kubernetes.io/arch: amd64"} {
		c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: %s}, spec: {nodeLabels: {%s}}}", flavor, label))
	}
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  concurrentAdmissionPolicy: {migration: {mode: %s}}
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: %s, resources: [{name: cpu, nominalQuota: 4}]}
    - {name: %s, resources: [{name: cpu, nominalQuota: 4}]}
`, p.Cluster, mode, p.better, p.worse))
	c.MustCreate(t, harness.LocalQueue(p.Namespace, p.Local, p.Cluster))
	return p
}

// variantOf fits the Workload that tries a flavor for the Workload of a Job.
func variantOf(parent *unstructured.Unstructured, flavor string) harness.Fits {
	return func(object *unstructured.Unstructured) bool {
		return harness.OwnedBy(parent.GetName())(object) &&
			object.GetAnnotations()["kueue.x-k8s.io/workload-allowed-resource-flavors"] == flavor
	}
}

// in fits a Workload that is admitted in a flavor.
func in(flavor string) harness.Fits {
	return func(object *unstructured.Unstructured) bool {
		assignments, _, _ := unstructured.NestedSlice(object.Object, "status", "admission", "podSetAssignments")
		if len(assignments) != 1 || !harness.Having("Admitted=True")(object) {
			return false
		}
		have, _, _ := unstructured.NestedString(assignments[0].(map[string]any), "flavors", "cpu")
		return have == flavor
	}
}

func inactive(object *unstructured.Unstructured) bool {
	return harness.Field(object, "spec", "active") == "false"
}

func active(object *unstructured.Unstructured) bool { return !inactive(object) }

// starts waits until the Job runs on the nodes of a flavor, with both of its Workloads admitted there,
// and returns the Job's.
func (p pair) starts(t *testing.T, job, flavor string) *unstructured.Unstructured {
	t.Helper()
	c := harness.Shared
	parent := awaitWorkload(t, p.Namespace, job+" is admitted in "+flavor, harness.OwnedBy(job), in(flavor))
	awaitWorkload(t, p.Namespace, "the variant of "+job, variantOf(parent, flavor), in(flavor))
	label, value := "topology.sluice.dev/block", "block-0"
	if flavor == p.worse {
		label, value = "kubernetes.io/arch", "amd64"
	}
	harness.Eventually(t, job+" runs on nodes of "+flavor, func() error {
		object, err := c.Fetch(t.Context(), harness.JobKind, p.Namespace, job)
		if err != nil {
			return err
		}
		selector, _, _ := unstructured.NestedStringMap(object.Object, "spec", "template", "spec", "nodeSelector")
		if harness.Field(object, "spec", "suspend") != "false" || len(selector) != 1 || selector[label] != value {
			return fmt.Errorf("suspend is %s, the node selector %v", harness.Field(object, "spec", "suspend"), selector)
		}
		return nil
	})
	return parent
}

// expectUsage waits for the CPUs that are used in both flavors.
func (p pair) expectUsage(t *testing.T, want string) {
	t.Helper()
	harness.Eventually(t, "the usage of "+p.Cluster, func() error {
		object, err := harness.Shared.Fetch(t.Context(), kueue("ClusterQueue"), "", p.Cluster)
		if err != nil {
			return err
		}
		have := []string{}
		flavors, _, _ := unstructured.NestedSlice(object.Object, "status", "flavorsUsage")
		for _, flavor := range flavors {
			resources, _, _ := unstructured.NestedSlice(flavor.(map[string]any), "resources")
			for _, item := range resources {
				have = append(have, fmt.Sprint(item.(map[string]any)["total"]))
			}
		}
		if text := strings.Join(have, " and "); text != want {
			return fmt.Errorf("%s are used, want %s", text, want)
		}
		return nil
	})
}

// TestMigrationToABetterFlavor: a Job has a Workload for each flavor. It starts in the best one that has
// room, and moves when a better one has.
func TestMigrationToABetterFlavor(t *testing.T) {
	c := cluster(t)
	p := newPair(t, "TryPreferredFlavors")
	h := c.Remember(t, kueue("Workload"), p.Namespace)
	first := c.Submit(t, p.Queue, harness.Job{CPU: "3"})
	parent := p.starts(t, first, p.better)
	if parent.GetLabels()["kueue.x-k8s.io/concurrent-admission-parent"] != "true" {
		t.Errorf("labels of the parent are %v", parent.GetLabels())
	}
	awaitWorkload(t, p.Namespace, "the worse variant is given up", variantOf(parent, p.worse), inactive)
	c.ExpectEvent(t, p.Namespace, "Workload", parent.GetName(), "CreatedVariant")

	second := c.Submit(t, p.Queue, harness.Job{CPU: "3"})
	parent = p.starts(t, second, p.worse)
	awaitWorkload(t, p.Namespace, "the better variant waits", variantOf(parent, p.better), active,
		harness.Saying("WaitingForQuota", p.better, "2 more needed"))
	p.expectUsage(t, "3 and 3")

	c.Delete(t, harness.JobKind, p.Namespace, first)
	p.starts(t, second, p.better)
	h.Await(t, "the worse variant made room", 0, variantOf(parent, p.worse), harness.Having("Evicted=True FlavorMigration"))
	awaitWorkload(t, p.Namespace, "the worse variant is given up", variantOf(parent, p.worse), inactive)
	p.expectUsage(t, "3 and 0")

	_, err := c.Run(t.Context(), "", "kubectl", "patch", "clusterqueues.kueue.x-k8s.io", p.Cluster, "--type=merge", "--patch",
		`{"spec":{"concurrentAdmissionPolicy":{"migration":{"mode":"RetainFirstAdmission"}}}}`)
	if err == nil || !strings.Contains(err.Error(), "spec.concurrentAdmissionPolicy") {
		t.Errorf("the policy must not change, but: %v", err)
	}
}

// TestFirstAdmissionIsRetained: what was admitted stays where it is, though a better flavor has room.
func TestFirstAdmissionIsRetained(t *testing.T) {
	c := cluster(t)
	p := newPair(t, "RetainFirstAdmission")
	first := c.Submit(t, p.Queue, harness.Job{CPU: "3"})
	p.starts(t, first, p.better)
	second := c.Submit(t, p.Queue, harness.Job{CPU: "3"})
	parent := p.starts(t, second, p.worse)
	awaitWorkload(t, p.Namespace, "the better variant is given up", variantOf(parent, p.better), inactive)

	c.Delete(t, harness.JobKind, p.Namespace, first)
	p.expectUsage(t, "0 and 3")
	keepsRunning(t, p.Namespace, second)
	p.starts(t, second, p.worse)
}

// TestOneVariantPreempts: where no flavor has room only one variant may preempt, the best; the other one
// waits behind its gate.
func TestOneVariantPreempts(t *testing.T) {
	c := cluster(t)
	p := newPair(t, "TryPreferredFlavors")
	first := c.Submit(t, p.Queue, harness.Job{CPU: "4"})
	p.starts(t, first, p.better)
	second := c.Submit(t, p.Queue, harness.Job{CPU: "4"})
	p.starts(t, second, p.worse)

	h := c.Remember(t, kueue("Workload"), p.Namespace)
	urgent := c.Submit(t, p.Queue, harness.Job{CPU: "2", Labels: []string{priority(t, 10)}})
	c.ExpectSuspended(t, p.Namespace, first, true)
	parent := p.starts(t, urgent, p.better)
	c.ExpectEvent(t, p.Namespace, "Workload", parent.GetName(), "PreemptionUngatedVariant")
	h.Await(t, "the worse variant is held back", 0, variantOf(parent, p.worse), harness.Having("BlockedOnPreemptionGates=True PreemptionGated"))
	keepsRunning(t, p.Namespace, second)
	p.expectUsage(t, "2 and 4")
}
