#include "jobs/workload_name.h"

#include "unit/catch.h"

namespace sluice::jobs {
namespace {

TEST_CASE("Workload names are those that other programs compute") {
  struct Row {
    const char* name;
    WorkloadOwner owner;
    size_t max_length;
    std::string want;
  };
  const std::string uid = "0f9b3c1e-6f0a-4c0e-9f3e-1d2c3b4a5968";
  const std::string fives = "11111111-2222-3333-4444-555555555555";
  const Row row = GENERATE_COPY(values<Row>({
      {"short", {"Job", "batch", "name", "uid", ""}, 253, "job-name-ef3a1"},
      {"with extra", {"Job", "batch", "name", "uid", "1"}, 253, "job-name-2514c"},
      {"a real UID", {"Job", "batch", "train-a", uid, ""}, 253, "job-train-a-9e32b"},
      {"elastic", {"Job", "batch", "train-a", uid, "3"}, 253, "job-train-a-a0907"},
      {"core group",
       {"Pod", "", "web-0", "5a1d2c3b-0000-4000-8000-000000000001", ""},
       253,
       "pod-web-0-0977c"},
      {"RayCluster", {"RayCluster", "ray.io", "rc", fives, "2_5"}, 253, "raycluster-rc-ef542"},
      {"LeaderWorkerSet",
       {"LeaderWorkerSet", "leaderworkerset.x-k8s.io", "lws-3", fives, ""},
       253,
       "leaderworkerset-lws-3-eb046"},
      {"cut to 63",
       {"JobSet", "jobset.x-k8s.io", std::string(70, 'b'), "u-1", ""},
       63,
       "jobset-" + std::string(50, 'b') + "-ee99e"},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(WorkloadName(row.owner, row.max_length) == row.want);
    CHECK(WorkloadName(row.owner, row.max_length).size() <= row.max_length);
  }
}

TEST_CASE("names of variants") {
  CHECK(VariantName("job-train-a-9e32b", "wl-uid-1", "spot") == "job-train-a-variant-spot-ddd04");
  // Only what looks like the hash of a name is left out.
  CHECK(VariantName("by-hand", "u", "spot").starts_with("by-hand-variant-spot-"));
  CHECK(VariantName(std::string(80, 'a') + "-12345", "u", "spot", 63).size() == 63);
}

}  // namespace
}  // namespace sluice::jobs
