#include "topology/tree.h"

#include <absl/strings/str_join.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::topology {
namespace {

// More shapes than a cluster has at a time; beyond it the oldest knowledge is not worth keeping.
constexpr size_t kMaxMasks = 64;

}  // namespace

bool UsageRecord::Empty() const {
  return views.empty() && std::all_of(used.begin(), used.end(), [](int64_t x) { return x == 0; });
}

Tree::Tree(FlavorName name, Flavor flavor, const Options& options, const KeyTable& keys)
    : name_(std::move(name)),
      flavor_(std::move(flavor)),
      options_(options),
      keys_(keys),
      ends_in_hosts_(EndsInHosts(flavor_.levels)),
      domains_(flavor_.levels.size()),
      unused_(flavor_.levels.size()),
      layout_(flavor_.levels.size()) {
  SLUICE_CHECK(!flavor_.levels.empty(), "flavor {}: a topology without levels", name_);
}

int Tree::FindLevel(const std::string& label) const {
  for (size_t i = 0; i < flavor_.levels.size(); ++i) {
    if (flavor_.levels[i] == label) return static_cast<int>(i);
  }
  return -1;
}

std::optional<std::vector<std::string>> Tree::PlaceOf(const NodeRecord& node) const {
  if (!node.known || !node.usable) return std::nullopt;
  // Without hosts a leaf is a sum over nodes, so a node that is to be left can only stay out whole.
  if (!ends_in_hosts_ && node.leaving && options_.exclude_leaving) return std::nullopt;
  for (const auto& [key, value] : flavor_.node_labels) {
    const uint32_t id = keys_.Find(key);
    if (id == KeyTable::kUnknown || node.labels.Get(id) != value) return std::nullopt;
  }
  std::vector<std::string> values;
  values.reserve(depth());
  for (const std::string& label : flavor_.levels) {
    const uint32_t id = keys_.Find(label);
    const auto value = id == KeyTable::kUnknown ? std::nullopt : node.labels.Get(id);
    if (!value.has_value()) return std::nullopt;
    values.emplace_back(*value);
  }
  return values;
}

std::string Tree::IdentityOf(const std::vector<std::string>& values) const {
  return ends_in_hosts_ ? values.back() : absl::StrJoin(values, ",");
}

std::vector<int32_t>& Tree::ChildrenOf(size_t level, int32_t parent) {
  return level == 0 ? roots_ : domains_[level - 1][Index(parent)].children;
}

int32_t Tree::NewDomain(size_t level, std::string value, int32_t parent) {
  int32_t slot = 0;
  if (!unused_[level].empty()) {
    slot = unused_[level].back();
    unused_[level].pop_back();
  } else {
    slot = static_cast<int32_t>(domains_[level].size());
    domains_[level].emplace_back();
  }
  Domain& domain = domains_[level][Index(slot)];
  domain.value = std::move(value);
  domain.parent = parent;
  std::vector<int32_t>& siblings = ChildrenOf(level, parent);
  const auto place = std::lower_bound(siblings.begin(), siblings.end(), domain.value,
                                      [&](int32_t a, const std::string& wanted) {
                                        return domains_[level][Index(a)].value < wanted;
                                      });
  siblings.insert(place, slot);
  stale_ = true;
  return slot;
}

int32_t Tree::FindOrAddDomain(size_t level, int32_t parent, const std::string& value) {
  const std::vector<int32_t>& siblings = ChildrenOf(level, parent);
  const auto place = std::lower_bound(siblings.begin(), siblings.end(), value,
                                      [&](int32_t a, const std::string& wanted) {
                                        return domains_[level][Index(a)].value < wanted;
                                      });
  if (place != siblings.end() && domains_[level][Index(*place)].value == value) return *place;
  return NewDomain(level, value, parent);
}

void Tree::Unlink(size_t level, int32_t slot) {
  const Domain& domain = domains_[level][Index(slot)];
  const int32_t parent = domain.parent;
  std::vector<int32_t>& siblings = ChildrenOf(level, parent);
  siblings.erase(std::find(siblings.begin(), siblings.end(), slot));
  stale_ = true;
  if (level > 0 && siblings.empty()) {
    Unlink(level - 1, parent);
    unused_[level - 1].push_back(parent);
  }
}

// Puts a leaf that has a slot but no place below the domains of `values`.
void Tree::Link(int32_t leaf, const std::vector<std::string>& values) {
  int32_t parent = -1;
  for (size_t level = 0; level + 1 < depth(); ++level) {
    parent = FindOrAddDomain(level, parent, values[level]);
  }
  unused_[depth() - 1].push_back(leaf);
  const int32_t taken = NewDomain(depth() - 1, values.back(), parent);
  SLUICE_CHECK(taken == leaf, "leaf {} took slot {}", leaf, taken);
}

