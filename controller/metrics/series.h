// Counters and histograms with labels, and helpers to build metric families. Private to this room.
//
// The families of prometheus-cpp keep their series in hash order and give them up only one pointer
// at a time; these keep them sorted by label values and can drop all series of a queue. Not
// thread-safe.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/metric_family.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sluice::metrics {

using LabelNames = std::vector<std::string>;
using LabelValues = std::vector<std::string>;

struct FamilyInfo {
  std::string name;
  std::string help;
  LabelNames labels;
};

// A sample with its labels sorted by name, as Go's client writes them.
prometheus::ClientMetric WithLabels(const LabelNames& names, const LabelValues& values);
prometheus::MetricFamily EmptyFamily(const FamilyInfo& info, prometheus::MetricType type);

// Upper bounds: 1, 2.5, then doubling, `count` in all.
std::vector<double> WaitBuckets(size_t count);
// start, start * 2, start * 4, ...
std::vector<double> DoublingBuckets(double start, size_t count);
// 5 ms to 10 s.
std::vector<double> LatencyBuckets();

// What both kinds of series have in common.
template <typename Metric>
class SeriesFamily {
 public:
  explicit SeriesFamily(FamilyInfo info) : info_(std::move(info)) {}

  // Drops the series whose labels have these values.
  void Forget(const std::vector<std::pair<std::string, std::string>>& labels) {
    std::vector<std::pair<size_t, std::string>> wanted;
    for (const auto& [name, value] : labels) {
      size_t index = 0;
      while (index < info_.labels.size() && info_.labels[index] != name) ++index;
      if (index == info_.labels.size()) return;
      wanted.emplace_back(index, value);
    }
    std::erase_if(series_, [&](const auto& entry) {
      for (const auto& [index, value] : wanted) {
        if (entry.first[index] != value) return false;
      }
      return true;
    });
  }

 protected:
  prometheus::MetricFamily Collect(prometheus::MetricType type) const {
    prometheus::MetricFamily family = EmptyFamily(info_, type);
    for (const auto& [values, metric] : series_) {
      prometheus::ClientMetric sample = metric->Collect();
      sample.label = WithLabels(info_.labels, values).label;
      family.metric.push_back(std::move(sample));
    }
    return family;
  }

  FamilyInfo info_;
  std::map<LabelValues, std::unique_ptr<Metric>> series_;
};

class CounterFamily : public SeriesFamily<prometheus::Counter> {
 public:
  using SeriesFamily::SeriesFamily;
  void Increment(const LabelValues& values) { Add(values, 1); }
  void Add(const LabelValues& values, double amount);
  prometheus::MetricFamily Collect() const {
    return SeriesFamily::Collect(prometheus::MetricType::Counter);
  }
};

class HistogramFamily : public SeriesFamily<prometheus::Histogram> {
 public:
  HistogramFamily(FamilyInfo info, std::vector<double> buckets)
      : SeriesFamily(std::move(info)), buckets_(std::move(buckets)) {}
  void Observe(const LabelValues& values, double value);
  prometheus::MetricFamily Collect() const {
    return SeriesFamily::Collect(prometheus::MetricType::Histogram);
  }

 private:
  std::vector<double> buckets_;
};

}  // namespace sluice::metrics
