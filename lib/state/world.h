// World: everything the controller knows, rebuilt from API objects alone.
//
// Apply() takes one change and returns the keys that may now need work; the indexes (queues, quota,
// owners) follow in time proportional to what changed. Assume() makes an admission count before the
// API server has confirmed it; Confirm or Forget ends that. Single thread (the loop's); no I/O.
// Everything in it can be recomputed from the objects: after a crash nothing is missing.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <algorithm>
#include <compare>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "admission/snapshot.h"
#include "api/kueue_types.h"
#include "api/template_pool.h"
#include "queueing/admission_fair_sharing.h"
#include "queueing/queue_manager.h"
#include "queueing/requests.h"
#include "quota/tree.h"
#include "state/credit_ledger.h"
#include "state/deadlines.h"
#include "state/listing.h"
#include "state/placements.h"
#include "state/pod_index.h"
#include "state/ports.h"
#include "state/settings.h"
#include "state/slice_pods.h"
#include "state/store.h"
#include "state/topology_feed.h"

namespace sluice::state {

// An object that may need work.
struct Ref {
  api::Kind kind = api::Kind::kWorkload;
  ObjectKey key;
  auto operator<=>(const Ref&) const = default;
};
using Refs = absl::btree_set<Ref>;

// An object that could not be decoded. The version known before (if any) stays in force.
struct Rejection {
  Ref ref;
  std::string uid;
  std::string error;
};

// What the Workloads of one queue hold.
struct QueueTotals {
  int32_t reserving = 0;
  int32_t admitted = 0;
  FlavorResourceAmounts reservation;  // of all that hold quota
  FlavorResourceAmounts usage;        // of the admitted ones
  bool operator==(const QueueTotals&) const = default;
};

// Why a ClusterQueue is or is not active, as its condition says it.
struct QueueActivity {
  bool active = false;
  std::string reason;
  std::string message;
  bool operator==(const QueueActivity&) const = default;
};

class World {
 public:
  explicit World(const Settings& settings);
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // Takes one event in. `touched` receives every key that may need work. Objects older than the one
  // held are ignored. A rejection is returned when the object cannot be decoded.
  std::optional<Rejection> Apply(const ObjectEvent& event, absl::Time now, Refs& touched);
  // Every kind that decisions depend on has been listed.
  bool Synced() const;
  // Kinds that are always watched, and all that these settings may need: nodes only, and of pods
  // more than those with the label kueue.x-k8s.io/managed: "true", "elastic" or
  // "checkpoint" only, once
  // NeedsNodes says so.
  static const std::vector<api::Kind>& WatchedKinds();
  static std::vector<api::Kind> WatchedKinds(const Settings& settings);
  // Those in which a leader writes down what it has decided and its successor goes on from: what
  // holds quota, the accounts of credits that limits follow, and the usage of LocalQueues where
  // their order follows it.
  static std::vector<api::Kind> RecordedKinds(const Settings& settings);
  // One of the watched kinds, or PodGroup while the API server serves it.
  bool Watches(api::Kind kind) const;
  // Pods of jobs are watched: those of elastic ones with the label kueue.x-k8s.io/managed:
  // "elastic", and "checkpoint" where a job tells of its checkpoints. Whether a workload may be
  // admitted does not depend on them.
  static bool WatchesSlicePods(const Settings& settings);
  // The gate TopologyAwareScheduling is on and a flavor names a topology: nodes and all pods
  // matter.
  bool NeedsNodes() const { return topology_ != nullptr && topology_->has_flavors(); }
  // All nodes and pods were listed, so that it is known what is free. Until then nothing is
  // admitted to ClusterQueues that have a topology.
  bool NodesKnown() const { return nodes_listed_ && pods_listed_; }

  // What the API server can do. Without PodGroups those that were known are forgotten.
  void SetFeatures(const ClusterFeatures& features, Refs& touched);
  const ClusterFeatures& features() const { return features_; }
  // PodGroups are served and all of them are known.
  bool PodGroupsKnown() const { return features_.pod_groups && pod_groups_listed_; }
  const Store<api::PodGroup>& pod_groups() const { return pod_groups_; }
  // Jobs whose pods name that PodGroup in their template.
  std::vector<ObjectKey> JobsOfPodGroup(const ObjectKey& pod_group) const;

