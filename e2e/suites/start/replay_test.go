package start

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

// TestRecordAndReplay records a controller at work. The replay decides without a cluster, twice the
// same, and decides about the Jobs that were there.
func TestRecordAndReplay(t *testing.T) {
	c := harness.Shared
	controller, err := c.NewController("recording")
	if err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(t.TempDir(), "events.jsonl")
	controller.Arguments = []string{"--record=" + events}
	if err := controller.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(controller.Kill)
	if err := c.WaitForWebhooks(); err != nil {
		t.Fatal(err)
	}
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	runs := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, runs, false)
	waits := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectWorkload(t, q.Namespace, waits, "QuotaReserved", "False", "WaitingForQuota")
	if code, err := controller.Stop(harness.Patience); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v; the end of the log:\n%s", code, err, controller.LogTail(20))
	}

	first := run(t, nil, "--config", controller.ConfigPath, "--replay="+events)
	again := run(t, nil, "--config", controller.ConfigPath, "--replay="+events)
	if first.code != 0 || again.code != 0 {
		t.Fatalf("exit codes %d and %d; stderr:\n%s", first.code, again.code, first.stderr)
	}
	if first.stdout != again.stdout {
		t.Error("two replays of the same events differ")
	}
	for _, name := range []string{runs, waits} {
		if !strings.Contains(first.stdout, name) {
			t.Errorf("the replay decides nothing about Job %s", name)
		}
	}

	damaged := write(t, "events.jsonl", "this is no event\n")
	expectMistake(t, run(t, nil, "--config", controller.ConfigPath, "--replay="+damaged), damaged)
}
