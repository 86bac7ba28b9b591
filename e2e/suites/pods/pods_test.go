package pods

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"sluice.dev/e2e/harness"
)

func TestPodWaitsAndStarts(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2", NoFlavor: true})
	flavor := harness.Flavor(q.Flavor)
	harness.Set(flavor, map[string]any{"type": "kwok"}, "spec", "nodeLabels")
	c.MustCreate(t, flavor)
	create(t, q, pod{name: "first", cpu: "2"})
	first := expectPhase(t, q.Namespace, "first", "Running")
	if have := harness.Field(first, "spec", "nodeSelector", "type"); have != "kwok" {
		t.Errorf("the node selector of the flavor is %q", have)
	}
	if have := first.GetLabels()["kueue.x-k8s.io/podset"]; have != "main" {
		t.Errorf("the pod set label is %q", have)
	}
	create(t, q, pod{name: "second", cpu: "1", run: "1"})
	second := expectPhase(t, q.Namespace, "second", "gated")
	if second.GetLabels()[managed] != "true" || len(second.GetFinalizers()) != 1 {
		t.Errorf("labels %v and finalizers %v of a managed pod", second.GetLabels(), second.GetFinalizers())
	}
	c.MustPatch(t, podKind, q.Namespace, "first", `{"metadata":{"annotations":{"sluice.dev/run-seconds":"0"}}}`)
	expectPhase(t, q.Namespace, "first", "Succeeded")
	c.ExpectWorkload(t, q.Namespace, "first", "Finished", "True", "Succeeded")
	expectPhase(t, q.Namespace, "second", "Succeeded")
	c.ExpectWorkload(t, q.Namespace, "second", "Finished", "True", "Succeeded")
	expectLetGo(t, q.Namespace, "first")
	expectLetGo(t, q.Namespace, "second")
	c.ExpectEvent(t, q.Namespace, "Pod", "first", "Started")
}

func TestOtherPodsAreLeftAlone(t *testing.T) {
	c := cluster(t)
	namespace := c.Namespace(t)
	c.MustCreate(t, pod{name: "free"}.object(namespace))
	object := expectPhase(t, namespace, "free", "Running")
	if len(object.GetLabels())+len(object.GetFinalizers()) > 0 {
		t.Errorf("labels %v and finalizers %v", object.GetLabels(), object.GetFinalizers())
	}
	// Nor are the pods of a Job that has a queue of its own: its Workload stands for them.
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{CPU: "1", RunSeconds: "1"})
	c.ExpectFinished(t, q.Namespace, job)
	workloads, err := c.List(t.Context(), kueue("Workload"), q.Namespace, "")
	if err != nil || len(workloads) != 1 {
		t.Errorf("%d Workloads, want 1 (%v)", len(workloads), err)
	}
}

func TestRoleOfAPodIsThatOfOthers(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	for cpu, want := range map[string]string{"1": "4b0469f7", "2": "c3465716"} {
		create(t, q, pod{name: "cpu-" + cpu, cpu: cpu})
		object := c.Get(t, podKind, q.Namespace, "cpu-"+cpu)
		if have := object.GetAnnotations()["kueue.x-k8s.io/role-hash"]; have != want {
			t.Errorf("the role of a pod with %s CPU is %q, want %s", cpu, have, want)
		}
	}
}

