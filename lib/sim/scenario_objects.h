// The short notation of objects in scenarios: a kind, a name and words KEY=VALUE.
//
//   namespace NAME [LABEL=VALUE]...
//   flavor NAME [label:KEY=VALUE]... [taint:KEY=VALUE:EFFECT]... [tolerate:KEY=VALUE:EFFECT]...
//       [topology=NAME]
//   topology NAME levels=LABEL[,LABEL]...
//   node NAME [RESOURCE=AMOUNT]... [label:KEY=VALUE]... [taint:KEY=VALUE:EFFECT]...
//       [unschedulable=BOOL] [ready=BOOL] [condition:TYPE=STATUS]... [annotation:KEY=VALUE]...
//   clusterqueue NAME [flavor=NAME{RESOURCE=QUOTA,...}]... [cohort=] [strategy=] [stop=]
//       [selector:KEY=VALUE]... [check=NAME]... [weight=AMOUNT] [mode=ADMISSIONMODE]
//       [annotation:KEY=VALUE]...
//       [within=POLICY] [reclaim=POLICY] [borrowwithin=POLICY[:MAXPRIORITY]]
//       [fungibility=borrow:WHAT,preempt:WHAT,preference:WHAT]
//       QUOTA is NOMINAL[/borrow=LIMIT][/lend=LIMIT], as in cpu=4/borrow=2/lend=1; flavors with the
//       same resources one after the other form a resource group
//   cohort NAME [parent=COHORT] [flavor=NAME{RESOURCE=QUOTA,...}]... [weight=AMOUNT]
//   localqueue NAME cq=NAME [stop=] [weight=AMOUNT]
//   priorityclass NAME value=N              WorkloadPriorityClass
//   podpriorityclass NAME value=N [default=true]
//   admissioncheck NAME [controller=NAME] [active=BOOL]
//   runtimeclass NAME [RESOURCE=AMOUNT]...
//   limitrange NAME [default:RESOURCE=AMOUNT]... [max:RESOURCE=AMOUNT]... [min:RESOURCE=AMOUNT]...
//   job NAME [queue=] [priority=CLASS] [podpriority=CLASS] [run=TIME[,TIME...]] [stopping=TIME]
//       [parallelism=N] [completions=N] [indexed=true] [suspend=BOOL] [prebuilt=NAME] [maxexec=N]
//       [selector:KEY=VALUE]... [tolerate:KEY=VALUE:EFFECT]... [runtimeclass=NAME] [fail=true]
//       [limit:RESOURCE=AMOUNT]... [RESOURCE=AMOUNT]... [label:KEY=VALUE]...
//       [podannotation:KEY=VALUE]... of the pod template
//       [annotation:KEY=VALUE]... [ready=TIME[,TIME...]] [minparallelism=N]
//       ready: how long the first, second, ... pod after each start takes to be ready, or "never"
//   pod NAME [in=PODGROUP] [group=NAME] [total=N] [role=ROLE] [index=N] [fast=true] [serving=true]
//       [retriable=false] and the words of a job but those about counts and suspension; run, ready
//       and stopping have one time; [node=NAME] for a pod that is bound already
//   workload NAME [queue=] [priority=N] [count=N] [mincount=N] [RESOURCE=AMOUNT]...
//       [podset:NAME=WORD,WORD,...]... in place of the one pod set "main"
//       [gate=NAME]... preemption gates [annotation:KEY=VALUE]...
//       [required=LEVEL] [preferred=LEVEL] [unconstrained=BOOL] [slice=LEVEL:SIZE] [group=NAME]
//       [layers=LEVEL:SIZE+LEVEL:SIZE...] topology of a pod set
// All namespaced kinds take ns=NAME.
#pragma once

#include <absl/status/statusor.h>

#include <string>
#include <vector>

#include "api/json.h"
#include "api/kind.h"

namespace sluice::sim {

struct ObjectText {
  api::Kind kind = api::Kind::kJob;
  std::string ns;
  api::Json object;
  api::Json status;  // to be written after the creation; null for none
};

absl::StatusOr<ObjectText> ParseObject(const std::vector<std::string>& words);
// The kind of a word such as "job", "clusterqueue" or "cq".
absl::StatusOr<api::Kind> ParseKind(const std::string& word);
// Words at spaces; double quotes keep spaces together and are dropped, braces are kept whole.
std::vector<std::string> SplitWords(const std::string& line);

}  // namespace sluice::sim
