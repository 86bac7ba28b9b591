#include "admission/cycle.h"

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "admission/backfill_pass.h"
#include "admission/credits.h"
#include "admission/cycle_parts.h"
#include "admission/nominator.h"
#include "admission/order.h"
#include "admission/rivals.h"
#include "admission/still_refused.h"
#include "admission/trial.h"
#include "quota/overlay.h"

namespace sluice::admission {
namespace {

using preemption::Target;
using queueing::RequeueReason;
using queueing::WorkloadInfoPtr;
using Verdict = Explanation::Verdict;

// One of the heads stands behind another that waits.
struct OutOfOrder {
  const BackfillPass& pass;
  const BackfillPass::Candidate& candidate;
};

// One cycle over a set of heads. What is admitted stays booked in `admitted` of the caller.
class Cycle {
 public:
  Cycle(Snapshot& snapshot, quota::Overlay& admitted, Places& places,
        const queueing::QueueManager* queues, int64_t& not_ready, size_t most_rivals = 1)
      : snapshot_(snapshot),
        admitted_(admitted),
        places_(places),
        nominator_(snapshot, queues, places),
        rivals_(snapshot.tree, most_rivals),
        not_ready_(not_ready) {}

  // What is defended against these entries by heads that wait.
  using Defenders = std::function<Defence(const std::vector<Entry>&)>;

  std::vector<Decision> Run(const std::vector<WorkloadInfoPtr>& heads,
                            const Defenders& defenders = nullptr,
                            const OutOfOrder* out_of_order = nullptr) {
    out_of_order_ = out_of_order;
    std::vector<Entry> entries;
    entries.reserve(heads.size());
    for (const WorkloadInfoPtr& head : heads) {
      entries.push_back(IsOutOfOrder(head)
                            ? nominator_.NominateWithin(head, *out_of_order->candidate.option)
                            : nominator_.Nominate(head));
    }
    if (defenders) {
      Defence defence = defenders(entries);
      for (const WorkloadInfoPtr& head : defence.heads) {
        entries.push_back(nominator_.Nominate(head));
      }
      for (auto& place : defence.places) places_.Expect(std::move(place));
    }
    EntryOrder order(snapshot_, entries);
    std::vector<Decision> decisions;
    decisions.reserve(entries.size());
    while (Entry* entry = order.Next()) {
      if (entry->nominated) Process(*entry);
      decisions.push_back(std::move(entry->decision));
    }
    for (const auto& [queue, amounts] : expected_) quota::Tree::RemoveUsage(*queue, amounts);
    places_.EndCycle();
    return decisions;
  }

  // Somebody for whom there is quota got no places because of others.
  bool lacks_places() const { return lacks_places_; }

 private:
  using Mode = flavor::Mode;

  bool IsOutOfOrder(const WorkloadInfoPtr& info) const {
    return out_of_order_ != nullptr && out_of_order_->candidate.info == info;
  }

  // It preempts nobody, replaces nobody, and delays nobody.
  void StartOutOfOrder(Entry& entry) {
    entry.decision.explanation.problems.clear();
    if (entry.replaced != nullptr || entry.migrates != nullptr) {
      entry.decision.explanation.problems = {"it takes the place of another one"};
      return HoldBack(entry);
    }
    if (entry.assignment.mode == Mode::kNoFit) {
      return Wait(entry.decision, Verdict::kNoFit, RequeueReason::kNoFit);
    }
    // The places that it would get are taken: somebody would have to go.
    if (entry.assignment.mode != Mode::kFit) {
      return Wait(entry.decision, Verdict::kNoCandidates, RequeueReason::kNoFit);
    }
    if (!out_of_order_->pass.Allows(out_of_order_->candidate, entry.usage)) return HoldBack(entry);
    Admit(entry);
    if (entry.decision.kind == Decision::Kind::kAdmit) {
      entry.decision.backfill = out_of_order_->candidate.note;
    }
  }

  void HoldBack(Entry& entry) const {
    const BackfillPass::Candidate& candidate = out_of_order_->candidate;
    entry.decision.explanation.held_by = candidate.note.before;
    entry.decision.explanation.held_until = candidate.note.reserved_at;
    Wait(entry.decision, Verdict::kReserved, RequeueReason::kGeneric);
  }

