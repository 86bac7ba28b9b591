#include "sim/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "api/codec.h"
#include "base/check.h"
#include "base/time.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Verb;

constexpr absl::Duration kFlushAfter = absl::Minutes(5);

Requests RequestsOfPod(const api::PodSpec& spec) {
  Requests requests;
  for (const api::Container& container : spec.containers) {
    for (const auto& [name, amount] : RequestsOf(container.resources.requests)) {
      requests[name] = SaturatingAdd(requests[name], amount);
    }
  }
  return requests;
}

bool Ended(const api::Pod& pod) { return pod.phase == "Succeeded" || pod.phase == "Failed"; }

int64_t MinCountOf(const api::PodGroup& group) {
  return group.policy.gang ? group.policy.gang->min_count.value_or(1) : 1;
}

absl::StatusOr<api::PodGroup> FindGroup(const ApiServer& api, const ObjectKey& key) {
  const Json* object = api.Find(Kind::kPodGroup, key);
  if (object == nullptr) return absl::NotFoundError("");
  return api::Decode<api::PodGroup>(*object);
}

bool Fits(const Requests& requests, const Requests& free) {
  return std::all_of(requests.begin(), requests.end(), [&](const auto& request) {
    const auto found = free.find(request.first);
    return request.second == 0 || (found != free.end() && found->second >= request.second);
  });
}

Json ConditionJson(const char* type, bool value, const char* reason, const std::string& message,
                   absl::Time now) {
  return Json::MakeObject({{"type", type},
                           {"status", value ? "True" : "False"},
                           {"reason", reason},
                           {"message", message},
                           {"lastTransitionTime", sluice::FormatTime(now)}});
}

// Replaces the condition of that type, and keeps the others.
Json ConditionsWith(const Json* object, Json condition) {
  Json list = Json::MakeArray();
  const Json* old = object == nullptr ? nullptr : object->Find("status", "conditions");
  if (old != nullptr) list = *old;
  for (Json& entry : list.MutableArray()) {
    if (entry.GetString("type") != condition.GetString("type")) continue;
    if (entry.GetString("status") == condition.GetString("status")) {
      condition.Set("lastTransitionTime", entry.GetString("lastTransitionTime"));
    }
    entry = std::move(condition);
    return list;
  }
  list.Append(std::move(condition));
  return list;
}

}  // namespace

std::vector<Scheduler::Entry> Scheduler::Entries() const {
  absl::btree_map<EntryKey, Entry> entries;
  std::vector<Json> pods = api_.List(Kind::kPod);
  std::stable_sort(pods.begin(), pods.end(), [](const Json& a, const Json& b) {
    return a.GetString("metadata", "creationTimestamp") <
           b.GetString("metadata", "creationTimestamp");
  });
  for (const Json& object : pods) {
    absl::StatusOr<api::Pod> pod = api::Decode<api::Pod>(object);
    if (!pod.ok() || Ended(*pod)) continue;
    const ObjectKey key = pod->metadata.Key();
    const bool grouped = api_.features().pod_groups && !pod->spec.scheduling_group.empty();
    const ObjectKey owner = grouped ? ObjectKey{key.ns, pod->spec.scheduling_group} : key;
    Entry& entry = entries[{grouped, owner}];
    entry.key = owner;
    entry.grouped = grouped;
    Requests requests = RequestsOfPod(pod->spec);
    std::string node = pod->spec.node_name;
    entry.members.push_back({key, *std::move(pod), std::move(requests), std::move(node)});
  }
  std::vector<Entry> list;
  for (auto& [key, entry] : entries) list.push_back(std::move(entry));
  std::stable_sort(list.begin(), list.end(), [](const Entry& a, const Entry& b) {
    const auto priority = [](const Entry& e) {
      return e.members.front().pod.spec.priority.value_or(0);
    };
    if (priority(a) != priority(b)) return priority(a) > priority(b);
    return a.members.front().pod.metadata.creation_timestamp <
           b.members.front().pod.metadata.creation_timestamp;
  });
  return list;
}

std::vector<Scheduler::Node> Scheduler::Nodes(const std::vector<Entry>& entries) const {
  std::vector<Node> nodes;
  for (const Json& object : api_.List(Kind::kNode)) {
    const absl::StatusOr<api::Node> node = api::Decode<api::Node>(object);
    if (!node.ok()) continue;
    const bool ready = !api::IsFalse(node->conditions, "Ready");
    nodes.push_back({node->metadata.name, node->metadata.labels, RequestsOf(node->allocatable),
                     ready && !node->unschedulable});
  }
  for (const Entry& entry : entries) {
    for (const Member& member : entry.members) {
      if (member.node.empty()) continue;
      for (Node& node : nodes) {
        if (node.name != member.node) continue;
        for (const auto& [name, amount] : member.requests) node.free[name] -= amount;
      }
    }
  }
  return nodes;
}

