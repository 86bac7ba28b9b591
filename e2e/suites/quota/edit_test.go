package quota

import (
	"fmt"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

// company is an organisation with a pool of two CPUs, of two departments with a team each that has
// two CPUs; the first department has a pool of two of its own. All in all it is eight CPUs.
type company struct {
	org
	engineering, operations string
	developers, operators   harness.Queue
}

func newCompany(t *testing.T, c *harness.Cluster) company {
	t.Helper()
	k := company{org: newOrg(t, c), engineering: harness.Name("engineering"), operations: harness.Name("operations")}
	k.pool(k.cohort, "", "2")
	k.pool(k.engineering, k.cohort, "2")
	k.pool(k.operations, k.cohort, "")
	k.developers = k.team("2", "cohortName: "+k.engineering)
	k.operators = k.team("2", "cohortName: "+k.operations)
	return k
}

// patch edits a ClusterQueue or a Cohort as a person would.
func (k company) patch(kind, name, patch string) {
	k.t.Helper()
	k.c.Kubectl(k.t, "patch", kind+".kueue.x-k8s.io", name, "--type=merge", "--patch", patch)
}

// cpus is a patch that gives the CPU this nominal quota.
func (k company) cpus(quota string) string {
	return fmt.Sprintf(`{"spec":{"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":%q,"resources":[{"name":"cpu","nominalQuota":%q}]}]}]}}`, k.flavor, quota)
}

// TestQuotasAreEdited raises and lowers quotas of all levels while Jobs run: more quota lets waiting
// Jobs in, less evicts nobody, and the status shows what is used above it.
func TestQuotasAreEdited(t *testing.T) {
	c := cluster(t)
	k := newCompany(t, c)
	running := k.run(k.developers, 6)
	base := k.run(k.operators, 2)
	k.expectUsage(k.developers, 6, 4)
	k.expectUsage(k.operators, 2, 0)
	wait := func(q harness.Queue, job, more string) {
		t.Helper()
		c.ExpectMessage(t, q.Namespace, job, "WaitingForQuota", "cpu", k.flavor, more+" more needed")
	}

	// Raised at the root, in the middle, and in the queue itself.
	first := k.submit(k.developers, 1)
	wait(k.developers, first, "1")
	k.patch("cohort", k.cohort, k.cpus("3"))
	c.ExpectSuspended(t, k.developers.Namespace, first, false)
	second := k.submit(k.operators, 1)
	wait(k.operators, second, "1")
	k.patch("cohort", k.operations, k.cpus("1"))
	c.ExpectSuspended(t, k.operators.Namespace, second, false)
	third := k.submit(k.developers, 2)
	wait(k.developers, third, "2")
	k.patch("clusterqueue", k.developers.Cluster, k.cpus("4"))
	c.ExpectSuspended(t, k.developers.Namespace, third, false)
	k.expectUsage(k.developers, 9, 5)
	k.expectUsage(k.operators, 3, 1)

	// Lowered below what is used: everything goes on, nothing starts.
	k.patch("cohort", k.cohort, `{"spec":{"resourceGroups":null}}`)
	k.patch("cohort", k.engineering, k.cpus("0"))
	k.patch("clusterqueue", k.developers.Cluster, k.cpus("1"))
	k.expectUsage(k.developers, 9, 8)
	late := k.submit(k.operators, 1)
	wait(k.operators, late, "1")
	k.stays(k.developers, false, running, first, third)
	k.stays(k.operators, false, base, second)
	for _, job := range []string{running, first, third} {
		if have := harness.ConditionOf(workload(t, k.developers, job), "Evicted"); have.Status != "" {
			t.Errorf("Job %s was evicted: %+v", job, have)
		}
	}
	// Of 12 used CPUs 8 are given back; 4 are there (1, 1 and 2), and all of them are used.
	k.gone(k.developers, running)
	k.gone(k.developers, third)
	k.stays(k.operators, true, late)
	k.patch("cohort", k.cohort, k.cpus("1"))
	c.ExpectSuspended(t, k.operators.Namespace, late, false)
	k.expectUsage(k.developers, 1, 0)
	k.expectUsage(k.operators, 4, 2)
}

// TestQueueMoves: a ClusterQueue that goes to another cohort leaves behind what it borrowed and takes
// its own quota along; its Jobs run on.
func TestQueueMoves(t *testing.T) {
	c := cluster(t)
	k := newCompany(t, c)
	greedy := k.run(k.developers, 8)
	waiting := k.submit(k.operators, 3)
	c.ExpectMessage(t, k.operators.Namespace, waiting, "WaitingForQuota", "3 more needed")
	k.patch("clusterqueue", k.developers.Cluster, `{"spec":{"cohortName":"`+harness.Name("elsewhere")+`"}}`)
	c.ExpectSuspended(t, k.operators.Namespace, waiting, false)
	k.stays(k.developers, false, greedy)
	k.expectUsage(k.developers, 8, 6)
	k.expectUsage(k.operators, 3, 1)
	// 2, 2 and 2 are left at home, 3 are used: the way back is open, but full. The operators are held
	// until the queue has moved: both are ClusterQueues, of which the controller hears in this order.
	hold(t, k.operators, "Hold")
	late := k.submit(k.operators, 1)
	c.ExpectMessage(t, k.operators.Namespace, late, "Suspended")
	k.patch("clusterqueue", k.developers.Cluster, `{"spec":{"cohortName":"`+k.engineering+`"}}`)
	hold(t, k.operators, "None")
	c.ExpectMessage(t, k.operators.Namespace, late, "WaitingForQuota", "1 more needed")
	k.gone(k.developers, greedy)
	c.ExpectSuspended(t, k.operators.Namespace, late, false)
}

// TestCohortIsDeletedAndMadeAgain: without its object a cohort has no quota and no parent, and what was
// below it stays below it.
func TestCohortIsDeletedAndMadeAgain(t *testing.T) {
	c := cluster(t)
	k := newCompany(t, c)
	running := k.run(k.developers, 6)
	base := k.run(k.operators, 2)
	waiting := k.submit(k.operators, 2)
	c.ExpectMessage(t, k.operators.Namespace, waiting, "WaitingForQuota", "2 more needed")

	// The developers go with the two CPUs of their queue; the pool of the company is free.
	c.Kubectl(t, "delete", "cohorts.kueue.x-k8s.io", k.engineering)
	c.ExpectSuspended(t, k.operators.Namespace, waiting, false)
	late := k.submit(k.developers, 1)
	c.ExpectMessage(t, k.developers.Namespace, late, "WaitingForQuota", "1 more needed")
	big := k.submit(k.developers, 3)
	c.ExpectMessage(t, k.developers.Namespace, big, "ExceedsMaxQuota", "maximum capacity (2)")
	k.stays(k.developers, false, running)
	k.expectUsage(k.developers, 6, 4)

	// Made again: of eight CPUs ten are used.
	k.pool(k.engineering, k.cohort, "2")
	c.ExpectMessage(t, k.developers.Namespace, big, "WaitingForQuota", "3 more needed")
	k.gone(k.developers, big)
	k.gone(k.operators, waiting)
	k.stays(k.developers, true, late)
	k.gone(k.operators, base)
	c.ExpectSuspended(t, k.developers.Namespace, late, false)
}

// TestCohortsInACircle: nothing is admitted below a circle of cohorts, what runs goes on, and
// everything goes on when the circle is broken.
func TestCohortsInACircle(t *testing.T) {
	c := cluster(t)
	k := newCompany(t, c)
	running := k.run(k.developers, 3)
	inactive := func(q harness.Queue, job string) {
		t.Helper()
		c.ExpectMessage(t, q.Namespace, job, "Suspended", "ClusterQueue "+q.Cluster+" is inactive")
	}
	warned := func(cohort string) {
		t.Helper()
		event := c.ExpectEvent(t, "", "Cohort", cohort, "CohortCycle")
		if have := harness.Field(event, "type"); have != "Warning" {
			t.Errorf("the event is of type %s", have)
		}
		if note := harness.Field(event, "note"); !strings.Contains(note, "spec.parentName") {
			t.Errorf("the event does not say what to change: %s", note)
		}
	}

	k.patch("cohort", k.cohort, `{"spec":{"parentName":"`+k.engineering+`"}}`)
	warned(k.cohort)
	first, second := k.submit(k.developers, 1), k.submit(k.operators, 1)
	inactive(k.developers, first)
	inactive(k.operators, second)
	k.stays(k.developers, true, first)
	k.stays(k.developers, false, running)
	for _, q := range []harness.Queue{k.developers, k.operators} {
		c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "True", "Ready")
	}
	// What ends inside of the circle gives back its quota.
	k.gone(k.developers, running)
	k.expectUsage(k.developers, 0, 0)

	k.patch("cohort", k.cohort, `{"spec":{"parentName":null}}`)
	c.ExpectSuspended(t, k.developers.Namespace, first, false)
	c.ExpectSuspended(t, k.operators.Namespace, second, false)
	full := k.run(k.developers, 6) // of all that there is
	k.gone(k.developers, full)

	// A cohort that names itself; the deletion of its object breaks the circle as well.
	k.patch("cohort", k.operations, `{"spec":{"parentName":"`+k.operations+`"}}`)
	warned(k.operations)
	third := k.submit(k.operators, 1)
	inactive(k.operators, third)
	c.ExpectSuspended(t, k.developers.Namespace, k.run(k.developers, 1), false)
	c.Kubectl(t, "delete", "cohorts.kueue.x-k8s.io", k.operations)
	c.ExpectSuspended(t, k.operators.Namespace, third, false)
}
