package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

const stanza = "fairSharing"

// TestFairSharing runs the controller with the stanza fairSharing, and without it again at the end.
func TestFairSharing(t *testing.T) {
	c := alone(t)
	config, err := c.Controller().Configuration()
	if err != nil {
		t.Fatal(err)
	}
	if config[stanza] != nil {
		t.Fatalf("the chart's configuration has fair sharing: %v", config[stanza])
	}
	configure(t, c, config, map[string]any{"preemptionStrategies": []string{"LessThanOrEqualToFinalShare", "LessThanInitialShare"}})
	fair := true
	t.Cleanup(func() {
		if fair { // the test ended early
			configure(t, c, config, nil)
		}
	})
	flat, teams := sharesByWeight(t, c)
	nested := sharesInATree(t, c)

	// Without fair sharing there are no shares to show.
	configure(t, c, config, nil)
	fair = false
	for _, q := range teams {
		expectShare(t, c, "ClusterQueue", q.Cluster, "")
	}
	expectShare(t, c, "Cohort", flat.cohort, "")
	expectShare(t, c, "Cohort", nested.cohort, "")
}

// configure starts the controller anew, with or without fair sharing.
func configure(t *testing.T, c *harness.Cluster, config map[string]any, fair map[string]any) {
	t.Helper()
	delete(config, stanza)
	if fair != nil {
		config[stanza] = fair
	}
	if err := c.Controller().SetConfiguration(config); err != nil {
		t.Fatal(err)
	}
	c.Controller().Restart(t)
}

// sharesByWeight: three teams without quota of their own want all of a pool of eight CPUs; their
// weights are 1, 1 and 2. The first takes everything, then the others come.
func sharesByWeight(t *testing.T, c *harness.Cluster) (org, []harness.Queue) {
	o := newOrg(t, c)
	o.pool(o.cohort, "", "8")
	teams := []harness.Queue{}
	for _, weight := range []int{1, 1, 2} {
		teams = append(teams, o.team("0", reclaimAny, fmt.Sprintf("fairSharing: {weight: %d}", weight)))
	}
	for range 8 {
		o.submit(teams[0], 1)
	}
	o.expectRunning(teams, 8, 0, 0)
	expectShare(t, c, "ClusterQueue", teams[0].Cluster, "1000")
	expectShare(t, c, "ClusterQueue", teams[1].Cluster, "0")
	for _, q := range teams[1:] {
		for range 8 {
			o.submit(q, 1)
		}
	}
	o.expectRunning(teams, 2, 2, 4)
	for _, q := range teams {
		expectShare(t, c, "ClusterQueue", q.Cluster, "250")
		o.expectUsageOf(q)
	}
	expectShare(t, c, "Cohort", o.cohort, "0") // a root has nobody to share with
	// From here on nobody has a reason to preempt anybody.
	running := o.running(teams)
	harness.Throughout(t, 2*quiet, "the shares are steady", func() error {
		if now := o.running(teams); !slices.Equal(now, running) {
			return fmt.Errorf("%v runs, before it was %v", now, running)
		}
		return nil
	})
	o.expectFairVictims(teams[:2], 6)
	// A team that has nothing to run leaves its share to the others: 8 CPUs by 1 and 2.
	for _, job := range o.jobs(teams[0]) {
		c.Delete(t, harness.JobKind, teams[0].Namespace, job)
	}
	harness.Eventually(t, "the others share what is left", func() error {
		counts := o.counts(teams)
		if counts[0] != 0 || counts[1]+counts[2] != 8 || counts[1] < 2 || counts[1] > 3 {
			return fmt.Errorf("%v run", counts)
		}
		return nil
	})
	return o, teams
}

