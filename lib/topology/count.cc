// Counting: what each domain could take.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "topology/search.h"

namespace sluice::topology {
namespace {

constexpr int64_t kMostPods = std::numeric_limits<int32_t>::max();
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr uint64_t kFewNotes = 64;
constexpr int64_t kLongRun = 3600;  // seconds: where no start of the maintenance is known

size_t Index(int32_t value) { return static_cast<size_t>(value); }

// Whether the pods could still run there when the planned maintenance begins.
bool Outlasts(const SearchRequest& request, const Options& options, const NodeRecord& node) {
  if (!options.exclude_maintenance || !node.maintenance_planned) return false;
  if (!node.maintenance_start.has_value()) return request.bound.value_or(kNever) > kLongRun;
  const int64_t left = SaturatingSub(*node.maintenance_start, request.now);
  return request.bound.value_or(kNever) > left;
}

// What nodes give to a leaf that are in maintenance before the pods have ended.
int64_t LostAt(const SearchRequest& request, const Options& options, uint32_t resource,
               int32_t slot) {
  int64_t lost = 0;
  for (const NodeRecord* node : request.tree->leaf(slot).nodes) {
    if (!Outlasts(request, options, *node)) continue;
    lost += AmountAt(node->allocatable, resource) - AmountAt(node->foreign, resource);
  }
  return lost;
}

int64_t RoundDown(int64_t value, int64_t unit) { return unit > 1 ? value - value % unit : value; }

}  // namespace

int64_t Searcher::Free(uint32_t resource, int32_t slot, const LeafUsage* assumed) const {
  const Tree& tree = *request_->tree;
  const int64_t* base = tree.base(resource);
  int64_t free = base == nullptr ? 0 : base[Index(slot)];
  if (tree.maintenance_nodes() > 0 && !tree.ends_in_hosts()) {
    free -= LostAt(*request_, options_, resource, slot);
  }
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
int64_t Searcher::Fit(const Needs& needs, int32_t slot, const LeafUsage* assumed,
                      const Needs* taken) const {
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

// A leaf that is a sum over nodes is out only when all of them are; else it lacks what they have.
bool Searcher::InMaintenance(int32_t slot) const {
  const auto& nodes = request_->tree->leaf(slot).nodes;
  const auto outlasts = [&](const NodeRecord* node) {
    return Outlasts(*request_, options_, *node);
  };
  return request_->tree->ends_in_hosts() ? std::any_of(nodes.begin(), nodes.end(), outlasts)
                                         : std::all_of(nodes.begin(), nodes.end(), outlasts);
}

void Searcher::CountLeaf(int32_t position, const LeafUsage* assumed) {
  const SearchRequest& request = *request_;
  const int32_t slot = request.tree->level(bottom()).slot[Index(position)];
  State& state = StateOf(bottom(), position);
  state = State();
  if (mask_->code[Index(slot)] != Tree::Mask::kAccepted || slot == request.banned_leaf) return;
  if (request.tree->maintenance_nodes() > 0 && InMaintenance(slot)) return;
  state.pods = Fit(request.worker, slot, assumed, nullptr);
  state.pods_l = state.pods;
  if (request.leader.has_value() && Fit(*request.leader, slot, assumed, nullptr) >= 1) {
    state.leader = 1;
    state.pods_l = Fit(request.worker, slot, assumed, &*request.leader);
  }
  if (options_.preferred_affinity && !mask_->score.empty()) {
    state.affinity = mask_->score[Index(slot)];
  }
  if (request.slice_level == bottom()) {
    state.slices = state.pods / request.slice_size;
    state.slices_l = state.pods_l / request.slice_size;
  }
}

void Searcher::CountParent(size_t level, int32_t position) {
  const SearchRequest& request = *request_;
  const Tree::Level& layout = request.tree->level(level);
  const int64_t inner = request.inner.empty() ? 0 : request.inner[level + 1];
  State sum;
  int64_t least_pods = kNever;
  int64_t least_slices = kNever;
  for (int32_t at = layout.begin[Index(position)]; at < layout.begin[Index(position) + 1]; ++at) {
    const State& child = At(level + 1, at);
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
  StateOf(level, position) = sum;
}

void Searcher::CountParents() {
  for (size_t level = bottom(); level-- > 0;) {
    for (int32_t at = 0; at < Domains(level); ++at) CountParent(level, at);
  }
}

// ---- kept counts ----

// Where the numbers depend on nothing but the shape of the pods and the tree.
bool Searcher::CanKeep() const {
  return !request_->confined.has_value() && request_->banned_leaf < 0 &&
         (request_->tree->maintenance_nodes() == 0 || !options_.exclude_maintenance);
}

// A leaf went from `before` to what it is now: the domains above it follow.
void Searcher::Propagate(int32_t position, State before) {
  const SearchRequest& request = *request_;
  for (size_t level = bottom(); level-- > 0;) {
    const State now = At(level + 1, position);
    if (now == before) return;
    position = request.tree->level(level + 1).parent[Index(position)];
    State& parent = StateOf(level, position);
    const State parent_before = parent;
    if (request.leader.has_value()) {
      // Which child gives up least for the leader can be another one now.
      CountParent(level, position);
    } else {
      const int64_t inner = request.inner.empty() ? 0 : request.inner[level + 1];
      parent.pods += RoundDown(now.pods, inner) - RoundDown(before.pods, inner);
      parent.slices += now.slices - before.slices;
      parent.affinity += now.affinity - before.affinity;
      if (level == request.slice_level) parent.slices = parent.pods / request.slice_size;
      parent.pods_l = parent.pods;
      parent.slices_l = parent.slices;
    }
    before = parent_before;
  }
}

void Searcher::Recount(int32_t slot, const LeafUsage* assumed) {
  const int32_t position = request_->tree->PositionOf(slot);
  if (position < 0) return;
  const State before = At(bottom(), position);
  CountLeaf(position, assumed);
  Propagate(position, before);
}

void Searcher::CountAll(Counts& counts) {
  const Tree& tree = *request_->tree;
  counts.states.resize(tree.depth());
  for (size_t level = 0; level < tree.depth(); ++level) {
    counts.states[level].assign(Index(tree.level(level).size()), State());
  }
  for (int32_t position = 0; position < Domains(bottom()); ++position) {
    CountLeaf(position, nullptr);
  }
  CountParents();
  counts.touched.clear();
  tree.base_journal().ReadAll();
  tree.used_journal().ReadAll();
}

void Searcher::BringUp(Counts& counts) {
  const Tree& tree = *request_->tree;
  const Journal& base = tree.base_journal();
  const Journal& used = tree.used_journal();
  const bool empty = request_->simulate_empty;
  const auto behind = [&] {
    const uint64_t notes =
        base.end() - counts.base_read + (empty ? 0 : used.end() - counts.used_read);
    return notes > std::max<uint64_t>(kFewNotes, static_cast<uint64_t>(tree.leaf_count()));
  };
  if (counts.layout != tree.layout() || counts.filter_epoch != mask_->epoch || behind() ||
      !base.Knows(counts.base_read) || (!empty && !used.Knows(counts.used_read))) {
    CountAll(counts);
  } else {
    const auto recount = [this](int32_t slot) { Recount(slot, nullptr); };
    std::for_each(counts.touched.begin(), counts.touched.end(), recount);
    counts.touched.clear();
    base.Since(counts.base_read, recount);
    if (!empty) used.Since(counts.used_read, recount);
  }
  counts.layout = tree.layout();
  counts.filter_epoch = mask_->epoch;
  counts.base_read = base.end();
  counts.used_read = used.end();
}

void Searcher::CheckKept(const Tree& tree, const Options& options) {
  tree.counts().ForEach([&](const CountShape& shape, Counts& kept) {
    const NodeFilter* filter = tree.FilterOf(shape.mask);
    if (filter == nullptr) return;  // nobody can ask for it again
    const auto needs = [](const CountShape::Amounts& amounts) {
      Needs result;
      for (const auto& [resource, amount] : amounts) result.push_back({resource, amount, nullptr});
      return result;
    };
    SearchRequest request;
    request.tree = &tree;
    request.worker = needs(shape.worker);
    if (shape.leader.has_value()) request.leader = needs(*shape.leader);
    request.filter = filter;
    request.slice_level = shape.slice_level;
    request.slice_size = shape.slice_size;
    request.inner = shape.inner;
    request.simulate_empty = shape.simulate_empty;
    Searcher searcher(options);
    searcher.request_ = &request;
    searcher.mask_ = &tree.MaskFor(*filter);
    if (!searcher.CanKeep()) return;
    searcher.states_ = &kept.states;
    searcher.BringUp(kept);
    Counts fresh;
    searcher.states_ = &fresh.states;
    searcher.CountAll(fresh);
    SLUICE_CHECK(kept.states == fresh.states, "flavor {}: kept counts differ from new ones",
                 tree.name());
  });
}

// ---- counts for one search ----

// Within the domain where the search has to stay, or everywhere.
void Searcher::CountWithin() {
  const SearchRequest& request = *request_;
  const Tree& tree = *request.tree;
  own_.resize(std::max(own_.size(), tree.depth()));
  for (size_t level = 0; level < tree.depth(); ++level) {
    own_[level].assign(Index(tree.level(level).size()), State());
  }
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
  for (int32_t position = first; position < last; ++position) CountLeaf(position, nullptr);
  for (const LeafUsage& taken : *assumed_) {
    for (const NodeRecord::View& view : taken.record->views) {
      if (view.tree != &tree) continue;
      const int32_t position = tree.PositionOf(view.slot);
      if (position >= first && position < last) CountLeaf(position, &taken);
    }
  }
  CountParents();
}

void Searcher::Count() {
  const Tree& tree = *request_->tree;
  mask_ = &tree.MaskFor(*request_->filter);
  if (!CanKeep()) {
    states_ = &own_;
    return CountWithin();
  }
  Counts& counts = tree.counts().Find(*request_, mask_->id, static_cast<size_t>(tree.leaf_count()));
  states_ = &counts.states;
  BringUp(counts);
  for (const LeafUsage& taken : *assumed_) {
    for (const NodeRecord::View& view : taken.record->views) {
      if (view.tree != &tree) continue;
      counts.touched.push_back(view.slot);
      Recount(view.slot, &taken);
    }
  }
}

int64_t Searcher::Room(const SearchRequest& request) {
  static const Assumed kNothing;
  request_ = &request;
  assumed_ = &kNothing;
  SLUICE_CHECK(CanKeep(), "flavor {}: room by counts that cannot be kept", request.tree->name());
  Count();
  int64_t room = 0;
  if (!request.required || (request.even && request.unconstrained)) {
    // Whatever level they are put on, all of it together is what the top holds.
    for (const State& state : (*states_)[0]) room += state.slices;
    return room;
  }
  for (const State& state : (*states_)[request.level]) {
    if (state.leader >= leaders()) room = std::max(room, state.slices_l);
  }
  return room;
}

}  // namespace sluice::topology