int32_t Tree::AddNode(const NodeRecord& node, const std::vector<std::string>& values,
                      bool* created) {
  const size_t bottom = depth() - 1;
  const std::string identity = IdentityOf(values);
  auto found = by_identity_.find(identity);
  *created = found == by_identity_.end();
  int32_t slot = 0;
  if (*created) {
    if (unused_[bottom].empty()) {
      unused_[bottom].push_back(static_cast<int32_t>(domains_[bottom].size()));
      domains_[bottom].emplace_back();
      leaves_.emplace_back();
      for (Columns* columns : {&base_, &used_}) {
        for (std::vector<int64_t>& column : *columns) {
          if (!column.empty()) column.push_back(0);
        }
      }
    }
    slot = unused_[bottom].back();
    unused_[bottom].pop_back();
    by_identity_.emplace(identity, slot);
    ++leaf_count_;
    Link(slot, values);
  } else {
    slot = found->second;
  }
  std::vector<const NodeRecord*>& nodes = leaves_[Index(slot)].nodes;
  nodes.insert(std::lower_bound(nodes.begin(), nodes.end(), &node,
                                [](const auto* a, const auto* b) { return a->name < b->name; }),
               &node);
  if (!*created && nodes.front() == &node && !PlaceIs(slot, values)) {
    Unlink(bottom, slot);
    Link(slot, values);
  }
  Contribute(node, slot, 1);
  NoteFilterChange(slot);
  return slot;
}

bool Tree::RemoveNode(const NodeRecord& node, int32_t slot) {
  const size_t bottom = depth() - 1;
  Leaf& leaf = leaves_[Index(slot)];
  leaf.nodes.erase(std::find(leaf.nodes.begin(), leaf.nodes.end(), &node));
  Contribute(node, slot, -1);
  NoteFilterChange(slot);
  if (!leaf.nodes.empty()) {
    const auto values = PlaceOf(*leaf.nodes.front());
    if (values.has_value() && !PlaceIs(slot, *values)) {
      Unlink(bottom, slot);
      Link(slot, *values);
    }
    return false;
  }
  by_identity_.erase(IdentityOf(ValuesOf(bottom, slot)));
  Unlink(bottom, slot);
  unused_[bottom].push_back(slot);
  leaf.usage = nullptr;
  --leaf_count_;
  for (std::vector<int64_t>& column : base_) {
    if (Index(slot) < column.size()) column[Index(slot)] = 0;
  }
  for (std::vector<int64_t>& column : used_) {
    if (Index(slot) < column.size()) column[Index(slot)] = 0;
  }
  return true;
}

bool Tree::PlaceIs(int32_t slot, const std::vector<std::string>& values) const {
  int32_t at = slot;
  for (size_t level = depth(); level-- > 0;) {
    const Domain& domain = domains_[level][Index(at)];
    if (domain.value != values[level]) return false;
    at = domain.parent;
  }
  return true;
}

void Tree::SetTolerations(std::vector<Toleration> tolerations) {
  flavor_.tolerations = std::move(tolerations);
  masks_.clear();
}

void Tree::AddTo(Columns& columns, int32_t slot, size_t resource, int64_t amount) {
  if (amount == 0) return;
  if (columns.size() <= resource) columns.resize(resource + 1);
  std::vector<int64_t>& column = columns[resource];
  if (column.empty()) column.resize(leaves_.size());
  column[Index(slot)] += amount;
}

void Tree::AddBase(int32_t slot, size_t resource, int64_t amount) {
  AddTo(base_, slot, resource, amount);
  base_journal_.Note(slot);
}
void Tree::AddUsed(int32_t slot, size_t resource, int64_t amount) {
  AddTo(used_, slot, resource, amount);
  used_journal_.Note(slot);
}

void Tree::Contribute(const NodeRecord& node, int32_t slot, int64_t sign) {
  const size_t resources = std::max(node.allocatable.size(), node.foreign.size());
  for (size_t r = 0; r < resources; ++r) {
    AddBase(slot, r, sign * (AmountAt(node.allocatable, r) - AmountAt(node.foreign, r)));
  }
  if (node.maintenance_planned) maintenance_nodes_ += static_cast<int32_t>(sign);
}

const Tree::Level& Tree::level(size_t level) const {
  if (stale_) Refresh();
  return layout_[level];
}

uint64_t Tree::layout() const {
  if (stale_) Refresh();
  return layout_number_;
}

void Tree::Refresh() const {
  stale_ = false;
  ++layout_number_;
  for (size_t l = 0; l < depth(); ++l) {
    Level& level = layout_[l];
    level.begin.clear();
    if (l == 0) {
      level.slot = roots_;
      level.parent.assign(roots_.size(), -1);
    }
    if (l + 1 == depth()) continue;
    Level& below = layout_[l + 1];
    below.slot.clear();
    below.parent.clear();
    for (int32_t position = 0; position < level.size(); ++position) {
      level.begin.push_back(below.size());
      const Domain& domain = domains_[l][Index(level.slot[Index(position)])];
      below.slot.insert(below.slot.end(), domain.children.begin(), domain.children.end());
      below.parent.resize(below.slot.size(), position);
    }
    level.begin.push_back(below.size());
  }
  position_.assign(leaves_.size(), -1);
  const Level& bottom = layout_[depth() - 1];
  for (int32_t position = 0; position < bottom.size(); ++position) {
    position_[Index(bottom.slot[Index(position)])] = position;
  }
}

