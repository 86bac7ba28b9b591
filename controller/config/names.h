// Syntax of names that the configuration file carries, and the well-known ones.
//
// Source: Kubernetes documentation, "Object Names and IDs" and "Labels and Selectors"; RFC 1035,
// 1123. Every check returns "" for a good value, else what is wrong with it. Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace sluice::config {

inline constexpr char kDispatcherAllAtOnce[] = "kueue.x-k8s.io/multikueue-dispatcher-all-at-once";
inline constexpr char kDispatcherIncremental[] = "kueue.x-k8s.io/multikueue-dispatcher-incremental";

std::string CheckDns1035Label(std::string_view value);      // at most 63, starts with a letter
std::string CheckDns1123Label(std::string_view value);      // at most 63
std::string CheckDns1123Subdomain(std::string_view value);  // at most 253
std::string CheckLabelKey(std::string_view value);          // [prefix/]name
std::string CheckLabelValue(std::string_view value);        // may be empty, at most 63
// [subdomain of at most 63 /] C identifier of at most 32 (dynamic resource allocation).
std::string CheckDraQualifiedName(std::string_view value);

// Group, version and kind as text "Kind.version.group".
struct KindName {
  std::string kind;
  std::string version;
  std::string group;  // "" for the core group
  bool operator==(const KindName&) const = default;
  std::string ToString() const { return kind + "." + version + "." + group; }
};
// nullopt unless there are three non-empty parts; the group may hold further dots.
std::optional<KindName> ParseKindName(std::string_view text);

// The integrations that a file may name.
struct Framework {
  std::string_view name;
  KindName kind;
  bool supported;  // by this program, now
};
std::span<const Framework> AllFrameworks();
const Framework* FindFramework(std::string_view name);

}  // namespace sluice::config
