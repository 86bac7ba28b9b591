#include "sim/explain.h"

#include <absl/strings/str_replace.h>

#include <memory>
#include <utility>

#include "admission/explain_text.h"
#include "api/names.h"
#include "reconcile/explain.h"
#include "state/world.h"

namespace sluice::sim {
namespace {

using admission::ExplanationTree;
using api::Json;
using api::Kind;
using state::ObjectEvent;

std::unique_ptr<state::World> WorldOf(const ApiServer& api, const state::Settings& settings,
                                      absl::Time now) {
  auto world = std::make_unique<state::World>(settings);
  state::Refs touched;
  using Type = ObjectEvent::Type;
  for (const Kind kind : state::World::WatchedKinds(settings)) {
    world->Apply({Type::kListBegin, kind, {}}, now, touched);
    for (Json& object : api.List(kind)) {
      world->Apply({Type::kUpsert, kind, std::move(object)}, now, touched);
    }
    world->Apply({Type::kListEnd, kind, {}}, now, touched);
  }
  world->PrepareCredits(now, touched);
  return world;
}

ObjectKey KeyOf(const Json& object) {
  return {object.GetString("metadata", "namespace"), object.GetString("metadata", "name")};
}

}  // namespace

ExplanationTree ExplainOne(const ApiServer& api, const state::Settings& settings,
                           const ObjectKey& workload, absl::Time now) {
  return reconcile::ExplainWorkload(*WorldOf(api, settings, now), workload, now);
}

std::vector<ExplanationTree> ExplainWaiting(const ApiServer& api, const state::Settings& settings,
                                            absl::Time now) {
  const std::unique_ptr<state::World> world = WorldOf(api, settings, now);
  std::vector<ExplanationTree> trees;
  for (const Json& object : api.List(Kind::kWorkload)) {
    const ObjectKey key = KeyOf(object);
    const auto workload = world->workloads().Find(key);
    if (workload == nullptr || api::IsTrue(workload->status.conditions, api::kQuotaReserved) ||
        api::IsTrue(workload->status.conditions, api::kFinished)) {
      continue;
    }
    trees.push_back(reconcile::ExplainWorkload(*world, key, now));
  }
  return trees;
}

std::vector<ExplanationTree> ExplainWaiting(TraceCluster& cluster, const TraceResult& result) {
  state::World& world = cluster.world();
  const admission::ExplainInput input{world.snapshot(), &world.queues(),
                                      [&world](const std::string& name) {
                                        return world.cohorts().Find({"", name}).get();
                                      }};
  std::vector<ExplanationTree> trees;
  for (const WaitingResult& waiting : result.waiting) {
    const size_t slash = waiting.example.find('/');
    const queueing::WorkloadInfoPtr info =
        world.queues().Find({waiting.example.substr(0, slash), waiting.example.substr(slash + 1)});
    if (info != nullptr) trees.push_back(admission::Explain(input, info));
  }
  return trees;
}

std::string RenderExplanation(const ApiServer& api, const ExplanationTree& tree) {
  std::string text = admission::RenderLines(tree);
  for (const Json& object : api.List(Kind::kWorkload)) {
    const Json* owners = object.Find("metadata", "ownerReferences");
    if (owners == nullptr) continue;
    for (const Json& owner : owners->AsArray()) {
      if (owner.GetString("kind") != "Job") continue;
      const ObjectKey key = KeyOf(object);
      absl::StrReplaceAll({{key.ToString(), ObjectKey{key.ns, owner.GetString("name")}.ToString()}},
                          &text);
    }
  }
  return text;
}

}  // namespace sluice::sim
