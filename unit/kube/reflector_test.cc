// List and watch: pages, bookmarks, resuming, 410 in both forms, errors, back-pressure.
#include "kube/reflector.h"

#include "kube/echo_filter.h"
#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

using Type = state::ObjectEvent::Type;
using What = ReflectorReport::What;

std::string Object(const std::string& name, int version) {
  return R"({"metadata":{"name":")" + name + R"(","resourceVersion":")" + std::to_string(version) +
         R"("}})";
}
std::string EventLine(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}\n";
}
std::string ListBody(int version, const std::string& items, const std::string& next = "") {
  return R"({"kind":"PodList","metadata":{"resourceVersion":")" + std::to_string(version) +
         R"(","continue":")" + next + R"("},"items":[)" + items + "]}";
}

// "begin", "+a@1", "-a@2", "end".
std::string Describe(const state::ObjectEvent& event) {
  switch (event.type) {
    case Type::kListBegin:
      return "begin";
    case Type::kListEnd:
      return "end";
    case Type::kBookmark:
      return "up to " + event.object.GetString("metadata", "resourceVersion");
    case Type::kUpsert:
    case Type::kDelete:
      break;
  }
  return (event.type == Type::kUpsert ? "+" : "-") + event.object.GetString("metadata", "name") +
         "@" + event.object.GetString("metadata", "resourceVersion");
}

using Words = std::vector<std::string>;

// A server whose answers are given in order; watches and lists have their own scripts.
struct Fixture {
  using Script = std::vector<std::function<void(const TestRequest&, TestConnection&)>>;

  Fixture(Script lists_in, Script watches_in, TransportOptions transport = {})
      : lists(std::move(lists_in)),
        watches(std::move(watches_in)),
        server([this](const TestRequest& request, TestConnection& connection) {
          const bool watch = request.Has("watch=true");
          Script& script = watch ? watches : lists;
          const size_t index = watch ? watch_count++ : list_count++;
          // After the end of its script a watch stays silent and a list repeats the last answer.
          if (index < script.size()) {
            script[index](request, connection);
          } else if (watch || script.empty()) {
            connection.WaitClosed();
          } else {
            script.back()(request, connection);
          }
        }),
        link(server, std::move(transport)) {
    options.kind = api::Kind::kPod;
    options.backoff = {.first = absl::Milliseconds(4), .cap = absl::Milliseconds(20)};
    options.absent_retry = absl::Milliseconds(10);
  }

  void Start() {
    reflector = std::make_unique<Reflector>(
        *link.transport, link.timers, link.delivery, options,
        [this](state::ObjectEvent event) {
          words.Add(Describe(event));
          events.Add(std::move(event));
        },
        [this](const ReflectorReport& report) { reports.Add(report); });
    reflector->Start();
  }
  std::vector<std::string> Targets(const std::string& part) const {
    std::vector<std::string> targets;
    for (const TestRequest& request : server.requests()) {
      if (request.Has(part)) targets.push_back(request.target);
    }
    return targets;
  }
  bool AwaitWatch() const {
    for (int i = 0; i < 20000 && watch_count == 0; ++i) usleep(1000);
    return watch_count > 0;
  }
  int CountReports(What what) const {
    int count = 0;
    for (const ReflectorReport& report : reports.all()) count += report.what == what ? 1 : 0;
    return count;
  }

  Script lists;
  Script watches;
  std::atomic<size_t> list_count{0};
  std::atomic<size_t> watch_count{0};
  TestServer server;
  Box<std::string> words;
  Box<state::ObjectEvent> events;
  Box<ReflectorReport> reports;
  Link link;
  ReflectorOptions options;
  std::unique_ptr<Reflector> reflector;
};

auto Answer(int code, const std::string& body, const std::string& headers = "") {
  return [=](const TestRequest&, TestConnection& connection) {
    connection.Respond(code, body, headers);
  };
}
// Sends the text as a watch; then ends it in order, cuts it, or leaves it open.
enum class Then { kEnd, kCut, kStay };
auto Watch(const std::string& text, Then then) {
  return [=](const TestRequest&, TestConnection& connection) {
    connection.BeginChunks();
    if (!text.empty()) connection.Chunk(text);
    if (then == Then::kEnd) connection.EndChunks();
    if (then == Then::kCut) connection.Cut();
    if (then == Then::kStay) connection.WaitClosed();
  };
}

