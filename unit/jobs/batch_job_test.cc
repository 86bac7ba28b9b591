#include "jobs/job_kind.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::jobs {
namespace {

using api::Json;

TEST_CASE("The number of pods is the smaller of parallelism and completions") {
  struct Row {
    const char* name;
    std::optional<int32_t> parallelism;
    std::optional<int32_t> completions;
    int32_t pods;
  };
  const Row rows[] = {{"nothing said", std::nullopt, std::nullopt, 1},
                      {"parallelism alone", 4, std::nullopt, 4},
                      {"fewer completions", 4, 3, 3},
                      {"more completions", 4, 9, 4}};
  for (const Row& row : rows) {
    INFO(row.name);
    api::Job job = build::Job("a");
    job.spec.parallelism = row.parallelism;
    job.spec.completions = row.completions;
    CHECK(BatchJob::PodCount(job) == row.pods);
    CHECK(BatchJob::PodSets(job, {})->front().count == row.pods);
  }
}

TEST_CASE("Pods that have ended are reclaimable once fewer are left than run at a time") {
  struct Row {
    const char* name;
    int32_t parallelism;
    int32_t completions;
    int32_t succeeded;
    int32_t reclaimable;
  };
  const Row rows[] = {{"none ended", 3, 3, 0, 0},
                      {"one of three", 3, 3, 1, 1},
                      {"still enough left", 3, 6, 3, 0},
                      {"four of six", 3, 6, 4, 1},
                      {"one at a time", 1, 3, 2, 0}};
  for (const Row& row : rows) {
    INFO(row.name);
    api::Job job = build::Job("a").Parallelism(row.parallelism).Completions(row.completions);
    job.status.succeeded = row.succeeded;
    const auto pods = BatchJob::Reclaimable(job);
    CHECK((pods.empty() ? 0 : pods.front().count) == row.reclaimable);
  }
}

TEST_CASE("Indexed Jobs count distinct indexes, and broken parts of the text not at all") {
  api::Job job = build::Job("a").Parallelism(5).Completions(5);
  job.spec.completion_mode = "Indexed";
  job.status.completed_indexes = "0,1-2,2,x,4-3,9";
  job.status.failed_indexes = "1";
  REQUIRE(BatchJob::Reclaimable(job).size() == 1);
  CHECK(BatchJob::Reclaimable(job).front().count == 3);
}

TEST_CASE("A start sets suspend and what the flavor gives") {
  const api::Job job = build::Job("a").Request("cpu", "1");
  PodSetInfo info;
  info.name = "main";
  info.node_selector["pool"] = "b";
  const auto patch = BatchJob::Start(job, {info});
  REQUIRE(patch.ok());
  CHECK(patch->subresource.empty());
  CHECK_FALSE(patch->body.Find("spec", "suspend")->AsBool(true));
  CHECK(patch->body.GetString("spec", "template", "spec", "nodeSelector", "pool") == "b");
  CHECK(absl::IsFailedPrecondition(BatchJob::Start(job, {}).status()));
}

TEST_CASE("A start that contradicts the template never works") {
  api::Job job = build::Job("a");
  job.spec.pod_template.spec->node_selector["pool"] = "a";
  PodSetInfo info;
  info.node_selector["pool"] = "b";
  CHECK(absl::IsFailedPrecondition(BatchJob::Start(job, {info}).status()));
}

TEST_CASE("A stop goes in steps: suspend with a mark, start time, template") {
  api::Job job = build::Job("a").Suspend(false);
  job.spec.pod_template.spec->node_selector["pool"] = "b";
  job.status.active = 1;
  job.status.start_time = build::At(1);
  const api::Workload workload = build::Workload("w");

  const auto first = BatchJob::NextStop(job, &workload);
  REQUIRE(first.has_value());
  CHECK(first->body.Find("spec", "suspend")->AsBool());
  CHECK(first->body.GetString("metadata", "annotations", "kueue.x-k8s.io/stopping") == "true");

  job.spec.suspend = true;
  job.metadata.annotations["kueue.x-k8s.io/stopping"] = "true";
  CHECK_FALSE(BatchJob::Suspended(job));
  const auto second = BatchJob::NextStop(job, &workload);
  REQUIRE(second.has_value());
  CHECK(second->subresource == "status");

  job.status.start_time.reset();
  CHECK_FALSE(BatchJob::NextStop(job, &workload).has_value());  // pods still run

  job.status.active = 0;
  const auto last = BatchJob::NextStop(job, &workload);
  REQUIRE(last.has_value());
  CHECK(last->body.Find("metadata", "annotations", "kueue.x-k8s.io/stopping")->IsNull());
  CHECK(last->body.Find("spec", "template", "spec", "nodeSelector", "pool")->IsNull());

  job.metadata.annotations.clear();
  job.spec.pod_template.spec->node_selector.clear();
  CHECK(BatchJob::Suspended(job));
  CHECK_FALSE(BatchJob::NextStop(job, &workload).has_value());
}

TEST_CASE("Merging keeps equal values, refuses different ones and repeats no toleration") {
  PodSetInfo info;
  info.labels["a"] = "1";
  api::Toleration toleration{"key", "", "v", "NoSchedule", std::nullopt};
  info.tolerations = {toleration};
  PodSetInfo update;
  update.labels = {{"a", "1"}, {"b", "2"}};
  toleration.op = "Equal";
  update.tolerations = {toleration};
  update.scheduling_gates = {"g"};
  REQUIRE(Merge(info, update).ok());
  CHECK(info.labels.size() == 2);
  CHECK(info.tolerations.size() == 1);
  CHECK(info.scheduling_gates == std::vector<std::string>{"g"});
  update.labels = {{"a", "other"}};
  const absl::Status refused = Merge(info, update);
  CHECK(absl::IsFailedPrecondition(refused));
}

}  // namespace
}  // namespace sluice::jobs
