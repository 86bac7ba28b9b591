// The client and the sender of actions: addresses, headers, repetitions, order, exactly one reply.
#include "kube/client.h"

#include <map>

#include "kube/action_sender.h"
#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

using state::Verb;

// ---- the table ----

struct AdviceRow {
  const char* name;
  int code;
  const char* reason;
  Repeat repeat;
  Advice advice;
};

TEST_CASE("the table says what to do about an answer") {
  const auto row = GENERATE(values<AdviceRow>({
      {"conflict with a version", 409, "Conflict", Repeat::kSafe, Advice::kGiveUp},
      {"conflict without a version", 409, "Conflict", Repeat::kSafeFresh, Advice::kRetryNow},
      {"exists", 409, "AlreadyExists", Repeat::kSafeFresh, Advice::kGiveUp},
      {"throttled, unsafe", 429, "TooManyRequests", Repeat::kNever, Advice::kBackoff},
      {"webhook down", 500, "InternalError", Repeat::kSafe, Advice::kBackoff},
      {"webhook down, unsafe", 500, "InternalError", Repeat::kNever, Advice::kGiveUp},
      {"bad gateway", 502, "", Repeat::kSafe, Advice::kBackoff},
      {"starting", 503, "ServiceUnavailable", Repeat::kSafe, Advice::kBackoff},
      {"timeout", 504, "Timeout", Repeat::kSafe, Advice::kBackoff},
      {"timeout, unsafe", 504, "Timeout", Repeat::kNever, Advice::kGiveUp},
      {"no answer", 0, "ConnectionLost", Repeat::kSafe, Advice::kBackoff},
      {"no answer, unsafe", 0, "ConnectionLost", Repeat::kNever, Advice::kGiveUp},
      {"stopped", 0, "Stopped", Repeat::kSafe, Advice::kGiveUp},
      {"no credential", 0, "NoCredential", Repeat::kNever, Advice::kBackoff},
      {"bad request", 400, "BadRequest", Repeat::kSafe, Advice::kGiveUp},
      {"forbidden", 403, "Forbidden", Repeat::kSafe, Advice::kGiveUp},
      {"not found", 404, "NotFound", Repeat::kSafe, Advice::kGiveUp},
      {"expired", 410, "Expired", Repeat::kSafe, Advice::kGiveUp},
      {"invalid", 422, "Invalid", Repeat::kSafe, Advice::kGiveUp},
  }));
  DYNAMIC_SECTION(row.name) {
    ApiError error;
    error.code = row.code;
    error.reason = row.reason;
    CHECK(AdviceFor(error, row.repeat) == row.advice);
  }
}

TEST_CASE("a conflict of field managers is not repeated") {
  HttpResponse response;
  response.code = 409;
  response.body = R"({"kind":"Status","reason":"Conflict","message":"m","details":{"causes":[)"
                  R"({"reason":"FieldManagerConflict","field":".spec"}]}})";
  CHECK(AdviceFor(ApiErrorOf(response), Repeat::kSafeFresh) == Advice::kGiveUp);
}

TEST_CASE("an error keeps the server's status through absl::Status") {
  HttpResponse response;
  response.code = 429;
  response.headers = {{"retry-after", "3"}};
  response.body = StatusBody(429, "TooManyRequests", "slow down");
  const absl::Status status = Annotate(ToStatus(ApiErrorOf(response), "get Pod a/b"), "start");
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(std::string(status.message()) ==
        "start: get Pod a/b: slow down (code 429, reason TooManyRequests)");
  const ApiError error = ApiErrorOf(status);
  CHECK(error.code == 429);
  CHECK(error.reason == "TooManyRequests");
  CHECK(error.retry_after == absl::Seconds(3));
  response.body = "<html>gateway</html>";
  response.code = 502;
  CHECK(ApiErrorOf(response).message == "<html>gateway</html>");
}

// ---- requests of actions ----

state::Action Make(Verb verb, const std::string& body, const std::string& subresource = "") {
  state::Action action;
  action.id = 7;
  action.verb = verb;
  action.kind = api::Kind::kWorkload;
  action.key = {"ns", "w"};
  action.subresource = subresource;
  if (!body.empty()) action.body = *api::ParseJson(body);
  return action;
}

