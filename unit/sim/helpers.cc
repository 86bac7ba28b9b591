#include "unit/sim/helpers.h"

#include <cstdlib>
#include <random>
#include <string_view>

#include "sim/scenario_objects.h"
#include "unit/catch.h"

namespace sluice::sim {

state::Reply TryMake(Simulation& sim, const std::string& text) {
  absl::StatusOr<ObjectText> object = ParseObject(SplitWords(text));
  INFO(text.substr(0, 200) << ": " << std::string(object.status().message()));
  REQUIRE(object.ok());
  const ObjectKey key{object->ns, object->object.GetString("metadata", "name")};
  state::Reply reply = sim.Create(object->kind, object->ns, object->object);
  if (!reply.ok() || object->status.IsNull()) return reply;
  return sim.Patch(object->kind, key, api::Json::MakeObject({{"status", object->status}}),
                   "status");
}

void Make(Simulation& sim, const std::string& text) {
  const state::Reply reply = TryMake(sim, text);
  INFO(text.substr(0, 200) << ": " << reply.message);
  REQUIRE(reply.ok());
}

bool ConditionTrue(const api::Json& object, const std::string& type) {
  if (const api::Json* conditions = object.Find("status", "conditions")) {
    for (const api::Json& condition : conditions->AsArray()) {
      if (condition.GetString("type") == type) return condition.GetString("status") == "True";
    }
  }
  return false;
}

void ForSeeds(int count, const std::function<void(uint64_t seed)>& check) {
  uint64_t first = 1;
  if (const char* seed = std::getenv("SLUICE_SEED")) {
    const bool any = std::string_view(seed) == "random";
    first = any ? std::random_device{}() : std::strtoull(seed, nullptr, 10);
    if (!any) count = 1;
  }
  if (const char* rounds = std::getenv("SLUICE_ROUNDS")) count = std::atoi(rounds);
  for (int i = 0; i < count; ++i) {
    const uint64_t seed = first + static_cast<uint64_t>(i);
    INFO("run again with SLUICE_SEED=" << seed);
    check(seed);
  }
}

}  // namespace sluice::sim
