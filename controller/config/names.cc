#include "config/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace sluice::config {
namespace {

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return IsLower(c) || (c >= 'A' && c <= 'Z'); }
bool IsLowerAlnum(char c) { return IsLower(c) || IsDigit(c); }
bool IsAlnum(char c) { return IsLetter(c) || IsDigit(c); }

constexpr char kLabelText[] =
    "must be lower case letters, digits and '-', with an alphanumeric at both ends";
constexpr char kSubdomainText[] =
    "must be lower case letters, digits, '-' and '.', with an alphanumeric at both ends of each "
    "part";
constexpr char kNameText[] =
    "must be letters, digits, '-', '_' and '.', with an alphanumeric at both ends";

std::string TooLong(std::size_t limit) {
  return fmt::format("must be at most {} characters long", limit);
}

bool IsDnsLabel(std::string_view text) {
  return !text.empty() && IsLowerAlnum(text.front()) && IsLowerAlnum(text.back()) &&
         std::all_of(text.begin(), text.end(), [](char c) { return IsLowerAlnum(c) || c == '-'; });
}

// The name part of a label key, or a label value that is not empty.
std::string CheckNamePart(std::string_view text) {
  if (text.size() > 63) return TooLong(63);
  const bool fits = !text.empty() && IsAlnum(text.front()) && IsAlnum(text.back()) &&
                    std::all_of(text.begin(), text.end(), [](char c) {
                      return IsAlnum(c) || c == '-' || c == '_' || c == '.';
                    });
  return fits ? "" : kNameText;
}

}  // namespace

std::string CheckDns1123Label(std::string_view value) {
  if (value.size() > 63) return TooLong(63);
  return IsDnsLabel(value) ? "" : kLabelText;
}

std::string CheckDns1035Label(std::string_view value) {
  if (!value.empty() && !IsLower(value.front())) return "must start with a lower case letter";
  return CheckDns1123Label(value);
}

std::string CheckDns1123Subdomain(std::string_view value) {
  if (value.size() > 253) return TooLong(253);
  for (std::string_view rest = value;;) {
    const std::size_t dot = rest.find('.');
    if (!IsDnsLabel(rest.substr(0, dot))) return kSubdomainText;
    if (dot == std::string_view::npos) return "";
    rest = rest.substr(dot + 1);
  }
}

std::string CheckLabelKey(std::string_view value) {
  const std::size_t slash = value.find('/');
  if (slash == std::string_view::npos) return CheckNamePart(value);
  const std::string prefix = CheckDns1123Subdomain(value.substr(0, slash));
  if (!prefix.empty()) return "the part before '/' " + prefix;
  return CheckNamePart(value.substr(slash + 1));
}

std::string CheckLabelValue(std::string_view value) {
  return value.empty() ? "" : CheckNamePart(value);
}

std::string CheckDraQualifiedName(std::string_view value) {
  if (std::count(value.begin(), value.end(), '/') > 1) return "";
  const std::size_t slash = value.find('/');
  if (slash != std::string_view::npos) {
    const std::string_view domain = value.substr(0, slash);
    if (domain.size() > 63) return "the part before '/' " + TooLong(63);
    const std::string wrong = CheckDns1123Subdomain(domain);
    if (!wrong.empty()) return "the part before '/' " + wrong;
    value = value.substr(slash + 1);
  }
  if (value.size() > 32) return "the name " + TooLong(32);
  const bool fits =
      !value.empty() && (IsLetter(value.front()) || value.front() == '_') &&
      std::all_of(value.begin(), value.end(), [](char c) { return IsAlnum(c) || c == '_'; });
  return fits ? "" : "the name must be letters, digits and '_', not starting with a digit";
}

std::optional<KindName> ParseKindName(std::string_view text) {
  const std::size_t first = text.find('.');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find('.', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  KindName name{std::string(text.substr(0, first)),
                std::string(text.substr(first + 1, second - first - 1)),
                std::string(text.substr(second + 1))};
  if (name.kind.empty() || name.version.empty() || name.group.empty()) return std::nullopt;
  return name;
}

std::span<const Framework> AllFrameworks() {
  static const std::array<Framework, 18> kFrameworks = {{
      {"batch/job", {"Job", "v1", "batch"}, true},
      {"jobset.x-k8s.io/jobset", {"JobSet", "v1alpha2", "jobset.x-k8s.io"}, false},
      {"kubeflow.org/mpijob", {"MPIJob", "v2beta1", "kubeflow.org"}, false},
      {"kubeflow.org/paddlejob", {"PaddleJob", "v1", "kubeflow.org"}, false},
      {"kubeflow.org/pytorchjob", {"PyTorchJob", "v1", "kubeflow.org"}, false},
      {"kubeflow.org/tfjob", {"TFJob", "v1", "kubeflow.org"}, false},
      {"kubeflow.org/xgboostjob", {"XGBoostJob", "v1", "kubeflow.org"}, false},
      {"kubeflow.org/jaxjob", {"JAXJob", "v1", "kubeflow.org"}, false},
      {"trainer.kubeflow.org/trainjob", {"TrainJob", "v1alpha1", "trainer.kubeflow.org"}, false},
      {"ray.io/rayjob", {"RayJob", "v1", "ray.io"}, false},
      {"ray.io/raycluster", {"RayCluster", "v1", "ray.io"}, false},
      {"ray.io/rayservice", {"RayService", "v1", "ray.io"}, false},
      {"workload.codeflare.dev/appwrapper",
       {"AppWrapper", "v1beta2", "workload.codeflare.dev"},
       false},
      {"sparkoperator.k8s.io/sparkapplication",
       {"SparkApplication", "v1beta2", "sparkoperator.k8s.io"},
       false},
      {"pod", {"Pod", "v1", ""}, true},
      {"deployment", {"Deployment", "v1", "apps"}, false},
      {"statefulset", {"StatefulSet", "v1", "apps"}, false},
      {"leaderworkerset.x-k8s.io/leaderworkerset",
       {"LeaderWorkerSet", "v1", "leaderworkerset.x-k8s.io"},
       false},
  }};
  return kFrameworks;
}

const Framework* FindFramework(std::string_view name) {
  for (const Framework& framework : AllFrameworks()) {
    if (framework.name == name) return &framework;
  }
  return nullptr;
}

}  // namespace sluice::config
