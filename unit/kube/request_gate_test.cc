// The gate in front of the transport: its bound, its order, its rate, and what it does not send.
#include "kube/request_gate.h"

#include <algorithm>
#include <deque>

#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

// Keeps what it is asked to send until the test answers it.
struct FakeTransport : Transport {
  struct Log {
    std::vector<std::string> sent;
    std::deque<ResponseCallback> open;
    void AnswerFirst() {
      const ResponseCallback done = std::move(open.front());
      open.pop_front();
      done(HttpResponse{.code = 200});
    }
  };
  explicit FakeTransport(Log& log_in) : log(log_in) {}
  void Send(HttpRequest request, ResponseCallback done) override {
    log.sent.push_back(request.path_and_query);
    log.open.push_back(std::move(done));
  }
  std::shared_ptr<StreamHandle> Stream(HttpRequest, LineCallback, ResponseCallback) override {
    return nullptr;
  }
  std::string server() const override { return "fake"; }
  Log& log;
};

TEST_CASE("the gate bounds what is in flight and sends best-effort requests last") {
  Executor timers("timers");
  FakeTransport::Log log;
  std::vector<std::string> ends;
  {
    RequestGate gate(std::make_unique<FakeTransport>(log), timers, {.max_in_flight = 2});
    auto send = [&](const std::string& name, Priority priority) {
      gate.Send({.path_and_query = name, .priority = priority},
                [&ends, name](const absl::StatusOr<HttpResponse>& response) {
                  ends.push_back(name + (response.ok() ? " ok" : " cancelled"));
                });
    };
    send("late1", Priority::kBestEffort);
    for (const char* name : {"late2", "late3"}) send(name, Priority::kBestEffort);
    for (const char* name : {"normal1", "normal2"}) send(name, Priority::kNormal);
    CHECK(log.sent == std::vector<std::string>{"late1", "late2"});
    send("urgent", Priority::kUrgent);
    CHECK(log.sent.back() == "urgent");
    for (int i = 0; i < 3; ++i) log.AnswerFirst();
    CHECK(log.sent == std::vector<std::string>{"late1", "late2", "urgent", "normal1", "normal2"});
    log.AnswerFirst();
    CHECK(log.sent.back() == "late3");
    send("never", Priority::kNormal);
    log.AnswerFirst();
    log.AnswerFirst();
    CHECK(log.sent.back() == "never");
    log.AnswerFirst();
    for (const char* name : {"x", "y", "z"}) send(name, Priority::kNormal);
    while (!log.open.empty() && ends.size() < 8) log.AnswerFirst();
    send("left", Priority::kNormal);
    send("waiting", Priority::kNormal);
  }
  CHECK(std::count(ends.begin(), ends.end(), "waiting cancelled") == 1);
  CHECK(std::count(ends.begin(), ends.end(), "late3 ok") == 1);
}

TEST_CASE("the gate keeps to the configured rate") {
  TestServer server(
      [](const TestRequest&, TestConnection& connection) { connection.Respond(200, "{}"); });
  TransportOptions options;
  options.gate.qps = 100;
  options.gate.burst = 5;
  Link link(server, options);
  Box<int> done;
  const absl::Time start = SteadyNow();
  for (int i = 0; i < 25; ++i) {
    link.transport->Send({}, [&](const absl::StatusOr<HttpResponse>&) { done.Add(1); });
  }
  REQUIRE(done.Wait(25));
  CHECK(SteadyNow() - start >= absl::Milliseconds(190));
}

// A gate with one place, which is taken.
struct FullGate {
  FullGate() { Send("first"); }
  void Send(const std::string& name, std::function<bool()> may_send = {},
            absl::Time send_by = absl::InfiniteFuture()) {
    gate.Send({.path_and_query = name, .send_by = send_by, .may_send = std::move(may_send)},
              [this, name](const absl::StatusOr<HttpResponse>& response) {
                ends.Add(name + " " + absl::StatusCodeToString(response.status().code()));
              });
  }

  Executor timers{"timers"};
  FakeTransport::Log log;
  Box<std::string> ends;
  RequestGate gate{std::make_unique<FakeTransport>(log), timers, {.max_in_flight = 1}};
};

using Words = std::vector<std::string>;

TEST_CASE("a request whose turn does not come in time is answered and never sent") {
  FullGate f;
  f.Send("patient");
  f.Send("late", {}, SteadyNow() + absl::Milliseconds(20));
  f.Send("later", {}, SteadyNow() + absl::Milliseconds(40));
  REQUIRE(f.ends.Wait(2));
  CHECK(f.ends.all() == Words{"late ABORTED", "later ABORTED"});
  f.log.AnswerFirst();
  f.log.AnswerFirst();
  CHECK(f.log.sent == Words{"first", "patient"});
  f.Send("too late from the start", {}, SteadyNow());
  CHECK(f.ends.all().back() == "too late from the start ABORTED");
}

TEST_CASE("a request is asked whether it may go when its turn has come") {
  FullGate f;
  bool leading = true;
  int asked = 0;
  const auto may_send = [&] {
    ++asked;
    return leading;
  };
  for (const char* name : {"a", "b", "c"}) f.Send(name, may_send);
  f.Send("read");
  CHECK(asked == 0);
  f.log.AnswerFirst();
  CHECK(f.log.sent == Words{"first", "a"});
  leading = false;
  f.log.AnswerFirst();
  CHECK(f.log.sent == Words{"first", "a", "read"});
  CHECK(f.ends.all() == Words{"first OK", "b ABORTED", "c ABORTED", "a OK"});
}

TEST_CASE("what may not be sent any more is dropped without waiting for its turn") {
  FullGate f;
  bool leading = true;
  f.Send("a", [&] { return leading; });
  f.Send("read");
  f.Send("b", [&] { return leading; });
  f.gate.DropRefused();
  CHECK(f.ends.size() == 0);
  leading = false;
  f.gate.DropRefused();
  CHECK(f.ends.all() == Words{"a ABORTED", "b ABORTED"});
  f.log.AnswerFirst();
  CHECK(f.log.sent == Words{"first", "read"});
}

}  // namespace
}  // namespace sluice::kube
