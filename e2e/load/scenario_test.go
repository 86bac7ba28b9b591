package load

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const smallScenario = `
name: two
cohorts:
- name: team
  count: 2
  queues:
  - count: 2
    nominalQuota: {cpu: 1500m, memory: 1Gi}
    borrowingLimit: {cpu: 1}
    workloads:
    - {name: slow, count: 2, interval: 1s, runTime: 1s, pods: 2, request: {cpu: 250m}}
    - {name: fast, count: 3, interval: 400ms, runTime: 100ms, priority: 7, request: {cpu: 1, memory: 1Mi}, topology: {required: rack}}
- queues:
  - {name: alone, nominalQuota: {cpu: 2}, workloads: [{name: fast, count: 1, runTime: 1s, request: {cpu: 1}}]}
`

func parse(t *testing.T, text string) *Scenario {
	t.Helper()
	scenario, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return scenario
}

func TestScenariosOfTheTree(t *testing.T) {
	paths, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(paths) < 4 {
		t.Fatalf("scenarios: %v %v", paths, err)
	}
	objects := map[string]int{}
	for _, path := range paths {
		scenario, err := Read(path)
		if err != nil {
			t.Error(err)
			continue
		}
		if want := strings.TrimSuffix(filepath.Base(path), ".yaml"); scenario.Name != want {
			t.Errorf("%s has the name %q", path, scenario.Name)
		}
		objects[scenario.Name] = len(newPlan(scenario).items)
	}
	for name, want := range map[string]int{"baseline": 15000, "large": 50000, "jobs": 5000, "smoke": 162, "topology": 15000} {
		if objects[name] != want {
			t.Errorf("scenario %s has %d objects, want %d", name, objects[name], want)
		}
	}
}