std::string Scheduler::RoomSignature(const std::vector<Node>& nodes) const {
  std::string text;
  for (const Node& node : nodes) {
    if (!node.usable) continue;
    text += node.name;
    for (const auto& [name, amount] : node.free) text += fmt::format(" {}={}", name, amount);
    text += ";";
  }
  return text;
}

bool Scheduler::Wakes(const Entry& entry, Parked& parked, bool room, absl::Time now) const {
  bool wakes = parked.state == State::kActive || now >= parked.since + kFlushAfter ||
               (room && parked.state == State::kUnschedulable);
  absl::btree_map<ObjectKey, std::string> pods;
  for (const Member& member : entry.members) {
    if (!member.node.empty()) continue;
    const std::string& version = member.pod.metadata.resource_version;
    pods[member.key] = version;
    const auto old = parked.pods.find(member.key);
    // What the scheduler itself writes about a pod wakes nobody; see SayUnschedulable.
    if (old == parked.pods.end() || old->second != version) wakes = true;
  }
  if (entry.grouped) {
    const absl::StatusOr<api::PodGroup> group = FindGroup(api_, entry.key);
    const int64_t count = group.ok() ? MinCountOf(*group) : 0;
    if (group.ok() != parked.known || count < parked.min_count) wakes = true;
    parked.known = group.ok();
    parked.min_count = count;
  }
  parked.pods = std::move(pods);
  return wakes;
}

void Scheduler::Run(absl::Time now) {
  std::vector<Entry> entries = Entries();
  std::vector<Node> nodes = Nodes(entries);
  const std::string room = RoomSignature(nodes);
  const bool changed = room != room_;
  absl::btree_map<EntryKey, Parked> next;
  for (Entry& entry : entries) {
    const EntryKey key{entry.grouped, entry.key};
    Parked parked = parked_[key];
    const bool pending = std::any_of(entry.members.begin(), entry.members.end(),
                                     [](const Member& member) { return member.node.empty(); });
    if (!pending) continue;
    if (Wakes(entry, parked, changed, now)) {
      parked.state = Try(entry, nodes, now);
      parked.since = now;
      for (auto& [pod, version] : parked.pods) {
        if (const Json* object = api_.Find(Kind::kPod, pod)) {
          version = object->GetString("metadata", "resourceVersion");
        }
      }
    }
    next[key] = std::move(parked);
  }
  parked_ = std::move(next);
  room_ = RoomSignature(nodes);
}

absl::Time Scheduler::NextDue() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [key, parked] : parked_) next = std::min(next, parked.since + kFlushAfter);
  return next;
}

Scheduler::State Scheduler::Try(Entry& entry, std::vector<Node>& nodes, absl::Time now) {
  if (entry.grouped) {
    const absl::StatusOr<api::PodGroup> group = FindGroup(api_, entry.key);
    return group.ok() ? TryGroup(entry, *group, nodes, now) : State::kBlocked;
  }
  Member& pod = entry.members.front();
  if (!pod.pod.spec.scheduling_gates.empty()) return State::kBlocked;
  if (Place(entry, nodes, "", "") == 1) {
    Bind(pod, now);
    return State::kActive;
  }
  SayUnschedulable(pod, "Unschedulable", "no node has room", now);
  return State::kUnschedulable;
}

// The values of the label that all pods may share: that of the nodes where some run already, else
// all. Without a key one empty value.
std::vector<std::string> Scheduler::Domains(const Entry& entry, const std::vector<Node>& nodes,
                                            const std::string& key) const {
  if (key.empty()) return {""};
  std::vector<std::string> domains;
  for (const Node& node : nodes) {
    const auto label = node.labels.find(key);
    if (label == node.labels.end()) continue;
    const bool home = std::any_of(entry.members.begin(), entry.members.end(),
                                  [&](const Member& member) { return member.node == node.name; });
    if (home) return {label->second};
    if (std::find(domains.begin(), domains.end(), label->second) == domains.end()) {
      domains.push_back(label->second);
    }
  }
  return domains;
}

