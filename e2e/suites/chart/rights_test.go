package chart

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sluice.dev/e2e/harness"
)

// installForController installs the chart for a controller beside the API server and starts one.
func installForController(t *testing.T) {
	t.Helper()
	if err := harness.Shared.InstallWithController(); err != nil {
		t.Fatal(err)
	}
}

// rarely are rights that a run of a few Jobs does not use, with the reason why they are needed.
var rarely = map[string]string{
	"update jobs.batch/finalizers":                     "asked for by the API server, for owner references that block deletion",
	"update workloads.kueue.x-k8s.io/finalizers":       "the same, for the variants of a Workload",
	"delete workloads.kueue.x-k8s.io":                  "surplus Workloads and retention",
	"delete jobs.batch":                                "retention of deactivated Workloads takes their Jobs along",
	"patch admissionchecks.kueue.x-k8s.io":             "the in-use finalizer, and there is no check here",
	"patch pods/status":                                "a pod that was sent to a node that has failed, and can never start",
	"create jobs.batch":                                "a dry run where the cluster has native gangs",
	"get podgroups.scheduling.k8s.io":                  "where the cluster has native gangs",
	"list podgroups.scheduling.k8s.io":                 "where the cluster has native gangs",
	"watch podgroups.scheduling.k8s.io":                "where the cluster has native gangs",
	"create podgroups.scheduling.k8s.io":               "where the cluster has native gangs",
	"patch podgroups.scheduling.k8s.io":                "where the cluster has native gangs",
	"patch events.events.k8s.io":                       "an event that repeats gets a count",
	"patch jobs.batch/status":                          "the start time of a stopped Job, where the Job controller was not quicker",
	"create secrets":                                   "the Secret of the certificates, if someone deleted it",
	"create tokenreviews.authentication.k8s.io":        "somebody scrapes the metrics",
	"create subjectaccessreviews.authorization.k8s.io": "somebody scrapes the metrics",
}

// TestRights runs a few Jobs and reads in the audit log what the controller asked for. Nothing it asks
// for may be forbidden, and what a role grants has to be asked for, but for the rare rights above.
func TestRights(t *testing.T) {
	installForController(t)
	exercise(t)
	granted := grants(t)
	for right := range rarely {
		if !slices.Contains(granted, right) {
			t.Errorf("in the list of rare rights, but not granted: %s", right)
		}
	}
	// Counters and events are written later than what they tell of.
	harness.Eventually(t, "everything that is granted is asked for", func() error {
		asked, unused := asked(t), []string{}
		for _, right := range granted {
			if !asked[right] && rarely[right] == "" && !impliedBy(asked, right) {
				unused = append(unused, right)
			}
		}
		if sort.Strings(unused); len(unused) > 0 {
			return fmt.Errorf("granted and never asked for: %v", unused)
		}
		if len(asked) < 10 {
			return fmt.Errorf("the audit log tells of %d kinds of requests only", len(asked))
		}
		return nil
	})
}

// impliedBy: whoever lists and watches a kind may as well get it, and the other way round; RBAC
// roles name the three together.
func impliedBy(asked map[string]bool, right string) bool {
	verb, resource, _ := strings.Cut(right, " ")
	readers := []string{"get", "list", "watch"}
	if !slices.Contains(readers, verb) {
		return false
	}
	for _, other := range readers {
		if asked[other+" "+resource] {
			return true
		}
	}
	return false
}

func exercise(t *testing.T) {
	t.Helper()
	c := harness.Shared
	watchNodes(t)
	q := c.NewQueue(t, harness.QueueOptions{CPU: "2"})
	cohort := c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: {parentName: %s}}", harness.Name("team"), harness.Name("org")))
	c.MustPatch(t, harness.Kueue("ClusterQueue"), "", q.Cluster, `{"spec":{"cohortName":"`+cohort.GetName()+`"}}`)
	harness.Eventually(t, "the Cohort's status shows its share", func() error {
		object, err := c.Fetch(t.Context(), harness.Kueue("Cohort"), "", cohort.GetName())
		if err == nil && harness.Field(object, "status", "fairSharing", "weightedShare") == "" {
			err = harness.ErrNotYet
		}
		return err
	})
	first := c.Submit(t, q, harness.Job{CPU: "2"})
	second := c.Submit(t, q, harness.Job{CPU: "2", RunSeconds: "0.2"})
	c.ExpectSuspended(t, q.Namespace, first, false)
	workload := c.ExpectWorkload(t, q.Namespace, first, "Admitted", "True", "")
	c.MustPatch(t, harness.Kueue("Workload"), q.Namespace, workload.GetName(), `{"spec":{"active":false}}`)
	c.ExpectFinished(t, q.Namespace, second)
	elastic := harness.Job{Name: harness.Name("job"), Namespace: q.Namespace, Queue: q.Local, RunSeconds: "0.2"}.Object()
	elastic.SetAnnotations(map[string]string{"kueue.x-k8s.io/elastic-job": "true"})
	c.ExpectFinished(t, q.Namespace, c.MustCreate(t, elastic).GetName())
	credits(t, q, cohort.GetName())
	c.Delete(t, harness.JobKind, q.Namespace, first)
	c.Delete(t, harness.Kueue("ClusterQueue"), "", q.Cluster)
	c.Delete(t, harness.Kueue("ResourceFlavor"), "", q.Flavor)
	harness.Eventually(t, "queue and flavor go", func() error {
		for kind, name := range map[string]string{"ClusterQueue": q.Cluster, "ResourceFlavor": q.Flavor} {
			if _, err := c.Fetch(t.Context(), harness.Kueue(kind), "", name); err == nil {
				return fmt.Errorf("%s is still there", kind)
			}
		}
		return nil
	})
}

