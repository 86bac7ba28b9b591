package topology

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

func TestGangRunsInOneRackInTheOrderOfItsRanks(t *testing.T) {
	s := newSite(t, 2, 2, 4)
	s.submit(t, "first", 8, required+"="+rack)
	places := map[int]string{}
	for rank := range 8 {
		places[rank] = s.Host(0, rank/4)
	}
	s.expectPlaces(t, "first", places)
	// The next one finds the other rack, and is not torn.
	s.submit(t, "second", 6, required+"="+rack)
	for rank := range 6 {
		places[rank] = s.Host(1, rank/4)
	}
	delete(places, 6)
	delete(places, 7)
	s.expectPlaces(t, "second", places)
}

func TestGangWaitsWhileNoRackHasRoomAndIsToldSo(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 2, 2, 2)
	s.submit(t, "wide", 5, required+"="+rack)
	s.expectWaiting(t, "wide", "allows to fit only 4 out of 5 pod(s)")
	c.ExpectSuspended(t, s.Namespace, "wide", true)
	// Nobody else is blocked.
	s.submit(t, "narrow", 4, required+"="+rack)
	if racks := racksOf(s.expectRunning(t, "narrow", 4)); len(racks) != 1 {
		t.Errorf("4 pods are in the racks %v", racks)
	}
	// Capacity comes: the gang starts, all of it.
	s.Node(t, 2, 0, 3)
	s.Node(t, 2, 1, 3)
	if racks := racksOf(s.expectRunning(t, "wide", 5)); !slices.Equal(racks, []string{s.Pool + "-2"}) {
		t.Errorf("5 pods are in the racks %v, want the new one", racks)
	}
}

func TestPreferredLevelGivesWay(t *testing.T) {
	s := newSite(t, 2, 2, 2)
	s.submit(t, "wide", 6, "kueue.x-k8s.io/podset-preferred-topology="+rack)
	if racks := racksOf(s.expectRunning(t, "wide", 6)); len(racks) != 2 {
		t.Errorf("6 pods are in the racks %v, want both", racks)
	}
}

func TestSlicesStayWhole(t *testing.T) {
	s := newSite(t, 2, 2, 3)
	s.submit(t, "sliced", 8, "kueue.x-k8s.io/podset-slice-required-topology="+host,
		"kueue.x-k8s.io/podset-slice-size=2")
	count := map[string]int{}
	for _, node := range s.expectRunning(t, "sliced", 8) {
		count[node]++
	}
	for node, pods := range count {
		if pods%2 != 0 {
			t.Errorf("node %s has %d pods of slices of 2", node, pods)
		}
	}
}

func TestPodsWithoutAWishArePlacedTooAndTheJobIsRestored(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 1, 1, 4)
	s.submit(t, "plain", 2)
	s.expectRunning(t, "plain", 2)
	job := c.Get(t, harness.JobKind, s.Namespace, "plain")
	const mark = "kueue.x-k8s.io/podset-unconstrained-topology"
	template := []string{"spec", "template", "metadata", "annotations", mark}
	if have := harness.Field(job, template...); have != "true" {
		t.Errorf("the template of a placed Job has %s=%q", mark, have)
	}
	workload, err := c.WorkloadOf(t.Context(), s.Namespace, "plain")
	if err != nil {
		t.Fatal(err)
	}
	c.MustPatch(t, kueue("Workload"), s.Namespace, workload.GetName(), `{"spec":{"active":false}}`)
	harness.Eventually(t, "the template is as it was", func() error {
		job, err := c.Fetch(t.Context(), harness.JobKind, s.Namespace, "plain")
		if err != nil {
			return err
		}
		gates, _, _ := unstructured.NestedSlice(job.Object, "spec", "template", "spec", "schedulingGates")
		if harness.Field(job, "spec", "suspend") != "true" || len(gates) > 0 || harness.Field(job, template...) != "" {
			return fmt.Errorf("its spec is %v", job.Object["spec"])
		}
		return nil
	})
	c.MustPatch(t, kueue("Workload"), s.Namespace, workload.GetName(), `{"spec":{"active":true}}`)
	s.expectRunning(t, "plain", 2)
}

