// The transport against a server that answers, splits, stalls and cuts.
#include <dirent.h>
#include <sys/stat.h>

#include <fstream>

#include "kube/line_cutter.h"
#include "kube/url.h"
#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

size_t OpenDescriptors() {
  size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

struct StreamLog {
  Box<std::string> lines;
  Box<absl::StatusOr<HttpResponse>> ends;
};

std::shared_ptr<StreamHandle> OpenStream(Transport& transport,
                                         const std::shared_ptr<StreamLog>& log,
                                         absl::Duration silence = kPatience) {
  HttpRequest request;
  request.path_and_query = "/watch";
  request.timeout = silence;
  return transport.Stream(
      std::move(request), [log](std::string_view line) { log->lines.Add(std::string(line)); },
      [log](absl::StatusOr<HttpResponse> end) { log->ends.Add(std::move(end)); });
}

TEST_CASE("lines are cut wherever the pieces end") {
  const std::string text = "one\n\ntwo\r\nthree is longer\nrest";
  for (size_t size = 1; size <= text.size(); ++size) {
    std::vector<std::string> lines;
    LineCutter cutter(
        100, [&](std::string_view line) { lines.emplace_back(line); }, nullptr);
    for (size_t at = 0; at < text.size(); at += size) cutter.Feed(text.substr(at, size));
    CAPTURE(size);
    CHECK(lines == std::vector<std::string>{"one", "two", "three is longer"});
    CHECK(cutter.pending() == 4);
  }
}

TEST_CASE("an oversized line is dropped and the next one is kept") {
  for (size_t size : {1, 3, 100}) {
    std::vector<std::string> lines;
    std::vector<size_t> dropped;
    LineCutter cutter(
        5, [&](std::string_view line) { lines.emplace_back(line); },
        [&](size_t bytes) { dropped.push_back(bytes); });
    const std::string text = "12345\n123456789\nabc\n";
    for (size_t at = 0; at < text.size(); at += size) cutter.Feed(text.substr(at, size));
    CAPTURE(size);
    CHECK(lines == std::vector<std::string>{"12345", "abc"});
    REQUIRE(dropped.size() == 1);
    CHECK(dropped[0] > 5);
  }
}

TEST_CASE("queries are percent-encoded") {
  CHECK(WithQuery("/a", {{"labelSelector", "a in (b,c)"}, {"empty", ""}, {"limit", "5"}}) ==
        "/a?labelSelector=a%20in%20%28b%2Cc%29&limit=5");
  CHECK(WithQuery("/a", {{"x", ""}}) == "/a");
}

TEST_CASE("a request carries method, query, headers and body, and the answer comes back whole") {
  TestServer server([](const TestRequest& request, TestConnection& connection) {
    connection.Respond(request.method == "DELETE" ? 200 : 201, "{\"got\":\"" + request.body + "\"}",
                       "Retry-After: 7\r\n");
  });
  CredentialConfig config = Link::ConfigFor(server.url() + "/prefix");
  config.token = "secret";
  config.impersonation = {{"Impersonate-User", "jane"}};
  TransportOptions options;
  options.user_agent = "sluice/test";
  Link link(config, options);
  HttpRequest request;
  request.method = GENERATE(as<std::string>(), "POST", "PATCH", "DELETE", "PUT");
  request.path_and_query = "/api/v1/pods?labelSelector=a%3Db%2Cc";
  request.headers = {{"Content-Type", "application/merge-patch+json"}};
  request.body = "hello";
  const auto response = SendAndWait(*link.transport, request);
  REQUIRE(response.ok());
  CHECK(response->body == "{\"got\":\"hello\"}");
  CHECK(response->Header("retry-after") == "7");
  const auto seen = server.requests();
  REQUIRE(seen.size() == 1);
  CHECK(seen[0].method == request.method);
  CHECK(seen[0].target == "/prefix/api/v1/pods?labelSelector=a%3Db%2Cc");
  CHECK(seen[0].Header("Authorization") == "Bearer secret");
  CHECK(seen[0].Header("Impersonate-User") == "jane");
  CHECK(seen[0].Header("User-Agent") == "sluice/test");
  CHECK(seen[0].Header("Accept") == "application/json");
  CHECK(seen[0].Header("Content-Type") == "application/merge-patch+json");
}

TEST_CASE("connections are kept and used again") {
  TestServer server(
      [](const TestRequest&, TestConnection& connection) { connection.Respond(200, "{}"); });
  Link link(server);
  for (int i = 0; i < 20; ++i) CHECK(SendAndWait(*link.transport, {}).ok());
  // The answer can be here a moment before its connection is free again.
  CHECK(server.connections() <= 4);
}

TEST_CASE("after a lost connection the next request does not meet another dead one") {
  Gate gate;
  std::atomic<int> round{0};
  std::atomic<int> waiting{0};
  TestServer server([&](const TestRequest&, TestConnection& connection) {
    ++waiting;
    if (round == 0) gate.Wait();
    connection.Respond(200, "{}");
    // The connection goes into the client's pool and is closed there, without a word.
    if (round == 0) connection.Cut();
  });
  Link link(server);
  constexpr int kConnections = 20;
  Box<int> done;
  for (int i = 0; i < kConnections; ++i) {
    link.transport->Send({}, [&](const absl::StatusOr<HttpResponse>&) { done.Add(1); });
  }
  for (int i = 0; i < 5000 && waiting < kConnections; ++i) usleep(1000);
  gate.Open();
  REQUIRE(done.Wait(kConnections));
  usleep(20000);
  round = 1;
  int failures = 0;
  while (failures < kConnections && !SendAndWait(*link.transport, {}).ok()) ++failures;
  CHECK(failures <= 1);
}

TEST_CASE("a silent server is a deadline, a cut line and a closed port are unavailable") {
  TestServer server([](const TestRequest& request, TestConnection& connection) {
    if (request.Has("silent")) {
      connection.WaitClosed();
    } else if (request.Has("half")) {
      connection.Raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
      connection.Cut();
    } else {
      connection.Cut();
    }
  });
  Link link(server);
  HttpRequest request;
  request.path_and_query = "/silent";
  request.timeout = absl::Milliseconds(100);
  auto response = SendAndWait(*link.transport, request);
  CHECK(response.status().code() == absl::StatusCode::kDeadlineExceeded);
  request.timeout = kPatience;
  for (const char* path : {"/cut", "/half"}) {
    request.path_and_query = path;
    response = SendAndWait(*link.transport, request);
    CHECK(response.status().code() == absl::StatusCode::kUnavailable);
  }
  std::string closed;
  {
    TestServer gone([](const TestRequest&, TestConnection&) {});
    closed = gone.url();
  }
  Link nobody(Link::ConfigFor(closed));
  response = SendAndWait(*nobody.transport, {});
  CHECK(response.status().code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(response.status().message()) == closed + ": cannot connect");
}

TEST_CASE("a stream gives lines as they come, whatever the chunks") {
  TestServer server([](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    connection.Chunk("{\"a\":");
    connection.Chunk("1}\n{\"b\":2}\n{\"c\"");
    connection.Chunk(":3}");
    connection.Chunk("\nunfinished");
    connection.EndChunks();
  });
  Link link(server);
  auto log = std::make_shared<StreamLog>();
  const auto handle = OpenStream(*link.transport, log);
  REQUIRE(log->ends.Wait(1));
  CHECK(log->lines.all() == std::vector<std::string>{"{\"a\":1}", "{\"b\":2}", "{\"c\":3}"});
  const auto end = log->ends.all()[0];
  REQUIRE(end.ok());
  CHECK(end->code == 200);
}

TEST_CASE("a refused stream ends with the code and the body") {
  TestServer server([](const TestRequest&, TestConnection& connection) {
    connection.Respond(410, StatusBody(410, "Expired", "too old"));
  });
  Link link(server);
  auto log = std::make_shared<StreamLog>();
  const auto handle = OpenStream(*link.transport, log);
  REQUIRE(log->ends.Wait(1));
  const auto end = log->ends.all()[0];
  REQUIRE(end.ok());
  CHECK(end->code == 410);
  CHECK(ApiErrorOf(*end).reason == "Expired");
  CHECK(log->lines.size() == 0);
}

TEST_CASE("a stream that is cut, silent or cancelled ends with a status") {
  TestServer server([](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    connection.Chunk("{\"a\":1}\n");
    connection.WaitClosed();
  });
  TestServer cutter([](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    connection.Chunk("{\"a\":1}\n");
    connection.Cut();
  });
  auto log = std::make_shared<StreamLog>();
  absl::StatusCode expected = absl::StatusCode::kOk;
  SECTION("cut") {
    Link link(cutter);
    const auto handle = OpenStream(*link.transport, log);
    expected = absl::StatusCode::kUnavailable;
    REQUIRE(log->ends.Wait(1));
  }
  SECTION("silent") {
    Link link(server);
    const auto handle = OpenStream(*link.transport, log, absl::Milliseconds(150));
    expected = absl::StatusCode::kDeadlineExceeded;
    REQUIRE(log->ends.Wait(1));
  }
  SECTION("cancelled") {
    Link link(server);
    const auto handle = OpenStream(*link.transport, log);
    REQUIRE(log->lines.Wait(1));
    handle->Cancel();
    expected = absl::StatusCode::kCancelled;
    REQUIRE(log->ends.Wait(1));
  }
  SECTION("transport destroyed") {
    {
      Link link(server);
      const auto handle = OpenStream(*link.transport, log);
      REQUIRE(log->lines.Wait(1));
    }
    expected = absl::StatusCode::kCancelled;
  }
  REQUIRE(log->ends.size() == 1);
  CHECK(log->ends.all()[0].status().code() == expected);
  CHECK(log->lines.size() == 1);
}

TEST_CASE("the silence that a stream may keep can be shortened while it is open") {
  TestServer server([](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    connection.Chunk("{}\n");
    connection.WaitClosed();
  });
  Link link(server);
  auto log = std::make_shared<StreamLog>();
  const auto handle = OpenStream(*link.transport, log, absl::Hours(1));
  REQUIRE(log->lines.Wait(1));
  handle->LimitSilence(absl::Milliseconds(50));
  REQUIRE(log->ends.Wait(1));
  CHECK(log->ends.all()[0].status().code() == absl::StatusCode::kDeadlineExceeded);
  handle->LimitSilence(absl::Milliseconds(1));  // too late to matter
}

TEST_CASE("each connection has keepalive from its first request on") {
  TestServer server([](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    connection.Chunk("{}\n");
    connection.WaitClosed();
  });
  Link link(server);
  auto log = std::make_shared<StreamLog>();
  const auto handle = OpenStream(*link.transport, log);
  REQUIRE(log->lines.Wait(1));
  const std::vector<int> sockets = SocketsTo(server.port());
  REQUIRE(sockets.size() == 1);
  CHECK(OptionOf(sockets[0], SOL_SOCKET, SO_KEEPALIVE) == 1);
  CHECK(OptionOf(sockets[0], IPPROTO_TCP, TCP_KEEPIDLE) == 15);
  CHECK(OptionOf(sockets[0], IPPROTO_TCP, TCP_KEEPINTVL) == 10);
  CHECK(OptionOf(sockets[0], IPPROTO_TCP, TCP_KEEPCNT) == 3);
  CHECK(OptionOf(sockets[0], IPPROTO_TCP, TCP_USER_TIMEOUT) == 45000);
  handle->Cancel();
  REQUIRE(log->ends.Wait(1));
}

TEST_CASE("a server that is known by name is reached as well") {
  TestServer server(
      [](const TestRequest&, TestConnection& connection) { connection.Respond(200, "{}"); });
  Link link(Link::ConfigFor("http://localhost:" + std::to_string(server.port())));
  for (int i = 0; i < 3; ++i) CHECK(SendAndWait(*link.transport, {}).ok());
}

TEST_CASE("a consumer that waits holds the server back") {
  std::atomic<size_t> sent{0};
  const std::string line = std::string(99999, 'x') + "\n";
  constexpr size_t kLines = 400;  // 40 MB, far more than socket buffers hold
  TestServer server([&](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    for (size_t i = 0; i < kLines && connection.Chunk(line); ++i) sent += line.size();
    connection.EndChunks();
  });
  Link link(server);
  Gate gate;
  auto log = std::make_shared<StreamLog>();
  std::atomic<size_t> received{0};
  const auto handle = link.transport->Stream(
      {},
      [&](std::string_view text) {
        gate.Wait();
        received += text.size() + 1;
      },
      [log](absl::StatusOr<HttpResponse> end) { log->ends.Add(std::move(end)); });
  // The sender stalls: wait until its count stays the same for a while.
  size_t before = 1;
  for (int i = 0; i < 200 && before != sent; ++i) {
    before = sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  CHECK(sent < kLines * line.size() / 2);
  gate.Open();
  REQUIRE(log->ends.Wait(1));
  CHECK(received == kLines * line.size());
}

TEST_CASE("a token file is read again after a 401") {
  const std::string path = std::tmpnam(nullptr);
  auto write = [&](const std::string& token) {
    FILE* file = std::fopen(path.c_str(), "w");
    std::fputs((token + "\n").c_str(), file);
    std::fclose(file);
  };
  write("old");
  std::mutex mutex;
  std::string accepted = "old";
  TestServer server([&](const TestRequest& request, TestConnection& connection) {
    std::lock_guard lock(mutex);
    const bool good = request.Header("Authorization") == "Bearer " + accepted;
    connection.Respond(good ? 200 : 401, good ? "{}" : StatusBody(401, "Unauthorized", "no"));
  });
  CredentialConfig config = Link::ConfigFor(server.url());
  config.token_file = path;
  Link link(config);
  CHECK(SendAndWait(*link.transport, {})->code == 200);
  {
    std::lock_guard lock(mutex);
    accepted = "new";
  }
  write("new");
  CHECK(SendAndWait(*link.transport, {})->code == 200);
  CHECK(server.requests().size() == 3);
  // A credential that stays wrong is tried once more, not for ever.
  write("wrong");
  {
    std::lock_guard lock(mutex);
    accepted = "other";
  }
  CHECK(SendAndWait(*link.transport, {})->code == 401);
  CHECK(server.requests().size() == 5);
  std::remove(path.c_str());
}

TEST_CASE("a credential that is long in coming holds nobody else up") {
  const std::string base = std::tmpnam(nullptr);
  const std::string program = base + ".sh";
  const std::string gate = base + ".open";
  std::ofstream(program) << "#!/bin/sh\nwhile [ ! -e " << gate << " ]; do sleep 0.02; done\n"
                         << R"(echo '{"kind":"ExecCredential",)"
                         << R"("apiVersion":"client.authentication.k8s.io/v1",)"
                         << R"("status":{"token":"late"}}')" << '\n';
  chmod(program.c_str(), 0755);
  TestServer server(
      [](const TestRequest&, TestConnection& connection) { connection.Respond(200, "{}"); });
  CredentialConfig slow = Link::ConfigFor(server.url());
  slow.exec = ExecPlugin{.api_version = "client.authentication.k8s.io/v1", .command = program};
  Link waiting(slow);
  Link other(server);
  Box<absl::StatusOr<HttpResponse>> late;
  for (int i = 0; i < 3; ++i) {
    waiting.transport->Send({}, [&](absl::StatusOr<HttpResponse> r) { late.Add(std::move(r)); });
  }
  CHECK(SendAndWait(*other.transport, {})->code == 200);
  CHECK(late.size() == 0);
  std::ofstream(gate) << "now";
  REQUIRE(late.Wait(3));
  for (const auto& answer : late.all()) CHECK(answer->code == 200);
  std::remove(gate.c_str());
  std::remove(program.c_str());
}

TEST_CASE("descriptors come back") {
  TestServer server([](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    connection.Chunk("{}\n");
    connection.WaitClosed();
  });
  const size_t before = OpenDescriptors();
  for (int round = 0; round < 20; ++round) {
    Link link(server);
    auto log = std::make_shared<StreamLog>();
    const auto handle = OpenStream(*link.transport, log);
    REQUIRE(log->lines.Wait(1));
    handle->Cancel();
    REQUIRE(log->ends.Wait(1));
  }
  size_t after = OpenDescriptors();
  for (int i = 0; i < 2000 && after > before + 3; ++i) {
    usleep(1000);
    after = OpenDescriptors();
  }
  CHECK(after <= before + 3);
}

}  // namespace
}  // namespace sluice::kube
