#include "state/settings.h"

#include <algorithm>

namespace sluice::state {

api::LabelSelector DefaultManagedJobsNamespaceSelector(const std::string& installation_namespace) {
  api::LabelSelector selector;
  selector.match_expressions.push_back(
      {"kubernetes.io/metadata.name", "NotIn", {"kube-system", installation_namespace}});
  return selector;
}

bool Integrations::Enabled(std::string_view framework) const {
  return std::find(frameworks.begin(), frameworks.end(), framework) != frameworks.end();
}

}  // namespace sluice::state
