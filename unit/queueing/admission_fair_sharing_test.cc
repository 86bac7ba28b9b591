#include "queueing/admission_fair_sharing.h"

#include <cmath>
#include <limits>
#include <random>

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::At;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

const ObjectKey kA{"ns", "a"};
const ObjectKey kB{"ns", "b"};
const ObjectKey kWork{"ns", "work"};
const ObjectKey kWork2{"ns", "work2"};

AdmissionFairSharingOptions TenMinutes() { return {absl::Minutes(10), absl::Minutes(5), {}}; }
std::string Text(const ResourceList& list) {
  std::string text;
  for (const auto& [resource, quantity] : list) {
    if (!text.empty()) text += ' ';
    text += resource + "=" + quantity.ToString();
  }
  return text;
}
double Cpu(const ResourceList& list) {
  const auto found = list.find("cpu");
  return found == list.end() ? 0 : static_cast<double>(found->second.nanos()) / 1e9;
}
double Number(const UsageValue& usage) { return static_cast<double>(usage.ToNanos()) / 1e9; }
NanoAmounts Nanos(const std::string& resource, int64_t nanos) { return {{resource, nanos}}; }
UsageValue Cores(int64_t milli, const char* weight = "1") {
  return UsageValue::Of(NanosOf({{"cpu", milli}}), {}, Quantity::Parse(weight).value());
}