TEST_CASE("each verb has its method, path, media type and body") {
  const std::string base = "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads";
  auto prepare = [](const state::Action& action) {
    auto write = PrepareWrite(action);
    REQUIRE(write.ok());
    return *write;
  };
  SECTION("create") {
    const auto write = prepare(Make(Verb::kCreate, R"({"metadata":{"name":"w"}})"));
    CHECK(write.request.method == "POST");
    CHECK(write.request.path_and_query == base);
    CHECK(write.request.body == R"({"metadata":{"name":"w","namespace":"ns"},"kind":"Workload",)"
                                R"("apiVersion":"kueue.x-k8s.io/v1beta2"})");
    CHECK(write.repeat == Repeat::kSafe);
  }
  SECTION("get") {
    state::Action action;
    action.verb = Verb::kGet;
    action.kind = api::Kind::kWorkload;
    action.key = {"ns", "w"};
    const auto read = prepare(action);
    CHECK(read.request.method == "GET");
    CHECK(read.request.path_and_query == base + "/w");
    CHECK(read.request.body.empty());
    CHECK(read.repeat == Repeat::kSafe);
  }
  SECTION("create with a name made by the server") {
    state::Action action = Make(Verb::kCreate, R"({"metadata":{"generateName":"w-"}})");
    action.key.name.clear();
    CHECK(prepare(action).repeat == Repeat::kNever);
  }
  SECTION("update") {
    const auto write = prepare(Make(Verb::kUpdate, R"({"metadata":{"resourceVersion":"5"}})"));
    CHECK(write.request.method == "PUT");
    CHECK(write.request.path_and_query == base + "/w");
    CHECK(write.repeat == Repeat::kSafe);
  }
  SECTION("merge patch of the status") {
    const auto write = prepare(Make(Verb::kMergePatch, R"({"status":{}})", "status"));
    CHECK(write.request.method == "PATCH");
    CHECK(write.request.path_and_query == base + "/w/status");
    CHECK(write.request.headers == HeaderList{{"Content-Type", "application/merge-patch+json"}});
    CHECK(write.request.body == R"({"status":{}})");
    CHECK(write.repeat == Repeat::kSafeFresh);
    CHECK(prepare(Make(Verb::kMergePatch, R"({"metadata":{"resourceVersion":"5"}})")).repeat ==
          Repeat::kSafe);
  }
  SECTION("json patch") {
    const auto plain = prepare(Make(Verb::kJsonPatch, R"([{"op":"add","path":"/a/-","value":1}])"));
    CHECK(plain.request.headers == HeaderList{{"Content-Type", "application/json-patch+json"}});
    CHECK(plain.repeat == Repeat::kNever);
    CHECK(prepare(Make(Verb::kJsonPatch, R"([{"op":"test","path":"/a","value":1}])")).repeat ==
          Repeat::kSafe);
  }
  SECTION("apply") {
    state::Action action = Make(Verb::kApply, R"({"status":{}})", "status");
    action.field_manager = "sluice admission";
    action.force = true;
    const auto write = prepare(action);
    CHECK(write.request.method == "PATCH");
    CHECK(write.request.path_and_query ==
          base + "/w/status?fieldManager=sluice%20admission&force=true");
    CHECK(write.request.headers == HeaderList{{"Content-Type", "application/apply-patch+yaml"}});
    CHECK_THAT(write.request.body,
               Catch::Contains(R"("name":"w")") && Catch::Contains(R"("kind":"Workload")"));
    CHECK(write.repeat == Repeat::kSafeFresh);
  }
  SECTION("delete") {
    const auto plain = prepare(Make(Verb::kDelete, ""));
    CHECK(plain.request.method == "DELETE");
    CHECK_THAT(plain.request.body, Catch::Contains(R"("propagationPolicy":"Background")"));
    CHECK(plain.repeat == Repeat::kNever);
    CHECK(prepare(Make(Verb::kDelete, R"({"preconditions":{"uid":"u"}})")).repeat == Repeat::kSafe);
  }
}

TEST_CASE("an action that cannot be sent says why") {
  auto error = [](const state::Action& action) {
    return std::string(PrepareWrite(action).status().message());
  };
  CHECK(error(Make(Verb::kApply, "{}")) == "apply Workload ns/w: apply needs a field manager");
  CHECK(error(Make(Verb::kUpdate, "[]")) == "update Workload ns/w: the body is not an object");
  CHECK(error(Make(Verb::kJsonPatch, "{}")) == "patch Workload ns/w: the patch is not a list");
  state::Action action = Make(Verb::kDelete, "");
  action.key = {"ns", ""};
  CHECK_THAT(error(action), Catch::Contains("the name is missing"));
  action.key = {"", "w"};
  CHECK_THAT(error(action), Catch::Contains("the namespace is missing"));
}

