// Faults at every write of a preemption: the victim is evicted once, its quota is given once, and
// the end is the same as without the fault.
#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include "api/names.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

// How often a condition of a Workload became True, by "JOB CONDITION".
using Turns = absl::btree_map<std::string, int>;

struct Outcome {
  Turns turns;
  std::string last;
  uint64_t writes = 0;
};

class Run {
 public:
  Run(bool reclaim, Simulation::FaultHook hook) : sim_({}), reclaim_(reclaim) {
    sim_.SetApiObserver([this](const state::ObjectEvent& event) { Take(event); });
    Make(sim_, "namespace ns");
    Make(sim_, "flavor default");
    Make(sim_, "priorityclass high value=9");
    if (reclaim) {
      Make(sim_, "clusterqueue cv cohort=pool flavor=default{cpu=1}");
      Make(sim_, "clusterqueue cp cohort=pool flavor=default{cpu=2} reclaim=Any");
    } else {
      Make(sim_, "clusterqueue cv flavor=default{cpu=3} within=LowerPriority");
    }
    Make(sim_, "localqueue v cq=cv");
    Make(sim_, std::string("localqueue p cq=") + (reclaim ? "cp" : "cv"));
    sim_.SetFaultHook(std::move(hook));
    sim_.Start();
  }

  // Two victims that end at different times, a preemptor that ends, and the victims again.
  Outcome Play() {
    const absl::Time start = sim_.now();
    const std::vector<std::pair<int, std::string>> jobs = {
        {0, "job v1 queue=v cpu=1 stopping=4s"},
        {1, "job v2 queue=v cpu=2 stopping=8s"},
        {5, "job p queue=p cpu=2 run=30s" + std::string(reclaim_ ? "" : " priority=high")},
    };
    for (const auto& [second, job] : jobs) {
      sim_.RunUntil(start + absl::Seconds(second));
      Make(sim_, job);
    }
    sim_.RunUntil(start + absl::Minutes(4));
    REQUIRE(sim_.Settled());
    sim_.SetFaultHook(nullptr);
    sim_.CheckSettled();
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
    Outcome outcome{turns_, "", sim_.writes()};
    for (const Json& workload : sim_.api().List(Kind::kWorkload)) {
      outcome.last += JobOf(workload);
      for (const char* type : {api::kQuotaReserved, api::kAdmitted, api::kFinished}) {
        outcome.last += fmt::format(" {}={}", type, ConditionTrue(workload, type));
      }
      outcome.last += "\n";
    }
    return outcome;
  }

 private:
  static std::string JobOf(const Json& workload) {
    const Json* owners = workload.Find("metadata", "ownerReferences");
    return owners == nullptr ? "" : owners->AsArray()[0].GetString("name");
  }

  void Take(const state::ObjectEvent& event) {
    if (event.kind != Kind::kWorkload) return;
    for (const char* type : {api::kQuotaReserved, api::kEvicted}) {
      const std::string name = JobOf(event.object) + " " + type;
      const bool on = ConditionTrue(event.object, type);
      if (on && !on_[name]) ++turns_[name];
      on_[name] = on;
    }
  }

  Simulation sim_;
  bool reclaim_;
  Turns turns_;
  absl::btree_map<std::string, bool> on_;
};

// A write that comes late can make somebody else start first, so that another one makes room or
// nobody has to. Never is more than one evicted, or quota given twice for one wait.
void CheckTurns(const Turns& turns) {
  const auto count = [&](const std::string& what) {
    const auto found = turns.find(what);
    return found == turns.end() ? 0 : found->second;
  };
  std::string all;
  for (const auto& [what, times] : turns) all += fmt::format("{} {}, ", what, times);
  INFO(all);
  CHECK(count("v1 Evicted") + count("v2 Evicted") + count("p Evicted") <= 1);
  for (const char* job : {"v1", "v2", "p"}) {
    const std::string name = job;
    CHECK(count(name + " QuotaReserved") == 1 + count(name + " Evicted"));
  }
}

TEST_CASE("A fault at any one write of a preemption evicts nobody twice") {
  const bool reclaim = GENERATE(false, true);
  const Outcome clean = Run(reclaim, nullptr).Play();
  INFO(clean.last);
  REQUIRE(clean.writes > 15);
  // v2 came last and makes room by itself.
  CHECK(clean.turns == Turns{{"p QuotaReserved", 1},
                             {"v1 QuotaReserved", 1},
                             {"v2 Evicted", 1},
                             {"v2 QuotaReserved", 2}});
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply,
                            Fault::kLoseRequest, Fault::kFail, Fault::kDuplicate}) {
    for (const int code : {409, 503}) {
      if (code == 409 && fault != Fault::kFail) continue;
      for (uint64_t at = 1; at <= clean.writes; ++at) {
        INFO("fault " << static_cast<int>(fault) << " at write " << at << ", reclaim " << reclaim);
        const Outcome outcome =
            Run(reclaim, [&](const state::Action&, uint64_t number) {
              return number == at ? FaultDecision{fault, code} : FaultDecision{};
            }).Play();
        CheckTurns(outcome.turns);
        CHECK(outcome.last == clean.last);
      }
    }
  }
}

}  // namespace
}  // namespace sluice::sim
