package load

import (
	"math"
	"testing"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestDistribution(t *testing.T) {
	hundred := []float64{}
	for i := 100; i >= 1; i-- {
		hundred = append(hundred, float64(i))
	}
	for _, c := range []struct {
		name   string
		values []float64
		want   Distribution
	}{
		{"nothing", nil, Distribution{}},
		{"one value", []float64{7}, Distribution{1, 7, 7, 7, 7}},
		{"two values, the middle is the lower", []float64{4, 2}, Distribution{2, 3, 2, 4, 4}},
		{"1 to 100 in disorder", hundred, Distribution{100, 50.5, 50, 95, 100}},
		{"one outlier among 20 is not in p95", append(make([]float64, 19), 20), Distribution{20, 1, 0, 0, 20}},
	} {
		if have := describe(c.values); have != c.want {
			t.Errorf("%s: have %+v, want %+v", c.name, have, c.want)
		}
	}
}

func TestRates(t *testing.T) {
	steady := []float64{} // 8 a second for 20 s
	for i := range 161 {
		steady = append(steady, float64(i)/8)
	}
	burst := []float64{0, 100}
	for i := range 50 { // 50 within one second
		burst = append(burst, 40+float64(i)/50)
	}
	for _, c := range []struct {
		name       string
		times      []float64
		mean, best float64
	}{
		{"nothing", nil, 0, 0},
		{"one event has no rate", []float64{3}, 0, 0},
		{"events at one time have no rate", []float64{3, 3, 3}, 0, 0},
		{"steady", steady, 8, 8},
		{"shorter than the window", []float64{1, 2, 3}, 1, 1},
		{"a burst between two", burst, 0.51, 5},
	} {
		mean, best := rates(c.times, 10)
		if !near(mean, c.mean) || !near(best, c.best) {
			t.Errorf("%s: have %v and %v, want %v and %v", c.name, mean, best, c.mean, c.best)
		}
	}
}

func TestCumulativeKeepsTheLast(t *testing.T) {
	values := []float64{}
	for i := range 1001 {
		values = append(values, float64(1000-i))
	}
	curve := cumulative(values, 100)
	if len(curve) > 102 {
		t.Errorf("%d points", len(curve))
	}
	if last := curve[len(curve)-1]; last != (point{1000, 1}) {
		t.Errorf("the last point is %v", last)
	}
	for i := 1; i < len(curve); i++ {
		if curve[i].x < curve[i-1].x || curve[i].y <= curve[i-1].y {
			t.Fatalf("not rising at %d: %v, %v", i, curve[i-1], curve[i])
		}
	}
	if have := cumulative(nil, 100); len(have) != 0 {
		t.Errorf("nothing gives %v", have)
	}
}

func TestThin(t *testing.T) {
	curve := []point{}
	for i := range 5000 {
		curve = append(curve, point{float64(i), float64(i)})
	}
	thinned := thin(curve, 600)
	if len(thinned) != 600 || thinned[0] != curve[0] || thinned[599] != curve[4999] {
		t.Errorf("%d points from %v to %v", len(thinned), thinned[0], thinned[len(thinned)-1])
	}
	if have := thin(curve[:3], 600); len(have) != 3 {
		t.Errorf("a short curve has %d points", len(have))
	}
}

func TestTicks(t *testing.T) {
	for _, most := range []float64{0.003, 0.7, 1, 3, 7, 19, 120, 999, 15000, 3e6} {
		all := ticks(most)
		if last := all[len(all)-1]; last < most || last > 2*most+1e-9 || len(all) < 3 || len(all) > 8 {
			t.Errorf("ticks for %v: %v", most, all)
		}
	}
	for _, most := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if all := ticks(most); len(all) != 2 {
			t.Errorf("ticks for %v: %v", most, all)
		}
	}
}

const metricsText = `# HELP apiserver_request_total Counter of requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",component="apiserver",dry_run="",group="kueue.x-k8s.io",resource="workloads",scope="resource",subresource="status",verb="APPLY",version="v1beta2"} 20
apiserver_request_total{code="409",component="apiserver",dry_run="",group="kueue.x-k8s.io",resource="workloads",scope="resource",subresource="status",verb="APPLY",version="v1beta2"} 3
apiserver_request_total{code="201",component="apiserver",dry_run="",group="kueue.x-k8s.io",resource="workloads",scope="resource",subresource="",verb="POST",version="v1beta2"} 10
apiserver_request_total{code="200",component="apiserver",dry_run="",group="kueue.x-k8s.io",resource="workloads",scope="cluster",subresource="",verb="LIST",version="v1beta2"} 2
apiserver_request_total{code="200",component="apiserver",dry_run="",group="kueue.x-k8s.io",resource="workloads",scope="cluster",subresource="",verb="WATCH",version="v1beta2"} 2
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1e+03
apiserver_request_total{code="0",group="",resource="odd\"}, name",scope="",subresource="",verb="GET",version=""} 1
apiserver_request_total{code="200",broken
apiserver_request_duration_seconds_count{verb="POST"} 77
`

func TestRequests(t *testing.T) {
	after := parseRequests([]byte(metricsText))
	before := map[requestKey]int64{{"POST", "workloads.kueue.x-k8s.io", "", "201"}: 4, {"POST", "pods", "", "201"}: 1000}
	have := requestsBetween(before, after)
	want := []Request{
		{"APPLY", "workloads.kueue.x-k8s.io", "status", 23, 3},
		{"POST", "workloads.kueue.x-k8s.io", "", 6, 0},
		{"LIST", "workloads.kueue.x-k8s.io", "", 2, 0},
		{"GET", `odd"}, name`, "", 1, 0},
	}
	if len(have) != len(want) {
		t.Fatalf("have %+v, want %+v", have, want)
	}
	for i := range want {
		if have[i] != want[i] {
			t.Errorf("row %d: have %+v, want %+v", i, have[i], want[i])
		}
	}
	if writes := writesTo(have, "workloads.kueue.x-k8s.io"); writes != 29 {
		t.Errorf("%d writes to Workloads, want 29", writes)
	}
}
