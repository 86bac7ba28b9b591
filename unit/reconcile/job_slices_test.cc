// Which Workload of an elastic Job follows it, which one runs, and which must end.
#include "reconcile/job_slices.h"

#include "admission/conditions.h"
#include "api/names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::reconcile {
namespace {

using Names = std::vector<std::string>;

build::Workload Slice(const std::string& name, double created, const std::string& replaces = "") {
  build::Workload slice(name);
  slice.Uid("uid-" + name).Request("cpu", "1").Created(build::At(created));
  if (!replaces.empty()) slice.Annotation(api::kWorkloadSliceReplacementFor, "ns/" + replaces);
  return slice;
}

std::string NameOf(const WorkloadPtr& slice) {
  return slice == nullptr ? "none" : slice->metadata.name;
}

Names Surplus(const SliceChoice& choice) {
  Names names;
  for (const auto& [slice, reason] : choice.surplus) {
    names.push_back(slice->metadata.name + " " + reason);
  }
  return names;
}

TEST_CASE("one slice is followed, whether it runs or waits") {
  const SliceChoice waits = SortSlices({Slice("w1", 1).Shared()});
  CHECK(NameOf(waits.selected) == "w1");
  CHECK(NameOf(waits.running) == "none");
  const SliceChoice runs = SortSlices({Slice("w1", 1).Reserved("cq", "f").Shared()});
  CHECK(NameOf(runs.selected) == "w1");
  CHECK(NameOf(runs.running) == "w1");
  const SliceChoice goes =
      SortSlices({Slice("w1", 1).Reserved("cq", "f").Evicted("Preempted", build::At(5)).Shared()});
  CHECK(NameOf(goes.selected) == "w1");
  CHECK(NameOf(goes.running) == "none");
}

TEST_CASE("two replacements of one slice") {
  const auto w1 = Slice("w1", 1).Reserved("cq", "f").Shared();
  const auto w2 = Slice("w2", 2, "w1").Shared();
  SECTION("both wait: the first one is kept") {
    const SliceChoice choice = SortSlices({w1, w2, Slice("w3", 3, "w1").Shared()});
    CHECK(NameOf(choice.selected) == "w2");
    CHECK(NameOf(choice.running) == "w1");
    CHECK(Surplus(choice) == Names{"w3 OutOfSync"});
  }
  SECTION("one that holds quota wins") {
    const SliceChoice choice =
        SortSlices({w1, w2, Slice("w3", 3, "w1").Reserved("cq", "f").Shared()});
    CHECK(NameOf(choice.selected) == "w3");
    CHECK(NameOf(choice.running) == "w3");
    CHECK(Surplus(choice) == Names{"w1 WorkloadSliceReplaced", "w2 OutOfSync"});
  }
}

TEST_CASE("what was evicted counts no more, though it holds quota") {
  const auto w1 = Slice("w1", 1).Reserved("cq", "f").Evicted("Preempted", build::At(5)).Shared();
  SECTION("with one that waits for it") {
    const SliceChoice choice = SortSlices({w1, Slice("w2", 2, "w1").Shared()});
    CHECK(NameOf(choice.selected) == "w2");
    CHECK(NameOf(choice.running) == "none");
    CHECK(Surplus(choice) == Names{"w1 WorkloadSliceReplaced"});
  }
  SECTION("all of them") {
    const auto w2 =
        Slice("w2", 2, "w1").Reserved("cq", "f").Evicted("Preempted", build::At(5)).Shared();
    const SliceChoice choice = SortSlices({w1, w2});
    CHECK(NameOf(choice.selected) == "none");
    CHECK(Surplus(choice) == Names{"w1 OutOfSync", "w2 OutOfSync"});
  }
}

TEST_CASE("a replacement is in the same namespace") {
  const auto w1 = Slice("w1", 1).Reserved("cq", "f").Shared();
  const auto other =
      Slice("w2", 2).Annotation(api::kWorkloadSliceReplacementFor, "elsewhere/w1").Shared();
  const SliceChoice choice = SortSlices({w1, other});
  CHECK(NameOf(choice.selected) == "w1");
  CHECK(Surplus(choice) == Names{"w2 OutOfSync"});
}

TEST_CASE("slices made in the same second are ordered by UID") {
  const auto a = Slice("a", 1).Uid("2").Shared();
  const auto b = Slice("b", 1).Uid("1").Shared();
  CHECK(SliceCreatedBefore(b, a));
  CHECK_FALSE(SliceCreatedBefore(a, b));
  CHECK(SliceCreatedBefore(a, Slice("c", 2).Uid("0").Shared()));
}

TEST_CASE("how the size of a slice compares to that of its Job") {
  const auto sized = [](int32_t a, int32_t b) {
    return api::Workload(build::Workload("w").PodSet("a", a).PodSet("b", b));
  };
  const api::Workload slice = sized(2, 4);
  const auto compare = [&](const api::Workload& job) {
    return CompareSize(slice, job.spec.pod_sets);
  };
  CHECK(compare(sized(2, 4)) == SliceSize::kSame);
  CHECK(compare(sized(2, 3)) == SliceSize::kShrink);
  CHECK(compare(sized(1, 1)) == SliceSize::kShrink);
  CHECK(compare(sized(2, 5)) == SliceSize::kGrow);
  CHECK(compare(sized(3, 3)) == SliceSize::kGrow);
  CHECK(compare(build::Workload("w").PodSet("a", 2)) == SliceSize::kOther);
  CHECK(compare(build::Workload("w").PodSet("a", 2).PodSet("c", 4)) == SliceSize::kOther);
}

TEST_CASE("a new slice has the template of the one that runs") {
  const auto running = Slice("w1", 1).Count(3).NodeSelector("own", "x").Shared();
  const api::Workload job = build::Workload("job").Count(5).NodeSelector("injected", "y");
  const std::vector<api::PodSet> pod_sets = SlicePodSets(running, job.spec.pod_sets);
  REQUIRE(pod_sets.size() == 1);
  CHECK(pod_sets[0].count == 5);
  CHECK(pod_sets[0].pod_template.spec->node_selector == api::StringMap{{"own", "x"}});
  CHECK(SlicePodSets(nullptr, job.spec.pod_sets)[0].pod_template.spec->node_selector ==
        api::StringMap{{"injected", "y"}});
}

}  // namespace
}  // namespace sluice::reconcile
