#include "api/meta_types.h"

#include <string>

#include "unit/catch.h"

namespace sluice::api {
namespace {

const absl::Time kEarly = absl::FromUnixSeconds(1000);
const absl::Time kLate = absl::FromUnixSeconds(2000);

Condition Make(const std::string& type, ConditionStatus status, const std::string& reason = "R") {
  Condition condition;
  condition.type = type;
  condition.status = status;
  condition.reason = reason;
  return condition;
}

TEST_CASE("A new condition gets the time of now") {
  Conditions conditions;
  CHECK(SetCondition(conditions, Make("A", ConditionStatus::kTrue), kEarly));
  REQUIRE(conditions.size() == 1);
  CHECK(conditions[0].last_transition_time == kEarly);
  CHECK(IsTrue(conditions, "A"));
  CHECK_FALSE(IsFalse(conditions, "A"));
  CHECK_FALSE(IsTrue(conditions, "B"));
  CHECK_FALSE(IsFalse(conditions, "B"));
}

TEST_CASE("The transition time moves with the status only") {
  Conditions conditions;
  SetCondition(conditions, Make("A", ConditionStatus::kTrue), kEarly);
  SECTION("nothing changed") {
    CHECK_FALSE(SetCondition(conditions, Make("A", ConditionStatus::kTrue), kLate));
    CHECK(conditions[0].last_transition_time == kEarly);
  }
  SECTION("another reason") {
    CHECK(SetCondition(conditions, Make("A", ConditionStatus::kTrue, "Other"), kLate));
    CHECK(conditions[0].reason == "Other");
    CHECK(conditions[0].last_transition_time == kEarly);
  }
  SECTION("another generation") {
    Condition next = Make("A", ConditionStatus::kTrue);
    next.observed_generation = 3;
    CHECK(SetCondition(conditions, next, kLate));
    CHECK(conditions[0].observed_generation == 3);
    CHECK(conditions[0].last_transition_time == kEarly);
  }
  SECTION("another message") {
    Condition next = Make("A", ConditionStatus::kTrue);
    next.message = "m";
    CHECK(SetCondition(conditions, next, kLate));
    CHECK(conditions[0].message == "m");
  }
  SECTION("another status") {
    CHECK(SetCondition(conditions, Make("A", ConditionStatus::kFalse), kLate));
    CHECK(conditions[0].last_transition_time == kLate);
    CHECK(IsFalse(conditions, "A"));
  }
  SECTION("another status with a time of its own") {
    Condition next = Make("A", ConditionStatus::kUnknown);
    next.last_transition_time = absl::FromUnixSeconds(1500);
    CHECK(SetCondition(conditions, next, kLate));
    CHECK(conditions[0].last_transition_time == absl::FromUnixSeconds(1500));
    CHECK_FALSE(IsTrue(conditions, "A"));
    CHECK_FALSE(IsFalse(conditions, "A"));
  }
  SECTION("the place in the list stays") {
    SetCondition(conditions, Make("B", ConditionStatus::kTrue), kEarly);
    SetCondition(conditions, Make("A", ConditionStatus::kFalse), kLate);
    CHECK(conditions[0].type == "A");
    CHECK(conditions.size() == 2);
  }
  CHECK(RemoveCondition(conditions, "A"));
  CHECK_FALSE(RemoveCondition(conditions, "A"));
  CHECK(FindCondition(conditions, "A") == nullptr);
}

TEST_CASE("Messages are cut to the limit with a mark") {
  CHECK(TruncateMessage("abcdefghij", 10) == "abcdefghij");
  CHECK(TruncateMessage("abcdefghijk", 10) == "abcdef ...");
  CHECK(TruncateMessage("abcdef", 3) == " ..");
  CHECK(TruncateMessage("", 0).empty());
  const std::string accents = "aaaaa\xc3\xa9" + std::string(10, 'b');
  CHECK(TruncateMessage(accents, 10) == "aaaaa ...");  // not through the middle of a character
  Conditions conditions;
  Condition condition = Make("A", ConditionStatus::kTrue);
  condition.message = std::string(40000, 'x');
  SetCondition(conditions, condition, kEarly);
  CHECK(conditions[0].message == std::string(32764, 'x') + " ...");
  CHECK_FALSE(SetCondition(conditions, condition, kLate));  // cut again, the same
}

struct SelectorRow {
  const char* name;
  LabelSelector selector;
  bool matches;
};

TEST_CASE("Selectors match labels") {
  const StringMap labels = {{"team", "a"}, {"tier", "gold"}};
  const auto row = GENERATE(values<SelectorRow>({
      {"empty", {}, true},
      {"label", {{{"team", "a"}}, {}}, true},
      {"other value", {{{"team", "b"}}, {}}, false},
      {"absent label", {{{"x", ""}}, {}}, false},
      {"in", {{}, {{"team", "In", {"b", "a"}}}}, true},
      {"in, absent", {{}, {{"x", "In", {"a"}}}}, false},
      {"in nothing", {{}, {{"team", "In", {}}}}, false},
      {"not in", {{}, {{"team", "NotIn", {"b"}}}}, true},
      {"not in, absent", {{}, {{"x", "NotIn", {"b"}}}}, true},
      {"not in, listed", {{}, {{"team", "NotIn", {"a"}}}}, false},
      {"exists", {{}, {{"tier", "Exists", {}}}}, true},
      {"exists, absent", {{}, {{"x", "Exists", {}}}}, false},
      {"does not exist", {{}, {{"x", "DoesNotExist", {}}}}, true},
      {"does not exist, present", {{}, {{"tier", "DoesNotExist", {}}}}, false},
      {"all must match", {{{"team", "a"}}, {{"tier", "In", {"silver"}}}}, false},
      {"unknown operator", {{}, {{"team", "Near", {"a"}}}}, false},
  }));
  DYNAMIC_SECTION(row.name) { CHECK(row.selector.Matches(labels) == row.matches); }
}

TEST_CASE("Metadata answers about owners, finalizers and labels") {
  ObjectMeta meta;
  CHECK(meta.Controller() == nullptr);
  meta.owner_references.resize(2);
  meta.owner_references[1].controller = true;
  meta.owner_references[1].name = "owner";
  REQUIRE(meta.Controller() != nullptr);
  CHECK(meta.Controller()->name == "owner");
  meta.finalizers = {"f"};
  CHECK(meta.HasFinalizer("f"));
  CHECK_FALSE(meta.HasFinalizer("g"));
  meta.labels["a"] = "b";
  meta.annotations["c"] = "d";
  CHECK(meta.Label("a") == "b");
  CHECK(meta.Label("c").empty());
  CHECK(meta.Annotation("c") == "d");
  CHECK_FALSE(meta.Deleting());
}

}  // namespace
}  // namespace sluice::api
