// Package credits checks fair-share credits: a team banks what it does not use, bursts, gives back
// to a lender after a while, and the balance survives the controller.
package credits

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"sluice.dev/e2e/harness"
)

var kueue = harness.Kueue

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "credits", Nodes: 4, Audit: true})
}

func sluice(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "sluice.dev", Version: "v1alpha1", Kind: kind}
}

// org is a cohort of teams with one flavor.
type org struct {
	t              *testing.T
	c              *harness.Cluster
	cohort, flavor string
}

func newOrg(t *testing.T) org {
	t.Helper()
	o := org{t, harness.Shared, harness.Name("org"), harness.Name("flavor")}
	o.c.MustCreate(t, harness.Flavor(o.flavor))
	o.c.MustCreate(t, harness.Parsef("{apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort, metadata: {name: %s}, spec: {}}", o.cohort))
	return o
}

func (o org) team(cpu, reclaim string) harness.Queue {
	o.t.Helper()
	q := harness.Queue{Local: "main", Cluster: harness.Name("team"), Flavor: o.flavor, Namespace: o.c.Namespace(o.t)}
	object := harness.ClusterQueue(q, harness.QueueOptions{CPU: cpu})
	harness.Set(object, o.cohort, "spec", "cohortName")
	harness.Set(object, reclaim, "spec", "preemption", "reclaimWithinCohort")
	o.c.MustCreate(o.t, object)
	o.c.MustCreate(o.t, harness.LocalQueue(q.Namespace, q.Local, q.Cluster))
	return q
}

// policy makes a CreditPolicy; more is YAML for the spec.
func (o org) policy(more string) string {
	o.t.Helper()
	name := harness.Name("policy")
	o.c.MustCreate(o.t, harness.Parsef("{apiVersion: sluice.dev/v1alpha1, kind: CreditPolicy, metadata: {name: %s}, spec: {selector: {cohort: %s}, resources: [{name: cpu}], halfLife: \"0\", horizon: 10s%s}}", name, o.cohort, more))
	return name
}

// account waits until the account of the ClusterQueue satisfies the check.
func (o org) account(q harness.Queue, what string, check func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	o.t.Helper()
	var found *unstructured.Unstructured
	harness.EventuallyWithin(o.t, 2*time.Minute, "the account of "+q.Cluster+" "+what, func() error {
		object, err := o.c.Fetch(o.t.Context(), sluice("CreditAccount"), "", "cq-"+q.Cluster)
		if err != nil {
			return err
		}
		found = object
		if harness.Field(object, "status", "lastSettled") == "" {
			return harness.ErrNotYet
		}
		return check(object)
	})
	return found
}

func number(t *testing.T, object *unstructured.Unstructured, field string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(harness.Field(object, "status", field), 64)
	if err != nil {
		t.Fatalf("status.%s of %s: %v", field, object.GetName(), err)
	}
	return value
}

func is(field, want string) func(*unstructured.Unstructured) error {
	return func(object *unstructured.Unstructured) error {
		if have := harness.Field(object, "status", field); have != want {
			return fmt.Errorf("status.%s is %q, want %q", field, have, want)
		}
		return nil
	}
}

// settled is the instant for which the balance holds.
func settled(t *testing.T, object *unstructured.Unstructured) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, harness.Field(object, "status", "lastSettled"))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func (o org) gone(name string) error {
	if _, err := o.c.Fetch(o.t.Context(), sluice("CreditAccount"), "", name); err == nil {
		return fmt.Errorf("account %s is still there", name)
	}
	return nil
}

