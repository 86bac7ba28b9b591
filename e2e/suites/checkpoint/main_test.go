// Package checkpoint checks that a workload which is to be preempted may write a checkpoint first,
// with pods that run.
package checkpoint

import (
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"sluice.dev/e2e/harness"
)

const (
	grace       = "90s"
	requestedAt = "sluice.dev/checkpoint-requested-at"
	last        = "sluice.dev/last-checkpoint"
	onRequest   = "sluice.dev/checkpoint-on-request"
	requested   = "CheckpointRequested"
)

var (
	kueue   = harness.Kueue
	podKind = harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "checkpoint", Configure: func(config map[string]any) {
		config["preemption"] = map[string]any{"checkpointGracePeriod": grace}
	}})
}

// place is a queue of two CPUs in which a higher priority preempts, and that priority.
type place struct {
	harness.Queue
	high string
}

func newPlace(t *testing.T) (*harness.Cluster, place) {
	t.Parallel()
	c := harness.Shared
	p := place{Queue: c.NewQueue(t, harness.QueueOptions{CPU: "2"}), high: harness.Name("high")}
	c.MustPatch(t, kueue("ClusterQueue"), "", p.Cluster,
		`{"spec":{"preemption":{"withinClusterQueue":"LowerPriority"}}}`)
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, "+
		"metadata: {name: %s}, value: 100}", p.high))
	return c, p
}

// trainer starts a Job of two pods that fills the queue and watches for requests.
func trainer(t *testing.T, c *harness.Cluster, p place) string {
	t.Helper()
	job := harness.Job{Name: harness.Name("train"), Namespace: p.Namespace, Queue: p.Local, Pods: 2}.Object()
	job.SetAnnotations(map[string]string{onRequest: "true"})
	name := c.MustCreate(t, job).GetName()
	c.ExpectSuspended(t, p.Namespace, name, false)
	harness.Eventually(t, "the pods of "+name, func() error {
		pods, err := podsOf(t, c, p, name)
		for _, pod := range pods {
			if phase := harness.Field(&pod, "status", "phase"); phase != "Running" {
				err = errors.Join(err, fmt.Errorf("pod %s is %s", pod.GetName(), phase))
			}
		}
		return err
	})
	return name
}

func podsOf(t *testing.T, c *harness.Cluster, p place, job string) ([]unstructured.Unstructured, error) {
	pods, err := c.List(t.Context(), podKind, p.Namespace, "batch.kubernetes.io/job-name="+job)
	if err == nil && len(pods) != 2 {
		err = fmt.Errorf("%d pods, want 2", len(pods))
	}
	return pods, err
}

// expectAsked waits until the Job and its pods carry the request, and returns its time.
func expectAsked(t *testing.T, c *harness.Cluster, p place, job string) string {
	t.Helper()
	var time string
	harness.Eventually(t, "the request on Job "+job+" and its pods", func() error {
		object, err := c.Fetch(t.Context(), harness.JobKind, p.Namespace, job)
		if err != nil {
			return err
		}
		if time = object.GetAnnotations()[requestedAt]; time == "" {
			return errors.New("the Job has none")
		}
		pods, err := podsOf(t, c, p, job)
		for _, pod := range pods {
			if have := pod.GetAnnotations()[requestedAt]; have != time {
				err = errors.Join(err, fmt.Errorf("pod %s has %q, want %q", pod.GetName(), have, time))
			}
		}
		return err
	})
	return time
}

// expectNotAsked waits until the Job does not carry a request.
func expectNotAsked(t *testing.T, c *harness.Cluster, p place, job string) {
	t.Helper()
	harness.Eventually(t, "no request on Job "+job, func() error {
		object, err := c.Fetch(t.Context(), harness.JobKind, p.Namespace, job)
		if err == nil && object.GetAnnotations()[requestedAt] != "" {
			err = fmt.Errorf("it has %q", object.GetAnnotations()[requestedAt])
		}
		return err
	})
}
