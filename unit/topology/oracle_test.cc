// Random small trees against a naive model that tries every placement: what fits is placed, what is
// placed keeps the rules, and no more domains are used than needed. SLUICE_SEED picks the trees,
// SLUICE_TREES how many.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "topology/recheck.h"
#include "unit/catch.h"
#include "unit/topology/dice.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

struct HostModel {
  std::vector<std::string> values;  // block, rack, host
  int64_t room = 0;
};

struct Question {
  int level = 0;
  bool required = false;
  bool unconstrained = false;
  int64_t count = 0;
  std::vector<std::pair<int, int64_t>> layers;  // level, size
  std::optional<int64_t> leader;
  Options options;
  Spreading spreading = Spreading::kPack;
};

const std::vector<std::string> kLevels = {"block", "rack", kHostname};

std::string Key(const HostModel& host, int level) {
  std::string key;
  for (int i = 0; i <= level; ++i) key += host.values[static_cast<size_t>(i)] + ",";
  return key;
}

// Whether pods on the hosts keep all rules that bind a placement.
bool Valid(const std::vector<HostModel>& hosts, const std::vector<int64_t>& pods, int leader,
           const Question& question, bool one_domain) {
  std::set<std::string> used;
  std::vector<std::map<std::string, int64_t>> sums(3);
  for (size_t i = 0; i < hosts.size(); ++i) {
    const int64_t extra = leader == static_cast<int>(i) ? *question.leader : 0;
    if (pods[i] + extra > hosts[i].room) return false;
    if (pods[i] > 0 || leader == static_cast<int>(i)) used.insert(Key(hosts[i], question.level));
    for (int level = 0; level < 3; ++level) {
      sums[static_cast<size_t>(level)][Key(hosts[i], level)] += pods[i];
    }
  }
  if (one_domain && used.size() > 1) return false;
  for (const auto& [level, size] : question.layers) {
    for (const auto& [key, sum] : sums[static_cast<size_t>(level)]) {
      if (sum % size != 0) return false;
    }
  }
  return true;
}

// Tries every placement.
bool Fits(const std::vector<HostModel>& hosts, const Question& question, bool one_domain) {
  std::vector<int64_t> pods(hosts.size(), 0);
  const std::function<bool(size_t, int64_t)> place = [&](size_t host, int64_t left) {
    if (host == hosts.size()) {
      if (left > 0) return false;
      if (!question.leader.has_value()) return Valid(hosts, pods, -1, question, one_domain);
      for (int leader = 0; leader < static_cast<int>(hosts.size()); ++leader) {
        if (Valid(hosts, pods, leader, question, one_domain)) return true;
      }
      return false;
    }
    for (int64_t here = 0; here <= std::min(left, hosts[host].room); ++here) {
      pods[host] = here;
      if (place(host + 1, left - here)) return true;
    }
    pods[host] = 0;
    return false;
  };
  return place(0, question.count);
}

std::vector<HostModel> RandomHosts(Dice& dice) {
  std::vector<HostModel> hosts;
  const int64_t count = dice.Roll(1, 5);
  for (int64_t i = 0; i < count; ++i) {
    hosts.push_back({{fmt::format("b{}", dice.Roll(1, 2)), fmt::format("r{}", dice.Roll(1, 2)),
                      fmt::format("h{}", i)},
                     dice.Roll(0, 4)});
  }
  std::sort(hosts.begin(), hosts.end(),
            [](const HostModel& a, const HostModel& b) { return a.values < b.values; });
  return hosts;
}

Question RandomQuestion(Dice& dice) {
  Question question;
  question.level = static_cast<int>(dice.Roll(0, 2));
  const int64_t kind = dice.Roll(0, 2);
  question.required = kind == 0;
  question.unconstrained = kind == 2;
  if (question.unconstrained) question.level = 2;
  if (dice.Roll(0, 1) == 1) {
    const int64_t level = dice.Roll(question.level, 2);
    const int64_t size = dice.Roll(1, 4);
    question.layers.emplace_back(static_cast<int>(level), size);
    if (level < 2 && size % 2 == 0 && dice.Roll(0, 1) == 1) {
      question.layers.emplace_back(static_cast<int>(dice.Roll(level + 1, 2)), size / 2);
    }
  }
  const int64_t unit = question.layers.empty() ? 1 : question.layers[0].second;
  question.count = unit * dice.Roll(1, 10 / unit);
  if (dice.Roll(0, 3) == 0) question.leader = dice.Roll(0, 2);
  question.options.mixed_profile = dice.Roll(0, 3) > 0;
  question.options.balanced = dice.Roll(0, 3) == 0;
  if (dice.Roll(0, 4) == 0) question.spreading = Spreading::kSpread;
  return question;
}

