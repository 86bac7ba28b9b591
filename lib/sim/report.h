// Reports of a trace simulation: text for the terminal, CSV for other programs, one HTML page.
//
// Pure functions of the result, so the same simulation gives the same bytes. The page needs no
// network and no script: tables and inline SVG.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sim/trace_stats.h"

namespace sluice::sim {

std::string RenderReport(const TraceResult& result);

// File name -> content: cluster_queues.csv, local_queues.csv, utilization.csv (a line per interval,
// flavor and resource, as CPUs, bytes or pieces), load.csv (waiting and running workloads per
// interval). Times in seconds, as means over the interval that begins there.
std::vector<std::pair<std::string, std::string>> RenderCsv(const TraceResult& result);
// A line per workload, in the order of arrival.
std::string RenderWorkloadsCsv(const TraceCluster& cluster, const Trace& trace,
                               const TraceEngine& engine);

std::string RenderHtml(const TraceResult& result, const std::string& title);

// "1h2m3s", "12.34s", "0s": as precise as a reader needs.
std::string ShortTime(double micros);
// An amount in words: "1.5" CPUs, "13.32Gi", "8".
std::string ShortAmount(const ResourceName& resource, double amount);

// Gives every event to `sink` as a line: of text ("12.5 admit team/a default cpu=2"), or of CSV,
// which begins with a header.
class TimelineWriter : public TraceListener {
 public:
  enum class Format { kText, kCsv };
  using Sink = std::function<void(const std::string& line)>;
  TimelineWriter(const TraceCluster& cluster, const Trace& trace, Format format, Sink sink);
  void OnTraceEvent(const TraceEvent& event) override;

 private:
  const TraceCluster& cluster_;
  const Trace& trace_;
  Format format_;
  Sink sink_;
};

}  // namespace sluice::sim