// watchNodes creates a flavor with a topology: from then on the controller looks at nodes.
func watchNodes(t *testing.T) {
	t.Helper()
	c := harness.Shared
	topology := c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Topology, metadata: {name: %s}, spec: {levels: [{nodeLabel: kubernetes.io/hostname}]}}",
		harness.Name("topology"))).GetName()
	flavor := harness.Flavor(harness.Name("placed"))
	harness.Set(flavor, topology, "spec", "topologyName")
	harness.Set(flavor, map[string]any{"type": "kwok"}, "spec", "nodeLabels")
	c.MustCreate(t, flavor)
	harness.Eventually(t, "the Topology has its finalizer", func() error {
		object, err := c.Fetch(t.Context(), harness.Kueue("Topology"), "", topology)
		if err == nil && len(object.GetFinalizers()) == 0 {
			err = harness.ErrNotYet
		}
		return err
	})
}

// credits has an account made, adjusted, and deleted when its policy is gone. The policy leaves it an
// orphan, so that the garbage collector does not come first.
func credits(t *testing.T, q harness.Queue, cohort string) {
	t.Helper()
	c := harness.Shared
	account := harness.Parse("{apiVersion: sluice.dev/v1alpha1, kind: CreditAccount}").GroupVersionKind()
	policy := c.MustCreate(t, harness.Parsef("{apiVersion: sluice.dev/v1alpha1, kind: CreditPolicy, metadata: {name: %s}, spec: {selector: {cohort: %s}, resources: [{name: cpu}]}}", harness.Name("policy"), cohort))
	c.ExpectCondition(t, policy.GroupVersionKind(), "", policy.GetName(), "Active", "True", "Active")
	name := "cq-" + q.Cluster
	c.ExpectCondition(t, account, "", name, "Active", "True", "Active")
	c.MustPatch(t, account, "", name, `{"metadata":{"annotations":{"sluice.dev/adjust":"1"}}}`)
	harness.Eventually(t, "the adjustment is made", func() error {
		object, err := c.Fetch(t.Context(), account, "", name)
		if err != nil {
			return err
		}
		if object.GetAnnotations()["sluice.dev/adjust"] != "" {
			return harness.ErrNotYet
		}
		return nil
	})
	policies, err := c.Resource(policy.GroupVersionKind(), "")
	if err != nil {
		t.Fatal(err)
	}
	orphan := metav1.DeletePropagationOrphan
	if err := policies.Delete(t.Context(), policy.GetName(), metav1.DeleteOptions{PropagationPolicy: &orphan}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the account goes", func() error {
		if _, err := c.Fetch(t.Context(), account, "", name); err == nil {
			return harness.ErrNotYet
		}
		return nil
	})
}

// asked is the set of "verb resource.group/subresource" that the controller's account used so far. It is
// an error if the authorizer forbade one of them.
func asked(t *testing.T) map[string]bool {
	t.Helper()
	requests, err := harness.Shared.Requests()
	if err != nil {
		t.Fatal(err)
	}
	set, forbidden := map[string]bool{}, map[string]bool{}
	for _, request := range requests {
		object := request.ObjectRef
		if object.Resource == "" {
			continue
		}
		right := request.Verb + " " + name(object.Resource, object.APIGroup, object.Subresource)
		set[right] = true
		if request.Annotations["authorization.k8s.io/decision"] == "forbid" && !forbidden[right] {
			forbidden[right] = true
			t.Errorf("the controller may not %s (%s/%s)", right, object.Namespace, object.Name)
		}
	}
	return set
}

func name(resource, group, subresource string) string {
	if group != "" {
		resource += "." + group
	}
	if subresource != "" {
		resource += "/" + subresource
	}
	return resource
}

// grants is everything the roles of the controller's account allow, in the same form.
func grants(t *testing.T) []string {
	t.Helper()
	c := harness.Shared
	rules := []rbacv1.PolicyRule{}
	ours := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == "ServiceAccount" && s.Name == harness.ServiceAccount && s.Namespace == namespace
		})
	}
	clusterBindings, err := c.Kube.RbacV1().ClusterRoleBindings().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range clusterBindings.Items {
		if ours(binding.Subjects) {
			role, err := c.Kube.RbacV1().ClusterRoles().Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, role.Rules...)
		}
	}
	bindings, err := c.Kube.RbacV1().RoleBindings(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, binding := range bindings.Items {
		if ours(binding.Subjects) && binding.RoleRef.Kind == "Role" {
			role, err := c.Kube.RbacV1().Roles(namespace).Get(t.Context(), binding.RoleRef.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, role.Rules...)
		}
	}
	if len(rules) == 0 {
		t.Fatalf("no role is bound to %s", harness.ServiceAccount)
	}
	set := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				resource, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					if verb == "*" || resource == "*" || group == "*" {
						t.Errorf("a role grants everything: %v", rule)
					}
					set[verb+" "+name(resource, group, subresource)] = true
				}
			}
		}
	}
	list := []string{}
	for right := range set {
		list = append(list, right)
	}
	return list
}