Ask AskOf(const Question& question) {
  Ask ask;
  ask.count = question.count;
  const std::string& level = kLevels[static_cast<size_t>(question.level)];
  if (question.required) {
    ask.required = level;
  } else if (question.unconstrained) {
    ask.unconstrained = true;
  } else {
    ask.preferred = level;
  }
  for (const auto& [at, size] : question.layers) {
    ask.layers.push_back({kLevels[static_cast<size_t>(at)], size});
  }
  if (question.leader.has_value()) ask.leader = Requests{{kGpu, *question.leader}};
  ask.spreading = question.spreading;
  return ask;
}

std::string Describe(const std::vector<HostModel>& hosts, const Question& question) {
  std::string text;
  for (const HostModel& host : hosts) {
    text += fmt::format("{}/{}/{}={} ", host.values[0], host.values[1], host.values[2], host.room);
  }
  text += fmt::format(
      "level {} {} count {}", question.level,
      question.required ? "required" : (question.unconstrained ? "unconstrained" : "preferred"),
      question.count);
  for (const auto& [level, size] : question.layers) text += fmt::format(" {}x{}", level, size);
  if (question.leader.has_value()) text += fmt::format(" leader {}", *question.leader);
  return text + fmt::format(" mixed {} balanced {} spread {}", question.options.mixed_profile,
                            question.options.balanced, question.spreading == Spreading::kSpread);
}

Lab LabOf(const std::vector<HostModel>& hosts, const Options& options) {
  Lab lab("", kLevels, options);
  for (const HostModel& host : hosts) {
    lab.inventory().SetNode(Lab::Host(host.values[2],
                                      {{"block", host.values[0]}, {"rack", host.values[1]}},
                                      {{kGpu, host.room}}));
  }
  return lab;
}

// The hosts of the answer, as the model counts them; fails the test when ranks are not in order.
std::vector<int64_t> PodsOn(const std::vector<HostModel>& hosts, const Assignment& assignment) {
  std::vector<int64_t> pods(hosts.size(), 0);
  size_t last = 0;
  for (const AssignedDomain& domain : assignment.domains) {
    size_t at = 0;
    while (at < hosts.size() && hosts[at].values[2] != domain.values[0]) ++at;
    REQUIRE(at < hosts.size());
    // Hosts are sorted by all their values: in this order ranks are neighbours at every level.
    REQUIRE((&domain == assignment.domains.data() || at > last));
    REQUIRE(domain.count > 0);
    last = at;
    pods[at] = domain.count;
  }
  return pods;
}

int64_t DomainsUsed(const std::vector<HostModel>& hosts, const std::vector<int64_t>& pods,
                    int level) {
  std::set<std::string> used;
  for (size_t i = 0; i < hosts.size(); ++i) {
    if (pods[i] > 0) used.insert(Key(hosts[i], level));
  }
  return static_cast<int64_t>(used.size());
}

// The lowest level at or above the asked one at which one domain takes everything; -1 without one.
int LowestLevel(const std::vector<HostModel>& hosts, Question question) {
  for (; question.level >= 0; --question.level) {
    if (Fits(hosts, question, true)) return question.level;
  }
  return -1;
}

