#include "reconcile/workload_parts.h"

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

api::Workload TwoPodSets() {
  api::Workload workload = build::Workload("w").Request("cpu", "1").Get();
  workload.spec.pod_sets.front().name = "a";
  workload.spec.pod_sets.front().count = 2;
  workload.spec.pod_sets.push_back(workload.spec.pod_sets.front());
  workload.spec.pod_sets.back().name = "b";
  return workload;
}

TEST_CASE("what a Workload says of its ended pods is not said again") {
  api::Workload workload = TwoPodSets();
  CHECK_FALSE(ReclaimableStatus(workload, {}).has_value());
  const auto status = ReclaimableStatus(workload, {{"a", 1}, {"b", 2}});
  REQUIRE(status.has_value());
  CHECK(status->Text() == R"({"reclaimablePods":[{"name":"a","count":1},{"name":"b","count":2}]})");
  workload.status.reclaimable_pods = {{"a", 1}, {"b", 2}};
  CHECK_FALSE(ReclaimableStatus(workload, {{"a", 1}, {"b", 2}}).has_value());
  CHECK(ReclaimableStatus(workload, {{"a", 2}, {"b", 2}}).has_value());
  CHECK(ReclaimableStatus(workload, {{"a", 1}}).has_value());
}

// The API server keeps a list map in the order in which its entries came. With an order of our own
// the same status was applied again without end.
TEST_CASE("the order of the pod sets means nothing") {
  api::Workload workload = TwoPodSets();
  workload.status.reclaimable_pods = {{"b", 1}, {"a", 1}};
  CHECK_FALSE(ReclaimableStatus(workload, {{"a", 1}, {"b", 1}}).has_value());
}

TEST_CASE("what was given back stays given back while the quota is held") {
  api::Workload workload = build::Workload("w").Request("cpu", "1").Reserved("cq", "default").Get();
  const std::string name = workload.spec.pod_sets.front().name;
  workload.spec.pod_sets.front().count = 5;
  workload.status.reclaimable_pods = {{name, 3}};
  CHECK_FALSE(ReclaimableStatus(workload, {}).has_value());
  CHECK_FALSE(ReclaimableStatus(workload, {{name, 2}}).has_value());
  CHECK(ReclaimableStatus(workload, {{name, 4}}).has_value());
  workload.spec.pod_sets.front().count = 2;  // an elastic one shrank
  const auto status = ReclaimableStatus(workload, {});
  REQUIRE(status.has_value());
  CHECK(status->Text() == R"({"reclaimablePods":[{"name":")" + name + R"(","count":2}]})");
  workload.status.conditions.clear();  // evicted
  CHECK(ReclaimableStatus(workload, {}).has_value());
}

TEST_CASE("no pod set has more ended pods than pods") {
  const auto status = ReclaimableStatus(TwoPodSets(), {{"a", 7}});
  REQUIRE(status.has_value());
  CHECK(status->Text() == R"({"reclaimablePods":[{"name":"a","count":2}]})");
}

}  // namespace
}  // namespace sluice::reconcile
