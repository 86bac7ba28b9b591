// Package gangsoff runs Jobs that ask to be gangs on a cluster without them: they are told so, and a
// gang of which only a part can start gives its quota back.
package gangsoff

import (
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "gangsoff", Nodes: 1, Configure: func(config map[string]any) {
		config["waitForPodsReady"] = map[string]any{
			"timeout":           "6s",
			"requeuingStrategy": map[string]any{"backoffBaseSeconds": 5, "backoffMaxSeconds": 5},
		}
	}})
}

// TestFallback: 40 pods of one CPU on a node of 32. Some start, since nothing holds them; after the
// timeout all of them are gone, and another Job can have the quota. A running gang that loses a pod is
// looked after as one of kube-scheduler's would be.
func TestFallback(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "40"})
	object := harness.Job{Name: harness.Name("gang"), Namespace: q.Namespace, Queue: q.Local, Pods: 40}.Object()
	object.SetAnnotations(map[string]string{"sluice.dev/native-gang": "true"})
	gang := c.MustCreate(t, object)
	if have := gang.GetAnnotations()["sluice.dev/gang-mode"]; have != "Fallback" {
		t.Errorf("gang-mode is %q", have)
	}
	event := c.ExpectEvent(t, q.Namespace, "Job", gang.GetName(), "GangFallback")
	if note := harness.Field(event, "note"); !strings.Contains(note, "one by one") {
		t.Errorf("the event says %q", note)
	}
	next := c.Submit(t, q, harness.Job{Pods: 4})
	c.ExpectWorkload(t, q.Namespace, gang.GetName(), "Evicted", "True", "PodsReadyTimeout")
	c.ExpectWorkload(t, q.Namespace, next, "Admitted", "True", "")
}

func TestIntegrity(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	object := harness.Job{Name: harness.Name("gang"), Namespace: q.Namespace, Queue: q.Local, Pods: 4}.Object()
	object.SetAnnotations(map[string]string{"sluice.dev/native-gang": "true"})
	gang := c.MustCreate(t, object).GetName()
	c.ExpectWorkload(t, q.Namespace, gang, "GangIntact", "True", "Whole")
	pods := c.Kubectl(t, "get", "pods", "--namespace", q.Namespace, "--output", "name")
	lost, _, _ := strings.Cut(pods, "\n")
	c.Kubectl(t, "delete", "--namespace", q.Namespace, lost, "--force", "--grace-period=0", "--wait=false")
	harness.Eventually(t, "the gang is whole again with another pod", func() error {
		now := c.Kubectl(t, "get", "pods", "--namespace", q.Namespace, "--output", "name")
		if strings.Contains(now, lost+"\n") || strings.Count(now, "\n") != 4 {
			return harness.ErrNotYet
		}
		return nil
	})
	c.ExpectWorkload(t, q.Namespace, gang, "GangIntact", "True", "Whole")
}

// TestDetection: the log says what is not there.
func TestDetection(t *testing.T) {
	if log := harness.Shared.Controller().Log(); !strings.Contains(log, `"podGroups":false`) {
		t.Errorf("the log does not say that there are no PodGroups")
	}
}
