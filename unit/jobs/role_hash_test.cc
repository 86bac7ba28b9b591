#include "jobs/role_hash.h"

#include "unit/catch.h"

namespace sluice::jobs {
namespace {

api::Json Spec(const std::string& text) {
  const absl::StatusOr<api::Json> json = api::ParseJson(text);
  REQUIRE(json.ok());
  return *json;
}

// What an API server adds to every pod before its webhooks see it.
const char kTolerations[] =
    R"("tolerations":[)"
    R"({"key":"node.kubernetes.io/not-ready","operator":"Exists","effect":"NoExecute","tolerationSeconds":300},)"
    R"({"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}])";

TEST_CASE("Roles have the hashes that others compute") {
  struct Row {
    const char* name;
    std::string spec;
    const char* hash;
  };
  const std::string one = R"("containers":[{"resources":{"requests":{"cpu":"1"}}}])";
  const std::string two = R"("containers":[{"resources":{"requests":{"cpu":"2"}}}])";
  const Row rows[] = {
      {"one cpu", "{" + one + "}", "dc85db45"},
      {"no requests", R"({"containers":[{"resources":{}}]})", "7aa6c7b8"},
      {"empty requests", R"({"containers":[{"resources":{"requests":{}}}]})", "a9f06f3a"},
      {"with a priority", "{" + one + R"(,"priority":0})", "4576969b"},
      {"one cpu from a cluster", "{" + one + R"(,"priority":0,)" + kTolerations + "}", "4b0469f7"},
      {"two cpu from a cluster", "{" + two + R"(,"priority":0,)" + kTolerations + "}", "c3465716"}};
  for (const Row& row : rows) {
    INFO(row.name);
    INFO(RoleText(Spec(row.spec)));
    CHECK(RoleHash(Spec(row.spec)) == row.hash);
  }
}

TEST_CASE("What scheduling does not look at does not make a role") {
  const std::string plain =
      RoleHash(Spec(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}]})"));
  CHECK(RoleHash(Spec(R"({"containers":[{"name":"c","image":"i","env":[{"name":"A"}],
      "resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1"}}}],"volumes":[{"name":"v"}],
      "schedulingGates":[{"name":"g"}],"restartPolicy":"Never"})")) == plain);
  CHECK(RoleHash(Spec(R"({"containers":[{"resources":{"requests":{"cpu":"1"}}}],
      "nodeSelector":{"a":"b"}})")) != plain);
  CHECK(RoleHash(Spec(R"({"containers":[{"ports":[{"containerPort":80}],
      "resources":{"requests":{"cpu":"1"}}}]})")) != plain);
}

TEST_CASE("The order of map members and HTML characters do not confuse the hash") {
  CHECK(
      RoleHash(Spec(R"({"containers":[{"resources":{"requests":{"cpu":"1","memory":"1Gi"}}}]})")) ==
      RoleHash(Spec(R"({"containers":[{"resources":{"requests":{"memory":"1Gi","cpu":"1"}}}]})")));
  CHECK(RoleText(Spec(R"({"containers":[],"nodeSelector":{"a":"<&>"}})"))
            .find("\\u003c\\u0026\\u003e") != std::string::npos);
}

TEST_CASE("Resources of the whole pod count only where they are given") {
  CHECK(RoleText(Spec(R"({"containers":[]})")).find("resources\"") == std::string::npos);
  CHECK(RoleText(Spec(R"({"containers":[],"resources":{"requests":{"cpu":"2"}}})"))
            .find(R"("resources":{"cpu":"2"},"runtimeClassName")") != std::string::npos);
}

}  // namespace
}  // namespace sluice::jobs
