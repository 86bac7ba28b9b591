#include "sim/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/time.h"

namespace sluice::sim {
namespace {

// Rows of cells, each column as wide as it must be; the first column is aligned left.
class Table {
 public:
  explicit Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }

  std::string Text(size_t left_columns = 1) const {
    std::vector<size_t> widths(rows_[0].size());
    for (const auto& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        if (i > 0) line += "  ";
        line += i < left_columns ? fmt::format("{:<{}}", row[i], widths[i])
                                 : fmt::format("{:>{}}", row[i], widths[i]);
      }
      while (line.back() == ' ') line.pop_back();
      text += line + "\n";
    }
    return text;
  }

 private:
  std::vector<std::vector<std::string>> rows_;
};

std::string Percent(double part) { return fmt::format("{:.1f}%", part * 100); }

std::vector<std::string> QueueRow(const QueueResult& queue) {
  const WaitStats& wait = queue.wait;
  const auto time = [&](double micros) {
    return wait.count == 0 ? std::string("-") : ShortTime(micros);
  };
  return {queue.name,
          std::to_string(queue.submitted),
          std::to_string(queue.finished),
          std::to_string(queue.running),
          std::to_string(queue.waiting),
          std::to_string(queue.preemptions),
          time(wait.mean),
          time(static_cast<double>(wait.p50)),
          time(static_cast<double>(wait.p95)),
          time(static_cast<double>(wait.max)),
          queue.finished == 0 ? "-" : fmt::format("{:.2f}", queue.slowdown),
          queue.used ? Percent(*queue.used) : "-",
          queue.share ? fmt::format("{:.2f}", *queue.share) : "-"};
}

// Quoted where CSV needs it.
std::string Csv(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string SecondsOf(double micros) { return FormatMicros(std::llround(micros)); }

std::string QueuesCsv(const std::vector<QueueResult>& queues) {
  std::string text =
      "queue,workloads,finished,running,waiting,preemptions,lost_seconds,wait_mean,wait_p50,"
      "wait_p95,wait_max,slowdown,resource,used,share\n";
  for (const QueueResult& queue : queues) {
    const WaitStats& wait = queue.wait;
    text += fmt::format("{},{},{},{},{},{},{}", Csv(queue.name), queue.submitted, queue.finished,
                        queue.running, queue.waiting, queue.preemptions, FormatMicros(queue.lost));
    if (wait.count == 0) {
      text += ",,,,";
    } else {
      text += fmt::format(",{},{},{},{}", SecondsOf(wait.mean), FormatMicros(wait.p50),
                          FormatMicros(wait.p95), FormatMicros(wait.max));
    }
    text += queue.finished == 0 ? "," : fmt::format(",{:.4f}", queue.slowdown);
    text += fmt::format(",{}", Csv(queue.share_resource));
    text += queue.used ? fmt::format(",{:.6f}", *queue.used) : ",";
    text += queue.share ? fmt::format(",{:.6f}\n", *queue.share) : ",\n";
  }
  return text;
}

const char* StateName(JobOutcome::State state) {
  switch (state) {
    case JobOutcome::State::kNotSubmitted:
      return "NotSubmitted";
    case JobOutcome::State::kWaiting:
      return "Waiting";
    case JobOutcome::State::kRunning:
      return "Running";
    case JobOutcome::State::kStopping:
      return "Stopping";
    case JobOutcome::State::kFinished:
      return "Finished";
  }
  return "";
}

const char* EventName(TraceEvent::Kind kind) {
  switch (kind) {
    case TraceEvent::Kind::kSubmit:
      return "submit";
    case TraceEvent::Kind::kAdmit:
      return "admit";
    case TraceEvent::Kind::kAsk:
      return "ask";
    case TraceEvent::Kind::kWithdraw:
      return "withdraw";
    case TraceEvent::Kind::kPreempt:
      return "preempt";
    case TraceEvent::Kind::kRequeue:
      return "requeue";
    case TraceEvent::Kind::kFinish:
      return "finish";
  }
  return "";
}

// "default cpu=2,memory=4Gi; spot cpu=1".
std::string UsageText(const FlavorResourceAmounts& usage) {
  std::string text;
  std::string flavor;
  for (const auto& [cell, amount] : usage) {
    if (cell.flavor != flavor) {
      text += (text.empty() ? "" : "; ") + cell.flavor + " ";
      flavor = cell.flavor;
    } else {
      text += ",";
    }
    text += cell.resource + "=" + QuantityOf(cell.resource, amount).ToString();
  }
  return text;
}

}  // namespace

std::string ShortTime(double micros) {
  const double unit = micros >= 100e6 ? 1e6 : micros >= 1e6 ? 1e4 : 1e3;
  return sluice::FormatDuration(
      absl::Microseconds(std::llround(micros / unit) * static_cast<int64_t>(unit)));
}

std::string ShortAmount(const ResourceName& resource, double amount) {
  if (resource == kCpu) amount /= 1000;
  const char* suffix = "";
  if (QuantityOf(resource, 1024).format() == Quantity::Format::kBinarySI) {
    for (const char* unit : {"Ki", "Mi", "Gi", "Ti", "Pi"}) {
      if (amount < 1024) break;
      amount /= 1024;
      suffix = unit;
    }
  }
  std::string text = fmt::format("{:.2f}", amount);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text + suffix;
}

