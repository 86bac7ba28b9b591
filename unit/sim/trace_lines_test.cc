// Broken lines of a trace, left out and counted. That they are errors otherwise is in
// trace_test.cc.
#include <memory>
#include <string>

#include "sim/swf.h"
#include "sim/trace_cluster.h"
#include "sim/trace_text.h"
#include "unit/catch.h"

namespace sluice::sim {
namespace {

constexpr char kCluster[] = R"(
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: v1
kind: Namespace
metadata: {name: a}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: a}
spec:
  namespaceSelector: {}
  resourceGroups:
  - {coveredResources: [cpu], flavors: [{name: default, resources: [{name: cpu, nominalQuota: 4}]}]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: q, namespace: a}
spec: {clusterQueue: a}
)";

std::unique_ptr<TraceCluster> MakeCluster() {
  auto cluster = TraceCluster::Load({{"cluster.yaml", kCluster}}, state::Settings{});
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

struct Read {
  absl::Status status;
  Trace trace;
};

template <typename Reader>
Read Leniently(Reader reader) {
  const auto cluster = MakeCluster();
  TraceBuilder builder(*cluster);
  builder.SkipBrokenLines();
  Read read;
  read.status = reader(builder);
  if (!read.status.ok()) return read;
  absl::StatusOr<Trace> trace = builder.Finish();
  read.status = trace.status();
  if (trace.ok()) read.trace = *std::move(trace);
  return read;
}
Read Csv(const std::string& text) {
  return Leniently([&](TraceBuilder& builder) { return ReadCsvTrace({"t.csv", text}, builder); });
}

TEST_CASE("broken lines of JSON are left out, and counted") {
  const Read read = Leniently([](TraceBuilder& builder) {
    return ReadJsonTrace({"t.jsonl", R"({"submit":0,"run":1,"queue":"a/q"}
{"submit":
[]
{"submit":2,"run":1,"queue":"a/q"}
)"},
                         builder);
  });
  REQUIRE(read.status.ok());
  CHECK(read.trace.jobs.size() == 2);
  REQUIRE(read.trace.notes.size() == 3);
  CHECK(read.trace.notes[0] == "2 broken lines were left out");
  CHECK(read.trace.notes[1].starts_with("left out: t.jsonl:2: "));
  CHECK(read.trace.notes[2] == "left out: t.jsonl:3: the line is no JSON object");
}

TEST_CASE("only the first broken lines are told one by one") {
  std::string text = "submit,run,queue\n0,1,a/q\n";
  for (int i = 0; i < 100; ++i) text += "x,1,a/q\n";
  const Read read = Csv(text);
  REQUIRE(read.status.ok());
  CHECK(read.trace.jobs.size() == 1);
  REQUIRE(read.trace.notes.size() == 6);
  CHECK(read.trace.notes[0] == "100 broken lines were left out");
  CHECK(read.trace.notes[5].starts_with("left out: t.csv:7: submit: "));
}

TEST_CASE("of workloads with one name the first stays") {
  const Read read =
      Csv("name,submit,run,queue\nx,5,1,a/q\nx,0,2,a/q\ny,1,1,a/q\nx,9,3,a/q\ny,0,2,a/q\n");
  REQUIRE(read.status.ok());
  REQUIRE(read.trace.jobs.size() == 2);
  CHECK(read.trace.jobs[0].name == "y");
  CHECK(read.trace.jobs[0].line == 4);
  CHECK(read.trace.jobs[1].name == "x");
  CHECK(read.trace.jobs[1].line == 2);
  CHECK(read.trace.notes[0] == "3 broken lines were left out");
}

TEST_CASE("broken lines of a log are left out, and counted") {
  const Read read = Leniently([](TraceBuilder& builder) {
    SwfOptions options;
    options.other = ObjectKey{"a", "q"};
    return ReadSwfTrace({"t.swf",
                         "; UnixStartTime: never\n"
                         "1 0 1 5 1 -1 -1 1 5 -1 1 1 1 1 1 1 -1 -1\n"
                         "2 0 garbage\n"},
                        options, builder);
  });
  REQUIRE(read.status.ok());
  CHECK(read.trace.jobs.size() == 1);
  REQUIRE(read.trace.notes.size() == 3);
  CHECK(read.trace.notes[0] == "2 broken lines were left out");
  CHECK(read.trace.notes[2].starts_with("left out: t.swf:3: "));
}

TEST_CASE("a header that cannot be read is never left out, and nothing is no trace") {
  CHECK(std::string(Csv("submit,run,queue,colour\n0,1,a/q,red\n").status.message()) ==
        "t.csv:1: \"colour\" is neither a column nor a resource");
  CHECK(std::string(Csv("submit,run,queue\n0,1,q\n0,x,a/q\n").status.message()) ==
        "t.csv:2: queue: \"q\" has no namespace (write NAMESPACE/NAME)");
}

}  // namespace
}  // namespace sluice::sim
