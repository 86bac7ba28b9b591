// Package visibility checks the aggregated API of the queues through a real API server: discovery,
// positions, rights, and what happens when the controller is away.
package visibility

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"sluice.dev/e2e/harness"
)

const group = "/apis/visibility.kueue.x-k8s.io/"

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "visibility", Nodes: 8, Visibility: true})
}

var apiService = schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}

// available waits until the API server reaches the controller.
func available(t *testing.T) {
	t.Helper()
	for _, version := range []string{"v1beta2", "v1beta1"} {
		harness.Shared.ExpectCondition(t, apiService, "", version+".visibility.kueue.x-k8s.io", "Available", "True", "Passed")
	}
}

type summary struct {
	Kind, APIVersion string
	Items            []struct {
		Metadata               metav1.ObjectMeta
		Priority               int32
		LocalQueueName         string
		PositionInClusterQueue int32
		PositionInLocalQueue   int32
	}
}

// ask reads a path below the group as that client.
func ask(ctx context.Context, client kubernetes.Interface, path string) (summary, error) {
	var result summary
	path, query, _ := strings.Cut(path, "?")
	request := client.Discovery().RESTClient().Get().AbsPath(group + path)
	for _, pair := range strings.Split(query, "&") {
		if name, value, found := strings.Cut(pair, "="); found {
			request.Param(name, value)
		}
	}
	text, err := request.DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	return result, err
}

// positions are lines "JOB CLUSTER LOCAL" in the order of the answer.
func (s summary) positions() string {
	lines := []string{}
	for _, item := range s.Items {
		owner := "-"
		if len(item.Metadata.OwnerReferences) == 1 {
			owner = item.Metadata.OwnerReferences[0].Name
		}
		lines = append(lines, fmt.Sprintf("%s %d %d", owner, item.PositionInClusterQueue, item.PositionInLocalQueue))
	}
	return strings.Join(lines, "; ")
}

func expect(t *testing.T, path, want string) {
	t.Helper()
	harness.Eventually(t, path, func() error {
		have, err := ask(t.Context(), harness.Shared.Kube, path)
		if err != nil {
			return err
		}
		if have.positions() != want {
			return fmt.Errorf("%q, want %q", have.positions(), want)
		}
		return nil
	})
}

