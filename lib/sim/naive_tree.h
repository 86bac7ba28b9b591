// NaiveTree: the quota rules once more, as short and slow as they can be said, to check the others.
//
// Nothing is kept: every answer walks the whole tree again. Amounts are milli-units. Pure.
// Source of the rules: KEP-79 (hierarchical cohorts).
#pragma once

#include <absl/container/btree_map.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "api/kueue_types.h"

namespace sluice::sim {

class NaiveTree {
 public:
  struct Quota {
    int64_t nominal = 0;
    std::optional<int64_t> borrow;
    std::optional<int64_t> lend;
  };
  using Cells = absl::btree_map<std::string, Quota>;      // by "flavor/resource"
  using Amounts = absl::btree_map<std::string, int64_t>;  // by "flavor/resource"

  static Cells CellsOf(const api::Json& spec);
  static Cells CellsOf(const std::vector<api::ResourceGroup>& groups);
  // A burst limit of a CreditPolicy in the place of a smaller borrowing limit.
  static void RaiseBorrowing(Cells& cells, const api::Json& burst);

  void AddQueue(const std::string& name, const std::string& cohort, Cells cells) {
    nodes_["queue " + name] = {cohort.empty() ? "" : "cohort " + cohort, std::move(cells), {}};
  }
  void AddCohort(const std::string& name, const std::string& parent, Cells cells) {
    nodes_["cohort " + name] = {parent.empty() ? "" : "cohort " + parent, std::move(cells), {}};
  }
  // What workloads hold in a ClusterQueue; negative to take back.
  void Use(const std::string& queue, const Amounts& amounts, int64_t sign = 1);

  bool Has(const std::string& queue) const { return nodes_.contains("queue " + queue); }
  // The root above a ClusterQueue; "" in a circle.
  std::string RootOf(const std::string& queue) const;
  int64_t Nominal(const std::string& queue, const std::string& cell) const;
  int64_t Used(const std::string& queue, const std::string& cell) const;
  bool Fits(const std::string& queue, const Amounts& amounts) const;
  // One sentence for each node on the way from the ClusterQueue to the root that holds more than it
  // may, of those to which the ClusterQueue's usage of the cell gives something.
  std::vector<std::string> AboveLimits(const std::string& queue, const std::string& cell) const;

 private:
  struct Node {
    std::string parent;
    Cells cells;
    Amounts usage;  // of ClusterQueues
  };
  const Node& At(const std::string& key) const;
  Quota QuotaOf(const std::string& key, const std::string& cell) const;
  int64_t Subtree(const std::string& key, const std::string& cell) const;
  int64_t Guaranteed(const std::string& key, const std::string& cell) const;
  int64_t Usage(const std::string& key, const std::string& cell) const;
  int64_t Available(const std::string& key, const std::string& cell) const;

  absl::btree_map<std::string, Node> nodes_;
};

}  // namespace sluice::sim
