// Scenarios: plain-text files (.scn) that say what is in a cluster, what happens when, and what
// must come out. The runner plays one in a Simulation.
//
//   # Two Jobs share a queue.                 comments
//   settings retention.afterFinished=60s      options of the controller, see below
//   cluster:
//     namespace team
//     flavor default
//     clusterqueue cq flavor=default{cpu=4,memory=8Gi}
//     localqueue q ns=team cq=cq
//   timeline:
//     at 0s create job a ns=team queue=q cpu=2 run=30s
//     at 10s show
//   ----
//   10s
//     cq cq: active; pending 0, reserving 1, admitted 1; default cpu=2
//     ...
//
// Everything after "----" is the full expected text; nothing else may come out. A request that the
// API server refuses writes a line with code and message. Objects: the notation of
// scenario_objects.h or a YAML document as an indented block after the word "yaml". The namespace
// is "ns" unless given and exists from the start.
//
// Timeline commands: create OBJECT; yaml; patch KIND [NS/]NAME JSON; status KIND [NS/]NAME JSON;
// delete KIND [NS/]NAME [foreground]; activate JOB; deactivate JOB; check JOB CHECK STATE
// [message="..."] [after=SECONDS]; start (the controller starts; at once when the timeline has
// none); crash; leader N; relist; features WORD (as nativeGangs below, from now on); settled (a new
// controller must have nothing to do); explain JOB [json] (why it waits);
// show [cq lq cohort wl job pod podgroup flavor check event]. Settings:
// manageJobsWithoutQueueName, waitForPodsReady=off, waitForPodsReady.FIELD (timeout,
// recoveryTimeout, blockAdmission, timestamp, backoffLimitCount, backoffBaseSeconds,
// backoffMaxSeconds; recoveryTimeout follows timeout until it is given), retention.afterFinished,
// retention.afterDeactivated, preemption.FIELD (checkpointGracePeriod, maxPerWorkload, window),
// excludeResources=PREFIX, pods=on (the pod integration),
// copyLabel=KEY, transform=INPUT:STRATEGY[:OUTPUT*FACTOR,...], quotaCheck=IgnoreUndeclared,
// fairSharing=on (both strategies) or their names, replicas, readiness=DURATION, stop=DURATION,
// gate.NAME=BOOL, nativeGangs=jobs (the Job controller makes PodGroups), podgroups (only they are
// served) or off, scheduler=on (pods, those of Jobs too, are objects that a scheduler binds to
// nodes), admissionFairSharing.KEY (halfLife, sampling, weight.RESOURCE; any of them turns it on).
//
// A mistake in the file is an error that names its line. Pure; deterministic.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <string_view>

#include "api/json.h"

namespace sluice::sim {

struct ScenarioText {
  std::string script;    // up to and with the line "----"
  std::string expected;  // all after it
};
ScenarioText SplitScenario(const std::string& text);

// Plays the script and returns what came out. Broken invariants come out as lines "violation: ...".
absl::StatusOr<std::string> PlayScenario(const std::string& script);

// The same, with an explanation for every Workload that waits at the end.
struct ScenarioOutcome {
  std::string text;
  std::string explanation;                  // lines
  api::Json json = api::Json::MakeArray();  // the same for programs
};
absl::StatusOr<ScenarioOutcome> PlayScenarioAndExplain(const std::string& script);

// Line by line: " " same, "-" expected only, "+" came out only. Empty when equal.
std::string DiffLines(const std::string& expected, const std::string& actual);

// One YAML document as JSON, with the types of YAML's core schema.
absl::StatusOr<api::Json> YamlToJson(const std::string& text);

}  // namespace sluice::sim
