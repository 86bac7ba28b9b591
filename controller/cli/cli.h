// kubectl-sluice: the command line for users and administrators.
//
// Questions about a cluster are answered from its objects, by the code that decides about them in
// the controller; the simulator needs no cluster at all.
#pragma once

#include <iosfwd>

namespace sluice::cli {

// Returns the exit code: 0 done, 1 something did not match or failed, 2 wrong use. `terminal`:
// somebody reads `out` on a terminal that shows colours. Called as kubectl_complete-sluice it
// answers what kubectl asks to complete words behind `kubectl sluice` (Kubernetes documentation,
// "Extend kubectl with plugins").
int Run(int argc, const char* const* argv, std::ostream& out, std::ostream& err,
        bool terminal = false);

}  // namespace sluice::cli
