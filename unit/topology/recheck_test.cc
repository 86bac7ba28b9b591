// Whether places still are what they were given as, after nodes changed what they say.
#include "topology/recheck.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "unit/catch.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

constexpr char kRacks[] = "b1: r1: h1=4 h2=4 r2: h3=4 h4=4";

// "h2 apart", "" when it holds.
std::string Lost(const Lab& lab, const Ask& ask, const std::string& places,
                 const std::vector<std::string>& failed = {}, bool in_slices = true) {
  const auto lost = FindLost(*lab.inventory().FindTree("tas"), Lab::PodSets(ask)[0],
                             Lab::On(places), failed, in_slices);
  if (!lost.has_value()) return "";
  using Kind = LostDomain::Kind;
  const char* kind = lost->kind == Kind::kGone       ? "gone"
                     : lost->kind == Kind::kExcluded ? "excluded"
                                                     : "apart";
  return fmt::format("{} {}", fmt::join(lost->values, ","), kind);
}

TEST_CASE("a host that is in another rack now") {
  Lab lab(kRacks);
  const Ask rack{.count = 8, .required = "rack"};
  CHECK(Lost(lab, rack, "h1:4 h2:4").empty());
  lab.inventory().SetNode(Lab::Host("h2", {{"block", "b1"}, {"rack", "r2"}}, {{kGpu, 4}}));
  CHECK(Lost(lab, rack, "h1:4 h2:4") == "h2 apart");
  CHECK(Lost(lab, rack, "h2:4").empty());
  // Who only prefers a rack, or asks for a block, has lost nothing.
  CHECK(Lost(lab, {.count = 8, .preferred = "rack"}, "h1:4 h2:4").empty());
  CHECK(Lost(lab, {.count = 8, .required = "block"}, "h1:4 h2:4").empty());
  // A level that the topology has no more binds nobody.
  CHECK(Lost(lab, {.count = 8, .required = "row"}, "h1:4 h2:4").empty());
}

TEST_CASE("a slice that is not in one rack any more") {
  Lab lab(kRacks);
  const Ask slices{.count = 8, .required = "block", .layers = {{"rack", 4}}};
  CHECK(Lost(lab, slices, "h1:2 h2:2 h3:4").empty());
  lab.inventory().SetNode(Lab::Host("h2", {{"block", "b1"}, {"rack", "r2"}}, {{kGpu, 4}}));
  CHECK(Lost(lab, slices, "h1:2 h2:2 h3:4") == "h1 apart");
  CHECK(Lost(lab, slices, "h1:2 h2:2 h3:4", {}, false).empty());
  CHECK(Lost(lab, slices, "h1:2 h2:2 h3:4", {"h1"}).empty());
}

TEST_CASE("a host that is gone, leaves or has a taint") {
  Lab lab(kRacks);
  const Ask any{.count = 8, .unconstrained = true};
  Node node = Lab::Host("h2", {{"block", "b1"}, {"rack", "r1"}}, {{kGpu, 4}});
  node.leaving = true;
  lab.inventory().SetNode(node);
  CHECK(Lost(lab, any, "h1:4 h2:4") == "h2 excluded");
  node.leaving = false;
  node.taints = {{"memory-pressure", "", "NoSchedule"}};
  lab.inventory().SetNode(node);
  CHECK(Lost(lab, any, "h1:4 h2:4") == "h2 excluded");
  node.taints.clear();
  node.unschedulable = true;
  lab.inventory().SetNode(node);
  CHECK(Lost(lab, any, "h1:4 h2:4") == "h2 gone");
  // One that is known to have failed is replaced, and one without pods does not matter.
  CHECK(Lost(lab, any, "h1:4 h2:4", {"h2"}).empty());
  CHECK(Lost(lab, any, "h1:4 h2:0").empty());
}

TEST_CASE("room is not looked at: it is booked") {
  Lab lab(kRacks);
  lab.inventory().SetWorkload("w", {Lab::Usage("h1:4 h2:4")});
  CHECK(Lost(lab, {.count = 8, .required = "rack"}, "h1:4 h2:4").empty());
}

}  // namespace
}  // namespace sluice::topology