TEST_CASE("pages are one list, then the watch goes on from its version") {
  Fixture f({Answer(200, ListBody(9, Object("a", 1) + "," + Object("b", 2), "next")),
             Answer(200, ListBody(9, Object("c", 3)))},
            {Watch(EventLine("ADDED", Object("d", 10)) + EventLine("MODIFIED", Object("a", 11)) +
                       EventLine("DELETED", Object("b", 12)),
                   Then::kStay)});
  f.options.ns = "n";
  f.options.label_selector = "x in (y)";
  f.options.page_size = 2;
  f.Start();
  REQUIRE(f.words.Wait(8));
  CHECK(f.words.all() == Words{"begin", "+a@1", "+b@2", "+c@3", "end", "+d@10", "+a@11", "-b@12"});
  CHECK(f.events.all()[1].object.GetString("kind") == "Pod");
  CHECK(f.events.all()[4].object.GetString("metadata", "resourceVersion") == "9");
  CHECK(f.events.all()[5].object.GetString("apiVersion") == "v1");
  const auto targets = f.Targets("/pods");
  REQUIRE(targets.size() == 3);
  CHECK(targets[0] == "/api/v1/namespaces/n/pods?limit=2&labelSelector=x%20in%20%28y%29");
  CHECK(targets[1] ==
        "/api/v1/namespaces/n/pods?limit=2&continue=next&labelSelector=x%20in%20%28y%29");
  CHECK_THAT(targets[2], Catch::Contains("watch=true&resourceVersion=9&allowWatchBookmarks=true"
                                         "&timeoutSeconds="));
  CHECK(f.reports.all()[0].what == What::kSynced);
  CHECK(f.reports.all()[0].count == 3);
}

TEST_CASE("a lost or ended watch is resumed from the last version, bookmarks included") {
  Fixture f({Answer(200, ListBody(9, ""))},
            {Watch(EventLine("ADDED", Object("a", 10)), Then::kEnd),
             Watch(EventLine("BOOKMARK", R"({"metadata":{"resourceVersion":"20"}})"), Then::kEnd),
             Watch(EventLine("MODIFIED", Object("a", 21)), Then::kCut),
             Watch(EventLine("MODIFIED", Object("a", 22)) + "{\"type\":\"ADD", Then::kEnd),
             Watch(EventLine("DELETED", Object("a", 23)), Then::kStay)});
  f.Start();
  REQUIRE(f.words.Wait(6));
  CHECK(f.words.all() == Words{"begin", "end", "+a@10", "+a@21", "+a@22", "-a@23"});
  const auto targets = f.Targets("watch=true");
  REQUIRE(targets.size() == 5);
  const char* expected[] = {"=9&", "=10&", "=20&", "=21&", "=22&"};
  for (size_t i = 0; i < 5; ++i) {
    CHECK_THAT(targets[i], Catch::Contains(std::string("resourceVersion") + expected[i]));
  }
  CHECK(f.CountReports(What::kUndecodable) == 0);
}

TEST_CASE(
    "an event that shows what a reply has shown is left out, and the watch goes on behind it") {
  EchoFilter echoes;
  echoes.Note(api::Kind::kPod, "10");  // before the list, which may not have it
  const auto note = [&](const TestRequest&, TestConnection& connection) {
    echoes.Note(api::Kind::kPod, "11");
    echoes.Note(api::Kind::kWorkload, "12");  // another kind
    connection.BeginChunks();
    connection.Chunk(EventLine("ADDED", Object("a", 10)) + EventLine("MODIFIED", Object("a", 12)) +
                     EventLine("MODIFIED", Object("a", 11)));
    connection.EndChunks();
  };
  Fixture f({Answer(200, ListBody(9, ""))},
            {note, Watch(EventLine("MODIFIED", Object("a", 13)), Then::kStay)});
  f.options.echoes = &echoes;
  f.Start();
  REQUIRE(f.words.Wait(5));
  CHECK(f.words.all() == Words{"begin", "end", "+a@10", "+a@12", "+a@13"});
  CHECK_THAT(f.Targets("watch=true")[1], Catch::Contains("resourceVersion=11&"));
}

TEST_CASE("everything is listed again after 410, as a code or as an event") {
  const std::string status = StatusBody(410, "Expired", "too old resource version");
  Fixture f({Answer(200, ListBody(9, Object("a", 1))), Answer(200, ListBody(19, Object("b", 15))),
             Answer(200, ListBody(29, ""))},
            {Watch(EventLine("ERROR", status) + EventLine("ADDED", Object("z", 9)), Then::kStay),
             Answer(410, status), Watch("", Then::kStay)});
  f.Start();
  REQUIRE(f.words.Wait(8));
  CHECK(f.words.all() == Words{"begin", "+a@1", "end", "begin", "+b@15", "end", "begin", "end"});
  CHECK(f.CountReports(What::kExpired) == 2);
}

