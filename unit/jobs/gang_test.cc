#include "jobs/gang.h"

#include "api/codec.h"
#include "api/names.h"
#include "jobs/job_kind.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::jobs {
namespace {

api::Job WithMode(const char* mode) {
  api::Job job = build::Job("a").Parallelism(4).Completions(4);
  if (*mode != '\0') job.metadata.annotations[api::kGangMode] = mode;
  return job;
}

void SetGang(api::Job& job, std::optional<int32_t> minimum = std::nullopt) {
  job.spec.scheduling.emplace();
  job.spec.scheduling->policy.gang = api::GangPolicy{minimum};
}

TEST_CASE("Who makes a Job's PodGroup is read from the Job") {
  SECTION("nobody") { CHECK(GangOf(WithMode("")).form == GangForm::kNone); }
  SECTION("the Job controller, as the user wants") {
    api::Job job = WithMode("");
    SetGang(job, 3);
    CHECK(GangOf(job).form == GangForm::kJobController);
    CHECK_FALSE(GangOf(job).ours);
    CHECK(DeclaredMinimum(job) == 3);
  }
  SECTION("the Job controller, as we want") {
    api::Job job = WithMode(kModeJobScheduling);
    SetGang(job, 3);
    CHECK(GangOf(job).ours);
    CHECK(DeclaredMinimum(job) == std::nullopt);
  }
  SECTION("not a gang, by the user's own word") {
    api::Job job = WithMode("");
    job.spec.scheduling.emplace();
    job.spec.scheduling->policy.basic.emplace();
    CHECK(GangOf(job).form == GangForm::kNone);
  }
  SECTION("we") {
    api::Job job = WithMode(kModePodGroup);
    job.spec.pod_template.spec->scheduling_group = "g";
    CHECK(GangOf(job).form == GangForm::kOwn);
    CHECK(GangOf(job).pod_group == ObjectKey{job.metadata.ns, "g"});
  }
  SECTION("somebody else") {
    api::Job job = WithMode("");
    job.spec.pod_template.spec->scheduling_group = "g";
    CHECK(GangOf(job).form == GangForm::kForeign);
  }
  SECTION("nobody, though it was asked for") {
    CHECK(GangOf(WithMode(kModeFallback)).form == GangForm::kFallback);
    CHECK(GangOf(WithMode(kModeFallback)).lost.empty());
    CHECK(GangOf(WithMode(kModeJobScheduling)).lost == "spec.scheduling");
    CHECK(GangOf(WithMode(kModePodGroup)).lost == "spec.template.spec.schedulingGroup");
  }
}

TEST_CASE("Pods that are left to run") {
  struct Row {
    const char* name;
    int32_t parallelism;
    int32_t completions;
    int32_t succeeded;
    int32_t left;
  };
  const Row rows[] = {{"all", 4, 4, 0, 4},
                      {"one of four has ended", 4, 4, 1, 3},
                      {"more completions than pods", 4, 9, 3, 4},
                      {"the last ones", 4, 9, 7, 2},
                      {"none", 4, 4, 4, 0},
                      {"fewer completions than pods", 4, 3, 1, 2}};
  for (const Row& row : rows) {
    INFO(row.name);
    api::Job job = build::Job("a").Parallelism(row.parallelism).Completions(row.completions);
    job.status.succeeded = row.succeeded;
    CHECK(PodsToRun(job) == row.left);
  }
}

TEST_CASE("Annotations about broken gangs") {
  CHECK(ParseOnGangBroken("") == OnGangBroken::kRepair);
  CHECK(ParseOnGangBroken("Shrink") == OnGangBroken::kShrink);
  CHECK(ParseOnGangBroken("shrink") == std::nullopt);
  CHECK(ParseRepairTimeout("") == absl::Minutes(5));
  CHECK(ParseRepairTimeout("90s") == absl::Seconds(90));
  for (const char* text : {"0s", "-1m", "soon", "5"})
    CHECK(ParseRepairTimeout(text) == std::nullopt);
}

TEST_CASE("Names of PodGroups are valid and differ with the seed") {
  CHECK(PodGroupName("train", "1") != PodGroupName("train", "2"));
  CHECK(PodGroupName("train", "1") == PodGroupName("train", "1"));
  CHECK(PodGroupName("train-", "1").rfind("train-", 0) == 0);
  CHECK(PodGroupName("train-", "1")[6] != '-');
  CHECK(PodGroupName(std::string(300, 'a'), "1").size() <= 253);
  CHECK(PodGroupName("", "1").rfind("job-", 0) == 0);
}

TEST_CASE("Names that the Job controller can use") {
  CHECK(NameFitsJobController(std::string(57, 'a')));
  CHECK_FALSE(NameFitsJobController(std::string(58, 'a')));
  CHECK_FALSE(NameFitsJobController("a.b"));
}

TEST_CASE("The PodGroup of a gang") {
  NewPodGroup group;
  group.key = {"ns", "g"};
  group.min_count = 8;
  group.priority_class_name = "high";
  group.owner = {"batch/v1", "Job", "a", "uid", true, true};
  const auto decoded = api::Decode<api::PodGroup>(PodGroupBody(group));
  REQUIRE(decoded.ok());
  CHECK(decoded->policy.gang->min_count == 8);
  CHECK(decoded->priority_class_name == "high");
  CHECK(decoded->priority == std::nullopt);
  CHECK(decoded->disruption_mode->all.has_value());
  CHECK(decoded->metadata.Controller()->uid == "uid");
  CHECK(decoded->preemption_policy.empty());
  group.preemption_policy = "Never";
  CHECK(PodGroupBody(group).GetString("spec", "preemptionPolicy") == "Never");
  group.min_count.reset();
  group.topology = {{"rack"}};
  const api::Json basic = PodGroupBody(group);
  CHECK(basic.Find("spec", "schedulingPolicy")->Has("basic"));
  CHECK_FALSE(basic.Find("spec")->Has("disruptionMode"));
  CHECK(basic.Find("spec", "schedulingConstraints", "topology")->AsArray().size() == 1);
}

TEST_CASE("A gang that the user asked for keeps its minimum in a PodGroup of ours") {
  api::Job job = WithMode(kModePodGroup);
  SetGang(job, 3);
  job.spec.pod_template.spec->scheduling_group = "g";
  CHECK(GangOf(job).form == GangForm::kOwn);
  CHECK(GangOf(job).minimum == 3);
  CHECK(DeclaredMinimum(job) == 3);
  job.metadata.annotations[api::kGangMode] = kModeBasicPodGroup;
  CHECK(GangOf(job).basic);
  CHECK(GangOf(WithMode(kModeBasicPodGroup)).form == GangForm::kNone);
}

TEST_CASE("Partial admission never goes below the user's own gang") {
  api::Job job = WithMode("");
  SetGang(job, 3);
  job.metadata.annotations[api::kJobMinParallelism] = "2";
  const auto pod_sets = BatchJob::PodSets(job, TopologyOptions{});
  REQUIRE(pod_sets.ok());
  CHECK(pod_sets->front().min_count == 3);
}

}  // namespace
}  // namespace sluice::jobs
