#include "api/template_pool.h"

#include <string>
#include <vector>

#include "api/codec.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

// A Job as the API server returns it: labels of its own in a template like those of others.
Json JobJson(const std::string& name, const std::string& cpu) {
  const absl::StatusOr<Json> json = ParseJson(
      R"({"metadata":{"name":")" + name +
      R"("},"spec":{"template":{"metadata":{"creationTimestamp":null,"labels":)"
      R"({"batch.kubernetes.io/job-name":")" +
      name + R"(","job-name":")" + name +
      R"("}},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":")" +
      cpu + R"("}}}],"restartPolicy":"Never"}}}})");
  REQUIRE(json.ok());
  return *json;
}

Job DecodeJob(const Json& json) {
  absl::StatusOr<Job> job = Decode<Job>(json);
  REQUIRE(job.ok());
  return *std::move(job);
}

TEST_CASE("Templates that differ only in their labels share the rest") {
  const Json json_a = JobJson("a", "1");
  const Json json_b = JobJson("b", "1");
  Job a = DecodeJob(json_a);
  Job b = DecodeJob(json_b);
  Job c = DecodeJob(JobJson("c", "2"));
  TemplatePool pool;
  for (Job* job : {&a, &b, &c}) pool.Share(*job);
  CHECK(pool.size() == 2);
  CHECK(a.spec.pod_template.raw == b.spec.pod_template.raw);
  CHECK(a.spec.pod_template.spec.SharesWith(b.spec.pod_template.spec));
  CHECK_FALSE(a.spec.pod_template.spec.SharesWith(c.spec.pod_template.spec));
  // Each is still written as it came, to the byte.
  CHECK(EncodePodTemplate(a.spec.pod_template).Text() == json_a.Find("spec", "template")->Text());
  CHECK(EncodePodTemplate(b.spec.pod_template).Text() == json_b.Find("spec", "template")->Text());
  // A change of the one does not reach the other.
  a.spec.pod_template.spec->node_name = "n";
  CHECK(std::as_const(b).spec.pod_template.spec->node_name.empty());
}

TEST_CASE("A template is written as it came whatever its labels are") {
  for (const char* text : {
           R"({"metadata":{"labels":{"b":"1","a":"2"},"annotations":{"x":"y"}},"spec":{}})",
           R"({"metadata":{"annotations":{"x":"y"},"labels":{"a":"2","b":"1"},"name":"n"}})",
           R"({"spec":{"containers":[]},"metadata":{"labels":{}}})",
           R"({"metadata":{"labels":null}})",
           R"({"metadata":{"labels":{"a":null}}})",
           R"({"metadata":null,"spec":{"containers":[]}})",
           R"({"spec":{"containers":[],"unknown":[1,{"labels":false}]}})",
       }) {
    CAPTURE(text);
    const absl::StatusOr<Json> json = ParseJson(text);
    REQUIRE(json.ok());
    const absl::StatusOr<PodTemplate> pod_template = Decode<PodTemplate>(*json);
    REQUIRE(pod_template.ok());
    CHECK(EncodePodTemplate(*pod_template).Text() == text);
  }
}

TEST_CASE("What nobody holds any more leaves the pool") {
  TemplatePool pool;
  Workload kept;
  kept.spec.pod_sets.resize(1);
  kept.spec.pod_sets[0].pod_template = DecodeJob(JobJson("kept", "7000")).spec.pod_template;
  pool.Share(kept);
  for (int i = 0; i < 1000; ++i) {
    Job job = DecodeJob(JobJson("gone", std::to_string(i)));
    pool.Share(job);
  }
  CHECK(pool.size() <= 64);
  Job again = DecodeJob(JobJson("again", "7000"));
  pool.Share(again);
  CHECK(again.spec.pod_template.spec.SharesWith(kept.spec.pod_sets[0].pod_template.spec));
}

TEST_CASE("A template built in memory is left alone") {
  TemplatePool pool;
  Job job;
  job.spec.pod_template.spec->node_name = "n";
  pool.Share(job);
  CHECK(pool.size() == 0);
  CHECK(std::as_const(job).spec.pod_template.spec->node_name == "n");
}

}  // namespace
}  // namespace sluice::api