// ---- the client ----

TEST_CASE("a list is read page by page and starts over when the pages expire") {
  std::atomic<int> expired{0};
  TestServer server([&](const TestRequest& request, TestConnection& connection) {
    if (request.Has("continue=x") && expired++ == 0) {
      connection.Respond(410, StatusBody(410, "Expired", "too old"));
    } else if (request.Has("continue=x")) {
      connection.Respond(200, R"({"metadata":{},"items":[{"metadata":{"name":"c"}}]})");
    } else {
      connection.Respond(200, R"({"metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}},)"
                              R"({"kind":"Own","metadata":{"name":"b"}}]})");
    }
  });
  Link link(server);
  Client client = link.MakeClient();
  const auto items =
      client.List(api::Kind::kPod, {.ns = "n", .label_selector = "a=b", .page_size = 2});
  REQUIRE(items.ok());
  REQUIRE(items->size() == 3);
  CHECK((*items)[0].GetString("kind") == "Pod");
  CHECK((*items)[0].GetString("apiVersion") == "v1");
  CHECK((*items)[1].GetString("kind") == "Own");
  CHECK((*items)[2].GetString("metadata", "name") == "c");
  CHECK(server.requests().size() == 4);
  CHECK(server.requests()[0].target == "/api/v1/namespaces/n/pods?limit=2&labelSelector=a%3Db");
}

TEST_CASE("the client repeats what the table allows and no more") {
  std::atomic<int> calls{0};
  std::string mode;
  TestServer server([&](const TestRequest&, TestConnection& connection) {
    const int call = ++calls;
    if (mode == "recovers" && call <= 3) {
      connection.Respond(503, StatusBody(503, "ServiceUnavailable", "starting"));
    } else if (mode == "throttled" && call == 1) {
      connection.Respond(429, StatusBody(429, "TooManyRequests", "slow"), "Retry-After: 1\r\n");
    } else if (mode == "full") {
      connection.Respond(429, StatusBody(429, "TooManyRequests", "slow"), "Retry-After: 60\r\n");
    } else if (mode == "conflict") {
      connection.Respond(409, StatusBody(409, "Conflict", "changed"));
    } else if (mode == "down") {
      connection.Respond(500, "boom");
    } else {
      connection.Respond(200, R"({"metadata":{"name":"w"}})");
    }
  });
  Link link(server);
  Client client = link.MakeClient();
  const ObjectKey key{"ns", "w"};
  const api::Json with_version = *api::ParseJson(R"({"metadata":{"resourceVersion":"1"}})");
  SECTION("recovers") {
    mode = "recovers";
    CHECK(client.Get(api::Kind::kWorkload, key).ok());
    CHECK(calls == 4);
  }
  SECTION("waits as long as it is told") {
    mode = "throttled";
    const absl::Time start = SteadyNow();
    CHECK(client.Delete(api::Kind::kWorkload, key).ok());
    CHECK(SteadyNow() - start >= absl::Seconds(1));
    CHECK(calls == 2);
  }
  SECTION("told to wait for longer than it has time, it does not try again") {
    mode = "full";
    CHECK(ApiErrorOf(client.Delete(api::Kind::kWorkload, key)).retry_after == absl::Seconds(60));
    CHECK(calls == 1);
  }
  SECTION("a conflict about a version is for the caller") {
    mode = "conflict";
    const absl::Status status =
        client.Patch(Verb::kMergePatch, api::Kind::kWorkload, key, with_version).status();
    CHECK(status.code() == absl::StatusCode::kAborted);
    CHECK(calls == 1);
  }
  SECTION("a conflict without a version is repeated at once") {
    mode = "conflict";
    CHECK_FALSE(
        client.Patch(Verb::kMergePatch, api::Kind::kWorkload, key, api::Json::MakeObject()).ok());
    CHECK(calls == 5);
  }
  SECTION("what may have happened is not done twice when that is not safe") {
    mode = "down";
    CHECK_FALSE(client.Delete(api::Kind::kWorkload, key).ok());
    CHECK(calls == 1);
  }
  SECTION("the deadline ends it") {
    mode = "down";
    ClientOptions slow;
    slow.backoff.first = slow.backoff.cap = absl::Minutes(2);
    Client patient(*link.transport, link.timers, slow);
    CHECK(ApiErrorOf(patient.Get(api::Kind::kWorkload, key).status()).code == 500);
    CHECK(calls == 1);
  }
}