  // Counts `admitted` (the workload as it will be once the write lands) from now on.
  void Assume(std::shared_ptr<const api::Workload> admitted);
  // Ends the assumption without admission (the write failed for good) and counts what the API says.
  void Forget(const ObjectKey& key, absl::Time now, Refs& touched);
  // The same where the API server says that there is no such object, and no event has told so yet.
  // It waits in no queue before one about it comes, or that instant.
  void ForgetMissing(const ObjectKey& key, absl::Time until, absl::Time now, Refs& touched);
  // The object is there, as far as is known. Of pods: also a group or a place that has some.
  bool Contains(const Ref& ref) const;
  // The object exists, but its last version could not be read. Nothing may be concluded from it,
  // least of all that it is not there.
  bool Unreadable(const Ref& ref) const { return unreadable_.contains(ref); }
  bool AnyUnreadable(api::Kind kind) const;
  // A decision evicts the workload: it counts as on its way out until the API says so, or until
  // ForgetEviction when the write failed.
  void AssumeEviction(const ObjectKey& key);
  void ForgetEviction(const ObjectKey& key);
  bool IsEvictionAssumed(const ObjectKey& key) const { return evicting_.contains(key); }
  bool IsAssumed(const ObjectKey& key) const { return assumed_.contains(key); }
  // All that hold quota, assumed ones included.
  std::shared_ptr<const api::Workload> AssumedOrStored(const ObjectKey& key) const;

  const Settings& settings() const { return settings_; }
  const Store<api::ClusterQueue>& cluster_queues() const { return cluster_queues_; }
  const Store<api::LocalQueue>& local_queues() const { return local_queues_; }
  const Store<api::Cohort>& cohorts() const { return cohorts_; }
  const Store<api::ResourceFlavor>& flavors() const { return flavors_; }
  const Store<api::Topology>& topologies() const { return topologies_; }
  const Store<api::AdmissionCheck>& admission_checks() const { return admission_checks_; }
  const Store<api::WorkloadPriorityClass>& workload_priority_classes() const {
    return workload_priority_classes_;
  }
  const Store<api::CreditPolicy>& credit_policies() const { return credit_policies_; }
  const Store<api::CreditAccount>& credit_accounts() const { return credit_accounts_; }
  const Store<api::Workload>& workloads() const { return workloads_; }
  const Store<api::Job>& jobs() const { return jobs_; }
  const PodIndex& pods() const { return pods_; }
  const SlicePods& slice_pods() const { return slice_pods_; }
  const Store<api::Node>& nodes() const { return nodes_; }
  // What is free on them; nullptr when the gate TopologyAwareScheduling is off.
  const TopologyFeed* topology() const { return topology_.get(); }
  // Workloads that run in given places, and their pods; kept while that gate is on.
  const Placements& placements() const { return placements_; }
  const Store<api::Namespace>& namespaces() const { return namespaces_; }
  const Store<api::LimitRange>& limit_ranges() const { return limit_ranges_; }
  const Store<api::PriorityClass>& priority_classes() const { return priority_classes_; }
  const Store<api::RuntimeClass>& runtime_classes() const { return runtime_classes_; }

  queueing::QueueManager& queues() { return queues_; }
  const queueing::QueueManager& queues() const { return queues_; }
  const quota::Tree& tree() const { return snapshot_.tree; }

