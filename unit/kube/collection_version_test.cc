// How new a collection is: asked for until there is an answer.
#include "kube/collection_version.h"

#include "unit/kube/fixture.h"

namespace sluice::kube {
namespace {

using Handler = std::function<void(const TestRequest&, TestConnection&)>;

Handler Answer(int code, const std::string& body) {
  return [=](const TestRequest&, TestConnection& connection) { connection.Respond(code, body); };
}

struct Fixture {
  explicit Fixture(std::vector<Handler> script_in)
      : script(std::move(script_in)),
        server([this](const TestRequest& request, TestConnection& connection) {
          const size_t index = std::min(count++, script.size() - 1);
          script[index](request, connection);
        }),
        link(server) {}

  void Ask() {
    CollectionQuestion question;
    question.kind = api::Kind::kWorkload;
    question.go_on = [this] { return count < stop_at; };
    question.on_error = [this](const absl::Status& status) { errors.Add(status); };
    question.done = [this](const CollectionVersion& answer) { answers.Add(answer); };
    question.backoff = {.first = absl::Milliseconds(2), .cap = absl::Milliseconds(10)};
    AskCollectionVersion(link.MakeClient(), link.timers, std::move(question));
  }

  std::vector<Handler> script;
  std::atomic<size_t> count{0};
  size_t stop_at = 100;
  TestServer server;
  Box<absl::Status> errors;
  Box<CollectionVersion> answers;
  Link link;
};

TEST_CASE("one object of a consistent list tells how new the collection is, and how large") {
  struct Case {
    const char* metadata;
    bool few;
  };
  const Case row =
      GENERATE(Case{R"({"resourceVersion":"77"})", true},
               Case{R"({"resourceVersion":"77","continue":"x","remainingItemCount":1999})", true},
               Case{R"({"resourceVersion":"77","continue":"x","remainingItemCount":50000})", false},
               Case{R"({"resourceVersion":"77","continue":"x"})", false});
  CAPTURE(row.metadata);
  Fixture f({Answer(200, std::string(R"({"kind":"WorkloadList","metadata":)") + row.metadata +
                             R"(,"items":[]})")});
  f.Ask();
  REQUIRE(f.answers.Wait(1));
  CHECK(f.answers.all()[0].version == "77");
  CHECK(f.answers.all()[0].few == row.few);
  REQUIRE(f.server.requests().size() == 1);
  CHECK(f.server.requests()[0].target == "/apis/kueue.x-k8s.io/v1beta2/workloads?limit=1");
}

TEST_CASE("it is asked for until there is an answer, and each failure is told") {
  Fixture f({Answer(503, StatusBody(503, "ServiceUnavailable", "later")), Answer(200, "no JSON"),
             Answer(200, "{}"),
             [](const TestRequest&, TestConnection& connection) { connection.Cut(); },
             [](const TestRequest&, TestConnection& connection) { connection.Cut(); },
             Answer(200, R"({"metadata":{"resourceVersion":"5"}})")});
  f.Ask();
  REQUIRE(f.answers.Wait(1));
  CHECK(f.answers.all()[0].version == "5");
  CHECK(f.errors.size() >= 4);
  CHECK_THAT(std::string(f.errors.all()[0].message()), Catch::StartsWith("list workloads: later"));
}

TEST_CASE("a kind that is not served has no version") {
  Fixture f({Answer(404, "404 page not found")});
  f.Ask();
  REQUIRE(f.answers.Wait(1));
  CHECK(f.answers.all()[0].version.empty());
  CHECK(f.errors.size() == 0);
}

TEST_CASE("nothing is asked any more once nobody wants to know") {
  Fixture f({Answer(503, "")});
  f.stop_at = 3;
  f.Ask();
  REQUIRE(f.errors.Wait(2));
  f.link.timers.Shutdown();
  CHECK(f.errors.size() == 2);
  CHECK(f.answers.size() == 0);
}

}  // namespace
}  // namespace sluice::kube
