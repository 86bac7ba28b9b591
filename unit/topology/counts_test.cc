// What searches keep between each other: after random changes of nodes, foreign pods, workloads and
// overlays the kept counts equal new ones, and answers those of an inventory that keeps nothing.
// SLUICE_SEED picks the changes, SLUICE_TREES how many runs.
#include "topology/counts.h"

#include <fmt/format.h>

#include "topology/journal.h"
#include "unit/catch.h"
#include "unit/topology/dice.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

constexpr int64_t kHosts = 12;

std::string HostAt(int64_t index) { return fmt::format("h{:02}", index); }

Node RandomHost(Dice& dice, int64_t index) {
  Node node = Lab::Host(HostAt(index),
                        {{"block", fmt::format("b{}", index % 2)},
                         {"rack", fmt::format("r{}", dice.Roll(0, 19) == 0 ? 9 : index % 4)}},
                        {{kGpu, dice.Roll(2, 8)}, {kCpu, dice.Roll(0, 4) * 1000}});
  node.ready = dice.Roll(0, 9) > 0;
  if (dice.Roll(0, 9) == 0) node.taints.push_back({"spot", "", "NoSchedule"});
  if (dice.Roll(0, 29) == 0) node.maintenance_planned = true;
  return node;
}

WorkloadUsage RandomUsage(Dice& dice) {
  PodSetUsage usage = Lab::Usage("", {{kGpu, dice.Roll(0, 2)}, {kCpu, dice.Roll(0, 1) * 500}});
  for (int64_t i = dice.Roll(1, 3); i > 0; --i) {
    usage.assignment.domains.push_back({{HostAt(dice.Roll(0, kHosts - 1))}, dice.Roll(1, 3)});
  }
  return {usage};
}

// A few shapes, so that they come again.
WorkloadRequest RandomRequest(Dice& dice) {
  Ask ask;
  ask.count = 2 * dice.Roll(1, 6);
  ask.per_pod = {{kGpu, 1}, {kCpu, dice.Roll(0, 1) * 500}};
  const int64_t kind = dice.Roll(0, 2);
  ask.required = kind == 0 ? "rack" : "";
  ask.preferred = kind == 1 ? "rack" : "";
  ask.unconstrained = kind == 2;
  if (kind != 2 && dice.Roll(0, 2) == 0) ask.layers = {{"rack", 2}, {kHostname, 1}};
  if (kind != 2 && dice.Roll(0, 2) == 0) ask.layers = {{kHostname, 2}};
  if (dice.Roll(0, 2) == 0) ask.leader = Requests{{kGpu, dice.Roll(0, 2)}};
  if (dice.Roll(0, 5) == 0) ask.spreading = Spreading::kSpread;
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets(ask);
  if (dice.Roll(0, 3) == 0) {
    for (PodSetRequest& one : request.pod_sets) {
      one.filter.tolerations = {{"spot", "Exists", "", ""}};
    }
  }
  if (dice.Roll(0, 3) == 0) {  // another pod set after it, in what is left
    PodSetRequest second = request.pod_sets[0];
    second.name = "second";
    second.topology.group.clear();
    request.pod_sets.push_back(second);
  }
  request.simulate_empty = dice.Roll(0, 3) == 0;
  return request;
}

// All that an inventory was told.
struct Told {
  absl::btree_map<std::string, Node> nodes;
  absl::btree_map<std::string, std::pair<NodeName, Requests>> pods;
  absl::btree_map<std::string, WorkloadUsage> workloads;
};

void Start(Inventory& inventory) {
  Flavor flavor;
  flavor.topology = "default";
  flavor.levels = {"block", "rack", kHostname};
  flavor.node_labels = {{"pool", "tas"}};
  inventory.SetFlavor("tas", flavor);
}

void ChangeOne(Dice& dice, Inventory& inventory, Told& told) {
  const std::string key = fmt::format("k{}", dice.Roll(0, 7));
  switch (dice.Roll(0, 7)) {
    case 0: {
      const Node node = RandomHost(dice, dice.Roll(0, kHosts - 1));
      inventory.SetNode(node);
      told.nodes[node.name] = node;
      return;
    }
    case 1: {
      const std::string name = HostAt(dice.Roll(0, kHosts - 1));
      if (dice.Roll(0, 3) > 0) return;
      inventory.RemoveNode(name);
      told.nodes.erase(name);
      return;
    }
    case 2:
    case 3: {
      const std::string node = HostAt(dice.Roll(0, kHosts - 1));
      const Requests per_pod = {{kGpu, dice.Roll(0, 2)}};
      inventory.SetForeignPod(key, node, per_pod);
      told.pods[key] = {node, per_pod};
      return;
    }
    case 4:
      inventory.RemoveForeignPod(key);
      told.pods.erase(key);
      return;
    case 5:
      inventory.RemoveWorkload(key);
      told.workloads.erase(key);
      return;
    default: {
      const WorkloadUsage usage = RandomUsage(dice);
      inventory.SetWorkload(key, usage);
      told.workloads[key] = usage;
    }
  }
}

// The answer of an inventory that was never asked before, with `gone` taken out and `more` booked.
WorkloadPlacement AnswerAnew(const Options& options, const Told& told,
                             const WorkloadRequest& request,
                             const std::vector<WorkloadUsage>& gone = {},
                             const std::vector<WorkloadUsage>& more = {}) {
  Inventory inventory(options);
  Start(inventory);
  for (const auto& [name, node] : told.nodes) inventory.SetNode(node);
  for (const auto& [key, pod] : told.pods) inventory.SetForeignPod(key, pod.first, pod.second);
  for (const auto& [key, usage] : told.workloads) inventory.SetWorkload(key, usage);
  Overlay overlay(inventory);
  for (const WorkloadUsage& usage : gone) overlay.Remove(usage);
  for (const WorkloadUsage& usage : more) overlay.Add(usage);
  return Placer(inventory).Place(request);
}

