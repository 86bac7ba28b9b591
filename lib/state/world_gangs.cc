// What the World knows of native gangs: whether the API server has them, and whose pods name which
// PodGroup.
#include "state/world.h"

namespace sluice::state {
namespace {

ObjectKey PodGroupOf(const ObjectKey& job_key, const api::Job* job) {
  if (job == nullptr) return {};
  const std::string& name = job->spec.pod_template.spec->scheduling_group;
  return name.empty() ? ObjectKey{} : ObjectKey{job_key.ns, name};
}

}  // namespace

void World::SetFeatures(const ClusterFeatures& features, Refs& touched) {
  if (features == features_) return;
  features_ = features;
  if (!features_.pod_groups) {
    pod_groups_ = {};
    pod_groups_listed_ = false;
    listing_.erase(api::Kind::kPodGroup);
  }
  for (const auto& [key, job] : jobs_.all()) touched.insert({api::Kind::kJob, key});
  for (const auto& [key, pod] : pods_.all()) {
    touched.insert({api::Kind::kPod, PodIndex::WorkKey(*pod)});
  }
}

std::vector<ObjectKey> World::JobsOfPodGroup(const ObjectKey& pod_group) const {
  const auto found = jobs_by_pod_group_.find(pod_group);
  if (found == jobs_by_pod_group_.end()) return {};
  return {found->second.begin(), found->second.end()};
}

void World::TouchUsersOf(const ObjectKey& pod_group, Refs& touched) const {
  for (const ObjectKey& job : JobsOfPodGroup(pod_group)) touched.insert({api::Kind::kJob, job});
  const auto found = pods_.pod_groups().find(pod_group);
  if (found == pods_.pod_groups().end()) return;
  for (const auto& [unit, count] : found->second) touched.insert({api::Kind::kPod, unit});
}

void World::TouchUsersOfPodGroups(Refs& touched) const {
  for (const auto& [key, jobs] : jobs_by_pod_group_) TouchUsersOf(key, touched);
  for (const auto& [key, units] : pods_.pod_groups()) TouchUsersOf(key, touched);
}

// Whether a Job may use a PodGroup depends on the others that name it.
void World::IndexPodGroup(const ObjectKey& job_key, const api::Job* before, const api::Job* after,
                          Refs& touched) {
  const ObjectKey old_group = PodGroupOf(job_key, before);
  const ObjectKey new_group = PodGroupOf(job_key, after);
  if (old_group != new_group) {
    if (const auto old = jobs_by_pod_group_.find(old_group); old != jobs_by_pod_group_.end()) {
      old->second.erase(job_key);
      if (old->second.empty()) jobs_by_pod_group_.erase(old);
    }
    if (!new_group.name.empty()) jobs_by_pod_group_[new_group].insert(job_key);
    TouchUsersOf(old_group, touched);
  }
  TouchUsersOf(new_group, touched);
}

}  // namespace sluice::state
