package cli

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/e2e/harness"
)

var sluice = func(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "sluice.dev", Version: "v1alpha1", Kind: kind}
}

// team is a ClusterQueue of a cohort with its LocalQueue; more is set in its spec, as path and value.
func team(t *testing.T, flavor, cohort, cpu string, more map[string]string) harness.Queue {
	t.Helper()
	c := harness.Shared
	q := harness.Queue{Local: "main", Cluster: harness.Name("team"), Flavor: flavor, Namespace: c.Namespace(t)}
	object := harness.ClusterQueue(q, harness.QueueOptions{CPU: cpu})
	harness.Set(object, cohort, "spec", "cohortName")
	for field, value := range more {
		if field == "reclaimWithinCohort" {
			harness.Set(object, value, "spec", "preemption", field)
		} else {
			harness.Set(object, value, "spec", field)
		}
	}
	c.MustCreate(t, object)
	c.MustCreate(t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	return q
}

// waits submits a Job and waits until it was told that it waits.
func waits(t *testing.T, q harness.Queue, job harness.Job, reason string) string {
	t.Helper()
	name := harness.Shared.Submit(t, q, job)
	harness.Shared.ExpectWorkload(t, q.Namespace, name, "QuotaReserved", "False", reason)
	return name
}

func runs(t *testing.T, q harness.Queue, job harness.Job) string {
	t.Helper()
	name := harness.Shared.Submit(t, q, job)
	harness.Shared.ExpectSuspended(t, q.Namespace, name, false)
	harness.Shared.ExpectWorkload(t, q.Namespace, name, "Admitted", "True", "")
	return name
}

// TestReasonReserved: the head has a reservation, and what would delay it waits for that.
func TestReasonReserved(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"metadata":{"annotations":{"sluice.dev/backfill":"EASY"}}}`)
	bounded := []string{"kueue.x-k8s.io/max-exec-time-seconds=3600"}
	runs(t, q, harness.Job{CPU: "3", Labels: bounded})
	head := c.Submit(t, q, harness.Job{CPU: "4", Labels: bounded})
	c.ExpectWorkload(t, q.Namespace, head, "Reserved", "True", "EarliestStart")
	expectReason(t, q, []string{"job", head}, "Reserved", "Message: The earliest start is 2", "Would help: ")
	harness.NextSecond(t)
	endless := waits(t, q, harness.Job{CPU: "1"}, "Reserved")
	expectReason(t, q, []string{"job", endless}, "Reserved", "Message: Would delay workload "+q.Namespace+"/", "Position: 1 in")
}

// TestReasonOfCheckpoint: the victim is asked for a checkpoint, and the one it goes for waits.
func TestReasonOfCheckpoint(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"preemption":{"withinClusterQueue":"LowerPriority"}}}`)
	class := harness.Name("high")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: 100}", class))
	train := harness.Job{Name: harness.Name("train"), Namespace: q.Namespace, Queue: q.Local, CPU: "2"}.Object()
	train.SetAnnotations(map[string]string{"sluice.dev/checkpoint-on-request": "true"})
	victim := c.MustCreate(t, train).GetName()
	c.ExpectSuspended(t, q.Namespace, victim, false)
	c.ExpectWorkload(t, q.Namespace, victim, "Admitted", "True", "")
	urgent := c.Submit(t, q, harness.Job{CPU: "2", Labels: []string{"kueue.x-k8s.io/priority-class=" + class}})
	asked := c.ExpectWorkload(t, q.Namespace, victim, "CheckpointRequested", "True", "InClusterQueue")
	expectReason(t, q, []string{"job", urgent}, "WaitingForCheckpoint", "Would help: "+q.Namespace+"/"+asked.GetName()+" is preempted")
}

// TestReasonOfCredits: a lender wants its quota back, and the credits of the borrower protect that.
func TestReasonOfCredits(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	flavor, cohort := harness.Name("flavor"), harness.Name("org")
	c.MustCreate(t, harness.Flavor(flavor))
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: {}}", cohort))
	saver := team(t, flavor, cohort, "2", nil)
	lender := team(t, flavor, cohort, "2", map[string]string{"reclaimWithinCohort": "Any"})
	c.MustCreate(t, harness.Parsef("{apiVersion: sluice.dev/v1alpha1, kind: CreditPolicy, metadata: {name: %s}, spec: {selector: {cohort: %s}, resources: [{name: cpu}], halfLife: \"0\", horizon: 10s, effect: Protect, maxLenderDelay: 1h}}", harness.Name("policy"), cohort))
	account := "cq-" + saver.Cluster
	harness.Eventually(t, "the account of the saver", func() error {
		object, err := c.Fetch(t.Context(), sluice("CreditAccount"), "", account)
		if err == nil && harness.Field(object, "status", "lastSettled") == "" {
			err = harness.ErrNotYet
		}
		return err
	})
	c.MustPatch(t, sluice("CreditAccount"), "", account, `{"metadata":{"annotations":{"sluice.dev/adjust":"+20"}}}`)
	harness.Eventually(t, "the grant", func() error {
		object, err := c.Fetch(t.Context(), sluice("CreditAccount"), "", account)
		if err == nil && harness.Field(object, "status", "adjustments") != "1" {
			err = harness.ErrNotYet
		}
		return err
	})
	runs(t, saver, harness.Job{CPU: "2"})
	harness.NextSecond(t)
	runs(t, saver, harness.Job{CPU: "2"})
	claim := waits(t, lender, harness.Job{CPU: "2"}, "")
	expectReason(t, lender, []string{"job", claim}, "CreditsBehind", "Credits protect what it would reclaim until ", "Would help: ")
}

