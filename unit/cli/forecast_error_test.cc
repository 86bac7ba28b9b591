#include "cli/forecast_error.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <random>
#include <string>

#include "unit/catch.h"

// Two teams share 64 GPUs for two days. 600 jobs arrive at random (exponential gaps), ask for 1 to
// 32 GPUs (powers of two, small ones more often) and run for a lognormal time (median 20 minutes,
// sigma 1.2); one in ten has a higher priority. Same seed, same trace.

namespace sluice::cli {
namespace {

constexpr char kManifests[] = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpu}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: org
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: speech}
spec:
  cohortName: org
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: 32}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: vision, namespace: default}
spec: {clusterQueue: vision}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: speech, namespace: default}
spec: {clusterQueue: speech}
)";

// Numbers from the engine's own bits: the distributions of the standard library differ by vendor.
class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  double Uniform() { return (static_cast<double>(engine_()) + 0.5) / 4294967296.0; }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }
  double Normal() {
    return std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * 3.14159265358979 * Uniform());
  }

 private:
  std::mt19937 engine_;
};

std::string Trace(uint32_t seed) {
  Random random(seed);
  std::string csv = "submit,run,queue,name,priority,nvidia.com/gpu\n";
  double now = 0;
  for (int i = 0; i < 600; ++i) {
    now += random.Exponential(280);
    const double size = random.Uniform();
    const int gpus = size < 0.4 ? 1 : size < 0.65 ? 4 : size < 0.85 ? 8 : size < 0.95 ? 16 : 32;
    const double run = 1200 * std::exp(1.2 * random.Normal());
    csv += fmt::format("{:.0f},{:.0f},default/{},j{},{},{}\n", now, run + 1,
                       random.Uniform() < 0.6 ? "vision" : "speech", i,
                       random.Uniform() < 0.1 ? 10 : 0, gpus);
  }
  return csv;
}

ForecastError Measure(uint32_t seed, bool mean_runtime) {
  ReplayInput input;
  input.manifests.push_back({"cluster.yaml", kManifests});
  input.traces.push_back({"trace.csv", Trace(seed)});
  input.samples = 200;
  input.mean_runtime = mean_runtime;
  const absl::StatusOr<ForecastError> error = MeasureForecast(input);
  REQUIRE(error.ok());
  return *error;
}

TEST_CASE("predicted against real starts, on seeded traces") {
  std::string tables;
  for (const uint32_t seed : {1U, 2U, 3U}) {
    const ForecastError known = Measure(seed, false);
    const ForecastError mean = Measure(seed, true);
    tables += fmt::format("seed {}\n{}{}", seed, ErrorText(known), ErrorText(mean));
    CHECK(known.samples == 200);
    // The trace is loaded enough for forecasts to mean something.
    CHECK(known.real_mean > 60e6);
    CHECK(known.at_once < 180);
    // With known run times only later arrivals of higher priority, and smaller ones that slip past
    // a head that waits, make a difference; without them the run times do.
    CHECK(known.within_tenth >= 140);
    CHECK(known.mean <= mean.mean);
    CHECK(mean.samples + mean.never == 200);
  }
  std::printf("%s", tables.c_str());
}

// The second one runs on the large flavor, as the small one was taken when it came. Submitted anew
// it would be on the small one, and the third one would start at once.
TEST_CASE("what runs when a forecast is made stays where it is") {
  std::string manifests = kManifests;
  const std::string flavors =
      "flavors: [{name: gpu, resources: [{name: nvidia.com/gpu, nominalQuota: ";
  for (size_t at = 0; (at = manifests.find(flavors + "32}]}]", at)) != std::string::npos; ++at) {
    manifests.replace(
        at, flavors.size() + 6,
        flavors + "4}]}, {name: large, resources: [{name: nvidia.com/gpu, nominalQuota: 8}]}]");
  }
  manifests +=
      "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ResourceFlavor\nmetadata: {name: large}\n";
  for (size_t at = 0; (at = manifests.find("  cohortName: org\n", at)) != std::string::npos;)
    manifests.erase(at, 18);
  ReplayInput input;
  input.manifests.push_back({"cluster.yaml", manifests});
  input.traces.push_back({"trace.csv",
                          "submit,run,queue,name,priority,nvidia.com/gpu\n"
                          "0,1000,default/vision,first,0,4\n"
                          "1,10000,default/vision,second,0,4\n"
                          "1600,100,default/vision,third,0,8\n"});
  const absl::StatusOr<ForecastError> error = MeasureForecast(input);
  INFO(error.status().message());
  REQUIRE(error.ok());
  CHECK(error->samples == 3);
  CHECK(error->at_once == 2);
  CHECK(error->real_mean == Approx(8401e6 / 3));
  CHECK(error->mean < 1e6);
}

}  // namespace
}  // namespace sluice::cli
