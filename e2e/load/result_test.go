package load

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sampleRun plays a run without a cluster: two workloads, of which one is evicted once.
func sampleRun(t *testing.T, floor bool) (*Scenario, *Result) {
	t.Helper()
	scenario := parse(t, `
name: sample
description: "<b>of & two</b>"
cohorts:
- queues:
  - {nominalQuota: {cpu: 4}, workloads: [{name: small, count: 2, interval: 1s, runTime: 1s, request: {cpu: 1}}]}
references: {Other: {wallSeconds: 50, "meanWaitSeconds/small": 2.5}}
goals: {wallSeconds: 12, "meanWaitSeconds/small": 1, admittedPerSecond: 0.1}
`)
	r := &run{options: Options{Floor: floor}, scenario: scenario, plan: newPlan(scenario),
		creates: &client{}, writes: &client{}, began: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
	r.account = newAccount(r.plan)
	a := r.account
	keep := func(at time.Duration) { r.samples = append(r.samples, a.sample(at)) }
	keep(0)
	a.sending(0, 0)
	a.hasCreated(0, 0)
	a.sending(1*s, 1)
	a.hasCreated(1*s, 1)
	a.absorb(2*s, 0, isAdmitted)
	keep(2 * s)
	a.absorb(3*s, 0, isEvicted)
	a.hasReleased(0, 30)
	again := isAdmitted
	again.version = 40
	_, run := a.absorb(5*s, 0, again)
	a.finish(6*s, 0, run)
	a.hasFinished(6*s, 0)
	_, run = a.absorb(7*s, 1, isAdmitted)
	a.finish(9*s, 1, run)
	a.hasFinished(10*s, 1)
	keep(10 * s)
	r.creates.writes.Store(2)
	r.writes.writes.Store(3)
	after := map[requestKey]int64{
		{"APPLY", "workloads.kueue.x-k8s.io", "status", "200"}:     4,
		{"PATCH", "workloads.kueue.x-k8s.io", "status", "200"}:     3,
		{"POST", "workloads.kueue.x-k8s.io", "", "201"}:            2,
		{"PATCH", "clusterqueues.kueue.x-k8s.io", "status", "200"}: 5,
		{"POST", "events.events.k8s.io", "", "201"}:                6,
	}
	began := reading{at: r.began}
	ended := reading{at: r.began.Add(20 * s), requests: after}
	return scenario, r.result(began, ended, 1*s, 10*s)
}

func TestFigures(t *testing.T) {
	_, result := sampleRun(t, false)
	for key, want := range map[string]float64{
		"wallSeconds": 10, "createSeconds": 1, "meanWaitSeconds/small": 4, "evictions": 1,
		"quotaUsePercent": 100 * 4.0 / 4 / 10, // 1 for 1 + 1 + 2 of 10 s
		"workloadWrites":  4, "workloadWritesPerAdmitted": 2, "queueStatusWrites": 5, "eventWrites": 6, "writesPerAdmitted": 7.5,
		"admittedPerSecond": 0.2, "admittedPerSecondBest": 0.2, "measuredSeconds": 20,
	} {
		if have, found := result.Figures[key]; !found || !near(have, want) {
			t.Errorf("%s: have %v, want %v", key, have, want)
		}
	}
	expect(t, "planned", result.Planned, 2)
	expect(t, "admissions", result.Admissions, 3)
	expect(t, "evictions", result.Classes[0].Evictions, 1)
	if have := result.Classes[0].ToFinish; have != (Distribution{2, 7.5, 6, 9, 9}) {
		t.Errorf("time to finish: %+v", have)
	}
	if len(result.Problems) > 0 {
		t.Errorf("problems: %v", result.Problems)
	}
}

func TestFiguresTable(t *testing.T) {
	scenario, run := sampleRun(t, false)
	_, limit := sampleRun(t, true)
	limit.Figures["wallSeconds"] = 8
	report := &Report{scenario, run, limit}
	rows := report.FiguresTable()
	for _, want := range [][]string{
		{"measure", "this run", "limit", "run / limit", "Other", "goal", ""},
		{"wall time, from the first creation to the last finish", "10.0 s", "8.0 s", "1.25", "50.0 s", "<= 12.0 s", "reached"},
		{"mean time to admission, small", "4.00 s", "4.00 s", "1.00", "2.50 s", "<= 1.00 s", "missed"},
		{"admissions a second, from the first to the last", "0.2 /s", "0.2 /s", "1.00", "", ">= 0.1 /s", "reached"},
		{"evictions", "1", "1", "1.00", "", "", ""},
	} {
		if !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("no row %q in %q", want, rows)
		}
	}
	if rows := (&Report{scenario, nil, limit}).FiguresTable(); rows[0][1] != "limit" || rows[1][len(rows[1])-1] != "" {
		t.Errorf("the limit alone: %q", rows[:2])
	}
	part := *run
	part.Finished--
	if rows := (&Report{scenario, &part, nil}).FiguresTable(); rows[1][len(rows[1])-1] != "not finished" {
		t.Errorf("goals of a part of the work: %q", rows[1])
	}
	jobs := &Report{scenario, &Result{Kind: KindJob, Figures: run.Figures}, nil}
	if rows := jobs.FiguresTable(); !slices.ContainsFunc(rows, func(row []string) bool {
		return row[0] == "Jobs unsuspended a second, best 10 s"
	}) {
		t.Errorf("figures of Jobs: %q", rows)
	}
	text := bytes.Buffer{}
	report.Print(&text, run)
	for _, want := range []string{"| 10.0 s ", "| small | 2 of 2   | 1 ", "evictions, Preempted: 1", "| APPLY   | workloads.kueue.x-k8s.io/status"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// TestPage reads the page as XML, so that no tag is left open, and looks for what would need a network.
func TestPage(t *testing.T) {
	scenario, run := sampleRun(t, false)
	_, limit := sampleRun(t, true)
	run.Problems = []string{"a < b"}
	page := bytes.Buffer{}
	if err := (&Report{scenario, run, limit}).WritePage(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	for _, outside := range []string{"http:", "https:", "src=", "@import", "url(", "<script", "<link"} {
		if strings.Contains(text, outside) {
			t.Errorf("the page has %q", outside)
		}
	}
	for _, want := range []string{"a &lt; b", "&lt;b&gt;of &amp; two&lt;/b&gt;", "finished, limit", "nominal quota", "<td>missed</td>"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
		t.Error("a number is none")
	}
	if have := strings.Count(text, "<svg "); have != 6 {
		t.Errorf("%d charts, want 6", have)
	}
	decoder := xml.NewDecoder(strings.NewReader(text))
	decoder.Entity = xml.HTMLEntity
	for {
		_, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well formed: %v", err)
		}
	}
}

func TestStackedCurves(t *testing.T) {
	all := stack([]curve{{name: "a", points: []point{{0, 1}, {1, 2}}}, {name: "b", points: []point{{0, 10}, {1, 20}}}})
	if !slices.Equal(all[0].points, []point{{0, 1}, {1, 2}}) || !slices.Equal(all[1].points, []point{{0, 11}, {1, 22}}) {
		t.Errorf("have %v", all)
	}
	empty := chart{title: "nothing"}.svg()
	if !strings.HasPrefix(string(empty), "<svg ") {
		t.Errorf("a chart of nothing: %s", empty)
	}
}

func TestSavedResults(t *testing.T) {
	_, run := sampleRun(t, false)
	run.ScenarioSum = "abc"
	dir := filepath.Join(t.TempDir(), "controller")
	if err := run.Save(dir); err != nil {
		t.Fatal(err)
	}
	back, err := Load(dir, "abc")
	if err != nil || back == nil {
		t.Fatalf("%v %v", back, err)
	}
	expect(t, "wall time", back.Figures["wallSeconds"], 10.0)
	expect(t, "samples", len(back.Series.Seconds), 3)
	if other, err := Load(dir, "other"); other != nil || err != nil {
		t.Errorf("the result of another state of the scenario: %v %v", other, err)
	}
	if none, err := Load(filepath.Join(dir, "none"), "abc"); none != nil || err != nil {
		t.Errorf("no result: %v %v", none, err)
	}
	for name, want := range map[string][]string{
		"workloads": {"small-000000", "small", "alone-0-queue-0", "0.000", "2.000", "6.000", "2", "1"},
		"classes":   {"small", "2", "2", "1", "4.000", "2.000", "6.000", "6.000", "7.500", "6.000", "9.000", "9.000"},
		"requests":  {"APPLY", "workloads.kueue.x-k8s.io", "status", "4", "0"},
		"figures":   {"wallSeconds", "10.000", "s"},
		"series":    {"10.000", "2.000", "3.000", "2.000", "1.000", "0.000", "0.500"},
	} {
		file, err := os.Open(filepath.Join(dir, name+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(file).ReadAll()
		file.Close()
		if err != nil || !slices.ContainsFunc(rows, func(row []string) bool { return slices.Equal(row, want) }) {
			t.Errorf("%s.csv has no row %q: %v %q", name, want, err, rows)
		}
	}
}