// TestBankBurstReclaim: a team saves for a while and bursts onto the quota of another one; that one
// is told until when it has to wait, and then gets its quota.
func TestBankBurstReclaim(t *testing.T) {
	o := newOrg(t)
	saver, lender := o.team("4", "Never"), o.team("4", "Any")
	o.policy(", effect: Protect, maxLenderDelay: 8s")
	o.account(saver, "earns", is("rate", "4"))
	harness.Throughout(t, 12*time.Second, "time to save", func() error { return nil })
	own := o.c.Submit(t, saver, harness.Job{Pods: 4})
	o.c.ExpectSuspended(t, saver.Namespace, own, false)
	// Of two that were reserved in the same second either may have to go.
	harness.NextSecond(t)
	borrowed := o.c.Submit(t, saver, harness.Job{Pods: 4})
	o.c.ExpectSuspended(t, saver.Namespace, borrowed, false)
	spends := o.account(saver, "spends", is("rate", "-4"))
	if balance := number(t, spends, "balance"); balance <= 0 || harness.Field(spends, "status", "emptyAt") == "" {
		t.Errorf("the balance is %f, and the bank empty at %q", balance, harness.Field(spends, "status", "emptyAt"))
	}
	claim := o.c.Submit(t, lender, harness.Job{Pods: 4})
	harness.Eventually(t, "the lender is told why it waits", func() error {
		workload, err := o.c.WorkloadOf(t.Context(), lender.Namespace, claim)
		if err != nil {
			return err
		}
		reserved := harness.ConditionOf(workload, "QuotaReserved")
		if reserved.Status == "True" || !strings.Contains(reserved.Message, "Credits protect what it would reclaim until ") {
			return fmt.Errorf("the condition says %s: %q", reserved.Status, reserved.Message)
		}
		return nil
	})
	o.c.ExpectSuspended(t, lender.Namespace, claim, false)
	o.c.ExpectSuspended(t, saver.Namespace, borrowed, true)
	o.c.ExpectSuspended(t, saver.Namespace, own, false)
	o.account(saver, "is within its quota", is("usage", "4"))
}

// TestAdjust: credits are granted by annotation, once.
func TestAdjust(t *testing.T) {
	o := newOrg(t)
	q := o.team("2", "Never")
	o.policy("")
	o.account(q, "is there", is("entitlement", "2"))
	name := "cq-" + q.Cluster
	for count := 1; count <= 2; count++ {
		o.c.MustPatch(t, sluice("CreditAccount"), "", name, `{"metadata":{"annotations":{"sluice.dev/adjust":"+12.5"}}}`)
		object := o.account(q, "is adjusted", func(object *unstructured.Unstructured) error {
			if object.GetAnnotations()["sluice.dev/adjust"] != "" {
				return fmt.Errorf("the annotation is still there")
			}
			return is("adjustments", strconv.Itoa(count))(object)
		})
		if earned := number(t, object, "lifetimeEarned"); earned < 12.5*float64(count) || earned > 12.5*float64(count)+1 {
			t.Errorf("after %d adjustments %f were earned", count, earned)
		}
	}
	o.c.ExpectEvent(t, "", "CreditAccount", name, "Adjusted")
	before := number(t, o.account(q, "is adjusted", is("adjustments", "2")), "lifetimeEarned")
	o.c.MustPatch(t, sluice("CreditAccount"), "", name, `{"metadata":{"annotations":{"sluice.dev/adjust":"a lot"}}}`)
	o.c.ExpectCondition(t, sluice("CreditAccount"), "", name, "Adjusted", "False", "InvalidAdjustment")
	o.c.ExpectEvent(t, "", "CreditAccount", name, "InvalidAdjustment")
	after := number(t, o.account(q, "lost the annotation", func(object *unstructured.Unstructured) error {
		if object.GetAnnotations()["sluice.dev/adjust"] != "" {
			return fmt.Errorf("the annotation is still there")
		}
		return is("adjustments", "2")(object)
	}), "lifetimeEarned")
	if after < before || after > before+1 {
		t.Errorf("a text that is no number changed what was earned from %f to %f", before, after)
	}
}

// TestPolicies: the older of two policies governs; with the last one the accounts go.
func TestPolicies(t *testing.T) {
	o := newOrg(t)
	q := o.team("2", "Never")
	first := o.policy("")
	o.account(q, "is there", is("entitlement", "2"))
	// Of two of the same second the one whose name comes first governs.
	harness.NextSecond(t)
	second := o.policy("")
	o.c.ExpectCondition(t, sluice("CreditPolicy"), "", second, "Conflict", "True", "Conflict")
	o.c.ExpectCondition(t, sluice("CreditPolicy"), "", first, "Active", "True", "Active")
	o.c.Delete(t, sluice("CreditPolicy"), "", first)
	o.c.ExpectCondition(t, sluice("CreditPolicy"), "", second, "Active", "True", "Active")
	harness.Eventually(t, "the second policy owns the account", func() error {
		object, err := o.c.Fetch(t.Context(), sluice("CreditAccount"), "", "cq-"+q.Cluster)
		if err != nil {
			return err
		}
		if owners := object.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != second {
			return fmt.Errorf("the owners are %v", owners)
		}
		return nil
	})
	o.c.Delete(t, sluice("CreditPolicy"), "", second)
	harness.Eventually(t, "the account goes", func() error { return o.gone("cq-" + q.Cluster) })
}

