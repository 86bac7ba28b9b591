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

int Questions::AnswerSome(state::World& world, absl::Time now, absl::Time begin, bool& rest) {
  for (int answered = 0;; ++answered) {
    Question question;
    {
      absl::MutexLock lock(&mutex_);
      if (waiting_.empty()) return answered;
      if (answered == kMostAtOnce || (answered > 0 && now_() - begin > kMostTime)) {
        rest = true;
        return answered;
      }
      question = std::move(waiting_.front());
      waiting_.pop_front();
    }
    question(world, now);
  }
}

void Questions::Answer(state::World& world, absl::Time now) {
  const absl::Time begin = now_();
  bool rest = false;
  const int answered = AnswerSome(world, now, begin, rest);
  if (answered > 0 && held_) held_(now_() - begin);
  if (rest) wake_();  // after the next batch
}

void Questions::Close() {
  std::deque<Question> dropped;
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  waiting_.swap(dropped);
}

}  // namespace sluice::loop
