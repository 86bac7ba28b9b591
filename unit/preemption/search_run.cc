#include "unit/preemption/search_run.h"

#include <fmt/format.h>

#include <memory>

#include "base/time.h"
#include "unit/catch.h"
#include "unit/preemption/oracle.h"

namespace sluice::preemption {
namespace {

// Workload objects cost more than a whole search; those of equal place are equal.
std::shared_ptr<const api::Workload> Object(size_t place) {
  static std::vector<std::shared_ptr<const api::Workload>> objects;
  while (objects.size() <= place) {
    auto workload = std::make_shared<api::Workload>();
    workload->metadata.ns = "ns";
    workload->metadata.name = fmt::format("w{:03}", objects.size());
    workload->metadata.uid = fmt::format("u{:03}", objects.size());
    objects.push_back(std::move(workload));
  }
  return objects[place];
}

absl::Time At(int seconds) { return absl::FromUnixSeconds(seconds); }

std::shared_ptr<const api::Workload> ObjectWith(size_t place, const CheckpointSpec& said, int now) {
  auto workload = std::make_shared<api::Workload>(*Object(place));
  api::StringMap& annotations = workload->metadata.annotations;
  if (said.last >= 0) annotations[kLastCheckpoint] = sluice::FormatTime(At(said.last));
  if (said.interval > 0) annotations[kCheckpointInterval] = fmt::format("{}s", said.interval);
  annotations[kRestartCost] = fmt::format("{}s", said.restart);
  if (said.min_runtime > 0) annotations[kMinRuntime] = fmt::format("{}s", said.min_runtime);
  for (int i = 0; i < said.preempted; ++i) NotePreemption(*workload, {}, At(now));
  return workload;
}

}  // namespace

SearchRun::SearchRun(const Cluster& cluster, const std::vector<size_t>& contested)
    : cluster_(cluster) {
  BuildTree();
  BuildWorkloads();
  if (!cluster.credit_weights.empty()) BuildCredits();
  context_.tree = &tree_;
  context_.reserved = &reserved_;
  if (!cluster.strategies.empty()) {
    context_.fair_sharing = FairSharingRules{cluster.strategies, cluster.preempt_within_nominal};
  }
  context_.active = [this](const std::string& queue) {
    return cluster_.nodes[static_cast<size_t>(cluster_.Find(queue))].active;
  };
  context_.usage_based = [this](const std::string& queue) {
    return cluster_.nodes[static_cast<size_t>(cluster_.Find(queue))].usage_based;
  };
  context_.used_more = [this](const ObjectKey& a, const ObjectKey& b) {
    return cluster_.local_queue_usage.at(std::stoul(a.name)) >
           cluster_.local_queue_usage.at(std::stoul(b.name));
  };
  if (cluster.now >= 0) context_.now = At(cluster.now);
  const WorkloadSpec& spec = cluster.preemptor;
  preemptor_.queue = nodes_[static_cast<size_t>(spec.queue)];
  preemptor_.local_queue = {"ns", std::to_string(spec.local_queue)};
  preemptor_.priority = spec.priority;
  preemptor_.queue_order_time = At(spec.order_time);
  preemptor_.policies = cluster.nodes[static_cast<size_t>(spec.queue)].policies;
  for (size_t c = 0; c < cluster.CellCount(); ++c) {
    if (spec.amounts[c] > 0) preemptor_.requests.push_back({ids_[c], spec.amounts[c]});
  }
  for (const size_t c : contested) preemptor_.contested.push_back(ids_[c]);
}

void SearchRun::BuildCredits() {
  absl::btree_map<ResourceName, Quantity> weights;
  for (size_t r = 0; r < cluster_.credit_weights.size(); ++r) {
    weights[tree_.CellOf(ids_[r]).resource] = Quantity::FromInt(cluster_.credit_weights[r]);
  }
  auto all = std::make_shared<quota::CreditWeights>(weights);
  for (const quota::CellId id : ids_) all->AddCell(tree_, tree_.CellOf(id));
  auto policy = std::make_shared<quota::CreditPolicyTerms>();
  policy->weights = all;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    // A large entitlement: nobody is above it, so that the order among queues is left to the rest.
    if (!cluster_.nodes[i].is_cohort) credits_.Set(*nodes_[i], policy, 1'000'000'000'000, nullptr);
  }
  credits_.SetNow(At(cluster_.now));
  context_.credits = &credits_;
}

