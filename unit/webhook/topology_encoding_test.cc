#include "queueing/topology_encoding.h"

#include <fmt/format.h>

#include <random>

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

using queueing::EncodeTopologyAssignment;
using queueing::ExpandTopologyAssignment;
using queueing::kMaxTopologySlices;
using queueing::TopologyAssignmentJson;
using queueing::TopologyDomain;

const std::string kHost = "kubernetes.io/hostname";

std::vector<TopologyDomain> Hosts(const std::vector<std::string>& names, int32_t count) {
  std::vector<TopologyDomain> domains;
  for (const std::string& name : names) domains.push_back({{name}, count});
  return domains;
}

std::vector<std::string> Pool(const std::string& prefix, int hosts) {
  std::vector<std::string> names;
  for (int i = 0; i < hosts; ++i) names.push_back(fmt::format("{}{:04}", prefix, i));
  return names;
}

std::vector<std::string> Joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

api::Json Encoded(const std::vector<std::string>& levels,
                  const std::vector<TopologyDomain>& domains, bool by_prefix) {
  return TopologyAssignmentJson(EncodeTopologyAssignment(levels, domains, by_prefix));
}

TEST_CASE("one level of a compact slice") {
  struct Row {
    std::string name;
    std::vector<std::string> values;
    std::string json;
  };
  const Row row = GENERATE(values<Row>({
      {"single value", {"a"}, "{'universal': 'a'}"},
      {"equal values", {"a", "a"}, "{'universal': 'a'}"},
      {"prefix", {"rack-1", "rack-2"}, "{'individual': {'prefix': 'rack-', 'roots': ['1', '2']}}"},
      {"prefix and suffix",
       {"n-1-x", "n-22-x"},
       "{'individual': {'prefix': 'n-', 'suffix': '-x', 'roots': ['1', '22']}}"},
      {"prefix and suffix that overlap",
       {"ababa", "aba"},
       "{'individual': {'suffix': 'aba', 'roots': ['ab', '']}}"},
      {"one letter", {"aa", "a"}, "{'individual': {'suffix': 'a', 'roots': ['a', '']}}"},
      {"nothing in common", {"x", "y"}, "{'individual': {'roots': ['x', 'y']}}"},
      {"characters stay whole",
       {"\xC3\xA4", "\xC3\xB6"},
       "{'individual': {'roots': ['\xC3\xA4', '\xC3\xB6']}}"},
      {"ends of characters stay whole",
       {"\xC3\xA4", "\xC4\xA4"},
       "{'individual': {'roots': ['\xC3\xA4', '\xC4\xA4']}}"},
  }));
  DYNAMIC_SECTION(row.name) {
    const api::Json json = Encoded({"a"}, Hosts(row.values, 1), true);
    REQUIRE(json.Find("slices")->AsArray().size() == 1);
    CHECK(*json.Find("slices")->AsArray()[0].Find("valuesPerLevel") == J("[" + row.json + "]"));
  }
}

TEST_CASE("an assignment without domains has no slices") {
  CHECK(Encoded({"a"}, {}, true) == J("{'levels': ['a']}"));
  CHECK(Encoded({"a"}, {}, false) == J("{'levels': ['a']}"));
}

TEST_CASE("pod counts") {
  CHECK(Encoded({"a"}, {{{"x"}, 1}, {{"y"}, 2}}, true) ==
        J("{'levels': ['a'], 'slices': [{'domainCount': 2, 'valuesPerLevel': [{'individual': "
          "{'roots': ['x', 'y']}}], 'podCounts': {'individual': [1, 2]}}]}"));
}

TEST_CASE("host names of pools that are cheaper as one slice") {
  const auto domains = Hosts(Joined(Pool("gke-pool-a-7f3c-", 6), Pool("gke-pool-b-91de-", 6)), 1);
  const api::Json json = Encoded({kHost}, domains, true);
  REQUIRE(json.Find("slices")->AsArray().size() == 1);
  const api::Json& slice = json.Find("slices")->AsArray()[0];
  CHECK(slice.Find("valuesPerLevel")->AsArray()[0].GetString("individual", "prefix") ==
        "gke-pool-");
  CHECK(json.Text().size() == 330);
}

TEST_CASE("host names of pools that are cheaper as two slices") {
  const auto domains = Hosts(Joined(Pool("gke-pool-a-7f3c-", 8), Pool("gke-pool-b-91de-", 8)), 1);
  const api::Json json = Encoded({kHost}, domains, true);
  CHECK(json.Text().size() == 358);
  CHECK(json ==
        J("{'levels': ['kubernetes.io/hostname'], 'slices': [{'domainCount': 8, 'valuesPerLevel': "
          "[{'individual': {'prefix': 'gke-pool-a-7f3c-000', 'roots': ['0', '1', '2', '3', '4', "
          "'5', '6', '7']}}], 'podCounts': {'universal': 1}}, {'domainCount': 8, "
          "'valuesPerLevel': [{'individual': {'prefix': 'gke-pool-b-91de-000', 'roots': ['0', "
          "'1', '2', '3', '4', '5', '6', '7']}}], 'podCounts': {'universal': 1}}]}"));
  CHECK(Encoded({kHost}, domains, false).Text().size() == 386);
}

