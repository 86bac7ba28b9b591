// Tables and structured output for the commands.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "api/json.h"

namespace sluice::cli {

enum class Tone { kPlain, kGood, kWarning, kBad };

// As kubectl prints them: a header, columns as wide as they need, three spaces between them.
class Table {
 public:
  explicit Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}
  // The tone colours one cell, if any.
  void Add(std::vector<std::string> cells, Tone tone = Tone::kPlain, size_t toned = 0);
  bool empty() const { return rows_.empty(); }
  std::string Text(bool colours) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    Tone tone;
    size_t toned;
  };
  std::vector<std::string> columns_;
  std::vector<Row> rows_;
};

// The text in that colour of a terminal; as it is for kPlain.
std::string Toned(const std::string& text, Tone tone);

// "json" or "yaml" of the value.
std::string Structured(const api::Json& value, const std::string& format);

}  // namespace sluice::cli
