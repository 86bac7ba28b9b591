// Package elastic checks Jobs that change their size while they run, preemption gates, and Workloads
// that try several flavors at once.
package elastic

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

const (
	// quiet is how long a test looks on when nothing may happen.
	quiet  = 2 * time.Second
	within = `{"spec":{"preemption":{"withinClusterQueue":"LowerPriority"}}}`
)

var (
	kueue   = harness.Kueue
	podKind = harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "elastic", Nodes: 8, Configure: func(config map[string]any) {
		config["featureGates"] = map[string]any{"ConcurrentAdmission": true, "MultiKueueOrchestratedPreemption": true}
	}})
}

func cluster(t *testing.T) *harness.Cluster {
	t.Parallel()
	return harness.Shared
}

// priority makes a class and returns the label that gives it to a Job.
func priority(t *testing.T, value int) string {
	t.Helper()
	class := harness.Name("priority")
	harness.Shared.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: %d}", class, value))
	return "kueue.x-k8s.io/priority-class=" + class
}

// expectUsage waits until the ClusterQueue's status shows this use of a resource, reserved and admitted.
func expectUsage(t *testing.T, q harness.Queue, want string) {
	t.Helper()
	c := harness.Shared
	harness.Eventually(t, "the usage of "+q.Cluster, func() error {
		object, err := c.Fetch(t.Context(), kueue("ClusterQueue"), "", q.Cluster)
		if err != nil {
			return err
		}
		for _, field := range []string{"flavorsReservation", "flavorsUsage"} {
			if have := harness.Usage(object, field, "cpu"); have != want {
				return fmt.Errorf("%s is %q, want %s", field, have, want)
			}
		}
		return nil
	})
}

// expectPods waits until so many pods of the Job run and so many wait at a gate, and returns the UIDs
// of those that run.
func expectPods(t *testing.T, namespace, job string, running, gated int) map[string]bool {
	t.Helper()
	c := harness.Shared
	var uids map[string]bool
	harness.Eventually(t, fmt.Sprintf("%d pods of %s run and %d are gated", running, job, gated), func() error {
		pods, err := c.List(t.Context(), podKind, namespace, "batch.kubernetes.io/job-name="+job)
		if err != nil {
			return err
		}
		run, wait := map[string]bool{}, 0
		for i := range pods {
			gates, _, _ := unstructured.NestedSlice(pods[i].Object, "spec", "schedulingGates")
			switch {
			case pods[i].GetDeletionTimestamp() != nil:
			case len(gates) > 0:
				wait++
			case harness.Field(&pods[i], "status", "phase") == "Running":
				run[string(pods[i].GetUID())] = true
			}
		}
		if len(run) != running || wait != gated {
			return fmt.Errorf("%d run and %d are gated", len(run), wait)
		}
		uids = run
		return nil
	})
	return uids
}

// keepsRunning looks on for a while.
func keepsRunning(t *testing.T, namespace, job string) {
	t.Helper()
	harness.Throughout(t, quiet, "Job "+job+" keeps running", func() error {
		suspended, err := harness.Shared.Suspended(t.Context(), namespace, job)
		if err == nil && suspended {
			err = fmt.Errorf("it was stopped")
		}
		return err
	})
}

// awaitWorkload waits for a Workload of a namespace that fits, and returns it.
func awaitWorkload(t *testing.T, namespace, what string, all ...harness.Fits) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	harness.Eventually(t, "a Workload: "+what, func() error {
		list, err := harness.Shared.List(t.Context(), kueue("Workload"), namespace, "")
		if err != nil {
			return err
		}
		have := ""
	next:
		for i := range list {
			have += fmt.Sprintf("\n%s %v: %v", list[i].GetName(), list[i].GetAnnotations(), list[i].Object["status"])
			for _, fits := range all {
				if !fits(&list[i]) {
					continue next
				}
			}
			found = &list[i]
			return nil
		}
		return fmt.Errorf("there is%s", have)
	})
	return found
}
