package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"
)

// Cluster is a running control plane and what was installed on it.
type Cluster struct {
	Options Options
	// Dir is the control plane's directory, Work that of this run's own files.
	Dir, Work string
	// Kubeconfig is the path of the administrator's kubeconfig.
	Kubeconfig string
	Config     *rest.Config
	Kube       kubernetes.Interface
	Dynamic    dynamic.Interface

	mapper *restmapper.DeferredDiscoveryRESTMapper
	bin    string
	owned  bool

	guard      *exec.Cmd
	guardInput io.WriteCloser

	service     *service
	visibility  *service
	mu          sync.Mutex
	controllers []*Controller
}

func (c *Cluster) connect() error {
	c.Kubeconfig = filepath.Join(c.Dir, "kubeconfig")
	state, err := os.ReadFile(filepath.Join(c.Dir, "sluice-controlplane"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(state)) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), "bin="); found {
			c.bin = value
		}
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	c.Config.QPS, c.Config.Burst = 1000, 2000
	// Deprecation warnings are expected where suites use v1beta1 on purpose.
	c.Config.WarningHandler = rest.NoWarnings{}
	if c.Kube, err = kubernetes.NewForConfig(c.Config); err != nil {
		return err
	}
	if c.Dynamic, err = dynamic.NewForConfig(c.Config); err != nil {
		return err
	}
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(
		memory.NewMemCacheClient(c.Kube.Discovery()))
	return nil
}

// Resource is the client of one kind; the namespace is ignored for cluster-scoped kinds.
func (c *Cluster) Resource(gvk schema.GroupVersionKind, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) {
		c.mapper.Reset()
		mapping, err = c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err != nil {
		return nil, err
	}
	client := c.Dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return client.Namespace(namespace), nil
	}
	return client, nil
}

// Kueue is the kind of that name in the storage version of kueue.x-k8s.io.
func Kueue(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta2", Kind: kind}
}

// Parse reads one object from YAML; it panics on bad input, which is a mistake in the test.
func Parse(text string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		panic(fmt.Sprintf("%v in:\n%s", err, text))
	}
	return object
}

// Parsef is Parse of a formatted text.
func Parsef(format string, arguments ...any) *unstructured.Unstructured {
	return Parse(fmt.Sprintf(format, arguments...))
}

// Create creates the object and returns what the server stored.
func (c *Cluster) Create(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	client, err := c.Resource(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		return nil, err
	}
	return client.Create(ctx, object, metav1.CreateOptions{})
}

// MustCreate creates the object and deletes it when the test ends.
func (c *Cluster) MustCreate(t testing.TB, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	created, err := c.Create(t.Context(), object)
	if err != nil {
		t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	t.Cleanup(func() { c.remove(created) })
	return created
}

// remove deletes in the background, without the test's context, which is over in a clean-up.
func (c *Cluster) remove(object *unstructured.Unstructured) {
	client, err := c.Resource(object.GroupVersionKind(), object.GetNamespace())
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	policy := metav1.DeletePropagationBackground
	_ = client.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &policy})
}

// Fetch reads an object.
func (c *Cluster) Fetch(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	client, err := c.Resource(gvk, namespace)
	if err != nil {
		return nil, err
	}
	return client.Get(ctx, name, metav1.GetOptions{})
}

// Get reads an object that has to be there.
func (c *Cluster) Get(t testing.TB, gvk schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := c.Fetch(t.Context(), gvk, namespace, name)
	if err != nil {
		t.Fatalf("get %s %s: %v", gvk.Kind, name, err)
	}
	return object
}

