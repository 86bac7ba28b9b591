#include "serve/ca_injection.h"

#include "unit/catch.h"

namespace sluice::serve {
namespace {

using api::Json;

Json Parse(const char* text) { return *api::ParseJson(text); }

constexpr char kBundle[] = "PEM";
constexpr char kEncoded[] = "UEVN";

TEST_CASE("every webhook of a configuration gets the bundle") {
  const Json configuration = Parse(R"({"kind":"ValidatingWebhookConfiguration","webhooks":[
    {"name":"a.kb.io","clientConfig":{"service":{"name":"s"}}},
    {"name":"b.kb.io","clientConfig":{"url":"https://127.0.0.1","caBundle":"UEVN"}},
    {"name":"c.kb.io","clientConfig":{"service":{"name":"s"},"caBundle":"b2xk"}}]})");
  const auto patch = CaInjectionPatch(configuration, kBundle);
  REQUIRE(patch.has_value());
  CHECK(patch->Text() ==
        R"([{"op":"test","path":"/webhooks/0/name","value":"a.kb.io"},)"
        R"({"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"UEVN"},)"
        R"({"op":"test","path":"/webhooks/2/name","value":"c.kb.io"},)"
        R"({"op":"add","path":"/webhooks/2/clientConfig/caBundle","value":"UEVN"}])");

  const auto patched = api::ApplyJsonPatch(configuration, *patch);
  REQUIRE(patched.ok());
  for (const Json& webhook : patched->Find("webhooks")->AsArray()) {
    CHECK(webhook.GetString("clientConfig", "caBundle") == kEncoded);
  }
  CHECK_FALSE(CaInjectionPatch(*patched, kBundle).has_value());
}

TEST_CASE("a CRD gets the bundle only for webhook conversion") {
  const Json crd = Parse(R"({"kind":"CustomResourceDefinition","spec":{"conversion":
    {"strategy":"Webhook","webhook":{"clientConfig":{"service":{"name":"s"}}}}}})");
  const auto patch = CaInjectionPatch(crd, kBundle);
  REQUIRE(patch.has_value());
  const auto patched = api::ApplyJsonPatch(crd, *patch);
  REQUIRE(patched.ok());
  CHECK(patched->GetString("spec", "conversion", "webhook", "clientConfig", "caBundle") ==
        kEncoded);
  CHECK_FALSE(CaInjectionPatch(*patched, kBundle).has_value());

  CHECK_FALSE(CaInjectionPatch(Parse(R"({"kind":"CustomResourceDefinition","spec":{"conversion":
    {"strategy":"None"}}})"),
                               kBundle)
                  .has_value());
  CHECK_FALSE(CaInjectionPatch(Parse(R"({"kind":"CustomResourceDefinition","spec":{}})"), kBundle)
                  .has_value());
  CHECK_FALSE(
      CaInjectionPatch(Parse(R"({"kind":"MutatingWebhookConfiguration"})"), kBundle).has_value());
}

TEST_CASE("targets follow the name of the service") {
  using Kind = InjectionTarget::Kind;
  CHECK(InjectionTargets("test-sluice-webhook-service", {"workloads.kueue.x-k8s.io"}) ==
        std::vector<InjectionTarget>{
            {Kind::kMutatingWebhookConfiguration, "test-sluice-mutating-webhook-configuration"},
            {Kind::kValidatingWebhookConfiguration, "test-sluice-validating-webhook-configuration"},
            {Kind::kCustomResourceDefinition, "workloads.kueue.x-k8s.io"}});
  CHECK(InjectionTargets("kueue-service", {})[1].name ==
        "kueue-service-validating-webhook-configuration");
  CHECK(CollectionPath(Kind::kCustomResourceDefinition) ==
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
}

}  // namespace
}  // namespace sluice::serve
