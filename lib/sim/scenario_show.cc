#include "sim/scenario_show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "admission/reservation.h"
#include "api/codec.h"
#include "api/names.h"
#include "base/time.h"
#include "preemption/checkpoint.h"
#include "queueing/topology_inputs.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

const Json* Condition(const Json& object, const char* type) {
  const Json* conditions = object.Find("status", "conditions");
  if (conditions == nullptr) return nullptr;
  for (const Json& condition : conditions->AsArray()) {
    if (condition.GetString("type") == type) return &condition;
  }
  return nullptr;
}
bool Is(const Json* condition, const char* status) {
  return condition != nullptr && condition->GetString("status") == status;
}

std::string Name(const Json& object) {
  const std::string ns = object.GetString("metadata", "namespace");
  std::string name = object.GetString("metadata", "name");
  if (const Json* owners = object.Find("metadata", "ownerReferences")) {
    for (const Json& owner : owners->AsArray()) {
      const std::string kind = owner.GetString("kind");
      const Json* controller = owner.Find("controller");
      const bool of_pod = kind == "Pod" && controller != nullptr && controller->AsBool();
      if ((kind == "Job" || of_pod) && object.GetString("kind") == "Workload") {
        name = owner.GetString("name");
      }
    }
  }
  return ns.empty() ? name : ns + "/" + name;
}

int64_t Int(const Json& object, const char* part, const char* field) {
  const Json* value = object.Find(part, field);
  return value == nullptr ? 0 : value->AsInt();
}

// "default cpu=2 memory=1Gi, spot cpu=1 (1 borrowed)"; zero amounts are left out.
std::string Usage(const Json& queue, const char* list) {
  std::string text;
  const Json* flavors = queue.Find("status", list);
  if (flavors == nullptr) return "nothing";
  for (const Json& flavor : flavors->AsArray()) {
    std::string amounts;
    for (const Json& resource : flavor.Find("resources")->AsArray()) {
      if (resource.GetString("total") == "0") continue;
      amounts += fmt::format(" {}={}", resource.GetString("name"), resource.GetString("total"));
      const std::string borrowed = resource.GetString("borrowed");
      if (!borrowed.empty() && borrowed != "0") amounts += fmt::format(" ({} borrowed)", borrowed);
    }
    if (amounts.empty()) continue;
    text += (text.empty() ? "" : ", ") + flavor.GetString("name") + amounts;
  }
  return text.empty() ? "nothing" : text;
}

std::string Active(const Json& object) {
  const Json* active = Condition(object, api::kActive);
  if (active == nullptr) return "no condition";
  if (Is(active, "True")) return "active";
  return fmt::format("inactive {} ({})", active->GetString("reason"), active->GetString("message"));
}

// The share of fair sharing, where one is written.
std::string Share(const Json& object) {
  const Json* share = object.Find("status", "fairSharing", "weightedShare");
  return share == nullptr ? "" : fmt::format("; share {}", share->AsInt());
}

// "" unless the LocalQueue shows what it consumed.
std::string Consumed(const Json& queue) {
  const Json* consumed =
      queue.Find("status", "fairSharing", "admissionFairSharingStatus", "consumedResources");
  if (consumed == nullptr) return "";
  std::vector<std::string> parts;
  for (const auto& [resource, amount] : consumed->AsObject()) {
    parts.push_back(fmt::format("{}={}", resource, amount.AsString()));
  }
  std::sort(parts.begin(), parts.end());
  return "; consumed " + (parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, ",")));
}

std::string ShowQueue(const Json& queue) {
  std::string usage = Usage(queue, "flavorsReservation");
  const std::string admitted = Usage(queue, "flavorsUsage");
  if (admitted != usage && admitted != "nothing") usage += "; of that admitted " + admitted;
  const std::string consumed = Consumed(queue);
  usage += consumed.empty() ? Share(queue) : consumed;  // a LocalQueue has no share
  if (!queue.GetString("metadata", "deletionTimestamp").empty()) usage += "; deleting";
  return fmt::format("{}; pending {}, reserving {}, admitted {}; {}", Active(queue),
                     Int(queue, "status", "pendingWorkloads"),
                     Int(queue, "status", "reservingWorkloads"),
                     Int(queue, "status", "admittedWorkloads"), usage);
}

