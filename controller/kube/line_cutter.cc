#include "kube/line_cutter.h"

#include <utility>

namespace sluice::kube {

LineCutter::LineCutter(size_t max_line, Line on_line, Oversized on_oversized)
    : max_line_(max_line), on_line_(std::move(on_line)), on_oversized_(std::move(on_oversized)) {}

void LineCutter::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t end = bytes.find('\n');
    const bool complete = end != std::string_view::npos;
    const std::string_view piece = complete ? bytes.substr(0, end) : bytes;
    if (complete && rest_.empty() && dropped_ == 0 && piece.size() <= max_line_) {
      Finish(piece);  // the common case: the line is handed over where it lies
    } else {
      if (dropped_ > 0 || rest_.size() + piece.size() > max_line_) {
        const bool first = dropped_ == 0;
        dropped_ += rest_.size() + piece.size();
        rest_.clear();
        rest_.shrink_to_fit();
        if (first && on_oversized_) on_oversized_(dropped_);
      } else {
        rest_.append(piece);
      }
      if (complete) {
        if (dropped_ > 0) {
          dropped_ = 0;
        } else {
          const std::string line = std::exchange(rest_, {});
          Finish(line);
        }
      }
    }
    if (!complete) return;
    bytes.remove_prefix(end + 1);
  }
}

void LineCutter::Finish(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (!line.empty()) on_line_(line);
}

}  // namespace sluice::kube
