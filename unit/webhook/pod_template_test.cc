#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

TEST_CASE("pod templates that say the same") {
  struct Row {
    std::string name;
    std::string a;
    std::string b;
    bool same;
  };
  const Row row = GENERATE(values<Row>({
      {"equal", "{'spec': {'nodeName': 'n'}}", "{'spec': {'nodeName': 'n'}}", true},
      {"nothing and nothing", "null", "{}", true},
      {"empty metadata", "{'metadata': {'creationTimestamp': null}}", "{}", true},
      {"empty list", "{'spec': {'volumes': []}}", "{'spec': {}}", true},
      {"empty resources", "{'spec': {'containers': [{'name': 'c', 'resources': {}}]}}",
       "{'spec': {'containers': [{'name': 'c'}]}}", true},
      {"quantity", "{'spec': {'overhead': {'cpu': '1'}}}", "{'spec': {'overhead': {'cpu': 1}}}",
       true},
      {"other quantity", "{'spec': {'overhead': {'cpu': '1'}}}",
       "{'spec': {'overhead': {'cpu': '2'}}}", false},
      {"one quantity more", "{'spec': {'overhead': {'cpu': '1'}}}",
       "{'spec': {'overhead': {'cpu': '1', 'memory': '0'}}}", false},
      {"size limit", "{'spec': {'volumes': [{'name': 'v', 'emptyDir': {'sizeLimit': '1Gi'}}]}}",
       "{'spec': {'volumes': [{'name': 'v', 'emptyDir': {'sizeLimit': '1024Mi'}}]}}", true},
      {"false for a plain flag", "{'spec': {'hostNetwork': false}}", "{'spec': {}}", true},
      {"true for a plain flag", "{'spec': {'hostNetwork': true}}", "{'spec': {}}", false},
      {"false for an optional flag", "{'spec': {'automountServiceAccountToken': false}}",
       "{'spec': {}}", false},
      {"an empty struct that means something",
       "{'spec': {'volumes': [{'name': 'v', 'emptyDir': {}}]}}",
       "{'spec': {'volumes': [{'name': 'v'}]}}", false},
      {"an empty label", "{'metadata': {'labels': {'a': ''}}}", "{'metadata': {'labels': {}}}",
       false},
      {"order of containers", "{'spec': {'containers': [{'name': 'a'}, {'name': 'b'}]}}",
       "{'spec': {'containers': [{'name': 'b'}, {'name': 'a'}]}}", false},
      {"another member", "{'spec': {}}", "{'spec': {'schedulerName': 'x'}}", false},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(SamePodTemplate(J(row.a), J(row.b)) == row.same);
    CHECK(SamePodTemplate(J(row.b), J(row.a)) == row.same);
  }
}

}  // namespace
}  // namespace sluice::webhook
