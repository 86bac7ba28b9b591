// TopologyRoom: the places on nodes that a preemptor needs, in a topology.
//
// Contract: while it lives, the inventory is what it would be without the workloads that are out;
// afterwards it is what it was. A question costs one search, and what is
// taken or returned its leaves.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "preemption/preemption.h"
#include "topology/placer.h"

namespace sluice::preemption {

class TopologyRoom : public Room {
 public:
  // What a workload takes on nodes, nullptr for nothing; valid until the next change of either.
  using UsageOf = std::function<const topology::Booking*(const ReservedWorkload&)>;

  // All must outlive it; `placer` asks `inventory`.
  TopologyRoom(topology::Inventory& inventory, topology::Placer& placer,
               const topology::WorkloadRequest& request, UsageOf usage_of)
      : overlay_(inventory), placer_(placer), request_(request), usage_of_(std::move(usage_of)) {}

  void Take(const ReservedWorkload& workload) override {
    const topology::Booking* booking = usage_of_(workload);
    if (booking == nullptr) return;
    overlay_.Remove(*booking);
    out_.push_back(booking);
  }
  void Return(const ReservedWorkload& workload) override {
    const topology::Booking* booking = usage_of_(workload);
    if (booking == nullptr) return;
    if (!out_.empty() && out_.back() == booking) {  // the last one: nothing is left of it
      overlay_.Rollback(overlay_.Mark() - 1);
      out_.pop_back();
      return;
    }
    overlay_.Add(*booking);
    out_.clear();  // what comes is on top of this
  }
  bool Fits() override {
    const bool fits = placer_.Fits(request_);
    refused_ = refused_ || !fits;
    return fits;
  }
  // Whether there was quota and no place at any time.
  bool refused() const { return refused_; }

 private:
  topology::Overlay overlay_;
  topology::Placer& placer_;
  const topology::WorkloadRequest& request_;
  UsageOf usage_of_;
  bool refused_ = false;
  std::vector<const topology::Booking*> out_;  // the newest changes of the overlay, each a Take
};

}  // namespace sluice::preemption