TEST_CASE("pages that expire start a new list") {
  Fixture f({Answer(200, ListBody(9, Object("a", 1), "next")),
             Answer(410, StatusBody(410, "Expired", "continue token too old")),
             Answer(200, ListBody(12, Object("b", 2)))},
            {});
  f.Start();
  REQUIRE(f.words.Wait(5));
  CHECK(f.words.all() == Words{"begin", "+a@1", "begin", "+b@2", "end"});
}

TEST_CASE("other errors of a watch resume it after a wait") {
  Fixture f({Answer(200, ListBody(9, ""))},
            {Answer(500, StatusBody(500, "InternalError", "boom")),
             Watch(EventLine("ERROR", StatusBody(500, "InternalError", "etcd")), Then::kEnd),
             Answer(429, StatusBody(429, "TooManyRequests", "slow"), "Retry-After: 1\r\n"),
             Watch(EventLine("ADDED", Object("a", 10)), Then::kStay)});
  f.Start();
  const absl::Time start = SteadyNow();
  REQUIRE(f.words.Wait(3));
  CHECK(SteadyNow() - start >= absl::Milliseconds(900));
  CHECK(f.words.all() == Words{"begin", "end", "+a@10"});
  CHECK(f.list_count == 1);
  CHECK(f.CountReports(What::kFailed) == 3);
}

TEST_CASE("lines that cannot be decoded are reported and make the next reconnect list again") {
  Fixture f({Answer(200, ListBody(9, R"({"metadata":{}})")), Answer(200, ListBody(19, ""))},
            {Watch("not json\n" + EventLine("STRANGE", Object("a", 10)) +
                       EventLine("ADDED", R"({"metadata":{"resourceVersion":"11"}})") +
                       EventLine("ADDED", Object("b", 12)),
                   Then::kEnd),
             Watch(EventLine("ADDED", Object("c", 20)), Then::kStay)});
  f.Start();
  REQUIRE(f.words.Wait(6));
  CHECK(f.words.all() == Words{"begin", "end", "+b@12", "begin", "end", "+c@20"});
  CHECK(f.CountReports(What::kUndecodable) == 4);
  CHECK(f.reports.all().size() >= 4);
}

std::string Nested(size_t depth) {
  std::string text;
  for (size_t i = 0; i < depth; ++i) text += R"({"f:a":)";
  return text + "1" + std::string(depth, '}');
}
std::string DeepObject(const std::string& name, int version, const std::string& more_metadata,
                       const std::string& spec) {
  return R"({"metadata":{"namespace":"n","name":")" + name + R"(","resourceVersion":")" +
         std::to_string(version) + "\"" + more_metadata + R"(},"spec":)" + spec + "}";
}

TEST_CASE("one object with a part that cannot be kept hides no other one") {
  const std::string fields = R"(,"managedFields":[{"fieldsV1":)" + Nested(300) + "}]";
  Fixture f({Answer(200, ListBody(9, DeepObject("a", 1, fields, "{}") + "," +
                                         DeepObject("b", 2, "", Nested(300)) + "," +
                                         DeepObject("c", 3, "", R"({"x":1e999,"y":2})") + "," +
                                         Object("d", 4)))},
            {Watch(EventLine("ADDED", DeepObject("e", 10, fields, "{}")) +
                       EventLine("MODIFIED", DeepObject("b", 11, "", Nested(300))) +
                       EventLine("DELETED", DeepObject("b", 12, fields, Nested(300))),
                   Then::kEnd),
             Watch(EventLine("ADDED", Object("f", 13)), Then::kStay)});
  f.Start();
  REQUIRE(f.words.Wait(10));
  CHECK(f.words.all() ==
        Words{"begin", "+a@1", "+b@2", "+c@3", "+d@4", "end", "+e@10", "+b@11", "-b@12", "+f@13"});
  CHECK(f.list_count == 1);
  CHECK(f.events.all()[3].object.Find("spec")->Text() == R"({"x":"1e999","y":2})");
  REQUIRE(f.CountReports(What::kUndecodable) == 4);
  const std::string text(f.reports.all()[0].status.message());
  CHECK(text ==
        "list pods: n/b: spec.f:a.f:a.f:a.f:a.f:a.f:a.f:a...: "
        "nested deeper than 200 levels; the rest is used");
  CHECK_THAT(std::string(f.reports.all()[1].status.message()), Catch::StartsWith("list pods: n/c"));
  CHECK_THAT(std::string(f.reports.all()[3].status.message()),
             Catch::StartsWith("watch pods: n/b: object.spec"));
}

