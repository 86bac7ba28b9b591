// MetricsView: what the gauges show, as plain values.
//
// Contract: immutable once published; the loop makes it from a snapshot, the metrics room only
// reads it. A queue that is not in the view has no series. Amounts of resources are in the unit
// users see: cores for cpu, bytes for memory, and so on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice::metrics {

// Workloads that are not admitted, by the reasons of their Admitted and QuotaReserved conditions.
struct UnadmittedCount {
  std::string reason;
  std::string underlying_cause;
  int64_t count = 0;
};

struct FlavorResourceView {
  std::string flavor;
  std::string resource;
  double nominal = 0;
  std::optional<double> borrowing_limit;  // unset: no limit
  std::optional<double> lending_limit;    // unset: no limit
  double reservation = 0;                 // of workloads that hold quota
  double usage = 0;                       // of admitted workloads
};

struct ResourceAmountView {
  std::string resource;
  double amount = 0;
};

struct ClusterQueueView {
  enum class Status { kPending, kActive, kTerminating };  // a stopped queue is pending

  std::string name;
  std::string cohort;       // empty: none
  std::string root_cohort;  // empty: none
  Status status = Status::kPending;
  // While the queue is not active, every waiting workload counts as inadmissible.
  int64_t pending_active = 0;
  int64_t pending_inadmissible = 0;
  // Distinct scheduling shapes among them; unset when they are not tracked.
  std::optional<int64_t> hashes_active;
  std::optional<int64_t> hashes_inadmissible;
  int64_t reserving = 0;
  int64_t admitted = 0;
  int64_t finished = 0;                 // finished workloads that still exist
  std::optional<int64_t> reservations;  // of starts; only with backfill
  std::vector<FlavorResourceView> resources;
  // Sums over waiting workloads, one entry for each resource the queue covers.
  std::vector<ResourceAmountView> pending_resources;
  std::vector<UnadmittedCount> unadmitted;
};

struct LocalQueueView {
  enum class Active { kTrue, kFalse, kUnknown };  // the queue's Active condition

  std::string ns;
  std::string name;
  std::string cluster_queue;
  Active active = Active::kUnknown;
  int64_t pending_active = 0;
  int64_t pending_inadmissible = 0;
  int64_t reserving = 0;
  int64_t admitted = 0;
  int64_t finished = 0;
  std::vector<FlavorResourceView> resources;  // only reservation and usage are shown
  std::vector<UnadmittedCount> unadmitted;
  std::optional<double> fair_sharing_usage;  // with admission fair sharing; may be infinite
};

// Of fair-share credits: credit-hours, and weighted units.
struct CreditAccountView {
  std::string name;
  std::string policy;
  double balance = 0;
  double bank_limit = 0;
  double entitlement = 0;
  double usage = 0;
  double rate = 0;
};

// What is free on the nodes of a flavor with a topology, seen at one of its levels.
struct FragmentationView {
  std::string flavor;
  std::string level;  // a node label
  std::string resource;
  double free = 0;     // on all nodes
  double largest = 0;  // in the domain of the level that has most
};

struct MetricsView {
  std::vector<ClusterQueueView> cluster_queues;
  // Only those that the configuration's localQueueSelector matches.
  std::vector<LocalQueueView> local_queues;
  std::vector<CreditAccountView> credit_accounts;
  std::vector<FragmentationView> fragmentation;
  // What the API server has for native gangs.
  bool pod_groups = false;
  bool job_scheduling = false;
};

}  // namespace sluice::metrics
