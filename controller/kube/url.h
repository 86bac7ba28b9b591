// Building the query of a request (RFC 3986).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::kube {

// Percent-encodes everything but unreserved characters.
std::string QueryEscape(std::string_view text);
// path + "?a=b&c=d"; members with an empty value are left out, no "?" when none remains.
std::string WithQuery(std::string path,
                      const std::vector<std::pair<std::string, std::string>>& query);

}  // namespace sluice::kube