int32_t Tree::FindLeaf(const std::string& identity) const {
  auto found = by_identity_.find(identity);
  return found == by_identity_.end() ? -1 : found->second;
}

int32_t Tree::PositionOf(int32_t leaf_slot) const {
  if (stale_) Refresh();
  return position_[Index(leaf_slot)];
}

std::vector<std::string> Tree::ValuesAt(size_t level, int32_t position) const {
  if (stale_) Refresh();
  return ValuesOf(level, layout_[level].slot[Index(position)]);
}

const std::string& Tree::ValueAt(size_t level, int32_t position) const {
  if (stale_) Refresh();
  return domains_[level][Index(layout_[level].slot[Index(position)])].value;
}

std::vector<std::string> Tree::ValuesOf(size_t level, int32_t slot) const {
  std::vector<std::string> values(level + 1);
  for (size_t l = level + 1; l-- > 0;) {
    values[l] = domains_[l][Index(slot)].value;
    slot = domains_[l][Index(slot)].parent;
  }
  return values;
}

const Tree::Mask& Tree::MaskFor(const NodeFilter& filter) const {
  auto found = masks_.find(filter);
  if (found == masks_.end()) {
    if (masks_.size() >= kMaxMasks) masks_.clear();
    found = masks_.emplace(filter, std::make_unique<Mask>()).first;
    found->second->id = ++masks_made_;
  }
  if (found->second->epoch != epoch_) Update(*found->second, filter);
  return *found->second;
}

const NodeFilter* Tree::FilterOf(uint64_t mask) const {
  for (const auto& [filter, known] : masks_) {
    if (known->id == mask) return &filter;
  }
  return nullptr;
}

void Tree::Update(Mask& mask, const NodeFilter& filter) const {
  mask.code.resize(leaves_.size(), Mask::kAccepted);
  mask.score.resize(filter.preferred.empty() ? 0 : leaves_.size(), 0);
  if (ends_in_hosts_) {
    const NodeMatcher matcher(filter, flavor_.tolerations, keys_);
    for (size_t slot = 0; slot < leaves_.size(); ++slot) {
      if (leaves_[slot].changed <= mask.epoch || leaves_[slot].nodes.empty()) continue;
      const NodeRecord& node = *leaves_[slot].nodes.front();
      mask.code[slot] = CodeOf(mask, matcher, node);
      if (!filter.preferred.empty()) mask.score[slot] = matcher.Score(node.labels, node.name);
    }
  }
  mask.epoch = epoch_;
}

int32_t Tree::CodeOf(Mask& mask, const NodeMatcher& matcher, const NodeRecord& node) const {
  if (const Taint* taint = matcher.FirstUntolerated(node.taints)) {
    const std::string text = TaintText(*taint);
    auto known = std::find(mask.taints.begin(), mask.taints.end(), text);
    if (known == mask.taints.end()) known = mask.taints.insert(known, text);
    return Mask::kFirstTaint + static_cast<int32_t>(known - mask.taints.begin());
  }
  if (!matcher.SelectorMatches(node.labels)) return Mask::kSelector;
  if (!matcher.AffinityMatches(node.labels, node.name)) return Mask::kAffinity;
  if (node.leaving && options_.exclude_leaving) return Mask::kLeaving;
  return Mask::kAccepted;
}

size_t Tree::MemoryBytes() const {
  size_t bytes = 0;
  const auto text = [](const std::string& s) { return s.capacity() > 15 ? s.capacity() + 1 : 0; };
  for (const std::vector<Domain>& level : domains_) {
    bytes += level.capacity() * sizeof(Domain);
    for (const Domain& domain : level) {
      bytes += text(domain.value) + domain.children.capacity() * sizeof(int32_t);
    }
  }
  bytes += leaves_.capacity() * sizeof(Leaf);
  for (const Leaf& leaf : leaves_) bytes += leaf.nodes.capacity() * sizeof(leaf.nodes[0]);
  for (const auto& [identity, slot] : by_identity_) {
    bytes += sizeof(identity) + sizeof(slot) + text(identity);
  }
  for (const auto& column : base_) bytes += column.capacity() * sizeof(int64_t);
  for (const auto& column : used_) bytes += column.capacity() * sizeof(int64_t);
  for (const Level& level : layout_) bytes += level.slot.capacity() * 3 * sizeof(int32_t);
  for (const auto& [filter, mask] : masks_) bytes += mask->code.capacity() * sizeof(int32_t);
  bytes += base_journal_.MemoryBytes() + used_journal_.MemoryBytes() + counts_.MemoryBytes();
  return bytes + position_.capacity() * sizeof(int32_t);
}

}  // namespace sluice::topology
