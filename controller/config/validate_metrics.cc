#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "config/names.h"
#include "config/validate.h"

namespace sluice::config {
namespace {

constexpr std::size_t kMaxCustomLabels = 20;

// How many labels and tracked values a kind of object may add; Workload is held short because there
// are so many of them.
struct KindLimit {
  const char* kind;
  std::size_t labels;
  std::size_t min_values;
  std::size_t max_values;
};
constexpr KindLimit kKindLimits[] = {
    {"ClusterQueue", 6, 0, 16},
    {"Cohort", 6, 0, 16},
    {"LocalQueue", 6, 0, 16},
    {"Workload", 2, 1, 12},
};

const KindLimit* LimitOf(const std::string& kind) {
  const std::string effective = kind.empty() ? "ClusterQueue" : kind;
  for (const KindLimit& limit : kKindLimits) {
    if (limit.kind == effective) return &limit;
  }
  return nullptr;
}

bool IsMetricLabel(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(),
                     [&](char c) { return letter(c) || (c >= '0' && c <= '9') || c == '_'; });
}

void ValidateTrackedValues(const std::string& path, const CustomLabelFile& label,
                           const KindLimit& limit, Violations* violations) {
  const std::size_t count = label.tracked_values.size();
  if (count < limit.min_values || count > limit.max_values) {
    violations->Add(path + ".trackedValues", "must have {} to {} entries for {} (there are {})",
                    limit.min_values, limit.max_values, limit.kind, count);
  }
  std::set<std::string> seen;
  for (std::size_t i = 0; i < count; ++i) {
    if (!seen.insert(label.tracked_values[i]).second) {
      violations->Add(fmt::format("{}.trackedValues[{}]", path, i), "\"{}\" is given twice",
                      label.tracked_values[i]);
    }
  }
}

void ValidateKeys(const std::string& path, const CustomLabelFile& label, Violations* violations) {
  if (!label.source_label_key.empty() && !label.source_annotation_key.empty()) {
    violations->Add(path, "sourceLabelKey and sourceAnnotationKey exclude each other");
  }
  if (!label.source_label_key.empty()) {
    violations->AddIf(path + ".sourceLabelKey", CheckLabelKey(label.source_label_key));
  }
  if (!label.source_annotation_key.empty()) {
    violations->AddIf(path + ".sourceAnnotationKey", CheckLabelKey(label.source_annotation_key));
  }
  if (label.source_label_key.empty() && label.source_annotation_key.empty()) {
    // The name itself is the key then.
    violations->AddIf(path + ".name", CheckLabelKey(label.name));
  }
}

}  // namespace

void ValidateMetrics(const MetricsFile& metrics, Violations* violations) {
  if (metrics.local_queue_metrics && metrics.local_queue_metrics->local_queue_selector) {
    ValidateSelector("metrics.localQueueMetrics.localQueueSelector",
                     *metrics.local_queue_metrics->local_queue_selector, violations);
  }
  const std::string path = "metrics.customLabels";
  if (metrics.custom_labels.size() > kMaxCustomLabels) {
    violations->Add(path, "must have at most {} entries", kMaxCustomLabels);
  }
  std::map<std::string, std::size_t> per_kind;
  std::set<std::string> names;
  for (std::size_t i = 0; i < metrics.custom_labels.size(); ++i) {
    const CustomLabelFile& label = metrics.custom_labels[i];
    const std::string at = fmt::format("{}[{}]", path, i);
    if (!IsMetricLabel(label.name)) {
      violations->Add(at + ".name",
                      "must be letters, digits and '_', starting with a letter (it is \"{}\")",
                      label.name);
    } else {
      ValidateKeys(at, label, violations);
    }
    if (!names.insert(label.name).second) {
      violations->Add(at + ".name", "\"{}\" is given twice", label.name);
    }
    if (const KindLimit* limit = LimitOf(label.source_kind)) {
      ValidateTrackedValues(at, label, *limit, violations);
      if (++per_kind[limit->kind] > limit->labels) {
        violations->Add(path, "must have at most {} entries for {}", limit->labels, limit->kind);
      }
    } else {
      violations->Add(path,
                      "unknown sourceKind \"{}\"; known are ClusterQueue, Cohort, LocalQueue, "
                      "Workload",
                      label.source_kind);
    }
  }
}

}  // namespace sluice::config
