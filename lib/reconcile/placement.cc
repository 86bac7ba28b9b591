// Workloads that run in given places: their pods get their nodes, failed nodes are noticed.
#include <absl/container/btree_map.h>
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/names.h"
#include "api/pod_names.h"
#include "base/time.h"
#include "queueing/topology_inputs.h"
#include "queueing/variants.h"
#include "queueing/workload_info.h"
#include "reconcile/reconcilers.h"
#include "reconcile/topology_ungater.h"
#include "reconcile/workload_parts.h"
#include "topology/node_health.h"
#include "topology/recheck.h"

namespace sluice::reconcile {
namespace {

using api::Json;
using state::PlacedPod;
using state::PlacedPodPtr;

constexpr char kSource[] = "kueue-topology-controller";
constexpr char kTerminated[] = "TerminatedByKueue";
// So many pods at once; the others follow when these are answered.
constexpr size_t kMaxWrites = 1000;

// A pod is told its nodes in the write that lets it go, so that it is never without one or the
// other. Gates of others stay.
state::Action UngateAction(const UngatedPod& ungated) {
  const PlacedPod& pod = *ungated.pod;
  Json body = Json::MakeObject();
  body["metadata"].Set("uid", pod.uid);
  for (const auto& [label, value] : ungated.node_selector) {
    body["spec"]["nodeSelector"].Set(label, value);
  }
  Json gates = Json::MakeArray();
  for (const std::string& gate : pod.gates) {
    if (gate != api::kTopologyGate) gates.Append(Json::MakeObject({{"name", gate}}));
  }
  body["spec"].Set("schedulingGates", std::move(gates));
  return MergePatchAction(api::Kind::kPod, pod.key, "", std::move(body), pod.resource_version);
}

topology::HealthRules RulesOf(const state::FeatureGates& gates) {
  return {gates.Enabled("TASReplaceNodeOnPodTermination"),
          gates.Enabled("TASReplaceNodeDueToNotReadyOverFixedTime"),
          gates.Enabled("TASReplaceNodeOnNodeTaints")};
}

void AddTolerations(const std::vector<api::Toleration>& from,
                    std::vector<topology::TimedToleration>& to) {
  for (const api::Toleration& one : from) {
    to.push_back({{one.key, one.op, one.value, one.effect}, one.toleration_seconds.has_value()});
  }
}

// One look at one Workload of the chain.
class PlacementPass {
 public:
  PlacementPass(const state::World& world, const api::Workload& workload,
                const std::vector<PlacedPodPtr>& pods, absl::Time now, Plan& plan)
      : world_(world), workload_(workload), pods_(pods), now_(now), plan_(plan) {}

  // Whether nothing has to be said about nodes first.
  bool Sound() {
    if (world_.settings().gates.Enabled("TASFailedNodeReplacement") && CheckNodes()) return false;
    return !NothingStarted() || !RollBack();
  }

  // Nodes may have changed their labels or begun to leave since the places were given, perhaps long
  // ago: admission checks take their time. As long as nothing has started, nothing is lost by
  // looking for others. True when that took a write.
  bool RollBack() {
    for (const queueing::PlacedPodSet& placed : queueing::PlacedPodSets(workload_)) {
      const std::optional<topology::LostDomain> lost = FindLost(placed);
      if (!lost.has_value()) continue;
      return AddEviction(plan_, world_, workload_, admission::kEvictedNodeFailures,
                         LostText(*placed.pod_set, *lost), now_);
    }
    return false;
  }

  void Run() {
    if (!api::IsTrue(workload_.status.conditions, api::kAdmitted) ||
        api::IsTrue(workload_.status.conditions, api::kEvicted)) {
      return;
    }
    // Which nodes have failed is written before anything is sent to others.
    if (Sound()) Ungate();
  }

 private:
  // True when that took a write.
  bool CheckNodes() {
    JudgeAll();
    if (WriteUnhealthy()) return true;
    for (const PlacedPodPtr& pod : doomed_) Terminate(*pod);
    return !doomed_.empty();
  }

  // The hosts that matter: assigned ones, those known as failed, and those that pods wait for.
  void JudgeAll() {
    absl::btree_map<std::string, topology::NodeUse> uses;
    for (const queueing::PlacedPodSet& placed : queueing::PlacedPodSets(workload_)) {
      if (!placed.places.ok() || !topology::EndsInHosts(placed.places->levels)) continue;
      const auto tolerations = TolerationsOf(placed);
      for (const topology::AssignedDomain& domain : placed.places->domains) {
        topology::NodeUse& use = uses[domain.values.back()];
        use.assigned = use.assigned || domain.count > 0;
        use.tolerations.push_back(tolerations);
      }
    }
    if (uses.empty()) return;
    for (const std::string& host : workload_.status.unhealthy_nodes) uses[host];
    for (const PlacedPodPtr& pod : pods_) {
      if (IsPinned(*pod)) uses[HostOf(*pod)];
    }
    for (auto& [host, use] : uses) Judge(host, use);
  }

