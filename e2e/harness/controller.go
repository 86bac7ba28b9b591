package harness

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Controller is one replica: a process with its own ports, configuration and log.
type Controller struct {
	Name string
	// ConfigPath, Kubeconfig and LogPath are files in the run's directory.
	ConfigPath, Kubeconfig, LogPath string
	// WebhookAddress and the others are host:port.
	WebhookAddress, HealthAddress, MetricsAddress, VisibilityAddress string
	// Arguments are added to the command line at the next start.
	Arguments []string

	cluster *Cluster
	command *exec.Cmd
	ended   chan struct{}
	err     error
}

// Binary is the controller under test.
func Binary() string {
	if binary := os.Getenv("SLUICE_BIN"); binary != "" {
		return binary
	}
	return filepath.Join(Root(), "build", "release", "bin", "sluice-controller")
}

// freeAddress is a loopback address nobody listens on at the moment, outside of the range the
// kernel hands to clients, so that it stays free between two starts of a controller.
func freeAddress() (string, error) {
	for range 1000 {
		port := 13000 + int(time.Now().UnixNano()/1000)%7000
		address := fmt.Sprintf("127.0.0.1:%d", port)
		listener, err := net.Listen("tcp", address)
		if err == nil {
			listener.Close()
			return address, nil
		}
		time.Sleep(time.Millisecond)
	}
	return "", errors.New("no free port")
}

// NewController prepares a replica without starting it.
func (c *Cluster) NewController(name string) (*Controller, error) {
	dir := filepath.Join(c.Work, "controller")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	controller := &Controller{
		Name:       name,
		ConfigPath: filepath.Join(dir, name+".yaml"),
		Kubeconfig: filepath.Join(dir, name+".kubeconfig"),
		LogPath:    filepath.Join(dir, name+".log"),
		cluster:    c,
	}
	for _, address := range []*string{&controller.WebhookAddress, &controller.HealthAddress, &controller.MetricsAddress, &controller.VisibilityAddress} {
		free, err := freeAddress()
		if err != nil {
			return nil, err
		}
		*address = free
		time.Sleep(2 * time.Millisecond) // another port each time
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := controller.writeConfiguration(ctx); err != nil {
		return nil, err
	}
	if err := controller.writeKubeconfig(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.controllers = append(c.controllers, controller)
	c.mu.Unlock()
	return controller, nil
}

// StartController prepares a replica, starts it and waits until it serves its webhooks.
func (c *Cluster) StartController(name string) (*Controller, error) {
	controller, err := c.NewController(name)
	if err != nil {
		return nil, err
	}
	if err := controller.Start(); err != nil {
		return controller, err
	}
	return controller, c.WaitForWebhooks()
}

// Controllers are all replicas that were prepared, running or not.
func (c *Cluster) Controllers() []*Controller {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*Controller{}, c.controllers...)
}

// Controller is the first replica.
func (c *Cluster) Controller() *Controller { return c.Controllers()[0] }

func section(config map[string]any, name string) map[string]any {
	part, ok := config[name].(map[string]any)
	if !ok {
		part = map[string]any{}
		config[name] = part
	}
	return part
}

// writeConfiguration takes the file that the chart ships and changes only the addresses, the times of
// the lease, and what the suite asks for.
func (p *Controller) writeConfiguration(ctx context.Context) error {
	text, err := p.cluster.shippedConfiguration(ctx)
	if err != nil {
		return err
	}
	config := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &config); err != nil {
		return fmt.Errorf("configuration of the chart: %w", err)
	}
	host, port, _ := net.SplitHostPort(p.WebhookAddress)
	var number int
	fmt.Sscan(port, &number)
	webhook := section(config, "webhook")
	webhook["host"], webhook["port"] = host, number
	host, port, _ = net.SplitHostPort(p.VisibilityAddress)
	var visibilityPort int
	fmt.Sscan(port, &visibilityPort)
	visibility := section(config, "visibilityServer")
	visibility["bindAddress"], visibility["bindPort"] = host, visibilityPort
	section(config, "metrics")["bindAddress"] = p.MetricsAddress
	section(config, "health")["healthProbeBindAddress"] = p.HealthAddress
	// Nobody is there to start a controller again that has lost its lease on a slow machine.
	election := section(config, "leaderElection")
	election["resourceNamespace"] = SystemNamespace
	election["leaseDuration"], election["renewDeadline"], election["retryPeriod"] = "60s", "50s", "2s"
	if p.cluster.Options.Configure != nil {
		p.cluster.Options.Configure(config)
	}
	return p.SetConfiguration(config)
}

// SetConfiguration replaces the configuration file for the next start.
func (p *Controller) SetConfiguration(config map[string]any) error {
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(p.ConfigPath, text, 0o644)
}

// Configuration reads the configuration file.
func (p *Controller) Configuration() (map[string]any, error) {
	text, err := os.ReadFile(p.ConfigPath)
	if err != nil {
		return nil, err
	}
	config := map[string]any{}
	return config, yaml.Unmarshal(text, &config)
}

// writeKubeconfig gives the controller the rights of the chart's service account and no more.
func (p *Controller) writeKubeconfig(ctx context.Context) error {
	seconds := int64(24 * 3600)
	token, err := p.cluster.Kube.CoreV1().ServiceAccounts(SystemNamespace).CreateToken(ctx, ServiceAccount,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}},
		metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("token of service account %s: %w", ServiceAccount, err)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: e2e
  cluster: {server: %q, certificate-authority-data: %s}
users:
- name: controller
  user: {token: %s}
contexts:
- name: e2e
  context: {cluster: e2e, user: controller, namespace: %s}
