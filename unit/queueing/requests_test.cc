#include "queueing/requests.h"

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::MakeContainer;
using build::Q;

api::Container Sidecar(build::Pairs requests) {
  api::Container container = MakeContainer(requests);
  container.restart_policy = "Always";
  return container;
}

// One pod with sidecars and init containers in an order that matters.
api::PodSpec MixedPod() {
  api::PodSpec spec;
  spec.containers = {MakeContainer({{"cpu", "1"}}), MakeContainer({{"cpu", "500m"}})};
  spec.init_containers = {MakeContainer({{"cpu", "2"}}), Sidecar({{"cpu", "300m"}}),
                          MakeContainer({{"cpu", "1800m"}})};
  return spec;
}

Requests Total(const api::Workload& workload, const RequestContext& context = {}) {
  return TotalRequests(workload, context).at(0).total;
}

TEST_CASE("init containers and sidecars") {
  api::PodSpec spec = MixedPod();
  CHECK(PodRequests(spec).at("cpu") == Q("2100m"));
  spec.overhead["cpu"] = Q("100m");
  CHECK(PodRequests(spec).at("cpu") == Q("2200m"));
  CHECK(Total(build::Workload("w").Spec(spec).Count(3)) == Requests{{"cpu", 6600}});
}

TEST_CASE("pod-level requests replace cpu, memory and huge pages only") {
  api::PodSpec spec = MixedPod();
  spec.overhead["cpu"] = Q("100m");
  spec.resources.emplace();
  spec.resources->requests = build::Resources({{"cpu", "1500m"}, {"nvidia.com/gpu", "1"}});
  const ResourceList requests = PodRequests(spec);
  CHECK(requests.at("cpu") == Q("1600m"));
  CHECK_FALSE(requests.contains("nvidia.com/gpu"));
}

TEST_CASE("amounts are rounded up per pod, then multiplied") {
  CHECK(Total(build::Workload("w").Request("cpu", "1200u").Count(1000)) == Requests{{"cpu", 2000}});
  CHECK(Total(build::Workload("w").Request("memory", "1500m").Count(4)) == Requests{{"memory", 8}});
  const Requests huge = Total(build::Workload("w").Request("memory", "8Ei").Count(1000));
  CHECK(huge.at("memory") == 9'223'372'036'854'775'000);  // still a multiple of the pods
  CHECK(Total(build::Workload("w").Request("cpu", "-1").Count(3)) == Requests{{"cpu", 0}});
}

TEST_CASE("defaults of a LimitRange come before limits as requests") {
  const auto range = build::LimitRange("l").Container({{"cpu", "1"}}, {{"cpu", "4"}}).Shared();
  const RequestContext context{.limit_ranges = {range.get()}};
  CHECK(Total(build::Workload("w").Limit("cpu", "2"), context) == Requests{{"cpu", 1000}});
  const auto limits_only = build::LimitRange("l").Container({}, {{"cpu", "4"}}).Shared();
  const RequestContext other{.limit_ranges = {limits_only.get()}};
  CHECK(Total(build::Workload("w").Limit("cpu", "2"), other) == Requests{{"cpu", 2000}});
  CHECK(Total(build::Workload("w"), other) == Requests{{"cpu", 4000}});
}

TEST_CASE("overhead comes from the RuntimeClass unless the pod has its own") {
  const auto kata = build::RuntimeClass("kata", {{"cpu", "250m"}}).Shared();
  RequestContext context;
  context.runtime_class = [&](const std::string& name) -> const api::RuntimeClass* {
    return name == "kata" ? kata.get() : nullptr;
  };
  api::PodSpec spec;
  spec.containers = {MakeContainer({{"cpu", "1"}})};
  spec.runtime_class_name = "kata";
  CHECK(Total(build::Workload("w").Spec(spec), context) == Requests{{"cpu", 1250}});
  spec.overhead["cpu"] = Q("100m");
  CHECK(Total(build::Workload("w").Spec(spec), context) == Requests{{"cpu", 1100}});
  spec.overhead.clear();
  spec.runtime_class_name = "missing";
  CHECK(Total(build::Workload("w").Spec(spec), context) == Requests{{"cpu", 1000}});
}

