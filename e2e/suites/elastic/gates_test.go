package elastic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

const gate = "kueue.x-k8s.io/multikueue"

// gated is a Workload without a Job whose preemptions somebody else has to allow.
func gated(t *testing.T, q harness.Queue, name, cpu string, priority int) {
	t.Helper()
	harness.Shared.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, namespace: %s}
spec:
  queueName: %s
  priority: %d
  preemptionGates: [{name: %s}]
  podSets:
  - name: main
    count: 1
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: i, resources: {requests: {cpu: %q}}}]}}
`, name, q.Namespace, q.Local, priority, gate, cpu))
}

// position fits a Workload whose only preemption gate is open, or closed.
func position(want string) harness.Fits {
	return func(object *unstructured.Unstructured) bool {
		gates, _, _ := unstructured.NestedSlice(object.Object, "status", "preemptionGates")
		return len(gates) == 1 && gates[0].(map[string]any)["name"] == gate && gates[0].(map[string]any)["position"] == want
	}
}

// TestClosedGateHoldsBackAPreemption: and only that. Others may take what it waits for; once the gate
// is open it preempts; its own eviction closes the gate again.
func TestClosedGateHoldsBackAPreemption(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, within)
	low := c.Submit(t, q, harness.Job{CPU: "3"})
	c.ExpectSuspended(t, q.Namespace, low, false)
	gated(t, q, "gated", "2", 10)
	blocked := c.ExpectCondition(t, kueue("Workload"), q.Namespace, "gated", "BlockedOnPreemptionGates", "True", "PreemptionGated")
	if want := "Workload requires preemption, but it's gated"; blocked.Message != want {
		t.Errorf("the message is %q, want %q", blocked.Message, want)
	}
	awaitWorkload(t, q.Namespace, "the gate is closed", harness.Named("gated"), position("Closed"), harness.Saying("AdmissionGated"))
	small := c.Submit(t, q, harness.Job{CPU: "1"})
	c.ExpectSuspended(t, q.Namespace, small, false)
	keepsRunning(t, q.Namespace, low)

	patch := fmt.Sprintf(`{"status":{"preemptionGates":[{"name":%q,"position":"Open","lastTransitionTime":%q}]}}`,
		gate, time.Now().UTC().Format(time.RFC3339))
	if _, err := c.Patch(t.Context(), kueue("Workload"), q.Namespace, "gated", patch, "status"); err != nil {
		t.Fatal(err)
	}
	c.ExpectSuspended(t, q.Namespace, low, true)
	awaitWorkload(t, q.Namespace, "it is admitted", harness.Named("gated"), position("Open"), harness.Having("Admitted=True"))
	c.ExpectWorkload(t, q.Namespace, low, "Preempted", "True", "InClusterQueue")
	c.ExpectMessage(t, q.Namespace, low, "WaitingForQuota", "2 more needed")
	if suspended, err := c.Suspended(t.Context(), q.Namespace, small); err != nil || suspended {
		t.Errorf("the small Job was enough of a victim: suspended %t, %v", suspended, err)
	}

	// The log says the same, in the words of the conditions.
	for _, line := range []string{
		fmt.Sprintf(`"msg":"waits","workload":"%s/gated","reason":"AdmissionGated","message":%q`, q.Namespace, blocked.Message),
		fmt.Sprintf(`"msg":"preempts","workload":"%s/gated"`, q.Namespace),
	} {
		harness.Eventually(t, "the log says "+line, func() error {
			if !strings.Contains(c.Controller().Log(), line) {
				return harness.ErrNotYet
			}
			return nil
		})
	}

	c.Submit(t, q, harness.Job{CPU: "3", Labels: []string{priority(t, 20)}})
	awaitWorkload(t, q.Namespace, "it is evicted", harness.Named("gated"), position("Closed"), harness.Having("Evicted=True Preempted"))
}

// TestGateMeansNothingToOneThatFits: who needs no preemption is admitted behind a closed gate.
func TestGateMeansNothingToOneThatFits(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	gated(t, q, "gated", "2", 10)
	fits := awaitWorkload(t, q.Namespace, "it is admitted", harness.Named("gated"), harness.Having("Admitted=True"))
	if have := harness.ConditionOf(fits, "BlockedOnPreemptionGates"); have.Status == "True" {
		t.Errorf("it is blocked: %+v", have)
	}
	// Nor does it matter where there is nobody to preempt.
	gated(t, q, "waits", "3", 10)
	waits := awaitWorkload(t, q.Namespace, "it waits", harness.Named("waits"), harness.Saying("WaitingForQuota", "1 more needed"))
	if have := harness.ConditionOf(waits, "BlockedOnPreemptionGates"); have.Status == "True" {
		t.Errorf("it is blocked: %+v", have)
	}
}