  // What LocalQueues used lately; nullptr when admission fair sharing is off.
  const queueing::UsageLedger* usage_ledger() const {
    return usage_ledger_ ? &*usage_ledger_ : nullptr;
  }
  // Admission fair sharing is on and the ClusterQueue asks for it.
  bool UsageBased(const std::string& cluster_queue) const;
  // Takes a sample of the LocalQueue's usage when one is due.
  void SampleUsage(const ObjectKey& local_queue, absl::Time now);
  // This process decides from now on: all histories begin with what the API says.
  void RestartUsage(absl::Time now);
  // Fair-share credits: the accounts, as current as PrepareCredits left them.
  const CreditLedger& credits() const { return credits_; }
  // Brings accounts, standing and burst limits up to the instant, before anything is decided.
  void PrepareCredits(absl::Time now, Refs& touched);
  // When PrepareCredits has something to do by time alone.
  absl::Time CreditsDue(absl::Time now) const;
  // Up to when accounts can be written down: what is only assumed may still not come about.
  absl::Time CreditsCertainUntil(absl::Time now) const;
  // All accounts begin with what the API says.
  void RestartCredits() { credits_.Restart(); }
  // What accounts need of a Workload that is to be forgotten: that its end is written down, as it
  // holds quota that is charged for; or that it stays until their checkpoints contain its end.
  enum class CreditsNeed { kNothing, kEnd, kCheckpoint };
  CreditsNeed CreditsNeedOf(const api::Workload& workload, absl::Time now) const;
  // A lender was refused because credits protect what it would reclaim.
  void NoteLender(const ObjectKey& workload, absl::Time until);

  // It is not stopped and its ClusterQueue is active.
  bool LocalQueueActive(const ObjectKey& key) const;

  // Keys of the Workloads that name an owner of that kind and name in the namespace.
  std::vector<ObjectKey> WorkloadsOwnedBy(const std::string& ns, const std::string& kind,
                                          const std::string& name) const;
  // The jobs whose reconcilers follow the Workload.
  void TouchOwners(const ObjectKey& key, const api::Workload& workload, Refs& touched) const;
  // Where one Workload tries several flavors at once (queueing/variants.h): it only stands for its
  // variants and is neither queued nor counted.
  bool IsParent(const api::Workload& workload) const;
  // The variants of that Workload, by name.
  std::vector<std::shared_ptr<const api::Workload>> VariantsOf(const api::ObjectMeta& parent) const;
  // The slice of an elastic job that took the place of this Workload: it holds quota for both, and
  // this one counts no more, though it has not ended yet. nullptr for all others.
  std::shared_ptr<const api::Workload> TakenOverBy(const ObjectKey& key) const;
  // Keys of the LocalQueues that point to the ClusterQueue.
  std::vector<ObjectKey> LocalQueuesOf(const std::string& cluster_queue) const;
  // Keys of Workloads that name that LocalQueue in their spec.
  std::vector<ObjectKey> WorkloadsOfLocalQueue(const ObjectKey& local_queue) const;
  // The ClusterQueue that the Workload's LocalQueue names, "" when there is no such LocalQueue.
  std::string ClusterQueueOf(const api::Workload& workload) const;

  const QueueTotals& ClusterQueueTotals(const std::string& name) const;
  const QueueTotals& LocalQueueTotals(const ObjectKey& key) const;
  // Workloads that hold quota, assumed ones included, and whose condition PodsReady is not True.
  int64_t WorkloadsNotReady() const { return snapshot_.not_ready; }
  QueueActivity ActivityOf(const std::string& cluster_queue) const;
  // Names of ClusterQueues that use the flavor / the check.
  std::vector<std::string> UsersOfFlavor(const std::string& flavor) const;
  std::vector<std::string> UsersOfCheck(const std::string& check) const;

  // Queues and cohorts of which only counts, usage or shares changed since the last call.
  Refs TakeCounted() { return std::exchange(counted_, {}); }
  // Moves workloads whose chances changed since the last call back into their queues.
  void RunReleases(absl::Time now);
  bool HasReleases() const { return !releases_.empty() || !place_releases_.empty(); }
  // When such a move is due that waits for others to come together.
  std::optional<absl::Time> NextRelease() const;
  // When a minimum runtime or the rest of a workload that was evicted often ends, after which
  // RunReleases has something to do; InfiniteFuture: none.
  absl::Time NextProtectionEnd() const { return std::min(protected_.Next(), resting_.Next()); }
  // The clock was set back: what is to come by time alone comes no later than it would have.
  void StepBack(absl::Duration by);
  // nullptr for none.
  std::shared_ptr<const api::Workload> FindByUid(const std::string& uid) const;
  // What a cycle looks at, kept current. A cycle changes only usage in its tree, and undoes that.
  admission::Snapshot& snapshot() { return snapshot_; }
  queueing::RequestContext RequestContextFor(const std::string& ns) const;
  const queueing::OrderOptions& order_options() const { return order_options_; }
  // The namespace's labels match the selector of the ClusterQueue.
  bool NamespaceAllowed(const std::string& cluster_queue, const std::string& ns) const;

