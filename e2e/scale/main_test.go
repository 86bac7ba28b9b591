// Package scale measures large gangs: how fast their pods are let go beside an API server of their own,
// and how they fare on 5,000 nodes. What is measured is printed; what must be so at any speed is a test.
// `e2e/test.sh --scale` runs it.
package scale

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"sluice.dev/e2e/harness"
)

const (
	required = "kueue.x-k8s.io/podset-required-topology"
	index    = "batch.kubernetes.io/job-completion-index"
	// goroutines is the controller's number of requests at a time.
	goroutines = 50
	// gang is the number of pods.
	gang = 512
)

var podKind = harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()

func TestMain(m *testing.M) {
	harness.Main(harness.Printer{M: m}, harness.Options{Suite: "scale", Nodes: 1, Patient: true, Audit: true, PlainPods: true})
}

// job is an indexed Job of 512 pods of one CPU in one domain of that level. Each index has retries
// of its own: with one account for all, the Job controller would wait ten minutes after eight lost pods.
func job(q harness.Queue, name, level string) *unstructured.Unstructured {
	object := harness.Job{Name: name, Namespace: q.Namespace, Queue: q.Local, Pods: gang}.Object()
	harness.Set(object, "Indexed", "spec", "completionMode")
	harness.Set(object, int64(6), "spec", "backoffLimitPerIndex")
	harness.Set(object, level, "spec", "template", "metadata", "annotations", required)
	return object
}

// gates tells which pods of a namespace are there, and since when they have no scheduling gate.
type gates struct {
	mu    sync.Mutex
	there map[string]bool
	free  map[string]time.Time
}

func watchGates(t *testing.T, namespace string) *gates {
	t.Helper()
	client, err := harness.Shared.Resource(podKind, namespace)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watcher, err := client.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	g := &gates{there: map[string]bool{}, free: map[string]time.Time{}}
	go func() {
		for event := range watcher.ResultChan() {
			if pod, ok := event.Object.(*unstructured.Unstructured); ok && event.Type != watch.Deleted {
				g.take(pod)
			}
		}
	}()
	return g
}

func (g *gates) take(pod *unstructured.Unstructured) {
	left, _, _ := unstructured.NestedSlice(pod.Object, "spec", "schedulingGates")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.there[pod.GetName()] = true
	if _, known := g.free[pod.GetName()]; !known && len(left) == 0 {
		g.free[pod.GetName()] = time.Now()
	}
}

func (g *gates) counts() (there, free int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.there), len(g.free)
}

// awaitThere waits until so many pods are there.
func (g *gates) awaitThere(t *testing.T, want int) {
	t.Helper()
	harness.EventuallyWithin(t, 5*time.Minute, fmt.Sprintf("%d pods are there", want), func() error {
		if there, _ := g.counts(); there < want {
			return fmt.Errorf("%d are", there)
		}
		return nil
	})
}

// awaitFree waits until so many pods have no gate, and returns when the first and the last of those that
// had one at that time lost theirs.
func (g *gates) awaitFree(t *testing.T, want int, since time.Time) (first, last time.Time) {
	t.Helper()
	harness.EventuallyWithin(t, 5*time.Minute, fmt.Sprintf("%d pods have no gate", want), func() error {
		if _, free := g.counts(); free < want {
			return fmt.Errorf("%d have none", free)
		}
		return nil
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, at := range g.free {
		if at.Before(since) {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}
