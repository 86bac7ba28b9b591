#include "serve/visibility.h"

#include <absl/time/clock.h>

#include <string>
#include <vector>

#include "api/names.h"
#include "base/status.h"
#include "serve/server.h"
#include "unit/build/builders.h"
#include "unit/catch.h"
#include "unit/kube/certificate.h"
#include "unit/serve/test_client.h"

namespace sluice::serve {
namespace {

using api::Json;
using build::At;

constexpr char kRoot[] = "/apis/visibility.kueue.x-k8s.io/v1beta2/";

Json TrustMap(const std::string& proxy_ca, const std::string& client_ca) {
  return Json::MakeObject(
      {{"data",
        Json::MakeObject({{"requestheader-client-ca-file", proxy_ca},
                          {"client-ca-file", client_ca},
                          {"requestheader-allowed-names", R"(["front-proxy"])"},
                          {"requestheader-username-headers", R"(["X-Remote-User"])"},
                          {"requestheader-uid-headers", R"(["X-Remote-Uid"])"},
                          {"requestheader-group-headers", R"(["X-Remote-Group"])"},
                          {"requestheader-extra-headers-prefix", R"(["X-Remote-Extra-"])"}})}});
}

kube::Certificate IssueClient(const KeyPair& ca, const std::string& common_name,
                              const std::string& organization = "") {
  return kube::IssueClient({ca.cert_pem, ca.key_pem, ""}, common_name, organization);
}

// A server's surroundings: two authorities, an API server that knows one token and lets "allowed"
// do everything.
struct Fixture {
  Fixture() {
    VisibilityOptions options;
    options.pending = index;
    options.access = std::make_shared<AccessReviewer>(
        [this](const std::string& path, const Json& body, AccessReviewer::Answer done) {
          asked.push_back(path + " " + body.Find("spec")->Text());
          if (!error.ok()) return done(error);
          if (path == "/apis/authentication.k8s.io/v1/tokenreviews") {
            const bool known = body.Find("spec")->GetString("token") == "known";
            return done(*api::ParseJson(
                known ? R"({"status":{"authenticated":true,"user":{"username":"allowed"}}})"
                      : R"({"status":{"authenticated":false}})"));
          }
          const bool allowed = body.Find("spec")->GetString("user") == "allowed";
          done(*api::ParseJson(fmt::format(R"({{"status":{{"allowed":{}}}}})", allowed)));
        },
        [this] { return clock; });
    options.trust = [this] { return trusted ? trust : nullptr; };
    options.now = [] { return absl::Now(); };
    options.version = "1.2.3";
    options.metrics = [] { return std::string("up 1\n"); };
    if (with_what_if) {
      options.what_if = [](const std::string& name, const Json& body,
                           VisibilityOptions::WhatIfDone done) {
        if (name == "none") return done(NotFound("no {}", name));
        done([body] { return Json::MakeObject({{"status", body}}); });
      };
    }
    api = VisibilityApi::Make(std::move(options));
    index->SetSynced();
    index->Ready();
  }

  // As the front proxy sends it for that user.
  Request Proxied(const std::string& path, const std::string& user = "allowed") const {
    Request request;
    request.method = "GET";
    request.path = path.substr(0, path.find('?'));
    if (path.find('?') != std::string::npos) request.query = path.substr(path.find('?') + 1);
    request.headers = {{"x-remote-user", user}};
    request.client_certificates =
        std::make_shared<const std::vector<std::string>>(std::vector<std::string>{proxy.der});
    return request;
  }
  Response Ask(const Request& request) {
    Response response;
    response.status = 0;
    api->Handle(request, [&](const std::function<Response()>& answer) { response = answer(); });
    return response;
  }
  Response Get(const std::string& path, const std::string& user = "allowed") {
    return Ask(Proxied(path, user));
  }

