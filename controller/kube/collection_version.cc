#include "kube/collection_version.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/status.h"

namespace sluice::kube {
namespace {

// So many objects are listed as fast as a watch that is begun anew tells how far it is.
constexpr int64_t kFew = 2000;
constexpr absl::Duration kAnswerTime = absl::Seconds(5);

struct Asking : std::enable_shared_from_this<Asking> {
  Asking(Client client_in, Executor& timers_in, CollectionQuestion question_in)
      : client(std::move(client_in)),
        timers(timers_in),
        question(std::move(question_in)),
        backoff(question.backoff) {}

  void Ask() {
    if (!question.go_on()) return;
    HttpRequest request;
    request.path_and_query = ListPath(question.kind, {}, {{"limit", "1"}});
    CallOptions call;
    call.max_attempts = 1;
    call.deadline = call.attempt_timeout = kAnswerTime;
    call.priority = Priority::kUrgent;
    client.CallAsync(
        std::move(request), call,
        [self = shared_from_this()](const CallResult& result) { self->OnAnswer(result); });
  }

  void OnAnswer(const CallResult& result) {
    if (!question.go_on()) return;
    const std::string what = std::string("list ") + api::InfoOf(question.kind).plural;
    if (result.response.ok() && result.response->code == 404) return question.done({});
    if (!result.ok()) return TryAgain(ToStatus(result.error(), what), result.error().retry_after);
    const absl::StatusOr<api::Json> list = ParseBody(*result.response, what);
    if (!list.ok()) return TryAgain(list.status(), absl::ZeroDuration());
    CollectionVersion answer;
    answer.version = list->GetString("metadata", "resourceVersion");
    if (answer.version.empty()) {
      return TryAgain(Unavailable("{}: the answer is not a list: it has no resourceVersion", what),
                      absl::ZeroDuration());
    }
    const api::Json* more = list->Find("metadata", "remainingItemCount");
    answer.few = list->GetString("metadata", "continue").empty() ||
                 (more != nullptr && more->AsInt() <= kFew);
    question.done(answer);
  }

  void TryAgain(const absl::Status& status, absl::Duration at_least) {
    question.on_error(status);
    timers.PostAfter(std::max(at_least, backoff.Next()),
                     [self = shared_from_this()] { self->Ask(); });
  }

  Client client;
  Executor& timers;
  const CollectionQuestion question;
  Backoff backoff;
};

}  // namespace

void AskCollectionVersion(Client client, Executor& timers, CollectionQuestion question) {
  std::make_shared<Asking>(std::move(client), timers, std::move(question))->Ask();
}

}  // namespace sluice::kube
