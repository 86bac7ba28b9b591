package quota

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// resource is the name of an extended resource.
func resource(group, number int) string { return fmt.Sprintf("example.com/r%02d-%02d", group, number) }

// grid is a resource group of so many flavors and resources: every flavor has one of each resource,
// the last one has ten.
func grid(prefix string, group, flavors, resources int) map[string]any {
	covered, all := []any{}, []any{}
	for r := range resources {
		covered = append(covered, resource(group, r))
	}
	for f := range flavors {
		quota := "1"
		if f == flavors-1 {
			quota = "10"
		}
		quotas := []any{}
		for r := range resources {
			quotas = append(quotas, map[string]any{"name": resource(group, r), "nominalQuota": quota})
		}
		all = append(all, map[string]any{"name": flavorOf(prefix, group, f), "resources": quotas})
	}
	return map[string]any{"coveredResources": covered, "flavors": all}
}

func flavorOf(prefix string, group, number int) string {
	return fmt.Sprintf("%s-%02d-%02d", prefix, group, number)
}

// extended is a Job that asks for so many of each of these resources.
func extended(q harness.Queue, amount string, names ...string) *unstructured.Unstructured {
	object := harness.Job{Name: harness.Name("job"), Namespace: q.Namespace, Queue: q.Local, CPU: "0"}.Object()
	amounts := map[string]any{}
	for _, name := range names {
		amounts[name] = amount
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	containers[0].(map[string]any)["resources"] = map[string]any{"requests": amounts, "limits": amounts}
	harness.Set(object, containers, "spec", "template", "spec", "containers")
	return object
}

// hugeFlavors creates the flavors of the groups [from, to) and leaves them to the end of the cluster.
func hugeFlavors(t *testing.T, c *harness.Cluster, prefix string, from, to, flavors int) {
	t.Helper()
	failed := make(chan error, to-from)
	for group := from; group < to; group++ {
		go func() {
			var err error
			for f := range flavors {
				if _, e := c.Create(t.Context(), harness.Flavor(flavorOf(prefix, group, f))); e != nil {
					err = e
				}
			}
			failed <- err
		}()
	}
	for range to - from {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
}

// hugeQueue makes a ClusterQueue of these groups that looks at all flavors before it borrows.
func hugeQueue(t *testing.T, c *harness.Cluster, cohort string, groups []any) harness.Queue {
	t.Helper()
	q := harness.Queue{Local: "main", Cluster: harness.Name("huge"), Namespace: c.Namespace(t)}
	object := harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQueue, metadata: {name: %s}, spec: {namespaceSelector: {}, cohortName: %s, %s, flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor}}}", q.Cluster, cohort, reclaimBoth)
	harness.Set(object, groups, "spec", "resourceGroups")
	c.MustCreate(t, object)
	c.MustCreate(t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	// The API server needs its time for an object of this size.
	harness.EventuallyWithin(t, 3*harness.Patience, q.Cluster+" is active", func() error {
		object, err := c.Fetch(t.Context(), kueue("ClusterQueue"), "", q.Cluster)
		if err != nil {
			return err
		}
		have := harness.ConditionOf(object, "Active")
		if have.Status != "True" {
			return fmt.Errorf("it is %+v", have)
		}
		return nil
	})
	return q
}

// TestHugeQueues has ClusterQueues in a cohort that are as large as the API allows in one way or the
// other: 16 groups with many more flavors than fit in one; 64 flavors in a group, 512 pairs in it.
func TestHugeQueues(t *testing.T) {
	const groups, flavors, resources = 16, 8, 8
	c := alone(t)
	prefix, long, cohort := harness.Name("wide"), harness.Name("long"), harness.Name("org")
	hugeFlavors(t, c, prefix, 0, groups, flavors)
	hugeFlavors(t, c, long, groups, groups+1, 64)
	wide, names := []any{}, []string{}
	for group := range groups {
		wide = append(wide, grid(prefix, group, flavors, resources))
		names = append(names, resource(group, 0), resource(group, resources-1))
	}
	first := hugeQueue(t, c, cohort, wide)
	second := hugeQueue(t, c, cohort, append(wide[:4:4], grid(long, groups, 64, 8)))
	start := func(q harness.Queue, names ...string) *unstructured.Unstructured {
		job := c.MustCreate(t, extended(q, "10", names...))
		c.ExpectSuspended(t, q.Namespace, job.GetName(), false)
		return job
	}
	// Only the last flavor of each group has ten; twice that is there, where two have it.
	own := extended(first, "10", names...)
	key, class, _ := strings.Cut(priority(t, 100), "=")
	own.SetLabels(map[string]string{"kueue.x-k8s.io/queue-name": first.Local, key: class})
	c.MustCreate(t, own)
	c.ExpectSuspended(t, first.Namespace, own.GetName(), false)
	borrower := start(first, names[:8]...)
	for group := range 4 {
		for _, r := range []string{resource(group, 0), resource(group, resources-1)} {
			have := assigned(workload(t, first, borrower.GetName()), r)
			if want := flavorOf(prefix, group, flavors-1); have != want {
				t.Errorf("%s comes from flavor %s, want %s", r, have, want)
			}
		}
	}
	// The other one takes it back.
	start(second, names[:8]...)
	c.ExpectSuspended(t, first.Namespace, borrower.GetName(), true)
	c.ExpectMessage(t, first.Namespace, borrower.GetName(), "WaitingForQuota", flavorOf(prefix, 3, flavors-1), "10 more needed")
	start(second, resource(groups, 0), resource(groups, 7))
	waiting := c.MustCreate(t, extended(second, "11", resource(groups, 3)))
	c.ExpectMessage(t, second.Namespace, waiting.GetName(), "ExceedsMaxQuota", flavorOf(long, groups, 63))
	settled(t, c)
}

// assigned is the flavor that the first pod set got for a resource.
func assigned(workload *unstructured.Unstructured, resource string) string {
	assignments, _, _ := unstructured.NestedSlice(workload.Object, "status", "admission", "podSetAssignments")
	if len(assignments) == 0 {
		return ""
	}
	flavors, _, _ := unstructured.NestedStringMap(assignments[0].(map[string]any), "flavors")
	return flavors[resource]
}

// settled waits until the controller has nothing to do for five seconds: no writes, hardly any
// processor time. A controller that runs in circles never gets there.
func settled(t *testing.T, c *harness.Cluster) {
	t.Helper()
	used := func() time.Duration {
		t.Helper()
		used, err := harness.ProcessorTime(c.Controller().Pid())
		if err != nil {
			t.Fatal(err)
		}
		return used
	}
	harness.EventuallyWithin(t, 2*harness.Patience, "it becomes quiet", func() error {
		before, err := c.Writes()
		if err != nil {
			return err
		}
		if len(before) == 0 {
			return fmt.Errorf("the audit log knows no write at all")
		}
		began, processor := time.Now(), used()
		time.Sleep(5 * time.Second)
		share := 100 * float64(used()-processor) / float64(time.Since(began))
		after, err := c.Writes()
		if err != nil {
			return err
		}
		if len(after) != len(before) || share > 3 {
			return fmt.Errorf("%.1f %% of a core and %d writes within 5 s: %v", share, len(after)-len(before), after[len(before):])
		}
		t.Logf("%.1f %% of a core while nothing happened", share)
		return nil
	})
}

// TestAbsurdQuotas: what makes no sense is refused, what is only huge counts as unlimited.
func TestAbsurdQuotas(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	q := o.team("2", reclaimAny)
	for _, row := range [][3]string{
		{"clusterqueues", q.Cluster, "nominalQuota: -1"},
		{"clusterqueues", q.Cluster, "nominalQuota: 1, borrowingLimit: -1"},
		{"clusterqueues", q.Cluster, "nominalQuota: 1, lendingLimit: 2"},
		{"clusterqueues", q.Cluster, "nominalQuota: much"},
	} {
		patch := fmt.Sprintf("spec: {resourceGroups: [{coveredResources: [cpu], flavors: [{name: %s, resources: [{name: cpu, %s}]}]}]}", o.flavor, row[2])
		_, err := c.Run(t.Context(), "", "kubectl", "patch", row[0]+".kueue.x-k8s.io", row[1], "--type=merge", "--patch", patch)
		if err == nil || !strings.Contains(err.Error(), "spec.resourceGroups[0].flavors[0].resources[0].") {
			t.Errorf("%s %s: the answer is %v", row[0], row[2], err)
		}
	}
	job := o.submit(q, 3)
	c.ExpectMessage(t, q.Namespace, job, "ExceedsMaxQuota", "maximum capacity (2)")
	// 10^30 CPUs in the pool, and as many again beside them.
	o.pool(o.cohort, "", "1e30")
	o.team("1e30")
	c.ExpectSuspended(t, q.Namespace, job, false)
	o.expectUsage(q, 3, 1)
	o.run(q, 5)
	o.expectUsage(q, 8, 6)
}

// TestFlavorVanishes: a flavor that is deleted stays until no queue has it. One that goes all the same
// takes nothing from those who run; the queue stops until there is one again, and so does nobody else.
func TestFlavorVanishes(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	q, other := o.team("2"), o.team("2")
	running := o.run(q, 3)
	c.Kubectl(t, "delete", "resourceflavors.kueue.x-k8s.io", o.flavor, "--wait=false")
	still := o.run(other, 1) // it is there as long as somebody has it
	if have := c.Get(t, kueue("ResourceFlavor"), "", o.flavor); have.GetDeletionTimestamp() == nil {
		t.Error("the flavor is not marked as deleted")
	}
	c.Kubectl(t, "patch", "resourceflavors.kueue.x-k8s.io", o.flavor, "--type=merge", "--patch", `{"metadata":{"finalizers":null}}`)
	for _, each := range []harness.Queue{q, other} {
		condition := c.ExpectCondition(t, kueue("ClusterQueue"), "", each.Cluster, "Active", "False", "FlavorNotFound")
		if !strings.Contains(condition.Message, o.flavor) {
			t.Errorf("the message does not name %s: %s", o.flavor, condition.Message)
		}
	}
	o.gone(other, still)
	waiting := o.submit(other, 1)
	c.ExpectMessage(t, other.Namespace, waiting, "Suspended", "ClusterQueue "+other.Cluster+" is inactive")
	o.stays(q, false, running)
	o.expectUsage(q, 3, 1)

	c.MustCreate(t, harness.Flavor(o.flavor))
	c.ExpectSuspended(t, other.Namespace, waiting, false)
	late := o.submit(q, 1)
	c.ExpectMessage(t, q.Namespace, late, "WaitingForQuota", "1 more needed")
}
