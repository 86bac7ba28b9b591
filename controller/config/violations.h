// Violations: the errors of one stage, each with its path, each kept once.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace sluice::config {

class Violations {
 public:
  template <typename... Args>
  void Add(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    std::string line =
        fmt::format("{}: {}", path, fmt::format(format, std::forward<Args>(args)...));
    if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) {
      lines_.push_back(std::move(line));
    }
  }
  // Adds what a check found wrong ("" is nothing).
  void AddIf(const std::string& path, const std::string& wrong) {
    if (!wrong.empty()) Add(path, "{}", wrong);
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

}  // namespace sluice::config
