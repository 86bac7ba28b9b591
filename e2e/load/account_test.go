package load

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

const s = time.Second

func oneQueue(t *testing.T, quota string, more string) *plan {
	t.Helper()
	return newPlan(parse(t, `
name: one
cohorts:
- name: team
  queues:
  - count: 2
    nominalQuota: {cpu: `+quota+`}
    borrowingLimit: {cpu: 1}
    workloads:
    - {name: small, count: 2, runTime: 1s, request: {cpu: 1}`+more+`}
`))
}

var (
	isAdmitted = observation{reserved: true, admitted: true, version: 10}
	isEvicted  = observation{reserved: true, admitted: true, evicted: true, version: 20,
		conditions: []condition{{Type: "QuotaReserved", Status: "True"}, {Type: "Evicted", Status: "True", Reason: "Preempted"}}}
)

func sendAll(a *account) {
	for number := range a.entries {
		a.sending(0, number)
		a.hasCreated(0, number)
	}
}

func expect(t *testing.T, what string, have, want any) {
	t.Helper()
	if have != want {
		t.Errorf("%s: have %v, want %v", what, have, want)
	}
}

func TestLifeOfAWorkload(t *testing.T) {
	a := newAccount(oneQueue(t, "2", ""))
	sendAll(a)
	what, run := a.absorb(1*s, 0, isAdmitted)
	expect(t, "admitted", what, startRun)
	if again, _ := a.absorb(1*s, 0, isAdmitted); again != nothing {
		t.Errorf("the same event starts a second run")
	}
	expect(t, "in use", a.inUse[0], int64(1000))
	expect(t, "a stale timer finishes", a.finish(2*s, 0, run+1), false)
	expect(t, "the timer finishes", a.finish(3*s, 0, run), true)
	expect(t, "in use when Finished is being written", a.inUse[0], int64(0))
	a.hasFinished(4*s, 0)
	a.hasFinished(5*s, 0) // the watch tells it again
	expect(t, "finished", a.finished, 1)
	expect(t, "finish time", a.entries[0].finished, 4*s)
	expect(t, "quota over time", a.integral[0][0], 2000.0)
	expect(t, "waiting", a.waiting[0], 3)
	for number := 1; number < 4; number++ {
		_, run := a.absorb(5*s, number, isAdmitted)
		a.finish(6*s, number, run)
		a.hasFinished(6*s, number)
	}
	select {
	case <-a.complete:
	default:
		t.Error("everything is finished, but not complete")
	}
	if len(a.problems) > 0 {
		t.Errorf("problems: %v", a.problems)
	}
}

func TestEviction(t *testing.T) {
	a := newAccount(oneQueue(t, "2", ""))
	sendAll(a)
	_, first := a.absorb(1*s, 0, isAdmitted)
	what, run := a.absorb(2*s, 0, isEvicted)
	expect(t, "evicted", what, release)
	expect(t, "in use", a.inUse[0], int64(0))
	expect(t, "the run ends with the eviction", a.finish(2*s, 0, first), false)
	expect(t, "to be released", a.mustRelease(0, run), true)
	if again, _ := a.absorb(2*s, 0, isEvicted); again != nothing {
		t.Error("released twice")
	}
	a.hasReleased(0, 30)
	expect(t, "to be released", a.mustRelease(0, run), false)
	if stale, _ := a.absorb(3*s, 0, isEvicted); stale != nothing {
		t.Error("an event from before the release counts")
	}
	expect(t, "evictions", a.evictions["Preempted"], 1)
	expect(t, "waiting", a.waiting[0], 4)
	second := isAdmitted
	second.version = 40
	what, run = a.absorb(4*s, 0, second)
	expect(t, "admitted again", what, startRun)
	expect(t, "first admission", a.entries[0].admitted, 1*s)
	expect(t, "admitted workloads", a.admitted, 1)
	expect(t, "admissions", a.admissions, 2)
	expect(t, "the second run finishes", a.finish(5*s, 0, run), true)
}

func TestAdmittedAgainBeforeTheAnswer(t *testing.T) {
	a := newAccount(oneQueue(t, "2", ""))
	sendAll(a)
	a.absorb(1*s, 0, isAdmitted)
	a.absorb(2*s, 0, isEvicted)
	second := isAdmitted
	second.version = 40
	what, _ := a.absorb(3*s, 0, second)
	expect(t, "admitted again", what, startRun)
	a.hasReleased(0, 30) // the answer comes late
	expect(t, "state", a.entries[0].state, running)
	expect(t, "waiting", a.waiting[0], 3)
}