  void Judge(const std::string& host, topology::NodeUse& use) {
    const std::vector<std::string> nodes = world_.placements().NodesOf(host);
    use.running_pod = std::any_of(pods_.begin(), pods_.end(), [&](const PlacedPodPtr& pod) {
      return !pod->node_name.empty() && !pod->deleting && !pod->Ended() &&
             std::find(nodes.begin(), nodes.end(), pod->node_name) != nodes.end();
    });
    const topology::HealthRules rules = RulesOf(world_.settings().gates);
    const int64_t now = absl::ToUnixSeconds(now_);
    topology::Judgement best = topology::JudgeNode({}, use, rules, now);
    // Where several nodes go by one name, one that is well is enough.
    bool first = true;
    for (const std::string& node : nodes) {
      const topology::Judgement one = topology::JudgeNode(
          state::HealthOf(world_.nodes().Find({"", node}).get()), use, rules, now);
      if (first || Rank(one.verdict) < Rank(best.verdict)) best = one;
      first = false;
    }
    if (best.check_again) plan_.RecheckAt(absl::FromUnixSeconds(*best.check_again));
    const auto& known = workload_.status.unhealthy_nodes;
    const bool listed = std::find(known.begin(), known.end(), host) != known.end();
    if (best.verdict == topology::NodeVerdict::kHealthy && listed) healed_.push_back(host);
    if (best.verdict == topology::NodeVerdict::kFailed && !listed) failed_.push_back(host);
    if (!best.terminate_pinned) return;
    for (const PlacedPodPtr& pod : pods_) {
      if (IsPinned(*pod) && HostOf(*pod) == host) doomed_.push_back(pod);
    }
  }

  static int Rank(topology::NodeVerdict verdict) {
    switch (verdict) {
      case topology::NodeVerdict::kHealthy:
        return 0;
      case topology::NodeVerdict::kWait:
        return 1;
      case topology::NodeVerdict::kFailed:
        return 2;
    }
    return 2;
  }

  static std::string HostOf(const PlacedPod& pod) {
    const auto found = pod.node_selector.find(topology::kHostname);
    return found == pod.node_selector.end() ? "" : found->second;
  }

  // Let go to its host, and not there yet.
  static bool IsPinned(const PlacedPod& pod) {
    return pod.node_name.empty() && !pod.Gated() && !pod.deleting &&
           (pod.phase.empty() || pod.phase == "Pending") && !HostOf(pod).empty();
  }

  std::vector<topology::TimedToleration> TolerationsOf(const queueing::PlacedPodSet& placed) const {
    std::vector<topology::TimedToleration> tolerations;
    AddTolerations(std::as_const(placed.pod_set->pod_template.spec)->tolerations, tolerations);
    for (const auto& [resource, name] : placed.assigned->flavors) {
      const auto flavor = world_.flavors().Find({"", name});
      if (flavor != nullptr) AddTolerations(flavor->spec.tolerations, tolerations);
    }
    for (const api::AdmissionCheckState& check : workload_.status.admission_checks) {
      for (const api::PodSetUpdate& update : check.pod_set_updates) {
        if (update.name == placed.pod_set->name) AddTolerations(update.tolerations, tolerations);
      }
    }
    return tolerations;
  }

  bool WriteUnhealthy() {
    if (failed_.empty() && healed_.empty()) return false;
    api::Workload next = workload_;
    std::vector<std::string>& nodes = next.status.unhealthy_nodes;
    std::erase_if(nodes, [&](const std::string& node) {
      return std::find(healed_.begin(), healed_.end(), node) != healed_.end();
    });
    nodes.insert(nodes.end(), failed_.begin(), failed_.end());
    // Only one can be replaced at a time.
    if (!failed_.empty() && nodes.size() > 1)
      return Evict(fmt::format("{}", fmt::join(nodes, ", ")));
    plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true));
    return true;
  }

  bool Evict(const std::string& nodes) {
    return AddEviction(
        plan_, world_, workload_, admission::kEvictedNodeFailures,
        fmt::format("More than one node of the topology assignment has failed: {}", nodes), now_);
  }

  // Pods wait for their places, and no other pod is there but such as are leaving.
  bool NothingStarted() const {
    bool waits = false;
    for (const PlacedPodPtr& pod : pods_) {
      if (pod->Ended() || pod->deleting) continue;
      if (!pod->Gated()) return false;
      waits = true;
    }
    return waits;
  }

