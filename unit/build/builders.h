// Builders of API objects for tests: short, readable, with sensible values for what a test does not
// care about. Amounts are written as the API writes them ("2", "500m", "1Gi"); a malformed one
// stops the test program. Every builder converts to its object; Shared() gives a shared immutable
// one.
//
//   api::Workload w = build::Workload("a").Queue("q").Request("cpu", "2").Priority(5);
//   api::ClusterQueue cq = build::ClusterQueue("cq").Flavor("default", {{"cpu", "10"}});
#pragma once

#include <absl/time/time.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/core_types.h"
#include "api/kueue_types.h"

namespace sluice::build {

using Pairs = std::initializer_list<std::pair<std::string, std::string>>;

// 2026-01-01T00:00:00Z, the creation time of everything that says no other.
absl::Time Epoch();
// Epoch plus so many seconds.
absl::Time At(double seconds);
Quantity Q(const std::string& text);
ResourceList Resources(Pairs amounts);
FlavorResourceAmounts Amounts(
    std::initializer_list<std::pair<std::pair<std::string, std::string>, int64_t>> amounts);
api::Container MakeContainer(Pairs requests, Pairs limits = {});

// What all builders share: metadata.
template <typename Object, typename Self>
class Builder {
 public:
  operator Object() const { return object_; }
  const Object& Get() const { return object_; }
  std::shared_ptr<const Object> Shared() const { return std::make_shared<const Object>(object_); }

  Self& Namespace(const std::string& ns) { return object_.metadata.ns = ns, This(); }
  Self& Uid(const std::string& uid) { return object_.metadata.uid = uid, This(); }
  Self& Label(const std::string& key, const std::string& value) {
    return object_.metadata.labels[key] = value, This();
  }
  Self& Annotation(const std::string& key, const std::string& value) {
    return object_.metadata.annotations[key] = value, This();
  }
  Self& Created(absl::Time time) { return object_.metadata.creation_timestamp = time, This(); }
  Self& Generation(int64_t generation) { return object_.metadata.generation = generation, This(); }
  Self& ResourceVersion(const std::string& version) {
    return object_.metadata.resource_version = version, This();
  }
  Self& Finalizer(const std::string& name) {
    return object_.metadata.finalizers.push_back(name), This();
  }
  Self& Deleted(absl::Time time) { return object_.metadata.deletion_timestamp = time, This(); }
  Self& OwnedBy(const std::string& api_version, const std::string& kind, const std::string& name,
                const std::string& uid);

 protected:
  Builder(const std::string& ns, const std::string& name);
  Self& This() { return static_cast<Self&>(*this); }
  Object object_;
};

// In namespace "ns", one pod set "main" of one pod with one container.
class Workload : public Builder<api::Workload, Workload> {
 public:
  explicit Workload(const std::string& name);
  Workload& Queue(const std::string& name);
  Workload& Priority(int32_t priority);
  Workload& Active(bool active);
  Workload& MaximumExecutionTime(int32_t seconds);
  // These concern the last pod set.
  Workload& Count(int32_t count);
  Workload& MinCount(int32_t count);
  Workload& Request(const std::string& resource, const std::string& amount);  // first container
  Workload& Limit(const std::string& resource, const std::string& amount);    // first container
  Workload& NodeSelector(const std::string& key, const std::string& value);
  Workload& Tolerate(const std::string& key, const std::string& value, const std::string& effect);
  Workload& RequiredAffinity(std::vector<api::NodeSelectorTerm> terms);
  Workload& Spec(api::PodSpec spec);
  // Starts another pod set; the first call on a fresh builder renames "main".
  Workload& PodSet(const std::string& name, int32_t count = 1);
  // Status.
  Workload& Condition(const std::string& type, api::ConditionStatus status,
                      const std::string& reason, absl::Time since, const std::string& message = "");
  // QuotaReserved (and Admitted) True with all requests of the containers in that flavor.
  Workload& Reserved(const std::string& cluster_queue, const std::string& flavor,
                     absl::Time since = Epoch());
  Workload& Admitted(const std::string& cluster_queue, const std::string& flavor,
                     absl::Time since = Epoch());
  Workload& Evicted(const std::string& reason, absl::Time since, const std::string& message = "");
  Workload& Finished(absl::Time since = Epoch());
  Workload& Requeued(bool requeued, const std::string& reason, absl::Time since = Epoch());
  Workload& RequeueAt(absl::Time time, int32_t count = 1);
  Workload& Reclaimable(const std::string& pod_set, int32_t count);
  Workload& Check(const std::string& name, const std::string& state,
                  const std::string& message = "");

