#include "cli/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/crd.h"

namespace sluice::cli {

void Table::Add(std::vector<std::string> cells, Tone tone, size_t toned) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), tone, toned});
}

std::string Table::Text(bool colours) const {
  std::vector<size_t> widths;
  for (const std::string& column : columns_) widths.push_back(column.size());
  for (const Row& row : rows_) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row.cells[i].size());
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells, Tone tone, size_t toned) {
    std::string out;
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool last = i + 1 == cells.size();
      const std::string padding =
          last ? std::string() : std::string(widths[i] - cells[i].size() + 3, ' ');
      out += (colours && i == toned ? Toned(cells[i], tone) : cells[i]) + padding;
    }
    out.erase(out.find_last_not_of(' ') + 1);
    text += out + '\n';
  };
  line(columns_, Tone::kPlain, 0);
  for (const Row& row : rows_) line(row.cells, row.tone, row.toned);
  return text;
}

std::string Toned(const std::string& text, Tone tone) {
  switch (tone) {
    case Tone::kPlain:
      return text;
    case Tone::kGood:
      return "\x1b[32m" + text + "\x1b[0m";
    case Tone::kWarning:
      return "\x1b[33m" + text + "\x1b[0m";
    case Tone::kBad:
      return "\x1b[31m" + text + "\x1b[0m";
  }
  return text;
}

std::string Structured(const api::Json& value, const std::string& format) {
  return format == "yaml" ? api::ToYaml(value) : value.PrettyText() + "\n";
}

}  // namespace sluice::cli
