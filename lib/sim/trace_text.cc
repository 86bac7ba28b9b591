#include "sim/trace_text.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>
#include <vector>

#include "api/json.h"
#include "base/status.h"

namespace sluice::sim {
namespace {

using api::Json;

bool IsResource(std::string_view name) {
  return name == kCpu || name == kMemory || name == kEphemeralStorage ||
         name.starts_with("hugepages-") || name.find('/') != std::string_view::npos;
}

absl::StatusOr<int32_t> ParseInt(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("\"{}\" is no integer of 32 bits", std::string(text));
  }
  return value;
}

// Gathers the fields of one workload and checks them.
class RowReader {
 public:
  explicit RowReader(const TraceBuilder& builder) : builder_(builder) {}

  // True for the name of a field (not of a resource or node label).
  static bool IsField(std::string_view name) {
    for (const char* field :
         {"submit", "run", "queue", "namespace", "name", "pods", "priority", "priority_class"}) {
      if (name == field) return true;
    }
    return false;
  }

  absl::Status Field(std::string_view name, std::string_view value) {
    if (value.empty()) return absl::OkStatus();
    if (name == "submit") {
      ASSIGN_OR_RETURN(row_.submit, ParseMicros(value));
      has_submit_ = true;
    } else if (name == "run") {
      ASSIGN_OR_RETURN(row_.run, ParseMicros(value));
    } else if (name == "queue") {
      queue_ = value;
    } else if (name == "namespace") {
      namespace_ = value;
    } else if (name == "name") {
      row_.name = value;
    } else if (name == "pods") {
      ASSIGN_OR_RETURN(row_.pods, ParseInt(value));
    } else if (name == "priority") {
      ASSIGN_OR_RETURN(row_.priority, ParseInt(value));
      has_priority_ = true;
    } else {
      return PriorityClass(std::string(value));
    }
    return absl::OkStatus();
  }

