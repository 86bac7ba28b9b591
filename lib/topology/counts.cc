#include "topology/counts.h"

#include <algorithm>

#include "topology/search.h"

namespace sluice::topology {
namespace {

bool SameNeeds(const CountShape::Amounts& amounts, const Needs& needs) {
  return std::equal(amounts.begin(), amounts.end(), needs.begin(), needs.end(),
                    [](const auto& amount, const Need& need) {
                      return amount.first == need.resource && amount.second == need.amount;
                    });
}

CountShape::Amounts AmountsOf(const Needs& needs) {
  CountShape::Amounts amounts;
  for (const Need& need : needs) amounts.emplace_back(need.resource, need.amount);
  return amounts;
}

bool Same(const CountShape& shape, const SearchRequest& request, uint64_t mask) {
  if (shape.mask != mask || shape.simulate_empty != request.simulate_empty ||
      shape.slice_level != request.slice_level || shape.slice_size != request.slice_size ||
      shape.leader.has_value() != request.leader.has_value() || shape.inner != request.inner ||
      !SameNeeds(shape.worker, request.worker)) {
    return false;
  }
  return !shape.leader.has_value() || SameNeeds(*shape.leader, *request.leader);
}

CountShape ShapeOf(const SearchRequest& request, uint64_t mask) {
  CountShape shape;
  shape.mask = mask;
  shape.worker = AmountsOf(request.worker);
  if (request.leader.has_value()) shape.leader = AmountsOf(*request.leader);
  shape.simulate_empty = request.simulate_empty;
  shape.slice_level = request.slice_level;
  shape.slice_size = request.slice_size;
  shape.inner = request.inner;
  return shape;
}

}  // namespace

Counts& CountsCache::Find(const SearchRequest& request, uint64_t mask, size_t leaves) {
  ++asked_;
  for (const std::unique_ptr<Kept>& kept : kept_) {
    if (!Same(kept->shape, request, mask)) continue;
    kept->asked = asked_;
    return kept->counts;
  }
  // Small trees keep all; of a large one a shape is dear.
  constexpr size_t kSmall = 2048;
  const size_t shape_bytes = std::max<size_t>(1, leaves) * sizeof(DomainState);
  const size_t most = std::clamp<size_t>(
      std::max(kSmall * kBytesPerLeaf, leaves * kBytesPerLeaf) / shape_bytes, 1, kMostShapes);
  while (kept_.size() >= most) {
    kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                                 [](const auto& a, const auto& b) { return a->asked < b->asked; }));
  }
  kept_.push_back(std::make_unique<Kept>());
  kept_.back()->shape = ShapeOf(request, mask);
  kept_.back()->asked = asked_;
  return kept_.back()->counts;
}

size_t CountsCache::MemoryBytes() const {
  size_t bytes = kept_.capacity() * sizeof(kept_[0]);
  for (const std::unique_ptr<Kept>& kept : kept_) {
    bytes += sizeof(Kept) + kept->shape.inner.capacity() * sizeof(int64_t) +
             kept->counts.touched.capacity() * sizeof(int32_t);
    for (const auto& level : kept->counts.states) bytes += level.capacity() * sizeof(DomainState);
  }
  return bytes;
}

}  // namespace sluice::topology
