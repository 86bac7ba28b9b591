// ClusterObjects: the objects of a cluster that decisions depend on, from the API server or from a
// file that `kubectl sluice dump` wrote.
//
// A World built of them is the one the controller has: nothing that matters lives only in its
// memory. So every question about a cluster can be answered here, by the code that decides.
// Plain values; single thread.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kind.h"
#include "state/settings.h"
#include "state/world.h"

namespace sluice::cli {

// On a dump: when it was taken.
inline constexpr char kTakenAt[] = "sluice.dev/taken-at";
// In the data of a ConfigMap: the configuration file of the controller.
inline constexpr char kConfigKey[] = "controller_manager_config.yaml";

struct ClusterObjects {
  absl::Time taken;
  std::string source;  // for messages
  absl::btree_map<api::Kind, std::vector<api::Json>> kinds;
  std::string configuration;       // the controller's, by which it decides; "": not known
  std::vector<std::string> notes;  // what could not be read, and what that means
};

// The kinds that a dump has, beside a ConfigMap with the configuration. Jobs are left out: their
// Workloads say all that decides. Of pods only those are in it that take room on nodes and have no
// Workload, and only where a flavor has a topology.
std::vector<api::Kind> DumpedKinds();

// A YAML or JSON file of documents and Lists. An error names the line. Without the annotation of a
// dump the objects count as read at `now`. Of ConfigMaps only the one with the configuration
// counts.
absl::StatusOr<ClusterObjects> ParseObjects(const std::string& source, const std::string& text,
                                            absl::Time now);
// Whether a text was written by DumpText.
bool IsDump(const std::string& text);
// Whether nodes decide anything: a ResourceFlavor has a topology.
bool HasTopology(const ClusterObjects& objects);
std::string DumpText(const ClusterObjects& objects);

// What objects came while others were read, kind after kind, can name things that were read before
// they were there. The kinds of what is named and not there; in the order in which to read them
// again, since what comes names others in turn.
std::vector<api::Kind> MissingKinds(const ClusterObjects& objects);
// Takes in a newer list of a kind; what it does not have any more stays, since others may name it.
void Absorb(api::Kind kind, std::vector<api::Json> newer, ClusterObjects& objects);
// Leaves out what lies in a namespace that is not there (it went, or came and went); notes say so.
void LeaveOutHomeless(ClusterObjects& objects);

// Objects that cannot be read become notes.
std::unique_ptr<state::World> WorldOf(ClusterObjects& objects, const state::Settings& settings);

}  // namespace sluice::cli
