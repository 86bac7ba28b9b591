// Leader election against a server that keeps one Lease, with clocks that the test moves.
#include "kube/leader_elector.h"

#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

struct FakeClock : Clock {
  explicit FakeClock(absl::Time start) : now(start) {}
  absl::Time Now() const override { return now; }
  absl::Time now;
};

// Keeps a lease with versions, as the API server does.
struct LeaseServer {
  LeaseServer()
      : server([this](const TestRequest& request, TestConnection& connection) {
          std::lock_guard lock(mutex);
          Serve(request, connection);
        }) {}

  void Serve(const TestRequest& request, TestConnection& connection) {
    if (broken) {
      connection.Respond(500, StatusBody(500, "InternalError", "etcd is gone"));
      return;
    }
    if (request.method == "GET") {
      if (lease.IsNull()) {
        connection.Respond(404, StatusBody(404, "NotFound", "no lease"));
      } else {
        connection.Respond(200, lease.Text());
      }
      return;
    }
    api::Json sent = *api::ParseJson(request.body);
    const bool create = request.method == "POST";
    if (!create && lease.IsNull() && missing_is_404) {
      connection.Respond(404, StatusBody(404, "NotFound", "no lease"));
      return;
    }
    if (create && !lease.IsNull()) {
      connection.Respond(409, StatusBody(409, "AlreadyExists", "there is one"));
      return;
    }
    if (!create && sent.GetString("metadata", "resourceVersion") != std::to_string(version)) {
      connection.Respond(409, StatusBody(409, "Conflict", "changed"));
      return;
    }
    Store(std::move(sent));
    connection.Respond(create ? 201 : 200, lease.Text());
  }
  void Store(api::Json next) {
    lease = std::move(next);
    lease["metadata"].Set("resourceVersion", std::to_string(++version));
  }
  // Another process writes the lease.
  void WriteAs(const std::string& holder, int64_t duration, const std::string& renew) {
    std::lock_guard lock(mutex);
    api::Json next = lease.IsNull() ? api::Json::MakeObject() : lease;
    api::Json& spec = next["spec"];
    spec.Set("holderIdentity", holder);
    spec.Set("leaseDurationSeconds", duration);
    spec.Set("acquireTime", "2020-01-01T00:00:00.000000Z");
    spec.Set("renewTime", renew);
    spec.Set("leaseTransitions", int64_t{4});
    Store(std::move(next));
  }
  api::Json Spec() {
    std::lock_guard lock(mutex);
    const api::Json* spec = lease.Find("spec");
    return spec == nullptr ? api::Json() : *spec;
  }
  void Break(bool value) {
    std::lock_guard lock(mutex);
    broken = value;
  }

  std::mutex mutex;
  api::Json lease;
  int version = 0;
  bool broken = false;
  // An API server answers an update of what was deleted with a conflict when the update names the
  // UID, which may not be so everywhere.
  bool missing_is_404 = false;
  TestServer server;
};

struct Fixture {
  Fixture() : link(lease.server) {
    options.lease = {"ns", "leader"};
    options.identity = "me";
    options.steady = &steady;
    options.wall = &wall;
    elector.emplace(
        link.MakeClient(), options,
        LeaderElectorCallbacks{[this](bool leading) { changes.push_back(leading); },
                               [this](const std::string& holder) { holders.push_back(holder); },
                               [this](const absl::Status& status) { errors.push_back(status); }});
  }

  absl::Duration StepAfter(absl::Duration wait) {
    steady.now += wait;
    wall.now += wait;
    return elector->Step();
  }

  LeaseServer lease;
  Link link;
  FakeClock steady{absl::UnixEpoch() + absl::Hours(5)};
  FakeClock wall{*ParseTime("2026-11-29T10:00:00Z")};
  LeaderElectorOptions options;
  std::vector<bool> changes;
  std::vector<std::string> holders;
  std::vector<absl::Status> errors;
  std::optional<LeaderElector> elector;
};

TEST_CASE("a lease that does not exist is created, then renewed") {
  Fixture f;
  CHECK_FALSE(f.elector->IsLeader());
  CHECK(f.elector->Step() == absl::Seconds(2));
  CHECK(f.elector->IsLeader());
  CHECK(f.changes == std::vector<bool>{true});
  api::Json spec = f.lease.Spec();
  CHECK(spec.GetString("holderIdentity") == "me");
  CHECK(spec.GetString("acquireTime") == "2026-11-29T10:00:00.000000Z");
  CHECK(spec.GetString("renewTime") == "2026-11-29T10:00:00.000000Z");
  CHECK(spec.Find("leaseDurationSeconds")->AsInt() == 15);
  CHECK(spec.Find("leaseTransitions")->AsInt() == 0);
  const size_t before = f.lease.server.requests().size();
  f.StepAfter(absl::Seconds(2));
  CHECK(f.lease.server.requests().size() == before + 1);
  spec = f.lease.Spec();
  CHECK(spec.GetString("acquireTime") == "2026-11-29T10:00:00.000000Z");
  CHECK(spec.GetString("renewTime") == "2026-11-29T10:00:02.000000Z");
  CHECK(f.lease.server.requests().back().target ==
        "/apis/coordination.k8s.io/v1/namespaces/ns/leases/leader");
}