  void Process(Entry& entry) {
    Decision& decision = entry.decision;
    lack_.reset();
    if (IsOutOfOrder(decision.info)) return StartOutOfOrder(entry);
    if (Overlaps(entry) && snapshot_.options.recompute_on_overlap) {
      std::vector<Explanation::Rival> rivals = rivals_.ForTargets(entry);
      nominator_.Recompute(entry, victims_);
      StartScanOver(decision);
      if (entry.assignment.mode == Mode::kFit) {
        entry.assignment.mode = Mode::kDeferredFit;
        decision.explanation.rivals = std::move(rivals);
      }
    } else if (LostItsPlace(entry)) {
      const quota::CellAmounts wanted = entry.usage;
      nominator_.Recompute(entry, victims_);
      lack_.reset();
      StartScanOver(decision);
      if (!entry.Works()) {
        decision.requeue.places_matter = true;
        lacks_places_ = true;
        decision.explanation.rivals = rivals_.ForPlaces(wanted);
        return Wait(decision, Verdict::kNoLongerFits, RequeueReason::kFailedAfterNomination);
      }
    }
    switch (entry.assignment.mode) {
      case Mode::kNoFit:
        decision.explanation.problems.clear();  // nobody's credits keep it from starting
        return Wait(decision, Verdict::kNoFit, RequeueReason::kNoFit);
      case Mode::kPreempt:
        return Preempt(entry);
      case Mode::kDeferredFit:
        Expect(entry, entry.usage);
        StartScanOver(decision);
        decision.requeue.places_matter = entry.place.wanted();
        return Wait(decision, Verdict::kDeferredFit, RequeueReason::kPendingPreemption);
      case Mode::kFit:
        return Admit(entry);
    }
  }

  // There is quota for it, but others of the cycle took its places on nodes: it gets other ones.
  bool LostItsPlace(const Entry& entry) {
    return snapshot_.options.recompute_places && entry.Works() && LackOf(entry) == Lack::kPlaces;
  }

  static void StartScanOver(Decision& decision) {
    decision.requeue.scan_progress.reset();
    decision.requeue.untried_flavors = false;
  }

  // It was passed over because of others of the cycle. One for which room is being made looks for
  // it again where the scan stopped; others go on with the next flavor.
  void Skip(Entry& entry) const {
    if (entry.claims_room || !snapshot_.options.preserve_scan_progress) {
      StartScanOver(entry.decision);
    }
  }

  bool Overlaps(const Entry& entry) const {
    if (entry.replaced != nullptr && IsAmong({entry.replaced}, victims_)) return true;
    return std::any_of(entry.targets.begin(), entry.targets.end(), [&](const Target& target) {
      return IsAmong(target, victims_) || IsAmong(target, replaced_);
    });
  }

  void LoseTargets(Entry& entry) {
    Skip(entry);
    entry.decision.explanation.rivals = rivals_.ForTargets(entry);
    Wait(entry.decision, Verdict::kOverlappingTargets, RequeueReason::kFailedAfterNomination);
  }

  // What others of the cycle left nothing of.
  enum class Lack { kNothing, kQuota, kPlaces, kVictimsQuota };

  void LoseRoom(Entry& entry, Lack lack) {
    Skip(entry);
    if (lack == Lack::kPlaces) entry.decision.requeue.places_matter = lacks_places_ = true;
    // Where it would fit once victims of others are gone, all who wait for that are in its way.
    const auto fits = [&] {
      return lack == Lack::kQuota && nominator_.FitsWithout(entry, victims_);
    };
    entry.decision.explanation.rivals = lack == Lack::kPlaces
                                            ? rivals_.ForPlaces(entry.usage)
                                            : rivals_.ForQuota(*entry.queue, entry.usage, fits);
    Wait(entry.decision, Verdict::kNoLongerFits, RequeueReason::kFailedAfterNomination);
  }

  // Of the entry that is looked at; nothing is booked between two questions.
  Lack LackOf(const Entry& entry) {
    if (lack_.has_value()) return *lack_;
    if (!nominator_.FitsWithout(entry, victims_)) {
      lack_ = Lack::kQuota;
    } else {
      lack_ = nominator_.PlaceHoldsWithout(entry, victims_) ? Lack::kNothing : Lack::kPlaces;
    }
    return *lack_;
  }

