#include "quota/tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::quota {
namespace {

__extension__ typedef __int128 Wide;

}  // namespace

// The cells and resources of the tree by number.
struct Tree::Names {
  absl::btree_map<FlavorResource, CellId> ids;
  std::vector<FlavorResource> cells;
  absl::btree_map<ResourceName, uint32_t> resource_ids;
  std::vector<uint32_t> resource_of;  // by cell
  std::vector<ResourceName> resource_names;
};

Tree::Tree() : names_(std::make_unique<Names>()) {}
Tree::~Tree() = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;

CellId Tree::IdOf(const FlavorResource& cell) const {
  const auto [found, added] =
      names_->ids.try_emplace(cell, static_cast<CellId>(names_->cells.size()));
  if (added) {
    names_->cells.push_back(cell);
    const auto next = static_cast<uint32_t>(names_->resource_ids.size());
    const auto [resource, is_new] = names_->resource_ids.try_emplace(cell.resource, next);
    names_->resource_of.push_back(resource->second);
    if (is_new) names_->resource_names.push_back(cell.resource);
  }
  return found->second;
}

const FlavorResource& Tree::CellOf(CellId id) const { return names_->cells.at(id); }

CellAmounts Tree::IdsOf(const FlavorResourceAmounts& amounts) const {
  CellAmounts ids;
  ids.reserve(amounts.size());
  for (const auto& [cell, amount] : amounts) {
    if (amount != 0) ids.push_back({IdOf(cell), amount});
  }
  return ids;
}

bool Tree::Sound(const Node& node) { return !node.Circular(); }

Node* Tree::FindQueue(const std::string& name) const {
  auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : found->second.get();
}

Node* Tree::FindCohort(const std::string& name) const {
  auto found = cohorts_.find(name);
  return found == cohorts_.end() ? nullptr : found->second.get();
}

Node& Tree::QueueAt(const std::string& name) {
  std::unique_ptr<Node>& node = queues_[name];
  if (node == nullptr) {
    node = std::make_unique<Node>();
    node->name_ = name;
  }
  return *node;
}

Node& Tree::CohortAt(const std::string& name) {
  std::unique_ptr<Node>& node = cohorts_[name];
  if (node == nullptr) {
    node = std::make_unique<Node>();
    node->name_ = name;
    node->is_cohort_ = true;
  }
  return *node;
}

void Tree::RecomputeUp(Node& node) {
  node.height_ = 0;
  for (Node* child : node.cohorts_) {
    RecomputeUp(*child);
    node.height_ = std::max(node.height_, child->height_ + 1);
  }
  for (Node* child : node.queues_) child->cells_ = child->Derive();
  if (node.is_cohort_ && !node.queues_.empty()) node.height_ = std::max(node.height_, 1);
  node.cells_ = node.Derive();
}

void Tree::RecomputeDown(Node& node) {
  ++node.generation_;
  for (Node::Cell& cell : node.cells_) {
    cell.potential = cell.subtree_quota;
    if (node.parent_ == nullptr) continue;
    cell.potential = AddAmounts(cell.guaranteed, node.parent_->Potential(cell.id));
    if (cell.limits.borrowing_limit.has_value()) {
      cell.potential =
          std::min(cell.potential, AddAmounts(cell.subtree_quota, *cell.limits.borrowing_limit));
    }
  }
  if (!node.is_cohort_) return;
  // A share counts every cell that anybody in the whole tree has, also those of other branches.
  node.lendable_.clear();
  for (const Node::Cell& cell : node.Root().cells_) {
    const uint32_t resource = names_->resource_of[cell.id];
    auto found = std::find_if(node.lendable_.begin(), node.lendable_.end(),
                              [&](const auto& entry) { return entry.resource == resource; });
    if (found == node.lendable_.end()) {
      node.lendable_.push_back({resource, 0});
      found = std::prev(node.lendable_.end());
    }
    found->amount = AddAmounts(found->amount, node.Potential(cell.id));
  }
  for (Node* child : node.cohorts_) RecomputeDown(*child);
  for (Node* child : node.queues_) RecomputeDown(*child);
}

void Tree::Recompute(Node& node) {
  // Sums of a tree with a cycle have no meaning; they are made again when the cycle is broken.
  if (node.Circular()) return;
  Node* root = &node;
  while (root->parent_ != nullptr) root = root->parent_;
  RecomputeUp(*root);
  RecomputeDown(*root);
}

