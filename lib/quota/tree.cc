#include "quota/tree.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::quota {
namespace {

__extension__ typedef __int128 Wide;

constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();

int64_t Clamp(Wide value) {
  if (value > kUnlimited) return kUnlimited;
  if (value < kSmallest) return kSmallest;
  return static_cast<int64_t>(value);
}

std::string CellName(const FlavorResource& cell) { return cell.flavor + "/" + cell.resource; }

}  // namespace

int64_t AddAmounts(int64_t a, int64_t b) {
  if (a == kUnlimited || b == kUnlimited) return kUnlimited;
  return SaturatingAdd(a, b);
}

int64_t SubtractAmounts(int64_t a, int64_t b) {
  if (a == kUnlimited) return b == kUnlimited ? 0 : kUnlimited;
  if (b == kUnlimited) return kSmallest;
  return SaturatingSub(a, b);
}

struct Tree::Cell {
  int64_t subtree_quota = 0;  // own nominal plus what the children offer
  int64_t guaranteed = 0;     // the part that is never lent upward
  Wide usage = 0;

  Wide Lendable() const { return SubtractAmounts(subtree_quota, guaranteed); }
  Wide UsageAboveGuaranteed() const { return std::max<Wide>(0, usage - guaranteed); }
  int64_t LocalAvailable() const {
    return std::max<int64_t>(0, SubtractAmounts(guaranteed, Clamp(usage)));
  }
};

struct Tree::Node {
  std::string name;
  bool is_cohort = false;
  bool exists = false;  // there is an object of that name
  Node* parent = nullptr;
  int height = 0;  // of a cohort: 1 + height of the highest child, 0 without children
  CellLimits limits;
  absl::btree_map<FlavorResource, Cell> cells;
  absl::btree_map<std::pair<bool, std::string>, Node*> children;  // by (is_cohort, name)

  Cell CellOf(const FlavorResource& cell) const {
    auto found = cells.find(cell);
    return found == cells.end() ? Cell() : found->second;
  }
  Limits LimitsOf(const FlavorResource& cell) const {
    auto found = limits.find(cell);
    return found == limits.end() ? Limits() : found->second;
  }
  bool Circular() const {
    // A second pointer at double speed meets the first one exactly when there is a cycle.
    const Node* slow = this;
    const Node* fast = this;
    while (fast != nullptr && fast->parent != nullptr) {
      slow = slow->parent;
      fast = fast->parent->parent;
      if (slow == fast && slow != nullptr) return true;
    }
    return false;
  }

  void Add(const FlavorResource& cell, Wide amount) {
    Cell& own = cells[cell];
    const Wide local = std::max<Wide>(0, own.guaranteed - own.usage);
    own.usage += amount;
    if (parent != nullptr && amount > local) parent->Add(cell, amount - local);
  }
  void Remove(const FlavorResource& cell, Wide amount) {
    Cell& own = cells[cell];
    const Wide stored_above = own.usage - own.guaranteed;
    own.usage -= amount;
    SLUICE_CHECK(own.usage >= 0, "usage of {} in {} would become negative", CellName(cell), name);
    if (parent != nullptr && stored_above > 0) parent->Remove(cell, std::min(amount, stored_above));
    if (own.usage == 0 && !is_cohort && !limits.contains(cell)) cells.erase(cell);
  }

  // The derived values of one node from its limits and its children.
  absl::btree_map<FlavorResource, Cell> Derive() const {
    absl::btree_map<FlavorResource, Cell> derived;
    for (const auto& [cell, limit] : limits) derived[cell].subtree_quota = limit.nominal;
    if (is_cohort) {
      for (const auto& [key, child] : children) {
        for (const auto& [cell, value] : child->cells) {
          Cell& own = derived[cell];
          own.subtree_quota = AddAmounts(own.subtree_quota, Clamp(value.Lendable()));
          own.usage += value.UsageAboveGuaranteed();
        }
      }
    } else {
      for (const auto& [cell, value] : cells) {
        if (value.usage != 0) derived[cell].usage = value.usage;
      }
    }
    for (auto& [cell, value] : derived) {
      const Limits limit = LimitsOf(cell);
      if (limit.lending_limit.has_value()) {
        value.guaranteed =
            std::max<int64_t>(0, SubtractAmounts(value.subtree_quota, *limit.lending_limit));
      }
    }
    return derived;
  }
};

Tree::Tree() = default;
Tree::~Tree() = default;
Tree::Tree(Tree&&) noexcept = default;
Tree& Tree::operator=(Tree&&) noexcept = default;

Tree::Node* Tree::FindQueue(const std::string& name) const {
  auto found = queues_.find(name);
  return found == queues_.end() ? nullptr : found->second.get();
}

Tree::Node& Tree::QueueAt(const std::string& name) {
  std::unique_ptr<Node>& node = queues_[name];
  if (node == nullptr) {
    node = std::make_unique<Node>();
    node->name = name;
  }
  return *node;
}

