// The HTML page of a trace simulation.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/time.h"
#include "sim/report.h"

namespace sluice::sim {
namespace {

constexpr int kWidth = 900;
constexpr int kHeight = 220;
constexpr int kLeft = 70;
constexpr int kBottom = 26;
constexpr int kTop = 10;
constexpr const char* kColors[] = {"#2f6fde", "#d9541e", "#2a9d57", "#8d4bc4",
                                   "#b8860b", "#17909c", "#c2317f", "#6b7280"};
constexpr size_t kColorCount = std::size(kColors);
// Charts with a row per queue show so many of them.
constexpr size_t kMostRows = 120;

constexpr char kStyle[] = R"(
:root{--ink:#1d2330;--soft:#687082;--line:#d8dce4;--back:#fff;--bar:#2f6fde}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#9aa3b5;--line:#363d4b;--back:#171b23;--bar:#5b91f0}}
body{font:15px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--back);margin:2em auto;max-width:960px;padding:0 1em}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:13px}
.scroll{overflow-x:auto}
th,td{padding:3px 9px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th:first-child,td:first-child,td.text,th.text{text-align:left}
tr.total td{font-weight:600}
svg{display:block;max-width:100%;height:auto;font:11px system-ui,sans-serif}
svg text{fill:var(--soft)}svg .axis{stroke:var(--line)}svg .one{stroke:var(--ink);stroke-dasharray:4 3}
.legend span{margin-right:1.4em}.legend i{display:inline-block;width:11px;height:11px;margin-right:5px}
.note{color:var(--soft)}
)";

std::string Escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

// 1, 2 or 5 times a power of ten, not below the value.
double RoundUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (value <= factor * power * 1.0000001) return factor * power;
  }
  return 10 * power;
}

struct Line {
  std::string name;
  const std::vector<double>* values = nullptr;
  double scale = 1;  // values are multiplied by it
};

std::string Axis(Micros end, double top, const char* unit) {
  std::string svg;
  const int height = kHeight - kTop - kBottom;
  for (int i = 0; i <= 4; ++i) {
    const double y = kTop + height - height * i / 4.0;
    svg += fmt::format("<line class=\"axis\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>",
                       kLeft, y, kWidth, y);
    svg += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}{}</text>", kLeft - 6,
                       y + 4, top * i / 4, unit);
  }
  for (int i = 0; i <= 4; ++i) {
    const char* anchor = i == 0 ? "start" : i == 4 ? "end" : "middle";
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"{}\">{}</text>",
                       kLeft + (kWidth - kLeft) * i / 4.0, kHeight - 8, anchor,
                       ShortTime(static_cast<double>(end) * i / 4));
  }
  return svg;
}

// Lines over time; every value holds for an interval of `step`.
std::string LineChart(const std::vector<Line>& lines, Micros step, Micros end, double top,
                      const char* unit) {
  const int height = kHeight - kTop - kBottom;
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">", kWidth, kHeight);
  svg += Axis(end, top, unit);
  for (size_t i = 0; i < lines.size(); ++i) {
    svg += fmt::format("<path fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" d=\"",
                       kColors[i % kColorCount]);
    for (size_t j = 0; j < lines[i].values->size(); ++j) {
      const auto x_at = [&](size_t index) {
        const double part = std::min(
            1.0, static_cast<double>(index) * static_cast<double>(step) / static_cast<double>(end));
        return kLeft + (kWidth - kLeft) * part;
      };
      const double part = std::min(1.0, (*lines[i].values)[j] * lines[i].scale / top);
      svg += fmt::format("{}{:.1f} {:.1f}H{:.1f}", j == 0 ? "M" : "L", x_at(j),
                         kTop + height * (1 - part), x_at(j + 1));
    }
    svg += fmt::format("\"><title>{}</title></path>", Escape(lines[i].name));
  }
  svg += "</svg>\n<p class=\"legend\">";
  for (size_t i = 0; i < lines.size(); ++i) {
    svg += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", kColors[i % kColorCount],
                       Escape(lines[i].name));
  }
  return svg + "</p>\n";
}

std::string Utilization(const TraceResult& result) {
  std::vector<Line> lines;
  double top = 100;
  for (const CellResult& cell : result.cells) {
    if (cell.nominal <= 0) continue;
    const double scale = 100 / static_cast<double>(cell.nominal);
    lines.push_back({cell.cell.flavor + " " + cell.cell.resource, &cell.curve, scale});
    for (const double value : cell.curve) top = std::max(top, value * scale);
  }
  if (top > 100.000001) top = RoundUp(top);
  return "<h2>Quota in use</h2>\n" + LineChart(lines, result.step, result.end, top, "%");
}

