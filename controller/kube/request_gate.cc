#include "kube/request_gate.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"

namespace sluice::kube {
namespace {

// Why the request may not be sent any more, or OK.
absl::Status MaySend(const HttpRequest& request) {
  if (SteadyNow() >= request.send_by) {
    return absl::AbortedError("not sent: its turn did not come in time");
  }
  if (request.may_send && !request.may_send()) {
    return absl::AbortedError("not sent: this process may not write any more");
  }
  return absl::OkStatus();
}

}  // namespace

struct RequestGate::Core : std::enable_shared_from_this<RequestGate::Core> {
  struct Waiting {
    HttpRequest request;
    ResponseCallback done;
  };

  Core(std::unique_ptr<Transport> inner_in, Executor& timers_in, GateOptions options_in)
      : inner(std::move(inner_in)), timers(timers_in), options(options_in) {
    options.max_in_flight = std::max(options.max_in_flight, 1);
    options.burst = std::max(options.burst, 1);
    tokens = options.burst;
    refilled_at = SteadyNow();
  }

  // The next request whose turn it is, in order of priority.
  bool TakeNext(Waiting& next) {
    absl::MutexLock lock(&mutex);
    if (closed || in_flight >= options.max_in_flight) return false;
    for (auto& queue : queues) {
      if (queue.empty()) continue;
      if (!TakeToken()) return false;
      next = std::move(queue.front());
      queue.pop_front();
      ++in_flight;
      ++sending;
      return true;
    }
    return false;
  }

  // Takes out what may not be sent any more and answers it; looks again when the time of another
  // one passes.
  void Drop() {
    std::vector<std::pair<ResponseCallback, absl::Status>> dropped;
    {
      absl::MutexLock lock(&mutex);
      absl::Time next = absl::InfiniteFuture();
      for (auto& queue : queues) {
        std::deque<Waiting> kept;
        for (Waiting& waiting : queue) {
          absl::Status status = MaySend(waiting.request);
          if (status.ok()) {
            next = std::min(next, waiting.request.send_by);
            kept.push_back(std::move(waiting));
          } else {
            dropped.emplace_back(std::move(waiting.done), std::move(status));
          }
        }
        queue = std::move(kept);
      }
      LookAt(next);
    }
    for (auto& [done, status] : dropped) done(std::move(status));
  }

  // One timer for all: those that come later have, as a rule, more time.
  void LookAt(absl::Time time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (time >= look_at) return;
    look_at = time;
    timers.PostAfter(time - SteadyNow(), [self = weak_from_this(), time] {
      const std::shared_ptr<Core> core = self.lock();
      if (core == nullptr) return;
      {
        absl::MutexLock lock(&core->mutex);
        if (core->look_at == time) core->look_at = absl::InfiniteFuture();
      }
      core->Drop();
    });
  }

  bool TakeToken() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (options.qps <= 0) return true;
    const absl::Time now = SteadyNow();
    tokens = std::min<double>(options.burst,
                              tokens + absl::ToDoubleSeconds(now - refilled_at) * options.qps);
    refilled_at = now;
    if (tokens >= 1) {
      tokens -= 1;
      return true;
    }
    if (!refill_scheduled) {
      refill_scheduled = true;
      timers.PostAfter(absl::Seconds((1 - tokens) / options.qps), [self = weak_from_this()] {
        const std::shared_ptr<Core> core = self.lock();
        if (core == nullptr) return;
        {
          absl::MutexLock lock(&core->mutex);
          core->refill_scheduled = false;
        }
        core->Pump();
      });
    }
    return false;
  }

  void Pump() {
    Waiting next;
    while (TakeNext(next)) {
      if (absl::Status status = MaySend(next.request); !status.ok()) {
        {
          absl::MutexLock lock(&mutex);
          --in_flight;
          if (--sending == 0) idle.SignalAll();
        }
        next.done(std::move(status));
        continue;
      }
      inner->Send(std::move(next.request), [self = shared_from_this(), done = std::move(next.done)](
                                               absl::StatusOr<HttpResponse> response) {
        {
          absl::MutexLock lock(&self->mutex);
          --self->in_flight;
        }
        self->Pump();
        done(std::move(response));
      });
      absl::MutexLock lock(&mutex);
      if (--sending == 0) idle.SignalAll();
    }
  }

  std::unique_ptr<Transport> inner;
  Executor& timers;
  GateOptions options;
  absl::Mutex mutex;
  // Normal, best effort.
  std::array<std::deque<Waiting>, 2> queues ABSL_GUARDED_BY(mutex);
  int in_flight ABSL_GUARDED_BY(mutex) = 0;
  int sending ABSL_GUARDED_BY(mutex) = 0;  // threads inside inner->Send
  absl::CondVar idle;
  double tokens ABSL_GUARDED_BY(mutex) = 0;
  absl::Time refilled_at ABSL_GUARDED_BY(mutex);
  bool refill_scheduled ABSL_GUARDED_BY(mutex) = false;
  absl::Time look_at ABSL_GUARDED_BY(mutex) = absl::InfiniteFuture();
  bool closed ABSL_GUARDED_BY(mutex) = false;
};

RequestGate::RequestGate(std::unique_ptr<Transport> inner, Executor& timers, GateOptions options)
    : core_(std::make_shared<Core>(std::move(inner), timers, options)) {}

RequestGate::~RequestGate() {
  std::vector<Core::Waiting> orphans;
  {
    absl::MutexLock lock(&core_->mutex);
    core_->closed = true;
    for (auto& queue : core_->queues) {
      for (Core::Waiting& waiting : queue) orphans.push_back(std::move(waiting));
      queue.clear();
    }
    while (core_->sending > 0) core_->idle.Wait(&core_->mutex);
  }
  for (Core::Waiting& waiting : orphans) {
    waiting.done(absl::CancelledError("the transport is shut down"));
  }
  // Waits for the requests in flight, whose callbacks still use the core.
  core_->inner.reset();
}

void RequestGate::Send(HttpRequest request, ResponseCallback done) {
  if (request.priority == Priority::kUrgent) {
    core_->inner->Send(std::move(request), std::move(done));
    return;
  }
  {
    absl::MutexLock lock(&core_->mutex);
    if (core_->closed) {
      core_->timers.Post([done] { done(absl::CancelledError("the transport is shut down")); });
      return;
    }
    core_->LookAt(request.send_by);
    const size_t queue = request.priority == Priority::kBestEffort ? 1 : 0;
    core_->queues[queue].push_back({std::move(request), std::move(done)});
  }
  core_->Pump();
}

void RequestGate::DropRefused() { core_->Drop(); }

std::shared_ptr<StreamHandle> RequestGate::Stream(HttpRequest request, LineCallback on_line,
                                                  ResponseCallback on_end) {
  return core_->inner->Stream(std::move(request), std::move(on_line), std::move(on_end));
}

std::string RequestGate::server() const { return core_->inner->server(); }

}  // namespace sluice::kube
