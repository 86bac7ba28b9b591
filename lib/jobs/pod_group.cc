#include "jobs/pod_group.h"

#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/names.h"
#include "api/pod_names.h"
#include "base/status.h"

namespace sluice::jobs {
namespace {

using state::ManagedPod;
using state::ManagedPodPtr;

bool HasFinalizer(const ManagedPod& pod) {
  return pod.metadata.HasFinalizer(api::kManagedFinalizer);
}

absl::Time Created(const ManagedPod& pod) {
  return pod.metadata.creation_timestamp.value_or(absl::InfinitePast());
}

// Those that are let go of already come last, then those that wait, then the younger.
bool StaysBefore(const ManagedPodPtr& a, const ManagedPodPtr& b) {
  if (HasFinalizer(*a) != HasFinalizer(*b)) return HasFinalizer(*a);
  if (IsGated(*a) != IsGated(*b)) return !IsGated(*a);
  if (Created(*a) != Created(*b)) return Created(*a) < Created(*b);
  return a->metadata.name < b->metadata.name;
}

// When the pod stopped to be of use, as far as can be told.
absl::Time LastActive(const ManagedPod& pod, absl::Time now) {
  absl::Time last = pod.metadata.deletion_timestamp.value_or(now);
  const api::Condition* ready = api::FindCondition(pod.conditions, "ContainersReady");
  if (ready != nullptr && ready->status == api::ConditionStatus::kFalse &&
      ready->reason == "PodFailed") {
    last = std::min(last, ready->last_transition_time.value_or(now));
  }
  return last;
}

void SortInactive(Pods& pods, absl::Time now) {
  std::sort(pods.begin(), pods.end(), [now](const ManagedPodPtr& a, const ManagedPodPtr& b) {
    if (HasFinalizer(*a) != HasFinalizer(*b)) return HasFinalizer(*a);
    if (LastActive(*a, now) != LastActive(*b, now))
      return LastActive(*a, now) > LastActive(*b, now);
    if (Created(*a) != Created(*b)) return Created(*a) < Created(*b);
    return a->metadata.name < b->metadata.name;
  });
}

bool ByName(const ManagedPodPtr& a, const ManagedPodPtr& b) {
  return a->metadata.name < b->metadata.name;
}

std::string QueueOf(const ManagedPod& pod) { return pod.metadata.Label(api::kQueueNameLabel); }

absl::Status CheckIndex(const ManagedPod& pod, int32_t total) {
  const auto found = pod.metadata.labels.find(api::kPodGroupPodIndex);
  if (found == pod.metadata.labels.end()) return absl::OkStatus();
  uint32_t index = 0;
  const std::string& text = found->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error == std::errc() && end == text.data() + text.size() &&
      index < static_cast<uint32_t>(total)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("pod {}: the index \"{}\" in label {} is not between 0 and {}", pod.metadata.name,
                  text, api::kPodGroupPodIndex, total - 1));
}

// The first pod of each role and how many there are to be.
using Roles = absl::btree_map<std::string, std::pair<ManagedPodPtr, int32_t>>;

Roles RolesOf(const Pods& pods) {
  Roles roles;
  for (const ManagedPodPtr& pod : pods) {
    if (!IsRunnableOrSucceeded(*pod)) continue;
    auto& [first, count] = roles[RoleOf(*pod)];
    if (first == nullptr) first = pod;
    ++count;
    if (IsFastAdmission(*pods.front())) {
      count = TotalCount(*pods.front()).value_or(1);
      break;
    }
  }
  return roles;
}

}  // namespace

absl::StatusOr<std::vector<api::PodSet>> GroupPodSets(const Pods& pods,
                                                      const TopologyOptions& topology) {
  std::vector<api::PodSet> pod_sets;
  const Roles roles = RolesOf(pods);
  if (roles.empty()) return absl::InvalidArgumentError("the pod group has no pod that could run");
  if (roles.size() > kMaxRoles) {
    return InvalidArgument("a pod group can't include more than {} roles, and this one has {}",
                           kMaxRoles, roles.size());
  }
  for (const auto& [role, shape] : roles) {
    ASSIGN_OR_RETURN(api::PodSet pod_set, PodSetOf(*shape.first, role, shape.second, topology));
    pod_sets.push_back(std::move(pod_set));
  }
  return pod_sets;
}

