package job

import (
	"fmt"
	"testing"

	"sluice.dev/e2e/harness"
)

// fill takes all of a queue's CPU and returns the Job that does.
func fill(t *testing.T, q harness.Queue, cpu string) string {
	t.Helper()
	c := harness.Shared
	job := c.Submit(t, q, harness.Job{Name: harness.Name("filler"), CPU: cpu})
	c.ExpectSuspended(t, q.Namespace, job, false)
	return job
}

func TestHigherPriorityGoesFirst(t *testing.T) {
	for _, kind := range []string{"WorkloadPriorityClass", "PriorityClass"} {
		t.Run(kind, func(t *testing.T) {
			c := cluster(t)
			q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
			submit := func(name string, value int) string {
				class := harness.Name(name)
				job := harness.Job{Name: harness.Name(name), CPU: "2"}
				if kind == "PriorityClass" {
					c.MustCreate(t, harness.Parsef("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: %d}", class, value))
					job.PriorityClass = class
				} else {
					c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: %d}", class, value))
					job.Labels = []string{"kueue.x-k8s.io/priority-class=" + class}
				}
				c.Submit(t, q, job)
				expectMessage(t, q.Namespace, job.Name, "WaitingForQuota")
				workload := workloadName(t, q.Namespace, job.Name)
				if have := harness.Field(c.Get(t, kueue("Workload"), q.Namespace, workload), "spec", "priority"); have != fmt.Sprint(value) {
					t.Errorf("priority of %s is %s, want %d", name, have, value)
				}
				return job.Name
			}
			filler := fill(t, q, "2")
			low, high := submit("low", 10), submit("high", 1000)
			c.Delete(t, harness.JobKind, q.Namespace, filler)
			c.ExpectSuspended(t, q.Namespace, high, false)
			staysSuspended(t, q.Namespace, low)
		})
	}
}

func TestMissingPriorityClassIsReported(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	class := harness.Name("late")
	job := c.Submit(t, q, harness.Job{Labels: []string{"kueue.x-k8s.io/priority-class=" + class}})
	expectEvent(t, q.Namespace, "Job", job, "WorkloadPriorityClassNotFound")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: 1}", class))
	c.ExpectSuspended(t, q.Namespace, job, false)
}

func TestStrictFIFOIsNeverOvertaken(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4", Strategy: "StrictFIFO"})
	filler := fill(t, q, "3")
	head := c.Submit(t, q, harness.Job{Name: harness.Name("head"), CPU: "3"})
	expectMessage(t, q.Namespace, head, "WaitingForQuota")
	// Creation times have whole seconds: in the same one the order is that of the UIDs.
	harness.NextSecond(t)
	small := c.Submit(t, q, harness.Job{Name: harness.Name("small"), CPU: "1"})
	workloadName(t, q.Namespace, small)
	staysSuspended(t, q.Namespace, small)
	c.Delete(t, harness.JobKind, q.Namespace, filler)
	c.ExpectSuspended(t, q.Namespace, head, false)
	c.ExpectSuspended(t, q.Namespace, small, false)
}

func TestBestEffortFIFOLetsSmallOnesPass(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4", Strategy: "BestEffortFIFO"})
	fill(t, q, "3")
	head := c.Submit(t, q, harness.Job{Name: harness.Name("head"), CPU: "3"})
	expectMessage(t, q.Namespace, head, "WaitingForQuota")
	small := c.Submit(t, q, harness.Job{Name: harness.Name("small"), CPU: "1"})
	c.ExpectSuspended(t, q.Namespace, small, false)
	staysSuspended(t, q.Namespace, head)
}

func TestOlderGoesFirst(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	filler := fill(t, q, "2")
	first := c.Submit(t, q, harness.Job{Name: "z-first", CPU: "2"})
	expectMessage(t, q.Namespace, first, "WaitingForQuota")
	harness.NextSecond(t)
	second := c.Submit(t, q, harness.Job{Name: "a-second", CPU: "2"})
	expectMessage(t, q.Namespace, second, "WaitingForQuota")
	c.Delete(t, harness.JobKind, q.Namespace, filler)
	c.ExpectSuspended(t, q.Namespace, first, false)
	staysSuspended(t, q.Namespace, second)
}

func TestStopPolicies(t *testing.T) {
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		t.Run(kind, func(t *testing.T) {
			c := cluster(t)
			q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
			name, namespace := q.Cluster, ""
			if kind == "LocalQueue" {
				name, namespace = q.Local, q.Namespace
			}
			set := func(policy string) {
				c.MustPatch(t, kueue(kind), namespace, name, `{"spec":{"stopPolicy":"`+policy+`"}}`)
			}
			running := fill(t, q, "1")

			set("Hold")
			c.ExpectCondition(t, kueue(kind), namespace, name, "Active", "False", "Stopped")
			waiting := c.Submit(t, q, harness.Job{CPU: "1"})
			expectMessage(t, q.Namespace, waiting, "Suspended")
			staysSuspended(t, q.Namespace, waiting)
			c.ExpectSuspended(t, q.Namespace, running, false)

			set("HoldAndDrain")
			c.ExpectSuspended(t, q.Namespace, running, true)
			c.ExpectWorkload(t, q.Namespace, running, "Evicted", "True", kind+"Stopped")
			expectUsage(t, q, "cpu", "0")

			set("None")
			c.ExpectCondition(t, kueue(kind), namespace, name, "Active", "True", "Ready")
			c.ExpectSuspended(t, q.Namespace, running, false)
			c.ExpectSuspended(t, q.Namespace, waiting, false)
		})
	}
}

