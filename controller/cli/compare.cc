#include "cli/compare.h"

#include <absl/container/btree_map.h>
#include <absl/strings/str_replace.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "cli/table.h"
#include "sim/report.h"

namespace sluice::cli {
namespace {

// One number of both.
struct Row {
  std::string metric;
  std::string a;
  std::string b;
  std::string change;
};

enum class Unit { kCount, kTime, kPart, kRatio };

std::string Shown(std::optional<double> value, Unit unit) {
  if (!value) return "-";
  switch (unit) {
    case Unit::kCount:
      return fmt::format("{:.0f}", *value);
    case Unit::kTime:
      return sim::ShortTime(*value);
    case Unit::kPart:
      return fmt::format("{:.1f}%", 100 * *value);
    case Unit::kRatio:
      return fmt::format("{:.3f}", *value);
  }
  return "";
}

class Rows {
 public:
  void Add(const std::string& metric, Unit unit, std::optional<double> a, std::optional<double> b) {
    std::string change = "=";
    if (!a || !b) {
      change = a || b ? "?" : "";
    } else if (std::abs(*a - *b) > 1e-9) {
      change = *a == 0 ? "new" : fmt::format("{:+.1f}%", 100 * (*b - *a) / std::abs(*a));
    }
    rows.push_back({metric, Shown(a, unit), Shown(b, unit), change});
  }
  void AddQueue(const std::string& prefix, const sim::QueueResult& a, const sim::QueueResult& b) {
    const auto number = [](auto value) { return static_cast<double>(value); };
    Add(prefix + "finished", Unit::kCount, number(a.finished), number(b.finished));
    Add(prefix + "waiting at the end", Unit::kCount, number(a.waiting), number(b.waiting));
    Add(prefix + "wait, mean", Unit::kTime, a.wait.mean, b.wait.mean);
    Add(prefix + "wait, p95", Unit::kTime, number(a.wait.p95), number(b.wait.p95));
    Add(prefix + "slowdown", Unit::kRatio, a.slowdown, b.slowdown);
    Add(prefix + "preemptions", Unit::kCount, number(a.preemptions), number(b.preemptions));
    Add(prefix + "time run in vain", Unit::kTime, number(a.lost), number(b.lost));
  }

  std::vector<Row> rows;
};

std::vector<Row> RowsOf(const sim::TraceResult& a, const sim::TraceResult& b) {
  Rows rows;
  rows.AddQueue("", a.total, b.total);
  rows.Add("fairness", Unit::kRatio, a.fairness, b.fairness);
  rows.Add("until the last end", Unit::kTime, static_cast<double>(a.end),
           static_cast<double>(b.end));
  const auto used = [](const sim::CellResult& cell) -> std::optional<double> {
    if (cell.nominal <= 0) return std::nullopt;
    return cell.mean / static_cast<double>(cell.nominal);
  };
  absl::btree_map<FlavorResource, std::pair<std::optional<double>, std::optional<double>>> cells;
  for (const sim::CellResult& cell : a.cells) cells[cell.cell].first = used(cell);
  for (const sim::CellResult& cell : b.cells) cells[cell.cell].second = used(cell);
  for (const auto& [cell, parts] : cells) {
    rows.Add(fmt::format("used of {}/{}", cell.flavor, cell.resource), Unit::kPart, parts.first,
             parts.second);
  }
  absl::btree_map<std::string, std::pair<sim::QueueResult, sim::QueueResult>> queues;
  for (const sim::QueueResult& queue : a.cluster_queues) queues[queue.name].first = queue;
  for (const sim::QueueResult& queue : b.cluster_queues) queues[queue.name].second = queue;
  for (const auto& [name, both] : queues) rows.AddQueue(name + ": ", both.first, both.second);
  return std::move(rows.rows);
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}});
}

}  // namespace

std::string CompareText(const Compared& a, const Compared& b) {
  Table table({"METRIC", a.name, b.name, "CHANGE"});
  for (const Row& row : RowsOf(a.result, b.result)) {
    table.Add({row.metric, row.a, row.b, row.change});
  }
  return table.Text(false);
}

std::string CompareHtml(const Compared& a, const Compared& b) {
  std::string html = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0} and {1}</title>"
      "<style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse}}"
      "td,th{{border-bottom:1px solid #ccc;padding:.3em 1em;text-align:right}}"
      "td:first-child,th:first-child{{text-align:left}}</style></head>\n<body><h1>{0} and "
      "{1}</h1>\n<table><tr><th>metric</th><th>{0}</th><th>{1}</th><th>change</th></tr>\n",
      Escaped(a.name), Escaped(b.name));
  for (const Row& row : RowsOf(a.result, b.result)) {
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        Escaped(row.metric), row.a, row.b, row.change);
  }
  return html + "</table></body></html>\n";
}

}  // namespace sluice::cli