void Tree::Attach(Node& node, const std::string& parent) {
  Node* target = parent.empty() ? nullptr : &CohortAt(parent);
  if (node.parent_ == target) return;
  Node* old = std::exchange(node.parent_, target);
  if (target != nullptr) target->Insert(&node);
  if (old != nullptr) {
    old->Erase(&node);
    Recompute(*old);
    // A cohort can have been its own parent; its caller still needs it.
    if (old != &node) DropIfUnused(old);
  }
}

void Tree::DropIfUnused(Node* node) {
  if (node->exists_) return;
  if (node->is_cohort_) {
    if (node->cohorts_.empty() && node->queues_.empty()) cohorts_.erase(std::string(node->name_));
    return;
  }
  for (const Node::Cell& cell : node->cells_) {
    if (cell.usage != 0) return;
  }
  queues_.erase(std::string(node->name_));
}

void Tree::SetLimits(Node& node, const CellLimits& limits) const {
  for (Node::Cell& cell : node.cells_) {
    cell.listed = false;
    cell.limits = {};
  }
  for (const auto& [name, limit] : limits) {
    Node::Cell& cell = node.At(IdOf(name));
    cell.listed = true;
    cell.limits = limit;
  }
}

void Tree::SetClusterQueue(const std::string& name, const std::string& cohort,
                           const CellLimits& limits, const Weight& weight) {
  Node& node = QueueAt(name);
  node.exists_ = true;
  node.weight_ = weight;
  SetLimits(node, limits);
  Attach(node, cohort);
  // Own values hold even while the chain of parents has a cycle.
  node.cells_ = node.Derive();
  Recompute(node);
}

void Tree::RemoveClusterQueue(const std::string& name) {
  Node* node = FindQueue(name);
  if (node == nullptr) return;
  node->exists_ = false;
  SetLimits(*node, {});
  Attach(*node, "");
  node->cells_ = node->Derive();
  DropIfUnused(node);
}

void Tree::SetCohort(const std::string& name, const std::string& parent, const CellLimits& limits,
                     const Weight& weight) {
  Node& node = CohortAt(name);
  node.exists_ = true;
  node.weight_ = weight;
  SetLimits(node, limits);
  Attach(node, parent);
  Recompute(node);
}

void Tree::RemoveCohort(const std::string& name) {
  Node* node = FindCohort(name);
  if (node == nullptr) return;
  node->exists_ = false;
  node->weight_ = {};
  SetLimits(*node, {});
  Attach(*node, "");
  Recompute(*node);
  DropIfUnused(node);
}

void Tree::AddUsage(Node& queue, const CellAmounts& amounts) {
  const bool circular = queue.Circular();
  for (const auto& [cell, amount] : amounts) {
    SLUICE_CHECK(amount >= 0, "{} of cell {} added to {}", amount, cell, queue.name_);
    if (circular) {
      queue.At(cell).usage += amount;
    } else {
      queue.Add(cell, amount);
    }
  }
}

void Tree::RemoveUsage(Node& queue, const CellAmounts& amounts) {
  const bool circular = queue.Circular();
  for (const auto& [cell, amount] : amounts) {
    SLUICE_CHECK(amount >= 0, "{} of cell {} removed from {}", amount, cell, queue.name_);
    if (circular) {
      Wide& usage = queue.At(cell).usage;
      usage -= amount;
      SLUICE_CHECK(usage >= 0, "usage of cell {} in {} would become negative", cell, queue.name_);
    } else {
      queue.Remove(cell, amount);
    }
  }
}

void Tree::AddUsage(const std::string& name, const FlavorResourceAmounts& amounts) {
  Node& node = QueueAt(name);
  AddUsage(node, IdsOf(amounts));
  DropIfUnused(&node);
}

void Tree::RemoveUsage(const std::string& name, const FlavorResourceAmounts& amounts) {
  Node& node = QueueAt(name);
  RemoveUsage(node, IdsOf(amounts));
  ++node.generation_;
  DropIfUnused(&node);
}

int64_t Tree::Available(const Node& queue, CellId cell) {
  return queue.Lists(cell) ? std::max<int64_t>(0, queue.Available(cell)) : 0;
}

int64_t Tree::Room(const Node& node, CellId cell) { return node.Available(cell); }

int64_t Tree::PotentialAvailable(const Node& queue, CellId cell) {
  return queue.Lists(cell) ? std::max<int64_t>(0, queue.Potential(cell)) : 0;
}