// " 2 of 5" when fewer pods than wanted were admitted.
std::string Partly(const Json& workload, const Json& assignment) {
  const Json* count = assignment.Find("count");
  const Json* pod_sets = workload.Find("spec", "podSets");
  if (count == nullptr || pod_sets == nullptr) return "";
  for (const Json& pod_set : pod_sets->AsArray()) {
    const Json* wanted = pod_set.Find("count");
    if (wanted == nullptr || pod_set.GetString("name") != assignment.GetString("name")) continue;
    if (wanted->AsInt() != count->AsInt()) {
      return fmt::format(" {} of {}", count->AsInt(), wanted->AsInt());
    }
  }
  return "";
}

// " on h1:4 h2:2" for the places of a pod set, " on nodes to come" while they are not chosen.
std::string Places(const Json& assignment, const api::Workload& workload) {
  std::string text;
  for (const api::PodSetAssignment& one : workload.status.admission->pod_set_assignments) {
    if (one.name != assignment.GetString("name")) continue;
    if (one.delayed_topology_request == "Pending") text += " on nodes to come";
    if (!one.topology_assignment.has_value()) continue;
    const auto places = queueing::DecodeAssignment(*one.topology_assignment);
    if (!places.ok()) return " on " + std::string(places.status().message());
    text += " on";
    for (const topology::AssignedDomain& domain : places->domains) {
      text += fmt::format(" {}:{}", fmt::join(domain.values, "/"), domain.count);
    }
  }
  return text;
}

std::string Assignment(const Json& workload) {
  std::string text = workload.GetString("status", "admission", "clusterQueue");
  const Json* assignments = workload.Find("status", "admission", "podSetAssignments");
  if (assignments == nullptr) return text;
  const absl::StatusOr<api::Workload> decoded = api::Decode<api::Workload>(workload);
  for (const Json& assignment : assignments->AsArray()) {
    const Json* flavors = assignment.Find("flavors");
    const Json* usage = assignment.Find("resourceUsage");
    if (flavors == nullptr || usage == nullptr) continue;
    std::vector<std::string> parts;
    for (const auto& [resource, amount] : usage->AsObject()) {
      parts.push_back(
          fmt::format("{}={} of {}", resource, amount.AsString(), flavors->GetString(resource)));
    }
    std::sort(parts.begin(), parts.end());
    text +=
        fmt::format(" {{{}{}: {}{}}}", assignment.GetString("name"), Partly(workload, assignment),
                    fmt::join(parts, ", "), decoded.ok() ? Places(assignment, *decoded) : "");
  }
  return text;
}

std::string Seconds(const std::string& text, absl::Time start) {
  const auto time = ParseTime(text);
  if (!time.ok()) return text;
  return fmt::format("{}s", absl::ToInt64Seconds(*time - start));
}

// What is known of the pods as a whole.
std::string OfPods(const Json& workload) {
  std::string text;
  const Json* ready = Condition(workload, api::kPodsReady);
  const std::string reason = ready == nullptr ? "" : ready->GetString("reason");
  if (Is(ready, "True")) text += reason == "Recovered" ? "; pods ready again" : "; pods ready";
  if (reason == "WaitForRecovery") text += "; pods recovering";
  if (const Json* intact = Condition(workload, api::kGangIntact)) {
    text +=
        fmt::format("; gang {} ({})", intact->GetString("reason"), intact->GetString("message"));
  }
  return text;
}

std::string CheckpointExtras(const Json& workload, absl::Time start) {
  std::string text;
  const auto add = [&](const std::string& part) { text += "; " + part; };
  const Json* asked = Condition(workload, preemption::kCheckpointRequested);
  if (Is(asked, "True")) {
    add("asked for a checkpoint at " + Seconds(asked->GetString("lastTransitionTime"), start));
  } else if (asked != nullptr && !Is(Condition(workload, api::kPreempted), "True")) {
    add("checkpoint " + asked->GetString("reason"));
  } else if (asked != nullptr) {
    add(fmt::format("checkpoint {} ({})", asked->GetString("reason"), asked->GetString("message")));
  }
  const std::string last =
      workload.GetString("metadata", "annotations", preemption::kLastCheckpoint);
  if (!last.empty()) add("checkpoint at " + Seconds(last, start));
  if (Is(Condition(workload, preemption::kPreemptedOften), "True")) add("preempted often");
  return text;
}

