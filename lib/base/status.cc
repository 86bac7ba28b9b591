#include "base/status.h"

namespace sluice {

absl::Status Annotate(const absl::Status& status, const std::string& prefix) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(),
                         fmt::format("{}: {}", prefix, std::string(status.message())));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

}  // namespace sluice
