#include "queueing/topology_encoding.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace sluice::queueing {
namespace {

constexpr char kHostname[] = "kubernetes.io/hostname";

using Domains = std::span<const TopologyDomain>;
using Slices = std::vector<api::TopologyAssignmentSlice>;

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The longest start that both have in common.
size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < limit && a[length] == b[length]) ++length;
  return length;
}

size_t CommonSuffix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < limit && a[a.size() - 1 - length] == b[b.size() - 1 - length]) ++length;
  return length;
}

api::TopologyLevelValues EncodeLevel(Domains domains, size_t level) {
  const std::string_view first = domains[0].values[level];
  size_t prefix = first.size();
  size_t suffix = first.size();
  size_t shortest = first.size();
  size_t longest = first.size();
  for (const TopologyDomain& domain : domains.subspan(1)) {
    const std::string_view value = domain.values[level];
    prefix = std::min(prefix, CommonPrefix(first.substr(0, prefix), value));
    suffix = std::min(suffix, CommonSuffix(first.substr(first.size() - suffix), value));
    shortest = std::min(shortest, value.size());
    longest = std::max(longest, value.size());
  }
  api::TopologyLevelValues values;
  if (prefix == longest) {
    values.universal = std::string(first);
    return values;
  }
  while (suffix > 0 && IsContinuation(first[first.size() - suffix])) --suffix;
  prefix = std::min(prefix, shortest - suffix);
  while (prefix > 0 && prefix < first.size() && IsContinuation(first[prefix])) --prefix;
  values.prefix = std::string(first.substr(0, prefix));
  values.suffix = std::string(first.substr(first.size() - suffix));
  values.roots.reserve(domains.size());
  for (const TopologyDomain& domain : domains) {
    const std::string& value = domain.values[level];
    values.roots.push_back(value.substr(prefix, value.size() - prefix - suffix));
  }
  return values;
}

api::TopologyAssignmentSlice EncodeSlice(size_t levels, Domains domains) {
  api::TopologyAssignmentSlice slice;
  slice.domain_count = static_cast<int32_t>(domains.size());
  for (size_t level = 0; level < levels; ++level) {
    slice.values_per_level.push_back(EncodeLevel(domains, level));
  }
  const bool same_count = std::all_of(domains.begin(), domains.end(), [&](const auto& domain) {
    return domain.count == domains[0].count;
  });
  if (same_count) {
    slice.pod_counts.universal = domains[0].count;
  } else {
    for (const TopologyDomain& domain : domains) {
      slice.pod_counts.individual.push_back(domain.count);
    }
  }
  return slice;
}

// The starts of a host name that end in a dash, shortest first, without the whole name.
std::vector<std::string_view> CandidatePrefixes(std::string_view host) {
  std::vector<std::string_view> candidates;
  for (size_t i = 0; i + 1 < host.size(); ++i) {
    if (host[i] == '-') candidates.push_back(host.substr(0, i + 1));
  }
  return candidates;
}

// Finds out which domains share the name of a node pool.
class HostnamePrefixes {
 public:
  explicit HostnamePrefixes(Domains domains) {
    for (const TopologyDomain& domain : domains) {
      candidates_.push_back(CandidatePrefixes(domain.values.back()));
      depth_ = std::max(depth_, candidates_.back().size());
      for (const std::string_view prefix : candidates_.back()) ++occurrences_[prefix];
    }
  }

  // One key for each domain, "" where nothing is shared. All are "" when no search depth keeps the
  // number of slices within its limit.
  std::vector<std::string_view> Keys() const {
    for (size_t depth = depth_; depth >= 1; --depth) {
      std::vector<std::string_view> keys = KeysAt(depth);
      if (CountSlices(keys) <= kMaxTopologySlices) return keys;
    }
    return std::vector<std::string_view>(candidates_.size());
  }

 private:
  std::vector<std::string_view> KeysAt(size_t depth) const {
    std::vector<std::string_view> keys;
    keys.reserve(candidates_.size());
    for (const std::vector<std::string_view>& candidates : candidates_) {
      std::string_view key;
      for (size_t i = std::min(depth, candidates.size()); i > 0 && key.empty(); --i) {
        if (occurrences_.find(candidates[i - 1])->second >= 2) key = candidates[i - 1];
      }
      keys.push_back(key);
    }
    return keys;
  }

  static size_t CountSlices(const std::vector<std::string_view>& keys) {
    size_t slices = 0;
    for (size_t begin = 0; begin < keys.size();) {
      size_t end = begin;
      while (end < keys.size() && keys[end] == keys[begin]) ++end;
      slices += (end - begin + kMaxDomainsInSlice - 1) / kMaxDomainsInSlice;
      begin = end;
    }
    return slices;
  }

  std::vector<std::vector<std::string_view>> candidates_;
  std::unordered_map<std::string_view, size_t> occurrences_;  // for look-up only
  size_t depth_ = 0;
};

Slices EncodeRuns(size_t levels, Domains domains, const std::vector<std::string_view>& keys) {
  Slices slices;
  for (size_t begin = 0; begin < domains.size();) {
    size_t end = begin;
    while (end < domains.size() && end - begin < kMaxDomainsInSlice && keys[end] == keys[begin]) {
      ++end;
    }
    slices.push_back(EncodeSlice(levels, domains.subspan(begin, end - begin)));
    begin = end;
  }
  return slices;
}

size_t WireSize(const api::TopologyAssignment& assignment) {
  return TopologyAssignmentJson(assignment).Text().size();
}

