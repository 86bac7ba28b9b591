// The ledger of fair-share credits against an oracle that integrates what the API server shows,
// with a controller that dies after any step, loses its lead, or sees its writes fail.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/time.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using quota::CreditAccount;
using quota::CreditTimeline;

constexpr double kTolerance = 1.01e-6;
constexpr double kBankHours = 0.025;  // 90 s

double Hours(quota::Credits credits) { return std::stod(credits.ToString()); }

// What Workloads show of their reservations, as a list of changes of the usage of ClusterQueues.
class Oracle {
 public:
  void Take(const state::ObjectEvent& event, absl::Time now) {
    if (event.kind != Kind::kWorkload) return;
    const Json& workload = event.object;
    const std::string uid = workload.GetString("metadata", "uid");
    if (event.type == state::ObjectEvent::Type::kDelete) {
      // It held quota until it went.
      if (const auto found = held_.find(uid); found != held_.end()) {
        changes_.push_back({now, found->second.queue, -found->second.cpus});
        held_.erase(found);
      }
      ++deleted_;
      return;
    }
    const bool reserved = ConditionTrue(workload, "QuotaReserved");
    const bool holds = reserved && !ConditionTrue(workload, "Finished");
    const auto found = held_.find(uid);
    if (holds && found == held_.end()) {
      Held held;
      held.from = ParseTime(workload.GetString("metadata", "annotations", "sluice.dev/reserved-at"))
                      .value_or(absl::InfinitePast());
      held.queue = workload.GetString("status", "admission", "clusterQueue");
      const Json& request = workload.Find("spec", "podSets")->AsArray()[0];
      held.cpus = std::stod(request.Find("template", "spec", "containers")
                                ->AsArray()[0]
                                .GetString("resources", "requests", "cpu")) *
                  static_cast<double>(request.Find("count")->AsInt());
      changes_.push_back({held.from, held.queue, held.cpus});
      held_[uid] = held;
    } else if (!holds && found != held_.end()) {
      const absl::Time to = TransitionOf(workload, reserved ? "Finished" : "QuotaReserved");
      changes_.push_back(
          {std::max(to, found->second.from), found->second.queue, -found->second.cpus});
      held_.erase(found);
    }
  }

  int deleted() const { return deleted_; }

  // Without decay and debt.
  double Balance(const std::vector<std::string>& queues, double entitlement, double limit,
                 absl::Time from, absl::Time to) const {
    std::vector<Change> sorted;
    for (const Change& change : changes_) {
      if (std::count(queues.begin(), queues.end(), change.queue) > 0) sorted.push_back(change);
    }
    sorted.push_back({to, "", 0});
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Change& a, const Change& b) { return a.at < b.at; });
    double balance = 0;
    double usage = 0;
    absl::Time at = from;
    for (const Change& change : sorted) {
      const absl::Time next = std::clamp(change.at, at, to);
      balance += (entitlement - usage) * absl::ToDoubleHours(next - at);
      balance = std::clamp(balance, 0.0, limit);
      usage += change.cpus;
      at = next;
    }
    return balance;
  }

 private:
  struct Held {
    absl::Time from;
    std::string queue;
    double cpus = 0;
  };
  struct Change {
    absl::Time at;
    std::string queue;
    double cpus = 0;
  };
  static absl::Time TransitionOf(const Json& workload, const std::string& type) {
    for (const Json& condition : workload.Find("status", "conditions")->AsArray()) {
      if (condition.GetString("type") == type) {
        return ParseTime(condition.GetString("lastTransitionTime")).value();
      }
    }
    return absl::InfinitePast();
  }

  std::map<std::string, Held> held_;
  std::vector<Change> changes_;
  int deleted_ = 0;
};

// Two teams and a department; workloads come, end, are evicted for others, and go: a Job that is
// deleted while it runs, Jobs that go as soon as they have ended, and a Workload alone.
class Course {
 public:
  explicit Course(size_t replicas = 1) : sim_(MakeOptions(replicas)) {
    sim_.SetApiObserver(
        [this](const state::ObjectEvent& event) { oracle_.Take(event, sim_.now()); });
    Make(sim_, "namespace ns");
    Make(sim_, "flavor default");
    Make(sim_, "priorityclass high value=9");
    Make(sim_, "cohort org flavor=default{cpu=1}");
    Make(sim_, "cohort dept parent=org");
    Make(sim_, "clusterqueue a cohort=dept flavor=default{cpu=3} within=LowerPriority");
    Make(sim_, "clusterqueue b cohort=dept flavor=default{cpu=2} reclaim=Any");
    Make(sim_, "localqueue qa cq=a");
    Make(sim_, "localqueue qb cq=b");
    Make(sim_, "creditpolicy p cohort=org resource=cpu halfLife=0 maxBank=90s horizon=1m");
    start_ = sim_.now();
  }

