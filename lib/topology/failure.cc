#include "topology/failure.h"

#include <absl/strings/str_join.h>
#include <fmt/format.h>

namespace sluice::topology {
namespace {

std::string NoRoom(const Failure& failure) {
  const std::string start = fmt::format("topology \"{}\" ", failure.topology);
  if (failure.layers.size() > 1) {
    std::string text = start + "doesn't allow to fit";
    for (const LayerFit& layer : failure.layers) {
      text += fmt::format("; {}/{} slice(s) fit on level {}", layer.fit, layer.needed, layer.level);
    }
    return text;
  }
  const char* unit = failure.slices ? "slice(s)" : "pod(s)";
  if (failure.fit == 0) {
    return fmt::format("{}doesn't allow to fit any of {} {}", start, failure.needed, unit);
  }
  return fmt::format("{}allows to fit only {} out of {} {}", start, failure.fit, failure.needed,
                     unit);
}

}  // namespace

std::string Render(const Failure& failure) {
  switch (failure.kind) {
    case Failure::Kind::kInvalid:
    case Failure::Kind::kUnknown:
      return failure.text;
    case Failure::Kind::kNoDomains:
      return "no topology domains at level: " + failure.text;
    case Failure::Kind::kStale:
      return fmt::format("the existing assignment is invalid: domain \"{}\" is stale",
                         failure.text);
    case Failure::Kind::kNoReplacement:
      return fmt::format("there is no replacement for node \"{}\"", failure.text);
    case Failure::Kind::kNoRoom:
      break;
  }
  std::string text = NoRoom(failure);
  if (failure.excluded.empty()) return text;
  std::vector<std::string> reasons;
  for (const auto& [reason, leaves] : failure.excluded) {
    reasons.push_back(fmt::format("{}: {}", reason, leaves));
  }
  return text + fmt::format(". Total nodes: {}; excluded: {}", failure.leaves,
                            absl::StrJoin(reasons, ", "));
}

}  // namespace sluice::topology
