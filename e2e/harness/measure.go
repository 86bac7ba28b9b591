package harness

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Writes is what the controller's account wrote so far, but for its lease, one text for each request.
// The cluster needs Options.Audit.
func (c *Cluster) Writes() ([]string, error) {
	file, err := os.Open(filepath.Join(c.Dir, "log", "audit.log"))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	all := []string{}
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var event struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource, Subresource, Namespace, Name string }
		}
		if err := json.Unmarshal(scanner.Bytes(), &event); err != nil {
			continue // the last line, half written
		}
		switch event.Verb {
		case "get", "list", "watch":
			continue
		}
		if event.ObjectRef.Resource == "leases" || !strings.HasSuffix(event.User.Username, ":"+ServiceAccount) {
			continue
		}
		all = append(all, fmt.Sprintf("%s %s/%s %s/%s", event.Verb, event.ObjectRef.Resource,
			event.ObjectRef.Subresource, event.ObjectRef.Namespace, event.ObjectRef.Name))
	}
	return all, scanner.Err()
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
