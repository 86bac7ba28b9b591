#include "flavor/assigner.h"

#include <map>

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::flavor {
namespace {

// One ClusterQueue "cq" with its flavors and usage.
class Fixture {
 public:
  explicit Fixture(const api::ClusterQueue& queue) : queue_(queue) {
    for (const api::ResourceGroup& group : queue.spec.resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        Add(build::Flavor(flavor.name));
        for (const api::ResourceQuota& quota : flavor.resources) {
          quota::Limits& cell = limits_[{flavor.name, quota.name}];
          cell.nominal = AmountOf(quota.name, quota.nominal_quota);
        }
      }
    }
    tree_.SetClusterQueue("cq", queue.spec.cohort_name, limits_);
  }
  void Add(const api::ResourceFlavor& flavor) { flavors_[flavor.metadata.name] = flavor; }
  void Drop(const std::string& flavor) { flavors_.erase(flavor); }
  void Use(const std::string& flavor, const std::string& resource, int64_t amount) {
    tree_.AddUsage("cq", {{{flavor, resource}, amount}});
  }
  quota::Tree& tree() { return tree_; }
  AssignOptions options;
  PreemptionOracle preemption;
  std::vector<PodSetHolding> holdings;  // one for each pod set, or none
  std::optional<std::vector<FlavorName>> allowed;

  Assignment Try(const api::Workload& workload) const {
    AssignContext context;
    context.cluster_queue = &queue_;
    context.flavor = [this](const FlavorName& name) -> const api::ResourceFlavor* {
      auto found = flavors_.find(name);
      return found == flavors_.end() ? nullptr : &found->second;
    };
    context.tree = &tree_;
    context.options = options;
    context.preemption = preemption;
    if (allowed.has_value()) context.allowed = &*allowed;
    std::vector<Requests> requests;
    std::vector<PodSetInput> inputs;
    requests.reserve(workload.spec.pod_sets.size());
    for (const api::PodSet& pod_set : workload.spec.pod_sets) {
      const auto& container = pod_set.pod_template.spec->containers.at(0);
      Requests total = RequestsOf(container.resources.requests);
      for (auto& [resource, amount] : total) amount *= pod_set.count;
      requests.push_back(total);
      const PodSetHolding* holding = holdings.empty() ? nullptr : &holdings[inputs.size()];
      inputs.push_back({&pod_set, pod_set.count, &requests.back(), holding});
    }
    return Assign(context, inputs);
  }

 private:
  api::ClusterQueue queue_;
  std::map<FlavorName, api::ResourceFlavor> flavors_;
  quota::CellLimits limits_;
  quota::Tree tree_;
};

api::ClusterQueue TwoFlavors() {
  return build::ClusterQueue("cq").Flavor("f1", {{"cpu", "5"}}).Flavor("f2", {{"cpu", "5"}});
}
std::string Chosen(const Assignment& assignment, const std::string& resource = "cpu",
                   size_t pod_set = 0) {
  const auto& flavors = assignment.pod_sets.at(pod_set).flavors;
  auto found = flavors.find(resource);
  return found == flavors.end() ? "" : found->second.flavor;
}

TEST_CASE("the first flavor that fits is used") {
  Fixture cluster(TwoFlavors());
  const auto workload = build::Workload("w").Request("cpu", "4");
  const Assignment empty = cluster.Try(workload);
  CHECK(empty.mode == Mode::kFit);
  CHECK(Chosen(empty) == "f1");
  CHECK(empty.usage == build::Amounts({{{"f1", "cpu"}, 4000}}));
  CHECK(empty.HasUntriedFlavors());
  cluster.Use("f1", "cpu", 2000);
  const Assignment second = cluster.Try(workload);
  CHECK(Chosen(second) == "f2");
  CHECK_FALSE(second.HasUntriedFlavors());
  CHECK(second.pod_sets[0].findings.empty());
  CHECK(second.pod_sets[0].attempts.size() == 2);
}

TEST_CASE("within its own quota but occupied: would need a preemption") {
  Fixture cluster(TwoFlavors());
  cluster.Use("f1", "cpu", 2000);
  cluster.Use("f2", "cpu", 3000);
  const Assignment assignment = cluster.Try(build::Workload("w").Request("cpu", "4"));
  CHECK(assignment.mode == Mode::kPreempt);
  CHECK(Chosen(assignment) == "f1");
  REQUIRE(assignment.pod_sets[0].findings.size() == 2);
  CHECK(assignment.pod_sets[0].findings[0].kind == Finding::Kind::kNotEnoughUnused);
  CHECK(assignment.pod_sets[0].findings[0].Missing() == 1000);
  CHECK(assignment.pod_sets[0].findings[1].Missing() == 2000);
}

TEST_CASE("above the maximum of every flavor") {
  Fixture cluster(TwoFlavors());
  const Assignment assignment = cluster.Try(build::Workload("w").Request("cpu", "6"));
  CHECK(assignment.mode == Mode::kNoFit);
  CHECK(assignment.cause == Cause::kExceedsMaxQuota);
  CHECK(assignment.usage.empty());
  CHECK(assignment.pod_sets[0].findings[0].kind == Finding::Kind::kAboveMaximum);
  CHECK(assignment.pod_sets[0].findings[0].maximum == 5000);
}

TEST_CASE("taints, the least severe reason over alternatives") {
  Fixture cluster(TwoFlavors());
  cluster.Add(
      build::Flavor("f1").Taint("k", "v", "NoSchedule").Taint("p", "v", "PreferNoSchedule"));
  const auto workload = build::Workload("w").Request("cpu", "4");
  CHECK(Chosen(cluster.Try(workload)) == "f2");
  CHECK(Chosen(cluster.Try(build::Workload(workload).Tolerate("k", "v", "NoSchedule"))) == "f1");
  const Assignment large = cluster.Try(build::Workload("w").Request("cpu", "6"));
  CHECK(large.cause == Cause::kExceedsMaxQuota);
  cluster.Add(build::Flavor("f2").Taint("k", "v", "NoExecute"));
  const Assignment none = cluster.Try(workload);
  CHECK(none.mode == Mode::kNoFit);
  CHECK(none.cause == Cause::kNoMatchingFlavor);
  CHECK(none.pod_sets[0].findings[0].taint->key == "k");
  cluster.Add(build::Flavor("f2").Taint("k", "v", "NoExecute").Tolerate("k", "v", "NoExecute"));
  CHECK(Chosen(cluster.Try(workload)) == "f2");
}

TEST_CASE("toleration operators") {
  api::Taint taint;
  taint.key = "sla";
  taint.value = "950";
  taint.effect = "NoSchedule";
  const auto tolerates = [&](const char* key, const char* op, const char* value,
                             const char* effect) {
    api::Toleration toleration;
    toleration.key = key;
    toleration.op = op;
    toleration.value = value;
    toleration.effect = effect;
    return Tolerates(toleration, taint);
  };
  CHECK(tolerates("sla", "", "950", ""));
  CHECK(tolerates("sla", "Equal", "950", "NoSchedule"));
  CHECK_FALSE(tolerates("sla", "Equal", "1", "NoSchedule"));
  CHECK_FALSE(tolerates("sla", "Equal", "950", "NoExecute"));
  CHECK(tolerates("", "Exists", "", ""));
  CHECK_FALSE(tolerates("", "Equal", "950", ""));
  CHECK(tolerates("sla", "Exists", "", ""));
  CHECK(tolerates("sla", "Gt", "900", "NoSchedule"));
  CHECK_FALSE(tolerates("sla", "Gt", "950", "NoSchedule"));
  CHECK(tolerates("sla", "Lt", "951", "NoSchedule"));
  CHECK_FALSE(tolerates("sla", "Lt", "many", "NoSchedule"));
}

TEST_CASE("node affinity looks only at keys that the flavor declares") {
  const auto queue =
      build::ClusterQueue("cq").Flavor("on-demand", {{"cpu", "5"}}).Flavor("spot", {{"cpu", "5"}});
  Fixture cluster(queue);
  cluster.Add(build::Flavor("on-demand").NodeLabel("tier", "od"));
  cluster.Add(build::Flavor("spot").NodeLabel("tier", "spot").NodeLabel("zone", "a"));
  const auto base = build::Workload("w").Request("cpu", "1");
  CHECK(Chosen(cluster.Try(build::Workload(base).NodeSelector("zone", "a"))) == "on-demand");
  CHECK(Chosen(cluster.Try(build::Workload(base).NodeSelector("tier", "spot"))) == "spot");
  const api::NodeSelectorTerm tier{{{"tier", "In", {"spot"}}}, {}};
  const api::NodeSelectorTerm gpu{{{"gpu", "Exists", {}}}, {}};
  CHECK(Chosen(cluster.Try(build::Workload(base).RequiredAffinity({tier}))) == "spot");
  CHECK(Chosen(cluster.Try(build::Workload(base).RequiredAffinity({tier, gpu}))) == "on-demand");
  const api::NodeSelectorTerm gone{{{"tier", "DoesNotExist", {}}}, {}};
  const Assignment none = cluster.Try(build::Workload(base).RequiredAffinity({gone}));
  CHECK(none.cause == Cause::kNoMatchingFlavor);
  CHECK(none.pod_sets[0].findings[0].kind == Finding::Kind::kAffinityMismatch);
  const api::NodeSelectorTerm invalid{{{"tier", "Near", {"x"}}}, {}};
  const Assignment error = cluster.Try(build::Workload(base).RequiredAffinity({invalid}));
  CHECK(error.mode == Mode::kNoFit);
  CHECK_FALSE(error.pod_sets[0].error.empty());
}

TEST_CASE("resources that are not covered") {
  Fixture cluster(TwoFlavors());
  CHECK(cluster.Try(build::Workload("w").Request("cpu", "1").Request("gpu", "0")).mode ==
        Mode::kFit);
  const auto workload = build::Workload("w").Request("cpu", "1").Request("gpu", "1");
  const Assignment blocked = cluster.Try(workload);
  CHECK(blocked.mode == Mode::kNoFit);
  CHECK(blocked.cause == Cause::kNoMatchingFlavor);
  CHECK(blocked.pod_sets[0].findings[0].kind == Finding::Kind::kResourceNotCovered);
  cluster.options.ignore_undeclared = true;
  const Assignment ignored = cluster.Try(workload);
  CHECK(ignored.mode == Mode::kFit);
  CHECK(ignored.usage == build::Amounts({{{"f1", "cpu"}, 1000}}));
  // Zero of a covered resource does get a flavor; nothing at all fits everywhere.
  CHECK(Chosen(cluster.Try(build::Workload("w").Request("cpu", "0"))) == "f1");
  CHECK(cluster.Try(build::Workload("w")).mode == Mode::kFit);
}

TEST_CASE("pods are counted where they are covered") {
  Fixture cluster(build::ClusterQueue("cq").Flavor("f", {{"cpu", "9"}, {"pods", "2"}}));
  const Assignment fits = cluster.Try(build::Workload("w").Request("cpu", "1").Count(2));
  CHECK(fits.usage == build::Amounts({{{"f", "cpu"}, 2000}, {{"f", "pods"}, 2}}));
  const api::Admission admission = MakeAdmission("cq", fits);
  CHECK(admission.pod_set_assignments[0].resource_usage.at("pods").ToString() == "2");
  CHECK(admission.pod_set_assignments[0].count == 2);
  CHECK(cluster.Try(build::Workload("w").Request("cpu", "1").Count(3)).cause ==
        Cause::kExceedsMaxQuota);
}

TEST_CASE("resource groups choose their flavors independently") {
  Fixture cluster(build::ClusterQueue("cq")
                      .Flavor("f1", {{"cpu", "2"}, {"memory", "9"}})
                      .Flavor("f2", {{"cpu", "9"}, {"memory", "9"}})
                      .Flavor("g", {{"gpu", "1"}}));
  cluster.Use("g", "gpu", 1);
  const auto workload =
      build::Workload("w").Request("cpu", "4").Request("memory", "1").Request("gpu", "1");
  const Assignment assignment = cluster.Try(workload);
  CHECK(assignment.mode == Mode::kPreempt);
  CHECK(Chosen(assignment, "cpu") == "f2");
  CHECK(Chosen(assignment, "memory") == "f2");
  CHECK(assignment.pod_sets[0].flavors.at("cpu").mode == Mode::kFit);
  CHECK(assignment.pod_sets[0].flavors.at("gpu").mode == Mode::kPreempt);
  // The group that fails is the one that is reported.
  cluster.Add(build::Flavor("g").Taint("k", "v", "NoSchedule"));
  const Assignment tainted = cluster.Try(workload);
  CHECK(tainted.cause == Cause::kNoMatchingFlavor);
  REQUIRE(tainted.pod_sets[0].findings.size() == 1);
  CHECK(tainted.pod_sets[0].findings[0].kind == Finding::Kind::kUntoleratedTaint);
}

TEST_CASE("earlier pod sets of the workload count") {
  Fixture cluster(build::ClusterQueue("cq").Flavor("f", {{"cpu", "5"}}));
  const Assignment assignment = cluster.Try(
      build::Workload("w").PodSet("p1").Request("cpu", "3").PodSet("p2").Request("cpu", "3"));
  CHECK(assignment.mode == Mode::kNoFit);
  CHECK(assignment.cause == Cause::kExceedsMaxQuota);
  CHECK(Chosen(assignment, "cpu", 0) == "f");
  const Finding& finding = assignment.pod_sets[1].findings.at(0);
  CHECK(finding.previously == 3000);
  CHECK(finding.requested == 3000);
}

TEST_CASE("a flavor without object is passed over") {
  Fixture cluster(TwoFlavors());
  cluster.Drop("f1");
  CHECK(Chosen(cluster.Try(build::Workload("w").Request("cpu", "1"))) == "f2");
}

// Where the scan stops, by what each flavor offers. The oracle answers for the preempting rows;
// borrowing comes from a cohort with room.
TEST_CASE("flavor fungibility") {
  struct Offer {
    Rank rank;
    int level;
  };
  struct Row {
    const char* name;
    Offer on_demand;
    Offer spot;
    const char* borrow;
    const char* preempt;
    const char* preference;
    const char* chosen;
  };
  const Row row = GENERATE(values<Row>({
      {"both fit", {Rank::kFit, 0}, {Rank::kFit, 0}, "", "", "", "on-demand"},
      {"stops borrowing", {Rank::kFit, 1}, {Rank::kFit, 0}, "MayStopSearch", "", "", "on-demand"},
      {"next borrowing", {Rank::kFit, 1}, {Rank::kFit, 0}, "TryNextFlavor", "", "", "spot"},
      {"next preempting", {Rank::kPreempt, 0}, {Rank::kFit, 0}, "", "TryNextFlavor", "", "spot"},
      {"stops preempting",
       {Rank::kPreempt, 0},
       {Rank::kFit, 0},
       "",
       "MayStopSearch",
       "",
       "on-demand"},
      {"prefers borrowing",
       {Rank::kPreempt, 0},
       {Rank::kFit, 1},
       "TryNextFlavor",
       "TryNextFlavor",
       "",
       "spot"},
      {"prefers preempting",
       {Rank::kPreempt, 0},
       {Rank::kFit, 1},
       "TryNextFlavor",
       "TryNextFlavor",
       "PreemptionOverBorrowing",
       "on-demand"},
      {"no candidates is never preferred",
       {Rank::kNoPreemptionCandidates, 0},
       {Rank::kFit, 1},
       "TryNextFlavor",
       "TryNextFlavor",
       "PreemptionOverBorrowing",
       "spot"},
      {"no candidates never stops",
       {Rank::kNoPreemptionCandidates, 0},
       {Rank::kFit, 0},
       "MayStopSearch",
       "MayStopSearch",
       "",
       "spot"},
      {"reclaim before preempt",
       {Rank::kPreempt, 0},
       {Rank::kReclaim, 0},
       "TryNextFlavor",
       "TryNextFlavor",
       "",
       "spot"},
      {"no fit before nothing",
       {Rank::kNoFit, 0},
       {Rank::kNoPreemptionCandidates, 0},
       "",
       "",
       "",
       "spot"},
  }));
  INFO(row.name);
  const auto queue = build::ClusterQueue("cq")
                         .Cohort("pool")
                         .Flavor("on-demand", {{"cpu", "4"}})
                         .Flavor("spot", {{"cpu", "4"}})
                         .Fungibility(row.borrow, row.preempt, row.preference);
  Fixture cluster(queue);
  std::map<FlavorName, Rank> answers;
  const auto set = [&](const std::string& flavor, const Offer& offer) {
    // Usage decides whether it fits, has to borrow, or is occupied by others of the cohort.
    const FlavorResource cell{flavor, "cpu"};
    if (offer.rank == Rank::kFit && offer.level == 0) return;
    if (offer.rank == Rank::kFit) {
      cluster.tree().SetClusterQueue("lender-" + flavor, "pool", {{cell, {8000, {}, {}}}});
      cluster.Use(flavor, "cpu", 4000);
      return;
    }
    if (offer.rank == Rank::kNoFit) {
      cluster.Drop(flavor);
      return;
    }
    cluster.tree().SetClusterQueue("user-" + flavor, "pool", {{cell, {0, {}, {}}}});
    cluster.tree().AddUsage("user-" + flavor, {{cell, 4000}});
    answers[flavor] = offer.rank;
  };
  set("on-demand", row.on_demand);
  set("spot", row.spot);
  cluster.preemption = [&](const FlavorResource& cell, int64_t) {
    return PreemptionOutcome{answers.at(cell.flavor), 0};
  };
  CHECK(Chosen(cluster.Try(build::Workload("w").Request("cpu", "4"))) == row.chosen);
}

TEST_CASE("without fungibility the best rank wins whatever it borrows") {
  Fixture cluster(TwoFlavors());
  cluster.options.fungibility = false;
  cluster.Use("f1", "cpu", 5000);
  CHECK(Chosen(cluster.Try(build::Workload("w").Request("cpu", "4"))) == "f2");
}

TEST_CASE("a slice needs what it asks for beyond the one that it replaces") {
  Fixture fixture(build::ClusterQueue("cq").Flavor("f", {{"cpu", "12"}}));
  fixture.Use("f", "cpu", 9000);  // 6 of the old slice, 3 of another workload
  PodSetHolding held;
  held.amounts["cpu"] = 6000;
  held.flavors["cpu"] = "f";
  fixture.holdings = {held};
  const Assignment four = fixture.Try(build::Workload("w").Count(4).Request("cpu", "2"));
  CHECK(four.mode == Mode::kFit);
  CHECK(four.usage == build::Amounts({{{"f", "cpu"}, 2000}}));
  CHECK(WholeUsage(four.pod_sets) == build::Amounts({{{"f", "cpu"}, 8000}}));
  const api::Admission admission = MakeAdmission("cq", four);
  CHECK(admission.pod_set_assignments[0].count == 4);
  CHECK(admission.pod_set_assignments[0].resource_usage.at("cpu").ToString() == "8");
  const Assignment five = fixture.Try(build::Workload("w").Count(5).Request("cpu", "2"));
  CHECK(five.mode == Mode::kPreempt);
  CHECK(five.pod_sets[0].findings.at(0).Missing() == 1000);
  // More than there is in all: only the difference is looked at.
  const Assignment many = fixture.Try(build::Workload("w").Count(8).Request("cpu", "2"));
  CHECK(many.cause != Cause::kExceedsMaxQuota);
}

TEST_CASE("a slice stays in the flavor of the one that it replaces") {
  Fixture fixture(
      build::ClusterQueue("cq").Flavor("f", {{"cpu", "6"}}).Flavor("g", {{"cpu", "20"}}));
  fixture.Use("f", "cpu", 6000);
  PodSetHolding held;
  held.amounts["cpu"] = 4000;
  held.flavors["cpu"] = "f";
  fixture.holdings = {held};
  const Assignment assignment = fixture.Try(build::Workload("w").Count(3).Request("cpu", "2"));
  CHECK(assignment.mode != Mode::kFit);
  const std::vector<FlavorAttempt>& attempts = assignment.pod_sets[0].attempts;
  REQUIRE(attempts.size() == 2);
  CHECK(attempts[1].findings.at(0).kind == Finding::Kind::kOtherThanReplaced);
  CHECK(attempts[1].findings.at(0).replaced == "f");
  CHECK(attempts[1].cause == Cause::kNoMatchingFlavor);
}

TEST_CASE("what one pod set of a slice gives back is there for another") {
  Fixture fixture(build::ClusterQueue("cq").Flavor("f", {{"cpu", "6"}}));
  fixture.Use("f", "cpu", 6000);
  PodSetHolding a;
  a.amounts["cpu"] = 2000;
  a.flavors["cpu"] = "f";
  PodSetHolding b = a;
  b.amounts["cpu"] = 4000;
  fixture.holdings = {a, b};
  const auto sized = [](int32_t first, int32_t second) {
    return build::Workload("w")
        .PodSet("a", first)
        .Request("cpu", "1")
        .PodSet("b", second)
        .Request("cpu", "1");
  };
  CHECK(fixture.Try(sized(3, 3)).mode == Mode::kFit);
  CHECK(fixture.Try(sized(3, 4)).mode != Mode::kFit);
}

TEST_CASE("only allowed flavors are looked at") {
  Fixture fixture(
      build::ClusterQueue("cq").Flavor("f", {{"cpu", "6"}}).Flavor("g", {{"cpu", "6"}}));
  fixture.allowed = {{"g"}};
  const Assignment second = fixture.Try(build::Workload("w").Request("cpu", "2"));
  CHECK(second.pod_sets[0].flavors.at("cpu").flavor == "g");
  fixture.allowed = {{"h"}};
  CHECK(fixture.Try(build::Workload("w").Request("cpu", "2")).mode == Mode::kNoFit);
}

}  // namespace
}  // namespace sluice::flavor
