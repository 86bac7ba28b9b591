// What Nominator says about workloads that may start out of order.
#include <algorithm>

#include "admission/nominator.h"
#include "queueing/variants.h"

namespace sluice::admission {
namespace {

// More choices of flavors are not looked at.
constexpr size_t kMostOptions = 16;

bool AsksFor(const queueing::WorkloadInfo& info, const api::ResourceGroup& group) {
  return std::any_of(
      group.covered_resources.begin(), group.covered_resources.end(), [&](const auto& resource) {
        return resource == kPods ||
               std::any_of(info.requests.begin(), info.requests.end(),
                           [&](const auto& pod_set) { return pod_set.total.contains(resource); });
      });
}

}  // namespace

bool Nominator::Barred(const queueing::WorkloadInfo& info) const {
  Decision decision;
  return Inadmissible(info, decision);
}

std::vector<flavor::Assignment> Nominator::Options(const queueing::WorkloadInfoPtr& info) const {
  std::vector<flavor::Assignment> options;
  Entry entry;
  entry.decision.info = info;
  entry.queue = snapshot_.tree.FindQueue(info->cluster_queue);
  entry.replaced = FindReplaced(*info);
  std::vector<const api::ResourceGroup*> groups;
  size_t choices = 1;
  for (const auto& group :
       snapshot_.FindClusterQueue(info->cluster_queue)->cluster_queue->spec.resource_groups) {
    if (group.flavors.empty() || !AsksFor(*info, group)) continue;
    groups.push_back(&group);
    choices = std::min(kMostOptions, choices * group.flavors.size());
  }
  spare_all_ = true;
  for (size_t choice = 0; choice < choices; ++choice) {
    absl::btree_map<ResourceName, FlavorName> only;
    size_t rest = choice;
    for (auto group = groups.rbegin(); group != groups.rend(); ++group) {
      const auto& flavors = (*group)->flavors;
      for (const auto& resource : (*group)->covered_resources) {
        only[resource] = flavors[rest % flavors.size()].name;
      }
      rest /= flavors.size();
    }
    only_ = &only;
    Attempt attempt = Try(entry, {}, nullptr);
    only_ = nullptr;
    if (attempt.assignment.mode == flavor::Mode::kFit) {
      options.push_back(std::move(attempt.assignment));
    }
  }
  spare_all_ = false;
  return options;
}

Entry Nominator::NominateWithin(const queueing::WorkloadInfoPtr& info,
                                const flavor::Assignment& option) const {
  Entry entry;
  entry.decision.info = info;
  entry.decision.explanation.cluster_queue = info->cluster_queue;
  if (Inadmissible(*info, entry.decision) || !LookAtSiblings(entry)) return entry;
  entry.nominated = true;
  entry.queue = snapshot_.tree.FindQueue(info->cluster_queue);
  entry.replaced = FindReplaced(*info);
  spare_all_ = true;
  Attempt attempt = Try(entry, {}, &option);
  spare_all_ = false;
  Adopt(entry, std::move(attempt));
  return entry;
}

std::optional<topology::WorkloadRequest> Nominator::PlacesAskedBy(
    const queueing::WorkloadInfo& info, flavor::Assignment option) const {
  Place place = places_.Ask(info, FindReplaced(info), option);
  if (option.mode != flavor::Mode::kFit) return std::nullopt;
  return std::move(place.request);
}

bool Nominator::HasPlaces(const queueing::WorkloadInfo& info, flavor::Assignment option) const {
  const auto request = PlacesAskedBy(info, std::move(option));
  return request.has_value() && (request->pod_sets.empty() || places_.Fits(*request));
}

}  // namespace sluice::admission
