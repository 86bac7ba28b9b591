#include "admission/pods_ready.h"

#include <limits>

#include "admission/conditions.h"
#include "api/names.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::admission {
namespace {

using api::ConditionStatus;
using build::At;

build::Workload Admitted() {
  build::Workload workload("w");
  workload.Uid("uid-1").Request("cpu", "1").Admitted("cq", "f", At(100));
  return workload;
}

api::Workload With(bool admitted, const char* status, const char* reason) {
  build::Workload workload = admitted ? Admitted() : build::Workload("w");
  if (*status == '\0') return workload;
  return workload.Condition(api::kPodsReady,
                            *status == 'T' ? ConditionStatus::kTrue : ConditionStatus::kFalse,
                            reason, At(110));
}

TEST_CASE("what PodsReady says") {
  struct Row {
    bool admitted;
    const char* status;  // before: "" for no condition
    const char* reason;
    bool all_ready;
    bool ready;
    const char* next;
  };
  const Row row = GENERATE(values<Row>({
      {false, "", "", false, false, "WaitForStart"},
      {false, "", "", true, false, "WaitForStart"},
      {false, "True", "Started", true, false, "WaitForStart"},
      {false, "False", "WaitForRecovery", false, false, "WaitForStart"},
      {true, "", "", false, false, "WaitForStart"},
      {true, "False", "WaitForStart", false, false, "WaitForStart"},
      {true, "False", "PodsReady", false, false, "WaitForStart"},
      {true, "", "", true, true, "Started"},
      {true, "False", "WaitForStart", true, true, "Started"},
      {true, "True", "Started", true, true, "Started"},
      {true, "True", "Started", false, false, "WaitForRecovery"},
      {true, "True", "Recovered", false, false, "WaitForRecovery"},
      {true, "False", "WaitForRecovery", false, false, "WaitForRecovery"},
      {true, "False", "WaitForRecovery", true, true, "Recovered"},
      {true, "True", "Recovered", true, true, "Recovered"},
  }));
  INFO(row.admitted << " " << row.status << " " << row.reason << " " << row.all_ready);
  const api::Condition next =
      PodsReadyCondition(With(row.admitted, row.status, row.reason), row.all_ready);
  CHECK(next.type == "PodsReady");
  CHECK((next.status == ConditionStatus::kTrue) == row.ready);
  CHECK(next.reason == row.next);
  const std::string text = row.ready ? "All pods reached readiness and the workload is running"
                           : next.reason == "WaitForRecovery"
                               ? "At least one pod has failed, waiting for recovery"
                               : "Not all pods are ready or succeeded";
  CHECK(next.message == text);
}

TEST_CASE("a start is counted from the admission, a recovery from the failure") {
  const PodsReadyTimeouts timeouts{absl::Seconds(30), absl::Seconds(7)};
  const auto due = [&](const api::Workload& workload) {
    return PodsReadyDeadlineOf(workload, timeouts);
  };
  for (const char* reason : {"", "WaitForStart", "PodsReady"}) {
    INFO(reason);
    const auto deadline = due(With(true, *reason == '\0' ? "" : "False", reason));
    REQUIRE(deadline);
    CHECK(deadline->due == At(130));
    CHECK(deadline->cause == "WaitForStart");
  }
  const auto recovery = due(With(true, "False", "WaitForRecovery"));
  REQUIRE(recovery);
  CHECK(recovery->due == At(117));
  CHECK(recovery->cause == "WaitForRecovery");
  CHECK_FALSE(PodsReadyDeadlineOf(With(true, "False", "WaitForRecovery"),
                                  {absl::Seconds(30), absl::ZeroDuration()}));
  CHECK(PodsReadyDeadlineOf(With(true, "False", "WaitForStart"),
                            {absl::Seconds(30), absl::ZeroDuration()}));

  CHECK_FALSE(due(With(true, "True", "Started")));
  CHECK_FALSE(due(With(false, "False", "WaitForStart")));
  CHECK_FALSE(due(build::Workload("w").Request("cpu", "1").Reserved("cq", "f")));
  CHECK_FALSE(due(Admitted().Active(false)));
  CHECK_FALSE(due(Admitted().Evicted("Preempted", At(120))));
}

TEST_CASE("each pause is twice as long as the one before, up to the maximum") {
  const auto seconds = [](const RequeueBackoff& backoff, int32_t attempt) {
    return absl::ToInt64Seconds(RequeueDelay(backoff, attempt, "uid-1"));
  };
  const int64_t expected[] = {60, 120, 240, 480, 960, 1920, 3600, 3600};
  for (int32_t n = 1; n <= 8; ++n) {
    INFO(n);
    const absl::Duration delay = RequeueDelay({}, n, "uid-1");
    const absl::Duration base = absl::Seconds(expected[n - 1]);
    CHECK(delay >= base);
    CHECK(delay < base + base / 10000);
  }
  CHECK(seconds({.base_seconds = 100, .max_seconds = 10}, 1) == 100);
  CHECK(seconds({.base_seconds = 100, .max_seconds = 10}, 2) == 10);
  CHECK(seconds({.base_seconds = 100, .max_seconds = 10}, 9) == 10);
  CHECK(seconds({.base_seconds = 0, .max_seconds = 10}, 9) == 0);
  const int64_t long_pause = seconds({.base_seconds = 60, .max_seconds = 0}, 11);
  CHECK(long_pause >= 60 * 1024);
  CHECK(long_pause <= 60 * 1024 + 6);
  // However many there were, the instant has a year of four digits.
  const absl::Time far =
      At(0) + RequeueDelay({.base_seconds = std::numeric_limits<int32_t>::max(), .max_seconds = 0},
                           std::numeric_limits<int32_t>::max(), "uid-1");
  CHECK(far < At(0) + absl::Hours(24 * 366 * 70));
}

TEST_CASE("the jitter differs between Workloads and is always the same for one") {
  int different = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string uid = "uid-" + std::to_string(i);
    const absl::Duration delay = RequeueDelay({}, 7, uid);
    CHECK(delay == RequeueDelay({}, 7, uid));
    if (delay != RequeueDelay({}, 8, uid)) ++different;
    if (delay != RequeueDelay({}, 7, uid + "0")) ++different;
  }
  CHECK(different > 190);
}

