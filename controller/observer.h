// ShellObserver: turns what the Operator does into log lines, metrics and published views.
//
// Called on the loop's thread only.
#pragma once

#include <absl/container/btree_set.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "config/config.h"
#include "loop/log.h"
#include "metrics/metrics.h"
#include "reconcile/operator.h"
#include "serve/pending_tracker.h"
#include "views.h"

namespace sluice {

class ShellObserver : public reconcile::Observer {
 public:
  // `wake` makes the loop come to Publish soon; it may be called from any thread.
  ShellObserver(loop::Log log, metrics::Metrics& metrics, const config::Config& config,
                std::function<void()> wake)
      : log_(std::move(log)), metrics_(metrics), config_(config) {
    if (config_.visibility) {
      pending_.emplace(std::make_shared<serve::PendingIndex>(std::move(wake)));
    }
  }

  void OnChange(const state::Ref& ref) override;
  void OnWorkload(const api::Workload* before, const api::Workload* after, absl::Time now) override;
  void OnDecision(const admission::Decision& decision, absl::Time now) override;
  void OnGateRemoved(const reconcile::GateRemoval& removal, absl::Time now) override;
  void OnRejected(const state::Rejection& rejection, bool first, uint64_t count) override;
  void OnRefused(const state::Action& action, const state::Reply& reply) override;

  // The World of the Operator that is observed, which must outlive it: its CreditPolicies tell what
  // lost work weighs.
  void Follow(const state::World& world) { world_ = &world; }
  // After a batch: rebuilds and publishes what changed.
  void Publish(const reconcile::Operator& op, absl::Time now, absl::Duration work);
  std::shared_ptr<const webhook::View> webhook_view() const { return webhook_view_.Load(); }
  std::shared_ptr<const metrics::MetricsView> metrics_view() const { return metrics_view_.Load(); }
  const std::shared_ptr<JobIndex>& jobs() const { return jobs_; }
  // Only where config.visibility says where to serve it.
  std::shared_ptr<serve::PendingIndex> pending() const { return pending_->index(); }

 private:
  void Finished(const api::Workload& workload, absl::Time now);
  void Created(const state::World& world, const ObjectKey& key);
  metrics::QueueLabels LabelsOf(const api::Workload& workload) const;
  const quota::CreditWeights* WeightsFor(const api::Workload& workload) const;

  loop::Log log_;
  metrics::Metrics& metrics_;
  const config::Config& config_;
  const state::World* world_ = nullptr;
  std::shared_ptr<JobIndex> jobs_ = std::make_shared<JobIndex>();
  absl::btree_set<ObjectKey> changed_jobs_;
  std::optional<serve::PendingTracker> pending_;
  std::vector<ObjectKey> created_;  // Workloads that came into being in this batch
  bool webhook_view_stale_ = true;
  bool metrics_view_stale_ = true;
  state::ClusterFeatures features_;
  int decisions_ = 0;    // of this batch
  int admissions_ = 0;   // of this batch
  bool counts_ = false;  // transitions are counted only by the leader, once it has seen all
  absl::Time next_metrics_view_ = absl::InfinitePast();
  Published<webhook::View> webhook_view_;
  Published<metrics::MetricsView> metrics_view_;
};

}  // namespace sluice
