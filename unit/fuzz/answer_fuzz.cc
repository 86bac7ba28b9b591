// Fuzz target: whatever an API server sends, an answer is a document of allowed depth or an error,
// and what a strict reading takes is read the same.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "api/parse_object.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<sluice::api::Json> strict = sluice::api::ParseObject(text);
  const absl::StatusOr<sluice::api::Answer> answer = sluice::api::ParseAnswer(text);
  if (strict.ok() && !answer.ok()) std::abort();
  if (!answer.ok()) return 0;
  const std::string read = answer->object.Text();
  if (strict.ok() ? !answer->damages.empty() || strict->Text() != read
                  : !sluice::api::ParseJson(read).ok()) {
    std::abort();
  }
  return 0;
}
