// Package start gives the controller bad input at its start: it ends with exit code 2 and one clear
// line that names what is wrong.
package start

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "start", Nodes: 1, NoController: true})
}

type outcome struct {
	code           int
	stdout, stderr string
}

// run starts the controller, which has to end by itself.
func run(t *testing.T, environment []string, arguments ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, harness.Binary(), arguments...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "POD_NAMESPACE=" + harness.SystemNamespace}, environment...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	if ctx.Err() != nil {
		t.Fatalf("it did not end; it wrote:\n%s%s", stdout.String(), stderr.String())
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expectMistake wants exit code 2 and, on stderr, one line of complaint with these words.
func expectMistake(t *testing.T, have outcome, words ...string) {
	t.Helper()
	if have.code != 2 {
		t.Errorf("exit code %d, want 2; it wrote:\n%s%s", have.code, have.stdout, have.stderr)
	}
	lines := strings.Split(strings.TrimSpace(have.stderr), "\n")
	complaint := lines[len(lines)-1]
	for _, word := range words {
		if !strings.Contains(complaint, word) {
			t.Errorf("the last line does not say %q: %s", word, complaint)
		}
	}
}

const head = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"

func TestConfiguration(t *testing.T) {
	for _, row := range []struct {
		name, text string
		words      []string
	}{
		{"unknown field", head + "webhook: {porto: 9443}", []string{"webhook.porto"}},
		{"unknown field in the other case", head + "webhook: {Port: 9443}", []string{"webhook.Port"}},
		{"key twice", head + "webhook: {port: 1}\nwebhook: {port: 2}", []string{"webhook"}},
		{"wrong type", head + "webhook: {port: many}", []string{"webhook.port"}},
		{"duration without a unit", head + `waitForPodsReady: {timeout: "5"}`, []string{"waitForPodsReady.timeout"}},
		{"negative duration", head + "waitForPodsReady: {timeout: -5m}", []string{"waitForPodsReady.timeout"}},
		{"unknown version", "apiVersion: config.kueue.x-k8s.io/v1\nkind: Configuration", []string{"v1"}},
		{"unknown kind", "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Settings", []string{"Settings"}},
		{"field of the other version", "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\nwaitForPodsReady: {enabled: true}\nresources: {quotaCheckStrategy: [1]}", []string{"resources.quotaCheckStrategy"}},
		{"no YAML", "{", nil},
		{"unknown framework", head + "integrations: {frameworks: [batch/jab]}", []string{"integrations.frameworks[0]", "batch/jab"}},
		{"selector that matches kube-system", head + "managedJobsNamespaceSelector: {}", []string{"managedJobsNamespaceSelector"}},
		{"selector with a bad operator", head + "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: Near}]}", []string{"managedJobsNamespaceSelector.matchExpressions[0].operator"}},
		{"unknown gate", head + "featureGates: {NoSuchGate: true}", []string{"featureGates", "NoSuchGate"}},
		{"cipher suites with TLS 1.3", head + "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256]}", []string{"tls.cipherSuites"}},
		{"old TLS", head + "tls: {minVersion: VersionTLS11}", []string{"tls"}},
		{"what is not there yet", head + "multiKueue: {origin: here}", []string{"multiKueue.origin"}},
		{"integration that is not there yet", head + "integrations: {frameworks: [batch/job, ray.io/rayjob]}", []string{"integrations.frameworks[1]", "ray.io/rayjob"}},
		{"no lease longer than the deadline", head + "leaderElection: {leaderElect: true, resourceNamespace: sluice-system, leaseDuration: 5s, renewDeadline: 10s}", []string{"lease"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			expectMistake(t, run(t, nil, "--config", write(t, "config.yaml", row.text), "--kubeconfig", harness.Shared.Kubeconfig), row.words...)
		})
	}
	t.Run("missing file", func(t *testing.T) {
		expectMistake(t, run(t, nil, "--config", "/nowhere/config.yaml", "--kubeconfig", harness.Shared.Kubeconfig), "/nowhere/config.yaml")
	})
	t.Run("gates twice", func(t *testing.T) {
		path := write(t, "config.yaml", head+"featureGates: {PartialAdmission: true}")
		expectMistake(t, run(t, nil, "--config", path, "--feature-gates", "PartialAdmission=true", "--kubeconfig", harness.Shared.Kubeconfig), "featureGates")
	})
}

func TestKubeconfig(t *testing.T) {
	good, err := os.ReadFile(harness.Shared.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config := write(t, "config.yaml", head+"leaderElection: {leaderElect: false}\nwebhook: {host: 127.0.0.1}\n")
	for _, row := range []struct {
		name, text string
		words      []string
	}{
		{"no YAML", "{", nil},
		{"no context", "apiVersion: v1\nkind: Config\n", nil},
		{"unknown context", strings.Replace(string(good), "current-context: sluice-e2e", "current-context: elsewhere", 1), []string{"elsewhere"}},
		{"authority that is no certificate", strings.Replace(string(good), "certificate-authority-data: ", "certificate-authority-data: bm9uZQ==\n    x: ", 1), []string{"certificate"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			expectMistake(t, run(t, nil, "--config", config, "--kubeconfig", write(t, "kubeconfig", row.text)), row.words...)
		})
	}
	t.Run("missing file", func(t *testing.T) {
		expectMistake(t, run(t, nil, "--config", config, "--kubeconfig", "/nowhere/kubeconfig"), "/nowhere/kubeconfig")
	})
}

func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	config := write(t, "config.yaml", head+"leaderElection: {leaderElect: false}\ninternalCertManagement: {enable: false}\nwebhook: {host: 127.0.0.1, certDir: "+dir+"}\n")
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("this is no PEM"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expectMistake(t, run(t, nil, "--config", config, "--kubeconfig", harness.Shared.Kubeconfig), dir)
}

func TestFlags(t *testing.T) {
	for _, row := range []struct {
		name      string
		arguments []string
		words     []string
	}{
		{"unknown flag", []string{"--configs", "x"}, []string{"--configs"}},
		{"bad gate", []string{"--feature-gates", "PartialAdmission"}, []string{"PartialAdmission"}},
		{"unknown gate", []string{"--feature-gates", "NoSuchGate=true"}, []string{"NoSuchGate"}},
		{"bad level", []string{"--zap-log-level", "loud"}, []string{"loud"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			expectMistake(t, run(t, nil, append(row.arguments, "--kubeconfig", harness.Shared.Kubeconfig)...), row.words...)
		})
	}
	t.Run("version", func(t *testing.T) {
		have := run(t, nil, "--version")
		if have.code != 0 || strings.TrimSpace(have.stdout) == "" {
			t.Errorf("exit code %d, output %q", have.code, have.stdout)
		}
	})
	t.Run("help", func(t *testing.T) {
		have := run(t, nil, "--help")
		for _, flag := range []string{"--config", "--kubeconfig", "--feature-gates", "--zap-log-level", "--record"} {
			if have.code != 0 || !strings.Contains(have.stdout, flag) {
				t.Errorf("exit code %d, %s is missing in %q", have.code, flag, have.stdout)
			}
		}
	})
}
