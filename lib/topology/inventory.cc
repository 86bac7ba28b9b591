#include "topology/inventory.h"

#include <absl/strings/str_join.h>

#include <algorithm>

#include "base/check.h"
#include "topology/search.h"

namespace sluice::topology {
namespace {

// Far above any machine, and low enough that sums over a cluster stay within 64 bits.
constexpr int64_t kMostAmount = int64_t{1} << 52;

int64_t Bounded(int64_t amount) { return std::clamp(amount, -kMostAmount, kMostAmount); }

}  // namespace

// ---- names ----

uint32_t Inventory::InternResource(const ResourceName& name) {
  auto found = resources_.find(name);
  if (found != resources_.end()) return found->second;
  const auto id = static_cast<uint32_t>(resource_names_.size());
  ++leaves_changed_;
  resources_.emplace(name, id);
  resource_names_.push_back(nullptr);
  // Nodes of the map move when it grows, so all pointers are taken again; resources are few.
  for (const auto& [known, known_id] : resources_) resource_names_[known_id] = &known;
  return id;
}

uint32_t Inventory::FindResource(const ResourceName& name) const {
  auto found = resources_.find(name);
  return found == resources_.end() ? kNoResource : found->second;
}

Amounts Inventory::AmountsOf(const Requests& requests) {
  Amounts amounts;
  for (const auto& [resource, amount] : requests) {
    const uint32_t id = InternResource(resource);
    if (amounts.size() <= id) amounts.resize(id + 1);
    amounts[id] = Bounded(amount);
  }
  return amounts;
}

const Tree* Inventory::FindTree(const FlavorName& flavor) const {
  auto found = flavors_.find(flavor);
  return found == flavors_.end() ? nullptr : found->second->tree.get();
}

const Booking* Inventory::FindWorkload(const std::string& key) const {
  auto found = workloads_.find(key);
  return found == workloads_.end() ? nullptr : &found->second;
}

bool Inventory::HasDomain(const FlavorName& flavor, const std::vector<std::string>& values) const {
  const Tree* tree = FindTree(flavor);
  if (tree == nullptr || values.empty()) return false;
  if (!tree->ends_in_hosts() && values.size() != tree->depth()) return false;
  return tree->FindLeaf(tree->IdentityOf(values)) >= 0;
}

std::vector<std::string> Inventory::ForeignPods() const {
  std::vector<std::string> keys;
  keys.reserve(pods_.size());
  for (const auto& [key, pod] : pods_) keys.push_back(key);
  return keys;
}

// ---- flavors ----

void Inventory::SetFlavor(const FlavorName& name, const Flavor& flavor) {
  auto found = flavors_.find(name);
  if (found != flavors_.end()) {
    const Flavor& old = found->second->tree->flavor();
    if (old == flavor) return;
    Flavor same_but_tolerations = flavor;
    same_but_tolerations.tolerations = old.tolerations;
    if (old == same_but_tolerations) {
      found->second->tree->SetTolerations(flavor.tolerations);
      return;
    }
    RemoveFlavor(name);
  }
  for (const std::string& label : flavor.levels) keys_.Intern(label);
  for (const auto& [label, value] : flavor.node_labels) keys_.Intern(label);
  auto record = std::make_unique<FlavorRecord>();
  record->tree = std::make_unique<Tree>(name, flavor, options_, keys_);
  FlavorRecord& added = *flavors_.emplace(name, std::move(record)).first->second;
  for (const auto& [node_name, node] : nodes_) Attach(*node, added);
  for (const auto& [key, booking] : workloads_) Account(booking.usage(), &name, 1);
}

void Inventory::RemoveFlavor(const FlavorName& name) {
  auto found = flavors_.find(name);
  if (found == flavors_.end()) return;
  for (const auto& [key, booking] : workloads_) Account(booking.usage(), &name, -1);
  const Tree* tree = found->second->tree.get();
  for (const auto& [node_name, node] : nodes_) {
    for (size_t view = node->views.size(); view-- > 0;) {
      if (node->views[view].tree == tree) Detach(*node, view);
    }
  }
  flavors_.erase(found);
}

// ---- nodes ----

NodeRecord& Inventory::NodeAt(const NodeName& name) {
  std::unique_ptr<NodeRecord>& node = nodes_[name];
  if (node == nullptr) {
    node = std::make_unique<NodeRecord>();
    node->name = name;
  }
  return *node;
}

void Inventory::DropIfUnused(NodeRecord& node) {
  if (!node.known && node.foreign_pods == 0) nodes_.erase(NodeName(node.name));
}

Inventory::UsageMap& Inventory::UsageOf(FlavorRecord& flavor) {
  return Shares(*flavor.tree) ? shared_usage_ : flavor.usage;
}
const Inventory::UsageMap& Inventory::UsageOf(const FlavorRecord& flavor) const {
  return Shares(*flavor.tree) ? shared_usage_ : flavor.usage;
}

void Inventory::LinkUsage(FlavorRecord& flavor, int32_t slot, const std::string& identity) {
  std::unique_ptr<UsageRecord>& record = UsageOf(flavor)[identity];
  if (record == nullptr) record = std::make_unique<UsageRecord>();
  record->views.push_back({flavor.tree.get(), slot});
  ++leaves_changed_;
  flavor.tree->SetUsageRecord(slot, record.get());
  for (size_t r = 0; r < record->used.size(); ++r) flavor.tree->AddUsed(slot, r, record->used[r]);
}

void Inventory::Attach(NodeRecord& node, FlavorRecord& flavor) {
  const auto values = flavor.tree->PlaceOf(node);
  if (!values.has_value()) return;
  bool created = false;
  const int32_t slot = flavor.tree->AddNode(node, *values, &created);
  node.views.push_back({flavor.tree.get(), slot});
  if (created) LinkUsage(flavor, slot, flavor.tree->IdentityOf(*values));
}

void Inventory::Detach(NodeRecord& node, size_t view) {
  const NodeRecord::View old = node.views[view];
  node.views.erase(node.views.begin() + static_cast<std::ptrdiff_t>(view));
  UsageRecord* usage = old.tree->leaf(old.slot).usage;
  const std::vector<std::string> values = old.tree->ValuesOf(old.tree->depth() - 1, old.slot);
  if (!old.tree->RemoveNode(node, old.slot)) return;
  ++leaves_changed_;
  std::erase_if(usage->views, [&](const NodeRecord::View& seen) {
    return seen.tree == old.tree && seen.slot == old.slot;
  });
  if (usage->Empty()) {
    UsageOf(*flavors_.find(old.tree->name())->second).erase(old.tree->IdentityOf(values));
  }
}

std::vector<FlavorName> Inventory::FlavorsSeeing(const NodeRecord& node) const {
  std::vector<FlavorName> flavors;
  for (const NodeRecord::View& view : node.views) flavors.push_back(view.tree->name());
  return flavors;
}

Changed Inventory::SetNode(const Node& node) {
  NodeRecord& record = NodeAt(node.name);
  NodeRecord next;
  next.name = node.name;
  next.labels = NodeLabels(node.labels, keys_);
  next.taints = node.taints;
  next.allocatable = AmountsOf(node.allocatable);
  next.foreign = record.foreign;
  next.foreign_pods = record.foreign_pods;
  next.known = true;
  next.usable = node.ready && !node.unschedulable;
  next.leaving = node.leaving;
  next.maintenance_planned = node.maintenance_planned;
  next.maintenance_start = node.maintenance_start;
  const bool filters_differ = !(next.labels == record.labels) || next.taints != record.taints ||
                              next.leaving != record.leaving;
  const bool differ = filters_differ || !record.known || next.usable != record.usable ||
                      next.allocatable != record.allocatable ||
                      next.maintenance_planned != record.maintenance_planned ||
                      next.maintenance_start != record.maintenance_start;
  Changed changed;
  if (!differ) return changed;
  if (!record.known) ++known_nodes_;
  changed.flavors = FlavorsSeeing(record);
  // Leaves that stay where they are are changed in place; the others go and come.
  std::vector<NodeRecord::View> staying;
  for (size_t view = record.views.size(); view-- > 0;) {
    const NodeRecord::View seen = record.views[view];
    const auto values = seen.tree->PlaceOf(next);
    if (values.has_value() && seen.tree->PlaceIs(seen.slot, *values)) {
      seen.tree->Contribute(record, seen.slot, -1);
      staying.push_back(seen);
    } else {
      Detach(record, view);
    }
  }
  next.views = std::move(record.views);
  record = std::move(next);
  for (const NodeRecord::View& view : staying) {
    view.tree->Contribute(record, view.slot, 1);
    if (filters_differ) view.tree->NoteFilterChange(view.slot);
  }
  for (const auto& [name, flavor] : flavors_) {
    const bool there = std::any_of(staying.begin(), staying.end(), [&](const auto& view) {
      return view.tree == flavor->tree.get();
    });
    if (!there) Attach(record, *flavor);
  }
  const std::vector<FlavorName> now = FlavorsSeeing(record);
  changed.flavors.insert(changed.flavors.end(), now.begin(), now.end());
  std::sort(changed.flavors.begin(), changed.flavors.end());
  changed.flavors.erase(std::unique(changed.flavors.begin(), changed.flavors.end()),
                        changed.flavors.end());
  return changed;
}

Changed Inventory::RemoveNode(const NodeName& name) {
  Changed changed;
  auto found = nodes_.find(name);
  if (found == nodes_.end() || !found->second->known) return changed;
  NodeRecord& node = *found->second;
  changed.flavors = FlavorsSeeing(node);
  std::sort(changed.flavors.begin(), changed.flavors.end());
  while (!node.views.empty()) Detach(node, node.views.size() - 1);
  node.known = false;
  node.labels = {};
  node.taints.clear();
  node.allocatable.clear();
  --known_nodes_;
  DropIfUnused(node);
  return changed;
}

// ---- foreign pods ----

void Inventory::AccountPod(const ForeignPod& pod, int64_t sign) {
  NodeRecord& node = *pod.node;
  for (const auto& [resource, amount] : pod.amounts) {
    if (node.foreign.size() <= resource) node.foreign.resize(resource + 1);
    node.foreign[resource] += sign * amount;
    for (const NodeRecord::View& view : node.views) {
      view.tree->AddBase(view.slot, resource, -sign * amount);
    }
  }
  node.foreign_pods += sign;
}

Changed Inventory::SetForeignPod(const std::string& key, const NodeName& node,
                                 const Requests& per_pod) {
  ForeignPod next;
  next.amounts.reserve(per_pod.size() + 1);
  for (const auto& [resource, amount] : per_pod) {
    if (amount > 0 && resource != kPods) {
      next.amounts.emplace_back(InternResource(resource), Bounded(amount));
    }
  }
  next.amounts.emplace_back(InternResource(kPods), 1);
  auto found = pods_.find(key);
  if (found != pods_.end() && found->second.node->name == node &&
      found->second.amounts == next.amounts) {
    return {};
  }
  Changed changed;
  if (found != pods_.end()) changed = RemoveForeignPod(key);
  next.node = &NodeAt(node);
  AccountPod(next, 1);
  if (changed.flavors.empty()) changed.flavors = FlavorsSeeing(*next.node);
  pods_.emplace(key, std::move(next));
  return changed;
}

Changed Inventory::RemoveForeignPod(const std::string& key) {
  Changed changed;
  auto found = pods_.find(key);
  if (found == pods_.end()) return changed;
  NodeRecord& node = *found->second.node;
  changed.flavors = FlavorsSeeing(node);
  std::sort(changed.flavors.begin(), changed.flavors.end());
  changed.capacity_grew = true;
  AccountPod(found->second, -1);
  pods_.erase(found);
  DropIfUnused(node);
  return changed;
}

// ---- workloads ----

const std::string& Inventory::IdentityIn(const Tree& tree, const PodSetUsage& usage,
                                         const AssignedDomain& domain, std::string& scratch) {
  if (tree.ends_in_hosts() && !domain.values.empty()) return domain.values.back();
  scratch.clear();
  // An assignment of other levels than today's names no leaf.
  if (!tree.ends_in_hosts() && usage.assignment.levels == tree.flavor().levels) {
    scratch = absl::StrJoin(domain.values, ",");
  }
  return scratch;
}

void Inventory::AddUsed(UsageRecord& record, uint32_t resource, int64_t amount) {
  if (record.used.size() <= resource) record.used.resize(resource + 1);
  record.used[resource] += amount;
  for (const NodeRecord::View& view : record.views) {
    view.tree->AddUsed(view.slot, resource, amount);
  }
}

// Counts what the workload takes in flavors that exist; in `only` one of them when it is given.
void Inventory::Account(const WorkloadUsage& usage, const FlavorName* only, int64_t sign) {
  for (const PodSetUsage& pod_set : usage) {
    if (only != nullptr && pod_set.flavor != *only) continue;
    auto flavor = flavors_.find(pod_set.flavor);
    if (flavor == flavors_.end()) continue;
    UsageMap& records = UsageOf(*flavor->second);
    std::vector<std::pair<uint32_t, int64_t>> per_pod;
    for (const auto& [resource, amount] : pod_set.per_pod) {
      if (resource != kPods) per_pod.emplace_back(InternResource(resource), amount);
    }
    per_pod.emplace_back(InternResource(kPods), 1);
    std::string scratch;
    for (const AssignedDomain& domain : pod_set.assignment.domains) {
      const std::string& identity = IdentityIn(*flavor->second->tree, pod_set, domain, scratch);
      if (identity.empty()) continue;
      std::unique_ptr<UsageRecord>& record = records[identity];
      if (record == nullptr) record = std::make_unique<UsageRecord>();
      for (const auto& [resource, amount] : per_pod) {
        AddUsed(*record, resource, sign * Bounded(SaturatingMul(amount, domain.count)));
      }
      if (record->Empty()) records.erase(identity);
    }
  }
}

void Inventory::SetWorkload(const std::string& key, const WorkloadUsage& usage) {
  auto found = workloads_.find(key);
  if (found != workloads_.end()) {
    if (found->second.usage() == usage) return;
    Account(found->second.usage(), nullptr, -1);
  }
  Account(usage, nullptr, 1);
  workloads_.insert_or_assign(key, Booking::Of(usage));
}

void Inventory::RemoveWorkload(const std::string& key) {
  auto found = workloads_.find(key);
  if (found == workloads_.end()) return;
  Account(found->second.usage(), nullptr, -1);
  workloads_.erase(found);
}

// ---- overlay ----

Inventory::LeafAmounts Inventory::LeafAmountsOf(const Requests& per_pod) const {
  static const ResourceName kPodsName = kPods;
  LeafAmounts amounts;
  for (const auto& [resource, amount] : per_pod) {
    const uint32_t id = FindResource(resource);
    if (resource != kPods && id != kNoResource) amounts.emplace_back(id, amount);
  }
  const uint32_t pods = FindResource(kPodsName);
  if (pods != kNoResource) amounts.emplace_back(pods, 1);
  return amounts;
}

Inventory::LeafAmounts Inventory::Times(LeafAmounts per_pod, int64_t pods) {
  for (auto& [id, amount] : per_pod) amount = Bounded(SaturatingMul(amount, pods));
  return per_pod;
}

std::vector<LeafUsage> Inventory::Resolve(const WorkloadUsage& usage) const {
  std::vector<LeafUsage> resolved;
  std::string scratch;
  for (const PodSetUsage& pod_set : usage) {
    auto flavor = flavors_.find(pod_set.flavor);
    if (flavor == flavors_.end()) continue;
    const UsageMap& records = UsageOf(*flavor->second);
    const LeafAmounts per_pod = LeafAmountsOf(pod_set.per_pod);
    resolved.reserve(resolved.size() + pod_set.assignment.domains.size());
    for (const AssignedDomain& domain : pod_set.assignment.domains) {
      auto record = records.find(IdentityIn(*flavor->second->tree, pod_set, domain, scratch));
      if (record == records.end() || record->second->views.empty()) continue;
      LeafUsage& leaf = resolved.emplace_back();
      leaf.record = record->second.get();
      leaf.amounts = Times(per_pod, domain.count);
    }
  }
  return resolved;
}

const std::vector<LeafUsage>& Inventory::LeavesOf(const Booking& booking) const {
  if (booking.found_at_ != leaves_changed_) {
    booking.leaves_ = Resolve(booking.usage_);
    booking.found_at_ = leaves_changed_;
  }
  return booking.leaves_;
}

void Inventory::Apply(const LeafUsage& usage, int64_t sign) {
  UsageRecord& record = *usage.record;
  for (const auto& [resource, amount] : usage.amounts) {
    if (record.used.size() <= resource) record.used.resize(resource + 1);
    record.used[resource] += sign * amount;
  }
  for (const NodeRecord::View& view : record.views) {
    for (const auto& [resource, amount] : usage.amounts) {
      view.tree->AddUsed(view.slot, resource, sign * amount);
    }
  }
}

void Overlay::Apply(const Entry& entry, int64_t sign) {
  for (const LeafUsage& leaf : entry.leaves) Inventory::Apply(leaf, sign);
}

void Overlay::Change(const WorkloadUsage& usage, int64_t sign) {
  if (usage.empty()) return;
  Entry& entry = log_.emplace_back();
  entry.own = inventory_.Resolve(usage);
  entry.leaves = entry.own;
  entry.sign = sign;
  Apply(entry, sign);
}

void Overlay::Change(const Booking& booking, int64_t sign) {
  log_.push_back({{}, inventory_.LeavesOf(booking), sign});
  Apply(log_.back(), sign);
}

void Overlay::Rollback(size_t mark) {
  while (log_.size() > mark) {
    Apply(log_.back(), -log_.back().sign);
    log_.pop_back();
  }
}

// ---- checks ----

size_t Inventory::MemoryBytes() const {
  size_t bytes = 0;
  const auto text = [](const std::string& s) { return s.capacity() > 15 ? s.capacity() + 1 : 0; };
  for (const auto& [name, node] : nodes_) {
    bytes += sizeof(name) + sizeof(node) + text(name) + sizeof(NodeRecord) + text(node->name) +
             node->labels.MemoryBytes() + node->taints.capacity() * sizeof(Taint) +
             (node->allocatable.capacity() + node->foreign.capacity()) * sizeof(int64_t) +
             node->views.capacity() * sizeof(NodeRecord::View);
  }
  for (const auto& [key, pod] : pods_) {
    bytes += sizeof(key) + sizeof(pod) + text(key) +
             pod.amounts.capacity() * sizeof(std::pair<uint32_t, int64_t>);
  }
  const auto records = [&](const UsageMap& map) {
    for (const auto& [identity, record] : map) {
      bytes += sizeof(identity) + sizeof(record) + text(identity) + sizeof(UsageRecord) +
               record->used.capacity() * sizeof(int64_t) +
               record->views.capacity() * sizeof(NodeRecord::View);
    }
  };
  records(shared_usage_);
  for (const auto& [name, flavor] : flavors_) {
    records(flavor->usage);
    bytes += flavor->tree->MemoryBytes();
  }
  return bytes;
}

void Inventory::CheckInvariants() const {
  for (const auto& [name, flavor] : flavors_) {
    const Tree& tree = *flavor->tree;
    const Tree::Level& leaves = tree.level(tree.depth() - 1);
    SLUICE_CHECK(leaves.size() == tree.leaf_count(), "flavor {}: {} leaves in order, {} known",
                 name, leaves.size(), tree.leaf_count());
    for (const int32_t slot : leaves.slot) {
      const Tree::Leaf& leaf = tree.leaf(slot);
      SLUICE_CHECK(!leaf.nodes.empty() && leaf.usage != nullptr, "flavor {}: an empty leaf", name);
      for (size_t r = 0; r < resource_names_.size(); ++r) {
        int64_t base = 0;
        for (const NodeRecord* node : leaf.nodes) {
          base += AmountAt(node->allocatable, r) - AmountAt(node->foreign, r);
        }
        const auto at = [&](const int64_t* column) {
          return column == nullptr ? 0 : column[static_cast<size_t>(slot)];
        };
        SLUICE_CHECK(at(tree.base(r)) == base, "flavor {} leaf {} resource {}: base {} not {}",
                     name, slot, r, at(tree.base(r)), base);
        SLUICE_CHECK(at(tree.used(r)) == AmountAt(leaf.usage->used, r),
                     "flavor {} leaf {} resource {}: used {} not {}", name, slot, r,
                     at(tree.used(r)), AmountAt(leaf.usage->used, r));
      }
    }
    Searcher::CheckKept(tree, options_);
  }
}

}  // namespace sluice::topology
