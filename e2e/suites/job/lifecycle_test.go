package job

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice.dev/e2e/harness"
)

func TestJobRunsAndFreesItsQuota(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{CPU: "1", Pods: 3})
	workload := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "Admitted")
	c.ExpectSuspended(t, q.Namespace, job, false)
	expectUsage(t, q, "cpu", "3")
	expectCounts(t, "ClusterQueue", "", q.Cluster, 0, 1, 1)
	expectCounts(t, "LocalQueue", q.Namespace, q.Local, 0, 1, 1)

	finishPods(t, q.Namespace, job, 3)
	c.ExpectFinished(t, q.Namespace, job)
	c.ExpectWorkload(t, q.Namespace, job, "Finished", "True", "Succeeded")
	expectUsage(t, q, "cpu", "0")
	expectCounts(t, "ClusterQueue", "", q.Cluster, 0, 0, 0)
	harness.Eventually(t, "the finalizer of the finished Workload goes", func() error {
		now, err := c.Fetch(t.Context(), kueue("Workload"), q.Namespace, workload.GetName())
		if err == nil && len(now.GetFinalizers()) > 0 {
			err = fmt.Errorf("finalizers are %v", now.GetFinalizers())
		}
		return err
	})
	for _, reason := range []string{"CreatedWorkload", "Started", "FinishedWorkload"} {
		expectEvent(t, q.Namespace, "Job", job, reason)
	}
	for _, reason := range []string{"QuotaReserved", "Admitted"} {
		expectEvent(t, q.Namespace, "Workload", workload.GetName(), reason)
	}
}

func TestFailedJobFreesItsQuota(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	object := harness.Job{Name: "fails", Namespace: q.Namespace, Queue: q.Local, RunSeconds: "1"}.Object()
	harness.Set(object, "1", "spec", "template", "metadata", "annotations", "sluice.dev/exit-code")
	harness.Set(object, int64(0), "spec", "backoffLimit")
	c.MustCreate(t, object)
	c.ExpectWorkload(t, q.Namespace, "fails", "Finished", "True", "Failed")
	expectUsage(t, q, "cpu", "0")
}

func TestWaitingJobSaysWhatIsMissing(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	first := c.Submit(t, q, harness.Job{CPU: "1", Pods: 3})
	c.ExpectSuspended(t, q.Namespace, first, false)
	second := c.Submit(t, q, harness.Job{CPU: "3", RunSeconds: "1"})
	expectMessage(t, q.Namespace, second, "WaitingForQuota",
		"cpu", "flavor "+q.Flavor, "2 more needed", "pod set main")
	expectEvent(t, q.Namespace, "Workload", workloadName(t, q.Namespace, second), "WaitingForQuota")
	expectCounts(t, "ClusterQueue", "", q.Cluster, 1, 1, 1)
	expectCounts(t, "LocalQueue", q.Namespace, q.Local, 1, 1, 1)
	staysSuspended(t, q.Namespace, second)

	finishPods(t, q.Namespace, first, 3)
	c.ExpectFinished(t, q.Namespace, first)
	c.ExpectFinished(t, q.Namespace, second)
}

func TestJobThatNeverFitsSaysSo(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	job := c.Submit(t, q, harness.Job{CPU: "5"})
	expectMessage(t, q.Namespace, job, "ExceedsMaxQuota", "cpu", q.Flavor, "5", "4")
	staysSuspended(t, q.Namespace, job)
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, quotaPatch(q, "6"))
	c.ExpectSuspended(t, q.Namespace, job, false)
}

func quotaPatch(q harness.Queue, cpu string) string {
	return fmt.Sprintf(`{"spec":{"resourceGroups":[{"coveredResources":["cpu"],"flavors":[{"name":%q,
	  "resources":[{"name":"cpu","nominalQuota":%q}]}]}]}}`, q.Flavor, cpu)
}

func TestUnknownResourceSaysSo(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	object := harness.Job{Name: "gpu", Namespace: q.Namespace, Queue: q.Local}.Object()
	containers := harness.Parse(`{list: [{name: main, image: i, resources: {requests: {cpu: 1}, limits: {example.com/gpu: 1}}}]}`).Object["list"]
	harness.Set(object, containers, "spec", "template", "spec", "containers")
	c.MustCreate(t, object)
	expectMessage(t, q.Namespace, "gpu", "NoMatchingFlavor", "example.com/gpu")
}

