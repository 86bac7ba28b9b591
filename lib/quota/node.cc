#include "quota/node.h"

#include "base/check.h"

namespace sluice::quota {
namespace {

__extension__ typedef __int128 Wide;

int64_t Clamp(Wide value) {
  constexpr int64_t kSmallest = std::numeric_limits<int64_t>::min();
  if (value > kUnlimited) return kUnlimited;
  if (value < kSmallest) return kSmallest;
  return static_cast<int64_t>(value);
}

template <typename Cells>
auto LowerBound(Cells& cells, CellId id) {
  return std::lower_bound(cells.begin(), cells.end(), id,
                          [](const auto& cell, CellId wanted) { return cell.id < wanted; });
}

}  // namespace

int64_t Node::Cell::Usage() const { return Clamp(usage); }

const Node::Cell* Node::Find(CellId id) const {
  const auto found = LowerBound(cells_, id);
  return found == cells_.end() || found->id != id ? nullptr : &*found;
}

Node::Cell& Node::At(CellId id) {
  auto found = LowerBound(cells_, id);
  if (found == cells_.end() || found->id != id) {
    found = cells_.insert(found, Cell());
    found->id = id;
  }
  return *found;
}

const Node& Node::Root() const {
  const Node* root = this;
  while (root->parent_ != nullptr) root = root->parent_;
  return *root;
}

int64_t Node::Usage(CellId cell) const {
  const Cell* own = Find(cell);
  return own == nullptr ? 0 : own->Usage();
}

int64_t Node::SubtreeQuota(CellId cell) const {
  const Cell* own = Find(cell);
  return own == nullptr ? 0 : own->subtree_quota;
}

int64_t Node::Nominal(CellId cell) const {
  const Cell* own = Find(cell);
  return own == nullptr ? 0 : own->limits.nominal;
}

int64_t Node::LocalAvailable(CellId cell) const {
  const Cell* own = Find(cell);
  return own == nullptr ? 0 : own->LocalAvailable();
}

std::optional<int64_t> Node::BorrowingLimit(CellId cell) const {
  const Cell* own = Find(cell);
  return own == nullptr ? std::nullopt : own->limits.borrowing_limit;
}

bool Node::Lists(CellId cell) const {
  const Cell* own = Find(cell);
  return own != nullptr && own->listed;
}

bool Node::BorrowingWith(CellId cell, int64_t more) const {
  const Cell* own = Find(cell);
  if (own == nullptr) return more > 0;
  return own->usage + more > own->subtree_quota;
}

bool Node::BorrowingAnything() const {
  return std::any_of(cells_.begin(), cells_.end(),
                     [](const Cell& cell) { return cell.usage > cell.subtree_quota; });
}

bool Node::Circular() const {
  // A second pointer at double speed meets the first one exactly when there is a cycle.
  const Node* slow = this;
  const Node* fast = this;
  while (fast != nullptr && fast->parent_ != nullptr) {
    slow = slow->parent_;
    fast = fast->parent_->parent_;
    if (slow == fast && slow != nullptr) return true;
  }
  return false;
}

void Node::Add(CellId id, Wide amount) {
  Cell& own = At(id);
  const Wide local = std::max<Wide>(0, own.guaranteed - own.usage);
  own.usage += amount;
  if (parent_ != nullptr && amount > local) parent_->Add(id, amount - local);
}

void Node::Remove(CellId id, Wide amount) {
  Cell& own = At(id);
  const Wide stored_above = own.usage - own.guaranteed;
  own.usage -= amount;
  SLUICE_CHECK(own.usage >= 0, "usage of cell {} in {} would become negative", id, name_);
  if (parent_ != nullptr && stored_above > 0) parent_->Remove(id, std::min(amount, stored_above));
  if (own.usage == 0 && !is_cohort_ && !own.listed) cells_.erase(LowerBound(cells_, id));
}

int64_t Node::Available(CellId id) const {
  const Cell* found = Find(id);
  static const Cell kNone;
  const Cell& own = found == nullptr ? kNone : *found;
  if (parent_ == nullptr) return SubtractAmounts(own.subtree_quota, own.Usage());
  int64_t from_parent = parent_->Available(id);
  if (own.limits.borrowing_limit.has_value()) {
    const int64_t unused =
        SubtractAmounts(Clamp(own.Lendable()), Clamp(own.UsageAboveGuaranteed()));
    from_parent = std::min(from_parent, AddAmounts(unused, *own.limits.borrowing_limit));
  }
  return AddAmounts(own.LocalAvailable(), from_parent);
}

int64_t Node::Potential(CellId id) const {
  const Cell* own = Find(id);
  if (own != nullptr) return own->potential;
  return parent_ == nullptr ? 0 : parent_->Potential(id);
}

void Node::Insert(Node* child) {
  std::vector<Node*>& siblings = child->is_cohort_ ? cohorts_ : queues_;
  siblings.insert(
      std::lower_bound(siblings.begin(), siblings.end(), child,
                       [](const Node* a, const Node* b) { return a->name_ < b->name_; }),
      child);
}

void Node::Erase(Node* child) {
  std::vector<Node*>& siblings = child->is_cohort_ ? cohorts_ : queues_;
  siblings.erase(std::find(siblings.begin(), siblings.end(), child));
}

// The derived values of one node, but `potential`, from its limits and its children.
std::vector<Node::Cell> Node::Derive() const {
  Node derived;
  for (const Cell& cell : cells_) {
    const bool used = !is_cohort_ && cell.usage != 0;
    if (!cell.listed && !used) continue;
    Cell& own = derived.At(cell.id);
    own.listed = cell.listed;
    own.limits = cell.limits;
    own.subtree_quota = cell.limits.nominal;
    own.potential = cell.potential;
    if (!is_cohort_) own.usage = cell.usage;
  }
  const auto gather = [&derived](const std::vector<Node*>& children) {
    for (const Node* child : children) {
      for (const Cell& cell : child->cells_) {
        Cell& own = derived.At(cell.id);
        own.subtree_quota = AddAmounts(own.subtree_quota, Clamp(cell.Lendable()));
        own.usage += cell.UsageAboveGuaranteed();
      }
    }
  };
  gather(cohorts_);
  gather(queues_);
  for (Cell& cell : derived.cells_) {
    if (!cell.limits.lending_limit.has_value()) continue;
    cell.guaranteed =
        std::max<int64_t>(0, SubtractAmounts(cell.subtree_quota, *cell.limits.lending_limit));
  }
  return std::move(derived.cells_);
}

}  // namespace sluice::quota
