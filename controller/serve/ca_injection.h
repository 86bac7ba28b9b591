// Which objects must carry our CA bundle, and the patches that put it there.
//
// Pure. The API server trusts a webhook through clientConfig.caBundle (base64 of PEM) of webhook
// configurations and of a CRD's conversion
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/json.h"

namespace sluice::serve {

// An object that carries the bundle.
struct InjectionTarget {
  enum class Kind {
    kMutatingWebhookConfiguration,
    kValidatingWebhookConfiguration,
    kCustomResourceDefinition,
  };
  Kind kind;
  std::string name;
  bool operator==(const InjectionTarget&) const = default;
};

// Path of the target's kind in the API: "/apis/admissionregistration.k8s.io/v1/...".
std::string CollectionPath(InjectionTarget::Kind kind);

// The two webhook configurations "<base>-mutating-webhook-configuration" and
// "<base>-validating-...", base being the service's name without "-webhook-service", and the named
// CRDs.
std::vector<InjectionTarget> InjectionTargets(const std::string& webhook_service_name,
                                              const std::vector<std::string>& crd_names);

// The JSON patch (RFC 6902) that makes every webhook of the configuration, or the webhook
// conversion of the CRD, carry the bundle; nothing when all do already or when there is none to
// set. Each write to a webhook is preceded by a test of its name, so a list that was reordered in
// between makes the patch fail instead of hitting the wrong entry.
std::optional<api::Json> CaInjectionPatch(const api::Json& object,
                                          const std::string& ca_bundle_pem);

}  // namespace sluice::serve
