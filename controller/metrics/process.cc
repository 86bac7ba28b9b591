#include "metrics/process.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>

#include "metrics/series.h"

namespace sluice::metrics {
namespace {

prometheus::MetricFamily Single(const char* name, const char* help, prometheus::MetricType type,
                                double value) {
  prometheus::MetricFamily family = EmptyFamily({name, help, {}}, type);
  prometheus::ClientMetric sample;
  if (type == prometheus::MetricType::Counter) {
    sample.counter.value = value;
  } else {
    sample.gauge.value = value;
  }
  family.metric.push_back(sample);
  return family;
}

// Fields 3 and on of /proc/self/stat; the second is a name that may hold anything, in parentheses.
std::vector<std::string> StatFields() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const size_t end_of_name = line.rfind(')');
  if (end_of_name == std::string::npos) return {};
  std::istringstream rest(line.substr(end_of_name + 1));
  return {std::istream_iterator<std::string>(rest), {}};
}

double BootTime() {
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("btime ", 0) == 0) return std::stod(line.substr(6));
  }
  return 0;
}

}  // namespace

std::vector<prometheus::MetricFamily> CollectProcess() {
  using prometheus::MetricType;
  std::vector<prometheus::MetricFamily> result;
  // proc(5) counts fields from 1, and the list begins with the third.
  constexpr size_t kUserTime = 14 - 3, kSystemTime = 15 - 3, kStartTime = 22 - 3, kVirtual = 23 - 3,
                   kResidentPages = 24 - 3;
  const std::vector<std::string> stat = StatFields();
  if (stat.size() > kResidentPages) {
    const auto field = [&](size_t index) { return std::stod(stat[index]); };
    const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
    const double page = static_cast<double>(sysconf(_SC_PAGESIZE));
    result.push_back(Single("process_cpu_seconds_total", "CPU time spent by the process",
                            MetricType::Counter, (field(kUserTime) + field(kSystemTime)) / ticks));
    result.push_back(Single("process_start_time_seconds", "Start of the process, in Unix time",
                            MetricType::Gauge, BootTime() + field(kStartTime) / ticks));
    result.push_back(Single("process_virtual_memory_bytes", "Size of the address space",
                            MetricType::Gauge, field(kVirtual)));
    result.push_back(Single("process_resident_memory_bytes", "Memory held in RAM",
                            MetricType::Gauge, field(kResidentPages) * page));
  }
  std::error_code error;
  const std::filesystem::directory_iterator descriptors("/proc/self/fd", error);
  if (!error) {
    result.push_back(
        Single("process_open_fds", "Open file descriptors", MetricType::Gauge,
               static_cast<double>(std::distance(begin(descriptors), end(descriptors)))));
  }
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    result.push_back(Single("process_max_fds", "Greatest number of open file descriptors allowed",
                            MetricType::Gauge, static_cast<double>(limit.rlim_cur)));
  }
  return result;
}

}  // namespace sluice::metrics
