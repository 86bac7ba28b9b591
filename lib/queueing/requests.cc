#include "queueing/requests.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "api/names.h"
#include "base/check.h"
#include "resource/times_pods.h"

namespace sluice::queueing {
namespace {

using Nanos = Quantity::Nanos;
using ExactList = absl::btree_map<ResourceName, Nanos>;

constexpr int64_t kNanosPerUnit = 1'000'000'000;
constexpr int64_t kNanosPerMilli = 1'000'000;

// What all LimitRanges of a namespace say together about one type.
struct LimitSummary {
  bool any = false;
  ResourceList max;
  ResourceList min;
  ResourceList default_limits;
  ResourceList default_requests;
};

LimitSummary Summarize(const RequestContext& context, const std::string& type) {
  LimitSummary summary;
  for (const api::LimitRange* range : context.limit_ranges) {
    for (const api::LimitRangeItem& item : range->limits) {
      if (item.type != type) continue;
      summary.any = true;
      for (const auto& [resource, quantity] : item.max) {
        auto [entry, added] = summary.max.try_emplace(resource, quantity);
        if (!added) entry->second = std::min(entry->second, quantity);
      }
      for (const auto& [resource, quantity] : item.min) {
        auto [entry, added] = summary.min.try_emplace(resource, quantity);
        if (!added) entry->second = std::max(entry->second, quantity);
      }
      summary.default_limits.insert(item.default_limits.begin(), item.default_limits.end());
      summary.default_requests.insert(item.default_requests.begin(), item.default_requests.end());
    }
  }
  return summary;
}

void AddDefaults(const LimitSummary& summary, api::ResourceRequirements& resources) {
  // Inserting keeps what is there.
  resources.limits.insert(summary.default_limits.begin(), summary.default_limits.end());
  resources.requests.insert(summary.default_requests.begin(), summary.default_requests.end());
}

void UseLimitsAsRequests(api::ResourceRequirements& resources) {
  resources.requests.insert(resources.limits.begin(), resources.limits.end());
}

template <typename Visit>
void ForEachContainer(api::PodSpec& spec, Visit visit) {
  for (api::Container& container : spec.init_containers) visit(container.resources);
  for (api::Container& container : spec.containers) visit(container.resources);
}

void AddTo(ResourceList& sum, const ResourceList& list) {
  for (const auto& [resource, quantity] : list) {
    auto [entry, added] = sum.try_emplace(resource, quantity);
    if (!added) entry->second = entry->second + quantity;
  }
}

void RaiseTo(ResourceList& result, const ResourceList& list) {
  for (const auto& [resource, quantity] : list) {
    auto [entry, added] = result.try_emplace(resource, quantity);
    if (!added) entry->second = std::max(entry->second, quantity);
  }
}

bool HasPrefix(const std::string& text, const std::string& prefix) {
  return text.compare(0, prefix.size(), prefix) == 0;
}

bool CountsAtPodLevel(const ResourceName& resource) {
  return resource == kCpu || resource == kMemory || HasPrefix(resource, "hugepages-");
}

constexpr Nanos MaxNanos() {
  constexpr Nanos kHalf = static_cast<Nanos>(1) << 126;
  return kHalf - 1 + kHalf;
}

Nanos AddExact(Nanos a, Nanos b) {
  Nanos sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? -MaxNanos() : MaxNanos();
}

// a * b where both are in 10^-9; digits beyond that are dropped.
Nanos MultiplyExact(Nanos a, Nanos b) {
  const Nanos whole = a / kNanosPerUnit;
  const Nanos fraction = a % kNanosPerUnit;
  Nanos large = 0;
  if (__builtin_mul_overflow(whole, b, &large)) {
    return (a < 0) == (b < 0) ? MaxNanos() : -MaxNanos();
  }
  Nanos small = 0;
  if (__builtin_mul_overflow(fraction, b, &small)) {
    small = (b / kNanosPerUnit) * fraction;  // b is so large that its fraction does not matter
    return AddExact(large, small);
  }
  return AddExact(large, small / kNanosPerUnit);
}

ExactList Transform(const ExactList& requests, const RequestOptions& options) {
  auto find = [&](const ResourceName& resource) -> const ResourceTransformation* {
    for (const ResourceTransformation& transformation : options.transformations) {
      if (transformation.input == resource) return &transformation;
    }
    return nullptr;
  };
  ExactList kept;
  ExactList generated;
  for (const auto& [resource, amount] : requests) {
    const ResourceTransformation* transformation = find(resource);
    if (transformation == nullptr) {
      kept[resource] = amount;
      continue;
    }
    Nanos base = amount;
    auto factor = requests.find(transformation->multiply_by);
    if (factor != requests.end()) base = MultiplyExact(base, factor->second);
    for (const auto& [output, per_unit] : transformation->outputs) {
      Nanos& total = generated[output];
      total = AddExact(total, MultiplyExact(base, per_unit.nanos()));
    }
    if (!transformation->replace) kept[resource] = amount;
  }
  for (const auto& [resource, amount] : generated) {
    Nanos& total = kept[resource];
    total = AddExact(total, std::max<Nanos>(0, amount));
  }
  return kept;
}

int64_t RoundUp(const ResourceName& resource, Nanos nanos) {
  if (nanos <= 0) return 0;
  const Nanos unit = resource == kCpu ? kNanosPerMilli : kNanosPerUnit;
  const Nanos amount = nanos / unit + (nanos % unit > 0 ? 1 : 0);
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  return amount > kMax ? kMax : static_cast<int64_t>(amount);
}

int32_t ReclaimableCount(const api::Workload& workload, const std::string& pod_set) {
  for (const api::ReclaimablePod& pod : workload.status.reclaimable_pods) {
    if (pod.name == pod_set) return std::max(0, pod.count);
  }
  return 0;
}

api::PodSpec Adjust(api::PodSpec spec, const RequestContext& context,
                    const LimitSummary& containers, const LimitSummary& pods) {
  if (!spec.runtime_class_name.empty() && spec.overhead.empty() && context.runtime_class) {
    const api::RuntimeClass* runtime_class = context.runtime_class(spec.runtime_class_name);
    if (runtime_class != nullptr) spec.overhead = runtime_class->overhead;
  }
  if (containers.any) {
    ForEachContainer(spec, [&](auto& resources) { AddDefaults(containers, resources); });
  }
  if (spec.resources.has_value() && pods.any) AddDefaults(pods, *spec.resources);
  ForEachContainer(spec, [](auto& resources) { UseLimitsAsRequests(resources); });
  if (spec.resources.has_value()) UseLimitsAsRequests(*spec.resources);
  return spec;
}

bool RequestsAllLimits(const api::ResourceRequirements& resources) {
  return std::all_of(resources.limits.begin(), resources.limits.end(),
                     [&](const auto& limit) { return resources.requests.contains(limit.first); });
}

// Whether Adjust might change anything of it.
bool MayNeedAdjusting(const api::PodSpec& spec, const RequestContext& context) {
  if (!context.limit_ranges.empty()) return true;
  if (!spec.runtime_class_name.empty() && spec.overhead.empty()) return true;
  const auto complete = [](const api::Container& one) { return RequestsAllLimits(one.resources); };
  return !std::all_of(spec.init_containers.begin(), spec.init_containers.end(), complete) ||
         !std::all_of(spec.containers.begin(), spec.containers.end(), complete) ||
         (spec.resources.has_value() && !RequestsAllLimits(*spec.resources));
}

// The requests of one pod as quota counts them.
Requests SinglePod(const api::PodSpec& adjusted, const RequestOptions& options) {
  ExactList exact;
  for (const auto& [resource, quantity] : PodRequests(adjusted)) {
    const auto excluded = [&name = resource](const std::string& prefix) {
      return HasPrefix(name, prefix);
    };
    if (std::none_of(options.exclude_prefixes.begin(), options.exclude_prefixes.end(), excluded)) {
      exact[resource] = quantity.nanos();
    }
  }
  const auto is_requested = [&](const ResourceTransformation& transformation) {
    return exact.contains(transformation.input);
  };
  if (std::any_of(options.transformations.begin(), options.transformations.end(), is_requested)) {
    exact = Transform(exact, options);
  }
  Requests requests;
  for (const auto& [resource, nanos] : exact) requests[resource] = RoundUp(resource, nanos);
  return requests;
}

// Collects problems of the two kinds with the path of each.
class Validator {
 public:
  Validator(const LimitSummary& containers, const LimitSummary& pods)
      : containers_(containers), pods_(pods) {}