TEST_CASE("an attempt that is not made leaves the answer to the one before") {
  TestServer server(
      [](const TestRequest&, TestConnection& connection) { connection.Respond(500, "boom"); });
  Link link(server);
  Client client = link.MakeClient();
  std::atomic<int> allowed{GENERATE(0, 1, 2)};
  const int attempts = allowed;
  CallOptions options;
  options.may_send = [&] { return --allowed >= 0; };
  const CallResult result = client.Call({}, options);
  CHECK(result.error().code == (attempts == 0 ? 0 : 500));
  CHECK(result.error().reason == (attempts == 0 ? "NotSent" : ""));
  CHECK(server.requests().size() == static_cast<size_t>(attempts));
}

// ---- the sender ----

state::Action Patch(uint64_t id, const std::string& name, bool best_effort = false) {
  state::Action action = Make(Verb::kMergePatch, R"({"id":)" + std::to_string(id) + "}");
  action.id = id;
  action.key.name = name;
  action.best_effort = best_effort;
  return action;
}

struct SenderFixture {
  explicit SenderFixture(TestServer::Handler handler, ActionSenderOptions options = {})
      : server(std::move(handler)),
        link(server),
        sender(link.MakeClient(), link.delivery, options,
               [this](state::Reply reply) { replies.Add(std::move(reply)); }) {}

  TestServer server;
  Box<state::Reply> replies;
  Link link;
  ActionSender sender;
};

TEST_CASE("actions of one object are sent in order, of different objects at the same time") {
  std::atomic<int> running{0};
  std::atomic<int> peak{0};
  SenderFixture f([&](const TestRequest& request, TestConnection& connection) {
    const int now = ++running;
    int seen = peak;
    while (seen < now && !peak.compare_exchange_weak(seen, now)) {
    }
    usleep(2000);
    --running;
    connection.Respond(200, request.body);
  });
  constexpr uint64_t kObjects = 20;
  constexpr uint64_t kRounds = 10;
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t object = 0; object < kObjects; ++object) {
      f.sender.Submit(Patch(round * kObjects + object, "w" + std::to_string(object)));
    }
  }
  REQUIRE(f.replies.Wait(kObjects * kRounds));
  CHECK(peak > 5);
  std::map<std::string, std::vector<int64_t>> by_object;
  for (const TestRequest& request : f.server.requests()) {
    by_object[request.target].push_back(api::ParseJson(request.body)->Find("id")->AsInt());
  }
  REQUIRE(by_object.size() == kObjects);
  for (const auto& [name, ids] : by_object) {
    CHECK(ids.size() == kRounds);
    CHECK(std::is_sorted(ids.begin(), ids.end()));
  }
  std::map<uint64_t, int> answers;
  for (const state::Reply& reply : f.replies.all()) {
    ++answers[reply.action_id];
    CHECK(reply.ok());
    CHECK(static_cast<uint64_t>(reply.object.Find("id")->AsInt()) == reply.action_id);
  }
  CHECK(answers.size() == kObjects * kRounds);
  CHECK(f.sender.Stop(kPatience));
  CHECK(f.sender.stats().answered == kObjects * kRounds);
}

TEST_CASE("replies that cannot be taken at once come on the executor, in order for each object") {
  constexpr uint64_t kObjects = 5;
  constexpr uint64_t kRounds = 40;
  std::atomic<uint64_t> tried{0};
  Box<state::Reply> taken;
  ActionSenderOptions options;
  options.try_reply = [&](state::Reply& reply) {
    if (++tried % 3 == 0) return false;
    taken.Add(std::move(reply));
    return true;
  };
  TestServer server([](const TestRequest& request, TestConnection& connection) {
    connection.Respond(200, request.body);
  });
  Link link(server);
  ActionSender sender(link.MakeClient(), link.delivery, options, [&](state::Reply reply) {
    usleep(500);
    taken.Add(std::move(reply));
  });
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint64_t object = 0; object < kObjects; ++object) {
      sender.Submit(Patch(round * kObjects + object, "w" + std::to_string(object)));
    }
  }
  REQUIRE(taken.Wait(kObjects * kRounds));
  REQUIRE(taken.size() == kObjects * kRounds);
  CHECK(tried >= 3);
  std::map<uint64_t, std::vector<uint64_t>> by_object;
  for (const state::Reply& reply : taken.all()) {
    by_object[reply.action_id % kObjects].push_back(reply.action_id);
  }
  for (const auto& [object, ids] : by_object) {
    CHECK(ids.size() == kRounds);
    CHECK(std::is_sorted(ids.begin(), ids.end()));
  }
  CHECK(sender.Stop(kPatience));
}

