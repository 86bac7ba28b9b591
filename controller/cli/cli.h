// kubectl-sluice: the command line for users and administrators.
//
// What it can do today needs no cluster: play scenarios and traces in the simulator. Every other
// command that is planned answers with an error that names it.
#pragma once

#include <iosfwd>

namespace sluice::cli {

// Returns the exit code: 0 done, 1 something did not match or failed, 2 wrong use.
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
