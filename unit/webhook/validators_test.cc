#include "webhook/validators.h"

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const std::string k63(63, 'a');
const std::string k64(64, 'a');

TEST_CASE("qualified names") {
  for (const std::string& good : {std::string("cpu"), std::string("a.B_c-9"),
                                  std::string("nvidia.com/gpu"), k63, "example.com/" + k63}) {
    INFO(good);
    CHECK(QualifiedNameProblems(good).empty());
  }
  for (const std::string& bad :
       {std::string(), std::string("@cpu"), std::string("-a"), std::string("a-"),
        std::string("a/b/c"), std::string("/a"), std::string("a/"), std::string("A.com/x"), k64,
        std::string(254, 'a') + "/b", std::string("a b")}) {
    INFO(bad);
    CHECK_FALSE(QualifiedNameProblems(bad).empty());
  }
}

TEST_CASE("label values, DNS labels and subdomains") {
  CHECK(LabelValueProblems("").empty());
  CHECK(LabelValueProblems("A_b.c-1").empty());
  CHECK(LabelValueProblems(k64).size() == 1);
  CHECK(LabelValueProblems("a/b").size() == 1);
  CHECK(LabelValueProblems("-1").size() == 1);
  CHECK(DnsLabelProblems("a-1").empty());
  CHECK_FALSE(DnsLabelProblems("a.b").empty());
  CHECK_FALSE(DnsLabelProblems(k64).empty());
  CHECK(DnsSubdomainProblems("a.b-c.1").empty());
  CHECK_FALSE(DnsSubdomainProblems("a..b").empty());
  CHECK_FALSE(DnsSubdomainProblems("A").empty());
  CHECK_FALSE(DnsSubdomainProblems("").empty());
  CHECK_FALSE(DnsSubdomainProblems(std::string(254, 'a')).empty());
  CHECK(DnsSubdomainProblems(std::string(253, 'a')).empty());
}

TEST_CASE("annotation keys ignore case and the total size is limited") {
  FieldErrors errors;
  CheckAnnotations(Path("a"), {{"Example.COM/Key", "any thing at all"}}, &errors);
  CHECK(errors.empty());
  CheckAnnotations(Path("a"), {{"bad key", ""}}, &errors);
  CHECK(Short(errors) == List{"a: Invalid value"});
  errors.clear();
  CheckAnnotations(Path("a"), {{"k", std::string(256 * 1024, 'x')}}, &errors);
  CHECK(Short(errors) == List{"a: Too long"});
}

