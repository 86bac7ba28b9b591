package load

import (
	"bufio"
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice.dev/e2e/harness"
)

// process is one whose use of the machine is measured.
type process struct {
	name string
	pid  int
}

// Names of the processes in results.
const (
	processController = "controller"
	processAPIServer  = "apiserver"
	processEtcd       = "etcd"
	processGenerator  = "load generator"
)

// seconds is the processor time of a process so far.
func (p process) seconds() (float64, error) {
	used, err := harness.ProcessorTime(p.pid)
	return used.Seconds(), err
}

// requestKey is what requests to the API server are counted by.
type requestKey struct{ verb, resource, subresource, code string }

// parseRequests reads the counts of requests out of the metrics of an API server.
func parseRequests(text []byte) map[requestKey]int64 {
	counts := map[requestKey]int64{}
	scanner := bufio.NewScanner(bytes.NewReader(text))
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		rest, found := strings.CutPrefix(scanner.Text(), "apiserver_request_total{")
		if !found {
			continue
		}
		labels, value, found := cutLabels(rest)
		if !found {
			continue
		}
		count, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue
		}
		resource := labels["resource"]
		if group := labels["group"]; group != "" && resource != "" {
			resource += "." + group
		}
		counts[requestKey{labels["verb"], resource, labels["subresource"], labels["code"]}] += int64(count)
	}
	return counts
}

// cutLabels takes `a="x",b="y"} 12` apart.
func cutLabels(text string) (labels map[string]string, value string, found bool) {
	labels = map[string]string{}
	for {
		if rest, end := strings.CutPrefix(text, "}"); end {
			fields := strings.Fields(rest)
			if len(fields) == 0 {
				return nil, "", false
			}
			return labels, fields[0], true
		}
		name, rest, found := strings.Cut(strings.TrimPrefix(text, ","), "=")
		if !found {
			return nil, "", false
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, "", false
		}
		labels[name], _ = strconv.Unquote(quoted)
		text = rest[len(quoted):]
	}
}

// Request is a count of requests of one sort.
type Request struct {
	Verb, Resource, Subresource string
	// Count is the number of requests, Failed that of those with a code of 400 or above.
	Count, Failed int64
}

// requestsBetween is what was asked between two readings, the most frequent first. Watches count
// when they end, and so tell nothing here.
func requestsBetween(before, after map[requestKey]int64) []Request {
	byName := map[Request]*Request{}
	for key, count := range after {
		count -= before[key]
		if count <= 0 || key.verb == "WATCH" || key.verb == "CONNECT" || key.resource == "" {
			continue
		}
		name := Request{Verb: key.verb, Resource: key.resource, Subresource: key.subresource}
		if byName[name] == nil {
			byName[name] = &Request{key.verb, key.resource, key.subresource, 0, 0}
		}
		byName[name].Count += count
		if key.code >= "400" {
			byName[name].Failed += count
		}
	}
	all := []Request{}
	for _, request := range slices.Collect(maps.Values(byName)) {
		all = append(all, *request)
	}
	slices.SortFunc(all, func(a, b Request) int {
		if a.Count != b.Count {
			return int(b.Count - a.Count)
		}
		return strings.Compare(a.Verb+" "+a.Resource+"/"+a.Subresource, b.Verb+" "+b.Resource+"/"+b.Subresource)
	})
	return all
}

// writesTo counts the requests that change an object of the resource or its status.
func writesTo(requests []Request, resource string) int64 {
	sum := int64(0)
	for _, request := range requests {
		switch request.Verb {
		case "GET", "LIST":
			continue
		}
		if request.Resource == resource {
			sum += request.Count
		}
	}
	return sum
}
