// LineCutter: makes lines out of the bytes of a stream, whose pieces may end anywhere.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sluice::kube {

// Thread-compatible. Memory: at most one line of max_line bytes.
class LineCutter {
 public:
  using Line = std::function<void(std::string_view)>;
  using Oversized = std::function<void(size_t bytes)>;

  LineCutter(size_t max_line, Line on_line, Oversized on_oversized);

  // Hands over each line that is complete now, without "\n" or "\r\n"; empty lines are skipped. A
  // line longer than max_line is dropped, and reported once as soon as that is seen, with the bytes
  // of it that have come: its end may be far away.
  void Feed(std::string_view bytes);
  // Bytes of the line that is not complete yet.
  size_t pending() const { return rest_.size() + dropped_; }

 private:
  void Finish(std::string_view line);

  const size_t max_line_;
  const Line on_line_;
  const Oversized on_oversized_;
  std::string rest_;    // beginning of the current line
  size_t dropped_ = 0;  // bytes of the current line that were thrown away
};

}  // namespace sluice::kube