Tree::Node& Tree::CohortAt(const std::string& name) {
  std::unique_ptr<Node>& node = cohorts_[name];
  if (node == nullptr) {
    node = std::make_unique<Node>();
    node->name = name;
    node->is_cohort = true;
  }
  return *node;
}

Tree::Node* Tree::RootOf(Node& node) {
  Node* root = &node;
  while (root->parent != nullptr) root = root->parent;
  return root;
}

void Tree::RecomputeSubtree(Node& node) {
  node.height = 0;
  for (const auto& [key, child] : node.children) {
    RecomputeSubtree(*child);
    node.height = std::max(node.height, child->is_cohort ? child->height + 1 : 1);
  }
  node.cells = node.Derive();
}

void Tree::Recompute(Node& node) {
  // Sums of a tree with a cycle have no meaning; they are made again when the cycle is broken.
  if (!node.Circular()) RecomputeSubtree(*RootOf(node));
}

void Tree::Attach(Node& node, const std::string& parent) {
  Node* target = parent.empty() ? nullptr : &CohortAt(parent);
  if (node.parent == target) return;
  Node* old = std::exchange(node.parent, target);
  if (target != nullptr) target->children[{node.is_cohort, node.name}] = &node;
  if (old != nullptr) {
    old->children.erase({node.is_cohort, node.name});
    Recompute(*old);
    // A cohort can have been its own parent; its caller still needs it.
    if (old != &node) DropIfUnused(old);
  }
}

void Tree::DropIfUnused(Node* node) {
  if (node->exists) return;
  if (node->is_cohort) {
    if (node->children.empty()) cohorts_.erase(std::string(node->name));
    return;
  }
  for (const auto& [cell, value] : node->cells) {
    if (value.usage != 0) return;
  }
  queues_.erase(std::string(node->name));
}

void Tree::SetClusterQueue(const std::string& name, const std::string& cohort, CellLimits limits) {
  Node& node = QueueAt(name);
  node.exists = true;
  node.limits = std::move(limits);
  Attach(node, cohort);
  // Own values hold even while the chain of parents has a cycle.
  node.cells = node.Derive();
  Recompute(node);
}

void Tree::RemoveClusterQueue(const std::string& name) {
  Node* node = FindQueue(name);
  if (node == nullptr) return;
  node->exists = false;
  node->limits.clear();
  Attach(*node, "");
  node->cells = node->Derive();
  DropIfUnused(node);
}

void Tree::SetCohort(const std::string& name, const std::string& parent, CellLimits limits) {
  Node& node = CohortAt(name);
  node.exists = true;
  node.limits = std::move(limits);
  Attach(node, parent);
  Recompute(node);
}

void Tree::RemoveCohort(const std::string& name) {
  auto found = cohorts_.find(name);
  if (found == cohorts_.end()) return;
  Node& node = *found->second;
  node.exists = false;
  node.limits.clear();
  Attach(node, "");
  Recompute(node);
  DropIfUnused(&node);
}

void Tree::AddUsage(const std::string& name, const FlavorResourceAmounts& amounts) {
  Node& node = QueueAt(name);
  const bool circular = node.Circular();
  for (const auto& [cell, amount] : amounts) {
    SLUICE_CHECK(amount >= 0, "{} of {} added to {}", amount, CellName(cell), name);
    if (amount == 0) continue;
    if (circular) {
      node.cells[cell].usage += amount;
    } else {
      node.Add(cell, amount);
    }
  }
  DropIfUnused(&node);
}

void Tree::RemoveUsage(const std::string& name, const FlavorResourceAmounts& amounts) {
  Node& node = QueueAt(name);
  const bool circular = node.Circular();
  for (const auto& [cell, amount] : amounts) {
    SLUICE_CHECK(amount >= 0, "{} of {} removed from {}", amount, CellName(cell), name);
    if (amount == 0) continue;
    if (circular) {
      Wide& usage = node.cells[cell].usage;
      usage -= amount;
      SLUICE_CHECK(usage >= 0, "usage of {} in {} would become negative", CellName(cell), name);
    } else {
      node.Remove(cell, amount);
    }
  }
  DropIfUnused(&node);
}

int64_t Tree::Usage(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  return node == nullptr ? 0 : Clamp(node->CellOf(cell).usage);
}

FlavorResourceAmounts Tree::UsageOf(const std::string& name) const {
  FlavorResourceAmounts usage;
  const Node* node = FindQueue(name);
  if (node == nullptr) return usage;
  for (const auto& [cell, value] : node->cells) {
    if (value.usage != 0) usage[cell] = Clamp(value.usage);
  }
  return usage;
}

