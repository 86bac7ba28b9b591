// Operator: the body of the loop. Events go in, actions come out.
//
// Step takes one event into the World and notes what may need work. Run does the work that is due:
// it admits what fits, reconciles touched objects and sends the writes. It can be called at any
// time and does a bounded amount each time; NextDue says when to call it again without an event.
//
// Reads its own writes: an object with a write in flight is not decided about again until the reply
// is in; the reply's object is taken in like a watch event; an admission counts from the moment it
// is decided (assumed) until the API server has confirmed it, or until a newer object or a read
// shows that it will not come (operator_settle.cc). After a refusal that a newer object explains,
// the next try waits for that object. Every refused write is tried again with growing pauses.
// Nothing that matters is kept here only: a new Operator over the same objects ends in the same
// state.
//
// Single thread, no I/O, no clock. Only a leader writes; a follower keeps its World warm. One that
// has become the leader decides nothing before it has seen all that its predecessor wrote, as far
// as the LeaderChange says (state/fence.h): else it would give away anew what that had given.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admission/cycle.h"
#include "admission/second_pass.h"
#include "reconcile/event_recorder.h"
#include "reconcile/pace.h"
#include "reconcile/reconcilers.h"
#include "state/fence.h"
#include "state/world.h"

namespace sluice::reconcile {

// Is told what happens; for logs, metrics and tests. Does nothing by default.
class Observer {
 public:
  virtual ~Observer() = default;
  // Any single object came, changed or went; the World already shows it.
  virtual void OnChange(const state::Ref& /*ref*/) {}
  // A Workload came, changed or went (either may be null).
  virtual void OnWorkload(const api::Workload* /*before*/, const api::Workload* /*after*/,
                          absl::Time /*now*/) {}
  virtual void OnDecision(const admission::Decision& /*decision*/, absl::Time /*now*/) {}
  // An object could not be decoded; `count` counts all so far, `first` is true once per object and
  // error.
  virtual void OnRejected(const state::Rejection& /*rejection*/, bool /*first*/,
                          uint64_t /*count*/) {}
  virtual void OnGateRemoved(const GateRemoval& /*removal*/, absl::Time /*now*/) {}
  // A write, or a read of one object, was answered with an error.
  virtual void OnRefused(const state::Action& /*action*/, const state::Reply& /*reply*/) {}
};

struct OperatorOptions {
  EventRecorderOptions events;
  // The status of a queue is written at most once in this time. Where only counts changed, all
  // queues together are written at this pace while counts change all the time, and otherwise as
  // fast as the API server answers, so many at a time.
  absl::Duration queue_status_interval = absl::Seconds(1);
  int queue_status_burst = 100;
  int queue_status_per_second = 10;
  size_t max_counts_in_flight = 16;
  // How long a queue whose count changed keeps the pace slow; at most a second for all of them.
  absl::Duration counting_time = absl::Milliseconds(10);
  // While counts change all the time a victim of preemption has this time to end by itself. It is
  // not told when it has ended or its preemptor has found room elsewhere until then.
  absl::Duration eviction_grace = absl::Seconds(3);
  // And who was refused and still lacks quota is judged again no more often than this. Else each
  // workload that ends would ask all that wait in its tree of cohorts.
  absl::Duration recheck = absl::Seconds(1);
  // Writes that only say why a Workload waits: so many at once and a second, while it is calm and
  // while it is not.
  int waiting_burst = 100;
  int waiting_per_second = 100;
  int busy_waiting_per_second = 1;
  // Calm is when no admission was written for so long.
  absl::Duration calm_after = absl::Seconds(5);
  // A new text for the same reason follows the last one after this time at the earliest.
  absl::Duration waiting_text_interval = absl::Seconds(5);
  // Kubernetes events: so many at once and a second. On a busy API server more would take the time
  // that admissions need. While it is calm they go out whenever no other write is on its way.
  int event_burst = 50;
  int events_per_second = 10;
  // Above the first number, what only tells of a successful admission is left out; above the second
  // everything is.
  size_t max_routine_events = 2000;
  size_t max_waiting_events = 20000;
  // Changes of pods of a placed workload within this time are looked at together.
  absl::Duration placement_batch = absl::Milliseconds(100);
  size_t max_in_flight = 2000;   // no new writes above this
  size_t max_reconciles = 1000;  // per Run
  size_t max_admissions = 1000;  // per Run
  // What only tidies up is written while fewer writes than these are on their way, or after so
  // long.
  size_t tidying_in_flight = 25;
  absl::Duration tidying_delay = absl::Minutes(1);
  absl::Duration first_backoff = absl::Milliseconds(100);
  absl::Duration max_backoff = absl::Seconds(60);
};

class Operator {
 public:
  // The sink and the observer (may be null) must outlive the operator.
  Operator(const state::Settings& settings, OperatorOptions options, state::ActionSink& sink,
           Observer* observer);

