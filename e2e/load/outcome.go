package load

import (
	"strings"
	"time"

	"sluice.dev/e2e/harness"
)

// result puts together what was measured.
func (r *run) result(before, after reading, created, ended time.Duration) *Result {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	result := &Result{Scenario: r.scenario.Name, Description: r.scenario.Description, Kind: r.scenario.Kind,
		Floor: r.options.Floor, Started: r.began.UTC(), Processors: processorCount(),
		Planned: len(r.plan.items), Created: a.created, Admitted: a.admitted, Admissions: a.admissions,
		Finished: a.finished, Evictions: a.evictions, Figures: map[string]float64{}, Problems: a.problems}
	result.Requests = requestsBetween(before.requests, after.requests)
	r.addClasses(result)
	r.addQuota(result, ended)
	r.addProcesses(result, before, after)
	r.addSeries(result)
	r.addFigures(result, created, ended)
	result.Figures["measuredSeconds"] = after.at.Sub(before.at).Seconds()
	return result
}

func (r *run) addClasses(result *Result) {
	waits, lives := make([][]float64, len(r.plan.classes)), make([][]float64, len(r.plan.classes))
	result.Classes = make([]ClassResult, len(r.plan.classes))
	for number := range r.account.entries {
		e, shape := &r.account.entries[number], r.plan.shapeOf(number)
		class := &result.Classes[shape.class]
		class.Planned++
		class.Evictions += e.evictions
		from := max(e.sent, r.account.opened)
		if e.admitted != 0 {
			waits[shape.class] = append(waits[shape.class], (e.admitted - from).Seconds())
		}
		if e.state == done {
			class.Finished++
			lives[shape.class] = append(lives[shape.class], (e.finished - from).Seconds())
		}
		result.workloads = append(result.workloads, workloadRow{
			name: r.plan.name(number), class: shape.spec.Name, queue: r.plan.queues[shape.queue].name,
			created: e.sent.Seconds(), admitted: e.admitted.Seconds(), finished: e.finished.Seconds(),
			admissions: e.admissions, evictions: e.evictions,
			neverCreated: e.state == unsent, waiting: e.admitted == 0, unfinished: e.state != done})
	}
	for i := range result.Classes {
		class := &result.Classes[i]
		class.Name = r.plan.classes[i]
		class.Waits = [][2]float64{{0, 0}}
		for _, at := range cumulative(waits[i], 200) {
			class.Waits = append(class.Waits, [2]float64{at.x, at.y})
		}
		class.ToAdmission, class.ToFinish = describe(waits[i]), describe(lives[i])
		if class.ToAdmission.Count > 0 {
			result.Figures[classWait+class.Name] = class.ToAdmission.Mean
		}
	}
}

func (r *run) addQuota(result *Result, ended time.Duration) {
	seconds := (ended - r.account.opened).Seconds()
	for at, nominal := range r.plan.nominal() {
		quota := QuotaResult{Resource: r.plan.resources[at], Nominal: float64(nominal) / 1000,
			Peak: float64(r.account.peak[at]) / 1000}
		if nominal > 0 && seconds > 0 {
			for _, row := range r.account.integral {
				quota.MeanShare += row[at] / float64(nominal) / seconds
			}
		}
		result.Quota = append(result.Quota, quota)
	}
	if len(result.Quota) > 0 {
		most := 0.0 // of the resource that is used most
		for _, quota := range result.Quota {
			most = max(most, 100*quota.MeanShare)
		}
		result.Figures["quotaUsePercent"] = most
	}
}

func (r *run) addProcesses(result *Result, before, after reading) {
	for i, process := range r.processes {
		peak, _ := harness.PeakMegabytes(process.pid)
		one := ProcessResult{process.name, after.seconds[i] - before.seconds[i], float64(peak)}
		result.Processes = append(result.Processes, one)
		switch process.name {
		case processController:
			result.Figures["controllerCPUSeconds"], result.Figures["controllerPeakMB"] = one.CPUSeconds, one.PeakMB
		case processAPIServer:
			result.Figures["apiServerCPUSeconds"], result.Figures["apiServerPeakMB"] = one.CPUSeconds, one.PeakMB
			if result.Finished > 0 {
				result.Figures["apiServerCPUMillisPerWorkload"] = 1000 * one.CPUSeconds / float64(result.Finished)
			}
		case processEtcd:
			result.Figures["etcdCPUSeconds"], result.Figures["etcdPeakMB"] = one.CPUSeconds, one.PeakMB
		case processGenerator:
			result.Figures["generatorCPUSeconds"] = one.CPUSeconds
		}
	}
}

