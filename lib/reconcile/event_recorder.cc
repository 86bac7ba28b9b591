#include "reconcile/event_recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/meta_types.h"
#include "base/time.h"

namespace sluice::reconcile {
namespace {

using api::Json;

constexpr absl::Duration kSeriesGap = absl::Minutes(6);
constexpr absl::Duration kSeriesRefresh = absl::Minutes(30);

std::string SeriesKey(const Note& note) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", note.uid, note.source, note.warning, note.reason,
                     note.message);
}

}  // namespace

std::optional<state::Action> EventRecorder::Record(const Note& note, absl::Time now) {
  Forget(now);
  const std::string key = SeriesKey(note);
  const auto found = series_.find(key);
  if (found != series_.end() && now - found->second.last <= kSeriesGap) {
    Series& series = found->second;
    ++series.count;
    series.last = now;
    if (series.count > 2 && now - series.last_write < kSeriesRefresh) return std::nullopt;
    series.last_write = now;
    Json body = Json::MakeObject();
    body["series"] = Json::MakeObject({{"count", static_cast<int64_t>(series.count)},
                                       {"lastObservedTime", FormatMicroTime(now)}});
    state::Action action =
        MergePatchAction(api::Kind::kEvent, series.name, "", std::move(body), "");
    action.best_effort = true;
    return action;
  }
  if (!TakeToken(note.uid, now)) {
    ++dropped_;
    return std::nullopt;
  }
  // The name must be unique in the namespace: nanoseconds and a counter, in hex.
  ++sequence_;
  const auto nanos = static_cast<uint64_t>(absl::ToUnixNanos(now)) + sequence_ % 1000;
  const ObjectKey name{note.key.ns.empty() ? "default" : note.key.ns,
                       fmt::format("{}.{:x}", note.key.name.substr(0, 230), nanos)};
  series_[key] = Series{name, 1, now, now};
  return Create(note, name, now);
}

bool EventRecorder::TakeToken(const std::string& uid, absl::Time now) {
  if (!started_) {
    started_ = true;
    total_ = {static_cast<double>(options_.total_burst), now};
  }
  // A clock that was set back takes nothing away.
  const auto since = [now](absl::Time filled) {
    return std::max(absl::ZeroDuration(), now - filled);
  };
  total_.tokens = std::min(
      static_cast<double>(options_.total_burst),
      total_.tokens + absl::ToDoubleSeconds(since(total_.filled)) * options_.total_per_second);
  total_.filled = now;
  const auto [found, fresh] =
      buckets_.try_emplace(uid, Bucket{static_cast<double>(options_.object_burst), now});
  Bucket& bucket = found->second;
  bucket.tokens =
      std::min(static_cast<double>(options_.object_burst),
               bucket.tokens + absl::FDivDuration(since(bucket.filled), options_.object_refill));
  bucket.filled = now;
  if (total_.tokens < 1 || bucket.tokens < 1) return false;
  total_.tokens -= 1;
  bucket.tokens -= 1;
  return true;
}

void EventRecorder::Forget(absl::Time now) {
  // Without this the maps would grow with every object that ever had an event.
  if (now < next_sweep_) return;
  next_sweep_ = now + absl::Minutes(1);
  for (auto it = series_.begin(); it != series_.end();) {
    it = now - it->second.last > kSeriesGap ? series_.erase(it) : std::next(it);
  }
  const absl::Duration full = options_.object_refill * options_.object_burst;
  for (auto it = buckets_.begin(); it != buckets_.end();) {
    const double missing = options_.object_burst - it->second.tokens;
    const bool refilled =
        now - it->second.filled > std::min(full, missing * options_.object_refill);
    it = refilled ? buckets_.erase(it) : std::next(it);
  }
}

state::Action EventRecorder::Create(const Note& note, const ObjectKey& name, absl::Time now) const {
  Json regarding = Json::MakeObject({{"apiVersion", api::ApiVersionOf(note.kind)},
                                     {"kind", api::InfoOf(note.kind).name},
                                     {"name", note.key.name}});
  if (!note.key.ns.empty()) regarding.Set("namespace", note.key.ns);
  if (!note.uid.empty()) regarding.Set("uid", note.uid);
  Json body = Json::MakeObject(
      {{"apiVersion", api::ApiVersionOf(api::Kind::kEvent)},
       {"kind", "Event"},
       {"metadata", Json::MakeObject({{"name", name.name}, {"namespace", name.ns}})},
       {"eventTime", FormatMicroTime(now)},
       {"reportingController", note.source},
       {"reportingInstance", options_.instance.substr(0, 128)},
       {"action", note.reason},
       {"reason", note.reason},
       {"type", note.warning ? "Warning" : "Normal"},
       {"note", api::TruncateMessage(note.message, api::kMaxEventMessage)},
       {"regarding", std::move(regarding)}});
  state::Action action = CreateAction(api::Kind::kEvent, name, std::move(body));
  action.best_effort = true;
  return action;
}

}  // namespace sluice::reconcile