TEST_CASE("a reply carries code and reason, and comes once whatever the server does") {
  SenderFixture f([](const TestRequest& request, TestConnection& connection) {
    if (request.Has("conflict")) {
      connection.Respond(409, StatusBody(409, "Conflict", "changed"));
    } else if (request.Has("cut")) {
      connection.Cut();
    } else if (request.Has("strange")) {
      connection.Respond(200, "not json");
    } else if (request.method == "DELETE") {
      connection.Respond(200, R"({"kind":"Status","status":"Success"})");
    } else {
      connection.Respond(422, StatusBody(422, "Invalid", "bad field"));
    }
  });
  state::Action conflict = Make(Verb::kUpdate, R"({"metadata":{"resourceVersion":"1"}})");
  conflict.id = 1;
  conflict.key.name = "conflict";
  f.sender.Submit(conflict);
  f.sender.Submit(Patch(2, "cut"));
  f.sender.Submit(Patch(3, "strange"));
  f.sender.Submit(Patch(4, "invalid"));
  state::Action removal = Make(Verb::kDelete, "");
  removal.id = 5;
  removal.key.name = "gone";
  f.sender.Submit(removal);
  state::Action broken = Make(Verb::kApply, "{}");
  broken.id = 6;
  f.sender.Submit(broken);
  REQUIRE(f.replies.Wait(6));
  std::map<uint64_t, state::Reply> by_id;
  for (const state::Reply& reply : f.replies.all()) by_id[reply.action_id] = reply;
  REQUIRE(by_id.size() == 6);
  CHECK(by_id[1].code == 409);
  CHECK(by_id[1].reason == "Conflict");
  CHECK(by_id[1].message == "changed");
  CHECK(by_id[2].code == 0);
  CHECK(by_id[2].reason == "ConnectionLost");
  CHECK(by_id[3].code == 200);
  CHECK(by_id[3].object.IsNull());
  CHECK_FALSE(by_id[3].message.empty());
  CHECK(by_id[4].code == 422);
  CHECK(by_id[5].ok());
  CHECK(by_id[5].object.IsNull());
  CHECK(by_id[6].code == 400);
  CHECK_THAT(by_id[6].message, Catch::Contains("field manager"));
  CHECK(f.replies.size() == 6);
}

TEST_CASE("the reply to an event comes without the object") {
  SenderFixture f([](const TestRequest&, TestConnection& connection) {
    connection.Respond(201, R"({"kind":"Event","metadata":{"name":"e"}})");
  });
  state::Action event = Make(Verb::kCreate, R"({"note":"n"})");
  event.id = 1;
  event.kind = api::Kind::kEvent;
  event.key.name = "e";
  f.sender.Submit(std::move(event));
  REQUIRE(f.replies.Wait(1));
  CHECK(f.replies.all()[0].code == 201);
  CHECK(f.replies.all()[0].object.IsNull());
}

TEST_CASE(
    "the version of each object that a reply shows is told before the reply, but of deletions") {
  Box<std::string> versions;
  ActionSenderOptions options;
  options.on_version = [&](api::Kind, std::string_view version) {
    versions.Add(std::string(version));
  };
  SenderFixture f(
      [](const TestRequest& request, TestConnection& connection) {
        connection.Respond(request.method == "PUT" ? 409 : 200,
                           R"({"kind":"Job","metadata":{"name":"w","resourceVersion":"17"}})");
      },
      options);
  for (const Verb verb : {Verb::kDelete, Verb::kUpdate, Verb::kMergePatch}) {
    f.sender.Submit(Make(verb, R"({"metadata":{"name":"w","resourceVersion":"1"}})"));
    REQUIRE(f.replies.Wait(static_cast<size_t>(verb == Verb::kDelete   ? 1
                                               : verb == Verb::kUpdate ? 2
                                                                       : 3)));
  }
  CHECK(versions.all() == std::vector<std::string>{"17"});
}

TEST_CASE("a refusal tells how long the server asks to wait") {
  ActionSenderOptions options;
  options.call.max_attempts = 1;
  SenderFixture f(
      [](const TestRequest&, TestConnection& connection) {
        connection.Respond(429, StatusBody(429, "TooManyRequests", "slow"), "Retry-After: 17\r\n");
      },
      options);
  f.sender.Submit(Patch(1, "w"));
  REQUIRE(f.replies.Wait(1));
  CHECK(f.replies.all()[0].retry_after == absl::Seconds(17));
}

