// Package job checks what becomes of labelled Jobs, as a user sees it: who waits and why, who runs,
// and what the queues say.
package job

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// quiet is how long a test looks on when nothing may happen.
const quiet = 2 * time.Second

var kueue = harness.Kueue

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "job", Nodes: 8})
}

func cluster(t *testing.T) *harness.Cluster {
	t.Parallel()
	return harness.Shared
}

// expectMessage waits until the Workload of the Job waits for that reason with a message that has
// all the words.
func expectMessage(t *testing.T, namespace, job, reason string, words ...string) {
	t.Helper()
	harness.Shared.ExpectMessage(t, namespace, job, reason, words...)
}

// expectCounts waits for the counters in the status of a queue.
func expectCounts(t *testing.T, kind, namespace, name string, pending, reserving, admitted int) {
	t.Helper()
	c := harness.Shared
	harness.Eventually(t, "the counters of "+kind+" "+name, func() error {
		object, err := c.Fetch(t.Context(), kueue(kind), namespace, name)
		if err != nil {
			return err
		}
		have := []string{}
		for _, field := range []string{"pendingWorkloads", "reservingWorkloads", "admittedWorkloads"} {
			have = append(have, harness.Field(object, "status", field))
		}
		want := []string{strconv.Itoa(pending), strconv.Itoa(reserving), strconv.Itoa(admitted)}
		if strings.Join(have, " ") != strings.Join(want, " ") {
			return fmt.Errorf("pending, reserving, admitted are %v, want %v", have, want)
		}
		return nil
	})
}

// expectUsage waits for the usage of a resource in the status of a ClusterQueue.
func expectUsage(t *testing.T, q harness.Queue, resource, want string) {
	t.Helper()
	c := harness.Shared
	harness.Eventually(t, "the usage of "+q.Cluster, func() error {
		object, err := c.Fetch(t.Context(), kueue("ClusterQueue"), "", q.Cluster)
		if err != nil {
			return err
		}
		for _, field := range []string{"flavorsReservation", "flavorsUsage"} {
			if have := harness.Usage(object, field, resource); have != want {
				return fmt.Errorf("%s of %s is %q, want %s", field, resource, have, want)
			}
		}
		return nil
	})
}

// staysSuspended looks on for a while.
func staysSuspended(t *testing.T, namespace, job string) {
	t.Helper()
	c := harness.Shared
	harness.Throughout(t, quiet, "Job "+job+" must wait", func() error {
		suspended, err := c.Suspended(t.Context(), namespace, job)
		if err == nil && !suspended {
			err = fmt.Errorf("it was started")
		}
		return err
	})
}

// finishPods makes the running pods of a Job end.
func finishPods(t *testing.T, namespace, job string, count int) {
	t.Helper()
	harness.Shared.FinishPods(t, namespace, job, count)
}

// expectEvent waits for an event about an object.
func expectEvent(t *testing.T, namespace, kind, name, reason string) {
	t.Helper()
	harness.Shared.ExpectEvent(t, namespace, kind, name, reason)
}

func workloadName(t *testing.T, namespace, job string) string {
	t.Helper()
	var name string
	harness.Eventually(t, "the Workload of Job "+job, func() error {
		workload, err := harness.Shared.WorkloadOf(t.Context(), namespace, job)
		if err == nil {
			name = workload.GetName()
		}
		return err
	})
	return name
}

func template(object *unstructured.Unstructured, path ...string) string {
	return harness.Field(object, append([]string{"spec", "template"}, path...)...)
}
