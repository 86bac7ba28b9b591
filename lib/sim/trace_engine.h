// TraceEngine: plays a trace against the deciding code of the controller, in virtual time.
//
// Queues, quota, cycle and bookkeeping are the controller's (state::World, admission::Schedule).
// What is left out is the API server: a workload is admitted at the instant of the decision, its
// pods run at once, and nothing is written. So a million workloads need seconds, not hours.
//
// Everything that happens at one instant is taken in first (workloads that end, preempted ones
// whose pods are gone, arrivals), then decisions are made until none is left. A preempted workload
// keeps its quota for `stop_time`, then waits in its queue again; `checkpoint` says how much of its
// work survives, unless its annotations do (preemption/checkpoint.h): then the work of whole
// intervals survives, and the next start takes the restart cost longer. One that writes a
// checkpoint on request is asked first and runs on for `checkpoint_time` or to the end of the
// grace, after which it loses as much as without a request; it stays when its preemptor found room
// elsewhere meanwhile. Credit policies of the cluster count from the start of the trace on.
//
// Workloads that were there before (Trace::live) are not decided about anew: those that hold quota
// keep their admission and its times, so that deadlines, protections and the order of victims are
// what they are in that cluster; those on their way out give it back after `stop_time`.
//
// Contract: deterministic; single thread. Cost: O(log n) per event plus that of the decisions;
// memory: what runs or waits, and some 100 bytes for every workload of the trace.
//
//   TraceEngine engine(*cluster, trace, {});
//   engine.AddListener(&stats);
//   RETURN_IF_ERROR(engine.Run());
#pragma once

#include <absl/status/status.h>

#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "admission/cycle.h"
#include "queueing/workload_info.h"
#include "sim/trace.h"
#include "sim/trace_cluster.h"

namespace sluice::sim {

struct TraceOptions {
  // How long the pods of a preempted workload still hold its quota.
  Micros stop_time = 0;
  // How often a running workload saves its work. Preempted, it goes on from there; nullopt: it
  // starts over; 0: it loses nothing.
  std::optional<Micros> checkpoint;
  // How long a workload takes to write a checkpoint when it is asked for one.
  Micros checkpoint_time = 30 * kSecond;
  // Nothing that happens later is played.
  Micros until = kMaxMicros;
};

struct TraceEvent {
  enum class Kind {
    kSubmit,    // it waits in its queue
    kAdmit,     // it has quota and runs
    kAsk,       // it is to write a checkpoint before it is preempted
    kWithdraw,  // it need not: nobody needs its quota any more
    kPreempt,   // its pods are being stopped
    kRequeue,   // its quota is free and it waits again
    kFinish,    // its quota is free for good
  };
  Kind kind = Kind::kSubmit;
  Micros time = 0;
  uint32_t job = 0;  // index in Trace::jobs
  // What it holds: begins with kAdmit, ends with kRequeue and kFinish. nullptr for others.
  const FlavorResourceAmounts* usage = nullptr;
  // kAsk, kPreempt: for which workload and why.
  std::string detail{};
};

class TraceListener {
 public:
  virtual ~TraceListener() = default;
  virtual void OnTraceEvent(const TraceEvent& event) = 0;
};

// What became of a workload.
struct JobOutcome {
  enum class State { kNotSubmitted, kWaiting, kRunning, kStopping, kFinished };
  State state = State::kNotSubmitted;
  Micros first_start = -1;
  Micros last_start = -1;
  Micros finish = -1;
  Micros saved = 0;  // work that survived preemptions
  Micros lost = 0;   // time that it ran in vain
  uint32_t preemptions = 0;
};

class TraceEngine {
 public:
  // All must outlive the engine. The cluster's World must hold no workloads.
  TraceEngine(TraceCluster& cluster, const Trace& trace, const TraceOptions& options);
  ~TraceEngine();
  TraceEngine(const TraceEngine&) = delete;
  TraceEngine& operator=(const TraceEngine&) = delete;

  void AddListener(TraceListener* listener) { listeners_.push_back(listener); }
  // Plays until nothing is left that happens by itself. Fails when decisions go round in circles.
  absl::Status Run();

