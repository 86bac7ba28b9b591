// Views: what the loop publishes for the server threads, and how it is built.
//
// Published<T> is the one door between the loop's thread and readers: an immutable value behind a
// pointer that is swapped. JobIndex is the exception that proves the rule: owners of jobs are too
// many to copy after each batch, so it is updated in place under its own lock.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_map.h>
#include <absl/synchronization/mutex.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <utility>

#include "config/config.h"
#include "metrics/snapshot_view.h"
#include "reconcile/operator.h"
#include "webhook/view.h"

namespace sluice {

// Thread-safe.
template <typename T>
class Published {
 public:
  std::shared_ptr<const T> Load() const {
    absl::MutexLock lock(&mutex_);
    return value_;
  }
  void Store(std::shared_ptr<const T> value) {
    absl::MutexLock lock(&mutex_);
    value_.swap(value);
  }

 private:
  mutable absl::Mutex mutex_;
  std::shared_ptr<const T> value_ ABSL_GUARDED_BY(mutex_);
};

// Jobs as owners of other jobs. Thread-safe.
class JobIndex : public webhook::OwnerLookup {
 public:
  void Update(const state::World& world, const ObjectKey& key);
  // Until the first list is complete nothing is known.
  void SetSynced();
  Answer Find(const std::string& api_version, const std::string& kind,
              const ObjectKey& key) const override;

 private:
  mutable absl::Mutex mutex_;
  absl::btree_map<ObjectKey, webhook::Owner> owners_ ABSL_GUARDED_BY(mutex_);
  bool synced_ ABSL_GUARDED_BY(mutex_) = false;
};

// What the webhooks see of the World.
std::shared_ptr<const webhook::View> MakeWebhookView(const state::World& world,
                                                     const state::Settings& settings,
                                                     std::shared_ptr<const JobIndex> jobs);

// What the gauges show. O(Workloads): build it seldom.
std::shared_ptr<const metrics::MetricsView> MakeMetricsView(const state::World& world,
                                                            const config::Config& config);

}  // namespace sluice
