package load

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Scenario is a file of e2e/load/scenarios.
type Scenario struct {
	Name string `json:"name"`
	// Description is printed above the table.
	Description string `json:"description"`
	// Kind is what is created: "Workload" (the default) or "Job".
	Kind string `json:"kind"`
	// Nodes is the number of fake nodes; 0 means 1.
	Nodes int `json:"nodes"`
	// Bare stops the controller manager, the scheduler and the fake nodes before the clock starts,
	// so that only etcd, the API server and the controller are there.
	Bare bool `json:"bare"`
	// Hold creates the ClusterQueues on hold and opens them when everything has been created, so
	// that creating takes no time from admitting. Waits then count from the opening.
	Hold bool `json:"hold"`
	// ChartValues are set when the chart is installed: "name=value".
	ChartValues []string `json:"chartValues"`
	// Creators and Writers are the numbers of create requests and of status writes at a time; 0 means
	// 12. For the API server keeps 25 idle connections to a webhook: what is more at a time costs
	// itself and the controller a TLS handshake for each call, and that would be measured.
	Creators int `json:"creators"`
	Writers  int `json:"writers"`
	// Stall is how long nothing may happen before the run is given up; 0 means 60 s.
	Stall metav1.Duration `json:"stall"`
	// TopologyLevels makes the flavor one with a topology of these node labels, the widest first.
	TopologyLevels []string `json:"topologyLevels"`
	// Racks are further nodes that are there from the start and do nothing but say that they are
	// ready. The flavor with the topology takes only these.
	Racks   *Racks   `json:"racks"`
	Cohorts []Cohort `json:"cohorts"`
	// References are figures of others, shown beside ours: column title -> measure -> figure.
	References map[string]map[string]float64 `json:"references"`
	// Goals are the figures to reach: measure -> figure.
	Goals map[string]float64 `json:"goals"`
}

// Racks are nodes in one block: Count racks of Hosts nodes each, with that much to give.
type Racks struct {
	Count       int       `json:"count"`
	Hosts       int       `json:"hosts"`
	Allocatable Resources `json:"allocatable"`
}

// Labels of the nodes in racks.
const (
	labelPool  = "load.sluice.dev/pool"
	labelBlock = "load.sluice.dev/block"
	labelRack  = "load.sluice.dev/rack"
)

// Cohort stands for Count cohorts that are alike.
type Cohort struct {
	// Name is the start of the name; "" means that the queues belong to no cohort.
	Name string `json:"name"`
	// Parent is the name of the Cohort object above; "" means none.
	Parent string  `json:"parent"`
	Count  int     `json:"count"`
	Queues []Queue `json:"queues"`
}

// Queue stands for Count ClusterQueues in each of the cohorts, each with one LocalQueue.
type Queue struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	// The quota has one entry for each resource; a missing limit is no limit.
	NominalQuota   Resources `json:"nominalQuota"`
	BorrowingLimit Resources `json:"borrowingLimit"`
	LendingLimit   Resources `json:"lendingLimit"`
	// Preemption, FairSharing and FlavorFungibility are the fields of the ClusterQueue, as they are.
	Preemption        map[string]any `json:"preemption"`
	FairSharing       map[string]any `json:"fairSharing"`
	FlavorFungibility map[string]any `json:"flavorFungibility"`
	QueueingStrategy  string         `json:"queueingStrategy"`
	Workloads         []Class        `json:"workloads"`
}

// Class is work of one shape; each queue gets Count of it.
type Class struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	// Interval is the time from one creation to the next, RunTime that from Admitted to Finished.
	Interval metav1.Duration `json:"interval"`
	RunTime  metav1.Duration `json:"runTime"`
	Priority int32           `json:"priority"`
	// Pods is the number of pods (0 means 1), Request what each of them asks for.
	Pods    int       `json:"pods"`
	Request Resources `json:"request"`
	// Topology is put into podSets[].topologyRequest as it is.
	Topology map[string]any `json:"topology"`
}

// Resources are quantities by resource name.
type Resources map[string]resource.Quantity

// The two kinds of objects a scenario can create.
const (
	KindWorkload = "Workload"
	KindJob      = "Job"
)

// Find gives the path of a scenario: of a file, or of one of those in root/e2e/load/scenarios.
func Find(root, nameOrPath string) string {
	if strings.ContainsRune(nameOrPath, '/') || strings.HasSuffix(nameOrPath, ".yaml") {
		return nameOrPath
	}
	return filepath.Join(root, "e2e", "load", "scenarios", nameOrPath+".yaml")
}

// Read reads a scenario and checks it.
func Read(path string) (*Scenario, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	scenario, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return scenario, nil
}

// Parse reads a scenario, fills in what was left out and checks it.
func Parse(text []byte) (*Scenario, error) {
	s := &Scenario{}
	if err := yaml.UnmarshalStrict(text, s); err != nil {
		return nil, err
	}
	s.complete()
	return s, s.check()
}

func orElse[T comparable](value *T, otherwise T) {
	var zero T
	if *value == zero {
		*value = otherwise
	}
}

