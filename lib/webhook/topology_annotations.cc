// The topology annotations of pod templates (KEP-2724, "User-facing API").
#include <absl/status/statusor.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "api/json.h"
#include "queueing/topology_inputs.h"
#include "webhook/rules.h"
#include "webhook/validators.h"

namespace sluice::webhook {
namespace {

constexpr char kRequired[] = "kueue.x-k8s.io/podset-required-topology";
constexpr char kPreferred[] = "kueue.x-k8s.io/podset-preferred-topology";
constexpr char kUnconstrained[] = "kueue.x-k8s.io/podset-unconstrained-topology";
constexpr char kSliceRequired[] = "kueue.x-k8s.io/podset-slice-required-topology";
constexpr char kSliceSize[] = "kueue.x-k8s.io/podset-slice-size";
constexpr char kSliceConstraints[] = "kueue.x-k8s.io/podset-slice-required-topology-constraints";
constexpr char kGroupName[] = "kueue.x-k8s.io/podset-group-name";
constexpr size_t kMaxLayers = 3;

// The annotations of one template, and where to report about them.
struct Annotations {
  const Path path;
  const api::StringMap& values;

  const std::string* Find(const char* key) const {
    const auto found = values.find(key);
    return found == values.end() ? nullptr : &found->second;
  }
  Path At(const char* key) const { return path.Key(key); }
};

std::string NotWith(const char* key) {
  return fmt::format("must not be set together with {}", key);
}

bool IsUnsignedNumber(const std::string& text) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end;
}

void CheckLevel(const Annotations& annotations, FieldErrors* errors) {
  int set = 0;
  for (const char* key : {kRequired, kPreferred, kUnconstrained}) {
    if (annotations.Find(key) != nullptr) ++set;
  }
  if (set > 1) {
    api::Json shown = api::Json::MakeObject();
    for (const auto& [key, value] : annotations.values) shown.Set(key, value);
    errors->push_back(FieldError::Invalid(annotations.path, shown,
                                          fmt::format("at most one of {}, {} and {} may be set",
                                                      kRequired, kPreferred, kUnconstrained)));
  }
  for (const char* key : {kRequired, kPreferred, kSliceRequired}) {
    if (const std::string* level = annotations.Find(key)) {
      CheckLabelName(annotations.At(key), *level, errors);
    }
  }
  const std::string* unconstrained = annotations.Find(kUnconstrained);
  if (unconstrained != nullptr && !ParseBool(*unconstrained)) {
    errors->push_back(FieldError::Invalid(annotations.At(kUnconstrained), *unconstrained,
                                          "must be true or false"));
  }
}

void CheckGroup(const Annotations& annotations, FieldErrors* errors) {
  const std::string* group = annotations.Find(kGroupName);
  if (group == nullptr) return;
  if (IsUnsignedNumber(*group)) {
    errors->push_back(
        FieldError::Invalid(annotations.At(kGroupName), *group, "must not be a number"));
  }
  for (const char* key : {kSliceSize, kSliceRequired}) {
    if (annotations.Find(key) == nullptr) continue;
    errors->push_back(FieldError::Forbidden(annotations.At(key), NotWith(kGroupName)));
  }
  if (annotations.Find(kRequired) == nullptr && annotations.Find(kPreferred) == nullptr) {
    errors->push_back(FieldError::Forbidden(annotations.At(kGroupName),
                                            fmt::format("needs {} or {}", kRequired, kPreferred)));
  }
}

void CheckSliceSize(const Annotations& annotations, int64_t count, FieldErrors* errors) {
  const std::string* level = annotations.Find(kSliceRequired);
  const std::string* size = annotations.Find(kSliceSize);
  const Path path = annotations.At(kSliceSize);
  if (size == nullptr) {
    if (level != nullptr) {
      errors->push_back(FieldError::Required(path, fmt::format("{} needs it", kSliceRequired)));
    }
    return;
  }
  if (level == nullptr) {
    errors->push_back(FieldError::Forbidden(path, fmt::format("needs {}", kSliceRequired)));
  }
  const std::optional<int32_t> number = ParseInt32(*size);
  if (!number || *number < 1) {
    errors->push_back(
        FieldError::Invalid(path, *size, "must be an integer of 32 bits and at least 1"));
  } else if (*number > count) {
    errors->push_back(FieldError::Invalid(
        path, *size, fmt::format("must not exceed the number of pods, {}", count)));
  }
}

void CheckPlacement(const Annotations& annotations, FieldErrors* errors) {
  const std::string* placement = annotations.Find(queueing::kPlacement);
  if (placement == nullptr) return;
  if (const auto problem = queueing::PlacementProblem(*placement)) {
    errors->push_back(
        FieldError::Invalid(annotations.At(queueing::kPlacement), *placement, *problem));
  }
}

struct Layer {
  std::string topology;
  int64_t size = 0;
};

// nullopt when the text is not a list of 1 to 3 layers.
std::optional<std::vector<Layer>> ParseLayers(const std::string& text) {
  const absl::StatusOr<api::Json> json = api::ParseJson(text);
  if (!json.ok() || !json->IsArray()) return std::nullopt;
  std::vector<Layer> layers;
  for (const api::Json& item : json->AsArray()) {
    const api::Json* topology = item.Find("topology");
    const api::Json* size = item.Find("size");
    if (!item.IsObject() || (topology != nullptr && !topology->IsString()) ||
        (size != nullptr && !size->IsInt())) {
      return std::nullopt;
    }
    layers.push_back(
        {topology == nullptr ? "" : topology->AsString(), size == nullptr ? 0 : size->AsInt()});
  }
  if (layers.empty() || layers.size() > kMaxLayers) return std::nullopt;
  return layers;
}

void CheckLayers(const Path& path, const std::vector<Layer>& layers, int64_t count,
                 FieldErrors* errors) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const Layer& layer = layers[i];
    CheckLabelName(path, layer.topology, errors);
    const auto same = [&](const Layer& other) { return other.topology == layer.topology; };
    if (std::any_of(layers.begin(), layers.begin() + static_cast<ptrdiff_t>(i), same)) {
      errors->push_back(FieldError::Duplicate(path, layer.topology));
    }
    if (layer.size < 1 || layer.size > INT32_MAX) {
      errors->push_back(FieldError::Invalid(path, layer.size, "each size must be at least 1"));
    } else if (i > 0 && layers[i - 1].size % layer.size != 0) {
      errors->push_back(FieldError::Invalid(
          path, layer.size,
          fmt::format("must divide the size {} of the layer before it", layers[i - 1].size)));
    }
  }
  if (layers.front().size > count) {
    errors->push_back(FieldError::Invalid(
        path, layers.front().size, fmt::format("must not exceed the number of pods, {}", count)));
  }
}