  // Books what an entry is going to need, so that later entries of the cycle leave it alone.
  void Expect(Entry& entry, const quota::CellAmounts& amounts) {
    quota::Tree::AddUsage(*entry.queue, amounts);
    rivals_.Booked(entry.decision.info, *entry.queue, amounts, true);
    expected_.emplace_back(entry.queue, amounts);
    entry.decision.requeue.place = places_.Expect(entry.place);
  }

  void Preempt(Entry& entry) {
    Decision& decision = entry.decision;
    if (entry.targets.empty()) {
      decision.explanation.problems.clear();
      const auto policy = snapshot_.FindClusterQueue(entry.info().cluster_queue)->policies;
      if (policy.reclaim_within_cohort != preemption::Policy::kAny ||
          (entry.is_preemptor && snapshot_.options.prioritize_preemptors)) {
        Expect(entry, KeptFrom(entry));
        decision.kept_room = true;
      }
      return Wait(
          decision,
          decision.explanation.protected_until ? Verdict::kProtected : Verdict::kNoCandidates,
          RequeueReason::kPreemptionNoCandidates);
    }
    // Others may take what it waits for: nobody knows when the gate opens.
    if (entry.info().preemption_gated) {
      return Wait(decision, Verdict::kPreemptionGated, RequeueReason::kPreemptionGated);
    }
    if (Overlaps(entry)) return LoseTargets(entry);
    if (const Lack lack = LackOf(entry); lack != Lack::kNothing) return LoseRoom(entry, lack);
    victims_.insert(victims_.end(), entry.targets.begin(), entry.targets.end());
    rivals_.Preempts(decision.info, entry.targets);
    Expect(entry, entry.usage);
    for (const Target& target : entry.targets) {
      decision.victims.push_back({snapshot_.reserved.Share(target.workload->Key()), target.reason,
                                  target.workload->evicted});
      decision.explanation.preempting.push_back(target.workload->Key().ToString());
    }
    StartScanOver(decision);
    Wait(decision, Verdict::kPreempting, RequeueReason::kPendingPreemption);
    decision.kind = Decision::Kind::kPreempt;
  }

  void Admit(Entry& entry) {
    Decision& decision = entry.decision;
    if (entry.replaced != nullptr && IsAmong({entry.replaced}, victims_)) {
      return LoseTargets(entry);
    }
    Lack lack = LackOf(entry);
    if (lack == Lack::kNothing) lack = LackNow(entry);
    if (lack != Lack::kNothing) return LoseRoom(entry, lack);
    if (entry.migrates != nullptr) return Migrate(entry);
    if (snapshot_.options.block_admission && not_ready_ > 0) {
      return Wait(decision, Verdict::kOthersNotReady, RequeueReason::kFailedAfterNomination);
    }
    ++not_ready_;
    admitted_.Add(*entry.queue, entry.usage);
    rivals_.Booked(decision.info, *entry.queue, entry.usage, false);
    decision.kind = Decision::Kind::kAdmit;
    decision.explanation.verdict = Verdict::kFits;
    decision.admission = flavor::MakeAdmission(entry.info().cluster_queue, entry.assignment);
    places_.Admit(entry.info().Key(), entry.place);
    places_.Write(entry.place, decision.admission);
    decision.usage = std::move(entry.assignment.usage);
    if (entry.replaced == nullptr) return;
    decision.replaces = entry.replaced->workload;
    replaced_.push_back({entry.replaced});
    nominator_.MarkReplaced(entry.replaced);
  }

  // It fits, but first the variant that is admitted in a worse flavor must go. What that one holds
  // is not free for anybody before it has gone.
  void Migrate(Entry& entry) {
    Decision& decision = entry.decision;
    Expect(entry, entry.usage);
    decision.victims.push_back({snapshot_.reserved.Share(entry.migrates->Key()),
                                preemption::Reason::kFlavorMigration, entry.migrates->evicted});
    decision.explanation.preempting.push_back(entry.migrates->Key().ToString());
    StartScanOver(decision);
    Wait(decision, Verdict::kMigrating, RequeueReason::kPendingPreemption);
    decision.kind = Decision::Kind::kPreempt;
  }