void CheckOne(const std::vector<HostModel>& hosts, const Question& question) {
  INFO(Describe(hosts, question));
  const Lab lab = LabOf(hosts, question.options);
  Placer placer(lab.inventory());
  WorkloadRequest request;
  request.pod_sets = Lab::PodSets(AskOf(question));
  const WorkloadPlacement placement = placer.Place(request);
  const bool fits = Fits(hosts, question, question.required);
  REQUIRE(placement.fits() == fits);
  CHECK(placer.Place(request) == placement);
  if (!fits) return;
  const std::vector<int64_t> pods = PodsOn(hosts, *placement.pod_sets[0].assignment);
  int leader = -1;
  if (question.leader.has_value()) {
    const std::string name = placement.pod_sets[1].assignment->domains.at(0).values[0];
    for (size_t i = 0; i < hosts.size(); ++i) {
      if (hosts[i].values[2] == name) leader = static_cast<int>(i);
    }
  }
  int64_t placed = 0;
  for (const int64_t here : pods) placed += here;
  CHECK(placed == question.count);
  CHECK(Valid(hosts, pods, leader, question, question.required));
  // What was just given holds when it is looked at again.
  CHECK(FindLost(*lab.inventory().FindTree("tas"), request.pod_sets[0],
                 *placement.pod_sets[0].assignment, {}, true) == std::nullopt);
  if (question.unconstrained || question.leader.has_value()) return;
  // One domain where one is enough.
  const int lowest = LowestLevel(hosts, question);
  if (lowest >= 0 && !question.options.balanced) CHECK(DomainsUsed(hosts, pods, lowest) == 1);
}

TEST_CASE("Random trees against every placement there is") {
  const int64_t seed = FromEnvironment("SLUICE_SEED", 1);
  const int64_t trees = FromEnvironment("SLUICE_TREES", 2000);
  for (int64_t i = 0; i < trees; ++i) {
    Dice dice(static_cast<uint64_t>(seed * 1000003 + i));
    const std::vector<HostModel> hosts = RandomHosts(dice);
    INFO("tree " << i << " of seed " << seed);
    for (int ask = 0; ask < 3; ++ask) CheckOne(hosts, RandomQuestion(dice));
  }
}

// ---- changes ----

// What the inventory should hold, set again from scratch in another order.
struct Wanted {
  std::map<std::string, Node> nodes;
  std::map<std::string, std::pair<std::string, Requests>> pods;
  std::map<std::string, WorkloadUsage> workloads;
};

Flavor FlavorOf(const std::vector<std::string>& levels) {
  return {"default", levels, {{"pool", "tas"}}, {}};
}

void Build(Inventory& inventory, const Wanted& wanted, bool backwards) {
  if (backwards) {
    for (auto at = wanted.workloads.rbegin(); at != wanted.workloads.rend(); ++at) {
      inventory.SetWorkload(at->first, at->second);
    }
    for (const auto& [key, pod] : wanted.pods) inventory.SetForeignPod(key, pod.first, pod.second);
  }
  for (auto at = wanted.nodes.rbegin(); at != wanted.nodes.rend(); ++at) {
    inventory.SetNode(at->second);
  }
  inventory.SetFlavor("tas", FlavorOf(kLevels));
  inventory.SetFlavor("racks", FlavorOf({"block", "rack"}));
  if (!backwards) {
    for (const auto& [key, pod] : wanted.pods) inventory.SetForeignPod(key, pod.first, pod.second);
    for (const auto& [key, usage] : wanted.workloads) inventory.SetWorkload(key, usage);
  }
}

Node RandomNode(Dice& dice) {
  const std::string name = fmt::format("n{}", dice.Roll(0, 9));
  Node node = Lab::Host(name,
                        {{"block", fmt::format("b{}", dice.Roll(0, 2))},
                         {"rack", fmt::format("r{}", dice.Roll(0, 2))}},
                        {{kGpu, dice.Roll(0, 8)}});
  if (dice.Roll(0, 5) == 0) node.labels.erase("rack");
  if (dice.Roll(0, 5) == 0) node.labels["pool"] = "other";
  if (dice.Roll(0, 8) == 0) node.labels[kHostname] = "n0";
  node.ready = dice.Roll(0, 5) > 0;
  node.unschedulable = dice.Roll(0, 8) == 0;
  node.leaving = dice.Roll(0, 8) == 0;
  if (dice.Roll(0, 5) == 0) node.taints = {{"t", "", "NoSchedule"}};
  return node;
}

WorkloadUsage RandomUsage(Dice& dice) {
  if (dice.Roll(0, 1) == 0) {
    return {Lab::Usage(fmt::format("n{}:{} n{}:{}", dice.Roll(0, 9), dice.Roll(1, 3),
                                   dice.Roll(0, 9), dice.Roll(1, 3)))};
  }
  PodSetUsage usage{"racks", {{kGpu, 1}}, {}};
  usage.assignment.levels = {"block", "rack"};
  usage.assignment.domains = {
      {{fmt::format("b{}", dice.Roll(0, 2)), fmt::format("r{}", dice.Roll(0, 2))}, 2}};
  return {usage};
}

