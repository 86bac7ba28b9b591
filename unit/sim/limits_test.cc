// ClusterQueues as large as the API allows, and larger ones.
#include <fmt/format.h>

#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

struct Size {
  int groups = 0;
  int flavors = 0;    // of each group
  int resources = 0;  // of each group
};

std::string Resource(int group, int i) { return fmt::format("example.com/r{}-{}", group, i); }

std::string Queue(const Size& size) {
  std::string text = "clusterqueue cq";
  for (int g = 0; g < size.groups; ++g) {
    std::string quotas;
    for (int r = 0; r < size.resources; ++r) quotas += fmt::format("{}=2,", Resource(g, r));
    quotas.pop_back();
    for (int f = 0; f < size.flavors; ++f)
      text += fmt::format(" flavor=f{}-{}{{{}}}", g, f, quotas);
  }
  return text;
}

std::string Workload(const std::string& name, const Size& size, int amount) {
  std::string text = fmt::format("workload {} queue=q", name);
  for (int g = 0; g < size.groups; ++g) {
    for (int r = 0; r < size.resources; ++r) text += fmt::format(" {}={}", Resource(g, r), amount);
  }
  return text;
}

// The flavors of a Workload's only pod set; empty while it waits.
std::string FlavorsOf(const Simulation& sim, const std::string& name, const Size& size,
                      int flavor) {
  const Json* workload = sim.api().Find(Kind::kWorkload, {"ns", name});
  REQUIRE(workload != nullptr);
  const Json* assignments = workload->Find("status", "admission", "podSetAssignments");
  if (assignments == nullptr) return "waits";
  const Json& flavors = *assignments->AsArray()[0].Find("flavors");
  for (int g = 0; g < size.groups; ++g) {
    for (int r = 0; r < size.resources; ++r) {
      const std::string got = flavors.GetString(Resource(g, r).c_str());
      if (got != fmt::format("f{}-{}", g, flavor)) return Resource(g, r) + " of " + got;
    }
  }
  return fmt::format("flavor {} of all", flavor);
}

TEST_CASE("The largest ClusterQueue that the API takes decides as any other") {
  const Size size = {16, 16, 16};
  Simulation sim({});
  Make(sim, "namespace ns");
  for (int g = 0; g < size.groups; ++g) {
    for (int f = 0; f < size.flavors; ++f) {
      Make(sim, fmt::format("flavor f{}-{}", g, f));
    }
  }
  Make(sim, Queue(size));
  Make(sim, "localqueue q cq=cq");
  sim.Start();
  sim.RunUntil(sim.now() + absl::Seconds(5));
  Make(sim, Workload("first", size, 1));
  sim.RunUntil(sim.now() + absl::Seconds(1));
  Make(sim, Workload("second", size, 2));
  Make(sim, Workload("large", size, 3));
  sim.RunUntil(sim.now() + absl::Seconds(30));
  CHECK(FlavorsOf(sim, "first", size, 0) == "flavor 0 of all");
  CHECK(FlavorsOf(sim, "second", size, 1) == "flavor 1 of all");
  CHECK(FlavorsOf(sim, "large", size, 0) == "waits");
  const uint64_t writes = sim.writes();
  sim.RunUntil(sim.now() + absl::Minutes(10));
  CHECK(sim.writes() == writes);
  CHECK(sim.Settled());
  for (const std::string& text : sim.violations()) UNSCOPED_INFO(text);
  CHECK(sim.violations().empty());
}

TEST_CASE("A ClusterQueue that is too large is refused with the field's name") {
  const Size size = GENERATE(Size{17, 1, 1}, Size{1, 65, 1}, Size{1, 1, 65}, Size{1, 33, 16},
                             Size{16, 17, 1}, Size{16, 1, 17}, Size{16, 64, 64});
  INFO(size.groups << " " << size.flavors << " " << size.resources);
  Simulation sim({});
  const state::Reply reply = TryMake(sim, Queue(size));
  CHECK_FALSE(reply.ok());
  CHECK(reply.code >= 400);
  CHECK(reply.code < 500);
  INFO(reply.message.substr(0, 500));
  CHECK(reply.message.find("spec.resourceGroups") != std::string::npos);
  CHECK(reply.message.size() < 20'000);
}

}  // namespace
}  // namespace sluice::sim