  // With the victims of this cycle still running, as they are until they have ended: what others
  // only expect to get does not count. Without this an entry could be given the room of a victim.
  Lack LackNow(const Entry& entry) {
    if (expected_.empty()) return Lack::kNothing;
    if (!places_.HoldsNow(entry.place)) return Lack::kPlaces;
    for (const auto& [queue, amounts] : expected_) quota::Tree::RemoveUsage(*queue, amounts);
    const bool fits = quota::Tree::Fits(*entry.queue, entry.usage);
    for (const auto& [queue, amounts] : expected_) quota::Tree::AddUsage(*queue, amounts);
    return fits ? Lack::kNothing : Lack::kVictimsQuota;
  }

  Snapshot& snapshot_;
  quota::Overlay& admitted_;
  Places& places_;
  Nominator nominator_;
  Rivals rivals_;
  int64_t& not_ready_;
  std::optional<Lack> lack_;
  bool lacks_places_ = false;
  const OutOfOrder* out_of_order_ = nullptr;
  std::vector<Target> victims_;
  std::vector<Target> replaced_;  // workloads whose place another one took
  std::vector<std::pair<quota::Node*, quota::CellAmounts>> expected_;
};

// Repeats cycles; see Schedule.
class Scheduler {
 public:
  Scheduler(Snapshot& snapshot, queueing::QueueManager& queues, absl::Time now,
            Reservations* reservations, absl::Duration recheck)
      : snapshot_(snapshot),
        queues_(queues),
        now_(now),
        reservations_(reservations),
        pass_over_{[&snapshot](const queueing::WorkloadInfo& info) {
                     return StillRefused(snapshot, info);
                   },
                   recheck},
        not_ready_(snapshot.not_ready),
        places_(snapshot, now) {
    snapshot.history.SetNow(now);
  }

  std::vector<Decision> Run(size_t max_admissions) {
    while (admissions_ < max_admissions && !Answered()) {
      std::vector<WorkloadInfoPtr> heads =
          queues_.Heads(now_, pass_over_.recheck > absl::ZeroDuration() ? &pass_over_ : nullptr);
      if (!heads.empty()) {
        OneCycle(heads);
      } else if (!blocked_.empty()) {
        Backfill(*blocked_.begin(), max_admissions);
      } else {
        break;
      }
    }
    for (const std::string& name : blocked_) queues_.Retry(name);
    return Newest(all_, last_, issued_);
  }

  // The same for a question: until what happens to one workload is known.
  void Try(const ObjectKey& asked, const TrialOptions& options, Trial& trial) {
    asked_ = &asked;
    limits_ = options;
    for (Decision& decision : Run(SIZE_MAX)) {
      if (decision.info->Key() == asked) trial.decision = std::move(decision);
    }
    trial.judged = judged_;
    trial.complete = judged_ < limits_.most_judged ||
                     (trial.decision.has_value() && IsFinal(trial.decision->kind));
    PutBackReserved(before_, snapshot_.reserved);
  }

 private:
  // What was decided about the workload asked about stays so, whatever others get.
  bool IsFinal(Decision::Kind kind) const {
    return kind != Decision::Kind::kWait || queues_.PlaceOf(*asked_) == queueing::Place::kParked;
  }
  bool Answered() const {
    if (asked_ == nullptr || judged_ >= limits_.most_judged) return asked_ != nullptr;
    const auto last = last_.find(*asked_);
    return last != last_.end() && IsFinal(all_[last->second].kind);
  }

  void Remember(const ObjectKey& reserved) {
    if (asked_ != nullptr) before_.emplace_back(reserved, snapshot_.reserved.Share(reserved));
  }

  // Heads that wait in the trees of those that may get something now. Where nobody does, there is
  // nothing to defend, and nothing has changed for who waits.
  Defence Defend(const std::vector<Entry>& entries, const absl::btree_set<std::string>& except) {
    Scope scope(snapshot_, places_);
    for (const Entry& entry : entries) {
      if (entry.nominated && entry.Works()) scope.Include(entry.info().cluster_queue);
    }
    return DefenceOf(queues_, scope, contested_, except);
  }