struct Run {
  Run(const Options& with, Dice& random) : options(with), dice(random) {}
  Options options;
  Dice& dice;
  Inventory inventory{options};
  Placer placer{inventory};
  Told told;

  void Ask(const std::vector<WorkloadUsage>& gone = {},
           const std::vector<WorkloadUsage>& more = {}) {
    const WorkloadRequest request = RandomRequest(dice);
    const WorkloadPlacement answer = placer.Place(request);
    const WorkloadPlacement anew = AnswerAnew(options, told, request, gone, more);
    INFO(Lab::Text(answer) << "\n" << Lab::Text(anew));
    REQUIRE(answer == anew);
    REQUIRE(placer.Fits(request) == answer.fits());
  }

  // Takes workloads out and books others, in steps, and undoes all of it.
  void AskInOverlay() {
    Overlay overlay(inventory);
    std::vector<WorkloadUsage> gone;
    std::vector<WorkloadUsage> more;
    for (const auto& [key, usage] : told.workloads) {
      if (dice.Roll(0, 1) == 0) continue;
      overlay.Remove(*inventory.FindWorkload(key));
      gone.push_back(usage);
      if (dice.Roll(0, 2) == 0) Ask(gone, more);
    }
    const size_t mark = overlay.Mark();
    overlay.Add(more.emplace_back(RandomUsage(dice)));
    Ask(gone, more);
    overlay.Rollback(mark);
    Ask(gone, {});
  }
};

TEST_CASE("Random changes: kept counts equal new ones") {
  const int64_t seed = FromEnvironment("SLUICE_SEED", 1);
  const int64_t runs = FromEnvironment("SLUICE_TREES", 2000) / 40;
  size_t shapes = 0;
  for (int64_t i = 0; i < runs; ++i) {
    INFO("run " << i << " of seed " << seed);
    Dice dice(static_cast<uint64_t>(seed * 6101 + i));
    Options options;
    options.balanced = dice.Roll(0, 1) == 0;
    options.mixed_profile = dice.Roll(0, 3) > 0;
    options.exclude_maintenance = dice.Roll(0, 1) == 0;
    Run run(options, dice);
    Start(run.inventory);
    for (int64_t host = 0; host < kHosts; ++host) {
      const Node node = RandomHost(dice, host);
      run.inventory.SetNode(node);
      run.told.nodes[node.name] = node;
    }
    for (int change = 0; change < 120; ++change) {
      ChangeOne(dice, run.inventory, run.told);
      const int64_t next = dice.Roll(0, 9);
      if (next < 3) run.Ask();
      if (next == 3) run.AskInOverlay();
      if (next == 4) run.inventory.CheckInvariants();
    }
    run.inventory.CheckInvariants();
    const CountsCache& kept = run.inventory.FindTree("tas")->counts();
    REQUIRE(kept.size() <= CountsCache::kMostShapes);
    shapes += kept.size();
  }
  // None only where maintenance was planned all the time.
  CHECK(shapes > static_cast<size_t>(runs));
}

TEST_CASE("Few shapes are kept, and equal pods are one shape whatever else they ask") {
  Lab lab("b1: r1: h1=4 h2=4 r2: h3=8; b2: r3: h4=6");
  const CountsCache& kept = lab.inventory().FindTree("tas")->counts();
  for (const int64_t count : {1, 2, 3}) {
    lab.Place(Ask{.count = count, .required = "rack"});
    lab.Place(Ask{.count = count, .preferred = "block"});
    lab.inventory().SetWorkload("w", {Lab::Usage(fmt::format("h3:{}", count))});
  }
  CHECK(kept.size() == 1);
  for (int64_t cpu = 0; cpu < 100; ++cpu) {
    lab.Place(Ask{.count = 2, .required = "rack", .per_pod = {{kGpu, 1}, {kCpu, cpu}}});
  }
  CHECK(kept.size() == CountsCache::kMostShapes);
  lab.inventory().SetWorkload("w", {Lab::Usage("h3:6")});
  CHECK(lab.Place(Ask{.count = 7, .required = "rack"}) == "h1:4 h2:3");
  lab.inventory().RemoveWorkload("w");
  CHECK(lab.Place(Ask{.count = 7, .required = "rack"}) == "h1:4 h2:3");
  lab.inventory().SetWorkload("w", {Lab::Usage("h1:1")});
  CHECK(lab.Place(Ask{.count = 8, .required = "rack"}) == "h3:8");
  lab.inventory().CheckInvariants();
}

TEST_CASE("A journal tells what came since, and what it forgot") {
  Journal journal;
  const auto since = [&](uint64_t from) {
    std::vector<int32_t> slots;
    journal.Since(from, [&](int32_t slot) { slots.push_back(slot); });
    return slots;
  };
  journal.Note(3);
  journal.Note(3);  // one note: nobody has read it yet
  journal.Note(5);
  REQUIRE(journal.end() == 2);
  CHECK(since(0) == std::vector<int32_t>{3, 5});
  journal.Note(5);  // changed again after it was read
  CHECK(since(2) == std::vector<int32_t>{5});
  CHECK(since(0) == std::vector<int32_t>{3, 5});
  for (int32_t i = 0; i < static_cast<int32_t>(Journal::kKept); ++i) journal.Note(i);
  CHECK_FALSE(journal.Knows(2));
  REQUIRE(journal.Knows(3));
  CHECK(since(3).front() == 0);
  CHECK(since(3).back() == static_cast<int32_t>(Journal::kKept) - 1);
}

}  // namespace
}  // namespace sluice::topology
