package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

// uninstallCommands are the lines that the README gives: one block for a cluster that is emptied while
// the controller runs, one for what is left without it.
func uninstallCommands(t *testing.T) (emptied, left string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(harness.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "**Uninstall.**")
	parts := strings.Split(section, "```")
	if !found || len(parts) < 4 {
		t.Fatal("the README does not say how to uninstall")
	}
	return parts[1], parts[3]
}

// withObjects installs the chart with a controller, and has one Job that runs and one that waits.
func withObjects(t *testing.T, values ...string) (q harness.Queue, running string) {
	t.Helper()
	c := harness.Shared
	installForController(t)
	if err := c.InstallChart(values...); err != nil {
		t.Fatal(err)
	}
	q = c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	running = c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	waiting := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectWorkload(t, q.Namespace, waiting, "QuotaReserved", "False", "WaitingForQuota")
	return q, running
}

func endControllers(t *testing.T) {
	t.Helper()
	for _, controller := range harness.Shared.Controllers() {
		if _, err := controller.Stop(harness.Patience); err != nil {
			t.Fatal(err)
		}
	}
}

func expectNothingLeft(t *testing.T) {
	t.Helper()
	harness.Eventually(t, "the definitions go", func() error {
		out, err := harness.Shared.Run(t.Context(), "", "kubectl", "get", "crd", "--output", "name")
		if err == nil && strings.TrimSpace(out) != "" {
			err = fmt.Errorf("these are left:\n%s", out)
		}
		return err
	})
}

// TestUninstallWithObjects follows the README, with queues and Jobs in the cluster. It is the last one:
// it leaves nothing of the chart.
func TestUninstallWithObjects(t *testing.T) {
	c := harness.Shared
	emptied, left := uninstallCommands(t)
	t.Run("while the controller runs", func(t *testing.T) {
		withObjects(t)
		if _, err := c.Shell(t.Context(), emptied); err != nil {
			t.Fatal(err)
		}
		expectNothingLeft(t)
		endControllers(t)
	})
	for _, keep := range []string{"true", "false"} {
		t.Run("without a controller, crds.keep="+keep, func(t *testing.T) {
			q, running := withObjects(t, "--set", "crds.keep="+keep)
			endControllers(t)
			if keep == "false" {
				c.Helm(t, "uninstall", harness.Release, "--namespace", namespace)
			}
			if _, err := c.Shell(t.Context(), left); err != nil {
				t.Fatal(err)
			}
			expectNothingLeft(t)
			c.ExpectSuspended(t, q.Namespace, running, false)
		})
	}
}
