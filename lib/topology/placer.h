// Placer: where the pods of a workload go.
//
// Takes all pod sets of a workload that want a topology, with the flavor that each was given, and
// answers with one assignment for each or with the reason why not. Flavors are looked at in the
// order of their names, pod sets of a flavor in the order given, the two pod sets of a group
// together at the place of the first. What is placed counts as used for what comes after it. The
// first failure ends the work for its flavor.
//
// Domains of an assignment are in tree order, so consecutive ranks are neighbours at every level.
//
// Contract: reads the inventory, which must not change during a call (an Overlay may be open: the
// answer then is for that what-if). Same inventory, same request: same answer, whatever the order
// in which the inventory was built. A Placer keeps arrays between calls; one thread.
//
//   Placer placer(inventory);
//   WorkloadPlacement placement = placer.Place({.pod_sets = {...}});
//   if (!placement.fits()) reason = Render(*placement.first_failure());
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "topology/failure.h"
#include "topology/inventory.h"
#include "topology/search.h"
#include "topology/types.h"

namespace sluice::topology {

struct PodSetPlacement {
  std::string name;
  FlavorName flavor;
  std::optional<Assignment> assignment;  // absent for a pod set with count 0
  std::optional<Failure> failure;
  bool operator==(const PodSetPlacement&) const = default;
};

struct WorkloadPlacement {
  std::vector<PodSetPlacement> pod_sets;  // in the order of the request
  bool fits() const;
  const PodSetPlacement* first_failure() const;  // nullptr when it fits
  bool operator==(const WorkloadPlacement&) const = default;
};

// A domain on which an assignment does not hold any more.
struct Broken {
  enum class Kind { kGone, kExcluded, kNoRoom };
  Kind kind = Kind::kGone;
  std::string pod_set;
  std::vector<std::string> domain;
  int64_t fit = 0;  // kNoRoom: pods that fit
  bool operator==(const Broken&) const = default;
};

class Placer {
 public:
  explicit Placer(const Inventory& inventory);

  WorkloadPlacement Place(const WorkloadRequest& request);
  // The same with simulate_empty, whatever the request says.
  WorkloadPlacement PlaceInEmpty(const WorkloadRequest& request);
  // Place(request).fits(), for less.
  bool Fits(const WorkloadRequest& request);

  // ---- for who asks the same of many states of the inventory ----
  // What is searched for of the request, in parts: each pod set, or workers with their leader. They
  // point into the request, and hold until a flavor changes.
  struct Parts {
    std::vector<SearchRequest> searches;
    // Counting tells of all of it. Else some are left out, or nodes that are planned for
    // maintenance are counted as if they were not.
    bool all = true;
  };
  Parts PartsOf(const WorkloadRequest& request);
  // There is no place for the request where a part asks for more slices (count / slice_size) than
  // that.
  int64_t RoomFor(const SearchRequest& part) { return counter_.Room(part); }
  // What Place(request) would take on the leaves, for less; nothing where it does not fit.
  std::optional<std::vector<LeafUsage>> TakeOf(const WorkloadRequest& request);

  // The check before an assignment is acted on: each domain is there, takes the pods of the pod set
  // and has room for those beyond `held` (what the workload already has there). Pod sets that share
  // a domain must be booked one after the other by the caller.
  std::optional<Broken> Check(const PodSetRequest& pod_set, const Assignment& assignment,
                              const Assignment* held = nullptr) const;

  // Whether the flavor's topology has all the levels that the request names, and which level the
  // pods are kept together at ("" when the request names none).
  static std::string RequestedLevel(const TopologyRequest& request, const Flavor& flavor);
  static bool HasLevels(const TopologyRequest& request, const Flavor& flavor);
  // The sum of what the pod sets take.
  static WorkloadUsage UsageOf(const WorkloadRequest& request, const WorkloadPlacement& placement);

 private:
  struct Group {
    size_t workers = 0;
    std::optional<size_t> leader;
  };
  using SetResult = std::variant<Assignment, Failure>;
  struct GroupResult {
    std::optional<Failure> failure;
    Assignment workers;
    Assignment leader;
  };

  static std::vector<const FlavorName*> FlavorsOf(const WorkloadRequest& request);
  static std::vector<Group> GroupsOf(const WorkloadRequest& request, const FlavorName& flavor);
  WorkloadPlacement PlaceAll(const WorkloadRequest& request, bool empty);
  void PlaceFlavor(const FlavorName& flavor, WorkloadPlacement& placement);
  GroupResult PlaceGroup(const Tree& tree, const Group& group);
  GroupResult PlaceFresh(const Tree& tree, const PodSetRequest& workers,
                         const PodSetRequest* leader);
  GroupResult Replace(const Tree& tree, const PodSetRequest& pod_set);
  GroupResult Resize(const Tree& tree, const PodSetRequest& workers, const PodSetRequest* leader);
  std::optional<Failure> Prepare(const Tree& tree, const PodSetRequest& workers,
                                 const PodSetRequest* leader, SearchRequest& search) const;
  static Options WithoutMaintenance(Options options);
  GroupResult RunSearch(const SearchRequest& search);
  Needs NeedsOf(const Requests& per_pod) const;
  void Assume(const Tree& tree, const PodSetRequest& pod_set, const Assignment& assignment);
  void Book(const Tree& tree, const PodSetRequest& pod_set, const Assignment& assignment);
  void Book(std::vector<LeafUsage> leaves);
  bool TakeGroup(const Tree& tree, const Group& group, bool last, std::vector<LeafUsage>& taken);

  const Inventory& inventory_;
  Searcher searcher_;
  Searcher counter_;  // without a look at maintenance, so that its counts can be kept
  const WorkloadRequest* request_ = nullptr;
  bool empty_ = false;  // simulate_empty
  bool brief_ = false;  // for the time of Fits
  Assumed assumed_;
};

// Domains of both added up, in tree order. Domains that are not in the tree keep their place at the
// end, in the order of their values.
Assignment Merge(const Tree& tree, const Assignment& a, const Assignment& b);

}  // namespace sluice::topology
