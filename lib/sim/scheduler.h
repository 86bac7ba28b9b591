// Scheduler: what kube-scheduler does with pods and PodGroups, for the simulator.
//
// Binds pods that are API objects to nodes that are API objects, by requests and node selectors.
// The pods of a PodGroup are one entry of the queue: it is looked at only when no pending member
// has a scheduling gate and enough members exist; with a gang, pods are bound only when the minimum
// is reached. An entry that was found blocked or that did not fit is looked at again only after an
// event that kube-scheduler would wake it for: a new or changed pending member, a new group, a
// lower minimum, for those that did not fit also room that became free; and all of them after five
// minutes. So it stalls where kube-scheduler does: after the deletion of a gated member.
//
// Not modelled: preemption, affinity, spread, volumes, several schedulers. Without PodGroups in the
// API every pod is on its own. Deterministic, single thread.
// Source: KEP-4671 "Gang Scheduling"; Kubernetes documentation, "Workload-aware scheduling".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/time/time.h>

#include <string>
#include <vector>

#include "api/core_types.h"
#include "resource/resource.h"
#include "sim/api_server.h"

namespace sluice::sim {

class Scheduler {
 public:
  explicit Scheduler(ApiServer& api) : api_(api) {}

  // Looks at everything that is to be looked at.
  void Run(absl::Time now);
  // When parked entries are looked at again without an event.
  absl::Time NextDue() const;

 private:
  struct Node {
    std::string name;
    api::StringMap labels;
    Requests free;
    bool usable = true;
  };
  struct Member {
    ObjectKey key;
    api::Pod pod;
    Requests requests;
    std::string node;  // where it is or would be bound
  };
  // A group, or a pod by itself.
  struct Entry {
    ObjectKey key;  // of the PodGroup or pod
    bool grouped = false;
    std::vector<Member> members;  // all that count, bound ones too; in the order of creation
  };
  enum class State { kActive, kBlocked, kUnschedulable };
  struct Parked {
    State state = State::kActive;
    absl::Time since;
    int64_t min_count = 0;
    bool known = false;                            // the group existed
    absl::btree_map<ObjectKey, std::string> pods;  // pending members and their versions
  };
  using EntryKey = std::pair<bool, ObjectKey>;

  std::vector<Entry> Entries() const;
  std::vector<Node> Nodes(const std::vector<Entry>& entries) const;
  bool Wakes(const Entry& entry, Parked& parked, bool room, absl::Time now) const;
  State Try(Entry& entry, std::vector<Node>& nodes, absl::Time now);
  State TryGroup(Entry& entry, const api::PodGroup& group, std::vector<Node>& nodes,
                 absl::Time now);
  std::vector<std::string> Domains(const Entry& entry, const std::vector<Node>& nodes,
                                   const std::string& key) const;
  size_t Place(Entry& entry, std::vector<Node>& nodes, const std::string& key,
               const std::string& value) const;
  void Bind(const Member& member, absl::Time now);
  void SayUnschedulable(const Member& member, const char* reason, const std::string& message,
                        absl::Time now);
  void SayGroup(const Entry& entry, bool scheduled, const char* reason, const std::string& message,
                absl::Time now);
  void Say(api::Kind kind, const ObjectKey& key, api::Json condition, absl::Time now);
  std::string RoomSignature(const std::vector<Node>& nodes) const;

  ApiServer& api_;
  absl::btree_map<EntryKey, Parked> parked_;
  std::string room_;
};

}  // namespace sluice::sim
