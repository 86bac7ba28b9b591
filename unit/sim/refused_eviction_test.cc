// Who preempts is told when the API server does not take the eviction of a victim and why, and that
// nothing is wrong any more once it has.
#include <string>
#include <vector>

#include "admission/explain_text.h"
#include "api/names.h"
#include "sim/explain.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

constexpr char kPending[] =
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
    "2 more needed. Pending the preemption of 1 workload(s)";
constexpr char kFailed[] =
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
    "2 more needed. Preempting 1 workload(s) failed, will retry. The eviction of workload ns/";

// A victim of 2 that takes its time to end, and a preemptor of 2 where there are 2.
class Run {
 public:
  explicit Run(const std::vector<std::string>& victims = {"v cpu=2"}) : sim_({}) {
    Make(sim_, "namespace ns");
    Make(sim_, "flavor default");
    Make(sim_, "priorityclass high value=9");
    Make(sim_, "clusterqueue cq flavor=default{cpu=2} within=LowerPriority");
    Make(sim_, "localqueue q cq=cq");
    sim_.SetFaultHook([this](const state::Action& action, uint64_t /*number*/) {
      const bool eviction = action.kind == Kind::kWorkload && action.verb != state::Verb::kGet &&
                            ConditionTrue(action.body, api::kEvicted);
      if (!eviction || action.key.name.find(refused_) == std::string::npos) return FaultDecision{};
      ++tries_;
      return FaultDecision{fault_, code_};
    });
    sim_.Start();
    for (const std::string& victim : victims) Make(sim_, "job " + victim + " queue=q stopping=60s");
    Pass(absl::Seconds(10));
  }
  ~Run() {
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
  }

  void Refuse(const std::string& victim, int code, Fault fault = Fault::kFail) {
    refused_ = victim;
    code_ = code;
    fault_ = fault;
  }
  void Accept() { refused_ = "nobody"; }
  void Preempt() { Make(sim_, "job p queue=q cpu=2 priority=high"); }
  void Pass(absl::Duration time) { sim_.RunUntil(sim_.now() + time); }

  const Json& WorkloadOf(const std::string& job) const {
    for (const Json& workload : sim_.api().List(Kind::kWorkload)) {
      const Json* owners = workload.Find("metadata", "ownerReferences");
      if (owners != nullptr && owners->AsArray()[0].GetString("name") == job) {
        return found_ = workload;
      }
    }
    FAIL("no Workload of " << job);
    return found_;
  }
  std::string NameOf(const std::string& job) const {
    return WorkloadOf(job).GetString("metadata", "name");
  }
  // What its condition says about why it waits.
  std::string Message() const {
    for (const Json& condition : WorkloadOf("p").Find("status", "conditions")->AsArray()) {
      if (condition.GetString("type") == api::kQuotaReserved) return condition.GetString("message");
    }
    return "";
  }
  std::string Explained() const {
    return RenderExplanation(
        sim_.api(), ExplainOne(sim_.api(), sim_.settings(), {"ns", NameOf("p")}, sim_.now()));
  }
  bool Has(const std::string& job, const char* condition) const {
    return ConditionTrue(WorkloadOf(job), condition);
  }
  bool EventSays(const std::string& text) const {
    for (const Json& event : sim_.api().List(Kind::kEvent)) {
      if (event.GetString("note").find(text) != std::string::npos) return true;
    }
    return false;
  }
  int tries() const { return tries_; }
  Simulation& sim() { return sim_; }

 private:
  Simulation sim_;
  std::string refused_ = "nobody";
  int code_ = 503;
  Fault fault_ = Fault::kFail;
  int tries_ = 0;
  mutable Json found_;
};

bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("An eviction that is refused is told to who preempts, until it is written") {
  const int code = GENERATE(403, 409, 503);
  CAPTURE(code);
  Run run;
  const std::string why = kFailed + run.NameOf("v") +
                          " could not be written: " + std::to_string(code) + " Fault: injected";
  run.Refuse("v", code);
  run.Preempt();
  run.Pass(absl::Seconds(20));
  CHECK(run.tries() > 2);
  CHECK(run.Message() == why);
  CHECK(run.EventSays(why));
  // With the names of Jobs.
  CHECK(Contains(run.Explained(),
                 "to be preempted: ns/v\n  The eviction of workload ns/v could not be written: " +
                     std::to_string(code) + " Fault: injected; it is tried again"));
  run.Accept();
  run.Pass(absl::Seconds(30));
  CHECK(run.Has("v", api::kEvicted));
  CHECK(run.Message() == kPending);
  CHECK_FALSE(Contains(run.Explained(), "could not be written"));
  run.Pass(absl::Minutes(3));
  CHECK(run.Has("p", api::kAdmitted));
  CHECK(run.sim().Settled());
  run.sim().CheckSettled();
}

TEST_CASE("Nothing is told of an eviction that was refused once only") {
  Run run;
  run.Refuse("v", 409);
  run.Preempt();
  while (run.tries() == 0) run.Pass(absl::Milliseconds(1));
  run.Accept();
  run.Pass(absl::Seconds(20));
  CHECK(run.Has("v", api::kEvicted));
  CHECK(run.Message() == kPending);
  CHECK_FALSE(run.EventSays("could not be written"));
}

TEST_CASE("An eviction whose answer was lost is not told as refused for long") {
  Run run;
  run.Refuse("v", 0, Fault::kLoseReply);
  run.Preempt();
  run.Pass(absl::Seconds(40));
  CHECK(run.Has("v", api::kEvicted));
  CHECK(run.Message() == kPending);
}

TEST_CASE("Of two victims the one is named whose eviction is refused") {
  Run run({"v1 cpu=1", "v2 cpu=1"});
  run.Refuse("v1", 503);
  run.Preempt();
  run.Pass(absl::Seconds(20));
  CHECK(run.Has("v2", api::kEvicted));
  CHECK(Contains(run.Message(),
                 "Pending the preemption of 2 workload(s). The eviction of workload ns/" +
                     run.NameOf("v1") + " could not be written: 503"));
  CHECK(Contains(run.Explained(), "The eviction of workload ns/v1 could not be written: 503"));
  run.Accept();
  run.Pass(absl::Seconds(30));
  CHECK(Contains(run.Message(), "Pending the preemption of 2 workload(s)"));
  CHECK_FALSE(Contains(run.Message(), "could not be written"));
}

TEST_CASE("A victim that ends by itself takes the text about its eviction with it") {
  Run run;
  run.Refuse("v", 503);
  run.Preempt();
  run.Pass(absl::Seconds(20));
  REQUIRE(Contains(run.Message(), "could not be written"));
  const size_t before = run.sim().controller().remembered();
  run.sim().Delete(Kind::kJob, {"ns", "v"});
  run.Pass(absl::Minutes(3));
  CHECK(run.Has("p", api::kAdmitted));
  CHECK(run.sim().controller().remembered() < before);
}

}  // namespace
}  // namespace sluice::sim