  void Step(const state::Event& event, absl::Time now);
  void Run(absl::Time now);
  // When Run has something to do if no event comes; InfiniteFuture when nothing.
  absl::Time NextDue(absl::Time now) const;

  const state::World& world() const { return world_; }
  // For questions between two calls of Run that try things out: they leave it as it was.
  state::World& asked_world() { return world_; }
  bool leading() const { return leading_; }
  // It has become the leader, and has not seen yet all that its predecessor wrote.
  bool catching_up() const { return awaited_.has_value(); }
  // Nothing to do now and nothing on its way.
  bool Idle() const;
  size_t in_flight() const { return in_flight_.size(); }
  // Entries that are kept about single objects beyond what the World holds.
  size_t remembered() const {
    return failures_.size() + rejection_texts_.size() + queue_status_at_.size() + said_at_.size() +
           grace_until_.size() + refused_evictions_.size() + settling_.size() + unblocks_.size();
  }
  uint64_t rejected() const { return rejected_; }

 private:
  struct WaitingText {
    std::string reason;
    std::string message;
    std::vector<queueing::PodSetRequests> requests;  // empty: not known here
    bool gated = false;                              // a closed preemption gate holds it back
    // What the event says besides, and the condition does not: it may change with every cycle.
    std::string detail{};
    absl::Time due = absl::InfinitePast();
  };
  // A reservation that counts, and is not sent before another write to the Workload is answered.
  struct Reserving {
    std::shared_ptr<const api::Workload> workload;  // as it will be
    std::shared_ptr<const api::Workload> from;      // as it was when that was decided
    std::vector<Note> notes;
    api::StringMap annotations;  // that are written first
  };
  struct InFlight {
    state::Action action;     // without body
    state::Ref target;        // the object written
    state::Ref owner;         // the object that was reconciled
    std::vector<Note> notes;  // recorded on success
    std::vector<GateRemoval> gates;
    bool admission = false;  // the target is assumed until this is answered
    // The admission itself, where this write goes before it.
    std::shared_ptr<Reserving> then_reserve;
    // What the write says about why it waits, to be said again where it is refused.
    std::shared_ptr<const WaitingText> waiting;
    bool eviction = false;  // the target counts as on its way out until this is answered
    std::vector<ObjectKey> preemptors{};  // that an eviction makes room for
    std::string deleted_version;          // of the target's deletion, if that was seen meanwhile
    std::string base_version;  // of the target that the write was planned for, if it says so
  };
  // An admission whose write was refused or got no answer, and that still counts.
  struct Unsettled {
    std::string base_version;  // a newer object tells what became of it
    absl::Time read_at;        // when the API server is asked for the object
    absl::Time asked_at;       // the last time
    absl::Duration pause;
    absl::Time certain_from;  // an object that is the same after this shows that nothing will come
  };
  // Why a victim has to go: one of those who decided to preempt it.
  struct Claim {
    std::string reason;  // of the Preempted condition
    std::string message;
    Note preemptor;          // what is said on the workload that needs the room
    bool migration = false;  // to another flavor, which is no preemption
    absl::Time due = absl::InfinitePast();
  };
  // Several may wait for the room of the same victim. It is spared when none of them needs it any
  // more; the first one that is due is the one that is told.
  struct Eviction {
    std::vector<Claim> claims;
    const Claim* DueAt(absl::Time now) const;
  };
  // An eviction that was not written and is tried again, and what those who wait for its room are
  // told once it is: "" as long as they have not been told that it was refused.
  struct RefusedEviction {
    std::string why;
    absl::btree_map<ObjectKey, WaitingText> waiting;
  };
  // Thousands of these may wait, so the body is text until it is sent.
  struct WaitingEvent {
    state::Action action;
    std::string body;
  };

