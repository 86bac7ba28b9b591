#include "unit/topology/lab.h"

#include <absl/strings/str_join.h>
#include <fmt/format.h>

#include <sstream>

namespace sluice::topology {

Node Lab::Host(const std::string& name, Labels labels, Requests allocatable) {
  Node node;
  node.name = name;
  node.labels = std::move(labels);
  node.labels.insert_or_assign(kHostname, name);
  node.labels.insert_or_assign("pool", "tas");
  node.allocatable = std::move(allocatable);
  node.allocatable.insert({kPods, 1000});
  node.ready = true;
  return node;
}

Lab::Lab(const std::string& hosts, std::vector<std::string> levels, Options options,
         std::string resource)
    : inventory_(std::make_unique<Inventory>(options)) {
  Flavor flavor;
  flavor.topology = "default";
  flavor.levels = levels;
  flavor.node_labels = {{"pool", "tas"}};
  inventory_->SetFlavor("tas", flavor);
  std::vector<std::string> above;  // labels above the hosts
  for (const std::string& level : levels) {
    if (level != kHostname) above.push_back(level);
  }
  std::istringstream words(hosts);
  std::vector<std::string> path;
  std::string word;
  while (words >> word) {
    const bool closes = word.back() == ';';
    if (closes) word.pop_back();
    if (!word.empty() && word.back() == ':') {
      word.pop_back();
      if (path.size() == above.size()) path.pop_back();
      path.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    Labels labels;
    for (size_t i = 0; i < path.size(); ++i) labels.insert({above[i], path[i]});
    Node node =
        Host(word.substr(0, equals), labels, {{resource, std::stoll(word.substr(equals + 1))}});
    inventory_->SetNode(node);
    nodes_.push_back(node);
    if (closes) path.clear();
  }
}

std::vector<PodSetRequest> Lab::PodSets(const Ask& ask) {
  PodSetRequest main;
  main.name = "main";
  main.flavor = "tas";
  main.count = ask.count;
  main.per_pod = ask.per_pod;
  main.topology.required = ask.required;
  main.topology.preferred = ask.preferred;
  main.topology.unconstrained = ask.unconstrained;
  main.topology.layers = ask.layers;
  main.topology.spreading = ask.spreading;
  if (!ask.leader.has_value()) return {main};
  main.topology.group = "g";
  PodSetRequest leader = main;
  leader.name = "leader";
  leader.count = 1;
  leader.per_pod = *ask.leader;
  leader.topology.layers.clear();
  // With one worker the first of the two is the workers.
  return {main, leader};
}

std::string Lab::Text(const Assignment& assignment) {
  std::string text;
  for (const AssignedDomain& domain : assignment.domains) {
    const std::string name = domain.values.size() == 1
                                 ? domain.values[0]
                                 : "(" + absl::StrJoin(domain.values, ",") + ")";
    text += fmt::format("{}{}:{}", text.empty() ? "" : " ", name, domain.count);
  }
  return text;
}

std::string Lab::Text(const WorkloadPlacement& placement) {
  if (!placement.fits()) return Render(*placement.first_failure()->failure);
  std::string text;
  for (const PodSetPlacement& pod_set : placement.pod_sets) {
    if (!pod_set.assignment.has_value()) continue;
    if (pod_set.name == "leader") {
      text = "leader " + pod_set.assignment->domains.at(0).values.back() + "; " + text;
    } else {
      text += (text.empty() ? "" : " | ") + Text(*pod_set.assignment);
    }
  }
  return text;
}

std::string Lab::Place(const WorkloadRequest& request) const {
  Placer placer(*inventory_);
  return Text(placer.Place(request));
}

std::string Lab::Place(const Ask& ask, bool simulate_empty) const {
  WorkloadRequest request;
  request.pod_sets = PodSets(ask);
  request.simulate_empty = simulate_empty;
  return Place(request);
}

Assignment Lab::On(const std::string& text) {
  Assignment assignment;
  assignment.levels = {kHostname};
  std::istringstream words(text);
  std::string word;
  while (words >> word) {
    const size_t colon = word.find(':');
    assignment.domains.push_back({{word.substr(0, colon)}, std::stoll(word.substr(colon + 1))});
  }
  return assignment;
}

PodSetUsage Lab::Usage(const std::string& text, Requests per_pod) {
  return {"tas", std::move(per_pod), On(text)};
}

}  // namespace sluice::topology
