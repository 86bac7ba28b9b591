// kubectl-sluice simulate: scenarios, and traces against a cluster of manifests.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "cli/live_trace.h"

namespace CLI {
class App;
}

namespace sluice::cli {

struct SimulateOptions {
  std::vector<std::string> given;   // the names of the options on the command line
  std::vector<std::string> inputs;  // .scn, or manifests (files and directories)
  std::vector<std::string> traces;  // .csv, .jsonl, .swf
  std::string format;               // "", "csv", "jsonl", "swf"
  bool strict = false;              // a line of a trace that cannot be read is an error
  std::string config;               // configuration file of the controller
  std::string csv;                  // directory, or a file that ends in .csv
  std::string html;
  bool timeline = false;
  bool explain = false;      // why what waits at the end waits, as lines
  std::string explain_json;  // the same into a file
  std::string stop_time = "0s";
  std::string checkpoint_time = "30s";
  std::string restart = "scratch";  // scratch, resume, or the interval of checkpoints
  std::string until;
  // Of a live dump: how long workloads run of which nothing is known; "": they never end.
  std::string default_runtime;
  ClusterChanges changes;
  bool compare = false;        // without and with the changes
  std::string against;         // other manifests to compare with
  std::string against_config;  // another configuration file to compare with
  // Standard Workload Format.
  std::string queue_by = "queue";
  std::vector<std::string> map;       // NUMBER=NAMESPACE/LOCALQUEUE, "*" for all others
  std::vector<std::string> priority;  // NUMBER=PRIORITY
  bool spread = false;
  std::string resource = "cpu";
  std::string per_processor = "1";
  bool pod_per_processor = false;
  bool memory = false;
};

// Declares the options of the command.
void AddSimulateOptions(CLI::App& command, SimulateOptions& options);
// The exit code, as Run of cli/cli.h.
int Simulate(const SimulateOptions& options, std::ostream& out, std::ostream& err);

}  // namespace sluice::cli
