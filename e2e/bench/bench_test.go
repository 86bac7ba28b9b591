package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sluice.dev/e2e/harness"
)

// TestTimeToAdmission is the time from creating a Job in an empty queue to Admitted in its Workload.
func TestTimeToAdmission(t *testing.T) {
	lead(t)
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1000"})
	ledger := c.Watch(t, q.Namespace, 0)
	times := []time.Duration{}
	for range 51 {
		began := time.Now()
		job := c.Submit(t, q, harness.Job{CPU: "1"})
		if err := ledger.Await(t.Context(), harness.Admitted, job); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	report("from creating a Job in an empty queue to Admitted, 51 Jobs", "median %s, worst %s",
		times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
}

// burst is 1,000 suspended Jobs of a queue with room for all of them.
func burst(t *testing.T, label string) (harness.Queue, []string, *harness.Ledger) {
	t.Helper()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "100000"})
	jobs := size(t, "SLUICE_BENCH_JOBS", 1000)
	names := make([]string, jobs)
	each(t, jobs, func(i int) error {
		names[i] = fmt.Sprintf("burst-%04d", i)
		job := harness.Job{Name: names[i], Namespace: q.Namespace, Queue: label}.Object()
		// No scheduler feels responsible: pods that start would be measured as well.
		harness.Set(job, "nobody", "spec", "template", "spec", "schedulerName")
		harness.Set(job, true, "spec", "suspend")
		_, err := c.Create(t.Context(), job)
		return err
	})
	return q, names, c.Watch(t, q.Namespace, 0)
}

func untilAllRun(t *testing.T, ledger *harness.Ledger, jobs int, began time.Time) time.Duration {
	t.Helper()
	harness.EventuallyWithin(t, 10*time.Minute, "all Jobs are unsuspended", func() error {
		if have := ledger.Running(); have < jobs {
			return fmt.Errorf("%d of %d", have, jobs)
		}
		return nil
	})
	return time.Since(began)
}

// TestBurst compares the controller with a program that knows the answer and only writes it down.
func TestBurst(t *testing.T) {
	least := leastWrites(t)
	c := harness.Shared
	configuration, err := c.Controller().Configuration()
	if err != nil {
		t.Fatal(err)
	}
	measure := func(name string) {
		follow(t)
		q, names, ledger := burst(t, "main")
		before := written(t)
		c.Controller().Kill()
		if err := c.ReleaseLease(); err != nil {
			t.Fatal(err)
		}
		if err := c.Controller().Start(); err != nil {
			t.Fatal(err)
		}
		// The clock starts with the first thing that the controller does about these Jobs.
		if err := ledger.Await(t.Context(), harness.Created); err != nil {
			t.Fatal(err)
		}
		took := untilAllRun(t, ledger, len(names), time.Now())
		writes := settle(t) - before
		report(fmt.Sprintf("%d Jobs into free quota until all are unsuspended, %s", len(names), name),
			"%.1f s, %.2f of the least; %.1f writes a Job", took.Seconds(), took.Seconds()/least.Seconds(),
			float64(writes)/float64(len(names)))
		clear(t, harness.JobKind, q.Namespace)
		clear(t, harness.Kueue("Workload"), q.Namespace)
	}
	measure("as shipped")
	configuration["clientConnection"] = map[string]any{"qps": 100000, "burst": 100000}
	if err := c.Controller().SetConfiguration(configuration); err != nil {
		t.Fatal(err)
	}
	measure("without a limit of requests")
}

