package scale

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

const (
	block = "example.com/block"
	rack  = harness.RackLabel
	// Hosts in a rack, and pods that fit on a host.
	hosts, perHost = 40, 8
	racks          = 25 // in a block
)

// nodeCount is 5,000; an environment variable makes a quick run smaller.
func nodeCount(t *testing.T) int {
	t.Helper()
	return harness.CountFrom(t, "SLUICE_SCALE_NODES", 5000, 2*gang/perHost)
}

// nodeName sorts like the tree of the nodes.
func nodeName(i int) string {
	return fmt.Sprintf("big-%d-%02d-%02d", i/hosts/racks, i/hosts%racks, i%hosts)
}

func blockOf(node string) string { return node[:strings.LastIndex(node, "-")-3] }

// forest makes a flavor with so many nodes in three levels, and waits until they are ready.
func forest(t *testing.T, count int) harness.Queue {
	t.Helper()
	c := harness.Shared
	harness.Each(t, count, goroutines, func(i int) error {
		name := nodeName(i)
		_, err := c.Create(t.Context(), harness.Parsef(`
apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {example.com/pool: big, %[2]s: %[3]s, %[4]s: %[5]s, kubernetes.io/hostname: %[1]s}
status:
  allocatable: {cpu: "%[6]d", memory: 64Gi, pods: "110"}
  capacity: {cpu: "%[6]d", memory: 64Gi, pods: "110"}
`, name, block, blockOf(name), rack, name[:strings.LastIndex(name, "-")], perHost))
		return err
	})
	client, err := c.Resource(harness.NodeKind, "")
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Minute); ; {
		ready, err := readyNodes(t.Context(), client)
		if err == nil && ready == count {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d nodes are ready: %v", ready, count, err)
		}
		time.Sleep(3 * time.Second) // the list is long
	}
	q := c.NewQueue(t, harness.QueueOptions{CPU: "100000", NoFlavor: true})
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: big}
spec: {levels: [{nodeLabel: %s}, {nodeLabel: %s}, {nodeLabel: %s}]}
`, block, rack, harness.HostLabel))
	flavor := harness.Flavor(q.Flavor)
	harness.Set(flavor, "big", "spec", "topologyName")
	harness.Set(flavor, map[string]any{"example.com/pool": "big"}, "spec", "nodeLabels")
	c.MustCreate(t, flavor)
	c.ExpectCondition(t, harness.Kueue("ClusterQueue"), "", q.Cluster, "Active", "True", "")
	return q
}

// places are the live pods of a Job that run: rank -> node. It fails while there are fewer.
func places(ctx context.Context, namespace, name string) ([]string, error) {
	pods, err := harness.Shared.List(ctx, podKind, namespace, "batch.kubernetes.io/job-name="+name)
	if err != nil {
		return nil, err
	}
	nodes, run := make([]string, gang), 0
	for i := range pods {
		pod := &pods[i]
		if harness.Field(pod, "status", "phase") != "Running" || pod.GetDeletionTimestamp() != nil {
			continue
		}
		rank, err := strconv.Atoi(pod.GetLabels()[index])
		if err != nil {
			return nil, err
		}
		nodes[rank] = harness.Field(pod, "spec", "nodeName")
		run++
	}
	if run != gang || slices.Contains(nodes, "") {
		return nil, fmt.Errorf("%d of %d run", run, gang)
	}
	return nodes, nil
}

func expectRunning(t *testing.T, namespace, name string, ok func(nodes []string) error) []string {
	t.Helper()
	var nodes []string
	harness.EventuallyWithin(t, 10*time.Minute, "the pods of "+name+" run", func() error {
		found, err := places(t.Context(), namespace, name)
		if err == nil {
			err = ok(found)
		}
		nodes = found
		return err
	})
	return nodes
}

// expectNeighbours: one block, whole hosts, and ranks in the order of the tree.
func expectNeighbours(t *testing.T, nodes []string) {
	t.Helper()
	if !slices.IsSorted(nodes) {
		t.Errorf("ranks are not in the order of the nodes: %v", nodes)
	}
	used := slices.Compact(slices.Clone(nodes))
	if len(used) != gang/perHost {
		t.Errorf("%d hosts are used, want %d", len(used), gang/perHost)
	}
	if first, last := blockOf(used[0]), blockOf(used[len(used)-1]); first != last {
		t.Errorf("the pods are in the blocks %s and %s", first, last)
	}
}

// submit returns when the Job runs, and reports how long its admission took.
func submit(t *testing.T, q harness.Queue, name string) []string {
	t.Helper()
	c := harness.Shared
	ledger := c.Watch(t, q.Namespace, 0)
	began := time.Now()
	c.MustCreate(t, job(q, name, block))
	if err := ledger.Await(t.Context(), harness.Admitted, name); err != nil {
		t.Fatal(err)
	}
	admitted := time.Since(began)
	nodes := expectRunning(t, q.Namespace, name, func([]string) error { return nil })
	harness.Report(fmt.Sprintf("the %s gang of %d pods in one block", name, gang),
		"admitted after %s, runs after %.1f s", admitted.Round(time.Millisecond), time.Since(began).Seconds())
	return nodes
}

func TestThousandsOfNodes(t *testing.T) {
	c := harness.Shared
	count := nodeCount(t)
	began := time.Now()
	q := forest(t, count)
	harness.Report(fmt.Sprintf("%d nodes of kwok", count), "ready after %.0f s", time.Since(began).Seconds())
	memory := func(when string) {
		held, err := harness.ResidentMegabytes(c.Controller().Pid())
		if err != nil {
			t.Fatal(err)
		}
		harness.Report(fmt.Sprintf("memory of the controller with %d nodes, %s", count, when), "%d MB", held)
	}
	first := submit(t, q, "first")
	expectNeighbours(t, first)
	memory("one gang")
	second := submit(t, q, "second")
	expectNeighbours(t, second)
	for _, node := range second {
		if slices.Contains(first, node) {
			t.Fatalf("node %s has pods of both gangs", node)
		}
	}
	// A node of the first gang goes: it is whole again in its block, and the others stay.
	lost := first[gang-1]
	began = time.Now()
	c.Delete(t, harness.NodeKind, "", lost)
	c.Kubectl(t, "delete", "pods", "--namespace", q.Namespace, "--field-selector", "spec.nodeName="+lost, "--force", "--grace-period=0")
	repaired := expectRunning(t, q.Namespace, "first", func(nodes []string) error {
		if slices.Contains(nodes, lost) {
			return fmt.Errorf("pods are on %s", lost)
		}
		return nil
	})
	harness.Report("a node that is lost, until the gang is whole again", "%.1f s", time.Since(began).Seconds())
	for rank, node := range repaired {
		if first[rank] != lost && node != first[rank] {
			t.Errorf("rank %d moved from %s to %s", rank, first[rank], node)
		}
		if blockOf(node) != blockOf(first[0]) {
			t.Errorf("rank %d is on %s, outside of the block", rank, node)
		}
	}
	memory("two gangs")
}

// lister is what is needed of the client of nodes.
type lister interface {
	List(ctx context.Context, options metav1.ListOptions) (*unstructured.UnstructuredList, error)
}

// readyNodes counts those that pods can go to.
func readyNodes(ctx context.Context, client lister) (int, error) {
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "example.com/pool=big", ResourceVersion: "0"})
	if err != nil {
		return 0, err
	}
	ready := 0
	for i := range list.Items {
		taints, _, _ := unstructured.NestedSlice(list.Items[i].Object, "spec", "taints")
		if harness.ConditionOf(&list.Items[i], "Ready").Status == "True" && len(taints) == 0 {
			ready++
		}
	}
	return ready, nil
}
