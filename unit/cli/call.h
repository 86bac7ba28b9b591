// A call of kubectl-sluice as a user makes it, for tests.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "cli/cli.h"

namespace sluice::cli {

struct Outcome {
  int code;
  std::string out;
  std::string err;
};

// `terminal`: its output goes to one. `program`: the name by which it is called.
inline Outcome Call(const std::vector<std::string>& arguments, bool terminal = false,
                    const char* program = "kubectl-sluice") {
  std::vector<const char*> argv = {program};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out;
  std::ostringstream err;
  const int code = Run(static_cast<int>(argv.size()), argv.data(), out, err, terminal);
  return {code, out.str(), err.str()};
}

}  // namespace sluice::cli
