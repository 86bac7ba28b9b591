package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Request is what the audit log tells of one request.
type Request struct {
	Verb      string
	User      struct{ Username string }
	ObjectRef struct {
		Resource, APIGroup, Subresource, Namespace, Name string
	}
	Annotations map[string]string
}

// Requests is what the controller's account asked of the API server so far. The cluster needs
// Options.Audit.
func (c *Cluster) Requests() ([]Request, error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, "log", "audit.log"))
	if err != nil {
		return nil, err
	}
	all := []Request{}
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // half written
		}
		var request Request
		if err := json.Unmarshal(line, &request); err != nil {
			return nil, fmt.Errorf("audit log: %w in %s", err, line)
		}
		if strings.HasSuffix(request.User.Username, ":"+ServiceAccount) {
			all = append(all, request)
		}
	}
	return all, nil
}

// Writes is what the controller's account wrote so far, but for its lease, one text for each request.
func (c *Cluster) Writes() ([]string, error) {
	requests, err := c.Requests()
	all := []string{}
	for _, request := range requests {
		switch object := request.ObjectRef; {
		case request.Verb == "get" || request.Verb == "list" || request.Verb == "watch":
		case object.Resource == "leases":
		default:
			all = append(all, fmt.Sprintf("%s %s/%s %s/%s", request.Verb, object.Resource,
				object.Subresource, object.Namespace, object.Name))
		}
	}
	return all, err
}

// ExpectQuiet waits until the controller writes nothing for a while: longer than anything that it
// puts off. It returns what was written until then.
func (c *Cluster) ExpectQuiet(t testing.TB) []string {
	t.Helper()
	var all []string
	EventuallyWithin(t, 2*Patience, "the controller becomes quiet", func() error {
		before, err := c.Writes()
		if err != nil {
			return err
		}
		pause(t.Context(), 6*time.Second)
		if all, err = c.Writes(); err != nil {
			return err
		}
		if len(all) != len(before) || len(all) == 0 {
			return fmt.Errorf("%d writes within 6 s, %d before: %v", len(all)-len(before), len(before), all[len(before):])
		}
		return nil
	})
	return all
}

// ProcessorTime is the processor time of a process so far, of all its threads.
func ProcessorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text)[strings.LastIndex(string(text), ")")+1:])
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond, nil
}

// ResidentMegabytes is what a process holds in memory now.
func ResidentMegabytes(pid int) (int, error) { return megabytes(pid, "VmRSS:") }

// PeakMegabytes is the most that a process has held in memory at a time.
func PeakMegabytes(pid int) (int, error) { return megabytes(pid, "VmHWM:") }

func megabytes(pid int, field string) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, found := strings.CutPrefix(line, field); found {
			kilobytes, err := strconv.Atoi(strings.Fields(value)[0])
			return kilobytes / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", pid, field)
}

// ComponentPid is the process id of a part of the control plane: apiserver, etcd, scheduler,
// controller-manager or kwok.
func (c *Cluster) ComponentPid(component string) (int, error) {
	text, err := os.ReadFile(filepath.Join(c.Dir, "pid", component))
	if err != nil {
		return 0, err
	}
	pid, _, _ := strings.Cut(string(text), " ")
	return strconv.Atoi(pid)
}
