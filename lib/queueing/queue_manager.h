// QueueManager: the workloads that wait, per ClusterQueue, in order.
//
// A pending workload is in exactly one place: active (will be popped in order), parked (was tried
// and waits for something that can help, or its backoff is not over) or in flight (popped, being
// decided). Workloads of the same equivalence class in one ClusterQueue stand together: when one of
// them was found not to fit in a BestEffortFIFO queue, the whole class is parked at once and judged
// again only after a release; that costs O(1) however many they are.
//
// Nothing spins: a head that another try would not help (a StrictFIFO head that was not admitted, a
// preemptor that waits for its victims, one that was requeued with `hold`) stays at the head and
// holds the queue, but Heads does not return it again until a release, Retry, a change of it, or a
// workload before it. So after Heads is empty, nothing can be decided until an event comes or
// NextDue passes. HeldHeads returns such heads all the same: a cycle that decides about others of
// the same cohort tree lets them take part, so that they can defend the capacity they wait for.
//
// In a usage-based ClusterQueue the LocalQueue with the lowest usage goes first (admission fair
// sharing), and only among equals the order of the workloads decides.
//
// Contract: thread-compatible; time is a parameter. Workloads and ClusterQueues may come in any
// order: workloads of an unknown ClusterQueue wait in it, inactive. O(log n) per workload
// operation, O(parked individually + classes) per release. Deterministic: no order depends on
// insertion. Source: Kueue documentation, "Cluster Queue" (queueing strategies).
//
//   queues.AddClusterQueue("cq", {.strategy = QueueingStrategy::kBestEffortFifo, .active = true});
//   queues.AddOrUpdate(info, now);
//   for (const Head& head : queues.Heads(now)) ... queues.Requeue(head.info->Key(), ..., now);
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/container/flat_hash_map.h>
#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "queueing/admission_fair_sharing.h"
#include "queueing/workload_info.h"

namespace sluice::topology {
class Booking;
}

namespace sluice::queueing {

enum class QueueingStrategy { kBestEffortFifo, kStrictFifo };
QueueingStrategy StrategyOf(const api::ClusterQueue& cluster_queue);

struct ClusterQueueOptions {
  QueueingStrategy strategy = QueueingStrategy::kBestEffortFifo;
  bool active = true;  // heads are taken only from active ones
  // The LocalQueue with the lowest usage goes first. Decided when the ClusterQueue is first seen;
  // a later change has no effect until it was removed.
  bool usage_based = false;
  // Later workloads may start before a head that waits (queueing/backfill.h). Whatever comes to
  // such a queue is a reason to look at its head, and so at those behind it, again.
  bool backfill = false;
  bool operator==(const ClusterQueueOptions&) const = default;
};

enum class Place { kNone, kActive, kParked, kInFlight };

// Why a popped workload comes back.
enum class RequeueReason {
  kFailedAfterNomination,  // fitted alone but not after others of the cycle, or the write failed
  kPendingPreemption,      // preemptions issued or under way: becomes sticky in BestEffortFIFO
  kPreemptionFailed,
  kNoFit,                   // blocks its class in BestEffortFIFO
  kPreemptionNoCandidates,  // blocks its class in BestEffortFIFO
  kPreemptionGated,
  kNamespaceMismatch,  // parked in both strategies
  kGeneric,
};

// Where the scan of the flavors stopped when a workload was last evaluated.
struct ScanProgress {
  using Positions = std::vector<std::pair<ResourceName, int>>;
  // Per pod set, in the order of the spec, for every resource that got a flavor: the position of
  // the last flavor that was looked at, -1 when that was the last of all (the scan starts over).
  std::vector<Positions> pod_sets;
  uint64_t quota_generation = 0;  // of the ClusterQueue, when it was recorded
  uint64_t cycle = 0;             // in which it was recorded
  EquivalenceClass shape;         // of the workload, when it was recorded
  bool operator==(const ScanProgress&) const = default;