  Simulation& sim() { return sim_; }

  // Does the next thing, with the Jobs that users make meanwhile; false at the end.
  bool Step() {
    static const std::vector<std::pair<int, std::string>> kJobs = {
        {20'250, "job j1 queue=qa cpu=2 run=47s"},
        {31'777, "job j2 queue=qa cpu=3 run=300s"},
        {40'123, "job j3 queue=qb cpu=1 run=25s"},
        {55'900, "job j4 queue=qb cpu=2 run=61s"},
        {80'001, "job j5 queue=qa cpu=2 run=30s priority=high"},
        {130'456, "job j6 queue=qb cpu=1 run=77s"},
        {171'300, "job j7 queue=qa cpu=1 run=3s"},
        {175'100, "delete job j7"},
        {231'400, "job j8 queue=qb cpu=2 run=300s"},
        {251'900, "job j9 queue=qb cpu=2 run=300s"},
        {268'700, "delete job j8"},
        {290'200, "delete workload of j9"},
        {310'300, "delete job j9"},
        {330'150, "job j10 queue=qb cpu=2 run=4s"},
        {335'050, "delete job j10"}};
    if (sim_.now() >= start_ + absl::Seconds(420)) return false;
    const absl::Time next = made_ < kJobs.size() ? start_ + absl::Milliseconds(kJobs[made_].first)
                                                 : absl::InfiniteFuture();
    if (next <= sim_.NextTime()) {
      sim_.RunUntil(next);
      Do(kJobs[made_++].second);
      return true;
    }
    return sim_.Step();
  }

  void Do(const std::string& what) {
    constexpr char kDelete[] = "delete job ";
    constexpr char kDeleteWorkload[] = "delete workload of ";
    if (what.starts_with(kDelete)) {
      sim_.Delete(Kind::kJob, {"ns", what.substr(sizeof(kDelete) - 1)});
    } else if (what.starts_with(kDeleteWorkload)) {
      const std::string prefix = "job-" + what.substr(sizeof(kDeleteWorkload) - 1) + "-";
      for (const Json& workload : sim_.api().List(Kind::kWorkload)) {
        const std::string name = workload.GetString("metadata", "name");
        if (name.starts_with(prefix)) sim_.Delete(Kind::kWorkload, {"ns", name});
      }
    } else {
      Make(sim_, what);
    }
  }

  std::map<std::string, CreditTimeline> Timelines() const {
    std::map<std::string, CreditTimeline> timelines;
    for (const auto& [name, node] : sim_.controller(Leader()).world().credits().nodes()) {
      if (node.timeline.has_value()) timelines.emplace(name, *node.timeline);
    }
    return timelines;
  }
  size_t Leader() const { return static_cast<size_t>(std::max(0, sim_.leader())); }

  void CheckAgainstOracle() {
    const auto timelines = Timelines();
    REQUIRE(timelines.size() == 3);
    const auto check = [&](const std::string& name, const std::vector<std::string>& queues,
                           double entitlement) {
      const Json* account = sim_.api().Find(Kind::kCreditAccount, {"", name});
      REQUIRE(account != nullptr);
      const absl::Time made =
          ParseTime(account->GetString("metadata", "creationTimestamp")).value();
      const double expected =
          oracle_.Balance(queues, entitlement, entitlement * kBankHours, made, sim_.now());
      INFO(name << ", expected " << expected);
      CHECK(std::abs(Hours(timelines.at(name).At(sim_.now()).balance()) - expected) <
            2 * kTolerance);
    };
    check("cq-a", {"a"}, 3);
    check("cq-b", {"b"}, 2);
    check("co-dept", {"a", "b"}, 5);
  }

  void Finish() {
    while (Step()) {
    }
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
    CheckAgainstOracle();
    // What was deleted waits for accounts only for a while.
    CHECK(oracle_.deleted() >= 4);
    CHECK(sim_.api().List(Kind::kWorkload).size() == 6);
  }

 private:
  static SimulationOptions MakeOptions(size_t replicas) {
    SimulationOptions options;
    options.check = false;  // each step is done hundreds of times
    options.replicas = replicas;
    return options;
  }

  Oracle oracle_;
  Simulation sim_;
  absl::Time start_;
  size_t made_ = 0;
};

// The accounts are the same as those of the controller that went.
void CheckSame(const std::map<std::string, CreditTimeline>& before, const Course& course,
               absl::Time now) {
  const auto after = course.Timelines();
  for (const auto& [name, timeline] : before) {
    INFO(name);
    REQUIRE(after.count(name) == 1);
    const CreditAccount kept = timeline.At(now);
    const CreditAccount rebuilt = after.at(name).At(now);
    CHECK(std::abs(Hours(kept.balance()) - Hours(rebuilt.balance())) < kTolerance);
    CHECK(std::abs(Hours(kept.totals().earned) - Hours(rebuilt.totals().earned)) < kTolerance);
    CHECK(std::abs(Hours(kept.totals().spent) - Hours(rebuilt.totals().spent)) < kTolerance);
    CHECK(std::abs(Hours(kept.totals().expired) - Hours(rebuilt.totals().expired)) < kTolerance);
    CHECK((kept.usage() == rebuilt.usage()));
  }
}

// One of seven steps: they are of all kinds.
TEST_CASE("Credits: a controller that dies after any step knows the same balances again") {
  Course clean;
  clean.sim().Start();
  int steps = 0;
  while (clean.Step()) ++steps;
  clean.CheckAgainstOracle();
  REQUIRE(steps > 200);
  int compared = 0;
  for (int at = 20; at < steps; at += 7) {
    Course course;
    course.sim().Start();
    for (int i = 0; i < at; ++i) course.Step();
    const auto before = course.Timelines();
    // Nothing is on its way: both know the same.
    const bool same = before.size() == 3 && course.sim().Settled();
    course.sim().Crash();
    INFO("died after step " << at << " at "
                            << absl::ToDoubleSeconds(course.sim().now() -
                                                     SimulationOptions().start));
    if (same) {
      CheckSame(before, course, course.sim().now());
      ++compared;
    }
    course.Finish();
  }
  CHECK(compared > 5);
}

// The numbers of the writes of the clean course that balances depend on.
std::vector<uint64_t> WritesThatCount() {
  std::vector<uint64_t> writes;
  Course clean;
  clean.sim().SetFaultHook([&](const state::Action& action, uint64_t number) {
    if (action.kind == Kind::kCreditPolicy || action.kind == Kind::kCreditAccount ||
        action.kind == Kind::kWorkload) {
      writes.push_back(number);
    }
    return FaultDecision{};
  });
  clean.sim().Start();
  clean.Finish();
  return writes;
}

TEST_CASE("Credits: faults at any write lose nothing and count nothing twice") {
  const std::vector<uint64_t> writes = WritesThatCount();
  REQUIRE(writes.size() > 50);
  const std::vector<std::pair<Fault, int>> faults = {
      {Fault::kCrashBefore, 0}, {Fault::kCrashAfter, 0}, {Fault::kLoseReply, 0},
      {Fault::kLoseRequest, 0}, {Fault::kFail, 409},     {Fault::kFail, 503},
      {Fault::kDuplicate, 0},   {Fault::kDelay, 0}};
  for (const auto& [fault, code] : faults) {
    for (const uint64_t at : writes) {
      INFO("fault " << static_cast<int>(fault) << " " << code << " at write " << at);
      FaultDecision decision;
      decision.fault = fault;
      decision.code = code;
      Course course;
      course.sim().SetFaultHook([&](const state::Action&, uint64_t number) {
        return number == at ? decision : FaultDecision{};
      });
      course.sim().Start();
      course.Finish();
    }
  }
}

TEST_CASE("Credits: the lead may change at any write") {
  Course clean(2);
  clean.sim().Start();
  clean.Finish();
  const uint64_t writes = clean.sim().writes();
  REQUIRE(writes > 50);
  for (uint64_t at = 1; at <= writes; ++at) {
    INFO("after write " << at);
    Course course(2);
    course.sim().Start();
    do {
      if (course.sim().writes() >= at && course.sim().leader() == 0) course.sim().SetLeader(1);
    } while (course.Step());
    CHECK(course.sim().leader() == 1);
    course.Finish();
  }
}

// The quota is changed, and the controller dies in front of, or behind, any write after that: what
// was earned until then counts with the old quota, what comes after with the new one.
TEST_CASE("Credits: a quota that changes between a crash and the next write") {
  constexpr double kOld = 8;
  constexpr double kNew = 2;
  uint64_t last = 0;
  for (const Fault fault : {Fault::kNone, Fault::kCrashBefore, Fault::kCrashAfter}) {
    for (uint64_t behind = 1; behind <= std::max<uint64_t>(1, last); ++behind) {
      INFO("fault " << static_cast<int>(fault) << " at write " << behind << " after the change");
      Simulation sim({});
      Make(sim, "flavor default");
      Make(sim, "cohort org");
      Make(sim, "clusterqueue a cohort=org flavor=default{cpu=8}");
      Make(sim, "creditpolicy p cohort=org resource=cpu halfLife=0");
      sim.Start();
      const absl::Time start = sim.now();
      sim.RunUntil(start + absl::Seconds(95));
      const uint64_t before = sim.writes();
      sim.SetFaultHook([&](const state::Action&, uint64_t number) {
        return number == before + behind ? FaultDecision{fault} : FaultDecision{};
      });
      Json patch = Json::MakeObject();
      patch["spec"].Set("resourceGroups",
                        *api::ParseJson(R"([{"coveredResources": ["cpu"], "flavors": [{"name":
                            "default", "resources": [{"name": "cpu", "nominalQuota": "2"}]}]}])"));
      REQUIRE(sim.Patch(Kind::kClusterQueue, {"", "a"}, std::move(patch)).ok());
      sim.RunUntil(start + absl::Seconds(400));
      if (fault == Fault::kNone) last = sim.writes() - before;
      const state::GovernedNode* node = sim.controller().world().credits().Find("cq-a");
      REQUIRE((node != nullptr && node->timeline.has_value()));
      const double balance = Hours(node->timeline->At(sim.now()).balance());
      // A second for what is on its way at the start and at the change.
      CHECK(balance == Approx((kOld * 95 + kNew * 305) / 3600).margin(kOld * 2 / 3600));
      const Json* account = sim.api().Find(Kind::kCreditAccount, {"", "cq-a"});
      REQUIRE(account != nullptr);
      CHECK(account->GetString("status", "entitlement") == "2");
      CHECK(sim.violations().empty());
    }
  }
  CHECK(last >= 2);
}

// The same with the rules of the policy: what was banked until then does not decay.
TEST_CASE("Credits: a half-life that changes between a crash and the next write") {
  uint64_t last = 0;
  for (const Fault fault : {Fault::kNone, Fault::kCrashBefore, Fault::kCrashAfter}) {
    for (uint64_t behind = 1; behind <= std::max<uint64_t>(1, last); ++behind) {
      INFO("fault " << static_cast<int>(fault) << " at write " << behind << " after the change");
      Simulation sim({});
      Make(sim, "flavor default");
      Make(sim, "cohort org");
      Make(sim, "clusterqueue a cohort=org flavor=default{cpu=8}");
      Make(sim, "creditpolicy p cohort=org resource=cpu halfLife=0");
      sim.Start();
      const absl::Time start = sim.now();
      sim.RunUntil(start + absl::Seconds(2));
      Json grant = Json::MakeObject();
      grant["metadata"]["annotations"].Set("sluice.dev/adjust", "100");
      REQUIRE(sim.Patch(Kind::kCreditAccount, {"", "cq-a"}, std::move(grant)).ok());
      // A while after the last write of the status.
      const Json* account = nullptr;
      const auto settled = [&] {
        account = sim.api().Find(Kind::kCreditAccount, {"", "cq-a"});
        return ParseTime(account->GetString("status", "lastSettled")).value();
      };
      sim.RunUntil(start + absl::Seconds(60));
      while (sim.now() - settled() < absl::Seconds(20)) sim.RunUntil(sim.now() + absl::Seconds(1));
      const absl::Duration until = sim.now() - start;
      const uint64_t before = sim.writes();
      sim.SetFaultHook([&](const state::Action&, uint64_t number) {
        return number == before + behind ? FaultDecision{fault} : FaultDecision{};
      });
      Json patch = Json::MakeObject();
      patch["spec"].Set("halfLife", "10m");
      REQUIRE(sim.Patch(Kind::kCreditPolicy, {"", "p"}, std::move(patch)).ok());
      sim.RunUntil(sim.now() + absl::Minutes(5));
      if (fault == Fault::kNone) last = sim.writes() - before;
      const state::GovernedNode* node = sim.controller().world().credits().Find("cq-a");
      REQUIRE((node != nullptr && node->timeline.has_value()));
      const double kept = std::sqrt(0.5);
      const double expected =
          (100 + 8 * absl::ToDoubleHours(until)) * kept + 8 * (1.0 / 6 / std::log(2)) * (1 - kept);
      // A second of the decay for what is on its way at the change.
      const double balance = Hours(node->timeline->At(sim.now()).balance());
      CHECK(balance == Approx(expected).margin(0.13));
      account = sim.api().Find(Kind::kCreditAccount, {"", "cq-a"});
      CHECK(account->GetString("status", "rules", "halfLife") == "10m0s");
      CHECK(sim.violations().empty());
    }
  }
  CHECK(last >= 2);
}

TEST_CASE("Credits: another replica that takes the lead goes on with the same balances") {
  for (int second = 20; second < 400; second += 29) {
    INFO("the lead changes after " << second << " s");
    Course course(2);
    course.sim().Start();
    const absl::Time change = course.sim().now() + absl::Milliseconds(second * 1000 + second);
    while (course.sim().now() < change && course.Step()) {
    }
    const auto before = course.Timelines();
    const bool same = course.sim().Settled();
    course.sim().SetLeader(1);
    if (same) {
      course.sim().RunUntil(course.sim().now() + absl::Milliseconds(1));
      const auto after = course.Timelines();
      if (after.size() == before.size()) CheckSame(before, course, change);
    }
    course.Finish();
  }
}

// An adjustment that is made while the controller dies, at any write.
TEST_CASE("Credits: an adjustment counts once, whatever happens to the writes") {
  const auto play = [](Simulation& sim) {
    Make(sim, "namespace ns");
    Make(sim, "flavor default");
    Make(sim, "cohort org");
    Make(sim, "clusterqueue a cohort=org flavor=default{cpu=8}");
    Make(sim, "localqueue q cq=a");
    Make(sim, "creditpolicy p cohort=org resource=cpu halfLife=0");
    sim.Start();
    const absl::Time start = sim.now();
    Make(sim, "job all queue=q cpu=8 run=2h");
    for (const auto& [second, amount] : std::vector<std::pair<int, std::string>>{
             {60, "+12.5"}, {120, "+12.5"}, {180, "much"}, {240, "-5.25"}}) {
      sim.RunUntil(start + absl::Seconds(second));
      Json patch = Json::MakeObject();
      patch["metadata"]["annotations"].Set("sluice.dev/adjust", amount);
      sim.Patch(Kind::kCreditAccount, {"", "cq-a"}, std::move(patch));
    }
    sim.RunUntil(start + absl::Minutes(10));
    const Json account = sim.api().List(Kind::kCreditAccount).at(0);
    const double earned = std::stod(account.GetString("status", "lifetimeEarned"));
    const double balance = std::stod(account.GetString("status", "balance"));
    // What it banked before the Job was there came to it by time; the fate of an admission that got
    // no answer takes up to 45 s to be known.
    CHECK(earned == Approx(19.75).margin(0.15));
    CHECK(balance == Approx(earned).margin(kTolerance));
    CHECK(account.Find("status", "adjustments")->AsInt() == 3);
    CHECK(account.GetString("metadata", "annotations", "sluice.dev/adjust").empty());
    int refused = 0;
    for (const Json& condition : account.Find("status", "conditions")->AsArray()) {
      if (condition.GetString("type") == "Adjusted") {
        CHECK(condition.GetString("reason") == "Adjusted");
      }
    }
    for (const Json& event : sim.api().List(Kind::kEvent)) {
      if (event.GetString("reason") == "InvalidAdjustment") ++refused;
    }
    CHECK(refused <= 1);
    return refused;
  };
  Simulation clean({});
  CHECK(play(clean) == 1);
  const uint64_t writes = clean.writes();
  for (const Fault fault : {Fault::kCrashBefore, Fault::kCrashAfter, Fault::kLoseReply,
                            Fault::kLoseRequest, Fault::kFail, Fault::kDuplicate}) {
    for (uint64_t at = 1; at <= writes; at += (at > 12 ? 3 : 1)) {
      INFO("fault " << static_cast<int>(fault) << " at write " << at);
      Simulation sim({});
      sim.SetFaultHook([&](const state::Action&, uint64_t number) {
        return number == at ? FaultDecision{fault, at % 2 == 0 ? 409 : 503} : FaultDecision{};
      });
      play(sim);
    }
  }
}

}  // namespace
}  // namespace sluice::sim
