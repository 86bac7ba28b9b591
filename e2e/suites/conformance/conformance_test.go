// Package conformance plays unit/scenarios/conformance/requests.json against a real API server. A unit
// test plays the same file against the simulated one, so that what the simulator promises is what
// Kubernetes does.
package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "conformance", Nodes: 1, NoChart: true, NoController: true})
}

type step struct {
	Name    string
	Request request
	Expect  expectation
}

type request struct {
	Verb, Kind, Namespace, Name, Subresource, Manager string
	Force                                             json.RawMessage
	Body                                              json.RawMessage
}

type expectation struct {
	Code            int
	Reason          string
	Refused         bool
	Fields          map[string]json.RawMessage
	Present, Absent []string
	Remember        map[string]string
}

// kinds of the file: group, version, plural and whether it is namespaced.
var kinds = map[string]struct {
	schema.GroupVersion
	plural     string
	namespaced bool
}{
	"Namespace":    {schema.GroupVersion{Version: "v1"}, "namespaces", false},
	"Job":          {schema.GroupVersion{Group: "batch", Version: "v1"}, "jobs", true},
	"ClusterQueue": {harness.Kueue("").GroupVersion(), "clusterqueues", false},
	"LocalQueue":   {harness.Kueue("").GroupVersion(), "localqueues", true},
	"Workload":     {harness.Kueue("").GroupVersion(), "workloads", true},
}

// answer is what the server said: the code, the Status' reason, and the object.
type answer struct {
	code   int
	reason string
	object any
	text   string
}

// callOf is the request of that verb, without path and body.
func callOf(t *testing.T, client rest.Interface, verb string) *rest.Request {
	t.Helper()
	switch verb {
	case "create":
		return client.Post().SetHeader("Content-Type", "application/json")
	case "update":
		return client.Put().SetHeader("Content-Type", "application/json")
	case "delete":
		return client.Delete().SetHeader("Content-Type", "application/json")
	case "mergePatch":
		return client.Patch(types.MergePatchType)
	case "jsonPatch":
		return client.Patch(types.JSONPatchType)
	case "apply":
		return client.Patch(types.ApplyPatchType)
	}
	t.Fatalf("verb %q is not known", verb)
	return nil
}

func send(t *testing.T, client rest.Interface, r request) answer {
	t.Helper()
	kind, known := kinds[r.Kind]
	if !known {
		t.Fatalf("kind %q is not in the table", r.Kind)
	}
	path := "/api/" + kind.Version
	if kind.Group != "" {
		path = "/apis/" + kind.GroupVersion.String()
	}
	if kind.namespaced {
		path += "/namespaces/" + r.Namespace
	}
	path += "/" + kind.plural
	query := url.Values{}
	if r.Manager != "" {
		query.Set("fieldManager", r.Manager)
	}
	if len(r.Force) > 0 {
		query.Set("force", "true")
	}
	body := whole(t, r, kind.GroupVersion)
	call := callOf(t, client, r.Verb)
	if r.Verb != "create" {
		path += "/" + r.Name
	}
	if r.Subresource != "" {
		path += "/" + r.Subresource
	}
	call = call.AbsPath(path).Body(body)
	for key, values := range query {
		call = call.Param(key, values[0])
	}
	var result answer
	outcome := call.Do(t.Context()).StatusCode(&result.code)
	raw, err := outcome.Raw()
	if err != nil {
		result.reason = string(apierrors.ReasonForError(err))
		result.text = err.Error()
		return result
	}
	result.text = string(raw)
	if err := json.Unmarshal(raw, &result.object); err != nil {
		t.Fatalf("the answer is no JSON: %v", err)
	}
	return result
}

// whole adds to the object what its address says and a client would send.
func whole(t *testing.T, r request, version schema.GroupVersion) []byte {
	t.Helper()
	if r.Verb != "create" && r.Verb != "update" && r.Verb != "apply" {
		return r.Body
	}
	var object map[string]any
	if err := json.Unmarshal(r.Body, &object); err != nil {
		t.Fatal(err)
	}
	object["apiVersion"], object["kind"] = version.String(), r.Kind
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// at follows a JSON pointer.
func at(root any, pointer string) (any, bool) {
	value := root
	for _, part := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch node := value.(type) {
		case map[string]any:
			child, found := node[part]
			if !found {
				return nil, false
			}
			value = child
		case []any:
			index, err := strconv.Atoi(part)
			if err != nil || index >= len(node) {
				return nil, false
			}
			value = node[index]
		default:
			return nil, false
		}
	}
	return value, true
}

func check(t *testing.T, got answer, want expectation) {
	t.Helper()
	if want.Refused {
		if got.code < 400 {
			t.Errorf("was not refused: %s", got.text)
		}
		return
	}
	if got.code != want.Code || (want.Reason != "" && got.reason != want.Reason) {
		t.Errorf("code %d %s, want %d %s: %s", got.code, got.reason, want.Code, want.Reason, got.text)
	}
	for pointer, value := range want.Fields {
		have, _ := at(got.object, pointer)
		text, _ := json.Marshal(have)
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			t.Fatal(err)
		}
		if string(text) != compact.String() {
			t.Errorf("%s is %s, want %s", pointer, text, compact.String())
		}
	}
	for _, pointer := range want.Present {
		if _, found := at(got.object, pointer); !found {
			t.Errorf("%s is missing", pointer)
		}
	}
	for _, pointer := range want.Absent {
		if value, found := at(got.object, pointer); found {
			t.Errorf("%s is there: %v", pointer, value)
		}
	}
}

func TestRequests(t *testing.T) {
	c := harness.Shared
	root := harness.Root()
	c.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(root, "crds"))
	c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=180s", "-f", filepath.Join(root, "crds"))
	// Established is said a moment before the server answers.
	for name, kind := range kinds {
		harness.Eventually(t, name+" is served", func() error {
			_, err := c.List(t.Context(), kind.WithKind(name), "", "")
			return err
		})
	}
	text, err := os.ReadFile(filepath.Join(root, "unit/scenarios/conformance/requests.json"))
	if err != nil {
		t.Fatal(err)
	}
	var steps []json.RawMessage
	if err := json.Unmarshal(text, &steps); err != nil {
		t.Fatal(err)
	}
	remembered := map[string]string{}
	for _, raw := range steps {
		line := string(raw)
		for name, value := range remembered {
			line = strings.ReplaceAll(line, "${"+name+"}", value)
		}
		var s step
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		t.Run(s.Name, func(t *testing.T) {
			got := send(t, c.Kube.CoreV1().RESTClient(), s.Request)
			check(t, got, s.Expect)
			for name, pointer := range s.Expect.Remember {
				value, found := at(got.object, pointer)
				if !found {
					t.Fatalf("%s is missing in %s", pointer, got.text)
				}
				remembered[name] = fmt.Sprint(value)
			}
		})
	}
}
