package quota

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

const (
	reclaimAny  = "preemption: {reclaimWithinCohort: Any}"
	within      = "preemption: {withinClusterQueue: LowerPriority}"
	reclaimBoth = "preemption: {reclaimWithinCohort: Any, withinClusterQueue: LowerPriority}"
)

// TestReclaim: a team takes back what another one borrowed. The borrower keeps its quota until its
// pods are gone, only then the owner starts, and the borrower goes on when there is quota again.
func TestReclaim(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	owner, borrower := o.team("4", reclaimAny), o.team("4")
	h := remember(t)
	borrowed := o.run(borrower, 6)
	o.expectUsage(borrower, 6, 2)

	// One pod: of several the first that end would free quota before the Job is finished.
	own := c.Submit(t, owner, harness.Job{CPU: "4"})
	c.ExpectSuspended(t, owner.Namespace, own, false)
	c.ExpectSuspended(t, borrower.Namespace, borrowed, true)
	first := h.await(t, borrowed, 0, "Evicted=True Preempted", "Preempted=True InCohortReclamation", "QuotaReserved=True", "Admitted=True")
	second := h.await(t, borrowed, first, "QuotaReserved=False", "Admitted=False NoReservation", "Evicted=True Preempted", "Requeued=True Preempted")
	started := h.await(t, own, 0, "QuotaReserved=True")
	if started < second {
		t.Errorf("the owner got quota (version %d) before the borrower had given it back (version %d)", started, second)
	}
	if early := h.find(borrowed, 0, "Evicted=True", "QuotaReserved=False"); early < first {
		t.Errorf("quota was given back in version %d, before or with the eviction in version %d", early, first)
	}
	o.expectUsage(owner, 4, 0)
	o.expectUsage(borrower, 0, 0)
	// What is said about it.
	victim, preemptor := workload(t, borrower, borrowed), workload(t, owner, own)
	message := harness.ConditionOf(victim, "Preempted").Message
	want := fmt.Sprintf("Preempted to accommodate a workload (UID: %s, JobUID: %s) due to reclamation within the cohort; preemptor path: /%s/%s; preemptee path: /%s/%s",
		preemptor.GetUID(), preemptor.GetLabels()["kueue.x-k8s.io/job-uid"], o.cohort, owner.Cluster, o.cohort, borrower.Cluster)
	if message != want {
		t.Errorf("the victim's condition says %q, want %q", message, want)
	}
	for _, reason := range []string{"Preempted", "EvictedDueToPreempted"} {
		c.ExpectEvent(t, borrower.Namespace, "Workload", victim.GetName(), reason)
	}
	event := c.ExpectEvent(t, owner.Namespace, "Workload", preemptor.GetName(), "PreemptedWorkload")
	if note := harness.Field(event, "note"); !strings.Contains(note, victim.GetName()) {
		t.Errorf("the preemptor's event does not name the victim: %s", note)
	}
	// Two are missing as long as the owner runs, and nobody is preempted for a borrower.
	c.ExpectMessage(t, borrower.Namespace, borrowed, "WaitingForQuota", "cpu", o.flavor, "2 more needed")
	o.stays(owner, false, own)

	c.FinishPods(t, owner.Namespace, own, 1)
	c.ExpectFinished(t, owner.Namespace, own)
	c.ExpectSuspended(t, borrower.Namespace, borrowed, false)
	again := h.await(t, borrowed, second, "QuotaReserved=True", "Admitted=True", "Evicted=False QuotaReserved", "Preempted=False QuotaReserved")
	if finished := h.find(own, 0, "Finished=True"); finished < 0 || again < finished {
		t.Errorf("the borrower started again in version %d, the owner was finished in version %d", again, finished)
	}
	o.expectUsage(borrower, 6, 2)
}

// TestBorrowAndGiveBack: without preemption a borrower is left alone, and the owner waits until it
// has finished.
func TestBorrowAndGiveBack(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	owner, borrower := o.team("4"), o.team("4")
	borrowed := o.run(borrower, 6)
	own := o.submit(owner, 4)
	c.ExpectMessage(t, owner.Namespace, own, "WaitingForQuota", "cpu", o.flavor, "2 more needed")
	small := o.run(owner, 2) // fits beside both
	o.stays(borrower, false, borrowed)
	o.gone(owner, small)

	c.FinishPods(t, borrower.Namespace, borrowed, 6)
	c.ExpectFinished(t, borrower.Namespace, borrowed)
	c.ExpectSuspended(t, owner.Namespace, own, false)
	o.expectUsage(owner, 4, 0)
	o.expectUsage(borrower, 0, 0)
}

// TestLimits: how much a team takes and how much it gives.
func TestLimits(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	modest, owner := o.team("4", "quota: {borrowingLimit: 1}"), o.team("6", "quota: {lendingLimit: 3}")
	job := o.submit(modest, 6)
	c.ExpectMessage(t, modest.Namespace, job, "ExceedsMaxQuota", "cpu", o.flavor, "maximum capacity (5)")
	o.run(modest, 5)
	o.expectUsage(modest, 5, 1)
	// Three of the owner's stay at home; of the three that it lends, one is taken.
	o.run(owner, 5)
	greedy := o.submit(owner, 1)
	c.ExpectSuspended(t, owner.Namespace, greedy, true)
	c.ExpectMessage(t, owner.Namespace, greedy, "WaitingForQuota", "1 more needed")

	open := o.team("0")
	big := o.submit(open, 8) // 4 and the 3 that are lent
	c.ExpectMessage(t, open.Namespace, big, "ExceedsMaxQuota", "maximum capacity (7)")
}