std::string RenderReport(const TraceResult& result) {
  const QueueResult& total = result.total;
  std::string text = fmt::format(
      "{} workloads, {} from {}: {} finished, {} running, {} waiting, {} preemptions\n\n",
      total.submitted, ShortTime(static_cast<double>(result.end)), sluice::FormatTime(result.start),
      total.finished, total.running, total.waiting, total.preemptions);
  Table queues({"CLUSTERQUEUE", "WORKLOADS", "FINISHED", "RUNNING", "WAITING", "PREEMPTED",
                "WAIT MEAN", "P50", "P95", "MAX", "SLOWDOWN", "USED", "SHARE"});
  for (const QueueResult& queue : result.cluster_queues) queues.Add(QueueRow(queue));
  queues.Add(QueueRow(total));
  text += queues.Text() + "\n";
  Table cells({"FLAVOR", "RESOURCE", "NOMINAL", "MEAN", "PEAK", "USED"});
  for (const CellResult& cell : result.cells) {
    const ResourceName& resource = cell.cell.resource;
    cells.Add({cell.cell.flavor, resource, ShortAmount(resource, static_cast<double>(cell.nominal)),
               ShortAmount(resource, cell.mean),
               ShortAmount(resource, static_cast<double>(cell.peak)),
               cell.nominal == 0 ? "-" : Percent(cell.mean / static_cast<double>(cell.nominal))});
  }
  text += cells.Text(2);
  if (result.fairness) {
    text += fmt::format("\nfairness of the shares (Jain): {:.3f}\n", *result.fairness);
  }
  if (total.lost > 0) {
    text += fmt::format("time run in vain: {}\n", ShortTime(static_cast<double>(total.lost)));
  }
  if (!result.waiting.empty()) text += "\nstill waiting:\n";
  for (const WaitingResult& waiting : result.waiting) {
    text +=
        fmt::format("  {} in {}, such as {}: {}\n", waiting.count, waiting.cluster_queue,
                    waiting.example, waiting.reason.empty() ? "not looked at yet" : waiting.reason);
  }
  if (!result.notes.empty()) text += "\nnotes:\n";
  for (const std::string& note : result.notes) text += "  " + note + "\n";
  return text;
}

std::vector<std::pair<std::string, std::string>> RenderCsv(const TraceResult& result) {
  std::string utilization = "time,flavor,resource,used,nominal\n";
  for (const CellResult& cell : result.cells) {
    const ResourceName& resource = cell.cell.resource;
    // Plain numbers: CPUs, bytes, pieces.
    const double unit = resource == kCpu ? 1000 : 1;
    for (size_t i = 0; i < cell.curve.size(); ++i) {
      utilization +=
          fmt::format("{},{},{},{:.3f},{}\n", FormatMicros(static_cast<Micros>(i) * result.step),
                      Csv(cell.cell.flavor), Csv(resource), cell.curve[i] / unit,
                      static_cast<double>(cell.nominal) / unit);
    }
  }
  std::string load = "time,waiting,running\n";
  for (size_t i = 0; i < result.waiting_curve.size(); ++i) {
    load += fmt::format("{},{:.3f},{:.3f}\n", FormatMicros(static_cast<Micros>(i) * result.step),
                        result.waiting_curve[i], result.running_curve[i]);
  }
  return {{"cluster_queues.csv", QueuesCsv(result.cluster_queues)},
          {"local_queues.csv", QueuesCsv(result.local_queues)},
          {"utilization.csv", std::move(utilization)},
          {"load.csv", std::move(load)}};
}

std::string RenderWorkloadsCsv(const TraceCluster& cluster, const Trace& trace,
                               const TraceEngine& engine) {
  std::string text =
      "namespace,name,local_queue,cluster_queue,priority,submit,start,finish,wait,preemptions,"
      "lost,state\n";
  const auto time = [](Micros micros) { return micros < 0 ? std::string() : FormatMicros(micros); };
  for (size_t i = 0; i < trace.jobs.size(); ++i) {
    const TraceJob& job = trace.jobs[i];
    const TraceShape& shape = trace.shapes[job.shape];
    const JobOutcome& outcome = engine.outcomes()[i];
    const ObjectKey& queue = cluster.local_queues()[shape.local_queue].key;
    const Micros wait = outcome.first_start < 0 ? -1 : outcome.first_start - job.submit;
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", queue.ns, Csv(job.name), queue.name,
                    engine.ClusterQueueOf(job.shape), shape.priority, FormatMicros(job.submit),
                    time(outcome.first_start), time(outcome.finish), time(wait),
                    outcome.preemptions, FormatMicros(outcome.lost), StateName(outcome.state));
  }
  return text;
}

TimelineWriter::TimelineWriter(const TraceCluster& cluster, const Trace& trace, Format format,
                               Sink sink)
    : cluster_(cluster), trace_(trace), format_(format), sink_(std::move(sink)) {
  if (format_ == Format::kCsv) sink_("time,event,namespace,name,local_queue,usage,detail\n");
}

void TimelineWriter::OnTraceEvent(const TraceEvent& event) {
  const TraceJob& job = trace_.jobs[event.job];
  const ObjectKey& queue = cluster_.local_queues()[trace_.shapes[job.shape].local_queue].key;
  const bool admit = event.kind == TraceEvent::Kind::kAdmit;
  const std::string usage = admit ? UsageText(*event.usage) : std::string();
  const std::string time = FormatMicros(event.time);
  if (format_ == Format::kCsv) {
    sink_(fmt::format("{},{},{},{},{},{},{}\n", time, EventName(event.kind), queue.ns,
                      Csv(job.name), queue.name, Csv(usage), Csv(event.detail)));
    return;
  }
  std::string line =
      fmt::format("{:>10} {:<7} {}/{}", time, EventName(event.kind), queue.ns, job.name);
  if (event.kind == TraceEvent::Kind::kSubmit) line += " to " + queue.name;
  if (admit) line += " " + usage;
  if (!event.detail.empty()) line += ": " + event.detail;
  sink_(line + "\n");
}

}  // namespace sluice::sim
