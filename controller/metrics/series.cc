#include "metrics/series.h"

#include <algorithm>

#include "base/check.h"

namespace sluice::metrics {

prometheus::ClientMetric WithLabels(const LabelNames& names, const LabelValues& values) {
  SLUICE_CHECK(names.size() == values.size(), "{} labels, {} values", names.size(), values.size());
  prometheus::ClientMetric sample;
  for (size_t i = 0; i < names.size(); ++i) sample.label.push_back({names[i], values[i]});
  std::sort(sample.label.begin(), sample.label.end());
  return sample;
}

prometheus::MetricFamily EmptyFamily(const FamilyInfo& info, prometheus::MetricType type) {
  prometheus::MetricFamily family;
  family.name = info.name;
  family.help = info.help;
  family.type = type;
  return family;
}

std::vector<double> WaitBuckets(size_t count) {
  std::vector<double> buckets = {1};
  double bound = 2.5;
  while (buckets.size() < count) {
    buckets.push_back(bound);
    bound *= 2;
  }
  return buckets;
}

std::vector<double> DoublingBuckets(double start, size_t count) {
  std::vector<double> buckets;
  for (double bound = start; buckets.size() < count; bound *= 2) buckets.push_back(bound);
  return buckets;
}

std::vector<double> LatencyBuckets() {
  return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
}

void CounterFamily::Add(const LabelValues& values, double amount) {
  SLUICE_CHECK(values.size() == info_.labels.size(), "{}: {} values", info_.name, values.size());
  auto& metric = series_[values];
  if (metric == nullptr) metric = std::make_unique<prometheus::Counter>();
  metric->Increment(amount);
}

void HistogramFamily::Observe(const LabelValues& values, double value) {
  SLUICE_CHECK(values.size() == info_.labels.size(), "{}: {} values", info_.name, values.size());
  auto& metric = series_[values];
  if (metric == nullptr) metric = std::make_unique<prometheus::Histogram>(buckets_);
  metric->Observe(value);
}

}  // namespace sluice::metrics
