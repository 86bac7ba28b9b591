// Leaving classes alone that would be refused again; see PassOver.
#include "queueing/queue_manager_state.h"

namespace sluice::queueing {

// The first that is worth a try; nullptr when there is none.
QueueManager::Entry* QueueManager::PassOverRefused(Queue& queue, const PassOver& pass_over,
                                                   absl::Time now) {
  const bool may_pass =
      queue.options.strategy == QueueingStrategy::kBestEffortFifo && !queue.options.backfill;
  while (Entry* top = queue.Top()) {
    if (top == queue.waiting) break;
    Class& of_class = *top->group->of_class;
    if (!may_pass || !of_class.refused || top == queue.Sticky() ||
        !pass_over.still_refused(*top->info)) {
      return top;
    }
    SetBlocked(queue, of_class, true);
    if (!queue.recheck) {
      queue.recheck = now + pass_over.recheck;
      rechecks_.insert({*queue.recheck, queue.name});
    }
  }
  RefreshReady(queue);
  return nullptr;
}

void QueueManager::RecheckDue(absl::Time now) {
  while (!rechecks_.empty() && rechecks_.begin()->first <= now) {
    Queue& queue = QueueAt(std::string(rechecks_.begin()->second));
    EndRecheck(queue);
    Unblock(queue);
    RefreshReady(queue);
  }
}

// From now on everybody is judged, whatever the last answer was.
void QueueManager::EndRecheck(Queue& queue) {
  for (const auto& [equivalence, of_class] : queue.classes) of_class->refused = false;
  if (!queue.recheck) return;
  rechecks_.erase({*queue.recheck, queue.name});
  queue.recheck.reset();
}

}  // namespace sluice::queueing