// TestReasonOfCycle: a Job fits alone, but another team's keeps what is free for itself.
func TestReasonOfCycle(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	flavor, cohort := harness.Name("flavor"), harness.Name("org")
	c.MustCreate(t, harness.Flavor(flavor))
	strict := team(t, flavor, cohort, "5", map[string]string{"queueingStrategy": "StrictFIFO"})
	guest := team(t, flavor, cohort, "0", nil)
	runs(t, strict, harness.Job{CPU: "3"})
	keeps := waits(t, strict, harness.Job{CPU: "5"}, "WaitingForQuota")
	winner, err := c.WorkloadOf(t.Context(), strict.Namespace, keeps)
	if err != nil {
		t.Fatal(err)
	}
	harness.NextSecond(t)
	loses := waits(t, guest, harness.Job{CPU: "2"}, "WaitingForQuota")
	name := strict.Namespace + "/" + winner.GetName()
	expectReason(t, guest, []string{"job", loses}, "QuotaExceeded",
		"Message: Workload no longer fits after processing another workload\n",
		"came first: "+name+" of ClusterQueue "+strict.Cluster+" waits for 5 cpu of flavor "+flavor,
		"Would help: "+name+" has started, or waits no longer")
	expect(t, "explain as JSON", ask(t, 0, "", "explain", "job", loses, "-n", guest.Namespace, "-o", "json"),
		`"rivals": [`, `"workload": "`+name+`"`)
	// What the Workload is told names the queue, not somebody else's Workload.
	object, err := c.WorkloadOf(t.Context(), guest.Namespace, loses)
	if err != nil {
		t.Fatal(err)
	}
	note := harness.Field(c.ExpectEvent(t, guest.Namespace, "Workload", object.GetName(), "WaitingForQuota"), "note")
	expect(t, "the event", note, "a workload of ClusterQueue "+strict.Cluster+" waits for 5 cpu of flavor "+flavor)
	if strings.Contains(note, winner.GetName()) {
		t.Errorf("the event names a Workload of another namespace: %s", note)
	}
}

// TestReasonBehindOthers: nothing passes the head of a StrictFIFO queue.
func TestReasonBehindOthers(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"queueingStrategy":"StrictFIFO"}}`)
	runs(t, q, harness.Job{CPU: "1"})
	head := waits(t, q, harness.Job{CPU: "2"}, "WaitingForQuota")
	first, err := c.WorkloadOf(t.Context(), q.Namespace, head)
	if err != nil {
		t.Fatal(err)
	}
	harness.NextSecond(t)
	small := c.Submit(t, q, harness.Job{CPU: "1"})
	expectReason(t, q, []string{"job", small}, "BehindOthers", "StrictFIFO lets nothing pass it",
		"Would help: "+q.Namespace+"/"+first.GetName()+" has left the queue")
}

// TestReasonsOfFlavors: no flavor for a resource; a flavor with a taint that is not tolerated.
func TestReasonsOfFlavors(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	object := harness.Job{Name: harness.Name("gpu"), Namespace: q.Namespace, Queue: q.Local}.Object()
	harness.Set(object, []any{map[string]any{"name": "c", "image": "i", "resources": map[string]any{
		"requests": map[string]any{"cpu": "1", "example.com/gpu": "1"}, "limits": map[string]any{"example.com/gpu": "1"}}}},
		"spec", "template", "spec", "containers")
	gpu := c.MustCreate(t, object).GetName()
	expectReason(t, q, []string{"job", gpu}, "NoMatchingFlavor", "Would help: quota for example.com/gpu in the ClusterQueue")

	tainted := harness.Name("tainted")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: %s}, spec: {nodeTaints: [{key: example.com/spot, value: \"yes\", effect: NoSchedule}]}}", tainted))
	other := harness.Queue{Local: "main", Cluster: harness.Name("cq"), Flavor: tainted, Namespace: c.Namespace(t)}
	c.MustCreate(t, harness.ClusterQueue(other, harness.QueueOptions{CPU: "2"}))
	c.MustCreate(t, harness.LocalQueue(other.Namespace, other.Local, other.Cluster))
	job := waits(t, other, harness.Job{}, "")
	expectReason(t, other, []string{"job", job}, "NodesExcluded", "Would help: a toleration of taint example.com/spot=yes:NoSchedule of flavor "+tainted)
}
