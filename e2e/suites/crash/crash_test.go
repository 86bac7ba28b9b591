// Package crash ends controllers at bad moments and looks for Jobs that were lost, started twice or
// admitted beyond the quota.
package crash

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/e2e/harness"
)

// A short lease, so that a successor does not have to wait for long; not so short that a controller
// loses it when the machine is slow for a while.
func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "crash", Nodes: 8, Configure: func(config map[string]any) {
		election, _ := config["leaderElection"].(map[string]any)
		election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = "6s", "5s", "200ms"
	}})
}

// TestKillDuringAdmission kills the controller after a step of an admission and a random short time,
// starts it again, and expects that everything ends well, once. SLUICE_CRASH_POINTS changes
// the number of kills.
func TestKillDuringAdmission(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	ledger := c.Watch(t, q.Namespace, 4)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	steps := []harness.Event{"", harness.Created, harness.Reserved, harness.Started, harness.Finished}
	for round := range harness.CountFrom(t, "SLUICE_CRASH_POINTS", 54, 1) {
		event := steps[round%len(steps)]
		delay := time.Duration(random.Int64N(int64(20 * time.Millisecond)))
		// The two do not fit together, so that one waits while the other runs.
		first := c.Submit(t, q, harness.Job{CPU: "3", RunSeconds: "0.1", Labels: []string{"cpu=3"}})
		second := c.Submit(t, q, harness.Job{CPU: "3", RunSeconds: "0.1", Labels: []string{"cpu=3"}})
		if event != "" {
			ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
			err := ledger.Await(ctx, event, first, second)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(delay)
		c.Controller().Kill()
		// In some rounds the successor waits until the lease of the dead runs out; not in all 50.
		if round%18 != 0 {
			if err := c.ReleaseLease(); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Controller().Start(); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, fmt.Sprintf("round %d (killed %s after %q): both Jobs finish", round, delay, event), func() error {
			if left := ledger.Unfinished(first, second); len(left) > 0 {
				return fmt.Errorf("these did not: %v", left)
			}
			return nil
		})
		ledger.Check(t)
	}
	harness.Eventually(t, "the queue is empty", func() error {
		queue, err := c.Fetch(t.Context(), harness.Kueue("ClusterQueue"), "", q.Cluster)
		if err != nil {
			return err
		}
		if have := harness.Usage(queue, "flavorsReservation", "cpu"); have != "0" {
			return fmt.Errorf("%s CPUs are reserved", have)
		}
		return nil
	})
}

// leader is the replica that leads.
func leader(t *testing.T) *harness.Controller {
	t.Helper()
	c := harness.Shared
	var found *harness.Controller
	harness.Eventually(t, "a replica leads", func() error {
		for _, controller := range c.Controllers() {
			if controller.Leading() {
				found = controller
				return nil
			}
		}
		return harness.ErrNotYet
	})
	return found
}

// submitForSure creates a Job although webhooks break off when a replica is killed: the API server
// then answers 500, and the client asks again, as kubectl users do.
func submitForSure(t *testing.T, q harness.Queue, job harness.Job) {
	t.Helper()
	job.Namespace, job.Queue = q.Namespace, q.Local
	harness.Eventually(t, "Job "+job.Name+" is created", func() error {
		_, err := harness.Shared.Create(t.Context(), job.Object())
		var status apierrors.APIStatus
		if errors.As(err, &status) && status.Status().Code == 409 {
			return nil
		}
		return err
	})
}

// TestLeaderChangeUnderLoad has two replicas and takes the leader away again and again.
func TestLeaderChangeUnderLoad(t *testing.T) {
	c := harness.Shared
	other, err := c.StartController("1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Kill)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "6"})
	ledger := c.Watch(t, q.Namespace, 6)
	const jobs, changes = 90, 6
	names := []string{}
	for i := range jobs {
		name := fmt.Sprintf("load-%03d", i)
		names = append(names, name)
		submitForSure(t, q, harness.Job{Name: name, CPU: "2", RunSeconds: "0.5", Labels: []string{"cpu=2"}})
		if i%(jobs/changes) == jobs/changes-1 {
			old := leader(t)
			if (i/(jobs/changes))%2 == 0 {
				old.Kill()
			} else if code, err := old.Stop(harness.Patience); err != nil || code != 0 {
				t.Fatalf("after SIGTERM: exit code %d, %v; the end of the log:\n%s", code, err, old.LogTail(20))
			}
			began := time.Now()
			now := leader(t)
			t.Logf("%s took over from %s after %s", now.PodName(), old.PodName(), time.Since(began).Round(time.Millisecond))
			if err := old.Start(); err != nil {
				t.Fatal(err)
			}
		}
		ledger.Check(t)
	}
	for _, name := range names {
		harness.EventuallyWithin(t, 2*harness.Patience, "Job "+name+" finishes", func() error {
			job, err := c.Fetch(t.Context(), harness.JobKind, q.Namespace, name)
			if err == nil && harness.ConditionOf(job, "Complete").Status != "True" {
				err = harness.ErrNotYet
			}
			return err
		})
	}
	ledger.Check(t)
}

// TestTermination ends the controller politely in the middle of work.
func TestTermination(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	for range 10 {
		c.Submit(t, q, harness.Job{CPU: "2", RunSeconds: "0.2"})
	}
	controller := leader(t)
	began := time.Now()
	code, err := controller.Stop(harness.Patience)
	if err != nil || code != 0 {
		t.Errorf("exit code %d, %v; the end of the log:\n%s", code, err, controller.LogTail(20))
	}
	t.Logf("it ended within %s", time.Since(began).Round(time.Millisecond))
	lease := harness.Parse("{apiVersion: coordination.k8s.io/v1, kind: Lease}").GroupVersionKind()
	if holder := harness.Field(c.Get(t, lease, harness.SystemNamespace, harness.LeaseName), "spec", "holderIdentity"); holder != "" {
		t.Errorf("the lease is still held by %s", holder)
	}
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
}

// TestShutdownDelay: a replica that is told to end gives its lease back and is not ready any more, but
// serves webhooks until its clients can have learned to go elsewhere.
func TestShutdownDelay(t *testing.T) {
	c := harness.Shared
	controller := leader(t)
	controller.Arguments = []string{"--shutdown-delay-duration=10m"}
	controller.Restart(t)
	t.Cleanup(func() {
		controller.Kill()
		controller.Arguments = nil
		if err := controller.Start(); err != nil {
			t.Error(err)
		}
	})
	if err := controller.Terminate(); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "it is not ready", func() error {
		status, body, err := controller.Probe("/readyz")
		if err == nil && (status != 500 || body != "not ready: shutting down") {
			err = fmt.Errorf("/readyz: %d %s", status, body)
		}
		return err
	})
	lease := harness.Parse("{apiVersion: coordination.k8s.io/v1, kind: Lease}").GroupVersionKind()
	harness.Eventually(t, "the lease is free", func() error {
		if holder := harness.Field(c.Get(t, lease, harness.SystemNamespace, harness.LeaseName), "spec", "holderIdentity"); holder != "" {
			return fmt.Errorf("it is held by %s", holder)
		}
		return nil
	})
	// Only a webhook can answer these.
	if err := c.WaitForWebhooks(); err != nil {
		t.Error(err)
	}
	if status, body, err := controller.Probe("/healthz"); err != nil || status != 200 {
		t.Errorf("/healthz: %d %s, %v", status, body, err)
	}
	if !controller.Running() {
		t.Error("it has ended already")
	}
}

// TestAPIServerRestart has the API server away for a while.
func TestAPIServerRestart(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	running := c.Submit(t, q, harness.Job{CPU: "3"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	waiting := c.Submit(t, q, harness.Job{CPU: "3"})
	c.ExpectWorkload(t, q.Namespace, waiting, "QuotaReserved", "False", "WaitingForQuota")
	c.Component(t, "restart", "apiserver", "--signal", "KILL")
	c.Delete(t, harness.JobKind, q.Namespace, running)
	harness.Eventually(t, "a controller goes on", func() error {
		for _, controller := range c.Controllers() {
			// Whoever loses the lease ends, sooner or later, and its Deployment starts it again.
			if !controller.Running() {
				if err := controller.Start(); err != nil {
					return err
				}
			}
		}
		suspended, err := c.Suspended(t.Context(), q.Namespace, waiting)
		if err == nil && suspended {
			err = harness.ErrNotYet
		}
		return err
	})
}
