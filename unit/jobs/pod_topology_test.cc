// Topology: from annotations to the Workload, and what starts with its places.
#include "api/codec.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "jobs/construct.h"
#include "jobs/job_kind.h"
#include "jobs/pod.h"
#include "queueing/topology_inputs.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::jobs {
namespace {

constexpr char kRequired[] = "kueue.x-k8s.io/podset-required-topology";
constexpr char kPreferred[] = "kueue.x-k8s.io/podset-preferred-topology";
constexpr char kUnconstrained[] = "kueue.x-k8s.io/podset-unconstrained-topology";
constexpr char kLevel[] = "kueue.x-k8s.io/podset-slice-required-topology";
constexpr char kSize[] = "kueue.x-k8s.io/podset-slice-size";
constexpr char kLayers[] = "kueue.x-k8s.io/podset-slice-required-topology-constraints";
constexpr char kGroup[] = "kueue.x-k8s.io/podset-group-name";
const TopologyOptions kAll{.aware = true, .multi_layer = true};

api::Job JobWith(const api::StringMap& annotations) {
  api::Job job = build::Job("a").Parallelism(4).Completions(4);
  job.spec.pod_template.annotations = annotations;
  return job;
}

std::string RequestText(const api::Job& job, const TopologyOptions& options) {
  const auto pod_sets = BatchJob::PodSets(job, options);
  if (!pod_sets.ok()) return std::string(pod_sets.status().message());
  const auto& request = pod_sets->front().topology_request;
  return request.has_value() ? api::Encode(*request).Text() : "none";
}

TEST_CASE("The annotations of a Job's template become the topology request of its pod set") {
  struct Row {
    const char* name;
    api::StringMap annotations;
    const char* request;
  };
  const std::string index = R"("podIndexLabel":"batch.kubernetes.io/job-completion-index")";
  const Row rows[] = {
      {"nothing asked: only the label of the index", {}, ""},
      {"required", {{kRequired, "rack"}}, R"("required":"rack")"},
      {"preferred with a group",
       {{kPreferred, "rack"}, {kGroup, "g"}},
       R"("podSetGroupName":"g","preferred":"rack")"},
      {"unconstrained", {{kUnconstrained, "true"}}, R"("unconstrained":true)"},
      {"slices alone",
       {{kLevel, "host"}, {kSize, "2"}},
       R"("podSetSliceRequiredTopology":"host","podSetSliceSize":2)"},
      {"a slice without size is none", {{kLevel, "host"}}, ""},
      {"layers",
       {{kRequired, "block"}, {kLayers, R"([{"topology":"rack","size":4}])"}},
       R"("podsetSliceRequiredTopologyConstraints":[{"size":4,"topology":"rack"}],"required":"block")"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    const std::string text = RequestText(JobWith(row.annotations), kAll);
    const absl::StatusOr<api::Json> got = api::ParseJson(text);
    const std::string more = *row.request == '\0' ? "" : std::string(",") + row.request;
    const absl::StatusOr<api::Json> want = api::ParseJson("{" + index + more + "}");
    REQUIRE(got.ok());
    REQUIRE(want.ok());
    INFO(text);
    CHECK(*got == *want);
  }
  CHECK(RequestText(JobWith({{kRequired, "rack"}}), {}) == "none");
}

TEST_CASE("Annotations that cannot be read make no Workload, and say which it is") {
  CHECK(RequestText(JobWith({{kUnconstrained, "perhaps"}}), kAll) ==
        "annotation kueue.x-k8s.io/podset-unconstrained-topology: \"perhaps\" is not a boolean");
  CHECK(RequestText(JobWith({{kLevel, "host"}, {kSize, "two"}}), kAll) ==
        "annotation kueue.x-k8s.io/podset-slice-size: \"two\" is not a number");
  state::ManagedPod pod;
  pod.metadata.name = "p";
  pod.metadata.annotations[kUnconstrained] = "perhaps";
  CHECK(std::string(PodSetOf(pod, "main", 1, kAll).status().message()).starts_with("pod p: "));
}

TEST_CASE("A pod asks by its own annotations") {
  state::ManagedPod pod;
  pod.metadata.annotations[kRequired] = "rack";
  const auto pod_set = PodSetOf(pod, "main", 1, kAll);
  REQUIRE(pod_set.ok());
  CHECK(pod_set->topology_request->required == "rack");
  CHECK(pod_set->topology_request->pod_index_label == api::kPodGroupPodIndex);
}

TEST_CASE("Pods carry to their pod set how they want to be placed, as a Job's template does") {
  state::ManagedPod pod;
  pod.metadata.name = "p";
  pod.metadata.annotations = {{kUnconstrained, "true"}, {"example.com/other", "stays"}};
  CHECK(PodSetOf(pod, "main", 1, kAll)->pod_template.annotations.empty());
  pod.metadata.annotations[queueing::kPlacement] = "Spread";
  const auto pod_set = PodSetOf(pod, "main", 1, kAll);
  REQUIRE(pod_set.ok());
  CHECK(queueing::TopologyRequestOf(*pod_set, false).spreading == topology::Spreading::kSpread);
  CHECK(api::Encode(*pod_set).Find("template", "metadata")->Text() ==
        R"({"annotations":{"sluice.dev/placement":"Spread"}})");
  pod.metadata.annotations[queueing::kPlacement] = "Scatter";
  CHECK(std::string(PodSetOf(pod, "main", 1, kAll).status().message()) ==
        "pod p: annotation sluice.dev/placement: \"Scatter\" must be Pack or Spread");
  CHECK(RequestText(JobWith({{queueing::kPlacement, "Scatter"}}), kAll) ==
        "annotation sluice.dev/placement: \"Scatter\" must be Pack or Spread");
}

// A Workload admitted on one host, whose pod set asks so.
api::Workload Placed(std::optional<api::PodSetTopologyRequest> request) {
  api::Workload workload =
      build::Workload("w").Queue("q").Count(2).Request("cpu", "1").Admitted("cq", "default");
  workload.spec.pod_sets[0].topology_request = std::move(request);
  api::TopologyAssignment assignment;
  assignment.levels = {"kubernetes.io/hostname"};
  workload.status.admission->pod_set_assignments[0].topology_assignment = std::move(assignment);
  return workload;
}

TEST_CASE("Pods that are placed start behind a gate and say that they are placed") {
  state::World world{state::Settings{}};
  state::Refs touched;
  api::ResourceFlavor flavor = build::Flavor("default");
  world.Apply({state::ObjectEvent::Type::kUpsert, api::Kind::kResourceFlavor, api::Encode(flavor)},
              build::Epoch(), touched);
  struct Row {
    const char* name;
    std::optional<api::PodSetTopologyRequest> request;
    bool marked;
  };
  api::PodSetTopologyRequest required;
  required.required = "rack";
  api::PodSetTopologyRequest refused;
  refused.unconstrained = false;
  api::PodSetTopologyRequest slices;
  slices.pod_set_slice_required_topology = "host";
  slices.pod_set_slice_size = 1;
  const Row rows[] = {{"nothing asked", std::nullopt, true},
                      {"slices alone", slices, true},
                      {"required", required, false},
                      {"unconstrained, whatever its value", refused, false}};
  for (const Row& row : rows) {
    INFO(row.name);
    const auto infos = InfosOf(world, Placed(row.request));
    REQUIRE(infos.ok());
    CHECK(infos->front().scheduling_gates == std::vector<std::string>{api::kTopologyGate});
    CHECK(infos->front().annotations.contains(kUnconstrained) == row.marked);
    CHECK(infos->front().annotations.at("kueue.x-k8s.io/workload") == "w");
  }
  api::Workload elsewhere = Placed(required);
  elsewhere.status.admission->pod_set_assignments[0].topology_assignment.reset();
  CHECK(InfosOf(world, elsewhere)->front().scheduling_gates.empty());
}

TEST_CASE("The gate and the annotation go with the stop of the Job") {
  api::Job job = build::Job("a").Queue("q");
  PodSetInfo info;
  info.name = "main";
  info.count = 1;
  info.scheduling_gates = {api::kTopologyGate};
  info.annotations = {{kUnconstrained, "true"}};
  const auto start = BatchJob::Start(job, {info});
  REQUIRE(start.ok());
  CHECK(start->body.Text() ==
        R"({"spec":{"suspend":false,"template":{"metadata":{"annotations":)"
        R"({"kueue.x-k8s.io/podset-unconstrained-topology":"true"}},)"
        R"("spec":{"schedulingGates":[{"name":"kueue.x-k8s.io/topology"}]}}}})");
  api::Job started = job;
  api::Json json = api::Encode(started);
  json["spec"].Set("suspend", true);
  json["spec"]["template"]["metadata"]["annotations"].Set(kUnconstrained, "true");
  json["spec"]["template"]["spec"].Set(
      "schedulingGates",
      api::Json::MakeArray({api::Json::MakeObject({{"name", api::kTopologyGate}})}));
  const absl::StatusOr<api::Job> decoded = api::Decode<api::Job>(json);
  REQUIRE(decoded.ok());
  api::Workload workload = build::Workload("w").Queue("q");
  const auto pod_sets = BatchJob::PodSets(job, {});
  REQUIRE(pod_sets.ok());
  workload.spec.pod_sets = *pod_sets;
  const auto stop = BatchJob::NextStop(*decoded, &workload);
  REQUIRE(stop.has_value());
  const api::Json* gates = stop->body.Find("spec", "template", "spec", "schedulingGates");
  REQUIRE(gates != nullptr);
  CHECK(gates->IsNull());
  const api::Json* annotations = stop->body.Find("spec", "template", "metadata", "annotations");
  REQUIRE(annotations != nullptr);
  CHECK(annotations->Find(kUnconstrained)->IsNull());
}

}  // namespace
}  // namespace sluice::jobs
