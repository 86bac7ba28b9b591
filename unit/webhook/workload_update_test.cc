#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
  "metadata": {"name": "w", "namespace": "team", "finalizers": ["kueue.x-k8s.io/resource-in-use"]},
  "spec": {"podSets": [
    {"name": "ps1", "count": 4, "template": {"spec": {"containers": [
      {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}},
    {"name": "ps2", "count": 4, "template": {"spec": {"containers": []}}}]}})";

std::string Condition(bool value) {
  return std::string("'conditions': [{'type': 'QuotaReserved', 'status': '") +
         (value ? "True" : "False") +
         "', 'reason': 'R', 'message': '', 'lastTransitionTime': '2026-08-22T09:59:00Z'}]";
}

const char kAdmission[] =
    "'admission': {'clusterQueue': 'cq', 'podSetAssignments': [{'name': 'ps1', 'count': 4, "
    "'flavors': {'cpu': 'f'}, 'resourceUsage': {'cpu': '4'}}, {'name': 'ps2', 'count': 4}]}";

// The base holding quota, with more status.
api::Json Holding(const std::string& status = "") {
  return With(J(kBase), "{'status': {" + Condition(true) + ", " + kAdmission +
                            (status.empty() ? "" : ", " + status) + "}}");
}

api::Json Pending(const std::string& status = "") {
  return With(J(kBase),
              "{'status': {" + Condition(false) + (status.empty() ? "" : ", " + status) + "}}");
}

// The first pod set replaced by one with these members.
std::string FirstPodSet(const std::string& members) {
  return "{'spec': {'podSets': [{" + members +
         "}, {'name': 'ps2', 'count': 4, 'template': {'spec': {'containers': []}}}]}}";
}

const std::string kTemplate =
    "'template': {'spec': {'containers': [{'name': 'c', 'image': 'i', 'resources': {'requests': "
    "{'cpu': '1'}}}]}}";

TEST_CASE("Workload update: pod sets while quota is reserved") {
  struct Row {
    std::string name;
    std::string patch;
    List errors;
  };
  const Row row = GENERATE(values<Row>({
      {"nothing", "{}", {}},
      {"finalizer removed", "{'metadata': {'finalizers': null}}", {}},
      {"priority", "{'spec': {'priority': 7}}", {}},
      {"count up",
       FirstPodSet("'name': 'ps1', 'count': 5, " + kTemplate),
       {"spec.podSets.0: Invalid value"}},
      {"count down", FirstPodSet("'name': 'ps1', 'count': 3, " + kTemplate), {}},
      {"minCount added",
       FirstPodSet("'name': 'ps1', 'count': 4, 'minCount': 1, " + kTemplate),
       {"spec.podSets.0: Invalid value"}},
      {"topology request added",
       FirstPodSet("'name': 'ps1', 'count': 4, 'topologyRequest': {'preferred': 'a'}, " +
                   kTemplate),
       {"spec.podSets.0: Invalid value"}},
      {"other image",
       FirstPodSet("'name': 'ps1', 'count': 4, 'template': {'spec': {'containers': [{'name': 'c', "
                   "'image': 'j', 'resources': {'requests': {'cpu': '1'}}}]}}"),
       {"spec.podSets.0: Invalid value"}},
      {"count down and other request",
       FirstPodSet("'name': 'ps1', 'count': 3, 'template': {'spec': {'containers': [{'name': 'c', "
                   "'image': 'i', 'resources': {'requests': {'cpu': '2'}}}]}}"),
       {"spec.podSets.0: Invalid value"}},
      {"same request in other words",
       FirstPodSet("'name': 'ps1', 'count': 4, 'template': {'metadata': {}, 'spec': "
                   "{'containers': [{'name': 'c', 'image': 'i', 'resources': {'requests': {'cpu': "
                   "'1000m'}}}]}}"),
       {}},
      {"a pod set less",
       "{'spec': {'podSets': [{'name': 'ps1', 'count': 4, " + kTemplate + "}]}}",
       {"spec.podSets: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    const api::Json old_object = Holding();
    List errors = ShortErrors(ValidateWorkload, With(old_object, row.patch), old_object);
    // An assignment without its podSet is an error of its own.
    errors.erase(std::remove(errors.begin(), errors.end(),
                             "status.admission.podSetAssignments[1].name: Not found"),
                 errors.end());
    CHECK(errors == row.errors);
    const api::Json pending = Pending();
    CHECK(ShortErrors(ValidateWorkload, With(pending, row.patch), pending).empty());
  }
}

TEST_CASE("Workload update: a count only shrinks with the elastic gate") {
  const api::Json old_object = Holding();
  const api::Json object = With(old_object, FirstPodSet("'name': 'ps1', 'count': 3, " + kTemplate));
  const TestView off({{"ElasticJobsViaWorkloadSlices", false}});
  CHECK(Short(Errors(ValidateWorkload, object, old_object, off.view)) ==
        List{"spec.podSets.0: Invalid value"});
}

TEST_CASE("Workload update: the rules look at what the old object held") {
  const std::string grown = FirstPodSet("'name': 'ps1', 'count': 5, " + kTemplate);
  const api::Json dropped =
      With(Holding(), "{'status': {" + Condition(false) + ", 'admission': null}}");
  CHECK(ShortErrors(ValidateWorkload, With(dropped, grown), Holding()) ==
        List{"spec.podSets.0: Invalid value"});
  CHECK(ShortErrors(ValidateWorkload, With(Holding(), grown), Pending()).empty());
}

TEST_CASE("Workload update: a broken admission stays editable") {
  const api::Json broken = With(J(kBase), "{'status': {" + Condition(true) + "}}");
  CHECK(ShortErrors(ValidateWorkload, With(broken, "{'metadata': {'finalizers': null}}"), broken)
            .empty());
  CHECK(ShortErrors(ValidateWorkload, broken, Pending()) ==
        List{"status.admission: Required value"});
  CHECK(ShortErrors(ValidateWorkload, broken, Holding()) ==
        List{"status.admission: Required value"});
  CHECK(ShortErrors(ValidateWorkload, Holding(), broken).empty());
}

std::string Reclaimable(const std::string& entries) {
  return "'reclaimablePods': [" + entries + "]";
}

TEST_CASE("Workload update: reclaimable pods only grow") {
  const std::string one = "{'name': 'ps1', 'count': 1}";
  const std::string two = "{'name': 'ps1', 'count': 2}";
  const std::string other = "{'name': 'ps2', 'count': 1}";
  struct Row {
    std::string name;
    api::Json before;
    api::Json after;
    List errors;
  };
  const Row row = GENERATE_COPY(values<Row>({
      {"entry added", Holding(Reclaimable(one)), Holding(Reclaimable(one + "," + other)), {}},
      {"count up", Holding(Reclaimable(one)), Holding(Reclaimable(two)), {}},
      {"order changed",
       Holding(Reclaimable(one + "," + other)),
       Holding(Reclaimable(other + "," + one)),
       {}},
      {"count down",
       Holding(Reclaimable(two)),
       Holding(Reclaimable(one)),
       {"status.reclaimablePods[ps1].count: Invalid value"}},
      {"entry removed",
       Holding(Reclaimable(one + "," + other)),
       Holding(Reclaimable(one)),
       {"status.reclaimablePods[ps2]: Required value"}},
      {"all removed",
       Holding(Reclaimable(one)),
       Holding(),
       {"status.reclaimablePods[ps1]: Required value"}},
      {"down with the reservation gone",
       Holding(Reclaimable(two)),
       Pending(Reclaimable("{'name': 'ps1', 'count': 0}")),
       {}},
      {"down with a new reservation", Pending(Reclaimable(two)), Holding(Reclaimable(one)), {}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateWorkload, row.after, row.before) == row.errors);
  }
}

TEST_CASE("Workload update: reclaimable pods of an elastic workload that shrank") {
  const std::string elastic =
      "{'metadata': {'annotations': {'kueue.x-k8s.io/elastic-job': 'true'}}}";
  const std::string shrunk = FirstPodSet("'name': 'ps1', 'count': 2, " + kTemplate);
  const std::string three = "{'name': 'ps1', 'count': 3}";
  const api::Json before = With(Holding(Reclaimable(three)), elastic);
  SECTION("the stale entry may stay") {
    CHECK(ShortErrors(ValidateWorkload, With(before, shrunk), before).empty());
  }
  SECTION("but not at creation") {
    CHECK(ShortErrors(ValidateWorkload, With(before, shrunk)) ==
          List{"status.reclaimablePods[ps1].count: Invalid value"});
  }
  SECTION("a new entry must fit") {
    const api::Json after =
        With(With(Holding(Reclaimable("{'name': 'ps1', 'count': 4}")), elastic), shrunk);
    CHECK(ShortErrors(ValidateWorkload, after, before) ==
          List{"status.reclaimablePods[ps1].count: Invalid value"});
  }
  SECTION("it may fall and go away") {
    const api::Json lower =
        With(With(Holding(Reclaimable("{'name': 'ps1', 'count': 1}")), elastic), shrunk);
    CHECK(ShortErrors(ValidateWorkload, lower, before).empty());
    CHECK(ShortErrors(ValidateWorkload, With(With(Holding(), elastic), shrunk), before).empty());
  }
  SECTION("not without the annotation") {
    const api::Json plain = Holding(Reclaimable(three));
    CHECK(ShortErrors(ValidateWorkload, With(plain, shrunk), plain) ==
          List{"status.reclaimablePods[ps1].count: Invalid value"});
  }
}

TEST_CASE("Workload update: admission") {
  const auto admission = [](const std::string& first, const std::string& queue = "cq") {
    return With(J(kBase), "{'status': {" + Condition(true) + ", 'admission': {'clusterQueue': '" +
                              queue + "', 'podSetAssignments': [{'name': 'ps1', " + first +
                              "}, {'name': 'ps2', 'count': 4}]}}}");
  };
  const std::string plain = "'count': 4, 'flavors': {'cpu': 'f'}, 'resourceUsage': {'cpu': '4'}";
  const std::string topology =
      ", 'topologyAssignment': {'levels': ['a'], 'slices': [{'domainCount': 1, 'valuesPerLevel': "
      "[{'universal': 'x'}], 'podCounts': {'universal': 4}}]}";
  const List refused = {"status.admission: Invalid value"};
  struct Row {
    std::string name;
    api::Json after;
    List errors;
    List without_topology;  // with the gate TopologyAwareScheduling off
  };
  const Row row = GENERATE_COPY(values<Row>({
      {"same", admission(plain), {}, {}},
      {"same usage in other words",
       admission("'count': 4, 'flavors': {'cpu': 'f'}, 'resourceUsage': {'cpu': '4000m'}"),
       {},
       {}},
      {"cleared", Pending(), {}, {}},
      {"other queue", admission(plain, "other"), refused, refused},
      {"other flavor",
       admission("'count': 4, 'flavors': {'cpu': 'g'}, 'resourceUsage': {'cpu': '4'}"), refused,
       refused},
      {"other count",
       admission("'count': 2, 'flavors': {'cpu': 'f'}, 'resourceUsage': {'cpu': '4'}"), refused,
       refused},
      {"an assignment less",
       With(Holding(),
            "{'status': {'admission': {'podSetAssignments': [{'name': 'ps1', " + plain + "}]}}}"),
       refused, refused},
      {"topology assigned", admission(plain + topology), {}, refused},
      {"delayed request", admission(plain + ", 'delayedTopologyRequest': 'Ready'"), {}, refused},
      {"topology and flavor",
       admission("'count': 4, 'flavors': {'cpu': 'g'}, 'resourceUsage': {'cpu': '4'}" + topology),
       refused, refused},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateWorkload, row.after, Holding()) == row.errors);
    absl::btree_map<std::string, bool> gates;
    for (const state::GateInfo& gate : state::AllFeatureGates()) {
      const std::string name(gate.name);
      if (name == "TopologyAwareScheduling" ||
          gate.depends_on.find("TopologyAwareScheduling") != std::string_view::npos) {
        gates[name] = false;
      }
    }
    const TestView off(gates);
    CHECK(Short(Errors(ValidateWorkload, row.after, Holding(), off.view)) == row.without_topology);
  }
  SECTION("set where there was none") {
    CHECK(ShortErrors(ValidateWorkload, Holding(), Pending()).empty());
  }
}

TEST_CASE("Workload update: updates of a check that is Ready") {
  const auto checks = [](const std::string& state, const std::string& value) {
    return Holding(
        "'admissionChecks': [{'name': 'z', 'state': 'Pending', 'message': '', "
        "'lastTransitionTime': '2026-08-22T10:00:00Z'}, {'name': 'a', 'state': '" +
        state +
        "', 'message': '', 'lastTransitionTime': '2026-08-22T10:00:00Z', 'podSetUpdates': "
        "[{'name': 'ps1', 'labels': {'k': '" +
        value + "'}}]}]");
  };
  CHECK(ShortErrors(ValidateWorkload, checks("Ready", "y"), checks("Ready", "x")) ==
        List{"status.admissionChecks[1].podSetUpdates: Invalid value"});
  CHECK(ShortErrors(ValidateWorkload, checks("Ready", "x"), checks("Ready", "x")).empty());
  CHECK(ShortErrors(ValidateWorkload, checks("Retry", "y"), checks("Ready", "x")).empty());
  CHECK(ShortErrors(ValidateWorkload, checks("Ready", "y"), checks("Pending", "x")).empty());
}

TEST_CASE("Workload update: clusterName") {
  const std::string named = "{'status': {'clusterName': 'w2'}}";
  const api::Json nominated = Pending("'nominatedClusterNames': ['w1', 'w2']");
  CHECK(ShortErrors(ValidateWorkload, With(Pending(), named), nominated).empty());
  CHECK(ShortErrors(ValidateWorkload, With(Pending(), named), Pending()) ==
        List{"status.clusterName: Invalid value"});
  CHECK(ShortErrors(ValidateWorkload, With(Pending(), "{'status': {'clusterName': 'w3'}}"),
                    nominated) == List{"status.clusterName: Invalid value"});
  CHECK(ShortErrors(ValidateWorkload, With(Pending(), named), With(Pending(), named)).empty());
  const api::Json slice = With(
      Pending(),
      "{'metadata': {'annotations': {'kueue.x-k8s.io/workload-slice-replacement-for': 'team/o'}}}");
  CHECK(ShortErrors(ValidateWorkload, With(slice, named), slice).empty());
}

TEST_CASE("Workload update: gates of admission only go away") {
  const auto gated = [](const std::string& value) {
    return With(J(kBase), "{'metadata': {'annotations': {'kueue.x-k8s.io/admission-gated-by': '" +
                              value + "'}}}");
  };
  CHECK(ShortErrors(ValidateWorkload, gated("a/b"), gated("a/b,c/d")).empty());
  CHECK(ShortErrors(ValidateWorkload, gated("a/b"), J(kBase)) ==
        List{"metadata.annotations[kueue.x-k8s.io/admission-gated-by]: Forbidden"});
}

}  // namespace
}  // namespace sluice::webhook
