// Package gangs runs Jobs as gangs of the real kube-scheduler: none of their pods is bound unless all
// fit, whatever is restarted meanwhile, and what happens when a running gang loses pods.
package gangs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "gangs", Nodes: 1, NativeGangs: true, PlainPods: true,
		Configure: func(config map[string]any) {
			election, _ := config["leaderElection"].(map[string]any)
			election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = "2s", "1500ms", "200ms"
		}})
}

var (
	podKind   = harness.Parse("{apiVersion: v1, kind: Pod}").GroupVersionKind()
	nodeKind  = harness.Parse("{apiVersion: v1, kind: Node}").GroupVersionKind()
	groupKind = schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"}
)

// pool is a place with nodes of its own, in which a queue's Jobs run and nothing else.
type pool struct {
	harness.Queue
	label string
}

func newPool(t *testing.T, cpus ...string) pool {
	t.Helper()
	c := harness.Shared
	p := pool{Queue: c.NewQueue(t, harness.QueueOptions{CPU: "100", NoFlavor: true}), label: harness.Name("pool")}
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: %s}, spec: {nodeLabels: {pool: %s}}}", p.Flavor, p.label))
	for _, cpu := range cpus {
		p.node(t, cpu)
	}
	return p
}

// node adds a node with so many CPUs and returns its name.
func (p pool) node(t *testing.T, cpu string) string {
	t.Helper()
	name := harness.Name("pool-node")
	harness.Shared.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: Node
metadata:
  name: %s
  annotations: {kwok.x-k8s.io/node: fake}
  labels: {type: kwok, pool: %s, kubernetes.io/hostname: %s}
status:
  allocatable: {cpu: %q, memory: 64Gi, pods: "110"}
  capacity: {cpu: %q, memory: 64Gi, pods: "110"}
`, name, p.label, name, cpu, cpu))
	return name
}

// gang submits a Job that asks to be a gang. Only names without a dot are left to the Job controller.
func (p pool) gang(t *testing.T, form string, pods int, annotations ...string) string {
	t.Helper()
	name := harness.Name("gang")
	if form == "PodGroup" {
		name += ".own"
	}
	object := harness.Job{Name: name, Namespace: p.Namespace, Queue: p.Local, Pods: pods}.Object()
	all := map[string]string{"sluice.dev/native-gang": "true"}
	for _, pair := range annotations {
		key, value, _ := strings.Cut(pair, "=")
		all[key] = value
	}
	object.SetAnnotations(all)
	created := harness.Shared.MustCreate(t, object)
	if have := created.GetAnnotations()["sluice.dev/gang-mode"]; have != form {
		t.Fatalf("gang-mode is %q, want %q", have, form)
	}
	return name
}

// pods counts the Job's pods that are there and those of them that are bound.
func (p pool) pods(t testing.TB, job string) (all, bound int) {
	t.Helper()
	pods, err := harness.Shared.List(t.Context(), podKind, p.Namespace, "batch.kubernetes.io/job-name="+job)
	if err != nil {
		return -1, -1
	}
	for i := range pods {
		if pods[i].GetDeletionTimestamp() != nil {
			continue
		}
		all++
		if harness.Field(&pods[i], "spec", "nodeName") != "" {
			bound++
		}
	}
	return all, bound
}

func (p pool) expectBound(t *testing.T, job string, want int) {
	t.Helper()
	harness.EventuallyWithin(t, 2*harness.Patience, fmt.Sprintf("%d pods of %s are bound", want, job), func() error {
		if all, bound := p.pods(t, job); bound != want || all < want {
			return fmt.Errorf("%d of %d are", bound, all)
		}
		return nil
	})
}

// never watches for some time that a Job has no bound pod.
func (p pool) never(t *testing.T, job string, pods int, patience time.Duration) {
	t.Helper()
	harness.Eventually(t, "all pods of "+job+" are there", func() error {
		if all, _ := p.pods(t, job); all != pods {
			return fmt.Errorf("%d of %d", all, pods)
		}
		return nil
	})
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if _, bound := p.pods(t, job); bound > 0 {
			t.Fatalf("%d pods of %s are bound", bound, job)
		}
	}
}

var forms = []string{"JobScheduling", "PodGroup"}

// TestAllOrNothing: 8 pods where 7 fit. None starts, others are not held up, and all start when there
// is room.
func TestAllOrNothing(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "4", "3")
			gang := p.gang(t, form, 8)
			harness.Shared.ExpectWorkload(t, p.Namespace, gang, "Admitted", "True", "")
			p.never(t, gang, 8, 3*time.Second)
			alone := harness.Shared.Submit(t, p.Queue, harness.Job{})
			p.expectBound(t, alone, 1)
			p.never(t, gang, 8, time.Second)
			p.node(t, "2")
			p.expectBound(t, gang, 8)
			harness.Shared.ExpectWorkload(t, p.Namespace, gang, "GangIntact", "True", "Whole")
		})
	}
}

// TestGroupOfGang looks at the PodGroup that we make.
func TestGroupOfGang(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "8")
	class := c.MustCreate(t, harness.Parsef("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: 100}", harness.Name("class"))).GetName()
	object := harness.Job{Name: harness.Name("gang") + ".own", Namespace: p.Namespace, Queue: p.Local, Pods: 3, PriorityClass: class}.Object()
	object.SetAnnotations(map[string]string{"sluice.dev/native-gang": "true"})
	job := c.MustCreate(t, object)
	p.expectBound(t, job.GetName(), 3)
	group := c.Get(t, groupKind, p.Namespace, harness.Field(job, "spec", "template", "spec", "schedulingGroup", "podGroupName"))
	for path, want := range map[string]string{
		"schedulingPolicy.gang.minCount": "3", "priorityClassName": class, "priority": "100", "disruptionMode.all": "map[]",
	} {
		if have := harness.Field(group, append([]string{"spec"}, strings.Split(path, ".")...)...); have != want {
			t.Errorf("spec.%s is %q, want %q", path, have, want)
		}
	}
	c.Delete(t, harness.JobKind, p.Namespace, job.GetName())
	harness.Eventually(t, "the PodGroup goes with its Job", func() error {
		if _, err := c.Fetch(t.Context(), groupKind, p.Namespace, group.GetName()); err == nil {
			return harness.ErrNotYet
		}
		return nil
	})
}

// TestNeverPreempts: the PodGroup says of preemption what the class of the pods says, or it would be
// refused; the Job controller would not say it.
func TestNeverPreempts(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "8")
	class := c.MustCreate(t, harness.Parsef("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: 50, preemptionPolicy: Never}", harness.Name("polite"))).GetName()
	for _, name := range []string{harness.Name("gang"), harness.Name("gang") + ".own"} {
		object := harness.Job{Name: name, Namespace: p.Namespace, Queue: p.Local, Pods: 3, PriorityClass: class}.Object()
		object.SetAnnotations(map[string]string{"sluice.dev/native-gang": "true"})
		// The webhooks learn of a new class by a watch, so ask until they know it.
		harness.Eventually(t, "the class is known", func() error {
			client, err := c.Resource(harness.JobKind, p.Namespace)
			if err != nil {
				return err
			}
			tried, err := client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				return err
			}
			if have := tried.GetAnnotations()["sluice.dev/gang-mode"]; have != "PodGroup" {
				return fmt.Errorf("gang-mode is %q", have)
			}
			return nil
		})
		job := c.MustCreate(t, object)
		p.expectBound(t, name, 3)
		group := c.Get(t, groupKind, p.Namespace, harness.Field(job, "spec", "template", "spec", "schedulingGroup", "podGroupName"))
		if have := harness.Field(group, "spec", "preemptionPolicy"); have != "Never" {
			t.Errorf("preemptionPolicy of %s is %q", name, have)
		}
	}
}

// TestNeverPreemptsOnItsOwn: a Job with spec.scheduling of its own, and one that wants no gang, have no
// pods where the Job controller's PodGroup is refused; one of ours says the same, and the class.
func TestNeverPreemptsOnItsOwn(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "8")
	class := c.MustCreate(t, harness.Parsef("{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: %s}, value: 60, preemptionPolicy: Never}", harness.Name("polite"))).GetName()
	for _, row := range []struct {
		mode, minimum string
		scheduling    map[string]any
	}{
		{"PodGroup", "2", map[string]any{"schedulingPolicy": map[string]any{"gang": map[string]any{"minCount": int64(2)}}}},
		{"BasicPodGroup", "", nil},
	} {
		name := harness.Name("own")
		object := harness.Job{Name: name, Namespace: p.Namespace, Queue: p.Local, Pods: 3, PriorityClass: class}.Object()
		if row.scheduling != nil {
			harness.Set(object, row.scheduling, "spec", "scheduling")
		}
		// The webhooks learn of a new class by a watch, so ask until they know it.
		harness.Eventually(t, "the class is known", func() error {
			client, err := c.Resource(harness.JobKind, p.Namespace)
			if err != nil {
				return err
			}
			tried, err := client.Create(t.Context(), object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err == nil && tried.GetAnnotations()["sluice.dev/gang-mode"] != row.mode {
				err = fmt.Errorf("its annotations are %v", tried.GetAnnotations())
			}
			return err
		})
		job := c.MustCreate(t, object)
		p.expectBound(t, name, 3)
		group := c.Get(t, groupKind, p.Namespace, harness.Field(job, "spec", "template", "spec", "schedulingGroup", "podGroupName"))
		if have := harness.Field(group, "spec", "preemptionPolicy"); have != "Never" {
			t.Errorf("preemptionPolicy is %q", have)
		}
		if have := harness.Field(group, "spec", "schedulingPolicy", "gang", "minCount"); have != row.minimum {
			t.Errorf("minCount is %q, want %q", have, row.minimum)
		}
	}
}

// TestElastic: what an elastic gang grows by is placed as a whole, and what runs runs on meanwhile.
func TestElastic(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "3")
	name := harness.Name("gang")
	object := harness.Job{Name: name, Namespace: p.Namespace, Queue: p.Local, Pods: 2}.Object()
	harness.Set(object, int64(20), "spec", "completions")
	object.SetAnnotations(map[string]string{"sluice.dev/native-gang": "true", "kueue.x-k8s.io/elastic-job": "true"})
	job := c.MustCreate(t, object)
	if have := job.GetAnnotations()["sluice.dev/gang-mode"]; have != "PodGroup" {
		t.Fatalf("gang-mode is %q", have)
	}
	p.expectBound(t, name, 2)
	c.MustPatch(t, harness.JobKind, p.Namespace, name, `{"spec":{"parallelism":4}}`)
	harness.Eventually(t, "all pods are let go", func() error {
		pods, err := c.List(t.Context(), podKind, p.Namespace, "batch.kubernetes.io/job-name="+name)
		if err != nil {
			return err
		}
		if len(pods) != 4 {
			return fmt.Errorf("there are %d", len(pods))
		}
		for i := range pods {
			if gates := harness.Field(&pods[i], "spec", "schedulingGates"); gates != "" && gates != "[]" {
				return fmt.Errorf("%s has %s", pods[i].GetName(), gates)
			}
		}
		return nil
	})
	group := c.Get(t, groupKind, p.Namespace, harness.Field(job, "spec", "template", "spec", "schedulingGroup", "podGroupName"))
	if have := harness.Field(group, "spec", "schedulingPolicy", "gang", "minCount"); have != "4" {
		t.Errorf("minCount is %s", have)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if all, bound := p.pods(t, name); all >= 0 && bound != 2 {
			t.Fatalf("%d pods are bound", bound)
		}
	}
	p.node(t, "1")
	p.expectBound(t, name, 4)
}

// TestNeverInterleaved: of two gangs that want the same nodes one runs whole, then the other.
func TestNeverInterleaved(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, "4", "4")
			gangs := []string{p.gang(t, form, 6), p.gang(t, form, 6)}
			for left := len(gangs); left > 0; left-- {
				running := -1
				harness.Eventually(t, "one of the gangs runs", func() error {
					for i, gang := range gangs {
						if _, bound := p.pods(t, gang); bound == 6 {
							running = i
							return nil
						}
					}
					return harness.ErrNotYet
				})
				if left == 2 {
					p.never(t, gangs[1-running], 6, 2*time.Second)
				}
				harness.Shared.FinishPods(t, p.Namespace, gangs[running], 6)
				harness.Shared.ExpectFinished(t, p.Namespace, gangs[running])
				gangs = append(gangs[:running:running], gangs[running+1:]...)
			}
		})
	}
}

// loseNode deletes a node and, as the pod garbage collector would do after a while, its pods.
func (p pool) loseNode(t *testing.T, name string) {
	t.Helper()
	c := harness.Shared
	c.Delete(t, nodeKind, "", name)
	pods, err := c.List(t.Context(), podKind, p.Namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		if harness.Field(&pods[i], "spec", "nodeName") == name {
			c.Kubectl(t, "delete", "pod", "--namespace", p.Namespace, pods[i].GetName(), "--force", "--grace-period=0", "--wait=false")
		}
	}
}

func started(t *testing.T, form string, annotations ...string) (pool, string, string) {
	t.Helper()
	p := newPool(t, "2", "1")
	last := p.node(t, "1")
	gang := p.gang(t, form, 4, annotations...)
	p.expectBound(t, gang, 4)
	harness.Shared.ExpectWorkload(t, p.Namespace, gang, "GangIntact", "True", "Whole")
	return p, gang, last
}

// TestRepair: a node goes, another comes in time; the quota was held all the while.
func TestRepair(t *testing.T) {
	for _, form := range forms {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			p, gang, node := started(t, form, "sluice.dev/repair-timeout=60s")
			p.loseNode(t, node)
			workload := harness.Shared.ExpectWorkload(t, p.Namespace, gang, "GangIntact", "False", "PodsMissing")
			if have := harness.ConditionOf(workload, "GangIntact").Message; !strings.HasPrefix(have, "3 of 4 pods run") {
				t.Errorf("GangIntact says %q", have)
			}
			if have := harness.ConditionOf(workload, "Admitted").Status; have != "True" {
				t.Errorf("Admitted is %s", have)
			}
			p.node(t, "1")
			p.expectBound(t, gang, 4)
			harness.Shared.ExpectWorkload(t, p.Namespace, gang, "GangIntact", "True", "Whole")
		})
	}
}

// TestRequeue: where no hope is left, or from the start, the gang gives everything back, and starts
// whole as soon as it fits again.
func TestRequeue(t *testing.T) {
	for form, annotation := range map[string]string{
		"JobScheduling": "sluice.dev/on-gang-broken=Requeue", "PodGroup": "sluice.dev/repair-timeout=4s",
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			p, gang, node := started(t, form, annotation)
			p.loseNode(t, node)
			harness.Shared.ExpectEvent(t, p.Namespace, "Workload", workloadName(t, p, gang), "EvictedDueToGangBroken")
			// It is admitted again at once, since nobody else wants its quota; its pods wait for room.
			p.expectBound(t, gang, 0)
			p.never(t, gang, 4, 2*time.Second)
			p.node(t, "1")
			p.expectBound(t, gang, 4)
			harness.Shared.ExpectWorkload(t, p.Namespace, gang, "GangIntact", "True", "Whole")
		})
	}
}

func workloadName(t *testing.T, p pool, job string) string {
	t.Helper()
	workload, err := harness.Shared.WorkloadOf(t.Context(), p.Namespace, job)
	if err != nil {
		t.Fatal(err)
	}
	return workload.GetName()
}

// TestOthersGroup: a PodGroup of somebody else stays as it is, and a part of a CompositePodGroup is
// refused before it gets quota.
func TestOthersGroup(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	p := newPool(t, "4")
	group := func(spec string) *unstructured.Unstructured {
		return c.MustCreate(t, harness.Parsef("{apiVersion: scheduling.k8s.io/v1beta1, kind: PodGroup, metadata: {name: %s, namespace: %s}, spec: %s}", harness.Name("group"), p.Namespace, spec))
	}
	submit := func(group *unstructured.Unstructured) string {
		object := harness.Job{Name: harness.Name("job"), Namespace: p.Namespace, Queue: p.Local, Pods: 3}.Object()
		harness.Set(object, group.GetName(), "spec", "template", "spec", "schedulingGroup", "podGroupName")
		return c.MustCreate(t, object).GetName()
	}
	own := group("{schedulingPolicy: {gang: {minCount: 2}}}")
	p.expectBound(t, submit(own), 3)
	after := c.Get(t, groupKind, p.Namespace, own.GetName())
	if have := harness.Field(after, "spec", "schedulingPolicy", "gang", "minCount"); have != "2" {
		t.Errorf("minCount is %s now", have)
	}
	part := group("{schedulingPolicy: {gang: {minCount: 2}}, workloadRef: {workloadName: w, templateName: t}, parentCompositePodGroupName: whole}")
	refused := submit(part)
	event := c.ExpectEvent(t, p.Namespace, "Job", refused, "GangRefused")
	if note := harness.Field(event, "note"); !strings.Contains(note, "CompositePodGroup whole") {
		t.Errorf("the event says %q", note)
	}
	if _, err := c.WorkloadOf(t.Context(), p.Namespace, refused); err == nil {
		t.Error("it has a Workload")
	}
}

// TestDetection: what the API server can do is in the log and in the metrics.
func TestDetection(t *testing.T) {
	log := harness.Shared.Controller().Log()
	for _, text := range []string{`"native gangs"`, `"podGroups":true`, `"jobScheduling":true`} {
		if !strings.Contains(log, text) {
			t.Errorf("the log does not say %q", text)
		}
	}
}

// TestRestarts ends the controller, the scheduler and the API server in the middle.
func TestRestarts(t *testing.T) {
	c := harness.Shared
	p := newPool(t, "4", "3")
	steps := map[string]func(){
		"controller": func() {
			c.Controller().Kill()
			if err := c.Controller().Start(); err != nil {
				t.Fatal(err)
			}
		},
		"scheduler": func() { c.Component(t, "restart", "scheduler") },
	}
	gangs := []string{}
	for _, form := range forms {
		gangs = append(gangs, p.gang(t, form, 8))
		for _, step := range []string{"controller", "scheduler", "controller"} {
			steps[step]()
		}
	}
	for _, gang := range gangs {
		p.never(t, gang, 8, 2*time.Second)
	}
	steps["scheduler"]()
	p.node(t, "2")
	running := ""
	harness.EventuallyWithin(t, 3*harness.Patience, "one gang runs", func() error {
		for _, gang := range gangs {
			if _, bound := p.pods(t, gang); bound == 8 {
				running = gang
				return nil
			}
		}
		return harness.ErrNotYet
	})
	c.Component(t, "restart", "scheduler")
	steps["controller"]()
	c.FinishPods(t, p.Namespace, running, 8)
	c.ExpectFinished(t, p.Namespace, running)
	for _, gang := range gangs {
		if gang != running {
			p.expectBound(t, gang, 8)
		}
	}
}