bool Tree::Fits(const Node& queue, const CellAmounts& amounts) {
  return std::all_of(amounts.begin(), amounts.end(), [&](const CellAmount& wanted) {
    return queue.Lists(wanted.cell) && wanted.amount <= Available(queue, wanted.cell);
  });
}

BorrowLevel Tree::LevelFor(const Node& queue, CellId cell, int64_t request) {
  if (queue.parent() == nullptr) return {};
  if (!queue.BorrowingWith(cell, request)) return {.level = 0, .may_reclaim = true};
  Wide rest = static_cast<Wide>(request) - queue.LocalAvailable(cell);
  const Node* cohort = queue.parent();
  while (true) {
    const Node::Cell* found = cohort->Find(cell);
    const Node::Cell shared = found == nullptr ? Node::Cell() : *found;
    if (shared.usage + rest <= shared.subtree_quota) {
      return {.level = cohort->height(), .may_reclaim = cohort->parent() != nullptr};
    }
    if (cohort->parent() == nullptr) return {.level = cohort->height(), .may_reclaim = false};
    rest -= shared.LocalAvailable();
    cohort = cohort->parent();
  }
}

namespace {

// A part of what is borrowed, finer than whole units where the numbers allow it.
Share PartialShare(Quantity::Nanos borrowed, int64_t lendable, Tree::Scale scale,
                   const Weight& weight) {
  constexpr Quantity::Nanos kFine = 1'000'000;
  constexpr Quantity::Nanos kMost = kUnlimited;
  while (scale.in >= (Quantity::Nanos{1} << 40)) {
    scale.in >>= 1;
    scale.of >>= 1;
  }
  const bool fine = lendable <= kUnlimited / kFine;
  Quantity::Nanos part = std::min(borrowed, kMost) * scale.of * (fine ? kFine : 1) / scale.in;
  part = std::clamp<Quantity::Nanos>(part, scale.of > 0 ? 1 : 0, kMost);
  return {static_cast<int64_t>(part), fine ? lendable * static_cast<int64_t>(kFine) : lendable,
          weight};
}

}  // namespace

Share Tree::ShareOf(const Node& node, const ScaleOf& scale_of) const {
  if (node.parent_ == nullptr) return {};
  Share dominant;
  for (const Node::Lendable& lendable : node.parent_->lendable_) {
    if (lendable.amount <= 0) continue;
    Wide borrowed = 0;
    for (const Node::Cell& cell : node.cells_) {
      if (names_->resource_of[cell.id] != lendable.resource) continue;
      borrowed += std::max<Wide>(0, cell.usage - cell.subtree_quota);
    }
    if (borrowed == 0) continue;
    if (scale_of) {
      const Scale scale = scale_of(names_->resource_names.at(lendable.resource));
      if (scale.of < scale.in) {
        dominant = std::max(dominant, PartialShare(borrowed, lendable.amount, scale, node.weight_));
        continue;
      }
    }
    const Share share(borrowed > kUnlimited ? kUnlimited : static_cast<int64_t>(borrowed),
                      lendable.amount, node.weight_);
    dominant = std::max(dominant, share);
  }
  return dominant;
}

void Tree::CheckNode(const Node& node) const {
  if (node.Circular()) return;
  Node derived;
  derived.cells_ = node.Derive();
  for (const Node::Cell& cell : node.cells_) {
    const Node::Cell* found = derived.Find(cell.id);
    const Node::Cell expected = found == nullptr ? Node::Cell() : *found;
    const std::string text = CellOf(cell.id).flavor + "/" + CellOf(cell.id).resource;
    SLUICE_CHECK(cell.usage >= 0, "{} {}", node.name_, text);
    SLUICE_CHECK(cell.usage == expected.usage, "{} {}", node.name_, text);
    SLUICE_CHECK(cell.subtree_quota == expected.subtree_quota, "{} {}", node.name_, text);
    SLUICE_CHECK(cell.guaranteed == expected.guaranteed, "{} {}", node.name_, text);
  }
  for (const Node::Cell& cell : derived.cells_) {
    SLUICE_CHECK(node.Find(cell.id) != nullptr, "{} cell {}", node.name_, cell.id);
  }
}

void Tree::CheckInvariants() const {
  for (const auto& [name, node] : queues_) CheckNode(*node);
  for (const auto& [name, node] : cohorts_) CheckNode(*node);
}

}  // namespace sluice::quota