 private:
  using WorkloadPtr = std::shared_ptr<const api::Workload>;
  struct Contribution {  // what a workload adds to the totals
    std::string cluster_queue;
    ObjectKey local_queue;
    FlavorResourceAmounts usage;
    bool admitted = false;
    bool pods_ready = false;  // no part of the totals of queues
    bool SameTotals(const Contribution& other) const {
      return cluster_queue == other.cluster_queue && local_queue == other.local_queue &&
             usage == other.usage && admitted == other.admitted;
    }
  };

  void SetCycleOptions();
  template <typename T>
  std::optional<Rejection> Take(Store<T>& store, const ObjectEvent& event, absl::Time now,
                                Refs& touched);
  std::optional<Rejection> TakePod(const ObjectEvent& event, absl::Time now, Refs& touched);
  // A pod as far as it takes room on a node.
  std::optional<std::string> TakePlace(const ObjectEvent& event, absl::Time now);
  bool OutdatedPod(const ObjectEvent& event) const;
  // A flavor or a topology came, changed or went; each does nothing when the gate is off.
  void FollowFlavor(const std::string& name, const api::ResourceFlavor* now);
  void FollowTopology(const std::string& name, const api::Topology* now, absl::Time time);
  // What the workload takes on nodes while it holds quota.
  void FollowPlaces(const ObjectKey& key, const api::Workload* counted);
  void Wake(const TopologyFeed::Wake& wake, absl::Time now);
  // Nodes and pods were listed: queues that waited for that go on.
  void NoteNodesListed(Refs& touched);
  bool HasTopology(const std::string& flavor) const;
  void NodeChanged(const std::string& name, const api::Node* before, const api::Node* after,
                   absl::Time now, Refs& touched);
  // The topology that the flavor (may be null) names goes when the last such flavor has gone.
  static void TouchTopology(const api::ResourceFlavor* flavor, Refs& touched);
  static void TouchPlaces(const Placements::Keys& chains, Refs& touched);
  void MarkSynced(api::Kind kind);
  template <typename T>
  void FinishList(Store<T>& store, const ObjectEvent& end, absl::Time now, Refs& touched);
  // Calls `visit(store)` for the store of the kind of that World.
  template <typename Self, typename Visit>
  static void WithStore(Self& self, api::Kind kind, Visit visit);

  // Each reacts to one object that came, changed or went (before or after may be null).
  template <typename T>
  void Changed(const ObjectKey& key, const std::shared_ptr<const T>& before,
               const std::shared_ptr<const T>& after, absl::Time now, Refs& touched);
  void WorkloadChanged(const ObjectKey& key, const api::Workload* before,
                       const api::Workload* after, absl::Time now, Refs& touched);
  void ClusterQueueChanged(const std::string& name, const api::ClusterQueue* before,
                           const std::shared_ptr<const api::ClusterQueue>& after, Refs& touched);
  void CohortChanged(const std::string& name, const api::Cohort* before, const api::Cohort* after,
                     Refs& touched);
  // Everything that shows shares in the tree of a ClusterQueue or of a cohort.
  void TouchTree(const std::vector<std::string>& cluster_queues, Refs& touched) const;
  // The cohorts above a ClusterQueue. With fair sharing their shares follow its usage.
  void TouchCohorts(const std::string& cluster_queue, Refs& touched) const;
  // Of one workload that holds quota: whether it lacks ready pods.
  void CountNotReady(bool before, bool after);
  // Lists the workload as a candidate for preemption while it is accounted as holding quota.
  void ListReserved(const ObjectKey& key);
  void TouchUsersOfPriority(const std::string& name, Refs& touched) const;
  void NamespaceChanged(const ObjectKey& key, const api::Namespace* before,
                        const api::Namespace* after, absl::Time now, Refs& touched);
  void LocalQueueChanged(const ObjectKey& key, const api::LocalQueue* before,
                         const api::LocalQueue* after, absl::Time now, Refs& touched);

