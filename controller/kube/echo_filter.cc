#include "kube/echo_filter.h"

#include <absl/strings/numbers.h>

namespace sluice::kube {

std::optional<uint64_t> VersionInLine(std::string_view line) {
  // Inside a string the quotes would be escaped, so this can only be the name of a field.
  constexpr std::string_view kField = "\"resourceVersion\":\"";
  if (!line.starts_with("{\"type\":\"MODIFIED\",") && !line.starts_with("{\"type\":\"ADDED\",")) {
    return std::nullopt;
  }
  const size_t found = line.find(kField);
  if (found == std::string_view::npos) return std::nullopt;
  const size_t begin = found + kField.size();
  if (line.find(kField, begin) != std::string_view::npos) return std::nullopt;
  const size_t end = line.find('"', begin);
  if (end == std::string_view::npos) return std::nullopt;
  uint64_t version = 0;
  const std::string_view digits = line.substr(begin, end - begin);
  if (!absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &version)) {
    return std::nullopt;
  }
  return version;
}

void EchoFilter::Note(api::Kind kind, std::string_view version) {
  uint64_t number = 0;
  if (!absl::SimpleAtoi(absl::string_view(version.data(), version.size()), &number)) return;
  absl::MutexLock lock(&mutex_);
  if (!known_.insert({kind, number}).second) return;
  oldest_first_.push_back({kind, number});
  if (oldest_first_.size() <= capacity_) return;
  known_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

void EchoFilter::Forget(api::Kind kind) {
  absl::MutexLock lock(&mutex_);
  absl::erase_if(known_, [&](const Key& key) { return key.first == kind; });
}

std::optional<uint64_t> EchoFilter::TakeEcho(api::Kind kind, std::string_view line) {
  const std::optional<uint64_t> version = VersionInLine(line);
  if (!version) return std::nullopt;
  absl::MutexLock lock(&mutex_);
  return known_.erase({kind, *version}) > 0 ? version : std::nullopt;
}

}  // namespace sluice::kube
