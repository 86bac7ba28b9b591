package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Options says what a suite needs.
type Options struct {
	// Suite names the directory of the run's files. Required.
	Suite string
	// Nodes is the number of fake nodes; 0 means 8.
	Nodes int
	// Patient keeps thousands of fake nodes from being lost because they report late.
	Patient bool
	// NativeGangs switches on the workload-aware scheduling of Kubernetes 1.37.
	NativeGangs bool
	// Visibility registers the aggregated API of the controllers.
	Visibility bool
	// Audit records what the controller asks of the API server.
	Audit bool
	// NoChart leaves the cluster empty: no CRDs, no webhooks, no controller.
	NoChart bool
	// ChartValues are set on top of those for a controller beside the API server: "name=value".
	ChartValues []string
	// NoController installs the chart and starts no controller.
	NoController bool
	// Follower keeps the controller from becoming the leader: it serves webhooks and changes nothing.
	Follower bool
	// PlainPods gives the chart a configuration file that enables plain pods beside Jobs: webhooks and
	// rights of pods depend on it too.
	PlainPods bool
	// Configure changes the controller's configuration file before it is written.
	Configure func(config map[string]any)
}

// Shared is the cluster of this test process, set by Main.
var Shared *Cluster

// Runner runs tests: *testing.M, or what a suite puts around it.
type Runner interface{ Run() int }

// Main is the body of a suite's TestMain: it brings the cluster up, runs the tests, and takes down
// what it started.
func Main(m Runner, options Options) {
	os.Exit(run(m, options))
}

func run(m Runner, options Options) int {
	cluster, err := Start(options)
	if cluster != nil {
		defer cluster.Close()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the cluster of suite %s does not come up: %v\n", options.Suite, err)
		return 1
	}
	Shared = cluster
	return m.Run()
}

// Root is the directory of the repository.
func Root() string {
	if root := os.Getenv("SLUICE_ROOT"); root != "" {
		return root
	}
	dir, err := os.Getwd()
	for err == nil && dir != "/" {
		if _, statErr := os.Stat(filepath.Join(dir, "e2e", "controlplane.sh")); statErr == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	panic("the working directory is not inside the repository; set SLUICE_ROOT")
}

// Start brings a cluster up. On an error the returned cluster, if any, still has to be closed.
func Start(options Options) (*Cluster, error) {
	if options.Nodes == 0 {
		options.Nodes = 8
	}
	work := filepath.Join(Root(), "build", "e2e", options.Suite)
	if err := os.RemoveAll(filepath.Join(work, "controller")); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	c := &Cluster{Options: options, Work: work, Dir: os.Getenv("SLUICE_E2E_DIR")}
	if c.Dir == "" {
		c.Dir = filepath.Join(work, "controlplane")
		c.owned = true
		if err := c.startControlPlane(); err != nil {
			return c, err
		}
	}
	if err := c.connect(); err != nil {
		return c, err
	}
	if options.NoChart {
		return c, nil
	}
	if err := c.startService(); err != nil {
		return c, err
	}
	if err := c.InstallChart(); err != nil {
		return c, err
	}
	if options.NoController {
		return c, nil
	}
	if options.Follower {
		if err := c.HoldLease(); err != nil {
			return c, err
		}
	}
	_, err := c.StartController("0")
	return c, err
}

func (c *Cluster) startControlPlane() error {
	// The rest of an earlier run would make tests depend on it.
	if err := c.script("down", "--dir", c.Dir, "--purge"); err != nil {
		return err
	}
	if err := c.startGuard(); err != nil {
		return err
	}
	arguments := []string{"up", "--dir", c.Dir, "--nodes", strconv.Itoa(c.Options.Nodes)}
	if c.Options.Patient {
		arguments = append(arguments, "--patient")
	}
	if c.Options.NativeGangs {
		arguments = append(arguments, "--native-gangs")
	}
	if c.Options.Audit {
		arguments = append(arguments, "--audit")
	}
	return c.script(arguments...)
}

// script runs controlplane.sh; what it prints goes to our stderr.
func (c *Cluster) script(arguments ...string) error {
	command := exec.Command(filepath.Join(Root(), "e2e", "controlplane.sh"), arguments...)
	command.Stderr = os.Stderr
	command.WaitDelay = 5 * time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	err := startOnFixedThread(command)
	if err == nil {
		err = command.Wait()
	}
	if err != nil {
		return fmt.Errorf("controlplane.sh %s: %w", strings.Join(arguments, " "), err)
	}
	return nil
}

// Component stops, starts or restarts one part of the control plane: apiserver, etcd, scheduler,
// controller-manager or kwok.
func (c *Cluster) Component(t testing.TB, verb, component string, arguments ...string) {
	t.Helper()
	arguments = append([]string{verb, "--dir", c.Dir, component}, arguments...)
	if err := c.script(arguments...); err != nil {
		t.Fatal(err)
	}
}

// StopComponent is Component("stop") outside of a test.
func (c *Cluster) StopComponent(component string) error {
	return c.script("stop", "--dir", c.Dir, component)
}

// Close ends the controllers and, if Start started it, the control plane.
func (c *Cluster) Close() {
	for _, controller := range c.Controllers() {
		controller.Kill()
	}
	c.service.close()
	c.visibility.close()
	if c.owned {
		if err := c.script("down", "--dir", c.Dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		c.dismissGuard()
	}
}

// Run runs one of the cluster's programs (kubectl, helm) as administrator and returns its output.
func (c *Cluster) Run(ctx context.Context, input, program string, arguments ...string) (string, error) {
	return c.run(ctx, input, filepath.Join(c.bin, program), arguments...)
}

// Shell runs lines of bash one after the other, as a user does who pastes them; kubectl and helm are
// those of the cluster.
func (c *Cluster) Shell(ctx context.Context, lines string) (string, error) {
	return c.run(ctx, lines, "bash")
}

func (c *Cluster) run(ctx context.Context, input, program string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, program, arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig,
		"PATH="+c.bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"HELM_CACHE_HOME="+filepath.Join(c.Work, "helm"),
		"HELM_CONFIG_HOME="+filepath.Join(c.Work, "helm"),
		"HELM_DATA_HOME="+filepath.Join(c.Work, "helm"))
	command.Dir = Root()
	if input != "" {
		command.Stdin = strings.NewReader(input)
	}
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s%s", filepath.Base(program),
			strings.Join(arguments, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

// Kubectl runs kubectl and ends the test when it fails.
func (c *Cluster) Kubectl(t testing.TB, arguments ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), "", "kubectl", arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Helm runs helm and ends the test when it fails.
func (c *Cluster) Helm(t testing.TB, arguments ...string) string {
	t.Helper()
	out, err := c.Run(t.Context(), "", "helm", arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
