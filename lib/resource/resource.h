// Amounts of resources as the quota arithmetic uses them: integers, in thousandths for cpu and in
// whole units for everything else (bytes for memory). Arithmetic is checked: a sum beyond 64 bits
// saturates, so that an absurd request is too large instead of negative.
#pragma once

#include <absl/container/btree_map.h>

#include <compare>
#include <cstdint>
#include <string>

#include "resource/quantity.h"

namespace sluice {

using ResourceName = std::string;
using FlavorName = std::string;
inline constexpr char kCpu[] = "cpu";
inline constexpr char kMemory[] = "memory";
inline constexpr char kEphemeralStorage[] = "ephemeral-storage";
inline constexpr char kPods[] = "pods";

// Name -> amount; ordered, so that iteration is deterministic.
using ResourceList = absl::btree_map<ResourceName, Quantity>;
using Requests = absl::btree_map<ResourceName, int64_t>;

// One cell of quota: a resource in a flavor.
struct FlavorResource {
  FlavorName flavor;
  ResourceName resource;
  auto operator<=>(const FlavorResource&) const = default;
  bool operator==(const FlavorResource&) const = default;
};
using FlavorResourceAmounts = absl::btree_map<FlavorResource, int64_t>;

// Amount of a quantity: MilliValue for cpu, Value for others.
int64_t AmountOf(const ResourceName& resource, const Quantity& quantity);
// The canonical quantity of an amount: cpu decimal milli, memory, ephemeral-storage and hugepages-*
// binary SI, everything else decimal.
Quantity QuantityOf(const ResourceName& resource, int64_t amount);
Requests RequestsOf(const ResourceList& list);

int64_t SaturatingAdd(int64_t a, int64_t b);
int64_t SaturatingSub(int64_t a, int64_t b);
int64_t SaturatingMul(int64_t a, int64_t b);

}  // namespace sluice