  absl::Status Request(std::string_view resource, std::string_view value) {
    if (value.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(const Quantity quantity, Quantity::Parse(std::string(value)));
    if (quantity.Sign() < 0) return InvalidArgument("\"{}\" is negative", std::string(value));
    row_.requests[std::string(resource)] = quantity;
    return absl::OkStatus();
  }

  void NodeLabel(std::string_view key, std::string_view value) {
    if (!value.empty()) row_.node_selector[std::string(key)] = std::string(value);
  }

  absl::Status Annotation(std::string_view name, std::string_view value) {
    if (value.empty()) return absl::OkStatus();
    const std::string key(name);
    std::string text(value);
    if (const auto problem = TraceAnnotationProblem(key, text)) {
      return InvalidArgument("\"{}\" {}", text, *problem);
    }
    row_.annotations[key] = std::move(text);
    return absl::OkStatus();
  }

  absl::StatusOr<TraceRow> Finish() {
    if (!has_submit_) return InvalidArgument("submit: missing");
    if (queue_.empty()) return InvalidArgument("queue: missing");
    const size_t slash = queue_.find('/');
    if (slash == std::string_view::npos && namespace_.empty()) {
      return InvalidArgument("queue: \"{}\" has no namespace (write NAMESPACE/NAME)",
                             std::string(queue_));
    }
    if (slash != std::string_view::npos && !namespace_.empty()) {
      return InvalidArgument("namespace: the queue \"{}\" names one already", std::string(queue_));
    }
    row_.local_queue.ns = namespace_.empty() ? queue_.substr(0, slash) : namespace_;
    row_.local_queue.name = namespace_.empty() ? queue_.substr(slash + 1) : queue_;
    return std::move(row_);
  }

 private:
  absl::Status PriorityClass(const std::string& name) {
    if (has_priority_) return InvalidArgument("a workload has a priority or a class, not both");
    const auto found = builder_.cluster().world().workload_priority_classes().Find({"", name});
    if (found == nullptr) return InvalidArgument("WorkloadPriorityClass {} does not exist", name);
    row_.priority = found->value;
    return absl::OkStatus();
  }

  const TraceBuilder& builder_;
  TraceRow row_;
  std::string_view queue_;
  std::string_view namespace_;
  bool has_submit_ = false;
  bool has_priority_ = false;
};

absl::Status InField(const absl::Status& status, std::string_view field) {
  return status.ok() ? status : Annotate(status, std::string(field));
}

// Cuts a line of CSV at commas; quotes may surround a value and are doubled inside.
absl::Status SplitCsv(std::string_view line, std::vector<std::string>& cells) {
  cells.clear();
  size_t at = 0;
  while (true) {
    std::string cell;
    if (at < line.size() && line[at] == '"') {
      for (++at;; ++at) {
        if (at >= line.size()) return InvalidArgument("a quote is not closed");
        if (line[at] != '"') {
          cell += line[at];
        } else if (at + 1 < line.size() && line[at + 1] == '"') {
          cell += line[at++];
        } else {
          break;
        }
      }
      ++at;
      if (at < line.size() && line[at] != ',') {
        return InvalidArgument("text after a closing quote");
      }
    } else {
      const size_t end = std::min(line.find(',', at), line.size());
      cell = line.substr(at, end - at);
      while (!cell.empty() && cell.back() == ' ') cell.pop_back();
      cell.erase(0, std::min(cell.find_first_not_of(' '), cell.size()));
      at = end;
    }
    cells.push_back(std::move(cell));
    if (at >= line.size()) return absl::OkStatus();
    ++at;
  }
}

constexpr std::string_view kNodePrefix = "node:";
constexpr std::string_view kAnnotationPrefix = "annotation:";

absl::Status CheckHeader(const std::vector<std::string>& header) {
  for (size_t i = 0; i < header.size(); ++i) {
    const std::string& name = header[i];
    const bool prefixed = name.starts_with(kNodePrefix) || name.starts_with(kAnnotationPrefix);
    if (!RowReader::IsField(name) && !prefixed && !IsResource(name)) {
      return InvalidArgument("\"{}\" is neither a column nor a resource", name);
    }
    for (size_t j = 0; j < i; ++j) {
      if (header[j] == name) return InvalidArgument("the column \"{}\" is there twice", name);
    }
  }
  for (const char* required : {"submit", "run", "queue"}) {
    if (std::find(header.begin(), header.end(), required) == header.end()) {
      return InvalidArgument("the header has no column \"{}\"", required);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<TraceRow> ReadCells(const std::vector<std::string>& header,
                                   const std::vector<std::string>& cells,
                                   const TraceBuilder& builder) {
  if (cells.size() != header.size()) {
    return InvalidArgument("{} values for {} columns", cells.size(), header.size());
  }
  RowReader reader(builder);
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string& name = header[i];
    if (RowReader::IsField(name)) {
      RETURN_IF_ERROR(InField(reader.Field(name, cells[i]), name));
    } else if (name.starts_with(kNodePrefix)) {
      reader.NodeLabel(std::string_view(name).substr(kNodePrefix.size()), cells[i]);
    } else if (name.starts_with(kAnnotationPrefix)) {
      const auto annotation = std::string_view(name).substr(kAnnotationPrefix.size());
      RETURN_IF_ERROR(InField(reader.Annotation(annotation, cells[i]), name));
    } else {
      RETURN_IF_ERROR(InField(reader.Request(name, cells[i]), name));
    }
  }
  return reader.Finish();
}

absl::StatusOr<std::string> ScalarText(const Json& value) {
  if (value.IsString()) return value.AsString();
  if (value.IsNumber()) return value.Text();
  return InvalidArgument("{} is neither a text nor a number", value.Text());
}

absl::StatusOr<TraceRow> ReadObject(const Json& object, const TraceBuilder& builder,
                                    std::vector<std::string>& texts) {
  RowReader reader(builder);
  // The reader keeps views of the values, so they must not move.
  texts.clear();
  texts.reserve(object.AsObject().size());
  const auto each = [](const Json& map, const std::string& field, auto visit) -> absl::Status {
    if (!map.IsObject()) return InvalidArgument("{}: is no object", field);
    for (const auto& [key, value] : map.AsObject()) {
      const std::string path = fmt::format("{}[{}]", field, key);
      const absl::StatusOr<std::string> text = ScalarText(value);
      if (!text.ok()) return InField(text.status(), path);
      RETURN_IF_ERROR(InField(visit(key, *text), path));
    }
    return absl::OkStatus();
  };
  for (const auto& [name, value] : object.AsObject()) {
    if (name == "requests") {
      RETURN_IF_ERROR(each(value, name, [&](const std::string& key, const std::string& text) {
        return reader.Request(key, text);
      }));
    } else if (name == "nodeSelector") {
      RETURN_IF_ERROR(each(value, name, [&](const std::string& key, const std::string& text) {
        reader.NodeLabel(key, text);
        return absl::OkStatus();
      }));
    } else if (name == "annotations") {
      RETURN_IF_ERROR(each(value, name, [&](const std::string& key, const std::string& text) {
        return reader.Annotation(key, text);
      }));
    } else if (RowReader::IsField(name)) {
      if (value.IsNull()) continue;
      absl::StatusOr<std::string> text = ScalarText(value);
      if (!text.ok()) return InField(text.status(), name);
      texts.push_back(*std::move(text));
      RETURN_IF_ERROR(InField(reader.Field(name, texts.back()), name));
    } else {
      return InvalidArgument("{}: no such field", name);
    }
  }
  return reader.Finish();
}

}  // namespace

absl::Status ReadCsvTrace(const SourceFile& file, TraceBuilder& builder) {
  builder.SetSource(file.path);
  std::vector<std::string> header;
  std::vector<std::string> cells;
  RETURN_IF_ERROR(ForEachLine(file.text, [&](std::string_view line, uint32_t number) {
    if (line.empty() || line.front() == '#') return absl::OkStatus();
    builder.SetLine(number);
    absl::Status status = SplitCsv(line, cells);
    if (header.empty()) {
      header = cells;
      if (status.ok()) status = CheckHeader(header);
      return status.ok() ? status : builder.Error(std::string(status.message()));
    }
    if (!status.ok()) return builder.Broken(builder.Error(std::string(status.message())));
    absl::StatusOr<TraceRow> row = ReadCells(header, cells, builder);
    if (!row.ok()) return builder.Broken(builder.Error(std::string(row.status().message())));
    return builder.Broken(builder.Add(*std::move(row)));
  }));
  if (header.empty()) return InvalidArgument("{}:1: there is no header line", file.path);
  return absl::OkStatus();
}

absl::Status ReadJsonTrace(const SourceFile& file, TraceBuilder& builder) {
  builder.SetSource(file.path);
  std::vector<std::string> texts;
  const auto read = [&](std::string_view line) {
    const absl::StatusOr<Json> object = api::ParseJson(line);
    if (!object.ok()) return builder.Error(std::string(object.status().message()));
    if (!object->IsObject()) return builder.Error("the line is no JSON object");
    absl::StatusOr<TraceRow> row = ReadObject(*object, builder, texts);
    if (!row.ok()) return builder.Error(std::string(row.status().message()));
    return builder.Add(*std::move(row));
  };
  return ForEachLine(file.text, [&](std::string_view line, uint32_t number) {
    if (line.empty() || line.front() == '#') return absl::OkStatus();
    builder.SetLine(number);
    return builder.Broken(read(line));
  });
}

}  // namespace sluice::sim