func (s *Scenario) complete() {
	orElse(&s.Kind, KindWorkload)
	orElse(&s.Nodes, 1)
	orElse(&s.Stall.Duration, time.Minute)
	orElse(&s.Creators, 12)
	orElse(&s.Writers, 12)
	for i := range s.Cohorts {
		cohort := &s.Cohorts[i]
		orElse(&cohort.Count, 1)
		for j := range cohort.Queues {
			queue := &cohort.Queues[j]
			orElse(&queue.Name, "queue")
			orElse(&queue.Count, 1)
			for k := range queue.Workloads {
				orElse(&queue.Workloads[k].Pods, 1)
			}
		}
	}
}

var namePart = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$`)

func (s *Scenario) check() error {
	problems := []error{}
	complain := func(format string, arguments ...any) {
		problems = append(problems, fmt.Errorf(format, arguments...))
	}
	if !namePart.MatchString(s.Name) {
		complain("name: %q is no lower-case name", s.Name)
	}
	if s.Kind != KindWorkload && s.Kind != KindJob {
		complain("kind: %q is neither %s nor %s", s.Kind, KindWorkload, KindJob)
	}
	if s.Kind == KindJob && s.Bare {
		complain("bare: Jobs need the Job controller, the scheduler and the nodes")
	}
	if s.Nodes < 0 || s.Creators < 0 || s.Writers < 0 || s.Stall.Duration < 0 {
		complain("nodes, creators, writers and stall cannot be negative")
	}
	if s.Racks != nil && (s.Racks.Count < 1 || s.Racks.Hosts < 1 || len(s.Racks.Allocatable) == 0) {
		complain("racks: need a count, hosts and something allocatable")
	}
	if (s.Racks != nil) != (len(s.TopologyLevels) > 0) {
		complain("racks and topologyLevels go together")
	}
	names := map[string]bool{}
	for _, cohort := range s.Cohorts {
		if cohort.Name != "" && !namePart.MatchString(cohort.Name) {
			complain("cohort %q: no lower-case name", cohort.Name)
		}
		if cohort.Count < 1 || len(cohort.Queues) == 0 {
			complain("cohort %q: needs a count and queues", cohort.Name)
		}
		for _, queue := range cohort.Queues {
			if names[cohort.Name+"/"+queue.Name] {
				complain("queue %q is there twice in cohort %q", queue.Name, cohort.Name)
			}
			names[cohort.Name+"/"+queue.Name] = true
			problems = append(problems, queue.check(s.Kind)...)
		}
	}
	if len(s.Cohorts) == 0 {
		complain("cohorts: there are none")
	}
	for title, figures := range s.References {
		problems = append(problems, s.checkMeasures("references: "+title, figures)...)
	}
	problems = append(problems, s.checkMeasures("goals", s.Goals)...)
	return errors.Join(problems...)
}

func (q Queue) check(kind string) []error {
	problems := []error{}
	complain := func(format string, arguments ...any) {
		problems = append(problems, fmt.Errorf("queue %q: "+format, append([]any{q.Name}, arguments...)...))
	}
	if !namePart.MatchString(q.Name) {
		complain("no lower-case name")
	}
	if q.Count < 1 || len(q.NominalQuota) == 0 {
		complain("needs a count and a nominal quota")
	}
	for _, limits := range []Resources{q.BorrowingLimit, q.LendingLimit} {
		for name := range limits {
			if _, found := q.NominalQuota[name]; !found {
				complain("has a limit but no nominal quota for %q", name)
			}
		}
	}
	for _, class := range q.Workloads {
		if !namePart.MatchString(class.Name) {
			complain("class %q: no lower-case name", class.Name)
		}
		if class.Count < 1 || class.Pods < 1 || class.Interval.Duration < 0 || class.RunTime.Duration <= 0 {
			complain("class %q: needs a count, a run time and at least one pod; no negative interval", class.Name)
		}
		for name := range class.Request {
			if _, found := q.NominalQuota[name]; !found {
				complain("class %q asks for %q, of which the queue has no quota", class.Name, name)
			}
		}
		if kind == KindJob && len(class.Topology) > 0 {
			complain("class %q: a topology constraint is for Workloads", class.Name)
		}
	}
	return problems
}

func (s *Scenario) checkMeasures(where string, figures map[string]float64) []error {
	known := map[string]bool{}
	for _, measure := range measures(s.ClassNames()) {
		known[measure.key] = true
	}
	problems := []error{}
	for _, key := range slices.Sorted(maps.Keys(figures)) {
		if !known[key] {
			problems = append(problems, fmt.Errorf("%s: there is no measure %q", where, key))
		}
	}
	return problems
}

// ClassNames are the names of all classes, in the order of the file.
func (s *Scenario) ClassNames() []string {
	names := []string{}
	for _, cohort := range s.Cohorts {
		for _, queue := range cohort.Queues {
			for _, class := range queue.Workloads {
				if !slices.Contains(names, class.Name) {
					names = append(names, class.Name)
				}
			}
		}
	}
	return names
}

// ResourceNames are the names of all resources with quota, sorted.
func (s *Scenario) ResourceNames() []string {
	names := map[string]bool{}
	for _, cohort := range s.Cohorts {
		for _, queue := range cohort.Queues {
			for name := range queue.NominalQuota {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
