// Package quiet looks at a controller that has nothing to do: no writes, hardly any CPU; and at one
// that gets a lot at once.
package quiet

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "quiet", Nodes: 8, Audit: true})
}

// writes is what the controller's account wrote so far, but for its lease.
func writes(t *testing.T) (int, []string) {
	t.Helper()
	all, err := harness.Shared.Writes()
	if err != nil {
		t.Fatal(err)
	}
	return len(all), all
}

// cpu is the processor time of a process so far.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	used, err := harness.ProcessorTime(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// memory is what a process holds in memory now, in MB.
func memory(t *testing.T, pid int) int {
	t.Helper()
	held, err := harness.ResidentMegabytes(pid)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// settled waits until every Job of the queue is where it stays: it is finished, its pods are ready, or
// it says what it waits for. Nodes and scheduler are not ours, and may take long.
func settled(t *testing.T, q harness.Queue) {
	t.Helper()
	c := harness.Shared
	harness.Eventually(t, "the Jobs of "+q.Namespace+" have come to rest", func() error {
		workloads, err := c.List(t.Context(), harness.Kueue("Workload"), q.Namespace, "")
		if err != nil {
			return err
		}
		rest := 0
		for i := range workloads {
			for _, state := range []string{"Finished=True", "PodsReady=True", "QuotaReserved=False"} {
				if harness.Having(state)(&workloads[i]) {
					rest++
					break
				}
			}
		}
		if rest != 4 {
			return fmt.Errorf("%d of %d have, want 4", rest, len(workloads))
		}
		return nil
	})
}

// TestNothingToDo has finished, running and waiting Jobs in many queues, and then nothing happens.
func TestNothingToDo(t *testing.T) {
	c := harness.Shared
	queues := []harness.Queue{}
	for range 20 {
		queues = append(queues, c.NewQueue(t, harness.QueueOptions{CPU: "2"}))
	}
	for _, q := range queues {
		done := c.Submit(t, q, harness.Job{CPU: "1", RunSeconds: "0.1"})
		c.ExpectFinished(t, q.Namespace, done)
		for _, cpu := range []string{"2", "1", "5"} {
			c.Submit(t, q, harness.Job{CPU: cpu})
		}
	}
	for _, q := range queues {
		settled(t, q)
	}
	before := len(c.ExpectQuiet(t))
	pid := c.Controller().Pid()
	used, began := cpu(t, pid), time.Now()
	time.Sleep(20 * time.Second)
	after, all := writes(t)
	if after != before {
		t.Errorf("%d writes while nothing happened: %v", after-before, all[before:])
	}
	share := float64(cpu(t, pid)-used) / float64(time.Since(began))
	t.Logf("%.2f %% of a core, %d MB", 100*share, memory(t, pid))
	if share > 0.01 {
		t.Errorf("%.2f %% of a core while nothing happened", 100*share)
	}
}

// TestRestartWritesNothing: a controller that starts finds everything as it left it.
func TestRestartWritesNothing(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	running := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	c.ExpectWorkload(t, q.Namespace, running, "PodsReady", "True", "")
	waiting := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectWorkload(t, q.Namespace, waiting, "QuotaReserved", "False", "WaitingForQuota")
	before := len(c.ExpectQuiet(t))
	c.Controller().Restart(t)
	time.Sleep(5 * time.Second)
	if after, all := writes(t); after != before {
		t.Errorf("%d writes after a restart: %v", after-before, all[before:])
	}
}

// TestTimeToAdmission creates Jobs one after the other in an empty queue.
func TestTimeToAdmission(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1000"})
	ledger := c.Watch(t, q.Namespace, 0)
	times := []time.Duration{}
	for range 20 {
		began := time.Now()
		job := c.Submit(t, q, harness.Job{CPU: "1", Labels: []string{"cpu=1"}})
		ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
		err := ledger.Await(ctx, harness.Reserved, job)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	total := time.Duration(0)
	for _, one := range times {
		total += one
	}
	t.Logf("from creating a Job to its admission: mean %s of %d", (total / time.Duration(len(times))).Round(time.Millisecond), len(times))
	// This machine also runs the control plane and its pods; the bound only catches a lost wake-up.
	if mean := total / time.Duration(len(times)); mean > 10*time.Second {
		t.Errorf("mean %s", mean)
	}
}