// TestStrictFIFOIsNotOvertaken: while the first in line waits for its victims, and while it finds
// none, nobody behind it starts.
func TestStrictFIFOIsNotOvertaken(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	low, middle, high := priority(t, 10), priority(t, 100), priority(t, 1000)
	q := o.team("4", "queueingStrategy: StrictFIFO", reclaimBoth)
	h := remember(t)
	filler := o.run(q, 3, low)

	// Both wait before anything is decided about them; the small one would fit at once.
	hold(t, q, "Hold")
	head := o.submit(q, 4, middle)
	c.ExpectMessage(t, q.Namespace, head, "Suspended")
	harness.NextSecond(t)
	small := o.submit(q, 1, middle)
	c.ExpectMessage(t, q.Namespace, small, "Suspended")
	hold(t, q, "None")

	c.ExpectSuspended(t, q.Namespace, head, false)
	evicted := h.await(t, filler, 0, "Evicted=True Preempted", "Preempted=True InClusterQueue")
	reserved := h.await(t, head, evicted, "QuotaReserved=True")
	if freed := h.find(filler, evicted, "QuotaReserved=False"); freed < 0 || freed > reserved {
		t.Errorf("the first started (version %d) before its victim was gone (version %d)", reserved, freed)
	}
	if early := h.find(small, 0, "QuotaReserved=True"); early >= 0 {
		t.Errorf("the second started in version %d, the first in version %d", early, reserved)
	}

	// Nobody is lower than this one, so it finds no victims; what is behind it waits all the same.
	urgent := o.run(q, 3, high)
	h.await(t, head, reserved, "Evicted=True Preempted")
	c.ExpectSuspended(t, q.Namespace, head, true)
	o.stays(q, true, head, small, filler)
	// The first in line is the one that was evicted: it is older than the small one.
	c.ExpectMessage(t, q.Namespace, head, "WaitingForQuota", "3 more needed")

	o.gone(q, urgent)
	c.ExpectSuspended(t, q.Namespace, head, false)
	o.stays(q, true, small, filler)
	o.gone(q, head)
	c.ExpectSuspended(t, q.Namespace, small, false)
	c.ExpectSuspended(t, q.Namespace, filler, false)
}

// TestStopPolicies: a queue that stops keeps its quota in the cohort.
func TestStopPolicies(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	owner, other := o.team("4", reclaimAny), o.team("4", reclaimAny)
	h := remember(t)
	own := o.run(owner, 4)
	greedy := o.submit(other, 7)
	c.ExpectMessage(t, other.Namespace, greedy, "WaitingForQuota", "3 more needed")

	// Held: what runs goes on.
	hold(t, owner, "Hold")
	c.ExpectCondition(t, kueue("ClusterQueue"), "", owner.Cluster, "Active", "False", "Stopped")
	o.stays(owner, false, own)

	// Drained: its quota is lent.
	hold(t, owner, "HoldAndDrain")
	out := h.await(t, own, 0, "Evicted=True ClusterQueueStopped")
	h.await(t, own, out, "QuotaReserved=False", "Requeued=False ClusterQueueStopped")
	c.ExpectSuspended(t, owner.Namespace, own, true)
	c.ExpectSuspended(t, other.Namespace, greedy, false)
	o.expectUsage(owner, 0, 0)
	o.expectUsage(other, 7, 3)

	// Who borrowed from a stopped queue is held itself: it is no victim then.
	hold(t, other, "Hold")
	c.ExpectCondition(t, kueue("ClusterQueue"), "", other.Cluster, "Active", "False", "Stopped")
	hold(t, owner, "None")
	h.await(t, own, out, "Requeued=True ClusterQueueRestarted")
	c.ExpectMessage(t, owner.Namespace, own, "WaitingForQuota", "3 more needed")
	o.stays(other, false, greedy)

	// Once it goes on, it is one.
	hold(t, other, "None")
	h.await(t, greedy, 0, "Evicted=True Preempted", "Preempted=True InCohortReclamation")
	c.ExpectSuspended(t, owner.Namespace, own, false)
	c.ExpectSuspended(t, other.Namespace, greedy, true)

	// A drained LocalQueue frees quota for others as well.
	c.MustPatch(t, kueue("LocalQueue"), owner.Namespace, owner.Local, `{"spec":{"stopPolicy":"HoldAndDrain"}}`)
	h.await(t, own, out, "Evicted=True LocalQueueStopped")
	c.ExpectSuspended(t, other.Namespace, greedy, false)
	o.expectUsage(other, 7, 3)
}

// TestExamples applies examples/cohort, but for the times that the pods run: the test ends them, so
// that a slow machine sees the same.
func TestExamples(t *testing.T) {
	c := cluster(t)
	apply := c.Examples(t, "cohort")
	h := remember(t)
	apply("1-teams.yaml")
	apply("2-borrow.yaml")
	c.ExpectSuspended(t, "research", "sweep", false)
	o := org{t: t, c: c}
	o.expectUsage(harness.Queue{Cluster: "research"}, 8, 4)
	apply("3-reclaim.yaml")
	out := h.await(t, "sweep", 0, "Evicted=True Preempted", "Preempted=True InCohortReclamation")
	h.await(t, "release", 0, "QuotaReserved=True")
	c.ExpectMessage(t, "research", "sweep", "WaitingForQuota", "cpu", "shared-nodes", "2 more needed")
	c.FinishPods(t, "production", "release", 5)
	h.await(t, "release", 0, "Finished=True")
	h.await(t, "sweep", out, "Admitted=True", "Evicted=False")
	c.FinishPods(t, "research", "sweep", 8)
	h.await(t, "sweep", out, "Finished=True")
}

// hold sets the stop policy of a ClusterQueue.
func hold(t *testing.T, q harness.Queue, policy string) {
	t.Helper()
	harness.Shared.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"stopPolicy":"`+policy+`"}}`)
}
