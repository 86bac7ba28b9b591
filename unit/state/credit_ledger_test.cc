// The ledger as the World keeps it: what arrives late, what stands still, and that the members of a
// cohort add up to it.
#include "state/credit_ledger.h"

#include "api/codec.h"
#include "api/names.h"
#include "state/world.h"
#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::state {
namespace {

using api::Kind;
using quota::CreditAccount;
using quota::Credits;
using Type = ObjectEvent::Type;

constexpr CreditAccount::Micros kUnit = 1'000'000;

// A Cohort org with dept below it, and a policy p of org that counts CPUs.
class Fixture {
 public:
  Fixture() {
    for (const Kind kind : World::WatchedKinds(settings_)) {
      world.Apply({Type::kListBegin, kind, {}}, build::At(0), touched_);
      world.Apply({Type::kListEnd, kind, {}}, build::At(0), touched_);
    }
    Put(Kind::kNamespace, build::Namespace("ns").Get());
    Put(Kind::kResourceFlavor, build::Flavor("default").Get());
    Put(Kind::kResourceFlavor, build::Flavor("other").Get());
    Put(Kind::kCohort, MakeCohort("org", ""));
    Put(Kind::kCohort, MakeCohort("dept", "org"));
    Put(Kind::kCreditPolicy, MakePolicy("p", "org", 1));
  }

  template <typename T>
  void Put(Kind kind, T object, int second = 0) {
    object.metadata.resource_version = std::to_string(++version_);
    REQUIRE_FALSE(
        world.Apply({Type::kUpsert, kind, api::Encode(object)}, build::At(second), touched_)
            .has_value());
  }
  static api::Cohort MakeCohort(const std::string& name, const std::string& parent) {
    api::Cohort cohort;
    cohort.metadata.name = name;
    cohort.spec.parent_name = parent;
    return cohort;
  }
  static api::CreditPolicy MakePolicy(const std::string& name, const std::string& cohort,
                                      int created) {
    api::CreditPolicy policy;
    policy.metadata.name = name;
    policy.metadata.uid = name;
    policy.metadata.creation_timestamp = build::At(created);
    policy.spec.cohort = cohort;
    policy.spec.resources = {{"cpu", Quantity::FromInt(1)}};
    policy.spec.half_life = absl::ZeroDuration();
    policy.spec.effect = "Order";
    return policy;
  }
  void Queue(const std::string& name, const std::string& cpu, const std::string& stop = "None",
             const std::string& flavor = "default") {
    Put(Kind::kClusterQueue, build::ClusterQueue(name)
                                 .Cohort("dept")
                                 .Flavor(flavor, {{"cpu", cpu}})
                                 .StopPolicy(stop)
                                 .Get());
    Put(Kind::kLocalQueue, build::LocalQueue("q" + name, name).Get());
  }
  api::CreditAccount Account(const std::string& name) const {
    const auto known = world.credit_accounts().Find({"", name});
    if (known != nullptr) return *known;
    api::CreditAccount account;
    account.metadata.name = name;
    account.metadata.uid = name;
    account.metadata.creation_timestamp = build::At(0);
    api::OwnerReference owner;
    owner.api_version = "sluice.dev/v1alpha1";
    owner.kind = "CreditPolicy";
    owner.name = owner.uid = "p";
    owner.controller = true;
    account.metadata.owner_references = {owner};
    return account;
  }
  void Prepare(int second) { world.PrepareCredits(build::At(second), touched_); }
  CreditAccount At(const std::string& name, int second) const {
    const GovernedNode* node = world.credits().Find(name);
    INFO(name);
    REQUIRE((node != nullptr && node->timeline.has_value()));
    return node->timeline->At(build::At(second));
  }

 private:
  Settings settings_;
  Refs touched_;
  int version_ = 0;

