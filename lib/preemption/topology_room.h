// TopologyRoom: the places on nodes that a preemptor needs, in a topology.
//
// Contract: while it lives, the inventory is what it would be without the workloads that are out;
// afterwards it is what it was. A question costs one placement.
#pragma once

#include <functional>
#include <utility>

#include "preemption/preemption.h"
#include "topology/placer.h"

namespace sluice::preemption {

class TopologyRoom : public Room {
 public:
  // What a workload takes on nodes, nullptr for nothing; valid until the next change of either.
  using UsageOf = std::function<const topology::WorkloadUsage*(const ReservedWorkload&)>;

  // All must outlive it; `placer` asks `inventory`.
  TopologyRoom(topology::Inventory& inventory, topology::Placer& placer,
               const topology::WorkloadRequest& request, UsageOf usage_of)
      : overlay_(inventory), placer_(placer), request_(request), usage_of_(std::move(usage_of)) {}

  void Take(const ReservedWorkload& workload) override {
    if (const topology::WorkloadUsage* usage = usage_of_(workload)) overlay_.Remove(*usage);
  }
  void Return(const ReservedWorkload& workload) override {
    if (const topology::WorkloadUsage* usage = usage_of_(workload)) overlay_.Add(*usage);
  }
  bool Fits() override {
    const bool fits = placer_.Place(request_).fits();
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
};

}  // namespace sluice::preemption