  void OnObject(const state::ObjectEvent& event, absl::Time now);
  void Touch(const state::Refs& touched, bool by_pod, absl::Time now);
  void OnReply(const state::Reply& reply, absl::Time now);
  void OnWritten(const InFlight& write, const state::Reply& reply, absl::Time now);
  void OnRefused(const InFlight& write, const state::Reply& reply, absl::Time now);
  void OnRead(const InFlight& read, const state::Reply& reply, absl::Time now);
  // Holds an admission until it is known what became of it; the first read follows after `pause`.
  void Unsettle(const InFlight& write, int code, absl::Duration pause, absl::Time now);
  // Ends that where what is known of the Workload tells.
  void FollowSettling(const ObjectKey& key, absl::Time now, state::Refs& touched);
  void ReadUnsettled(const state::Ref& ref, absl::Time now);
  // What is kept about objects of the kind that a list has shown to be gone.
  void ForgetGone(api::Kind kind, const state::Refs& touched, absl::Time now);
  void OnLeader(const state::LeaderChange& change, absl::Time now);
  void Lead(absl::Time now);
  void StopLeading(absl::Time now);
  void TouchAll();

  void Admit(absl::Time now);
  void Reserve(const admission::Decision& decision, absl::Time now);
  void NoteReservations(const admission::Reservations& found);
  void FollowReservation(const ObjectKey& key);
  void SayReservations(absl::Time now);
  // Sends a reservation that is assumed, unless the Workload is another one by now.
  void SendReservation(Reserving reserving, absl::Time now);
  // The one that waited for the answer to a write to this object, or on its behalf.
  void SendReserving(const state::Ref& ref, absl::Time now);
  void Preempt(const admission::Decision& decision, absl::Time now);
  Claim ClaimOf(const admission::Decision& decision, const admission::Decision::Victim& victim,
                absl::Time now);
  void SpareVictims(const admission::Decision& decision);
  absl::Time GraceOf(const ObjectKey& preemptor, absl::Time now);
  bool IsNeeded(const ObjectKey& victim, const Claim& claim) const;
  void SendEvictions(absl::Time now);
  bool SendEviction(const ObjectKey& key, const Claim& claim, absl::Time now);
  void NoteRefusedEviction(const InFlight& write, const state::Reply& reply);
  // Those who wait for the victim are told that nothing is wrong any more.
  void EndRefusedEviction(const ObjectKey& victim, absl::Time now);
  // The workload does not wait for any others any more.
  void KeepRefusedEvictions(const ObjectKey& preemptor,
                            const std::vector<admission::Decision::Victim>& victims);
  WaitingText WaitingTextOf(const admission::Decision& decision);
  void SayWhyWaiting(absl::Time now);
  void SetWaiting(const ObjectKey& key, WaitingText text, absl::Time now);
  void ForgetWaiting(const ObjectKey& key);
  void ForgetWorkload(const ObjectKey& key);
  // When to try again; InfinitePast when there is nothing (more) to say about the Workload.
  absl::Time SayWhyWaiting(const ObjectKey& key, const WaitingText& text, absl::Time now);
  absl::Time QueueStatusDue(const state::Ref& queue) const;
  void CountLater(const state::Ref& queue, absl::Time now);
  void TakeCounts(absl::Time now);
  absl::Time CountsDue(absl::Time now) const;
  bool TidyLater(const state::Ref& ref, const Plan& plan, absl::Time now);
  void TidyUp(absl::Time now);
  void ReconcileDirty(absl::Time now);
  Plan PlanFor(const state::Ref& ref, absl::Time now) const;
  bool DeferQueueStatus(const state::Ref& ref, absl::Time now);
  void Execute(const state::Ref& owner, Plan plan, absl::Time now);
  enum class Purpose { kOther, kAdmission, kEviction };
  void Send(state::Action action, const state::Ref& owner, std::vector<Note> notes,
            Purpose purpose = Purpose::kOther, std::vector<GateRemoval> gates = {});
  void Record(const Note& note, absl::Time now);
  void SendEvents(absl::Time now);
  void SendOldestEvent();
  absl::Time EventsDue(absl::Time now) const;
  bool Calm(absl::Time now) const { return now >= admitted_at_ + options_.calm_after; }
  // So much comes, starts and ends that what is decided now will be different in a moment.
  bool Turbulent(absl::Time now) const { return counting_until_ > now + absl::Milliseconds(500); }
  int WaitingRate(absl::Time now) const {
    return Calm(now) ? options_.waiting_per_second : options_.busy_waiting_per_second;
  }