int64_t Tree::AvailableAt(const Node& node, const FlavorResource& cell) {
  const Cell own = node.CellOf(cell);
  if (node.parent == nullptr) return SubtractAmounts(own.subtree_quota, Clamp(own.usage));
  int64_t from_parent = AvailableAt(*node.parent, cell);
  const Limits limits = node.LimitsOf(cell);
  if (limits.borrowing_limit.has_value()) {
    const int64_t unused =
        SubtractAmounts(Clamp(own.Lendable()), Clamp(own.UsageAboveGuaranteed()));
    from_parent = std::min(from_parent, AddAmounts(unused, *limits.borrowing_limit));
  }
  return AddAmounts(own.LocalAvailable(), from_parent);
}

int64_t Tree::PotentialAt(const Node& node, const FlavorResource& cell) {
  const Cell own = node.CellOf(cell);
  if (node.parent == nullptr) return own.subtree_quota;
  int64_t potential = AddAmounts(own.guaranteed, PotentialAt(*node.parent, cell));
  const Limits limits = node.LimitsOf(cell);
  if (limits.borrowing_limit.has_value()) {
    potential = std::min(potential, AddAmounts(own.subtree_quota, *limits.borrowing_limit));
  }
  return potential;
}

int64_t Tree::Available(const std::string& name, const FlavorResource& cell) const {
  if (!Lists(name, cell) || InCycle(name)) return 0;
  return std::max<int64_t>(0, AvailableAt(*FindQueue(name), cell));
}

int64_t Tree::PotentialAvailable(const std::string& name, const FlavorResource& cell) const {
  if (!Lists(name, cell) || InCycle(name)) return 0;
  return std::max<int64_t>(0, PotentialAt(*FindQueue(name), cell));
}

int64_t Tree::Nominal(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  return node == nullptr ? 0 : node->LimitsOf(cell).nominal;
}

int64_t Tree::Borrowed(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  if (node == nullptr || node->parent == nullptr) return 0;
  return std::max<int64_t>(
      0, SubtractAmounts(Clamp(node->CellOf(cell).usage), node->LimitsOf(cell).nominal));
}

bool Tree::Fits(const std::string& name, const FlavorResourceAmounts& amounts) const {
  for (const auto& [cell, amount] : amounts) {
    if (amount > Available(name, cell)) return false;
    if (!Lists(name, cell)) return false;
  }
  return true;
}

BorrowLevel Tree::LevelFor(const std::string& name, const FlavorResource& cell,
                           int64_t request) const {
  const Node* node = FindQueue(name);
  if (node == nullptr || node->parent == nullptr || node->Circular()) return {};
  const Cell own = node->CellOf(cell);
  if (own.usage + request <= own.subtree_quota) return {.level = 0, .may_reclaim = true};
  Wide rest = static_cast<Wide>(request) - own.LocalAvailable();
  const Node* cohort = node->parent;
  while (true) {
    const Cell shared = cohort->CellOf(cell);
    if (shared.usage + rest <= shared.subtree_quota) {
      return {.level = cohort->height, .may_reclaim = cohort->parent != nullptr};
    }
    if (cohort->parent == nullptr) return {.level = cohort->height, .may_reclaim = false};
    rest -= shared.LocalAvailable();
    cohort = cohort->parent;
  }
}

bool Tree::HasClusterQueue(const std::string& name) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->exists;
}

bool Tree::Lists(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->limits.contains(cell);
}

bool Tree::HasCohort(const std::string& name) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->parent != nullptr;
}

bool Tree::InCycle(const std::string& name) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->parent != nullptr && node->Circular();
}

std::vector<std::string> Tree::TreeOf(const std::string& name) const {
  Node* node = FindQueue(name);
  if (node == nullptr || node->parent == nullptr || node->Circular()) return {name};
  std::vector<std::string> names;
  std::vector<const Node*> open = {RootOf(*node)};
  while (!open.empty()) {
    const Node* next = open.back();
    open.pop_back();
    for (const auto& [key, child] : next->children) {
      if (child->is_cohort) {
        open.push_back(child);
      } else {
        names.push_back(child->name);
      }
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

void Tree::CheckInvariants() const {
  auto check = [](const Node& node) {
    if (node.Circular()) return;
    const absl::btree_map<FlavorResource, Cell> derived = node.Derive();
    for (const auto& [cell, value] : node.cells) {
      auto found = derived.find(cell);
      const Cell expected = found == derived.end() ? Cell() : found->second;
      SLUICE_CHECK(value.usage >= 0, "{} {}", node.name, CellName(cell));
      SLUICE_CHECK(value.usage == expected.usage, "{} {}", node.name, CellName(cell));
      SLUICE_CHECK(value.subtree_quota == expected.subtree_quota, "{} {}", node.name,
                   CellName(cell));
      SLUICE_CHECK(value.guaranteed == expected.guaranteed, "{} {}", node.name, CellName(cell));
    }
    for (const auto& [cell, value] : derived) {
      SLUICE_CHECK(node.cells.contains(cell), "{} {}", node.name, CellName(cell));
    }
  };
  for (const auto& [name, node] : queues_) check(*node);
  for (const auto& [name, node] : cohorts_) check(*node);
}

}  // namespace sluice::quota
