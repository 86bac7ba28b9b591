#include "sim/naive_tree.h"

#include <fmt/format.h>

#include <algorithm>

#include "resource/quantity.h"

namespace sluice::sim {
namespace {

using api::Json;

int64_t Milli(const Json& quantity) {
  const auto parsed = Quantity::Parse(quantity.IsString() ? quantity.AsString() : quantity.Text());
  return parsed.ok() ? parsed->MilliValue() : 0;
}

std::optional<int64_t> Limit(const Json& resource, const char* field) {
  const Json* limit = resource.Find(field);
  return limit == nullptr ? std::nullopt : std::optional<int64_t>(Milli(*limit));
}

std::optional<int64_t> Limit(const std::optional<Quantity>& limit) {
  return limit ? std::optional<int64_t>(limit->MilliValue()) : std::nullopt;
}

}  // namespace

NaiveTree::Cells NaiveTree::CellsOf(const Json& spec) {
  Cells cells;
  const Json* groups = spec.Find("resourceGroups");
  if (groups == nullptr) return cells;
  for (const Json& group : groups->AsArray()) {
    for (const Json& flavor : group.Find("flavors")->AsArray()) {
      for (const Json& resource : flavor.Find("resources")->AsArray()) {
        cells[flavor.GetString("name") + "/" + resource.GetString("name")] = {
            Milli(*resource.Find("nominalQuota")), Limit(resource, "borrowingLimit"),
            Limit(resource, "lendingLimit")};
      }
    }
  }
  return cells;
}

NaiveTree::Cells NaiveTree::CellsOf(const std::vector<api::ResourceGroup>& groups) {
  Cells cells;
  for (const api::ResourceGroup& group : groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& resource : flavor.resources) {
        cells[flavor.name + "/" + resource.name] = {resource.nominal_quota.MilliValue(),
                                                    Limit(resource.borrowing_limit),
                                                    Limit(resource.lending_limit)};
      }
    }
  }
  return cells;
}

void NaiveTree::RaiseBorrowing(Cells& cells, const Json& burst) {
  const auto found = cells.find(burst.GetString("flavor") + "/" + burst.GetString("resource"));
  if (found == cells.end() || !found->second.borrow) return;
  found->second.borrow = std::max(*found->second.borrow, Milli(*burst.Find("limit")));
}

void NaiveTree::Use(const std::string& queue, const Amounts& amounts, int64_t sign) {
  for (const auto& [cell, amount] : amounts) nodes_["queue " + queue].usage[cell] += sign * amount;
}

const NaiveTree::Node& NaiveTree::At(const std::string& key) const {
  static const Node kImplicit;
  const auto found = nodes_.find(key);
  return found == nodes_.end() ? kImplicit : found->second;
}

std::string NaiveTree::RootOf(const std::string& queue) const {
  std::string key = "queue " + queue;
  for (size_t steps = 0; steps <= nodes_.size() + 1; ++steps) {
    const std::string& parent = At(key).parent;
    if (parent.empty()) return key;
    key = parent;
  }
  return "";
}

NaiveTree::Quota NaiveTree::QuotaOf(const std::string& key, const std::string& cell) const {
  const Cells& cells = At(key).cells;
  const auto found = cells.find(cell);
  return found == cells.end() ? Quota() : found->second;
}

int64_t NaiveTree::Subtree(const std::string& key, const std::string& cell) const {
  int64_t sum = QuotaOf(key, cell).nominal;
  for (const auto& [child, node] : nodes_) {
    if (node.parent == key) sum += Subtree(child, cell) - Guaranteed(child, cell);
  }
  return sum;
}

int64_t NaiveTree::Guaranteed(const std::string& key, const std::string& cell) const {
  const auto lend = QuotaOf(key, cell).lend;
  return lend ? std::max<int64_t>(0, Subtree(key, cell) - *lend) : 0;
}

int64_t NaiveTree::Usage(const std::string& key, const std::string& cell) const {
  const Amounts& own = At(key).usage;
  int64_t sum = own.contains(cell) ? own.at(cell) : 0;
  for (const auto& [child, node] : nodes_) {
    if (node.parent != key) continue;
    sum += std::max<int64_t>(0, Usage(child, cell) - Guaranteed(child, cell));
  }
  return sum;
}

int64_t NaiveTree::Available(const std::string& key, const std::string& cell) const {
  const int64_t subtree = Subtree(key, cell);
  const int64_t usage = Usage(key, cell);
  if (At(key).parent.empty()) return subtree - usage;
  const int64_t guaranteed = Guaranteed(key, cell);
  int64_t from_parent = Available(At(key).parent, cell);
  if (const auto borrow = QuotaOf(key, cell).borrow) {
    from_parent = std::min(
        from_parent, subtree - guaranteed - std::max<int64_t>(0, usage - guaranteed) + *borrow);
  }
  return std::max<int64_t>(0, guaranteed - usage) + from_parent;
}

int64_t NaiveTree::Nominal(const std::string& queue, const std::string& cell) const {
  return QuotaOf("queue " + queue, cell).nominal;
}

int64_t NaiveTree::Used(const std::string& queue, const std::string& cell) const {
  return Usage("queue " + queue, cell);
}

bool NaiveTree::Fits(const std::string& queue, const Amounts& amounts) const {
  return std::all_of(amounts.begin(), amounts.end(), [&](const auto& wanted) {
    return At("queue " + queue).cells.contains(wanted.first) &&
           wanted.second <= std::max<int64_t>(0, Available("queue " + queue, wanted.first));
  });
}

std::vector<std::string> NaiveTree::AboveLimits(const std::string& queue,
                                                const std::string& cell) const {
  std::vector<std::string> above;
  for (std::string key = "queue " + queue;; key = At(key).parent) {
    const int64_t usage = Usage(key, cell);
    const int64_t subtree = Subtree(key, cell);
    const int64_t guaranteed = Guaranteed(key, cell);
    const bool root = At(key).parent.empty();
    const auto borrow = root ? std::optional<int64_t>(0) : QuotaOf(key, cell).borrow;
    if (borrow && usage > subtree + *borrow) {
      above.push_back(fmt::format("{} holds {} milli of {}; its quota is {}, it may borrow {}", key,
                                  usage, cell, subtree, *borrow));
    }
    // Within what is kept for it, the ones above do not see it.
    if (root || usage <= guaranteed) return above;
  }
}

}  // namespace sluice::sim
