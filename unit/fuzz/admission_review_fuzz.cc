// Fuzz target: whatever bytes arrive, every webhook answers with a review.
//
// The first byte selects the path; the rest is the body as the server would receive it.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "webhook/conversion.h"
#include "webhook/review.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const sluice::state::Settings settings;
  if (size == 0) return 0;
  const std::string_view body(reinterpret_cast<const char*>(data + 1), size - 1);
  absl::StatusOr<sluice::api::Json> review = sluice::api::ParseJson(body);
  if (!review.ok()) return 0;
  const auto paths = sluice::webhook::AdmissionPaths();
  const size_t selected = data[0] % (paths.size() + 1);
  sluice::api::Json answer;
  if (selected == paths.size()) {
    answer = sluice::webhook::HandleConversionReview(std::move(*review), {});
  } else {
    sluice::webhook::View view;
    view.settings = &settings;
    answer = sluice::webhook::HandleAdmissionReview(paths[selected], *review, view);
  }
  if (answer.Find("response", "uid") == nullptr) std::abort();
  return 0;
}