std::string ReservedExtras(const Json& workload, absl::Time start) {
  const Json* reserved = Condition(workload, admission::kReservedCondition);
  if (Is(reserved, "Unknown")) return "; start not known";
  if (!Is(reserved, "True")) return "";
  api::Condition shown;
  shown.type = admission::kReservedCondition;
  shown.status = api::ConditionStatus::kTrue;
  shown.message = reserved->GetString("message");
  api::Workload holder;
  holder.status.conditions.push_back(std::move(shown));
  const auto at = admission::ReservedTime(holder);
  return "; start reserved for " + (at ? Seconds(sluice::FormatTime(*at), start) : "no time");
}

std::string Extras(const Json& workload, absl::Time start) {
  std::string text;
  const auto add = [&](const std::string& part) { text += "; " + part; };
  const Json* evicted = Condition(workload, api::kEvicted);
  if (Is(evicted, "True")) {
    add(fmt::format("evicted {} ({})", evicted->GetString("reason"),
                    evicted->GetString("message")));
  }
  const Json* preempted = Condition(workload, api::kPreempted);
  if (Is(preempted, "True")) add("preempted " + preempted->GetString("reason"));
  text += CheckpointExtras(workload, start);
  text += ReservedExtras(workload, start);
  const Json* requeued = Condition(workload, api::kRequeued);
  if (Is(requeued, "False")) add("not requeued " + requeued->GetString("reason"));
  if (const std::string at = workload.GetString("status", "requeueState", "requeueAt");
      !at.empty()) {
    add("requeue at " + Seconds(at, start));
  }
  if (Is(Condition(workload, api::kBlockedOnPreemptionGates), "True")) {
    add("blocked on preemption gates");
  }
  if (const Json* gates = workload.Find("status", "preemptionGates")) {
    for (const Json& gate : gates->AsArray()) {
      add(fmt::format("gate {} {}", gate.GetString("name"), gate.GetString("position")));
    }
  }
  if (const Json* count = workload.Find("status", "requeueState", "count")) {
    add(fmt::format("requeue count {}", count->AsInt()));
  }
  if (const Json* checks = workload.Find("status", "admissionChecks")) {
    for (const Json& check : checks->AsArray()) {
      add(fmt::format("check {} {}", check.GetString("name"), check.GetString("state")));
    }
  }
  if (const Json* pods = workload.Find("status", "reclaimablePods")) {
    for (const Json& pod : pods->AsArray()) {
      add(fmt::format("reclaimable {} {}", pod.GetString("name"), pod.Find("count")->AsInt()));
    }
  }
  text += OfPods(workload);
  if (const int64_t priority = Int(workload, "spec", "priority"); priority != 0) {
    add(fmt::format("priority {}", priority));
  }
  if (const std::string queue = workload.GetString("spec", "queueName"); queue != "q") {
    add("queue " + (queue.empty() ? "none" : queue));
  }
  const Json* replacements = Condition(workload, api::kWaitingForReplacementPods);
  if (Is(replacements, "True")) {
    add("waits for replacement pods " + replacements->GetString("reason"));
  }
  const Json* active = workload.Find("spec", "active");
  if (active != nullptr && !active->AsBool(true)) add("deactivated");
  if (!workload.GetString("metadata", "deletionTimestamp").empty()) add("deleting");
  return text;
}

std::string ShowWorkload(const Json& workload, absl::Time start) {
  std::string state;
  const Json* finished = Condition(workload, api::kFinished);
  const Json* reserved = Condition(workload, api::kQuotaReserved);
  if (Is(finished, "True")) {
    return fmt::format("finished {} ({})", finished->GetString("reason"),
                       finished->GetString("message"));
  }
  if (Is(Condition(workload, api::kAdmitted), "True")) {
    state = "admitted in " + Assignment(workload);
  } else if (Is(reserved, "True")) {
    state = "reserved in " + Assignment(workload);
  } else if (reserved != nullptr) {
    state =
        fmt::format("waits {} ({})", reserved->GetString("reason"), reserved->GetString("message"));
  } else {
    state = "waits";
  }
  return state + Extras(workload, start);
}