  // -1 also for a pod set or resource that is not recorded.
  int PositionOf(size_t pod_set, const ResourceName& resource) const;
  bool HasUntriedFlavors() const;
};

// What a release may have changed.
enum class Release {
  kAll,
  // Room on nodes and nothing else: it helps those only whose last answer depended on places.
  kPlaces,
};

struct RequeueRequest {
  RequeueReason reason = RequeueReason::kGeneric;
  // The reason of its QuotaReserved condition; equivalent workloads that are passed over show it.
  std::string condition_reason{};
  // The scan stopped before the last flavor, so the next try may do better. Means nothing after
  // preemptions and behind a closed preemption gate: the next scan starts over then.
  bool untried_flavors = false;
  // Another try would give the same answer: if it goes back to the head it waits there. Flavors
  // that were not tried do not change that; a release while it was in flight does.
  bool hold = false;
  // Whether more room on nodes alone may change the answer; see Release.
  bool places_matter = true;
  // The answer follows from what happened to this workload: an equivalent one may get another.
  bool own_answer = false;
  // If it waits: the places on nodes that others are to leave to it.
  std::shared_ptr<const topology::Booking> place = nullptr;
  // What ProgressOf answers from now on.
  std::optional<ScanProgress> scan_progress{};
};

// Under load: classes that were refused or outdone by others of a cycle before are left where they
// are while `still_refused` says so of one of them, at most for `recheck`; then all classes of the
// ClusterQueue are judged again. Only in BestEffortFIFO queues, as in the others nobody passes a
// head.
struct PassOver {
  std::function<bool(const WorkloadInfo&)> still_refused;
  absl::Duration recheck;
};

struct QueueManagerOptions {
  // Gate FlavorFungibilityPreserveScanProgress. Off: an update of the object forgets its progress.
  bool preserve_scan_progress = true;
};

struct PendingCounts {
  int64_t active = 0;        // active and in flight
  int64_t inadmissible = 0;  // parked, and everything in an inactive ClusterQueue
  int64_t Total() const { return active + inadmissible; }
  bool operator==(const PendingCounts&) const = default;
};

struct PendingWorkload {
  WorkloadInfoPtr info;
  Place place = Place::kNone;
};

class QueueManager {
 public:
  // Tells whether workloads of that namespace may use the ClusterQueue.
  using NamespaceMatches = std::function<bool(const std::string& ns)>;

  explicit QueueManager(const QueueManagerOptions& options = {});
  ~QueueManager();
  QueueManager(const QueueManager&) = delete;
  QueueManager& operator=(const QueueManager&) = delete;

  // Add and update do the same; neither is a release.
  void AddClusterQueue(const std::string& name, const ClusterQueueOptions& options);
  void UpdateClusterQueue(const std::string& name, const ClusterQueueOptions& options);
  // Its workloads stay known and wait for it to come back.
  void RemoveClusterQueue(const std::string& name);

  // Takes in an admissible workload, or the newer state of one that waits. One that is parked stays
  // parked when nothing changed that matters; in flight, the newer state is used by Requeue. Moves
  // it when its ClusterQueue changed. Returns where it is.
  Place AddOrUpdate(WorkloadInfoPtr info, absl::Time now);
  // Forgets it wherever it is; false when it was not known.
  bool Remove(const ObjectKey& key);

  // The usage by which usage-based ClusterQueues order the workloads of this LocalQueue; zero until
  // it is set.
  void SetLocalQueueUsage(const ObjectKey& local_queue, const UsageValue& usage);
  void ForgetLocalQueueUsage(const ObjectKey& local_queue);
  // The one that was set last.
  const UsageValue& LocalQueueUsage(const ObjectKey& local_queue) const;
  // The admission of a workload was decided, with that usage: it leaves the queue. The listener is
  // told before, so that the next heads are chosen by the usage that the admission changes.
  using AdmitListener = std::function<void(const WorkloadInfo&, const FlavorResourceAmounts&)>;
  void SetAdmitListener(AdmitListener listener) { on_admit_ = std::move(listener); }
  void Admit(const ObjectKey& key, const FlavorResourceAmounts& usage);

  // Pops the head of every active ClusterQueue that has one ready; they are in flight until Requeue
  // or Remove. Sorted by ClusterQueue.
  std::vector<WorkloadInfoPtr> Heads(absl::Time now, const PassOver* pass_over = nullptr);
  // Of those ClusterQueues that are active and have nothing in flight: pops the heads that wait and
  // that Heads therefore leaves out. They are in flight afterwards, and look at all their flavors
  // again. Sorted by ClusterQueue.
  std::vector<WorkloadInfoPtr> HeldHeads(const std::vector<std::string>& cluster_queues);
  // Something changed for the ClusterQueue that is no release: Heads returns a waiting head again.
  void Retry(const std::string& cluster_queue);
  // ClusterQueues whose head waits.
  const absl::btree_set<std::string>& WaitingQueues() const { return waiting_; }
  // The places on nodes of the head that waits there; nullptr: it keeps none.
  std::shared_ptr<const topology::Booking> KeptPlace(const std::string& cluster_queue) const;
  // The first of those that can be popped, at most `count`, in order. O(count log).
  std::vector<WorkloadInfoPtr> First(const std::string& cluster_queue, size_t count) const;
  // ClusterQueues with the option `backfill`.
  const absl::btree_set<std::string>& BackfillQueues() const { return backfill_; }
  // The number of calls of Heads so far.
  uint64_t cycle() const { return cycle_; }
  // Whether Heads would return something.
  bool HasHeads(absl::Time now) const;
  // Puts a popped workload back. kNone when it was removed meanwhile (it is dropped).
  Place Requeue(const ObjectKey& key, const RequeueRequest& request, absl::Time now);

