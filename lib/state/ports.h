// The ports of the loop: what comes in (Event), what goes out (Action) and who takes it
// (ActionSink).
//
// Real, simulated and test implementations exist of each. Everything here is a plain value, so a
// recorded stream of events is a complete bug report.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "api/json.h"
#include "api/kind.h"
#include "base/object_key.h"

namespace sluice::state {

// One object from a list or a watch. A (re)list of a kind is ListBegin, an Upsert per object,
// ListEnd: objects that were known before and did not come are gone, unless they are newer than the
// list. The first ListEnd of a kind makes it synced. A Bookmark says that all that happened up to a
// version has been told.
struct ObjectEvent {
  enum class Type { kListBegin, kUpsert, kDelete, kListEnd, kBookmark };
  Type type = Type::kUpsert;
  api::Kind kind = api::Kind::kWorkload;
  // Of kListBegin: the labelSelector, if any. Of kListEnd and kBookmark: metadata.resourceVersion;
  // of a list empty where that is not known.
  api::Json object;
  bool by_reply = false;  // the answer to a request of ours, and no part of a list that runs
};

// The answer to an action.
struct Reply {
  uint64_t action_id = 0;
  // HTTP status code; 0 when no answer came in time (the write may or may not have happened).
  int code = 0;
  std::string reason;   // Status.reason of the API ("Conflict", "NotFound", ...), "" on success
  std::string message;  // human text of the failure
  // How long the API server asks to wait before the next try (Retry-After of RFC 9110); 0: it does
  // not say.
  absl::Duration retry_after = absl::ZeroDuration();
  api::Json object;  // the object as stored, on success
  bool ok() const { return code >= 200 && code < 300; }
};

// A resourceVersion of the collection of each kind.
using Versions = absl::btree_map<api::Kind, std::string>;

// This process became, or is no longer, the one that writes.
struct LeaderChange {
  bool leading = false;
  // Of what a predecessor may have written: versions that the API server had after this process
  // became the leader, so that they contain all of that. Nothing is decided before events have
  // shown as much.
  Versions at_least = {};
};

// What the API server can do beyond what every one can, as it was found out last.
struct ClusterFeatures {
  // PodGroups of scheduling.k8s.io/v1beta1 are served and may be read and written.
  bool pod_groups = false;
  // spec.scheduling of a Job is kept, so that the Job controller makes a PodGroup for it.
  bool job_scheduling = false;
  bool operator==(const ClusterFeatures&) const = default;
};

using Event = std::variant<ObjectEvent, Reply, LeaderChange, ClusterFeatures>;

// kGet reads one object as it is now, after all writes that were answered before ("Most recent" of
// Kubernetes API concepts, "Resource versions").
enum class Verb { kCreate, kUpdate, kMergePatch, kJsonPatch, kApply, kDelete, kGet };

// One request to the API server, nearly always a write. Never depends on another action in flight;
// order matters only where the owner waits for the reply before it submits the next.
struct Action {
  uint64_t id = 0;  // unique in the process; the Reply carries it
  Verb verb = Verb::kMergePatch;
  api::Kind kind = api::Kind::kWorkload;
  ObjectKey key;
  std::string subresource;    // "" or "status"
  api::Json body;             // object, patch, or DeleteOptions; none for kGet
  std::string field_manager;  // for kApply (required), others optional
  bool force = false;         // for kApply: take over fields of other managers
  // Events are the first to be dropped or delayed when the API server pushes back.
  bool best_effort = false;
};

// Takes actions. Never blocks and never fails: every failure is a Reply.
class ActionSink {
 public:
  virtual ~ActionSink() = default;
  virtual void Submit(Action action) = 0;
};

// Gives events in order.
class EventSource {
 public:
  virtual ~EventSource() = default;
  // The next event, or nullopt when none came before the instant (or Stop was asked).
  virtual std::optional<Event> Next(absl::Time deadline) = 0;
};

}  // namespace sluice::state
