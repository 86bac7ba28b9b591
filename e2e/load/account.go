package load

import (
	"fmt"
	"sync"
	"time"
)

// account is what the generator knows of each object and of the quota in use. It decides what is to
// be done about an observation, and does nothing itself. All times are since the start of the run.
// Safe for several goroutines.
type account struct {
	plan *plan

	mu      sync.Mutex
	entries []entry
	opened  time.Duration // when the queues were opened: no wait begins before

	inUse         []int64   // by resource
	inUseByClass  [][]int64 // class, resource
	inUseByQueue  [][]int64
	inUseByCohort [][]int64
	integral      [][]float64 // quota in use over time by class and resource: thousandths of a unit x seconds
	integratedTo  time.Duration
	peak          []int64

	waiting    []int // by class
	sent       int
	created    int
	admitted   int // for the first time
	admissions int
	finished   int
	evictions  map[string]int
	progress   time.Duration // when something last happened
	problems   []string
	complete   chan struct{}
}

type state uint8

const (
	unsent    state = iota
	waiting         // without quota
	running         // Admitted, and the run time passes
	releasing       // evicted, and the second phase is being written
	finishing       // Finished is being written
	done
)

type entry struct {
	state                             state
	sent, created, admitted, finished time.Duration // of created, admitted, finished 0 means not yet
	admissions, evictions             int
	// run numbers the admissions, so that the timer of an earlier one is known to be stale.
	run int
	// ignoreBefore is the version that our own second phase made; older ones are still on their way.
	ignoreBefore uint64
}

// observation is what a watch event says of an object.
type observation struct {
	version                               uint64
	reserved, admitted, evicted, finished bool
	conditions                            []condition
}

// action is what has to be done about an observation.
type action uint8

const (
	nothing action = iota
	startRun
	release
)

func newAccount(p *plan) *account {
	a := &account{plan: p, entries: make([]entry, len(p.items)), evictions: map[string]int{},
		waiting: make([]int, len(p.classes)), complete: make(chan struct{}),
		inUse: make([]int64, len(p.resources)), peak: make([]int64, len(p.resources))}
	for range p.classes {
		a.integral = append(a.integral, make([]float64, len(p.resources)))
	}
	table := func(rows int) [][]int64 {
		all := make([][]int64, rows)
		for i := range all {
			all[i] = make([]int64, len(p.resources))
		}
		return all
	}
	a.inUseByClass, a.inUseByQueue, a.inUseByCohort = table(len(p.classes)), table(len(p.queues)), table(len(p.cohorts))
	if len(p.items) == 0 {
		close(a.complete)
	}
	return a
}

// problem notes something that must not happen; the first hundred are kept.
func (a *account) problem(format string, arguments ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.complain(format, arguments...)
}

func (a *account) complain(format string, arguments ...any) {
	if len(a.problems) < 100 {
		a.problems = append(a.problems, fmt.Sprintf("%.2000s", fmt.Sprintf(format, arguments...)))
	}
}

func (a *account) open(now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opened = now
}

// sending notes that the create request goes out.
func (a *account) sending(now time.Duration, number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &a.entries[number]
	e.state, e.sent = waiting, now
	a.sent++
	a.waiting[a.plan.shapeOf(number).class]++
	a.progress = now
}

// hasCreated notes the answer to the create request.
func (a *account) hasCreated(now time.Duration, number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.entries[number].created = now
	a.created++
	a.progress = now
}

// integrate carries the quota in use over time on to now.
func (a *account) integrate(now time.Duration) {
	passed := (now - a.integratedTo).Seconds()
	if passed <= 0 { // two callers read the clock in one order and got the lock in the other
		return
	}
	a.integratedTo = now
	for class, row := range a.inUseByClass {
		for at, amount := range row {
			a.integral[class][at] += float64(amount) * passed
		}
	}
}

// use adds the request of an item to what is in use, or takes it away.
func (a *account) use(now time.Duration, number int, sign int64) {
	shape := a.plan.shapeOf(number)
	queue := &a.plan.queues[shape.queue]
	a.integrate(now)
	for at, amount := range shape.request {
		a.inUse[at] += sign * amount
		a.inUseByClass[shape.class][at] += sign * amount
		a.inUseByQueue[shape.queue][at] += sign * amount
		a.inUseByCohort[queue.cohort][at] += sign * amount
		a.peak[at] = max(a.peak[at], a.inUse[at])
		if sign < 0 {
			continue
		}
		// What we count is never more than what the controller counts: quota is taken when we see
		// the admission, and given back before we say so.
		if have, most := a.inUseByQueue[shape.queue][at], queue.limit[at]; most >= 0 && have > most && amount > 0 {
			a.complain("%s of queue %s in use: %d, more than nominal and borrowing: %d (thousandths)",
				a.plan.resources[at], queue.name, have, most)
		}
		cohort := &a.plan.cohorts[queue.cohort]
		if have, most := a.inUseByCohort[queue.cohort][at], cohort.nominal[at]; cohort.parent == "" && have > most && amount > 0 {
			a.complain("%s of cohort %q in use: %d, more than nominal: %d (thousandths)",
				a.plan.resources[at], cohort.name, have, most)
		}
	}
}

