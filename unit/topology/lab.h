// A small cluster for tests of placement, written as text, and questions to it.
//
//   Lab lab("b1: r1: h1=4 h2=4 r2: h3=8; b2: r3: h4=6");
//   lab.Place({.count = 8, .required = "rack"}) == "h1:4 h2:4"
//
// A word with a colon opens a domain: "b..." and "r..." by position (one word per level above the
// hosts), host=N gives a host with N of the resource. ";" closes the highest domain.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "topology/inventory.h"
#include "topology/placer.h"

namespace sluice::topology {

inline constexpr char kGpu[] = "example.com/gpu";

struct Ask {
  int64_t count = 1;
  std::string required = {};
  std::string preferred = {};
  bool unconstrained = false;
  std::vector<SliceLayer> layers = {};
  std::optional<Requests> leader = {};  // a leader in the same group
  Requests per_pod = {{kGpu, 1}};
  Spreading spreading = Spreading::kPack;
};

class Lab {
 public:
  explicit Lab(const std::string& hosts,
               std::vector<std::string> levels = {"block", "rack", kHostname}, Options options = {},
               std::string resource = kGpu);

  static std::vector<PodSetRequest> PodSets(const Ask& ask);
  // "leader h1; h1:3 h2:1", or the text of the failure.
  std::string Place(const Ask& ask, bool simulate_empty = false) const;
  std::string Place(const WorkloadRequest& request) const;
  static std::string Text(const WorkloadPlacement& placement);
  static std::string Text(const Assignment& assignment);
  // The usage of the pods that the text names, for example "h1:3 h2:1".
  static PodSetUsage Usage(const std::string& text, Requests per_pod = {{kGpu, 1}});
  static Assignment On(const std::string& text);

  Inventory& inventory() { return *inventory_; }
  const Inventory& inventory() const { return *inventory_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  static Node Host(const std::string& name, Labels labels, Requests allocatable);

 private:
  std::unique_ptr<Inventory> inventory_;
  std::vector<Node> nodes_;
};

}  // namespace sluice::topology
