// Package cli checks kubectl-sluice against a live cluster: what it says about queues and workloads,
// questions about Jobs that do not exist, dumps that are played on, and its errors.
package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"sluice.dev/e2e/harness"
)

const (
	rack     = harness.RackLabel
	required = "kueue.x-k8s.io/podset-required-topology"
)

var (
	kueue = harness.Kueue
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "cli", Nodes: 1, Visibility: true, PlainPods: true})
}

func plugin() string { return filepath.Join(filepath.Dir(harness.Binary()), "kubectl-sluice") }

// outcome is what a command left behind.
type outcome struct {
	out, err string
	code     int
}

// call runs kubectl-sluice with that kubeconfig.
func call(t *testing.T, kubeconfig, input string, arguments ...string) outcome {
	t.Helper()
	command := exec.CommandContext(t.Context(), plugin(), arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	command.Stdin = strings.NewReader(input)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{stdout.String(), stderr.String(), command.ProcessState.ExitCode()}
}

// ask runs it as administrator and ends the test when it does not exit with that code.
func ask(t *testing.T, code int, input string, arguments ...string) string {
	t.Helper()
	result := call(t, harness.Shared.Kubeconfig, input, arguments...)
	if result.code != code {
		t.Fatalf("%s: exit code %d, want %d\n%s%s", strings.Join(arguments, " "), result.code, code, result.out, result.err)
	}
	return result.out
}

func expect(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: %q is missing in\n%s", what, word, text)
		}
	}
}

// expectReason waits until explain gives that word; it reads the cluster at another moment than the
// controller wrote it.
func expectReason(t *testing.T, q harness.Queue, what []string, reason string, words ...string) {
	t.Helper()
	arguments := append(append([]string{"explain"}, what...), "-n", q.Namespace)
	var text string
	harness.Eventually(t, strings.Join(what, " ")+" is "+reason, func() error {
		result := call(t, harness.Shared.Kubeconfig, "", arguments...)
		text = result.out
		if !strings.HasPrefix(text, "Reason: "+reason+"\n") {
			return fmt.Errorf("exit code %d: %s%s", result.code, result.out, result.err)
		}
		return nil
	})
	expect(t, reason, text, words...)
	answer := map[string]any{}
	if err := json.Unmarshal([]byte(ask(t, 0, "", append(arguments, "-o", "json")...)), &answer); err != nil || answer["structuredReason"] != reason {
		t.Errorf("%s as JSON: %v, %v", reason, answer["structuredReason"], err)
	}
}

// site adds Jobs to a pool of nodes.
type site struct{ harness.Site }

func newSite(t *testing.T, racks, hosts, cpu int) site {
	t.Helper()
	return site{harness.NewSite(t, racks, hosts, cpu)}
}

// gang is a Job of pods with one CPU each that must be in one rack.
func (s site) gang(name string, pods int) *unstructured.Unstructured {
	object := harness.Job{Name: name, Namespace: s.Namespace, Queue: s.Local, Pods: pods}.Object()
	harness.Set(object, rack, "spec", "template", "metadata", "annotations", required)
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations["sluice.dev/expected-runtime"] = "1h"
	object.SetAnnotations(annotations)
	return object
}

func (s site) submit(t *testing.T, pods int) string {
	t.Helper()
	return harness.Shared.MustCreate(t, s.gang(harness.Name("gang"), pods)).GetName()
}