current-context: e2e
`, p.cluster.Config.Host, base64.StdEncoding.EncodeToString(p.cluster.Config.CAData),
		token.Status.Token, SystemNamespace)
	return os.WriteFile(p.Kubeconfig, []byte(text), 0o600)
}

// Launch starts the process and does not wait for anything.
func (p *Controller) Launch() error {
	log, err := os.OpenFile(p.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	fmt.Fprintf(log, "---- started %s\n", time.Now().UTC().Format(time.RFC3339Nano))
	arguments := append([]string{"--config", p.ConfigPath, "--kubeconfig", p.Kubeconfig}, p.Arguments...)
	p.command = exec.Command(Binary(), arguments...)
	p.command.Stdout, p.command.Stderr = log, log
	p.command.Env = append(os.Environ(), "POD_NAMESPACE="+SystemNamespace,
		"POD_NAME="+p.PodName(), "WEBHOOK_CONFIGURATION_PREFIX="+Release)
	// The controller must not outlive a test that is killed.
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.ended = make(chan struct{})
	if err := startOnFixedThread(p.command); err != nil {
		close(p.ended)
		return err
	}
	go func(command *exec.Cmd, ended chan struct{}) {
		p.err = command.Wait()
		close(ended)
	}(p.command, p.ended)
	p.cluster.service.add(p.WebhookAddress)
	p.cluster.visibility.add(p.VisibilityAddress)
	return nil
}

// Start launches the process and waits until it is ready.
func (p *Controller) Start() error {
	if err := p.Launch(); err != nil {
		return err
	}
	return p.WaitReady(2 * Patience)
}

// WaitReady waits for /readyz.
func (p *Controller) WaitReady(patience time.Duration) error {
	err := poll(context.Background(), patience, func() error {
		if !p.Running() {
			return nil // told below
		}
		status, body, err := p.Probe("/readyz")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("/readyz: %d %s", status, body)
		}
		return err
	})
	if !p.Running() {
		err = fmt.Errorf("the controller ended: %v", p.err)
	}
	if err != nil {
		return fmt.Errorf("replica %s: %w; the end of %s:\n%s", p.Name, err, p.LogPath, p.LogTail(25))
	}
	return nil
}

// Probe asks one of the health paths.
func (p *Controller) Probe(path string) (int, string, error) {
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Get("http://" + p.HealthAddress + path)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSpace(string(body)), err
}

// Running tells whether the process lives.
func (p *Controller) Running() bool {
	if p.ended == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process as a crash would, and waits until it is gone.
func (p *Controller) Kill() {
	if !p.Running() {
		return
	}
	_ = p.command.Process.Kill()
	<-p.ended
	p.cluster.service.remove(p.WebhookAddress)
	p.cluster.visibility.remove(p.VisibilityAddress)
}

// Restart ends the process in order, starts it again and waits until it leads.
func (p *Controller) Restart(t testing.TB) {
	t.Helper()
	if code, err := p.Stop(Patience); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "it leads", func() error {
		if !p.Leading() {
			return ErrNotYet
		}
		return nil
	})
}

// Stop asks the process to end and returns its exit code; it is an error if it does not end.
func (p *Controller) Stop(patience time.Duration) (int, error) {
	if !p.Running() {
		return p.ExitCode(), nil
	}
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.Kill()
		return -1, fmt.Errorf("replica %s did not end within %s of SIGTERM", p.Name, patience)
	}
	p.cluster.service.remove(p.WebhookAddress)
	p.cluster.visibility.remove(p.VisibilityAddress)
	return p.ExitCode(), nil
}

// Terminate asks the process to end and does not wait for it.
func (p *Controller) Terminate() error { return p.command.Process.Signal(syscall.SIGTERM) }

// ExitCode is that of the last process; -1 if a signal ended it.
func (p *Controller) ExitCode() int { return p.command.ProcessState.ExitCode() }

// Wait waits until the process ends by itself.
func (p *Controller) Wait(patience time.Duration) error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(patience):
		return fmt.Errorf("replica %s still runs after %s", p.Name, patience)
	}
}

// Leading tells whether the running process has said that it leads. The lease's holder is a random
// name, which does not tell one process on this machine from another.
func (p *Controller) Leading() bool {
	log := p.Log()
	log = log[strings.LastIndex(log, "---- started ")+1:]
	gained := strings.LastIndex(log, "leading")
	lost := strings.LastIndex(log, "not leading")
	return p.Running() && gained >= 0 && (lost < 0 || gained > lost+len("not leading"))
}

// PodName is the name that the replica would have as a pod.
func (p *Controller) PodName() string { return "sluice-controller-manager-" + p.Name }

// Pid is the process's id.
func (p *Controller) Pid() int { return p.command.Process.Pid }

// Log is everything the replica wrote, over all its starts.
func (p *Controller) Log() string {
	text, _ := os.ReadFile(p.LogPath)
	return string(text)
}

// LogTail is the last lines of the log.
func (p *Controller) LogTail(lines int) string {
	all := strings.Split(strings.TrimSpace(p.Log()), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// WaitForWebhooks asks the API server for something that only a working webhook can answer.
func (c *Cluster) WaitForWebhooks() error {
	err := poll(context.Background(), 2*Patience, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		versions := []string{"v1beta2", "v1beta1"}
		if slices.Contains(c.Options.ChartValues, WithoutV1beta1) {
			versions = versions[:1]
		}
		for _, version := range versions {
			object := Parsef("{apiVersion: kueue.x-k8s.io/%s, kind: ClusterQueue, metadata: {name: webhook-probe}, spec: {}}", version)
			client, err := c.Resource(object.GroupVersionKind(), "")
			if err != nil {
				return err
			}
			if _, err := client.Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("the webhooks do not answer: %w; the end of the log:\n%s", err, c.Controller().LogTail(25))
	}
	return nil
}
