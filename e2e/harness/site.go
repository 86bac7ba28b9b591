package harness

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Labels of the nodes of a Site: its levels.
const (
	BlockLabel = "example.com/block"
	RackLabel  = "example.com/rack"
	HostLabel  = "kubernetes.io/hostname"
)

// NodeKind is the kind of nodes.
var NodeKind = Parse("{apiVersion: v1, kind: Node}").GroupVersionKind()

// Site is a queue whose one flavor is a pool of fake nodes in racks, with a topology.
type Site struct {
	Queue
	Pool string
	// BlockRacks is the number of racks in a block; 0: the topology has no blocks.
	BlockRacks int
}

// NewSite has racks with so many hosts each, of so many CPUs each, and quota for all of them.
func NewSite(t *testing.T, racks, hosts, cpu int) Site {
	t.Helper()
	return newSite(t, Site{Pool: Name("pool")}, racks, hosts, cpu)
}

// NewBlocks is NewSite with so many blocks of so many racks each. The racks are counted over all.
func NewBlocks(t *testing.T, blocks, racks, hosts, cpu int) Site {
	t.Helper()
	return newSite(t, Site{Pool: Name("pool"), BlockRacks: racks}, blocks*racks, hosts, cpu)
}

func newSite(t *testing.T, s Site, racks, hosts, cpu int) Site {
	t.Helper()
	c := Shared
	levels := fmt.Sprintf("{nodeLabel: %s}, {nodeLabel: %s}", RackLabel, HostLabel)
	if s.BlockRacks > 0 {
		levels = fmt.Sprintf("{nodeLabel: %s}, %s", BlockLabel, levels)
	}
	c.MustCreate(t, Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Topology
metadata: {name: %s}
spec: {levels: [%s]}
`, s.Pool, levels))
	for i := range racks {
		for j := range hosts {
			s.Node(t, i, j, cpu)
		}
	}
	s.Queue = c.NewQueue(t, QueueOptions{CPU: "1000", NoFlavor: true})
	flavor := Flavor(s.Flavor)
	Set(flavor, s.Pool, "spec", "topologyName")
	Set(flavor, map[string]any{"example.com/pool": s.Pool}, "spec", "nodeLabels")
	c.MustCreate(t, flavor)
	c.ExpectCondition(t, Kueue("ClusterQueue"), "", s.Cluster, "Active", "True", "")
	return s
}

// Host is the name of a node. Rack and host are counted from 0.
func (s Site) Host(inRack, number int) string {
	return fmt.Sprintf("%s-%d-%d", s.Pool, inRack, number)
}

// Node makes a fake node and waits until pods can go there.
func (s Site) Node(t *testing.T, inRack, number, cpu int) {
	t.Helper()
	name := s.Host(inRack, number)
	node := Parsef(`
apiVersion: v1
kind: Node
metadata:
  name: %[1]s
  annotations: {kwok.x-k8s.io/node: fake, node.alpha.kubernetes.io/ttl: "0"}
  labels: {example.com/pool: %[2]s, example.com/rack: %[2]s-rack-%[3]d, kubernetes.io/hostname: %[1]s}
status:
  allocatable: {cpu: "%[4]d", memory: 64Gi, pods: "110"}
  capacity: {cpu: "%[4]d", memory: 64Gi, pods: "110"}
`, name, s.Pool, inRack, cpu)
	if s.BlockRacks > 0 {
		Set(node, fmt.Sprintf("%s-block-%d", s.Pool, inRack/s.BlockRacks), "metadata", "labels", BlockLabel)
	}
	Shared.MustCreate(t, node)
	Eventually(t, "node "+name+" is ready and without the taint of new nodes", func() error {
		node, err := Shared.Fetch(t.Context(), NodeKind, "", name)
		if err != nil {
			return err
		}
		taints, _, _ := unstructured.NestedSlice(node.Object, "spec", "taints")
		if ConditionOf(node, "Ready").Status != "True" || len(taints) > 0 {
			return fmt.Errorf("its conditions are %v, its taints %v", node.Object["status"], taints)
		}
		return nil
	})
}
