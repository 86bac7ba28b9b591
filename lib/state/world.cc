#include "state/world.h"

#include <algorithm>
#include <utility>

#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/check.h"

namespace sluice::state {
namespace {

// Without its pod sets a Workload that we cannot read in full still counts what it holds.
api::Json WithoutPodSets(const api::Json& object) {
  api::Json stripped = object;
  if (api::Json* spec = stripped.Find("spec")) spec->Erase("podSets");
  return stripped;
}

ObjectKey KeyOf(const api::Json& object) {
  return {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
}

queueing::RequestOptions MakeRequestOptions(const Settings& settings) {
  queueing::RequestOptions options;
  options.exclude_prefixes = settings.resources.exclude_resource_prefixes;
  for (const ResourceTransformation& rule : settings.resources.transformations) {
    options.transformations.push_back({rule.input,
                                       rule.strategy == ResourceTransformation::Strategy::kReplace,
                                       rule.multiply_by, rule.outputs});
  }
  options.reclaimable_pods = settings.gates.Enabled("ReclaimablePods");
  options.refuse_claims = settings.gates.Enabled("KueueDRARejectWorkloadsWhenDRADisabled");
  return options;
}

queueing::OrderOptions MakeOrderOptions(const Settings& settings) {
  queueing::OrderOptions options;
  options.order_by_eviction =
      !settings.wait_for_pods_ready ||
      settings.wait_for_pods_ready->requeuing_strategy.timestamp == RequeuingTimestamp::kEviction;
  options.priority_boost = settings.gates.Enabled("PriorityBoost");
  options.priority_sorting_within_cohort = settings.gates.Enabled("PrioritySortingWithinCohort");
  options.admission_gated_by = settings.gates.Enabled("AdmissionGatedBy");
  options.equivalence_hashing = settings.gates.Enabled("SchedulingEquivalenceHashing");
  options.concurrent_admission = settings.gates.Enabled("ConcurrentAdmission");
  options.preemption_gates =
      options.concurrent_admission || settings.gates.Enabled("MultiKueueOrchestratedPreemption");
  return options;
}

}  // namespace

World::World(const Settings& settings)
    : settings_(settings),
      request_options_(MakeRequestOptions(settings)),
      order_options_(MakeOrderOptions(settings)),
      pods_(settings),
      kinds_(WatchedKinds(settings)),
      credits_(CreditSources()),
      queues_({settings.gates.Enabled("FlavorFungibilityPreserveScanProgress")}) {
  if (settings.gates.Enabled(kTopologyGate)) {
    topology_ = std::make_unique<TopologyFeed>(TopologyOptionsOf(settings));
  }
  SetCycleOptions();
  StartUsageLedger();
}

void World::SetCycleOptions() {
  admission::CycleOptions& options = snapshot_.options;
  const FeatureGates& gates = settings_.gates;
  options.ignore_undeclared =
      settings_.resources.quota_check_strategy == QuotaCheckStrategy::kIgnoreUndeclared;
  options.flavor_fungibility = gates.Enabled("FlavorFungibility");
  options.priority_sorting_within_cohort = gates.Enabled("PrioritySortingWithinCohort");
  options.partial_admission = gates.Enabled("PartialAdmission");
  options.prioritize_preemptors = gates.Enabled("PrioritizePreemptorWorkloads");
  options.recompute_on_overlap = gates.Enabled("RecomputeAssignmentUponPreemptionTargetsOverlap");
  options.preserve_scan_progress = gates.Enabled("FlavorFungibilityPreserveScanProgress");
  options.prioritize_non_borrowing = gates.Enabled("FairSharingPrioritizeNonBorrowing");
  if (gates.Enabled("ConcurrentAdmission")) {
    snapshot_.admitted_sibling = [this](const api::Workload& variant) -> WorkloadPtr {
      api::ObjectMeta parent;
      parent.ns = variant.metadata.ns;
      parent.name = variant.metadata.Controller()->name;
      parent.uid = variant.metadata.Controller()->uid;
      for (WorkloadPtr& sibling : VariantsOf(parent)) {
        if (sibling->metadata.name != variant.metadata.name && queueing::HoldsQuota(*sibling) &&
            api::IsTrue(sibling->status.conditions, api::kAdmitted)) {
          return std::move(sibling);
        }
      }
      return nullptr;
    };
  }
  if (topology_ != nullptr) {
    snapshot_.topology = &topology_->inventory();
    snapshot_.request_context = [this](const std::string& ns) { return RequestContextFor(ns); };
  }
  options.hostname_prefixes = gates.Enabled("TASAssignmentsEncodingByHostnamePrefix");
  options.recompute_places = gates.Enabled("TASRecomputeAssignmentWithinSchedulingCycle");
  options.fail_fast = gates.Enabled("TASFailedNodeReplacementFailFast");
  options.skip_pod_owned = gates.Enabled("SkipReassignmentForPodOwnedWorkloads");
  options.elastic_jobs = gates.Enabled("ElasticJobsViaWorkloadSlices");
  options.reclaimable_pods = gates.Enabled("ReclaimablePods");
  options.checkpoints.max_per_workload = settings_.preemption.max_per_workload;
  options.checkpoints.window = settings_.preemption.window;
  options.block_admission =
      settings_.wait_for_pods_ready.has_value() && settings_.wait_for_pods_ready->block_admission;
  if (!settings_.fair_sharing.has_value()) return;
  preemption::FairSharingRules rules;
  for (const PreemptionStrategy strategy : settings_.fair_sharing->preemption_strategies) {
    rules.strategies.push_back(strategy == PreemptionStrategy::kLessThanInitialShare
                                   ? preemption::Strategy::kLessThanInitialShare
                                   : preemption::Strategy::kLessThanOrEqualToFinalShare);
  }
  rules.preempt_within_nominal = gates.Enabled("FairSharingPreemptWithinNominal");
  options.fair_sharing = std::move(rules);
}

const std::vector<api::Kind>& World::WatchedKinds() {
  static const std::vector<api::Kind> kKinds = {api::Kind::kClusterQueue,
                                                api::Kind::kLocalQueue,
                                                api::Kind::kCohort,
                                                api::Kind::kWorkload,
                                                api::Kind::kResourceFlavor,
                                                api::Kind::kTopology,
                                                api::Kind::kAdmissionCheck,
                                                api::Kind::kWorkloadPriorityClass,
                                                api::Kind::kJob,
                                                api::Kind::kNamespace,
                                                api::Kind::kLimitRange,
                                                api::Kind::kPriorityClass,
                                                api::Kind::kRuntimeClass,
                                                api::Kind::kCreditPolicy,
                                                api::Kind::kCreditAccount};
  return kKinds;
}

std::vector<api::Kind> World::WatchedKinds(const Settings& settings) {
  std::vector<api::Kind> kinds = WatchedKinds();
  const bool topology = settings.gates.Enabled(kTopologyGate);
  if (topology) kinds.push_back(api::Kind::kNode);
  if (topology || settings.integrations.Enabled(api::kPodFramework) || WatchesSlicePods(settings)) {
    kinds.push_back(api::Kind::kPod);
  }
  return kinds;
}

std::vector<api::Kind> World::RecordedKinds(const Settings& settings) {
  std::vector<api::Kind> kinds = {api::Kind::kWorkload, api::Kind::kCreditAccount};
  if (settings.admission_fair_sharing) kinds.push_back(api::Kind::kLocalQueue);
  return kinds;
}

bool World::Watches(api::Kind kind) const {
  if (kind == api::Kind::kPodGroup) return features_.pod_groups;
  return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end();
}

bool World::Synced() const {
  // Nodes, and pods for topology or of elastic jobs, are waited for where they are needed.
  const auto waited = [&](api::Kind kind) {
    if (kind == api::Kind::kPod) return settings_.integrations.Enabled(api::kPodFramework);
    return kind != api::Kind::kNode;
  };
  return std::all_of(kinds_.begin(), kinds_.end(),
                     [&](api::Kind kind) { return synced_.contains(kind) || !waited(kind); });
}

template <typename Self, typename Visit>
void World::WithStore(Self& self, api::Kind kind, Visit visit) {
  switch (kind) {
    case api::Kind::kClusterQueue:
      return visit(self.cluster_queues_);
    case api::Kind::kLocalQueue:
      return visit(self.local_queues_);
    case api::Kind::kCohort:
      return visit(self.cohorts_);
    case api::Kind::kCreditPolicy:
      return visit(self.credit_policies_);
    case api::Kind::kCreditAccount:
      return visit(self.credit_accounts_);
    case api::Kind::kWorkload:
      return visit(self.workloads_);
    case api::Kind::kResourceFlavor:
      return visit(self.flavors_);
    case api::Kind::kTopology:
      return visit(self.topologies_);
    case api::Kind::kAdmissionCheck:
      return visit(self.admission_checks_);
    case api::Kind::kWorkloadPriorityClass:
      return visit(self.workload_priority_classes_);
    case api::Kind::kJob:
      return visit(self.jobs_);
    case api::Kind::kNode:
      return visit(self.nodes_);
    case api::Kind::kNamespace:
      return visit(self.namespaces_);
    case api::Kind::kLimitRange:
      return visit(self.limit_ranges_);
    case api::Kind::kPriorityClass:
      return visit(self.priority_classes_);
    case api::Kind::kRuntimeClass:
      return visit(self.runtime_classes_);
    case api::Kind::kPodGroup:
      return visit(self.pod_groups_);
    default:
      SLUICE_CHECK(false, "kind {} is not watched", api::InfoOf(kind).name);
  }
}

bool World::AnyUnreadable(api::Kind kind) const {
  const auto first = unreadable_.lower_bound(Ref{kind, {}});
  return first != unreadable_.end() && first->kind == kind;
}

bool World::Contains(const Ref& ref) const {
  if (Unreadable(ref)) return true;
  if (ref.kind == api::Kind::kPod) {
    const auto group = GroupOfKey(ref.key);
    if (group) return pods_.HasGroup(ref.key.ns, *group);
    const auto chain = ChainOfKey(ref.key);
    if (chain) return !placements_.WorkloadsOf(ref.key.ns, *chain).empty();
    return pods_.Find(ref.key) != nullptr || pods_.Unreadable(ref.key);
  }
  bool found = false;
  if (Watches(ref.kind)) {
    WithStore(*this, ref.kind, [&](const auto& store) { found = store.Contains(ref.key); });
  }
  return found;
}

bool World::WatchesSlicePods(const Settings& settings) {
  return settings.integrations.Enabled("batch/job");
}

std::optional<Rejection> World::Apply(const ObjectEvent& event, absl::Time now, Refs& touched) {
  if (event.type == ObjectEvent::Type::kBookmark) return std::nullopt;
  credits_now_ = quota::FloorSecond(now);
  credits_.SetNow(now);
  if (event.kind == api::Kind::kPod) return TakePod(event, now, touched);
  std::optional<Rejection> rejected;
  switch (event.type) {
    case ObjectEvent::Type::kListBegin:
      listing_[event.kind] = {};
      break;
    case ObjectEvent::Type::kListEnd:
      WithStore(*this, event.kind, [&](auto& store) { FinishList(store, event, now, touched); });
      break;
    case ObjectEvent::Type::kUpsert:
    case ObjectEvent::Type::kDelete:
      WithStore(*this, event.kind,
                [&](auto& store) { rejected = Take(store, event, now, touched); });
      break;
    case ObjectEvent::Type::kBookmark:
      break;
  }
  return rejected;
}

template <typename T>
void World::FinishList(Store<T>& store, const ObjectEvent& end, absl::Time now, Refs& touched) {
  const api::Kind kind = end.kind;
  Listing list = std::move(listing_[kind]);
  listing_.erase(kind);
  list.End(end);
  std::vector<ObjectKey> gone;
  for (const auto& [key, object] : store.all()) {
    if (!list.Has(key) && !list.IsNewer(object->metadata.resource_version)) gone.push_back(key);
  }
  for (const ObjectKey& key : gone) {
    const std::shared_ptr<const T> before = store.Find(key);
    store.Erase(key);
    Changed<T>(key, before, nullptr, now, touched);
    touched.insert({kind, key});
  }
  absl::erase_if(unreadable_,
                 [&](const Ref& ref) { return ref.kind == kind && !list.Has(ref.key); });
  if (kind == api::Kind::kPodGroup) {
    // Nobody waits for these but those who name one.
    pod_groups_listed_ = true;
    TouchUsersOfPodGroups(touched);
    return;
  }
  MarkSynced(kind);
  if (kind == api::Kind::kNode && !std::exchange(nodes_listed_, true)) NoteNodesListed(touched);
}

void World::MarkSynced(api::Kind kind) {
  if (!Watches(kind)) return;
  const bool was_synced = Synced();
  synced_.insert(kind);
  if (was_synced || !Synced()) return;
  RestoreEntryPenalties();
  credits_.MarkStale();
}

template <typename T>
std::optional<Rejection> World::Take(Store<T>& store, const ObjectEvent& event, absl::Time now,
                                     Refs& touched) {
  const ObjectKey key = KeyOf(event.object);
  const Ref ref{event.kind, key};
  const std::string version = event.object.GetString("metadata", "resourceVersion");
  const std::shared_ptr<const T> before = store.Find(key);
  if (const auto list = listing_.find(event.kind); list != listing_.end()) {
    list->second.Note(key, event);
  }
  // Our own write's reply and the watch bring the same object in any order.
  if (before != nullptr && !NewerVersion(version, before->metadata.resource_version)) {
    const bool same = version == before->metadata.resource_version;
    if (event.type == ObjectEvent::Type::kUpsert || !same) return std::nullopt;
  }
  touched.insert(ref);
  unreadable_.erase(ref);
  if (event.type == ObjectEvent::Type::kDelete) {
    store.Erase(key);
    Changed<T>(key, before, nullptr, now, touched);
    return std::nullopt;
  }
  absl::StatusOr<T> decoded = api::Decode<T>(event.object);
  std::optional<Rejection> rejected;
  if (!decoded.ok()) {
    unreadable_.insert(ref);
    rejected = Rejection{ref, event.object.GetString("metadata", "uid"),
                         std::string(decoded.status().message())};
    if constexpr (std::is_same_v<T, api::Workload>) {
      decoded = api::Decode<T>(WithoutPodSets(event.object));
    }
    if (!decoded.ok()) return rejected;
  }
  if constexpr (std::is_same_v<T, api::Workload> || std::is_same_v<T, api::Job>) {
    templates_.Share(*decoded);
  }
  auto after = std::make_shared<const T>(std::move(decoded).value());
  store.Put(key, after);
  Changed<T>(key, before, after, now, touched);
  return rejected;
}

template <typename T>
void World::Changed(const ObjectKey& key, const std::shared_ptr<const T>& before,
                    const std::shared_ptr<const T>& after, absl::Time now, Refs& touched) {
  // A PriorityClass needs nothing here: its own key is touched.
  if constexpr (std::is_same_v<T, api::Job>) {
    IndexPodGroup(key, before.get(), after.get(), touched);
  } else if constexpr (std::is_same_v<T, api::PodGroup>) {
    TouchUsersOf(key, touched);
  } else if constexpr (std::is_same_v<T, api::Workload>) {
    WorkloadChanged(key, before.get(), after.get(), now, touched);
  } else if constexpr (std::is_same_v<T, api::ClusterQueue>) {
    ClusterQueueChanged(key.name, before.get(), after, touched);
  } else if constexpr (std::is_same_v<T, api::LocalQueue>) {
    LocalQueueChanged(key, before.get(), after.get(), now, touched);
  } else if constexpr (std::is_same_v<T, api::Cohort>) {
    CohortChanged(key.name, before.get(), after.get(), touched);
  } else if constexpr (std::is_same_v<T, api::CreditPolicy>) {
    credits_.PolicyChanged(before.get(), after.get());
  } else if constexpr (std::is_same_v<T, api::CreditAccount>) {
    credits_.AccountChanged(key.name, before.get(), after.get());
  } else if constexpr (std::is_same_v<T, api::ResourceFlavor>) {
    if (after == nullptr) {
      snapshot_.flavors.erase(key.name);
    } else {
      snapshot_.flavors[key.name] = after;
    }
    FollowFlavor(key.name, after.get());
    for (const T* flavor : {before.get(), after.get()}) TouchTopology(flavor, touched);
    if (before == nullptr || after == nullptr || before->spec != after->spec) {
      RefreshUsers(by_flavor_, key.name, touched);
    }
  } else if constexpr (std::is_same_v<T, api::AdmissionCheck>) {
    RefreshUsers(by_check_, key.name, touched);
  } else if constexpr (std::is_same_v<T, api::Node>) {
    NodeChanged(key.name, before.get(), after.get(), now, touched);
  } else if constexpr (std::is_same_v<T, api::Topology>) {
    FollowTopology(key.name, after.get(), now);
    for (const auto& [flavor, object] : flavors_.all()) {
      if (object->spec.topology_name == key.name) RefreshUsers(by_flavor_, flavor.name, touched);
    }
  } else if constexpr (std::is_same_v<T, api::WorkloadPriorityClass>) {
    if (before == nullptr || after == nullptr || before->value != after->value) {
      TouchUsersOfPriority(key.name, touched);
    }
  } else if constexpr (std::is_same_v<T, api::Namespace>) {
    if (after == nullptr) {
      snapshot_.namespaces.erase(key.name);
    } else {
      snapshot_.namespaces[key.name] = after;
    }
    NamespaceChanged(key, before.get(), after.get(), now, touched);
  } else if constexpr (std::is_same_v<T, api::LimitRange>) {
    if (before == nullptr || after == nullptr || before->limits != after->limits) {
      EnqueueNamespace(key.ns, now, touched);
    }
  } else if constexpr (std::is_same_v<T, api::RuntimeClass>) {
    for (const auto& [ns, object] : namespaces_.all()) EnqueueNamespace(ns.name, now, touched);
  }
}

void World::TouchUsersOfPriority(const std::string& name, Refs& touched) const {
  for (const auto& [key, workload] : workloads_.all()) {
    const auto& ref = workload->spec.priority_class_ref;
    if (ref && ref->group == api::kKueueGroup && ref->name == name) {
      touched.insert({api::Kind::kWorkload, key});
    }
  }
}

void World::NamespaceChanged(const ObjectKey& key, const api::Namespace* before,
                             const api::Namespace* after, absl::Time now, Refs& touched) {
  if (before != nullptr && after != nullptr && before->metadata.labels == after->metadata.labels) {
    return;
  }
  EnqueueNamespace(key.name, now, touched);
  if (after != nullptr) {
    for (const auto& [name, cluster_queue] : cluster_queues_.all()) {
      if (admission::NamespaceMatches(*cluster_queue, *after)) releases_.insert(name.name);
    }
  }
  const auto& jobs = jobs_.all();
  for (auto it = jobs.lower_bound(ObjectKey{key.name, ""});
       it != jobs.end() && it->first.ns == key.name; ++it) {
    touched.insert({api::Kind::kJob, it->first});
  }
  const auto& pods = pods_.all();
  for (auto it = pods.lower_bound(ObjectKey{key.name, ""});
       it != pods.end() && it->first.ns == key.name; ++it) {
    touched.insert({api::Kind::kPod, PodIndex::WorkKey(*it->second)});
  }
}

void World::RefreshUsers(const absl::btree_map<std::string, absl::btree_set<std::string>>& index,
                         const std::string& name, Refs& touched) {
  const auto users = index.find(name);
  if (users == index.end()) return;
  snapshot_.history.NoteEvent();
  for (const std::string& cluster_queue : users->second) {
    RefreshActivity(cluster_queue, touched);
    releases_.insert(cluster_queue);
  }
}

std::optional<absl::Time> World::NextRelease() const {
  std::optional<absl::Time> next;
  for (const auto& [name, time] : later_) next = std::min(next.value_or(time), time);
  for (const auto& [key, time] : missing_) next = std::min(next.value_or(time), time);
  return next;
}

void World::StepBack(absl::Duration by) {
  for (auto& [name, time] : later_) time -= by;
  for (auto& [key, time] : missing_) time -= by;
  queues_.RecheckAll();
}

void World::RunReleases(absl::Time now) {
  std::vector<ObjectKey> found_again;
  absl::erase_if(later_, [&](const auto& entry) {
    if (entry.second > now) return false;
    place_releases_.insert(entry.first);
    return true;
  });
  absl::erase_if(missing_, [&](const auto& entry) {
    if (entry.second > now) return false;
    found_again.push_back(entry.first);
    return true;
  });
  for (const ObjectKey& key : found_again) Enqueue(key, now);
  EndProtections(now);
  absl::btree_set<std::string> released;
  for (const std::string& name : std::exchange(releases_, {})) {
    if (released.contains(name)) continue;
    for (std::string& member : ReleasedWith(name)) released.insert(std::move(member));
  }
  const auto release = [&](const std::string& name, queueing::Release what) {
    if (cluster_queues_.Find({"", name}) == nullptr) return;
    queues_.ReleaseParked(
        name, now, [&](const std::string& ns) { return NamespaceAllowed(name, ns); }, what);
  };
  for (const std::string& name : released) release(name, queueing::Release::kAll);
  for (const std::string& name : std::exchange(place_releases_, {})) {
    if (released.contains(name) || snapshot_.tree.InCycle(name)) continue;
    release(name, queueing::Release::kPlaces);
  }
}

std::shared_ptr<const api::Workload> World::AssumedOrStored(const ObjectKey& key) const {
  const auto found = assumed_.find(key);
  return found == assumed_.end() ? workloads_.Find(key) : found->second;
}

queueing::RequestContext World::RequestContextFor(const std::string& ns) const {
  queueing::RequestContext context;
  const auto& all = limit_ranges_.all();
  for (auto it = all.lower_bound(ObjectKey{ns, ""}); it != all.end() && it->first.ns == ns; ++it) {
    context.limit_ranges.push_back(it->second.get());
  }
  context.runtime_class = [this](const std::string& name) {
    return runtime_classes_.Find({"", name}).get();
  };
  context.options = &request_options_;
  return context;
}

}  // namespace sluice::state
