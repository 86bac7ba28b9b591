#include "quota/credit_standing.h"

#include <algorithm>

namespace sluice::quota {
namespace {

using Picos = CreditTimeline::Picos;

constexpr Picos kPicosPerMicro = 1'000'000;
constexpr Picos kMostAmount = 1'000'000'000'000'000'000;  // counts as that much at most

// The largest weight is a billion; an amount times that stays below 2^120.
Picos Times(int64_t amount, Picos weight) { return std::min<Picos>(amount, kMostAmount) * weight; }

}  // namespace

CreditWeights::CreditWeights(const absl::btree_map<ResourceName, Quantity>& weights) {
  constexpr Picos kMost = Picos{1'000'000'000} * 1'000'000'000'000;
  for (const auto& [resource, weight] : weights) {
    if (weight.Sign() <= 0) continue;
    // Amounts of cpu are thousandths.
    const Picos picos = resource == kCpu ? weight.nanos() : weight.nanos() * 1000;
    by_resource_[resource] = std::clamp<Picos>(picos, 0, kMost);
  }
}

Picos CreditWeights::Of(const ResourceName& resource) const {
  const auto found = by_resource_.find(resource);
  return found == by_resource_.end() ? 0 : found->second;
}

void CreditWeights::AddCell(const Tree& tree, const FlavorResource& cell) {
  if (const Picos weight = Of(cell.resource); weight > 0) by_cell_[tree.IdOf(cell)] = weight;
}

Picos CreditWeights::WeighOne(const ResourceName& resource, int64_t amount) const {
  return Times(amount, Of(resource));
}

Picos CreditWeights::Weigh(const FlavorResourceAmounts& amounts) const {
  Picos sum = 0;
  for (const auto& [cell, amount] : amounts) sum += WeighOne(cell.resource, amount);
  return sum;
}

Picos CreditWeights::Weigh(const Requests& amounts) const {
  Picos sum = 0;
  for (const auto& [resource, amount] : amounts) sum += WeighOne(resource, amount);
  return sum;
}

Picos CreditWeights::Weigh(const CellAmounts& amounts) const {
  Picos sum = 0;
  for (const auto& [cell, amount] : amounts) {
    if (const auto found = by_cell_.find(cell); found != by_cell_.end()) {
      sum += Times(amount, found->second);
    }
  }
  return sum;
}

Picos CreditWeights::Cells(const Node& node, bool usage) const {
  Picos sum = 0;
  for (const auto& [cell, weight] : by_cell_) {
    sum += Times(usage ? node.Usage(cell) : node.Nominal(cell), weight);
  }
  return sum;
}

Picos CreditWeights::UsageOf(const Node& node) const {
  if (!node.is_cohort()) return Cells(node, true);
  Picos sum = 0;
  for (const Node* child : node.cohorts()) sum += UsageOf(*child);
  for (const Node* child : node.queues()) sum += Cells(*child, true);
  return sum;
}

Picos CreditWeights::NominalOf(const Node& node) const {
  Picos sum = Cells(node, false);
  for (const Node* child : node.cohorts()) sum += NominalOf(*child);
  for (const Node* child : node.queues()) sum += Cells(*child, false);
  return sum;
}

std::strong_ordering operator<=>(const CreditStanding::Overage& a,
                                 const CreditStanding::Overage& b) {
  const bool a_infinite = a.above > 0 && a.entitlement <= 0;
  const bool b_infinite = b.above > 0 && b.entitlement <= 0;
  if (a_infinite != b_infinite) return a_infinite <=> b_infinite;
  if (a_infinite) return a.above <=> b.above;
  // In micro-units, so that the products stay within 128 bits up to 10^13 units.
  const auto micros = [](Picos picos) { return picos / kPicosPerMicro; };
  return micros(a.above) * std::max<Picos>(1, micros(b.entitlement)) <=>
         micros(b.above) * std::max<Picos>(1, micros(a.entitlement));
}

void CreditStanding::Set(const Node& node, std::shared_ptr<const Policy> policy, Micros entitlement,
                         const CreditTimeline* account) {
  Entry& entry = nodes_[&node];
  entry.policy = std::move(policy);
  entry.entitlement = entitlement;
  entry.account = account;
  entry.computed = 0;
}

// Answers that were computed for the same instant may have other accounts behind them by now.
void CreditStanding::SetNow(absl::Time now) {
  now_ = now;
  ++epoch_;
}

const CreditStanding::Policy* CreditStanding::PolicyOf(const Tree& tree,
                                                       const std::string& cluster_queue) const {
  const Node* queue = tree.FindQueue(cluster_queue);
  const Terms* terms = queue == nullptr ? nullptr : Of(*queue);
  return terms == nullptr ? nullptr : terms->policy;
}

const CreditStanding::Terms* CreditStanding::Of(const Node& node) const {
  const auto found = nodes_.find(&node);
  if (found == nodes_.end()) return nullptr;
  const Entry& entry = found->second;
  if (entry.computed != epoch_) {
    entry.computed = epoch_;
    Micros standing = entry.entitlement;
    if (entry.account != nullptr) standing = entry.account->At(now_).StandingEntitlement();
    entry.terms = {entry.policy.get(), entry.entitlement * kPicosPerMicro,
                   standing * kPicosPerMicro};
  }
  return &entry.terms;
}

bool CreditStanding::Within(const Node& node, const Terms& terms, const CellAmounts& more) const {
  return UsageOf(node, terms) + terms.policy->weights->Weigh(more) <= terms.standing;
}

CreditStanding::Overage CreditStanding::OverageOf(const Node& node) const {
  const Terms* terms = Of(node);
  if (terms == nullptr) return {};
  return {std::max<Picos>(0, UsageOf(node, *terms) - terms->standing), terms->entitlement};
}

Share CreditStanding::ShareOf(const Tree& tree, const Node& node) const {
  const Terms* terms = Of(node);
  if (terms == nullptr) return tree.ShareOf(node);
  const Picos above_nominal = UsageOf(node, *terms) - terms->entitlement;
  const Picos above = UsageOf(node, *terms) - terms->standing;
  Tree::Scale scale;
  if (above > 0 && above < above_nominal) {
    scale = {above / kPicosPerMicro, above_nominal / kPicosPerMicro};
  } else if (above <= 0) {
    scale = {0, 1};
  }
  return tree.ShareOf(node, [&](const ResourceName& resource) {
    return terms->policy->weights->Of(resource) > 0 ? scale : Tree::Scale{};
  });
}

bool CreditStanding::Protected(const Node& node) const {
  const Terms* terms = Of(node);
  return terms != nullptr && terms->policy->protects && Within(node, *terms);
}

std::optional<absl::Time> CreditStanding::LenderUntil(const std::string& uid) const {
  const auto found = lenders_.find(uid);
  if (found == lenders_.end()) return std::nullopt;
  return found->second;
}

}  // namespace sluice::quota
