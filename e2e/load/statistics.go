package load

import (
	"cmp"
	"math"
	"slices"
)

// Distribution describes a set of times in seconds.
type Distribution struct {
	Count               int
	Mean, P50, P95, Max float64
}

// describe sorts the values and describes them; all is 0 if there are none.
func describe(values []float64) Distribution {
	if len(values) == 0 {
		return Distribution{}
	}
	slices.Sort(values)
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return Distribution{Count: len(values), Mean: sum / float64(len(values)),
		P50: percentile(values, 50), P95: percentile(values, 95), Max: values[len(values)-1]}
}

// percentile is the smallest of the sorted values that at least that share of them does not exceed.
func percentile(sorted []float64, percent float64) float64 {
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// rates is how many of the events happened a second: from the first to the last, and in the best
// window of that many seconds, if they took longer than that. Without at least two different times there is no rate.
func rates(times []float64, window float64) (mean, best float64) {
	slices.Sort(times)
	if len(times) < 2 || times[len(times)-1] == times[0] {
		return 0, 0
	}
	mean = float64(len(times)-1) / (times[len(times)-1] - times[0])
	if times[len(times)-1]-times[0] <= window {
		return mean, mean
	}
	first := 0
	for last := range times {
		for times[last]-times[first] >= window {
			first++
		}
		best = max(best, float64(last-first+1)/window)
	}
	return mean, best
}

// point is one point of a curve.
type point struct{ x, y float64 }

// cumulative is the curve of the share of values that are not above x, with at most that many points.
func cumulative(values []float64, most int) []point {
	slices.Sort(values)
	curve := []point{}
	step := max(1, len(values)/max(1, most-1))
	for at := 0; at < len(values); at += step {
		curve = append(curve, point{values[at], float64(at+1) / float64(len(values))})
	}
	if last := len(values) - 1; last >= 0 && last%step != 0 {
		curve = append(curve, point{values[last], 1})
	}
	return curve
}

// thin takes at most that many points of a curve, always with the last.
func thin(curve []point, most int) []point {
	if len(curve) <= most {
		return curve
	}
	kept := []point{}
	for i := range most {
		kept = append(kept, curve[i*(len(curve)-1)/(most-1)])
	}
	return slices.CompactFunc(kept, func(a, b point) bool { return cmp.Compare(a.x, b.x) == 0 && a.y == b.y })
}
