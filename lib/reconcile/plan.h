// Plan: what a reconciler wants done for one object, as data.
//
// A reconciler is a function (key, World, now) -> Plan. It looks at the state, never at the event
// that woke it, so calling it twice gives the same plan until something changed. Writes go to the
// API server; notes become Kubernetes events once the write they belong to has succeeded.
#pragma once

#include <absl/time/time.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "state/ports.h"

namespace sluice::reconcile {

// A Kubernetes event to be recorded.
struct Note {
  api::Kind kind = api::Kind::kWorkload;  // of the object it is about
  ObjectKey key;
  std::string uid;
  std::string source;  // reporting controller
  bool warning = false;
  std::string reason;
  std::string message;
};

// A scheduling gate of ours is taken off a pod.
struct GateRemoval {
  const char* gate = "";
  std::string cluster_queue;
  bool of_group = false;  // the pod belongs to a group of plain pods
  std::optional<absl::Time> admitted;
};

struct Write {
  state::Action action;
  std::vector<Note> notes;         // recorded when the write succeeded
  std::vector<GateRemoval> gates;  // told to the observer then
  bool tidies_up = false;          // nobody waits for it
};

// Why a Workload waits, in the granular scheme. Writing it helps whoever looks and nothing else, so
// it is done when there is time.
struct WaitingReason {
  std::string reason;
  std::string message;
};

struct Plan {
  // Sent in order; the object is not reconciled again before all have been answered.
  std::vector<Write> writes;
  // Recorded at once.
  std::vector<Note> notes;
  std::optional<WaitingReason> waiting;
  // Look again at this instant even if nothing changes.
  absl::Time recheck = absl::InfiniteFuture();

  bool empty() const { return writes.empty() && notes.empty(); }
  bool OnlyTidiesUp() const {
    return !writes.empty() && std::all_of(writes.begin(), writes.end(),
                                          [](const Write& write) { return write.tidies_up; });
  }
  void RecheckAt(absl::Time time) { recheck = std::min(recheck, time); }
  Write& Add(state::Action action) {
    writes.push_back({std::move(action), {}, {}, false});
    return writes.back();
  }
};

// Builders of the usual actions. Those that carry a resource version fail with Conflict when the
// object has changed since.
state::Action MergePatchAction(api::Kind kind, const ObjectKey& key, std::string subresource,
                               api::Json body, const std::string& resource_version);
state::Action ApplyStatusAction(api::Kind kind, const ObjectKey& key, api::Json body,
                                std::string field_manager);
state::Action CreateAction(api::Kind kind, const ObjectKey& key, api::Json body);
// Deletes the object of that UID only, with background propagation.
state::Action DeleteAction(api::Kind kind, const ObjectKey& key, const std::string& uid);
// Sets metadata.finalizers to the given list.
state::Action FinalizersAction(api::Kind kind, const ObjectKey& key,
                               const std::vector<std::string>& finalizers,
                               const std::string& resource_version);

std::vector<std::string> Without(std::vector<std::string> list, const std::string& item);
std::vector<std::string> With(std::vector<std::string> list, const std::string& item);

}  // namespace sluice::reconcile