func TestGroupWaitsForItsPodsAndForQuota(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	create(t, q, pod{name: "blocker"})
	expectPhase(t, q.Namespace, "blocker", "Running")
	names := []string{}
	for i := range 3 {
		names = append(names, fmt.Sprintf("g-%d", i))
		create(t, q, pod{name: names[i], group: "g", total: 4, run: "2"})
	}
	staysGated(t, q.Namespace, names...)
	if _, err := c.Fetch(t.Context(), kueue("Workload"), q.Namespace, "g"); !apierrors.IsNotFound(err) {
		t.Errorf("the Workload of a group with 3 of 4 pods: %v", err)
	}
	names = append(names, "g-3")
	create(t, q, pod{name: "g-3", group: "g", total: 4, run: "2"})
	expectGroup(t, q.Namespace, "g", "QuotaReserved", "False", "WaitingForQuota")
	staysGated(t, q.Namespace, names...)

	c.Delete(t, podKind, q.Namespace, "blocker")
	expectGroup(t, q.Namespace, "g", "Admitted", "True", "Admitted")
	for _, name := range names {
		expectPhase(t, q.Namespace, name, "Succeeded")
	}
	expectGroup(t, q.Namespace, "g", "Finished", "True", "Succeeded")
	for _, name := range names {
		expectLetGo(t, q.Namespace, name)
	}
	workload := c.Get(t, kueue("Workload"), q.Namespace, "g")
	if owners := workload.GetOwnerReferences(); len(owners) != 4 || owners[0].Controller != nil {
		t.Errorf("owners are %v", owners)
	}
	expectGone(t, podKind, q.Namespace, "blocker")
}

func TestFailedPodIsReplaced(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	create(t, q, pod{name: "good", group: "g", total: 2})
	create(t, q, pod{name: "bad", group: "g", total: 2, run: "1", exit: "1"})
	expectPhase(t, q.Namespace, "good", "Running")
	expectPhase(t, q.Namespace, "bad", "Failed")
	expectGroup(t, q.Namespace, "g", "WaitingForReplacementPods", "True", "PodsFailed")
	create(t, q, pod{name: "better", group: "g", total: 2})
	expectPhase(t, q.Namespace, "better", "Running")
	expectGroup(t, q.Namespace, "g", "WaitingForReplacementPods", "False", "PodsReady")
	expectLetGo(t, q.Namespace, "bad")
	if object := expectPhase(t, q.Namespace, "good", "Running"); len(object.GetFinalizers()) == 0 {
		t.Error("a pod that runs has lost its finalizer")
	}
}

func TestExcessPodIsDeleted(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	for i := range 2 {
		create(t, q, pod{name: fmt.Sprintf("g-%d", i), group: "g", total: 2})
	}
	expectPhase(t, q.Namespace, "g-0", "Running")
	expectPhase(t, q.Namespace, "g-1", "Running")
	c.MustCreate(t, func() pod { return pod{name: "more", queue: q.Local, group: "g", total: 2} }().object(q.Namespace))
	expectGone(t, podKind, q.Namespace, "more")
	c.ExpectEvent(t, q.Namespace, "Pod", "more", "ExcessPodDeleted")
	expectPhase(t, q.Namespace, "g-0", "Running")
	expectPhase(t, q.Namespace, "g-1", "Running")
}

func TestDeletedWorkloadStopsTheGroup(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	for i := range 2 {
		create(t, q, pod{name: fmt.Sprintf("g-%d", i), group: "g", total: 2})
	}
	expectPhase(t, q.Namespace, "g-0", "Running")
	expectPhase(t, q.Namespace, "g-1", "Running")
	c.Delete(t, kueue("Workload"), q.Namespace, "g")
	expectGone(t, podKind, q.Namespace, "g-0")
	expectGone(t, podKind, q.Namespace, "g-1")
	expectGone(t, kueue("Workload"), q.Namespace, "g")
}

