package load

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"sluice.dev/e2e/harness"
)

// Options of a run.
type Options struct {
	// Floor lets the controller stand by and admits with the least possible writes instead.
	Floor bool
	// Progress gets a line now and then.
	Progress io.Writer
}

// HarnessOptions are what the scenario needs of the cluster. suite names the directory of its files.
func (s *Scenario) HarnessOptions(suite string, floor bool) harness.Options {
	return harness.Options{Suite: suite, Nodes: s.Nodes, Follower: floor, ChartValues: s.ChartValues}
}

// run is one run of a scenario.
type run struct {
	options  Options
	scenario *Scenario
	cluster  *harness.Cluster
	plan     *plan
	account  *account
	bodies   [][2][]byte
	admitter *admitter // only with Floor

	creates, writes, watches *client
	processes                []process
	notCreated               atomic.Int64
	began                    time.Time
	samples                  []sample
}

func (r *run) now() time.Duration { return time.Since(r.began) }

func (r *run) say(format string, arguments ...any) {
	if r.options.Progress != nil {
		fmt.Fprintf(r.options.Progress, format+"\n", arguments...)
	}
}

// Run puts the scenario on the cluster and measures. A result comes back also with an error when the
// load could be started; things that must not happen are in its Problems.
func Run(ctx context.Context, cluster *harness.Cluster, scenario *Scenario, options Options) (*Result, error) {
	r := &run{options: options, scenario: scenario, cluster: cluster, plan: newPlan(scenario)}
	r.account = newAccount(r.plan)
	var err error
	if r.bodies, err = r.plan.bodies(); err != nil {
		return nil, err
	}
	for _, one := range []struct {
		client  **client
		atATime int
	}{{&r.creates, scenario.Creators}, {&r.writes, scenario.Writers}, {&r.watches, 1}} {
		if *one.client, err = newClient(cluster.Config, one.atATime); err != nil {
			return nil, err
		}
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	return r.measure(ctx)
}

// ---- before the clock starts -----------------------------------------------------------------

func (r *run) prepare(ctx context.Context) error {
	r.say("creating %d queues", len(r.plan.queues))
	if err := r.createSurroundings(ctx); err != nil {
		return err
	}
	if r.scenario.Racks != nil {
		if err := r.awaitNodes(ctx); err != nil {
			return err
		}
	}
	if !r.options.Floor {
		if err := r.awaitQueues(ctx); err != nil {
			return err
		}
	}
	components := []string{"etcd", "apiserver"}
	if r.scenario.Bare {
		for _, component := range []string{"kwok", "scheduler", "controller-manager"} {
			if err := r.cluster.StopComponent(component); err != nil {
				return err
			}
		}
	} else {
		components = append(components, "controller-manager", "scheduler", "kwok")
	}
	r.processes = []process{{processController, r.cluster.Controller().Pid()}}
	for _, component := range components {
		pid, err := r.cluster.ComponentPid(component)
		if err != nil {
			return err
		}
		r.processes = append(r.processes, process{component, pid})
	}
	r.processes = append(r.processes, process{processGenerator, os.Getpid()})
	_, err := r.awaitQuiet(ctx, time.Minute)
	return err
}

// awaitNodes waits until no node of the racks has the taint that every new node gets.
func (r *run) awaitNodes(ctx context.Context) error {
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "Node"}
	for deadline := time.Now().Add(2 * time.Minute); ; {
		nodes, err := r.cluster.List(ctx, gvk, "", labelPool+"=racks")
		if err != nil {
			return err
		}
		tainted := 0
		for i := range nodes {
			if taints, _, _ := unstructured.NestedSlice(nodes[i].Object, "spec", "taints"); len(taints) > 0 {
				tainted++
			}
		}
		if want := r.scenario.Racks.Count * r.scenario.Racks.Hosts; tainted == 0 && len(nodes) == want {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d nodes of the racks are tainted after two minutes", tainted, len(nodes))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// createSurroundings creates the objects of one kind beside each other, and one kind after the other.
func (r *run) createSurroundings(ctx context.Context) error {
	kinds, byKind := []string{}, map[string][]*unstructured.Unstructured{}
	for _, object := range append(r.plan.surroundings(), r.plan.priorityClasses()...) {
		kind := object.GetKind()
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], object)
	}
	for _, kind := range kinds {
		objects, failed := byKind[kind], make(chan error, len(byKind[kind]))
		next := atomic.Int64{}
		workers := sync.WaitGroup{}
		for range 16 {
			workers.Go(func() {
				for at := next.Add(1) - 1; at < int64(len(objects)); at = next.Add(1) - 1 {
					if _, err := r.cluster.Create(ctx, objects[at]); err != nil {
						failed <- fmt.Errorf("create %s %s: %w", kind, objects[at].GetName(), err)
						return
					}
				}
			})
		}
		workers.Wait()
		select {
		case err := <-failed:
			return err
		default:
		}
	}
	return nil
}

// awaitQueues waits until the controller has taken up all queues.
func (r *run) awaitQueues(ctx context.Context) error {
	var bad string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(250 * time.Millisecond) {
		bad = ""
		for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
			queues, err := r.cluster.List(ctx, harness.Kueue(kind), "", "")
			if err != nil {
				return err
			}
			for i := range queues {
				active := harness.ConditionOf(&queues[i], "Active")
				if active.Status != "True" && (!r.scenario.Hold || active.Status == "") {
					bad = fmt.Sprintf("%s %s has Active=%q %s: %s", kind, queues[i].GetName(), active.Status, active.Reason, active.Message)
				}
			}
		}
		if bad == "" {
			return nil
		}
	}
	return fmt.Errorf("the queues do not become active: %s", bad)
}

