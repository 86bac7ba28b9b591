package job

import (
	"context"
	"path/filepath"
	"testing"

	"sluice.dev/e2e/harness"
)

// TestExamples applies examples/ as it is.
func TestExamples(t *testing.T) {
	c := cluster(t)
	file := func(name string) string { return filepath.Join(harness.Root(), "examples", name) }
	c.Kubectl(t, "apply", "-f", file("flavors.yaml"), "-f", file("teams.yaml"))
	c.Kubectl(t, "apply", "-f", file("jobs.yaml"))
	t.Cleanup(func() {
		for _, name := range []string{"jobs.yaml", "teams.yaml", "flavors.yaml"} {
			if _, err := c.Run(context.Background(), "", "kubectl", "delete", "--wait=false", "-f", file(name)); err != nil {
				t.Error(err)
			}
		}
	})
	expectMessage(t, "team-a", "train", "WaitingForQuota", "cpu", "default-flavor", "more needed")
	expectMessage(t, "team-b", "render", "WaitingForQuota", "cpu", "1 more needed")
	c.ExpectSuspended(t, "team-a", "report", false)
	c.ExpectFinished(t, "team-a", "prepare")
	c.ExpectFinished(t, "team-b", "simulate")
	expectMessage(t, "team-a", "too-big", "ExceedsMaxQuota", "cpu", "default-flavor")
	for _, job := range []string{"fix", "train"} {
		c.ExpectFinished(t, "team-a", job)
	}
	for _, job := range []string{"render", "small"} {
		c.ExpectFinished(t, "team-b", job)
	}
}