  // Something changed that can help workloads of this ClusterQueue: what is parked becomes active
  // again, except where backoff is not over or the namespace does not match (nullptr: all match).
  // For a tree of cohorts the caller releases every ClusterQueue of the tree. After kPlaces what
  // waits for quota only stays where it is.
  // Returns how many workloads became active.
  int64_t ReleaseParked(const std::string& cluster_queue, absl::Time now,
                        const NamespaceMatches& matches = nullptr, Release release = Release::kAll);

  // The workload was the last of its ClusterQueue to come back with kPendingPreemption, and its
  // generation is still the one that was evaluated. Stays true while it is parked; in a
  // BestEffortFIFO queue that workload is sticky: it sorts before all others.
  bool IsPreemptor(const ObjectKey& key) const;
  // Set by the last Requeue of a workload that still waits.
  std::optional<ScanProgress> ProgressOf(const ObjectKey& key) const;

  // The next instant at which a workload's backoff or a PassOver ends by time alone.
  std::optional<absl::Time> NextDue() const;
  // Somebody is passed over and will be judged again by time alone.
  bool HasRechecks() const { return !rechecks_.empty(); }
  // All of them at once.
  void RecheckAll() { RecheckDue(absl::InfiniteFuture()); }

  PendingCounts Pending(const std::string& cluster_queue) const;
  PendingCounts PendingOfLocalQueue(const ObjectKey& local_queue) const;
  // Where it is: a workload of a blocked class is parked.
  Place PlaceOf(const ObjectKey& key) const;
  WorkloadInfoPtr Find(const ObjectKey& key) const;
  // When the workload was passed over because an equivalent one did not fit: that one's reason.
  std::optional<std::string> BypassReason(const ObjectKey& key) const;
  // All pending workloads in the order in which they would be popped.
  std::vector<PendingWorkload> Snapshot(const std::string& cluster_queue) const;
  // Pending workloads of any ClusterQueue, all places.
  int64_t size() const;

  // Stops the process when counts and indexes disagree (for tests).
  void CheckInvariants() const;

 private:
  struct Class;
  struct Entry;
  struct EntryLess;
  struct Group;
  struct GroupLess;
  struct Lane;
  struct LaneLess;
  struct Queue;
  struct LocalQueue {
    std::string cluster_queue;  // of its workloads
    PendingCounts counts;       // without regard to whether the ClusterQueue is active
  };

  Queue& QueueAt(const std::string& name);
  const Queue* FindQueue(const std::string& name) const;
  void SetOptions(const std::string& name, const ClusterQueueOptions& options);
  void Insert(Entry& entry, absl::Time now);
  void InsertActive(Entry& entry);
  void Park(Entry& entry, absl::Time now);
  void Detach(Entry& entry);
  void LeaveQueue(Entry& entry);
  void DropIfUnused(const std::string& name);
  static void SetRefused(const Entry& entry, const RequeueRequest& request);
  void SetBlocked(Queue& queue, Class& of_class, bool blocked);
  Lane& LaneAt(Queue& queue, const ObjectKey& local_queue);
  void DropLane(Queue& queue, const ObjectKey& local_queue);
  static void Reorder(Queue& queue, Lane& lane);
  static void ReorderLaneOf(Queue& queue, const Entry* entry);
  void DetachFromGroup(Queue& queue, Entry& entry);
  void SetUsage(Queue& queue, Lane& lane);
  const UsageValue& UsageIn(const Queue& queue, const ObjectKey& local_queue) const;
  void Count(Queue& queue, const ObjectKey& local_queue, bool inadmissible, int64_t delta);
  int64_t Unblock(Queue& queue, Release release = Release::kAll);
  void ReleaseDue(absl::Time now);
  void RecheckDue(absl::Time now);
  Entry* PassOverRefused(Queue& queue, const PassOver& pass_over, absl::Time now);
  void EndRecheck(Queue& queue);
  void RefreshReady(Queue& queue);
  void CheckQueue(const Queue& queue) const;
  WorkloadInfoPtr Pop(Queue& queue, Entry& entry);

  QueueManagerOptions options_;
  absl::flat_hash_map<ObjectKey, std::unique_ptr<Entry>> entries_;
  absl::btree_map<std::string, std::unique_ptr<Queue>> queues_;
  absl::btree_map<ObjectKey, LocalQueue> local_;
  absl::btree_map<ObjectKey, absl::btree_set<Queue*>> with_lane_;  // by LocalQueue
  absl::btree_map<ObjectKey, UsageValue> usages_;  // by LocalQueue; only what is not zero
  AdmitListener on_admit_;
  absl::btree_set<std::string> ready_;                     // ClusterQueues with a head to pop
  absl::btree_set<std::string> waiting_;                   // ClusterQueues whose head waits
  absl::btree_set<std::string> backfill_;                  // ClusterQueues with that option
  absl::btree_set<std::pair<absl::Time, ObjectKey>> due_;  // parked until that instant
  absl::btree_set<std::pair<absl::Time, std::string>> rechecks_;
  uint64_t cycle_ = 0;  // number of calls of Heads
};

}  // namespace sluice::queueing
