// Package pods checks what becomes of plain pods and of groups of them: who waits at the gate, who
// runs, who is replaced, and what the webhooks refuse.
package pods

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/e2e/harness"
)

const (
	quiet   = 2 * time.Second
	managed = "kueue.x-k8s.io/managed"
)

var (
	podKind = schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	kueue   = harness.Kueue
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "pods", Nodes: 8, PlainPods: true})
}

func cluster(t *testing.T) *harness.Cluster {
	t.Parallel()
	return harness.Shared
}

// pod is a plain pod.
type pod struct {
	name, queue string
	// group and total make it one of a group.
	group string
	total int
	cpu   string
	// run is how many seconds it runs, "" for ever; exit is the code it ends with.
	run, exit string
	// annotations are further ones.
	annotations map[string]string
}

func (p pod) object(namespace string) *unstructured.Unstructured {
	if p.cpu == "" {
		p.cpu = "1"
	}
	object := harness.Parsef(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  restartPolicy: Never
  containers: [{name: main, image: registry.example/app:1, resources: {requests: {cpu: %q}}}]
`, p.name, namespace, p.cpu)
	labels, annotations := map[string]string{}, map[string]string{}
	if p.queue != "" {
		labels["kueue.x-k8s.io/queue-name"] = p.queue
	}
	if p.group != "" {
		labels["kueue.x-k8s.io/pod-group-name"] = p.group
		annotations["kueue.x-k8s.io/pod-group-total-count"] = fmt.Sprint(p.total)
	}
	if p.run != "" {
		annotations["sluice.dev/run-seconds"] = p.run
	}
	if p.exit != "" {
		annotations["sluice.dev/exit-code"] = p.exit
	}
	for key, value := range p.annotations {
		annotations[key] = value
	}
	object.SetLabels(labels)
	object.SetAnnotations(annotations)
	return object
}

func create(t *testing.T, q harness.Queue, p pod) {
	t.Helper()
	p.queue = q.Local
	harness.Shared.MustCreate(t, p.object(q.Namespace))
}

func gated(object *unstructured.Unstructured) bool {
	gates, _, _ := unstructured.NestedSlice(object.Object, "spec", "schedulingGates")
	return len(gates) > 0
}

// expectPhase waits until the pod is in that phase; "gated" is one, too.
func expectPhase(t *testing.T, namespace, name, phase string) *unstructured.Unstructured {
	t.Helper()
	var object *unstructured.Unstructured
	harness.Eventually(t, "pod "+name+" is "+phase, func() error {
		found, err := harness.Shared.Fetch(t.Context(), podKind, namespace, name)
		if err != nil {
			return err
		}
		object = found
		have := harness.Field(found, "status", "phase")
		if gated(found) {
			have = "gated"
		}
		if have != phase {
			return fmt.Errorf("it is %s: %v", have, found.Object["status"])
		}
		return nil
	})
	return object
}

// expectLetGo waits until the pod has no finalizer of ours, or is gone.
func expectLetGo(t *testing.T, namespace, name string) {
	t.Helper()
	harness.Eventually(t, "pod "+name+" is let go", func() error {
		object, err := harness.Shared.Fetch(t.Context(), podKind, namespace, name)
		if err == nil && len(object.GetFinalizers()) > 0 {
			return fmt.Errorf("finalizers are %v", object.GetFinalizers())
		}
		return nil
	})
}

// expectGone waits until the object is gone.
func expectGone(t *testing.T, gvk schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	harness.Eventually(t, gvk.Kind+" "+name+" is gone", func() error {
		if object, err := harness.Shared.Fetch(t.Context(), gvk, namespace, name); err == nil {
			return fmt.Errorf("it is there, deleted at %v", object.GetDeletionTimestamp())
		}
		return nil
	})
}

// expectGroup waits for a condition of the Workload of a group.
func expectGroup(t *testing.T, namespace, group, kind, status, reason string) {
	t.Helper()
	harness.Shared.ExpectCondition(t, kueue("Workload"), namespace, group, kind, status, reason)
}

// staysGated looks on for a while.
func staysGated(t *testing.T, namespace string, names ...string) {
	t.Helper()
	harness.Throughout(t, quiet, "the pods wait", func() error {
		for _, name := range names {
			object, err := harness.Shared.Fetch(t.Context(), podKind, namespace, name)
			if err != nil {
				return err
			}
			if !gated(object) {
				return fmt.Errorf("pod %s was released", name)
			}
		}
		return nil
	})
}