// leastWrites creates a Workload, admits it and unsuspends its Job, 1,000 times: no controller can do
// with less. The webhooks are served all the while.
func leastWrites(t *testing.T) time.Duration {
	t.Helper()
	follow(t)
	c := harness.Shared
	q, names, ledger := burst(t, "main")
	began := time.Now()
	each(t, len(names), func(i int) error {
		name := "least-" + names[i]
		if _, err := c.Create(t.Context(), workload(q.Namespace, name, "main")); err != nil {
			return err
		}
		condition := func(kind string) string {
			return fmt.Sprintf(`{"type":%q,"status":"True","reason":%q,"message":"","lastTransitionTime":%q}`, kind, kind, now())
		}
		err := patchStatus(t.Context(), harness.Kueue("Workload"), q.Namespace, name, fmt.Sprintf(
			`{"status":{"conditions":[%s,%s],"admission":{"clusterQueue":%q,"podSetAssignments":[{"name":"main","count":1,"flavors":{"cpu":%q},"resourceUsage":{"cpu":"1"}}]}}}`,
			condition("QuotaReserved"), condition("Admitted"), q.Cluster, q.Flavor))
		if err != nil {
			return err
		}
		_, err = c.Patch(t.Context(), harness.JobKind, q.Namespace, names[i], `{"spec":{"suspend":false}}`)
		return err
	})
	took := untilAllRun(t, ledger, len(names), began)
	report(fmt.Sprintf("%d Jobs, the least possible writes from %d goroutines", len(names), parallelism), "%.1f s", took.Seconds())
	clear(t, harness.JobKind, q.Namespace)
	clear(t, harness.Kueue("Workload"), q.Namespace)
	return took
}

// TestIdle has 1,000 queues and 10,000 finished Workloads, and nothing to do.
func TestIdle(t *testing.T) {
	follow(t)
	c := harness.Shared
	queues, finished := size(t, "SLUICE_BENCH_QUEUES", 1000), size(t, "SLUICE_BENCH_WORKLOADS", 10000)
	namespace, flavor := c.Namespace(t), harness.Name("flavor")
	c.MustCreate(t, harness.Flavor(flavor))
	each(t, queues, func(i int) error {
		q := harness.Queue{Cluster: fmt.Sprintf("idle-%04d", i), Flavor: flavor}
		if _, err := c.Create(t.Context(), harness.ClusterQueue(q, harness.QueueOptions{CPU: "4"})); err != nil {
			return err
		}
		_, err := c.Create(t.Context(), harness.LocalQueue(namespace, q.Cluster, q.Cluster))
		return err
	})
	each(t, finished, func(i int) error {
		name := fmt.Sprintf("finished-%05d", i)
		_, err := c.Create(t.Context(), workload(namespace, name, fmt.Sprintf("idle-%04d", i%queues)))
		if err != nil {
			return err
		}
		return patchStatus(t.Context(), harness.Kueue("Workload"), namespace, name, fmt.Sprintf(
			`{"status":{"conditions":[{"type":"Finished","status":"True","reason":"Succeeded","message":"","lastTransitionTime":%q}]}}`, now()))
	})
	lead(t)
	before := settle(t)
	pid := c.Controller().Pid()
	used, err := harness.ProcessorTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	const while = 60 * time.Second
	time.Sleep(while)
	after, err := harness.ProcessorTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	held, err := harness.ResidentMegabytes(pid)
	if err != nil {
		t.Fatal(err)
	}
	report(fmt.Sprintf("idle for %s, %d queues, %d finished Workloads", while, queues, finished),
		"%d writes, %.2f %% of a core, %d MB", written(t)-before, 100*float64(after-used)/float64(while), held)
	clear(t, harness.Kueue("Workload"), namespace)
	clear(t, harness.Kueue("LocalQueue"), namespace)
	clear(t, harness.Kueue("ClusterQueue"), "")
}

// TestPending has 10,000 Workloads that wait.
func TestPending(t *testing.T) {
	follow(t)
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "0", Quotas: []string{"memory=1Gi"}})
	pending := size(t, "SLUICE_BENCH_WORKLOADS", 10000)
	each(t, pending, func(i int) error {
		_, err := c.Create(t.Context(), workload(q.Namespace, fmt.Sprintf("pending-%05d", i), q.Local))
		return err
	})
	lead(t)
	began := time.Now()
	settle(t)
	queue := c.Get(t, harness.Kueue("ClusterQueue"), "", q.Cluster)
	if have := harness.Field(queue, "status", "pendingWorkloads"); have != fmt.Sprint(pending) {
		t.Errorf("%s Workloads are pending, want %d", have, pending)
	}
	held, err := harness.ResidentMegabytes(c.Controller().Pid())
	if err != nil {
		t.Fatal(err)
	}
	report(fmt.Sprintf("%d pending Workloads after a restart", pending), "%d MB, quiet after %.0f s", held, time.Since(began).Seconds())
	clear(t, harness.Kueue("Workload"), q.Namespace)
}