  // A workload that holds quota and needs places; see admission/second_pass.h.
  struct SecondPassEntry {
    std::string uid;
    int attempt = 1;
    absl::Time due;
    absl::btree_set<ObjectKey> victims;  // that have to go first
  };
  void FollowPlaces(const ObjectKey& key, absl::Time now);
  void ScheduleSecondPass(const ObjectKey& key, SecondPassEntry entry, absl::Time now);
  void DropSecondPass(const ObjectKey& key);
  void RunSecondPasses(absl::Time now);
  void TakeSecondPass(const api::Workload& workload, SecondPassEntry entry, absl::Time now);
  void PreemptForRepair(const api::Workload& workload, const admission::SecondPass& pass,
                        SecondPassEntry& entry, absl::Time now);
  void NoteVictimGone(const ObjectKey& victim, absl::Time now);

  bool Busy(const state::Ref& ref) const { return busy_.contains(ref); }
  // The clock may have been set back since the last run.
  void FollowClock(absl::Time now);
  void StepBack(absl::Duration by);
  void WakeAt(const state::Ref& ref, absl::Time time);
  void DropTimer(const state::Ref& ref);
  void FireTimers(absl::Time now);
  // Keeps `owner` from being reconciled until `target` changes, at most for `limit`.
  void BlockUntilNewer(const state::Ref& owner, const state::Ref& target, absl::Time now,
                       absl::Duration limit);
  // Keeps it from that until then.
  void Block(const state::Ref& owner, absl::Time until);
  absl::Duration NextBackoff(const state::Ref& ref);

  OperatorOptions options_;
  state::ActionSink& sink_;
  Observer* observer_;
  state::World world_;
  EventRecorder recorder_;
  bool leading_ = false;
  state::Fence fence_;
  std::optional<state::Versions> awaited_;  // leads once events have shown as much

  state::Refs dirty_;
  state::Refs held_;  // dirty, but a write is on its way
  absl::btree_map<state::Ref, absl::Time> timers_;
  absl::btree_set<std::pair<absl::Time, state::Ref>> due_;
  absl::btree_map<state::Ref, absl::Time> blocked_;    // not before that instant
  absl::btree_map<state::Ref, state::Refs> unblocks_;  // target -> owners that wait for it
  absl::btree_map<state::Ref, int> failures_;          // in a row

  uint64_t next_id_ = 1;
  absl::btree_map<uint64_t, InFlight> in_flight_;
  size_t essential_in_flight_ = 0;  // all but events
  absl::btree_map<state::Ref, int> busy_;
  absl::btree_map<ObjectKey, Unsettled> settling_;

  absl::btree_map<ObjectKey, SecondPassEntry> second_passes_;
  absl::btree_set<std::pair<absl::Time, ObjectKey>> second_passes_due_;

  std::deque<WaitingEvent> events_;  // oldest first
  Pace event_pace_;
  absl::btree_map<ObjectKey, Eviction> evictions_;                 // not written yet
  absl::btree_map<ObjectKey, absl::Time> grace_until_;             // by preemptor
  absl::btree_map<ObjectKey, RefusedEviction> refused_evictions_;  // by victim
  absl::btree_map<ObjectKey, WaitingText> waiting_;
  absl::btree_set<std::pair<absl::Time, ObjectKey>> waiting_due_;
  absl::btree_map<ObjectKey, absl::Time> said_at_;
  // ClusterQueues with Workloads whose condition Reserved is not False. One that went, or went
  // elsewhere, stays until its queue is looked at.
  absl::btree_set<std::pair<std::string, ObjectKey>> reserved_;
  // What that condition is to say; none: that there is no reservation any more.
  absl::btree_map<ObjectKey, std::optional<admission::Reservation>> reservations_;
  Pace waiting_pace_;
  absl::Time admitted_at_ = absl::InfinitePast();  // the last one
  absl::btree_map<state::Ref, absl::Time> queue_status_at_;
  // Queues of which only counts changed, and when their status is due.
  absl::btree_map<state::Ref, absl::Time> counts_;
  absl::btree_set<std::pair<absl::Time, state::Ref>> counts_due_;
  // Objects for which there is something to tidy up, and when that is written at the latest.
  absl::btree_map<state::Ref, absl::Time> tidying_;
  absl::btree_set<std::pair<absl::Time, state::Ref>> tidying_due_;
  Pace queue_pace_;
  state::Refs paced_;  // taken from counts_ for one unit of the pace, not reconciled yet
  absl::Time counting_until_ = absl::InfinitePast();  // counts change all the time until then
  size_t counts_in_flight_ = 0;                       // writes of queues' status

  uint64_t rejected_ = 0;
  absl::btree_map<state::Ref, std::string> rejection_texts_;

  absl::btree_map<ObjectKey, Reserving> reserving_;
  absl::Time last_run_ = absl::InfinitePast();
};

}  // namespace sluice::reconcile