TEST_CASE("best-effort actions beyond the bound are dropped, others never") {
  Gate gate;
  ActionSenderOptions options;
  options.max_best_effort_pending = 3;
  SenderFixture f(
      [&](const TestRequest&, TestConnection& connection) {
        gate.Wait();
        connection.Respond(200, "{}");
      },
      options);
  for (uint64_t id = 0; id < 10; ++id) f.sender.Submit(Patch(id, "e" + std::to_string(id), true));
  for (uint64_t id = 10; id < 20; ++id) f.sender.Submit(Patch(id, "w" + std::to_string(id)));
  REQUIRE(f.replies.Wait(7));
  for (const state::Reply& reply : f.replies.all()) {
    CHECK(reply.code == 429);
    CHECK(reply.reason == "Dropped");
    CHECK(reply.action_id >= 3);
    CHECK(reply.action_id < 10);
  }
  gate.Open();
  REQUIRE(f.replies.Wait(20));
  CHECK(f.sender.stats().dropped == 7);
}

TEST_CASE("stopping drains what it can and answers the rest") {
  Gate gate;
  SenderFixture f([&](const TestRequest& request, TestConnection& connection) {
    if (request.Has("slow")) gate.Wait();
    connection.Respond(200, "{}");
  });
  f.sender.Submit(Patch(1, "fast"));
  f.sender.Submit(Patch(2, "slow"));
  f.sender.Submit(Patch(3, "slow"));
  REQUIRE(f.replies.Wait(1));
  CHECK_FALSE(f.sender.Stop(absl::Milliseconds(50)));
  f.sender.Submit(Patch(4, "fast"));
  REQUIRE(f.replies.Wait(4));
  gate.Open();
  const auto replies = f.replies.all();
  for (size_t i = 1; i < replies.size(); ++i) {
    CHECK(replies[i].code == 0);
    CHECK(replies[i].reason == "Stopped");
  }
  CHECK(f.sender.stats().pending == 0);
}

TEST_CASE("who may not write sends nothing, and the reply says that it was not sent") {
  std::atomic<bool> leading{false};
  ActionSenderOptions options;
  options.may_write = [&] { return leading.load(); };
  SECTION("not the leader") {}
  SECTION("its turn comes too late") {
    leading = true;
    options.call.send_within = absl::ZeroDuration();
  }
  SenderFixture f(
      [](const TestRequest&, TestConnection& connection) { connection.Respond(200, "{}"); },
      options);
  f.sender.Submit(Patch(1, "a"));
  f.sender.Submit(Patch(2, "a"));
  REQUIRE(f.replies.Wait(2));
  for (const state::Reply& reply : f.replies.all()) {
    CHECK(reply.code == 429);
    CHECK(reply.reason == "NotSent");
    CHECK_THAT(reply.message, Catch::Contains("not sent"));
  }
  CHECK(f.server.requests().empty());
  if (leading) return;
  leading = true;
  f.sender.Submit(Patch(3, "a"));
  REQUIRE(f.replies.Wait(3));
  CHECK(f.replies.all()[2].ok());
}

TEST_CASE("of what waits for its turn nothing is sent once the sender is stopped") {
  Gate gate;
  TestServer server([&](const TestRequest& request, TestConnection& connection) {
    if (request.Has("slow")) gate.Wait();
    connection.Respond(200, "{}");
  });
  TransportOptions narrow;
  narrow.gate.max_in_flight = 1;
  Link link(server, narrow);
  Box<state::Reply> replies;
  ActionSender sender(link.MakeClient(), link.delivery, {},
                      [&](state::Reply reply) { replies.Add(std::move(reply)); });
  sender.Submit(Patch(1, "slow"));
  for (uint64_t id = 2; id < 10; ++id) sender.Submit(Patch(id, "w" + std::to_string(id)));
  CHECK_FALSE(sender.Stop(absl::ZeroDuration()));
  REQUIRE(replies.Wait(9));
  gate.Open();
  // Comes after all that waited.
  HttpRequest last;
  last.path_and_query = "/last";
  REQUIRE(SendAndWait(*link.transport, last).ok());
  REQUIRE(server.requests().size() == 2);
  CHECK(server.requests()[0].Has("slow"));
  CHECK(server.requests()[1].Has("/last"));
  CHECK(replies.size() == 9);
}

}  // namespace
}  // namespace sluice::kube