  const KeyPair proxy_ca = *GenerateCa("proxies", absl::Now(), absl::Hours(1));
  const KeyPair client_ca = *GenerateCa("clients", absl::Now(), absl::Hours(1));
  const kube::Certificate proxy = IssueClient(proxy_ca, "front-proxy");
  std::shared_ptr<const RequestTrust> trust =
      *RequestTrust::Parse(TrustMap(proxy_ca.cert_pem, client_ca.cert_pem));
  std::shared_ptr<PendingIndex> index = std::make_shared<PendingIndex>();
  std::vector<std::string> asked;
  absl::Status error;
  absl::Time clock = At(0);
  bool trusted = true;
  bool with_what_if = true;
  std::shared_ptr<VisibilityApi> api;
};

void Fill(PendingIndex& index) {
  PendingUpdate update;
  update.cluster_queues = {{"cq", true}, {"empty", true}};
  update.local = {{{"ns1", "lq1"}, "cq"}, {{"ns1", "lq2"}, "cq"}, {{"ns2", "lq1"}, "cq"}};
  const auto add = [&](const char* name, const char* ns, const char* queue, int at, int priority) {
    const auto info =
        queueing::MakeWorkloadInfo(build::Workload(name)
                                       .Namespace(ns)
                                       .Queue(queue)
                                       .Created(At(at))
                                       .Priority(priority)
                                       .OwnedBy("batch/v1", "Job", "j", "u1")
                                       .Condition(api::kQuotaReserved, api::ConditionStatus::kFalse,
                                                  "WaitingForQuota", At(at), "4 \"more\"")
                                       .Shared(),
                                   "cq", {}, {});
    update.workloads.emplace_back(info->Key(), MakePendingItem(*info));
  };
  add("p", "ns1", "lq1", 4, 10);
  add("q", "ns1", "lq2", 0, 0);
  add("r", "ns2", "lq1", 1, 0);
  add("s", "ns1", "lq1", 2, 0);
  add("t", "ns1", "lq1", 3, 0);
  index.Apply(update);
}

// "name cluster-position local-position; ...", or the code.
std::string Shown(const Response& response) {
  if (response.status != 200) return std::to_string(response.status);
  const Json body = *api::ParseJson(response.body);
  std::string text;
  for (const Json& item : body.Find("items")->AsArray()) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", item.GetString("metadata", "name"),
                        item.Find("positionInClusterQueue")->AsInt(),
                        item.Find("positionInLocalQueue")->AsInt());
  }
  return text;
}

TEST_CASE("pending workloads with positions") {
  Fixture fixture;
  Fill(*fixture.index);
  const struct {
    const char* path;
    const char* want;
  } rows[] = {
      {"clusterqueues/cq/pendingworkloads", "p 0 0; q 1 0; r 2 0; s 3 1; t 4 2"},
      {"clusterqueues/cq/pendingworkloads?offset=3", "s 3 1; t 4 2"},
      {"clusterqueues/cq/pendingworkloads?limit=2&offset=1", "q 1 0; r 2 0"},
      {"namespaces/ns1/localqueues/lq1/pendingworkloads", "p 0 0; s 3 1; t 4 2"},
      {"namespaces/ns1/localqueues/lq1/pendingworkloads?limit=1&offset=1", "s 3 1"},
      {"namespaces/ns2/localqueues/lq1/pendingworkloads", "r 2 0"},
      {"namespaces/ns2/localqueues/lq9/pendingworkloads", "404"},
      {"clusterqueues/cq/pendingworkloads?offset=10", ""},
      {"clusterqueues/cq/pendingworkloads?limit=-5", ""},
      {"clusterqueues/cq/pendingworkloads?offset=-3", "p 0 0; q 1 0; r 2 0; s 3 1; t 4 2"},
      {"clusterqueues/cq/pendingworkloads?limit=0", "p 0 0; q 1 0; r 2 0; s 3 1; t 4 2"},
      {"clusterqueues/cq/pendingworkloads?limit=%31&other=x", "p 0 0"},
      {"clusterqueues/cq/pendingworkloads?limit=abc", "400"},
      {"clusterqueues/cq/pendingworkloads?limit=", "400"},
      {"clusterqueues/cq/pendingworkloads?offset=1.5", "400"},
      {"clusterqueues/empty/pendingworkloads", ""},
      {"clusterqueues/none/pendingworkloads", "404"},
      {"clusterqueues", "404"},
      {"clusterqueues/cq", "404"},
      {"clusterqueues/cq/status", "404"},
      {"localqueues/lq1/pendingworkloads", "404"},
      {"namespaces/ns1/clusterqueues/cq/pendingworkloads", "404"},
      {"clusterqueues/cq/pendingworkloads/more", "404"},
  };
  for (const auto& row : rows) {
    INFO(row.path);
    CHECK(Shown(fixture.Get(std::string(kRoot) + row.path)) == row.want);
  }
  CHECK(Shown(fixture.Get("/apis/visibility.kueue.x-k8s.io/v1beta1/clusterqueues/cq/"
                          "pendingworkloads?limit=1")) == "p 0 0");
  CHECK(Shown(fixture.Get("/apis/visibility.kueue.x-k8s.io/v1/clusterqueues/cq/"
                          "pendingworkloads")) == "404");
}