  void CheckPodSet(size_t index, const api::PodSpec& adjusted) {
    const std::string base = fmt::format("spec.podSets[{}].template.spec", index);
    for (size_t i = 0; i < adjusted.init_containers.size(); ++i) {
      CheckContainer(fmt::format("{}.initContainers[{}]", base, i), adjusted.init_containers[i]);
    }
    for (size_t i = 0; i < adjusted.containers.size(); ++i) {
      CheckContainer(fmt::format("{}.containers[{}]", base, i), adjusted.containers[i]);
    }
    if (adjusted.resources.has_value()) CheckOwnLimits(base, *adjusted.resources);
    if (pods_.any) {
      const ResourceList total = PodRequests(adjusted);
      CheckRange(base, total, total, pods_);
    }
  }

  void RefuseClaims(size_t index) {
    claims_.push_back(fmt::format("spec.podSets[{}].template.spec.resourceClaims", index));
  }

  std::vector<std::string> Messages() const {
    std::vector<std::string> messages;
    if (!claims_.empty()) {
      messages.push_back(fmt::format(
          "{}: Forbidden: devices that pods claim (dynamic resource allocation) are not "
          "counted yet; the feature gate KueueDRARejectWorkloadsWhenDRADisabled=false "
          "admits such workloads without counting them",
          fmt::join(claims_, ", ")));
    }
    if (!own_.empty()) messages.push_back("resources validation failed: " + Join(own_));
    if (!range_.empty()) {
      messages.push_back("resources didn't satisfy LimitRange constraints: " + Join(range_));
    }
    return messages;
  }

