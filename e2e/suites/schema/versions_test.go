package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"sluice.dev/e2e/harness"
)

func errorf(format string, arguments ...any) error { return fmt.Errorf(format, arguments...) }

func old(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "kueue.x-k8s.io", Version: "v1beta1", Kind: kind}
}

// contains tells whether every field of want is in have with that value; a null in want asks that
// the field is absent.
func contains(have, want any, path string) error {
	switch want := want.(type) {
	case map[string]any:
		object, ok := have.(map[string]any)
		if !ok {
			return errorf("%s is %v, want an object", path, have)
		}
		for key, value := range want {
			if value == nil {
				if found, there := object[key]; there {
					return errorf("%s.%s is %v, want it absent", path, key, found)
				}
				continue
			}
			if err := contains(object[key], value, path+"."+key); err != nil {
				return err
			}
		}
		return nil
	case []any:
		list, ok := have.([]any)
		if !ok || len(list) != len(want) {
			return errorf("%s is %v, want %v", path, have, want)
		}
		for i := range want {
			if err := contains(list[i], want[i], fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		return nil
	}
	if !reflect.DeepEqual(fmt.Sprint(have), fmt.Sprint(want)) {
		return errorf("%s is %v, want %v", path, have, want)
	}
	return nil
}

func expect(t *testing.T, object *unstructured.Unstructured, want string) {
	t.Helper()
	var fields any
	if err := yaml.Unmarshal([]byte(want), &fields); err != nil {
		t.Fatal(err)
	}
	if err := contains(object.Object, fields, ""); err != nil {
		text, _ := json.Marshal(object.Object["spec"])
		t.Errorf("%s %s: %v\nspec: %s", object.GetAPIVersion(), object.GetKind(), err, text)
	}
}

// TestBothVersions writes an object in one version and reads it in both.
func TestBothVersions(t *testing.T) {
	c := harness.Shared
	namespace := c.Namespace(t)
	for _, row := range []struct{ name, object, storage, former string }{
		{"ClusterQueue from v1beta1", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
spec:
  cohort: a
  admissionChecks: [c1, c2]
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
`, `
spec:
  cohortName: a
  cohort: null
  admissionChecks: null
  admissionChecksStrategy: {admissionChecks: [{name: c1}, {name: c2}]}
  flavorFungibility: {whenCanBorrow: MayStopSearch, whenCanPreempt: TryNextFlavor}
`, `
spec:
  cohort: a
  cohortName: null
  admissionChecks: null
  admissionChecksStrategy: {admissionChecks: [{name: c1}, {name: c2}]}
  flavorFungibility: {whenCanBorrow: MayStopSearch, whenCanPreempt: TryNextFlavor}
`},
		{"ClusterQueue from v1beta2", `
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
spec:
  cohortName: b
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: f, resources: [{name: cpu, nominalQuota: "4", borrowingLimit: "2"}]}]
`, `
spec:
  cohortName: b
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: "4", borrowingLimit: "2"}]}]}
`, `
spec:
  cohort: b
  cohortName: null
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: f, resources: [{name: cpu, nominalQuota: "4", borrowingLimit: "2"}]}]}
`},
		{"Workload from v1beta1", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
spec:
  queueName: q
  priority: 5
  priorityClassName: high
  priorityClassSource: kueue.x-k8s.io/workloadpriorityclass
  podSets:
  - name: main
    count: 2
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
`, `
spec:
  queueName: q
  priority: 5
  priorityClassName: null
  priorityClassSource: null
  priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high}
`, `
spec:
  queueName: q
  priorityClassName: high
  priorityClassSource: kueue.x-k8s.io/workloadpriorityclass
  priorityClassRef: null
`},
		{"Workload with a source that is unknown", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: Workload
spec:
  priority: 5
  priorityClassName: high
  priorityClassSource: ""
  podSets:
  - name: main
    count: 1
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
`, `spec: {priority: 5, priorityClassRef: null}`, `spec: {priority: 5, priorityClassName: null}`},
		{"LocalQueue from v1beta1", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
spec: {clusterQueue: somewhere}
`, `spec: {clusterQueue: somewhere, stopPolicy: None}`, `spec: {clusterQueue: somewhere, stopPolicy: None}`},
		{"Cohort from v1beta1", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: Cohort
spec: {parentName: root}
`, `spec: {parentName: root}`, `spec: {parentName: root}`},
		{"MultiKueueCluster from v1beta2", `
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
spec: {clusterSource: {kubeConfig: {location: secret}}}
`, `spec: {kubeConfig: null, clusterSource: {kubeConfig: {location: secret, locationType: Secret}}}`,
			`spec: {clusterSource: null, kubeConfig: {location: secret, locationType: Secret}}`},
		{"MultiKueueCluster from v1beta1", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: MultiKueueCluster
spec: {kubeConfig: {location: /somewhere, locationType: Path}}
`, `spec: {kubeConfig: null, clusterSource: {kubeConfig: {location: /somewhere, locationType: Path}}}`,
			`spec: {clusterSource: null, kubeConfig: {location: /somewhere, locationType: Path}}`},
		{"AdmissionCheck from v1beta1", `
apiVersion: kueue.x-k8s.io/v1beta1
kind: AdmissionCheck
spec: {controllerName: example.com/check, retryDelayMinutes: 3}
`, `spec: {controllerName: example.com/check, retryDelayMinutes: null}`, `spec: {controllerName: example.com/check, retryDelayMinutes: null}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			object := harness.Parse(row.object)
			object.SetName(harness.Name("both"))
			object.SetNamespace(namespace)
			kind := object.GetKind()
			c.MustCreate(t, object)
			expect(t, c.Get(t, harness.Kueue(kind), namespace, object.GetName()), row.storage)
			expect(t, c.Get(t, old(kind), namespace, object.GetName()), row.former)
		})
	}
}

// TestOldClientChangesAnObject reads and writes an object as a client of the older version does.
func TestOldClientChangesAnObject(t *testing.T) {
	c := harness.Shared
	name := harness.Name("both")
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec: {cohortName: one, namespaceSelector: {matchLabels: {team: a}}}
`, name))
	err := c.Change(t.Context(), old("ClusterQueue"), "", name, func(object *unstructured.Unstructured) {
		harness.Set(object, "two", "spec", "cohort")
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, c.Get(t, harness.Kueue("ClusterQueue"), "", name),
		`spec: {cohortName: two, namespaceSelector: {matchLabels: {team: a}}}`)
	list, err := c.List(t.Context(), old("ClusterQueue"), "", "")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for i := range list {
		if list[i].GetName() == name {
			found = true
			expect(t, &list[i], `spec: {cohort: two, cohortName: null}`)
		}
	}
	if !found {
		t.Errorf("%s is not in the list", name)
	}
}