TEST_CASE("the whole answer, and what is said of a queue that is not there") {
  Fixture fixture;
  Fill(*fixture.index);
  CHECK(fixture.Get(std::string(kRoot) + "namespaces/ns2/localqueues/lq1/pendingworkloads").body ==
        R"({"kind":"PendingWorkloadsSummary","apiVersion":"visibility.kueue.x-k8s.io/v1beta2",)"
        R"("metadata":{},"items":[{"metadata":{"name":"r","namespace":"ns2",)"
        R"("creationTimestamp":"2026-01-01T00:00:01Z","ownerReferences":[{"apiVersion":"batch/v1",)"
        R"("kind":"Job","name":"j","uid":"u1"}]},"priority":0,"localQueueName":"lq1",)"
        R"("positionInClusterQueue":2,"positionInLocalQueue":0,)"
        R"("structuredReason":"QuotaExceeded","sentence":"4 \"more\""}]})"
        "\n");
  const Json status =
      *api::ParseJson(fixture.Get(std::string(kRoot) + "clusterqueues/none/pendingworkloads").body);
  CHECK(status.GetString("message") ==
        R"(clusterqueue.visibility.kueue.x-k8s.io "none" not found)");
  CHECK(status.GetString("details", "kind") == "clusterqueue");
  CHECK(status.GetString("kind") == "Status");
  CHECK(status.Find("code")->AsInt() == 404);
  Request request = fixture.Proxied(std::string(kRoot) + "clusterqueues/cq/pendingworkloads");
  request.method = "DELETE";
  CHECK(fixture.Ask(request).status == 405);
}

