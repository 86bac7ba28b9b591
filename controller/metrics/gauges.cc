#include "metrics/gauges.h"

#include <limits>
#include <map>

#include "metrics/series.h"

namespace sluice::metrics {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Gathers samples by family. replica_role is added to each.
class GaugeCollector {
 public:
  explicit GaugeCollector(const std::string& role) : role_(role) {}

  void Add(const FamilyInfo& info, LabelValues values, double value) {
    auto& family = families_[info.name];
    if (family.name.empty()) family = EmptyFamily(info, prometheus::MetricType::Gauge);
    LabelNames names = info.labels;
    names.push_back("replica_role");
    values.push_back(role_);
    prometheus::ClientMetric sample = WithLabels(names, values);
    sample.gauge.value = value;
    family.metric.push_back(std::move(sample));
  }
  void Add(const FamilyInfo& info, LabelValues values, int64_t value) {
    Add(info, std::move(values), static_cast<double>(value));
  }

  std::vector<prometheus::MetricFamily> Take() {
    std::vector<prometheus::MetricFamily> result;
    for (auto& [name, family] : families_) result.push_back(std::move(family));
    return result;
  }

 private:
  std::string role_;
  std::map<std::string, prometheus::MetricFamily> families_;
};

const LabelNames kQueue = {"cluster_queue"};
const LabelNames kQueueStatus = {"cluster_queue", "status"};
const LabelNames kQueueReason = {"cluster_queue", "reason", "underlying_cause"};
const LabelNames kQueueResource = {"cohort", "cluster_queue", "flavor", "resource"};
const LabelNames kLocal = {"name", "namespace"};
const LabelNames kLocalStatus = {"name", "namespace", "status"};
const LabelNames kLocalActive = {"name", "namespace", "active"};
const LabelNames kLocalResource = {"name", "namespace", "flavor", "resource"};
const LabelNames kLocalReason = {"name", "namespace", "cluster_queue", "reason",
                                 "underlying_cause"};

const FamilyInfo kNativeGangs = {"sluice_native_gangs",
                                 "1 where the API server has this form of native gangs: PodGroups, "
                                 "and Jobs whose controller makes them",
                                 {"form"}};
const LabelNames kAccount = {"account", "policy"};
const FamilyInfo kCreditBalance = {
    "sluice_credit_balance", "Banked credit-hours, by CreditAccount; negative is a debt", kAccount};
const FamilyInfo kCreditLimit = {"sluice_credit_bank_limit",
                                 "Credit-hours that the bank holds at most, by CreditAccount",
                                 kAccount};
const FamilyInfo kCreditEntitlement = {"sluice_credit_entitlement",
                                       "Weighted nominal quota, by CreditAccount", kAccount};
const FamilyInfo kCreditUsage = {"sluice_credit_usage",
                                 "Weighted quota that is reserved, by CreditAccount", kAccount};
const FamilyInfo kCreditRate = {"sluice_credit_rate",
                                "Credit-hours an hour, by CreditAccount; negative while it spends",
                                kAccount};
const FamilyInfo kReservations = {
    "sluice_backfill_reservations",
    "Waiting workloads that have a reservation, by ClusterQueue; only "
    "of those with backfill",
    kQueue};
const FamilyInfo kPending = {"kueue_pending_workloads",
                             "Workloads that wait, by ClusterQueue; 'active' ones are tried, "
                             "'inadmissible' ones wait for a change that can help them",
                             kQueueStatus};
const FamilyInfo kHashes = {"kueue_pending_scheduling_hashes",
                            "Distinct scheduling shapes among the waiting workloads", kQueueStatus};
const FamilyInfo kFinished = {"kueue_finished_workloads",
                              "Finished workloads that still exist, by ClusterQueue", kQueue};
const FamilyInfo kReserving = {"kueue_reserving_active_workloads",
                               "Workloads that hold quota, by ClusterQueue", kQueue};
const FamilyInfo kAdmitted = {"kueue_admitted_active_workloads",
                              "Admitted workloads that have not finished, by ClusterQueue", kQueue};
const FamilyInfo kStatus = {"kueue_cluster_queue_status",
                            "1 for the current status of the ClusterQueue, 0 for the others",
                            kQueueStatus};
const FamilyInfo kUnadmitted = {"kueue_unadmitted_workloads",
                                "Workloads that are not admitted, by ClusterQueue and reason",
                                kQueueReason};
const FamilyInfo kInfo = {"kueue_cluster_queue_info",
                          "Always 1; the labels say where the ClusterQueue stands in the cohorts",
                          {"cluster_queue", "parent_cohort", "root_cohort"}};
const FamilyInfo kReservation = {"kueue_cluster_queue_resource_reservation",
                                 "Quantity reserved, by ClusterQueue, flavor and resource",
                                 kQueueResource};
const FamilyInfo kUsage = {"kueue_cluster_queue_resource_usage",
                           "Quantity of admitted workloads, by ClusterQueue, flavor and resource",
                           kQueueResource};
const FamilyInfo kNominal = {"kueue_cluster_queue_nominal_quota",
                             "Nominal quota, by ClusterQueue, flavor and resource", kQueueResource};
const FamilyInfo kBorrowing = {"kueue_cluster_queue_borrowing_limit",
                               "Borrowing limit; +Inf when there is none", kQueueResource};
const FamilyInfo kLending = {"kueue_cluster_queue_lending_limit",
                             "Lending limit; +Inf when there is none", kQueueResource};
const FamilyInfo kPendingResource = {"kueue_cluster_queue_resource_pending",
                                     "Quantity that waiting workloads ask for, by ClusterQueue",
                                     {"cluster_queue", "resource"}};

const FamilyInfo kLocalPending = {"kueue_local_queue_pending_workloads",
                                  "Workloads that wait, by LocalQueue", kLocalStatus};
const FamilyInfo kLocalFinished = {"kueue_local_queue_finished_workloads",
                                   "Finished workloads that still exist, by LocalQueue", kLocal};
const FamilyInfo kLocalReserving = {"kueue_local_queue_reserving_active_workloads",
                                    "Workloads that hold quota, by LocalQueue", kLocal};
const FamilyInfo kLocalAdmitted = {"kueue_local_queue_admitted_active_workloads",
                                   "Admitted workloads that have not finished, by LocalQueue",
                                   kLocal};
const FamilyInfo kLocalStatusInfo = {"kueue_local_queue_status",
                                     "1 for the current value of the LocalQueue's Active condition",
                                     kLocalActive};
const FamilyInfo kLocalReservation = {"kueue_local_queue_resource_reservation",
                                      "Quantity reserved, by LocalQueue, flavor and resource",
                                      kLocalResource};
const FamilyInfo kLocalUsage = {
    "kueue_local_queue_resource_usage",
    "Quantity of admitted workloads, by LocalQueue, flavor and resource", kLocalResource};
const FamilyInfo kLocalFairUsage = {
    "kueue_local_queue_admission_fair_sharing_usage",
    "Weighted usage by which LocalQueues of one ClusterQueue are ordered; +Inf with weight zero",
    {"name", "namespace", "cluster_queue"}};
const FamilyInfo kLocalUnadmitted = {"kueue_local_queue_unadmitted_workloads",
                                     "Workloads that are not admitted, by LocalQueue and reason",
                                     kLocalReason};

const LabelNames kPlace = {"flavor", "level", "resource"};
const FamilyInfo kFree = {"sluice_topology_free",
                          "Quantity that is free on the nodes of a flavor with a topology", kPlace};
const FamilyInfo kLargest = {
    "sluice_topology_largest_free",
    "The most that is free in one domain of the level: no larger gang fits into one", kPlace};
const FamilyInfo kFragmentation = {
    "sluice_topology_fragmentation_ratio",
    "What is free outside of that domain, of all that is free; 0 when nothing is free", kPlace};

void AddFragmentation(const FragmentationView& view, GaugeCollector& out) {
  const LabelValues labels = {view.flavor, view.level, view.resource};
  out.Add(kFree, labels, view.free);
  out.Add(kLargest, labels, view.largest);
  out.Add(kFragmentation, labels, view.free > 0 ? 1 - view.largest / view.free : 0.0);
}

void AddResources(const ClusterQueueView& queue, GaugeCollector& out) {
  for (const FlavorResourceView& cell : queue.resources) {
    const LabelValues labels = {queue.cohort, queue.name, cell.flavor, cell.resource};
    out.Add(kReservation, labels, cell.reservation);
    out.Add(kUsage, labels, cell.usage);
    out.Add(kNominal, labels, cell.nominal);
    out.Add(kBorrowing, labels, cell.borrowing_limit.value_or(kNoLimit));
    out.Add(kLending, labels, cell.lending_limit.value_or(kNoLimit));
  }
  for (const ResourceAmountView& pending : queue.pending_resources) {
    out.Add(kPendingResource, {queue.name, pending.resource}, pending.amount);
  }
}

void AddClusterQueue(const ClusterQueueView& queue, const MetricsOptions& options,
                     GaugeCollector& out) {
  using Status = ClusterQueueView::Status;
  out.Add(kPending, {queue.name, "active"}, queue.pending_active);
  out.Add(kPending, {queue.name, "inadmissible"}, queue.pending_inadmissible);
  if (queue.hashes_active.has_value())
    out.Add(kHashes, {queue.name, "active"}, *queue.hashes_active);
  if (queue.hashes_inadmissible.has_value()) {
    out.Add(kHashes, {queue.name, "inadmissible"}, *queue.hashes_inadmissible);
  }
  out.Add(kFinished, {queue.name}, queue.finished);
  out.Add(kReserving, {queue.name}, queue.reserving);
  out.Add(kAdmitted, {queue.name}, queue.admitted);
  if (queue.reservations) out.Add(kReservations, {queue.name}, *queue.reservations);
  for (const auto& [status, name] :
       {std::pair(Status::kActive, "active"), std::pair(Status::kPending, "pending"),
        std::pair(Status::kTerminating, "terminating")}) {
    out.Add(kStatus, {queue.name, name}, int64_t{queue.status == status ? 1 : 0});
  }
  if (options.cohorts) out.Add(kInfo, {queue.name, queue.cohort, queue.root_cohort}, int64_t{1});
  if (options.cluster_queue_resources) AddResources(queue, out);
  if (!options.unadmitted_workloads) return;
  for (const UnadmittedCount& entry : queue.unadmitted) {
    if (entry.count == 0) continue;
    out.Add(kUnadmitted, {queue.name, entry.reason, entry.underlying_cause}, entry.count);
  }
}

void AddLocalQueue(const LocalQueueView& queue, const MetricsOptions& options,
                   GaugeCollector& out) {
  using Active = LocalQueueView::Active;
  const LabelValues labels = {queue.name, queue.ns};
  out.Add(kLocalPending, {queue.name, queue.ns, "active"}, queue.pending_active);
  out.Add(kLocalPending, {queue.name, queue.ns, "inadmissible"}, queue.pending_inadmissible);
  out.Add(kLocalFinished, labels, queue.finished);
  out.Add(kLocalReserving, labels, queue.reserving);
  out.Add(kLocalAdmitted, labels, queue.admitted);
  for (const auto& [active, name] :
       {std::pair(Active::kFalse, "False"), std::pair(Active::kTrue, "True"),
        std::pair(Active::kUnknown, "Unknown")}) {
    out.Add(kLocalStatusInfo, {queue.name, queue.ns, name},
            int64_t{queue.active == active ? 1 : 0});
  }
  if (options.cluster_queue_resources) {
    for (const FlavorResourceView& cell : queue.resources) {
      const LabelValues cell_labels = {queue.name, queue.ns, cell.flavor, cell.resource};
      out.Add(kLocalReservation, cell_labels, cell.reservation);
      out.Add(kLocalUsage, cell_labels, cell.usage);
    }
  }
  if (queue.fair_sharing_usage.has_value()) {
    out.Add(kLocalFairUsage, {queue.name, queue.ns, queue.cluster_queue},
            *queue.fair_sharing_usage);
  }
  if (!options.unadmitted_workloads) return;
  for (const UnadmittedCount& entry : queue.unadmitted) {
    if (entry.count == 0) continue;
    out.Add(kLocalUnadmitted,
            {queue.name, queue.ns, queue.cluster_queue, entry.reason, entry.underlying_cause},
            entry.count);
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> CollectGauges(const MetricsView& view,
                                                    const MetricsOptions& options,
                                                    const std::string& role) {
  GaugeCollector out(role);
  for (const ClusterQueueView& queue : view.cluster_queues) AddClusterQueue(queue, options, out);
  if (options.local_queues) {
    for (const LocalQueueView& queue : view.local_queues) AddLocalQueue(queue, options, out);
  }
  for (const CreditAccountView& account : view.credit_accounts) {
    const LabelValues labels = {account.name, account.policy};
    out.Add(kCreditBalance, labels, account.balance);
    out.Add(kCreditLimit, labels, account.bank_limit);
    out.Add(kCreditEntitlement, labels, account.entitlement);
    out.Add(kCreditUsage, labels, account.usage);
    out.Add(kCreditRate, labels, account.rate);
  }
  for (const FragmentationView& place : view.fragmentation) AddFragmentation(place, out);
  out.Add(kNativeGangs, {"PodGroup"}, int64_t{view.pod_groups ? 1 : 0});
  out.Add(kNativeGangs, {"JobScheduling"}, int64_t{view.job_scheduling ? 1 : 0});
  return out.Take();
}

}  // namespace sluice::metrics
