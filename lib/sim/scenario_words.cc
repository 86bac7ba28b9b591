#include "sim/scenario_words.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace sluice::sim {

using api::Json;
using Word = ScenarioWord;

std::string After(const std::string& text, const std::string& prefix) {
  return text.starts_with(prefix) ? text.substr(prefix.size()) : "";
}

absl::StatusOr<int64_t> Integer(const Word& word) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(word.value, &value)) {
    return InvalidArgument("{}: \"{}\" is no integer", word.key, word.value);
  }
  return value;
}

absl::StatusOr<std::string> Seconds(const std::string& text) {
  std::string result;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    if (!result.empty()) result += ",";
    if (part == "never") {
      result += part;
      continue;
    }
    ASSIGN_OR_RETURN(const absl::Duration duration, ParseDuration(part));
    result += fmt::format("{}", absl::ToDoubleSeconds(duration));
  }
  return result;
}

Json TaintOf(const std::string& key, const std::string& value, bool toleration) {
  const size_t colon = value.rfind(':');
  Json taint = Json::MakeObject({{"key", key}});
  const std::string text = value.substr(0, colon);
  if (toleration) taint.Set("operator", text.empty() ? "Exists" : "Equal");
  if (!text.empty()) taint.Set("value", text);
  if (colon != std::string::npos) taint.Set("effect", value.substr(colon + 1));
  return taint;
}

absl::Status Unknown(const Word& word) {
  return InvalidArgument("the word \"{}\" is not known here", word.key);
}

bool LooksLikeResource(const std::string& key) {
  // "annotation:example.com/x" and the like are no resources.
  const bool qualified = key.find('/') != std::string::npos && key.find(':') == std::string::npos;
  return key == "cpu" || key == "memory" || key == "pods" || qualified;
}

}  // namespace sluice::sim
