// What a search for the first places says, against a placer that is asked at each end in turn, over
// random small trees. SLUICE_SEED picks them, SLUICE_TREES how many.
#include "admission/backfill_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/topology/dice.h"

namespace sluice::admission {
namespace {

using topology::Booking;
using topology::Dice;
using topology::PodSetRequest;
using topology::WorkloadRequest;
using topology::WorkloadUsage;

constexpr char kGpu[] = "example.com/gpu";

absl::Time At(int64_t seconds) { return build::Epoch() + absl::Seconds(seconds); }

topology::Node RandomNode(Dice& dice, int64_t index) {
  topology::Node node;
  node.name = fmt::format("h{:02}", index);
  node.labels = {{"block", fmt::format("b{}", index % 2)},
                 {"rack", fmt::format("r{}", index % 4)},
                 {"kind", dice.Roll(0, 3) == 0 ? "old" : "new"},
                 {topology::kHostname, node.name}};
  node.allocatable = {{kGpu, dice.Roll(2, 8)}, {kCpu, dice.Roll(1, 8) * 500}, {kPods, 6}};
  node.ready = true;
  if (dice.Roll(0, 4) == 0) node.taints.push_back({"spot", "", "NoSchedule"});
  return node;
}

PodSetRequest RandomPodSet(Dice& dice, const std::string& name) {
  PodSetRequest pod_set;
  pod_set.name = name;
  pod_set.flavor = dice.Roll(0, 3) == 0 ? "new" : "all";
  pod_set.count = 2 * dice.Roll(1, 8);
  pod_set.per_pod = {{kGpu, dice.Roll(1, 2)}, {kCpu, dice.Roll(0, 1) * 500}};
  topology::TopologyRequest& wanted = pod_set.topology;
  const int64_t kind = dice.Roll(0, 3);
  if (kind == 0) wanted.required = dice.Roll(0, 1) == 0 ? "rack" : "block";
  if (kind == 1) wanted.preferred = "rack";
  wanted.unconstrained = kind == 2;
  wanted.implied = kind == 3;
  if (kind < 2 && dice.Roll(0, 2) == 0) wanted.layers = {{"rack", 2}, {topology::kHostname, 1}};
  if (kind < 2 && dice.Roll(0, 2) == 0) wanted.layers = {{topology::kHostname, 2}};
  if (dice.Roll(0, 5) == 0) wanted.spreading = topology::Spreading::kSpread;
  if (dice.Roll(0, 3) == 0) pod_set.filter.tolerations = {{"spot", "Exists", "", ""}};
  if (dice.Roll(0, 5) == 0) pod_set.filter.node_selector = {{"kind", "old"}};
  return pod_set;
}

WorkloadRequest RandomRequest(Dice& dice) {
  WorkloadRequest request;
  request.now = 0;
  request.bound = dice.Roll(1, 90);
  request.pod_sets.push_back(RandomPodSet(dice, "workers"));
  const PodSetRequest& workers = request.pod_sets.front();
  if (dice.Roll(0, 2) == 0) {
    PodSetRequest leader = workers;
    leader.name = "leader";
    leader.count = 1;
    leader.per_pod = {{kGpu, dice.Roll(0, 3)}};
    request.pod_sets.push_back(std::move(leader));
    for (PodSetRequest& one : request.pod_sets) one.topology.group = "g";
  } else if (dice.Roll(0, 2) == 0) {
    request.pod_sets.push_back(RandomPodSet(dice, "others"));
  } else if (dice.Roll(0, 9) == 0) {
    PodSetRequest& grown = request.pod_sets.front();
    grown.previous_kind = topology::Previous::kResize;
    grown.previous.levels = {topology::kHostname};
    grown.previous.domains = {{{"h01"}, 1}};
  }
  return request;
}

// What leaves hold, in an order of its own.
using Taken = std::vector<std::tuple<const void*, uint32_t, int64_t>>;
Taken Sum(const std::vector<topology::LeafUsage>& leaves) {
  absl::btree_map<std::pair<const void*, uint32_t>, int64_t> sums;
  for (const topology::LeafUsage& leaf : leaves) {
    for (const auto& [resource, amount] : leaf.amounts) sums[{leaf.record, resource}] += amount;
  }
  Taken taken;
  for (const auto& [key, amount] : sums) taken.emplace_back(key.first, key.second, amount);
  return taken;
}

class Trial {
 public:
  explicit Trial(int64_t seed)
      : dice_(static_cast<uint64_t>(seed)),
        inventory_(RandomOptions(dice_)),
        placer_(inventory_),
        started_(inventory_),
        places_(inventory_) {
    const std::vector<std::string> levels = {"block", "rack", topology::kHostname};
    inventory_.SetFlavor("all", {"t", levels, {}, {}});
    inventory_.SetFlavor("new", {"t", levels, {{"kind", "new"}}, {}});
    const int64_t hosts = dice_.Roll(4, 14);
    for (int64_t i = 0; i < hosts; ++i) inventory_.SetNode(RandomNode(dice_, i));
    if (dice_.Roll(0, 9) == 0) {
      topology::Node node = RandomNode(dice_, 0);
      node.maintenance_planned = true;
      node.maintenance_start = 40;
      inventory_.SetNode(node);
    }
    Fill();
    search_.emplace(inventory_, places_);
  }