// TestJobsThatDoNotFitTogetherNeverOverlap submits many Jobs of which any two are too many, and
// watches that never more than one runs.
func TestJobsThatDoNotFitTogetherNeverOverlap(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "4"})
	jobs := []string{}
	for range 8 {
		jobs = append(jobs, c.Submit(t, q, harness.Job{CPU: "3", RunSeconds: "0.5"}))
	}
	deadline := time.Now().Add(4 * harness.Patience)
	for {
		running, finished := 0, 0
		list, err := c.List(t.Context(), harness.JobKind, q.Namespace, "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			switch {
			case harness.ConditionOf(&list[i], "Complete").Status == "True" || harness.ConditionOf(&list[i], "SuccessCriteriaMet").Status == "True":
				finished++
			case harness.Field(&list[i], "spec", "suspend") != "true":
				running++
			}
		}
		if running > 1 {
			t.Fatalf("%d Jobs run at once", running)
		}
		if finished == len(jobs) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %d of %d Jobs finished", finished, len(jobs))
		}
		time.Sleep(20 * time.Millisecond)
	}
	// The objects' own times tell the same: no start before the end of the one before.
	type span struct{ start, end string }
	spans := []span{}
	for _, job := range jobs {
		c.ExpectFinished(t, q.Namespace, job)
		object := c.Get(t, harness.JobKind, q.Namespace, job)
		spans = append(spans, span{harness.Field(object, "status", "startTime"), harness.Field(object, "status", "completionTime")})
	}
	slices.SortFunc(spans, func(a, b span) int { return strings.Compare(a.start+a.end, b.start+b.end) })
	for i := 1; i < len(spans); i++ {
		if spans[i].start < spans[i-1].end {
			t.Errorf("a Job started at %s, before the end of another at %s", spans[i].start, spans[i-1].end)
		}
	}
}

func TestJobWithoutQueueIsLeftAlone(t *testing.T) {
	c := cluster(t)
	namespace := c.Namespace(t)
	c.MustCreate(t, harness.Job{Name: "free", Namespace: namespace, RunSeconds: "0.2"}.Object())
	c.ExpectFinished(t, namespace, "free")
	if _, err := c.WorkloadOf(t.Context(), namespace, "free"); err == nil {
		t.Error("it has a Workload")
	}
}

func TestKubeSystemIsLeftAlone(t *testing.T) {
	c := cluster(t)
	name := harness.Name("system")
	c.MustCreate(t, harness.Job{Name: name, Namespace: "kube-system", Queue: "nowhere", RunSeconds: "0.2"}.Object())
	c.ExpectFinished(t, "kube-system", name)
}

func TestDeletedJobFreesItsQuota(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	first := c.Submit(t, q, harness.Job{CPU: "4"})
	c.ExpectSuspended(t, q.Namespace, first, false)
	second := c.Submit(t, q, harness.Job{CPU: "4"})
	expectMessage(t, q.Namespace, second, "WaitingForQuota")
	c.Delete(t, harness.JobKind, q.Namespace, first)
	c.ExpectSuspended(t, q.Namespace, second, false)
	harness.Eventually(t, "the Workload of the deleted Job goes", func() error {
		workload, err := c.WorkloadOf(t.Context(), q.Namespace, first)
		if err == nil {
			return fmt.Errorf("%s is still there", workload.GetName())
		}
		return nil
	})
}

func TestDeletedWorkloadIsMadeAnew(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{})
	before := c.ExpectWorkload(t, q.Namespace, job, "Admitted", "True", "")
	c.Delete(t, kueue("Workload"), q.Namespace, before.GetName())
	harness.Eventually(t, "another Workload is admitted", func() error {
		now, err := c.WorkloadOf(t.Context(), q.Namespace, job)
		if err != nil {
			return err
		}
		if now.GetUID() == before.GetUID() || harness.ConditionOf(now, "Admitted").Status != "True" {
			return harness.ErrNotYet
		}
		return nil
	})
	c.ExpectSuspended(t, q.Namespace, job, false)
	expectUsage(t, q, "cpu", "1")
}

func TestUserCannotStartAWaitingJob(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	job := c.Submit(t, q, harness.Job{CPU: "2"})
	expectMessage(t, q.Namespace, job, "ExceedsMaxQuota")
	c.MustPatch(t, harness.JobKind, q.Namespace, job, `{"spec":{"suspend":false}}`)
	c.ExpectSuspended(t, q.Namespace, job, true)
	expectEvent(t, q.Namespace, "Job", job, "Stopped")
}

func TestPodsThatEndedNeedNoQuota(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "3"})
	first := c.Submit(t, q, harness.Job{CPU: "1", Pods: 3})
	c.ExpectSuspended(t, q.Namespace, first, false)
	second := c.Submit(t, q, harness.Job{CPU: "2"})
	expectMessage(t, q.Namespace, second, "WaitingForQuota", "2 more needed")
	finishPods(t, q.Namespace, first, 1)
	expectMessage(t, q.Namespace, second, "WaitingForQuota", "1 more needed")
	finishPods(t, q.Namespace, first, 1)
	c.ExpectSuspended(t, q.Namespace, second, false)
	expectUsage(t, q, "cpu", "3")
}

func TestPodsReadyIsReported(t *testing.T) {
	c := cluster(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	job := c.Submit(t, q, harness.Job{Pods: 2})
	c.ExpectWorkload(t, q.Namespace, job, "PodsReady", "True", "Started")
}