func TestPodGroupGoesByIndex(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 1, 2, 2)
	for i := range 4 {
		c.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: Pod
metadata:
  name: g-%[1]d
  namespace: %[2]s
  labels: {kueue.x-k8s.io/queue-name: %[3]s, kueue.x-k8s.io/pod-group-name: g, example.com/index: "%[1]d"}
  annotations:
    kueue.x-k8s.io/pod-group-total-count: "4"
    kueue.x-k8s.io/pod-group-pod-index-label: example.com/index
    kueue.x-k8s.io/podset-required-topology: example.com/rack
spec:
  containers: [{name: main, image: registry.example/app:1, resources: {requests: {cpu: "1"}}}]
`, 3-i, s.Namespace, s.Local))
	}
	for i := range 4 {
		harness.Eventually(t, fmt.Sprintf("pod g-%d runs on its node", i), func() error {
			pod, err := c.Fetch(t.Context(), podKind, s.Namespace, fmt.Sprintf("g-%d", i))
			if err != nil {
				return err
			}
			node, phase := harness.Field(pod, "spec", "nodeName"), harness.Field(pod, "status", "phase")
			if node != s.Host(0, i/2) || phase != "Running" {
				return fmt.Errorf("it is %s on %q, want %q", phase, node, s.Host(0, i/2))
			}
			return nil
		})
	}
}

func TestFailedNodeIsReplacedInTheSameRack(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 2, 3, 2)
	s.submit(t, "gang", 4, required+"="+rack)
	s.expectPlaces(t, "gang", map[int]string{0: s.Host(0, 0), 1: s.Host(0, 0), 2: s.Host(0, 1), 3: s.Host(0, 1)})
	c.Delete(t, harness.NodeKind, "", s.Host(0, 1))
	// What the garbage collector of pods does a minute later.
	c.Kubectl(t, "delete", "pods", "--namespace", s.Namespace, "--field-selector", "spec.nodeName="+s.Host(0, 1), "--force", "--grace-period=0")
	s.expectPlaces(t, "gang", map[int]string{0: s.Host(0, 0), 1: s.Host(0, 0), 2: s.Host(0, 2), 3: s.Host(0, 2)})
	workload := c.ExpectWorkload(t, s.Namespace, "gang", "Admitted", "True", "")
	if harness.ConditionOf(workload, "Evicted").Status == "True" {
		t.Error("the gang was evicted")
	}
}

func TestGangWithoutReplacementIsRequeuedWhole(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 1, 2, 2)
	s.submit(t, "gang", 4, required+"="+rack)
	s.expectRunning(t, "gang", 4)
	c.Delete(t, harness.NodeKind, "", s.Host(0, 1))
	c.ExpectEvent(t, s.Namespace, "Workload", workloadName(t, s, "gang"), "EvictedDueToNodeFailures")
	c.ExpectWorkload(t, s.Namespace, "gang", "QuotaReserved", "False", "")
	c.ExpectSuspended(t, s.Namespace, "gang", true)
	s.Node(t, 0, 1, 2)
	s.expectRunning(t, "gang", 4)
}

func workloadName(t *testing.T, s site, job string) string {
	t.Helper()
	workload, err := harness.Shared.WorkloadOf(t.Context(), s.Namespace, job)
	if err != nil {
		t.Fatal(err)
	}
	return workload.GetName()
}

func TestRefusedAnnotations(t *testing.T) {
	s := newSite(t, 0, 0, 0)
	const prefix = "kueue.x-k8s.io/podset-"
	for _, row := range []struct {
		name        string
		annotations []string
		words       string
	}{
		{"two wishes", []string{"required-topology=rack", "preferred-topology=rack"}, "annotations"},
		{"no label", []string{"required-topology=not a label"}, "required-topology"},
		{"no boolean", []string{"unconstrained-topology=maybe"}, "unconstrained-topology"},
		{"a size alone", []string{"required-topology=rack", "slice-size=2"}, "slice-size"},
		{"a slice without size", []string{"slice-required-topology=rack"}, "slice-size"},
		{"a negative size", []string{"slice-required-topology=rack", "slice-size=-1"}, "slice-size"},
		{"more than the pods", []string{"slice-required-topology=rack", "slice-size=9"}, "slice-size"},
		{"a group without a wish", []string{"group-name=g"}, "group-name"},
		{"a group with a number", []string{"required-topology=rack", "group-name=7"}, "group-name"},
		{"layers that do not divide", []string{
			`slice-required-topology-constraints=[{"topology":"rack","size":3},{"topology":"host","size":2}]`},
			"slice-required-topology-constraints"},
	} {
		t.Run(row.name, func(t *testing.T) {
			annotations := []string{}
			for _, pair := range row.annotations {
				annotations = append(annotations, prefix+pair)
			}
			_, err := harness.Shared.Create(t.Context(), s.gang(harness.Name("bad"), 4, annotations...))
			if err == nil || !strings.Contains(err.Error(), "spec.template.metadata.annotations") ||
				!strings.Contains(err.Error(), row.words) {
				t.Errorf("the answer is %v, want one that names the annotation", err)
			}
		})
	}
}

func TestTopologyStaysWhileAFlavorNamesIt(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 0, 0, 0)
	gvk := kueue("Topology")
	harness.Eventually(t, "the Topology has a finalizer", func() error {
		object, err := c.Fetch(t.Context(), gvk, "", s.Pool)
		if err == nil && len(object.GetFinalizers()) == 0 {
			return fmt.Errorf("it has none")
		}
		return err
	})
	c.Kubectl(t, "delete", "topologies.kueue.x-k8s.io", s.Pool, "--wait=false")
	harness.Throughout(t, 2*time.Second, "the Topology is there", func() error {
		_, err := c.Fetch(t.Context(), gvk, "", s.Pool)
		return err
	})
	c.Kubectl(t, "delete", "localqueue", "--namespace", s.Namespace, s.Local)
	c.Kubectl(t, "delete", "clusterqueue", s.Cluster)
	c.Kubectl(t, "delete", "resourceflavor", s.Flavor)
	harness.Eventually(t, "the Topology is gone", func() error {
		if _, err := c.Fetch(t.Context(), gvk, "", s.Pool); err == nil {
			return fmt.Errorf("it is there")
		}
		return nil
	})
}

// TestExamples applies examples/topology as they are, with nodes that they fit.
func TestExamples(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	for i := range 2 {
		name := fmt.Sprintf("metal-%d", i)
		c.MustCreate(t, exampleNode(name, 4, `example.com/room: east, example.com/rack: east-3, example.com/pool: cpu`))
	}
	for i := range 8 {
		c.MustCreate(t, exampleNode(fmt.Sprintf("gke-%d", i), 96, fmt.Sprintf(
			`cloud.google.com/gke-nodepool: gpu, cloud.google.com/gce-topology-block: b0, `+
				`cloud.google.com/gce-topology-subblock: s0, cloud.google.com/gce-topology-host: h%d`, i)))
	}
	for _, name := range []string{"gke", "bare-metal"} {
		c.Kubectl(t, "apply", "--filename", filepath.Join(harness.Root(), "examples", "topology", name+".yaml"))
	}
	metal := site{harness.Site{Queue: harness.Queue{Namespace: "team-racks"}}}
	for _, job := range []string{"solver", "pairs"} {
		c.ExpectFinished(t, metal.Namespace, job)
	}
	gke := site{harness.Site{Queue: harness.Queue{Namespace: "team-gke"}}}
	for rank, node := range gke.expectRunning(t, "train", 8) {
		if want := fmt.Sprintf("gke-%d", rank); node != want {
			t.Errorf("rank %d runs on %s, want %s", rank, node, want)
		}
	}
}

func exampleNode(name string, cpu int, labels string) *unstructured.Unstructured {
	return harness.Parsef(`
apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {kubernetes.io/hostname: %[1]s, %[2]s}
status:
  allocatable: {cpu: "%[3]d", memory: 2Ti, pods: "110", nvidia.com/gpu: "8"}
  capacity: {cpu: "%[3]d", memory: 2Ti, pods: "110", nvidia.com/gpu: "8"}
`, name, labels, cpu)
}