TEST_CASE("a server that was seen to send bookmarks may not be silent for long") {
  Fixture f({Answer(200, ListBody(9, ""))},
            {Watch(EventLine("BOOKMARK", R"({"metadata":{"resourceVersion":"20"}})"), Then::kStay),
             Watch("", Then::kStay), Watch(EventLine("ADDED", Object("a", 21)), Then::kStay)});
  f.options.watch_silence = absl::Hours(1);
  f.options.bookmark_silence = absl::Milliseconds(50);
  f.Start();
  REQUIRE(f.words.Wait(3));
  CHECK(f.words.all() == Words{"begin", "end", "+a@21"});
  const auto targets = f.Targets("watch=true");
  REQUIRE(targets.size() >= 3);
  CHECK_THAT(targets[1], Catch::Contains("resourceVersion=20&"));
  CHECK_THAT(targets[2], Catch::Contains("resourceVersion=20&"));
  CHECK(f.list_count == 1);
}

TEST_CASE("a kind that is not served is asked for again, and counts as empty when told so") {
  Fixture f({Answer(404, "404 page not found"), Answer(404, "404 page not found"),
             Answer(200, ListBody(9, Object("a", 1)))},
            {});
  f.options.absent_is_empty = GENERATE(true, false);
  f.Start();
  Words expected = {"begin", "+a@1", "end"};
  if (f.options.absent_is_empty) expected.insert(expected.begin(), {"begin", "end"});
  REQUIRE(f.words.Wait(expected.size()));
  CHECK(f.words.all() == expected);
  CHECK(f.CountReports(What::kAbsent) == 2);
}

TEST_CASE("a list that fails is tried again") {
  Fixture f(
      {Answer(403, StatusBody(403, "Forbidden", "no")), Answer(503, ""), Answer(200, "not json"),
       Answer(200, "{}"), [](const TestRequest&, TestConnection& connection) { connection.Cut(); },
       [](const TestRequest&, TestConnection& connection) { connection.Cut(); },
       Answer(200, ListBody(9, ""))},
      {});
  f.Start();
  REQUIRE(f.words.Wait(2));
  CHECK(f.words.all() == Words{"begin", "end"});
  CHECK(f.CountReports(What::kFailed) >= 5);
}

TEST_CASE("a receiver that waits holds the watch back, and stopping then ends it") {
  std::atomic<size_t> sent{0};
  const std::string line = EventLine("ADDED", R"({"metadata":{"name":"a","resourceVersion":"1"},)"
                                              R"("pad":")" +
                                                  std::string(50000, 'x') + R"("})");
  Fixture f({Answer(200, ListBody(9, ""))}, {[&](const TestRequest&, TestConnection& connection) {
              connection.BeginChunks();
              while (sent < (size_t{100} << 20) && connection.Chunk(line)) sent += line.size();
            }});
  Gate gate;
  std::atomic<int> received{0};
  Reflector reflector(
      *f.link.transport, f.link.timers, f.link.delivery, f.options,
      [&](const state::ObjectEvent& event) {
        if (event.type == Type::kUpsert) gate.Wait();
        ++received;
      },
      nullptr);
  reflector.Start();
  size_t before = 1;
  for (int i = 0; i < 200 && (before != sent || sent == 0); ++i) {
    before = sent;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  CHECK(sent > 0);
  CHECK(sent < (size_t{20} << 20));
  reflector.Stop();
  gate.Open();
  // begin, end, and the one that was waiting; nothing after it.
  for (int i = 0; i < 2000 && received < 3; ++i) usleep(1000);
  usleep(20000);
  CHECK(received == 3);
}

// ---- catching up ----

std::string Bookmark(int version) {
  return EventLine("BOOKMARK",
                   R"({"metadata":{"resourceVersion":")" + std::to_string(version) + R"("}})");
}

TEST_CASE("a small collection is listed again to show that nothing is missing") {
  Fixture f({Answer(200, ListBody(9, Object("a", 1))), Answer(200, ListBody(30, Object("b", 20)))},
            {Watch("", Then::kStay), Watch(EventLine("ADDED", Object("c", 31)), Then::kStay)});
  f.Start();
  REQUIRE(f.AwaitWatch());
  f.reflector->CatchUp("25", true);
  REQUIRE(f.words.Wait(8));
  CHECK(f.words.all() ==
        Words{"begin", "+a@1", "end", "begin", "+b@20", "end", "up to 30", "+c@31"});
  CHECK(f.CountReports(What::kFailed) == 0);
}

