// Fair-share credits in the simulator: what is banked is served, equal teams stay equal, balances
// keep their limits, and a controller that starts anew knows the same balances.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "reconcile/reconcilers.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using quota::CreditAccount;
using quota::Credits;

double Hours(Credits credits) { return std::stod(credits.ToString()); }

CreditAccount AccountOf(const Simulation& sim, const std::string& name) {
  const state::GovernedNode* node = sim.controller().world().credits().Find(name);
  INFO(name);
  REQUIRE(node != nullptr);
  REQUIRE(node->timeline.has_value());
  return node->timeline->At(sim.now());
}

// CPUs that workloads of the ClusterQueue hold.
double Held(const Simulation& sim, const std::string& queue) {
  int64_t milli = 0;
  for (const auto& [cell, amount] :
       sim.controller().world().ClusterQueueTotals(queue).reservation) {
    milli += amount;
  }
  return static_cast<double>(milli) / 1000;
}

// Keeps so many Jobs of one CPU waiting or running in the LocalQueue.
class Demand {
 public:
  Demand(Simulation& sim, std::string queue, int jobs) : sim_(sim), queue_(std::move(queue)) {
    jobs_ = jobs;
  }
  void Refill() {
    int open = 0;
    sim_.api().ForEach(api::Kind::kJob, [&](const api::Json& job) {
      const bool mine = job.GetString("metadata", "labels", "kueue.x-k8s.io/queue-name") == queue_;
      if (mine && !ConditionTrue(job, "Complete")) ++open;
    });
    for (; open < jobs_; ++open) {
      Make(sim_, fmt::format("job {}-{} queue={} cpu=1 run=10m", queue_, ++made_, queue_));
    }
  }

 private:
  Simulation& sim_;
  std::string queue_;
  int jobs_ = 0;
  int made_ = 0;
};

SimulationOptions Options(bool fair_sharing) {
  SimulationOptions options;
  options.check = false;  // long runs; other tests check every step
  options.settings.object_retention.after_finished = absl::Minutes(1);
  if (fair_sharing) {
    options.settings.fair_sharing.emplace();
    options.settings.fair_sharing->preemption_strategies = {
        state::PreemptionStrategy::kLessThanOrEqualToFinalShare,
        state::PreemptionStrategy::kLessThanInitialShare};
  }
  return options;
}

void MakeTeams(Simulation& sim, const std::string& policy, const std::string& reclaim = "Never") {
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "cohort org flavor=default{cpu=4}");
  for (const char* team : {"a", "b"}) {
    Make(sim, fmt::format("clusterqueue {} cohort=org flavor=default{{cpu=4}} reclaim={}", team,
                          reclaim));
    Make(sim, fmt::format("localqueue q{} cq={}", team, team));
  }
  Make(sim, "creditpolicy p cohort=org resource=cpu " + policy);
}

TEST_CASE("Credits: what a team saved is served above its quota, against a greedy one") {
  Simulation sim(Options(false));
  MakeTeams(sim, "halfLife=0 horizon=15m");
  sim.Start();
  Demand greedy(sim, "qb", 20);
  Demand saver(sim, "qa", 20);
  const auto run = [&](absl::Duration time, bool bursts, double& above) {
    for (const absl::Time end = sim.now() + time; sim.now() < end;) {
      greedy.Refill();
      if (bursts) saver.Refill();
      sim.RunUntil(sim.now() + absl::Seconds(30));
      above += std::max(0.0, Held(sim, "a") - 4) * 30 / 3600;
    }
  };
  double before = 0;
  run(absl::Hours(4), false, before);
  CHECK(before == 0);
  CHECK(Held(sim, "b") == 12);  // what nobody else wants is lent
  const double banked = Hours(AccountOf(sim, "cq-a").balance());
  CHECK(banked == Approx(16).margin(0.1));
  std::string table =
      "| hours of burst | served above the quota | left in the bank | served of the bank |\n";
  double above = 0;
  for (int hour = 1; hour <= 6; ++hour) {
    run(absl::Hours(1), true, above);
    table += fmt::format("| {} | {:.3f} | {:.3f} | {:.1f} % |\n", hour, above,
                         Hours(AccountOf(sim, "cq-a").balance()), 100 * above / banked);
  }
  WARN("banked " << banked << " credit-hours\n" << table);
  CHECK(above >= 0.99 * banked);
}

