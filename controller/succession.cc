#include "succession.h"

#include <map>
#include <utility>

#include "kube/collection_version.h"

namespace sluice {
namespace {

// How often it is told that this takes unusually long.
constexpr absl::Duration kLogInterval = absl::Seconds(10);

}  // namespace

// What the questions of one Begin have come to.
struct Succession::Answers {
  absl::Mutex mutex;
  size_t missing ABSL_GUARDED_BY(mutex) = 0;
  std::map<api::Kind, kube::CollectionVersion> versions;  // complete when nothing is missing
  std::function<bool()> go_on;
};

Succession::Succession(const state::Settings& settings, Watches& watches, loop::Inbox& inbox,
                       kube::Executor& timers, kube::Executor& pushes, loop::Log log)
    : settings_(settings),
      watches_(watches),
      inbox_(inbox),
      timers_(timers),
      pushes_(pushes),
      log_(std::move(log)) {}

void Succession::Begin(const kube::Client& client, std::function<bool()> go_on) {
  {
    absl::MutexLock lock(&mutex_);
    since_ = kube::SteadyNow();
    next_log_ = since_ + kLogInterval;
  }
  const std::vector<api::Kind> kinds = state::World::RecordedKinds(settings_);
  auto answers = std::make_shared<Answers>();
  {
    absl::MutexLock lock(&answers->mutex);
    answers->missing = kinds.size();
  }
  answers->go_on = std::move(go_on);
  for (const api::Kind kind : kinds) {
    kube::CollectionQuestion question;
    question.kind = kind;
    question.go_on = answers->go_on;
    question.on_error = [this](const absl::Status& status) {
      log_.Warn("not known what the former leader wrote; asking again", {{"error", status}});
    };
    question.done = [this, kind, answers](const kube::CollectionVersion& version) {
      {
        absl::MutexLock lock(&answers->mutex);
        answers->versions[kind] = version;
        if (--answers->missing > 0) return;
      }
      pushes_.Post([this, answers] { Tell(*answers); });
    };
    kube::AskCollectionVersion(client, timers_, std::move(question));
  }
}

void Succession::Tell(const Answers& answers) {
  if (!answers.go_on()) return;
  state::LeaderChange change;
  change.leading = true;
  for (const auto& [kind, answer] : answers.versions) {
    if (!answer.version.empty()) change.at_least[kind] = answer.version;
  }
  // The loop may have seen as much already; else the watches bring the proof behind this.
  inbox_.Push(std::move(change));
  for (const auto& [kind, answer] : answers.versions) {
    if (!answer.version.empty()) watches_.CatchUp(kind, answer.version, answer.few);
  }
}

void Succession::Follow(const reconcile::Operator& op) {
  absl::MutexLock lock(&mutex_);
  if (since_ == absl::InfiniteFuture()) return;
  const absl::Time now = kube::SteadyNow();
  if (op.leading()) {
    log_.Info("all that the former leader wrote is known", {{"wait", now - since_}});
    since_ = absl::InfiniteFuture();
  } else if (now >= next_log_) {
    next_log_ = now + kLogInterval;
    log_.Warn("nothing is decided before all that the former leader wrote is known",
              {{"since", now - since_}});
  }
}

std::string Succession::Complaint() const {
  absl::MutexLock lock(&mutex_);
  return since_ == absl::InfiniteFuture() ? "" : "not known yet what the former leader wrote";
}

}  // namespace sluice
