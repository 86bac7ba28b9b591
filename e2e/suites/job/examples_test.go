package job

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// TestExamples applies examples/ as it is.
func TestExamples(t *testing.T) {
	c := cluster(t)
	file := func(name string) string { return filepath.Join(harness.Root(), "examples", name) }
	h := c.Remember(t, kueue("Workload"), "")
	c.Kubectl(t, "apply", "-f", file("flavors.yaml"), "-f", file("teams.yaml"))
	c.Kubectl(t, "apply", "-f", file("jobs.yaml"))
	t.Cleanup(func() {
		for _, name := range []string{"jobs.yaml", "teams.yaml", "flavors.yaml"} {
			if _, err := c.Run(context.Background(), "", "kubectl", "delete", "--wait=false", "-f", file(name)); err != nil {
				t.Error(err)
			}
		}
	})
	// Who waits does so for some seconds only, so the history is asked. Jobs that were created in the
	// same second may start in another order than they have in the file.
	waits := func(reason string, jobs [2]string, words ...string) {
		t.Helper()
		either := func(object *unstructured.Unstructured) bool {
			return harness.OwnedBy(jobs[0])(object) || harness.OwnedBy(jobs[1])(object)
		}
		h.Await(t, fmt.Sprintf("one of %v waits with the words %v", jobs, words), 0, either, harness.Saying(reason, words...))
	}
	waits("WaitingForQuota", [2]string{"train", "prepare"}, "cpu", "default-flavor", "more needed")
	waits("WaitingForQuota", [2]string{"render", "simulate"}, "cpu", "1 more needed")
	c.ExpectFinished(t, "team-a", "prepare")
	c.ExpectFinished(t, "team-b", "simulate")
	expectMessage(t, "team-a", "too-big", "ExceedsMaxQuota", "cpu", "default-flavor")
	for _, job := range []string{"report", "fix", "train"} {
		c.ExpectFinished(t, "team-a", job)
	}
	for _, job := range []string{"render", "small"} {
		c.ExpectFinished(t, "team-b", job)
	}
}
