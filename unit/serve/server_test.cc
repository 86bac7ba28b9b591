#include "serve/server.h"

#include <absl/time/clock.h>

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "unit/catch.h"
#include "unit/serve/test_client.h"

namespace sluice::serve {
namespace {

ServingCertificate NewCertificate() {
  return *SelfSigned({"localhost", "127.0.0.1"}, absl::Now(), absl::Hours(1));
}

Router Paths() {
  Router router;
  router.Get("/ping",
             [](const Request& request) { return Response::Text(200, "pong " + request.query); });
  router.Post("/echo", [](const Request& request) { return Response::Text(200, request.body); });
  router.Post("/double", [](const Request& request) {
    return Response::Text(200, request.body + request.body);
  });
  router.Post(
      "/big",
      [](const Request& request) {
        return Response::Text(200, std::to_string(request.body.size()));
      },
      size_t{6} << 20);
  router.Get("/throw", [](const Request&) -> Response { throw std::runtime_error("boom"); });
  router.Get("/slow", [](const Request&) {
    absl::SleepFor(absl::Milliseconds(300));
    return Response::Text(200, "late");
  });
  return router;
}

struct Running {
  explicit Running(ServerOptions options = {}, bool tls = false) {
    options.host = "127.0.0.1";
    options.tls = tls;
    if (tls) options.certificate = certificate = NewCertificate();
    auto started = Server::Start(std::move(options), Paths());
    REQUIRE(started.ok());
    server = *std::move(started);
    trust.ca_bundle_pem = certificate.ca_bundle_pem;
  }
  uint16_t port() const { return server->port(); }

