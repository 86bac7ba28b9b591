#include "topology/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace sluice::topology {
namespace {

size_t Index(int32_t value) { return static_cast<size_t>(value); }

}  // namespace

std::variant<Found, Failure> Searcher::Run(const SearchRequest& request, const Assumed& assumed) {
  request_ = &request;
  assumed_ = &assumed;
  Count();
  auto found = Find();
  Unprune();  // the numbers stay with the tree
  return found;
}

std::variant<Found, Failure> Searcher::Find() {
  const SearchRequest& request = *request_;
  const bool may_balance =
      options_.balanced && !request.required && !request.unconstrained && !request.even;
  if (may_balance) {
    if (std::optional<Balanced> balanced = Balance()) {
      auto found = Descend(balanced->level, std::move(balanced->given), true);
      if (std::holds_alternative<Found>(found)) return found;
    }
    Unprune();
  }
  std::variant<Choice, Failure> choice = Choose();
  if (auto* failure = std::get_if<Failure>(&choice)) return std::move(*failure);
  Choice& chosen = std::get<Choice>(choice);
  std::vector<Given> given;
  Distribute(chosen.level, chosen.domains, request.count, leaders(),
             {.unit = request.slice_size, .by_slices = true, .recount = false}, given);
  return Descend(chosen.level, std::move(given), false);
}

// ---- failing ----

// Why the leaf is out, as a code of the mask or one of those below.
int32_t Searcher::ReasonOf(int32_t position) const {
  const SearchRequest& request = *request_;
  const int32_t slot = request.tree->level(bottom()).slot[Index(position)];
  const int32_t code = mask_->code[Index(slot)];
  if (code != Tree::Mask::kAccepted) return code;
  bool confined_out = slot == request.banned_leaf;
  if (request.confined.has_value()) {
    int32_t at = position;
    for (size_t level = bottom(); level > request.confined->first; --level) {
      at = request.tree->level(level).parent[Index(at)];
    }
    confined_out = confined_out || at != request.confined->second;
  }
  if (confined_out) return kOutOfDomain;
  if (request.tree->maintenance_nodes() > 0 && InMaintenance(slot)) return kMaintenance;
  if (At(bottom(), position).pods > 0) return Tree::Mask::kAccepted;
  // Several assumptions about one leaf are one entry.
  const LeafUsage* taken = nullptr;
  for (const LeafUsage& usage : *assumed_) {
    if (usage.record == request.tree->leaf(slot).usage) taken = &usage;
  }
  int32_t reason = Tree::Mask::kAccepted;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < request.worker.size(); ++i) {
    const Need& need = request.worker[i];
    if (need.amount <= 0) continue;
    const int64_t fit = std::max<int64_t>(0, Free(need.resource, slot, taken)) / need.amount;
    if (fit < least) {
      least = fit;
      reason = kFirstNeed - static_cast<int32_t>(i);
    }
  }
  return reason;
}

std::string Searcher::ReasonText(int32_t reason) const {
  if (reason >= Tree::Mask::kFirstTaint) {
    return fmt::format("taint \"{}\"", mask_->taints[Index(reason - Tree::Mask::kFirstTaint)]);
  }
  if (reason == Tree::Mask::kSelector) return "nodeSelector";
  if (reason == Tree::Mask::kAffinity) return "affinity";
  if (reason == Tree::Mask::kLeaving) return "nodeLifecycle";
  if (reason == kOutOfDomain) return "topologyDomain";
  if (reason == kMaintenance) return "maintenance";
  return fmt::format("resource \"{}\"", *request_->worker[Index(kFirstNeed - reason)].name);
}

// Why leaves below the domain are out; of the whole tree when the domain is -1.
Exclusions Searcher::Excluded(size_t level, int32_t domain) const {
  int32_t first = 0;
  int32_t last = Domains(bottom());
  if (domain >= 0) {
    first = domain;
    last = domain + 1;
    for (; level < bottom(); ++level) {
      first = request_->tree->level(level).begin[Index(first)];
      last = request_->tree->level(level).begin[Index(last)];
    }
  }
  // Most leaves are out for the same few reasons, so texts are made of the sums.
  absl::InlinedVector<std::pair<int32_t, int64_t>, 8> leaves;
  for (int32_t position = first; position < last; ++position) {
    if (At(bottom(), position).pods > 0) continue;
    const int32_t reason = ReasonOf(position);
    if (reason == Tree::Mask::kAccepted) continue;
    const auto known = std::find_if(leaves.begin(), leaves.end(),
                                    [&](const auto& one) { return one.first == reason; });
    if (known == leaves.end()) {
      leaves.emplace_back(reason, 1);
    } else {
      ++known->second;
    }
  }
  Exclusions excluded;
  for (const auto& [reason, count] : leaves) excluded[ReasonText(reason)] += count;
  return excluded;
}

Failure Searcher::NoRoom(size_t level, int64_t fit) const {
  const SearchRequest& request = *request_;
  Failure failure;
  failure.kind = Failure::Kind::kNoRoom;
  if (request.brief) return failure;
  failure.topology = request.tree->flavor().topology;
  failure.fit = fit;
  failure.needed = needed();
  failure.slices = request.slice_size > 1;
  failure.leaves = request.tree->leaf_count();
  failure.excluded = Excluded(0, -1);
  int32_t best = 0;
  for (int32_t at = 0; at < Domains(level); ++at) {
    failure.total += At(level, at).slices;
    if (At(level, at).slices > At(level, best).slices) best = at;
  }
  ClosestDomain closest;
  closest.level = request.tree->flavor().levels[level];
  closest.values = request.tree->ValuesAt(level, best);
  closest.fit = At(level, best).slices;
  int32_t first = best;
  int32_t last = best + 1;
  for (size_t l = level; l < bottom(); ++l) {
    first = request.tree->level(l).begin[Index(first)];
    last = request.tree->level(l).begin[Index(last)];
  }
  closest.leaves = last - first;
  closest.excluded = Excluded(level, best);
  failure.closest = std::move(closest);
  if (request.layers.size() < 2) return failure;
  for (const auto& [layer, size] : request.layers) {
    LayerFit layer_fit{request.tree->flavor().levels[layer], 0, request.count / size};
    first = best;
    last = best + 1;
    for (size_t l = level; l < layer; ++l) {
      first = request.tree->level(l).begin[Index(first)];
      last = request.tree->level(l).begin[Index(last)];
    }
    for (int32_t at = first; at < last; ++at) layer_fit.fit += At(layer, at).pods / size;
    failure.layers.push_back(std::move(layer_fit));
  }
  return failure;
}

// The numbers promised more than could be handed out: a leader can cost more than was counted.
Failure Searcher::Incomplete(int64_t placed) const {
  return NoRoom(request_->level, placed / request_->slice_size);
}

}  // namespace sluice::topology
