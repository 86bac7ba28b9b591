#include "cli/cli.h"

#include <fstream>
#include <sstream>

#include "unit/catch.h"

namespace sluice::cli {
namespace {

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

Outcome Call(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kubectl-sluice");
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(static_cast<int>(arguments.size()), arguments.data(), out, err);
  return {code, out.str(), err.str()};
}

TEST_CASE("simulate plays a scenario that ships with the project") {
  const Outcome outcome =
      Call({"simulate", SLUICE_SOURCE_DIR "/unit/scenarios/queue/wait_message.scn"});
  CHECK(outcome.err == "");
  CHECK(outcome.code == 0);
  CHECK(outcome.out.find("waits WaitingForQuota") != std::string::npos);
}

TEST_CASE("simulate says what differs") {
  const std::string path = "cli_test_wrong.scn";
  std::ofstream(path)
      << "cluster:\n  flavor default\ntimeline:\n  at 1s show flavor\n----\nwrong\n";
  const Outcome outcome = Call({"simulate", path.c_str()});
  CHECK(outcome.code == 1);
  CHECK(outcome.err.find("- wrong") != std::string::npos);
}

TEST_CASE("mistakes end with code 2 and a word about the mistake") {
  CHECK(Call({"simulate", "no-such-file.scn"}).err.find("cannot be read") != std::string::npos);
  CHECK(Call({"simulate", "no-such-file.scn"}).code == 2);
  CHECK(Call({"explain", "job/x"}).err == "kubectl-sluice: \"explain\" is not supported yet\n");
  CHECK(Call({"explain", "job/x"}).code == 2);
  CHECK(Call({"nonsense"}).code == 2);
  CHECK(Call({}).code == 2);
}

TEST_CASE("version and help are answers, not mistakes") {
  CHECK(Call({"--version"}).code == 0);
  CHECK(Call({"--help"}).out.find("simulate") != std::string::npos);
}

}  // namespace
}  // namespace sluice::cli
