// A World that has seen the beginning and the end of every list, with what tests put into it.
#pragma once

#include "api/codec.h"
#include "state/world.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {

class SyncedWorld {
 public:
  SyncedWorld() {
    using Type = state::ObjectEvent::Type;
    for (const api::Kind kind : state::World::WatchedKinds(settings_)) {
      world.Apply({Type::kListBegin, kind, {}}, build::At(0), touched_);
      world.Apply({Type::kListEnd, kind, {}}, build::At(0), touched_);
    }
    Add(api::Kind::kNamespace, api::Encode<api::Namespace>(build::Namespace("ns")));
  }

  void Add(api::Kind kind, const api::Json& object) {
    REQUIRE_FALSE(
        world.Apply({state::ObjectEvent::Type::kUpsert, kind, object}, build::At(0), touched_)
            .has_value());
  }
  void Add(const build::Workload& workload) {
    Add(api::Kind::kWorkload, api::Encode<api::Workload>(workload));
  }
  // With its LocalQueue "to-NAME".
  void Queue(const api::ClusterQueue& queue) {
    const std::string& name = queue.metadata.name;
    Add(api::Kind::kClusterQueue, api::Encode<api::ClusterQueue>(queue));
    Add(api::Kind::kLocalQueue,
        api::Encode<api::LocalQueue>(build::LocalQueue("to-" + name, name)));
  }

 private:
  state::Settings settings_;
  state::Refs touched_;

 public:
  state::World world{settings_};
};

}  // namespace sluice::reconcile
