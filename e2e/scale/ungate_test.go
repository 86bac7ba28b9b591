package scale

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// newSite has one rack with room for exactly one gang. Its pods belong to no scheduler: what happens after
// the release is not measured.
func newSite(t *testing.T) harness.Site { return harness.NewSite(t, 1, 8, gang/8) }

func unscheduled(object *unstructured.Unstructured) *unstructured.Unstructured {
	harness.Set(object, "nobody", "spec", "template", "spec", "schedulerName")
	return object
}

func rate(pods int, took time.Duration) string {
	return fmt.Sprintf("%d pods in %.2f s, %.0f a second", pods, took.Seconds(), float64(pods)/took.Seconds())
}

// expectOneWrite ends the test when a pod of the namespace was written to more than once by the controller.
func expectOneWrite(t *testing.T, namespace string) {
	t.Helper()
	prefix := "patch pods/ " + namespace + "/"
	count := map[string]int{}
	harness.Eventually(t, "the audit log has a write to each pod", func() error {
		all, err := harness.Shared.Writes()
		if err != nil {
			return err
		}
		clear(count)
		for _, write := range all {
			if name, found := strings.CutPrefix(write, prefix); found {
				count[name]++
			}
		}
		if len(count) < gang {
			return fmt.Errorf("%d pods were written to", len(count))
		}
		return nil
	})
	for name, writes := range count {
		if writes > 1 {
			t.Errorf("pod %s was written to %d times", name, writes)
		}
	}
}

// TestFromAdmission: the Job controller makes the pods while the first of them are let go.
func TestFromAdmission(t *testing.T) {
	c := harness.Shared
	s := newSite(t)
	g, ledger := watchGates(t, s.Namespace), c.Watch(t, s.Namespace, 0)
	c.MustCreate(t, unscheduled(job(s.Queue, "gang", harness.RackLabel)))
	if err := ledger.Await(t.Context(), harness.Admitted, "gang"); err != nil {
		t.Fatal(err)
	}
	admitted := time.Now()
	g.awaitThere(t, gang)
	made := time.Since(admitted)
	_, last := g.awaitFree(t, gang, admitted)
	harness.Report("a Job of 512 pods from its admission to the last gate", "%s; all were made after %.2f s",
		rate(gang, last.Sub(admitted)), made.Seconds())
	expectOneWrite(t, s.Namespace)
}

// waitingPods has the pods of an admitted Job waiting at their gates, and nobody there to let them go: a
// controller that does not lead answers for the webhook of pods. It returns how many wait.
func waitingPods(t *testing.T, s harness.Site, g *gates) int {
	t.Helper()
	c := harness.Shared
	ledger := c.Watch(t, s.Namespace, 0)
	c.MustCreate(t, unscheduled(job(s.Queue, "gang", harness.RackLabel)))
	if err := ledger.Await(t.Context(), harness.Started, "gang"); err != nil {
		t.Fatal(err)
	}
	c.Controller().Kill()
	for _, step := range []func() error{c.HoldLease, c.Controller().Start, c.WaitForWebhooks} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	g.awaitThere(t, gang)
	there, free := g.counts()
	return there - free
}

// TestAllAtOnce: all pods wait when the controller begins.
func TestAllAtOnce(t *testing.T) {
	s := newSite(t)
	g := watchGates(t, s.Namespace)
	waiting := waitingPods(t, s, g)
	began := time.Now()
	harness.Shared.Lead(t)
	first, last := g.awaitFree(t, gang, began)
	harness.Report("pods of a Job that all wait, from the first gate to the last", "%s", rate(waiting, last.Sub(first)))
	expectOneWrite(t, s.Namespace)
}

// TestTheLeast does the same writes with nothing to think about: more the API server does not allow.
func TestTheLeast(t *testing.T) {
	c := harness.Shared
	s := newSite(t)
	g := watchGates(t, s.Namespace)
	waitingPods(t, s, g)
	t.Cleanup(func() { c.Lead(t) })
	pods, err := c.List(t.Context(), podKind, s.Namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	patches := map[string]string{}
	for i := range pods {
		pod := &pods[i]
		if left, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates"); len(left) > 0 {
			patches[pod.GetName()] = fmt.Sprintf(
				`{"metadata":{"uid":%q,"resourceVersion":%q},"spec":{"nodeSelector":{"kubernetes.io/hostname":%q},"schedulingGates":[]}}`,
				pod.GetUID(), pod.GetResourceVersion(), s.Host(0, i%8))
		}
	}
	names := []string{}
	for name := range patches {
		names = append(names, name)
	}
	began := time.Now()
	harness.Each(t, len(names), goroutines, func(i int) error {
		_, err := c.Patch(t.Context(), podKind, s.Namespace, names[i], patches[names[i]])
		return err
	})
	harness.Report(fmt.Sprintf("the same patches from %d goroutines", goroutines), "%s", rate(len(names), time.Since(began)))
}

// TestPodGroup: plain pods have a second gate, and still are let go by one write each.
func TestPodGroup(t *testing.T) {
	c := harness.Shared
	s := newSite(t)
	g := watchGates(t, s.Namespace)
	harness.Each(t, gang, goroutines, func(i int) error {
		_, err := c.Create(t.Context(), harness.Parsef(`
apiVersion: v1
kind: Pod
metadata:
  name: pod-%03[1]d
  namespace: %[2]s
  labels: {kueue.x-k8s.io/queue-name: %[3]s, kueue.x-k8s.io/pod-group-name: group, example.com/index: "%[1]d"}
  annotations:
    kueue.x-k8s.io/pod-group-total-count: "%[4]d"
    kueue.x-k8s.io/pod-group-pod-index-label: example.com/index
    %[5]s: %[6]s
spec:
  schedulerName: nobody
  containers: [{name: main, image: registry.example/work, resources: {requests: {cpu: "1"}}}]
`, i, s.Namespace, s.Local, gang, required, harness.RackLabel))
		return err
	})
	made := time.Now()
	first, last := g.awaitFree(t, gang, time.Time{})
	harness.Report("512 plain pods of a group, from the first gate to the last", "%s; the first %.2f s after all were made",
		rate(gang, last.Sub(first)), first.Sub(made).Seconds())
	expectOneWrite(t, s.Namespace)
	pods, err := c.List(t.Context(), podKind, s.Namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		var number int
		if _, err := fmt.Sscanf(pods[i].GetName(), "pod-%d", &number); err != nil {
			t.Fatal(err)
		}
		want := s.Host(0, number/(gang/8))
		if have := harness.Field(&pods[i], "spec", "nodeSelector", harness.HostLabel); have != want {
			t.Errorf("%s goes to %q, want %q", pods[i].GetName(), have, want)
		}
	}
}