TEST_CASE("label selectors") {
  struct Row {
    std::string name;
    api::LabelSelectorRequirement requirement;
    List errors;
  };
  const Row row = GENERATE(values<Row>({
      {"In with values", {"k", "In", {"a"}}, {}},
      {"Exists without values", {"k", "Exists", {}}, {}},
      {"In without values", {"k", "In", {}}, {"s.matchExpressions[0].values: Required value"}},
      {"NotIn without values",
       {"k", "NotIn", {}},
       {"s.matchExpressions[0].values: Required value"}},
      {"Exists with values", {"k", "Exists", {"a"}}, {"s.matchExpressions[0].values: Forbidden"}},
      {"DoesNotExist with values",
       {"k", "DoesNotExist", {"a"}},
       {"s.matchExpressions[0].values: Forbidden"}},
      {"unknown operator", {"k", "Gt", {"1"}}, {"s.matchExpressions[0].operator: Invalid value"}},
      {"bad key", {"k k", "Exists", {}}, {"s.matchExpressions[0].key: Invalid value"}},
      {"bad value", {"k", "In", {"a", "b b"}}, {"s.matchExpressions[0].values[1]: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    FieldErrors errors;
    CheckLabelSelector(Path("s"), {{}, {row.requirement}}, &errors);
    CHECK(Short(errors) == row.errors);
  }
}

TEST_CASE("matchLabels report at the map") {
  FieldErrors errors;
  CheckLabelSelector(Path("s"), {{{"a b", "c d"}}, {}}, &errors);
  CHECK(Short(errors) == List{"s.matchLabels: Invalid value", "s.matchLabels: Invalid value"});
}

api::Condition GoodCondition() {
  return {"Ready", api::ConditionStatus::kTrue, "Because", "", 0, absl::UnixEpoch()};
}

TEST_CASE("conditions") {
  struct Row {
    std::string name;
    void (*change)(api::Condition*);
    List errors;
  };
  const Row row = GENERATE(values<Row>({
      {"good", [](api::Condition*) {}, {}},
      {"reason with commas", [](api::Condition* c) { c->reason = "A,b:c_"; }, {}},
      {"no type", [](api::Condition* c) { c->type = ""; }, {"c[0].type: Required value"}},
      {"bad type", [](api::Condition* c) { c->type = "a b"; }, {"c[0].type: Invalid value"}},
      {"no reason", [](api::Condition* c) { c->reason = ""; }, {"c[0].reason: Required value"}},
      {"reason starts with a digit",
       [](api::Condition* c) { c->reason = "1a"; },
       {"c[0].reason: Invalid value"}},
      {"reason ends with a comma",
       [](api::Condition* c) { c->reason = "a,"; },
       {"c[0].reason: Invalid value"}},
      {"reason too long",
       [](api::Condition* c) { c->reason = std::string(1025, 'a'); },
       {"c[0].reason: Too long"}},
      {"message too long",
       [](api::Condition* c) { c->message = std::string(32769, 'a'); },
       {"c[0].message: Too long"}},
      {"no time",
       [](api::Condition* c) { c->last_transition_time.reset(); },
       {"c[0].lastTransitionTime: Required value"}},
      {"negative generation",
       [](api::Condition* c) { c->observed_generation = -1; },
       {"c[0].observedGeneration: Invalid value"}},
  }));
  DYNAMIC_SECTION(row.name) {
    api::Condition condition = GoodCondition();
    row.change(&condition);
    FieldErrors errors;
    CheckConditions(Path("c"), {condition}, &errors);
    CHECK(Short(errors) == row.errors);
  }
  SECTION("a type occurs twice") {
    FieldErrors errors;
    CheckConditions(Path("c"), {GoodCondition(), GoodCondition()}, &errors);
    CHECK(Short(errors) == List{"c[1]: Duplicate value"});
  }
}

TEST_CASE("admission-gated-by") {
  struct Row {
    std::string name;
    std::optional<std::string> before;  // no value: the annotation is absent
    bool update;
    std::optional<std::string> after;
    List types;
  };
  const std::string long_gate = "a.io/" + std::string(59, 'x');
  const Row row = GENERATE_COPY(values<Row>({
      {"absent", {}, false, {}, {}},
      {"empty", {}, false, "", {}},
      {"one", {}, false, "a.io/b", {}},
      {"spaces around names", {}, false, " a.io/b , c.io/d ", {}},
      {"nothing but spaces", {}, false, "  ", {}},
      {"no domain", {}, false, "gate", {"Invalid value"}},
      {"empty name", {}, false, "a/b,,c/d", {"Invalid value"}},
      {"repeated", {}, false, "a/b,a/b", {"Duplicate value"}},
      {"domain in capitals", {}, false, "A.io/b", {"Invalid value"}},
      {"path with a space", {}, false, "a.io/b c", {"Invalid value"}},
      {"longer than 63", {}, false, long_gate, {"Too long"}},
      {"63 characters", {}, false, long_gate.substr(0, 63), {}},
      {"set at update", {}, true, "a/b", {"Forbidden"}},
      {"set at update from empty", "", true, "a/b", {"Forbidden"}},
      {"removed", "a/b", true, {}, {}},
      {"emptied", "a/b", true, "", {}},
      {"one of two removed", "a/b,c/d", true, "c/d", {}},
      {"reordered", "a/b,c/d", true, "c/d,a/b", {}},
      {"another one", "a/b", true, "a/b,c/d", {"Forbidden"}},
      {"malformed at update", "a/b", true, "a/b,", {"Invalid value", "Forbidden"}},
      {"unchanged", "a/b", true, "a/b", {}},
  }));
  DYNAMIC_SECTION(row.name) {
    api::ObjectMeta now;
    api::ObjectMeta before;
    const std::string key = "kueue.x-k8s.io/admission-gated-by";
    if (row.after) now.annotations[key] = *row.after;
    if (row.before) before.annotations[key] = *row.before;
    FieldErrors errors;
    CheckAdmissionGatedBy(now, row.update ? &before : nullptr, &errors);
    List expected;
    for (const std::string& type : row.types) {
      expected.push_back("metadata.annotations[" + key + "]: " + type);
    }
    CHECK(Short(errors) == expected);
  }
}

TEST_CASE("numbers and booleans in annotations") {
  CHECK(ParseInt64("0") == 0);
  CHECK(ParseInt64("-7") == -7);
  CHECK(ParseInt64("+7") == 7);
  CHECK(ParseInt64("9223372036854775807") == INT64_MAX);
  for (const char* bad : {"", "+", "-", "+-1", "1.0", " 1", "1 ", "0x1", "9223372036854775808"}) {
    INFO(bad);
    CHECK_FALSE(ParseInt64(bad).has_value());
  }
  CHECK(ParseInt32("2147483647") == INT32_MAX);
  CHECK_FALSE(ParseInt32("2147483648").has_value());
  CHECK(ParseBool("T") == true);
  CHECK(ParseBool("false") == false);
  CHECK_FALSE(ParseBool("yes").has_value());
}

}  // namespace
}  // namespace sluice::webhook