func TestMistakesInScenarios(t *testing.T) {
	for _, c := range []struct{ name, from, to, says string }{
		{"unknown field", "name: two", "name: two\nspeed: 3", "speed"},
		{"no name", "name: two", "name: Two!", "no lower-case name"},
		{"unknown kind", "name: two", "name: two\nkind: Pod", "neither Workload nor Job"},
		{"bare with Jobs", "name: two", "name: two\nkind: Job\nbare: true", "Jobs need"},
		{"topology with Jobs", "name: two", "name: two\nkind: Job", "topology constraint is for Workloads"},
		{"levels without nodes", "name: two", "name: two\ntopologyLevels: [rack]", "go together"},
		{"racks of nothing", "name: two", "name: two\ntopologyLevels: [rack]\nracks: {count: 1, hosts: 1}", "something allocatable"},
		{"request without quota", "{cpu: 250m}", "{gpu: 1}", `asks for "gpu"`},
		{"limit without quota", "borrowingLimit: {cpu: 1}", "borrowingLimit: {gpu: 1}", `no nominal quota for "gpu"`},
		{"bad quantity", "cpu: 250m", "cpu: 250q", "quantities must match"},
		{"no run time", "runTime: 100ms", "runTime: 0s", "needs a count, a run time"},
		{"queue twice", "  - count: 2\n", "  - {nominalQuota: {cpu: 1}}\n  - count: 2\n", "twice"},
		{"unknown goal", "name: two", "name: two\ngoals: {speed: 1}", `no measure "speed"`},
		{"unknown class in a reference", "name: two", "name: two\nreferences: {Other: {meanWaitSeconds/huge: 1}}", "meanWaitSeconds/huge"},
	} {
		if !strings.Contains(smallScenario, c.from) {
			t.Fatalf("%s: nothing to replace", c.name)
		}
		_, err := Parse([]byte(strings.Replace(smallScenario, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error is %v, want one that says %q", c.name, err, c.says)
		}
	}
}

func TestPlan(t *testing.T) {
	p := newPlan(parse(t, smallScenario))
	if len(p.queues) != 5 || len(p.cohorts) != 3 || len(p.items) != 4*5+1 {
		t.Fatalf("%d queues, %d cohorts, %d items", len(p.queues), len(p.cohorts), len(p.items))
	}
	for i := 1; i < len(p.items); i++ {
		if p.items[i].due < p.items[i-1].due {
			t.Errorf("item %d comes before its time", i)
		}
	}
	if last := p.items[len(p.items)-1].due; last != time.Second {
		t.Errorf("the last is due at %s", last)
	}
	cpu := 0 // resources are sorted
	if have := p.cohorts[0].nominal[cpu]; have != 3000 {
		t.Errorf("nominal cpu of the cohort: %d", have)
	}
	if have := p.queues[0].limit; have[cpu] != 2500 || have[1] != -1 {
		t.Errorf("limits in a cohort: %v, want 2500 and none", have)
	}
	if have := p.queues[4].limit; have[cpu] != 2000 {
		t.Errorf("limit of the queue on its own: %v", have)
	}
	if have := p.nominal()[cpu]; have != 8000 {
		t.Errorf("nominal cpu of all: %d", have)
	}
	if have := p.shapes[0].request[cpu]; have != 500 {
		t.Errorf("request of two pods: %d", have)
	}
	names := map[string]bool{}
	for number := range p.items {
		name := p.name(number)
		if names[name] || p.numberOf(name) != number {
			t.Errorf("name %s of %d: number %d", name, number, p.numberOf(name))
		}
		names[name] = true
	}
	for _, name := range []string{"", "fast", "fast-1", "fast-000000x", "other-000000", "fast-999999", "fast-12345678901"} {
		if have := p.numberOf(name); have != -1 {
			t.Errorf("%q has number %d", name, have)
		}
	}
}

func TestObjects(t *testing.T) {
	p := newPlan(parse(t, smallScenario))
	kinds := map[string]int{}
	for _, object := range p.surroundings() {
		kinds[object.GetKind()]++
		if object.GetKind() == "ClusterQueue" && object.GetName() == "team-1-queue-0" {
			text, _ := json.Marshal(object.Object["spec"])
			want := `{"cohortName":"team-1","namespaceSelector":{},"resourceGroups":[{"coveredResources":["cpu","memory"],"flavors":[{"name":"load","resources":[{"borrowingLimit":"1","name":"cpu","nominalQuota":"1500m"},{"name":"memory","nominalQuota":"1Gi"}]}]}]}`
			if string(text) != want {
				t.Errorf("ClusterQueue: %s", text)
			}
		}
	}
	for kind, want := range map[string]int{"ResourceFlavor": 1, "Namespace": 3, "ClusterQueue": 5, "LocalQueue": 5, "Cohort": 0} {
		if kinds[kind] != want {
			t.Errorf("%d of %s, want %d", kinds[kind], kind, want)
		}
	}
	bodies, err := p.bodies()
	if err != nil {
		t.Fatal(err)
	}
	object := unstructured.Unstructured{}
	body := string(bodies[1][0]) + "fast-000001" + string(bodies[1][1])
	if err := json.Unmarshal([]byte(body), &object.Object); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	sets, _, _ := unstructured.NestedSlice(object.Object, "spec", "podSets")
	set, _ := sets[0].(map[string]any)
	if topology, _ := json.Marshal(set["topologyRequest"]); string(topology) != `{"required":"rack"}` {
		t.Errorf("topologyRequest: %s", topology)
	}
	if object.GetName() != "fast-000001" || object.GetNamespace() != "team-0" || !strings.Contains(body, `"priority":7`) {
		t.Errorf("Workload: %s", body)
	}
}

func TestNodesInRacks(t *testing.T) {
	text := strings.Replace(smallScenario, "name: two", "name: two\ntopologyLevels: [load.sluice.dev/rack, kubernetes.io/hostname]\n"+
		"racks: {count: 2, hosts: 3, allocatable: {cpu: 96}}", 1)
	racks := map[string]int{}
	for _, object := range newPlan(parse(t, text)).surroundings() {
		if object.GetKind() == "ResourceFlavor" {
			if pool, _, _ := unstructured.NestedString(object.Object, "spec", "nodeLabels", labelPool); pool != "racks" {
				t.Errorf("the flavor takes the nodes %v", object.Object["spec"])
			}
		}
		if object.GetKind() == "Node" {
			racks[object.GetLabels()[labelRack]]++
			if cpu, _, _ := unstructured.NestedString(object.Object, "status", "allocatable", "cpu"); cpu != "96" {
				t.Errorf("node %s has %q CPUs", object.GetName(), cpu)
			}
		}
	}
	if len(racks) != 2 || racks["rack-000"] != 3 || racks["rack-001"] != 3 {
		t.Errorf("racks are %v", racks)
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{"smoke": "/tree/e2e/load/scenarios/smoke.yaml", "./x": "./x", "mine.yaml": "mine.yaml"} {
		if have := Find("/tree", name); have != want {
			t.Errorf("Find(%q) = %q", name, have)
		}
	}
	if _, err := Read(filepath.Join(t.TempDir(), "none.yaml")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}