std::string Load(const TraceResult& result) {
  double top = 0;
  for (const double value : result.waiting_curve) top = std::max(top, value);
  for (const double value : result.running_curve) top = std::max(top, value);
  return "<h2>Workloads</h2>\n" +
         LineChart({{"waiting", &result.waiting_curve}, {"running", &result.running_curve}},
                   result.step, result.end, RoundUp(top), "");
}

// The busiest ones, in the order of their names.
std::vector<const QueueResult*> Chosen(const TraceResult& result, bool with_share) {
  std::vector<const QueueResult*> chosen;
  for (const QueueResult& queue : result.cluster_queues) {
    if (with_share ? queue.share.has_value() : queue.wait.count > 0) chosen.push_back(&queue);
  }
  std::stable_sort(chosen.begin(), chosen.end(), [](const QueueResult* a, const QueueResult* b) {
    return a->submitted > b->submitted;
  });
  if (chosen.size() > kMostRows) chosen.resize(kMostRows);
  std::stable_sort(chosen.begin(), chosen.end(),
                   [](const QueueResult* a, const QueueResult* b) { return a->name < b->name; });
  return chosen;
}

constexpr int kRow = 15;
constexpr int kNameWidth = 170;

std::string RowName(size_t row, const std::string& name) {
  const std::string shown = name.size() <= 26 ? name : name.substr(0, 24) + "..";
  return fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>", kNameWidth - 6,
                     row * kRow + 12, Escape(shown));
}

std::string BeginRows(size_t rows) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">", kWidth, rows * kRow + 6);
}

std::string Waits(const TraceResult& result) {
  const std::vector<const QueueResult*> queues = Chosen(result, false);
  double top = 1;
  for (const QueueResult* queue : queues) {
    top = std::max(top, static_cast<double>(queue->wait.p95));
  }
  std::string svg =
      "<h2>Waits</h2>\n<p class=\"note\">From arrival to start: median (dark), 95 of 100 "
      "(light).</p>\n" +
      BeginRows(queues.size());
  const int width = kWidth - kNameWidth - 90;
  for (size_t i = 0; i < queues.size(); ++i) {
    const WaitStats& wait = queues[i]->wait;
    svg += RowName(i, queues[i]->name);
    const auto bar = [&](Micros value, const char* opacity) {
      svg += fmt::format(
          "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"11\" fill=\"var(--bar)\" "
          "opacity=\"{}\"/>",
          kNameWidth, i * kRow + 3, width * static_cast<double>(value) / top, opacity);
    };
    bar(wait.p95, ".4");
    bar(wait.p50, "1");
    svg += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{} / {}</text>",
                       kNameWidth + width * static_cast<double>(wait.p95) / top + 5, i * kRow + 12,
                       ShortTime(static_cast<double>(wait.p50)),
                       ShortTime(static_cast<double>(wait.p95)));
  }
  return svg + "</svg>\n";
}

std::string Shares(const TraceResult& result) {
  const std::vector<const QueueResult*> queues = Chosen(result, true);
  double top = 1.2;
  for (const QueueResult* queue : queues) top = std::max(top, *queue->share);
  std::string svg =
      "<h2>Fairness</h2>\n<p class=\"note\">What each queue received of what it was entitled to "
      "(its quota, as far as its workloads asked for it). Beyond the dashed line it borrowed.";
  if (result.fairness) svg += fmt::format(" Jain's index: {:.3f}.", *result.fairness);
  svg += "</p>\n" + BeginRows(queues.size());
  const int width = kWidth - kNameWidth - 50;
  for (size_t i = 0; i < queues.size(); ++i) {
    const double share = *queues[i]->share;
    svg += RowName(i, queues[i]->name);
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"11\" fill=\"{}\"/>"
        "<text x=\"{:.1f}\" y=\"{}\">{:.2f}</text>",
        kNameWidth, i * kRow + 3, width * share / top, share < 0.95 ? kColors[1] : kColors[2],
        kNameWidth + width * share / top + 5, i * kRow + 12, share);
  }
  const double one = kNameWidth + width / top;
  svg += fmt::format("<line class=\"one\" x1=\"{:.1f}\" y1=\"0\" x2=\"{:.1f}\" y2=\"{}\"/></svg>\n",
                     one, one, queues.size() * kRow + 6);
  return svg;
}