// Of CPU-hours, over all windows of a length; `held` is a sample for each minute.
double LargestDifference(const std::vector<std::pair<double, double>>& held, size_t length,
                         std::string& table) {
  double worst = 0;
  std::pair<double, double> at_worst;
  for (size_t begin = 0; begin + length <= held.size(); ++begin) {
    double a = 0;
    double b = 0;
    for (size_t i = begin; i < begin + length; ++i) {
      a += held[i].first / 60;
      b += held[i].second / 60;
    }
    const double difference = std::abs(a - b) / std::max(a, b);
    if (begin > 0 && difference <= worst) continue;
    worst = difference;
    at_worst = {a, b};
  }
  table += fmt::format("| {} min | {:.2f} | {:.2f} | {:.2f} % |\n", length, at_worst.first,
                       at_worst.second, 100 * worst);
  return worst;
}

TEST_CASE("Credits: two equal teams with endless demand use the same") {
  Simulation sim(Options(true));
  MakeTeams(sim, "halfLife=0 horizon=1h", "Any");
  sim.Start();
  Demand first(sim, "qa", 20);
  Demand second(sim, "qb", 20);
  std::vector<std::pair<double, double>> held;
  for (int i = 0; i < 6 * 60; ++i) {
    first.Refill();
    second.Refill();
    sim.RunUntil(sim.now() + absl::Minutes(1));
    held.emplace_back(Held(sim, "a"), Held(sim, "b"));
  }
  std::string table = "| window | CPU-hours of a | of b | largest difference |\n";
  for (const size_t length : {61u, 90u, 120u, 240u}) {
    CHECK(LargestDifference(held, length, table) < 0.01);
  }
  WARN(table);
}

TEST_CASE("Credits: an account is written once a minute while it moves, and not otherwise") {
  Simulation sim({});
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "cohort org flavor=default{cpu=4}");
  Make(sim, "clusterqueue a cohort=org flavor=default{cpu=4}");
  Make(sim, "clusterqueue none cohort=org flavor=default{cpu=0}");
  Make(sim, "creditpolicy p cohort=org resource=cpu halfLife=0");
  sim.Start();
  sim.RunUntil(sim.now() + absl::Hours(2));
  int idle = 0;
  std::vector<double> moving;
  for (const std::string& line : sim.trace()) {
    if (line.find("CreditAccount cq-none/status") != std::string::npos) ++idle;
    if (line.find("CreditAccount cq-a/status") != std::string::npos) {
      moving.push_back(std::stod(line));
    }
  }
  CHECK(idle == 1);
  CHECK(moving.size() >= 120);
  CHECK(moving.size() <= 123);
  for (size_t i = 1; i < moving.size(); ++i) CHECK(moving[i] - moving[i - 1] <= 60.1);
}

TEST_CASE("Credits: a clock that went back is told, and gives a step of zero") {
  Simulation sim({});
  Make(sim, "flavor default");
  Make(sim, "cohort org");
  Make(sim, "clusterqueue a cohort=org flavor=default{cpu=8}");
  Make(sim, "creditpolicy p cohort=org resource=cpu halfLife=0");
  sim.Start();
  sim.RunUntil(sim.now() + absl::Minutes(10));
  const state::World& world = sim.controller().world();
  const ObjectKey key{"", "cq-a"};
  const auto account = world.credit_accounts().Find(key);
  REQUIRE((account != nullptr && account->status.last_settled.has_value()));
  const absl::Time last = *account->status.last_settled;
  const reconcile::Plan back =
      reconcile::ReconcileCreditAccount(world, key, last - absl::Minutes(2));
  REQUIRE(back.notes.size() == 1);
  CHECK(back.notes[0].reason == "ClockWentBack");
  CHECK(back.notes[0].warning);
  CHECK(back.notes[0].message.find(sluice::FormatTime(last).substr(0, 16)) != std::string::npos);
  // The balance stays, so there is nothing to write.
  CHECK(back.writes.empty());
  // The last second of a clock that is set a little is nothing to tell.
  CHECK(
      reconcile::ReconcileCreditAccount(world, key, last - absl::Milliseconds(500)).notes.empty());
}

class RandomCredits {
 public:
  explicit RandomCredits(uint64_t seed) : random_(seed), sim_(MakeOptions()) {}

