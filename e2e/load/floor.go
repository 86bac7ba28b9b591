package load

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// floorParallelism is the number of status writes of the admitter at a time, that of the controller.
const floorParallelism = 50

// admitter stands in for a controller and does as little as possible: it watches Workloads, admits
// each of them with one status write as soon as queue and cohort have room, the higher priority and
// then the older first, and never preempts, reports or records anything. For what it does with Jobs
// see floor_jobs.go.
type admitter struct {
	plan   *plan
	client *client
	broken func(number int, err error)
	bodies [][2][]byte // of the Workloads of Jobs, by shape

	mu            sync.Mutex
	held          bool    // the queues are on hold
	known         []uint8 // by item
	pending       [][]int // by shape: items, the oldest first
	shapes        [][]int // by cohort: shapes, the highest priority first
	inUseByQueue  [][]int64
	inUseByCohort [][]int64
}

const (
	floorUnknown  uint8 = iota
	floorCreating       // a Job whose Workload is being created
	floorPending
	floorAdmitted
	floorFinished
)

func newAdmitter(p *plan, c *client, broken func(int, error)) *admitter {
	a := &admitter{plan: p, client: c, broken: broken, held: p.scenario.Hold,
		known: make([]uint8, len(p.items)), pending: make([][]int, len(p.shapes)), shapes: make([][]int, len(p.cohorts))}
	for range p.queues {
		a.inUseByQueue = append(a.inUseByQueue, make([]int64, len(p.resources)))
	}
	for range p.cohorts {
		a.inUseByCohort = append(a.inUseByCohort, make([]int64, len(p.resources)))
	}
	for number, shape := range p.shapes {
		cohort := p.queues[shape.queue].cohort
		a.shapes[cohort] = append(a.shapes[cohort], number)
	}
	for _, numbers := range a.shapes {
		slices.SortStableFunc(numbers, func(x, y int) int {
			return cmp.Compare(p.shapes[y].spec.Priority, p.shapes[x].spec.Priority)
		})
	}
	return a
}

// absorb takes a watch event and writes the admissions that follow from it.
func (a *admitter) absorb(ctx context.Context, event *watchEvent) {
	number := a.plan.numberOf(event.Object.Metadata.Name)
	if number < 0 {
		return
	}
	if a.plan.scenario.Kind == KindJob {
		a.absorbJob(ctx, number, &event.Object)
		return
	}
	admitted, _ := a.decide(number, event.Object.is("Finished"))
	a.writeAll(ctx, admitted)
}

func (a *admitter) writeAll(ctx context.Context, admitted []int) {
	for _, number := range admitted {
		go a.write(ctx, number)
	}
}

// decide notes that an item is there or finished and returns what can be admitted now, and whether
// that was news.
func (a *admitter) decide(number int, finished bool) (admitted []int, news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	shape := a.plan.items[number].shape
	switch {
	case !finished && a.known[number] < floorPending:
		a.known[number] = floorPending
		a.pending[shape] = append(a.pending[shape], number)
	case finished && a.known[number] == floorAdmitted:
		a.known[number] = floorFinished
		a.use(shape, -1)
	default:
		return nil, false
	}
	if a.held {
		return nil, true
	}
	return a.admit(nil, a.plan.queueOf(number).cohort), true
}

// admit appends what the cohort has room for; the caller holds the lock.
func (a *admitter) admit(all []int, cohort int) []int {
	for next := a.next(cohort); next >= 0; next = a.next(cohort) {
		all = append(all, a.pending[next][0])
		a.known[a.pending[next][0]] = floorAdmitted
		a.pending[next] = a.pending[next][1:]
		a.use(next, 1)
	}
	return all
}

// open takes the queues off hold and writes the admissions that follow from it.
func (a *admitter) open(ctx context.Context) {
	a.mu.Lock()
	a.held = false
	all := []int{}
	for cohort := range a.plan.cohorts {
		all = a.admit(all, cohort)
	}
	a.mu.Unlock()
	a.writeAll(ctx, all)
}

// next is the shape of the cohort whose oldest item is to be admitted next; -1 if none fits.
func (a *admitter) next(cohort int) int {
	best := -1
	for _, number := range a.shapes[cohort] {
		if best >= 0 && a.plan.shapes[number].spec.Priority < a.plan.shapes[best].spec.Priority {
			break
		}
		if len(a.pending[number]) > 0 && a.fits(number) && (best < 0 || a.pending[number][0] < a.pending[best][0]) {
			best = number
		}
	}
	return best
}

func (a *admitter) fits(number int) bool {
	shape := &a.plan.shapes[number]
	queue := &a.plan.queues[shape.queue]
	for at, amount := range shape.request {
		if amount == 0 {
			continue
		}
		if most := queue.limit[at]; most >= 0 && a.inUseByQueue[shape.queue][at]+amount > most {
			return false
		}
		if a.inUseByCohort[queue.cohort][at]+amount > a.plan.cohorts[queue.cohort].nominal[at] {
			return false
		}
	}
	return true
}

func (a *admitter) use(number int, sign int64) {
	shape := &a.plan.shapes[number]
	for at, amount := range shape.request {
		a.inUseByQueue[shape.queue][at] += sign * amount
		a.inUseByCohort[a.plan.queues[shape.queue].cohort][at] += sign * amount
	}
}

func (a *admitter) write(ctx context.Context, number int) {
	path := a.plan.workloadPath(a.plan.queueOf(number).namespace) + "/" + a.plan.name(number) + "/status"
	_, err := a.client.patch(ctx, types.MergePatchType, path, a.plan.admitPatch(a.plan.shapeOf(number), time.Now()))
	if err == nil && a.plan.scenario.Kind == KindJob {
		err = a.unsuspend(ctx, number)
	}
	a.tell(ctx, number, err)
}

// tell hands an error on, unless the run is over.
func (a *admitter) tell(ctx context.Context, number int, err error) {
	if err != nil && ctx.Err() == nil {
		a.broken(number, err)
	}
}
