// ActionSender: the ActionSink of a real cluster.
//
// Independent objects are written in parallel; actions of one object are sent one after the other
// in the order of Submit, each after the reply to the one before. A repetition follows the table of
// api_error.h and happens only where repeating is safe. Exactly one Reply per action, on the
// delivery executor, where it may block, unless try_reply takes it. A reply with code 0 means that
// no answer came (the write may or may not have happened; reason "Timeout", "ConnectionLost" or
// "Stopped"). A refusal carries the server's Retry-After. The reply to an Event comes without the
// object. Code 429 with one of two reasons says
// that an action was not sent, so that it certainly has not happened: "Dropped", a best-effort
// action beyond the bound; "NotSent", its turn did not come in time or may_write said no.
#pragma once

#include <absl/time/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "kube/client.h"
#include "kube/executor.h"
#include "state/ports.h"

namespace sluice::kube {

struct ActionSenderOptions {
  // Deadline, attempts; repeat and priority come from the action. send_within counts from Submit.
  CallOptions call = {};
  // Whether this process may write now: asked right before each attempt goes out, after all waiting
  // for other requests. From any thread; must not wait.
  std::function<bool()> may_write = {};
  int max_best_effort_pending = 1000;
  // Tried first with each reply, on the thread that has it: must not wait, and leaves the reply
  // alone where it returns false. While a reply waits for the executor all others do, so that those
  // of one object keep their order.
  std::function<bool(state::Reply&)> try_reply = {};
  // Is told the version of each object that a reply is going to show. Not for deletions, whose
  // replies need not show what the watch shows.
  std::function<void(api::Kind, std::string_view version)> on_version = {};
};

struct ActionSenderStats {
  uint64_t submitted = 0;
  uint64_t answered = 0;
  uint64_t dropped = 0;   // best-effort actions beyond the bound
  uint64_t repeated = 0;  // attempts beyond the first
  int64_t pending = 0;    // submitted and not answered
};

class ActionSender : public state::ActionSink {
 public:
  using ReplyCallback = std::function<void(state::Reply)>;

  // The executor must outlive the sender.
  ActionSender(Client client, Executor& delivery, ActionSenderOptions options,
               ReplyCallback on_reply);
  // Stop without waiting.
  ~ActionSender() override;

  // Writes the request out and never waits. After Stop the reply is code 0, reason "Stopped".
  void Submit(state::Action action) override;

  // Takes nothing new, waits up to `drain` for what is pending, then answers the rest with code 0,
  // reason "Stopped", of which nothing is sent any more. True when everything was drained. Not from
  // the executor's thread. Idempotent.
  bool Stop(absl::Duration drain);

  ActionSenderStats stats() const;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace sluice::kube
