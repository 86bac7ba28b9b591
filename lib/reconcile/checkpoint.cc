#include "reconcile/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/time.h"
#include "preemption/checkpoint.h"
#include "queueing/backfill.h"

namespace sluice::reconcile {
namespace {

using api::Json;

const std::string* Find(const api::StringMap& annotations, const std::string& name) {
  const auto found = annotations.find(name);
  return found == annotations.end() ? nullptr : &found->second;
}

// InfinitePast for what is no time.
absl::Time TimeOf(const std::string* text) {
  if (text == nullptr) return absl::InfinitePast();
  const absl::StatusOr<absl::Time> time = ParseTime(*text);
  return time.ok() ? *time : absl::InfinitePast();
}

std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> names;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    names.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

constexpr char kBetween[] = "; ";

std::string IgnoredText(const DeclaredCheckpoints& declared) {
  std::string text;
  for (const IgnoredAnnotation& one : declared.problems) {
    text += (text.empty() ? "" : kBetween) + one.text;
  }
  return text;
}

std::string NamesOf(const api::StringMap& annotations) {
  std::string names;
  for (const auto& [name, value] : annotations) names += (names.empty() ? "" : ",") + name;
  return names;
}

}  // namespace

void DeclaredCheckpoints::Add(const api::StringMap& from, const std::string& place,
                              absl::Time now) {
  const auto ignore = [&](const std::string& name, const std::string& value,
                          const std::string& problem) {
    problems.push_back(
        {name == queueing::kExpectedRuntime ? kInvalidExpectedRuntime : kInvalidCheckpoint,
         fmt::format("{} {}: \"{}\" is ignored, it {}", place, name,
                     api::TruncateMessage(value, 64), problem)});
  };
  if (const std::string* value = Find(from, queueing::kExpectedRuntime)) {
    if (const auto problem = queueing::BackfillProblem(queueing::kExpectedRuntime, *value)) {
      ignore(queueing::kExpectedRuntime, *value, *problem);
    } else {
      annotations.emplace(queueing::kExpectedRuntime, *value);
    }
  }
  for (const std::string& name : preemption::CheckpointAnnotations()) {
    const std::string* value = Find(from, name);
    if (value == nullptr) continue;
    if (const auto problem = preemption::CheckpointProblem(name, *value)) {
      ignore(name, *value, *problem);
      continue;
    }
    if (name != preemption::kLastCheckpoint) {
      annotations.emplace(name, *value);
      continue;
    }
    const absl::Time time = TimeOf(value);
    if (time > now) {
      problems.push_back(
          {kInvalidCheckpoint,
           fmt::format("{} {}: \"{}\" is in the future and is ignored", place, name, *value)});
      look_again = std::min(look_again, time);
    } else if (time > TimeOf(Find(annotations, name))) {
      annotations[name] = *value;
    }
  }
}

std::optional<Json> CheckpointPatch(const api::Workload& workload,
                                    const DeclaredCheckpoints& declared) {
  const api::StringMap& has = workload.metadata.annotations;
  api::StringMap wanted = declared.annotations;
  // Pods go and take their annotations with them; what was reported stays true.
  const auto last = wanted.find(preemption::kLastCheckpoint);
  const bool older = last != wanted.end() &&
                     TimeOf(&last->second) <= TimeOf(Find(has, preemption::kLastCheckpoint));
  if (older) wanted.erase(last);
  Json changes = Json::MakeObject();
  for (const auto& [name, value] : wanted) {
    const std::string* now = Find(has, name);
    if (now == nullptr || *now != value) changes.Set(name, value);
  }
  const std::string* copied = Find(has, kCopiedAnnotations);
  for (const std::string& name : Split(copied == nullptr ? "" : *copied)) {
    if (name != preemption::kLastCheckpoint && !wanted.contains(name) &&
        Find(has, name) != nullptr) {
      changes.Set(name, Json());
    }
  }
  wanted.erase(preemption::kLastCheckpoint);
  const std::string names = NamesOf(wanted);
  if (names != (copied == nullptr ? "" : *copied)) {
    changes.Set(kCopiedAnnotations, names.empty() ? Json() : Json(names));
  }
  const std::string ignored = IgnoredText(declared);
  const std::string* told = Find(has, kIgnoredAnnotations);
  if (ignored != (told == nullptr ? "" : *told)) {
    changes.Set(kIgnoredAnnotations, ignored.empty() ? Json() : Json(ignored));
  }
  if (changes.AsObject().empty()) return std::nullopt;
  Json body = Json::MakeObject();
  body["metadata"].Set("annotations", std::move(changes));
  return body;
}

Write* PlanCheckpoints(const api::Workload& workload, const DeclaredCheckpoints& declared,
                       Plan& plan) {
  auto patch = CheckpointPatch(workload, declared);
  if (!patch) return nullptr;
  return &plan.Add(MergePatchAction(api::Kind::kWorkload, workload.metadata.Key(), "",
                                    *std::move(patch), workload.metadata.resource_version));
}

std::vector<IgnoredAnnotation> NewProblems(const api::Workload& workload,
                                           const DeclaredCheckpoints& declared) {
  const std::string* told = Find(workload.metadata.annotations, kIgnoredAnnotations);
  std::vector<IgnoredAnnotation> problems = declared.problems;
  if (told == nullptr) return problems;
  const std::string all = kBetween + *told + kBetween;
  std::erase_if(problems, [&](const IgnoredAnnotation& one) {
    return all.find(kBetween + one.text + kBetween) != std::string::npos;
  });
  return problems;
}

void SetCheckpoints(Json& body, const DeclaredCheckpoints& declared) {
  if (declared.annotations.empty()) return;
  Json& annotations = body["metadata"]["annotations"];
  for (const auto& [name, value] : declared.annotations) annotations.Set(name, value);
  api::StringMap copied = declared.annotations;
  copied.erase(preemption::kLastCheckpoint);
  if (!copied.empty()) annotations.Set(kCopiedAnnotations, NamesOf(copied));
}

std::string CheckpointRequestTime(const api::Workload& workload) {
  const api::Conditions& conditions = workload.status.conditions;
  const api::Condition* asked = api::FindCondition(conditions, preemption::kCheckpointRequested);
  const bool open = asked != nullptr && asked->status == api::ConditionStatus::kTrue &&
                    asked->last_transition_time.has_value();
  return open ? sluice::FormatTime(*asked->last_transition_time) : "";
}

std::optional<Json> CheckpointRequestPatch(const api::StringMap& annotations,
                                           const std::string& wanted) {
  const std::string* now = Find(annotations, preemption::kCheckpointRequestedAt);
  if (wanted == (now == nullptr ? "" : *now)) return std::nullopt;
  Json body = Json::MakeObject();
  body["metadata"]["annotations"].Set(preemption::kCheckpointRequestedAt,
                                      wanted.empty() ? Json() : Json(wanted));
  return body;
}

}  // namespace sluice::reconcile
