// Random clusters with topologies, nodes that come, go and fill, pods that are not ours, several
// flavors on the same nodes, preemption, and faults: no domain is ever given more than it has, a
// World built anew knows the same, everything becomes quiet, and what waits then could not be
// placed by a new controller either. Most are Jobs; of the Workloads without one, which never end
// when they are evicted, some stand in the way for ever.
#include <fmt/format.h>

#include <random>

#include "sim/scenario_objects.h"
#include "unit/catch.h"
#include "unit/sim/helpers.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

class RandomTopology {
 public:
  enum class Mode { kPlain, kFaults, kLateWatch };
  RandomTopology(uint64_t seed, Mode mode)
      : engine_(seed),
        faults_(mode != Mode::kPlain),
        late_(mode == Mode::kLateWatch),
        sim_(Options()) {}

  void Run() {
    Build();
    sim_.Start();
    if (faults_) {
      sim_.SetFaultHook([this](const state::Action&, uint64_t) { return RandomFault(); });
    }
    for (int i = 0; i < 60; ++i) {
      sim_.RunUntil(sim_.now() + absl::Milliseconds(Below(4000)));
      Act();
      if (late_) DelayWatch();
    }
    sim_.SetFaultHook(nullptr);
    sim_.SetWatchDelay(Kind::kWorkload, absl::ZeroDuration());
    sim_.RunUntil(sim_.now() + absl::Minutes(40));
    const uint64_t writes = sim_.writes();
    sim_.RunUntil(sim_.now() + absl::Minutes(30));
    CHECK(sim_.writes() == writes);  // nothing happens, so nothing is written
    CHECK(sim_.Settled());
    if (sim_.Settled() && sim_.violations().empty()) sim_.CheckSettled();
    if (!sim_.violations().empty()) UNSCOPED_INFO(text_);
    for (const std::string& text : sim_.trace()) UNSCOPED_INFO(text);
    for (const std::string& text : sim_.violations()) UNSCOPED_INFO(text);
    CHECK(sim_.violations().empty());
  }
  int placed() const {
    int count = 0;
    sim_.api().ForEach(Kind::kWorkload, [&](const Json& workload) {
      const Json* assignments = workload.Find("status", "admission", "podSetAssignments");
      if (assignments == nullptr) return;
      for (const Json& one : assignments->AsArray()) count += one.Has("topologyAssignment") ? 1 : 0;
    });
    return count;
  }

 private:
  int Below(int limit) { return static_cast<int>(engine_() % static_cast<uint64_t>(limit)); }
  bool OneIn(int n) { return Below(n) == 0; }

  SimulationOptions Options() {
    SimulationOptions options;
    options.replicas = faults_ ? 2 : 1;
    options.settings.wait_for_pods_ready.reset();
    return options;
  }

  // What may have happened is answered with an error, or not at all, and the watch is late.
  FaultDecision LateFault() {
    constexpr int kCodes[] = {409, 500, 503, 504};
    FaultDecision decision;
    decision.fault = OneIn(3) ? Fault::kLoseReply : Fault::kFailAfter;
    decision.code = kCodes[Below(4)];
    return decision;
  }
  void DelayWatch() {
    constexpr int kSeconds[] = {0, 0, 3, 40};
    sim_.SetWatchDelay(Kind::kWorkload, absl::Seconds(kSeconds[Below(4)]));
  }

  FaultDecision RandomFault() {
    if (Below(100) >= 5) return {};
    constexpr Fault kFaults[] = {Fault::kLoseRequest, Fault::kLoseReply,   Fault::kFail,
                                 Fault::kDuplicate,   Fault::kCrashBefore, Fault::kCrashAfter};
    FaultDecision decision;
    if (late_) return LateFault();
    decision.fault = kFaults[Below(6)];
    constexpr int kCodes[] = {500, 503, 409, 429, 504};
    decision.code = kCodes[Below(5)];
    return decision;
  }

  void Make(const std::string& text) {
    text_ += text + "\n";
    sim::Make(sim_, text);
  }
  void Delete(Kind kind, const std::string& ns, const std::string& name) {
    text_ += fmt::format("delete {}\n", name);
    sim_.Delete(kind, {ns, name}, "Background");
  }
  void Patch(const std::string& name, const std::string& patch, const std::string& subresource) {
    text_ += fmt::format("patch {} {}\n", name, patch);
    sim_.Patch(Kind::kNode, {"", name}, *api::ParseJson(patch), subresource);
  }

  void Build() {
    Make("namespace ns");
    Make("topology deep levels=block,rack,kubernetes.io/hostname");
    Make("topology flat levels=block,rack");
    Make("flavor tas label:pool=a topology=deep");
    Make(fmt::format("flavor other label:pool=a topology={}", OneIn(3) ? "flat" : "deep"));
    Make("flavor plain");
    for (int i = 0; i < 3; ++i) Make(fmt::format("priorityclass p{} value={}", i, i));
    static const char* const kPolicies[] = {"", " within=LowerPriority",
                                            " within=LowerOrNewerEqualPriority reclaim=Any",
                                            " reclaim=LowerPriority"};
    for (int i = 0; i < 3; ++i) {
      std::string text = fmt::format("clusterqueue c{}", i);
      text += fmt::format(" flavor={}{{cpu={}}}", i == 1 ? "other" : "tas", 4 + Below(12));
      if (i == 2) text += fmt::format(" flavor=plain{{cpu={}}}", Below(6));
      if (OneIn(2)) text += " cohort=t";
      if (OneIn(4)) text += " strategy=StrictFIFO";
      Make(text + kPolicies[Below(4)]);
      Make(fmt::format("localqueue q{} cq=c{}", i, i));
    }
    blocks_ = 1 + Below(2);
    racks_ = 1 + Below(3);
    const int nodes = 2 + Below(6);
    for (int i = 0; i < nodes; ++i) MakeNode();
  }

