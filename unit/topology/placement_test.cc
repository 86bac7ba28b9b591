// Placement on small trees: levels, profiles, slices, leaders. Each row is one rule; the expected
// places can be worked out by hand.
#include <fmt/format.h>

#include "unit/catch.h"
#include "unit/topology/lab.h"

namespace sluice::topology {
namespace {

constexpr char kTreeA[] = "b1: r1: h1=4 h2=4 r2: h3=8; b2: r3: h4=6 h5=2 r4: h6=3;";
const std::vector<std::string> kLevels = {"block", "rack", kHostname};

struct Row {
  const char* name;
  Ask ask;
  std::string expected;
};

void Check(const Lab& lab, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(lab.Place(row.ask) == row.expected);
  }
}

std::string Only(int fit, int needed, const char* unit = "pod") {
  return fmt::format("topology \"default\" allows to fit only {} out of {} {}(s)", fit, needed,
                     unit);
}

Options NotMixed() {
  Options options;
  options.mixed_profile = false;
  return options;
}

TEST_CASE("tree A: levels and profiles") {
  Check(Lab(kTreeA),
        {{"1 required rack", {.count = 8, .required = "rack"}, "h1:4 h2:4"},
         {"2 tightest rack", {.count = 3, .required = "rack"}, "h6:3"},
         {"3 tightest host", {.count = 3, .required = kHostname}, "h6:3"},
         {"4 tightest host that is large enough", {.count = 5, .required = kHostname}, "h4:5"},
         {"5 too large for a host", {.count = 9, .required = kHostname}, Only(8, 9)},
         {"6 racks do not bind hosts", {.count = 10, .required = "block"}, "h4:6 h5:1 h6:3"},
         {"7 preferred goes up", {.count = 10, .preferred = "rack"}, "h4:6 h5:1 h6:3"},
         {"8 exact host", {.count = 6, .preferred = kHostname}, "h4:6"},
         {"9 preferred host goes up twice", {.count = 9, .preferred = kHostname}, "h4:6 h6:3"},
         {"10 preferred over blocks", {.count = 20, .preferred = "rack"}, "h1:4 h3:8 h4:6 h5:2"},
         {"11 one too many", {.count = 28, .preferred = "block"}, Only(27, 28)},
         {"12 least free first", {.count = 5, .unconstrained = true}, "h4:5"},
         {"13 least free, equal hosts", {.count = 4, .unconstrained = true}, "h1:4"},
         {"14 smallest hosts first", {.count = 10, .unconstrained = true}, "h1:4 h2:1 h5:2 h6:3"}});
  Check(Lab(kTreeA, kLevels, NotMixed()),
        {{"15 biggest first", {.count = 10, .unconstrained = true}, "h3:8 h5:2"},
         {"16 best fit", {.count = 5, .unconstrained = true}, "h4:5"}});
}

TEST_CASE("tree A: slices") {
  const std::vector<SliceLayer> rack8host4 = {{"rack", 8}, {kHostname, 4}};
  Check(
      Lab(kTreeA),
      {{"17", {.count = 12, .required = "block", .layers = {{"rack", 4}}}, "h1:4 h2:4 h3:4"},
       {"18", {.count = 8, .required = "rack", .layers = {{kHostname, 4}}}, "h1:4 h2:4"},
       {"19", {.count = 16, .preferred = "block", .layers = {{kHostname, 4}}}, "h1:4 h2:4 h3:8"},
       {"20", {.count = 24, .preferred = "block", .layers = {{kHostname, 4}}}, Only(5, 6, "slice")},
       {"21", {.count = 6, .layers = {{kHostname, 2}}}, "h4:2 h5:2 h6:2"},
       {"23", {.count = 12, .layers = {{"rack", 4}}}, "h1:4 h2:4 h3:4"},
       {"24", {.count = 20, .layers = {{"rack", 4}}}, "h1:4 h2:4 h3:8 h4:2 h5:2"},
       {"25", {.count = 16, .required = "block", .layers = rack8host4}, "h1:4 h2:4 h3:8"},
       {"26",
        {.count = 24, .required = "block", .layers = rack8host4},
        "topology \"default\" doesn't allow to fit; 2/3 slice(s) fit on level rack; 4/6 slice(s) "
        "fit on level kubernetes.io/hostname"},
       {"27", {.count = 7, .required = "block", .layers = {{kHostname, 2}}}, "h4:6"},
       {"28",
        {.count = 12, .required = "block", .layers = {{"rack", 6}, {kHostname, 2}}},
        "h1:4 h2:2 h3:6"}});
  Check(Lab(kTreeA, kLevels, NotMixed()),
        {{"22", {.count = 6, .layers = {{kHostname, 2}}}, "h4:6"}});
}

TEST_CASE("tree A: a leader and its workers") {
  const Requests one = {{kGpu, 1}};
  Check(Lab(kTreeA),
        {{"29", {.count = 4, .required = "rack", .leader = one}, "leader h1; h1:3 h2:1"},
         {"30", {.count = 7, .required = "rack", .leader = one}, "leader h1; h1:3 h2:4"},
         {"31", {.count = 8, .required = "rack", .leader = one}, Only(8, 8)},
         {"32", {.count = 8, .required = "rack", .leader = Requests()}, "leader h1; h1:4 h2:4"},
         {"33", {.count = 10, .preferred = "rack", .leader = one}, "leader h4; h4:5 h5:2 h6:3"}});
}

TEST_CASE("inside a slice the smallest child comes first") {
  const Lab lab("b1: r1: x=6 y=5 z=3");
  Check(lab,
        {{"34 none", {.count = 6, .required = "rack"}, "x:6"},
         {"34 six a rack", {.count = 6, .required = "rack", .layers = {{"rack", 6}}}, "y:3 z:3"},
         {"34 two a rack", {.count = 6, .required = "rack", .layers = {{"rack", 2}}}, "y:3 z:3"},
         {"34 two a host", {.count = 6, .required = "rack", .layers = {{kHostname, 2}}}, "x:6"}});
  Check(Lab("b1: r1: x=8 y=4 z=5"),
        {{"35",
          {.count = 8, .required = "rack", .layers = {{"rack", 8}, {kHostname, 4}}},
          "y:4 z:4"}});
  Check(Lab("b1: r1: x=3 y=3 r2: z=4 w=4"),
        {{"36",
          {.count = 8, .required = "block", .layers = {{"block", 8}, {"rack", 4}}},
          "x:3 y:1 w:4"}});
  Check(Lab("b1: r1: x=4 y=4 r2: z=4 w=5; b2: r3: q=3"),
        {{"37",
          {.count = 16, .layers = {{"block", 8}, {"rack", 4}, {kHostname, 2}}},
          "x:4 y:4 w:4 z:4"}});
  Check(Lab("b1: r1: h1=4 r2: h2=4 r3: h3=8"),
        {{"38", {.count = 12, .preferred = "block", .layers = {{"rack", 4}}}, "h1:4 h3:8"}});
}

TEST_CASE("slices of two on hosts of one rack, both profiles") {
  const Lab lab("b1: r1: a=6 b=5 c=4 d=3 e=2");
  const std::vector<std::pair<int, const char*>> tight = {
      {2, "e:2"}, {4, "c:4"}, {6, "a:6"}, {8, "a:6 e:2"}, {10, "a:6 c:4"}, {12, "a:6 c:4 e:2"}};
  for (const auto& [pods, expected] : tight) {
    INFO("39, " << pods);
    CHECK(lab.Place({.count = pods, .required = "rack", .layers = {{kHostname, 2}}}) == expected);
  }
  const std::vector<std::pair<int, const char*>> loose = {
      {2, "e:2"}, {4, "d:2 e:2"}, {6, "c:2 d:2 e:2"}, {8, "c:4 d:2 e:2"}, {10, "b:2 c:4 d:2 e:2"}};
  for (const auto& [pods, expected] : loose) {
    INFO("40, " << pods);
    CHECK(lab.Place({.count = pods, .layers = {{kHostname, 2}}}) == expected);
  }
}

TEST_CASE("names and levels") {
  Check(Lab("b1: r1: h1=2 r2: h2=3; b2: r1: h3=3 r2: h4=2"),
        {{"41 racks of the same name", {.count = 3, .required = "rack"}, "h2:3"}});
  Check(Lab("b1: r1: n1=5 r2: n2=3; b2: r1: n3=4 r2: n4=4", {"block", "rack"}),
        {{"42 required", {.count = 7, .required = "block"}, "(b1,r1):5 (b1,r2):2"},
         {"42 unconstrained", {.count = 6, .unconstrained = true}, "(b1,r2):3 (b2,r1):3"}});
  Check(Lab("b1: r1: h10=2 h2=2 h1=2"),
        {{"43 byte order", {.count = 2, .required = kHostname}, "h1:2"}});
}

TEST_CASE("what a leader costs") {
  const Requests cpu1 = {{kCpu, 1}};
  const Requests cpu2 = {{kCpu, 2}};
  const Requests cpu3 = {{kCpu, 3}};
  const std::vector<std::string> hosts_only = {kHostname};
  Check(Lab("b1: r1: h1=3 h2=6 h3=4", kLevels, {}, kCpu),
        {{"44",
          {.count = 4, .required = "rack", .leader = cpu1, .per_pod = cpu3},
          "leader h3; h1:1 h2:2 h3:1"},
         {"45",
          {.count = 12,
           .required = "rack",
           .layers = {{kHostname, 3}},
           .leader = cpu1,
           .per_pod = cpu1},
          "leader h3; h1:3 h2:6 h3:3"}});
  Check(Lab("h1=9 h2=4", hosts_only, {}, kCpu),
        {{"46",
          {.count = 4, .preferred = kHostname, .leader = cpu1, .per_pod = cpu3},
          "leader h2; h1:3 h2:1"}});
  Check(Lab("b1: ra: a1=2 a2=2 rb: b1=6", kLevels, {}, kCpu),
        {{"49 two",
          {.count = 2, .required = "rack", .leader = cpu2, .per_pod = cpu1},
          "leader a1; a2:2"},
         {"49 three",
          {.count = 3, .required = "rack", .leader = cpu2, .per_pod = cpu1},
          "leader b1; b1:3"},
         {"49 a larger leader",
          {.count = 2, .required = "rack", .leader = cpu3, .per_pod = cpu1},
          "leader b1; b1:2"}});
}

TEST_CASE("leaders and workers of different resources") {
  Lab lab("", {kHostname});
  lab.inventory().SetNode(Lab::Host("h1", {}, {{kCpu, 1}}));
  lab.inventory().SetNode(Lab::Host("h2", {}, {{kGpu, 1}}));
  CHECK(lab.Place({.count = 1, .unconstrained = true, .leader = Requests{{kCpu, 1}}}) ==
        "leader h1; h2:1");
  Lab racks("", kLevels);
  const Labels place = {{"block", "b1"}, {"rack", "r1"}};
  racks.inventory().SetNode(Lab::Host("c1", place, {{kCpu, 4}}));
  racks.inventory().SetNode(Lab::Host("g1", place, {{kGpu, 8}}));
  racks.inventory().SetNode(Lab::Host("g2", place, {{kGpu, 8}}));
  CHECK(racks.Place({.count = 12, .required = "rack", .leader = Requests{{kCpu, 2}}}) ==
        "leader c1; g1:8 g2:4");
}

TEST_CASE("pod sets after one another see what the first took") {
  const Lab lab("h1=4 h2=4 h3=2", {kHostname});
  const auto place = [&](const Ask& a, const Ask& b) {
    WorkloadRequest request;
    for (const Ask& ask : {a, b}) request.pod_sets.push_back(Lab::PodSets(ask)[0]);
    return lab.Place(request);
  };
  CHECK(place({.count = 3, .required = kHostname}, {.count = 4, .required = kHostname}) ==
        "h1:3 | h2:4");
  CHECK(place({.count = 5, .preferred = kHostname}, {.count = 3, .unconstrained = true}) ==
        "h1:4 h3:1 | h2:3");
}

TEST_CASE("pod sets of flavors that share hosts see each other, whatever lies between") {
  for (const bool overlapping : {true, false}) {
    Options options;
    options.overlapping_flavors = overlapping;
    Lab lab("r1: h1=4 h2=4", {"rack", kHostname}, options);
    const Flavor hosts = lab.inventory().FindTree("tas")->flavor();
    Flavor racks = hosts;
    racks.levels = {"rack"};
    lab.inventory().SetFlavor("a", hosts);
    lab.inventory().SetFlavor("b", racks);
    lab.inventory().SetFlavor("c", hosts);
    WorkloadRequest request;
    for (const char* flavor : {"c", "b", "a"}) {
      request.pod_sets.push_back(Lab::PodSets({.count = 4, .unconstrained = true})[0]);
      request.pod_sets.back().flavor = flavor;
    }
    CHECK(lab.Place(request) == (overlapping ? "h2:4 | r1:4 | h1:4" : "h1:4 | r1:4 | h1:4"));
  }
}

Options Balanced() {
  Options options;
  options.balanced = true;
  return options;
}

TEST_CASE("balanced placement") {
  const Ask twelve = {.count = 12, .preferred = "rack"};
  Check(Lab("b1: r1: x1=10 x2=10 x3=4", kLevels, Balanced()), {{"60", twelve, "x1:6 x2:6"}});
  Check(Lab("b1: r1: x1=10 x2=10 x3=4"), {{"60 off", twelve, "x1:10 x3:2"}});
  Check(Lab("b1: r1: x1=9 x2=3 r2: x3=6 x4=6", kLevels, Balanced()),
        {{"61", twelve, "x3:6 x4:6"},
         {"62", {.count = 14, .preferred = "rack"}, "x1:8 x3:6"},
         {"63", {.count = 10, .preferred = kHostname}, "x3:5 x4:5"},
         {"64", {.count = 20, .preferred = "block"}, "x1:9 x2:1 x3:6 x4:4"}});
  Check(Lab("b1: r1: x1=5; b2: r2: x2=5", kLevels, Balanced()),
        {{"65 no block holds it", {.count = 8, .preferred = "rack"}, "x1:5 x2:3"}});
  Check(Lab("b1: r1: x1=16 x2=12 x3=8", kLevels, Balanced()),
        {{"66", {.count = 20, .preferred = "rack", .layers = {{kHostname, 4}}}, "x2:12 x3:8"}});
  Check(Lab("b1: r1: x1=8 x2=6 x3=4", kLevels, Balanced()),
        {{"67", {.count = 12, .preferred = "rack", .layers = {{kHostname, 2}}}, "x1:6 x2:6"}});
  Check(Lab("b1: r1: x1=6 x2=6 x3=4", kLevels, Balanced()),
        {{"68",
          {.count = 10, .preferred = "rack", .leader = Requests{{kGpu, 1}}},
          "leader x1; x1:5 x2:5"}});
}

TEST_CASE("balanced placement that fails leaves the fallback as it was") {
  // The slices end at the requested level, so nothing can be balanced.
  const Ask ask = {.count = 12, .preferred = "rack", .layers = {{"rack", 4}}};
  CHECK(Lab(kTreeA, kLevels, Balanced()).Place(ask) == Lab(kTreeA).Place(ask));
  const Ask none = {.count = 28, .preferred = "rack"};
  CHECK(Lab(kTreeA, kLevels, Balanced()).Place(none) == Only(27, 28));
}

TEST_CASE("spread: as even as possible at every level") {
  const Ask ten = {.count = 10, .unconstrained = true, .spreading = Spreading::kSpread};
  Check(Lab(kTreeA), {{"over everything", ten, "h1:2 h2:1 h3:2 h4:2 h5:1 h6:2"},
                      {"within a rack",
                       {.count = 5, .required = "rack", .spreading = Spreading::kSpread},
                       "h1:3 h2:2"},
                      {"no rack holds it",
                       {.count = 9, .required = "rack", .spreading = Spreading::kSpread},
                       Only(8, 9)},
                      {"whole slices",
                       {.count = 8,
                        .unconstrained = true,
                        .layers = {{kHostname, 2}},
                        .spreading = Spreading::kSpread},
                       "h1:2 h3:2 h4:2 h6:2"}});
}

TEST_CASE("a count below the size of a slice places nothing") {
  CHECK(Lab(kTreeA).Place({.count = 1, .required = "rack", .layers = {{kHostname, 2}}}).empty());
}

}  // namespace
}  // namespace sluice::topology