  void Run() {
    for (int i = 0; i < 3; ++i) questions_.push_back(RandomRequest(dice_));
    for (int i = 0; i < 14; ++i) {
      WorkloadRequest request = questions_[static_cast<size_t>(dice_.Roll(0, 2))];
      const int64_t factor = dice_.Roll(1, 3);  // others of the same shape
      request.pod_sets.front().count *= request.pod_sets.size() == 1 ? factor : 1;
      Ask(request);
      if (dice_.Roll(0, 5) == 0) StartOne();
    }
    places_.Restore();
    started_.Rollback(0);
    inventory_.CheckInvariants();
  }

  int reserved() const { return static_cast<int>(reserved_.size()); }
  int ruled_out() const { return ruled_out_; }
  int none_up_to() const { return none_up_to_; }

 private:
  struct Running {
    absl::Time end;
    const Booking* booking;
  };
  struct Reserved {
    absl::Time from;
    absl::Time until;
    WorkloadUsage usage;
  };

  static topology::Options RandomOptions(Dice& dice) {
    topology::Options options;
    options.mixed_profile = dice.Roll(0, 2) > 0;
    options.balanced = dice.Roll(0, 3) == 0;
    return options;
  }

  void Fill() {
    for (int64_t i = 0; i < 12; ++i) {
      const WorkloadRequest request = RandomRequest(dice_);
      const auto placement = placer_.Place(request);
      if (!placement.fits()) continue;
      inventory_.SetWorkload(fmt::format("w{}", i), topology::Placer::UsageOf(request, placement));
    }
    for (int64_t i = 0; i < 12; ++i) {
      const Booking* booking = inventory_.FindWorkload(fmt::format("w{}", i));
      if (booking == nullptr) continue;
      const int64_t end = dice_.Roll(0, 12);
      AddRunning(end == 0 ? absl::InfiniteFuture() : At(10 * end), *booking);
    }
  }

  void AddRunning(absl::Time end, const Booking& booking) {
    places_.AddRunning(end, booking);
    running_.push_back({end, &booking});
  }

  // Something else starts now, where there is room.
  void StartOne() {
    places_.Restore();
    const WorkloadRequest request = RandomRequest(dice_);
    const auto placement = placer_.Place(request);
    if (!placement.fits()) return;
    bookings_.push_back(
        std::make_unique<Booking>(Booking::Of(topology::Placer::UsageOf(request, placement))));
    started_.Add(*bookings_.back());
    const absl::Time end = At(10 * dice_.Roll(1, 20));
    AddRunning(end, *bookings_.back());
    search_->AddEnding(end);
  }

