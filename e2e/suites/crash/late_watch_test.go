package crash

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"sluice.dev/e2e/harness"
)

// watchHolder stands between a replica and the API server. Watches of Workloads that are open when
// Hold is called bring nothing any more; everything else passes, watches that begin later as well.
type watchHolder struct {
	*httptest.Server
	mu   sync.Mutex
	open map[*heldBody]bool
}

type heldBody struct {
	io.ReadCloser
	holder *watchHolder
	held   chan struct{} // closed with the body; nil until it is held
	once   sync.Once
}

func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	b.holder.mu.Lock()
	held := b.held
	b.holder.mu.Unlock()
	if held != nil {
		<-held
		return 0, io.EOF
	}
	return n, err
}

func (b *heldBody) Close() error {
	b.once.Do(func() {
		b.holder.mu.Lock()
		defer b.holder.mu.Unlock()
		delete(b.holder.open, b)
		if b.held != nil {
			close(b.held)
		}
	})
	return b.ReadCloser.Close()
}

func newWatchHolder(t *testing.T) *watchHolder {
	t.Helper()
	target, err := url.Parse(harness.Shared.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	trust := rest.Config{Host: harness.Shared.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: harness.Shared.Config.CAData}}
	transport, err := rest.TransportFor(&trust)
	if err != nil {
		t.Fatal(err)
	}
	holder := &watchHolder{open: map[*heldBody]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }
	proxy.ModifyResponse = func(response *http.Response) error {
		request := response.Request
		if !strings.HasSuffix(request.URL.Path, "/workloads") || request.URL.Query().Get("watch") != "true" {
			return nil
		}
		body := &heldBody{ReadCloser: response.Body, holder: holder}
		response.Body = body
		// The replica may go away while the body is held.
		go func() {
			<-request.Context().Done()
			body.Close()
		}()
		holder.mu.Lock()
		defer holder.mu.Unlock()
		holder.open[body] = true
		return nil
	}
	holder.Server = httptest.NewServer(proxy)
	t.Cleanup(holder.CloseClientConnections)
	return holder
}

// Hold tells how many watches are held back from now on.
func (h *watchHolder) Hold() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	for body := range h.open {
		if body.held == nil {
			body.held = make(chan struct{})
		}
	}
	return len(h.open)
}

// startLate starts a replica that sees the API server through a holder.
func startLate(t *testing.T) (*harness.Controller, *watchHolder) {
	t.Helper()
	holder := newWatchHolder(t)
	late, err := harness.Shared.NewController("late")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := os.ReadFile(late.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	direct := regexp.MustCompile(`cluster: \{.*\}`)
	proxied := direct.ReplaceAllString(string(kubeconfig), `cluster: {server: "`+holder.URL+`"}`)
	if err := os.WriteFile(late.Kubeconfig, []byte(proxied), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := late.Start(); err != nil {
		t.Fatal(err)
	}
	return late, holder
}

// TestSuccessorWithLateWatch has a follower that does not see what the leader writes last, and makes
// it the leader: it must find out before it decides.
func TestSuccessorWithLateWatch(t *testing.T) {
	c := harness.Shared
	old := leader(t)
	for _, other := range c.Controllers() {
		if other != old { // it could become the leader in place of the late one
			other.Kill()
		}
	}
	late, holder := startLate(t)
	t.Cleanup(func() {
		late.Kill()
		if err := c.ReleaseLease(); err != nil {
			t.Error(err)
		}
		if !old.Running() {
			if err := old.Start(); err != nil {
				t.Error(err)
			}
		}
	})

	name := harness.Name("urgent")
	c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: 1000}", name))
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2", StopPolicy: "Hold"})
	ledger := c.Watch(t, q.Namespace, 2)
	// The follower knows the first one only. The leader admits the second, which comes before it.
	first := c.Submit(t, q, harness.Job{Name: "first", CPU: "2", RunSeconds: "0.5", Labels: []string{"cpu=2"}})
	await(t, ledger, harness.Created, first)
	time.Sleep(500 * time.Millisecond) // its watch may be as late as any
	if held := holder.Hold(); held != 1 {
		t.Fatalf("%d watches of Workloads are held back, want 1", held)
	}
	second := c.Submit(t, q, harness.Job{Name: "second", CPU: "2", RunSeconds: "3", Labels: []string{"cpu=2", "kueue.x-k8s.io/priority-class=" + name}})
	await(t, ledger, harness.Created, second)
	c.MustPatch(t, harness.Kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"stopPolicy":"None"}}`)
	await(t, ledger, harness.Started, second)
	old.Kill()
	if err := c.ReleaseLease(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	harness.Eventually(t, "the follower leads and knows what it must", func() error {
		if !strings.Contains(late.Log(), "all that the former leader wrote is known") {
			return harness.ErrNotYet
		}
		return nil
	})
	t.Logf("it decides after %s", time.Since(began).Round(time.Millisecond))
	c.ExpectFinished(t, q.Namespace, second)
	c.ExpectFinished(t, q.Namespace, first)
	ledger.Check(t)
}

// TestBookmarkBeforeTheEnd pins down what a replica with many Workloads relies on to catch up soon:
// a watch of three seconds that begins at an older version shows how far it is before it ends, also
// where nothing has happened to Workloads since.
func TestBookmarkBeforeTheEnd(t *testing.T) {
	c := harness.Shared
	client, err := c.Resource(harness.Kueue("Workload"), "")
	if err != nil {
		t.Fatal(err)
	}
	version := func() string {
		t.Helper()
		one, err := client.List(t.Context(), metav1.ListOptions{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return one.GetResourceVersion()
	}
	before := version()
	c.Namespace(t)
	now := version()
	var seconds int64 = 3
	began := time.Now()
	watching, err := client.Watch(t.Context(), metav1.ListOptions{
		ResourceVersion: before, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	for event := range watching.ResultChan() {
		if event.Type != watch.Bookmark {
			continue
		}
		bookmark, err := meta.Accessor(event.Object)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("a bookmark after %s: %s, wanted %s", time.Since(began).Round(time.Millisecond), bookmark.GetResourceVersion(), now)
		shown, err := resourceversion.CompareResourceVersion(bookmark.GetResourceVersion(), now)
		if err != nil || shown < 0 {
			t.Fatalf("it is too old: %d, %v", shown, err)
		}
		return
	}
	t.Fatal("the watch ended without a bookmark")
}

func await(t *testing.T, ledger *harness.Ledger, event harness.Event, job string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if err := ledger.Await(ctx, event, job); err != nil {
		t.Fatal(err)
	}
}