void SearchRun::BuildTree() {
  std::vector<FlavorResource> names;
  for (int f = 0; f < cluster_.flavors; ++f) {
    for (int r = 0; r < cluster_.resources; ++r) {
      std::string resource = fmt::format("r{}", r);
      if (cluster_.now >= 0) resource = r == 0 ? "nvidia.com/gpu" : "cpu";
      names.push_back({fmt::format("f{}", f), resource});
      ids_.push_back(tree_.IdOf(names.back()));
    }
  }
  const auto limit = [](int value) {
    return value == kNoLimit ? std::nullopt : std::optional<int64_t>(value);
  };
  for (const NodeSpec& node : cluster_.nodes) {
    quota::CellLimits limits;
    for (size_t c = 0; c < cluster_.CellCount(); ++c) {
      const CellSpec& cell = node.cells[c];
      if (cell.listed)
        limits[names[c]] = {cell.nominal, limit(cell.borrowing), limit(cell.lending)};
    }
    const std::string parent =
        node.parent < 0 ? "" : cluster_.nodes[static_cast<size_t>(node.parent)].name;
    const quota::Weight weight(Quantity::FromMilli(node.weight_milli));
    if (node.is_cohort) {
      tree_.SetCohort(node.name, parent, limits, weight);
      nodes_.push_back(tree_.FindCohort(node.name));
    } else {
      tree_.SetClusterQueue(node.name, parent, limits, weight);
      nodes_.push_back(tree_.FindQueue(node.name));
    }
  }
}

void SearchRun::BuildWorkloads() {
  for (size_t w = 0; w < cluster_.running.size(); ++w) {
    const WorkloadSpec& spec = cluster_.running[w];
    ReservedWorkload workload;
    workload.workload = Object(w);
    workload.cluster_queue = cluster_.nodes[static_cast<size_t>(spec.queue)].name;
    workload.local_queue = {"ns", std::to_string(spec.local_queue)};
    workload.priority = spec.priority;
    workload.queue_order_time = At(spec.order_time);
    workload.reserved_at = At(spec.reserved_at);
    workload.evicted = spec.evicted;
    if (cluster_.now >= 0) workload.started_at = workload.reserved_at;
    if (spec.checkpoint) workload.workload = ObjectWith(w, *spec.checkpoint, cluster_.now);
    for (size_t c = 0; c < cluster_.CellCount(); ++c) {
      if (spec.amounts[c] > 0) workload.usage.push_back({ids_[c], spec.amounts[c]});
    }
    quota::Tree::AddUsage(*nodes_[static_cast<size_t>(spec.queue)], workload.usage);
    reserved_.Put(std::move(workload));
    workloads_.push_back(reserved_.Find(Object(w)->metadata.Key()));
  }
}

void SearchRun::SetEvictors(const Evictors& evictors) {
  preemptor_.evictors = evictors;
  preemptor_.evictors.uids.clear();
  for (size_t w = 0; w < cluster_.running.size(); ++w) {
    if (!evictors.uids.contains(cluster_.running[w].name)) continue;
    preemptor_.evictors.uids.insert(workloads_[w]->Uid());
  }
}

Diagnosis SearchRun::DiagnoseFirst() const {
  Preemptor one = preemptor_;
  one.contested.resize(1);
  one.requests.clear();
  for (const quota::CellAmount& wanted : preemptor_.requests) {
    if (wanted.cell == one.contested.front()) one.requests.push_back(wanted);
  }
  return Diagnose(context_, one);
}

std::vector<Victim> SearchRun::Find() {
  std::vector<Victim> victims;
  for (const Target& target : FindTargets(context_, preemptor_)) {
    for (size_t w = 0; w < workloads_.size(); ++w) {
      if (workloads_[w] == target.workload) {
        victims.push_back({static_cast<int>(w), target.reason});
      }
    }
  }
  return victims;
}

bool SearchRun::FitsWithoutAll(const std::vector<Victim>& victims) const {
  std::vector<Target> targets;
  for (const Victim& victim : victims) {
    targets.push_back({workloads_.at(static_cast<size_t>(victim.workload)), victim.reason});
  }
  return FitsWithout(context_, preemptor_, targets);
}