  void MakeNode() {
    const int n = nodes_++;
    Make(fmt::format("node n{} label:pool=a label:block=b{} label:rack=r{} cpu={}{}", n,
                     Below(blocks_), Below(racks_), 1 + Below(6), OneIn(4) ? " pods=3" : ""));
  }

  std::string Level() {
    static const char* const kLevels[] = {"block", "rack", "rack", "kubernetes.io/hostname"};
    return kLevels[Below(4)];
  }

  std::string Request() {
    switch (Below(6)) {
      case 0:
        return "";
      case 1:
        return " unconstrained=true";
      case 2:
        return " preferred=" + Level();
      case 3:
        return fmt::format(" required=block slice=rack:{}", 1 + Below(3));
      default:
        return " required=" + Level();
    }
  }

  std::string Annotations() {
    const std::string key = " podannotation:kueue.x-k8s.io/podset-";
    switch (Below(6)) {
      case 0:
        return "";
      case 1:
        return key + "unconstrained-topology=true";
      case 2:
        return key + "preferred-topology=" + Level();
      case 3:
        return fmt::format(
            "{0}required-topology=block{0}slice-required-topology=rack{0}slice-size=1", key);
      default:
        return key + "required-topology=" + Level();
    }
  }

  void MakeJob() {
    const int count = 1 + Below(6);
    std::string text =
        fmt::format("job j{} queue=q{} priority=p{} parallelism={} completions={} cpu={}", jobs_++,
                    Below(3), Below(3), count, count, 1 + Below(2));
    if (OneIn(3)) text += fmt::format(" run={}s", 5 + Below(90));
    if (count > 1 && OneIn(4)) text += fmt::format(" minparallelism={}", 1 + Below(count - 1));
    Make(text + Annotations());
  }

  void MakeWorkload() {
    if (!OneIn(3)) return MakeJob();
    const std::string head =
        fmt::format("workload w{} queue=q{} priority={}", workloads_++, Below(3), Below(3));
    const int cpu = 1 + Below(2);
    if (OneIn(6)) {
      const std::string level = Level();
      Make(head + fmt::format(" podset:leader=count=1,group=g,required={},cpu=1"
                              " podset:workers=count={},group=g,required={},cpu={}",
                              level, 1 + Below(4), level, cpu));
      return;
    }
    const int count = 1 + Below(6);
    Make(head + fmt::format(" count={}{} cpu={}{}", count,
                            OneIn(4) ? fmt::format(" mincount={}", 1 + Below(count)) : "", cpu,
                            Request()));
  }

  void Act() {
    switch (Below(12)) {
      case 0:
        MakeNode();
        break;
      case 1:
        Patch(fmt::format("n{}", Below(nodes_)),
              fmt::format(R"({{"spec":{{"unschedulable":{}}}}})", OneIn(2)), "");
        break;
      case 2:
        if (OneIn(3)) Delete(Kind::kNode, "", fmt::format("n{}", Below(nodes_)));
        break;
      case 3:
        Make(fmt::format("pod p{} node=n{} cpu={} run={}s", pods_++, Below(nodes_), 1 + Below(2),
                         5 + Below(60)));
        break;
      case 4:
        Patch(fmt::format("n{}", Below(nodes_)),
              fmt::format(R"({{"status":{{"allocatable":{{"cpu":"{}"}}}}}})", 1 + Below(6)),
              "status");
        break;
      case 5:
      case 6:
        if (jobs_ > 0 && OneIn(2)) {
          Delete(Kind::kJob, "ns", fmt::format("j{}", Below(jobs_)));
        } else if (workloads_ > 0) {
          Delete(Kind::kWorkload, "ns", fmt::format("w{}", Below(workloads_)));
        }
        break;
      case 7:
        if (faults_) {
          text_ += "crash\n";
          sim_.Crash(static_cast<size_t>(Below(2)));
        } else {
          sim_.Relist(0);
        }
        break;
      default:
        MakeWorkload();
    }
  }

  std::mt19937_64 engine_;
  const bool faults_;
  const bool late_;
  Simulation sim_;
  std::string text_;
  int blocks_ = 1;
  int racks_ = 1;
  int nodes_ = 0;
  int pods_ = 0;
  int workloads_ = 0;
  int jobs_ = 0;
};

TEST_CASE("Random topologies keep every domain within what it has") {
  int placed = 0;
  ForSeeds(12, [&](uint64_t seed) {
    RandomTopology random(seed, RandomTopology::Mode::kPlain);
    random.Run();
    placed += random.placed();
  });
  CHECK(placed > 0);
}

TEST_CASE("Random topologies with faults and crashes") {
  ForSeeds(8, [](uint64_t seed) { RandomTopology(seed, RandomTopology::Mode::kFaults).Run(); });
}

TEST_CASE("Random topologies where answers are lost and the watch is late") {
  ForSeeds(4, [](uint64_t seed) { RandomTopology(seed, RandomTopology::Mode::kLateWatch).Run(); });
}

}  // namespace
}  // namespace sluice::sim