func TestEvictedBeforeAdmittedWasSeen(t *testing.T) {
	a := newAccount(oneQueue(t, "2", ""))
	sendAll(a)
	seen := isEvicted
	seen.admitted = false
	what, _ := a.absorb(1*s, 0, seen)
	expect(t, "evicted", what, release)
	expect(t, "in use", a.inUse[0], int64(0))
	expect(t, "waiting", a.waiting[0], 4)
}

func TestOthersFinish(t *testing.T) {
	a := newAccount(oneQueue(t, "2", ""))
	sendAll(a)
	a.absorb(1*s, 0, isAdmitted)
	a.absorb(2*s, 0, observation{reserved: true, admitted: true, finished: true})
	expect(t, "in use", a.inUse[0], int64(0))
	if len(a.problems) != 1 || !strings.Contains(a.problems[0], "somebody else") {
		t.Errorf("problems: %v", a.problems)
	}
}

func TestMoreThanTheQuota(t *testing.T) {
	a := newAccount(oneQueue(t, "1", "")) // a queue may use 2, the cohort has 2
	sendAll(a)
	a.absorb(1*s, 0, isAdmitted)
	a.absorb(1*s, 1, isAdmitted)
	expect(t, "problems within the quota", len(a.problems), 0)
	a.absorb(1*s, 2, isAdmitted)
	if len(a.problems) != 1 || !strings.Contains(a.problems[0], `cohort "team-0"`) {
		t.Errorf("problems: %v", a.problems)
	}
	queue := newAccount(oneQueue(t, "1", ", pods: 3"))
	sendAll(queue)
	queue.absorb(1*s, 0, isAdmitted)
	if len(queue.problems) != 2 || !strings.Contains(queue.problems[0], "queue team-0-queue-0") {
		t.Errorf("problems: %v", queue.problems)
	}
}

func TestLifeOfAJob(t *testing.T) {
	a := newAccount(oneQueue(t, "2", ""))
	sendAll(a)
	a.absorbJob(1*s, 0, true, false)
	expect(t, "admissions of a suspended Job", a.admissions, 0)
	a.absorbJob(2*s, 0, false, false)
	a.absorbJob(3*s, 0, false, false)
	expect(t, "admissions", a.admissions, 1)
	a.absorbJob(4*s, 0, true, false)
	expect(t, "evictions", a.evictions["suspended"], 1)
	a.absorbJob(5*s, 0, false, true)
	expect(t, "finished", a.finished, 1)
	expect(t, "in use", a.inUse[0], int64(0))
	expect(t, "admission", a.entries[0].admitted, 2*s)
}

