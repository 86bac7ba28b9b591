#include "loop/log.h"

#include <algorithm>
#include <sstream>
#include <thread>

#include "api/json.h"
#include "base/time.h"
#include "unit/catch.h"

namespace sluice::loop {
namespace {

LogOptions Options(std::ostream& stream, LogFormat format, LogLevel level = LogLevel::kInfo) {
  LogOptions options;
  options.level = level;
  options.format = format;
  options.stream = &stream;
  options.clock = [] { return *ParseTime("2026-08-22T10:00:00.5+02:00"); };
  return options;
}

TEST_CASE("a text line has time, level, message and fields") {
  std::ostringstream out;
  const Log log(Options(out, LogFormat::kText));
  log.Info("admitted", {{"workload", std::string("team-a/j1")},
                        {"clusterQueue", "my queue"},
                        {"count", 3},
                        {"wait", absl::Milliseconds(1500)},
                        {"ok", true},
                        {"empty", ""}});
  CHECK(out.str() ==
        "2026-08-22T08:00:00.500000000Z INFO admitted workload=team-a/j1 "
        "clusterQueue=\"my queue\" count=3 wait=1.5 ok=true empty=\"\"\n");
}

TEST_CASE("a JSON line is one object whatever the values hold") {
  std::ostringstream out;
  const Log log(Options(out, LogFormat::kJson));
  const std::string hostile = "a\"b\\c\nd\te\x01 \xc3\xa4 \xff\xed\xa0\x80 end";
  log.Error("bad \"name\"\n", {{"name\"", hostile},
                               {"status", absl::NotFoundError("no such queue")},
                               {"nan", std::nan("")},
                               {"size", size_t{7}}});
  const std::string line = out.str();
  CHECK(std::count(line.begin(), line.end(), '\n') == 1);
  const auto json = api::ParseJson(line);
  REQUIRE(json.ok());
  CHECK(json->GetString("level") == "error");
  CHECK(json->GetString("ts") == "2026-08-22T08:00:00.500000000Z");
  CHECK(json->GetString("msg") == "bad \"name\"\n");
  CHECK(json->GetString("name\"") ==
        "a\"b\\c\nd\te\x01 \xc3\xa4 \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd end");
  CHECK(json->GetString("status") == "NOT_FOUND: no such queue");
  CHECK(json->GetString("nan") == "nan");
  CHECK(json->Find("size")->AsInt() == 7);
}

TEST_CASE("a text line stays one line") {
  std::ostringstream out;
  const Log log(Options(out, LogFormat::kText));
  log.Warn("two\nlines", {{"forged", "x\n2026-08-22T08:00:00Z ERROR fake"}});
  CHECK(out.str() ==
        "2026-08-22T08:00:00.500000000Z WARN two\\nlines "
        "forged=\"x\\n2026-08-22T08:00:00Z ERROR fake\"\n");
}

TEST_CASE("levels below the threshold print nothing") {
  struct Row {
    LogLevel level;
    std::string printed;
  };
  const auto row = GENERATE(values<Row>({{LogLevel::kTrace, "tdiwe"},
                                         {LogLevel::kDebug, "diwe"},
                                         {LogLevel::kInfo, "iwe"},
                                         {LogLevel::kWarn, "we"},
                                         {LogLevel::kError, "e"},
                                         {LogLevel::kOff, ""}}));
  std::ostringstream out;
  const Log log(Options(out, LogFormat::kJson, row.level));
  log.Trace("t");
  log.Debug("d");
  log.Info("i");
  log.Warn("w");
  log.Error("e");
  std::string printed;
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    printed += api::ParseJson(line)->GetString("msg");
  }
  CHECK(printed == row.printed);
  CHECK(log.Enabled(LogLevel::kInfo) == (row.printed.find('i') != std::string::npos));
}

TEST_CASE("--zap-log-level") {
  CHECK(*ParseLogLevel("info") == LogLevel::kInfo);
  CHECK(*ParseLogLevel("debug") == LogLevel::kDebug);
  CHECK(*ParseLogLevel("error") == LogLevel::kError);
  CHECK(*ParseLogLevel("panic") == LogLevel::kOff);
  CHECK(*ParseLogLevel("2") == LogLevel::kInfo);
  CHECK(*ParseLogLevel("3") == LogLevel::kDebug);
  CHECK(*ParseLogLevel("10") == LogLevel::kTrace);
  for (const char* bad : {"", "0", "-1", "warning", "INFO", "2x"}) {
    CAPTURE(bad);
    const auto level = ParseLogLevel(bad);
    REQUIRE_FALSE(level.ok());
    CHECK(std::string(level.status().message()).find("--zap-log-level") == 0);
  }
}

TEST_CASE("fields of With come first and do not leak to the original") {
  std::ostringstream out;
  const Log log(Options(out, LogFormat::kText));
  const Log leader = log.With({{"replica-role", "leader"}});
  leader.Info("a", {{"k", 1}});
  log.Info("b");
  CHECK(out.str() ==
        "2026-08-22T08:00:00.500000000Z INFO a replica-role=leader k=1\n"
        "2026-08-22T08:00:00.500000000Z INFO b\n");
}

TEST_CASE("lines of several threads are not mixed") {
  constexpr int kThreads = 4;
  constexpr int kLines = 200;
  std::ostringstream out;
  const Log log(Options(out, LogFormat::kJson));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < kLines; ++i) log.Info("line", {{"thread", t}, {"i", i}});
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<int64_t> next(kThreads, 0);
  std::istringstream lines(out.str());
  for (std::string line; std::getline(lines, line);) {
    const auto json = api::ParseJson(line);
    REQUIRE(json.ok());
    const auto thread = static_cast<size_t>(json->Find("thread")->AsInt());
    CHECK(json->Find("i")->AsInt() == next[thread]++);
  }
  CHECK(next == std::vector<int64_t>(kThreads, kLines));
}

}  // namespace
}  // namespace sluice::loop