// absorb takes note of a Workload as the watch shows it.
func (a *account) absorb(now time.Duration, number int, seen observation) (action, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &a.entries[number]
	if seen.version != 0 && seen.version < e.ignoreBefore {
		return nothing, 0
	}
	switch e.state {
	case unsent, done:
		return nothing, 0
	case finishing:
		if seen.finished {
			a.end(now, number)
		}
		return nothing, 0
	}
	if seen.finished {
		a.complain("%s was finished by somebody else", a.plan.name(number))
		if e.state == running {
			a.use(now, number, -1)
		}
		a.end(now, number)
		return nothing, 0
	}
	switch {
	case e.state != running && seen.admitted && !seen.evicted:
		return a.start(now, number)
	case e.state != releasing && seen.evicted && seen.reserved:
		a.evict(now, number, evictionReason(seen.conditions))
		e.state = releasing
		return release, e.run
	case e.state == running && !seen.reserved:
		a.evict(now, number, "by one write")
	}
	return nothing, 0
}

// absorbJob is absorb for a Job, which others run, finish and stop.
func (a *account) absorbJob(now time.Duration, number int, suspended, complete bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &a.entries[number]
	if e.state == unsent || e.state == done {
		return
	}
	if e.state == waiting && !suspended {
		a.start(now, number)
	}
	switch {
	case complete:
		if e.state == running {
			a.use(now, number, -1)
		}
		a.end(now, number)
	case e.state == running && suspended:
		a.evict(now, number, "suspended")
	}
}

func evictionReason(conditions []condition) string {
	for _, one := range conditions {
		if one.Type == "Evicted" {
			return one.Reason
		}
	}
	return ""
}

func (a *account) start(now time.Duration, number int) (action, int) {
	e := &a.entries[number]
	e.state = running
	e.run++
	e.admissions++
	a.admissions++
	if e.admitted == 0 {
		e.admitted = now
		a.admitted++
	}
	a.waiting[a.plan.shapeOf(number).class]--
	a.use(now, number, 1)
	a.progress = now
	return startRun, e.run
}

func (a *account) evict(now time.Duration, number int, reason string) {
	e := &a.entries[number]
	if e.state == running {
		a.use(now, number, -1)
		a.waiting[a.plan.shapeOf(number).class]++
	}
	e.state = waiting
	e.evictions++
	a.evictions[reason]++
	a.progress = now
}

// hasReleased notes that the second phase was written and which version that made.
func (a *account) hasReleased(number int, version uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &a.entries[number]
	if e.state == releasing {
		e.state, e.ignoreBefore = waiting, version
	}
}

// mustRelease tells whether the second phase is still to be written.
func (a *account) mustRelease(number, run int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &a.entries[number]
	return e.state == releasing && e.run == run
}

// finish tells whether the run that has come to its end may be marked finished, and takes its quota
// out of the account.
func (a *account) finish(now time.Duration, number, run int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	e := &a.entries[number]
	if e.state != running || e.run != run {
		return false
	}
	e.state = finishing
	a.use(now, number, -1)
	return true
}

// hasFinished notes the answer to the write of Finished.
func (a *account) hasFinished(now time.Duration, number int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(now, number)
}

func (a *account) end(now time.Duration, number int) {
	e := &a.entries[number]
	if e.state == done {
		return
	}
	if e.state == waiting || e.state == releasing {
		a.waiting[a.plan.shapeOf(number).class]--
	}
	e.state, e.finished = done, now
	a.finished++
	a.progress = now
	if a.finished == len(a.entries) {
		close(a.complete)
	}
}

// stuck names some objects that are not finished, for the one who asks why nothing happens.
func (a *account) stuck(most int) []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := []int{}
	for number := range a.entries {
		if a.entries[number].state != done && len(all) < most {
			all = append(all, number)
		}
	}
	return all
}

func (a *account) lastProgress() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.progress
}

// sample is the state of the account at one time.
type sample struct {
	at                         time.Duration
	created, admitted, done    int
	evictions                  int
	waiting                    []int
	integral                   [][]float64 // as in account
	processors, residentMemory []float64   // by process: CPU-seconds so far, MB now
}

func (a *account) sample(now time.Duration) sample {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := sample{at: now, created: a.created, admitted: a.admissions, done: a.finished}
	for _, count := range a.evictions {
		s.evictions += count
	}
	s.waiting = append(s.waiting, a.waiting...)
	a.integrate(now)
	for _, row := range a.integral {
		s.integral = append(s.integral, append([]float64{}, row...))
	}
	return s
}
