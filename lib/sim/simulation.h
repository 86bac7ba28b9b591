// Simulation: the controller, an API server and a Job controller in virtual time.
//
// Everything that takes time in reality takes its latency here: a write travels to the server, its
// reply travels back, watch events follow, controllers wake up. One Step is one such arrival, or
// one piece of work that is due. Several replicas of the controller can stand by; one leads.
// Faults: a hook decides for each write what happens to it, up to a crash of the controller in
// front of or behind the write; a crashed replica is built anew from the API objects alone.
//
// After every step the invariants of sim/invariants.h are checked; what is broken is collected in
// violations(). Deterministic for the same options and calls. Single thread.
//
//   Simulation sim({});
//   sim.Create(api::Kind::kJob, "ns", job);
//   sim.RunUntilQuiet(sim.now() + absl::Minutes(5));
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "reconcile/operator.h"
#include "sim/api_server.h"
#include "sim/invariants.h"
#include "sim/job_controller.h"
#include "sim/pod_runner.h"
#include "sim/quota_invariants.h"
#include "sim/scheduler.h"
#include "state/settings.h"

namespace sluice::sim {

enum class Fault {
  kNone,
  kLoseRequest,  // never arrives; the controller gets a reply of code 0 after the timeout
  kLoseReply,    // is carried out; the controller gets a reply of code 0 after the timeout
  kFail,         // refused with `code`
  kDelay,        // arrives later by `delay`
  kDuplicate,    // is carried out twice; the reply is that of the second time
  kCrashBefore,  // the controller dies before the write leaves
  kCrashAfter,   // the write is carried out, the controller dies before the reply
  kFailAfter,    // the write is carried out; the controller gets a reply of `code`
};
struct FaultDecision {
  Fault fault = Fault::kNone;
  int code = 503;
  absl::Duration delay = absl::Seconds(1);
  absl::Duration retry_after = absl::ZeroDuration();  // that kFail carries
};

struct SimulationOptions {
  state::Settings settings;
  reconcile::OperatorOptions controller;
  JobControllerOptions jobs;
  ApiServerOptions api;
  absl::Time start = absl::FromUnixSeconds(1767225600);  // 2026-01-01T00:00:00Z
  absl::Duration request_latency = absl::Milliseconds(2);
  absl::Duration reply_latency = absl::Milliseconds(2);
  absl::Duration watch_latency = absl::Milliseconds(4);
  absl::Duration controller_latency = absl::Milliseconds(3);  // Job controller, garbage collector
  absl::Duration reply_timeout = absl::Seconds(10);
  size_t replicas = 1;
  bool check = true;
};

class Simulation {
 public:
  explicit Simulation(SimulationOptions options);
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  absl::Time now() const { return now_; }
  ApiServer& api() { return api_; }
  const ApiServer& api() const { return api_; }
  const JobController& job_controller() const { return jobs_; }
  const state::Settings& settings() const { return options_.settings; }
  const reconcile::Operator& controller(size_t replica = 0) const;

  // Starts the replicas; the first one leads. Before that the API has no controller.
  void Start();
  // The API server is started anew with other features; the replicas find out.
  void SetFeatures(const state::ClusterFeatures& features);
  // Another replica takes over, and decides once its watch has brought all that the former leader
  // wrote; -1: nobody leads.
  void SetLeader(int replica);
  int leader() const { return leader_; }
  // The replica dies and comes back with nothing but the API objects.
  void Crash(size_t replica = 0);
  // Starts a list of all kinds on the running replica, as after a lost watch.
  void Relist(size_t replica = 0);

  // Requests of users and other controllers, carried out at once.
  state::Reply Create(api::Kind kind, const std::string& ns, api::Json object);
  state::Reply Patch(api::Kind kind, const ObjectKey& key, api::Json patch,
                     const std::string& subresource = "");
  state::Reply Delete(api::Kind kind, const ObjectKey& key,
                      const std::string& propagation = "Background");
  // A request of the controller that a fault has held back.
  state::Reply Carry(const state::Action& action) { return api_.Execute(action, now_); }

  // Does the next thing; false when nothing is left to do.
  bool Step();
  void RunUntil(absl::Time time);
  // Until nothing more happens by itself before `limit`.
  void RunUntilQuiet(absl::Time limit);
  // When the next thing happens.
  absl::Time NextTime() const;
  // No write or event is on its way and nobody has work now.
  bool Settled() const;
  // A controller built anew from the objects must have nothing to write. Only when Settled().
  void CheckSettled();

  // From now on the replicas' watches of that kind bring what happens so much later, in order.
  void SetWatchDelay(api::Kind kind, absl::Duration delay);

  // Decides about the n-th request (from 1, events not counted) of all replicas.
  using FaultHook = std::function<FaultDecision(const state::Action& action, uint64_t number)>;
  void SetFaultHook(FaultHook hook) { fault_hook_ = std::move(hook); }
  // Is told every change in the API server, at the instant it happens.
  void SetApiObserver(ApiServer::Listener observer) { api_observer_ = std::move(observer); }
  // Writes and reads submitted by the controller so far, events not counted.
  uint64_t writes() const { return writes_; }

  const std::vector<std::string>& violations() const { return violations_; }
  // One line for each write of the controller with its reply; events not.
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  struct Replica;
  struct Arrival {  // at the API server, or at a replica
    size_t replica = 0;
    uint64_t incarnation = 0;
    std::variant<state::Event, state::Action> what;
    bool duplicate = false;
    std::optional<int> answer;  // instead of what the API server says; 0: none
    bool crash = false;
  };

  void Schedule(absl::Time time, Arrival arrival);
  void Submit(size_t replica, state::Action action);
  void Dispatch(size_t replica, state::Action action, const FaultDecision& decision);
  void ArriveAtServer(Arrival& arrival);
  void Answer(const Arrival& arrival, state::Reply reply, absl::Duration after);
  void OnApiEvent(const state::ObjectEvent& event);
  void Boot(size_t replica);
  void ListInto(Replica& replica);
  void RunReplica(Replica& replica);
  void LandWrites(const Replica& replica);
  state::LeaderChange ElectionOf() const;
  void ProveCurrent(Replica& replica);
  void RestartCrashed();
  bool ReplicaBusy(size_t replica) const;
  bool Watched(api::Kind kind) const;
  void CheckStep();
  bool OnlyRewords(const state::Action& action) const;
  void Violation(std::string text);

  SimulationOptions options_;
  absl::Time now_;
  ApiServer api_;
  JobController jobs_;
  PodRunner pods_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  int leader_ = -1;
  absl::btree_map<std::pair<absl::Time, uint64_t>, Arrival> arrivals_;
  uint64_t sequence_ = 0;
  absl::Time jobs_due_ = absl::InfiniteFuture();
  Scheduler scheduler_;
  absl::Time scheduler_due_ = absl::InfiniteFuture();
  GangWatch gang_watch_;
  absl::Time garbage_due_ = absl::InfiniteFuture();
  FaultHook fault_hook_;
  ApiServer::Listener api_observer_;
  uint64_t writes_ = 0;
  uint64_t checked_version_ = 0;
  uint64_t rebuilt_version_ = 0;
  bool world_changed_ = false;
  QuotaWatch quota_watch_;
  TreeWatch tree_watch_;
  uint64_t steps_at_now_ = 0;
  std::vector<std::string> violations_;
  std::vector<std::string> trace_;
};

}  // namespace sluice::sim
