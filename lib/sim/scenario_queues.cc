#include "sim/scenario_queues.h"

#include <absl/status/statusor.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>

#include "base/status.h"

namespace sluice::sim {
namespace {

using api::Json;

// "4/borrow=2/lend=1" -> nominalQuota, borrowingLimit, lendingLimit.
absl::StatusOr<Json> Quota(const std::string& resource, const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  Json quota = Json::MakeObject({{"name", resource}, {"nominalQuota", parts[0]}});
  for (size_t i = 1; i < parts.size(); ++i) {
    const size_t equals = parts[i].find('=');
    const std::string key = parts[i].substr(0, equals);
    if (equals == std::string::npos || (key != "borrow" && key != "lend")) {
      return InvalidArgument("flavor: \"{}\" is neither borrow=AMOUNT nor lend=AMOUNT", parts[i]);
    }
    quota.Set(key == "borrow" ? "borrowingLimit" : "lendingLimit", parts[i].substr(equals + 1));
  }
  return quota;
}

// "LowerPriority" or "LowerPriority:100".
absl::Status BorrowWithin(const std::string& text, Json& preemption) {
  const size_t colon = text.find(':');
  Json& borrow = preemption["borrowWithinCohort"];
  borrow.Set("policy", text.substr(0, colon));
  if (colon == std::string::npos) return absl::OkStatus();
  int64_t threshold = 0;
  if (!absl::SimpleAtoi(text.substr(colon + 1), &threshold)) {
    return InvalidArgument("borrowwithin: \"{}\" is no priority", text.substr(colon + 1));
  }
  borrow.Set("maxPriorityThreshold", threshold);
  return absl::OkStatus();
}

// "borrow:TryNextFlavor,preempt:MayStopSearch,preference:PreemptionOverBorrowing", each optional.
absl::Status Fungibility(const std::string& text, Json& spec) {
  static const std::vector<std::pair<std::string, std::string>> kFields = {
      {"borrow", "whenCanBorrow"}, {"preempt", "whenCanPreempt"}, {"preference", "preference"}};
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const size_t colon = part.find(':');
    bool known = false;
    for (const auto& [key, field] : kFields) {
      if (colon == std::string::npos || part.substr(0, colon) != key) continue;
      spec["flavorFungibility"].Set(field, part.substr(colon + 1));
      known = true;
    }
    if (!known) {
      return InvalidArgument("fungibility: \"{}\" is not borrow:, preempt: or preference:", part);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, std::string>>> SplitPairs(
    const std::string& text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const std::string& part : std::vector<std::string>(absl::StrSplit(text, ','))) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos) return InvalidArgument("\"{}\" has no amount", part);
    pairs.emplace_back(part.substr(0, equals), part.substr(equals + 1));
  }
  return pairs;
}

absl::Status AddFlavorQuota(const std::string& text, Json& spec) {
  const size_t brace = text.find('{');
  if (brace == std::string::npos || text.back() != '}') {
    return InvalidArgument("flavor: \"{}\" is not NAME{{RESOURCE=AMOUNT,...}}", text);
  }
  Json covered = Json::MakeArray();
  Json resources = Json::MakeArray();
  ASSIGN_OR_RETURN(const auto pairs, SplitPairs(text.substr(brace + 1, text.size() - brace - 2)));
  for (const auto& [resource, amount] : pairs) {
    covered.Append(resource);
    ASSIGN_OR_RETURN(Json quota, Quota(resource, amount));
    resources.Append(std::move(quota));
  }
  Json flavor =
      Json::MakeObject({{"name", text.substr(0, brace)}, {"resources", std::move(resources)}});
  Json& groups = spec["resourceGroups"];
  if (!groups.AsArray().empty()) {
    Json& last = groups.MutableArray().back();
    if (*last.Find("coveredResources") == covered) {
      last["flavors"].Append(std::move(flavor));
      return absl::OkStatus();
    }
  }
  groups.Append(Json::MakeObject({{"coveredResources", std::move(covered)},
                                  {"flavors", Json::MakeArray({std::move(flavor)})}}));
  return absl::OkStatus();
}

absl::StatusOr<bool> QuotaWord(const ScenarioWord& word, Json& spec) {
  if (word.key == "flavor") {
    RETURN_IF_ERROR(AddFlavorQuota(word.value, spec));
  } else if (word.key == "weight") {
    spec["fairSharing"].Set("weight", word.value);
  } else {
    return false;
  }
  return true;
}

absl::StatusOr<bool> PolicyWord(const ScenarioWord& word, Json& spec) {
  if (word.key == "within") {
    spec["preemption"].Set("withinClusterQueue", word.value);
  } else if (word.key == "reclaim") {
    spec["preemption"].Set("reclaimWithinCohort", word.value);
  } else if (word.key == "borrowwithin") {
    RETURN_IF_ERROR(BorrowWithin(word.value, spec["preemption"]));
  } else if (word.key == "fungibility") {
    RETURN_IF_ERROR(Fungibility(word.value, spec));
  } else {
    return false;
  }
  return true;
}

}  // namespace sluice::sim