void ChangeOne(Dice& dice, Inventory& inventory, Wanted& wanted) {
  const std::string key = fmt::format("k{}", dice.Roll(0, 5));
  switch (dice.Roll(0, 5)) {
    case 0:
    case 1: {
      const Node node = RandomNode(dice);
      inventory.SetNode(node);
      wanted.nodes[node.name] = node;
      return;
    }
    case 2: {
      const std::string name = fmt::format("n{}", dice.Roll(0, 9));
      inventory.RemoveNode(name);
      wanted.nodes.erase(name);
      return;
    }
    case 3: {
      const std::string node = fmt::format("n{}", dice.Roll(0, 9));
      const Requests per_pod = {{kGpu, dice.Roll(0, 2)}};
      inventory.SetForeignPod(key, node, per_pod);
      wanted.pods[key] = {node, per_pod};
      return;
    }
    case 4: {
      const WorkloadUsage usage = RandomUsage(dice);
      inventory.SetWorkload(key, usage);
      wanted.workloads[key] = usage;
      return;
    }
    default:
      inventory.RemoveForeignPod(key);
      wanted.pods.erase(key);
      inventory.RemoveWorkload(key);
      wanted.workloads.erase(key);
  }
}

std::vector<std::string> Answers(const Inventory& inventory) {
  std::vector<std::string> answers;
  Placer placer(inventory);
  for (const FlavorName flavor : {"tas", "racks"}) {
    for (const int64_t count : {1, 3, 6, 12}) {
      for (const Ask& ask :
           {Ask{.count = count, .required = "rack"}, Ask{.count = count, .preferred = "rack"},
            Ask{.count = count, .unconstrained = true},
            Ask{.count = count, .layers = {{"rack", 3}}}}) {
        WorkloadRequest request;
        request.pod_sets = Lab::PodSets(ask);
        request.pod_sets[0].flavor = flavor;
        answers.push_back(Lab::Text(placer.Place(request)));
      }
    }
  }
  return answers;
}

TEST_CASE("Random changes lead where building from scratch leads, and overlays leave no trace") {
  const int64_t seed = FromEnvironment("SLUICE_SEED", 1);
  const int64_t runs = FromEnvironment("SLUICE_TREES", 2000) / 20;
  for (int64_t i = 0; i < runs; ++i) {
    INFO("run " << i << " of seed " << seed);
    Dice dice(static_cast<uint64_t>(seed * 7919 + i));
    Options options;
    options.overlapping_flavors = dice.Roll(0, 1) == 0;
    Inventory inventory(options);
    inventory.SetFlavor("tas", FlavorOf(kLevels));
    inventory.SetFlavor("racks", FlavorOf({"block", "rack"}));
    Wanted wanted;
    for (int change = 0; change < 60; ++change) {
      ChangeOne(dice, inventory, wanted);
      if (dice.Roll(0, 9) == 0) Answers(inventory);  // so that something is there to go stale
      if (dice.Roll(0, 19) == 0) {
        inventory.RemoveFlavor("tas");
        inventory.SetFlavor("tas", FlavorOf(kLevels));
      }
    }
    inventory.CheckInvariants();
    const std::vector<std::string> answers = Answers(inventory);
    for (const bool backwards : {false, true}) {
      Inventory rebuilt(options);
      Build(rebuilt, wanted, backwards);
      REQUIRE(Answers(rebuilt) == answers);
    }
    {
      Overlay overlay(inventory);
      for (const auto& [key, usage] : wanted.workloads) {
        if (dice.Roll(0, 1) == 0) overlay.Remove(usage);
      }
      const size_t mark = overlay.Mark();
      const std::vector<std::string> between = Answers(inventory);
      for (int change = 0; change < 5; ++change) overlay.Add(RandomUsage(dice));
      overlay.Rollback(mark);
      REQUIRE(Answers(inventory) == between);
    }
    inventory.CheckInvariants();
    REQUIRE(Answers(inventory) == answers);
  }
}

}  // namespace
}  // namespace sluice::topology
