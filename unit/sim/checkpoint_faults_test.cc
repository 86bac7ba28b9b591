// Faults at every write of a request for a checkpoint: the workload is asked, answers, is evicted
// once, and nothing of the request is left; or it is withdrawn, and nobody is evicted.
#include <fmt/format.h>

#include "api/names.h"
#include "base/time.h"
#include "preemption/checkpoint.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

enum class Course { kAnswered, kTimedOut, kWithdrawn };

struct Outcome {
  int requests = 0;   // of v: how often CheckpointRequested became True
  int evictions = 0;  // of v
  std::string last;
  uint64_t writes = 0;
};

class Run {
 public:
  explicit Run(Course course, Simulation::FaultHook hook) : sim_({}), course_(course) {
    sim_.SetApiObserver([this](const state::ObjectEvent& event) { Take(event); });
    Make(sim_, "namespace ns");
    Make(sim_, "flavor default");
    Make(sim_, "priorityclass high value=9");
    Make(sim_, "clusterqueue cq flavor=default{cpu=1} within=LowerPriority");
    Make(sim_, "localqueue q cq=cq");
    sim_.SetFaultHook(std::move(hook));
    sim_.Start();
  }

  Outcome Play() {
    const absl::Time start = sim_.now();
    Make(sim_, "job v queue=q cpu=1 annotation:sluice.dev/checkpoint-on-request=true");
    // Late enough that a fault of the admission is over.
    sim_.RunUntil(start + absl::Seconds(100));
    Make(sim_, "job p queue=q cpu=1 priority=high run=30s");
    sim_.RunUntil(start + absl::Seconds(160));
    if (course_ == Course::kAnswered) Answer();
    if (course_ == Course::kWithdrawn) sim_.Delete(Kind::kJob, {"ns", "p"});
    sim_.RunUntil(start + absl::Minutes(12));
    REQUIRE(sim_.Settled());
    sim_.SetFaultHook(nullptr);
    sim_.CheckSettled();
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
    outcome_.writes = sim_.writes();
    for (const Json& workload : sim_.api().List(Kind::kWorkload)) {
      outcome_.last += workload.GetString("metadata", "name").substr(0, 5);
      for (const char* type : {api::kQuotaReserved, api::kAdmitted, api::kFinished,
                               preemption::kCheckpointRequested}) {
        outcome_.last += fmt::format(" {}={}", type, ConditionTrue(workload, type));
      }
    }
    for (const Json& job : sim_.api().List(Kind::kJob)) {
      outcome_.last +=
          " " + job.GetString("metadata", "annotations", preemption::kCheckpointRequestedAt);
    }
    return outcome_;
  }

 private:
  // The trainer writes what it is asked for, if it is.
  void Answer() {
    for (const Json& job : sim_.api().List(Kind::kJob)) {
      const std::string asked =
          job.GetString("metadata", "annotations", preemption::kCheckpointRequestedAt);
      if (asked.empty()) continue;
      Json patch = Json::MakeObject();
      patch["metadata"]["annotations"].Set(preemption::kLastCheckpoint,
                                           sluice::FormatTime(sim_.now()));
      sim_.Patch(Kind::kJob, {"ns", job.GetString("metadata", "name")}, std::move(patch));
    }
  }

  void Take(const state::ObjectEvent& event) {
    if (event.kind != Kind::kWorkload) return;
    const Json* owners = event.object.Find("metadata", "ownerReferences");
    if (owners == nullptr || owners->AsArray()[0].GetString("name") != "v") return;
    const auto turn = [&](const char* type, bool& was, int& count) {
      const bool is = ConditionTrue(event.object, type);
      if (is && !was) ++count;
      was = is;
    };
    turn(preemption::kCheckpointRequested, asked_, outcome_.requests);
    turn(api::kEvicted, evicted_, outcome_.evictions);
  }

  Simulation sim_;
  Course course_;
  bool asked_ = false;
  bool evicted_ = false;
  Outcome outcome_;
};

TEST_CASE("A fault at any one write of a request for a checkpoint changes nothing of its end") {
  const Course course = GENERATE(Course::kAnswered, Course::kTimedOut, Course::kWithdrawn);
  const Outcome clean = Run(course, nullptr).Play();
  INFO(clean.last);
  REQUIRE(clean.writes > 10);
  CHECK(clean.requests == 1);
  CHECK(clean.evictions == (course == Course::kWithdrawn ? 0 : 1));
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply,
                            Fault::kLoseRequest, Fault::kFail, Fault::kDuplicate}) {
    for (const int code : {409, 503}) {
      if (code == 409 && fault != Fault::kFail) continue;
      for (uint64_t at = 1; at <= clean.writes; ++at) {
        INFO("fault " << static_cast<int>(fault) << " at write " << at << ", course "
                      << static_cast<int>(course));
        const Outcome outcome =
            Run(course, [&](const state::Action&, uint64_t number) {
              return number == at ? FaultDecision{fault, code} : FaultDecision{};
            }).Play();
        CHECK(outcome.requests == 1);
        CHECK(outcome.evictions == clean.evictions);
        CHECK(outcome.last == clean.last);
      }
    }
  }
}

// What is ignored is told once, whatever happens to the controller.
TEST_CASE("An annotation that is ignored is told once, also by a controller that starts anew") {
  const auto play = [](const Simulation::FaultHook& hook, bool restarts) {
    Simulation sim({});
    Make(sim, "namespace ns");
    Make(sim, "flavor default");
    Make(sim, "clusterqueue cq flavor=default{cpu=1}");
    Make(sim, "localqueue q cq=cq");
    sim.SetFaultHook(hook);
    sim.Start();
    const absl::Time start = sim.now();
    Make(sim,
         "job v queue=q cpu=1 run=100s annotation:sluice.dev/last-checkpoint=2026-01-02T00:00:00Z");
    for (int second = 10; second < 200; second += 10) {
      sim.RunUntil(start + absl::Seconds(second));
      if (restarts) sim.Crash();
    }
    sim.RunUntil(start + absl::Minutes(12));
    int64_t told = 0;
    for (const Json& event : sim.api().List(Kind::kEvent)) {
      if (event.GetString("reason") != "InvalidCheckpoint") continue;
      const Json* count = event.Find("count");
      const Json* series = event.Find("series", "count");
      told +=
          std::max(count == nullptr ? 1 : count->AsInt(), series == nullptr ? 1 : series->AsInt());
    }
    for (const Json& workload : sim.api().List(Kind::kWorkload)) {
      CHECK(workload.GetString("metadata", "annotations", "sluice.dev/ignored-annotations")
                .find("in the future") != std::string::npos);
    }
    return std::pair(told, sim.writes());
  };
  const auto [once, writes] = play(nullptr, false);
  CHECK(once == 1);
  CHECK(play(nullptr, true).first == 1);
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply,
                            Fault::kLoseRequest, Fault::kFail, Fault::kDuplicate}) {
    for (uint64_t at = 1; at <= writes; ++at) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      const auto hook = [&](const state::Action&, uint64_t number) {
        return number == at ? FaultDecision{fault} : FaultDecision{};
      };
      CHECK(play(hook, false).first <= 1);
    }
  }
}

}  // namespace
}  // namespace sluice::sim
