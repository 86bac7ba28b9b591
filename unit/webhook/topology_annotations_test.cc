#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

// Keys are given without their common start.
api::StringMap Annotations(const std::vector<std::pair<std::string, std::string>>& pairs) {
  api::StringMap map;
  for (const auto& [key, value] : pairs) map["kueue.x-k8s.io/podset-" + key] = value;
  return map;
}

std::string At(const std::string& key, const std::string& type) {
  return "m.annotations[kueue.x-k8s.io/podset-" + key + "]: " + type;
}

TEST_CASE("topology annotations") {
  struct Row {
    std::string name;
    std::vector<std::pair<std::string, std::string>> annotations;
    List errors;  // for 4 pods
  };
  const std::string constraints = "slice-required-topology-constraints";
  const std::string invalid = "Invalid value";
  const Row row = GENERATE_COPY(values<Row>({
      {"none", {}, {}},
      {"required", {{"required-topology", "a.io/rack"}}, {}},
      {"unconstrained", {{"unconstrained-topology", "true"}}, {}},
      {"two levels",
       {{"required-topology", "a"}, {"preferred-topology", "b"}},
       {"m.annotations: Invalid value"}},
      {"bad required", {{"required-topology", "@"}}, {At("required-topology", invalid)}},
      {"bad preferred", {{"preferred-topology", ""}}, {At("preferred-topology", invalid)}},
      {"bad slice level",
       {{"slice-required-topology", "@"}, {"slice-size", "2"}},
       {At("slice-required-topology", invalid)}},
      {"bad unconstrained",
       {{"unconstrained-topology", "yes"}},
       {At("unconstrained-topology", invalid)}},
      {"group", {{"group-name", "g"}, {"required-topology", "a"}}, {}},
      {"group of digits",
       {{"group-name", "12"}, {"required-topology", "a"}},
       {At("group-name", invalid)}},
      {"group without level", {{"group-name", "g"}}, {At("group-name", "Forbidden")}},
      {"group with slices",
       {{"group-name", "g"},
        {"required-topology", "a"},
        {"slice-required-topology", "b"},
        {"slice-size", "2"}},
       {At("slice-size", "Forbidden"), At("slice-required-topology", "Forbidden")}},
      {"slices", {{"slice-required-topology", "a"}, {"slice-size", "4"}}, {}},
      {"slice level without size",
       {{"slice-required-topology", "a"}},
       {At("slice-size", "Required value")}},
      {"slice size without level", {{"slice-size", "2"}}, {At("slice-size", "Forbidden")}},
      {"slice size 0",
       {{"slice-required-topology", "a"}, {"slice-size", "0"}},
       {At("slice-size", invalid)}},
      {"slice size of 64 bits",
       {{"slice-required-topology", "a"}, {"slice-size", "4294967296"}},
       {At("slice-size", invalid)}},
      {"slice size above the pods",
       {{"slice-required-topology", "a"}, {"slice-size", "5"}},
       {At("slice-size", invalid)}},
      {"layers", {{constraints, R"([{"topology":"a","size":4},{"topology":"b","size":2}])"}}, {}},
      {"layers with slices",
       {{constraints, R"([{"topology":"a","size":4}])"},
        {"slice-required-topology", "a"},
        {"slice-size", "2"}},
       {At("slice-required-topology", "Forbidden"), At("slice-size", "Forbidden")}},
      {"layers with a group",
       {{constraints, R"([{"topology":"a","size":4}])"},
        {"required-topology", "a"},
        {"group-name", "g"}},
       {At("group-name", "Forbidden")}},
      {"layers that are no JSON", {{constraints, "["}}, {At(constraints, invalid)}},
      {"no layer", {{constraints, "[]"}}, {At(constraints, invalid)}},
      {"four layers",
       {{constraints,
         R"([{"topology":"a","size":4},{"topology":"b","size":4},{"topology":"c","size":4},{"topology":"d","size":4}])"}},
       {At(constraints, invalid)}},
      {"bad layer", {{constraints, R"([{"topology":"@","size":4}])"}}, {At(constraints, invalid)}},
      {"layer of size 0",
       {{constraints, R"([{"topology":"a","size":0}])"}},
       {At(constraints, invalid)}},
      {"layer twice",
       {{constraints, R"([{"topology":"a","size":4},{"topology":"a","size":2}])"}},
       {At(constraints, "Duplicate value")}},
      {"layer that does not divide",
       {{constraints, R"([{"topology":"a","size":4},{"topology":"b","size":3}])"}},
       {At(constraints, invalid)}},
      {"layer above the pods",
       {{constraints, R"([{"topology":"a","size":8},{"topology":"b","size":2}])"}},
       {At(constraints, invalid)}},
  }));
  DYNAMIC_SECTION(row.name) {
    const TestView test;
    FieldErrors errors;
    CheckTopologyAnnotations(test.view, Path("m"), Annotations(row.annotations), 4, &errors);
    CHECK(Short(errors) == row.errors);
  }
}

TEST_CASE("pods are packed or spread, and nothing else") {
  const TestView test;
  const auto errors_of = [&](const char* value) {
    FieldErrors errors;
    CheckTopologyAnnotations(test.view, Path("m"), {{"sluice.dev/placement", value}}, 4, &errors);
    return Short(errors);
  };
  CHECK(errors_of("Pack").empty());
  CHECK(errors_of("Spread").empty());
  CHECK(errors_of("spread") == List{"m.annotations[sluice.dev/placement]: Invalid value"});
}

TEST_CASE("layers are forbidden with their gate off, and nothing more is said") {
  const TestView off({{"TASMultiLayerTopology", false}});
  FieldErrors errors;
  CheckTopologyAnnotations(off.view, Path("m"),
                           Annotations({{"slice-required-topology-constraints", "["}}), 4, &errors);
  CHECK(Short(errors) == List{At("slice-required-topology-constraints", "Forbidden")});
}

}  // namespace
}  // namespace sluice::webhook