  void IndexPodGroup(const ObjectKey& job_key, const api::Job* before, const api::Job* after,
                     Refs& touched);
  // The Jobs and pods that name the PodGroup; those of every PodGroup.
  void TouchUsersOf(const ObjectKey& pod_group, Refs& touched) const;
  void TouchUsersOfPodGroups(Refs& touched) const;
  // world_checkpoints.cc: UIDs, and who waits for whose checkpoint.
  void FollowCheckpoints(const ObjectKey& key, const api::Workload* before,
                         const api::Workload* after, Refs& touched);
  void EndProtections(absl::Time now);

  void FollowEvictions(const api::Workload* before, const api::Workload* after, absl::Time now);
  void IndexWorkload(const ObjectKey& key, const api::Workload* before, const api::Workload* after);
  // Brings totals and quota in line with the workload as it is (or is assumed to be).
  void Account(const ObjectKey& key);
  // The same for the slice whose place this one takes (may be null).
  void AccountReplaced(const api::Workload* slice, Refs* touched = nullptr);
  void AddContribution(const Contribution& contribution, int32_t sign);
  // Puts the workload into its queue, refreshes it there, or takes it out. `anew`: what its
  // requests depend on beside the workload may have changed.
  void Enqueue(const ObjectKey& key, absl::Time now, bool anew = false);
  void EnqueueNamespace(const std::string& ns, absl::Time now, Refs& touched);
  void RefreshActivity(const std::string& cluster_queue, Refs& touched);
  // The LocalQueues of the ClusterQueue and their Workloads.
  void TouchMembers(const std::string& cluster_queue, Refs& touched) const;
  void RefreshUsers(const absl::btree_map<std::string, absl::btree_set<std::string>>& index,
                    const std::string& name, Refs& touched);
  using Complain = std::function<void(const char* reason, std::string text)>;
  void ComplainAboutChecks(const api::ClusterQueueSpec& spec, const Complain& add) const;
  // The ClusterQueues whose parked workloads a change in this one can help: its cohort tree.
  std::vector<std::string> ReleasedWith(const std::string& cluster_queue) const;
  QueueActivity ComputeActivity(const api::ClusterQueue& cluster_queue) const;
  bool ChosenElsewhere(const api::ClusterQueueSpec& spec) const;
  void SetTopology(admission::ClusterQueueSnapshot& snapshot) const;

  // Credits; each does nothing without a policy.
  CreditLedger::Sources CreditSources() const;
  std::vector<Reservation> ReservationsIn(const std::string& cluster_queue) const;
  void FollowCredits(const ObjectKey& key, const Contribution* before, const Contribution* after);
  absl::Time ReleaseTime(const ObjectKey& key, absl::Time since) const;
  void UpdateBurstLimits(absl::Time now);
  void RenewLimits(const std::string& cluster_queue);
  void ForgetLender(const ObjectKey& key);
  quota::CellLimits LimitsFor(const std::string& name, const api::ClusterQueueSpec& spec) const;

  // Admission fair sharing; each does nothing when it is off.
  void StartUsageLedger();
  void FollowUsage(const ObjectKey& key, const api::Workload* before, const api::Workload* after,
                   absl::Time now);
  void FollowUsageOfLocalQueue(const ObjectKey& key, const api::LocalQueue* before,
                               const api::LocalQueue* after, absl::Time now);
  void PushEntryPenalty(const api::Workload& admitted);
  void RestoreEntryPenalties();
  void DropEntryPenalty(const ObjectKey& workload);
  void ShowUsage(const ObjectKey& local_queue);

