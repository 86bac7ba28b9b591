// The model of kube-scheduler does with gangs what the real one was seen to do: two nodes of 4 cpu,
// every pod asks for 1 cpu unless said.
#include "sim/scheduler.h"

#include <fmt/format.h>

#include <cstdlib>

#include "state/settings.h"
#include "unit/catch.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;
using state::Verb;

struct Pod {
  const char* name;
  bool gated = false;
  const char* cpu = "1";
  const char* priority = "";  // spec.priority
};

class Cluster {
 public:
  Cluster() : api_(settings_, Options()), scheduler_(api_) {
    for (const char* name : {"n1", "n2"}) {
      Json node = Json::MakeObject();
      node["metadata"].Set("name", name);
      node["metadata"]["labels"].Set("rack", std::string("r-") + name);
      Execute(Verb::kCreate, Kind::kNode, {"", name}, node);
      Json status = Json::MakeObject();
      status["status"]["allocatable"].Set("cpu", "4");
      Execute(Verb::kMergePatch, Kind::kNode, {"", name}, status, "status");
    }
    Run();
  }

  void Group(int min, const char* topology = "") {
    Json group = Json::MakeObject();
    group["spec"]["schedulingPolicy"]["gang"].Set("minCount", min);
    if (*topology != '\0') {
      group["spec"]["schedulingConstraints"]["topology"].Append(
          Json::MakeObject({{"key", topology}}));
    }
    Execute(Verb::kCreate, Kind::kPodGroup, {"default", "g"}, group);
    Run();
  }
  void BasicGroup() {
    Json group = Json::MakeObject();
    group["spec"]["schedulingPolicy"].Set("basic", Json::MakeObject());
    Execute(Verb::kCreate, Kind::kPodGroup, {"default", "g"}, group);
    Run();
  }
  void SetMin(int min) {
    Json patch = Json::MakeObject();
    patch["spec"]["schedulingPolicy"]["gang"].Set("minCount", min);
    Execute(Verb::kMergePatch, Kind::kPodGroup, {"default", "g"}, patch);
    Run();
  }
  void Add(const Pod& pod) {
    Json object = Json::MakeObject();
    Json container = Json::MakeObject({{"name", "c"}});
    container["resources"]["requests"].Set("cpu", pod.cpu);
    object["spec"].Set("containers", Json::MakeArray({container}));
    object["spec"]["schedulingGroup"].Set("podGroupName", "g");
    if (pod.gated) object["spec"]["schedulingGates"].Append(Json::MakeObject({{"name", "x/hold"}}));
    if (*pod.priority != '\0') object["spec"].Set("priority", int64_t{std::atoi(pod.priority)});
    Execute(Verb::kCreate, Kind::kPod, {"default", pod.name}, object);
    Run();
  }
  void Add(int from, int to, bool gated = false) {
    for (int i = from; i <= to; ++i) Add({fmt::format("p{}", i).c_str(), gated});
  }
  void Ungate(const std::string& name) {
    Json patch = Json::MakeObject();
    patch["spec"].Set("schedulingGates", Json());
    Execute(Verb::kMergePatch, Kind::kPod, {"default", name}, patch);
    Run();
  }
  void Annotate(const std::string& name) {
    Json patch = Json::MakeObject();
    patch["metadata"]["annotations"].Set("touched", "yes");
    Execute(Verb::kMergePatch, Kind::kPod, {"default", name}, patch);
    Run();
  }
  void BindByHand(const std::string& name, const char* node) {
    Json patch = Json::MakeObject();
    patch["spec"].Set("nodeName", node);
    Execute(Verb::kMergePatch, Kind::kPod, {"default", name}, patch);
    Run();
  }
  void Succeed(const std::string& name) {
    Json patch = Json::MakeObject();
    patch["status"].Set("phase", "Succeeded");
    Execute(Verb::kMergePatch, Kind::kPod, {"default", name}, patch, "status");
    Run();
  }
  void Delete(const std::string& name) {
    // As the kubelet does when the pod has stopped.
    Execute(Verb::kDelete, Kind::kPod, {"default", name},
            Json::MakeObject({{"gracePeriodSeconds", 0}}));
    Run();
  }
  void Wait(absl::Duration time) {
    now_ += time;
    if (scheduler_.NextDue() <= now_) Run();
  }

  int Bound() const {
    int count = 0;
    api_.ForEach(Kind::kPod, [&](const Json& pod) {
      const bool ended = pod.GetString("status", "phase") == "Succeeded";
      count += !ended && !pod.GetString("spec", "nodeName").empty() ? 1 : 0;
    });
    return count;
  }
  std::string NodeOf(const std::string& name) const {
    return api_.Find(Kind::kPod, {"default", name})->GetString("spec", "nodeName");
  }
  // Reason of the condition; "" when there is none.
  std::string Said(Kind kind, const std::string& name) const {
    const Json* conditions = api_.Find(kind, {"default", name})->Find("status", "conditions");
    return conditions == nullptr ? "" : conditions->AsArray().front().GetString("reason");
  }

 private:
  static ApiServerOptions Options() {
    ApiServerOptions options;
    options.features = {true, true};
    return options;
  }
  void Run() {
    scheduler_.Run(now_);
    now_ += absl::Seconds(1);
  }
  void Execute(Verb verb, Kind kind, ObjectKey key, Json body, const std::string& part = "") {
    state::Action action;
    action.verb = verb;
    action.kind = kind;
    action.key = std::move(key);
    action.subresource = part;
    action.body = std::move(body);
    const state::Reply reply = api_.Execute(action, now_);
    INFO(action.key.ToString() << ": " << reply.message);
    REQUIRE(reply.ok());
  }