TEST_CASE("a watch of a large collection begins anew for a moment to show how far it is") {
  Fixture f({Answer(200, ListBody(9, ""))},
            {Watch(EventLine("ADDED", Object("a", 10)), Then::kStay),
             Watch(EventLine("ADDED", Object("b", 24)) + Bookmark(26), Then::kEnd),
             Watch(EventLine("ADDED", Object("c", 27)) + Bookmark(28), Then::kStay)});
  f.Start();
  REQUIRE(f.words.Wait(3));
  f.reflector->CatchUp("25", false);
  REQUIRE(f.words.Wait(6));
  CHECK(f.words.all() == Words{"begin", "end", "+a@10", "+b@24", "up to 26", "+c@27"});
  CHECK(f.list_count == 1);
  const auto targets = f.Targets("watch=true");
  REQUIRE(targets.size() == 3);
  CHECK_THAT(targets[1],
             Catch::Contains("resourceVersion=10&") && Catch::Contains("&timeoutSeconds=3"));
  CHECK_THAT(targets[2], Catch::Contains("resourceVersion=26&"));
  CHECK_THAT(targets[2], !Catch::Contains("&timeoutSeconds=3&"));
}

TEST_CASE("where the watch does not show how far it is, a list does") {
  const Then end = GENERATE(Then::kEnd, Then::kCut);
  Fixture f({Answer(200, ListBody(9, "")), Answer(200, ListBody(30, Object("b", 20)))},
            {Watch("", Then::kStay), Watch(EventLine("ADDED", Object("b", 20)), end),
             Watch("", Then::kStay)});
  f.Start();
  REQUIRE(f.AwaitWatch());
  f.reflector->CatchUp("25", false);
  REQUIRE(f.words.Wait(7));
  CHECK(f.words.all() == Words{"begin", "end", "+b@20", "begin", "+b@20", "end", "up to 30"});
}

// The question may come at any time: while a list runs that is older than what is asked for, or
// when all that is asked for has been shown.
TEST_CASE("what is asked for while a list runs is shown by another one") {
  Gate asked;
  Fixture f({[&](const TestRequest&, TestConnection& connection) {
               asked.Wait();
               connection.Respond(200, ListBody(9, Object("a", 1)));
             },
             Answer(200, ListBody(30, Object("a", 1)))},
            {Watch("", Then::kStay)});
  f.Start();
  for (int i = 0; i < 20000 && f.list_count == 0; ++i) usleep(1000);
  const std::string version = GENERATE("9", "25");
  f.reflector->CatchUp(version, true);
  asked.Open();
  if (version == "9") {
    REQUIRE(f.words.Wait(4));
    CHECK(f.words.all() == Words{"begin", "+a@1", "end", "up to 9"});
  } else {
    REQUIRE(f.words.Wait(7));
    CHECK(f.words.all() == Words{"begin", "+a@1", "end", "begin", "+a@1", "end", "up to 30"});
  }
}

TEST_CASE("a watch with a line that is too long is ended, and everything is listed again") {
  TransportOptions limited;
  limited.max_line_bytes = 300;
  const std::string huge = R"({"metadata":{"name":"b","resourceVersion":"10"},"pad":")" +
                           std::string(5000, 'x') + R"("})";
  Fixture f({Answer(200, ListBody(9, Object("a", 1))),
             Answer(200, ListBody(12, Object("a", 1) + "," + huge))},
            {Watch(EventLine("ADDED", huge), Then::kStay),
             Watch(EventLine("ADDED", Object("c", 13)), Then::kStay)},
            limited);
  f.Start();
  REQUIRE(f.words.Wait(8));
  CHECK(f.words.all() == Words{"begin", "+a@1", "end", "begin", "+a@1", "+b@10", "end", "+c@13"});
  REQUIRE(f.CountReports(What::kFailed) == 1);
  for (const ReflectorReport& report : f.reports.all()) {
    if (report.what != What::kFailed) continue;
    CHECK_THAT(std::string(report.status.message()),
               Catch::StartsWith("watch pods: ") &&
                   Catch::Contains("a line of the stream has more than 300 bytes"));
  }
}

TEST_CASE("nothing is emitted once the reflector is destroyed") {
  std::atomic<bool> more{true};
  Fixture f({Answer(200, ListBody(9, ""))}, {[&](const TestRequest&, TestConnection& connection) {
              connection.BeginChunks();
              int version = 10;
              while (more && connection.Chunk(EventLine("ADDED", Object("a", version++)))) {
                usleep(200);
              }
            }});
  f.Start();
  REQUIRE(f.words.Wait(20));
  f.reflector.reset();
  const size_t count = f.words.size();
  usleep(20000);
  CHECK(f.words.size() == count);
  more = false;
}

}  // namespace
}  // namespace sluice::kube
