#include "loop/questions.h"

namespace sluice::loop {

bool Questions::Ask(Question question) {
  {
    absl::MutexLock lock(&mutex_);
    if (closed_ || waiting_.size() >= kMostWaiting) return false;
    waiting_.push_back(std::move(question));
  }
  wake_();
  return true;
}

void Questions::Answer(state::World& world, absl::Time now) {
  const absl::Time begin = now_();
  for (int answered = 0;; ++answered) {
    Question question;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_.empty()) return;
      if (answered == kMostAtOnce || (answered > 0 && now_() - begin > kMostTime)) break;
      question = std::move(waiting_.front());
      waiting_.pop_front();
    }
    question(world, now);
  }
  wake_();  // the rest after the next batch
}

void Questions::Close() {
  std::deque<Question> dropped;
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  waiting_.swap(dropped);
}

}  // namespace sluice::loop
