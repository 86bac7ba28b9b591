package gangs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

// member creates one pod of a group of plain pods, which has the label that the pods of a Job of that
// name would have, so that both are counted alike.
func (p pool) member(t *testing.T, group, name string, total int, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	pod := harness.Parsef(`
apiVersion: v1
kind: Pod
metadata:
  name: %s
  namespace: %s
  labels: {kueue.x-k8s.io/queue-name: %s, kueue.x-k8s.io/pod-group-name: %s, batch.kubernetes.io/job-name: %s}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "%d", sluice.dev/native-gang: "true"}
spec:
  restartPolicy: Never
  containers: [{name: c, image: fake, resources: {requests: {cpu: "1"}}}]
`, name, p.Namespace, p.Local, group, group, total)
	if change != nil {
		change(pod)
	}
	return harness.Shared.MustCreate(t, pod)
}

func (p pool) expectGroup(t *testing.T, group, kind, status, reason string) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("Workload %s has %s=%s %s", group, kind, status, reason), func() error {
		workload, err := harness.Shared.Fetch(t.Context(), harness.Kueue("Workload"), p.Namespace, group)
		if err != nil {
			return err
		}
		have := harness.ConditionOf(workload, kind)
		if have.Status != status || (reason != "" && have.Reason != reason) {
			return fmt.Errorf("it has %s %s: %s", have.Status, have.Reason, have.Message)
		}
		return nil
	})
}

// TestPodsAllOrNothing: a group of 4 plain pods where 3 fit. It gets its PodGroup when it is admitted,
// none of its pods starts, and all do when there is room, though the controller was restarted.
func TestPodsAllOrNothing(t *testing.T) {
	p := newPool(t, "2", "1")
	group := harness.Name("group")
	var first *unstructured.Unstructured
	for i := range 4 {
		pod := p.member(t, group, fmt.Sprintf("%s-%d", group, i), 4, nil)
		if first == nil {
			first = pod
		}
		if have, want := podGroup(pod), podGroup(first); have == "" || have != want {
			t.Fatalf("pod %d is in PodGroup %q, the first in %q", i, have, want)
		}
	}
	p.expectGroup(t, group, "Admitted", "True", "")
	harness.Eventually(t, "no pod has a gate", func() error {
		pods, err := harness.Shared.List(t.Context(), podKind, p.Namespace, "batch.kubernetes.io/job-name="+group)
		if err != nil {
			return err
		}
		for i := range pods {
			if gates := harness.Field(&pods[i], "spec", "schedulingGates"); gates != "" && gates != "[]" {
				return fmt.Errorf("%s has %s", pods[i].GetName(), gates)
			}
		}
		return nil
	})
	object := harness.Shared.Get(t, groupKind, p.Namespace, podGroup(first))
	if have := harness.Field(object, "spec", "schedulingPolicy", "gang", "minCount"); have != "4" {
		t.Errorf("minCount is %s", have)
	}
	p.never(t, group, 4, 2*time.Second)
	harness.Shared.Controller().Kill()
	if err := harness.Shared.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	p.node(t, "1")
	p.expectBound(t, group, 4)
	p.expectGroup(t, group, "GangIntact", "True", "Whole")
}

func podGroup(pod *unstructured.Unstructured) string {
	return harness.Field(pod, "spec", "schedulingGroup", "podGroupName")
}

// TestPodsRefused: pods in PodGroups that cannot be admitted as they are get no Workload.
func TestPodsRefused(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "4")
	wide := c.MustCreate(t, harness.Parsef("{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: %s}, spec: {schedulingPolicy: {gang: {minCount: 3}}}}", harness.Name("group"), p.Namespace)).GetName()
	for reason, in := range map[string]string{"GangRefused": wide, "PodGroupMissing": harness.Name("nowhere")} {
		group := harness.Name("pods")
		for i := range 2 {
			p.member(t, group, fmt.Sprintf("%s-%d", group, i), 2, func(pod *unstructured.Unstructured) {
				harness.Set(pod, in, "spec", "schedulingGroup", "podGroupName")
			})
		}
		event := c.ExpectEvent(t, p.Namespace, "Pod", group+"-0", reason)
		if note := harness.Field(event, "note"); !strings.Contains(note, in) {
			t.Errorf("the event says %q", note)
		}
		if _, err := c.Fetch(t.Context(), harness.Kueue("Workload"), p.Namespace, group); err == nil {
			t.Errorf("group %s has a Workload", group)
		}
	}
}

// TestPodsRepaired: a pod is lost; its replacement joins the gang, though another has ended by then.
func TestPodsRepaired(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "4")
	group := harness.Name("group")
	names := []string{}
	for i := range 3 {
		names = append(names, fmt.Sprintf("%s-%d", group, i))
		p.member(t, group, names[i], 3, func(pod *unstructured.Unstructured) {
			if i == 0 {
				annotations := pod.GetAnnotations()
				annotations["sluice.dev/run-seconds"] = "1"
				pod.SetAnnotations(annotations)
			}
		})
	}
	harness.Eventually(t, "the first pod has ended", func() error {
		pod, err := c.Fetch(t.Context(), podKind, p.Namespace, names[0])
		if err != nil {
			return err
		}
		if phase := harness.Field(pod, "status", "phase"); phase != "Succeeded" {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	c.Kubectl(t, "delete", "pod", "--namespace", p.Namespace, names[2], "--wait=false")
	p.expectGroup(t, group, "WaitingForReplacementPods", "True", "")
	replacement := p.member(t, group, group+"-new", 3, nil)
	harness.Eventually(t, "the replacement runs", func() error {
		pod, err := c.Fetch(t.Context(), podKind, p.Namespace, replacement.GetName())
		if err != nil {
			return err
		}
		if harness.Field(pod, "spec", "nodeName") == "" {
			return harness.ErrNotYet
		}
		return nil
	})
	object := c.Get(t, groupKind, p.Namespace, podGroup(replacement))
	if have := harness.Field(object, "spec", "schedulingPolicy", "gang", "minCount"); have != "2" {
		t.Errorf("minCount is %s", have)
	}
}
