// Package load checks the load generator itself on a small scenario: what it reports has to agree with
// what the API server holds afterwards.
package load

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
	"sluice.dev/e2e/load"
)

// smoke runs the small scenario on a cluster of its own and leaves the cluster for more questions.
func smoke(t *testing.T, floor bool) (*load.Scenario, *load.Result, *harness.Cluster) {
	t.Helper()
	scenario, err := load.Read(load.Find(harness.Root(), "smoke"))
	if err != nil {
		t.Fatal(err)
	}
	name := "load"
	if floor {
		name = "load-limit"
	}
	cluster, err := harness.Start(scenario.HarnessOptions(name, floor))
	if cluster != nil {
		t.Cleanup(cluster.Close)
	}
	if err != nil {
		t.Fatal(err)
	}
	result, err := load.Run(t.Context(), cluster, scenario, load.Options{Floor: floor, Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range result.Problems {
		t.Error(problem)
	}
	return scenario, result, cluster
}

// compare holds the account of the generator against the Workloads.
func compare(t *testing.T, cluster *harness.Cluster, result *load.Result) {
	t.Helper()
	workloads, err := cluster.List(context.Background(), harness.Kueue("Workload"), "", "")
	if err != nil {
		t.Fatal(err)
	}
	finished := 0
	for i := range workloads {
		if harness.ConditionOf(&workloads[i], "Finished").Status == "True" {
			finished++
		}
	}
	if len(workloads) != result.Planned || finished != result.Planned || result.Finished != result.Planned {
		t.Errorf("%d of %d Workloads are finished; the account says %d of %d", finished, len(workloads), result.Finished, result.Planned)
	}
	if result.Admitted != result.Planned || result.Admissions < result.Admitted {
		t.Errorf("%d admitted in %d admissions, want %d", result.Admitted, result.Admissions, result.Planned)
	}
	for _, class := range result.Classes {
		if class.ToAdmission.Count != class.Planned || class.ToAdmission.Mean <= 0 || class.ToFinish.P50 <= class.ToAdmission.P50 {
			t.Errorf("class %s: %+v, %+v", class.Name, class.ToAdmission, class.ToFinish)
		}
	}
	for _, quota := range result.Quota {
		if quota.MeanShare <= 0 || quota.MeanShare > 1 || quota.Peak > quota.Nominal {
			t.Errorf("quota in use: %+v", quota)
		}
	}
	for _, key := range []string{"wallSeconds", "controllerPeakMB", "apiServerCPUSeconds", "apiServerPeakMB", "etcdPeakMB"} {
		if result.Figures[key] <= 0 {
			t.Errorf("%s is %v", key, result.Figures[key])
		}
	}
	posts := int64(0)
	for _, request := range result.Requests {
		if request.Verb == "POST" && strings.HasPrefix(request.Resource, "workloads.") {
			posts += request.Count - request.Failed
		}
	}
	if posts != int64(result.Planned) {
		t.Errorf("the API server counts %d new Workloads, want %d", posts, result.Planned)
	}
}

func TestSmoke(t *testing.T) {
	scenario, result, cluster := smoke(t, false)
	compare(t, cluster, result)
	if result.Figures["workloadWritesPerAdmitted"] < 1 {
		t.Errorf("%v writes an admitted workload", result.Figures["workloadWritesPerAdmitted"])
	}
	dir := t.TempDir()
	if err := result.Save(dir); err != nil {
		t.Fatal(err)
	}
	csv, err := os.ReadFile(filepath.Join(dir, "workloads.csv"))
	if err != nil || bytes.Count(csv, []byte("\n")) != result.Planned+1 {
		t.Errorf("workloads.csv has %d lines: %v", bytes.Count(csv, []byte("\n")), err)
	}
	report, page := &load.Report{Scenario: scenario, Run: result}, bytes.Buffer{}
	if err := report.WritePage(&page); err != nil || !strings.Contains(page.String(), "<svg ") {
		t.Errorf("page of %d bytes: %v", page.Len(), err)
	}
	report.Print(os.Stdout, result)
}

// TestLimit has the generator admit by itself: one write for each Workload, and nothing from the
// controller, which stands by.
func TestLimit(t *testing.T) {
	_, result, cluster := smoke(t, true)
	compare(t, cluster, result)
	for key, want := range map[string]float64{"workloadWritesPerAdmitted": 1, "queueStatusWrites": 0, "eventWrites": 0, "evictions": 0} {
		if have := result.Figures[key]; have != want {
			t.Errorf("%s is %s, want %s", key, fmt.Sprint(have), fmt.Sprint(want))
		}
	}
}
