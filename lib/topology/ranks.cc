#include "topology/ranks.h"

#include <algorithm>
#include <charconv>

#include "base/status.h"

namespace sluice::topology {
namespace {

std::optional<int64_t> ParseInteger(const std::optional<std::string>& text) {
  if (!text.has_value()) return std::nullopt;
  int64_t value = 0;
  const char* end = text->data() + text->size();
  const std::from_chars_result parsed = std::from_chars(text->data(), end, value);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return value;
}

std::optional<int64_t> ParseIndex(const std::optional<std::string>& text, int64_t bound) {
  const std::optional<int64_t> value = ParseInteger(text);
  // An index is written without a sign.
  if (!value.has_value() || *value < 0 || text->front() == '-' || *value >= bound) {
    return std::nullopt;
  }
  return value;
}

std::optional<int64_t> RankOf(const GangPods& gang, const RankedPod& pod, int64_t annotated) {
  const int64_t offset = gang.group_offset + annotated;
  int64_t bound = gang.count + gang.group_offset + annotated;
  int64_t before = 0;
  if (gang.sub_group_label) {
    if (gang.sub_groups <= 0) return std::nullopt;
    const int64_t job_size = gang.count / gang.sub_groups;
    const std::optional<int64_t> sub_group = ParseIndex(pod.sub_group, gang.sub_groups);
    if (!sub_group.has_value()) return std::nullopt;
    before = *sub_group * job_size;
    bound = std::min(bound, job_size);
  }
  const std::optional<int64_t> index = ParseIndex(pod.index, bound);
  if (!index.has_value()) return std::nullopt;
  const int64_t rank = *index + before - offset;
  if (rank < 0 || rank >= gang.count) return std::nullopt;
  return rank;
}

// Pods on each place that were let go, by the values of their node selector.
using Taken = absl::btree_map<std::vector<std::string>, int64_t>;

// Takes one of the room that those who are leaving still have a part of.
bool TakeRoom(Taken& leaving, const AssignedDomain& domain) {
  const auto there = leaving.find(domain.values);
  if (there == leaving.end()) return true;
  return there->second++ < domain.count;
}

// Nothing when a rule of ranks is broken.
std::optional<std::vector<PodPlace>> AssignByRank(const GangPods& gang, int64_t annotated) {
  const std::vector<size_t> domains = DomainsByRank(gang.assignment);
  std::vector<bool> seen(static_cast<size_t>(std::max<int64_t>(0, gang.count)));
  std::vector<PodPlace> ranked;
  Taken leaving;
  for (const RankedPod& pod : gang.pods) {
    if (pod.deleting && !pod.gated) ++leaving[pod.selector];
  }
  for (size_t i = 0; i < gang.pods.size(); ++i) {
    const RankedPod& pod = gang.pods[i];
    if (pod.deleting) continue;
    const std::optional<int64_t> rank = RankOf(gang, pod, annotated);
    if (!rank.has_value() || static_cast<size_t>(*rank) >= domains.size()) return std::nullopt;
    const auto at = static_cast<size_t>(*rank);
    if (seen[at]) return std::nullopt;
    seen[at] = true;
    const AssignedDomain& domain = gang.assignment.domains[domains[at]];
    if (pod.gated) {
      ranked.push_back({i, domains[at]});
    } else if (pod.selector != domain.values) {
      return std::nullopt;
    } else {
      TakeRoom(leaving, domain);
    }
  }
  std::vector<PodPlace> places;
  for (const PodPlace& place : ranked) {
    if (TakeRoom(leaving, gang.assignment.domains[place.domain])) places.push_back(place);
  }
  return places;
}

std::vector<PodPlace> AssignGreedily(const GangPods& gang) {
  Taken running;
  for (const RankedPod& pod : gang.pods) {
    if (!pod.gated) ++running[pod.selector];
  }
  std::vector<PodPlace> places;
  size_t next = 0;
  for (size_t domain = 0; domain < gang.assignment.domains.size(); ++domain) {
    const AssignedDomain& assigned = gang.assignment.domains[domain];
    const auto there = running.find(assigned.values);
    int64_t room = assigned.count - (there == running.end() ? 0 : there->second);
    for (; room > 0 && next < gang.pods.size(); ++next) {
      if (!gang.pods[next].gated || gang.pods[next].deleting) continue;
      places.push_back({next, domain});
      --room;
    }
  }
  return places;
}

}  // namespace

std::vector<size_t> DomainsByRank(const Assignment& assignment) {
  std::vector<size_t> domains;
  for (size_t i = 0; i < assignment.domains.size(); ++i) {
    const int64_t count = std::max<int64_t>(0, assignment.domains[i].count);
    domains.insert(domains.end(), static_cast<size_t>(count), i);
  }
  return domains;
}

int64_t GroupOffset(int64_t first_count, int64_t second_count, bool of_second) {
  const bool first_is_smaller = first_count <= second_count;
  if (of_second == first_is_smaller) return std::min(first_count, second_count);
  return 0;
}

absl::StatusOr<std::vector<PodPlace>> AssignPods(const GangPods& gang) {
  if (!gang.index_label || gang.pods.empty()) return AssignGreedily(gang);
  int64_t annotated = 0;
  if (gang.pods.front().offset.has_value()) {
    const std::optional<int64_t> offset = ParseInteger(gang.pods.front().offset);
    if (!offset.has_value()) {
      return InvalidArgument("pod index offset \"{}\" is not an integer",
                             *gang.pods.front().offset);
    }
    annotated = *offset;
  }
  if (auto places = AssignByRank(gang, annotated)) return *std::move(places);
  return AssignGreedily(gang);
}

}  // namespace sluice::topology
