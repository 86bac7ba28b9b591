package schema

import (
	"slices"
	"testing"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/e2e/harness"
)

const deprecation = "This version is deprecated. Use v1beta2 instead."

type definition struct {
	kind, plural, singular string
	namespaced             bool
	shortNames             []string
	status, webhook        bool
	notDeprecated          bool
}

var definitions = []definition{
	{kind: "ClusterQueue", plural: "clusterqueues", shortNames: []string{"cq"}, status: true, webhook: true},
	{kind: "LocalQueue", plural: "localqueues", namespaced: true, shortNames: []string{"queue", "queues", "lq"}, status: true, webhook: true},
	{kind: "Cohort", plural: "cohorts", shortNames: []string{"co"}, status: true, webhook: true},
	{kind: "Workload", plural: "workloads", namespaced: true, shortNames: []string{"kwl", "kueueworkload", "kueueworkloads"}, status: true, webhook: true},
	{kind: "MultiKueueCluster", plural: "multikueueclusters", shortNames: []string{"mkc"}, status: true, webhook: true},
	{kind: "MultiKueueConfig", plural: "multikueueconfigs", shortNames: []string{"mkconf"}, notDeprecated: true},
	{kind: "ResourceFlavor", plural: "resourceflavors", shortNames: []string{"flavor", "flavors", "rf"}},
	{kind: "Topology", plural: "topologies", shortNames: []string{"topo"}},
	{kind: "AdmissionCheck", plural: "admissionchecks", shortNames: []string{"ac"}, status: true},
	{kind: "WorkloadPriorityClass", plural: "workloadpriorityclasses", shortNames: []string{"wpc"}},
	{kind: "ProvisioningRequestConfig", plural: "provisioningrequestconfigs", shortNames: []string{"prc"}},
}

func TestDefinitions(t *testing.T) {
	client, err := clientset.NewForConfig(harness.Shared.Config)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range definitions {
		t.Run(want.kind, func(t *testing.T) {
			crd, err := client.ApiextensionsV1().CustomResourceDefinitions().Get(t.Context(), want.plural+".kueue.x-k8s.io", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			checkNames(t, crd, want)
			checkVersions(t, crd, want)
			conversion := apiextensions.NoneConverter
			if want.webhook {
				conversion = apiextensions.WebhookConverter
			}
			if have := crd.Spec.Conversion.Strategy; have != conversion {
				t.Errorf("conversion strategy is %s, want %s", have, conversion)
			}
			for _, kind := range []apiextensions.CustomResourceDefinitionConditionType{apiextensions.Established, apiextensions.NamesAccepted} {
				if !slices.ContainsFunc(crd.Status.Conditions, func(c apiextensions.CustomResourceDefinitionCondition) bool {
					return c.Type == kind && c.Status == apiextensions.ConditionTrue
				}) {
					t.Errorf("condition %s is not true: %+v", kind, crd.Status.Conditions)
				}
			}
			// A schema with mistakes the server can live with is reported here.
			for _, condition := range crd.Status.Conditions {
				if condition.Type == apiextensions.NonStructuralSchema && condition.Status == apiextensions.ConditionTrue {
					t.Errorf("the schema is not structural: %s", condition.Message)
				}
			}
		})
	}
}

func checkNames(t *testing.T, crd *apiextensions.CustomResourceDefinition, want definition) {
	t.Helper()
	if crd.Spec.Names.Kind != want.kind || crd.Spec.Names.ListKind != want.kind+"List" {
		t.Errorf("kinds are %s and %s", crd.Spec.Names.Kind, crd.Spec.Names.ListKind)
	}
	scope := apiextensions.ClusterScoped
	if want.namespaced {
		scope = apiextensions.NamespaceScoped
	}
	if crd.Spec.Scope != scope {
		t.Errorf("scope is %s, want %s", crd.Spec.Scope, scope)
	}
	for _, name := range want.shortNames {
		if !slices.Contains(crd.Spec.Names.ShortNames, name) {
			t.Errorf("short name %s is missing in %v", name, crd.Spec.Names.ShortNames)
		}
	}
}

func checkVersions(t *testing.T, crd *apiextensions.CustomResourceDefinition, want definition) {
	t.Helper()
	if len(crd.Spec.Versions) != 2 {
		t.Fatalf("%d versions, want v1beta1 and v1beta2", len(crd.Spec.Versions))
	}
	for _, version := range crd.Spec.Versions {
		storage := version.Name == "v1beta2"
		if version.Name != "v1beta1" && version.Name != "v1beta2" {
			t.Errorf("unknown version %s", version.Name)
		}
		if !version.Served || version.Storage != storage {
			t.Errorf("%s: served %t, storage %t", version.Name, version.Served, version.Storage)
		}
		deprecated := !storage && !want.notDeprecated
		if version.Deprecated != deprecated {
			t.Errorf("%s: deprecated is %t", version.Name, version.Deprecated)
		}
		if deprecated && (version.DeprecationWarning == nil || *version.DeprecationWarning != deprecation) {
			t.Errorf("%s: the deprecation warning is wrong", version.Name)
		}
		status := version.Subresources != nil && version.Subresources.Status != nil
		if status != want.status {
			t.Errorf("%s: status subresource %t, want %t", version.Name, status, want.status)
		}
		selectable := len(version.SelectableFields) == 1 && version.SelectableFields[0].JSONPath == ".status.admission.clusterQueue"
		if selectable != (want.kind == "Workload" && storage) {
			t.Errorf("%s: selectable fields are %v", version.Name, version.SelectableFields)
		}
	}
}
