package schema

import (
	"regexp"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

var gap = regexp.MustCompile(`\s{2,}`)

// table runs kubectl get and cuts the output into rows of cells. kubectl puts at least three blanks
// between columns; an empty cell at the end of a row is lost, in the middle it is part of the gap,
// so tests compare headers and non-empty cells.
func table(t *testing.T, arguments ...string) [][]string {
	t.Helper()
	out := harness.Shared.Kubectl(t, append([]string{"get"}, arguments...)...)
	rows := [][]string{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		rows = append(rows, gap.Split(strings.TrimSpace(line), -1))
	}
	return rows
}

func TestColumns(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{})
	first := c.Submit(t, q, harness.Job{CPU: "3"})
	c.ExpectSuspended(t, q.Namespace, first, false)
	second := c.Submit(t, q, harness.Job{CPU: "3"})
	c.ExpectWorkload(t, q.Namespace, second, "QuotaReserved", "False", "")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: columns}, value: 7}"))
	c.MustCreate(t, harness.Parse(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: columns}
spec: {clusterSource: {kubeConfig: {location: nowhere}}}
`))
	workload := c.ExpectWorkload(t, q.Namespace, first, "Admitted", "True", "").GetName()

	for _, row := range []struct {
		name      string
		arguments []string
		header    []string
		cells     []string
	}{
		{"ClusterQueue", []string{"cq", q.Cluster}, []string{"NAME", "COHORT", "PENDING WORKLOADS"}, []string{q.Cluster, "1"}},
		{"ClusterQueue wide", []string{"cq", q.Cluster, "-o", "wide"},
			[]string{"NAME", "COHORT", "STRATEGY", "PENDING WORKLOADS", "ADMITTED WORKLOADS"}, []string{q.Cluster, "BestEffortFIFO", "1", "1"}},
		{"LocalQueue", []string{"lq", q.Local, "-n", q.Namespace},
			[]string{"NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"}, []string{q.Local, q.Cluster, "1", "1"}},
		{"LocalQueue by the name queue", []string{"queue", q.Local, "-n", q.Namespace},
			[]string{"NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"}, []string{q.Local, q.Cluster, "1", "1"}},
		{"Workload", []string{"kwl", workload, "-n", q.Namespace},
			[]string{"NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"}, []string{workload, q.Local, q.Cluster, "True"}},
		{"Workload by the name wl", []string{"wl", workload, "-n", q.Namespace},
			[]string{"NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"}, []string{workload, q.Local, q.Cluster, "True"}},
		{"WorkloadPriorityClass", []string{"wpc", "columns"}, []string{"NAME", "VALUE"}, []string{"columns", "7"}},
		{"MultiKueueCluster", []string{"mkc", "columns"}, []string{"NAME", "CONNECTED", "AGE"}, []string{"columns"}},
		{"Topology", []string{"topo", "--ignore-not-found"}, nil, nil},
		{"ResourceFlavor", []string{"rf", q.Flavor}, []string{"NAME", "AGE"}, []string{q.Flavor}},
	} {
		t.Run(row.name, func(t *testing.T) {
			harness.Eventually(t, "the row of "+row.name, func() error {
				rows := table(t, row.arguments...)
				if row.header == nil {
					return nil
				}
				if have, want := strings.Join(rows[0], "|"), strings.Join(row.header, "|"); have != want {
					t.Fatalf("columns are %s, want %s", have, want)
				}
				if have, want := strings.Join(rows[1], "|"), strings.Join(row.cells, "|"); have != want && !strings.HasPrefix(have, want+"|") {
					return errorf("row is %s, want %s", have, want)
				}
				return nil
			})
		})
	}
	t.Run("cq,lq,wl at once", func(t *testing.T) {
		out := c.Kubectl(t, "get", "cq,lq,wl", "-n", q.Namespace)
		for _, name := range []string{"clusterqueue.kueue.x-k8s.io/" + q.Cluster, "localqueue.kueue.x-k8s.io/" + q.Local, "workload.kueue.x-k8s.io/" + workload} {
			if !strings.Contains(out, name) {
				t.Errorf("%s is missing in:\n%s", name, out)
			}
		}
	})
	t.Run("field selector", func(t *testing.T) {
		out := c.Kubectl(t, "get", "workloads.kueue.x-k8s.io", "-n", q.Namespace, "--field-selector", "status.admission.clusterQueue="+q.Cluster, "-o", "name")
		if strings.TrimSpace(out) != "workload.kueue.x-k8s.io/"+workload {
			t.Errorf("the selector found %q, want only %s", out, workload)
		}
	})
}