func (r *run) addFigures(result *Result, created, ended time.Duration) {
	figures := result.Figures
	figures["wallSeconds"] = (ended - r.account.opened).Seconds()
	figures["createSeconds"] = created.Seconds()
	figures["evictions"] = float64(sum(result.Evictions))
	times := []float64{}
	for i := range r.account.entries {
		if at := r.account.entries[i].admitted; at != 0 {
			times = append(times, at.Seconds())
		}
	}
	if mean, best := rates(times, 10); mean > 0 {
		figures["admittedPerSecond"], figures["admittedPerSecondBest"] = mean, best
	}
	// Whatever is written to Workloads and not by us is written by the controller. In the floor run
	// it is the admitter's, which has a client of its own.
	writes := writesTo(result.Requests, "workloads.kueue.x-k8s.io")
	if r.scenario.Kind == KindWorkload {
		writes -= r.creates.writes.Load() + r.writes.writes.Load()
	}
	figures["workloadWrites"] = float64(writes)
	if result.Admitted > 0 {
		figures["workloadWritesPerAdmitted"] = float64(writes) / float64(result.Admitted)
	}
	queues := writesTo(result.Requests, "clusterqueues.kueue.x-k8s.io") + writesTo(result.Requests, "localqueues.kueue.x-k8s.io")
	if r.scenario.Hold {
		queues -= int64(len(r.plan.queues)) // our own, to open them
	}
	figures["queueStatusWrites"] = float64(queues)
	events := writesTo(result.Requests, "events") + writesTo(result.Requests, "events.events.k8s.io")
	figures["eventWrites"] = float64(events)
	if r.scenario.Kind == KindWorkload && result.Admitted > 0 { // with Jobs others write Events too
		figures["writesPerAdmitted"] = float64(writes+queues+events) / float64(result.Admitted)
	}
}

func sum(counts map[string]int) int {
	total := 0
	for _, count := range counts {
		total += count
	}
	return total
}

func (r *run) addSeries(result *Result) {
	s := Series{Waiting: map[string][]float64{}, InUse: map[string]map[string][]float64{},
		Cores: map[string][]float64{}, ResidentMB: map[string][]float64{}}
	for number, one := range r.samples {
		earlier := r.samples[max(0, number-1)]
		s.Seconds = append(s.Seconds, one.at.Seconds())
		s.Created = append(s.Created, float64(one.created))
		s.Admissions = append(s.Admissions, float64(one.admitted))
		s.Finished = append(s.Finished, float64(one.done))
		s.Evicted = append(s.Evicted, float64(one.evictions))
		for class, name := range r.plan.classes {
			s.Waiting[name] = append(s.Waiting[name], float64(one.waiting[class]))
			for at, resource := range r.plan.resources {
				if s.InUse[resource] == nil {
					s.InUse[resource] = map[string][]float64{}
				}
				// The mean since the last sample: a look at single instants would miss what is short.
				mean := 0.0
				if passed := (one.at - earlier.at).Seconds(); passed > 0 {
					mean = (one.integral[class][at] - earlier.integral[class][at]) / 1000 / passed
				}
				s.InUse[resource][name] = append(s.InUse[resource][name], mean)
			}
		}
		for i, process := range r.processes {
			cores := 0.0
			if passed := (one.at - earlier.at).Seconds(); passed > 0 {
				cores = max(0, one.processors[i]-earlier.processors[i]) / passed
			}
			s.Cores[process.name] = append(s.Cores[process.name], cores)
			s.ResidentMB[process.name] = append(s.ResidentMB[process.name], one.residentMemory[i])
		}
	}
	result.Series = s
}

// title is the headline of a result.
func (r *Result) title() string {
	if r.Floor {
		return "the least possible writes"
	}
	return strings.ToLower(r.Kind) + "s through the controller"
}
