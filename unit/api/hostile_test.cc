// Damaged documents: whatever comes, the answer is a value or an error, and what was read can be
// written and read again with the same result.
#include <random>
#include <string>

#include "api/codec.h"
#include "api/parse_object.h"
#include "api/schema.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

constexpr char kWorkload[] =
    R"({"apiVersion":"kueue.x-k8s.io/v1beta2","kind":"Workload","metadata":{"name":"w",)"
    R"("namespace":"n","creationTimestamp":"2026-08-22T10:00:00Z","labels":{"a":"b"}},)"
    R"("spec":{"queueName":"q","priority":-5,"podSets":[{"name":"main","count":3,"template":)"
    R"({"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"500m","memory":1e3}}}],)"
    R"("affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":)"
    R"({"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":["v"]}]}]}}},)"
    R"("schedulingGates":[{"name":"g"}]}}}]},"status":{"conditions":[{"type":"Admitted",)"
    R"("status":"True","reason":"R","message":"m","lastTransitionTime":"2026-08-22T10:00:00Z"}],)"
    R"("admission":{"clusterQueue":"cq","podSetAssignments":[{"name":"main","flavors":{"cpu":"f"},)"
    R"("resourceUsage":{"cpu":"1500m"},"topologyAssignment":{"levels":["a"],"slices":)"
    R"([{"domainCount":1,"valuesPerLevel":[{"individual":{"roots":["x"]}}],)"
    R"("podCounts":{"universal":3}}]}}]},"unhealthyNodes":[{"name":"n1"}]}})";

template <typename T>
void CheckStable(const Json& json, size_t& decoded) {
  const absl::StatusOr<T> value = Decode<T>(json);
  if (!value.ok()) {
    REQUIRE_FALSE(std::string(value.status().message()).empty());
    return;
  }
  ++decoded;
  const Json written = Encode(*value);
  const absl::StatusOr<T> again = Decode<T>(written);
  INFO(json.Text() << "\n" << written.Text());
  REQUIRE(again.ok());
  REQUIRE(Encode(*again) == written);
}

TEST_CASE("Documents with changed bytes decode or are refused") {
  std::mt19937_64 random(7);
  const std::string original = kWorkload;
  size_t parsed = 0;
  size_t decoded = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text = original;
    for (uint64_t edits = 1 + random() % 3; edits > 0; --edits) {
      const size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, 1 + random() % 8);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), 1 + random() % 12));
          break;
        default:
          text[at] = "0123456789\"[]{}:,ntf-.eE"[random() % 24];
      }
    }
    const absl::StatusOr<Json> json = ParseJson(text);
    const absl::StatusOr<Answer> answer = ParseAnswer(text);
    REQUIRE(answer.ok() >= json.ok());
    if (answer.ok()) REQUIRE(ParseJson(answer->object.Text()).ok());
    if (!json.ok()) continue;
    REQUIRE(answer->damages.empty());
    ++parsed;
    CheckStable<Workload>(*json, decoded);
    Json object = *json;
    ApplyDefaults(object, SchemaOf(Kind::kWorkload));
    Prune(object, SchemaOf(Kind::kWorkload));
    ValidateSchema(object, SchemaOf(Kind::kWorkload));
  }
  CHECK(parsed > 500);
  CHECK(decoded > 100);
}

// Puts a value of some other kind in the place of one member or item.
void Damage(Json& json, std::mt19937_64& random) {
  static const char* const kValues[] = {
      "null",      "true", "7", "-1.5", "\"x\"", "[]", "{}", "[[]]", "9223372036854775807",
      "{\"a\":{}}"};
  const bool stop = random() % 4 == 0;
  if (!stop && json.IsObject() && !json.AsObject().empty()) {
    Json::Object& members = json.MutableObject();
    Damage(members[random() % members.size()].second, random);
  } else if (!stop && json.IsArray() && !json.AsArray().empty()) {
    Json::Array& items = json.MutableArray();
    Damage(items[random() % items.size()], random);
  } else {
    json = *ParseJson(kValues[random() % std::size(kValues)]);
  }
}

TEST_CASE("Documents with values of the wrong kind decode or are refused") {
  std::mt19937_64 random(11);
  const Json original = *ParseJson(kWorkload);
  size_t decoded = 0;
  for (int round = 0; round < 5000; ++round) {
    Json json = original;
    Damage(json, random);
    CheckStable<Workload>(json, decoded);
    CheckStable<ClusterQueue>(json, decoded);
    CheckStable<Pod>(json, decoded);
    ValidateSchema(json, SchemaOf(Kind::kWorkload));
  }
  CHECK(decoded > 1000);
}

}  // namespace
}  // namespace sluice::api
