package harness

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// JobKind is batch/v1 Job.
var JobKind = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}

// Queue is a team's place: a namespace with a LocalQueue on a ClusterQueue with quota in one flavor.
type Queue struct {
	Namespace, Local, Cluster, Flavor string
}

// QueueOptions says what differs from a BestEffortFIFO queue with four CPUs.
type QueueOptions struct {
	// CPU is the nominal quota; "" means 4.
	CPU string
	// Quotas are further resources with their nominal quota, as "memory=4Gi".
	Quotas []string
	// Strategy, StopPolicy and Selector are fields of the ClusterQueue; "" leaves them out, except
	// the selector, which then selects every namespace.
	Strategy, StopPolicy, Selector string
	// NoFlavor leaves the ResourceFlavor to the test.
	NoFlavor bool
}

// NewQueue creates flavor, ClusterQueue, namespace and LocalQueue for the test.
func (c *Cluster) NewQueue(t testing.TB, options QueueOptions) Queue {
	t.Helper()
	if options.CPU == "" {
		options.CPU = "4"
	}
	q := Queue{Local: "main", Cluster: Name("cq"), Flavor: Name("flavor")}
	q.Namespace = c.Namespace(t)
	if !options.NoFlavor {
		c.MustCreate(t, Flavor(q.Flavor))
	}
	c.MustCreate(t, ClusterQueue(q, options))
	c.MustCreate(t, LocalQueue(q.Namespace, q.Local, q.Cluster))
	return q
}

// Flavor is a ResourceFlavor without conditions.
func Flavor(name string) *unstructured.Unstructured {
	return Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: %s}}", name)
}

// ClusterQueue is the ClusterQueue of a Queue.
func ClusterQueue(q Queue, options QueueOptions) *unstructured.Unstructured {
	names, quotas := []string{"cpu"}, []string{fmt.Sprintf("{name: cpu, nominalQuota: %q}", options.CPU)}
	for _, pair := range options.Quotas {
		name, quota, _ := strings.Cut(pair, "=")
		names = append(names, name)
		quotas = append(quotas, fmt.Sprintf("{name: %s, nominalQuota: %q}", name, quota))
	}
	selector := options.Selector
	if selector == "" {
		selector = "{}"
	}
	object := Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: %s
  resourceGroups:
  - coveredResources: [%s]
    flavors:
    - name: %s
      resources: [%s]
`, q.Cluster, selector, strings.Join(names, ", "), q.Flavor, strings.Join(quotas, ", "))
	if options.Strategy != "" {
		Set(object, options.Strategy, "spec", "queueingStrategy")
	}
	if options.StopPolicy != "" {
		Set(object, options.StopPolicy, "spec", "stopPolicy")
	}
	return object
}

// LocalQueue is a LocalQueue that points to a ClusterQueue.
func LocalQueue(namespace, name, cluster string) *unstructured.Unstructured {
	return Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: %s, namespace: %s}, spec: {clusterQueue: %s}}",
		name, namespace, cluster)
}

// Job is a batch Job of one container per pod.
type Job struct {
	Name, Namespace, Queue string
	// CPU is the request of each pod; "" means 1. Pods is the parallelism and the completions; 0
	// means 1.
	CPU  string
	Pods int
	// RunSeconds is how long each pod runs; "" means until it is deleted.
	RunSeconds string
	// Labels are further labels, as "key=value".
	Labels []string
	// PriorityClass is the PriorityClass of the pods.
	PriorityClass string
}

// Object is the Job as it is sent to the server.
func (j Job) Object() *unstructured.Unstructured {
	if j.CPU == "" {
		j.CPU = "1"
	}
	if j.Pods == 0 {
		j.Pods = 1
	}
	object := Parsef(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: %s}
spec:
  parallelism: %d
  completions: %d
  template:
    metadata: {}
    spec:
      restartPolicy: Never
      containers:
      - {name: main, image: registry.example/work, resources: {requests: {cpu: %q}}}
`, j.Name, j.Namespace, j.Pods, j.Pods, j.CPU)
	labels := map[string]string{}
	if j.Queue != "" {
		labels["kueue.x-k8s.io/queue-name"] = j.Queue
	}
	for _, pair := range j.Labels {
		key, value, _ := strings.Cut(pair, "=")
		labels[key] = value
	}
	object.SetLabels(labels)
	if j.RunSeconds != "" {
		Set(object, j.RunSeconds, "spec", "template", "metadata", "annotations", "sluice.dev/run-seconds")
	}
	if j.PriorityClass != "" {
		Set(object, j.PriorityClass, "spec", "template", "spec", "priorityClassName")
	}
	return object
}

// Submit creates a Job in the queue; the name is made unique.
func (c *Cluster) Submit(t testing.TB, q Queue, job Job) string {
	t.Helper()
	if job.Name == "" {
		job.Name = Name("job")
	}
	job.Namespace = q.Namespace
	if job.Queue == "" {
		job.Queue = q.Local
	}
	return c.MustCreate(t, job.Object()).GetName()
}

