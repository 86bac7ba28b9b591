// Gauges from the published view. Private to this room; pure.
#pragma once

#include <prometheus/metric_family.h>

#include <string>
#include <vector>

#include "metrics/metrics.h"
#include "metrics/snapshot_view.h"

namespace sluice::metrics {

// Families without a sample are left out.
std::vector<prometheus::MetricFamily> CollectGauges(const MetricsView& view,
                                                    const MetricsOptions& options,
                                                    const std::string& role);

}  // namespace sluice::metrics
