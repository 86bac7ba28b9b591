package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Names that follow from the release's name and namespace.
const (
	SystemNamespace    = "sluice-system"
	Release            = "sluice"
	ServiceAccount     = "sluice-controller-manager"
	ConfigMap          = "sluice-manager-config"
	CertificateSecret  = "sluice-webhook-server-cert"
	MutatingWebhooks   = "sluice-mutating-webhook-configuration"
	ValidatingWebhooks = "sluice-validating-webhook-configuration"
	LeaseName          = "c1f6bfd2.kueue.x-k8s.io"
)

// WithoutV1beta1 is the chart value that leaves the deprecated version out.
const WithoutV1beta1 = "crds.serveV1beta1=false"

// plainPods is a configuration that enables plain pods beside Jobs.
const plainPods = `
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health:
  healthProbeBindAddress: :8081
metrics:
  bindAddress: :8443
webhook:
  port: 9443
leaderElection:
  leaderElect: true
  resourceName: c1f6bfd2.kueue.x-k8s.io
integrations:
  frameworks:
  - batch/job
  - pod
`

// ChartPath is the directory of the chart.
func ChartPath() string { return filepath.Join(Root(), "charts", "sluice") }

// ChartValues are the arguments of helm for a controller that runs beside the API server.
func (c *Cluster) ChartValues() []string {
	values := []string{"--set", "controllerManager.replicas=0", "--set", "webhook.urlBase=" + c.service.url()}
	if c.Options.Visibility {
		values = append(values, "--set", "visibilityService.externalName=localhost",
			"--set", fmt.Sprintf("visibilityService.port=%d", c.visibility.port()))
	}
	for _, value := range c.Options.ChartValues {
		values = append(values, "--set", value)
	}
	return values
}

// InstallChart installs the chart, or upgrades what is there.
func (c *Cluster) InstallChart(more ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	arguments := []string{"upgrade", "--install", Release, ChartPath(),
		"--namespace", SystemNamespace, "--create-namespace"}
	arguments = append(arguments, c.ChartValues()...)
	if c.Options.PlainPods {
		file := filepath.Join(c.Work, "controller_manager_config.yaml")
		if err := os.WriteFile(file, []byte(plainPods), 0o600); err != nil {
			return err
		}
		arguments = append(arguments, "--set-file", "managerConfig.controllerManagerConfigYaml="+file)
	}
	arguments = append(arguments, more...)
	if _, err := c.Run(ctx, "", "helm", arguments...); err != nil {
		return err
	}
	_, err := c.Run(ctx, "", "kubectl", "wait", "--for=condition=Established", "--timeout=60s",
		"crd", "--selector", "app.kubernetes.io/instance="+Release)
	if err != nil {
		return err
	}
	c.mapper.Reset()
	return nil
}

// InstallWithController installs the chart on a cluster that was started without it, and starts a
// controller, unless one runs already.
func (c *Cluster) InstallWithController() error {
	for _, controller := range c.Controllers() {
		if controller.Running() {
			return nil
		}
	}
	if c.service == nil {
		if err := c.startService(); err != nil {
			return err
		}
	}
	if err := c.InstallChart(); err != nil {
		return err
	}
	_, err := c.StartController("0")
	return err
}

// HoldLease takes the controllers' lease for a long time, so that none of them leads.
func (c *Cluster) HoldLease() error {
	return c.setLease("somebody-else", 86400)
}

// ReleaseLease takes the lease from its holder, which must not be a running controller.
func (c *Cluster) ReleaseLease() error { return c.setLease("", 1) }

func (c *Cluster) setLease(holder string, seconds int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	lease := Parsef(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: %s, namespace: %s}
spec: {holderIdentity: %q, leaseDurationSeconds: %d, acquireTime: %q, renewTime: %q}
`, LeaseName, SystemNamespace, holder, seconds, now, now)
	_, err := c.Create(ctx, lease)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.Change(ctx, lease.GroupVersionKind(), SystemNamespace, LeaseName, func(object *unstructured.Unstructured) {
		object.Object["spec"] = lease.Object["spec"]
	})
}

// shippedConfiguration is the configuration file as the chart installed it.
func (c *Cluster) shippedConfiguration(ctx context.Context) (string, error) {
	config, err := c.Kube.CoreV1().ConfigMaps(SystemNamespace).Get(ctx, ConfigMap, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	text, found := config.Data["controller_manager_config.yaml"]
	if !found {
		return "", fmt.Errorf("ConfigMap %s has no key controller_manager_config.yaml", ConfigMap)
	}
	return text, nil
}