  std::optional<topology::LostDomain> FindLost(const queueing::PlacedPodSet& placed) const {
    const state::TopologyFeed* feed = world_.topology();
    auto filter = queueing::NodeFilterOf(workload_, *placed.pod_set);
    if (feed == nullptr || !placed.places.ok() || !filter.ok()) return std::nullopt;
    topology::PodSetRequest request;
    request.name = placed.pod_set->name;
    request.topology = queueing::TopologyRequestOf(*placed.pod_set, false);
    request.filter = *std::move(filter);
    // What an elastic workload gives back leaves parts of slices.
    const bool in_slices = !queueing::ReplacedSlice(workload_).has_value();
    for (const FlavorName& flavor : queueing::FlavorsOf(workload_, placed)) {
      const topology::Tree* tree = feed->inventory().FindTree(flavor);
      if (tree == nullptr) continue;
      auto lost = topology::FindLost(*tree, request, *placed.places,
                                     workload_.status.unhealthy_nodes, in_slices);
      if (lost.has_value()) return lost;
    }
    return std::nullopt;
  }

  static std::string LostText(const api::PodSet& pod_set, const topology::LostDomain& lost) {
    using Kind = topology::LostDomain::Kind;
    const char* problem = "is not there any more";
    if (lost.kind == Kind::kExcluded) problem = "does not take its pods any more";
    if (lost.kind == Kind::kApart) {
      problem = "is not any more where the request wants its pods together";
    }
    return fmt::format(
        "No pod has started yet, and the topology assignment of pod set {} does not hold any more: "
        "\"{}\" {}",
        pod_set.name, fmt::join(lost.values, ","), problem);
  }

  // A pod that can never start where it is sent ends, so that its controller makes another.
  void Terminate(const PlacedPod& pod) {
    const std::string message = fmt::format(
        "The pod can only run on node \"{}\", which is not fit for it any more", HostOf(pod));
    Json condition = Json::MakeObject({{"type", kTerminated},
                                       {"status", "True"},
                                       {"lastTransitionTime", sluice::FormatTime(now_)},
                                       {"reason", "UnschedulableOnAssignedNode"},
                                       {"message", message}});
    Json body = Json::MakeObject(
        {{"apiVersion", "v1"},
         {"kind", "Pod"},
         {"metadata", Json::MakeObject(
                          {{"name", pod.key.name}, {"namespace", pod.key.ns}, {"uid", pod.uid}})}});
    body["status"].Set("phase", "Failed");
    body["status"].Set("conditions", Json::MakeArray({std::move(condition)}));
    plan_.Add(ApplyStatusAction(api::Kind::kPod, pod.key, std::move(body), kSource))
        .notes.push_back(
            {api::Kind::kPod, pod.key, pod.uid, kSource, false, "PodTerminatedByKueue", message});
  }

  void Ungate() {
    const absl::StatusOr<std::vector<UngatedPod>> ungated = UngatePods(workload_, pods_);
    if (!ungated.ok()) {
      plan_.notes.push_back(WorkloadNote(workload_, kSource, true, "UngatingFailed",
                                         std::string(ungated.status().message())));
      return;
    }
    for (const UngatedPod& pod : *ungated) {
      if (plan_.writes.size() >= kMaxWrites) break;
      plan_.Add(UngateAction(pod)).gates = {RemovalOf(workload_, api::kTopologyGate)};
    }
  }

  const state::World& world_;
  const api::Workload& workload_;
  const std::vector<PlacedPodPtr>& pods_;
  absl::Time now_;
  Plan& plan_;
  std::vector<std::string> failed_;  // newly
  std::vector<std::string> healed_;
  std::vector<PlacedPodPtr> doomed_;
};

}  // namespace

bool PlacesAreSound(const state::World& world, const api::Workload& workload,
                    const std::vector<PlacedPodPtr>& pods, absl::Time now) {
  Plan scratch;
  return world.NodesKnown() && PlacementPass(world, workload, pods, now, scratch).Sound();
}

bool RollBackPlaces(const state::World& world, const api::Workload& workload, absl::Time now,
                    Plan& plan) {
  const std::vector<PlacedPodPtr> none;
  return PlacementPass(world, workload, none, now, plan).RollBack();
}

Plan ReconcilePlacement(const state::World& world, const ObjectKey& chain, absl::Time now) {
  Plan plan;
  // Who is there, and what is well, must be known in full.
  if (!world.NodesKnown()) return plan;
  const std::vector<PlacedPodPtr> pods = world.placements().PodsOf(chain.ns, chain.name);
  for (const ObjectKey& key : world.placements().WorkloadsOf(chain.ns, chain.name)) {
    // What is on its way may send the pods elsewhere.
    if (world.IsAssumed(key) || world.Unreadable({api::Kind::kWorkload, key})) return Plan();
    const auto workload = world.workloads().Find(key);
    if (workload == nullptr || world.TakenOverBy(key) != nullptr) continue;
    if (world.order_options().concurrent_admission && queueing::IsVariant(*workload)) continue;
    PlacementPass(world, *workload, pods, now, plan).Run();
  }
  return plan;
}

}  // namespace sluice::reconcile
