#include "cli/live_trace.h"

#include <absl/container/btree_set.h>
#include <absl/strings/numbers.h>

#include <algorithm>
#include <utility>

#include "api/codec.h"
#include "api/crd.h"
#include "api/names.h"
#include "base/status.h"
#include "base/time.h"
#include "queueing/topology_inputs.h"
#include "queueing/workload_info.h"
#include "resource/quantity.h"

namespace sluice::cli {
namespace {

using api::Json;
using api::Kind;
using sim::Micros;

constexpr Kind kPlayed[] = {
    Kind::kNamespace,    Kind::kLimitRange,   Kind::kRuntimeClass,   Kind::kPriorityClass,
    Kind::kNode,         Kind::kTopology,     Kind::kResourceFlavor, Kind::kWorkloadPriorityClass,
    Kind::kCohort,       Kind::kClusterQueue, Kind::kLocalQueue,     Kind::kCreditPolicy,
    Kind::kCreditAccount};

// What a user would have written; of a node also what it reports, and of an account what it has.
Json Manifest(const Json& object, bool keep_status = false) {
  Json metadata = Json::MakeObject();
  // Of policies that name the same queue the oldest counts.
  for (const char* key : {"name", "namespace", "labels", "annotations", "creationTimestamp"}) {
    if (const Json* value = object.Find("metadata", key)) metadata.Set(key, *value);
  }
  Json manifest = Json::MakeObject();
  for (const auto& [key, value] : object.AsObject()) {
    if (key == "status" && !keep_status) continue;
    manifest.Set(key, key == "metadata" ? metadata : value);
  }
  return manifest;
}

std::string NameOf(const Json& object) {
  const std::string ns = object.GetString("metadata", "namespace");
  return (ns.empty() ? "" : ns + "/") + object.GetString("metadata", "name");
}

void MakePlayable(Kind kind, Json& object, std::vector<std::string>& notes) {
  Json* spec = object.Find("spec");
  if (kind == Kind::kClusterQueue && spec != nullptr && spec->Erase("admissionChecksStrategy")) {
    notes.push_back(fmt::format("ClusterQueue {}: its admission checks count as passed at once",
                                NameOf(object)));
  }
  if (kind == Kind::kLocalQueue && spec != nullptr) {
    const std::string stop = spec->GetString("stopPolicy");
    if (!stop.empty() && stop != "None") {
      notes.push_back(
          fmt::format("LocalQueue {} is stopped: what waits in it is left out", NameOf(object)));
      spec->Erase("stopPolicy");
    }
  }
}

// LocalQueues that point to no ClusterQueue: nothing in them can start.
void LeaveOutUnserved(ClusterObjects& objects) {
  absl::btree_set<std::string> served;
  for (const Json& queue : objects.kinds[Kind::kClusterQueue]) served.insert(NameOf(queue));
  std::erase_if(objects.kinds[Kind::kLocalQueue], [&](const Json& queue) {
    const std::string name = queue.GetString("spec", "clusterQueue");
    if (served.contains(name)) return false;
    objects.notes.push_back(
        fmt::format("LocalQueue {} points to ClusterQueue {}, which does not exist: what waits in "
                    "it is left out",
                    NameOf(queue), name));
    return true;
  });
}

// What runs holds its quota though its LocalQueue is gone, or points elsewhere: one of that name
// stands for it.
std::vector<Json> StandIns(const ClusterObjects& objects) {
  std::vector<Json> queues;
  const auto names = [&](Kind kind) {
    absl::btree_set<std::string> there;
    const auto found = objects.kinds.find(kind);
    if (found == objects.kinds.end()) return there;
    for (const Json& object : found->second) there.insert(NameOf(object));
    return there;
  };
  absl::btree_set<std::string> local_queues = names(Kind::kLocalQueue);
  const absl::btree_set<std::string> cluster_queues = names(Kind::kClusterQueue);
  const auto workloads = objects.kinds.find(Kind::kWorkload);
  if (workloads == objects.kinds.end()) return queues;
  for (const Json& workload : workloads->second) {
    const std::string ns = workload.GetString("metadata", "namespace");
    const std::string name = workload.GetString("spec", "queueName");
    const std::string holds = workload.GetString("status", "admission", "clusterQueue");
    if (name.empty() || !cluster_queues.contains(holds)) continue;
    if (!local_queues.insert(ns + "/" + name).second) continue;
    queues.push_back(
        Json::MakeObject({{"apiVersion", api::ApiVersionOf(Kind::kLocalQueue)},
                          {"kind", "LocalQueue"},
                          {"metadata", Json::MakeObject({{"name", name}, {"namespace", ns}})},
                          {"spec", Json::MakeObject({{"clusterQueue", holds}})}}));
  }
  return queues;
}

// What pods without a Workload leave of the nodes.
absl::btree_map<std::string, Requests> TakenByOthers(const ClusterObjects& objects) {
  absl::btree_map<std::string, Requests> taken;
  const auto pods = objects.kinds.find(Kind::kPod);
  if (pods == objects.kinds.end()) return taken;
  for (const Json& object : pods->second) {
    const absl::StatusOr<api::Pod> pod = api::Decode<api::Pod>(object);
    if (!pod.ok() || !queueing::IsForeignPod(*pod)) continue;
    Requests& of_node = taken[pod->spec.node_name];
    for (const auto& [resource, amount] : queueing::ForeignRequests(*pod)) {
      of_node[resource] = SaturatingAdd(of_node[resource], amount);
    }
    of_node["pods"] = SaturatingAdd(of_node["pods"], 1);
  }
  return taken;
}

void Subtract(const Requests& taken, Json& node) {
  Json* allocatable = node.Find("status") == nullptr ? nullptr : node["status"].Find("allocatable");
  if (allocatable == nullptr) return;
  for (const auto& [resource, amount] : taken) {
    const Json* value = allocatable->Find(resource);
    if (value == nullptr) continue;
    const absl::StatusOr<Quantity> all =
        Quantity::Parse(value->IsString() ? value->AsString() : value->Text());
    if (!all.ok()) continue;
    const int64_t left = std::max<int64_t>(0, AmountOf(resource, *all) - amount);
    allocatable->Set(resource, QuantityOf(resource, left).ToString());
  }
}

// ---- changes

// "A=B" -> both.
absl::StatusOr<std::pair<std::string, std::string>> Split(const std::string& text, char at,
                                                          const char* form) {
  const size_t found = text.find(at);
  if (found == std::string::npos || found == 0 || found + 1 == text.size()) {
    return InvalidArgument("\"{}\" is not {}", text, form);
  }
  return std::pair(text.substr(0, found), text.substr(found + 1));
}

// Calls `visit(quota)` for each quota of a ClusterQueue, with its flavor.
template <typename Visit>
void ForEachQuota(Json& cluster_queue, Visit visit) {
  Json* groups = cluster_queue.Find("spec") == nullptr
                     ? nullptr
                     : cluster_queue.Find("spec")->Find("resourceGroups");
  if (groups == nullptr || !groups->IsArray()) return;
  for (Json& group : groups->MutableArray()) {
    Json* flavors = group.Find("flavors");
    if (flavors == nullptr || !flavors->IsArray()) continue;
    for (Json& flavor : flavors->MutableArray()) {
      Json* resources = flavor.Find("resources");
      if (resources == nullptr || !resources->IsArray()) continue;
      for (Json& quota : resources->MutableArray()) visit(flavor.GetString("name"), quota);
    }
  }
}

absl::Status SetQuota(const std::string& text, ClusterObjects& objects) {
  constexpr char kForm[] = "CLUSTERQUEUE/FLAVOR/RESOURCE=QUANTITY";
  ASSIGN_OR_RETURN(const auto assignment, Split(text, '=', kForm));
  ASSIGN_OR_RETURN(const auto queue, Split(assignment.first, '/', kForm));
  ASSIGN_OR_RETURN(const auto cell, Split(queue.second, '/', kForm));
  const absl::StatusOr<Quantity> quantity = Quantity::Parse(assignment.second);
  if (!quantity.ok()) return quantity.status();
  if (quantity->Sign() < 0) return InvalidArgument("\"{}\" is negative", assignment.second);
  bool done = false;
  for (Json& object : objects.kinds[Kind::kClusterQueue]) {
    if (object.GetString("metadata", "name") != queue.first) continue;
    ForEachQuota(object, [&](const std::string& flavor, Json& quota) {
      if (flavor != cell.first || quota.GetString("name") != cell.second) return;
      quota.Set("nominalQuota", assignment.second);
      done = true;
    });
  }
  if (done) return absl::OkStatus();
  return InvalidArgument("ClusterQueue {} has no quota for {} in flavor {}", queue.first,
                         cell.second, cell.first);
}

// That CreditPolicy; "": all of them.
absl::Status RemoveCreditPolicy(const std::string& name, ClusterObjects& objects) {
  const size_t removed = std::erase_if(objects.kinds[Kind::kCreditPolicy], [&](const Json& object) {
    return name.empty() || object.GetString("metadata", "name") == name;
  });
  if (removed > 0) return absl::OkStatus();
  return name.empty() ? InvalidArgument("there is no CreditPolicy")
                      : InvalidArgument("CreditPolicy {} does not exist", name);
}

absl::Status RemovePolicy(const std::string& text, ClusterObjects& objects) {
  const size_t colon = text.find(':');
  const std::string policy = text.substr(0, colon);
  const std::string queue = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (policy == "credits") return RemoveCreditPolicy(queue, objects);
  if (policy != "preemption" && policy != "borrowing" && policy != "lending") {
    return InvalidArgument("\"{}\": preemption, borrowing, lending and credits can be removed",
                           text);
  }
  bool found = queue.empty();
  for (Json& object : objects.kinds[Kind::kClusterQueue]) {
    if (!queue.empty() && object.GetString("metadata", "name") != queue) continue;
    found = true;
    if (policy == "preemption") {
      object["spec"].Erase("preemption");
      continue;
    }
    const bool in_cohort = !object.GetString("spec", "cohortName").empty();
    ForEachQuota(object, [&](const std::string&, Json& quota) {
      if (in_cohort) quota.Set(policy == "borrowing" ? "borrowingLimit" : "lendingLimit", "0");
    });
  }
  return found ? absl::OkStatus() : InvalidArgument("ClusterQueue {} does not exist", queue);
}

// ---- nodes

bool Matches(const Json& node, const Json* labels) {
  if (labels == nullptr) return true;
  for (const auto& [key, value] : labels->AsObject()) {
    if (node.GetString("metadata", "labels", key) != value.AsString()) return false;
  }
  return true;
}

// Whether placement looks at the node at all: elsewhere nodes decide nothing, only quota does.
bool Decides(const ClusterObjects& objects, const Json& node) {
  const auto flavors = objects.kinds.find(Kind::kResourceFlavor);
  if (flavors == objects.kinds.end()) return false;
  return std::any_of(flavors->second.begin(), flavors->second.end(), [&](const Json& flavor) {
    return !flavor.GetString("spec", "topologyName").empty() &&
           Matches(node, flavor.Find("spec", "nodeLabels"));
  });
}

absl::Status CheckDecides(const ClusterObjects& objects, const Json& node) {
  if (Decides(objects, node)) return absl::OkStatus();
  return InvalidArgument(
      "node {} belongs to no ResourceFlavor with a topology, so only quota decides there: use "
      "--set-quota",
      node.GetString("metadata", "name"));
}

const Json* FindNode(const ClusterObjects& objects, const std::string& name) {
  const auto nodes = objects.kinds.find(Kind::kNode);
  if (nodes == objects.kinds.end()) return nullptr;
  for (const Json& node : nodes->second) {
    if (node.GetString("metadata", "name") == name) return &node;
  }
  return nullptr;
}

// NODE=COUNT: so many copies of that node, in its domain, are added to `added`.
absl::Status AddNodes(const std::string& text, const ClusterObjects& objects,
                      std::vector<Json>& added) {
  constexpr char kForm[] = "NODE=COUNT";
  constexpr int kMostNodes = 100'000;
  ASSIGN_OR_RETURN(const auto parts, Split(text, '=', kForm));
  int count = 0;
  if (!absl::SimpleAtoi(parts.second, &count) || count < 1 || count > kMostNodes) {
    return InvalidArgument("\"{}\" is not {} with a number from 1 to {}", text, kForm, kMostNodes);
  }
  const Json* found = FindNode(objects, parts.first);
  if (found == nullptr) return InvalidArgument("there is no node {}", parts.first);
  RETURN_IF_ERROR(CheckDecides(objects, *found));
  absl::btree_set<std::string> names;
  for (const Json& node : added) names.insert(node.GetString("metadata", "name"));
  for (int i = 1, made = 0; made < count; ++i) {
    const std::string name = fmt::format("{}-added-{}", parts.first, i);
    if (FindNode(objects, name) != nullptr || !names.insert(name).second) continue;
    Json& node = added.emplace_back(*found);
    node["metadata"].Set("name", name);
    node["metadata"]["labels"].Set("kubernetes.io/hostname", name);
    ++made;
  }
  return absl::OkStatus();
}

// NODE, or LABEL=VALUE for all that carry it: they are gone.
absl::Status Drain(const std::string& text, ClusterObjects& objects) {
  const size_t equals = text.find('=');
  std::vector<Json>& nodes = objects.kinds[Kind::kNode];
  std::vector<Json> left;
  bool found = false;
  for (Json& node : nodes) {
    const bool drained = equals == std::string::npos
                             ? node.GetString("metadata", "name") == text
                             : node.GetString("metadata", "labels", text.substr(0, equals)) ==
                                   text.substr(equals + 1);
    if (!drained) {
      left.push_back(node);
      continue;
    }
    found = true;
    RETURN_IF_ERROR(CheckDecides(objects, node));
  }
  if (!found) return InvalidArgument("there is no node {}", text);
  nodes = std::move(left);
  return absl::OkStatus();
}

}  // namespace

sim::SourceFile ClusterFile(ClusterObjects& objects, bool keep_jobs) {
  if (!keep_jobs) {
    LeaveOutHomeless(objects);  // the API server would refuse them
    LeaveOutUnserved(objects);
  }
  std::string text;
  const auto add = [&](const Json& object) { text += "---\n" + api::ToYaml(object); };
  const auto others = TakenByOthers(objects);
  for (const Kind kind : kPlayed) {
    for (const Json& object : objects.kinds[kind]) {
      Json manifest = Manifest(object, kind == Kind::kNode || kind == Kind::kCreditAccount);
      if (kind == Kind::kNode) {
        const auto taken = others.find(object.GetString("metadata", "name"));
        if (taken != others.end()) Subtract(taken->second, manifest);
      }
      MakePlayable(kind, manifest, objects.notes);
      add(manifest);
    }
  }
  if (!keep_jobs) {
    for (const Json& queue : StandIns(objects)) add(queue);
  } else {
    for (const Kind kind : {Kind::kJob, Kind::kWorkload}) {
      for (const Json& object : objects.kinds[kind]) add(Manifest(object));
    }
  }
  return {objects.source, std::move(text)};
}

absl::Status ApplyChanges(const ClusterChanges& changes, ClusterObjects& objects) {
  // Copies of a node that is drained stay.
  std::vector<Json> added;
  for (const std::string& text : changes.add_nodes) {
    RETURN_IF_ERROR(Annotate(AddNodes(text, objects, added), "--add-nodes"));
  }
  for (const std::string& text : changes.drain) {
    RETURN_IF_ERROR(Annotate(Drain(text, objects), "--drain"));
  }
  for (Json& node : added) objects.kinds[Kind::kNode].push_back(std::move(node));
  for (const std::string& text : changes.set_quota) {
    RETURN_IF_ERROR(Annotate(SetQuota(text, objects), "--set-quota"));
  }
  for (const std::string& text : changes.remove_policy) {
    RETURN_IF_ERROR(Annotate(RemovePolicy(text, objects), "--remove-policy"));
  }
  return absl::OkStatus();
}

}  // namespace sluice::cli
