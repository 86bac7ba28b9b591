#include "queueing/backfill.h"

#include <random>

#include "queueing/queue_manager.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::queueing {
namespace {

using build::At;

TEST_CASE("annotations of a ClusterQueue say how it backfills") {
  CHECK_FALSE(BackfillOf(build::ClusterQueue("cq").Get()).on());
  const auto of = [](const std::string& mode, const std::string& depth,
                     const std::string& unknown) {
    return BackfillOf(build::ClusterQueue("cq")
                          .Annotation(kBackfill, mode)
                          .Annotation(kBackfillDepth, depth)
                          .Annotation(kBackfillUnknown, unknown)
                          .Get());
  };
  CHECK(of("EASY", "5", "Allow") == BackfillPolicy{BackfillMode::kEasy, 5, true});
  CHECK(of("Conservative", "0", "Deny") == BackfillPolicy{BackfillMode::kConservative, 32, false});
  CHECK_FALSE(of("easy", "5", "Allow").on());
}

TEST_CASE("values of annotations are checked") {
  struct Row {
    const char* annotation;
    const char* value;
    bool good;
  };
  for (const Row& row : std::vector<Row>{{kBackfill, "EASY", true},
                                         {kBackfill, "Conservative", true},
                                         {kBackfill, "", false},
                                         {kBackfill, "conservative", false},
                                         {kBackfillDepth, "1", true},
                                         {kBackfillDepth, "10000", true},
                                         {kBackfillDepth, "10001", false},
                                         {kBackfillDepth, "0", false},
                                         {kBackfillDepth, "-3", false},
                                         {kBackfillDepth, " 7", false},
                                         {kBackfillUnknown, "Allow", true},
                                         {kBackfillUnknown, "true", false},
                                         {kExpectedRuntime, "1h30m", true},
                                         {kExpectedRuntime, "0s", false},
                                         {kExpectedRuntime, "-5m", false},
                                         {kExpectedRuntime, "soon", false}}) {
    INFO(row.annotation << "=" << row.value);
    CHECK(BackfillProblem(row.annotation, row.value).has_value() != row.good);
  }
}

TEST_CASE("the bound of a workload") {
  api::Workload workload = build::Workload("w").Get();
  CHECK(BoundOf(workload) == std::nullopt);
  CHECK(EndOf(workload, At(0)) == absl::InfiniteFuture());
  workload.metadata.annotations[kExpectedRuntime] = "10m";
  CHECK(BoundOf(workload) == absl::Minutes(10));
  workload.spec.maximum_execution_time_seconds = 60;  // it is enforced
  CHECK(BoundOf(workload) == absl::Seconds(60));
  workload.status.accumulated_past_execution_time_seconds = 45;
  CHECK(BoundOf(workload) == absl::Seconds(15));
  const absl::Time odd = At(5) + absl::Milliseconds(300);
  CHECK(EndOf(workload, odd) == At(21));
  CHECK(DeadlineOf(workload, odd, false) == At(20));
  CHECK(DeadlineOf(workload, odd, true) == absl::InfinitePast());
  CHECK(DeadlineOf(workload, absl::InfiniteFuture(), false) == absl::InfiniteFuture());
  workload.spec.maximum_execution_time_seconds.reset();
  workload.metadata.annotations[kExpectedRuntime] = "soon";
  CHECK(BoundOf(workload) == std::nullopt);
}

TEST_CASE("the first of a queue are those that would be popped, in order") {
  for (uint32_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
    QueueManager queues;
    queues.AddClusterQueue(
        "cq", {seed % 2 == 0 ? QueueingStrategy::kStrictFifo : QueueingStrategy::kBestEffortFifo,
               true, seed % 3 == 0, seed % 2 == 0});
    for (int i = 0; i < 40; ++i) {
      queues.AddOrUpdate(MakeWorkloadInfo(build::Workload("w" + std::to_string(i))
                                              .Queue("lq" + std::to_string(pick(3)))
                                              .Created(At(pick(20)))
                                              .Request("cpu", std::to_string(1 + pick(4)))
                                              .Priority(pick(2))
                                              .Shared(),
                                          "cq", {}),
                         At(0));
    }
    for (int i = 0; i < pick(5); ++i) {
      for (const WorkloadInfoPtr& head : queues.Heads(At(0))) {
        queues.Requeue(
            head->Key(),
            {.reason = pick(1) == 0 ? RequeueReason::kPendingPreemption : RequeueReason::kNoFit},
            At(0));
      }
    }
    std::vector<std::string> expected;
    for (const PendingWorkload& pending : queues.Snapshot("cq")) {
      if (pending.place == Place::kActive) expected.push_back(pending.info->Key().name);
    }
    for (const size_t count : {size_t{1}, size_t{7}, size_t{100}}) {
      std::vector<std::string> names;
      for (const WorkloadInfoPtr& info : queues.First("cq", count)) {
        names.push_back(info->Key().name);
      }
      const std::vector<std::string> first(
          expected.begin(),
          expected.begin() + static_cast<std::ptrdiff_t>(std::min(count, expected.size())));
      CHECK(names == first);
    }
  }
}

TEST_CASE("with backfill a newcomer behind a head that waits is a reason to look again") {
  for (const bool backfill : {false, true}) {
    QueueManager queues;
    queues.AddClusterQueue("cq", {QueueingStrategy::kStrictFifo, true, false, backfill});
    const auto add = [&](const char* name, double created) {
      queues.AddOrUpdate(
          MakeWorkloadInfo(
              build::Workload(name).Queue("lq").Created(At(created)).Request("cpu", "1").Shared(),
              "cq", {}),
          At(0));
    };
    add("a", 1);
    REQUIRE(queues.Heads(At(0)).size() == 1);
    queues.Requeue({"ns", "a"}, {.reason = RequeueReason::kNoFit}, At(0));
    CHECK_FALSE(queues.HasHeads(At(0)));
    add("b", 2);
    CHECK(queues.HasHeads(At(0)) == backfill);
    queues.CheckInvariants();
  }
}

}  // namespace
}  // namespace sluice::queueing