// TestRefused: the API server refuses what makes no sense, and names the field.
func TestRefused(t *testing.T) {
	for spec, field := range map[string]string{
		`{}`:                                                                           "spec.selector",
		`{selector: {cohort: a}, horizon: soon}`:                                       "spec.horizon",
		`{selector: {cohort: a}, horizon: "0"}`:                                        "spec.horizon",
		`{selector: {cohort: a}, halfLife: -1h}`:                                       "spec.halfLife",
		`{selector: {cohort: a}, maxBank: 90000h}`:                                     "spec.maxBank",
		`{selector: {cohort: a}, effect: Maybe}`:                                       "spec.effect",
		`{selector: {cohort: a}, resources: []}`:                                       "spec.resources",
		`{selector: {cohort: a}, resources: [{name: cpu, weight: "0"}]}`:               "spec.resources",
		`{selector: {cohort: a}, resources: [{name: cpu, weight: "-1"}]}`:              "spec.resources[0].weight",
		`{selector: {cohort: a}, resources: [{name: cpu, weight: "1e30"}]}`:            "spec.resources[0].weight",
		`{selector: {cohort: a}, resources: [{name: cpu, weight: heavy}]}`:             "spec.resources[0].weight",
		`{selector: {cohort: a}, burstLimit: [{flavor: f, resource: cpu, limit: -1}]}`: "spec.burstLimit[0].limit",
	} {
		bad := harness.Parsef("{apiVersion: sluice.dev/v1alpha1, kind: CreditPolicy, metadata: {name: %s}, spec: %s}", harness.Name("bad"), spec)
		if _, err := harness.Shared.Create(t.Context(), bad); err == nil {
			t.Errorf("a policy with the spec %s was accepted", spec)
		} else if !strings.Contains(err.Error(), field) {
			t.Errorf("the refusal of the spec %s does not name %s: %v", spec, field, err)
		}
	}
}

// TestExamples applies examples/credits, but for the time that the pods run: the test ends them.
func TestExamples(t *testing.T) {
	c := harness.Shared
	apply := c.Examples(t, "credits")
	apply("1-teams.yaml")
	o := org{t: t, c: c}
	vision, speech := harness.Queue{Cluster: "vision"}, harness.Queue{Cluster: "speech"}
	o.account(vision, "earns", is("rate", "4"))
	o.account(speech, "earns", is("rate", "4"))
	apply("2-burst.yaml")
	c.ExpectSuspended(t, "vision", "burst", false)
	o.account(vision, "spends", is("rate", "-2"))
	c.Kubectl(t, "annotate", "creditaccount", "cq-speech", "sluice.dev/adjust=+12.5")
	o.account(speech, "was granted credits", is("adjustments", "1"))
	header, _, _ := strings.Cut(c.Kubectl(t, "get", "cra", "cq-speech"), "\n")
	if have := strings.Join(strings.Fields(header), " "); have != "NAME BALANCE BANK-LIMIT ENTITLEMENT USAGE RATE EMPTY-AT" {
		t.Errorf("the columns are %q", have)
	}
}

// TestRestart: what is banked is the same after the controller was killed, to what time adds.
func TestRestart(t *testing.T) {
	o := newOrg(t)
	q := o.team("4", "Never")
	o.policy("")
	o.account(q, "is there", is("rate", "4"))
	job := o.c.Submit(t, q, harness.Job{Pods: 1})
	o.c.ExpectSuspended(t, q.Namespace, job, false)
	before := o.account(q, "knows the Job", is("rate", "3"))
	o.c.Controller().Kill()
	if err := o.c.ReleaseLease(); err != nil {
		t.Fatal(err)
	}
	if err := o.c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	second := o.c.Submit(t, q, harness.Job{Pods: 2})
	o.c.ExpectSuspended(t, q.Namespace, second, false)
	after := o.account(q, "knows the second Job", is("rate", "1"))
	hours := settled(t, after).Sub(settled(t, before)).Hours()
	gained := number(t, after, "balance") - number(t, before, "balance")
	if gained < 1*hours-1e-5 || gained > 3*hours+1e-5 {
		t.Errorf("in %f hours at a rate between 1 and 3 it gained %f", hours, gained)
	}
}