 private:
  static std::string Join(const std::vector<std::string>& problems) {
    if (problems.size() == 1) return problems[0];
    return fmt::format("[{}]", fmt::join(problems, ", "));
  }

  void CheckContainer(const std::string& path, const api::Container& container) {
    CheckOwnLimits(path, container.resources);
    if (!containers_.any) return;
    ResourceList largest = container.resources.requests;
    RaiseTo(largest, container.resources.limits);
    ResourceList smallest = container.resources.requests;
    for (const auto& [resource, limit] : container.resources.limits) {
      auto [entry, added] = smallest.try_emplace(resource, limit);
      if (!added) entry->second = std::min(entry->second, limit);
    }
    CheckRange(path, largest, smallest, containers_);
  }

  void CheckOwnLimits(const std::string& path, const api::ResourceRequirements& resources) {
    for (const auto& [resource, request] : resources.requests) {
      auto limit = resources.limits.find(resource);
      if (limit == resources.limits.end() || request <= limit->second) continue;
      own_.push_back(fmt::format(
          "{}.resources.requests[{}]: Invalid value: \"{}\": requests must not exceed its limits",
          path, resource, request.ToString()));
    }
  }

  void CheckRange(const std::string& path, const ResourceList& largest,
                  const ResourceList& smallest, const LimitSummary& summary) {
    for (const auto& [resource, maximum] : summary.max) {
      auto found = largest.find(resource);
      if (found == largest.end() || found->second <= maximum) continue;
      range_.push_back(fmt::format(
          "{}: Invalid value: \"{}: {}\": requests must not be above the limitRange max", path,
          resource, found->second.ToString()));
    }
    for (const auto& [resource, minimum] : summary.min) {
      auto found = smallest.find(resource);
      if (found == smallest.end() || found->second >= minimum) continue;
      range_.push_back(fmt::format(
          "{}: Invalid value: \"{}: {}\": requests must not be below the limitRange min", path,
          resource, found->second.ToString()));
    }
  }

