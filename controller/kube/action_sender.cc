#include "kube/action_sender.h"

#include <absl/base/thread_annotations.h>
#include <absl/container/btree_map.h>
#include <absl/synchronization/mutex.h>

#include <atomic>
#include <deque>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::kube {
namespace {

// Actions with the same lane go one after the other. Objects whose name the server makes have a
// lane of their own each.
using Lane = std::tuple<api::Kind, ObjectKey, uint64_t>;

Lane LaneOf(const state::Action& action) {
  return {action.kind, action.key, action.key.name.empty() ? action.id : 0};
}

struct Pending {
  Pending(state::Action action_in, Lane lane_in)
      : id(action_in.id),
        best_effort(action_in.best_effort),
        deletion(action_in.verb == state::Verb::kDelete),
        lane(std::move(lane_in)),
        action(std::move(action_in)) {}

  const uint64_t id;
  const bool best_effort;
  const bool deletion;
  const Lane lane;
  const absl::Time submitted = SteadyNow();
  state::Action action;   // moved out by the one thread that sends it
  bool answered = false;  // guarded by the mutex of the sender
};
using PendingPtr = std::shared_ptr<Pending>;

state::Reply Refusal(uint64_t id, int code, std::string reason, std::string message) {
  state::Reply reply;
  reply.action_id = id;
  reply.code = code;
  reply.reason = std::move(reason);
  reply.message = std::move(message);
  return reply;
}

state::Reply ReplyTo(const Pending& pending, const CallResult& result) {
  if (!result.ok()) {
    const ApiError error = result.error();
    // As the server would say it: refused before anything was done.
    const int code = error.code == 0 && error.reason == "NotSent" ? 429 : error.code;
    state::Reply refusal = Refusal(pending.id, code, error.reason, error.message);
    refusal.retry_after = error.retry_after;
    return refusal;
  }
  state::Reply reply;
  reply.action_id = pending.id;
  reply.code = result.response->code;
  if (std::get<api::Kind>(pending.lane) == api::Kind::kEvent) return reply;
  auto body = ParseBody(*result.response, "answer");
  if (!body.ok()) {
    // The write happened; only its result is unreadable.
    reply.message = std::string(body.status().message());
  } else if (body->GetString("kind") != "Status") {
    reply.object = *std::move(body);
  }
  return reply;
}

}  // namespace

struct ActionSender::Core : std::enable_shared_from_this<ActionSender::Core> {
  Core(Client client_in, Executor& delivery_in, ActionSenderOptions options_in,
       ReplyCallback on_reply_in)
      : client(std::move(client_in)),
        delivery(delivery_in),
        options(std::move(options_in)),
        on_reply(std::move(on_reply_in)) {}

  void Submit(state::Action action) {
    const uint64_t id = action.id;
    state::Reply refusal;
    PendingPtr first;
    {
      absl::MutexLock lock(&mutex);
      ++stats.submitted;
      if (stopped) {
        refusal = Refusal(id, 0, "Stopped", "the sender is stopped");
      } else if (action.best_effort && best_effort_pending >= options.max_best_effort_pending) {
        ++stats.dropped;
        refusal = Refusal(id, 429, "Dropped", "too many best-effort actions are waiting");
      } else {
        first = Enqueue(std::move(action));
        if (first == nullptr) return;
      }
      if (first == nullptr) ++stats.answered;
    }
    if (first != nullptr) {
      Send(first);
    } else {
      Deliver(std::move(refusal));
    }
  }

