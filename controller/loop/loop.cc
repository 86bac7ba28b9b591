#include "loop/loop.h"

#include <absl/time/clock.h>

#include <algorithm>
#include <istream>

#include "base/status.h"
#include "state/recording.h"

namespace sluice::loop {
namespace {

// Events that are taken in before the Operator works, so that a burst is decided about once.
constexpr int kMaxBatch = 256;

class PrintingSink : public state::ActionSink {
 public:
  explicit PrintingSink(std::ostream& out) : out_(out) {}
  void Submit(state::Action action) override {
    static constexpr const char* kVerbs[] = {"create", "update", "merge-patch", "json-patch",
                                             "apply",  "delete", "get"};
    out_ << fmt::format("  #{} {} {} {}{} {}\n", action.id, kVerbs[static_cast<int>(action.verb)],
                        api::InfoOf(action.kind).name, action.key.ToString(),
                        action.subresource.empty() ? "" : "/" + action.subresource,
                        action.body.Text());
  }

 private:
  std::ostream& out_;
};

class PrintingObserver : public reconcile::Observer {
 public:
  explicit PrintingObserver(std::ostream& out) : out_(out) {}
  void OnDecision(const admission::Decision& decision, absl::Time now) override {
    out_ << fmt::format("{} {} {}: {}\n", FormatMicroTime(now),
                        decision.kind == admission::Decision::Kind::kAdmit ? "admit" : "wait",
                        decision.info->Key().ToString(),
                        decision.message.empty() ? decision.info->cluster_queue : decision.message);
  }
  void OnRejected(const state::Rejection& rejection, bool, uint64_t) override {
    out_ << fmt::format("  rejected {} {}: {}\n", api::InfoOf(rejection.ref.kind).name,
                        rejection.ref.key.ToString(), rejection.error);
  }

 private:
  std::ostream& out_;
};

}  // namespace

void RunLoop(reconcile::Operator& op, state::EventSource& source, const Clock& clock,
             const LoopHooks& hooks) {
  absl::Time last_batch = absl::InfinitePast();
  while (!hooks.stop()) {
    absl::Time now = clock.Now();
    const absl::Time deadline = std::min(op.NextDue(now), now + hooks.heartbeat);
    std::optional<state::Event> event = source.Next(deadline);
    now = clock.Now();
    if (event && now < last_batch + hooks.gather) {
      const absl::Duration rest = std::min(last_batch + hooks.gather - now, hooks.gather);
      hooks.pause ? hooks.pause(rest) : absl::SleepFor(rest);
      now = clock.Now();
    }
    last_batch = now;
    int taken = 0;
    for (; event && taken < kMaxBatch; ++taken) {
      now = clock.Now();
      if (hooks.on_event) hooks.on_event(*event, now);
      op.Step(*event, now);
      // Only what is there already; nothing is waited for in the middle of a batch.
      event = taken + 1 < kMaxBatch ? source.Next(absl::InfinitePast()) : std::nullopt;
    }
    if (taken == kMaxBatch) last_batch = absl::InfinitePast();  // there is more already
    if (hooks.stop()) return;  // nothing is decided any more, least of all without the lease
    now = clock.Now();
    // Each time: what waits for a moment without load is not due at any moment that could be told.
    if (hooks.on_run) hooks.on_run(now);
    op.Run(now);
    if (hooks.after_batch) hooks.after_batch(op, now, clock.Now() - now);
  }
}

absl::Status Replay(std::istream& recording, const state::Settings& settings, std::ostream& out) {
  PrintingSink sink(out);
  PrintingObserver observer(out);
  reconcile::Operator op(settings, {}, sink, &observer);
  absl::Time last = absl::UnixEpoch();
  std::string line;
  for (int number = 1; std::getline(recording, line); ++number) {
    if (line.empty()) continue;
    absl::StatusOr<state::RecordedLine> recorded = state::DecodeLine(line);
    if (!recorded.ok()) return Annotate(recorded.status(), fmt::format("line {}", number));
    last = recorded->time;
    if (recorded->event) {
      op.Step(*recorded->event, last);
    } else {
      op.Run(last);
    }
  }
  op.Run(last);  // the recorded process may have died on the last events
  out << fmt::format("end: {} workloads, {} writes without an answer\n",
                     op.world().workloads().size(), op.in_flight());
  return absl::OkStatus();
}

}  // namespace sluice::loop
