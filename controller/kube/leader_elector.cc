#include "kube/leader_elector.h"

#include <absl/time/clock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "kube/backoff.h"
#include "kube/executor.h"

namespace sluice::kube {
namespace {

constexpr double kRetryJitter = 1.2;

std::string MakeIdentity() {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return std::string(host.data()) + "_" + RandomHex();
}

}  // namespace

absl::Status LeaderElector::Validate(const LeaderElectorOptions& options) {
  if (options.lease.name.empty()) return InvalidArgument("leader election: the lease has no name");
  if (options.lease.ns.empty()) {
    return InvalidArgument("leader election: the lease has no namespace");
  }
  if (options.retry_period <= absl::ZeroDuration()) {
    return InvalidArgument("leader election: retryPeriod must be positive");
  }
  if (options.renew_deadline <= options.retry_period * kRetryJitter) {
    return InvalidArgument("leader election: renewDeadline must be longer than 1.2 * retryPeriod");
  }
  if (options.lease_duration <= options.renew_deadline) {
    return InvalidArgument("leader election: leaseDuration must be longer than renewDeadline");
  }
  if (options.lease_duration < absl::Seconds(1)) {
    return InvalidArgument("leader election: leaseDuration must be at least one second");
  }
  return absl::OkStatus();
}

LeaderElector::LeaderElector(Client client, LeaderElectorOptions options,
                             LeaderElectorCallbacks callbacks)
    : client_(std::move(client)), options_(std::move(options)), callbacks_(std::move(callbacks)) {
  if (options_.identity.empty()) options_.identity = MakeIdentity();
}

absl::Time LeaderElector::SteadyTime() const {
  return options_.steady != nullptr ? options_.steady->Now() : SteadyNow();
}

absl::Time LeaderElector::WallTime() const {
  return options_.wall != nullptr ? options_.wall->Now() : absl::Now();
}

bool LeaderElector::IsLeader() const {
  absl::MutexLock lock(&mutex_);
  return leading_ && SteadyTime() - renewed_at_ < options_.renew_deadline;
}

void LeaderElector::Observe(const Record& record) {
  if (observed_ != record) {
    observed_ = record;
    observed_at_ = SteadyTime();
  }
  if (record.holder != reported_holder_) {
    reported_holder_ = record.holder;
    if (callbacks_.on_holder) callbacks_.on_holder(record.holder);
  }
}

// Writes the record over `current` (null: creates the lease).
absl::Status LeaderElector::WriteLease(const api::Json* current, const Record& record) {
  api::Json lease = current == nullptr ? api::Json::MakeObject() : *current;
  api::Json& spec = lease["spec"];
  spec.Set("holderIdentity", record.holder);
  spec.Set("leaseDurationSeconds", record.duration_seconds);
  spec.Set("acquireTime", record.acquire_time);
  spec.Set("renewTime", record.renew_time);
  spec.Set("leaseTransitions", record.transitions);
  absl::StatusOr<api::Json> stored;
  if (current == nullptr) {
    lease["metadata"].Set("name", options_.lease.name);
    stored = client_.Create(api::Kind::kLease, options_.lease.ns, lease);
  } else {
    stored = client_.Update(api::Kind::kLease, options_.lease, lease);
  }
  if (!stored.ok()) return stored.status();
  observed_object_ = *std::move(stored);
  Observe(record);
  return absl::OkStatus();
}

CallOptions LeaderElector::Limits() const {
  CallOptions limits;
  limits.priority = Priority::kUrgent;
  limits.max_attempts = 1;
  limits.deadline = options_.renew_deadline / 2;
  {
    absl::MutexLock lock(&mutex_);
    if (leading_) {
      // A leader must know in time that it could not renew.
      limits.deadline =
          std::min(limits.deadline, renewed_at_ + options_.renew_deadline - SteadyTime());
    }
  }
  limits.deadline = std::max(limits.deadline, absl::Milliseconds(1));
  limits.attempt_timeout = limits.deadline;
  return limits;
}

absl::StatusOr<bool> LeaderElector::TryAcquireOrRenew() {
  Record mine;
  mine.holder = options_.identity;
  mine.duration_seconds = absl::ToInt64Seconds(options_.lease_duration);
  mine.acquire_time = mine.renew_time = FormatMicroTime(WallTime());
  bool leading = false;
  {
    absl::MutexLock lock(&mutex_);
    leading = leading_;
  }
  client_.defaults() = Limits();
  if (leading && observed_.has_value() && observed_->holder == options_.identity) {
    // Nobody else writes a lease that is held: renew without reading it first.
    mine.acquire_time = observed_->acquire_time;
    mine.transitions = observed_->transitions;
    const absl::Status renewed = WriteLease(&observed_object_, mine);
    if (renewed.ok()) return true;
    // Changed or deleted by somebody: look what is there now.
    if (!absl::IsAborted(renewed) && !absl::IsNotFound(renewed)) return renewed;
    client_.defaults() = Limits();
  }
  auto current = client_.Get(api::Kind::kLease, options_.lease);
  if (!current.ok()) {
    if (current.status().code() != absl::StatusCode::kNotFound) return current.status();
    client_.defaults() = Limits();
    RETURN_IF_ERROR(WriteLease(nullptr, mine));
    return true;
  }
  Record seen;
  seen.holder = current->GetString("spec", "holderIdentity");
  seen.acquire_time = current->GetString("spec", "acquireTime");
  seen.renew_time = current->GetString("spec", "renewTime");
  if (const api::Json* value = current->Find("spec", "leaseDurationSeconds")) {
    seen.duration_seconds = value->AsInt();
  }
  if (const api::Json* value = current->Find("spec", "leaseTransitions")) {
    seen.transitions = value->AsInt();
  }
  Observe(seen);
  const bool ours = seen.holder == options_.identity;
  const absl::Duration held_for = absl::Seconds(seen.duration_seconds);
  if (!seen.holder.empty() && !ours && SteadyTime() < observed_at_ + held_for) return false;
  mine.transitions = ours ? seen.transitions : seen.transitions + 1;
  if (ours && !seen.acquire_time.empty()) mine.acquire_time = seen.acquire_time;
  client_.defaults() = Limits();
  RETURN_IF_ERROR(WriteLease(&*current, mine));
  return true;
}

absl::Duration LeaderElector::Step() {
  // The clock of the renewal starts before the request, as another process may see it from then on.
  const absl::Time started = SteadyTime();
  const absl::StatusOr<bool> held = TryAcquireOrRenew();
  bool was_leading = false;
  bool lost = false;
  absl::Time give_up;
  {
    absl::MutexLock lock(&mutex_);
    was_leading = leading_;
    if (held.ok() && *held) renewed_at_ = started;
    give_up = renewed_at_ + options_.renew_deadline;
    lost = was_leading && ((held.ok() && !*held) || SteadyTime() >= give_up);
  }
  if (!held.ok() && callbacks_.on_error) callbacks_.on_error(held.status());
  if (lost) {
    SetLeading(false);
  } else if (held.ok() && *held && !was_leading) {
    SetLeading(true);
  }
  if (was_leading || (held.ok() && *held)) {
    return std::clamp(give_up - SteadyTime(), absl::Milliseconds(1), options_.retry_period);
  }
  return RandomBetween(options_.retry_period, options_.retry_period * (1 + kRetryJitter));
}

void LeaderElector::SetLeading(bool leading) {
  {
    absl::MutexLock lock(&mutex_);
    leading_ = leading;
    lost_ = !leading;
  }
  if (callbacks_.on_change) callbacks_.on_change(leading);
}

bool LeaderElector::Run() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return false;
    }
    const absl::Duration wait = Step();
    absl::MutexLock lock(&mutex_);
    if (lost_) return true;
    const absl::Time until = SteadyNow() + wait;
    while (!stopping_ && SteadyNow() < until) wake_.WaitWithTimeout(&mutex_, until - SteadyNow());
  }
}

void LeaderElector::Stop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
  wake_.SignalAll();
}

absl::Status LeaderElector::Release() {
  {
    absl::MutexLock lock(&mutex_);
    if (!leading_) return absl::OkStatus();
    leading_ = false;
  }
  client_.defaults() = Limits();
  Record empty;
  empty.duration_seconds = 1;
  empty.acquire_time = empty.renew_time = FormatMicroTime(WallTime());
  empty.transitions = observed_.has_value() ? observed_->transitions : 0;
  return Annotate(WriteLease(&observed_object_, empty),
                  "release of lease " + options_.lease.ToString());
}

}  // namespace sluice::kube