TEST_CASE("transformations") {
  RequestOptions options;
  const RequestContext context{.options = &options};
  SECTION("replace, outputs of the same name are added") {
    options.transformations = {
        {"mig-1g", true, "", build::Resources({{"slices", "1"}, {"gpumem", "5Gi"}})},
        {"mig-2g", true, "", build::Resources({{"slices", "2"}, {"gpumem", "10Gi"}})}};
    const auto workload =
        build::Workload("w").Request("mig-1g", "2").Request("mig-2g", "1").Request("cpu", "1");
    CHECK(Total(workload, context) ==
          Requests{{"cpu", 1000}, {"gpumem", 20LL << 30}, {"slices", 4}});
  }
  SECTION("multiplied by another resource where the pod requests it") {
    options.transformations = {{"gpumem", false, "gpu", build::Resources({{"totalmem", "1"}})}};
    CHECK(Total(build::Workload("w").Request("gpu", "4").Request("gpumem", "10"), context) ==
          Requests{{"gpu", 4}, {"gpumem", 10}, {"totalmem", 40}});
    CHECK(Total(build::Workload("w").Request("gpumem", "10"), context) ==
          Requests{{"gpumem", 10}, {"totalmem", 10}});
  }
  SECTION("a negative factor can cancel outputs, never direct requests") {
    options.transformations = {{"a", true, "", build::Resources({{"x", "-3"}})},
                               {"b", true, "", build::Resources({{"x", "1"}})}};
    const auto pod = [](const char* b) {
      return build::Workload("w").Request("a", "1").Request("b", b).Request("x", "5");
    };
    CHECK(Total(pod("2"), context) == Requests{{"x", 5}});
    CHECK(Total(pod("4"), context) == Requests{{"x", 6}});
  }
  SECTION("huge products saturate") {
    options.transformations = {{"a", true, "b", build::Resources({{"x", "1"}})}};
    CHECK(Total(build::Workload("w").Request("a", "8E").Request("b", "8E"), context).at("x") ==
          std::numeric_limits<int64_t>::max());
  }
  SECTION("excluded prefixes are dropped first") {
    options.exclude_prefixes = {"networking.example.com/"};
    CHECK(Total(build::Workload("w").Request("cpu", "1").Request("networking.example.com/vpc", "1"),
                context) == Requests{{"cpu", 1000}});
  }
}

TEST_CASE("resources are validated with their paths") {
  CHECK(ValidateResources(build::Workload("w").Request("cpu", "1").Limit("cpu", "1"), {}).empty());
  // Devices that are claimed count nowhere, so nothing may be admitted that takes some.
  api::PodSpec claiming;
  claiming.resource_claims.push_back({"gpu", "", "one-gpu"});
  const auto claims = ValidateResources(build::Workload("w").Spec(claiming), {});
  REQUIRE(claims.size() == 1);
  CHECK(claims[0].find("spec.podSets[0].template.spec.resourceClaims: Forbidden") == 0);
  RequestOptions counts_nothing;
  counts_nothing.refuse_claims = false;
  RequestContext allowed;
  allowed.options = &counts_nothing;
  CHECK(ValidateResources(build::Workload("w").Spec(claiming), allowed).empty());
  const auto above =
      ValidateResources(build::Workload("w").Request("cpu", "2").Limit("cpu", "1"), {});
  REQUIRE(above.size() == 1);
  CHECK(above[0] ==
        "resources validation failed: spec.podSets[0].template.spec.containers[0].resources."
        "requests[cpu]: Invalid value: \"2\": requests must not exceed its limits");

  const auto range =
      build::LimitRange("l").Container({}, {}, {{"cpu", "500m"}}, {{"cpu", "2"}}).Shared();
  const RequestContext context{.limit_ranges = {range.get()}};
  CHECK(ValidateResources(build::Workload("w").Request("cpu", "1"), context).empty());
  CHECK(ValidateResources(build::Workload("w").Request("memory", "1Gi"), context).empty());
  const auto below = ValidateResources(build::Workload("w").Request("cpu", "100m"), context);
  REQUIRE(below.size() == 1);
  CHECK(below[0].find("resources didn't satisfy LimitRange constraints: ") == 0);
  CHECK(below[0].find("requests must not be below the limitRange min") != std::string::npos);
  const auto limit_above =
      ValidateResources(build::Workload("w").Request("cpu", "1").Limit("cpu", "3"), context);
  REQUIRE(limit_above.size() == 1);
  CHECK(limit_above[0].find("requests must not be above the limitRange max") != std::string::npos);

  const auto pods = build::LimitRange("p").Pod({}, {{"cpu", "2"}}).Shared();
  const RequestContext pod_context{.limit_ranges = {pods.get()}};
  api::PodSpec spec;
  spec.containers = {MakeContainer({{"cpu", "1500m"}}), MakeContainer({{"cpu", "1"}})};
  CHECK(ValidateResources(build::Workload("w").Spec(spec), pod_context).size() == 1);
}

