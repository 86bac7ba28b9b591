// Which pod goes where: by rank, and greedily where ranks cannot be trusted.
#include "topology/ranks.h"

#include <fmt/format.h>

#include "unit/catch.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

RankedPod Gated(std::optional<int> index, std::optional<int> sub_group = {}) {
  RankedPod pod;
  pod.gated = true;
  if (index.has_value()) pod.index = std::to_string(*index);
  if (sub_group.has_value()) pod.sub_group = std::to_string(*sub_group);
  return pod;
}
RankedPod Running(std::optional<int> index, const std::string& host) {
  RankedPod pod = Gated(index);
  pod.gated = false;
  pod.selector = {host};
  return pod;
}

// "0>h1 2>h2": pod > domain.
std::string Text(const GangPods& gang) {
  const auto places = AssignPods(gang);
  if (!places.ok()) return std::string(places.status().message());
  std::string text;
  for (const PodPlace& place : *places) {
    text += fmt::format("{}{}>{}", text.empty() ? "" : " ", place.pod,
                        gang.assignment.domains[place.domain].values[0]);
  }
  return text;
}

GangPods Gang(const std::string& places, int64_t count, std::vector<RankedPod> pods) {
  GangPods gang;
  gang.assignment = Lab::On(places);
  gang.count = count;
  gang.index_label = true;
  gang.pods = std::move(pods);
  return gang;
}

TEST_CASE("79 ranks follow the domains") {
  CHECK(Text(Gang("h1:2 h2:2", 4, {Gated(3), Gated(0), Gated(2), Gated(1)})) ==
        "0>h2 1>h1 2>h2 3>h1");
}

TEST_CASE("80 jobs of a set come one after the other") {
  GangPods gang =
      Gang("h1:3 h2:3", 6,
           {Gated(0, 1), Gated(1, 1), Gated(2, 1), Gated(0, 0), Gated(1, 0), Gated(2, 0)});
  gang.sub_group_label = true;
  gang.sub_groups = 2;
  CHECK(Text(gang) == "0>h2 1>h2 2>h2 3>h1 4>h1 5>h1");
  // Without a count of jobs, with an index beyond a job: greedy.
  gang.sub_groups = 0;
  CHECK(Text(gang) == "0>h1 1>h1 2>h1 3>h2 4>h2 5>h2");
  gang.sub_groups = 2;
  gang.pods[0] = Gated(3, 0);
  CHECK(Text(gang) == "0>h1 1>h1 2>h1 3>h2 4>h2 5>h2");
}

TEST_CASE("81 workers of a group count from behind the leader") {
  GangPods workers = Gang("h1:1 h2:2", 3, {Gated(3), Gated(2), Gated(1)});
  workers.group_offset = GroupOffset(1, 3, true);
  CHECK(workers.group_offset == 1);
  CHECK(Text(workers) == "0>h2 1>h2 2>h1");
  GangPods leader = Gang("h1:1", 1, {Gated(std::nullopt)});
  leader.index_label = false;
  CHECK(Text(leader) == "0>h1");
  workers.pods[0] = Gated(4);
  CHECK(Text(workers) == "0>h1 1>h2 2>h2");
  // Of two equal pod sets the first counts as the smaller one.
  CHECK(GroupOffset(1, 1, false) == 0);
  CHECK(GroupOffset(1, 1, true) == 1);
  CHECK(GroupOffset(3, 1, false) == 1);
  CHECK(GroupOffset(3, 1, true) == 0);
}

TEST_CASE("82 an offset on the pods") {
  GangPods gang = Gang("h1:1 h2:1", 2, {Gated(2), Gated(1)});
  for (RankedPod& pod : gang.pods) pod.offset = "1";
  CHECK(Text(gang) == "0>h2 1>h1");
  gang.pods[0].offset = "one";
  CHECK(Text(gang) == "pod index offset \"one\" is not an integer");
}

TEST_CASE("83 a running pod that is not where its rank belongs") {
  CHECK(Text(Gang("h1:1 h2:1", 2, {Running(0, "h2"), Gated(1)})) == "1>h1");
  CHECK(Text(Gang("h1:1 h2:1", 2, {Running(0, "h1"), Gated(1)})) == "1>h2");
}

TEST_CASE("84 a replacement of a pod that failed") {
  // The failed pod is not among the listed ones.
  CHECK(Text(Gang("h1:2", 2, {Running(0, "h1"), Gated(1)})) == "1>h1");
}

TEST_CASE("86 a pod without a place stays gated") {
  CHECK(Text(Gang("h1:2 h2:2", 5, {Gated(4), Gated(0), Gated(1), Gated(2), Gated(3)})) ==
        "0>h1 1>h1 2>h2 3>h2");
}

TEST_CASE("old pods on their way out do not spoil the ranks of the new ones") {
  const auto leaving = [](RankedPod pod) {
    pod.deleting = true;
    return pod;
  };
  // Started again elsewhere while the old pods end: "10" before "2" in the order of names.
  std::vector<RankedPod> pods;
  for (const int index : {0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9}) {
    pods.push_back(leaving(Running(index, "old")));
    pods.push_back(Gated(index));
  }
  CHECK(Text(Gang("h1:8 h2:3", 11, pods)) ==
        "1>h1 3>h1 5>h2 7>h1 9>h1 11>h1 13>h1 15>h1 17>h1 19>h2 21>h2");
  // On the same host they need their room until they are gone.
  CHECK(Text(Gang("h1:1 h2:1", 2, {leaving(Running(0, "h1")), Gated(1), Gated(0)})) == "1>h2");
  CHECK(Text(Gang("h1:2 h2:1", 3,
                  {leaving(Running(0, "h1")), Running(1, "h1"), Gated(0), Gated(2)})) == "3>h2");
  // One that nobody has replaced yet is none of the new ones, wherever it runs.
  CHECK(Text(Gang("h1:1 h2:1", 2, {leaving(Running(0, "h2")), Gated(1)})) == "");
  CHECK(Text(Gang("h1:1 h2:1", 2, {leaving(Running(0, "old")), Gated(1)})) == "1>h2");
  // A gate of one that goes stays, also where ranks are not known.
  CHECK(Text(Gang("h1:1 h2:1", 2, {leaving(Gated(0)), Gated(1)})) == "1>h2");
  CHECK(Text(Gang("h1:1 h2:1", 2, {leaving(Gated(std::nullopt)), Gated(std::nullopt)})) == "1>h1");
}

TEST_CASE("ranks that cannot be trusted fall back to greedy") {
  const std::string greedy = "0>h1 1>h2";
  CHECK(Text(Gang("h1:1 h2:1", 2, {Gated(1), Gated(1)})) == greedy);
  CHECK(Text(Gang("h1:1 h2:1", 2, {Gated(1), Gated(2)})) == greedy);
  CHECK(Text(Gang("h1:1 h2:1", 2, {Gated(1), Gated(-1)})) == greedy);
  CHECK(Text(Gang("h1:1 h2:1", 2, {Gated(1), Gated(std::nullopt)})) == greedy);
  GangPods sign = Gang("h1:1 h2:1", 2, {Gated(1), Gated(0)});
  sign.pods[1].index = "-0";
  CHECK(Text(sign) == greedy);
  sign.pods[1].index = "0";
  CHECK(Text(sign) == "0>h2 1>h1");
}

}  // namespace
}  // namespace sluice::topology