TEST_CASE("three hosts in two pools") {
  const auto domains = Hosts({"pool-a-node-0", "pool-a-node-1", "pool-b-node-0"}, 2);
  const api::Json json = Encoded({kHost}, domains, true);
  CHECK(json.Text().size() == 190);
  CHECK(json == J("{'levels': ['kubernetes.io/hostname'], 'slices': [{'domainCount': 3, "
                  "'valuesPerLevel': [{'individual': {'prefix': 'pool-', 'roots': ['a-node-0', "
                  "'a-node-1', 'b-node-0']}}], 'podCounts': {'universal': 2}}]}"));
}

TEST_CASE("a level that is not the host name is one slice") {
  const auto domains = Hosts(Joined(Pool("gke-pool-a-7f3c-", 8), Pool("gke-pool-b-91de-", 8)), 1);
  CHECK(Encoded({"rack"}, domains, true).Find("slices")->AsArray().size() == 1);
}

TEST_CASE("no more than 1000 slices: pools are joined by shorter prefixes") {
  // 1200 pools of two hosts under one common start.
  std::vector<std::string> names;
  for (int pool = 0; pool < 1200; ++pool) {
    for (int host = 0; host < 2; ++host) {
      names.push_back(fmt::format("cluster-{:04}abcdefghijklmnopqrstuvwxyz-{}", pool, host));
    }
  }
  const auto domains = Hosts(names, 1);
  const api::TopologyAssignment assignment = EncodeTopologyAssignment({kHost}, domains, true);
  CHECK(assignment.slices.size() == 1);
  const auto expanded = ExpandTopologyAssignment(assignment);
  REQUIRE(expanded.ok());
  CHECK(*expanded == domains);
}

TEST_CASE("very many hosts are cut into slices of at most 100000") {
  std::vector<std::string> names;
  for (int i = 0; i < 100001; ++i) names.push_back(fmt::format("n{}", i));
  const auto domains = Hosts(names, 1);
  const api::TopologyAssignment assignment = EncodeTopologyAssignment({kHost}, domains, true);
  REQUIRE(assignment.slices.size() == 2);
  CHECK(assignment.slices[0].domain_count == 100000);
  CHECK(assignment.slices[1].domain_count == 1);
  const api::TopologyAssignment single = EncodeTopologyAssignment({kHost}, domains, false);
  CHECK(single.slices.size() == 1);
}

TEST_CASE("expanding follows the order of slices and of domains in them") {
  api::TopologyAssignment assignment;
  assignment.levels = {"a", "b"};
  assignment.slices = {
      {2, {{"a1", "", "", {}}, {std::nullopt, "b", "", {"1", "2"}}}, {std::nullopt, {10, 20}}},
      {2, {{"a2", "", "", {}}, {std::nullopt, "", "-in-a2", {"first", "second"}}}, {50, {}}}};
  const auto domains = ExpandTopologyAssignment(assignment);
  REQUIRE(domains.ok());
  CHECK(*domains == std::vector<TopologyDomain>{{{"a1", "b1"}, 10},
                                                {{"a1", "b2"}, 20},
                                                {{"a2", "first-in-a2"}, 50},
                                                {{"a2", "second-in-a2"}, 50}});
}

TEST_CASE("slices whose numbers do not agree are refused") {
  struct Row {
    std::string name;
    api::TopologyAssignmentSlice slice;
  };
  const Row row = GENERATE(values<Row>({
      {"roots", {2, {{std::nullopt, "", "", {"x"}}}, {1, {}}}},
      {"counts", {2, {{"x", "", "", {}}}, {std::nullopt, {1}}}},
      {"levels", {1, {}, {1, {}}}},
      {"negative", {-1, {{"x", "", "", {}}}, {1, {}}}},
      {"absurdly many", {2000000000, {{"x", "", "", {}}}, {1, {}}}},
  }));
  DYNAMIC_SECTION(row.name) {
    api::TopologyAssignment assignment;
    assignment.levels = {"a"};
    assignment.slices = {row.slice};
    const auto domains = ExpandTopologyAssignment(assignment);
    REQUIRE_FALSE(domains.ok());
    CHECK(std::string(domains.status().message()).rfind("slices[0]: ", 0) == 0);
  }
}

TEST_CASE("what is encoded comes back, whatever the names") {
  const unsigned seed = GENERATE(1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U);
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
  for (int round = 0; round < 50; ++round) {
    std::vector<TopologyDomain> domains;
    const unsigned size = below(40);
    for (unsigned i = 0; i < size; ++i) {
      std::string host;
      for (unsigned part = below(4); part > 0; --part) host += below(2) == 0 ? "a-" : "bb-";
      host += std::string(below(3), 'a');
      domains.push_back(
          {{"r" + std::to_string(below(2)), host}, static_cast<int32_t>(below(3)) + 1});
    }
    for (const bool by_prefix : {false, true}) {
      const auto assignment = EncodeTopologyAssignment({"rack", kHost}, domains, by_prefix);
      const auto expanded = ExpandTopologyAssignment(assignment);
      REQUIRE(expanded.ok());
      CHECK(*expanded == domains);
      CHECK(assignment.slices.size() <= kMaxTopologySlices);
    }
  }
}

}  // namespace
}  // namespace sluice::webhook