absl::Status CheckComposable(const Pods& pods) {
  const ManagedPod& first = *pods.front();
  const std::optional<int32_t> total = TotalCount(first);
  if (!total) {
    return absl::FailedPreconditionError(fmt::format("pod {}: annotation {} is no positive number",
                                                     first.metadata.name,
                                                     api::kPodGroupTotalCount));
  }
  RETURN_IF_ERROR(CheckIndex(first, *total));
  const auto active = std::count_if(pods.begin(), pods.end(), [](const ManagedPodPtr& pod) {
    return IsRunnableOrSucceeded(*pod);
  });
  if (active == 0 || (!IsFastAdmission(first) && active < *total)) {
    return absl::FailedPreconditionError(fmt::format(
        "'{}' group has fewer runnable pods than expected: {} of {}", first.group, active, *total));
  }
  for (const ManagedPodPtr& pod : pods) {
    if (IsFailed(*pod)) continue;
    if (QueueOf(*pod) != QueueOf(first)) {
      return absl::FailedPreconditionError(fmt::format(
          "pods '{}' and '{}' of group '{}' have different queue names: \"{}\" and "
          "\"{}\"",
          first.metadata.name, pod->metadata.name, first.group, QueueOf(first), QueueOf(*pod)));
    }
    const std::optional<int32_t> count = TotalCount(*pod);
    if (count != total) {
      return absl::FailedPreconditionError(
          fmt::format("pods '{}' and '{}' of group '{}' have different total counts: {} and \"{}\"",
                      first.metadata.name, pod->metadata.name, first.group, *total,
                      pod->metadata.Annotation(api::kPodGroupTotalCount)));
    }
  }
  return absl::OkStatus();
}

NewGroup SortOut(const Pods& pods) {
  NewGroup group;
  for (const ManagedPodPtr& pod : pods) {
    (IsRunnableOrSucceeded(*pod) ? group.kept : group.inactive).push_back(pod);
  }
  const size_t total =
      static_cast<size_t>(pods.empty() ? 0 : TotalCount(*pods.front()).value_or(INT32_MAX));
  if (group.kept.size() > total) {
    std::sort(group.kept.begin(), group.kept.end(), StaysBefore);
    group.excess.assign(group.kept.begin() + static_cast<ptrdiff_t>(total), group.kept.end());
    group.kept.resize(total);
    std::sort(group.kept.begin(), group.kept.end(), ByName);
  }
  return group;
}

Assembly Assemble(const Pods& pods, const api::Workload& workload, absl::Time now) {
  Assembly assembly;
  const bool fast = !pods.empty() && IsFastAdmission(*pods.front());
  absl::btree_map<std::string, std::pair<Pods, Pods>> roles;  // active and inactive
  for (const ManagedPodPtr& pod : pods) {
    auto& [active, inactive] = roles[RoleOf(*pod)];
    (IsRunnableOrSucceeded(*pod) ? active : inactive).push_back(pod);
  }
  for (const api::PodSet& pod_set : workload.spec.pod_sets) {
    auto& [active, inactive] = roles[pod_set.name];
    const int64_t wanted = pod_set.count;
    const int64_t here = static_cast<int64_t>(active.size());
    const int64_t ended = static_cast<int64_t>(inactive.size());
    assembly.absent +=
        fast ? (wanted > 0 && here == 0 ? 1 : 0) : std::max<int64_t>(0, wanted - here);
    std::sort(active.begin(), active.end(), StaysBefore);
    const auto limit = active.begin() + static_cast<ptrdiff_t>(std::min(here, wanted));
    assembly.kept.insert(assembly.kept.end(), active.begin(), limit);
    assembly.excess.insert(assembly.excess.end(), limit, active.end());
    const int64_t replaced = std::clamp<int64_t>(ended + here - wanted, 0, ended);
    SortInactive(inactive, now);
    const auto rest = inactive.end() - static_cast<ptrdiff_t>(replaced);
    assembly.kept.insert(assembly.kept.end(), inactive.begin(), rest);
    assembly.replaced.insert(assembly.replaced.end(), rest, inactive.end());
  }
  std::sort(assembly.kept.begin(), assembly.kept.end(), ByName);
  return assembly;
}