// Set sets a field; it panics if something on the way is no object.
func Set(object *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		panic(err)
	}
}

// Field reads a field as text; "" if it is not there.
func Field(object *unstructured.Unstructured, path ...string) string {
	value, found, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	if !found || value == nil {
		return ""
	}
	return fmt.Sprint(value)
}

// Condition is one entry of status.conditions.
type Condition struct{ Type, Status, Reason, Message string }

// ConditionOf finds a condition; its Status is "" if there is none.
func ConditionOf(object *unstructured.Unstructured, kind string) Condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		entry, _ := item.(map[string]any)
		if entry["type"] == kind {
			text := func(key string) string { value, _ := entry[key].(string); return value }
			return Condition{kind, text("status"), text("reason"), text("message")}
		}
	}
	return Condition{Type: kind}
}

// WorkloadOf finds the Workload that a Job, or a plain pod, owns.
func (c *Cluster) WorkloadOf(ctx context.Context, namespace, job string) (*unstructured.Unstructured, error) {
	list, err := c.List(ctx, Kueue("Workload"), namespace, "")
	if err != nil {
		return nil, err
	}
	for i := range list {
		for _, owner := range list[i].GetOwnerReferences() {
			ofPod := owner.Kind == "Pod" && owner.Controller != nil && *owner.Controller
			if (owner.Kind == "Job" || ofPod) && owner.Name == job {
				return &list[i], nil
			}
		}
	}
	return nil, fmt.Errorf("no Workload of %s", job)
}

// ExpectWorkload waits until the condition of the Job's Workload is as given ("" fits any reason),
// and returns the Workload.
func (c *Cluster) ExpectWorkload(t testing.TB, namespace, job, kind, status, reason string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	Eventually(t, fmt.Sprintf("Workload of %s has %s=%s %s", job, kind, status, reason), func() error {
		workload, err := c.WorkloadOf(t.Context(), namespace, job)
		if err != nil {
			return err
		}
		have := ConditionOf(workload, kind)
		if have.Status != status || (reason != "" && have.Reason != reason) {
			return fmt.Errorf("conditions are %v", conditions(workload))
		}
		found = workload
		return nil
	})
	return found
}

// ExpectCondition waits for a condition of any object.
func (c *Cluster) ExpectCondition(t testing.TB, gvk schema.GroupVersionKind, namespace, name, kind, status, reason string) Condition {
	t.Helper()
	var found Condition
	Eventually(t, fmt.Sprintf("%s %s has %s=%s %s", gvk.Kind, name, kind, status, reason), func() error {
		object, err := c.Fetch(t.Context(), gvk, namespace, name)
		if err != nil {
			return err
		}
		found = ConditionOf(object, kind)
		if found.Status != status || (reason != "" && found.Reason != reason) {
			return fmt.Errorf("conditions are %v", conditions(object))
		}
		return nil
	})
	return found
}

func conditions(object *unstructured.Unstructured) []string {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	texts := []string{}
	for _, item := range list {
		entry, _ := item.(map[string]any)
		texts = append(texts, fmt.Sprintf("%v=%v %v %q", entry["type"], entry["status"], entry["reason"], entry["message"]))
	}
	return texts
}

// Suspended tells whether the Job is suspended.
func (c *Cluster) Suspended(ctx context.Context, namespace, job string) (bool, error) {
	object, err := c.Fetch(ctx, JobKind, namespace, job)
	if err != nil {
		return false, err
	}
	return Field(object, "spec", "suspend") == "true", nil
}

// ExpectSuspended waits until the Job is suspended, or is not.
func (c *Cluster) ExpectSuspended(t testing.TB, namespace, job string, want bool) {
	t.Helper()
	Eventually(t, fmt.Sprintf("Job %s has suspend=%t", job, want), func() error {
		have, err := c.Suspended(t.Context(), namespace, job)
		if err == nil && have != want {
			err = c.explain(t.Context(), namespace, job)
		}
		return err
	})
}

// explain says what is known of a Job that is not where it should be.
func (c *Cluster) explain(ctx context.Context, namespace, job string) error {
	workload, err := c.WorkloadOf(ctx, namespace, job)
	if err != nil {
		return err
	}
	return fmt.Errorf("its Workload %s has conditions %v", workload.GetName(), conditions(workload))
}

// ExpectFinished waits until the Job is complete.
func (c *Cluster) ExpectFinished(t testing.TB, namespace, job string) {
	t.Helper()
	c.ExpectCondition(t, JobKind, namespace, job, "Complete", "True", "")
}

// Usage is the admitted usage and the reservation of the ClusterQueue's CPU.
func Usage(queue *unstructured.Unstructured, field, resource string) string {
	flavors, _, _ := unstructured.NestedSlice(queue.Object, "status", field)
	for _, flavor := range flavors {
		resources, _, _ := unstructured.NestedSlice(flavor.(map[string]any), "resources")
		for _, item := range resources {
			if entry := item.(map[string]any); entry["name"] == resource {
				return fmt.Sprint(entry["total"])
			}
		}
	}
	return ""
}
