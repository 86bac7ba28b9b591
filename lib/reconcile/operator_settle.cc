// The part of Operator that finds out what became of an admission whose write was refused or got no
// answer. It may have happened all the same: an answer is lost, or the client repeats a write whose
// answer it did not get and is told that the object has changed, which it did itself.
//
// Each such write names the version of the object that it changes, so that version alone tells: of
// a newer one the object shows what has come of it, and the write can no more be carried out. The
// watch brings it or, where that is late, a read. Until then the admission counts: what it holds
// may be held in the API server, and nobody else may be given it.
#include <algorithm>

#include "reconcile/operator.h"
#include "reconcile/operator_parts.h"
#include "state/store.h"

namespace sluice::reconcile {
namespace {

constexpr int kGatewayTimeout = 504;
// A request lives no longer in an API server (requestTimeoutUpperBound of its handlers: 34 s). One
// that got no answer may be carried out until then, and an object that did not change tells nothing
// before.
constexpr absl::Duration kRequestLife = absl::Seconds(35);
constexpr absl::Duration kMaxReadPause = absl::Seconds(30);
// How long a Workload that is not there waits for the watch to tell so.
constexpr absl::Duration kMissingTime = absl::Seconds(30);

}  // namespace

void Operator::Unsettle(const InFlight& write, int code, absl::Duration pause, absl::Time now) {
  const state::Ref& ref = write.target;
  // Over already; or the one that is assumed now is another one, which is not sent yet.
  if (!world_.IsAssumed(ref.key) || reserving_.contains(ref.key)) return;
  if (code == kNotFound) return world_.ForgetMissing(ref.key, now + kMissingTime, now, dirty_);
  Unsettled admission;
  admission.base_version = write.base_version;
  admission.pause = pause;
  admission.read_at = now + pause;
  admission.certain_from = code == 0 || code == kGatewayTimeout ? now + kRequestLife : now;
  settling_[ref.key] = std::move(admission);
  FollowSettling(ref.key, now, dirty_);
  if (settling_.contains(ref.key)) WakeAt(ref, now + pause);
}

void Operator::FollowSettling(const ObjectKey& key, absl::Time now, state::Refs& touched) {
  const auto found = settling_.find(key);
  if (found == settling_.end()) return;
  const auto workload = world_.workloads().Find(key);
  const bool tells = workload == nullptr || state::NewerVersion(workload->metadata.resource_version,
                                                                found->second.base_version);
  if (world_.IsAssumed(key) && !tells) return;
  settling_.erase(found);
  world_.Forget(key, now, touched);
}

void Operator::ReadUnsettled(const state::Ref& ref, absl::Time now) {
  const auto found = settling_.find(ref.key);
  if (found == settling_.end()) return;
  Unsettled& admission = found->second;
  if (admission.read_at > now) return WakeAt(ref, admission.read_at);
  if (essential_in_flight_ >= options_.max_in_flight) {
    return WakeAt(ref, now + options_.first_backoff);
  }
  admission.asked_at = now;
  admission.read_at = absl::InfiniteFuture();  // when this one is answered
  state::Action action;
  action.verb = state::Verb::kGet;
  action.kind = ref.kind;
  action.key = ref.key;
  Send(std::move(action), ref, {});
}

void Operator::OnRead(const InFlight& read, const state::Reply& reply, absl::Time now) {
  const state::Ref& ref = read.target;
  const bool shown = reply.ok() && reply.object.Has("metadata");
  if (!reply.ok() && observer_ != nullptr) observer_->OnRefused(read.action, reply);
  const bool of_deleted = ShowsDeleted(reply.object, read.deleted_version);
  if (shown && !of_deleted) {
    OnObject({state::ObjectEvent::Type::kUpsert, ref.kind, reply.object, true}, now);
  }
  const auto found = settling_.find(ref.key);
  if (found == settling_.end()) return;
  Unsettled& admission = found->second;
  if (reply.code == kNotFound) {
    settling_.erase(found);
    return world_.ForgetMissing(ref.key, now + kMissingTime, now, dirty_);
  }
  const bool unchanged =
      shown && !state::NewerVersion(VersionOf(reply.object), admission.base_version);
  if (unchanged && admission.asked_at >= admission.certain_from) {
    settling_.erase(found);
    return world_.Forget(ref.key, now, dirty_);
  }
  // The write may still be on its way, or the answer told nothing.
  admission.pause = std::min(admission.pause * 2, kMaxReadPause);
  admission.read_at = now + std::max(admission.pause, AskedPause(reply));
  if (unchanged) {
    admission.read_at = std::max(now, std::min(admission.read_at, admission.certain_from));
  }
  WakeAt(ref, admission.read_at);
}

}  // namespace sluice::reconcile