 public:
  World world{settings_};
};

TEST_CASE("a status that comes while quotas change counts: a grant is not lost") {
  Fixture f;
  f.Queue("a", "8");
  f.Put(Kind::kCreditAccount, f.Account("cq-a"));
  f.Prepare(0);
  CHECK(f.At("cq-a", 0).balance() == Credits());
  f.Queue("a", "9");
  REQUIRE(f.world.credits().stale());
  api::CreditAccount granted = f.Account("cq-a");
  granted.status.balance = "12.5";
  granted.status.lifetime_earned = "12.5";
  granted.status.last_settled = build::At(0);
  granted.status.adjustments = 1;
  f.Put(Kind::kCreditAccount, granted);
  f.Prepare(0);
  CHECK(f.At("cq-a", 0).balance() == *Credits::Parse("12.5"));
}

TEST_CASE("what stopped queues leave unused earns nothing for their cohort either") {
  Fixture f;
  f.Queue("a", "8");
  f.Queue("s", "4");
  auto job = build::Workload("w").Queue("qs").Request("cpu", "1");
  f.Put(Kind::kWorkload, job.Admitted("s", "default").Get());
  for (const char* name : {"cq-a", "cq-s", "co-dept"}) f.Put(Kind::kCreditAccount, f.Account(name));
  f.Prepare(0);
  CHECK((f.At("co-dept", 0).Rate() == 11 * kUnit));
  f.Queue("s", "4", "Hold");
  f.Prepare(0);
  CHECK((f.At("cq-s", 0).Rate() == 0));
  CHECK((f.At("co-dept", 0).Rate() == 8 * kUnit));
  CHECK((f.At("co-dept", 0).entitlement() == 12 * kUnit));
  CHECK((f.At("co-dept", 0).usage() == kUnit));
  SECTION("a workload that ends there changes nothing") {
    f.Put(Kind::kWorkload, job.Finished(build::At(0)).Get());
    f.Prepare(0);
    CHECK((f.At("co-dept", 0).Rate() == 8 * kUnit));
  }
  SECTION("what it uses above its entitlement is paid for") {
    auto large = build::Workload("large").Queue("qs").Request("cpu", "5");
    f.Put(Kind::kWorkload, large.Admitted("s", "default").Get());
    f.Prepare(0);
    CHECK((f.At("cq-s", 0).Rate() == -2 * kUnit));
    CHECK((f.At("co-dept", 0).Rate() == 6 * kUnit));
  }
  SECTION("a controller that begins anew knows it from what was written down") {
    api::CreditAccount paused = f.Account("cq-s");
    paused.status.entitlement = "4";
    paused.status.last_settled = build::At(0);
    api::Condition active;
    active.type = api::kActive;
    active.status = api::ConditionStatus::kTrue;
    active.reason = kPaused;
    paused.status.conditions = {active};
    f.Put(Kind::kCreditAccount, paused);
    f.world.RestartCredits();
    f.Prepare(3600);
    CHECK(f.At("co-dept", 3600).balance() == Credits::FromHours(8));
  }
}

TEST_CASE("an outer policy counts all flavors of what an inner one governs") {
  Fixture f;
  f.Put(Kind::kCreditPolicy, Fixture::MakePolicy("inner", "dept", 0));
  f.Queue("a", "5", "None", "other");
  f.Prepare(0);
  REQUIRE(f.world.credits().Find("cq-a")->policy == "inner");
  const GovernedNode* dept = f.world.credits().Find("co-dept");
  REQUIRE(dept->policy == "p");
  CHECK((dept->entitlement == 5 * kUnit));
}

TEST_CASE("an account stands still while its tree has a circle") {
  Fixture f;
  f.Queue("a", "8");
  f.Put(Kind::kCreditAccount, f.Account("cq-a"));
  f.Prepare(0);
  f.Put(Kind::kCohort, Fixture::MakeCohort("org", "dept"), 3600);
  f.Prepare(3600);
  CHECK(f.world.credits().Find("cq-a") == nullptr);
  const KeptAccount* kept = f.world.credits().FindKept("cq-a");
  REQUIRE(kept != nullptr);
  CHECK(kept->unknown);
  CHECK(kept->settled->balance() == Credits::FromHours(8));
  f.Put(Kind::kCohort, Fixture::MakeCohort("org", ""), 5000);
  f.Prepare(5000);
  CHECK(f.world.credits().FindKept("cq-a") == nullptr);
  CHECK(f.At("cq-a", 5000 + 1800).balance() == Credits::FromHours(12));
}

TEST_CASE("a replay goes by the rules that were written down until now") {
  Fixture f;
  f.Queue("a", "8");
  api::CreditAccount account = f.Account("cq-a");
  account.status.balance = "100";
  account.status.entitlement = "16";  // of CPUs that counted twice
  account.status.last_settled = build::At(0);
  account.status.rules = api::CreditAccountRules{
      {{"cpu", Quantity::FromInt(2)}}, absl::ZeroDuration(), absl::Hours(24), absl::ZeroDuration()};
  f.Put(Kind::kCreditAccount, account);
  auto job = build::Workload("w").Queue("qa").Request("cpu", "4");
  f.Put(Kind::kWorkload, job.Admitted("a", "default").Get());
  api::CreditPolicy policy = Fixture::MakePolicy("p", "org", 1);
  policy.spec.half_life = absl::Hours(1);
  f.Put(Kind::kCreditPolicy, policy);
  f.Prepare(3600);
  CHECK(f.At("cq-a", 3600).balance() == Credits::FromHours(108));
  // From now on it decays, and a CPU counts once.
  CHECK((f.At("cq-a", 3600).Rate() == 4 * kUnit));
  CHECK(f.At("cq-a", 7200).balance() < Credits::FromHours(60));
}

}  // namespace
}  // namespace sluice::state
