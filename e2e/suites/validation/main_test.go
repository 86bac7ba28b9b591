// Package validation has a row for every rule about our objects and sees it refuse on the real API
// server: 422 where the schema knows the rule, 403 where only the webhook does.
//
// The controller of this suite never leads, so that nothing but the tests changes the objects.
package validation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/e2e/harness"
)

const (
	accepted = 0
	schema   = 422
	webhook  = 403
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "validation", Nodes: 1, Follower: true})
}

// creation is an object and what becomes of it.
type creation struct {
	name, object string
	code         int
	// words have to be in the refusal: the field's path, mostly.
	words []string
}

func runCreations(t *testing.T, kind string, rows []creation) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			_, err := create(t, kind, row.object, true)
			judge(t, err, row.code, row.words)
		})
	}
}

// create sends the object; a dry run passes everything a real one does and leaves nothing behind.
func create(t *testing.T, kind, text string, dryRun bool) (*unstructured.Unstructured, error) {
	t.Helper()
	c := harness.Shared
	object := harness.Parse(text)
	if object.GetAPIVersion() == "" {
		object.SetAPIVersion("kueue.x-k8s.io/v1beta2")
	}
	if kind == "Job" {
		object.SetAPIVersion("batch/v1")
	}
	object.SetKind(kind)
	object.SetName(harness.Name("rule"))
	if object.GetNamespace() == "" {
		object.SetNamespace("default")
	}
	if !dryRun {
		return c.MustCreate(t, object), nil
	}
	client, err := c.Resource(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		t.Fatal(err)
	}
	return client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

func judge(t *testing.T, err error, code int, words []string) {
	t.Helper()
	if code == accepted {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	if err == nil {
		t.Fatal("accepted")
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("no answer of the API server: %v", err)
	}
	if have := int(status.Status().Code); have != code {
		t.Errorf("code is %d, want %d: %v", have, code, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal does not say %q: %v", word, err)
		}
	}
	if code == webhook && status.Status().Reason != metav1.StatusReasonForbidden {
		t.Errorf("reason is %s", status.Status().Reason)
	}
}

// update is an object, the status it gets, and a change of it.
type update struct {
	name, object string
	// status is a merge patch of the status, or several that are cut by ---.
	status string
	// change is a merge patch of the object, or of its status if toStatus is set.
	change   string
	toStatus bool
	code     int
	words    []string
}

func runUpdates(t *testing.T, kind string, rows []update) {
	t.Helper()
	c := harness.Shared
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			object, _ := create(t, kind, row.object, false)
			patch := func(text string, status bool) error {
				client, err := c.Resource(object.GroupVersionKind(), object.GetNamespace())
				if err != nil {
					t.Fatal(err)
				}
				body, err := json.Marshal(harness.Parse(text).Object)
				if err != nil {
					t.Fatal(err)
				}
				subresource := []string{}
				if status {
					subresource = append(subresource, "status")
				}
				_, err = client.Patch(t.Context(), object.GetName(), types.MergePatchType, body, metav1.PatchOptions{}, subresource...)
				return err
			}
			for _, status := range strings.Split(row.status, "\n---\n") {
				if status == "" {
					continue
				}
				if err := patch(status, true); err != nil {
					t.Fatalf("the status before: %v", err)
				}
			}
			judge(t, patch(row.change, row.toStatus), row.code, row.words)
		})
	}
}

// list repeats a pattern with numbers, as the items of a YAML flow list.
func list(count int, pattern string) string {
	items := make([]string, count)
	for i := range items {
		items[i] = strings.ReplaceAll(pattern, "#", fmt.Sprint(i))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func words(list ...string) []string { return list }