  // The placer's answer, on nodes made anew.
  std::optional<WorkloadUsage> Naive(const WorkloadRequest& request, absl::Time from,
                                     absl::Time until, bool reservations) {
    places_.Restore();
    topology::Overlay overlay(inventory_);
    for (const Running& one : running_) {
      if (one.end <= from) overlay.Remove(one.booking->usage());
    }
    for (const Reserved& one : reserved_) {
      if (reservations && one.from < until && one.until > from) overlay.Add(one.usage);
    }
    const auto placement = placer_.Place(request);
    if (!placement.fits()) return std::nullopt;
    return topology::Placer::UsageOf(request, placement);
  }

  void Ask(const WorkloadRequest& request) {
    BackfillSearch::Question& question = search_->Prepare(request);
    const absl::Time not_before = search_->NotBefore(question);
    const absl::Duration bound = absl::Seconds(*request.bound);
    std::vector<absl::Time> times = {At(0)};
    for (const Running& one : running_) times.push_back(one.end);
    for (const Reserved& one : reserved_) times.push_back(one.until);
    std::sort(times.begin(), times.end());
    std::optional<absl::Time> first;
    WorkloadUsage usage;
    absl::Time none_up_to = absl::InfinitePast();
    for (const absl::Time from : times) {
      if (from == absl::InfiniteFuture()) break;
      // As if another one had been looked for at a later time.
      if (dice_.Roll(0, 1) == 0) {
        places_.Show(from + absl::Seconds(dice_.Roll(0, 60)), from + bound);
        none_up_to = std::max(none_up_to, search_->RuledOutUpTo(question, from, from + bound));
      }
      none_up_to_ += from <= none_up_to ? 1 : 0;
      if (from < not_before) CHECK_FALSE(Naive(request, from, from, false));
      const auto expected = Naive(request, from, from + bound, true);
      const bool ruled_out = search_->RuledOut(question, from, from + bound);
      ruled_out_ += ruled_out ? 1 : 0;
      if (ruled_out || from <= none_up_to) CHECK_FALSE(expected);
      const auto taken = search_->Look(question, from, from + bound);
      REQUIRE(taken.has_value() == expected.has_value());
      if (!expected) continue;
      CHECK(Sum(*taken) == Sum(inventory_.Resolve(*expected)));
      if (first) continue;
      first = from;
      usage = *expected;
    }
    const bool ever =
        Naive(request, absl::InfiniteFuture(), absl::InfiniteFuture(), false).has_value();
    CHECK(search_->EverFits(question) == ever);
    if (!first) return;
    auto taken = search_->Look(question, *first, *first + bound);
    REQUIRE(taken.has_value());
    places_.Reserve(*std::move(taken), *first, *first + bound);
    reserved_.push_back({*first, *first + bound, std::move(usage)});
  }

  Dice dice_;
  topology::Inventory inventory_;
  topology::Placer placer_;
  std::vector<std::unique_ptr<Booking>> bookings_;
  topology::Overlay started_;
  BackfillPlaces places_;
  std::optional<BackfillSearch> search_;
  std::vector<WorkloadRequest> questions_;
  std::vector<Running> running_;
  std::vector<Reserved> reserved_;
  int ruled_out_ = 0;
  int none_up_to_ = 0;
};

TEST_CASE("The first places that counting finds are those of the placer, asked at each end") {
  const int64_t seed = topology::FromEnvironment("SLUICE_SEED", 1);
  int reserved = 0;
  int ruled_out = 0;
  int none_up_to = 0;
  for (int64_t i = 0; i < topology::FromEnvironment("SLUICE_TREES", 300); ++i) {
    INFO("SLUICE_SEED=" << seed + i << " SLUICE_TREES=1");
    Trial trial(seed + i);
    trial.Run();
    reserved += trial.reserved();
    ruled_out += trial.ruled_out();
    none_up_to += trial.none_up_to();
  }
  CHECK(reserved > 0);
  CHECK(ruled_out > 0);
  CHECK(none_up_to > 0);
}

}  // namespace
}  // namespace sluice::admission