// The usage of every queue over time: the darker, the more of its quota; red above it.
std::string HeatMap(const TraceResult& result) {
  const std::vector<const QueueResult*> queues = Chosen(result, true);
  std::string svg =
      "<h2>Usage of each queue over time</h2>\n<p class=\"note\">Blue: part of its quota; "
      "red: it borrows.</p>\n" +
      BeginRows(queues.size());
  for (size_t i = 0; i < queues.size(); ++i) {
    svg += RowName(i, queues[i]->name);
    const std::vector<double>& curve = queues[i]->curve;
    // Equal neighbours are one rectangle. Level 0 is empty, 1 to 10 tenths, 11 to 14 borrowed.
    const auto level = [&](size_t at) {
      const double value = curve[at];
      if (value <= 1.000001) return static_cast<int>(std::ceil(value * 10 - 0.000001));
      return 10 + std::min(4, static_cast<int>(std::ceil((value - 1) * 4)));
    };
    for (size_t begin = 0; begin < curve.size();) {
      size_t end = begin + 1;
      while (end < curve.size() && level(end) == level(begin)) ++end;
      const int shade = level(begin);
      if (shade > 0) {
        const double unit =
            static_cast<double>(kWidth - kNameWidth) / static_cast<double>(curve.size());
        svg += fmt::format(
            "<rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"13\" fill=\"{}\" "
            "opacity=\"{:.2f}\"/>",
            kNameWidth + unit * static_cast<double>(begin), i * kRow + 2,
            unit * static_cast<double>(end - begin), shade > 10 ? kColors[1] : kColors[0],
            shade > 10 ? 0.4 + 0.15 * (shade - 10) : 0.1 * shade);
      }
      begin = end;
    }
  }
  return svg + "</svg>\n";
}

std::string QueueTable(const TraceResult& result) {
  std::string html =
      "<h2>ClusterQueues</h2>\n<div class=\"scroll\"><table><tr><th>queue</th><th>workloads</th>"
      "<th>finished</th><th>running</th><th>waiting</th><th>preempted</th><th>wait mean</th>"
      "<th>p50</th><th>p95</th><th>max</th><th>slowdown</th><th>used</th><th>share</th></tr>\n";
  const auto row = [&](const QueueResult& queue, const char* row_class) {
    const WaitStats& wait = queue.wait;
    html += fmt::format("<tr{}><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
                        row_class, Escape(queue.name), queue.submitted, queue.finished,
                        queue.running, queue.waiting, queue.preemptions);
    for (const double time : {wait.mean, static_cast<double>(wait.p50),
                              static_cast<double>(wait.p95), static_cast<double>(wait.max)}) {
      html += fmt::format("<td>{}</td>", wait.count == 0 ? "-" : ShortTime(time));
    }
    html += queue.finished == 0 ? "<td>-</td>" : fmt::format("<td>{:.2f}</td>", queue.slowdown);
    html += queue.used ? fmt::format("<td>{:.1f}%</td>", *queue.used * 100) : "<td>-</td>";
    html += queue.share ? fmt::format("<td>{:.2f}</td></tr>\n", *queue.share) : "<td>-</td></tr>\n";
  };
  for (const QueueResult& queue : result.cluster_queues) row(queue, "");
  row(result.total, " class=\"total\"");
  return html + "</table></div>\n";
}

std::string Rest(const TraceResult& result) {
  std::string html;
  if (!result.waiting.empty()) {
    html +=
        "<h2>Still waiting</h2>\n<div class=\"scroll\"><table><tr><th>queue</th><th>workloads</th>"
        "<th class=\"text\">such as</th><th class=\"text\">because</th></tr>\n";
    for (const WaitingResult& waiting : result.waiting) {
      html += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"text\">{}</td><td class=\"text\">{}</td></tr>\n",
          Escape(waiting.cluster_queue), waiting.count, Escape(waiting.example),
          Escape(waiting.reason));
    }
    html += "</table></div>\n";
  }
  if (!result.notes.empty()) html += "<h2>Notes</h2>\n<ul>\n";
  for (const std::string& note : result.notes) html += "<li>" + Escape(note) + "</li>\n";
  if (!result.notes.empty()) html += "</ul>\n";
  return html;
}

}  // namespace

std::string RenderHtml(const TraceResult& result, const std::string& title) {
  const QueueResult& total = result.total;
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width\">\n<title>{0}</title>\n<style>{1}</style></head><body>\n"
      "<h1>{0}</h1>\n<p>{2} workloads, {3} from {4}: {5} finished, {6} running, {7} waiting, {8} "
      "preemptions.</p>\n",
      Escape(title), kStyle, total.submitted, ShortTime(static_cast<double>(result.end)),
      sluice::FormatTime(result.start), total.finished, total.running, total.waiting,
      total.preemptions);
  if (result.end > 0) {
    html += Utilization(result) + Load(result) + Waits(result) + Shares(result) + HeatMap(result);
  }
  html += QueueTable(result) + Rest(result);
  return html + "</body></html>\n";
}

}  // namespace sluice::sim