  // What can be sent at once; null when its lane is busy.
  PendingPtr Enqueue(state::Action action) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    ++stats.pending;
    if (action.best_effort) ++best_effort_pending;
    Lane name = LaneOf(action);
    std::deque<PendingPtr>& lane = lanes[name];
    lane.push_back(std::make_shared<Pending>(std::move(action), std::move(name)));
    return lane.size() == 1 ? lane.front() : nullptr;
  }

  // On the thread that submits, or on that of the answer before: to hand it to another thread costs
  // more than to do it.
  void Send(const PendingPtr& pending) {
    {
      absl::MutexLock lock(&mutex);
      if (pending->answered) return;
    }
    auto write = PrepareWrite(std::move(pending->action));
    if (!write.ok()) {
      Finish(pending,
             Refusal(pending->id, 400, "BadRequest", std::string(write.status().message())));
      return;
    }
    CallOptions call = options.call;
    call.send_within -= SteadyNow() - pending->submitted;
    // The callback below keeps this alive for as long as it can be asked.
    call.may_send = [this] { return MayWrite(); };
    call.repeat = write->repeat;
    call.priority = write->request.priority;
    client.CallAsync(std::move(write->request), call,
                     [self = shared_from_this(), pending](const CallResult& result) {
                       self->CountRepetitions(result.attempts);
                       state::Reply reply = ReplyTo(*pending, result);
                       self->TellVersion(*pending, reply);
                       self->Finish(pending, std::move(reply));
                     });
  }

  bool MayWrite() const { return !halted && (!options.may_write || options.may_write()); }

  void TellVersion(const Pending& pending, const state::Reply& reply) const {
    if (!options.on_version || pending.deletion || !reply.object.IsObject()) return;
    options.on_version(std::get<api::Kind>(pending.lane),
                       reply.object.GetString("metadata", "resourceVersion"));
  }

  void CountRepetitions(int attempts) {
    absl::MutexLock lock(&mutex);
    stats.repeated += static_cast<uint64_t>(attempts - 1);
  }

  void Finish(const PendingPtr& pending, state::Reply reply) {
    PendingPtr next;
    {
      absl::MutexLock lock(&mutex);
      if (pending->answered) return;  // Stop did not wait for this one
      Settle(*pending);
      const auto lane = lanes.find(pending->lane);
      lane->second.pop_front();
      if (lane->second.empty()) {
        lanes.erase(lane);
      } else {
        next = lane->second.front();
      }
      if (stats.pending == 0) drained.SignalAll();
    }
    Deliver(std::move(reply));
    if (next != nullptr) Send(next);
  }

  void Settle(Pending& pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    pending.answered = true;
    ++stats.answered;
    --stats.pending;
    if (pending.best_effort) --best_effort_pending;
  }

  void Deliver(state::Reply reply) {
    if (options.try_reply && undelivered == 0 && options.try_reply(reply)) return;
    ++undelivered;
    delivery.Post(
        [self = shared_from_this(), shared = std::make_shared<state::Reply>(std::move(reply))] {
          self->on_reply(std::move(*shared));
          --self->undelivered;
        });
  }

  bool Stop(absl::Duration drain) {
    std::vector<uint64_t> abandoned;
    {
      absl::MutexLock lock(&mutex);
      stopped = true;
      const absl::Time deadline = SteadyNow() + drain;
      while (stats.pending > 0 && SteadyNow() < deadline) {
        drained.WaitWithTimeout(&mutex, deadline - SteadyNow());
      }
      halted = true;
      for (const auto& [lane, queue] : lanes) {
        for (const PendingPtr& pending : queue) {
          Settle(*pending);
          abandoned.push_back(pending->id);
        }
      }
      lanes.clear();
      drained.SignalAll();  // another one may wait in here
    }
    client.DropRefused();
    for (const uint64_t id : abandoned) {
      Deliver(Refusal(id, 0, "Stopped", "the sender was stopped before the answer came"));
    }
    return abandoned.empty();
  }

  Client client;
  Executor& delivery;
  const ActionSenderOptions options;
  const ReplyCallback on_reply;

  mutable absl::Mutex mutex;
  absl::CondVar drained;
  absl::btree_map<Lane, std::deque<PendingPtr>> lanes ABSL_GUARDED_BY(mutex);
  ActionSenderStats stats ABSL_GUARDED_BY(mutex);
  int best_effort_pending ABSL_GUARDED_BY(mutex) = 0;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
  std::atomic<bool> halted{false};  // nothing is sent any more
  std::atomic<int> undelivered{0};  // replies that the executor has
};

ActionSender::ActionSender(Client client, Executor& delivery, ActionSenderOptions options,
                           ReplyCallback on_reply)
    : core_(std::make_shared<Core>(std::move(client), delivery, std::move(options),
                                   std::move(on_reply))) {}

ActionSender::~ActionSender() { core_->Stop(absl::ZeroDuration()); }

void ActionSender::Submit(state::Action action) { core_->Submit(std::move(action)); }

bool ActionSender::Stop(absl::Duration drain) { return core_->Stop(drain); }

ActionSenderStats ActionSender::stats() const {
  absl::MutexLock lock(&core_->mutex);
  return core_->stats;
}

}  // namespace sluice::kube
