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
	c := harness.Shared
	harness.Eventually(t, "the message of Job "+job, func() error {
		workload, err := c.WorkloadOf(t.Context(), namespace, job)
		if err != nil {
			return err
		}
		condition := harness.ConditionOf(workload, "QuotaReserved")
		if condition.Status != "False" || condition.Reason != reason {
			return fmt.Errorf("QuotaReserved is %+v, want False with reason %s", condition, reason)
		}
		for _, word := range words {
			if !strings.Contains(condition.Message, word) {
				return fmt.Errorf("the message does not say %q: %s", word, condition.Message)
			}
		}
		return nil
	})
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
	c := harness.Shared
	gvk := harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
	left := count
	harness.Eventually(t, fmt.Sprintf("%d pods of %s run", count, job), func() error {
		pods, err := c.List(t.Context(), gvk, namespace, "batch.kubernetes.io/job-name="+job)
		if err != nil {
			return err
		}
		for i := range pods {
			if left == 0 || harness.Field(&pods[i], "status", "phase") != "Running" ||
				pods[i].GetAnnotations()["sluice.dev/run-seconds"] != "" {
				continue
			}
			patch := `{"metadata":{"annotations":{"sluice.dev/run-seconds":"0"}}}`
			if _, err := c.Patch(t.Context(), gvk, namespace, pods[i].GetName(), patch); err != nil {
				return err
			}
			left--
		}
		if left > 0 {
			return fmt.Errorf("%d more are needed", left)
		}
		return nil
	})
}

// expectEvent waits for an event about an object.
func expectEvent(t *testing.T, namespace, kind, name, reason string) {
	t.Helper()
	c := harness.Shared
	gvk := harness.Parse("{apiVersion: events.k8s.io/v1, kind: Event}").GroupVersionKind()
	harness.Eventually(t, fmt.Sprintf("event %s of %s %s", reason, kind, name), func() error {
		events, err := c.List(t.Context(), gvk, namespace, "")
		if err != nil {
			return err
		}
		seen := []string{}
		for i := range events {
			if harness.Field(&events[i], "regarding", "kind") == kind && harness.Field(&events[i], "regarding", "name") == name {
				if harness.Field(&events[i], "reason") == reason {
					return nil
				}
				seen = append(seen, harness.Field(&events[i], "reason"))
			}
		}
		return fmt.Errorf("only %v", seen)
	})
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