func TestPositions(t *testing.T) {
	c := harness.Shared
	available(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	second := q
	second.Namespace, second.Local = c.Namespace(t), "other"
	c.MustCreate(t, harness.LocalQueue(second.Namespace, second.Local, q.Cluster))
	running := c.Submit(t, q, harness.Job{CPU: "1"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	names := []string{}
	for i, queue := range []harness.Queue{q, second, q, q} {
		name := c.Submit(t, queue, harness.Job{CPU: "1"})
		c.ExpectWorkload(t, queue.Namespace, name, "QuotaReserved", "False", "WaitingForQuota")
		names = append(names, name)
		if i < 3 {
			harness.NextSecond(t)
		}
	}
	all := fmt.Sprintf("%s 0 0; %s 1 0; %s 2 1; %s 3 2", names[0], names[1], names[2], names[3])
	cq := "/clusterqueues/" + q.Cluster + "/pendingworkloads"
	lq := "/namespaces/" + q.Namespace + "/localqueues/" + q.Local + "/pendingworkloads"
	for _, version := range []string{"v1beta2", "v1beta1"} {
		expect(t, version+cq, all)
		expect(t, version+cq+"?offset=1&limit=2", fmt.Sprintf("%s 1 0; %s 2 1", names[1], names[2]))
		expect(t, version+lq, fmt.Sprintf("%s 0 0; %s 2 1; %s 3 2", names[0], names[2], names[3]))
		expect(t, version+lq+"?offset=1&limit=1", fmt.Sprintf("%s 2 1", names[2]))
		expect(t, version+"/namespaces/"+second.Namespace+"/localqueues/other/pendingworkloads", names[1]+" 1 0")
	}
	have, err := ask(t.Context(), c.Kube, "v1beta2"+cq)
	if err != nil {
		t.Fatal(err)
	}
	if have.Kind != "PendingWorkloadsSummary" || have.APIVersion != "visibility.kueue.x-k8s.io/v1beta2" || len(have.Items) != 4 || have.Items[0].LocalQueueName != q.Local {
		t.Errorf("the answer is %+v", have)
	}
	for path, check := range map[string]func(error) bool{
		"v1beta2/clusterqueues/none/pendingworkloads": apierrors.IsNotFound,
		"v1beta2/clusterqueues":                       apierrors.IsNotFound,
		"v1beta2" + cq + "?limit=many":                apierrors.IsBadRequest,
	} {
		if _, err := ask(t.Context(), c.Kube, path); !check(err) {
			t.Errorf("%s: %v", path, err)
		}
	}
	// One starts, the others move up.
	c.Delete(t, harness.JobKind, q.Namespace, running)
	c.ExpectSuspended(t, q.Namespace, names[0], false)
	expect(t, "v1beta2"+cq, fmt.Sprintf("%s 0 0; %s 1 0; %s 2 1", names[1], names[2], names[3]))
}

// TestKubectl uses the API as people do.
func TestKubectl(t *testing.T) {
	c := harness.Shared
	available(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	out := c.Kubectl(t, "get", "--raw", group+"v1beta2/clusterqueues/"+q.Cluster+"/pendingworkloads")
	if !strings.Contains(out, `"items":[]`) {
		t.Errorf("kubectl get --raw: %s", out)
	}
	// The word clusterqueues still means the objects that can be read and written.
	if out := c.Kubectl(t, "get", "clusterqueues", q.Cluster, "-o", "name"); !strings.Contains(out, "clusterqueue.kueue.x-k8s.io/") {
		t.Errorf("kubectl get clusterqueues: %s", out)
	}
	if out := c.Kubectl(t, "api-versions"); !strings.Contains(out, "visibility.kueue.x-k8s.io/v1beta1") {
		t.Errorf("kubectl api-versions: %s", out)
	}
	_, resources, err := c.Kube.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, list := range resources {
		if strings.HasPrefix(list.GroupVersion, "visibility.kueue.x-k8s.io/") {
			for _, resource := range list.APIResources {
				if strings.HasSuffix(resource.Name, "/pendingworkloads") && slices.Equal(resource.Verbs, []string{"get"}) {
					found++
				}
			}
		}
	}
	if found != 4 {
		t.Errorf("discovery knows %d subresources, want 4", found)
	}
	harness.Eventually(t, "OpenAPI of the group", func() error {
		paths, err := c.Kube.Discovery().OpenAPIV3().Paths()
		if err != nil {
			return err
		}
		document, found := paths["apis/visibility.kueue.x-k8s.io/v1beta2"]
		if !found {
			return harness.ErrNotYet
		}
		text, err := document.Schema("application/json")
		if err == nil && !strings.Contains(string(text), "PendingWorkloadsSummary") {
			err = fmt.Errorf("the document is %.200s", text)
		}
		return err
	})
	harness.EventuallyWithin(t, 2*time.Minute, "the merged OpenAPI", func() error {
		text, err := c.Kube.Discovery().RESTClient().Get().AbsPath("/openapi/v2").
			SetHeader("Accept", "application/json").DoRaw(t.Context())
		if err == nil && !strings.Contains(string(text), "PendingWorkloadsSummary") {
			err = harness.ErrNotYet
		}
		return err
	})
}

// as is the administrator's client in the name of somebody else.
func as(t *testing.T, user string, groups ...string) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(harness.Shared.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestRights(t *testing.T) {
	c := harness.Shared
	available(t)
	q := c.NewQueue(t, harness.QueueOptions{})
	cq := "v1beta2/clusterqueues/" + q.Cluster + "/pendingworkloads"
	lq := "v1beta2/namespaces/" + q.Namespace + "/localqueues/" + q.Local + "/pendingworkloads"
	user := harness.Name("user")
	client := as(t, user)
	for _, path := range []string{cq, lq} {
		if _, err := ask(t.Context(), client, path); !apierrors.IsForbidden(err) {
			t.Errorf("%s without rights: %v", path, err)
		}
	}
	c.MustCreate(t, harness.Parsef(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: sees-queue, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %s}]
`, q.Namespace, user))
	// Refusals are remembered for some seconds.
	harness.Eventually(t, "a viewer of the namespace sees its queue", func() error {
		_, err := ask(t.Context(), client, lq)
		return err
	})
	if _, err := ask(t.Context(), client, cq); !apierrors.IsForbidden(err) {
		t.Errorf("a viewer of one namespace reads the ClusterQueue: %v", err)
	}
	c.MustCreate(t, harness.Parsef(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: sluice-batch-admin-role}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: admins-of-%s}]
`, harness.Name("admins"), user))
	admin := as(t, harness.Name("admin"), "admins-of-"+user)
	harness.Eventually(t, "a batch administrator sees the ClusterQueue", func() error {
		_, err := ask(t.Context(), admin, cq)
		return err
	})
	anonymous := rest.AnonymousClientConfig(c.Config)
	nobody, err := kubernetes.NewForConfig(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask(t.Context(), nobody, cq); !apierrors.IsForbidden(err) && !apierrors.IsUnauthorized(err) {
		t.Errorf("anonymous: %v", err)
	}
}

// TestSpoofedHeaders goes around the API server: the controller believes nobody but the front proxy.
func TestSpoofedHeaders(t *testing.T) {
	c := harness.Shared
	available(t)
	config := rest.AnonymousClientConfig(c.Config)
	config.Host = "https://" + c.Controller().VisibilityAddress
	config.TLSClientConfig = rest.TLSClientConfig{Insecure: true}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	path := group + "v1beta2/clusterqueues/none/pendingworkloads"
	_, err = client.Discovery().RESTClient().Get().AbsPath(path).
		SetHeader("X-Remote-User", "admin").SetHeader("X-Remote-Group", "system:masters").DoRaw(t.Context())
	if !apierrors.IsForbidden(err) {
		t.Errorf("headers without the front proxy's certificate: %v", err)
	}
	config.BearerToken = "nonsense"
	if client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Discovery().RESTClient().Get().AbsPath(path).DoRaw(t.Context()); !apierrors.IsUnauthorized(err) {
		t.Errorf("a token that is none: %v", err)
	}
	if text, err := client.Discovery().RESTClient().Get().AbsPath("/livez").DoRaw(t.Context()); err != nil || string(text) != "ok" {
		t.Errorf("/livez: %s, %v", text, err)
	}
}

// kill ends the controller at once; the next one may lead without waiting for the end of the lease.
func kill(t *testing.T) {
	t.Helper()
	harness.Shared.Controller().Kill()
	if err := harness.Shared.ReleaseLease(); err != nil {
		t.Fatal(err)
	}
}

// TestAway: without a controller the API says so, and comes back with it.
func TestAway(t *testing.T) {
	c := harness.Shared
	available(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "1"})
	running := c.Submit(t, q, harness.Job{CPU: "1"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	waiting := c.Submit(t, q, harness.Job{CPU: "1"})
	path := "v1beta2/clusterqueues/" + q.Cluster + "/pendingworkloads"
	expect(t, path, waiting+" 0 0")
	kill(t)
	if _, err := ask(t.Context(), c.Kube, path); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("without a controller: %v", err)
	}
	if err := c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	expect(t, path, waiting+" 0 0")
	available(t)
}

// TestNamespaceWhileAway: what Kubernetes does with every aggregated API that does not answer. The
// namespace is emptied, but goes only when the API is back (or its APIServices are removed, as at the
// chart's end).
func TestNamespaceWhileAway(t *testing.T) {
	c := harness.Shared
	available(t)
	kill(t)
	for _, version := range []string{"v1beta2", "v1beta1"} {
		harness.EventuallyWithin(t, 2*time.Minute, version+" is not available", func() error {
			object, err := c.Fetch(t.Context(), apiService, "", version+".visibility.kueue.x-k8s.io")
			if err == nil && harness.ConditionOf(object, "Available").Status != "False" {
				err = harness.ErrNotYet
			}
			return err
		})
	}
	name := harness.Name("ns")
	kind := schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}
	c.MustCreate(t, harness.Parsef("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name))
	c.MustCreate(t, harness.Parsef("{apiVersion: v1, kind: ConfigMap, metadata: {name: some, namespace: %s}}", name))
	if err := c.Kube.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.ExpectCondition(t, kind, "", name, "NamespaceDeletionDiscoveryFailure", "True", "DiscoveryFailed")
	harness.Eventually(t, "the namespace is emptied", func() error {
		_, err := c.Kube.CoreV1().ConfigMaps(name).Get(t.Context(), "some", metav1.GetOptions{})
		if err == nil {
			return harness.ErrNotYet
		}
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err := c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	available(t)
	harness.EventuallyWithin(t, 3*time.Minute, "the namespace is gone", func() error {
		_, err := c.Kube.CoreV1().Namespaces().Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			err = harness.ErrNotYet
		}
		return err
	})
}

// job is a Job as text, for questions about it.
func job(q harness.Queue, cpu string) string {
	return fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "Job",
"metadata": {"name": "asked", "namespace": %q, "labels": {"kueue.x-k8s.io/queue-name": %q}},
"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i",
"resources": {"requests": {"cpu": %q}}}]}}}}`, q.Namespace, q.Local, cpu)
}

// TestWhatIf asks the controller about Jobs that do not exist, while others run.
func TestWhatIf(t *testing.T) {
	c := harness.Shared
	available(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "3"})
	running := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	path := group + "v1beta2/clusterqueues/" + q.Cluster + "/whatif"
	question := func(body string) (map[string]any, error) {
		text, err := c.Kube.Discovery().RESTClient().Post().AbsPath(path).
			SetHeader("Content-Type", "application/json").Body([]byte(body)).DoRaw(t.Context())
		answer := map[string]any{}
		if err == nil {
			err = json.Unmarshal(text, &answer)
		}
		status, _ := answer["status"].(map[string]any)
		return status, err
	}
	harness.Eventually(t, "one that fits", func() error {
		status, err := question(job(q, "1"))
		if err == nil && status["admitted"] != true {
			err = fmt.Errorf("the answer is %v", status)
		}
		return err
	})
	status, err := question(job(q, "2"))
	if err != nil || status["admitted"] != false || !strings.Contains(fmt.Sprint(status["explanation"]), "WaitingForQuota") {
		t.Errorf("one that does not fit: %v, %v", status, err)
	}
	// The Job that runs has no bound.
	if have := fmt.Sprint(status["forecast"]); !strings.Contains(have, "nothing tells when they end") || !strings.Contains(have, "assumption") {
		t.Errorf("the forecast of one that does not fit is %s", have)
	}
	if _, err := question(`{"apiVersion": "v1", "kind": "Pod"}`); !apierrors.IsInvalid(err) {
		t.Errorf("a question about a Pod: %v", err)
	}
	jobs, err := c.List(t.Context(), harness.JobKind, q.Namespace, "")
	if err != nil || len(jobs) != 1 {
		t.Errorf("%d Jobs are there, %v", len(jobs), err)
	}
	workloads, err := c.List(t.Context(), harness.Kueue("Workload"), q.Namespace, "")
	if err != nil || len(workloads) != 1 {
		t.Errorf("%d Workloads are there, %v", len(workloads), err)
	}
}

// plugin runs kubectl-sluice as administrator.
func plugin(t *testing.T, input string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(harness.Binary()), "kubectl-sluice"), arguments...)
	command.Env = append(os.Environ(), "KUBECONFIG="+harness.Shared.Kubeconfig)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestPlugin uses kubectl-sluice on the live cluster.
func TestPlugin(t *testing.T) {
	c := harness.Shared
	available(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	running := c.Submit(t, q, harness.Job{CPU: "2"})
	c.ExpectSuspended(t, q.Namespace, running, false)
	waiting := c.Submit(t, q, harness.Job{CPU: "1"})
	c.ExpectWorkload(t, q.Namespace, waiting, "QuotaReserved", "False", "WaitingForQuota")
	for _, row := range []struct {
		name      string
		arguments []string
		words     []string
	}{
		{"queues", []string{"queues"}, []string{q.Cluster, "True"}},
		{"local queues", []string{"queues", "--local", "-n", q.Namespace}, []string{q.Local, q.Cluster}},
		{"top", []string{"top", "-o", "yaml"}, []string{"clusterQueue: " + q.Cluster, "waiting: "}},
		{"explain", []string{"explain", "job", waiting, "-n", q.Namespace}, []string{"Reason: QuotaExceeded", "Position: 0 in", "Would help: 1 more cpu"}},
		{"forecast", []string{"forecast", "job", waiting, "-n", q.Namespace, "--default-runtime", "1h"}, []string{waiting, "Assumption: nothing else arrives"}},
		{"complete", []string{"__complete", "explain", "job", "-n", q.Namespace, ""}, []string{waiting}},
	} {
		out, err := plugin(t, "", row.arguments...)
		if err != nil {
			t.Errorf("%s: %v\n%s", row.name, err, out)
		}
		for _, word := range row.words {
			if !strings.Contains(out, word) {
				t.Errorf("%s: %q is missing in\n%s", row.name, word, out)
			}
		}
	}
	out, err := plugin(t, job(q, "1"), "check", "-f", "-")
	if err == nil || !strings.Contains(out, "It would wait in ClusterQueue "+q.Cluster) {
		t.Errorf("check: %v\n%s", err, out)
	}
	dump, err := plugin(t, "", "dump")
	if err != nil {
		t.Fatalf("dump: %v\n%s", err, dump)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(dump), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err = plugin(t, "", "simulate", file, "--default-runtime", "1h", "--set-quota", q.Cluster+"/"+q.Flavor+"/cpu=4", "--compare")
	if err != nil || !strings.Contains(out, "wait, mean") {
		t.Errorf("simulate of the dump: %v\n%s", err, out)
	}
}
