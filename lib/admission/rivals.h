// Rivals: who took what in one cycle, so that those who lose it can be told (private to this room).
//
// Names are computed only when somebody loses; until then it costs a cycle one entry of a list for
// each workload that got, or waits for, something. A cycle that decides names the last one that
// took something of what the loser needs, in O(1) of the entries. A question pays for more: as few
// of the last ones as had to go for the loser to fit.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "admission/explanation.h"
#include "admission/nominator.h"
#include "queueing/workload_info.h"
#include "quota/tree.h"

namespace sluice::admission {

class Rivals {
 public:
  // `most`: how many are named to one loser.
  Rivals(const quota::Tree& tree, size_t most) : tree_(tree), most_(most) {}

  // These amounts were booked for it in this cycle: it got them, or (`waits`) others must leave
  // them alone until it does.
  void Booked(const queueing::WorkloadInfoPtr& info, quota::Node& queue,
              const quota::CellAmounts& amounts, bool waits);

  // It was decided to preempt them for it.
  void Preempts(const queueing::WorkloadInfoPtr& info,
                const std::vector<preemption::Target>& targets);

  // Those without whom `wanted` would still fit into `queue`, as `fits` tells: the last ones that
  // took something of it. The tree is as before on return.
  std::vector<Explanation::Rival> ForQuota(const quota::Node& queue,
                                           const quota::CellAmounts& wanted,
                                           const std::function<bool()>& fits) const;
  // Those that took places on nodes of the same flavors.
  std::vector<Explanation::Rival> ForPlaces(const quota::CellAmounts& wanted) const;
  // Those that preempt what the entry would preempt or replace.
  std::vector<Explanation::Rival> ForTargets(const Entry& entry) const;

 private:
  struct Booking {
    queueing::WorkloadInfoPtr info;
    quota::Node* queue;
    const quota::Node* root;
    quota::CellAmounts amounts;
    bool waits;
  };

  Explanation::Rival RivalOf(const Booking& booking, const quota::CellAmounts& wanted) const;

  const quota::Tree& tree_;
  const size_t most_;
  std::vector<Booking> bookings_;
  std::vector<std::pair<preemption::Target, queueing::WorkloadInfoPtr>> victims_;
};

}  // namespace sluice::admission
