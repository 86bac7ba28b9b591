#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const char kBase[] = R"({
  "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ClusterQueue", "metadata": {"name": "cq"},
  "spec": {"cohortName": "c", "resourceGroups": [{
    "coveredResources": ["cpu"],
    "flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": "5"}]}]}]}})";

// The quota of the only resource of the only flavor.
std::string Quota(const std::string& members) {
  return "{'spec': {'resourceGroups': [{'coveredResources': ['cpu'], 'flavors': [{'name': 'f', "
         "'resources': [{'name': 'cpu', " +
         members + "}]}]}]}}";
}

std::string Groups(const std::string& groups) {
  return "{'spec': {'resourceGroups': " + groups + "}}";
}

// `flavors` flavors with `resources` resources each.
std::string Grid(int flavors, int resources, const std::string& prefix = "f") {
  std::string covered;
  std::string quotas;
  for (int r = 0; r < resources; ++r) {
    const std::string name = "'" + prefix + "r" + std::to_string(r) + "'";
    covered += (r > 0 ? "," : "") + name;
    quotas += std::string(r > 0 ? "," : "") + "{'name': " + name + ", 'nominalQuota': 1}";
  }
  std::string list;
  for (int f = 0; f < flavors; ++f) {
    list += std::string(f > 0 ? "," : "") + "{'name': '" + prefix + std::to_string(f) +
            "', 'resources': [" + quotas + "]}";
  }
  return "{'coveredResources': [" + covered + "], 'flavors': [" + list + "]}";
}

const std::string kAt = "spec.resourceGroups[0].flavors[0].resources[0].";

struct Row {
  std::string name;
  std::string patch;
  List errors;
};

