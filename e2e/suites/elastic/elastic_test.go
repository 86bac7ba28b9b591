package elastic

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

const replaces = "kueue.x-k8s.io/workload-slice-replacement-for"

// elastic submits an elastic Job of so many pods of two CPUs that run until they are deleted, and waits
// until they run.
func elastic(t *testing.T, q harness.Queue, pods int, labels ...string) string {
	t.Helper()
	c := harness.Shared
	object := harness.Job{Name: harness.Name("elastic"), Namespace: q.Namespace, Queue: q.Local, CPU: "2", Pods: pods, Labels: labels}.Object()
	harness.Set(object, int64(100), "spec", "completions")
	object.SetAnnotations(map[string]string{"kueue.x-k8s.io/elastic-job": "true"})
	c.MustCreate(t, object)
	c.ExpectSuspended(t, q.Namespace, object.GetName(), false)
	expectPods(t, q.Namespace, object.GetName(), pods, 0)
	return object.GetName()
}

func scale(t *testing.T, q harness.Queue, job string, pods int) {
	t.Helper()
	harness.Shared.MustPatch(t, harness.JobKind, q.Namespace, job, fmt.Sprintf(`{"spec":{"parallelism":%d}}`, pods))
}

// replacementFor fits the Workload that takes over from another one.
func replacementFor(old *unstructured.Unstructured) harness.Fits {
	return func(object *unstructured.Unstructured) bool {
		return object.GetAnnotations()[replaces] == old.GetNamespace()+"/"+old.GetName()
	}
}

// TestJobGrowsAndShrinks: a larger Job gets a second Workload that takes over from the first without
// stopping a pod; a smaller one keeps its Workload.
func TestJobGrowsAndShrinks(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "12"})
	job := elastic(t, q, 3)
	first := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "Admitted")
	expectUsage(t, q, "6")
	before := expectPods(t, q.Namespace, job, 3, 0)

	scale(t, q, job, 5)
	second := awaitWorkload(t, q.Namespace, "the larger one", replacementFor(first), harness.Having("Admitted=True"))
	after := expectPods(t, q.Namespace, job, 5, 0)
	for uid := range before {
		if !after[uid] {
			t.Errorf("pod %s was stopped when the Job grew", uid)
		}
	}
	expectUsage(t, q, "10")
	finished := c.ExpectCondition(t, kueue("Workload"), q.Namespace, first.GetName(), "Finished", "True", "WorkloadSliceReplaced")
	want := fmt.Sprintf("Replaced to accommodate a workload (UID: %s, JobUID: %s) due to workload slice aggregation",
		second.GetUID(), second.GetLabels()["kueue.x-k8s.io/job-uid"])
	if finished.Message != want {
		t.Errorf("the former Workload says %q, want %q", finished.Message, want)
	}
	c.ExpectEvent(t, q.Namespace, "Workload", first.GetName(), "WorkloadSliceReplaced")

	scale(t, q, job, 2)
	expectUsage(t, q, "4")
	smaller := expectPods(t, q.Namespace, job, 2, 0)
	for uid := range smaller {
		if !after[uid] {
			t.Errorf("pod %s was started when the Job shrank", uid)
		}
	}
	awaitWorkload(t, q.Namespace, "the larger one has two pods", harness.Named(second.GetName()), harness.Having("Admitted=True"), counts("2"))

	// What it gave back is there for others.
	other := c.Submit(t, q, harness.Job{CPU: "8"})
	c.ExpectSuspended(t, q.Namespace, other, false)
	keepsRunning(t, q.Namespace, job)
}

// counts fits a Workload whose first pod set has so many pods.
func counts(want string) harness.Fits {
	return func(object *unstructured.Unstructured) bool {
		sets, _, _ := unstructured.NestedSlice(object.Object, "spec", "podSets")
		return len(sets) > 0 && fmt.Sprint(sets[0].(map[string]any)["count"]) == want
	}
}

