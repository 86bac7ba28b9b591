// Package ready looks at Jobs whose pods do not become ready in time: they give their quota back,
// wait, are tried again, and are given up after some tries.
package ready

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// limit is how often a Job may time out and be tried again. timeout is more than the pods of a
// healthy Job need on fake nodes.
const (
	limit   = 2
	timeout = 8 * time.Second
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "ready", Nodes: 8, Configure: func(config map[string]any) {
		config["waitForPodsReady"] = map[string]any{
			"timeout":         timeout.String(),
			"recoveryTimeout": "25s",
			"requeuingStrategy": map[string]any{
				"backoffLimitCount": limit, "backoffBaseSeconds": 1, "backoffMaxSeconds": 2,
			},
		}
	}})
}

var nodeKind = harness.Parse("{apiVersion: v1, kind: Node}").GroupVersionKind()

// pinned is a Job whose pods run only on nodes with a label of their own; no node has it yet.
func pinned(q harness.Queue) (*unstructured.Unstructured, string) {
	label := "sluice.dev/" + harness.Name("pool")
	object := harness.Job{Name: harness.Name("pinned"), Namespace: q.Namespace, Queue: q.Local, CPU: "3"}.Object()
	harness.Set(object, "true", "spec", "template", "spec", "nodeSelector", label)
	return object, label
}

// label gives the label to a node, or takes it away.
func label(t *testing.T, key, value string) {
	t.Helper()
	nodes, err := harness.Shared.List(t.Context(), nodeKind, "", "")
	if err != nil || len(nodes) == 0 {
		t.Fatalf("%d nodes: %v", len(nodes), err)
	}
	harness.Shared.MustPatch(t, nodeKind, "", nodes[0].GetName(),
		fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, key, value))
}

func timeOf(t *testing.T, object *unstructured.Unstructured, condition string) time.Time {
	t.Helper()
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		entry := item.(map[string]any)
		if entry["type"] != condition {
			continue
		}
		at, err := time.Parse(time.RFC3339, fmt.Sprint(entry["lastTransitionTime"]))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	t.Fatalf("no condition %s", condition)
	return time.Time{}
}

// TestJobWithoutReadyPodsIsGivenUp follows a Job that can never start: timeout, pause, and so on.
func TestJobWithoutReadyPodsIsGivenUp(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	object, _ := pinned(q)
	job := c.MustCreate(t, object).GetName()
	for try := 1; try <= limit; try++ {
		admitted := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "Admitted")
		// It holds its quota: nobody else gets it meanwhile.
		c.ExpectSuspended(t, q.Namespace, job, false)
		evicted := c.ExpectWorkload(t, q.Namespace, job, "Evicted", "True", "PodsReadyTimeout")
		waited := timeOf(t, evicted, "Evicted").Sub(timeOf(t, admitted, "Admitted"))
		if waited < timeout || waited > timeout+3*time.Second {
			t.Errorf("try %d: evicted %s after the admission, the timeout is %s", try, waited, timeout)
		}
		if have := harness.Field(evicted, "status", "requeueState", "count"); have != fmt.Sprint(try) {
			t.Errorf("try %d: the count is %q", try, have)
		}
		message := harness.ConditionOf(evicted, "Evicted").Message
		if want := "Exceeded the PodsReady timeout " + q.Namespace + "/" + evicted.GetName(); message != want {
			t.Errorf("the message is %q, want %q", message, want)
		}
		c.ExpectSuspended(t, q.Namespace, job, true)
		c.ExpectWorkload(t, q.Namespace, job, "Requeued", "True", "BackoffFinished")
	}
	given := c.ExpectWorkload(t, q.Namespace, job, "Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded")
	want := "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
	if message := harness.ConditionOf(given, "Evicted").Message; message != want {
		t.Errorf("the message is %q, want %q", message, want)
	}
	if harness.Field(given, "spec", "active") != "false" || harness.Field(given, "status", "requeueState") != "" {
		t.Errorf("active is %s and requeueState %s", harness.Field(given, "spec", "active"), harness.Field(given, "status", "requeueState"))
	}
	counted := []string{}
	stats, _, _ := unstructured.NestedSlice(given.Object, "status", "schedulingStats", "evictions")
	for _, item := range stats {
		entry := item.(map[string]any)
		counted = append(counted, fmt.Sprintf("%v/%v=%v", entry["reason"], entry["underlyingCause"], entry["count"]))
	}
	if have := strings.Join(counted, " "); have != "PodsReadyTimeout/WaitForStart=2 Deactivated/RequeuingLimitExceeded=1" {
		t.Errorf("the statistics are %s", have)
	}
	c.ExpectSuspended(t, q.Namespace, job, true)
	c.ExpectWorkload(t, q.Namespace, job, "QuotaReserved", "False", "Deactivated")
	next := c.Submit(t, q, harness.Job{CPU: "4", RunSeconds: "0.1"})
	c.ExpectFinished(t, q.Namespace, next)
}

// TestJobStartsAfterAPauseAndRecovers finds its nodes between two tries; later a pod is lost while
// they are away again.
func TestJobStartsAfterAPauseAndRecovers(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	object, key := pinned(q)
	job := c.MustCreate(t, object).GetName()
	c.ExpectWorkload(t, q.Namespace, job, "Evicted", "True", "PodsReadyTimeout")
	label(t, key, `"true"`)
	started := c.ExpectWorkload(t, q.Namespace, job, "PodsReady", "True", "Started")
	if have := harness.Field(started, "status", "requeueState", "count"); have != "1" {
		t.Errorf("the count is %q after the start, want 1", have)
	}

	label(t, key, "null")
	pods, err := c.List(t.Context(), harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind(),
		q.Namespace, "batch.kubernetes.io/job-name="+job)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods: %v", len(pods), err)
	}
	c.Delete(t, pods[0].GroupVersionKind(), q.Namespace, pods[0].GetName())
	c.ExpectWorkload(t, q.Namespace, job, "PodsReady", "False", "WaitForRecovery")
	// Longer than a start may take: a recovery has its own time.
	harness.Throughout(t, timeout+2*time.Second, "the Job has time to recover", func() error {
		workload, err := c.WorkloadOf(t.Context(), q.Namespace, job)
		if err == nil && harness.ConditionOf(workload, "Evicted").Status == "True" {
			err = fmt.Errorf("it was evicted: %s", harness.ConditionOf(workload, "Evicted").Message)
		}
		return err
	})
	label(t, key, `"true"`)
	c.ExpectWorkload(t, q.Namespace, job, "PodsReady", "True", "Recovered")
	label(t, key, "null")
}