 private:
  api::PodSet& Last() { return object_.spec.pod_sets.back(); }
  bool fresh_ = true;
};

// Admits from every namespace unless told otherwise.
class ClusterQueue : public Builder<api::ClusterQueue, ClusterQueue> {
 public:
  explicit ClusterQueue(const std::string& name);
  ClusterQueue& Cohort(const std::string& name);
  ClusterQueue& StrictFifo();
  ClusterQueue& StopPolicy(const std::string& policy);
  ClusterQueue& NamespaceSelector(std::optional<api::LabelSelector> selector);
  // A flavor with nominal quotas in the last resource group; a flavor whose resources differ from
  // those of the group starts another one.
  ClusterQueue& Flavor(const std::string& name, Pairs nominal);
  // Limits of a resource of the flavor that was added last.
  ClusterQueue& BorrowingLimit(const std::string& resource, const std::string& amount);
  ClusterQueue& LendingLimit(const std::string& resource, const std::string& amount);
  ClusterQueue& Fungibility(const std::string& when_can_borrow, const std::string& when_can_preempt,
                            const std::string& preference = "");
  ClusterQueue& Check(const std::string& name, std::vector<std::string> on_flavors = {});

 private:
  api::ResourceQuota& LastQuota(const std::string& resource);
};

class LocalQueue : public Builder<api::LocalQueue, LocalQueue> {
 public:
  LocalQueue(const std::string& name, const std::string& cluster_queue);
  LocalQueue& StopPolicy(const std::string& policy);
};

class Flavor : public Builder<api::ResourceFlavor, Flavor> {
 public:
  explicit Flavor(const std::string& name);
  Flavor& NodeLabel(const std::string& key, const std::string& value);
  Flavor& Taint(const std::string& key, const std::string& value, const std::string& effect);
  Flavor& Tolerate(const std::string& key, const std::string& value, const std::string& effect);
  Flavor& Topology(const std::string& name);
};

// Suspended, in namespace "ns", parallelism and completions 1, one container.
class Job : public Builder<api::Job, Job> {
 public:
  explicit Job(const std::string& name);
  Job& Queue(const std::string& name);
  Job& Suspend(bool suspend);
  Job& Parallelism(int32_t parallelism);
  Job& Completions(int32_t completions);
  Job& Request(const std::string& resource, const std::string& amount);
  Job& Limit(const std::string& resource, const std::string& amount);
  Job& Condition(const std::string& type, absl::Time since, const std::string& reason = "",
                 const std::string& message = "");
};

class Namespace : public Builder<api::Namespace, Namespace> {
 public:
  explicit Namespace(const std::string& name);
};

// In namespace "ns".
class LimitRange : public Builder<api::LimitRange, LimitRange> {
 public:
  explicit LimitRange(const std::string& name);
  LimitRange& Container(Pairs default_requests, Pairs default_limits = {}, Pairs min = {},
                        Pairs max = {});
  LimitRange& Pod(Pairs min, Pairs max);
};

class WorkloadPriorityClass : public Builder<api::WorkloadPriorityClass, WorkloadPriorityClass> {
 public:
  WorkloadPriorityClass(const std::string& name, int32_t value);
};

class PriorityClass : public Builder<api::PriorityClass, PriorityClass> {
 public:
  PriorityClass(const std::string& name, int32_t value);
  PriorityClass& GlobalDefault();
};

class RuntimeClass : public Builder<api::RuntimeClass, RuntimeClass> {
 public:
  RuntimeClass(const std::string& name, Pairs overhead);
};

class AdmissionCheck : public Builder<api::AdmissionCheck, AdmissionCheck> {
 public:
  AdmissionCheck(const std::string& name, const std::string& controller, bool active = true);
};

}  // namespace sluice::build
