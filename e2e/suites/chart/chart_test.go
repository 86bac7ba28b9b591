package chart

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

const namespace = harness.SystemNamespace

func render(t *testing.T, arguments ...string) (string, error) {
	t.Helper()
	return harness.Shared.Run(t.Context(), "", "helm",
		append([]string{"template", harness.Release, harness.ChartPath(), "--namespace", namespace}, arguments...)...)
}

func TestLint(t *testing.T) {
	out := harness.Shared.Helm(t, "lint", "--strict", harness.ChartPath())
	if strings.Contains(out, "[WARNING]") {
		t.Error(out)
	}
}

// TestTemplates renders the chart in its variants; kubectl checks that what comes out can be decoded.
func TestTemplates(t *testing.T) {
	for _, row := range []struct {
		name      string
		arguments []string
		want      []string
	}{
		{"as it is", nil, []string{"kind: Deployment", "- --shutdown-delay-duration=5s\n", "terminationGracePeriodSeconds: 30\n", "kind: CustomResourceDefinition", "name: sluice-webhook-service"}},
		{"without definitions", []string{"--set", "crds.enabled=false"}, []string{"kind: Deployment"}},
		{"without v1beta1", []string{"--set", "crds.serveV1beta1=false"}, []string{"name: v1beta1\n    schema:", "served: false\n    storage: false", "cohortName: sluice-test"}},
		{"cert-manager", []string{"--set", "enableCertManager=true"}, []string{"kind: Certificate", "cert-manager.io/inject-ca-from: sluice-system/sluice-serving-cert"}},
		{"Prometheus", []string{"--set", "enablePrometheus=true"}, []string{"kind: ServiceMonitor"}},
		{"disruption budget", []string{"--set", "controllerManager.podDisruptionBudget.enabled=true,controllerManager.replicas=2"}, []string{"kind: PodDisruptionBudget", "replicas: 2"}},
		{"gates", []string{"--set", "controllerManager.featureGates[0].name=PartialAdmission,controllerManager.featureGates[0].enabled=false"}, []string{"--feature-gates=PartialAdmission=false"}},
		{"priority", []string{"--set", "controllerManager.manager.priorityClassName=system-cluster-critical"}, []string{"priorityClassName: system-cluster-critical"}},
		{"outside of the cluster", []string{"--set", "controllerManager.replicas=0,webhook.urlBase=https://127.0.0.1:9443"}, []string{"url: https://127.0.0.1:9443/convert"}},
		{"visibility", nil, []string{"name: v1beta2.visibility.kueue.x-k8s.io", "name: v1beta1.visibility.kueue.x-k8s.io", "name: sluice-visibility-server\n", "name: sluice-visibility-server-auth-reader\n  namespace: kube-system"}},
		{"visibility from outside", []string{"--set", "controllerManager.replicas=0,webhook.urlBase=https://127.0.0.1:9443,visibilityService.externalName=localhost,visibilityService.port=9444"}, []string{"externalName: localhost", "port: 9444"}},
		{"priority of visibility", []string{"--set", "enableVisibilityAPF=true"}, []string{"kind: FlowSchema", "nominalConcurrencyShares: 10"}},
		{"another name", []string{"--set", "fullnameOverride=queues"}, []string{"name: queues-controller-manager", "name: queues-mutating-webhook-configuration", "webhookServiceName: queues-webhook-service"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := render(t, row.arguments...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range row.want {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing", want)
				}
			}
			// Kinds of other projects are unknown here.
			known := []string{}
			for _, document := range strings.Split(out, "\n---\n") {
				if !strings.Contains(document, "cert-manager.io/v1") && !strings.Contains(document, "monitoring.coreos.com/v1") {
					known = append(known, document)
				}
			}
			if _, err := harness.Shared.Run(t.Context(), strings.Join(known, "\n---\n"), "kubectl", "create", "--dry-run=client", "--validate=strict", "-f", "-"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestBadValuesAreRefused(t *testing.T) {
	for _, row := range []struct{ name, set, want string }{
		{"unknown value", "controllerManager.replica=2", "replica"},
		{"wrong type", "controllerManager.replicas=many", "replicas"},
		{"replicas without election", `controllerManager.replicas=2,managerConfig.controllerManagerConfigYaml=leaderElection: {leaderElect: false}`, "leaderElect"},
		{"priority of what is off", "enableVisibilityAPF=true,controllerManager.featureGates[0].name=VisibilityOnDemand,controllerManager.featureGates[0].enabled=false", "VisibilityOnDemand"},
		{"both sources of certificates", `enableCertManager=true,webhook.caBundle=eA==`, "exclude each other"},
		{"a grace that is too short", "controllerManager.terminationGracePeriodSeconds=5", "shutdownDelaySeconds"},
		{"what is not there yet", "enableKueueViz=true", "enableKueueViz"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := render(t, "--set", row.set)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("helm must refuse and say %q, but: %v", row.want, err)
			}
		})
	}
}

// TestLifeOfARelease is a user's way: install, upgrade, roll back, uninstall.
func TestLifeOfARelease(t *testing.T) {
	c := harness.Shared
	c.Helm(t, "install", harness.Release, olderChart(t), "--namespace", namespace, "--create-namespace", "--wait", "--timeout", "5m")
	out := c.Kubectl(t, "get", "deployment", "sluice-controller-manager", "--namespace", namespace, "-o", "jsonpath={.status.availableReplicas}")
	if out != "1" {
		t.Errorf("%q replicas are available", out)
	}
	definitions := func() []string {
		return strings.Fields(c.Kubectl(t, "get", "crd", "-o", "name"))
	}
	want := definitionsInChart(t)
	if have := len(definitions()); have != want {
		t.Errorf("%d definitions, the chart has %d", have, want)
	}

	t.Run("work goes on without a controller", func(t *testing.T) {
		// The pods of kwok answer nothing, so every webhook is down. The system's own namespaces and
		// Jobs of the controller's namespace must not notice.
		for _, where := range []string{"kube-system", namespace} {
			name := harness.Name("system")
			c.MustCreate(t, harness.Job{Name: name, Namespace: where, RunSeconds: "0.2"}.Object())
			c.ExpectFinished(t, where, name)
		}
		c.MustCreate(t, harness.Parsef("{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: default}, spec: {containers: [{name: c, image: i}]}}", harness.Name("pod")))
	})

	t.Run("upgrade", func(t *testing.T) {
		if have := shortNames(t); !strings.Contains(have, "former") {
			t.Fatalf("short names before the upgrade are %s", have)
		}
		c.Helm(t, "upgrade", harness.Release, harness.ChartPath(), "--namespace", namespace, "--wait", "--timeout", "5m",
			"--set", "controllerManager.replicas=2,controllerManager.manager.logLevel=4,controllerManager.podDisruptionBudget.enabled=true")
		if have := shortNames(t); strings.Contains(have, "former") || !strings.Contains(have, "topo") {
			t.Errorf("short names after the upgrade are %s", have)
		}
		harness.Eventually(t, "two replicas with the new arguments are available", func() error {
			have, err := c.Run(t.Context(), "", "kubectl", "get", "deployment", "sluice-controller-manager", "--namespace", namespace, "-o", "jsonpath={.status.availableReplicas} {.spec.template.spec.containers[0].args}")
			if err == nil && (!strings.HasPrefix(have, "2 ") || !strings.Contains(have, "--zap-log-level=4")) {
				err = fmt.Errorf("replicas and arguments are %s", have)
			}
			return err
		})
		c.Kubectl(t, "get", "poddisruptionbudget", "--namespace", namespace, "sluice-controller-manager")
	})

	t.Run("rollback", func(t *testing.T) {
		c.Helm(t, "rollback", harness.Release, "1", "--namespace", namespace, "--wait", "--timeout", "5m")
		if have := c.Kubectl(t, "get", "deployment", "sluice-controller-manager", "--namespace", namespace, "-o", "jsonpath={.spec.replicas}"); have != "1" {
			t.Errorf("%s replicas", have)
		}
	})

	t.Run("roles of users", func(t *testing.T) { checkRolesOfUsers(t) })

	checkUninstall(t, definitions)
}

// TestWithoutVisibility: with the gate off, or with no way to a controller outside, nothing is
// registered that would answer nothing.
func TestWithoutVisibility(t *testing.T) {
	for name, set := range map[string]string{
		"gate":    "controllerManager.featureGates[0].name=VisibilityOnDemand,controllerManager.featureGates[0].enabled=false",
		"outside": "controllerManager.replicas=0,webhook.urlBase=https://127.0.0.1:9443",
	} {
		out, err := render(t, "--set", set)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(out, "kind: APIService") {
			t.Errorf("%s: there is an APIService", name)
		}
	}
}

func definitionsInChart(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(harness.ChartPath(), "files", "crds", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has no definitions: %v", err)
	}
	return len(files)
}

// checkUninstall: the definitions, and with them everybody's objects, stay unless the user says so.
func checkUninstall(t *testing.T, definitions func() []string) {
	c := harness.Shared
	t.Run("uninstall keeps the definitions", func(t *testing.T) {
		c.Helm(t, "uninstall", harness.Release, "--namespace", namespace, "--wait", "--timeout", "5m")
		if have, want := len(definitions()), definitionsInChart(t); have != want {
			t.Errorf("%d definitions are left, the chart has %d", have, want)
		}
		left := c.Kubectl(t, "get", "deployments,services,configmaps,secrets,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,mutatingwebhookconfigurations,validatingwebhookconfigurations",
			"--all-namespaces", "--selector", "app.kubernetes.io/instance="+harness.Release, "-o", "name", "--ignore-not-found")
		if strings.TrimSpace(left) != "" {
			t.Errorf("these are left:\n%s", left)
		}
	})

	t.Run("uninstall takes the definitions away", func(t *testing.T) {
		c.Helm(t, "install", harness.Release, harness.ChartPath(), "--namespace", namespace, "--set", "crds.keep=false")
		// A definition that is deleted before the API server serves it was seen to stay for minutes.
		c.Kubectl(t, "wait", "crd", "--all", "--for=condition=Established", "--timeout=180s")
		c.Helm(t, "uninstall", harness.Release, "--namespace", namespace, "--wait", "--timeout", "5m")
		harness.Eventually(t, "the definitions go", func() error {
			if have := definitions(); len(have) > 0 {
				return fmt.Errorf("%v are left", have)
			}
			return nil
		})
	})
}

// olderChart is the chart with another definition of Topology, as a former version may have had.
func olderChart(t *testing.T) string {
	t.Helper()
	chart := filepath.Join(t.TempDir(), "sluice")
	if err := os.CopyFS(chart, os.DirFS(harness.ChartPath())); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(chart, "files", "crds", "kueue.x-k8s.io_topologies.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	former := strings.Replace(string(text), "- topo\n", "- former\n", 1)
	if former == string(text) {
		t.Fatal("the definition of Topology has no short name topo")
	}
	if err := os.WriteFile(path, []byte(former), 0o644); err != nil {
		t.Fatal(err)
	}
	return chart
}

func shortNames(t *testing.T) string {
	t.Helper()
	return harness.Shared.Kubectl(t, "get", "crd", "topologies.kueue.x-k8s.io", "-o", "jsonpath={.spec.names.shortNames}")
}

// checkRolesOfUsers asks the API server what holders of the built-in roles may do.
func checkRolesOfUsers(t *testing.T) {
	c := harness.Shared
	team := c.Namespace(t)
	for _, role := range []string{"view", "edit", "admin"} {
		c.Kubectl(t, "create", "rolebinding", role, "--clusterrole", role, "--user", "user-"+role, "--namespace", team)
	}
	c.Kubectl(t, "create", "clusterrolebinding", "batch-admins", "--clusterrole", "sluice-batch-admin-role", "--user", "batch-admin")
	c.Kubectl(t, "create", "rolebinding", "batch-users", "--clusterrole", "sluice-batch-user-role", "--user", "batch-user", "--namespace", team)
	for _, row := range []struct {
		user, verb, resource string
		want                 bool
	}{
		{"user-view", "get", "localqueues.kueue.x-k8s.io", true},
		{"user-view", "list", "workloads.kueue.x-k8s.io", true},
		{"user-view", "create", "localqueues.kueue.x-k8s.io", false},
		{"user-view", "delete", "workloads.kueue.x-k8s.io", false},
		{"user-edit", "watch", "workloads.kueue.x-k8s.io", true},
		{"user-admin", "get", "localqueues.kueue.x-k8s.io", true},
		{"batch-admin", "create", "localqueues.kueue.x-k8s.io", true},
		{"batch-admin", "update", "workloads.kueue.x-k8s.io", true},
		{"batch-admin", "create", "clusterqueues.kueue.x-k8s.io", true},
		{"batch-admin", "delete", "resourceflavors.kueue.x-k8s.io", true},
		{"batch-user", "get", "localqueues.kueue.x-k8s.io", true},
		{"batch-user", "create", "jobs.batch", true},
		{"batch-user", "create", "localqueues.kueue.x-k8s.io", false},
		{"batch-user", "update", "workloads.kueue.x-k8s.io", false},
		{"batch-user", "delete", "clusterqueues.kueue.x-k8s.io", false},
	} {
		harness.Eventually(t, fmt.Sprintf("%s may %s %s: %t", row.user, row.verb, row.resource, row.want), func() error {
			// kubectl ends with status 1 for "no".
			out, _ := c.Run(t.Context(), "", "kubectl", "auth", "can-i", row.verb, row.resource, "--as", row.user, "--namespace", team)
			if have := strings.HasPrefix(out, "yes"); have != row.want {
				return fmt.Errorf("the answer is %q", strings.TrimSpace(out))
			}
			return nil
		})
	}
}

// TestImage makes the root file system of the image and runs the controller in it, without a registry
// and without a container engine.
func TestImage(t *testing.T) {
	script := exec.Command(filepath.Join(harness.ChartPath(), "image", "rootfs.sh"), "--binary", harness.Binary(), filepath.Join(t.TempDir(), "rootfs"))
	out, err := script.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), "checked inside") {
		t.Error("the controller was not run inside")
	}
	recipe, err := os.ReadFile(filepath.Join(harness.ChartPath(), "image", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(recipe), "\nUSER 65532") {
		t.Error("the image runs as root")
	}
}

// TestUpgradeWhileItRuns upgrades under a controller that has put its authority into the webhooks.
func TestUpgradeWhileItRuns(t *testing.T) {
	c := harness.Shared
	installForController(t)
	for _, more := range [][]string{nil, {"--set", "webhook.timeoutSeconds=7"}, {"--server-side=false"}} {
		if err := c.InstallChart(more...); err != nil {
			t.Fatalf("with %v: %v", more, err)
		}
		harness.Eventually(t, "the webhooks still answer", func() error {
			_, err := c.Run(t.Context(), "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: probe}, spec: {}}",
				"kubectl", "create", "--dry-run=server", "-f", "-")
			return err
		})
	}
}

// TestHelmTest does what the pod of `helm test` does, with the rights it has.
func TestHelmTest(t *testing.T) {
	c := harness.Shared
	installForController(t)
	out, err := render(t, "--show-only", "templates/tests/test-webhook.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Run(t.Context(), out, "kubectl", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	objects := c.Kubectl(t, "get", "configmap", "sluice-test", "--namespace", namespace, "-o", "jsonpath={.data.objects\\.yaml}")
	harness.Eventually(t, "the test passes", func() error {
		_, err := c.Run(t.Context(), objects, "kubectl", "create", "--dry-run=server", "-f", "-",
			"--as", "system:serviceaccount:"+namespace+":sluice-test")
		return err
	})
}
