// StillRefused: a quick look at whether a workload that found no room would find none again.
//
// Under load every end of a workload is a release for its whole tree of cohorts, and most of those
// that wait there would be refused as before: the room is less than they need, or the first of them
// takes it. This look costs O(resources x flavors x depth), and not a nomination with its search
// for victims.
//
// True: in every flavor of some resource there is less quota than one of its pod sets needs, also
// without those of lower priority in its ClusterQueue, and it would borrow, so that it may not take
// back what others have borrowed. That is enough to leave it where it is for a moment, and not to
// refuse it: borrowWithinCohort, trees of several levels and fair sharing know other ways to make
// room. Whoever acts on it asks again properly soon after. False: judge it.
//
// Thread-compatible. Source: Kueue documentation, "Preemption" (candidates).
#pragma once

#include "admission/snapshot.h"
#include "queueing/workload_info.h"

namespace sluice::admission {

bool StillRefused(const Snapshot& snapshot, const queueing::WorkloadInfo& info);

}  // namespace sluice::admission