TEST_CASE("who asks is who the front proxy says, and nobody else may say so") {
  Fixture fixture;
  Fill(*fixture.index);
  const std::string path = std::string(kRoot) + "clusterqueues/cq/pendingworkloads";
  Request request = fixture.Proxied(path);
  request.headers.push_back({"X-Remote-Group", "a"});
  request.headers.push_back({"X-Remote-Group", "b"});
  request.headers.push_back({"X-Remote-Extra-Example.com%2fKey", "v"});
  request.headers.push_back({"X-Remote-Uid", "7"});
  CHECK(fixture.Ask(request).status == 200);
  REQUIRE(fixture.asked.size() == 1);
  CHECK(
      fixture.asked[0] ==
      R"(/apis/authorization.k8s.io/v1/subjectaccessreviews {"resourceAttributes":)"
      R"({"namespace":"","verb":"get","group":"visibility.kueue.x-k8s.io","version":"v1beta2",)"
      R"("resource":"clusterqueues","subresource":"pendingworkloads","name":"cq"},)"
      R"("user":"allowed","uid":"7","groups":["a","b","system:authenticated"],"extra":{"example.com/key":["v"]}})");

  SECTION("somebody who may not") {
    const Response refused = fixture.Get(path, "eve");
    CHECK(refused.status == 403);
    CHECK(api::ParseJson(refused.body)->GetString("message") ==
          R"(clusterqueues.visibility.kueue.x-k8s.io "cq" is forbidden: User "eve" cannot get )"
          R"(resource "clusterqueues/pendingworkloads" in API group "visibility.kueue.x-k8s.io" )"
          R"(at the cluster scope)");
    CHECK(fixture.Get("/apis", "eve").status == 403);
  }
  SECTION("headers without a certificate mean nothing") {
    request.client_certificates = nullptr;
    CHECK(fixture.Ask(request).status == 403);
    CHECK(fixture.asked.back().find("system:anonymous") != std::string::npos);
  }
  SECTION("a certificate of the right authority with another name") {
    const kube::Certificate other = IssueClient(fixture.proxy_ca, "somebody");
    request.client_certificates =
        std::make_shared<const std::vector<std::string>>(std::vector<std::string>{other.der});
    CHECK(fixture.Ask(request).status == 403);
  }
  SECTION("the right name from another authority") {
    const kube::Certificate other = IssueClient(fixture.client_ca, "front-proxy");
    request.client_certificates =
        std::make_shared<const std::vector<std::string>>(std::vector<std::string>{other.der});
    CHECK(fixture.Ask(request).status == 403);
    CHECK(fixture.asked.back().find(R"("user":"front-proxy")") != std::string::npos);
  }
  SECTION("nobody is known yet") {
    fixture.trusted = false;
    CHECK(fixture.Ask(request).status == 503);
  }
}

TEST_CASE("direct clients have certificates and tokens of their own") {
  Fixture fixture;
  Fill(*fixture.index);
  Request request = fixture.Proxied(std::string(kRoot) + "clusterqueues/cq/pendingworkloads");
  SECTION("a user's own certificate") {
    const kube::Certificate own = IssueClient(fixture.client_ca, "root", "system:masters");
    request.client_certificates =
        std::make_shared<const std::vector<std::string>>(std::vector<std::string>{own.der});
    const size_t before = fixture.asked.size();
    CHECK(fixture.Ask(request).status == 200);
    CHECK(fixture.asked.size() == before);  // of system:masters
  }
  SECTION("bearer tokens") {
    request.client_certificates = nullptr;
    request.headers = {{"Authorization", "Bearer known"}};
    CHECK(fixture.Ask(request).status == 200);
    request.headers = {{"Authorization", "Bearer unknown"}};
    CHECK(fixture.Ask(request).status == 401);
  }
}

TEST_CASE("answers about rights are remembered for a while, errors are not") {
  Fixture fixture;
  Fill(*fixture.index);
  const std::string path = std::string(kRoot) + "clusterqueues/cq/pendingworkloads";
  fixture.error = Unavailable("down");
  CHECK(fixture.Get(path).status == 503);
  fixture.error = absl::OkStatus();
  CHECK(fixture.Get(path).status == 200);
  CHECK(fixture.Get(path, "eve").status == 403);
  fixture.error = Unavailable("down");
  fixture.clock += absl::Seconds(9);
  CHECK(fixture.Get(path).status == 200);
  CHECK(fixture.Get(path, "eve").status == 403);
  CHECK(fixture.Get(std::string(kRoot) + "clusterqueues/empty/pendingworkloads").status == 503);
  fixture.clock += absl::Seconds(1);
  CHECK(fixture.Get(path).status == 503);
}

