// Package plane checks the control plane that all other suites stand on.
package plane

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "plane", Nodes: 5, NoChart: true, NativeGangs: true})
}

func script(t *testing.T, arguments ...string) string {
	t.Helper()
	command := exec.Command(filepath.Join(harness.Root(), "e2e", "controlplane.sh"), arguments...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("controlplane.sh %s: %v", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(out))
}

func TestJobsRunOnFakeNodes(t *testing.T) {
	c := harness.Shared
	namespace := c.Namespace(t)
	c.MustCreate(t, harness.Job{Name: "ends", Namespace: namespace, Pods: 3, RunSeconds: "1.5"}.Object())
	c.MustCreate(t, harness.Job{Name: "runs", Namespace: namespace}.Object())
	failing := harness.Job{Name: "fails", Namespace: namespace, RunSeconds: "0.1"}.Object()
	harness.Set(failing, int64(0), "spec", "backoffLimit")
	harness.Set(failing, "7", "spec", "template", "metadata", "annotations", "sluice.dev/exit-code")
	c.MustCreate(t, failing)
	c.ExpectFinished(t, namespace, "ends")
	c.ExpectCondition(t, harness.JobKind, namespace, "fails", "Failed", "True", "")
	harness.Eventually(t, "the other one runs on", func() error {
		job, err := c.Fetch(t.Context(), harness.JobKind, namespace, "runs")
		if err != nil {
			return err
		}
		if ready := harness.Field(job, "status", "ready"); ready != "1" {
			return fmt.Errorf("ready is %s", ready)
		}
		return nil
	})
}

func TestNodesFormATree(t *testing.T) {
	out := harness.Shared.Kubectl(t, "get", "nodes", "-o", `jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.topology\.sluice\.dev/block} {.metadata.labels.topology\.sluice\.dev/subblock}{"\n"}{end}`)
	for _, want := range []string{"node-0000 block-0 block-0-subblock-0\n", "node-0004 block-0 block-0-subblock-1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}

// TestNativeGangs sees the scheduler hold back the pods of a group until all of them are there.
func TestNativeGangs(t *testing.T) {
	c := harness.Shared
	namespace := c.Namespace(t)
	c.MustCreate(t, harness.Parsef(`
apiVersion: scheduling.k8s.io/v1beta1
kind: PodGroup
metadata: {name: gang, namespace: %s}
spec: {schedulingPolicy: {gang: {minCount: 2}}}
`, namespace))
	pod := func(name string) {
		c.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: %s}
spec: {schedulingGroup: {podGroupName: gang}, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}
`, name, namespace))
	}
	phase := func(name string) string {
		return c.Kubectl(t, "get", "pod", name, "--namespace", namespace, "-o", "jsonpath={.status.phase}")
	}
	pod("one")
	harness.Throughout(t, 5*time.Second, "the first pod waits for the second", func() error {
		if have := phase("one"); have != "Pending" {
			return fmt.Errorf("it is %s", have)
		}
		return nil
	})
	pod("two")
	harness.Eventually(t, "both run", func() error {
		if one, two := phase("one"), phase("two"); one != "Running" || two != "Running" {
			return fmt.Errorf("they are %s and %s", one, two)
		}
		return nil
	})
}

func TestUpTwiceChangesNothing(t *testing.T) {
	c := harness.Shared
	before, err := os.ReadFile(filepath.Join(c.Dir, "pid", "apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	if have := script(t, "up", "--dir", c.Dir, "--nodes", "5", "--native-gangs"); have != c.Kubeconfig {
		t.Errorf("the kubeconfig is %s, want %s", have, c.Kubeconfig)
	}
	after, err := os.ReadFile(filepath.Join(c.Dir, "pid", "apiserver"))
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Error("the API server is another one")
	}
}

func TestComponentsComeBack(t *testing.T) {
	c := harness.Shared
	for _, component := range []string{"etcd", "apiserver", "scheduler", "controller-manager", "kwok"} {
		c.Component(t, "restart", component, "--signal", "KILL")
	}
	harness.EventuallyWithin(t, 2*harness.Patience, "all are ready", func() error {
		if status := script(t, "status", "--dir", c.Dir); strings.Count(status, " ready") != 5 {
			return fmt.Errorf("they are\n%s", status)
		}
		return nil
	})
	namespace := c.Namespace(t)
	c.MustCreate(t, harness.Job{Name: "after", Namespace: namespace, RunSeconds: "0.1"}.Object())
	// Watches that broke off wait longer and longer before they try again.
	harness.EventuallyWithin(t, 2*harness.Patience, "a Job runs", func() error {
		job, err := c.Fetch(t.Context(), harness.JobKind, namespace, "after")
		if err == nil && harness.ConditionOf(job, "Complete").Status != "True" {
			err = harness.ErrNotYet
		}
		return err
	})
}

// TestDownSparesOthers: a pid that now belongs to somebody else is not killed.
func TestDownSparesOthers(t *testing.T) {
	stranger := exec.Command("sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"sluice-controlplane": "bin=/nowhere\nnative_gangs=no\naudit=no\n",
		"pid/apiserver":       strconv.Itoa(stranger.Process.Pid) + " 12345\n",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	script(t, "down", "--dir", dir)
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", stranger.Process.Pid))
	if err != nil || strings.Contains(string(state), ") Z ") {
		t.Errorf("the other process was ended: %s %v", state, err)
	}
}