// TestGrowthWaits: what does not fit waits at its gate, and what runs goes on.
func TestGrowthWaits(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "6"})
	job := elastic(t, q, 2)
	first := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "Admitted")
	scale(t, q, job, 4)
	awaitWorkload(t, q.Namespace, "the larger one waits", replacementFor(first), harness.Saying("WaitingForQuota", "cpu", q.Flavor, "2 more needed"))
	expectPods(t, q.Namespace, job, 2, 2)
	keepsRunning(t, q.Namespace, job)
	expectUsage(t, q, "4")

	// Wished for less meanwhile: the one that waits is changed, not replaced.
	scale(t, q, job, 3)
	awaitWorkload(t, q.Namespace, "three pods fit", replacementFor(first), counts("3"), harness.Having("Admitted=True"))
	expectPods(t, q.Namespace, job, 3, 0)
	expectUsage(t, q, "6")
}

// TestGrowthPreempts: a Job that grows preempts for the difference only, and not what it replaces.
func TestGrowthPreempts(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "10"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, within)
	low, high := priority(t, 1), priority(t, 10)
	job := elastic(t, q, 2, high)
	first := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "Admitted")
	others := []string{}
	for range 2 {
		others = append(others, c.Submit(t, q, harness.Job{CPU: "3", Labels: []string{low}}))
		c.ExpectSuspended(t, q.Namespace, others[len(others)-1], false)
	}
	scale(t, q, job, 3)
	second := awaitWorkload(t, q.Namespace, "the larger one", replacementFor(first), harness.Having("Admitted=True"))
	expectPods(t, q.Namespace, job, 3, 0)
	expectUsage(t, q, "9")
	victim := awaitWorkload(t, q.Namespace, "the victim", harness.Having("Preempted=True InClusterQueue", "QuotaReserved=False"))
	if message := harness.ConditionOf(victim, "Preempted").Message; !strings.Contains(message, string(second.GetUID())) {
		t.Errorf("the victim does not name who preempted it: %s", message)
	}
	stopped := 0
	for _, other := range others {
		if suspended, err := c.Suspended(t.Context(), q.Namespace, other); err != nil {
			t.Fatal(err)
		} else if suspended {
			stopped++
		}
	}
	if stopped != 1 {
		t.Errorf("%d Jobs had to go, one was enough", stopped)
	}
}

// TestElasticJobIsPreempted: it stops as a whole, though a larger one of it waits; that one waits on
// with all that it asks for and starts the Job when it fits.
func TestElasticJobIsPreempted(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "6"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, within)
	job := elastic(t, q, 2)
	first := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "Admitted")
	scale(t, q, job, 4)
	second := awaitWorkload(t, q.Namespace, "the larger one waits", replacementFor(first), harness.Saying("WaitingForQuota", "2 more needed"))
	expectPods(t, q.Namespace, job, 2, 2)

	urgent := c.Submit(t, q, harness.Job{CPU: "4", Labels: []string{priority(t, 100)}})
	c.ExpectSuspended(t, q.Namespace, urgent, false)
	c.ExpectSuspended(t, q.Namespace, job, true)
	c.ExpectCondition(t, kueue("Workload"), q.Namespace, first.GetName(), "Finished", "True", "WorkloadSliceReplaced")
	expectPods(t, q.Namespace, job, 0, 0)
	expectUsage(t, q, "4")
	// Eight CPUs at once are more than the queue has.
	awaitWorkload(t, q.Namespace, "all of it waits", harness.Named(second.GetName()), harness.Saying("ExceedsMaxQuota", "maximum capacity (6)"))

	scale(t, q, job, 3)
	awaitWorkload(t, q.Namespace, "less of it waits", harness.Named(second.GetName()), counts("3"), harness.Saying("WaitingForQuota", "4 more needed"))
	c.Delete(t, harness.JobKind, q.Namespace, urgent)
	c.ExpectSuspended(t, q.Namespace, job, false)
	expectPods(t, q.Namespace, job, 3, 0)
	expectUsage(t, q, "6")
}
