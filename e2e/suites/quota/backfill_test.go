package quota

import (
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

// bounded is the label of a Job that runs for so many seconds at most.
func bounded(seconds string) string { return "kueue.x-k8s.io/max-exec-time-seconds=" + seconds }

// TestBackfill: the head that does not fit is reserved a time. A Job that ends before it starts out
// of order, one without a bound does not.
func TestBackfill(t *testing.T) {
	c := cluster(t)
	o := newOrg(t, c)
	q := o.team("8")
	c.MustPatch(t, kueue("ClusterQueue"), "", q.Cluster, `{"metadata":{"annotations":{"sluice.dev/backfill":"EASY"}}}`)
	_, err := c.Patch(t.Context(), kueue("ClusterQueue"), "", q.Cluster, `{"metadata":{"annotations":{"sluice.dev/backfill":"eager"}}}`)
	if err == nil || !strings.Contains(err.Error(), "metadata.annotations[sluice.dev/backfill]") {
		t.Errorf("a wrong value is not refused with its field: %v", err)
	}

	runs := o.run(q, 6, bounded("3600"))
	head := o.submit(q, 8, bounded("3600"))
	reserved := c.ExpectWorkload(t, q.Namespace, head, "Reserved", "True", "EarliestStart")
	if text := harness.ConditionOf(reserved, "Reserved").Message; !strings.Contains(text, "The earliest start is 2") {
		t.Errorf("the condition says %q, which is no time", text)
	}

	harness.NextSecond(t)
	endless := o.submit(q, 1)
	c.ExpectWorkload(t, q.Namespace, endless, "QuotaReserved", "False", "Reserved")
	short := o.run(q, 2, bounded("1200"))
	c.ExpectEvent(t, q.Namespace, "Workload", workload(t, q, short).GetName(), "Backfilled")
	o.stays(q, true, head, endless)

	o.gone(q, short)
	o.gone(q, runs)
	c.ExpectSuspended(t, q.Namespace, head, false)
	c.ExpectWorkload(t, q.Namespace, head, "Reserved", "False", "QuotaReserved")
	o.gone(q, head)
	c.ExpectSuspended(t, q.Namespace, endless, false)
}
