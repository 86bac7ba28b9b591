// Package quota checks how teams share: cohorts, borrowing and giving back, preemption and fair
// sharing, and quotas that are edited while Jobs run.
package quota

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/e2e/harness"
)

// quiet is how long a test looks on when nothing may happen.
const quiet = 2 * time.Second

var kueue = harness.Kueue

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "quota", Nodes: 8, Audit: true})
}

// alone is the cluster for a test that runs before the parallel ones, by itself.
func alone(t *testing.T) *harness.Cluster {
	t.Helper()
	c := harness.Shared
	before := c.Controller().Pid()
	t.Cleanup(func() {
		if !c.Controller().Running() {
			t.Errorf("the controller ended; its last words:\n%s", c.Controller().LogTail(20))
		} else if now := c.Controller().Pid(); before != now && !restarts[t.Name()] {
			t.Errorf("the controller is another process than before: %d, then %d", before, now)
		}
	})
	return c
}

// restarts are the tests that start the controller anew.
var restarts = map[string]bool{"TestFairSharing": true}

func cluster(t *testing.T) *harness.Cluster {
	t.Parallel()
	return alone(t)
}

// org is a cohort of teams that share one flavor.
type org struct {
	t              *testing.T
	c              *harness.Cluster
	cohort, flavor string
}

func newOrg(t *testing.T, c *harness.Cluster) org {
	t.Helper()
	o := org{t, c, harness.Name("org"), harness.Name("flavor")}
	c.MustCreate(t, harness.Flavor(o.flavor))
	return o
}

// team makes a namespace with a LocalQueue on a ClusterQueue in the cohort. The texts are YAML maps
// that are merged into the spec; "quota: {...}" goes to the quota of the CPU.
func (o org) team(cpu string, specs ...string) harness.Queue {
	o.t.Helper()
	q := harness.Queue{Local: "main", Cluster: harness.Name("team"), Flavor: o.flavor, Namespace: o.c.Namespace(o.t)}
	object := harness.ClusterQueue(q, harness.QueueOptions{CPU: cpu})
	harness.Set(object, o.cohort, "spec", "cohortName")
	for _, text := range specs {
		more := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &more); err != nil {
			o.t.Fatal(err)
		}
		for name, value := range more {
			if name == "quota" {
				for field, limit := range value.(map[string]any) {
					set(object, fmt.Sprint(limit), field)
				}
				continue
			}
			harness.Set(object, value, "spec", name)
		}
	}
	o.c.MustCreate(o.t, object)
	o.c.MustCreate(o.t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	return q
}

// set sets a field of the CPU's quota.
func set(queue *unstructured.Unstructured, value, field string) {
	groups, _, _ := unstructured.NestedSlice(queue.Object, "spec", "resourceGroups")
	flavor := groups[0].(map[string]any)["flavors"].([]any)[0].(map[string]any)
	flavor["resources"].([]any)[0].(map[string]any)[field] = value
	harness.Set(queue, groups, "spec", "resourceGroups")
}

// pool makes a Cohort object with that many CPUs of its own ("" for none).
func (o org) pool(name, parent, cpu string) {
	o.t.Helper()
	object := harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: {}}", name)
	if parent != "" {
		harness.Set(object, parent, "spec", "parentName")
	}
	if cpu != "" {
		harness.Set(object, []any{map[string]any{
			"coveredResources": []any{"cpu"},
			"flavors": []any{map[string]any{
				"name":      o.flavor,
				"resources": []any{map[string]any{"name": "cpu", "nominalQuota": cpu}},
			}},
		}}, "spec", "resourceGroups")
	}
	o.c.MustCreate(o.t, object)
}

// run submits a Job of that many pods of one CPU, and waits until it runs.
func (o org) run(q harness.Queue, cpus int, labels ...string) string {
	o.t.Helper()
	job := o.submit(q, cpus, labels...)
	o.c.ExpectSuspended(o.t, q.Namespace, job, false)
	return job
}

