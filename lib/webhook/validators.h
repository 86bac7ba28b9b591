// Checks of names, labels, annotations, selectors and conditions that several kinds share.
//
// Contract: pure; every check appends what it finds to `errors` and changes nothing else. The rules
// are those of the Kubernetes documentation: "Object Names and IDs", "Labels and Selectors",
// "Annotations", and the API conventions for conditions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/meta_types.h"
#include "webhook/field_error.h"

namespace sluice::webhook {

// What is wrong with a text, in sentences; empty when nothing.
using Problems = std::vector<std::string>;

// "[prefix/]name": an optional DNS subdomain and a name of at most 63 characters.
Problems QualifiedNameProblems(std::string_view text);
Problems LabelValueProblems(std::string_view text);
Problems DnsLabelProblems(std::string_view text);
Problems DnsSubdomainProblems(std::string_view text);

// An Invalid error for each problem.
void CheckLabelName(const Path& path, std::string_view name, FieldErrors* errors);
void CheckLabelValue(const Path& path, std::string_view value, FieldErrors* errors);
void CheckDnsSubdomain(const Path& path, std::string_view name, FieldErrors* errors);

// Keys and values; all errors are at `path`, without the key.
void CheckLabels(const Path& path, const api::StringMap& labels, FieldErrors* errors);
// Keys (their case does not matter) and the total size.
void CheckAnnotations(const Path& path, const api::StringMap& annotations, FieldErrors* errors);
void CheckLabelSelector(const Path& path, const api::LabelSelector& selector, FieldErrors* errors);
// Types unique and well-formed, reasons, times and message sizes.
void CheckConditions(const Path& path, const api::Conditions& conditions, FieldErrors* errors);

// "example.com/some/path".
void CheckDomainPrefixedPath(const Path& path, std::string_view text, FieldErrors* errors);

// The annotation kueue.x-k8s.io/admission-gated-by: format of the value, and on update that gates
// only go away (KEP "Admission gated by"). nullptr stands for an object that does not exist.
void CheckAdmissionGatedBy(const api::ObjectMeta& metadata, const api::ObjectMeta* old_metadata,
                           FieldErrors* errors);

// Go's strconv forms, which annotation values are held to: a signed decimal that fits the type.
std::optional<int64_t> ParseInt64(std::string_view text);
std::optional<int32_t> ParseInt32(std::string_view text);
// 1, t, T, true, True, TRUE and their opposites.
std::optional<bool> ParseBool(std::string_view text);

inline constexpr char kImmutable[] = "field is immutable";

}  // namespace sluice::webhook
