#include "sim/swf.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "sim/trace_text.h"

namespace sluice::sim {
namespace {

constexpr size_t kFields = 18;
constexpr std::array<const char*, kFields> kNames = {"job number",
                                                     "submit time",
                                                     "wait time",
                                                     "run time",
                                                     "allocated processors",
                                                     "average CPU time",
                                                     "used memory",
                                                     "requested processors",
                                                     "requested time",
                                                     "requested memory",
                                                     "status",
                                                     "user",
                                                     "group",
                                                     "executable",
                                                     "queue",
                                                     "partition",
                                                     "preceding job",
                                                     "think time"};
// Positions in a line, from 0.
enum Position : size_t {
  kJob = 0,
  kSubmit = 1,
  kRun = 3,
  kAllocated = 4,
  kUsedMemory = 6,
  kProcessors = 7,
  kRequestedTime = 8,
  kRequestedMemory = 9,
  kStatus = 10,
  kUser = 11,
  kGroup = 12,
  kExecutable = 13,
  kQueue = 14,
  kPartition = 15,
};
using Line = std::array<double, kFields>;

Position PositionOf(SwfOptions::Field field) {
  switch (field) {
    case SwfOptions::Field::kUser:
      return kUser;
    case SwfOptions::Field::kGroup:
      return kGroup;
    case SwfOptions::Field::kExecutable:
      return kExecutable;
    case SwfOptions::Field::kQueue:
      return kQueue;
    case SwfOptions::Field::kPartition:
      return kPartition;
  }
  return kQueue;
}

// The largest number that a field may hold; everything real is far below.
constexpr double kMaxNumber = 1e11;

absl::Status ParseLine(std::string_view text, Line& line) {
  size_t count = 0;
  size_t at = text.find_first_not_of(" \t");
  while (at != std::string_view::npos) {
    const size_t end = std::min(text.find_first_of(" \t", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (count == kFields) return InvalidArgument("more than {} fields", kFields);
    double value = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || stop != word.data() + word.size() || !std::isfinite(value)) {
      return InvalidArgument("field {} ({}): \"{}\" is no number", count + 1, kNames[count],
                             std::string(word));
    }
    if (std::abs(value) > kMaxNumber) {
      return InvalidArgument("field {} ({}): {} is too large", count + 1, kNames[count],
                             std::string(word));
    }
    line[count++] = value;
    at = text.find_first_not_of(" \t", end);
  }
  if (count < kFields) return InvalidArgument("{} of {} fields", count, kFields);
  return absl::OkStatus();
}

// The value of "; Name: value", or nothing.
std::optional<std::string_view> HeaderValue(std::string_view line, std::string_view name) {
  const size_t begin = line.find_first_not_of("; \t");
  if (begin == std::string_view::npos || !line.substr(begin).starts_with(name)) return std::nullopt;
  line.remove_prefix(begin + name.size());
  if (!line.starts_with(":")) return std::nullopt;
  const size_t value = line.find_first_not_of(" \t", 1);
  return value == std::string_view::npos ? std::string_view() : line.substr(value);
}

class SwfReader {
 public:
  SwfReader(const SwfOptions& options, TraceBuilder& builder)
      : options_(options), builder_(builder), field_(PositionOf(options.queue_by)) {}

  absl::Status Comment(std::string_view text) {
    const std::optional<std::string_view> start = HeaderValue(text, "UnixStartTime");
    if (!start) return absl::OkStatus();
    int64_t seconds = 0;
    if (!absl::SimpleAtoi(std::string(*start), &seconds) || seconds < 0 ||
        seconds > 100'000'000'000) {
      return builder_.Error(fmt::format("UnixStartTime: \"{}\" is no time", std::string(*start)));
    }
    builder_.set_start(absl::FromUnixSeconds(seconds));
    return absl::OkStatus();
  }

  absl::Status Job(std::string_view text) {
    Line line{};
    const absl::Status parsed = ParseLine(text, line);
    if (!parsed.ok()) return builder_.Error(std::string(parsed.message()));
    if (line[kStatus] >= 2 && line[kStatus] <= 4) {
      ++parts_;
      return absl::OkStatus();
    }
    const double run = line[kRun] >= 0 ? line[kRun] : line[kRequestedTime];
    const double processors = line[kProcessors] > 0 ? line[kProcessors] : line[kAllocated];
    if (run < 0 || processors <= 0) {
      ++(run < 0 ? without_run_ : without_processors_);
      return absl::OkStatus();
    }
    if (line[kSubmit] < 0) {
      return builder_.Error(fmt::format("field 2 (submit time): {} is negative", line[kSubmit]));
    }
    TraceRow row;
    row.name = fmt::format("{:.0f}", line[kJob]);
    row.submit = std::llround(line[kSubmit] * kSecond);
    row.run = std::llround(run * kSecond);
    RETURN_IF_ERROR(ToQueue(line, row));
    RETURN_IF_ERROR(Requests(line, std::llround(processors), row));
    return builder_.Add(std::move(row));
  }

  void Notes(const std::string& path) {
    const auto note = [&](int64_t count, const char* what) {
      if (count > 0) builder_.AddNote(fmt::format("{}: {} {}", path, count, what));
    };
    note(without_run_, "jobs without run time were left out");
    note(without_processors_, "jobs without processors were left out");
    note(parts_, "lines about parts of jobs were left out");
  }

 private:
  absl::Status ToQueue(const Line& line, TraceRow& row) {
    const auto number = static_cast<int64_t>(line[field_]);
    if (const auto found = options_.priorities.find(number); found != options_.priorities.end()) {
      row.priority = found->second;
    }
    if (const auto found = options_.queues.find(number); found != options_.queues.end()) {
      row.local_queue = found->second;
      return absl::OkStatus();
    }
    if (options_.other) {
      row.local_queue = *options_.other;
      return absl::OkStatus();
    }
    const auto& all = builder_.cluster().local_queues();
    if (all.size() == 1 || (options_.spread && !all.empty())) {
      const auto size = static_cast<int64_t>(all.size());
      row.local_queue = all[static_cast<size_t>((number % size + size) % size)].key;
      return absl::OkStatus();
    }
    return builder_.Error(fmt::format("field {} ({}): {} is mapped to no LocalQueue", field_ + 1,
                                      kNames[field_], number));
  }

  absl::Status Requests(const Line& line, int64_t processors, TraceRow& row) {
    if (processors > std::numeric_limits<int32_t>::max()) {
      return builder_.Error(
          fmt::format("field 8 (requested processors): {} is too large", processors));
    }
    row.pods = options_.pod_per_processor ? static_cast<int32_t>(processors) : 1;
    const int64_t each = options_.pod_per_processor ? 1 : processors;
    row.requests[options_.resource] =
        QuantityOf(options_.resource,
                   SaturatingMul(AmountOf(options_.resource, options_.per_processor), each));
    if (!options_.memory) return absl::OkStatus();
    // Kilobytes a processor.
    const double memory = line[kRequestedMemory] > 0 ? line[kRequestedMemory] : line[kUsedMemory];
    if (memory > 0) {
      row.requests[kMemory] = QuantityOf(kMemory, SaturatingMul(std::llround(memory * 1024), each));
    }
    return absl::OkStatus();
  }

  const SwfOptions& options_;
  TraceBuilder& builder_;
  Position field_;
  int64_t without_run_ = 0;
  int64_t without_processors_ = 0;
  int64_t parts_ = 0;
};

}  // namespace

absl::StatusOr<SwfOptions::Field> ParseSwfField(const std::string& text) {
  if (text == "user") return SwfOptions::Field::kUser;
  if (text == "group") return SwfOptions::Field::kGroup;
  if (text == "executable") return SwfOptions::Field::kExecutable;
  if (text == "queue") return SwfOptions::Field::kQueue;
  if (text == "partition") return SwfOptions::Field::kPartition;
  return InvalidArgument("\"{}\" is none of queue, user, group, executable, partition", text);
}

absl::Status ReadSwfTrace(const SourceFile& file, const SwfOptions& options,
                          TraceBuilder& builder) {
  builder.SetSource(file.path);
  SwfReader reader(options, builder);
  RETURN_IF_ERROR(ForEachLine(file.text, [&](std::string_view line, uint32_t number) {
    builder.SetLine(number);
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == std::string_view::npos) return absl::OkStatus();
    return builder.Broken(line[begin] == ';' ? reader.Comment(line) : reader.Job(line));
  }));
  reader.Notes(file.path);
  return absl::OkStatus();
}

}  // namespace sluice::sim
