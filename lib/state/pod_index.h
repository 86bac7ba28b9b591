// PodIndex: the managed pods, by name, by group and by PodGroup of kube-scheduler.
//
// Keeps only pods with the label kueue.x-k8s.io/managed: "true", whatever the events bring, so that
// memory grows with what is managed and not with the cluster. A pod that loses the label is gone
// from here. Work about a group is done under a key of its own (GroupKey), which no pod can have.
// Cost of a change: logarithmic. Single thread.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>

#include <optional>
#include <string>
#include <vector>

#include "api/template_pool.h"
#include "base/object_key.h"
#include "state/listing.h"
#include "state/managed_pod.h"
#include "state/ports.h"
#include "state/settings.h"

namespace sluice::state {

// The key under which a group is worked on: its name behind a mark that no object's name may hold.
ObjectKey GroupKey(const std::string& ns, const std::string& group);
// The group's name, nullopt for the key of a single pod.
std::optional<std::string> GroupOfKey(const ObjectKey& key);

class PodIndex {
 public:
  explicit PodIndex(const Settings& settings);

  // Takes one event in. Puts the keys that need work into `touched`: the pod's own, or that of its
  // group (before and after the change). Answers what is wrong with an object that cannot be read;
  // the pod as known before stays.
  std::optional<std::string> Apply(const ObjectEvent& event, api::TemplatePool& templates,
                                   absl::btree_set<ObjectKey>& touched);

  // nullptr when there is none.
  ManagedPodPtr Find(const ObjectKey& key) const;
  // The pods of a group, by name; empty when there is none.
  std::vector<ManagedPodPtr> Group(const std::string& ns, const std::string& group) const;
  bool HasGroup(const std::string& ns, const std::string& group) const {
    return groups_.contains({ns, group});
  }
  // Whether the pod of that key exists, but its last version could not be read.
  bool Unreadable(const ObjectKey& key) const { return unreadable_.contains(key); }
  const absl::btree_map<ObjectKey, ManagedPodPtr>& all() const { return pods_; }
  // For each PodGroup of kube-scheduler that pods name: the keys to work on for these pods, with
  // the number of pods. A change of one of them is work for all.
  using Units = absl::btree_map<ObjectKey, int64_t>;
  const absl::btree_map<ObjectKey, Units>& pod_groups() const { return pod_groups_; }
  // The key to work on for a pod.
  static ObjectKey WorkKey(const ManagedPod& pod);

 private:
  void Put(const ObjectKey& key, ManagedPodPtr pod, absl::btree_set<ObjectKey>& touched);
  void Erase(const ObjectKey& key, absl::btree_set<ObjectKey>& touched);
  void FinishList(const ObjectEvent& end, absl::btree_set<ObjectKey>& touched);
  // Counts the pod in its PodGroup, or no longer.
  void CountInPodGroup(const ManagedPod& pod, int64_t by, absl::btree_set<ObjectKey>& touched);

  bool group_annotations_;
  absl::btree_map<ObjectKey, ManagedPodPtr> pods_;
  absl::btree_map<ObjectKey, absl::btree_set<std::string>> groups_;  // names of pods
  absl::btree_map<ObjectKey, Units> pod_groups_;
  absl::btree_set<ObjectKey> unreadable_;
  std::optional<Listing> listing_;  // the list that runs
};

}  // namespace sluice::state
