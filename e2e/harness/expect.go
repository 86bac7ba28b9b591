package harness

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ExpectMessage waits until the Workload of the Job waits for that reason with a message that has
// all the words.
func (c *Cluster) ExpectMessage(t testing.TB, namespace, job, reason string, words ...string) {
	t.Helper()
	Eventually(t, "the message of Job "+job, func() error {
		workload, err := c.WorkloadOf(t.Context(), namespace, job)
		if err != nil {
			return err
		}
		condition := ConditionOf(workload, "QuotaReserved")
		if condition.Status != "False" || condition.Reason != reason {
			return fmt.Errorf("QuotaReserved is %+v, want False with reason %s", condition, reason)
		}
		for _, word := range words {
			if !strings.Contains(condition.Message, word) {
				return fmt.Errorf("the message does not say %q: %s", word, condition.Message)
			}
		}
		return nil
	})
}

// FinishPods makes that many running pods of a Job end.
func (c *Cluster) FinishPods(t testing.TB, namespace, job string, count int) {
	t.Helper()
	gvk := Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
	left := count
	Eventually(t, fmt.Sprintf("%d pods of %s run", count, job), func() error {
		pods, err := c.List(t.Context(), gvk, namespace, "batch.kubernetes.io/job-name="+job)
		if err != nil {
			return err
		}
		for i := range pods {
			if left == 0 || Field(&pods[i], "status", "phase") != "Running" ||
				pods[i].GetAnnotations()["sluice.dev/run-seconds"] != "" {
				continue
			}
			patch := `{"metadata":{"annotations":{"sluice.dev/run-seconds":"0"}}}`
			if _, err := c.Patch(t.Context(), gvk, namespace, pods[i].GetName(), patch); err != nil {
				return err
			}
			left--
		}
		if left > 0 {
			return fmt.Errorf("%d more are needed", left)
		}
		return nil
	})
}

// ExpectEvent waits for an event about an object and returns it. Events about cluster-scoped objects
// are in the namespace "default"; "" looks in all of them.
func (c *Cluster) ExpectEvent(t testing.TB, namespace, kind, name, reason string) *unstructured.Unstructured {
	t.Helper()
	gvk := Parse("{apiVersion: events.k8s.io/v1, kind: Event}").GroupVersionKind()
	var found *unstructured.Unstructured
	Eventually(t, fmt.Sprintf("event %s of %s %s", reason, kind, name), func() error {
		events, err := c.List(t.Context(), gvk, namespace, "")
		if err != nil {
			return err
		}
		seen := []string{}
		for i := range events {
			if Field(&events[i], "regarding", "kind") == kind && Field(&events[i], "regarding", "name") == name {
				if Field(&events[i], "reason") == reason {
					found = &events[i]
					return nil
				}
				seen = append(seen, Field(&events[i], "reason"))
			}
		}
		return fmt.Errorf("only %v", seen)
	})
	return found
}
