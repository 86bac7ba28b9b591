#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

struct Row {
  std::string name;
  std::string patch;
  List errors;
};

TEST_CASE("Cohort") {
  const std::string at = "spec.resourceGroups[0].flavors[0].resources[0].";
  const auto group = [](const std::string& limits) {
    return "'resourceGroups': [{'coveredResources': ['cpu'], 'flavors': [{'name': 'f', "
           "'resources': "
           "[{'name': 'cpu', 'nominalQuota': 5" +
           limits + "}]}]}]";
  };
  const std::string parent = "'parentName': 'root', ";
  const Row row = GENERATE_COPY(values<Row>({
      {"empty", "{'spec': {}}", {}},
      {"no spec", "{}", {}},
      {"a parent that may not exist", "{'spec': {'parentName': 'nowhere'}}", {}},
      {"quota without parent", "{'spec': {" + group("") + "}}", {}},
      {"lending more than it has",
       "{'spec': {" + parent + group(", 'lendingLimit': 100") + "}}",
       {}},
      {"borrowing limit without parent",
       "{'spec': {" + group(", 'borrowingLimit': 1") + "}}",
       {at + "borrowingLimit: Invalid value"}},
      {"lending limit without parent",
       "{'spec': {" + group(", 'lendingLimit': 1") + "}}",
       {at + "lendingLimit: Invalid value"}},
      {"negative limit",
       "{'spec': {" + parent + group(", 'lendingLimit': '-1'") + "}}",
       {at + "lendingLimit: Invalid value"}},
      {"bad resource name",
       "{'spec': {'resourceGroups': [{'coveredResources': ['@cpu'], 'flavors': []}]}}",
       {"spec.resourceGroups[0].coveredResources[0]: Invalid value"}},
      {"resource twice",
       "{'spec': {'resourceGroups': [{'coveredResources': ['cpu', 'cpu'], 'flavors': []}]}}",
       {"spec.resourceGroups[0].coveredResources[1]: Duplicate value"}},
      {"tiny weight",
       "{'spec': {'fairSharing': {'weight': '1n'}}}",
       {"spec.fairSharing: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateCohort, With(J("{'metadata': {'name': 'c'}}"), row.patch)) ==
          row.errors);
  }
}

TEST_CASE("ResourceFlavor") {
  const Row row = GENERATE(values<Row>({
      {"no spec", "{}", {}},
      {"labels", "{'spec': {'nodeLabels': {'a.io/pool': 'x', 'zone': ''}}}", {}},
      {"bad label key",
       "{'spec': {'nodeLabels': {'a b': 'x'}}}",
       {"spec.nodeLabels: Invalid value"}},
      {"bad label value",
       "{'spec': {'nodeLabels': {'a': 'x y'}}}",
       {"spec.nodeLabels: Invalid value"}},
      {"taints",
       "{'spec': {'nodeTaints': [{'key': 'a', 'effect': 'NoSchedule'}, {'key': 'a', 'effect': "
       "'NoExecute'}]}}",
       {}},
      {"bad taint key",
       "{'spec': {'nodeTaints': [{'key': '@', 'effect': 'NoSchedule'}]}}",
       {"spec.nodeTaints[0].key: Invalid value"}},
      {"bad taint value",
       "{'spec': {'nodeTaints': [{'key': 'a', 'value': '@', 'effect': 'NoSchedule'}]}}",
       {"spec.nodeTaints[0].value: Invalid value"}},
      {"taint twice",
       "{'spec': {'nodeTaints': [{'key': 'a', 'value': 'x', 'effect': 'NoSchedule'}, {'key': 'a', "
       "'value': 'y', 'effect': 'NoSchedule'}]}}",
       {"spec.nodeTaints[1]: Duplicate value"}},
      {"toleration of everything", "{'spec': {'tolerations': [{'operator': 'Exists'}]}}", {}},
      {"bad toleration key",
       "{'spec': {'tolerations': [{'key': '-a', 'operator': 'Exists'}]}}",
       {"spec.tolerations[0].key: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateResourceFlavor, With(J("{'metadata': {'name': 'f'}}"), row.patch)) ==
          row.errors);
  }
}

}  // namespace
}  // namespace sluice::webhook