  ServingCertificate certificate;
  ClientTls trust;
  std::unique_ptr<Server> server;
};

// Waits for something that another thread does; the limit only bounds a failing test.
template <typename Condition>
bool Eventually(Condition condition) {
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  while (!condition()) {
    if (absl::Now() > limit) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

bool AllClosed(const Running& running) {
  return Eventually([&] { return running.server->stats().open == 0; });
}

TEST_CASE("requests over TLS are verified and answered") {
  Running running({}, true);
  TestClient client(running.port(), running.trust);
  REQUIRE(client.ok());
  CHECK(client.alpn() == "http/1.1");
  const Answer ping = client.Get("/ping?timeout=10s");
  CHECK(ping.status == 200);
  CHECK(ping.body == "pong timeout=10s");
  CHECK(client.Post("/echo", "body").body == "body");
  CHECK(client.Get("/nothing").status == 404);
  const Answer refused = client.Get("/echo");
  CHECK(refused.status == 405);
  CHECK(refused.head.find("Allow: POST\r\n") != std::string::npos);
  ClientTls by_ip = running.trust;
  by_ip.name = "127.0.0.1";
  CHECK(TestClient(running.port(), by_ip).ok());
  ClientTls other_name = running.trust;
  other_name.name = "example.com";
  CHECK_FALSE(TestClient(running.port(), other_name).ok());
}

TEST_CASE("one connection serves 1000 requests") {
  const bool tls = GENERATE(false, true);
  Running running({}, tls);
  TestClient client = tls ? TestClient(running.port(), running.trust) : TestClient(running.port());
  int answered = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string body = std::to_string(i);
    if (client.Post("/echo", body).body == body) ++answered;
  }
  CHECK(answered == 1000);
  CHECK(running.server->stats().accepted == 1);
  CHECK(running.server->stats().requests == 1000);
}

TEST_CASE("pipelined requests are answered in order") {
  Running running;
  TestClient client(running.port());
  std::string requests;
  for (int i = 0; i < 50; ++i) {
    requests += "GET /ping?" + std::to_string(i) + " HTTP/1.1\r\nHost: h\r\n\r\n";
  }
  REQUIRE(client.Send(requests));
  for (int i = 0; i < 50; ++i) CHECK(client.Receive().body == "pong " + std::to_string(i));
}

TEST_CASE("HEAD has the length and no body") {
  Running running;
  TestClient client(running.port());
  REQUIRE(client.Send("HEAD /ping HTTP/1.1\r\nHost: h\r\n\r\n"));
  const Answer head = client.Receive(true);
  CHECK(head.status == 200);
  CHECK(head.head.find("Content-Length: 5\r\n") != std::string::npos);
  CHECK(client.Get("/ping").body == "pong ");
}

TEST_CASE("the client's wish to close is respected") {
  const auto request =
      GENERATE(std::string("GET /ping HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"),
               std::string("GET /ping HTTP/1.0\r\n\r\n"));
  Running running;
  TestClient client(running.port());
  CHECK(client.Exchange(request).status == 200);
  CHECK(client.WaitForClose());
}

TEST_CASE("Expect: 100-continue is honoured") {
  Running running;
  TestClient client(running.port());
  REQUIRE(client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"));
  CHECK(client.Receive().status == 100);
  CHECK(client.Exchange("abc").body == "abc");
}

TEST_CASE("chunked bodies are joined") {
  Running running;
  TestClient client(running.port());
  CHECK(client
            .Exchange("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                      "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            .body == "abcde");
  CHECK(client.Get("/ping").status == 200);
}

TEST_CASE("limits on bodies, by path") {
  ServerOptions options;
  options.body_limit = 1000;
  const bool tls = GENERATE(false, true);
  Running running(options, tls);
  const auto connect = [&] {
    return tls ? std::make_unique<TestClient>(running.port(), running.trust)
               : std::make_unique<TestClient>(running.port());
  };
  CHECK(connect()->Post("/echo", std::string(1000, 'x')).body.size() == 1000);
  CHECK(connect()->Post("/echo", std::string(1001, 'x')).status == 413);
  CHECK(connect()->Post("/big", std::string(5000000, 'x')).body == "5000000");
  // The whole body is sent before the answer is read: it must not get lost in a reset.
  CHECK(connect()->Post("/big", std::string(9000000, 'x')).status == 413);
  std::string chunked = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 20; ++i) chunked += "64\r\n" + std::string(100, 'x') + "\r\n";
  CHECK(connect()->Exchange(chunked + "0\r\n\r\n").status == 413);
  CHECK(AllClosed(running));
}

TEST_CASE("limits on headers, and text that is not HTTP") {
  ServerOptions options;
  options.header_limit = 4096;
  Running running(options);
  CHECK(TestClient(running.port())
            .Exchange("GET /ping HTTP/1.1\r\nX: " + std::string(10000, 'x') + "\r\n\r\n")
            .status == 431);
  CHECK(TestClient(running.port()).Exchange("this is not http\r\n\r\n").status == 400);
  CHECK(TestClient(running.port())
            .Exchange("POST /echo HTTP/1.1\r\nContent-Length: x\r\n\r\n")
            .status == 400);
  CHECK(AllClosed(running));
}

TEST_CASE("a handler that throws is a 500 and a report") {
  std::string report;
  ServerOptions options;
  options.name = "webhook server";
  options.on_error = [&](const std::string& message) { report = message; };
  Running running(options);
  TestClient client(running.port());
  CHECK(client.Get("/throw").status == 500);
  CHECK(client.Get("/ping").status == 200);
  running.server->Stop(absl::Seconds(1));
  CHECK(report == "webhook server: GET /throw: boom");
}

TEST_CASE("connections that come and go leave no descriptor") {
  const bool tls = GENERATE(false, true);
  const size_t before = OpenDescriptors();
  {
    Running running({}, tls);
    for (int i = 0; i < 50; ++i) REQUIRE(TestClient(running.port()).ok());
    REQUIRE(Eventually([&] { return running.server->stats().accepted == 50; }));
    CHECK(AllClosed(running));
    CHECK(OpenDescriptors() <= before + 6);
  }
  CHECK(OpenDescriptors() == before);
}

TEST_CASE("garbage instead of a handshake does no harm") {
  Running running({}, true);
  for (const char* text : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\xff\xff\x01", "\0\0\0\0"}) {
    TestClient client(running.port());
    client.Send(std::string(text) + std::string(100, '\xee'));
    CHECK(client.WaitForClose());
  }
  CHECK(AllClosed(running));
  CHECK(running.server->stats().handshake_failures == 3);
  CHECK(TestClient(running.port(), running.trust).Get("/ping").status == 200);
}

TEST_CASE("silent and slow connections end at their deadline") {
  ServerOptions options;
  options.handshake_timeout = options.header_timeout = absl::Milliseconds(200);
  options.body_timeout = options.idle_timeout = absl::Milliseconds(200);
  SECTION("no handshake") {
    Running running(options, true);
    std::vector<std::unique_ptr<TestClient>> clients;
    for (int i = 0; i < 50; ++i) clients.push_back(std::make_unique<TestClient>(running.port()));
    for (auto& client : clients) CHECK(client->WaitForClose());
    CHECK(AllClosed(running));
    CHECK(running.server->stats().timeouts == 50);
  }
  SECTION("no request after the handshake") {
    Running running(options, true);
    TestClient client(running.port(), running.trust);
    REQUIRE(client.ok());
    CHECK(client.WaitForClose());
    CHECK(AllClosed(running));
  }
  SECTION("half a header, byte by byte") {
    Running running(options);
    TestClient client(running.port());
    while (client.Send("G") && running.server->stats().timeouts == 0) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    CHECK(AllClosed(running));
    CHECK(running.server->stats().timeouts == 1);
  }
  SECTION("a body byte by byte") {
    Running running(options);
    TestClient client(running.port());
    REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100000\r\n\r\n"));
    while (client.Send("x") && running.server->stats().timeouts == 0) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    CHECK(AllClosed(running));
    CHECK(running.server->stats().requests == 0);
  }
}

TEST_CASE("a full server closes the connection that is idle for longest") {
  ServerOptions options;
  options.max_connections = 2;
  Running running(options);
  TestClient first(running.port());
  CHECK(first.Get("/ping").status == 200);
  TestClient second(running.port());
  CHECK(second.Get("/ping").status == 200);
  TestClient third(running.port());
  CHECK(third.Get("/ping").status == 200);
  CHECK(first.WaitForClose());
  CHECK(second.Get("/ping").status == 200);
  CHECK(third.Get("/ping").status == 200);
}

TEST_CASE("clients that are slow on purpose do not keep others out") {
  ServerOptions options;
  options.max_connections = 3;
  options.patience = absl::ZeroDuration();
  const std::string what = GENERATE("no handshake", "no header", "half a header", "half a body");
  CAPTURE(what);
  const bool tls = what == "no handshake";
  Running running(options, tls);
  const auto connect = [&] {
    return tls ? std::make_unique<TestClient>(running.port(), running.trust)
               : std::make_unique<TestClient>(running.port());
  };
  const auto served = connect();
  CHECK(served->Get("/ping").status == 200);
  std::vector<std::unique_ptr<TestClient>> slow;
  for (int i = 0; i < 6; ++i) {
    slow.push_back(std::make_unique<TestClient>(running.port()));
    if (what == "half a header") REQUIRE(slow.back()->Send("POST /echo HTTP/1.1\r\nHo"));
    if (what == "half a body") {
      REQUIRE(slow.back()->Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nx"));
    }
  }
  // The oldest of them had to go, and go again for each newcomer; who is served keeps its place.
  CHECK(connect()->Get("/ping").status == 200);
  CHECK(slow[0]->WaitForClose());
  CHECK(connect()->Get("/ping").status == 200);
  CHECK(served->Get("/ping").status == 200);
  CHECK(running.server->stats().timeouts == 0);
}

TEST_CASE("a client that has only just begun is not put out while another is idle") {
  ServerOptions options;
  options.max_connections = 2;
  options.patience = absl::Hours(1);
  Running running(options);
  TestClient begun(running.port());
  REQUIRE(begun.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\na"));
  TestClient idle(running.port());
  CHECK(idle.Get("/ping").status == 200);
  CHECK(TestClient(running.port()).Get("/ping").status == 200);
  CHECK(idle.WaitForClose());
  CHECK(begun.Exchange("b").body == "ab");
}

TEST_CASE("bodies together hold no more memory than they may") {
  ServerOptions options;
  options.body_limit = size_t{4} << 20;
  options.body_budget = size_t{1} << 20;
  Running running(options);
  const std::string large(size_t{1} << 20, 'x');  // with the free part of each, two do not fit
  const std::string head =
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(large.size() + 1) +
      "\r\n\r\n";
  TestClient first(running.port());
  REQUIRE(first.Send(head + large));
  REQUIRE(Eventually([&] {
    return running.server->stats().body_bytes == large.size() - ServerOptions::kFreeBody;
  }));
  CHECK(TestClient(running.port()).Post("/echo", large).status == 503);
  // Small ones are served all the same, and the large one is complete now.
  CHECK(TestClient(running.port()).Post("/echo", std::string(1000, 'x')).status == 200);
  CHECK(first.Exchange("y").body == large + "y");
  CHECK(Eventually([&] { return running.server->stats().body_bytes == 0; }));
  CHECK(TestClient(running.port()).Post("/echo", large).status == 200);
  // An answer counts as well.
  CHECK(TestClient(running.port()).Post("/double", large).status == 503);
  CHECK(TestClient(running.port()).Post("/echo", large).status == 200);
}

TEST_CASE("a full server that is busy lets new connections wait") {
  ServerOptions options;
  options.max_connections = 1;
  Running running(options);
  TestClient first(running.port());
  REQUIRE(first.Send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"));
  REQUIRE(Eventually([&] { return running.server->stats().requests == 1; }));
  TestClient second(running.port());
  CHECK(second.Get("/ping").status == 200);
  CHECK(first.Receive().body == "late");
}

TEST_CASE("a certificate changes under load without a refused request") {
  ServerOptions options;
  options.threads = 2;
  Running running(options, true);
  const ServingCertificate next = NewCertificate();
  // As during a rotation: clients trust both.
  ClientTls trust{running.certificate.ca_bundle_pem + next.ca_bundle_pem};
  std::atomic<bool> stop = false;
  std::atomic<int> good = 0;
  std::atomic<int> bad = 0;
  const auto count = [&](const Answer& answer) { ++(answer.status == 200 ? good : bad); };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      TestClient lasting(running.port(), trust);
      while (!stop) {
        count(lasting.Get("/ping"));
        count(TestClient(running.port(), trust).Get("/ping"));
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    const int seen = good + bad;
    REQUIRE(Eventually([&] { return good + bad >= seen + 4; }));
    REQUIRE(running.server->SetCertificate(i % 2 == 0 ? next : running.certificate).ok());
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK(bad == 0);
  CHECK(good >= 80);
  REQUIRE(running.server->SetCertificate(next).ok());
  CHECK_FALSE(TestClient(running.port(), running.trust).ok());
  CHECK(TestClient(running.port(), {next.ca_bundle_pem}).ok());
}

TEST_CASE("a certificate that cannot be used is refused and the former stays") {
  Running running({}, true);
  ServingCertificate broken = NewCertificate();
  broken.key_pem = NewCertificate().key_pem;
  CHECK(absl::IsInvalidArgument(running.server->SetCertificate(broken)));
  CHECK(TestClient(running.port(), running.trust).ok());
}

TEST_CASE("old TLS versions are refused") {
  struct Row {
    TlsVersion minimum;
    int client;
    bool accepted;
  };
  const auto row = GENERATE(values<Row>({{TlsVersion::kTls12, TLS1_1_VERSION, false},
                                         {TlsVersion::kTls12, TLS1_2_VERSION, true},
                                         {TlsVersion::kTls12, TLS1_3_VERSION, true},
                                         {TlsVersion::kTls13, TLS1_2_VERSION, false},
                                         {TlsVersion::kTls13, TLS1_3_VERSION, true}}));
  ServerOptions options;
  options.tls_options.min_version = row.minimum;
  Running running(options, true);
  ClientTls tls = running.trust;
  tls.max_version = row.client;
  TestClient client(running.port(), tls);
  CHECK(client.ok() == row.accepted);
}

TEST_CASE("cipher suites and groups follow the configuration") {
  ServerOptions options;
  options.tls_options.cipher_suites = {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"};
  std::string warning;
  options.on_error = [&](const std::string& message) { warning = message; };
  options.tls_options.curve_preferences = {4588, 24};
  Running running(options, true);
  CHECK(warning == "server: tls.curvePreferences: group 4588 is not supported here");
  ClientTls tls = running.trust;
  tls.max_version = TLS1_2_VERSION;
  TestClient client(running.port(), tls);
  REQUIRE(client.ok());
  CHECK(client.cipher() == "ECDHE-ECDSA-AES256-GCM-SHA384");
}

TEST_CASE("bad options name what is wrong") {
  const auto message = [](ServerOptions options) {
    return std::string(Server::Start(std::move(options), Paths()).status().message());
  };
  ServerOptions options;
  options.host = "127.0.0.1";
  CHECK(message(options) == "server: TLS without a certificate");
  options.certificate = NewCertificate();
  options.tls_options.cipher_suites = {"TLS_NO_SUCH"};
  CHECK(message(options) == "server: tls.cipherSuites: \"TLS_NO_SUCH\" is not supported here");
  options.tls_options = {};
  options.tls_options.curve_preferences = {4588};
  CHECK(message(options) == "server: tls.curvePreferences: none of the groups is supported here");
  options.tls_options = {};
  options.host = "localhost";
  CHECK(message(options) == "server: \"localhost\" is not an IP address");
  options.host = "127.0.0.1";
  Running other;
  options.port = other.port();
  const auto taken = Server::Start(options, Paths());
  CHECK(absl::IsUnavailable(taken.status()));
  CHECK(std::string(taken.status().message()) ==
        "server: cannot listen on 127.0.0.1:" + std::to_string(other.port()) +
            ": Address already in use");
}

TEST_CASE("an empty host listens on IPv4 too") {
  ServerOptions options;
  options.tls = false;
  auto server = Server::Start(options, Paths());
  REQUIRE(server.ok());
  CHECK(TestClient((*server)->port()).Get("/ping").status == 200);
}

TEST_CASE("stopping lets a request finish and closes the rest") {
  const size_t before = OpenDescriptors();
  ServerOptions options;
  Running running(options);
  TestClient idle(running.port());
  CHECK(idle.Get("/ping").status == 200);
  TestClient busy(running.port());
  REQUIRE(busy.Send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n"));
  REQUIRE(Eventually([&] { return running.server->stats().requests == 2; }));
  running.server->Stop(absl::Seconds(10));
  const Answer late = busy.Receive();
  CHECK(late.body == "late");
  CHECK(late.head.find("Connection: close\r\n") != std::string::npos);
  CHECK(idle.WaitForClose());
  CHECK(running.server->stats().open == 0);
  CHECK_FALSE(TestClient(running.port()).ok());
  idle.Close();
  busy.Close();
  running.server.reset();
  CHECK(OpenDescriptors() == before);
}

TEST_CASE("stopping does not wait longer than it may") {
  Running running;
  TestClient client(running.port());
  REQUIRE(client.Send("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n"));
  REQUIRE(Eventually([&] { return running.server->stats().open == 1; }));
  // The session may still be reading the header as an idle one; both ends are right.
  const absl::Time begin = absl::Now();
  running.server->Stop(absl::Milliseconds(50));
  CHECK(absl::Now() - begin < absl::Seconds(5));
  CHECK(client.WaitForClose());
  CHECK(running.server->stats().open == 0);
  running.server->Stop(absl::Seconds(1));
}

TEST_CASE("an answer that comes from another thread, or late, or never") {
  std::vector<Finish> kept;
  std::mutex mutex;
  Router router;
  router.Get("/now", [](const Request&) { return Response::Text(200, "now"); });
  router.Otherwise([&](const Request& request, Finish finish) {
    if (request.path == "/throw") throw std::runtime_error("boom");
    if (request.path == "/direct") return finish([] { return Response::Text(200, "direct"); });
    const std::lock_guard<std::mutex> lock(mutex);
    kept.push_back(std::move(finish));
  });
  ServerOptions options;
  options.host = "127.0.0.1";
  options.tls = false;
  options.answer_timeout = absl::Milliseconds(300);
  auto server = *Server::Start(std::move(options), std::move(router));
  const auto next = [&] {
    REQUIRE(Eventually([&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return !kept.empty();
    }));
    const std::lock_guard<std::mutex> lock(mutex);
    Finish finish = std::move(kept.back());
    kept.clear();
    return finish;
  };
  TestClient client(server->port());
  CHECK(client.Get("/direct").body == "direct");
  CHECK(client.Get("/throw").status == 500);
  REQUIRE(client.Send("GET /later HTTP/1.1\r\nHost: a\r\n\r\n"));
  // The one thread of the server is free meanwhile.
  TestClient other(server->port());
  CHECK(other.Get("/now").body == "now");
  const Finish finish = next();
  finish([] { return Response::Text(200, "later"); });
  finish([] { return Response::Text(200, "twice"); });
  CHECK(client.Receive().body == "later");
  CHECK(client.Get("/never").status == 504);
  const Finish too_late = next();
  too_late([] { return Response::Text(200, "too late"); });
  CHECK(client.Get("/now").body == "now");

  REQUIRE(client.Send("GET /stopped HTTP/1.1\r\nHost: a\r\n\r\n"));
  const Finish after_the_end = next();
  server.reset();
  after_the_end([] { return Response::Text(200, "nobody hears it"); });
}

}  // namespace
}  // namespace sluice::serve