TEST_CASE("discovery in both forms") {
  Fixture fixture;
  const Json groups = *api::ParseJson(fixture.Get("/apis").body);
  CHECK(groups.GetString("kind") == "APIGroupList");
  const Json group = *api::ParseJson(fixture.Get("/apis/visibility.kueue.x-k8s.io").body);
  CHECK(group.GetString("preferredVersion", "version") == "v1beta2");
  CHECK(group.Find("versions")->AsArray().size() == 2);
  const Json resources = *api::ParseJson(fixture.Get(std::string(kRoot).substr(0, 39)).body);
  CHECK(resources.GetString("groupVersion") == "visibility.kueue.x-k8s.io/v1beta2");
  CHECK(resources.Find("resources")->AsArray().size() == 5);

  Request request = fixture.Proxied("/apis");
  request.headers.push_back(
      {"Accept",
       "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
       "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"});
  const Response aggregated = fixture.Ask(request);
  CHECK(aggregated.content_type ==
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
  const Json list = *api::ParseJson(aggregated.body);
  CHECK(list.GetString("apiVersion") == "apidiscovery.k8s.io/v2");
  CHECK(list.Find("items")->AsArray()[0].Find("versions")->AsArray().size() == 2);
  request.headers.push_back({"If-None-Match", aggregated.headers.front().second});
  CHECK(fixture.Ask(request).status == 304);
  CHECK(api::ParseJson(fixture.Get("/openapi/v2").body)->GetString("swagger") == "2.0");
  const Json index = *api::ParseJson(fixture.Get("/openapi/v3").body);
  for (const auto& [path, entry] : index.Find("paths")->AsObject()) {
    const Json document = *api::ParseJson(fixture.Get(entry.GetString("serverRelativeURL")).body);
    CHECK(document.GetString("info", "title") == "Kueue visibility-server");
    CHECK(document.Find("paths")->AsObject().size() == 3);
  }
  CHECK(api::ParseJson(fixture.Get("/version").body)->GetString("gitVersion") == "v1.2.3");
  CHECK(fixture.Get("/logs").status == 404);
  const Response metrics = fixture.Get("/metrics");
  CHECK(metrics.body == "up 1\n");
  CHECK(metrics.content_type == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(fixture.asked.back().find(R"("path":"/metrics")") != std::string::npos);
  CHECK(fixture.Get("/metrics", "nobody").status == 403);
}

TEST_CASE("the schema of a pending workload has every field that is shown") {
  Fixture fixture;
  Fill(*fixture.index);
  const std::string path = std::string(kRoot) + "clusterqueues/cq/pendingworkloads";
  const Json shown = *api::ParseJson(fixture.Get(path).body);
  const Json schemas =
      *api::ParseJson(fixture.Get("/openapi/v3/apis/visibility.kueue.x-k8s.io/v1beta2").body);
  const Json* fields = schemas.Find(
      "components", "schemas", "io.x-k8s.kueue.visibility.v1beta2.PendingWorkload", "properties");
  REQUIRE(fields != nullptr);
  for (const auto& [name, value] : shown.Find("items")->AsArray().front().AsObject()) {
    INFO(name);
    CHECK(fields->Has(name));
  }
}

TEST_CASE("the first question about pending workloads waits until the loop has filled the index") {
  Fixture fixture;
  REQUIRE(fixture.index->StopUnlessAskedSince(absl::InfiniteFuture()));
  const std::string path = std::string(kRoot) + "clusterqueues/cq/pendingworkloads";
  int answers = 0;
  Response response;
  const auto ask = [&] {
    fixture.api->Handle(fixture.Proxied(path), [&](const std::function<Response()>& answer) {
      response = answer();
      ++answers;
    });
  };
  ask();
  ask();
  CHECK(answers == 0);
  CHECK(fixture.index->wanted());
  CHECK(fixture.Get("/version").status == 200);  // needs no queues
  Fill(*fixture.index);
  fixture.index->Ready();
  CHECK(answers == 2);
  CHECK(response.status == 200);
  CHECK_FALSE(fixture.index->wanted());
  ask();
  CHECK(answers == 3);
  // Nobody waits for an answer that cannot come any more.
  REQUIRE(fixture.index->StopUnlessAskedSince(absl::InfiniteFuture()));
  ask();
  fixture.index->Close();
  fixture.index->Ready();
  CHECK(answers == 3);
}

TEST_CASE("a what-if is asked by POST") {
  Fixture fixture;
  Request request = fixture.Proxied(std::string(kRoot) + "clusterqueues/cq/whatif");
  CHECK(fixture.Ask(request).status == 405);
  request.method = "POST";
  request.body = R"({"a":1})";
  CHECK(fixture.Ask(request).body.find(R"("status":{"a":1})") != std::string::npos);
  CHECK(fixture.asked.back().find(R"("verb":"create")") != std::string::npos);
  request.body = "{";
  CHECK(fixture.Ask(request).status == 400);
  request.body = "{}";
  request.path = std::string(kRoot) + "clusterqueues/none/whatif";
  CHECK(fixture.Ask(request).status == 404);
}

TEST_CASE("over a real connection, with the front proxy's certificate") {
  Fixture fixture;
  Fill(*fixture.index);
  ServerOptions options;
  options.host = "127.0.0.1";
  options.certificate = *SelfSigned({"localhost"}, absl::Now(), absl::Hours(1));
  options.tls_options.ask_for_client_certificate = true;
  ClientTls tls{.ca_bundle_pem = options.certificate->ca_bundle_pem};
  Router router;
  VisibilityApi::AddTo(router, fixture.api);
  const auto server = *Server::Start(std::move(options), std::move(router));
  const std::string request = std::string("GET ") + kRoot +
                              "clusterqueues/cq/pendingworkloads HTTP/1.1\r\nHost: "
                              "localhost\r\nX-Remote-User: allowed\r\n\r\n";
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    tls.max_version = version;
    tls.cert_pem.clear();
    TestClient stranger(server->port(), tls);
    REQUIRE(stranger.ok());
    CHECK(stranger.Get("/livez").status == 200);
    CHECK(stranger.Exchange(request).status == 403);
    tls.cert_pem = fixture.proxy.cert_pem;
    tls.key_pem = fixture.proxy.key_pem;
    TestClient proxy(server->port(), tls);
    REQUIRE(proxy.ok());
    CHECK(proxy.Exchange(request).status == 200);
    CHECK(proxy.Exchange(request).status == 200);
  }
}

TEST_CASE("a hundred thousand pending workloads are answered at once", "[.measure]") {
  constexpr int kMany = 100000;
  Fixture fixture;
  PendingUpdate update;
  update.cluster_queues = {{"cq", true}};
  std::vector<queueing::WorkloadInfoPtr> infos;
  for (int i = 0; i < kMany; ++i) {
    build::Workload workload(fmt::format("w{}", i));
    workload.Queue("lq").Created(At(i * 7919 % kMany));
    workload.Condition(api::kQuotaReserved, api::ConditionStatus::kFalse, "WaitingForQuota", At(0),
                       "couldn't assign flavors to pod set main: insufficient unused quota for cpu "
                       "in flavor default, 4 more needed");
    infos.push_back(queueing::MakeWorkloadInfo(workload.Shared(), "cq", {}, {}));
  }
  absl::Time start = absl::Now();
  for (const auto& info : infos) update.workloads.emplace_back(info->Key(), MakePendingItem(*info));
  const absl::Duration made = absl::Now() - start;
  start = absl::Now();
  fixture.index->Apply(update);
  const absl::Duration applied = absl::Now() - start;
  start = absl::Now();
  const auto view = fixture.index->OfClusterQueue("cq", absl::Now());
  const absl::Duration sorted = absl::Now() - start;
  start = absl::Now();
  const Response response =
      fixture.Get(std::string(kRoot) + "clusterqueues/cq/pendingworkloads?limit=100000");
  WARN("made in " << absl::ToDoubleMilliseconds(made) << " ms, taken in "
                  << absl::ToDoubleMilliseconds(applied) << " ms, sorted "
                  << absl::ToDoubleMilliseconds(sorted) << " ms, written "
                  << absl::ToDoubleMilliseconds(absl::Now() - start) << " ms, "
                  << response.body.size() << " bytes");
  CHECK(view->entries.size() == kMany);
}

}  // namespace
}  // namespace sluice::serve