func TestReasonsOfQuota(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	running := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	waiting := c.Submit(t, q, harness.Job{CPU: "1"})
	expectReason(t, q, []string{"job", waiting}, "QuotaExceeded", "Position: 0 in its ClusterQueue",
		"Would help: 1 more cpu in flavor "+q.Flavor+" of ClusterQueue "+q.Cluster, "in use")
	expectReason(t, q, []string{"job", running}, "Admitted")
	// A user takes it out of the queue.
	workload := c.ExpectWorkload(t, q.Namespace, waiting, "QuotaReserved", "False", "")
	c.MustPatch(t, kueue("Workload"), q.Namespace, workload.GetName(), `{"spec":{"active":false}}`)
	expectReason(t, q, []string{"workload", workload.GetName()}, "Deactivated", "Would help: spec.active is true again")
	next := c.Submit(t, q, harness.Job{CPU: "1"})
	c.ExpectWorkload(t, q.Namespace, next, "QuotaReserved", "False", "")
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"stopPolicy":"Hold"}}`)
	expectReason(t, q, []string{"job/" + next}, "QueueStopped", "its stopPolicy is Hold")
}

func TestReasonsOfNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, 2, 2)
	expectReason(t, s.Queue, []string{"job", s.submit(t, 6)}, "TopologyFragmented",
		"Would help: room for 2 pods more in "+rack)
	expectReason(t, s.Queue, []string{"job", s.submit(t, 9)}, "InsufficientCapacity", "Would help: nodes for 1 pod more")
	for i := range 2 {
		harness.Shared.MustPatch(t, harness.NodeKind, "", s.Host(1, i), `{"spec":{"taints":[{"key":"example.com/repair","effect":"NoSchedule"}]}}`)
	}
	// Four pods fit, the two nodes with the taint would take the other four.
	expectReason(t, s.Queue, []string{"job", s.submit(t, 8)}, "NodesExcluded", "Would help: nodes back: 2 of 4 may not be used")
}

func TestReasonOfChecks(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := harness.Queue{Local: "main", Cluster: harness.Name("cq"), Flavor: harness.Name("flavor"), Namespace: c.Namespace(t)}
	check := harness.Name("check")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: AdmissionCheck, metadata: {name: %s}, spec: {controllerName: example.com/by-hand}}", check))
	// The test is the controller of the check.
	active := `{"status":{"conditions":[{"type":"Active","status":"True","reason":"Active","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`
	if _, err := c.Patch(t.Context(), kueue("AdmissionCheck"), "", check, active, "status"); err != nil {
		t.Fatal(err)
	}
	c.MustCreate(t, harness.Flavor(q.Flavor))
	queue := harness.ClusterQueue(q, harness.QueueOptions{CPU: "4"})
	harness.Set(queue, []any{map[string]any{"name": check}}, "spec", "admissionChecksStrategy", "admissionChecks")
	c.MustCreate(t, queue)
	c.MustCreate(t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	c.ExpectCondition(t, kueue("ClusterQueue"), "", q.Cluster, "Active", "True", "")
	job := c.Submit(t, q, harness.Job{})
	c.ExpectWorkload(t, q.Namespace, job, "QuotaReserved", "True", "")
	expectReason(t, q, []string{"job", job}, "CheckPending", check+" is Pending")
}

// TestReasonOfGroup: two of the three pods of a group are there.
func TestReasonOfGroup(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{})
	group := harness.Name("group")
	for i := range 2 {
		c.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: Pod
metadata:
  name: %[1]s-%[2]d
  namespace: %[3]s
  labels: {kueue.x-k8s.io/queue-name: %[4]s, kueue.x-k8s.io/pod-group-name: %[1]s}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "3"}
spec:
  restartPolicy: Never
  containers: [{name: c, image: fake, resources: {requests: {cpu: "1"}}}]
`, group, i, q.Namespace, q.Local))
	}
	expectReason(t, q, []string{"podgroup", group}, "GangIncomplete", "2 of 3 pods of group "+group+" are created")
	expectReason(t, q, []string{"pod", group + "-1"}, "GangIncomplete", "2 of 3 pods")
}

func TestTables(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	running := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	waiting := c.Submit(t, q, harness.Job{CPU: "1"})
	c.ExpectWorkload(t, q.Namespace, waiting, "QuotaReserved", "False", "")
	for _, row := range []struct {
		arguments []string
		words     []string
	}{
		{[]string{"queues"}, []string{"NAME", q.Cluster + " BestEffortFIFO True 1 1"}},
		{[]string{"queues", "-o", "wide"}, []string{"USAGE", q.Flavor + "/cpu 2/2", "NEXT", q.Namespace + "/"}},
		{[]string{"queues", "--local", "-n", q.Namespace, "-o", "wide"}, []string{"STOPPOLICY", "None"}},
		{[]string{"queues", "-o", "json"}, []string{`"name": "` + q.Cluster + `"`}},
		{[]string{"queues", "--local", "-n", q.Namespace}, []string{q.Local, q.Cluster}},
		{[]string{"top"}, []string{"NOMINAL", q.Cluster}},
		{[]string{"top", "-o", "yaml"}, []string{"clusterQueue: " + q.Cluster, "waiting: "}},
		{[]string{"top", "-o", "wide"}, []string{"BORROWINGLIMIT", q.Cluster}},
		{[]string{"top", "--watch", "--interval", "0.1", "--rounds", "2"}, []string{q.Cluster}},
		{[]string{"explain", "job", waiting, "-n", q.Namespace, "-o", "wide"}, []string{"Queue: LocalQueue " + q.Namespace + "/" + q.Local, "Owner: Job " + waiting}},
		{[]string{"explain", "job", waiting, "-n", q.Namespace, "--watch", "--interval", "0.1", "--rounds", "2"}, []string{"Reason: QuotaExceeded"}},
		{[]string{"forecast", "-n", q.Namespace, "-o", "wide", "--watch", "--interval", "0.1", "--rounds", "2"}, []string{"LOCALQUEUE", q.Cluster}},
		{[]string{"forecast", "job", waiting, "-n", q.Namespace, "--default-runtime", "1h"}, []string{q.Cluster, "Assumption: nothing else arrives"}},
		{[]string{"forecast", "-n", q.Namespace, "-o", "json"}, []string{`"assumption": `}},
		{[]string{"completion", "bash"}, []string{"complete "}},
		{[]string{"__complete", "explain", "job", "-n", q.Namespace, ""}, []string{waiting}},
	} {
		out := ask(t, 0, "", row.arguments...)
		// The columns are as wide as the queues of other tests make them.
		words := strings.Join(strings.Fields(out), " ")
		expect(t, strings.Join(row.arguments, " "), out+words, row.words...)
		if strings.Contains(out, "\x1b") {
			t.Errorf("%v: colours, and this is no terminal", row.arguments)
		}
	}
}

func document(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text, err := yaml.Marshal(object.Object)
	if err != nil {
		t.Fatal(err)
	}
	return "---\n" + string(text)
}

// TestCheck asks about Jobs that are never created.
func TestCheck(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	s := newSite(t, 1, 2, 2)
	three := document(t, s.gang("three", 3))
	out := ask(t, 0, three, "check", "-f", "-")
	expect(t, "check", out, "It would be admitted now in ClusterQueue "+s.Cluster, "main would run: ", s.Host(0, 0))
	five := document(t, s.gang("five", 5))
	out = ask(t, 1, three+five, "check", "-f", "-")
	expect(t, "check of two", out, "# Job three\n", "# Job five\n", "Reason: InsufficientCapacity", "Would help: nodes for 1 pod more")
	expect(t, "check as YAML", ask(t, 1, five, "check", "-f", "-", "-o", "yaml"), "structuredReason: InsufficientCapacity", "admitted: false")
	file := filepath.Join(t.TempDir(), "job.yaml")
	bad := s.gang("bad", 1)
	harness.Set(bad, []any{map[string]any{"name": "c", "image": "i", "resources": map[string]any{"requests": map[string]any{"cpu": "lots"}}}}, "spec", "template", "spec", "containers")
	if err := os.WriteFile(file, []byte(three+document(t, bad)), 0o644); err != nil {
		t.Fatal(err)
	}
	result := call(t, c.Kubeconfig, "", "check", "-f", file)
	if result.code != 2 || !strings.Contains(result.out, "It would be admitted now") {
		t.Errorf("check with a bad document: exit code %d\n%s", result.code, result.out)
	}
	expect(t, "check with a bad document", result.err, file+":", `spec.template.spec.containers[0].resources.requests[cpu]: "lots" is not a quantity`)
	for _, kind := range []string{"Job", "Workload"} {
		gvk := kueue("Workload")
		if kind == "Job" {
			gvk = harness.JobKind
		}
		if objects, err := c.List(t.Context(), gvk, s.Namespace, ""); err != nil || len(objects) != 0 {
			t.Errorf("%d objects of kind %s are there, %v", len(objects), kind, err)
		}
	}
}

// TestCheckVictims: who would go, and what they would lose.
func TestCheckVictims(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"preemption":{"withinClusterQueue":"LowerPriority"}}}`)
	class := harness.Name("high")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: 100}", class))
	running := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	workload := c.ExpectWorkload(t, q.Namespace, running, "Admitted", "True", "")
	urgent := harness.Job{Name: "urgent", Namespace: q.Namespace, Queue: q.Local, Labels: []string{"kueue.x-k8s.io/priority-class=" + class}}.Object()
	out := ask(t, 0, document(t, urgent), "check", "-f", "-")
	expect(t, "check", out, "by preempting:\n  "+q.Namespace+"/"+workload.GetName(), "2 cpu, loses ")
	c.ExpectSuspended(t, q.Namespace, running, false)
}

// TestDump plays a live cluster on, as it is and changed. Nothing else comes and goes while it is
// dumped: the kinds are read one after the other.
func TestDump(t *testing.T) {
	c := harness.Shared
	s := newSite(t, 1, 2, 2)
	running := s.submit(t, 3)
	c.ExpectSuspended(t, s.Namespace, running, false)
	c.ExpectWorkload(t, s.Namespace, running, "Admitted", "True", "")
	waiting := s.submit(t, 3)
	c.ExpectWorkload(t, s.Namespace, waiting, "QuotaReserved", "False", "")
	directory := t.TempDir()
	file, page := filepath.Join(directory, "cluster.yaml"), filepath.Join(directory, "compare.html")
	if err := os.WriteFile(file, []byte(ask(t, 0, "", "dump")), 0o644); err != nil {
		t.Fatal(err)
	}
	expect(t, "queues of a dump", ask(t, 0, "", "queues", "--from", file), s.Cluster)
	expect(t, "explain of a dump", ask(t, 0, "", "explain", "job", waiting, "-n", s.Namespace, "--from", file), "Reason: InsufficientCapacity")
	play := func(arguments ...string) string {
		return ask(t, 0, "", append([]string{"simulate", file, "--default-runtime", "1h"}, arguments...)...)
	}
	expect(t, "simulate", play(), "# "+file, s.Cluster, "by their expected runtime")
	// The line of this queue: others in this cluster wait too.
	compared := func(arguments ...string) string {
		out := play(append(arguments, "--compare", "--html", page)...)
		for _, line := range strings.Split(out, "\n") {
			if strings.HasPrefix(line, s.Cluster+": wait, mean") {
				return line
			}
		}
		t.Fatalf("%v: no line of %s in\n%s", arguments, s.Cluster, out)
		return ""
	}
	expect(t, "with a node more", compared("--add-nodes", s.Host(0, 0)+"=1"), "-100.0%")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "the page", string(text), "<!DOCTYPE html>", "<td>"+s.Cluster+": wait, mean</td>")
	// Without its nodes nothing of the queue ever starts.
	out := play("--drain", rack+"="+s.Pool+"-rack-0", "--compare")
	expect(t, "without the rack", out, s.Cluster+": waiting at the end")
	expect(t, "with quota", play("--set-quota", s.Cluster+"/"+s.Flavor+"/cpu=3", "--remove-policy", "preemption"), s.Cluster)
	result := call(t, c.Kubeconfig, "", "simulate", file, "--add-nodes", "nobody=1")
	if result.code != 2 || result.err != "--add-nodes: there is no node nobody\n" {
		t.Errorf("a node that is not there: %d, %s", result.code, result.err)
	}
}