bool GroupMatches(const api::Workload& workload, const Pods& kept) {
  if (kept.empty()) return false;
  const bool finished = api::IsTrue(workload.status.conditions, api::kFinished);
  const std::vector<api::PodSet>& wanted = workload.spec.pod_sets;
  const Roles roles = RolesOf(kept);
  if (!finished && roles.size() > wanted.size()) return false;
  auto at = wanted.begin();
  for (const auto& [role, shape] : roles) {
    at = std::find_if(at, wanted.end(), [&](const api::PodSet& w) { return w.name == role; });
    if (at == wanted.end()) return false;
    if (!finished && shape.second > at->count) return false;
    ++at;
  }
  return true;
}

bool IsUnretriable(const Pods& pods) {
  return std::any_of(pods.begin(), pods.end(), [](const ManagedPodPtr& pod) {
    return pod->metadata.Annotation(api::kRetriableInGroup) == "false";
  });
}

bool GroupSuspended(const Pods& pods) {
  return std::any_of(pods.begin(), pods.end(),
                     [](const ManagedPodPtr& pod) { return IsGated(*pod) || IsTerminated(*pod); });
}

bool GroupActive(const Pods& pods, bool fast_release, absl::Time now) {
  return std::any_of(pods.begin(), pods.end(),
                     [&](const ManagedPodPtr& pod) { return IsActive(*pod, fast_release, now); });
}

std::optional<JobFinish> GroupFinished(const Pods& pods) {
  if (pods.empty() || IsServing(*pods.front())) return std::nullopt;
  const std::optional<int32_t> total = TotalCount(*pods.front());
  if (!total) return std::nullopt;
  const auto succeeded = std::count_if(pods.begin(), pods.end(),
                                       [](const ManagedPodPtr& pod) { return IsSucceeded(*pod); });
  const bool all_ended = std::all_of(pods.begin(), pods.end(),
                                     [](const ManagedPodPtr& pod) { return IsTerminated(*pod); });
  if (succeeded < *total && !(all_ended && IsUnretriable(pods))) return std::nullopt;
  return JobFinish{true, fmt::format("Pods succeeded: {}/{}.", succeeded, *total)};
}

bool GroupReady(const Pods& pods) {
  if (pods.empty()) return false;
  const std::optional<int32_t> total = TotalCount(*pods.front());
  if (!total || pods.size() < static_cast<size_t>(*total)) return false;
  return std::all_of(pods.begin(), pods.end(), [](const ManagedPodPtr& pod) {
    return IsPodReady(*pod) || IsSucceeded(*pod);
  });
}

std::vector<api::ReclaimablePod> GroupReclaimable(const Pods& pods) {
  std::vector<api::ReclaimablePod> reclaimable;
  if (pods.empty() || IsServing(*pods.front())) return reclaimable;
  absl::btree_map<std::string, int32_t> succeeded;
  for (const ManagedPodPtr& pod : pods) {
    if (IsSucceeded(*pod)) ++succeeded[RoleOf(*pod)];
  }
  for (const auto& [role, count] : succeeded) reclaimable.push_back({role, count});
  return reclaimable;
}

absl::StatusOr<std::vector<Release>> PlanRelease(const Pods& pods,
                                                 const std::vector<PodSetInfo>& infos) {
  std::vector<Release> releases;
  for (const ManagedPodPtr& pod : pods) {
    if (!IsGated(*pod)) continue;
    const auto info = std::find_if(infos.begin(), infos.end(), [&](const PodSetInfo& candidate) {
      return candidate.name == RoleOf(*pod);
    });
    if (info == infos.end()) {
      return absl::FailedPreconditionError(fmt::format(
          "pod {}: its role {} is no pod set of the admission", pod->metadata.name, RoleOf(*pod)));
    }
    absl::StatusOr<api::Json> patch = UngatePatch(*pod, *info);
    if (!patch.ok()) return Annotate(patch.status(), "pod " + pod->metadata.name);
    releases.push_back({pod, *std::move(patch)});
  }
  return releases;
}

}  // namespace sluice::jobs