  // One that others of the cycle outdid has its turn at once where something happened, or where
  // one who outdid it was put aside.
  queueing::Place PutBack(Decision& decision, const Scope& changed, const Scope& left,
                          bool defends) {
    const ObjectKey key = decision.info->Key();
    const std::string& cluster_queue = decision.info->cluster_queue;
    TellOfWholeScan(all_, last_, decision);
    TellOfCredits(snapshot_, behind_, decision);
    // Nothing happened: the same question has the same answer. Who defends had looked at all
    // flavors before; others, if there is no room, look at the rest of them first.
    const bool scans = decision.requeue.untried_flavors && !defends &&
                       (decision.requeue.reason == RequeueReason::kNoFit ||
                        decision.requeue.reason == RequeueReason::kPreemptionNoCandidates) &&
                       ++scans_[key] < kMostScans;
    const bool for_places = decision.requeue.places_matter;
    const auto concerned = [&](const Scope& scope) {
      return scope.ConcernsQuota(cluster_queue) ||
             (for_places && scope.ConcernsPlaces(cluster_queue));
    };
    const bool outdone = decision.requeue.reason == RequeueReason::kFailedAfterNomination;
    const bool contest = outdone && for_places && contested_;
    const bool same = !concerned(changed) && !concerned(left) && !scans && !contest;
    decision.requeue.hold = same || decision.requeue.reason == RequeueReason::kPendingPreemption;
    if (queues_.BackfillQueues().contains(cluster_queue)) blocked_.insert(cluster_queue);
    return queues_.Requeue(key, decision.requeue, now_);  // one behind a head was not popped
  }

  // Whether anything happened.
  bool OneCycle(const std::vector<WorkloadInfoPtr>& heads,
                const OutOfOrder* out_of_order = nullptr) {
    const absl::btree_set<std::string> none;
    const absl::btree_set<std::string>& except =
        out_of_order == nullptr ? none : out_of_order->pass.queues();
    absl::btree_set<ObjectKey> defending;
    bool keeps_places = false;
    const auto defenders = [&](const std::vector<Entry>& entries) {
      Defence defence = Defend(entries, except);
      keeps_places = !defence.places.empty();
      for (const WorkloadInfoPtr& info : defence.heads) defending.insert(info->Key());
      return defence;
    };
    Cycle cycle(snapshot_, admitted_, places_, &queues_, not_ready_, limits_.most_rivals);
    std::vector<Decision> decisions = cycle.Run(heads, defenders, out_of_order);
    contested_ = cycle.lacks_places() && keeps_places;
    judged_ += decisions.size();
    Scope changed(snapshot_, places_);  // where something happened
    for (const Decision& decision : decisions) {
      if (Record(decision)) changed.Include(decision.info->cluster_queue);
    }
    const Scope nobody(snapshot_, places_);
    Scope left(snapshot_, places_);  // where somebody kept room and takes no part in the next cycle
    std::vector<Decision*> outdone;
    for (Decision& decision : decisions) {
      const ObjectKey key = decision.info->Key();
      if (decision.kind == Decision::Kind::kAdmit) {
        queues_.Admit(key, decision.usage);
      } else if (decision.kind == Decision::Kind::kDrop) {
        queues_.Remove(key);
      } else if (decision.requeue.reason == RequeueReason::kFailedAfterNomination) {
        outdone.push_back(&decision);
      } else {
        const queueing::Place place = PutBack(decision, changed, nobody, defending.contains(key));
        if (decision.kept_room && place == queueing::Place::kParked) {
          left.Include(decision.info->cluster_queue);
        }
      }
    }
    for (Decision* decision : outdone) {
      PutBack(*decision, changed, left, defending.contains(decision->info->Key()));
    }
    for (Decision& decision : decisions) Keep(std::move(decision));
    // What others took on nodes helps nobody in another tree.
    Wake(changed, except);
    return !changed.empty();
  }

  void Keep(Decision decision) {
    last_[decision.info->Key()] = all_.size();
    all_.push_back(std::move(decision));
  }

  // Later workloads of the ClusterQueue, and of those that share quota or nodes with it, where the
  // heads wait.
  void Backfill(const std::string& cluster_queue, size_t max_admissions) {
    const std::string mine = cluster_queue;  // it goes from `blocked_`
    BackfillPass pass(snapshot_, queues_, places_, now_, mine);
    const auto done = [&] {
      blocked_.erase(mine);
      for (const std::string& name : pass.queues()) blocked_.erase(name);
    };
    while (admissions_ < max_admissions && !Answered()) {
      const auto candidate = pass.Next();
      if (!candidate) {
        done();
        for (Decision& decision : pass.TakeHeld()) Keep(std::move(decision));
        pass.Report(reservations_);
        return;
      }
      const std::vector<WorkloadInfoPtr> heads = {candidate->info};
      const size_t before = admissions_;
      const OutOfOrder out_of_order{pass, *candidate};
      const bool changed = OneCycle(heads, &out_of_order);
      const Decision& decision = all_[last_.at(candidate->info->Key())];
      const bool started = decision.kind == Decision::Kind::kAdmit;
      // Something else happened as well: the plan does not hold any more.
      if (changed && (!started || admissions_ != before + 1)) break;
      if (started) {
        pass.Started(*candidate, snapshot_.tree.IdsOf(decision.usage));
      } else {
        pass.Refused(*candidate);
      }
    }
    done();
    for (const std::string& name : pass.queues()) queues_.Retry(name);
  }