// List reads all objects of a kind in a namespace ("" for all namespaces).
func (c *Cluster) List(ctx context.Context, gvk schema.GroupVersionKind, namespace, selector string) ([]unstructured.Unstructured, error) {
	client, err := c.Resource(gvk, namespace)
	if err != nil {
		return nil, err
	}
	list, err := client.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// Patch applies a JSON merge patch to an object, or to one of its subresources.
func (c *Cluster) Patch(ctx context.Context, gvk schema.GroupVersionKind, namespace, name, patch string, subresource ...string) (*unstructured.Unstructured, error) {
	client, err := c.Resource(gvk, namespace)
	if err != nil {
		return nil, err
	}
	return client.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, subresource...)
}

// MustPatch is Patch that ends the test when it fails.
func (c *Cluster) MustPatch(t testing.TB, gvk schema.GroupVersionKind, namespace, name, patch string) {
	t.Helper()
	if _, err := c.Patch(t.Context(), gvk, namespace, name, patch); err != nil {
		t.Fatalf("patch %s %s: %v", gvk.Kind, name, err)
	}
}

// Change reads an object, changes it and writes it back, again after a conflict.
func (c *Cluster) Change(ctx context.Context, gvk schema.GroupVersionKind, namespace, name string, change func(*unstructured.Unstructured), subresource ...string) error {
	client, err := c.Resource(gvk, namespace)
	if err != nil {
		return err
	}
	for {
		object, err := client.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(object)
		_, err = client.Update(ctx, object, metav1.UpdateOptions{}, subresource...)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

// Delete deletes an object that has to be there.
func (c *Cluster) Delete(t testing.TB, gvk schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	client, err := c.Resource(gvk, namespace)
	if err == nil {
		policy := metav1.DeletePropagationBackground
		err = client.Delete(t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy})
	}
	if err != nil {
		t.Fatalf("delete %s %s: %v", gvk.Kind, name, err)
	}
}

// Name makes a name that no other test uses.
func Name(prefix string) string { return prefix + "-" + rand.String(6) }

// Namespace creates a namespace for the test.
func (c *Cluster) Namespace(t testing.TB, labels ...string) string {
	t.Helper()
	object := Parsef("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", Name("team"))
	if len(labels) > 0 {
		set := map[string]string{}
		for i := 0; i+1 < len(labels); i += 2 {
			set[labels[i]] = labels[i+1]
		}
		object.SetLabels(set)
	}
	return c.MustCreate(t, object).GetName()
}

// ErrNotYet is a reason to try again that needs no text.
var ErrNotYet = errors.New("not yet")

// Patience is how long Eventually waits when a test does not say: 90 s, or SLUICE_E2E_PATIENCE on a
// machine that is busy with other things.
var Patience = func() time.Duration {
	if patience, err := time.ParseDuration(os.Getenv("SLUICE_E2E_PATIENCE")); err == nil {
		return patience
	}
	return 90 * time.Second
}()

// Eventually repeats the check until it gives no error, and ends the test after Patience.
func Eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	EventuallyWithin(t, Patience, what, check)
}

// EventuallyWithin is Eventually with a deadline of its own.
func EventuallyWithin(t testing.TB, patience time.Duration, what string, check func() error) {
	t.Helper()
	if err := poll(t.Context(), patience, check); err != nil {
		t.Fatalf("%s: not within %s: %v", what, patience, err)
	}
}

// Throughout checks again and again for that long and ends the test at the first error.
func Throughout(t testing.TB, duration time.Duration, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if err := check(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		pause(t.Context(), 50*time.Millisecond)
	}
}

// NextSecond waits until what is made from now on has a later time than what is there. Times of the
// API have whole seconds, and what has the same one is ordered by UID or name.
func NextSecond(t testing.TB) {
	t.Helper()
	pause(t.Context(), 1100*time.Millisecond)
}

func poll(ctx context.Context, patience time.Duration, check func() error) error {
	wait := 10 * time.Millisecond
	for end := time.Now().Add(patience); ; {
		err := check()
		if err == nil {
			return nil
		}
		if time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		pause(ctx, wait)
		wait = min(2*wait, 200*time.Millisecond)
	}
}

func pause(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