std::string ShowJob(const Json& job) {
  if (Is(Condition(job, "Complete"), "True")) return "complete";
  if (Is(Condition(job, "Failed"), "True")) return "failed";
  const Json* suspend = job.Find("spec", "suspend");
  std::string text = suspend != nullptr && suspend->AsBool() ? "suspended" : "running";
  if (const int64_t active = Int(job, "status", "active"); active > 0) {
    text += fmt::format(" {} active", active);
  }
  if (const int64_t done = Int(job, "status", "succeeded"); done > 0) {
    text += fmt::format(", {} succeeded", done);
  }
  if (const Json* selector = job.Find("spec", "template", "spec", "nodeSelector")) {
    for (const auto& [key, value] : selector->AsObject()) {
      text += fmt::format(", on {}={}", key, value.AsString());
    }
  }
  if (const Json* tolerations = job.Find("spec", "template", "spec", "tolerations")) {
    for (const Json& toleration : tolerations->AsArray()) {
      text += ", tolerates " + toleration.GetString("key");
    }
  }
  if (job.GetString("metadata", "annotations", api::kStopping) == "true") text += ", stopping";
  const std::string asked =
      job.GetString("metadata", "annotations", preemption::kCheckpointRequestedAt);
  if (!asked.empty()) text += ", asked for a checkpoint";
  if (!job.GetString("metadata", "deletionTimestamp").empty()) text += ", deleting";
  return text;
}

std::string ShowPod(const Json& pod) {
  std::string text = pod.GetString("status", "phase");
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (const Json* gates = pod.Find("spec", "schedulingGates")) {
    if (!gates->AsArray().empty()) text = "gated";
  }
  if (Is(Condition(pod, "Ready"), "True")) text += ", ready";
  if (const Json* selector = pod.Find("spec", "nodeSelector")) {
    for (const auto& [key, value] : selector->AsObject()) {
      text += fmt::format(", on {}={}", key, value.AsString());
    }
  }
  if (const Json* tolerations = pod.Find("spec", "tolerations")) {
    for (const Json& toleration : tolerations->AsArray()) {
      const std::string key = toleration.GetString("key");
      if (!key.starts_with("node.kubernetes.io/")) text += ", tolerates " + key;
    }
  }
  if (const Json* target = Condition(pod, "TerminationTarget")) {
    text += ", stopped by " + target->GetString("reason");
  }
  if (!pod.GetString("metadata", "deletionTimestamp").empty()) text += ", deleting";
  const std::string asked =
      pod.GetString("metadata", "annotations", preemption::kCheckpointRequestedAt);
  if (!asked.empty()) text += ", asked for a checkpoint";
  const bool managed = pod.GetString("metadata", "labels", api::kManagedLabel) == "true";
  if (managed && pod.Find("metadata", "finalizers") == nullptr) text += ", let go";
  const std::string group = pod.GetString("spec", "schedulingGroup", "podGroupName");
  const std::string node = pod.GetString("spec", "nodeName");
  if (!group.empty()) text += ", in " + group + (node.empty() ? "" : " on " + node);
  return managed ? text : text + ", not managed";
}

// Pods of an elastic Job that wait for their slice: ", 2 gated".
std::string GatedPods(const ApiServer& api, const Json& job) {
  int gated = 0;
  api.ForEach(Kind::kPod, [&](const Json& pod) {
    const Json* owners = pod.Find("metadata", "ownerReferences");
    const Json* gates = pod.Find("spec", "schedulingGates");
    if (owners == nullptr || gates == nullptr || gates->AsArray().empty()) return;
    for (const Json& owner : owners->AsArray()) {
      if (owner.GetString("uid") == job.GetString("metadata", "uid")) ++gated;
    }
  });
  return gated == 0 ? "" : fmt::format(", {} gated", gated);
}

std::string ShowCohort(const Json& cohort) {
  const std::string parent = cohort.GetString("spec", "parentName");
  std::string text = parent.empty() ? "root" : "under " + parent;
  const Json* groups = cohort.Find("spec", "resourceGroups");
  if (groups != nullptr) {
    for (const Json& group : groups->AsArray()) {
      for (const Json& flavor : group.Find("flavors")->AsArray()) {
        text += "; " + flavor.GetString("name");
        for (const Json& resource : flavor.Find("resources")->AsArray()) {
          text +=
              fmt::format(" {}={}", resource.GetString("name"), resource.GetString("nominalQuota"));
          const std::string borrow = resource.GetString("borrowingLimit");
          if (!borrow.empty()) text += "/borrow=" + borrow;
          const std::string lend = resource.GetString("lendingLimit");
          if (!lend.empty()) text += "/lend=" + lend;
        }
      }
    }
  }
  return text + Share(cohort);
}

