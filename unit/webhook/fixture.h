// Helpers of the webhook tests: JSON in single quotes, base objects with small changes, and errors
// in the short form "path: kind of error".
#pragma once

#include <absl/container/btree_map.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "unit/catch.h"
#include "webhook/rules.h"
#include "webhook/view.h"

namespace sluice::webhook {

// JSON that may use ' for ".
inline api::Json J(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  absl::StatusOr<api::Json> json = api::ParseJson(text);
  INFO(text);
  REQUIRE(json.ok());
  return *json;
}

// A base object changed by a merge patch.
inline api::Json With(const api::Json& base, const std::string& patch) {
  return api::MergePatch(base, J(patch));
}

inline std::vector<std::string> Short(const FieldErrors& errors) {
  std::vector<std::string> texts;
  for (const FieldError& error : errors) {
    texts.push_back(error.field + ": " + std::string(TypeText(error.type)));
  }
  return texts;
}

struct TestView {
  state::Settings settings;
  NamespaceViews namespaces;
  View view;

  explicit TestView(const absl::btree_map<std::string, bool>& gates = {}) {
    absl::StatusOr<state::FeatureGates> made = state::FeatureGates::Make(gates);
    INFO(made.status().message());
    REQUIRE(made.ok());
    settings.gates = *made;
    view.settings = &settings;
  }
  TestView(const TestView&) = delete;
  TestView& operator=(const TestView&) = delete;

  TestView& AddNamespace(const std::string& name, bool default_queue) {
    namespaces[name] = {{{"kubernetes.io/metadata.name", name}}, default_queue};
    view.namespaces = std::make_shared<NamespaceViews>(namespaces);
    return *this;
  }
};

using Validate = absl::StatusOr<FieldErrors> (*)(const Request&, const View&);

// The errors of a validation; no old object means creation.
inline FieldErrors Errors(Validate validate, const api::Json& object,
                          const std::optional<api::Json>& old_object, const View& view,
                          std::vector<std::string>* warnings = nullptr) {
  std::vector<std::string> ignored;
  Request request;
  request.operation = old_object ? "UPDATE" : "CREATE";
  request.ns = object.GetString("metadata", "namespace");
  request.object = &object;
  request.old_object = old_object ? &*old_object : nullptr;
  request.warnings = warnings == nullptr ? &ignored : warnings;
  const absl::StatusOr<FieldErrors> errors = validate(request, view);
  INFO(errors.status().message());
  REQUIRE(errors.ok());
  return *errors;
}

inline std::vector<std::string> ShortErrors(Validate validate, const api::Json& object,
                                            const std::optional<api::Json>& old_object = {}) {
  const TestView test;
  return Short(Errors(validate, object, old_object, test.view));
}

using List = std::vector<std::string>;

}  // namespace sluice::webhook