// changed is the administrator's kubeconfig with one change.
func changed(t *testing.T, change func(cluster, user map[string]any)) string {
	t.Helper()
	text, err := os.ReadFile(harness.Shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	first := func(list, part string) map[string]any {
		return config[list].([]any)[0].(map[string]any)[part].(map[string]any)
	}
	change(first("clusters", "cluster"), first("users", "user"))
	if text, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestErrors: one line that says what is wrong, and an exit code that is not 0.
func TestErrors(t *testing.T) {
	t.Parallel()
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{})
	nowhere := changed(t, func(cluster, _ map[string]any) { cluster["server"] = "https://127.0.0.1:1" })
	nobody := changed(t, func(_, user map[string]any) { user["as"] = harness.Name("nobody") })
	job := document(t, harness.Job{Name: "j", Namespace: q.Namespace, Queue: q.Local}.Object())
	lost := document(t, harness.Job{Name: "j", Namespace: q.Namespace, Queue: "none"}.Object())
	for _, row := range []struct {
		name, kubeconfig, input string
		arguments               []string
		code                    int
		words                   []string
	}{
		{"no cluster", nowhere, "", []string{"queues"}, 1, []string{"127.0.0.1:1"}},
		{"no kubeconfig", "/does/not/exist", "", []string{"top"}, 1, []string{"/does/not/exist"}},
		{"no context", c.Kubeconfig, "", []string{"queues", "--context", "none"}, 1, []string{"none"}},
		{"no rights", nobody, "", []string{"queues"}, 1, []string{"forbidden", "clusterqueues"}},
		{"no rights to ask", nobody, job, []string{"check", "-f", "-"}, 2, []string{"forbidden"}},
		{"no workload", c.Kubeconfig, "", []string{"explain", "none", "-n", q.Namespace}, 1, []string{"Workload " + q.Namespace + "/none does not exist"}},
		{"no job", c.Kubeconfig, "", []string{"explain", "job", "none", "-n", q.Namespace}, 1, []string{"Job " + q.Namespace + "/none has no Workload"}},
		{"no local queue", c.Kubeconfig, lost, []string{"check", "-f", "-"}, 2, []string{"LocalQueue " + q.Namespace + "/none does not exist"}},
		{"no cluster queue", c.Kubeconfig, job, []string{"check", "-f", "-", "--cluster-queue", "none"}, 2, []string{"ClusterQueue none does not exist"}},
		{"no file", c.Kubeconfig, "", []string{"check", "-f", "/does/not/exist"}, 2, []string{"/does/not/exist: cannot be read"}},
		{"no such option", c.Kubeconfig, "", []string{"queues", "--colour"}, 2, []string{"--colour"}},
		{"no such output", c.Kubeconfig, "", []string{"queues", "-o", "xml"}, 2, []string{"xml"}},
	} {
		result := call(t, row.kubeconfig, row.input, row.arguments...)
		if result.code != row.code || result.out != "" {
			t.Errorf("%s: exit code %d, want %d; output %q", row.name, result.code, row.code, result.out)
		}
		expect(t, row.name, result.err, row.words...)
		if lines := strings.Count(result.err, "\n"); row.code == 1 && lines != 1 {
			t.Errorf("%s: %d lines\n%s", row.name, lines, result.err)
		}
	}
}

// TestPlugin: kubectl finds it.
func TestPlugin(t *testing.T) {
	c := harness.Shared
	q := c.NewQueue(t, harness.QueueOptions{})
	t.Setenv("PATH", filepath.Dir(plugin())+":"+os.Getenv("PATH"))
	harness.Eventually(t, "kubectl sluice queues", func() error {
		out, err := c.Run(t.Context(), "", "kubectl", "sluice", "queues")
		if err == nil && !strings.Contains(out, q.Cluster) {
			err = fmt.Errorf("%s is missing in\n%s", q.Cluster, out)
		}
		return err
	})
	// And how words behind it are completed.
	links := t.TempDir()
	if err := os.Symlink(plugin(), filepath.Join(links, "kubectl_complete-sluice")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links+":"+os.Getenv("PATH"))
	out, err := c.Run(t.Context(), "", "kubectl", "__complete", "sluice", "top", "--wa")
	if err != nil || !strings.Contains(out, "--watch\n:4\n") {
		t.Errorf("kubectl __complete sluice top --wa: %v\n%s", err, out)
	}
}