  // The instant of the last event.
  Micros now() const { return now_; }
  // By index in Trace::jobs.
  const std::vector<JobOutcome>& outcomes() const { return outcomes_; }
  // Why the last workload of that shape had to wait, "" when none had to.
  const std::string& WaitingReason(uint32_t shape) const { return waiting_reasons_[shape]; }
  // The requests of a workload of that shape, all pods.
  const Requests& RequestsOf(uint32_t shape) const { return requests_[shape]; }
  const std::string& ClusterQueueOf(uint32_t shape) const;

 private:
  struct Timer {
    enum class Kind : uint8_t { kFinish, kAsked, kStopped, kWake };
    Micros time = 0;
    Kind kind = Kind::kWake;
    uint32_t job = 0;
    uint32_t start = 0;  // counts its starts, so that a finish of an earlier one is known
    bool operator>(const Timer& other) const;
  };
  // Why a workload is preempted, and for whom.
  struct Eviction {
    ObjectKey preemptor;
    std::string preemptor_uid;
    std::string reason;
    std::string message;
    std::string Detail() const;
  };
  struct Running {
    std::shared_ptr<const api::Workload> workload;
    const FlavorResourceAmounts* usage = nullptr;  // in usages_
    Micros useful_from = 0;                        // until then it only gets going again
    Micros begin = 0;                              // of this run; below 0: it was there before
    std::optional<Eviction> asked{};               // for a checkpoint
  };

  void MakePrototypes();
  const LiveWorkload* LiveOf(uint32_t job) const;
  std::string UidOf(uint32_t job) const;
  uint32_t JobOf(const api::Workload& workload) const;
  std::shared_ptr<api::Workload> NewWorkload(uint32_t job) const;
  void GoOnAll();
  void GoOn(uint32_t job);
  void Start(api::Workload& workload) const;
  void NotePreemptor(const api::Workload& workload);
  std::optional<Eviction> AskedBefore(const api::Workload& workload) const;
  std::optional<Micros> NextTime() const;
  void TakeIn();
  absl::Status Decide();
  absl::Status Circles() const;
  void Handle(const admission::Decision& decision);
  void Submit(uint32_t job);
  void Admit(uint32_t job, const admission::Decision& decision);
  void Preempt(const admission::Decision& decision, const admission::Decision::Victim& victim);
  void Ask(uint32_t job, Eviction eviction);
  bool AsksFirst(const api::Workload& workload, preemption::Reason reason) const;
  void Asked(uint32_t job);
  void Evict(uint32_t job, const Eviction& eviction, bool answered);
  Micros Kept(uint32_t job, const Running& running, Micros work, bool answered) const;
  void Stopped(uint32_t job);
  void Finish(uint32_t job);
  void ScheduleWake();
  void PrepareCredits();
  void Emit(TraceEvent::Kind kind, uint32_t job, const FlavorResourceAmounts* usage,
            std::string detail = {});
  const FlavorResourceAmounts* Intern(uint32_t shape, FlavorResourceAmounts usage);
  ObjectKey KeyOf(uint32_t job) const;
  absl::Time At(Micros micros) const { return trace_.start + absl::Microseconds(micros); }

  TraceCluster& cluster_;
  state::World& world_;
  const Trace& trace_;
  TraceOptions options_;
  std::vector<TraceListener*> listeners_;

  Micros now_ = 0;
  size_t next_arrival_ = 0;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  Micros wake_at_ = -1;  // the earliest kWake in timers_
  std::vector<JobOutcome> outcomes_;
  std::vector<uint32_t> starts_;
  absl::btree_map<uint32_t, Running> running_;  // those that hold quota
  absl::btree_map<std::string, uint32_t> live_uids_;

  // By shape.
  std::vector<queueing::WorkloadInfoPtr> prototypes_;
  std::vector<Requests> requests_;
  std::vector<std::string> waiting_reasons_;
  std::vector<std::vector<std::unique_ptr<FlavorResourceAmounts>>> usages_;
};

}  // namespace sluice::sim