std::string ShowPodGroup(const Json& group) {
  const Json* minimum = group.Find("spec", "schedulingPolicy", "gang", "minCount");
  std::string text = minimum == nullptr ? "basic" : fmt::format("gang of {}", minimum->AsInt());
  const Json* mode = group.Find("spec", "disruptionMode");
  if (mode != nullptr && mode->Has("all")) text += ", all or none";
  const std::string priority = group.GetString("spec", "priorityClassName");
  if (!priority.empty()) text += ", priority class " + priority;
  const Json* scheduled = Condition(group, "PodGroupInitiallyScheduled");
  return scheduled == nullptr ? text : text + ", " + scheduled->GetString("reason");
}

std::string ShowOther(const Json& object) {
  std::string text;
  if (const Json* finalizers = object.Find("metadata", "finalizers")) {
    for (const Json& finalizer : finalizers->AsArray()) {
      text += (text.empty() ? "" : ", ") + finalizer.AsString();
    }
  }
  text = text.empty() ? "no finalizer" : "finalizer " + text;
  if (!object.GetString("metadata", "deletionTimestamp").empty()) text += "; deleting";
  return text;
}

std::string ShowPolicy(const Json& policy) {
  const Json* conflict = Condition(policy, "Conflict");
  std::string text = Active(policy);
  if (const Json* active = Condition(policy, api::kActive); Is(active, "True")) {
    text += fmt::format(" ({})", active->GetString("message"));
  }
  if (Is(conflict, "True")) text += "; conflict: " + conflict->GetString("message");
  return text;
}

std::string ShowAccount(const Json& account, absl::Time start) {
  if (account.GetString("status", "balance").empty()) return "nothing written yet";
  std::string text = fmt::format(
      "balance {} of {}; uses {} of {}, rate {}", account.GetString("status", "balance"),
      account.GetString("status", "bankLimit"), account.GetString("status", "usage"),
      account.GetString("status", "entitlement"), account.GetString("status", "rate"));
  if (const std::string empty = account.GetString("status", "emptyAt"); !empty.empty()) {
    text += "; empty at " + Seconds(empty, start);
  }
  text += fmt::format(
      "; earned {}, spent {}, expired {}", account.GetString("status", "lifetimeEarned"),
      account.GetString("status", "lifetimeSpent"), account.GetString("status", "lifetimeExpired"));
  if (const Json* active = Condition(account, api::kActive)) {
    if (active->GetString("reason") != "Active") text += "; " + active->GetString("reason");
  }
  return text;
}

std::string ShowEvent(const Json& event) {
  return fmt::format("{} {} {} ({})", event.GetString("regarding", "kind"), event.GetString("type"),
                     event.GetString("reason"), event.GetString("note"));
}

}  // namespace

std::string ShowAll(const ApiServer& api, Kind kind, absl::Time start) {
  std::vector<std::string> lines;
  for (const Json& object : api.List(kind)) {
    switch (kind) {
      case Kind::kClusterQueue:
        lines.push_back(fmt::format("  cq {}: {}\n", Name(object), ShowQueue(object)));
        break;
      case Kind::kLocalQueue:
        lines.push_back(fmt::format("  lq {}: {}\n", Name(object), ShowQueue(object)));
        break;
      case Kind::kCohort:
        lines.push_back(fmt::format("  cohort {}: {}\n", Name(object), ShowCohort(object)));
        break;
      case Kind::kWorkload:
        lines.push_back(fmt::format("  wl {}: {}\n", Name(object), ShowWorkload(object, start)));
        break;
      case Kind::kJob:
        lines.push_back(
            fmt::format("  job {}: {}{}\n", Name(object), ShowJob(object), GatedPods(api, object)));
        break;
      case Kind::kPod:
        lines.push_back(fmt::format("  pod {}: {}\n", Name(object), ShowPod(object)));
        break;
      case Kind::kPodGroup:
        lines.push_back(fmt::format("  podgroup {}: {}\n", Name(object), ShowPodGroup(object)));
        break;
      case Kind::kCreditPolicy:
        lines.push_back(fmt::format("  policy {}: {}\n", Name(object), ShowPolicy(object)));
        break;
      case Kind::kCreditAccount:
        lines.push_back(
            fmt::format("  account {}: {}\n", Name(object), ShowAccount(object, start)));
        break;
      case Kind::kEvent:
        lines.push_back(fmt::format("  event {}\n", ShowEvent(object)));
        break;
      default:
        lines.push_back(
            fmt::format("  {} {}: {}\n", api::InfoOf(kind).name, Name(object), ShowOther(object)));
        break;
    }
  }
  // Keys of Workloads carry hashes; what is shown is in the order of what is shown.
  std::stable_sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

}  // namespace sluice::sim
