#include "serve/ca_injection.h"

#include <absl/strings/escaping.h>
#include <fmt/format.h>

#include "base/check.h"

namespace sluice::serve {
namespace {

using api::Json;

Json Operation(const char* op, const std::string& path, Json value) {
  return Json::MakeObject({{"op", op}, {"path", path}, {"value", std::move(value)}});
}

void PatchWebhooks(const Json& configuration, const std::string& bundle, Json& patch) {
  const Json* webhooks = configuration.Find("webhooks");
  if (webhooks == nullptr) return;
  size_t index = 0;
  for (const Json& webhook : webhooks->AsArray()) {
    const std::string path = fmt::format("/webhooks/{}", index++);
    const Json* client_config = webhook.Find("clientConfig");
    if (client_config == nullptr || client_config->GetString("caBundle") == bundle) continue;
    patch.Append(Operation("test", path + "/name", webhook.GetString("name")));
    patch.Append(Operation("add", path + "/clientConfig/caBundle", bundle));
  }
}

void PatchConversion(const Json& crd, const std::string& bundle, Json& patch) {
  const Json* conversion = crd.Find("spec", "conversion");
  if (conversion == nullptr || conversion->GetString("strategy") != "Webhook") return;
  const Json* client_config = conversion->Find("webhook", "clientConfig");
  if (client_config == nullptr || client_config->GetString("caBundle") == bundle) return;
  patch.Append(Operation("add", "/spec/conversion/webhook/clientConfig/caBundle", bundle));
}

}  // namespace

std::string CollectionPath(InjectionTarget::Kind kind) {
  switch (kind) {
    case InjectionTarget::Kind::kMutatingWebhookConfiguration:
      return "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    case InjectionTarget::Kind::kValidatingWebhookConfiguration:
      return "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    case InjectionTarget::Kind::kCustomResourceDefinition:
      return "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
  }
  base::CheckFailed(__FILE__, __LINE__, "kind", "unknown injection target");
}

std::vector<InjectionTarget> InjectionTargets(const std::string& webhook_service_name,
                                              const std::vector<std::string>& crd_names) {
  using Kind = InjectionTarget::Kind;
  constexpr std::string_view kSuffix = "-webhook-service";
  std::string base = webhook_service_name;
  if (base.ends_with(kSuffix)) base.resize(base.size() - kSuffix.size());

  std::vector<InjectionTarget> targets = {
      {Kind::kMutatingWebhookConfiguration, base + "-mutating-webhook-configuration"},
      {Kind::kValidatingWebhookConfiguration, base + "-validating-webhook-configuration"}};
  for (const std::string& name : crd_names) {
    targets.push_back({Kind::kCustomResourceDefinition, name});
  }
  return targets;
}

std::optional<Json> CaInjectionPatch(const Json& object, const std::string& ca_bundle_pem) {
  const std::string bundle = absl::Base64Escape(ca_bundle_pem);
  Json patch = Json::MakeArray();
  if (object.GetString("kind") == "CustomResourceDefinition") {
    PatchConversion(object, bundle, patch);
  } else {
    PatchWebhooks(object, bundle, patch);
  }
  if (patch.AsArray().empty()) return std::nullopt;
  return patch;
}

}  // namespace sluice::serve
