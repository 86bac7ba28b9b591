// The part of Tree that answers by name.
#include <algorithm>

#include "quota/tree.h"

namespace sluice::quota {
namespace {

// The node if its derived values hold.
const Node* SoundOrNull(const Node* node) {
  return node != nullptr && Tree::Sound(*node) ? node : nullptr;
}

// Names of the ClusterQueues (or of the cohorts) in the subtree of a cohort.
void Collect(const Node& cohort, bool cohorts, std::vector<std::string>& names) {
  if (cohorts) names.push_back(cohort.name());
  for (const Node* child : cohort.cohorts()) Collect(*child, cohorts, names);
  if (cohorts) return;
  for (const Node* child : cohort.queues()) names.push_back(child->name());
}

std::vector<std::string> SortedNames(const Node& root, bool cohorts) {
  std::vector<std::string> names;
  Collect(root, cohorts, names);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

int64_t Tree::Usage(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  return node == nullptr ? 0 : node->Usage(IdOf(cell));
}

FlavorResourceAmounts Tree::UsageOf(const std::string& name) const {
  FlavorResourceAmounts usage;
  const Node* node = FindQueue(name);
  if (node == nullptr) return usage;
  for (const Node::Cell& cell : node->cells_) {
    if (cell.usage != 0) usage[CellOf(cell.id)] = cell.Usage();
  }
  return usage;
}

int64_t Tree::Available(const std::string& name, const FlavorResource& cell) const {
  const Node* node = SoundOrNull(FindQueue(name));
  return node == nullptr ? 0 : Available(*node, IdOf(cell));
}

int64_t Tree::PotentialAvailable(const std::string& name, const FlavorResource& cell) const {
  const Node* node = SoundOrNull(FindQueue(name));
  return node == nullptr ? 0 : PotentialAvailable(*node, IdOf(cell));
}

int64_t Tree::Nominal(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  return node == nullptr ? 0 : node->Nominal(IdOf(cell));
}

int64_t Tree::Borrowed(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  if (node == nullptr || node->parent() == nullptr) return 0;
  const CellId id = IdOf(cell);
  return std::max<int64_t>(0, SubtractAmounts(node->Usage(id), node->Nominal(id)));
}

bool Tree::Fits(const std::string& name, const FlavorResourceAmounts& amounts) const {
  const Node* node = SoundOrNull(FindQueue(name));
  if (node == nullptr) return amounts.empty();
  return std::all_of(amounts.begin(), amounts.end(), [&](const auto& wanted) {
    const CellId id = IdOf(wanted.first);
    return node->Lists(id) && wanted.second <= Available(*node, id);
  });
}

BorrowLevel Tree::LevelFor(const std::string& name, const FlavorResource& cell,
                           int64_t request) const {
  const Node* node = SoundOrNull(FindQueue(name));
  return node == nullptr ? BorrowLevel() : LevelFor(*node, IdOf(cell), request);
}

bool Tree::HasClusterQueue(const std::string& name) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->exists_;
}

bool Tree::Lists(const std::string& name, const FlavorResource& cell) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->Lists(IdOf(cell));
}

bool Tree::HasCohort(const std::string& name) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->parent() != nullptr;
}

bool Tree::InCycle(const std::string& name) const {
  const Node* node = FindQueue(name);
  return node != nullptr && node->Circular();
}

bool Tree::CohortInCycle(const std::string& cohort) const {
  const Node* node = FindCohort(cohort);
  return node != nullptr && node->Circular();
}

std::vector<std::string> Tree::CycleOf(const std::string& name) const {
  std::vector<std::string> cycle;
  const Node* node = FindQueue(name);
  if (node == nullptr || !node->Circular()) return cycle;
  std::vector<const Node*> seen;
  const Node* next = node->parent();
  for (; std::find(seen.begin(), seen.end(), next) == seen.end(); next = next->parent()) {
    seen.push_back(next);
  }
  for (auto it = std::find(seen.begin(), seen.end(), next); it != seen.end(); ++it) {
    cycle.push_back((*it)->name());
  }
  return cycle;
}

std::vector<Tree::Overflow> Tree::OverflowsOf(const Node& node) const {
  std::vector<Overflow> overflows;
  if (!Sound(node)) return overflows;
  const auto any_child = [&node](const auto& has) {
    return std::any_of(node.cohorts_.begin(), node.cohorts_.end(), has) ||
           std::any_of(node.queues_.begin(), node.queues_.end(), has);
  };
  for (const Node::Cell& own : node.cells_) {
    const auto lends_all = [&own](const Node* child) {
      const Node::Cell* cell = child->Find(own.id);
      return cell != nullptr && cell->Lendable() >= kUnlimited;
    };
    const auto uses_too_much = [&own](const Node* child) {
      const Node::Cell* cell = child->Find(own.id);
      return cell != nullptr && cell->usage > kUnlimited;
    };
    if (own.subtree_quota == kUnlimited && own.limits.nominal != kUnlimited &&
        !any_child(lends_all)) {
      overflows.push_back({CellOf(own.id), false});
    }
    if (own.usage > kUnlimited && !any_child(uses_too_much)) {
      overflows.push_back({CellOf(own.id), true});
    }
  }
  return overflows;
}

std::vector<std::string> Tree::TreeOf(const std::string& name) const {
  const Node* node = SoundOrNull(FindQueue(name));
  if (node == nullptr || node->parent() == nullptr) return {name};
  return SortedNames(node->Root(), false);
}

std::vector<std::string> Tree::TreeOfCohort(const std::string& cohort) const {
  const Node* node = SoundOrNull(FindCohort(cohort));
  if (node == nullptr) return {};
  return SortedNames(node->Root(), false);
}

std::vector<std::string> Tree::CohortsOf(const std::string& name) const {
  const Node* node = SoundOrNull(FindQueue(name));
  if (node == nullptr || node->parent() == nullptr) return {};
  return SortedNames(node->Root(), true);
}

std::string Tree::PathOf(const std::string& name) const {
  const Node* node = SoundOrNull(FindQueue(name));
  std::string path = "/" + name;
  if (node == nullptr) return path;
  for (const Node* cohort = node->parent(); cohort != nullptr; cohort = cohort->parent()) {
    path = "/" + cohort->name() + path;
  }
  return path;
}

}  // namespace sluice::quota