namespace {

std::string CheckTree(const Cluster& cluster, const Oracle& oracle, const SearchRun& run) {
  for (size_t n = 0; n < cluster.nodes.size(); ++n) {
    const int index = static_cast<int>(n);
    const quota::Node& node = run.NodeOf(index);
    for (size_t c = 0; c < cluster.CellCount(); ++c) {
      const quota::CellId id = run.Id(c);
      if (node.Usage(id) != oracle.Usage(index, c)) {
        return fmt::format("{} uses {} of cell {}, expected {}", node.name(), node.Usage(id), c,
                           oracle.Usage(index, c));
      }
      if (node.SubtreeQuota(id) != oracle.Quota(index, c)) {
        return fmt::format("{} has quota {} of cell {}, expected {}", node.name(),
                           node.SubtreeQuota(id), c, oracle.Quota(index, c));
      }
    }
  }
  return "";
}

std::string CheckNodes(const Cluster& cluster, const Oracle& oracle, const SearchRun& run) {
  for (size_t n = 0; n < cluster.nodes.size(); ++n) {
    const int index = static_cast<int>(n);
    const quota::Node& node = run.NodeOf(index);
    const quota::Share share = run.tree().ShareOf(node);
    const Oracle::Share expected = oracle.ShareOf(index);
    const quota::Share same(expected.borrowed, expected.lendable,
                            quota::Weight(Quantity::FromMilli(expected.weight_milli)));
    if (share != same) {
      return fmt::format("{} has share {}, expected {}/{}", node.name(), share.Rounded(),
                         expected.borrowed, expected.lendable);
    }
    if (cluster.nodes[n].is_cohort) continue;
    for (size_t c = 0; c < cluster.CellCount(); ++c) {
      if (!cluster.nodes[n].cells[c].listed) continue;
      const int64_t available = quota::Tree::Available(node, run.Id(c));
      if (available != std::max<int64_t>(0, oracle.Available(index, c))) {
        return fmt::format("{} has {} of cell {} available", node.name(), available, c);
      }
      const int64_t potential = quota::Tree::PotentialAvailable(node, run.Id(c));
      if (potential != std::max<int64_t>(0, oracle.Potential(index, c))) {
        return fmt::format("{} could have {} of cell {}", node.name(), potential, c);
      }
      const int64_t request = 1 + cluster.preemptor.amounts[c];
      const quota::BorrowLevel level = quota::Tree::LevelFor(node, run.Id(c), request);
      const Oracle::Level wanted = oracle.LevelFor(index, c, request);
      if (level.level != wanted.level || level.may_reclaim != wanted.may_reclaim) {
        return fmt::format("{} borrows {} of cell {} at level {}, expected {}", node.name(),
                           request, c, level.level, wanted.level);
      }
    }
  }
  return "";
}

}  // namespace

std::string CheckSearch(const Cluster& cluster, std::vector<Victim>* found, bool thorough) {
  Oracle oracle(cluster);
  // Nobody searches for one that has room.
  if (oracle.contested().empty() || oracle.FitsNow()) return "";
  SearchRun run(cluster, oracle.contested());
  std::string wrong;
  if (thorough) wrong += CheckNodes(cluster, oracle, run);
  const std::vector<Victim> victims = run.Find();
  if (found != nullptr) *found = victims;
  wrong += CheckTree(cluster, oracle, run);
  if (thorough) run.tree().CheckInvariants();
  if (!victims.empty() && !run.FitsWithoutAll(victims)) wrong += "it does not fit; ";
  const std::vector<Victim> expected = oracle.Find();
  if (victims != expected) {
    wrong += fmt::format("found [{}], expected [{}]; ", Describe(cluster, victims),
                         Describe(cluster, expected));
  }
  return wrong + oracle.Judge(victims);
}

std::string Targets(const Cluster& cluster) {
  std::vector<Victim> victims;
  const std::string wrong = CheckSearch(cluster, &victims);
  INFO(cluster.Describe());
  CHECK(wrong.empty());
  if (!wrong.empty()) FAIL_CHECK(wrong);
  return Describe(cluster, victims);
}

}  // namespace sluice::preemption