// awaitQuiet waits until the controller has used no more than a fiftieth of a processor for three
// seconds, and returns how long it was busy before. It asks the kernel, not the API server.
func (r *run) awaitQuiet(ctx context.Context, patience time.Duration) (time.Duration, error) {
	pid := r.cluster.Controller().Pid()
	began := time.Now()
	busyUntil := began
	for quiet := 0; quiet < 3; {
		before, err := harness.ProcessorTime(pid)
		if err != nil {
			return 0, fmt.Errorf("the controller is gone: %w; the end of its log:\n%s", err, r.cluster.Controller().LogTail(25))
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		after, err := harness.ProcessorTime(pid)
		if err == nil && after-before <= 20*time.Millisecond {
			quiet++
			continue
		}
		quiet, busyUntil = 0, time.Now()
		if busyUntil.Sub(began) > patience {
			return 0, fmt.Errorf("the controller is still busy after %s although nothing happens", patience)
		}
	}
	return busyUntil.Sub(began), nil
}

// ---- the run ---------------------------------------------------------------------------------

// reading is what is read before and after the run.
type reading struct {
	at          time.Time
	requests    map[requestKey]int64
	seconds     []float64
	connections int64
}

func (r *run) read(ctx context.Context) (reading, error) {
	now := reading{at: time.Now(), connections: r.cluster.WebhookConnections()}
	text, err := r.watches.rest.Get().AbsPath("/metrics").Do(ctx).Raw()
	if err != nil {
		return now, err
	}
	now.requests = parseRequests(text)
	for i, process := range r.processes {
		used, err := process.seconds()
		if err != nil {
			used = r.lastSeconds(i) // it has ended during the run, which is told elsewhere
		}
		now.seconds = append(now.seconds, used)
	}
	return now, nil
}

// lastSeconds is the processor time of a process when it was last seen.
func (r *run) lastSeconds(number int) float64 {
	last := 0.0
	for _, one := range r.samples {
		last = max(last, one.processors[number])
	}
	return last
}

func (r *run) measure(ctx context.Context) (*Result, error) {
	before, err := r.read(ctx)
	if err != nil {
		return nil, err
	}
	inside, cancel := context.WithCancel(ctx)
	defer cancel()
	background := sync.WaitGroup{}
	defer background.Wait()
	defer cancel()
	r.began = time.Now()
	if err := r.watch(inside, &background); err != nil {
		return nil, err
	}
	background.Go(func() { r.keepSamples(inside) })
	r.say("%d objects to create", len(r.plan.items))
	created := r.create(inside)
	if r.scenario.Hold {
		if err := r.open(inside); err != nil {
			return nil, err
		}
	}
	stopped := r.awaitEnd(inside)
	ended := r.now()
	busy := time.Duration(0)
	if stopped == nil {
		if busy, err = r.awaitQuiet(ctx, 5*time.Minute); err != nil {
			r.account.problem("%v", err)
		}
	}
	cancel()
	background.Wait() // nobody touches the samples any more
	after, err := r.read(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	result := r.result(before, after, created, ended)
	result.Figures["busyAfterSeconds"] = busy.Seconds()
	result.Figures["webhookConnections"] = float64(after.connections - before.connections)
	if stopped != nil {
		return result, stopped
	}
	r.checkEnd(ctx, result)
	return result, nil
}

// watch starts the watch of the generator, and that of the admitter if it is to admit.
func (r *run) watch(ctx context.Context, background *sync.WaitGroup) error {
	path, skip, absorb := r.plan.path(""), addedEvent, r.absorb
	if r.scenario.Kind == KindJob {
		skip = nil // a Job may be born unsuspended
	}
	follow := func(c *client, skip []byte, absorb func(*watchEvent)) error {
		version, err := c.start(ctx, path, absorb)
		if err != nil {
			return err
		}
		background.Go(func() {
			if err := c.follow(ctx, path, version, skip, absorb); err != nil && ctx.Err() == nil {
				r.account.problem("watch: %v", err)
			}
		})
		return nil
	}
	if err := follow(r.watches, skip, func(event *watchEvent) { absorb(ctx, event) }); err != nil || !r.options.Floor {
		return err
	}
	own, err := newClient(r.cluster.Config, floorParallelism)
	if err != nil {
		return err
	}
	r.admitter = newAdmitter(r.plan, own, func(number int, err error) {
		r.account.problem("admit %s: %v", r.plan.name(number), err)
	})
	if r.admitter.bodies, err = r.plan.bodiesOf(r.plan.workloadOfJob); err != nil {
		return err
	}
	return follow(own, nil, func(event *watchEvent) { r.admitter.absorb(ctx, event) })
}

// mostRefused is the number of objects that cannot be created after which no more are tried.
const mostRefused = 10

// create creates everything, each object when its time has come or, if we are late, at once.
func (r *run) create(ctx context.Context) time.Duration {
	next := atomic.Int64{}
	workers := sync.WaitGroup{}
	for range r.scenario.Creators {
		workers.Go(func() {
			timer := time.NewTimer(0)
			defer timer.Stop()
			for at := int(next.Add(1) - 1); at < len(r.plan.items) && ctx.Err() == nil && r.notCreated.Load() < mostRefused; at = int(next.Add(1) - 1) {
				if wait := r.plan.items[at].due - r.now(); wait > 0 {
					timer.Reset(wait)
					select {
					case <-timer.C:
					case <-ctx.Done():
						return
					}
				}
				r.createOne(ctx, at)
			}
		})
	}
	workers.Wait()
	return r.now()
}

func (r *run) createOne(ctx context.Context, number int) {
	body, name := r.bodies[r.plan.items[number].shape], r.plan.name(number)
	r.account.sending(r.now(), number)
	if err := r.creates.create(ctx, r.plan.path(r.plan.queueOf(number).namespace), filledIn(body, name, "")); err != nil {
		if ctx.Err() == nil {
			r.account.problem("create %s: %v", name, err)
			r.notCreated.Add(1)
		}
		return
	}
	r.account.hasCreated(r.now(), number)
}

// absorb takes a watch event and does what follows from it.
func (r *run) absorb(ctx context.Context, event *watchEvent) {
	number := r.plan.numberOf(event.Object.Metadata.Name)
	if number < 0 || event.Type == "DELETED" {
		return
	}
	if r.scenario.Kind == KindJob {
		suspend := event.Object.Spec.Suspend
		if event.Object.is("Failed") {
			r.account.problem("Job %s has failed", event.Object.Metadata.Name)
		}
		r.account.absorbJob(r.now(), number, suspend != nil && *suspend, event.Object.is("Complete"))
		return
	}
	seen := event.Object.observe()
	what, run := r.account.absorb(r.now(), number, seen)
	switch what {
	case startRun:
		time.AfterFunc(r.plan.shapeOf(number).spec.RunTime.Duration, func() { r.finish(ctx, number, run) })
	case release:
		go r.release(ctx, number, run, seen.conditions)
	}
}

func (r *run) pathOf(number int) string {
	return r.plan.path(r.plan.queueOf(number).namespace) + "/" + r.plan.name(number)
}

func (r *run) finish(ctx context.Context, number, run int) {
	if ctx.Err() != nil || !r.account.finish(r.now(), number, run) {
		return
	}
	_, err := r.writes.patch(ctx, types.JSONPatchType, r.pathOf(number)+"/status", finishPatch(time.Now()))
	if err != nil {
		if ctx.Err() == nil {
			r.account.problem("finish %s: %v", r.plan.name(number), err)
		}
		return
	}
	r.account.hasFinished(r.now(), number)
}

// release writes the second phase of an eviction. If the conditions have moved since they were seen,
// the patch is refused and made again from what is there now.
func (r *run) release(ctx context.Context, number, run int, conditions []condition) {
	var err error
	for try := 0; try < 5 && r.account.mustRelease(number, run); try++ {
		var version uint64
		version, err = r.writes.patch(ctx, types.JSONPatchType, r.pathOf(number)+"/status", releasePatch(conditions, time.Now()))
		if err == nil {
			r.account.hasReleased(number, version)
			return
		}
		object, readErr := r.writes.read(ctx, r.pathOf(number))
		if readErr != nil {
			break
		}
		seen := object.observe()
		if !seen.evicted || !seen.reserved {
			r.account.hasReleased(number, seen.version)
			return
		}
		conditions = seen.conditions
	}
	if err != nil && ctx.Err() == nil {
		r.account.problem("second phase of the eviction of %s: %v", r.plan.name(number), err)
	}
}

// open takes the queues off hold.
func (r *run) open(ctx context.Context) error {
	if _, err := r.awaitQuiet(ctx, 5*time.Minute); err != nil {
		return err
	}
	r.account.open(r.now())
	r.say("opening the queues")
	if r.options.Floor {
		r.admitter.open(ctx)
		return nil
	}
	for i := range r.plan.queues {
		path := "/apis/" + kueueVersion + "/clusterqueues/" + r.plan.queues[i].name
		if _, err := r.creates.patch(ctx, types.MergePatchType, path, []byte(`{"spec":{"stopPolicy":"None"}}`)); err != nil {
			return fmt.Errorf("open %s: %w", r.plan.queues[i].name, err)
		}
	}
	return nil
}

// awaitEnd waits until everything is finished, or nothing has happened for too long.
func (r *run) awaitEnd(ctx context.Context) error {
	if refused := r.notCreated.Load(); refused > 0 {
		return fmt.Errorf("%d objects could not be created", refused)
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-r.account.complete:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if !r.cluster.Controller().Running() {
			return fmt.Errorf("the controller ended; the end of its log:\n%s", r.cluster.Controller().LogTail(25))
		}
		if r.now()-r.account.lastProgress() > r.scenario.Stall.Duration {
			return fmt.Errorf("nothing has happened for %s; %s", r.scenario.Stall.Duration, r.explain(ctx))
		}
	}
}

// explain shows some of the objects that are not finished.
func (r *run) explain(ctx context.Context) string {
	text := "some of what is not finished:"
	for _, number := range r.account.stuck(3) {
		object, err := r.writes.get(ctx, r.pathOf(number))
		if err != nil {
			object = []byte(err.Error())
		}
		text += fmt.Sprintf("\n%.2000s", object)
	}
	return text
}

// keepSamples keeps a sample each second, and now and then says how far we are.
func (r *run) keepSamples(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for number := 0; ; number++ {
		one := r.account.sample(r.now())
		for _, process := range r.processes {
			used, _ := process.seconds() // a process that is gone shows as 0 and ends the run elsewhere
			held, _ := harness.ResidentMegabytes(process.pid)
			one.processors = append(one.processors, used)
			one.residentMemory = append(one.residentMemory, float64(held))
		}
		r.samples = append(r.samples, one)
		if number%10 == 0 {
			r.say("%4.0f s: %d created, %d admissions, %d finished, %d evictions", one.at.Seconds(),
				one.created, one.admitted, one.done, one.evictions)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// countsPatience is how long the counts of the queues may lag behind the end of the last workload.
const countsPatience = 15 * time.Second

// checkEnd looks whether the controller has noticed that nothing is left.
func (r *run) checkEnd(ctx context.Context, result *Result) {
	if r.options.Floor || r.scenario.Kind == KindJob {
		return
	}
	wrong := r.wrongCounts(ctx)
	for end := time.Now().Add(countsPatience); len(wrong) > 0 && time.Now().Before(end) && ctx.Err() == nil; {
		time.Sleep(250 * time.Millisecond)
		wrong = r.wrongCounts(ctx)
	}
	result.Problems = append(result.Problems, wrong...)
}

// wrongCounts names the queues that count workloads although all are finished.
func (r *run) wrongCounts(ctx context.Context) []string {
	wrong := []string{}
	for _, kind := range []string{"ClusterQueue", "LocalQueue"} {
		queues, err := r.cluster.List(ctx, harness.Kueue(kind), "", "")
		if err != nil {
			return []string{err.Error()}
		}
		for i := range queues {
			for _, field := range []string{"pendingWorkloads", "reservingWorkloads", "admittedWorkloads"} {
				if have := harness.Field(&queues[i], "status", field); have != "" && have != "0" {
					wrong = append(wrong, fmt.Sprintf("everything is finished, but %s %s has %s=%s",
						kind, queues[i].GetName(), field, have))
				}
			}
		}
	}
	return wrong
}

func processorCount() int { return runtime.NumCPU() }
