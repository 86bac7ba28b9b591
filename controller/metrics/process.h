// The standard process_* metrics of this process, from /proc/self. Private to this room.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

namespace sluice::metrics {

// What cannot be read is left out.
std::vector<prometheus::MetricFamily> CollectProcess();

}  // namespace sluice::metrics