  const LimitSummary& containers_;
  const LimitSummary& pods_;
  std::vector<std::string> claims_;
  std::vector<std::string> own_;
  std::vector<std::string> range_;
};

}  // namespace

api::PodSpec AdjustPodSpec(const api::PodSpec& spec, const RequestContext& context) {
  return Adjust(spec, context, Summarize(context, "Container"), Summarize(context, "Pod"));
}

ResourceList PodRequests(const api::PodSpec& adjusted) {
  ResourceList sidecars;  // running sum
  ResourceList peak;      // the most that is needed while init containers run
  for (const api::Container& container : adjusted.init_containers) {
    if (container.restart_policy == "Always") {
      AddTo(sidecars, container.resources.requests);
      RaiseTo(peak, sidecars);
    } else {
      ResourceList beside = sidecars;
      AddTo(beside, container.resources.requests);
      RaiseTo(peak, beside);
    }
  }
  ResourceList result = std::move(sidecars);
  for (const api::Container& container : adjusted.containers) {
    AddTo(result, container.resources.requests);
  }
  RaiseTo(result, peak);
  if (adjusted.resources.has_value()) {
    for (const auto& [resource, quantity] : adjusted.resources->requests) {
      if (CountsAtPodLevel(resource)) result[resource] = quantity;
    }
  }
  AddTo(result, adjusted.overhead);
  return result;
}

ResourceList PodRequests(const api::PodSpec& spec, const RequestContext& context) {
  if (!MayNeedAdjusting(spec, context)) return PodRequests(spec);
  return PodRequests(AdjustPodSpec(spec, context));
}

std::vector<PodSetRequests> TotalRequests(const api::Workload& workload,
                                          const RequestContext& context) {
  static const RequestOptions kDefaults;
  const RequestOptions& options = context.options == nullptr ? kDefaults : *context.options;
  const LimitSummary containers = Summarize(context, "Container");
  const LimitSummary pods = Summarize(context, "Pod");
  std::vector<PodSetRequests> result;
  for (const api::PodSet& pod_set : workload.spec.pod_sets) {
    PodSetRequests requests;
    requests.name = pod_set.name;
    requests.count = std::max(0, pod_set.count);
    if (options.reclaimable_pods) {
      requests.count -= std::min(requests.count, ReclaimableCount(workload, pod_set.name));
    }
    const Requests single_pod =
        SinglePod(Adjust(*pod_set.pod_template.spec, context, containers, pods), options);
    for (const auto& [resource, amount] : single_pod) {
      requests.total[resource] = TimesPods(amount, requests.count);
    }
    result.push_back(std::move(requests));
  }
  return result;
}

std::vector<std::string> ValidateResources(const api::Workload& workload,
                                           const RequestContext& context) {
  const LimitSummary containers = Summarize(context, "Container");
  const LimitSummary pods = Summarize(context, "Pod");
  Validator validator(containers, pods);
  const bool claims = context.options == nullptr || context.options->refuse_claims;
  for (size_t i = 0; i < workload.spec.pod_sets.size(); ++i) {
    const api::PodSpec& spec = *workload.spec.pod_sets[i].pod_template.spec;
    if (claims && !spec.resource_claims.empty()) validator.RefuseClaims(i);
    validator.CheckPodSet(i, Adjust(spec, context, containers, pods));
  }
  return validator.Messages();
}

Requests AdmittedAmounts(const api::Workload& workload, const api::PodSetAssignment& assignment,
                         bool reclaimable_pods) {
  const auto& pod_sets = workload.spec.pod_sets;
  const auto pod_set = std::find_if(pod_sets.begin(), pod_sets.end(), [&](const auto& candidate) {
    return candidate.name == assignment.name;
  });
  const int64_t spec_count =
      pod_set == pod_sets.end() ? assignment.count.value_or(0) : std::max(0, pod_set->count);
  const int64_t assigned = assignment.count.value_or(static_cast<int32_t>(spec_count));
  const int64_t reclaimable =
      reclaimable_pods ? ReclaimableCount(workload, assignment.name) : int64_t{0};
  const int64_t left = spec_count - std::min(spec_count, reclaimable);
  Requests amounts;
  for (const auto& [resource, flavor] : assignment.flavors) {
    const auto quantity = assignment.resource_usage.find(resource);
    if (quantity == assignment.resource_usage.end()) continue;
    int64_t amount = std::max<int64_t>(0, AmountOf(resource, quantity->second));
    if (left < assigned) amount = amount / assigned * left;
    amounts[resource] = amount;
  }
  return amounts;
}

FlavorResourceAmounts AdmittedUsage(const api::Workload& workload, bool reclaimable_pods) {
  FlavorResourceAmounts usage;
  if (!workload.status.admission.has_value()) return usage;
  for (const api::PodSetAssignment& assignment : workload.status.admission->pod_set_assignments) {
    for (const auto& [resource, amount] : AdmittedAmounts(workload, assignment, reclaimable_pods)) {
      int64_t& total = usage[{assignment.flavors.at(resource), resource}];
      total = SaturatingAdd(total, amount);
    }
  }
  return usage;
}

bool HoldsQuota(const api::Workload& workload) {
  return api::IsTrue(workload.status.conditions, api::kQuotaReserved) &&
         workload.status.admission.has_value() && workload.spec.active.value_or(true) &&
         !api::IsTrue(workload.status.conditions, api::kFinished);
}

std::vector<api::PodSetRequest> StatusRequests(const std::vector<PodSetRequests>& requests) {
  std::vector<api::PodSetRequest> result;
  for (const PodSetRequests& pod_set : requests) {
    api::PodSetRequest entry;
    entry.name = pod_set.name;
    for (const auto& [resource, amount] : pod_set.total) {
      entry.resources[resource] = QuantityOf(resource, amount);
    }
    result.push_back(std::move(entry));
  }
  return result;
}

}  // namespace sluice::queueing
