package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// client sends bytes and hands out bytes: no objects are built on our side of the connection.
type client struct {
	rest *rest.RESTClient
	// slots holds as many tokens as there are writes on their way; it has room for those allowed.
	slots chan struct{}
	// writes counts the requests that change something, also those that fail.
	writes atomic.Int64
}

// newClient makes a client with a connection of its own, with that many writes at a time and without
// a limit on their rate.
func newClient(base *rest.Config, atATime int) (*client, error) {
	config := rest.CopyConfig(base)
	config.QPS = -1
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	// client-go shares connections between equal configurations; an own dialler makes them unequal.
	config.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	unversioned, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, err
	}
	return &client{rest: unversioned, slots: make(chan struct{}, atATime)}, nil
}

// path is the path of the objects of the scenario's kind; no namespace means all of them.
func (p *plan) path(namespace string) string {
	if p.scenario.Kind == KindJob {
		return pathIn("/apis/batch/v1", namespace, "/jobs")
	}
	return p.workloadPath(namespace)
}

// workloadPath is the path of the Workloads, those of Jobs too.
func (p *plan) workloadPath(namespace string) string {
	return pathIn("/apis/"+kueueVersion, namespace, "/workloads")
}

func pathIn(group, namespace, plural string) string {
	if namespace != "" {
		return group + "/namespaces/" + namespace + plural
	}
	return group + plural
}

// worthAnotherTry tells whether the same request may succeed a moment later.
func worthAnotherTry(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTimeout(err) || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err)
}

// write sends a request that changes something, again if it fails for a passing reason.
func (c *client) write(ctx context.Context, send func() error) error {
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	wait := 20 * time.Millisecond
	for try := 1; ; try++ {
		c.writes.Add(1)
		err := send()
		if err == nil || try == 10 || !worthAnotherTry(err) || ctx.Err() != nil {
			return err
		}
		time.Sleep(wait)
		wait = min(2*wait, time.Second)
	}
}

// create creates an object; that it is there already is what an earlier, unanswered try has done.
func (c *client) create(ctx context.Context, path string, body []byte) error {
	return c.write(ctx, func() error {
		err := c.rest.Post().AbsPath(path).SetHeader("Content-Type", "application/json").
			SetHeader("Accept", "application/json").Body(body).Do(ctx).Error()
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// patch sends a patch and returns the version it made.
func (c *client) patch(ctx context.Context, kind types.PatchType, path string, body []byte) (uint64, error) {
	version := uint64(0)
	err := c.write(ctx, func() error {
		answer, err := c.rest.Patch(kind).AbsPath(path).SetHeader("Accept", "application/json").
			Body(body).Do(ctx).Raw()
		if err != nil {
			return err
		}
		var have struct{ Metadata metadata }
		if err := json.Unmarshal(answer, &have); err != nil {
			return err
		}
		version, err = strconv.ParseUint(have.Metadata.ResourceVersion, 10, 64)
		return err
	})
	return version, err
}

func (c *client) get(ctx context.Context, path string) ([]byte, error) {
	return c.rest.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
}

// read reads what is needed of an object.
func (c *client) read(ctx context.Context, path string) (*watched, error) {
	text, err := c.get(ctx, path)
	if err != nil {
		return nil, err
	}
	object := &watched{}
	return object, json.Unmarshal(text, object)
}

// ---- the watch -------------------------------------------------------------------------------

type metadata struct {
	Name            string `json:"name"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// watched is what is read of an object: a Workload or a Job.
type watched struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Suspend *bool `json:"suspend"`
	} `json:"spec"`
	Status struct {
		Conditions []condition `json:"conditions"`
	} `json:"status"`
}

func (w *watched) is(kind string) bool {
	for _, one := range w.Status.Conditions {
		if one.Type == kind {
			return one.Status == "True"
		}
	}
	return false
}

type watchEvent struct {
	Type   string  `json:"type"`
	Object watched `json:"object"`
}

// observe tells what an object says of a Workload.
func (w *watched) observe() observation {
	version, _ := strconv.ParseUint(w.Metadata.ResourceVersion, 10, 64)
	return observation{version: version, conditions: w.Status.Conditions, reserved: w.is("QuotaReserved"),
		admitted: w.is("Admitted"), evicted: w.is("Evicted"), finished: w.is("Finished")}
}

// How the lines of a watch begin.
var (
	addedEvent = []byte(`{"type":"ADDED",`)
	errorEvent = []byte(`{"type":"ERROR",`)
)

var errGone = errors.New("the version to watch from is gone")

// start lists what is there and returns the version to watch from.
func (c *client) start(ctx context.Context, path string, absorb func(event *watchEvent)) (string, error) {
	text, err := c.get(ctx, path)
	if err != nil {
		return "", err
	}
	var list struct {
		Metadata metadata  `json:"metadata"`
		Items    []watched `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return "", err
	}
	for i := range list.Items {
		absorb(&watchEvent{"MODIFIED", list.Items[i]})
	}
	return list.Metadata.ResourceVersion, nil
}

// follow watches from a version until the context ends, over as many connections as it takes. Lines
// that begin with skip are not even read.
func (c *client) follow(ctx context.Context, path, version string, skip []byte, absorb func(event *watchEvent)) error {
	for ctx.Err() == nil {
		err := c.stream(ctx, path, &version, skip, absorb)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errGone):
			if version, err = c.start(ctx, path, absorb); err != nil {
				return err
			}
		case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
			return err
		}
	}
	return nil
}

func (c *client) stream(ctx context.Context, path string, version *string, skip []byte, absorb func(event *watchEvent)) error {
	body, err := c.rest.Get().AbsPath(path).Param("watch", "1").Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", "3600").Param("resourceVersion", *version).
		SetHeader("Accept", "application/json").Stream(ctx)
	if err != nil {
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return errGone
		}
		return err
	}
	defer body.Close()
	reader := bufio.NewReaderSize(body, 1<<18)
	long := []byte{}
	for {
		line, err := reader.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if err != nil {
			return err
		}
		if len(long) > 0 {
			long = append(long, line...)
			line = long
		}
		if bytes.HasPrefix(line, errorEvent) {
			if bytes.Contains(line, []byte(`"code":410`)) {
				return errGone
			}
			return fmt.Errorf("watch of %s: %.500s", path, line)
		}
		if len(skip) > 0 && bytes.HasPrefix(line, skip) {
			long = long[:0]
			continue
		}
		event := watchEvent{}
		if err := json.Unmarshal(line, &event); err != nil {
			return fmt.Errorf("watch event %.200s: %w", line, err)
		}
		long = long[:0]
		*version = event.Object.Metadata.ResourceVersion
		if event.Type != "BOOKMARK" {
			absorb(&event)
		}
	}
}
