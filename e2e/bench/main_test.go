// Package bench measures what the controller costs and how fast it is, beside an API server of its own.
// It is no test of the product: only what cannot be measured fails. `e2e/test.sh --bench` runs it.
package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/e2e/harness"
)

// parallelism is the controller's number of requests at a time.
const parallelism = 50

// The controller starts as a follower: it serves webhooks, and changes nothing until it may lead.
func TestMain(m *testing.M) {
	harness.Main(harness.Printer{M: m}, harness.Options{Suite: "bench", Nodes: 1, Audit: true, Follower: true})
}

// size is a number of objects; an environment variable makes a quick run smaller.
func size(t *testing.T, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		t.Fatalf("%s=%s is no number", variable, text)
	}
	return number
}

func report(what, format string, arguments ...any) { harness.Report(what, format, arguments...) }

// each calls the function from as many goroutines as the controller has requests.
func each(t *testing.T, count int, do func(i int) error) {
	t.Helper()
	harness.Each(t, count, parallelism, do)
}

func patchStatus(ctx context.Context, kind schema.GroupVersionKind, namespace, name, patch string) error {
	client, err := harness.Shared.Resource(kind, namespace)
	if err == nil {
		_, err = client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	}
	return err
}

func workload(namespace, name, queue string) *unstructured.Unstructured {
	return harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, namespace: %s}
spec:
  queueName: %q
  podSets:
  - name: main
    count: 1
    template:
      spec:
        restartPolicy: Never
        containers:
        - {name: main, image: registry.example/work, resources: {requests: {cpu: "1", memory: 1Gi}}}
`, name, namespace, queue)
}

func now() string { return time.Now().UTC().Format(time.RFC3339) }

func lead(t *testing.T) {
	t.Helper()
	harness.Shared.Lead(t)
}

// follow restarts the controller so that it only serves webhooks.
func follow(t *testing.T) {
	t.Helper()
	c := harness.Shared
	c.Controller().Kill()
	if err := c.HoldLease(); err != nil {
		t.Fatal(err)
	}
	if err := c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
}

// settle waits until the controller has written nothing for five seconds, and returns the number of
// its writes so far.
func settle(t *testing.T) int {
	t.Helper()
	count := -1
	harness.EventuallyWithin(t, 15*time.Minute, "the controller becomes quiet", func() error {
		before := written(t)
		time.Sleep(5 * time.Second)
		count = written(t)
		if count != before {
			return fmt.Errorf("%d writes within 5 s", count-before)
		}
		return nil
	})
	return count
}

func written(t *testing.T) int {
	t.Helper()
	all, err := harness.Shared.Writes()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// clear deletes all objects of a kind, so that the next measurement does not see them go.
func clear(t *testing.T, kind schema.GroupVersionKind, namespace string) {
	t.Helper()
	client, err := harness.Shared.Resource(kind, namespace)
	if err != nil {
		t.Fatal(err)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	policy := metav1.DeletePropagationBackground
	each(t, len(list.Items), func(i int) error {
		err := client.Delete(t.Context(), list.Items[i].GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	harness.EventuallyWithin(t, 5*time.Minute, "every "+kind.Kind+" is gone", func() error {
		list, err := client.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err == nil && len(list.Items) > 0 {
			err = harness.ErrNotYet
		}
		return err
	})
}
