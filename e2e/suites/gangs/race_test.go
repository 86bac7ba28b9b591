package gangs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/e2e/harness"
)

// lanes are places in which the race is run at the same time.
const lanes = 8

// TestOneOfTwoIsNeverLetThrough: two nodes of 1, on one of them a single pod, and a gang of 2. None of
// the gang is bound while the single pod is, also when that is deleted and made anew, and both are
// once it is gone. SLUICE_GANG_RACES changes the number of repetitions.
func TestOneOfTwoIsNeverLetThrough(t *testing.T) {
	began, count := time.Now(), harness.CountFrom(t, "SLUICE_GANG_RACES", 100, 1)
	var won atomic.Int32
	t.Run("lanes", func(t *testing.T) {
		for lane := range min(lanes, count) {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				p := newPool(t, "1", "1")
				for i := lane; i < count; i += lanes {
					if p.race(t, forms[i/lanes%len(forms)]) {
						won.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d races in %s; the gang came before the new pod in %d", count, time.Since(began).Round(time.Second), won.Load())
}

// race ends as it began, with two empty nodes, and tells whether the gang came before the pod that was
// made anew. What is bound stays so until it is deleted, so a look at the end of each part shows what
// happened in it.
func (p pool) race(t *testing.T, form string) (won bool) {
	t.Helper()
	single := p.single(t)
	p.await(t, "the single pod is bound", func(s scene) bool { return s.single })
	gang := p.gang(t, form, 2)
	p.await(t, "kube-scheduler has tried the gang", func(s scene) bool { return s.refused == 2 })

	// Between the two there may be a moment in which both nodes are free, and the gang comes first.
	p.kill(t, single)
	single = p.single(t)
	won = !p.await(t, "the single pod or the gang is bound", func(s scene) bool { return s.single || s.gang == 2 }).single
	if !won {
		// Whoever was chosen before that is bound by now.
		harness.Throughout(t, 200*time.Millisecond, "beside the new pod", func() error { return p.look(t).err() })
	}
	p.kill(t, single)
	p.await(t, "the whole gang is bound", func(s scene) bool { return s.gang == 2 })

	harness.Shared.Delete(t, harness.JobKind, p.Namespace, gang)
	p.await(t, "all pods are gone", func(s scene) bool { return s.pods == "" })
	return won
}

// single creates a pod of nobody that needs a node of 1.
func (p pool) single(t *testing.T) string {
	t.Helper()
	name := harness.Name("single")
	harness.Shared.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec:
  nodeSelector: {pool: %s}
  containers: [{name: c, image: fake, resources: {requests: {cpu: "1"}}}]
`, name, p.Namespace, p.label))
	return name
}

// kill deletes a pod at once.
func (p pool) kill(t *testing.T, name string) {
	t.Helper()
	client, err := harness.Shared.Resource(podKind, p.Namespace)
	if err == nil {
		err = client.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// scene is what is there at one moment.
type scene struct {
	single  bool // is bound
	gang    int  // pods that are bound
	refused int  // that kube-scheduler has found no node for
	pods    string
}

func (p pool) look(t *testing.T) (s scene) {
	t.Helper()
	pods, err := harness.Shared.List(t.Context(), podKind, p.Namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		name, node := pods[i].GetName(), harness.Field(&pods[i], "spec", "nodeName")
		s.pods += fmt.Sprintf("%s on %q, ", name, node)
		switch {
		case strings.HasPrefix(name, "single"):
			s.single = s.single || node != ""
		case node != "":
			s.gang++
		case harness.ConditionOf(&pods[i], "PodScheduled").Reason == "Unschedulable":
			s.refused++
		}
	}
	return s
}

func (s scene) err() error {
	if s.single && s.gang > 0 {
		return errors.New("one of two was let through: " + s.pods)
	}
	return nil
}

// await waits until that is so, and fails at once when a part of the gang runs beside the single pod.
func (p pool) await(t *testing.T, what string, is func(scene) bool) (s scene) {
	t.Helper()
	harness.Eventually(t, what, func() error {
		s = p.look(t)
		if err := s.err(); err != nil {
			t.Fatal(err)
		}
		if !is(s) {
			return fmt.Errorf("there are %s%d refused", s.pods, s.refused)
		}
		return nil
	})
	return s
}