// expectFairVictims: at least so many Jobs had to make room, and their Workloads say why.
func (o org) expectFairVictims(teams []harness.Queue, atLeast int) {
	o.t.Helper()
	victims := 0
	for _, q := range teams {
		workloads, err := o.c.List(o.t.Context(), kueue("Workload"), q.Namespace, "")
		if err != nil {
			o.t.Fatal(err)
		}
		for i := range workloads {
			preempted := harness.ConditionOf(&workloads[i], "Preempted")
			if preempted.Status != "True" {
				continue
			}
			victims++
			if preempted.Reason != "InCohortFairSharing" || !strings.Contains(preempted.Message, "due to Fair Sharing within the cohort") {
				o.t.Errorf("a victim is told %s: %s", preempted.Reason, preempted.Message)
			}
		}
	}
	if victims < atLeast {
		o.t.Errorf("%d victims, at least %d had to make room", victims, atLeast)
	}
}

// sharesInATree: a department of weight 2 with one team, beside a team of weight 1. Shares are
// compared below the common cohort.
func sharesInATree(t *testing.T, c *harness.Cluster) org {
	o := newOrg(t, c)
	o.pool(o.cohort, "", "6")
	department := harness.Name("department")
	o.c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: {parentName: %s, fairSharing: {weight: 2}}}", department, o.cohort))
	inside, beside := o.team("0", reclaimAny, "cohortName: "+department), o.team("0", reclaimAny)
	teams := []harness.Queue{inside, beside}
	for range 6 {
		o.submit(beside, 1)
	}
	o.expectRunning(teams, 0, 6)
	for range 6 {
		o.submit(inside, 1)
	}
	o.expectRunning(teams, 4, 2)
	expectShare(t, c, "Cohort", department, "334")           // 4/6 by weight 2, rounded up
	expectShare(t, c, "ClusterQueue", beside.Cluster, "334") // 2/6
	expectShare(t, c, "ClusterQueue", inside.Cluster, "667") // 4/6 of what its department can get
	expectShare(t, c, "Cohort", o.cohort, "0")
	return o
}

// expectShare waits for status.fairSharing.weightedShare; "" if there must be none.
func expectShare(t *testing.T, c *harness.Cluster, kind, name, want string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("the share of %s %s", kind, name), func() error {
		object, err := c.Fetch(t.Context(), kueue(kind), "", name)
		if err != nil {
			return err
		}
		if have := harness.Field(object, "status", "fairSharing", "weightedShare"); have != want {
			return fmt.Errorf("it is %q, want %q", have, want)
		}
		return nil
	})
}

func (o org) jobs(q harness.Queue) []string {
	o.t.Helper()
	list, err := o.c.List(o.t.Context(), harness.JobKind, q.Namespace, "")
	if err != nil {
		o.t.Fatal(err)
	}
	names := []string{}
	for i := range list {
		names = append(names, list[i].GetName())
	}
	return names
}

// running are the Jobs of all teams that are not suspended, sorted.
func (o org) running(teams []harness.Queue) []string {
	o.t.Helper()
	names := []string{}
	for _, q := range teams {
		list, err := o.c.List(o.t.Context(), harness.JobKind, q.Namespace, "")
		if err != nil {
			o.t.Fatal(err)
		}
		for i := range list {
			if harness.Field(&list[i], "spec", "suspend") == "false" {
				names = append(names, q.Namespace+"/"+list[i].GetName())
			}
		}
	}
	slices.Sort(names)
	return names
}

func (o org) counts(teams []harness.Queue) []int {
	counts := []int{}
	for _, q := range teams {
		counts = append(counts, len(o.running([]harness.Queue{q})))
	}
	return counts
}

// expectRunning waits until that many Jobs of each team run.
func (o org) expectRunning(teams []harness.Queue, want ...int) {
	o.t.Helper()
	harness.Eventually(o.t, fmt.Sprintf("%v Jobs run", want), func() error {
		if have := o.counts(teams); !slices.Equal(have, want) {
			return fmt.Errorf("it is %v", have)
		}
		return nil
	})
}

// expectUsageOf: what the status says is what runs, and all of it is borrowed.
func (o org) expectUsageOf(q harness.Queue) {
	o.t.Helper()
	count := len(o.running([]harness.Queue{q}))
	o.expectUsage(q, count, count)
}
