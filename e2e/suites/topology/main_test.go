// Package topology checks gangs that must be close together on the real control plane: where their
// pods run and in which order, what they are told while they wait, what becomes of them when a node
// fails, and what the webhooks refuse. Each test has nodes of its own.
package topology

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

const (
	rack     = harness.RackLabel
	host     = harness.HostLabel
	required = "kueue.x-k8s.io/podset-required-topology"
	index    = "batch.kubernetes.io/job-completion-index"
)

var (
	podKind = harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
	kueue   = harness.Kueue
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "topology", Nodes: 1, PlainPods: true})
}

// site adds Jobs to a pool of nodes.
type site struct{ harness.Site }

// newSite is of one test, which runs beside others.
func newSite(t *testing.T, racks, hosts, cpu int) site {
	t.Helper()
	t.Parallel()
	return site{harness.NewSite(t, racks, hosts, cpu)}
}

// gang is an indexed Job of pods with one CPU each, with annotations of its template ("key=value").
func (s site) gang(name string, pods int, annotations ...string) *unstructured.Unstructured {
	object := harness.Job{Name: name, Namespace: s.Namespace, Queue: s.Local, Pods: pods}.Object()
	harness.Set(object, "Indexed", "spec", "completionMode")
	for _, pair := range annotations {
		key, value, _ := strings.Cut(pair, "=")
		harness.Set(object, value, "spec", "template", "metadata", "annotations", key)
	}
	return object
}

func (s site) submit(t *testing.T, name string, pods int, annotations ...string) {
	t.Helper()
	harness.Shared.MustCreate(t, s.gang(name, pods, annotations...))
}

// running are the live pods of a Job that are bound: index -> node. It fails while there are fewer.
func (s site) running(t *testing.T, job string, want int) (map[int]string, error) {
	pods, err := harness.Shared.List(t.Context(), podKind, s.Namespace, "batch.kubernetes.io/job-name="+job)
	if err != nil {
		return nil, err
	}
	places, states := map[int]string{}, []string{}
	for i := range pods {
		pod := &pods[i]
		phase, node := harness.Field(pod, "status", "phase"), harness.Field(pod, "spec", "nodeName")
		gates, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates")
		states = append(states, fmt.Sprintf("%s on %q %s, gates %v", pod.GetName(), node, phase, gates))
		if phase != "Running" || pod.GetDeletionTimestamp() != nil {
			continue
		}
		number, err := strconv.Atoi(pod.GetLabels()[index])
		if err != nil {
			return nil, err
		}
		places[number] = node
	}
	if len(places) != want {
		return nil, fmt.Errorf("%d of %d run: %s", len(places), want, strings.Join(states, "; "))
	}
	return places, nil
}

// expectRunning waits until all pods run and returns where.
func (s site) expectRunning(t *testing.T, job string, want int) map[int]string {
	t.Helper()
	var places map[int]string
	harness.Eventually(t, fmt.Sprintf("%d pods of %s run", want, job), func() error {
		found, err := s.running(t, job, want)
		places = found
		return err
	})
	return places
}

// expectPlaces waits until the pods run exactly there.
func (s site) expectPlaces(t *testing.T, job string, want map[int]string) {
	t.Helper()
	harness.Eventually(t, "the pods of "+job+" are where they belong", func() error {
		have, err := s.running(t, job, len(want))
		if err != nil {
			return err
		}
		for rank, node := range want {
			if have[rank] != node {
				return fmt.Errorf("rank %d is on %q, want %q; all: %v", rank, have[rank], node, have)
			}
		}
		return nil
	})
}

// expectWaiting waits until the Workload of the Job holds no quota and says that.
func (s site) expectWaiting(t *testing.T, job string, words string) {
	t.Helper()
	harness.Eventually(t, "the message of Job "+job, func() error {
		workload, err := harness.Shared.WorkloadOf(t.Context(), s.Namespace, job)
		if err != nil {
			return err
		}
		have := harness.ConditionOf(workload, "QuotaReserved")
		if have.Status != "False" || !strings.Contains(have.Message, words) {
			return fmt.Errorf("QuotaReserved is %+v, want False and %q", have, words)
		}
		return nil
	})
}

// racksOf are the racks of nodes, each once.
func racksOf(places map[int]string) []string {
	racks := []string{}
	for _, node := range places {
		name := node[:strings.LastIndex(node, "-")]
		if !slices.Contains(racks, name) {
			racks = append(racks, name)
		}
	}
	slices.Sort(racks)
	return racks
}
