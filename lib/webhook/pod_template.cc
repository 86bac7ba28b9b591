// Comparison of pod templates. Clients that decode and encode an object write the same template in
// other words: "1000m" for "1", no member for an empty list. Such a rewrite changes nothing.
#include <algorithm>
#include <array>
#include <string_view>

#include "resource/quantity.h"
#include "webhook/rules.h"

namespace sluice::webhook {
namespace {

using api::Json;

// Maps from text to text, in which an empty value is a value.
constexpr std::string_view kTextMaps[] = {"labels",      "annotations", "nodeSelector",
                                          "matchLabels", "options",     "volumeAttributes"};
// Maps from resources to quantities.
constexpr std::string_view kQuantityMaps[] = {"requests", "limits", "overhead"};
// Single quantities.
constexpr std::string_view kQuantities[] = {"sizeLimit", "divisor"};
// Structs that are always written, also when empty.
constexpr std::string_view kPlainStructs[] = {"metadata", "spec", "resources", "template"};
// Fields in which zero, false or "" differs from absence.
constexpr std::string_view kOptionalScalars[] = {
    "activeDeadlineSeconds",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "defaultMode",
    "enableServiceLinks",
    "expirationSeconds",
    "fsGroup",
    "hostUsers",
    "maxUnavailable",
    "minDomains",
    "mode",
    "optional",
    "preemptionPolicy",
    "priority",
    "privileged",
    "readOnlyRootFilesystem",
    "runAsGroup",
    "runAsNonRoot",
    "runAsUser",
    "runtimeClassName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "storageClassName",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
};

bool OneOf(std::string_view key, std::span<const std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool SameQuantity(const Json& a, const Json& b) {
  const auto text = [](const Json& json) {
    return json.IsString() ? json.AsString() : json.Text();
  };
  const absl::StatusOr<Quantity> left = Quantity::Parse(text(a));
  const absl::StatusOr<Quantity> right = Quantity::Parse(text(b));
  return left.ok() && right.ok() && *left == *right;
}

// Whether the member says the same as no member at all.
bool SaysNothing(std::string_view key, const Json& value) {
  if (value.IsNull()) return true;
  if (value.IsArray()) return value.AsArray().empty();
  if (value.IsObject()) {
    const bool may_be_empty =
        OneOf(key, kPlainStructs) || OneOf(key, kTextMaps) || OneOf(key, kQuantityMaps);
    if (!may_be_empty) return false;
    return std::all_of(
        value.AsObject().begin(), value.AsObject().end(), [&](const Json::Member& member) {
          return OneOf(key, kPlainStructs) && SaysNothing(member.first, member.second);
        });
  }
  if (OneOf(key, kOptionalScalars)) return false;
  if (key == "divisor") return SameQuantity(value, Json("0"));
  if (value.IsString()) return value.AsString().empty();
  if (value.IsBool()) return !value.AsBool();
  return value == Json(0);
}

bool SameQuantities(const Json& a, const Json& b) {
  if (a.AsObject().size() != b.AsObject().size()) return false;
  return std::all_of(a.AsObject().begin(), a.AsObject().end(), [&](const Json::Member& member) {
    const Json* other = b.Find(member.first);
    return other != nullptr && SameQuantity(member.second, *other);
  });
}

bool SameValue(std::string_view key, const Json& a, const Json& b);

// Every member of `a` has its like in `b` or says nothing.
bool Covered(const Json& a, const Json& b) {
  return std::all_of(a.AsObject().begin(), a.AsObject().end(), [&](const Json::Member& member) {
    const Json* other = b.Find(member.first);
    if (other == nullptr) return SaysNothing(member.first, member.second);
    return SameValue(member.first, member.second, *other);
  });
}

bool OnlyNothing(const Json& a, const Json& b) {
  return std::all_of(a.AsObject().begin(), a.AsObject().end(), [&](const Json::Member& member) {
    return b.Has(member.first) || SaysNothing(member.first, member.second);
  });
}

bool SameValue(std::string_view key, const Json& a, const Json& b) {
  if (a == b) return true;
  if (SaysNothing(key, a) && SaysNothing(key, b)) return true;
  if (OneOf(key, kQuantities)) return SameQuantity(a, b);
  if (a.IsArray() && b.IsArray()) {
    return std::equal(a.AsArray().begin(), a.AsArray().end(), b.AsArray().begin(),
                      b.AsArray().end(),
                      [](const Json& x, const Json& y) { return SameValue("", x, y); });
  }
  if (!a.IsObject() || !b.IsObject()) return false;
  if (OneOf(key, kQuantityMaps)) return SameQuantities(a, b);
  if (OneOf(key, kTextMaps)) return false;  // they would be equal
  return Covered(a, b) && OnlyNothing(b, a);
}

}  // namespace

bool SamePodTemplate(const Json& a, const Json& b) { return SameValue("template", a, b); }

}  // namespace sluice::webhook