func TestPreemptedPodIsDeleted(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"preemption":{"withinClusterQueue":"LowerPriority"}}}`)
	class := harness.Name("high")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: 100}", class))
	create(t, q, pod{name: "low"})
	expectPhase(t, q.Namespace, "low", "Running")
	top := pod{name: "top", queue: q.Local}.object(q.Namespace)
	labels := top.GetLabels()
	labels["kueue.x-k8s.io/priority-class"] = class
	top.SetLabels(labels)
	c.MustCreate(t, top)
	expectPhase(t, q.Namespace, "top", "Running")
	expectGone(t, podKind, q.Namespace, "low")
}

// TestGroupStartsWholeAcrossRestarts kills the controller again and again while groups start.
func TestGroupStartsWholeAcrossRestarts(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "40"})
	for group := range 3 {
		for i := range 10 {
			create(t, q, pod{name: fmt.Sprintf("g%d-%d", group, i), group: fmt.Sprintf("g%d", group), total: 10})
		}
		// Somewhere in the middle of what follows the last pod.
		time.Sleep(time.Duration(30*group) * time.Millisecond)
		c.Controller().Kill()
		if err := c.ReleaseLease(); err != nil {
			t.Fatal(err)
		}
		if err := c.Controller().Start(); err != nil {
			t.Fatal(err)
		}
	}
	for group := range 3 {
		expectGroup(t, q.Namespace, fmt.Sprintf("g%d", group), "Admitted", "True", "Admitted")
		for i := range 10 {
			expectPhase(t, q.Namespace, fmt.Sprintf("g%d-%d", group, i), "Running")
		}
	}
}

func TestWebhookRefusals(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	const (
		label      = "metadata.labels[kueue.x-k8s.io/pod-group-name]"
		total      = "metadata.annotations[kueue.x-k8s.io/pod-group-total-count]"
		queue      = "metadata.labels[kueue.x-k8s.io/queue-name]"
		annotation = "kueue.x-k8s.io/pod-group-total-count"
	)
	rows := []struct {
		name  string
		pod   pod
		words string
	}{
		{"total without group", pod{annotations: map[string]string{annotation: "2"}}, label + ": Required value"},
		{"group without total", pod{group: "g", annotations: map[string]string{annotation: ""}}, total + ": Invalid value"},
		{"total of zero", pod{group: "g", total: 0}, total + ": Invalid value"},
		{"bad group name", pod{group: "G", total: 1}, label + ": Invalid value"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			row.pod.name, row.pod.queue = "refused", q.Local
			_, err := c.Create(t.Context(), row.pod.object(q.Namespace))
			refused(t, err, row.words)
		})
	}
	create(t, q, pod{name: "runs", group: "runs", total: 1})
	expectPhase(t, q.Namespace, "runs", "Running")
	changes := []struct{ name, patch, words string }{
		{"queue of a running pod", `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}}}`, queue + ": Invalid value"},
		{"group of a pod", `{"metadata":{"labels":{"kueue.x-k8s.io/pod-group-name":"other"}}}`, label + ": Invalid value"},
	}
	for _, row := range changes {
		t.Run(row.name, func(t *testing.T) {
			_, err := c.Patch(t.Context(), podKind, q.Namespace, "runs", row.patch)
			refused(t, err, row.words)
		})
	}
}

func refused(t *testing.T, err error, words string) {
	t.Helper()
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), words) {
		t.Errorf("want a refusal with %q, have %v", words, err)
	}
}

// TestManyPodsOfAGroup measures how fast a large group is released.
func TestManyPodsOfAGroup(t *testing.T) {
	c := harness.Shared
	const count = 256
	q := c.NewQueue(t, harness.QueueOptions{CPU: "400"})
	for i := range count {
		object := pod{name: fmt.Sprintf("g-%d", i), queue: q.Local, group: "g", total: count, cpu: "10m"}.object(q.Namespace)
		if _, err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	harness.EventuallyWithin(t, 3*harness.Patience, "all pods are released", func() error {
		list, err := c.List(t.Context(), podKind, q.Namespace, "")
		if err != nil {
			return err
		}
		waiting := 0
		for i := range list {
			if gated(&list[i]) {
				waiting++
			}
		}
		if waiting > 0 || len(list) != count {
			return fmt.Errorf("%d of %d pods wait", waiting, len(list))
		}
		return nil
	})
	t.Logf("%d pods released within %v of the last creation", count, time.Since(start))
}
