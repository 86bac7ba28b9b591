#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const std::string kPrefix = "kueue.x-k8s.io/";

const char kBase[] = R"({
  "apiVersion": "batch/v1", "kind": "Job",
  "metadata": {"name": "j", "namespace": "team", "labels": {"kueue.x-k8s.io/queue-name": "lq"}},
  "spec": {"parallelism": 5, "completions": 5, "suspend": true, "template": {"spec": {
    "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})";

std::string Label(const std::string& key, const std::string& value) {
  return "{'metadata': {'labels': {'kueue.x-k8s.io/" + key + "': " + value + "}}}";
}
std::string Annotation(const std::string& key, const std::string& value) {
  return "{'metadata': {'annotations': {'kueue.x-k8s.io/" + key + "': " + value + "}}}";
}
std::string LabelPath(const std::string& key) { return "metadata.labels[" + kPrefix + key + "]: "; }
std::string AnnotationPath(const std::string& key) {
  return "metadata.annotations[" + kPrefix + key + "]: ";
}

struct Row {
  std::string name;
  List patches;  // applied one after the other
  List errors;
};

api::Json Patched(const List& patches) {
  api::Json object = J(kBase);
  for (const std::string& patch : patches) object = With(object, patch);
  return object;
}

TEST_CASE("Job creation: common rules") {
  const std::string long_name(70, 'a');
  const Row row = GENERATE_COPY(values<Row>({
      {"plain", {}, {}},
      {"no queue", {Label("queue-name", "null")}, {}},
      {"subdomain as queue", {Label("queue-name", "'a.b'")}, {}},
      {"bad queue", {Label("queue-name", "'A_b'")}, {LabelPath("queue-name") + "Invalid value"}},
      {"empty queue", {Label("queue-name", "''")}, {LabelPath("queue-name") + "Invalid value"}},
      {"prebuilt label", {Label("prebuilt-workload-name", "'w'")}, {}},
      {"bad prebuilt label",
       {Label("prebuilt-workload-name", "'W'")},
       {LabelPath("prebuilt-workload-name") + "Invalid value"}},
      {"bad prebuilt annotation wins over the label",
       {Label("prebuilt-workload-name", "'w'"), Annotation("prebuilt-workload-name", "'W'")},
       {AnnotationPath("prebuilt-workload-name") + "Invalid value"}},
      {"max-exec-time", {Label("max-exec-time-seconds", "'1'")}, {}},
      {"max-exec-time of 0",
       {Label("max-exec-time-seconds", "'0'")},
       {LabelPath("max-exec-time-seconds") + "Invalid value"}},
      {"max-exec-time that is no number",
       {Label("max-exec-time-seconds", "'1h'")},
       {LabelPath("max-exec-time-seconds") + "Invalid value"}},
      {"gates", {Annotation("admission-gated-by", "'a.io/b'")}, {}},
      {"bad gates",
       {Annotation("admission-gated-by", "'b'")},
       {AnnotationPath("admission-gated-by") + "Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) { CHECK(ShortErrors(ValidateJob, Patched(row.patches)) == row.errors); }
}

TEST_CASE("Job creation: the carrier of a prebuilt name with the gate off") {
  const TestView off({{"WorkloadIdentifierAnnotations", false}});
  const std::string long_bad(70, 'A');
  const auto errors = [&](const List& patches) {
    return Short(Errors(ValidateJob, Patched(patches), {}, off.view));
  };
  CHECK(errors({Annotation("prebuilt-workload-name", "'W'")}).empty());
  CHECK(errors({Annotation("prebuilt-workload-name", "'" + long_bad + "'")}) ==
        List{AnnotationPath("prebuilt-workload-name") + "Invalid value"});
  CHECK(errors({Label("prebuilt-workload-name", "'w'"),
                Annotation("prebuilt-workload-name", "'" + long_bad + "'")})
            .empty());
}

TEST_CASE("Job creation: partial admission") {
  const std::string indexed = "{'spec': {'completionMode': 'Indexed'}}";
  const std::string min = AnnotationPath("job-min-parallelism") + "Invalid value";
  const std::string equal = AnnotationPath("job-completions-equal-parallelism") + "Invalid value";
  const Row row = GENERATE_COPY(values<Row>({
      {"min 1", {Annotation("job-min-parallelism", "'1'")}, {}},
      {"min 4", {Annotation("job-min-parallelism", "'4'")}, {}},
      {"min 0", {Annotation("job-min-parallelism", "'0'")}, {min}},
      {"min 5 of 5", {Annotation("job-min-parallelism", "'5'")}, {min}},
      {"min text", {Annotation("job-min-parallelism", "'x'")}, {min}},
      {"min above completions",
       {"{'spec': {'completions': 2}}", Annotation("job-min-parallelism", "'2'")},
       {min}},
      {"equal", {indexed, Annotation("job-completions-equal-parallelism", "'true'")}, {}},
      {"not equal is not asked", {Annotation("job-completions-equal-parallelism", "'false'")}, {}},
      {"equal, text", {Annotation("job-completions-equal-parallelism", "'yes'")}, {equal}},
      {"equal, not indexed", {Annotation("job-completions-equal-parallelism", "'true'")}, {equal}},
      {"equal, but different",
       {indexed, "{'spec': {'completions': 6}}",
        Annotation("job-completions-equal-parallelism", "'true'")},
       {equal}},
  }));
  DYNAMIC_SECTION(row.name) { CHECK(ShortErrors(ValidateJob, Patched(row.patches)) == row.errors); }
}

TEST_CASE("Job creation: nothing special gives no warning") {
  const TestView test;
  std::vector<std::string> warnings;
  Errors(ValidateJob, Patched({}), {}, test.view, &warnings);
  CHECK(warnings.empty());
}

TEST_CASE("Job creation: elastic jobs") {
  const std::string elastic = Annotation("elastic-job", "'true'");
  const auto topology = [](const std::string& key) {
    return "{'spec': {'template': {'metadata': {'annotations': {'kueue.x-k8s.io/podset-" + key +
           "-topology': '" + (key == "unconstrained" ? "true" : "rack") + "'}}}}}";
  };
  const auto errors = [](const List& patches) {
    return ShortErrors(ValidateJob, Patched(patches));
  };
  CHECK(errors({elastic}).empty());
  const std::string at = "spec.template.metadata.annotations[kueue.x-k8s.io/podset-";
  CHECK(errors({elastic, Annotation("job-min-parallelism", "'1'")}) ==
        List{AnnotationPath("job-min-parallelism") + "Invalid value"});
  CHECK(errors({elastic, topology("required")}) == List{at + "required-topology]: Forbidden"});
  CHECK(errors({elastic, topology("preferred")}) == List{at + "preferred-topology]: Forbidden"});
  CHECK(errors({elastic, topology("unconstrained")}).empty());
}

TEST_CASE("Job update: common rules") {
  const std::string run = "{'spec': {'suspend': false}}";
  const std::string queue = LabelPath("queue-name") + "Invalid value";
  const std::string priority = LabelPath("priority-class") + "Invalid value";
  const std::string time = LabelPath("max-exec-time-seconds") + "Invalid value";
  struct UpdateRow {
    std::string name;
    List before;
    List after;
    List errors;
  };
  const UpdateRow row = GENERATE_COPY(values<UpdateRow>({
      {"nothing", {run}, {run}, {}},
      {"start", {}, {run}, {}},
      {"queue while suspended", {}, {Label("queue-name", "'other'")}, {}},
      {"queue added while suspended", {Label("queue-name", "null")}, {}, {}},
      {"queue removed while suspended", {}, {Label("queue-name", "null")}, {}},
      {"queue while running", {run}, {run, Label("queue-name", "'other'")}, {queue}},
      {"queue with the start", {}, {run, Label("queue-name", "'other'")}, {queue}},
      {"queue with the stop", {run}, {Label("queue-name", "'other'")}, {}},
      {"queue while stopping",
       {run},
       {Annotation("stopping", "'true'"), Label("queue-name", "'other'")},
       {queue}},
      {"bad queue while suspended", {}, {Label("queue-name", "'A'")}, {queue}},
      {"prebuilt while suspended", {}, {Label("prebuilt-workload-name", "'w'")}, {}},
      {"bad prebuilt while suspended",
       {},
       {Label("prebuilt-workload-name", "'W'")},
       {LabelPath("prebuilt-workload-name") + "Invalid value"}},
      {"prebuilt while running",
       {run, Label("prebuilt-workload-name", "'w'")},
       {run, Label("prebuilt-workload-name", "'v'")},
       {LabelPath("prebuilt-workload-name") + "Invalid value"}},
      {"prebuilt removed while running",
       {run, Label("prebuilt-workload-name", "'w'")},
       {run},
       {LabelPath("prebuilt-workload-name") + "Invalid value"}},
      {"time while suspended", {}, {Label("max-exec-time-seconds", "'5'")}, {}},
      {"time while running", {run}, {run, Label("max-exec-time-seconds", "'5'")}, {time}},
      {"time with the start", {}, {run, Label("max-exec-time-seconds", "'5'")}, {time}},
      {"time with the stop", {run}, {Label("max-exec-time-seconds", "'5'")}, {time}},
      {"priority added while suspended", {}, {Label("priority-class", "'p'")}, {}},
      {"priority added while running", {run}, {run, Label("priority-class", "'p'")}, {priority}},
      {"priority changed while running",
       {run, Label("priority-class", "'p'")},
       {run, Label("priority-class", "'q'")},
       {}},
      {"priority removed while suspended", {Label("priority-class", "'p'")}, {}, {priority}},
      {"elastic switched on",
       {},
       {Annotation("elastic-job", "'true'")},
       {AnnotationPath("elastic-job") + "Invalid value"}},
      {"elastic switched off",
       {Annotation("elastic-job", "'true'")},
       {},
       {AnnotationPath("elastic-job") + "Invalid value"}},
      {"elastic off in other words", {Annotation("elastic-job", "'false'")}, {}, {}},
      {"gate added",
       {},
       {Annotation("admission-gated-by", "'a/b'")},
       {AnnotationPath("admission-gated-by") + "Forbidden"}},
      {"gate removed", {Annotation("admission-gated-by", "'a/b'")}, {}, {}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateJob, Patched(row.after), Patched(row.before)) == row.errors);
  }
}

TEST_CASE("Job update: the queue stays where a default queue exists") {
  TestView test;
  test.AddNamespace("team", true);
  CHECK(Short(Errors(ValidateJob, Patched({Label("queue-name", "null")}), Patched({}),
                     test.view)) == List{LabelPath("queue-name") + "Invalid value"});
  CHECK(Errors(ValidateJob, Patched({Label("queue-name", "'other'")}), Patched({}), test.view)
            .empty());
}

TEST_CASE("Job update: partial admission") {
  const std::string run = "{'spec': {'suspend': false}}";
  const std::string min = Annotation("job-min-parallelism", "'2'");
  const std::string indexed = "{'spec': {'completionMode': 'Indexed'}}";
  const std::string equal = Annotation("job-completions-equal-parallelism", "'true'");
  struct UpdateRow {
    std::string name;
    List before;
    List after;
    List errors;
  };
  const UpdateRow row = GENERATE_COPY(values<UpdateRow>({
      {"an unchanged minimum is not checked again",
       {min},
       {min, "{'spec': {'parallelism': 2}}"},
       {}},
      {"a changed one is",
       {min},
       {Annotation("job-min-parallelism", "'9'")},
       {AnnotationPath("job-min-parallelism") + "Invalid value"}},
      {"parallelism while running",
       {run, min},
       {run, min, "{'spec': {'parallelism': 4}}"},
       {"spec.parallelism: Forbidden"}},
      {"parallelism with the stop",
       {run, min},
       {min, "{'spec': {'parallelism': 4}}"},
       {"spec.parallelism: Forbidden"}},
      {"parallelism with the start", {min}, {run, min, "{'spec': {'parallelism': 4}}"}, {}},
      {"parallelism without a minimum", {run}, {run, "{'spec': {'parallelism': 4}}"}, {}},
      {"equal completions while running",
       {run, indexed},
       {run, indexed, equal},
       {AnnotationPath("job-completions-equal-parallelism") + "Forbidden"}},
      {"equal completions while suspended", {indexed}, {indexed, equal}, {}},
      {"equal completions are checked again",
       {indexed, equal},
       {indexed, equal, "{'spec': {'parallelism': 4}}"},
       {AnnotationPath("job-completions-equal-parallelism") + "Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    CHECK(ShortErrors(ValidateJob, Patched(row.after), Patched(row.before)) == row.errors);
  }
}

TEST_CASE("a Job that goes away is not looked at") {
  const std::string gone = "{'metadata': {'deletionTimestamp': '2026-01-01T00:00:00Z'}}";
  const List bad = {Label("max-exec-time-seconds", "'x'"), gone};
  CHECK(ShortErrors(ValidateJob, Patched(bad), Patched(bad)).empty());
}

TEST_CASE("Jobs are left alone when their integration is off") {
  TestView test;
  test.settings.integrations.frameworks = {"pod"};
  CHECK(Errors(ValidateJob, Patched({Label("queue-name", "'A'")}), {}, test.view).empty());
}

std::string Checkpoint(const std::string& key, const std::string& value) {
  return "{'metadata': {'annotations': {'sluice.dev/" + key + "': " + value + "}}}";
}

TEST_CASE("what a Job says of its checkpoints must be readable, on the Job and on its template") {
  const std::string at = "metadata.annotations[sluice.dev/";
  const Row row = GENERATE_COPY(values<Row>({
      {"all of it",
       {Checkpoint("last-checkpoint", "'2026-01-31T10:00:00Z'"),
        Checkpoint("checkpoint-interval", "'30m'"), Checkpoint("restart-cost", "'5m'"),
        Checkpoint("checkpoint-on-request", "'true'"), Checkpoint("min-runtime", "'20m'")},
       {}},
      {"a time",
       {Checkpoint("last-checkpoint", "'now'")},
       {at + "last-checkpoint]: Invalid value"}},
      {"an interval",
       {Checkpoint("checkpoint-interval", "'0s'")},
       {at + "checkpoint-interval]: Invalid value"}},
      {"a cost", {Checkpoint("restart-cost", "'-5m'")}, {at + "restart-cost]: Invalid value"}},
      {"a wish",
       {Checkpoint("checkpoint-on-request", "'yes'")},
       {at + "checkpoint-on-request]: Invalid value"}},
      {"a minimum", {Checkpoint("min-runtime", "'20'")}, {at + "min-runtime]: Invalid value"}},
      {"the template",
       {"{'spec': {'template': {'metadata': {'annotations': {'sluice.dev/restart-cost': 'x'}}}}}"},
       {"spec.template." + at + "restart-cost]: Invalid value"}},
  }));
  INFO(row.name);
  CHECK(ShortErrors(ValidateJob, Patched(row.patches)) == row.errors);
}

TEST_CASE("a value that is there already keeps nothing else from being changed") {
  const api::Json bad = Patched({Checkpoint("restart-cost", "'x'")});
  CHECK(ShortErrors(ValidateJob, With(bad, Label("max-exec-time-seconds", "'5'")), bad).empty());
  CHECK(ShortErrors(ValidateJob, With(bad, Checkpoint("restart-cost", "'y'")), bad).size() == 1);
}

}  // namespace
}  // namespace sluice::webhook