func TestReleasePatch(t *testing.T) {
	old := "2026-01-01T00:00:00Z"
	seen := []condition{
		{"Admitted", "True", "Admitted", "", old, 1},
		{"Evicted", "True", "Preempted", "made room", old, 1},
		{"QuotaReserved", "True", "QuotaReserved", "", old, 1},
	}
	now := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	type op struct {
		Op, Path string
		Value    json.RawMessage
	}
	read := func(patch []byte) []string {
		all := []op{}
		if err := json.Unmarshal(patch, &all); err != nil {
			t.Fatal(err)
		}
		lines := []string{}
		for _, one := range all {
			c := condition{}
			_ = json.Unmarshal(one.Value, &c)
			lines = append(lines, strings.TrimSpace(strings.Join([]string{one.Op, one.Path, c.Type, c.Status, c.Reason, c.Message}, " ")))
		}
		return lines
	}
	have := read(releasePatch(seen, now))
	want := []string{
		"remove /status/admission",
		"add /status/conditions/- Requeued True Preempted made room",
		"test /status/conditions/2/type",
		"replace /status/conditions/2 QuotaReserved False PendingEvaluation made room",
		"test /status/conditions/0/type",
		"replace /status/conditions/0 Admitted False NoReservation The workload has no reservation",
	}
	if !slices.Equal(have, want) {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
	// Evicted by something that has to be lifted first, and never admitted.
	have = read(releasePatch([]condition{{"QuotaReserved", "True", "", "", old, 1}, {"Requeued", "False", "", "", old, 1},
		{"Evicted", "True", "ClusterQueueStopped", "", old, 1}}, now))
	want = []string{
		"remove /status/admission",
		"test /status/conditions/1/type",
		"replace /status/conditions/1 Requeued False ClusterQueueStopped",
		"test /status/conditions/0/type",
		"replace /status/conditions/0 QuotaReserved False PendingEvaluation",
	}
	if !slices.Equal(have, want) {
		t.Errorf("have\n%s\nwant\n%s", strings.Join(have, "\n"), strings.Join(want, "\n"))
	}
}

func TestAdmitter(t *testing.T) {
	p := newPlan(parse(t, `
name: two
cohorts:
- name: team
  queues:
  - count: 2
    nominalQuota: {cpu: 2}
    borrowingLimit: {cpu: 1}
    workloads:
    - {name: low, count: 3, runTime: 1s, request: {cpu: 1}}
    - {name: high, count: 1, interval: 1s, runTime: 1s, priority: 9, request: {cpu: 2}}
`))
	a := newAdmitter(p, nil, nil)
	numbers := map[string][]int{} // of the first queue, then of the second
	for number := range p.items {
		name := p.queueOf(number).name + " " + p.shapeOf(number).spec.Name
		numbers[name] = append(numbers[name], number)
	}
	low0, high0, high1 := numbers["team-0-queue-0 low"], numbers["team-0-queue-0 high"][0], numbers["team-0-queue-1 high"][0]
	admit := func(what string, number int, finished bool, want ...int) {
		t.Helper()
		if have, _ := a.decide(number, finished); !slices.Equal(have, want) && len(have)+len(want) > 0 {
			t.Errorf("%s: admits %v, want %v", what, have, want)
		}
	}
	admit("room", low0[0], false, low0[0])
	admit("room", low0[1], false, low0[1])
	admit("borrows", low0[2], false, low0[2])
	admit("seen again", low0[2], false)
	admit("above the borrowing limit", high0, false)
	admit("no room in the cohort", high1, false)
	admit("room for the one in the other queue", low0[0], true, high1)
	admit("one is too little", low0[1], true)
	admit("finished twice", low0[1], true)
	admit("room for the last", low0[2], true, high0)
}

func TestAdmitterOfJobs(t *testing.T) {
	p := newPlan(parse(t, `
name: held
kind: Job
hold: true
cohorts:
- queues:
  - nominalQuota: {cpu: 2}
    workloads:
    - {name: job, count: 3, runTime: 1s, request: {cpu: 1}}
`))
	a := newAdmitter(p, nil, nil)
	for number := range p.items {
		if !a.begin(number) || a.begin(number) {
			t.Errorf("the Workload of %d is not created once", number)
		}
		if admitted, news := a.decide(number, false); len(admitted) > 0 || !news {
			t.Errorf("on hold: admits %v, news %v", admitted, news)
		}
	}
	a.held = false
	if have := a.admit(nil, 0); !slices.Equal(have, []int{0, 1}) {
		t.Errorf("opened: admits %v", have)
	}
	if have, news := a.decide(1, true); !slices.Equal(have, []int{2}) || !news {
		t.Errorf("room: admits %v, news %v", have, news)
	}
	if have, news := a.decide(0, true); len(have) > 0 || !news {
		t.Errorf("nobody waits, but the end is news: admits %v, news %v", have, news)
	}
	if _, news := a.decide(0, true); news {
		t.Error("an end is news once")
	}
	if a.begin(0) {
		t.Error("a finished Job gets another Workload")
	}
	bodies, err := p.bodiesOf(p.workloadOfJob)
	if err != nil {
		t.Fatal(err)
	}
	have := struct {
		Metadata struct {
			Name            string
			OwnerReferences []struct{ Kind, Name, UID string }
		}
	}{}
	if err := json.Unmarshal(filledIn(bodies[0], "job-000001", "uid-1"), &have); err != nil {
		t.Fatal(err)
	}
	if owners := have.Metadata.OwnerReferences; have.Metadata.Name != "job-000001" || len(owners) != 1 ||
		owners[0].Kind != "Job" || owners[0].Name != "job-000001" || owners[0].UID != "uid-1" {
		t.Errorf("the Workload of a Job has %+v", have.Metadata)
	}
}