api::Json LevelJson(const api::TopologyLevelValues& values) {
  api::Json json = api::Json::MakeObject();
  if (values.universal) {
    json.Set("universal", *values.universal);
    return json;
  }
  api::Json individual = api::Json::MakeObject();
  if (!values.prefix.empty()) individual.Set("prefix", values.prefix);
  if (!values.suffix.empty()) individual.Set("suffix", values.suffix);
  api::Json::Array roots(values.roots.begin(), values.roots.end());
  individual.Set("roots", std::move(roots));
  json.Set("individual", std::move(individual));
  return json;
}

api::Json SliceJson(const api::TopologyAssignmentSlice& slice) {
  api::Json json = api::Json::MakeObject({{"domainCount", slice.domain_count}});
  api::Json::Array levels;
  for (const api::TopologyLevelValues& values : slice.values_per_level) {
    levels.push_back(LevelJson(values));
  }
  json.Set("valuesPerLevel", std::move(levels));
  api::Json counts = api::Json::MakeObject();
  if (slice.pod_counts.universal) {
    counts.Set("universal", *slice.pod_counts.universal);
  } else {
    api::Json::Array individual(slice.pod_counts.individual.begin(),
                                slice.pod_counts.individual.end());
    counts.Set("individual", std::move(individual));
  }
  json.Set("podCounts", std::move(counts));
  return json;
}

// Checks the numbers of a slice, so that Expand can index without looking.
absl::Status CheckSlice(const api::TopologyAssignmentSlice& slice, size_t levels) {
  if (slice.domain_count < 0) return InvalidArgument("domainCount is {}", slice.domain_count);
  const auto domains = static_cast<size_t>(slice.domain_count);
  if (slice.values_per_level.size() != levels) {
    return InvalidArgument("valuesPerLevel has {} entries for {} levels",
                           slice.values_per_level.size(), levels);
  }
  for (const api::TopologyLevelValues& values : slice.values_per_level) {
    if (!values.universal && values.roots.size() != domains) {
      return InvalidArgument("a level has {} roots for {} domains", values.roots.size(), domains);
    }
  }
  if (!slice.pod_counts.universal && slice.pod_counts.individual.size() != domains) {
    return InvalidArgument("podCounts has {} entries for {} domains",
                           slice.pod_counts.individual.size(), domains);
  }
  return absl::OkStatus();
}

TopologyDomain DomainAt(const api::TopologyAssignmentSlice& slice, size_t index) {
  TopologyDomain domain;
  for (const api::TopologyLevelValues& values : slice.values_per_level) {
    domain.values.push_back(values.universal ? *values.universal
                                             : values.prefix + values.roots[index] + values.suffix);
  }
  domain.count =
      slice.pod_counts.universal ? *slice.pod_counts.universal : slice.pod_counts.individual[index];
  return domain;
}

}  // namespace

api::TopologyAssignment EncodeTopologyAssignment(std::vector<std::string> levels,
                                                 std::span<const TopologyDomain> domains,
                                                 bool by_hostname_prefix) {
  api::TopologyAssignment assignment;
  const size_t depth = levels.size();
  for (const TopologyDomain& domain : domains) {
    SLUICE_CHECK(domain.values.size() == depth, "a domain has {} values for {} levels",
                 domain.values.size(), depth);
  }
  const bool ends_in_hosts = !levels.empty() && levels.back() == kHostname;
  assignment.levels = std::move(levels);
  if (domains.empty()) return assignment;
  if (!by_hostname_prefix) {
    assignment.slices.push_back(EncodeSlice(depth, domains));
    return assignment;
  }
  std::vector<std::string_view> keys(domains.size());
  if (ends_in_hosts && domains.size() >= 2) keys = HostnamePrefixes(domains).Keys();
  assignment.slices = EncodeRuns(depth, domains, keys);
  if (assignment.slices.size() > 1 && domains.size() <= kMaxDomainsInSlice) {
    api::TopologyAssignment single;
    single.levels = assignment.levels;
    single.slices.push_back(EncodeSlice(depth, domains));
    if (WireSize(single) < WireSize(assignment)) return single;
  }
  return assignment;
}

absl::StatusOr<std::vector<TopologyDomain>> ExpandTopologyAssignment(
    const api::TopologyAssignment& assignment) {
  size_t total = 0;
  for (size_t i = 0; i < assignment.slices.size(); ++i) {
    const absl::Status status = CheckSlice(assignment.slices[i], assignment.levels.size());
    if (!status.ok()) return Annotate(status, fmt::format("slices[{}]", i));
    total += static_cast<size_t>(assignment.slices[i].domain_count);
    if (total > kMaxExpandedDomains) {
      return InvalidArgument("slices[{}]: more than {} domains", i, kMaxExpandedDomains);
    }
  }
  std::vector<TopologyDomain> domains;
  domains.reserve(total);
  for (const api::TopologyAssignmentSlice& slice : assignment.slices) {
    for (size_t i = 0; i < static_cast<size_t>(slice.domain_count); ++i) {
      domains.push_back(DomainAt(slice, i));
    }
  }
  return domains;
}

api::Json TopologyAssignmentJson(const api::TopologyAssignment& assignment) {
  api::Json json = api::Json::MakeObject();
  json.Set("levels", api::Json::Array(assignment.levels.begin(), assignment.levels.end()));
  if (assignment.slices.empty()) return json;
  api::Json::Array slices;
  for (const api::TopologyAssignmentSlice& slice : assignment.slices) {
    slices.push_back(SliceJson(slice));
  }
  json.Set("slices", std::move(slices));
  return json;
}

}  // namespace sluice::queueing
