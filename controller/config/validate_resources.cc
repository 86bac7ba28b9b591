#include <map>
#include <set>

#include "config/names.h"
#include "config/validate.h"

namespace sluice::config {
namespace {

constexpr std::size_t kMaxMappings = 16;
constexpr std::size_t kMaxClassNames = 8;
constexpr std::size_t kMaxKeyLength = 253;

std::string CheckMappingKey(const std::string& value) {
  if (value.size() > kMaxKeyLength) {
    return fmt::format("must be at most {} characters long", kMaxKeyLength);
  }
  return CheckLabelKey(value);
}

void ValidateTransformations(const ResourcesFile& resources, Violations* violations) {
  std::set<std::string> inputs;
  for (std::size_t i = 0; i < resources.transformations.size(); ++i) {
    const TransformationFile& transformation = resources.transformations[i];
    const std::string path = fmt::format("resources.transformations[{}].", i);
    if (transformation.strategy != "Retain" && transformation.strategy != "Replace") {
      violations->Add(path + "strategy", "must be Retain or Replace (it is \"{}\")",
                      transformation.strategy);
    }
    if (!inputs.insert(transformation.input).second) {
      violations->Add(path + "input", "\"{}\" is given twice", transformation.input);
    }
  }
}

// The name of a counter or capacity has its own syntax; the rest is the same for both.
void ValidateSource(const std::string& path, const DeviceSourceFile& source,
                    const std::string& wrong_name, Violations* violations) {
  if (source.name.empty()) {
    violations->Add(path + ".name", "is required");
  } else {
    violations->AddIf(path + ".name", wrong_name);
  }
  if (source.driver.empty()) {
    violations->Add(path + ".driver", "is required");
  } else if (source.driver.size() > 63) {
    violations->Add(path + ".driver", "must be at most 63 characters long");
  } else {
    violations->AddIf(path + ".driver", CheckDns1123Subdomain(source.driver));
  }
  if (!source.device_selector || !source.device_selector->cel ||
      source.device_selector->cel->expression.empty()) {
    violations->Add(path + ".deviceSelector.cel.expression", "is required");
  }
}

void RequireGate(const std::string& path, const char* gate, const state::FeatureGates& gates,
                 Violations* violations) {
  if (!gates.Enabled(gate)) violations->Add(path, "needs the feature gate {}", gate);
}

void ValidateSources(const std::string& path, const DeviceClassMappingFile& mapping,
                     const state::FeatureGates& gates, Violations* violations) {
  bool counters = false;
  bool capacities = false;
  for (std::size_t i = 0; i < mapping.sources.size(); ++i) {
    const DeviceClassSourceFile& source = mapping.sources[i];
    const std::string at = fmt::format("{}.sources[{}]", path, i);
    if (source.counter.has_value() == source.capacity.has_value()) {
      violations->Add(at, "must have exactly one of counter and capacity");
    }
    if (source.counter) {
      counters = true;
      RequireGate(at + ".counter", "KueueDRAIntegrationPartitionableDevices", gates, violations);
      ValidateSource(at + ".counter", *source.counter, CheckDns1123Label(source.counter->name),
                     violations);
    }
    if (source.capacity) {
      capacities = true;
      RequireGate(at + ".capacity", "KueueDRAIntegrationConsumableCapacity", gates, violations);
      ValidateSource(at + ".capacity", *source.capacity,
                     CheckDraQualifiedName(source.capacity->name), violations);
    }
  }
  if (counters && capacities) {
    violations->Add(path + ".sources", "must not mix counter and capacity sources");
  }
}

// The counter by which a mapping shares a device class with another, "" when it has none.
std::string CounterName(const DeviceClassMappingFile& mapping) {
  if (mapping.sources.empty() || !mapping.sources.front().counter) return "";
  return mapping.sources.front().counter->name;
}

// Collects who uses which device class, over the mappings that were seen so far.
class ClassUsers {
 public:
  void Add(const std::string& path, const std::string& device_class,
           const DeviceClassMappingFile& mapping, Violations* violations) {
    for (const DeviceClassMappingFile* other : users_[device_class]) {
      const bool shared = !CounterName(*other).empty() && !CounterName(mapping).empty() &&
                          CounterName(*other) != CounterName(mapping);
      if (!shared) {
        violations->Add(path, "device class {} is already mapped to {}", device_class, other->name);
      }
    }
    users_[device_class].push_back(&mapping);
  }

 private:
  std::map<std::string, std::vector<const DeviceClassMappingFile*>> users_;
};

void ValidateClassNames(const std::string& path, const DeviceClassMappingFile& mapping,
                        ClassUsers* users, Violations* violations) {
  const std::size_t count = mapping.device_class_names.size();
  if (count < 1 || count > kMaxClassNames) {
    violations->Add(path, "must have 1 to {} entries (there are {})", kMaxClassNames, count);
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& name = mapping.device_class_names[i];
    const std::string at = fmt::format("{}[{}]", path, i);
    violations->AddIf(at, CheckMappingKey(name));
    if (!seen.insert(name).second) {
      violations->Add(at, "\"{}\" is given twice", name);
    } else {
      users->Add(at, name, mapping, violations);
    }
  }
}

}  // namespace

void ValidateResources(const ResourcesFile& resources, const state::FeatureGates& gates,
                       Violations* violations) {
  const std::string& strategy = resources.quota_check_strategy;
  if (gates.Enabled("QuotaCheckStrategy") && !strategy.empty()) {
    const std::string path = "resources.quotaCheckStrategy";
    if (strategy != "BlockUndeclared" && strategy != "IgnoreUndeclared") {
      violations->Add(path, "must be BlockUndeclared or IgnoreUndeclared (it is \"{}\")", strategy);
    }
    if (strategy == "IgnoreUndeclared" && !resources.exclude_resource_prefixes.empty()) {
      violations->Add(path, "IgnoreUndeclared must not be combined with excludeResourcePrefixes");
    }
  }
  ValidateTransformations(resources, violations);
  const std::string path = "resources.deviceClassMappings";
  if (resources.device_class_mappings.size() > kMaxMappings) {
    violations->Add(path, "must have at most {} entries", kMaxMappings);
  }
  std::set<std::string> names;
  ClassUsers users;
  for (std::size_t i = 0; i < resources.device_class_mappings.size(); ++i) {
    const DeviceClassMappingFile& mapping = resources.device_class_mappings[i];
    const std::string at = fmt::format("{}[{}]", path, i);
    violations->AddIf(at + ".name", CheckMappingKey(mapping.name));
    if (!names.insert(mapping.name).second) {
      violations->Add(at + ".name", "\"{}\" is given twice", mapping.name);
    }
    ValidateClassNames(at + ".deviceClassNames", mapping, &users, violations);
    ValidateSources(at, mapping, gates, violations);
  }
}

}  // namespace sluice::config