  Settings settings_;
  queueing::RequestOptions request_options_;
  queueing::OrderOptions order_options_;
  Store<api::ClusterQueue> cluster_queues_;
  Store<api::LocalQueue> local_queues_;
  Store<api::Cohort> cohorts_;
  Store<api::ResourceFlavor> flavors_;
  Store<api::Topology> topologies_;
  Store<api::AdmissionCheck> admission_checks_;
  Store<api::WorkloadPriorityClass> workload_priority_classes_;
  Store<api::CreditPolicy> credit_policies_;
  Store<api::CreditAccount> credit_accounts_;
  Store<api::Workload> workloads_;
  Store<api::Job> jobs_;
  PodIndex pods_;
  SlicePods slice_pods_;
  Store<api::Node> nodes_;
  Store<api::Namespace> namespaces_;
  Store<api::LimitRange> limit_ranges_;
  Store<api::PriorityClass> priority_classes_;
  Store<api::RuntimeClass> runtime_classes_;
  Store<api::PodGroup> pod_groups_;
  ClusterFeatures features_;
  bool pod_groups_listed_ = false;
  absl::btree_map<ObjectKey, absl::btree_set<ObjectKey>> jobs_by_pod_group_;
  api::TemplatePool templates_;  // of Workloads, Jobs and pods

  std::vector<api::Kind> kinds_;  // to be watched
  absl::btree_set<api::Kind> synced_;
  absl::btree_map<api::Kind, Listing> listing_;  // the lists that run

  Refs unreadable_;
  Refs counted_;

  absl::btree_map<ObjectKey, WorkloadPtr> assumed_;
  absl::btree_map<ObjectKey, std::string> evicting_;  // UIDs of assumed victims
  absl::btree_map<ObjectKey, Contribution> contributions_;
  absl::btree_map<std::string, QueueTotals> cluster_queue_totals_;
  absl::btree_map<ObjectKey, QueueTotals> local_queue_totals_;
  absl::btree_map<std::string, QueueActivity> activity_;
  absl::btree_set<std::string> releases_;  // ClusterQueues whose parked workloads may fit now
  // ClusterQueues of flavors with more room on nodes: for what found no places there.
  absl::btree_set<std::string> place_releases_;
  absl::btree_map<std::string, absl::Time> later_;  // the same, from these instants on

  using OwnerKey = std::tuple<std::string, std::string, std::string>;  // namespace, kind, name
  absl::btree_map<OwnerKey, absl::btree_set<ObjectKey>> by_owner_;
  absl::btree_map<ObjectKey, absl::btree_set<ObjectKey>> by_local_queue_;
  absl::btree_map<std::string, absl::btree_set<ObjectKey>> local_queues_by_cluster_queue_;
  absl::btree_map<std::string, absl::btree_set<std::string>> by_flavor_;
  absl::btree_map<std::string, absl::btree_set<std::string>> by_check_;
  absl::btree_map<ObjectKey, absl::btree_set<ObjectKey>> slices_after_;  // by whom they replace

  std::unique_ptr<TopologyFeed> topology_;  // nullptr: the gate is off
  bool nodes_listed_ = false;
  bool pods_listed_ = false;            // all of them
  bool all_pods_ = true;                // the list or watch that runs is not narrowed by a selector
  std::optional<Listing> pod_listing_;  // of the list that runs: pods with a place
  // Of Workloads whose reservations count for credits: when they began.
  absl::btree_map<ObjectKey, absl::Time> reserved_since_;
  struct Lender {
    std::string uid;
    absl::Time until;
  };
  absl::btree_map<ObjectKey, Lender> lenders_;
  absl::Time credits_now_ = absl::InfinitePast();
  absl::Time burst_due_ = absl::InfiniteFuture();
  absl::Time lenders_due_ = absl::InfiniteFuture();
  absl::Time drain_due_ = absl::InfiniteFuture();  // when shares that follow banks are looked at
  bool bursts_stale_ = false;
  CreditLedger credits_;
  absl::btree_map<std::string, ObjectKey> by_uid_;
  // Workloads that were asked for a checkpoint, by the UID of the one that needs their room.
  absl::btree_map<std::string, absl::btree_set<ObjectKey>> asked_for_;
  // Until when those that hold quota are protected by their minimum runtime, and until when those
  // that wait do not preempt as they were evicted often.
  Deadlines protected_;
  Deadlines resting_;

  std::optional<queueing::UsageLedger> usage_ledger_;
  queueing::QueueManager queues_;
  admission::Snapshot snapshot_;
  Placements placements_;
  // Workloads that are not to be queued until then.
  absl::btree_map<ObjectKey, absl::Time> missing_;
};

}  // namespace sluice::state
