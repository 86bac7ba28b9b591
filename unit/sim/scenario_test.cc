// Plays every unit/scenarios/**/*.scn. With SLUICE_SCN_UPDATE=1 in the environment the expected
// text of each file is written anew instead (then read the difference before it is committed).
#include "sim/scenario.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "unit/catch.h"

namespace sluice::sim {
namespace {

namespace fs = std::filesystem;

std::string ReadFile(const fs::path& path) {
  std::ifstream file(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<fs::path> ScenarioFiles() {
  std::vector<fs::path> files;
  const fs::path root = fs::path(SLUICE_SOURCE_DIR) / "unit" / "scenarios";
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (entry.path().extension() == ".scn") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_CASE("Scenarios come out as written") {
  const fs::path root = fs::path(SLUICE_SOURCE_DIR) / "unit" / "scenarios";
  const std::vector<fs::path> files = ScenarioFiles();
  REQUIRE(files.size() >= 25);
  const char* update = std::getenv("SLUICE_SCN_UPDATE");
  for (const fs::path& path : files) {
    DYNAMIC_SECTION(fs::relative(path, root).string()) {
      const ScenarioText scenario = SplitScenario(ReadFile(path));
      const absl::StatusOr<std::string> actual = PlayScenario(scenario.script);
      INFO(std::string(actual.status().message()));
      REQUIRE(actual.ok());
      CHECK(actual->find("violation:") == std::string::npos);
      if (update != nullptr) {
        std::ofstream(path) << scenario.script << *actual;
        continue;
      }
      const std::string diff = DiffLines(scenario.expected, *actual);
      INFO(diff);
      CHECK(diff.empty());
    }
  }
}

}  // namespace
}  // namespace sluice::sim
