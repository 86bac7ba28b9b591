// RequestGate: a Transport that bounds how much another one is asked to do at once.
//
// At most max_in_flight requests of Send run (urgent ones are neither held nor counted, streams
// have no bound); those that wait go by priority, then in order. An optional rate limit (token
// bucket) applies to the same requests. Each of them is asked whether it may still be sent right
// before it is; one whose time passes while it waits is answered then. Thread-safe, never blocks.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "kube/executor.h"
#include "kube/transport.h"

namespace sluice::kube {

struct GateOptions {
  int max_in_flight = 50;
  double qps = 0;  // 0 or less: no rate limit
  int burst = 1;
};

class RequestGate : public Transport {
 public:
  // `timers` must outlive the gate.
  RequestGate(std::unique_ptr<Transport> inner, Executor& timers, GateOptions options);
  // Answers what still waits with Cancelled.
  ~RequestGate() override;

  void Send(HttpRequest request, ResponseCallback done) override;
  void DropRefused() override;
  std::shared_ptr<StreamHandle> Stream(HttpRequest request, LineCallback on_line,
                                       ResponseCallback on_end) override;
  std::string server() const override;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace sluice::kube
