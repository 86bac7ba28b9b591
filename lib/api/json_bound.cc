#include "api/json_bound.h"

namespace sluice::api {

// Every value is the first of the text, of an array or of an object, or stands behind a comma.
size_t MostJsonValues(std::string_view text) {
  size_t values = 1;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == ',' || c == '[' || c == '{') {
      ++values;
    }
  }
  return values;
}

}  // namespace sluice::api
