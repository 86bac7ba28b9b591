// Benchmarks of the credit ledger: one settle, with 2,000 accounts that are at different balances,
// so that each one is cold. The aim is at most 2 us.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "quota/credit_timeline.h"

namespace sluice::quota {
namespace {

constexpr int64_t kAccounts = 2000;
constexpr CreditAccount::Micros kUnit = 1'000'000;
const absl::Time kStart = absl::FromUnixSeconds(1'800'000'000);

CreditRules Rules(bool decays) {
  CreditRules rules;
  if (!decays) rules.half_life = absl::ZeroDuration();
  return rules;
}

std::vector<CreditAccount> Accounts(bool decays, bool spends) {
  std::vector<CreditAccount> accounts;
  for (int64_t i = 0; i < kAccounts; ++i) {
    accounts.emplace_back(Rules(decays), kStart, Credits::FromHours(10 + i % 90));
    accounts.back().SetRates(kUnit * 64, kUnit * (spends ? 80 : 40), true, kStart);
  }
  return accounts;
}

// Time goes on by a second after all of them.
void Settle(benchmark::State& state, bool decays, bool spends) {
  std::vector<CreditAccount> accounts = Accounts(decays, spends);
  absl::Time now = kStart;
  size_t next = 0;
  for (auto run : state) {
    if (next == 0) now += absl::Seconds(1);
    accounts[next].Settle(now);
    next = next + 1 == accounts.size() ? 0 : next + 1;
  }
  benchmark::DoNotOptimize(accounts.data());
}
BENCHMARK_CAPTURE(Settle, line, false, false)->Name("CreditSettle/line");
BENCHMARK_CAPTURE(Settle, decays, true, false)->Name("CreditSettle/decays");
BENCHMARK_CAPTURE(Settle, spends, true, true)->Name("CreditSettle/spends");

// A step in which the bank becomes empty is split there.
void SettleToZero(benchmark::State& state) {
  const std::vector<CreditAccount> accounts = Accounts(true, true);
  size_t next = 0;
  for (auto run : state) {
    CreditAccount account = accounts[next];
    account.Settle(kStart + absl::Hours(24));
    benchmark::DoNotOptimize(account);
    next = next + 1 == accounts.size() ? 0 : next + 1;
  }
}
BENCHMARK(SettleToZero)->Name("CreditSettle/to zero");

// A reservation begins or ends: the account is settled, and asked.
void Change(benchmark::State& state) {
  std::vector<CreditTimeline> timelines;
  for (int64_t i = 0; i < kAccounts; ++i) {
    timelines.emplace_back(Rules(true),
                           CreditTimeline::Checkpoint{kStart, Credits::FromHours(10 + i % 90), {}},
                           kUnit * 64, true, kUnit * kUnit * 40);
  }
  absl::Time now = kStart;
  size_t next = 0;
  int64_t sign = 1;
  for (auto run : state) {
    if (next == 0) {
      now += absl::Seconds(1);
      sign = -sign;
    }
    CreditTimeline& timeline = timelines[next];
    timeline.Add({now, sign * kUnit * kUnit, {}, {}, {}});
    const CreditAccount account = timeline.At(now);
    timeline.Rebase({now, account.balance(), account.totals()});
    benchmark::DoNotOptimize(account);
    next = next + 1 == timelines.size() ? 0 : next + 1;
  }
}
BENCHMARK(Change)->Name("CreditChange/written down each time");

}  // namespace
}  // namespace sluice::quota
