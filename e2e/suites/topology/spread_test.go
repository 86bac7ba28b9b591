package topology

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice.dev/e2e/harness"
)

const spread = "sluice.dev/placement=Spread"

// newBlocks has 2 blocks of 2 racks of 2 hosts of 4 CPUs each.
func newBlocks(t *testing.T) site {
	t.Helper()
	t.Parallel()
	return site{harness.NewBlocks(t, 2, 2, 2, 4)}
}

// perDomain counts the pods in each block, rack and host; all domains of the site are named.
func (s site) perDomain(places map[int]string) map[string]int {
	count := map[string]int{}
	for rack := range 2 * s.BlockRacks {
		for host := range 2 {
			node, pods := s.Host(rack, host), 0
			for _, place := range places {
				if place == node {
					pods++
				}
			}
			count[fmt.Sprintf("block %d", rack/s.BlockRacks)] += pods
			count[fmt.Sprintf("rack %d", rack)] += pods
			count[fmt.Sprintf("host %d-%d", rack, host)] += pods
		}
	}
	return count
}

// expectCounts compares the numbers of pods in the domains of a level, smallest first.
func (s site) expectCounts(t *testing.T, what string, places map[int]string, level string, want ...int) {
	t.Helper()
	have := []int{}
	count := s.perDomain(places)
	for _, domain := range slices.Sorted(maps.Keys(count)) {
		if strings.HasPrefix(domain, level+" ") {
			have = append(have, count[domain])
		}
	}
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("%s: pods of each %s: %v, want %v; they are on %v", what, level, have, want, places)
	}
}

// TestSpreadOverBlocksRacksAndHosts: as even as possible at every level, where the same Job without
// the annotation, or with Pack, is on one host.
func TestSpreadOverBlocksRacksAndHosts(t *testing.T) {
	s := newBlocks(t)
	for _, row := range []struct {
		pods                 int
		blocks, racks, hosts []int
	}{
		{2, []int{1, 1}, []int{0, 0, 1, 1}, []int{0, 0, 0, 0, 0, 0, 1, 1}},
		{4, []int{2, 2}, []int{1, 1, 1, 1}, []int{0, 0, 0, 0, 1, 1, 1, 1}},
		{8, []int{4, 4}, []int{2, 2, 2, 2}, []int{1, 1, 1, 1, 1, 1, 1, 1}},
		{11, []int{5, 6}, []int{2, 3, 3, 3}, []int{1, 1, 1, 1, 1, 2, 2, 2}},
	} {
		name := fmt.Sprintf("spread-%d", row.pods)
		s.submit(t, name, row.pods, spread)
		places := s.expectRunning(t, name, row.pods)
		s.expectCounts(t, name, places, "block", row.blocks...)
		s.expectCounts(t, name, places, "rack", row.racks...)
		s.expectCounts(t, name, places, "host", row.hosts...)
		s.remove(t, name)
	}
	s.submit(t, "pack", 4, "sluice.dev/placement=Pack")
	s.expectCounts(t, "Pack", s.expectRunning(t, "pack", 4), "host", 0, 0, 0, 0, 0, 0, 0, 4)
	s.submit(t, "silent", 4)
	s.expectCounts(t, "no annotation", s.expectRunning(t, "silent", 4), "host", 0, 0, 0, 0, 0, 0, 0, 4)
}

// remove deletes a Job and waits until its pods have gone, so that the next one finds their room.
func (s site) remove(t *testing.T, job string) {
	t.Helper()
	harness.Shared.Delete(t, harness.JobKind, s.Namespace, job)
	harness.Eventually(t, "the pods of "+job+" are gone", func() error {
		pods, err := harness.Shared.List(t.Context(), podKind, s.Namespace, "batch.kubernetes.io/job-name="+job)
		if err == nil && len(pods) > 0 {
			return fmt.Errorf("%d are there", len(pods))
		}
		return err
	})
}

// TestSpreadGoesAroundWhatIsTaken: domains with less room get less, and those beside them more.
func TestSpreadGoesAroundWhatIsTaken(t *testing.T) {
	s := newBlocks(t)
	s.submit(t, "full", 4, required+"="+host)
	taken := s.expectRunning(t, "full", 4)[0]
	s.submit(t, "spread", 8, spread)
	places := s.expectRunning(t, "spread", 8)
	for _, place := range places {
		if place == taken {
			t.Errorf("a pod is on the full host %s: %v", taken, places)
		}
	}
	s.expectCounts(t, "beside a full host", places, "rack", 2, 2, 2, 2)
	s.expectCounts(t, "beside a full host", places, "host", 0, 1, 1, 1, 1, 1, 1, 2)
}

// TestSpreadWithinTheLevelThatIsAskedFor: the level binds, and the pods are spread within it.
func TestSpreadWithinTheLevelThatIsAskedFor(t *testing.T) {
	s := newBlocks(t)
	for _, row := range []struct {
		name, wish   string
		racks, hosts []int
	}{
		{"block", required + "=" + harness.BlockLabel, []int{0, 0, 2, 2}, []int{0, 0, 0, 0, 1, 1, 1, 1}},
		{"rack", required + "=" + rack, []int{0, 0, 0, 4}, []int{0, 0, 0, 0, 0, 0, 2, 2}},
	} {
		s.submit(t, row.name, 4, spread, row.wish)
		places := s.expectRunning(t, row.name, 4)
		s.expectCounts(t, row.name, places, "block", 0, 4)
		s.expectCounts(t, row.name, places, "rack", row.racks...)
		s.expectCounts(t, row.name, places, "host", row.hosts...)
		s.remove(t, row.name)
	}
}

// TestSpreadPodGroup: the same for plain pods.
func TestSpreadPodGroup(t *testing.T) {
	c := harness.Shared
	s := newBlocks(t)
	for i := range 4 {
		c.MustCreate(t, harness.Parsef(`
apiVersion: v1
kind: Pod
metadata:
  name: g-%[1]d
  namespace: %[2]s
  labels: {kueue.x-k8s.io/queue-name: %[3]s, kueue.x-k8s.io/pod-group-name: g, batch.kubernetes.io/job-name: g,
    batch.kubernetes.io/job-completion-index: "%[1]d"}
  annotations: {kueue.x-k8s.io/pod-group-total-count: "4", sluice.dev/placement: Spread}
spec:
  containers: [{name: main, image: registry.example/app:1, resources: {requests: {cpu: "1"}}}]
`, i, s.Namespace, s.Local))
	}
	places := s.expectRunning(t, "g", 4)
	s.expectCounts(t, "pod group", places, "block", 2, 2)
	s.expectCounts(t, "pod group", places, "rack", 1, 1, 1, 1)
}

func TestPlacementOfAnotherWordIsRefused(t *testing.T) {
	s := newSite(t, 0, 0, 0)
	_, err := harness.Shared.Create(t.Context(), s.gang("scattered", 4, "sluice.dev/placement=Scatter"))
	const path = "spec.template.metadata.annotations[sluice.dev/placement]"
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("the answer is %v, want one that names %s", err, path)
	}
}
