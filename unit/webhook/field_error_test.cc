#include "webhook/field_error.h"

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

TEST_CASE("a path joins members by dots and keys by brackets") {
  const Path path = Path("spec").Child("podSets").Index(3).Child("template", "spec");
  CHECK(path.text() == "spec.podSets[3].template.spec");
  CHECK(Path("metadata").Child("labels").Key("a.io/b").text() == "metadata.labels[a.io/b]");
  CHECK(Path("spec").Child("podSets").Child("0").text() == "spec.podSets.0");
}

TEST_CASE("the text of a field error") {
  struct Row {
    std::string name;
    FieldError error;
    std::string text;
  };
  const Path path("spec.a");
  const Row row = GENERATE_COPY(values<Row>({
      {"invalid text", FieldError::Invalid(path, "x", "no"), R"(spec.a: Invalid value: "x": no)"},
      {"invalid number", FieldError::Invalid(path, int64_t{-5}, "no"),
       "spec.a: Invalid value: -5: no"},
      {"invalid object", FieldError::Invalid(path, J("{'b': [1]}"), "no"),
       R"(spec.a: Invalid value: {"b":[1]}: no)"},
      {"duplicate", FieldError::Duplicate(path, "x"), R"(spec.a: Duplicate value: "x")"},
      {"unsupported", FieldError::NotSupported(path, "x", {"a", "b"}),
       R"(spec.a: Unsupported value: "x": supported values: "a", "b")"},
      {"unsupported, nothing is", FieldError::NotSupported(path, "x", {}),
       R"(spec.a: Unsupported value: "x")"},
      {"required", FieldError::Required(path, ""), "spec.a: Required value"},
      {"required with reason", FieldError::Required(path, "why"), "spec.a: Required value: why"},
      {"forbidden", FieldError::Forbidden(path, "why"), "spec.a: Forbidden: why"},
      {"not found", FieldError::NotFound(path, "x"), R"(spec.a: Not found: "x")"},
      {"too long", FieldError::TooLong(path, 63),
       "spec.a: Too long: may not be more than 63 bytes"},
      {"too long for one", FieldError::TooLong(path, 1),
       "spec.a: Too long: may not be more than 1 byte"},
  }));
  DYNAMIC_SECTION(row.name) { CHECK(row.error.Text() == row.text); }
}

TEST_CASE("several errors stand in brackets, each text once") {
  const FieldError a = FieldError::Required(Path("a"), "");
  const FieldError b = FieldError::Required(Path("b"), "");
  CHECK(Describe({a}) == "a: Required value");
  CHECK(Describe({a, b}) == "[a: Required value, b: Required value]");
  CHECK(Describe({a, b, a}) == "[a: Required value, b: Required value]");
  CHECK(Describe({a, a}) == "a: Required value");
}

TEST_CASE("shown text is quoted as Go quotes it") {
  CHECK(Quote("plain") == R"("plain")");
  CHECK(Quote("a\"b\\c\n\t") == R"("a\"b\\c\n\t")");
  CHECK(Quote(std::string("\x01\x7f", 2)) == R"("\x01\x7f")");
  CHECK(Quote("gr\xC3\xBC\xC3\x9F") == "\"gr\xC3\xBC\xC3\x9F\"");
  CHECK(Quote("\xC3(") == R"("\xc3(")");
  CHECK(Quote("\xED\xA0\x80") == R"("\xed\xa0\x80")");
}

TEST_CASE("a huge value is cut") {
  const api::Json big = api::Json::MakeObject({{"a", std::string(2000, 'x')}});
  const ShownValue shown(big);
  CHECK(shown.text().size() < 600);
  CHECK(shown.text().substr(shown.text().size() - 3) == "...");
}

}  // namespace
}  // namespace sluice::webhook
