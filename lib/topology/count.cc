// Counting: what each domain could take.
#include <algorithm>
#include <limits>

#include "topology/search.h"

namespace sluice::topology {
namespace {

constexpr int64_t kMostPods = std::numeric_limits<int32_t>::max();
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongRun = 3600;  // seconds: where no start of the maintenance is known

size_t Index(int32_t value) { return static_cast<size_t>(value); }

int64_t RoundDown(int64_t value, int64_t unit) { return unit > 1 ? value - value % unit : value; }

}  // namespace

int64_t Searcher::Free(uint32_t resource, int32_t slot, const LeafUsage* assumed) const {
  const Tree& tree = *request_->tree;
  const int64_t* base = tree.base(resource);
  int64_t free = base == nullptr ? 0 : base[Index(slot)];
  const int64_t* used = request_->simulate_empty ? nullptr : tree.used(resource);
  if (used != nullptr) free -= used[Index(slot)];
  if (assumed != nullptr) {
    for (const auto& [id, amount] : assumed->amounts) {
      if (id == resource) free -= amount;
    }
  }
  return free;
}

// How often `needs` fit on the leaf after `taken` was taken once.
int64_t Searcher::Fit(const std::vector<Need>& needs, int32_t slot, const LeafUsage* assumed,
                      const std::vector<Need>* taken) const {
  int64_t fit = kMostPods;
  for (const Need& need : needs) {
    if (need.amount <= 0) continue;
    int64_t free = Free(need.resource, slot, assumed);
    if (taken != nullptr) {
      for (const Need& other : *taken) {
        if (other.resource == need.resource) free -= other.amount;
      }
    }
    if (free < need.amount) return 0;
    // A multiplication is cheaper than a division, and one resource usually limits.
    int64_t product = 0;
    if (!__builtin_mul_overflow(fit, need.amount, &product) && free >= product) continue;
    fit = free / need.amount;
  }
  return fit;
}

bool Searcher::InMaintenance(int32_t slot) const {
  if (!options_.exclude_maintenance) return false;
  const auto& nodes = request_->tree->leaf(slot).nodes;
  return std::any_of(nodes.begin(), nodes.end(), [&](const NodeRecord* node) {
    if (!node->maintenance_planned) return false;
    if (!node->maintenance_start.has_value()) return request_->bound.value_or(kNever) > kLongRun;
    const int64_t left = SaturatingSub(*node->maintenance_start, request_->now);
    return request_->bound.value_or(kNever) > left;
  });
}

void Searcher::CountLeaf(int32_t position, const Tree::Mask& mask, const LeafUsage* assumed) {
  const SearchRequest& request = *request_;
  const int32_t slot = request.tree->level(bottom()).slot[Index(position)];
  State& state = states_[bottom()][Index(position)];
  state = State();
  if (mask.code[Index(slot)] != Tree::Mask::kAccepted || slot == request.banned_leaf) return;
  if (request.tree->maintenance_nodes() > 0 && InMaintenance(slot)) return;
  state.pods = Fit(request.worker, slot, assumed, nullptr);
  state.pods_l = state.pods;
  if (request.leader.has_value() && Fit(*request.leader, slot, assumed, nullptr) >= 1) {
    state.leader = 1;
    state.pods_l = Fit(request.worker, slot, assumed, &*request.leader);
  }
  if (options_.preferred_affinity && !mask.score.empty()) state.affinity = mask.score[Index(slot)];
  if (request.slice_level == bottom()) {
    state.slices = state.pods / request.slice_size;
    state.slices_l = state.pods_l / request.slice_size;
  }
}

void Searcher::Count(const Assumed& assumed) {
  const SearchRequest& request = *request_;
  const Tree& tree = *request.tree;
  states_.resize(std::max(states_.size(), tree.depth()));
  for (size_t level = 0; level < tree.depth(); ++level) {
    states_[level].assign(Index(tree.level(level).size()), State());
  }
  mask_ = &tree.MaskFor(*request.filter);
  int32_t first = 0;
  int32_t last = tree.level(bottom()).size();
  if (request.confined.has_value()) {
    first = request.confined->second;
    last = first + 1;
    for (size_t level = request.confined->first; level < bottom(); ++level) {
      first = tree.level(level).begin[Index(first)];
      last = tree.level(level).begin[Index(last)];
    }
  }
  for (int32_t position = first; position < last; ++position) {
    CountLeaf(position, *mask_, nullptr);
  }
  for (const LeafUsage& taken : assumed) {
    for (const NodeRecord::View& view : taken.record->views) {
      if (view.tree != &tree) continue;
      const int32_t position = tree.PositionOf(view.slot);
      if (position >= first && position < last) CountLeaf(position, *mask_, &taken);
    }
  }
  CountParents(request, states_);
}

void Searcher::CountParent(const SearchRequest& request, size_t level, int32_t position,
                           std::vector<States>& states) {
  const Tree::Level& layout = request.tree->level(level);
  const int64_t inner = request.inner.empty() ? 0 : request.inner[level + 1];
  State sum;
  int64_t least_pods = kNever;
  int64_t least_slices = kNever;
  for (int32_t at = layout.begin[Index(position)]; at < layout.begin[Index(position) + 1]; ++at) {
    const State& child = states[level + 1][Index(at)];
    const int64_t pods = RoundDown(child.pods, inner);
    sum.pods += pods;
    sum.slices += child.slices;
    sum.affinity += child.affinity;
    sum.leader = std::max(sum.leader, child.leader);
    if (request.leader.has_value() && child.leader == 0) continue;
    least_pods = std::min(least_pods, pods - RoundDown(child.pods_l, inner));
    least_slices = std::min(least_slices, child.slices - child.slices_l);
  }
  sum.pods_l = least_pods == kNever ? 0 : sum.pods - least_pods;
  sum.slices_l = least_slices == kNever ? 0 : sum.slices - least_slices;
  if (level == request.slice_level) {
    sum.slices = sum.pods / request.slice_size;
    sum.slices_l = sum.pods_l / request.slice_size;
  }
  states[level][Index(position)] = sum;
}

void Searcher::CountParents(const SearchRequest& request, std::vector<States>& states) {
  for (size_t level = request.tree->depth() - 1; level-- > 0;) {
    for (int32_t at = 0; at < request.tree->level(level).size(); ++at) {
      CountParent(request, level, at, states);
    }
  }
}

}  // namespace sluice::topology
