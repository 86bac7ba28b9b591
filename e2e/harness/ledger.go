package harness

import (
	"context"
	"fmt"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Event is one step in the life of a Job.
type Event string

// The steps in their usual order.
const (
	Created  Event = "Workload created"
	Reserved Event = "quota reserved"
	Admitted Event = "Workload admitted"
	Started  Event = "Job started"
	Finished Event = "Workload finished"
)

// Ledger watches the Jobs and Workloads of a namespace and keeps account of admissions: it notices
// when a Job is started or admitted more than once, has two Workloads at once, or when more runs
// than the quota allows.
type Ledger struct {
	quota int // CPUs; every Job's label "cpu" says what it takes

	mu       sync.Mutex
	jobs     map[string]*entry
	problems []string
	seen     chan step
}

type step struct {
	job   string
	event Event
}

type entry struct {
	cpu                int
	running, over      bool
	starts, admissions int
	reserved, finished bool
	admitted           bool
	workloads          map[string]bool
}

// Watch starts a ledger for a namespace; it ends with the test.
func (c *Cluster) Watch(t testing.TB, namespace string, quota int) *Ledger {
	t.Helper()
	l := &Ledger{quota: quota, jobs: map[string]*entry{}, seen: make(chan step, 100000)}
	for gvk, absorb := range map[schema.GroupVersionKind]func(watch.EventType, *unstructured.Unstructured){
		JobKind: l.absorbJob, Kueue("Workload"): l.absorbWorkload,
	} {
		client, err := c.Resource(gvk, namespace)
		if err != nil {
			t.Fatal(err)
		}
		if err := follow(t.Context(), client, absorb); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// follow hands every change to the function, without gaps.
func follow(ctx context.Context, client dynamic.ResourceInterface, absorb func(watch.EventType, *unstructured.Unstructured)) error {
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		absorb(watch.Added, &list.Items[i])
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), source)
	if err != nil {
		return err
	}
	go func() {
		for event := range watcher.ResultChan() {
			if object, ok := event.Object.(*unstructured.Unstructured); ok {
				absorb(event.Type, object)
			}
		}
	}()
	return nil
}

func (l *Ledger) entryOf(job string) *entry {
	if l.jobs[job] == nil {
		l.jobs[job] = &entry{workloads: map[string]bool{}}
	}
	return l.jobs[job]
}

func (l *Ledger) tell(job string, event Event) {
	select {
	case l.seen <- step{job, event}:
	default: // nobody reads, and the accounts are kept all the same
	}
}

func (l *Ledger) complain(format string, arguments ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, arguments...))
}

func (l *Ledger) absorbJob(kind watch.EventType, job *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entryOf(job.GetName())
	fmt.Sscan(job.GetLabels()["cpu"], &e.cpu)
	over := kind == watch.Deleted
	for _, condition := range []string{"Complete", "Failed", "SuccessCriteriaMet", "FailureTarget"} {
		over = over || ConditionOf(job, condition).Status == "True"
	}
	running := Field(job, "spec", "suspend") != "true"
	if running && !e.running {
		e.starts++
		if e.starts > 1 {
			l.complain("Job %s was started %d times", job.GetName(), e.starts)
		}
		l.tell(job.GetName(), Started)
	}
	e.running, e.over = running, over
	sum := 0
	for _, other := range l.jobs {
		if other.running && !other.over {
			sum += other.cpu
		}
	}
	if l.quota > 0 && sum > l.quota {
		l.complain("when Job %s was started, %d CPUs ran with a quota of %d", job.GetName(), sum, l.quota)
	}
}

func (l *Ledger) absorbWorkload(kind watch.EventType, workload *unstructured.Unstructured) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner := ""
	for _, reference := range workload.GetOwnerReferences() {
		if reference.Kind == "Job" {
			owner = reference.Name
		}
	}
	if owner == "" {
		return
	}
	e, uid := l.entryOf(owner), string(workload.GetUID())
	if kind == watch.Deleted {
		delete(e.workloads, uid)
		return
	}
	if !e.workloads[uid] {
		e.workloads[uid] = true
		if len(e.workloads) > 1 {
			l.complain("Job %s has %d Workloads", owner, len(e.workloads))
		}
		l.tell(owner, Created)
	}
	_, reserved, _ := unstructured.NestedMap(workload.Object, "status", "admission")
	if reserved && !e.reserved {
		e.admissions++
		if e.admissions > 1 {
			l.complain("Job %s was admitted %d times", owner, e.admissions)
		}
		l.tell(owner, Reserved)
	}
	e.reserved = reserved
	admitted := ConditionOf(workload, "Admitted").Status == "True"
	if admitted && !e.admitted {
		l.tell(owner, Admitted)
	}
	e.admitted = admitted
	finished := ConditionOf(workload, "Finished").Status == "True"
	if finished && !e.finished {
		l.tell(owner, Finished)
	}
	e.finished = finished
}

// Await waits until the step happened to one of the Jobs (any Job if none is given).
func (l *Ledger) Await(ctx context.Context, event Event, jobs ...string) error {
	for {
		select {
		case step := <-l.seen:
			if step.event != event {
				continue
			}
			if len(jobs) == 0 {
				return nil
			}
			for _, job := range jobs {
				if step.job == job {
					return nil
				}
			}
		case <-ctx.Done():
			return fmt.Errorf("waiting for %q of %v: %w", event, jobs, ctx.Err())
		}
	}
}

// Check ends the test if something went wrong so far.
func (l *Ledger) Check(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, problem := range l.problems {
		t.Error(problem)
	}
	if len(l.problems) > 0 {
		t.FailNow()
	}
}

// Running is the number of Jobs that are not suspended.
func (l *Ledger) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, e := range l.jobs {
		if e.running {
			count++
		}
	}
	return count
}

// Unfinished are those of the Jobs of which no finished Workload was seen yet.
func (l *Ledger) Unfinished(jobs ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := []string{}
	for _, name := range jobs {
		if e := l.jobs[name]; e == nil || !e.finished {
			names = append(names, name)
		}
	}
	return names
}
