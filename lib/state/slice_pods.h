// SlicePods: the pods of elastic jobs, which wait for their slice by a scheduling gate, and of jobs
// that tell of their checkpoints, which may do so on any pod.
//
// Keeps only pods with the label kueue.x-k8s.io/managed: "elastic" or "checkpoint", whatever the
// events bring (such a job gives the label to its pods when it starts), so that memory grows with
// them and not with the cluster. Cost of a change: logarithmic. Single thread.
// Source: Kueue documentation, "Elastic Workloads (Workload Slices)".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/container/btree_set.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/meta_types.h"
#include "base/object_key.h"
#include "state/listing.h"
#include "state/ports.h"

namespace sluice::state {

struct SlicePod {
  ObjectKey key;
  std::string uid;
  std::string resource_version;
  std::string chain;    // name of the first Workload of the chain of slices that it belongs to
  std::string pod_set;  // by its label
  ObjectKey job;        // its controller
  std::vector<std::string> gates;
  std::string pod_group;  // of kube-scheduler, "" for none
  std::string node;
  bool ended = false;
  bool not_ready = false;  // says so itself, or its node's guardian did
  std::optional<absl::Time> deletion_timestamp;
  api::StringMap node_selector;
  api::StringMap annotations;

  bool Gated() const;
  // Waits for kube-scheduler.
  bool Pending() const { return node.empty() && !ended && !deletion_timestamp; }
};
using SlicePodPtr = std::shared_ptr<const SlicePod>;

class SlicePods {
 public:
  // Takes one event about pods in. `jobs` receives the keys of the jobs whose pods changed.
  void Apply(const ObjectEvent& event, absl::btree_set<ObjectKey>& jobs);
  // All pods were listed once.
  bool synced() const { return synced_; }
  // The pods of a chain, by name.
  std::vector<SlicePodPtr> Of(const std::string& ns, const std::string& chain) const;
  // The pods whose controller is that job, by name.
  std::vector<SlicePodPtr> OfJob(const ObjectKey& job) const;
  size_t size() const { return pods_.size(); }

 private:
  void FinishList(const ObjectEvent& end, absl::btree_set<ObjectKey>& jobs);
  void Put(const ObjectKey& key, SlicePodPtr pod, absl::btree_set<ObjectKey>& jobs);
  void Erase(const ObjectKey& key, absl::btree_set<ObjectKey>& jobs);

  absl::btree_map<ObjectKey, SlicePodPtr> pods_;
  absl::btree_map<ObjectKey, absl::btree_set<ObjectKey>> chains_;
  absl::btree_map<ObjectKey, absl::btree_set<ObjectKey>> by_job_;
  Listing list_;  // that runs
  bool listing_ = false;
  bool synced_ = false;
};

}  // namespace sluice::state