TEST_CASE("ClusterQueue: quotas and limits") {
  const Row row = GENERATE(values<Row>({
      {"plain", "{}", {}},
      {"no spec", "{'spec': null}", {}},
      {"no groups", "{'spec': {'resourceGroups': null}}", {}},
      {"limits of zero", Quota("'nominalQuota': 5, 'borrowingLimit': 0, 'lendingLimit': 0"), {}},
      {"borrowing may exceed anything", Quota("'nominalQuota': 5, 'borrowingLimit': '1Ti'"), {}},
      {"lending all", Quota("'nominalQuota': 5, 'lendingLimit': 5"), {}},
      {"lending more than there is",
       Quota("'nominalQuota': 5, 'lendingLimit': 6"),
       {kAt + "lendingLimit: Invalid value"}},
      {"negative quota", Quota("'nominalQuota': '-1'"), {kAt + "nominalQuota: Invalid value"}},
      {"negative borrowing limit",
       Quota("'nominalQuota': 1, 'borrowingLimit': '-1'"),
       {kAt + "borrowingLimit: Invalid value"}},
      {"negative lending limit",
       Quota("'nominalQuota': 1, 'lendingLimit': '-1'"),
       {kAt + "lendingLimit: Invalid value"}},
      {"borrowing limit without cohort",
       "{'spec': {'cohortName': null, 'resourceGroups': [{'coveredResources': ['cpu'], 'flavors': "
       "[{'name': 'f', 'resources': [{'name': 'cpu', 'nominalQuota': 5, 'borrowingLimit': "
       "0}]}]}]}}",
       {kAt + "borrowingLimit: Invalid value"}},
      {"lending limit without cohort",
       "{'spec': {'cohortName': null, 'resourceGroups': [{'coveredResources': ['cpu'], 'flavors': "
       "[{'name': 'f', 'resources': [{'name': 'cpu', 'nominalQuota': 5, 'lendingLimit': 1}]}]}]}}",
       {kAt + "lendingLimit: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateClusterQueue, With(J(kBase), row.patch)) == row.errors);
  }
}

TEST_CASE("ClusterQueue: names in resource groups") {
  const Row row = GENERATE(values<Row>({
      {"qualified resource name",
       Groups("[{'coveredResources': ['a.io/gpu'], 'flavors': [{'name': 'f', 'resources': "
              "[{'name': 'a.io/gpu', 'nominalQuota': 1}]}]}]"),
       {}},
      {"bad resource name",
       Groups("[{'coveredResources': ['@cpu'], 'flavors': [{'name': 'f', 'resources': [{'name': "
              "'@cpu', 'nominalQuota': 1}]}]}]"),
       {"spec.resourceGroups[0].coveredResources[0]: Invalid value"}},
      {"resource in two groups",
       Groups("[{'coveredResources': ['cpu', 'memory'], 'flavors': []}, {'coveredResources': "
              "['gpu', 'memory'], 'flavors': []}]"),
       {"spec.resourceGroups[1].coveredResources[1]: Duplicate value"}},
      {"resource twice in a group",
       Groups("[{'coveredResources': ['cpu', 'cpu'], 'flavors': []}]"),
       {"spec.resourceGroups[0].coveredResources[1]: Duplicate value"}},
      {"flavor in two groups",
       Groups("[{'coveredResources': ['cpu'], 'flavors': [{'name': 'f', 'resources': [{'name': "
              "'cpu', 'nominalQuota': 1}]}]}, {'coveredResources': ['memory'], 'flavors': "
              "[{'name': 'f', 'resources': [{'name': 'memory', 'nominalQuota': 1}]}]}]"),
       {"spec.resourceGroups[1].flavors[0].name: Duplicate value"}},
      {"flavor twice in a group",
       Groups("[{'coveredResources': ['cpu'], 'flavors': [{'name': 'f', 'resources': [{'name': "
              "'cpu', 'nominalQuota': 1}]}, {'name': 'f', 'resources': [{'name': 'cpu', "
              "'nominalQuota': 1}]}]}]"),
       {"spec.resourceGroups[0].flavors[1].name: Duplicate value"}},
      {"resources in another order",
       Groups("[{'coveredResources': ['cpu', 'memory'], 'flavors': [{'name': 'f', 'resources': "
              "[{'name': 'memory', 'nominalQuota': 1}, {'name': 'cpu', 'nominalQuota': 1}]}]}]"),
       {"spec.resourceGroups[0].flavors[0].resources[0].name: Invalid value",
        "spec.resourceGroups[0].flavors[0].resources[1].name: Invalid value"}},
      {"more resources than covered are left to the schema",
       Groups("[{'coveredResources': ['cpu'], 'flavors': [{'name': 'f', 'resources': [{'name': "
              "'cpu', 'nominalQuota': 1}, {'name': 'memory', 'nominalQuota': 1}]}]}]"),
       {}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateClusterQueue, With(J(kBase), row.patch)) == row.errors);
  }
}

TEST_CASE("ClusterQueue: sizes") {
  std::string five_groups = "[";
  for (int i = 0; i < 5; ++i) {
    five_groups += (i > 0 ? "," : "") + Grid(52, 1, std::string(1, static_cast<char>('a' + i)));
  }
  five_groups += "]";
  std::string wide_groups = "[";
  for (int i = 0; i < 5; ++i) {
    wide_groups += (i > 0 ? "," : "") + Grid(1, 52, std::string(1, static_cast<char>('a' + i)));
  }
  wide_groups += "]";
  const Row row = GENERATE_COPY(values<Row>({
      {"32 x 16 pairs", Groups("[" + Grid(32, 16) + "]"), {}},
      {"33 x 16 pairs",
       Groups("[" + Grid(33, 16) + "]"),
       {"spec.resourceGroups[0]: Invalid value"}},
      {"260 flavors", Groups(five_groups), {"spec.resourceGroups: Invalid value"}},
      {"260 resources", Groups(wide_groups), {"spec.resourceGroups: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateClusterQueue, With(J(kBase), row.patch)) == row.errors);
  }
}

TEST_CASE("ClusterQueue: policies") {
  const Row row = GENERATE(values<Row>({
      {"reclaim and borrow",
       "{'spec': {'preemption': {'reclaimWithinCohort': 'Any', 'borrowWithinCohort': {'policy': "
       "'LowerPriority'}}}}",
       {}},
      {"borrow without reclaim",
       "{'spec': {'preemption': {'reclaimWithinCohort': 'Never', 'borrowWithinCohort': {'policy': "
       "'LowerPriority'}}}}",
       {"spec.preemption: Invalid value"}},
      {"borrow with reclaim left out",
       "{'spec': {'preemption': {'borrowWithinCohort': {'policy': 'LowerPriority'}}}}",
       {"spec.preemption: Invalid value"}},
      {"neither",
       "{'spec': {'preemption': {'reclaimWithinCohort': 'Never', 'borrowWithinCohort': {'policy': "
       "'Never'}}}}",
       {}},
      {"preference with both TryNextFlavor",
       "{'spec': {'flavorFungibility': {'whenCanBorrow': 'TryNextFlavor', 'whenCanPreempt': "
       "'TryNextFlavor', 'preference': 'PreemptionOverBorrowing'}}}",
       {}},
      {"preference with one TryNextFlavor",
       "{'spec': {'flavorFungibility': {'whenCanBorrow': 'TryNextFlavor', 'whenCanPreempt': "
       "'MayStopSearch', 'preference': 'PreemptionOverBorrowing'}}}",
       {"spec.flavorFungibility.preference: Invalid value"}},
      {"weight 0", "{'spec': {'fairSharing': {'weight': 0}}}", {}},
      {"weight 2n", "{'spec': {'fairSharing': {'weight': '2n'}}}", {}},
      {"weight 1n",
       "{'spec': {'fairSharing': {'weight': '1n'}}}",
       {"spec.fairSharing: Invalid value"}},
      {"weight 0.1n",
       "{'spec': {'fairSharing': {'weight': '0.1n'}}}",
       {"spec.fairSharing: Invalid value"}},
      {"negative weight",
       "{'spec': {'fairSharing': {'weight': '-1'}}}",
       {"spec.fairSharing: Invalid value"}},
      {"empty selector", "{'spec': {'namespaceSelector': {}}}", {}},
      {"bad selector",
       "{'spec': {'namespaceSelector': {'matchExpressions': [{'key': 'k', 'operator': 'In'}]}}}",
       {"spec.namespaceSelector.matchExpressions[0].values: Required value"}},
      {"check on a flavor it has",
       "{'spec': {'admissionChecksStrategy': {'admissionChecks': [{'name': 'a', 'onFlavors': "
       "['f']}]}}}",
       {}},
      {"check on a flavor it has not",
       "{'spec': {'admissionChecksStrategy': {'admissionChecks': [{'name': 'a'}, {'name': 'b', "
       "'onFlavors': ['f', 'g']}]}}}",
       {"spec.admissionChecksStrategy.admissionChecks[1].onFlavors[1]: Unsupported value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateClusterQueue, With(J(kBase), row.patch)) == row.errors);
  }
  SECTION("null borrowWithinCohort of a stored object") {
    api::Json object = With(J(kBase), "{'spec': {'preemption': {'reclaimWithinCohort': 'Never'}}}");
    object.Find("spec")->Find("preemption")->Set("borrowWithinCohort", api::Json());
    CHECK(ShortErrors(ValidateClusterQueue, object).empty());
  }
}

TEST_CASE("ClusterQueue: concurrent admission") {
  const std::string policy = "'concurrentAdmissionPolicy': {'migration': ";
  const Row row = GENERATE_COPY(values<Row>({
      {"good", "{'spec': {" + policy + "{'mode': 'RetainFirstAdmission'}}}}", {}},
      {"no group",
       "{'spec': {'resourceGroups': [], " + policy + "{'mode': 'RetainFirstAdmission'}}}}",
       {"spec.resourceGroups: Invalid value"}},
      {"16 flavors",
       "{'spec': {'resourceGroups': [" + Grid(16, 1) + "], " + policy +
           "{'mode': 'RetainFirstAdmission'}}}}",
       {}},
      {"17 flavors",
       "{'spec': {'resourceGroups': [" + Grid(17, 1) + "], " + policy +
           "{'mode': 'RetainFirstAdmission'}}}}",
       {"spec.resourceGroups[0].flavors: Invalid value"}},
      {"last acceptable flavor",
       "{'spec': {" + policy +
           "{'mode': 'TryPreferredFlavors', 'constraints': {'lastAcceptableFlavorName': 'f'}}}}}",
       {}},
      {"unknown last acceptable flavor",
       "{'spec': {" + policy +
           "{'mode': 'TryPreferredFlavors', 'constraints': {'lastAcceptableFlavorName': 'g'}}}}}",
       {"spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName: Invalid "
        "value"}},
      {"constraints with the other mode",
       "{'spec': {" + policy +
           "{'mode': 'RetainFirstAdmission', 'constraints': {'lastAcceptableFlavorName': 'f'}}}}}",
       {"spec.concurrentAdmissionPolicy.migration.constraints: Forbidden"}},
      {"StrictFIFO",
       "{'spec': {'queueingStrategy': 'StrictFIFO', " + policy +
           "{'mode': 'RetainFirstAdmission'}}}}",
       {"spec.queueingStrategy: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    const api::Json object = With(J(kBase), row.patch);
    const TestView on({{"ConcurrentAdmission", true}});
    CHECK(Short(Errors(ValidateClusterQueue, object, {}, on.view)) == row.errors);
    const TestView off;
    CHECK(Errors(ValidateClusterQueue, object, {}, off.view).empty());
  }
}

TEST_CASE("ClusterQueue: the concurrent admission policy is immutable") {
  const api::Json base = J(kBase);
  const api::Json with = With(
      base,
      "{'spec': {'concurrentAdmissionPolicy': {'migration': {'mode': 'TryPreferredFlavors'}}}}");
  const api::Json other = With(
      base,
      "{'spec': {'concurrentAdmissionPolicy': {'migration': {'mode': 'RetainFirstAdmission'}}}}");
  const List refused = {"spec.concurrentAdmissionPolicy: Invalid value"};
  CHECK(ShortErrors(ValidateClusterQueue, with, base) == refused);
  CHECK(ShortErrors(ValidateClusterQueue, base, with) == refused);
  CHECK(ShortErrors(ValidateClusterQueue, other, with) == refused);
  CHECK(ShortErrors(ValidateClusterQueue, with, with).empty());
  CHECK(ShortErrors(ValidateClusterQueue,
                    With(base, "{'spec': {'cohortName': 'd', 'queueingStrategy': 'StrictFIFO'}}"),
                    base)
            .empty());
}

TEST_CASE("ClusterQueue: stored rules with unknown flavors may stay") {
  const std::string legacy = "{'name': 'a', 'onFlavors': ['gone']}";
  const auto rules = [](const std::string& list) {
    return With(J(kBase),
                "{'spec': {'admissionChecksStrategy': {'admissionChecks': [" + list + "]}}}");
  };
  const api::Json old_object = rules(legacy);
  const List refused = {
      "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported "
      "value"};
  SECTION("unchanged") { CHECK(ShortErrors(ValidateClusterQueue, old_object, old_object).empty()); }
  SECTION("beside a new rule") {
    CHECK(ShortErrors(ValidateClusterQueue, rules(legacy + ", {'name': 'b'}"), old_object).empty());
  }
  SECTION("renamed") {
    CHECK(ShortErrors(ValidateClusterQueue, rules("{'name': 'b', 'onFlavors': ['gone']}"),
                      old_object) == refused);
  }
  SECTION("with another set") {
    CHECK(ShortErrors(ValidateClusterQueue, rules("{'name': 'a', 'onFlavors': ['gone', 'f']}"),
                      old_object) == refused);
  }
  SECTION("when the flavors change") {
    const api::Json grown = With(
        old_object, Groups("[{'coveredResources': ['cpu'], 'flavors': [{'name': 'x', 'resources': "
                           "[{'name': 'cpu', 'nominalQuota': 1}]}]}]"));
    CHECK(ShortErrors(ValidateClusterQueue, grown, old_object) == refused);
  }
  SECTION("not with the gate on") {
    const TestView strict({{"RejectUpdatesToCQWithInvalidOnFlavors", true}});
    CHECK(Short(Errors(ValidateClusterQueue, old_object, old_object, strict.view)) == refused);
  }
}

}  // namespace
}  // namespace sluice::webhook