TEST_CASE("the state of the next try") {
  const RequeueBackoff backoff{10, 1000};
  api::RequeueState first = NextRequeueState(Admitted(), backoff, At(500.9));
  CHECK(first.count == 1);
  CHECK(first.requeue_at == At(510));  // whole seconds
  api::RequeueState third = NextRequeueState(Admitted().RequeueAt(At(400), 2), backoff, At(500));
  CHECK(third.count == 3);
  CHECK(third.requeue_at == At(540));
  // A later instant that somebody set before stays.
  api::RequeueState later = NextRequeueState(Admitted().RequeueAt(At(999), 2), backoff, At(500));
  CHECK(later.count == 3);
  CHECK(later.requeue_at == At(999));
  const int32_t most = std::numeric_limits<int32_t>::max();
  CHECK(NextRequeueState(Admitted().RequeueAt(At(1), most), backoff, At(500)).count == most);
}

TEST_CASE("the end of an eviction takes readiness back") {
  api::Workload workload = With(true, "False", "WaitForRecovery");
  SetEvicted(workload, kEvictedPodsReadyTimeout, kWaitForRecovery, "late", At(120));
  REQUIRE(ReleaseQuota(workload, At(130)));
  const api::Condition* ready = api::FindCondition(workload.status.conditions, api::kPodsReady);
  REQUIRE(ready != nullptr);
  CHECK(ready->reason == "WaitForStart");
  CHECK(ready->last_transition_time == At(110));
  api::Workload without = Admitted();
  SetEvicted(without, kEvictedPreempted, "", "room", At(120));
  REQUIRE(ReleaseQuota(without, At(130)));
  CHECK(api::FindCondition(without.status.conditions, api::kPodsReady) == nullptr);
}

TEST_CASE("what an eviction counted") {
  const api::Workload before = Admitted();
  api::Workload after = before;
  CHECK_FALSE(NewEviction(before, after));
  SetEvicted(after, kEvictedPodsReadyTimeout, kWaitForStart, "late", At(120));
  CHECK(NewEviction(before, after) == api::EvictionStat{"PodsReadyTimeout", "WaitForStart", 1});
  const api::Workload once = after;
  CHECK_FALSE(NewEviction(once, after));
  ReleaseQuota(after, At(130));
  api::RemoveCondition(after.status.conditions, api::kEvicted);
  SetEvicted(after, kEvictedPodsReadyTimeout, kWaitForStart, "late", At(140));
  CHECK(NewEviction(once, after) == api::EvictionStat{"PodsReadyTimeout", "WaitForStart", 2});
  api::Workload deactivated = once;
  SetEvicted(deactivated, kDeactivated, kCauseRequeuingLimitExceeded, "enough", At(150));
  CHECK(NewEviction(once, deactivated) ==
        api::EvictionStat{"Deactivated", "RequeuingLimitExceeded", 1});
}

}  // namespace
}  // namespace sluice::admission