TEST_CASE("several LimitRanges count with their strictest bounds") {
  const auto a = build::LimitRange("a").Container({{"cpu", "1"}}, {}, {}, {{"cpu", "4"}}).Shared();
  const auto b = build::LimitRange("b").Container({{"cpu", "2"}}, {}, {}, {{"cpu", "3"}}).Shared();
  const RequestContext context{.limit_ranges = {a.get(), b.get()}};
  CHECK(Total(build::Workload("w"), context) == Requests{{"cpu", 1000}});
  CHECK(ValidateResources(build::Workload("w").Request("cpu", "3500m"), context).size() == 1);
}

TEST_CASE("usage of an admission shrinks with reclaimable pods") {
  const FlavorResource cell{"f", "cpu"};
  const auto usage = [&](int32_t spec_count, int32_t admitted, const char* cpu, int32_t reclaimed) {
    api::Workload workload = build::Workload("w").Count(spec_count).Reclaimable("main", reclaimed);
    workload.status.admission.emplace();
    api::PodSetAssignment assignment;
    assignment.count = admitted;
    assignment.flavors["cpu"] = "f";
    assignment.resource_usage["cpu"] = Q(cpu);
    workload.status.admission->pod_set_assignments = {assignment};
    return AdmittedUsage(workload).at(cell);
  };
  CHECK(usage(4, 4, "8", 1) == 6000);
  CHECK(usage(4, 4, "8", 0) == 8000);
  CHECK(usage(4, 4, "8", 9) == 0);  // more than there are
  CHECK(usage(10, 6, "6", 3) == 6000);
  CHECK(usage(10, 6, "6", 5) == 5000);
  CHECK(usage(3, 3, "100m", 1) == 66);  // divides first
}

TEST_CASE("who holds quota") {
  CHECK_FALSE(HoldsQuota(build::Workload("w")));
  const auto admitted = build::Workload("w").Request("cpu", "1").Admitted("cq", "f");
  CHECK(HoldsQuota(admitted));
  CHECK(HoldsQuota(build::Workload(admitted).Evicted("Preempted", build::At(5))));
  CHECK_FALSE(HoldsQuota(build::Workload(admitted).Active(false)));
  CHECK_FALSE(HoldsQuota(build::Workload(admitted).Finished()));
}

TEST_CASE("reclaimable pods lower what a pending workload asks for") {
  const auto workload = build::Workload("w").Count(4).Request("cpu", "1").Reclaimable("main", 1);
  CHECK(Total(workload) == Requests{{"cpu", 3000}});
  const auto more = build::Workload("w").Count(4).Request("cpu", "1").Reclaimable("main", 9);
  CHECK(Total(more) == Requests{{"cpu", 0}});
  RequestOptions options;
  options.reclaimable_pods = false;
  CHECK(Total(workload, {.options = &options}) == Requests{{"cpu", 4000}});
  const auto status = StatusRequests(TotalRequests(workload, {}));
  REQUIRE(status.size() == 1);
  CHECK(status[0].resources.at("cpu").ToString() == "3");
}

}  // namespace
}  // namespace sluice::queueing
