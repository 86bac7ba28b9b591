package checkpoint

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice.dev/e2e/harness"
)

func TestRequestIsAnswered(t *testing.T) {
	c, p := newPlace(t)
	job := trainer(t, c, p)
	urgent := c.Submit(t, p.Queue, harness.Job{Labels: []string{"kueue.x-k8s.io/priority-class=" + p.high}})
	c.ExpectWorkload(t, p.Namespace, job, requested, "True", "InClusterQueue")
	asked := expectAsked(t, c, p, job)
	// What is seen first is older: with the request still open, the Job that preempts had to wait.
	suspended, err := c.Suspended(t.Context(), p.Namespace, urgent)
	if err != nil {
		t.Fatal(err)
	}
	open, err := c.WorkloadOf(t.Context(), p.Namespace, job)
	if err != nil {
		t.Fatal(err)
	}
	if harness.ConditionOf(open, requested).Status == "True" && !suspended {
		t.Error("the Job that preempts was started while the request was open")
	}
	// The trainer of one pod answers, with a time that is neither before the request nor to come.
	at, err := time.Parse(time.RFC3339, asked)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the second of the request", func() error {
		if now := time.Now(); now.Before(at) {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	})
	pods, err := podsOf(t, c, p, job)
	if err != nil {
		t.Fatal(err)
	}
	c.MustPatch(t, podKind, p.Namespace, pods[1].GetName(),
		fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, last, asked))
	c.ExpectWorkload(t, p.Namespace, job, requested, "False", "Answered")
	workload := c.ExpectWorkload(t, p.Namespace, job, "Preempted", "True", "InClusterQueue")
	if have := workload.GetAnnotations()[last]; have != asked {
		t.Errorf("the Workload's last checkpoint is %q, want %q", have, asked)
	}
	c.ExpectSuspended(t, p.Namespace, job, true)
	c.ExpectSuspended(t, p.Namespace, urgent, false)
	expectNotAsked(t, c, p, job)
	c.ExpectEvent(t, p.Namespace, "Workload", workload.GetName(), requested)
}

func TestRequestTimesOut(t *testing.T) {
	c, p := newPlace(t)
	job := trainer(t, c, p)
	urgent := c.Submit(t, p.Queue, harness.Job{Labels: []string{"kueue.x-k8s.io/priority-class=" + p.high}})
	c.ExpectWorkload(t, p.Namespace, job, requested, "True", "InClusterQueue")
	expectAsked(t, c, p, job)
	harness.EventuallyWithin(t, 4*time.Minute, "the end of the grace", func() error {
		workload, err := c.WorkloadOf(t.Context(), p.Namespace, job)
		if err != nil {
			return err
		}
		if have := harness.ConditionOf(workload, requested); have.Reason != "TimedOut" {
			return fmt.Errorf("%s is %+v", requested, have)
		}
		return nil
	})
	c.ExpectWorkload(t, p.Namespace, job, "Preempted", "True", "InClusterQueue")
	c.ExpectSuspended(t, p.Namespace, urgent, false)
	expectNotAsked(t, c, p, job)
}

func TestRequestIsWithdrawn(t *testing.T) {
	c, p := newPlace(t)
	job := trainer(t, c, p)
	urgent := c.Submit(t, p.Queue, harness.Job{Labels: []string{"kueue.x-k8s.io/priority-class=" + p.high}})
	c.ExpectWorkload(t, p.Namespace, job, requested, "True", "InClusterQueue")
	expectAsked(t, c, p, job)
	c.Delete(t, harness.JobKind, p.Namespace, urgent)
	c.ExpectWorkload(t, p.Namespace, job, requested, "False", "Withdrawn")
	expectNotAsked(t, c, p, job)
	c.ExpectSuspended(t, p.Namespace, job, false)
	workload := c.ExpectWorkload(t, p.Namespace, job, "Admitted", "True", "Admitted")
	if have := harness.ConditionOf(workload, "Evicted"); have.Status == "True" {
		t.Errorf("it was evicted: %+v", have)
	}
}

func TestGarbageIsRefused(t *testing.T) {
	c, p := newPlace(t)
	for annotation, value := range map[string]string{
		last:                             "yesterday",
		"sluice.dev/restart-cost":        "-5m",
		"sluice.dev/checkpoint-interval": "often",
		onRequest:                        "maybe",
	} {
		job := harness.Job{Name: harness.Name("bad"), Namespace: p.Namespace, Queue: p.Local}.Object()
		job.SetAnnotations(map[string]string{annotation: value})
		_, err := c.Create(t.Context(), job)
		if path := fmt.Sprintf("metadata.annotations[%s]", annotation); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q gives %v, want an error that names %s", annotation, value, err, path)
		}
	}
}
