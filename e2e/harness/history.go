package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// History is every version of the objects of a kind, in the order of the server. A test that has to
// see a state which passes asks the history: a look at the object may come too late.
type History struct {
	kind     string
	mu       sync.Mutex
	versions []*unstructured.Unstructured
}

// Remember starts a history of a kind in a namespace ("" for all of them); it ends with the test.
func (c *Cluster) Remember(t testing.TB, gvk schema.GroupVersionKind, namespace string) *History {
	t.Helper()
	h := &History{kind: gvk.Kind}
	client, err := c.Resource(gvk, namespace)
	if err == nil {
		err = follow(t.Context(), client, func(_ watch.EventType, object *unstructured.Unstructured) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.versions = append(h.versions, object)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// Fits tells whether a version is the one that is looked for.
type Fits func(*unstructured.Unstructured) bool

// Find is the position of the first version that fits, from `from` on; -1 if there is none.
func (h *History) Find(from int, fits Fits) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := max(from, 0); i < len(h.versions); i++ {
		if fits(h.versions[i]) {
			return i
		}
	}
	return -1
}

// At is the version at a position.
func (h *History) At(position int) *unstructured.Unstructured {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.versions[position]
}

// Await waits for a version that fits and returns its position. Every version of the objects that
// `about` accepts is told when there is none.
func (h *History) Await(t testing.TB, what string, from int, about, fits Fits) int {
	t.Helper()
	found := -1
	Eventually(t, fmt.Sprintf("%s: %s", h.kind, what), func() error {
		both := func(object *unstructured.Unstructured) bool { return about(object) && fits(object) }
		if found = h.Find(from, both); found < 0 {
			return fmt.Errorf("there was %s", h.tell(about))
		}
		return nil
	})
	return found
}

func (h *History) tell(about Fits) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := []string{}
	for i, object := range h.versions {
		if about(object) {
			lines = append(lines, fmt.Sprintf("\n%d %s: %v", i, object.GetName(), conditions(object)))
		}
	}
	return strings.Join(lines, "")
}

// OwnedBy fits the Workloads of a Job.
func OwnedBy(job string) Fits {
	return func(object *unstructured.Unstructured) bool {
		for _, owner := range object.GetOwnerReferences() {
			if owner.Name == job {
				return true
			}
		}
		return false
	}
}

// Named fits the objects of that name.
func Named(name string) Fits {
	return func(object *unstructured.Unstructured) bool { return object.GetName() == name }
}

// Having fits objects that have all these conditions, each as "Type=Status Reason" or "Type=Status".
func Having(wanted ...string) Fits {
	return func(object *unstructured.Unstructured) bool {
		for _, text := range wanted {
			kind, want, _ := strings.Cut(text, "=")
			have := ConditionOf(object, kind)
			if have.Status != want && have.Status+" "+have.Reason != want {
				return false
			}
		}
		return true
	}
}

// Saying fits Workloads that wait for that reason with a message that has all the words.
func Saying(reason string, words ...string) Fits {
	return func(object *unstructured.Unstructured) bool {
		condition := ConditionOf(object, "QuotaReserved")
		if condition.Status != "False" || condition.Reason != reason {
			return false
		}
		for _, word := range words {
			if !strings.Contains(condition.Message, word) {
				return false
			}
		}
		return true
	}
}