// TestTopologyAssignmentInBothVersions has two shapes for the same placement.
func TestTopologyAssignmentInBothVersions(t *testing.T) {
	c := harness.Shared
	namespace, name := c.Namespace(t), harness.Name("placed")
	c.MustCreate(t, harness.Parsef(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: %s, namespace: %s}
spec:
  podSets:
  - name: main
    count: 130
    template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}
`, name, namespace))
	patch := `{"status":{"admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","count":130,
	  "topologyAssignment":{"levels":["a","b"],"slices":[
	    {"domainCount":2,"valuesPerLevel":[{"universal":"a1"},{"individual":{"prefix":"b","roots":["1","2"]}}],"podCounts":{"individual":[10,20]}},
	    {"domainCount":2,"valuesPerLevel":[{"universal":"a2"},{"individual":{"roots":["first","second"],"suffix":"-in-a2"}}],"podCounts":{"universal":50}}]}}]}}}`
	want := harness.Parse(`
status:
  admission:
    podSetAssignments:
    - topologyAssignment:
        levels: [a, b]
        domains:
        - {values: [a1, b1], count: 10}
        - {values: [a1, b2], count: 20}
        - {values: [a2, first-in-a2], count: 50}
        - {values: [a2, second-in-a2], count: 50}
`).Object
	// The controller knows no such queue and may take the admission back.
	harness.Eventually(t, "the assignment in the former version", func() error {
		if _, err := c.Patch(t.Context(), harness.Kueue("Workload"), namespace, name, patch, "status"); err != nil {
			return err
		}
		object, err := c.Fetch(t.Context(), old("Workload"), namespace, name)
		if err != nil {
			return err
		}
		return contains(object.Object, want, "")
	})
}

func TestDeprecationWarning(t *testing.T) {
	c := harness.Shared
	name := harness.Name("warned")
	out, err := c.Run(t.Context(), "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ResourceFlavor, metadata: {name: "+name+"}}",
		"kubectl", "create", "--warnings-as-errors", "-f", "-")
	if err == nil {
		t.Errorf("no warning for v1beta1; kubectl says %s", out)
	} else if !strings.Contains(err.Error(), deprecation) {
		t.Errorf("the warning is missing: %v", err)
	}
	c.Delete(t, harness.Kueue("ResourceFlavor"), "", name)
}

func TestDefaults(t *testing.T) {
	c := harness.Shared
	namespace := c.Namespace(t)
	for _, row := range []struct{ name, object, want string }{
		{"ClusterQueue", `{kind: ClusterQueue, spec: {}}`, `
metadata: {finalizers: [kueue.x-k8s.io/resource-in-use]}
spec:
  queueingStrategy: BestEffortFIFO
  stopPolicy: None
  flavorFungibility: {whenCanBorrow: MayStopSearch, whenCanPreempt: TryNextFlavor, preference: null}
  preemption: {reclaimWithinCohort: Never, withinClusterQueue: Never, borrowWithinCohort: {policy: Never}}
`},
		{"ClusterQueue without spec", `{kind: ClusterQueue}`, `{metadata: {finalizers: [kueue.x-k8s.io/resource-in-use]}}`},
		{"ResourceFlavor", `{kind: ResourceFlavor}`, `{metadata: {finalizers: [kueue.x-k8s.io/resource-in-use]}}`},
		{"fair sharing weight", `{kind: Cohort, spec: {fairSharing: {}}}`, `{spec: {fairSharing: {weight: 1}}}`},
		{"Workload", `{kind: Workload, spec: {podSets: [{template: {spec: {containers: [{name: c, image: i}]}}}]}}`, `
metadata: {finalizers: null}
spec: {active: true, podSets: [{name: main, count: 1}]}
`},
		{"ProvisioningRequestConfig", `{kind: ProvisioningRequestConfig, spec: {provisioningClassName: x}}`,
			`{spec: {retryStrategy: {backoffLimitCount: 3, backoffBaseSeconds: 60, backoffMaxSeconds: 1800}}}`},
	} {
		t.Run(row.name, func(t *testing.T) {
			object := harness.Parse(row.object)
			object.SetAPIVersion("kueue.x-k8s.io/v1beta2")
			object.SetName(harness.Name("defaults"))
			object.SetNamespace(namespace)
			expect(t, c.MustCreate(t, object), row.want)
		})
	}
}