func TestMissingLocalQueue(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{Queue: "later"})
	expectMessage(t, q.Namespace, job, "Misconfigured", "later")
	staysSuspended(t, q.Namespace, job)
	c.MustCreate(t, harness.LocalQueue(q.Namespace, "later", q.Cluster))
	c.ExpectSuspended(t, q.Namespace, job, false)
}

func TestMissingClusterQueue(t *testing.T) {
	c := cluster(t)
	q := harness.Queue{Namespace: c.Namespace(t), Local: "main", Cluster: harness.Name("cq"), Flavor: harness.Name("flavor")}
	c.MustCreate(t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	c.ExpectCondition(t, kueue("LocalQueue"), q.Namespace, q.Local, "Active", "False", "ClusterQueueDoesNotExist")
	job := c.Submit(t, q, harness.Job{})
	expectMessage(t, q.Namespace, job, "Misconfigured", q.Cluster)

	c.MustCreate(t, harness.ClusterQueue(q, harness.QueueOptions{CPU: "4"}))
	condition := c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "False", "FlavorNotFound")
	if want := q.Flavor; !contains(condition.Message, want) {
		t.Errorf("the message does not name %s: %s", want, condition.Message)
	}
	c.ExpectCondition(t, kueue("LocalQueue"), q.Namespace, q.Local, "Active", "False", "ClusterQueueIsInactive")
	expectMessage(t, q.Namespace, job, "Suspended")

	c.MustCreate(t, harness.Flavor(q.Flavor))
	c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "True", "Ready")
	c.ExpectCondition(t, kueue("LocalQueue"), q.Namespace, q.Local, "Active", "True", "Ready")
	c.ExpectSuspended(t, q.Namespace, job, false)
}

func TestInactiveForAdmissionChecks(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	check := harness.Name("check")
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster,
		`{"spec":{"admissionChecksStrategy":{"admissionChecks":[{"name":"`+check+`"}]}}}`)
	c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "False", "AdmissionCheckNotFound")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: %s}, spec: {controllerName: example.com/nobody}}", check))
	c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "False", "AdmissionCheckInactive")
}

func TestNamespaceSelector(t *testing.T) {
	c := cluster(t)
	label := harness.Name("team")
	q := c.NewQueue(t, harness.QueueOptions{Selector: "{matchLabels: {team: " + label + "}}"})
	job := c.Submit(t, q, harness.Job{})
	expectMessage(t, q.Namespace, job, "Misconfigured", "namespace doesn't match")
	staysSuspended(t, q.Namespace, job)
	namespace := harness.Parse("{apiVersion: v1, kind: Namespace}").GroupVersionKind()
	c.MustPatch(t, namespace, "", q.Namespace, `{"metadata":{"labels":{"team":"`+label+`"}}}`)
	c.ExpectSuspended(t, q.Namespace, job, false)
}

func TestQueueChangeWhileWaiting(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	other := harness.Queue{Cluster: harness.Name("cq"), Flavor: q.Flavor}
	c.MustCreate(t, harness.ClusterQueue(other, harness.QueueOptions{CPU: "8"}))
	c.MustCreate(t, harness.LocalQueue(q.Namespace, "other", other.Cluster))
	job := c.Submit(t, q, harness.Job{CPU: "2"})
	expectMessage(t, q.Namespace, job, "ExceedsMaxQuota")
	c.MustPatch(t, harness.JobKind, q.Namespace, job, `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"other"}}}`)
	c.ExpectSuspended(t, q.Namespace, job, false)
	workload := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "")
	if have := harness.Field(workload, "status", "admission", "clusterQueue"); have != other.Cluster {
		t.Errorf("admitted in %s, want %s", have, other.Cluster)
	}
	_, err := c.Patch(t.Context(), harness.JobKind, q.Namespace, job, `{"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"main"}}}`)
	if err == nil || !contains(err.Error(), "kueue.x-k8s.io/queue-name") {
		t.Errorf("the queue of a running Job must not change, but: %v", err)
	}
}

func TestDefaultLocalQueue(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	c.MustCreate(t, harness.LocalQueue(q.Namespace, "default", q.Cluster))
	harness.Eventually(t, "the webhook knows the default queue", func() error {
		object := harness.Job{Name: harness.Name("plain"), Namespace: q.Namespace}.Object()
		created := c.MustCreate(t, object)
		if have := created.GetLabels()["kueue.x-k8s.io/queue-name"]; have != "default" {
			return fmt.Errorf("its queue is %q", have)
		}
		if harness.Field(created, "spec", "suspend") != "true" {
			t.Error("it is not suspended")
		}
		c.ExpectSuspended(t, q.Namespace, created.GetName(), false)
		return nil
	})
}

func TestInUseProtection(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	running := fill(t, q, "1")

	c.Delete(t, kueue("ClusterQueue"), "", q.Cluster)
	c.Delete(t, kueue("ResourceFlavor"), "", q.Flavor)
	c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "False", "Terminating")
	waiting := c.Submit(t, q, harness.Job{CPU: "1"})
	expectMessage(t, q.Namespace, waiting, "Suspended")
	staysSuspended(t, q.Namespace, waiting)
	c.ExpectSuspended(t, q.Namespace, running, false)
	c.Get(t, kueue("ResourceFlavor"), "", q.Flavor)

	finishPods(t, q.Namespace, running, 1)
	c.ExpectFinished(t, q.Namespace, running)
	for _, gone := range [][2]string{{"ClusterQueue", q.Cluster}, {"ResourceFlavor", q.Flavor}} {
		harness.Eventually(t, gone[0]+" goes", func() error {
			if _, err := c.Fetch(t.Context(), kueue(gone[0]), "", gone[1]); err == nil {
				return harness.ErrNotYet
			}
			return nil
		})
	}
	expectMessage(t, q.Namespace, waiting, "Misconfigured", q.Cluster)
}
