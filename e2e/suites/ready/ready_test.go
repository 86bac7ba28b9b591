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
	limit    = 2
	timeout  = 12 * time.Second
	recovery = 60 * time.Second
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "ready", Nodes: 8, Configure: func(config map[string]any) {
		config["waitForPodsReady"] = map[string]any{
			"timeout":         timeout.String(),
			"recoveryTimeout": recovery.String(),
			"requeuingStrategy": map[string]any{
				"backoffLimitCount": limit, "backoffBaseSeconds": 1, "backoffMaxSeconds": 2,
			},
		}
	}})
}

var (
	nodeKind = harness.Parse("{apiVersion: v1, kind: Node}").GroupVersionKind()
	podKind  = harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
)

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

// schedulerKnows waits until the scheduler has seen that no node has the label any more: pods that need
// it find no place.
func schedulerKnows(t *testing.T, namespace, key string) {
	t.Helper()
	c := harness.Shared
	harness.Eventually(t, "the scheduler knows that the label is gone", func() error {
		probe := harness.Parsef(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec: {nodeSelector: {%q: "true"}, containers: [{name: c, image: i}]}
`, harness.Name("probe"), namespace, key)
		c.MustCreate(t, probe)
		for end := time.Now().Add(harness.Patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			object, err := c.Fetch(t.Context(), podKind, namespace, probe.GetName())
			if err != nil {
				return err
			}
			switch harness.ConditionOf(object, "PodScheduled").Status {
			case "False":
				return nil
			case "True":
				return fmt.Errorf("pod %s was placed", probe.GetName())
			}
		}
		return fmt.Errorf("nobody decides about pod %s", probe.GetName())
	})
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

// awaitSuspended waits for a version of the Job that is suspended, or is not.
func awaitSuspended(t *testing.T, jobs *harness.History, from int, job, want string) int {
	t.Helper()
	return jobs.Await(t, "suspend="+want, from, harness.Named(job), func(object *unstructured.Unstructured) bool {
		return harness.Field(object, "spec", "suspend") == want
	})
}

// expectEvictions: what the statistics of the Workload say.
func expectEvictions(t *testing.T, workload *unstructured.Unstructured, want string) {
	t.Helper()
	counted := []string{}
	stats, _, _ := unstructured.NestedSlice(workload.Object, "status", "schedulingStats", "evictions")
	for _, item := range stats {
		entry := item.(map[string]any)
		counted = append(counted, fmt.Sprintf("%v/%v=%v", entry["reason"], entry["underlyingCause"], entry["count"]))
	}
	if have := strings.Join(counted, " "); have != want {
		t.Errorf("the statistics are %s, want %s", have, want)
	}
}

// TestJobWithoutReadyPodsIsGivenUp follows a Job that can never start: timeout, pause, and so on.
func TestJobWithoutReadyPodsIsGivenUp(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	object, _ := pinned(q)
	// Pauses are short: a look at the objects might miss a whole try.
	workloads, jobs := c.Remember(t, harness.Kueue("Workload"), q.Namespace), c.Remember(t, harness.JobKind, q.Namespace)
	job := c.MustCreate(t, object).GetName()
	await := func(from int, condition string) (int, *unstructured.Unstructured) {
		t.Helper()
		at := workloads.Await(t, condition, from, harness.OwnedBy(job), harness.Having(condition))
		return at, workloads.At(at)
	}
	at, started := 0, 0
	for try := 1; try <= limit; try++ {
		var admitted, evicted *unstructured.Unstructured
		at, admitted = await(at, "Admitted=True Admitted")
		started = awaitSuspended(t, jobs, started, job, "false")
		at, evicted = await(at, "Evicted=True PodsReadyTimeout")
		waited := timeOf(t, evicted, "Evicted").Sub(timeOf(t, admitted, "Admitted"))
		if waited < timeout || waited > timeout+harness.Patience {
			t.Errorf("try %d: evicted %s after the admission, the timeout is %s", try, waited, timeout)
		}
		if have := harness.Field(evicted, "status", "requeueState", "count"); have != fmt.Sprint(try) {
			t.Errorf("try %d: the count is %q", try, have)
		}
		message := harness.ConditionOf(evicted, "Evicted").Message
		if want := "Exceeded the PodsReady timeout " + q.Namespace + "/" + evicted.GetName(); message != want {
			t.Errorf("the message is %q, want %q", message, want)
		}
		started = awaitSuspended(t, jobs, started, job, "true")
		at, _ = await(at, "QuotaReserved=False")
		at, _ = await(at, "Requeued=True BackoffFinished")
	}
	// What follows stays as it is.
	c.ExpectWorkload(t, q.Namespace, job, "Evicted", "True", "DeactivatedDueToRequeuingLimitExceeded")
	given := c.ExpectWorkload(t, q.Namespace, job, "QuotaReserved", "False", "Deactivated")
	want := "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
	if message := harness.ConditionOf(given, "Evicted").Message; message != want {
		t.Errorf("the message is %q, want %q", message, want)
	}
	if harness.Field(given, "spec", "active") != "false" || harness.Field(given, "status", "requeueState") != "" {
		t.Errorf("active is %s and requeueState %s", harness.Field(given, "spec", "active"), harness.Field(given, "status", "requeueState"))
	}
	expectEvictions(t, given, "PodsReadyTimeout/WaitForStart=2 Deactivated/RequeuingLimitExceeded=1")
	c.ExpectSuspended(t, q.Namespace, job, true)
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
	workloads := c.Remember(t, harness.Kueue("Workload"), q.Namespace)
	job := c.MustCreate(t, object).GetName()
	workloads.Await(t, "a timeout", 0, harness.OwnedBy(job), harness.Having("Evicted=True PodsReadyTimeout"))
	label(t, key, `"true"`)
	started := c.ExpectWorkload(t, q.Namespace, job, "PodsReady", "True", "Started")
	if have := harness.Field(started, "status", "requeueState", "count"); have != "1" {
		t.Errorf("the count is %q after the start, want 1", have)
	}

	label(t, key, "null")
	schedulerKnows(t, q.Namespace, key)
	pods, err := c.List(t.Context(), podKind,
		q.Namespace, "batch.kubernetes.io/job-name="+job)
	if err != nil || len(pods) != 1 {
		t.Fatalf("%d pods: %v", len(pods), err)
	}
	c.Delete(t, podKind, q.Namespace, pods[0].GetName())
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