void CheckConstraints(const View& view, const Annotations& annotations, int64_t count,
                      FieldErrors* errors) {
  const std::string* text = annotations.Find(kSliceConstraints);
  if (text == nullptr) return;
  const Path path = annotations.At(kSliceConstraints);
  if (!view.GateOn("TASMultiLayerTopology")) {
    errors->push_back(FieldError::Forbidden(path, "the feature gate TASMultiLayerTopology is off"));
    return;
  }
  for (const char* key : {kSliceRequired, kSliceSize, kGroupName}) {
    if (annotations.Find(key) == nullptr) continue;
    errors->push_back(FieldError::Forbidden(annotations.At(key), NotWith(kSliceConstraints)));
  }
  const std::optional<std::vector<Layer>> layers = ParseLayers(*text);
  if (!layers) {
    errors->push_back(FieldError::Invalid(
        path, *text, "must be a JSON list of 1 to 3 objects with topology and size"));
    return;
  }
  CheckLayers(path, *layers, count, errors);
}

}  // namespace

void CheckTopologyAnnotations(const View& view, const Path& path, const api::StringMap& annotations,
                              int64_t count, FieldErrors* errors) {
  if (annotations.empty() || !view.GateOn("TopologyAwareScheduling")) return;
  const Annotations found{path.Child("annotations"), annotations};
  CheckLevel(found, errors);
  CheckGroup(found, errors);
  CheckSliceSize(found, count, errors);
  CheckConstraints(view, found, count, errors);
  CheckPlacement(found, errors);
}

}  // namespace sluice::webhook