Scheduler::State Scheduler::TryGroup(Entry& entry, const api::PodGroup& group,
                                     std::vector<Node>& nodes, absl::Time now) {
  const int64_t wanted = MinCountOf(group);
  int64_t bound = 0;
  bool mismatch = false;
  for (const Member& member : entry.members) {
    if (!member.node.empty()) {
      ++bound;
      continue;
    }
    if (!member.pod.spec.scheduling_gates.empty()) return State::kBlocked;
    mismatch |= member.pod.spec.priority.value_or(0) != group.priority.value_or(0);
  }
  if (static_cast<int64_t>(entry.members.size()) < wanted) return State::kBlocked;
  const auto refuse = [&](const char* reason, const std::string& message) {
    for (const Member& member : entry.members) {
      if (member.node.empty()) SayUnschedulable(member, reason, message, now);
    }
    SayGroup(entry, false, reason, message, now);
    return State::kUnschedulable;
  };
  if (mismatch) return refuse("SchedulerError", "priorities of pods and group differ");
  const std::string domain_key = group.topology.empty() ? "" : group.topology.front().key;
  std::optional<std::pair<Entry, std::vector<Node>>> best;
  size_t most = 0;
  for (const std::string& domain : Domains(entry, nodes, domain_key)) {
    Entry tried = entry;
    std::vector<Node> room = nodes;
    const size_t placed = Place(tried, room, domain_key, domain);
    if (placed == 0 || bound + static_cast<int64_t>(placed) < wanted || placed <= most) continue;
    most = placed;
    best.emplace(std::move(tried), std::move(room));
  }
  if (!best) return refuse("Unschedulable", fmt::format("{} pods of the gang do not fit", wanted));
  nodes = std::move(best->second);
  State state = State::kActive;
  for (size_t i = 0; i < entry.members.size(); ++i) {
    if (!entry.members[i].node.empty()) continue;
    if (best->first.members[i].node.empty()) {
      SayUnschedulable(entry.members[i], "Unschedulable", "no node has room", now);
      state = State::kUnschedulable;
    } else {
      Bind(best->first.members[i], now);
    }
  }
  SayGroup(entry, true, "Scheduled", "", now);
  return state;
}

// Each pod onto the node with the most free cpu, of one domain when there is a key. Returns how
// many got one.
size_t Scheduler::Place(Entry& entry, std::vector<Node>& nodes, const std::string& key,
                        const std::string& value) const {
  size_t placed = 0;
  for (Member& member : entry.members) {
    if (!member.node.empty()) continue;
    Node* best = nullptr;
    for (Node& node : nodes) {
      if (!node.usable || !Fits(member.requests, node.free)) continue;
      const auto has = [&](const std::string& label, const std::string& text) {
        const auto found = node.labels.find(label);
        return found != node.labels.end() && found->second == text;
      };
      const api::StringMap& selector = member.pod.spec.node_selector;
      if ((!key.empty() && !has(key, value)) ||
          !std::all_of(selector.begin(), selector.end(),
                       [&](const auto& pair) { return has(pair.first, pair.second); })) {
        continue;
      }
      if (best == nullptr || node.free[kCpu] > best->free[kCpu]) best = &node;
    }
    if (best == nullptr) continue;
    for (const auto& [name, amount] : member.requests) best->free[name] -= amount;
    member.node = best->name;
    ++placed;
  }
  return placed;
}

void Scheduler::Bind(const Member& member, absl::Time now) {
  state::Action action;
  action.verb = Verb::kMergePatch;
  action.kind = Kind::kPod;
  action.key = member.key;
  action.field_manager = "kube-scheduler";
  action.body["spec"].Set("nodeName", member.node);
  SLUICE_CHECK(api_.Execute(action, now).ok(), "pod {} cannot be bound", member.key.ToString());
  Say(Kind::kPod, member.key, ConditionJson("PodScheduled", true, "Scheduled", "", now), now);
}

void Scheduler::SayUnschedulable(const Member& member, const char* reason,
                                 const std::string& message, absl::Time now) {
  Say(Kind::kPod, member.key, ConditionJson("PodScheduled", false, reason, message, now), now);
}

void Scheduler::SayGroup(const Entry& entry, bool scheduled, const char* reason,
                         const std::string& message, absl::Time now) {
  constexpr char kType[] = "PodGroupInitiallyScheduled";
  const absl::StatusOr<api::PodGroup> group = FindGroup(api_, entry.key);
  if (!group.ok() || api::IsTrue(group->conditions, kType)) return;  // True is for ever
  Say(Kind::kPodGroup, entry.key, ConditionJson(kType, scheduled, reason, message, now), now);
}

void Scheduler::Say(Kind kind, const ObjectKey& key, Json condition, absl::Time now) {
  state::Action action;
  action.verb = Verb::kMergePatch;
  action.kind = kind;
  action.key = key;
  action.subresource = "status";
  action.field_manager = "kube-scheduler";
  action.body["status"].Set("conditions",
                            ConditionsWith(api_.Find(kind, key), std::move(condition)));
  api_.Execute(action, now);
}

}  // namespace sluice::sim