TEST_CASE("the entry penalty of four cores with the default sampling") {
  const NanoAmounts penalty = EntryPenalty({{"cpu", 4000}, {"memory", 1024}}, TenMinutes());
  CHECK(penalty.at("cpu") == 1'171'572'875);
  CHECK(Text(QuantitiesOf(penalty)) == "cpu=1171572875n memory=299922656064n");
  CHECK(EntryPenalty({{"cpu", 4000}}, {absl::ZeroDuration(), absl::Minutes(5), {}}).empty());
}

TEST_CASE("constant usage approaches itself, however often it is sampled") {
  UsageLedger ledger(TenMinutes());
  ledger.Start(kA, std::nullopt, At(0));
  ledger.Start(kB, std::nullopt, At(0));
  const std::vector<double> expected = {2.343, 4.000, 5.172, 6.000};
  for (int n = 1; n <= 4; ++n) {
    ledger.TakeSample(kA, {{"cpu", 8000}}, At(300 * n));
    CHECK(Cpu(ledger.LastSample(kA)->consumed_resources) ==
          Approx(expected[static_cast<size_t>(n - 1)]).margin(0.001));
    CHECK(ledger.LastSample(kA)->time == At(300 * n));
    for (int i = 1; i <= 10; ++i) {
      ledger.TakeSample(kB, {{"cpu", 8000}}, At(300 * (n - 1) + 30 * i));
    }
    CHECK(Cpu(ledger.ConsumedResources(kB)) ==
          Approx(Cpu(ledger.ConsumedResources(kA))).margin(1e-6));
    CHECK(ledger.ConsumedResources(kB) <= ledger.ConsumedResources(kA));
  }
}

TEST_CASE("usage below a thousandth accumulates") {
  UsageLedger ledger({absl::Hours(1000), absl::Seconds(1), {}});
  ledger.Start(kA, std::nullopt, At(0));
  ledger.TakeSample(kA, {{"cpu", 100}}, At(1));
  CHECK(Text(ledger.ConsumedResources(kA)) == "cpu=19n");
  for (int i = 2; i <= 100; ++i) ledger.TakeSample(kA, {{"cpu", 100}}, At(i));
  CHECK(Cpu(ledger.ConsumedResources(kA)) == Approx(100 * 0.1 * std::log(2) / 3.6e6).epsilon(0.2));
  // Without usage it fades to nothing and leaves no entry behind.
  ledger.TakeSample(kA, {}, absl::InfiniteFuture());
  CHECK(ledger.ConsumedResources(kA).empty());
}

TEST_CASE("usage weighs resources and divides by the weight of the LocalQueue") {
  AdmissionFairSharingOptions options = TenMinutes();
  options.resource_weights["memory"] = Quantity::FromInt(0);
  UsageLedger ledger(options);
  const auto start = [&](const ObjectKey& queue, int64_t cores, const char* weight) {
    api::AdmissionFairSharingStatus status;
    status.consumed_resources = {{"cpu", Quantity::FromInt(cores)},
                                 {"memory", Quantity::FromInt(cores << 30)}};
    status.last_update = At(-100);
    ledger.Start(queue, status, At(0));
    ledger.SetWeight(queue, Quantity::Parse(weight).value());
  };
  start(kA, 6, "1");
  start(kB, 10, "2");
  CHECK(Number(ledger.Usage(kA)) == Approx(6));
  CHECK(Number(ledger.Usage(kB)) == Approx(5));
  CHECK(ledger.Usage(kB) < ledger.Usage(kA));
  // A LocalQueue that is not known has used nothing.
  CHECK(ledger.Usage({"ns", "unknown"}) < ledger.Usage(kB));
  CHECK(ledger.Usage({"ns", "unknown"}) == UsageValue());
  // Weight zero sorts last, even with no usage, and two of them are equal.
  start(kB, 0, "0");
  CHECK(ledger.Usage(kB).IsInfinite());
  CHECK(ledger.Usage(kB) > ledger.Usage(kA));
  CHECK(ledger.Usage(kB) == UsageValue::Infinite());
}

TEST_CASE("usages are compared exactly") {
  CHECK(Cores(1, "3").ToNanos() == 333333);
  CHECK(UsageValue().ToNanos() == 0);
  CHECK(Cores(1, "3") == Cores(2, "6"));
  CHECK(Cores(1, "3") < Cores(1, "2.999999999"));
  CHECK(UsageValue::Of(Nanos("cpu", 1), {}, Quantity::FromInt(1)) > UsageValue());
  const UsageValue small = UsageValue::Of(Nanos("a", 3), {}, Quantity::Parse("1n").value());
  CHECK(small == UsageValue::Of(Nanos("a", 3'000'000'000), {}, Quantity::FromInt(1)));
  // The largest that there can be.
  const auto huge = [](int64_t amount, int64_t weight) {
    return UsageValue::Of(NanosOf({{"a", amount}, {"b", kMax}}),
                          {{"a", Quantity::FromInt(kMax)}, {"b", Quantity::FromInt(kMax)}},
                          Quantity::FromInt(weight));
  };
  CHECK(huge(kMax, kMax) == huge(kMax, kMax));
  CHECK(huge(kMax - 1, kMax) < huge(kMax, kMax));
  CHECK(huge(kMax, kMax) < huge(kMax, kMax - 1));
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const auto pick = [&] { return static_cast<int64_t>(random() % 50); };
    const int64_t a = pick();
    const int64_t b = pick();
    const int64_t v = pick() + 1;
    const int64_t w = pick() + 1;
    const auto value = [](int64_t cores, int64_t weight) {
      return UsageValue::Of(NanosOf({{"cpu", cores}}), {}, Quantity::FromInt(weight));
    };
    CHECK((value(a, v) <=> value(b, w)) == (a * w <=> b * v));
  }
}

TEST_CASE("a penalty counts at once and is replaced, settled or dropped") {
  UsageLedger ledger(TenMinutes());
  ledger.Start(kA, std::nullopt, At(0));
  ledger.PushEntryPenalty(kWork, kA, {{"cpu", 4000}});
  CHECK(ledger.HasEntryPenalty(kWork));
  CHECK(ledger.LocalQueueOfPenalty(kWork) == std::optional<ObjectKey>(kA));
  CHECK(Text(ledger.PendingPenalties(kA)) == "cpu=1171572875n");
  CHECK(Number(ledger.Usage(kA)) == Approx(1.171572875));
  SECTION("replaced by the next one of the same workload") {
    ledger.PushEntryPenalty(kWork, kA, {{"cpu", 8000}});
    CHECK(Number(ledger.Usage(kA)) == Approx(2.343145750));
  }
  SECTION("moved with it") {
    ledger.PushEntryPenalty(kWork, kB, {{"cpu", 4000}});
    CHECK(ledger.Usage(kA) == UsageValue());
    CHECK(Number(ledger.Usage(kB)) == Approx(1.171572875));
  }
  SECTION("dropped") {
    ledger.DropEntryPenalty(kWork);
    CHECK(ledger.Usage(kA) == UsageValue());
    CHECK_FALSE(ledger.HasEntryPenalty(kWork));
    ledger.DropEntryPenalty(kWork);
  }
  SECTION("settled: decayed to now with the usage that includes the workload, then added") {
    ledger.SettleEntryPenalty(kWork, kA, {{"cpu", 4000}}, At(600));
    CHECK(ledger.PendingPenalties(kA).empty());
    CHECK(Cpu(ledger.ConsumedResources(kA)) == Approx(2 + 1.171572875));
    // Not twice.
    ledger.SettleEntryPenalty(kWork, kA, {{"cpu", 4000}}, At(600));
    CHECK(Cpu(ledger.ConsumedResources(kA)) == Approx(2 + 1.171572875));
  }
  SECTION("the LocalQueue goes with its history and its penalties") {
    ledger.PushEntryPenalty(kWork2, kB, {{"cpu", 1000}});
    ledger.Forget(kA);
    CHECK_FALSE(ledger.HasEntryPenalty(kWork));
    CHECK(ledger.HasEntryPenalty(kWork2));
    CHECK_FALSE(ledger.Knows(kA));
    CHECK(ledger.Usage(kA) == UsageValue());
  }
}

TEST_CASE("without a half-life nothing is remembered and nothing is charged") {
  UsageLedger ledger({absl::ZeroDuration(), absl::Minutes(5), {}});
  api::AdmissionFairSharingStatus status;
  status.consumed_resources["cpu"] = Quantity::FromInt(3);
  ledger.Start(kA, status, At(0));
  for (const ObjectKey& workload : {kWork, kWork2}) {
    ledger.PushEntryPenalty(workload, kA, {{"cpu", 4000}});
  }
  CHECK(Cpu(ledger.ConsumedResources(kA)) == 3);
  CHECK(ledger.PendingPenalties(kA).empty());
  ledger.TakeSample(kA, {{"cpu", 8000}}, At(300));
  CHECK(ledger.ConsumedResources(kA).empty());
  for (const ObjectKey& workload : {kWork, kWork2}) ledger.DropEntryPenalty(workload);
  CHECK(ledger.Usage(kA) == UsageValue());
}

TEST_CASE("samples are due every interval, and at once after a penalty") {
  UsageLedger ledger(TenMinutes());
  CHECK(ledger.NextSample(kA) == absl::InfiniteFuture());
  ledger.Start(kA, std::nullopt, At(0));
  CHECK(ledger.LastSample(kA) == nullptr);
  CHECK(ledger.NextSample(kA) <= At(0));  // shows that the history has begun
  ledger.TakeSample(kA, {}, At(0.5));
  CHECK(ledger.LastSample(kA)->time == At(0));  // as the API shows it
  CHECK(ledger.NextSample(kA) == At(300.5));
  ledger.PushEntryPenalty(kWork, kA, {{"cpu", 1000}});
  CHECK(ledger.NextSample(kA) <= At(1));
  ledger.TakeSample(kA, {}, At(1));
  // The same penalty again is nothing new.
  ledger.PushEntryPenalty(kWork, kA, {{"cpu", 1000}});
  CHECK(ledger.NextSample(kA) == At(301));
  ledger.SettleEntryPenalty(kWork, kA, {{"cpu", 1000}}, At(2));
  CHECK(ledger.NextSample(kA) <= At(2));
}

TEST_CASE("after a restart the persisted history counts once and the downtime is not decayed") {
  UsageLedger ledger(TenMinutes());
  api::AdmissionFairSharingStatus status;
  status.consumed_resources["cpu"] = Quantity::FromInt(4);
  status.last_update = At(-3600);
  ledger.Start(kA, status, At(0));
  ledger.Start(kA, status, At(0));
  CHECK(Cpu(ledger.ConsumedResources(kA)) == 4);
  REQUIRE(ledger.LastSample(kA) != nullptr);
  CHECK(ledger.LastSample(kA)->time == At(-3600));
  CHECK(ledger.NextSample(kA) == At(300));
  ledger.TakeSample(kA, {}, At(600));
  CHECK(Cpu(ledger.ConsumedResources(kA)) == Approx(2));
  // A clock that went back changes nothing.
  ledger.TakeSample(kA, {}, At(100));
  CHECK(Cpu(ledger.ConsumedResources(kA)) == Approx(2));
  ledger.TakeSample(kA, {}, At(1200));
  CHECK(Cpu(ledger.ConsumedResources(kA)) == Approx(1));
}

}  // namespace
}  // namespace sluice::queueing