TEST_CASE("a held lease is taken only when it was unchanged for its duration on our clock") {
  Fixture f;
  // Its times lie far in the past: they must not matter.
  f.lease.WriteAs("other", 15, "2020-01-01T00:00:00.000000Z");
  const absl::Duration wait = f.elector->Step();
  CHECK(wait >= absl::Seconds(2));
  CHECK(wait < absl::Seconds(2) * 2.2);
  CHECK(f.holders == std::vector<std::string>{"other"});
  f.StepAfter(absl::Seconds(14));
  CHECK_FALSE(f.elector->IsLeader());
  f.lease.WriteAs("other", 15, "2020-01-01T00:00:14.000000Z");
  f.StepAfter(absl::Seconds(10));
  f.StepAfter(absl::Seconds(14));
  CHECK_FALSE(f.elector->IsLeader());
  f.StepAfter(absl::Seconds(1));
  CHECK(f.elector->IsLeader());
  CHECK(f.lease.Spec().Find("leaseTransitions")->AsInt() == 5);
  CHECK(f.holders == std::vector<std::string>{"other", "me"});
}

TEST_CASE("a released lease is taken at once") {
  Fixture f;
  f.lease.WriteAs("", 1, "2026-11-29T10:00:00.000000Z");
  f.elector->Step();
  CHECK(f.elector->IsLeader());
}

TEST_CASE("a leader that cannot renew has lost when the deadline passes, not before") {
  Fixture f;
  f.elector->Step();
  f.lease.Break(true);
  CHECK(f.StepAfter(absl::Seconds(2)) == absl::Seconds(2));
  CHECK(f.elector->IsLeader());
  CHECK(f.StepAfter(absl::Seconds(7)) == absl::Seconds(1));
  CHECK(f.elector->IsLeader());
  SECTION("it comes back in time") {
    f.lease.Break(false);
    f.elector->Step();
    f.StepAfter(absl::Seconds(9));
    CHECK(f.elector->IsLeader());
    CHECK(f.changes == std::vector<bool>{true});
  }
  SECTION("it does not") {
    f.steady.now += absl::Seconds(1);
    // Even before the next try nobody may write any more.
    CHECK_FALSE(f.elector->IsLeader());
    f.elector->Step();
    CHECK(f.changes == std::vector<bool>{true, false});
    CHECK(f.errors.size() == 3);
    CHECK(f.elector->Run());
  }
}

TEST_CASE("a leader whose lease was taken has lost at once") {
  Fixture f;
  f.elector->Step();
  f.lease.WriteAs("other", 15, "2026-11-29T10:00:01.000000Z");
  f.StepAfter(absl::Seconds(2));
  CHECK_FALSE(f.elector->IsLeader());
  CHECK(f.changes == std::vector<bool>{true, false});
}

TEST_CASE("a lease that was deleted is created again by its holder") {
  Fixture f;
  f.lease.missing_is_404 = GENERATE(true, false);
  f.elector->Step();
  {
    std::lock_guard lock(f.lease.mutex);
    f.lease.lease = api::Json();
    f.lease.version = 100;
  }
  f.StepAfter(absl::Seconds(2));
  CHECK(f.elector->IsLeader());
  CHECK(f.lease.Spec().GetString("holderIdentity") == "me");
  CHECK(f.errors.empty());
  CHECK(f.changes == std::vector<bool>{true});
}

TEST_CASE("releasing empties the holder, so that a successor need not wait") {
  Fixture f;
  f.elector->Step();
  REQUIRE(f.elector->Release().ok());
  CHECK_FALSE(f.elector->IsLeader());
  CHECK(f.lease.Spec().GetString("holderIdentity").empty());
  CHECK(f.lease.Spec().Find("leaseDurationSeconds")->AsInt() == 1);
  LeaderElectorOptions options = f.options;
  options.identity = "next";
  LeaderElector next(f.link.MakeClient(), options, {});
  next.Step();
  CHECK(next.IsLeader());
  // A process that does not lead leaves the lease alone.
  REQUIRE(f.elector->Release().ok());
  CHECK(f.lease.Spec().GetString("holderIdentity") == "next");
}

TEST_CASE("of two processes one leads") {
  Fixture f;
  LeaderElectorOptions options = f.options;
  options.identity = "";
  LeaderElector a(f.link.MakeClient(), options, {});
  LeaderElector b(f.link.MakeClient(), options, {});
  CHECK(a.identity() != b.identity());
  std::thread first([&] { a.Step(); });
  std::thread second([&] { b.Step(); });
  first.join();
  second.join();
  CHECK(a.IsLeader() != b.IsLeader());
}

TEST_CASE("running ends when it is stopped") {
  Fixture f;
  std::optional<bool> lost;
  std::thread runner([&] { lost = f.elector->Run(); });
  for (int i = 0; i < 5000 && !f.elector->IsLeader(); ++i) usleep(1000);
  CHECK(f.elector->IsLeader());
  f.elector->Stop();
  runner.join();
  CHECK(lost == std::optional<bool>(false));
}

TEST_CASE("durations must leave room for each other") {
  LeaderElectorOptions options;
  options.lease = {"ns", "l"};
  CHECK(LeaderElector::Validate(options).ok());
  options.renew_deadline = absl::Seconds(15);
  CHECK_FALSE(LeaderElector::Validate(options).ok());
  options.renew_deadline = absl::Seconds(2.4);
  CHECK_FALSE(LeaderElector::Validate(options).ok());
  options.renew_deadline = absl::Seconds(10);
  options.lease.ns = "";
  CHECK_FALSE(LeaderElector::Validate(options).ok());
}

}  // namespace
}  // namespace sluice::kube