  state::Settings settings_;
  absl::Time now_ = absl::FromUnixSeconds(1767225600);
  ApiServer api_;
  Scheduler scheduler_;
};

TEST_CASE("A gated member holds all pending ones; the last gate starts them, bound ones stay") {
  Cluster c;
  c.Group(4);
  c.Add(1, 4, true);
  CHECK(c.Bound() == 0);  // 1
  CHECK(c.Said(Kind::kPodGroup, "g").empty());
  for (const char* name : {"p1", "p2", "p3"}) c.Ungate(name);
  CHECK(c.Bound() == 0);  // 2
  c.Ungate("p4");
  CHECK(c.Bound() == 4);  // 3
  CHECK(c.Said(Kind::kPodGroup, "g") == "Scheduled");
  c.Delete("p1");
  c.Delete("p2");
  c.Add({"p5"});
  CHECK(c.Bound() == 2);  // 4
  CHECK(c.Said(Kind::kPod, "p5").empty());
  c.Add({"p6", true});
  CHECK(c.Bound() == 2);  // 5
  c.Ungate("p6");
  CHECK(c.Bound() == 4);  // 6
}

TEST_CASE("After a gated member was deleted the others wait until one is touched") {
  Cluster c;
  c.Group(2);
  c.Add({"a"});
  c.Add({"b", true});
  c.Add({"c"});
  CHECK(c.Bound() == 0);  // 7; a alone is below the minimum
  c.Delete("b");
  CHECK(c.Bound() == 0);                            // 8
  SECTION("by an annotation") { c.Annotate("a"); }  // 9
  SECTION("by the flush of what waits for five minutes") {
    c.Wait(absl::Minutes(4));
    CHECK(c.Bound() == 0);
    c.Wait(absl::Minutes(2));
  }
  CHECK(c.Bound() == 2);
}

TEST_CASE("A gang that does not fit is not bound at all; a lower minimum lets it start") {
  Cluster c;
  c.Group(10);
  c.Add(1, 10);
  CHECK(c.Bound() == 0);  // 10
  CHECK(c.Said(Kind::kPodGroup, "g") == "Unschedulable");
  c.SetMin(8);
  CHECK(c.Bound() == 8);  // 11
}

TEST_CASE("What runs counts for the minimum of those that come") {
  Cluster c;
  c.Group(4);
  c.Add(1, 4);
  REQUIRE(c.Bound() == 4);
  SECTION("only one of two fits, and both are needed") {
    c.SetMin(6);
    c.Add({"big", false, "2"});
    c.Add({"bigger", false, "2500m"});
    CHECK(c.Bound() == 4);  // 12
    c.SetMin(5);
    CHECK(c.Bound() == 5);  // 13
    CHECK_FALSE(c.NodeOf("big").empty());
  }
  SECTION("a higher minimum does nothing to what runs") {
    c.SetMin(9);
    CHECK(c.Bound() == 4);  // 14
  }
}

TEST_CASE("With a topology key all go into one domain, later ones too") {
  Cluster c;
  c.Group(5, "rack");
  c.Add(1, 5);
  CHECK(c.Bound() == 0);  // 15
  CHECK(c.Said(Kind::kPodGroup, "g") == "Unschedulable");
  c.SetMin(4);
  CHECK(c.Bound() == 4);  // 16
  for (const char* name : {"p2", "p3", "p4"}) CHECK(c.NodeOf(name) == c.NodeOf("p1"));
  const std::string home = c.NodeOf("p1");
  c.Delete("p2");
  CHECK(c.Bound() == 4);
  CHECK(c.NodeOf("p5") == home);
}

TEST_CASE("Priorities that differ from the group's are an error of all") {
  Cluster c;
  c.Group(2);
  c.Add({"a", false, "1", "1000"});
  c.Add({"b", false, "1", "1000"});
  CHECK(c.Bound() == 0);  // 17
  CHECK(c.Said(Kind::kPodGroup, "g") == "SchedulerError");
  CHECK(c.Said(Kind::kPod, "a") == "SchedulerError");
}

TEST_CASE("A member that somebody else has bound counts") {
  Cluster c;
  c.Group(3);
  c.Add(1, 3, true);
  c.Ungate("p1");
  c.BindByHand("p1", "n1");
  c.Ungate("p2");
  CHECK(c.Bound() == 1);  // 18
  c.Ungate("p3");
  CHECK(c.Bound() == 3);
}

TEST_CASE("A pod that succeeded leaves the count") {
  Cluster c;
  c.Group(3);
  c.Add(1, 3);
  REQUIRE(c.Bound() == 3);
  c.Succeed("p1");
  c.Delete("p2");
  c.Add({"p4"});
  CHECK(c.Bound() == 1);  // 19
  CHECK(c.Said(Kind::kPod, "p4").empty());
  c.SetMin(2);
  CHECK(c.Bound() == 2);  // 20
}

TEST_CASE("In a group without a minimum a gated member holds the others too") {
  Cluster c;
  c.BasicGroup();
  c.Add({"a", true});
  c.Add({"b"});
  CHECK(c.Bound() == 0);  // 21
  c.Ungate("a");
  CHECK(c.Bound() == 2);
}

TEST_CASE("Pods wait for their group") {
  Cluster c;
  c.Add(1, 2);
  CHECK(c.Bound() == 0);  // 22
  CHECK(c.Said(Kind::kPod, "p1").empty());
  c.Group(2);
  CHECK(c.Bound() == 2);
}

}  // namespace
}  // namespace sluice::sim
