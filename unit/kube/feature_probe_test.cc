// What the API server answers about native gangs, and what is made of it.
#include "kube/feature_probe.h"

#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

struct GangServer {
  GangServer()
      : server([this](const TestRequest& request, TestConnection& connection) {
          std::lock_guard lock(mutex);
          Serve(request, connection);
        }) {}

  void Serve(const TestRequest& request, TestConnection& connection) {
    if (broken > 0) {
      --broken;
      connection.Respond(500, StatusBody(500, "InternalError", "not now"));
    } else if (request.method == "POST") {
      api::Json job = *api::ParseJson(request.body);
      if (!keeps_scheduling) job["spec"].Erase("scheduling");
      if (job_code == 201) {
        connection.Respond(201, job.Text());
      } else {
        connection.Respond(job_code, StatusBody(job_code, "Forbidden", "no Jobs here"));
      }
    } else if (request.Has("/podgroups")) {
      connection.Respond(list_code,
                         list_code == 200 ? R"({"items":[]})" : StatusBody(list_code, "R", "m"));
    } else if (!served) {
      connection.Respond(404, StatusBody(404, "NotFound", "no such version"));
    } else {
      connection.Respond(200, R"({"resources":[{"name":"workloads"},{"name":"podgroups"}]})");
    }
  }
  template <typename Change>
  void Set(Change change) {
    std::lock_guard lock(mutex);
    change(*this);
  }

  std::mutex mutex;
  bool served = true;
  bool keeps_scheduling = true;
  int list_code = 200;
  int job_code = 201;
  int broken = 0;
  TestServer server;
};

struct Fixture {
  explicit Fixture(absl::Duration interval = absl::Hours(1)) : link(gangs.server) {
    FeatureProbeOptions options;
    options.ns = "sluice-system";
    options.interval = interval;
    options.soon = absl::Milliseconds(20);
    probe = std::make_unique<FeatureProbe>(
        link.MakeClient(), link.timers, options,
        [this](const FeatureReport& report) { reports.Add(report); });
  }
  FeatureReport First() {
    probe->Start();
    REQUIRE(reports.Wait(1));
    return reports.all()[0];
  }

  GangServer gangs;
  Link link;
  Box<FeatureReport> reports;
  std::unique_ptr<FeatureProbe> probe;
};

TEST_CASE("what the server has is found out step by step") {
  Fixture f;
  SECTION("everything") {
    CHECK(f.First() == FeatureReport{{true, true}, ""});
    const auto requests = f.gangs.server.requests();
    REQUIRE(requests.size() == 3);
    CHECK(requests[2].target == "/apis/batch/v1/namespaces/sluice-system/jobs?dryRun=All");
  }
  SECTION("Jobs drop the field") {
    f.gangs.keeps_scheduling = false;
    const FeatureReport report = f.First();
    CHECK(report.features == state::ClusterFeatures{true, false});
    CHECK(report.detail == "Jobs do not keep spec.scheduling");
  }
  SECTION("the dry run is refused") {
    f.gangs.job_code = 403;
    const FeatureReport report = f.First();
    CHECK(report.features == state::ClusterFeatures{true, false});
    CHECK(report.detail.find("no Jobs here") != std::string::npos);
  }
  SECTION("PodGroups may not be read") {
    f.gangs.list_code = 403;
    CHECK(f.First() == FeatureReport{{}, "PodGroups are served, but may not be read"});
  }
  SECTION("nothing") {
    f.gangs.served = false;
    CHECK(f.First() == FeatureReport{{}, "scheduling.k8s.io/v1beta1 is not served"});
    CHECK(f.gangs.server.requests().size() == 1);
  }
}

TEST_CASE("changes are noticed, and only they are told") {
  Fixture f(absl::Milliseconds(20));
  REQUIRE(f.First().features.pod_groups);
  f.gangs.Set([](GangServer& server) { server.served = false; });
  REQUIRE(f.reports.Wait(2));
  CHECK_FALSE(f.reports.all()[1].features.pod_groups);
  f.gangs.Set([](GangServer& server) { server.served = true; });
  REQUIRE(f.reports.Wait(3));
  CHECK(f.reports.all()[2].features == state::ClusterFeatures{true, true});
  CHECK(f.reports.size() == 3);
}

TEST_CASE("a server that fails changes nothing, and is asked again") {
  Fixture f;
  f.gangs.broken = 12;
  CHECK(f.First().features == state::ClusterFeatures{true, true});
  CHECK(f.reports.size() == 1);
}

TEST_CASE("asked soon it does not wait for its turn") {
  Fixture f;
  REQUIRE(f.First().features.pod_groups);
  f.gangs.Set([](GangServer& server) { server.served = false; });
  f.probe->AskSoon();
  REQUIRE(f.reports.Wait(2));
  CHECK_FALSE(f.reports.all()[1].features.pod_groups);
}

}  // namespace
}  // namespace sluice::kube