  void Run() {
    Make(sim_, "namespace ns");
    Make(sim_, "flavor default");
    Make(sim_, "cohort org flavor=default{cpu=3}");
    Make(sim_, "cohort dept parent=org");
    Make(sim_, "cohort lab parent=dept flavor=default{cpu=2}");
    for (int i = 0; i < kQueues; ++i) {
      Make(sim_, fmt::format("clusterqueue c{} cohort={} flavor=default{{cpu={}}} reclaim={}", i,
                             i == 0  ? "org"
                             : i < 3 ? "dept"
                                     : "lab",
                             2 + Below(4), i == 1 ? "Any" : "Never"));
      Make(sim_, fmt::format("localqueue q{} cq=c{}", i, i));
    }
    const int half_life = Below(3);
    Make(sim_, fmt::format("creditpolicy p cohort=org resource=cpu halfLife={} maxBank={}h "
                           "maxDebt={}h horizon={}m effect={} maxLenderDelay=5m",
                           half_life == 0 ? "0" : fmt::format("{}h", half_life), 1 + Below(4),
                           Below(3), 10 + Below(60), Below(2) == 0 ? "Order" : "Protect"));
    sim_.Start();
    for (int i = 0; i < 120; ++i) {
      if (Below(2) == 0) {
        Make(sim_, fmt::format("job j{} queue=q{} cpu={} run={}s", i, Below(kQueues), 1 + Below(3),
                               60 + Below(2400)));
      }
      if (Below(12) == 0) StopOrResume();
      sim_.RunUntil(sim_.now() + absl::Milliseconds(Below(300'000)));
      CheckAccounts();
      if (Below(4) == 0 && sim_.Settled()) CheckRestart();
    }
    CHECK(levels_ > 200);
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
  }

 private:
  static SimulationOptions MakeOptions() {
    SimulationOptions options;
    options.replicas = 1;
    return options;
  }
  int Below(int limit) { return static_cast<int>(random_() % static_cast<uint64_t>(limit)); }

  void StopOrResume() {
    const std::string queue = fmt::format("c{}", Below(kQueues));
    const bool stops = stopped_.insert(queue).second;
    if (!stops) stopped_.erase(queue);
    api::Json patch = api::Json::MakeObject();
    patch["spec"].Set("stopPolicy", stops ? "Hold" : "None");
    CHECK(sim_.Patch(api::Kind::kClusterQueue, {"", queue}, std::move(patch)).ok());
  }

  void CheckAccounts() {
    for (const char* name : {"cq-c0", "cq-c1", "cq-c2", "cq-c3", "cq-c4", "co-dept", "co-lab"}) {
      const state::GovernedNode* node = sim_.controller().world().credits().Find(name);
      if (node == nullptr || !node->timeline.has_value()) continue;
      const CreditAccount account = node->timeline->At(sim_.now());
      CHECK(account.balance() <= account.BankLimit());
      const double floor = -static_cast<double>(account.entitlement()) / 1e6 *
                           absl::ToDoubleHours(node->spec->max_debt);
      CHECK(Hours(account.balance()) >= floor - 1e-6);
    }
    // At each level the rates of the members are what the subtree has and does not use, but for the
    // quota of the cohort itself and for what stopped queues leave unused.
    CheckLevel("co-lab", {"cq-c3", "cq-c4"}, 2);
    CheckLevel("co-dept", {"cq-c1", "cq-c2", "co-lab"}, 0);
  }

  void CheckLevel(const char* cohort, const std::vector<const char*>& members, int64_t own) {
    const auto known = [&](const char* name) {
      const state::GovernedNode* node = sim_.controller().world().credits().Find(name);
      return node != nullptr && node->timeline.has_value();
    };
    if (!known(cohort) || !std::all_of(members.begin(), members.end(), known)) return;
    const CreditAccount whole = AccountOf(sim_, cohort);
    CreditAccount::Micros rates = own * 1'000'000;
    for (const char* member : members) rates += AccountOf(sim_, member).Rate();
    INFO(cohort);
    if (stopped_.empty()) CHECK((rates == whole.entitlement() - whole.usage()));
    CHECK((rates == whole.Rate()));
    ++levels_;
  }

  void CheckRestart() {
    std::vector<std::string> names;
    std::vector<CreditAccount> before;
    for (const auto& [name, node] : sim_.controller().world().credits().nodes()) {
      if (!node.timeline.has_value()) return;
      names.push_back(name);
      before.push_back(node.timeline->At(sim_.now()));
    }
    sim_.Crash();
    for (size_t i = 0; i < names.size(); ++i) {
      const CreditAccount after = AccountOf(sim_, names[i]);
      INFO(names[i] << " at " << absl::ToDoubleSeconds(sim_.now() - SimulationOptions().start));
      CHECK(Hours(after.balance()) == Approx(Hours(before[i].balance())).margin(1.01e-6));
      CHECK(Hours(after.totals().earned) == Approx(Hours(before[i].totals().earned)).margin(1e-5));
      CHECK(Hours(after.totals().spent) == Approx(Hours(before[i].totals().spent)).margin(1e-5));
      CHECK((after.usage() == before[i].usage()));
    }
  }

  static constexpr int kQueues = 5;
  std::mt19937_64 random_;
  Simulation sim_;
  int levels_ = 0;  // looked at
  std::set<std::string> stopped_;
};

// Who got quota and who gave it back, and when; and what was banked at the end.
struct History {
  std::vector<std::string> decisions;
  std::map<std::string, double> balances;
};

// Random demand of three teams; `settles`: every account is settled at other random times too.
History PlayRandom(uint64_t seed, bool settles) {
  std::mt19937_64 random(seed);
  std::mt19937_64 other(seed + 1000);
  const auto below = [](std::mt19937_64& source, int n) {
    return static_cast<int>(source() % static_cast<uint64_t>(n));
  };
  Simulation sim(Options(false));
  Make(sim, "namespace ns");
  Make(sim, "flavor default");
  Make(sim, "cohort org flavor=default{cpu=3}");
  for (int i = 0; i < 3; ++i) {
    Make(sim, fmt::format("clusterqueue c{} cohort=org flavor=default{{cpu=3}} reclaim={}", i,
                          i == 1 ? "Any" : "Never"));
    Make(sim, fmt::format("localqueue q{} cq=c{}", i, i));
  }
  Make(sim, fmt::format("creditpolicy p cohort=org resource=cpu halfLife=1h maxBank=2h horizon=20m "
                        "effect={} maxLenderDelay=5m",
                        seed % 2 == 0 ? "Order" : "Protect"));
  History history;
  std::map<std::string, bool> held;
  sim.SetApiObserver([&](const state::ObjectEvent& event) {
    if (event.kind != api::Kind::kWorkload) return;
    const std::string uid = event.object.GetString("metadata", "uid");
    const bool holds = ConditionTrue(event.object, "QuotaReserved");
    if (holds == std::exchange(held[uid], holds)) return;
    history.decisions.push_back(fmt::format(
        "{} {} {}", absl::ToInt64Seconds(sim.now() - SimulationOptions().start), uid, holds));
  });
  sim.Start();
  for (int i = 0; i < 100; ++i) {
    Make(sim, fmt::format("job j{} queue=q{} cpu={} run={}s", i, below(random, 3),
                          1 + below(random, 3), 60 + below(random, 1200)));
    const absl::Time next = sim.now() + absl::Seconds(1 + below(random, 200));
    while (settles && below(other, 4) > 0) {
      sim.RunUntil(sim.now() + (next - sim.now()) * (0.01 * below(other, 100)));
      for (int queue = 0; queue < 3; ++queue) {
        api::Json patch = api::Json::MakeObject();
        patch["metadata"]["annotations"].Set("sluice.dev/adjust", "0");
        sim.Patch(api::Kind::kCreditAccount, {"", fmt::format("cq-c{}", queue)}, std::move(patch));
      }
    }
    sim.RunUntil(next);
  }
  for (const char* name : {"cq-c0", "cq-c1", "cq-c2"}) {
    history.balances[name] = Hours(AccountOf(sim, name).balance());
  }
  return history;
}

TEST_CASE("Random credits: no decision depends on how often accounts are settled") {
  ForSeeds(6, [](uint64_t seed) {
    const History seldom = PlayRandom(seed, false);
    const History often = PlayRandom(seed, true);
    CHECK(seldom.decisions.size() > 60);
    CHECK(often.decisions == seldom.decisions);
    for (const auto& [name, balance] : seldom.balances) {
      INFO(name);
      CHECK(often.balances.at(name) == Approx(balance).margin(1.01e-6));
    }
  });
}

TEST_CASE("Random credits: balances keep their limits, and a restart loses nothing") {
  ForSeeds(4, [](uint64_t seed) { RandomCredits(seed).Run(); });
}

}  // namespace
}  // namespace sluice::sim