  // Keeps a decision for the cycles that follow. True when it changed something.
  bool Record(const Decision& decision) {
    if (decision.kind == Decision::Kind::kAdmit) {
      ++admissions_;
      if (decision.replaces != nullptr) {
        Remember(decision.replaces->metadata.Key());
        snapshot_.reserved.Remove(decision.replaces->metadata.Key());
      }
      Remember(decision.info->Key());
      snapshot_.reserved.Put(ReservedBy(decision, snapshot_.tree, now_));
      return true;
    }
    bool issued = false;
    for (const Decision::Victim& victim : decision.victims) {
      if (victim.ongoing) continue;
      issued_[decision.info->Key()].push_back(victim);
      Remember(victim.workload->Key());
      preemption::ReservedWorkload leaving = *victim.workload;
      leaving.evicted = true;
      snapshot_.reserved.Put(std::move(leaving));
      issued = true;
    }
    return issued;
  }

  // What waits in a tree where something happened may get another answer now.
  void Wake(const Scope& changed, const absl::btree_set<std::string>& except) {
    std::vector<std::string> names;
    for (const std::string& name : queues_.WaitingQueues()) {
      if (changed.ConcernsQuota(name) && !except.contains(name)) names.push_back(name);
    }
    for (const std::string& name : names) queues_.Retry(name);
  }

  Snapshot& snapshot_;
  queueing::QueueManager& queues_;
  const absl::Time now_;
  Reservations* reservations_;
  const queueing::PassOver pass_over_;
  int64_t not_ready_;
  quota::Overlay admitted_;
  Places places_;
  // Somebody needs places that heads of other trees keep: in the next cycle these take part.
  bool contested_ = false;
  absl::btree_set<std::string> blocked_;  // with backfill, and a head that waits
  size_t admissions_ = 0;
  std::vector<Decision> all_;
  // How often a scan of flavors went on though nothing had happened; no queue has more flavors.
  static constexpr int kMostScans = 64;
  absl::btree_map<ObjectKey, int> scans_;
  absl::btree_map<ObjectKey, std::string> behind_;  // the CreditPolicy by which others came first
  absl::btree_map<ObjectKey, size_t> last_;         // position of the workload's newest decision
  absl::btree_map<ObjectKey, std::vector<Decision::Victim>> issued_;  // by preemptor
  const ObjectKey* asked_ = nullptr;  // of a question; see admission/trial.h
  TrialOptions limits_;
  size_t judged_ = 0;
  ReservedBefore before_;
};

}  // namespace

std::vector<Decision> RunCycle(Snapshot& snapshot, const std::vector<WorkloadInfoPtr>& heads,
                               const queueing::QueueManager* queues, size_t most_rivals) {
  quota::Overlay overlay;
  int64_t not_ready = snapshot.not_ready;
  Places places(snapshot, snapshot.history.now());
  return Cycle(snapshot, overlay, places, queues, not_ready, most_rivals).Run(heads);
}

std::vector<Decision> Schedule(Snapshot& snapshot, queueing::QueueManager& queues, absl::Time now,
                               size_t max_admissions, Reservations* reservations,
                               absl::Duration recheck) {
  return Scheduler(snapshot, queues, now, reservations, recheck).Run(max_admissions);
}

Trial TryToStart(Snapshot& snapshot, queueing::QueueManager& queues, const ObjectKey& asked,
                 absl::Time now, const TrialOptions& options) {
  Trial trial;
  Scheduler(snapshot, queues, now, &trial.reservations, absl::ZeroDuration())
      .Try(asked, options, trial);
  return trial;
}

}  // namespace sluice::admission