// submit submits a Job of that many pods of one CPU that run until they are told to end.
func (o org) submit(q harness.Queue, cpus int, labels ...string) string {
	o.t.Helper()
	return o.c.Submit(o.t, q, harness.Job{Pods: cpus, Labels: labels})
}

// priority makes a class and returns the label that gives it to a Job.
func priority(t *testing.T, value int) string {
	t.Helper()
	class := harness.Name("priority")
	harness.Shared.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: %d}", class, value))
	return "kueue.x-k8s.io/priority-class=" + class
}

// gone deletes a Job and waits until nothing of it is left.
func (o org) gone(q harness.Queue, job string) {
	o.t.Helper()
	o.c.Delete(o.t, harness.JobKind, q.Namespace, job)
	harness.Eventually(o.t, "the Workload of "+job+" goes", func() error {
		if _, err := o.c.WorkloadOf(o.t.Context(), q.Namespace, job); err == nil {
			return harness.ErrNotYet
		}
		return nil
	})
}

// expectUsage waits until the ClusterQueue's status shows these CPUs, as used and as borrowed.
func (o org) expectUsage(q harness.Queue, total, borrowed int) {
	o.t.Helper()
	harness.Eventually(o.t, "the usage of "+q.Cluster, func() error {
		object, err := o.c.Fetch(o.t.Context(), kueue("ClusterQueue"), "", q.Cluster)
		if err != nil {
			return err
		}
		for _, field := range []string{"flavorsReservation", "flavorsUsage"} {
			have := [2]string{harness.Usage(object, field, "cpu"), borrowedOf(object, field)}
			if want := [2]string{strconv.Itoa(total), strconv.Itoa(borrowed)}; have != want {
				return fmt.Errorf("%s shows total and borrowed %q, want %q", field, have, want)
			}
		}
		return nil
	})
}

func borrowedOf(queue *unstructured.Unstructured, field string) string {
	flavors, _, _ := unstructured.NestedSlice(queue.Object, "status", field)
	for _, flavor := range flavors {
		resources, _, _ := unstructured.NestedSlice(flavor.(map[string]any), "resources")
		for _, item := range resources {
			if entry := item.(map[string]any); entry["name"] == "cpu" {
				if entry["borrowed"] == nil {
					return "0"
				}
				return fmt.Sprint(entry["borrowed"])
			}
		}
	}
	return ""
}

// stays looks on for a while: these Jobs must be suspended, or must not be.
func (o org) stays(q harness.Queue, suspended bool, jobs ...string) {
	o.t.Helper()
	harness.Throughout(o.t, quiet, fmt.Sprintf("Jobs %v must keep suspend=%t", jobs, suspended), func() error {
		for _, job := range jobs {
			have, err := o.c.Suspended(o.t.Context(), q.Namespace, job)
			if err != nil {
				return err
			}
			if have != suspended {
				return fmt.Errorf("%s does not", job)
			}
		}
		return nil
	})
}

// history is what became of all Workloads, by the names of their Jobs.
type history struct{ *harness.History }

// remember starts a history of all Workloads; it ends with the test.
func remember(t *testing.T) history {
	t.Helper()
	return history{harness.Shared.Remember(t, kueue("Workload"), "")}
}

// find is the position of the first version of the Job's Workload, from `from` on, that has all these
// conditions; -1 if there is none.
func (h history) find(job string, from int, conditions ...string) int {
	owned, having := harness.OwnedBy(job), harness.Having(conditions...)
	return h.Find(from, func(object *unstructured.Unstructured) bool { return owned(object) && having(object) })
}

// await waits for such a version and returns its position.
func (h history) await(t *testing.T, job string, from int, conditions ...string) int {
	t.Helper()
	return h.Await(t, fmt.Sprintf("that of %s has %v", job, conditions), from, harness.OwnedBy(job), harness.Having(conditions...))
}

// workload is the Workload of a Job.
func workload(t *testing.T, q harness.Queue, job string) *unstructured.Unstructured {
	t.Helper()
	found, err := harness.Shared.WorkloadOf(t.Context(), q.Namespace, job)
	if err != nil {
		t.Fatal(err)
	}
	return found
}
