#include "certificate_keeper.h"

#include <absl/strings/escaping.h>

#include <utility>

#include "base/status.h"
#include "serve/ca_injection.h"

namespace sluice {
namespace {

using api::Json;

class KubeSecretStore : public serve::SecretStore {
 public:
  KubeSecretStore(kube::Client client, ObjectKey key) : client_(client), key_(std::move(key)) {}

  absl::StatusOr<serve::SecretData> Get() override {
    ASSIGN_OR_RETURN(const Json object, client_.Get(api::Kind::kSecret, key_));
    return Decode(object);
  }
  absl::StatusOr<serve::SecretData> Create(const serve::SecretData& secret) override {
    Json object = Json::MakeObject({{"apiVersion", "v1"}, {"kind", "Secret"}, {"type", "Opaque"}});
    object["metadata"] = Json::MakeObject({{"name", key_.name}, {"namespace", key_.ns}});
    object.Set("data", EncodeData(secret));
    ASSIGN_OR_RETURN(const Json stored, client_.Create(api::Kind::kSecret, key_.ns, object));
    return Decode(stored);
  }
  absl::StatusOr<serve::SecretData> Update(const serve::SecretData& secret) override {
    Json patch = Json::MakeObject();
    patch["metadata"].Set("resourceVersion", secret.resource_version);
    patch.Set("data", EncodeData(secret));
    ASSIGN_OR_RETURN(const Json stored,
                     client_.Patch(state::Verb::kMergePatch, api::Kind::kSecret, key_, patch));
    return Decode(stored);
  }

 private:
  static Json EncodeData(const serve::SecretData& secret) {
    Json data = Json::MakeObject();
    for (const auto& [key, value] : secret.data) data.Set(key, absl::Base64Escape(value));
    return data;
  }
  static absl::StatusOr<serve::SecretData> Decode(const Json& object) {
    serve::SecretData secret;
    secret.resource_version = object.GetString("metadata", "resourceVersion");
    if (const Json* data = object.Find("data")) {
      for (const auto& [key, value] : data->AsObject()) {
        std::string decoded;
        if (!absl::Base64Unescape(value.AsString(), &decoded)) {
          return InvalidArgument("Secret {}: data[{}] is not base64",
                                 object.GetString("metadata", "name"), key);
        }
        secret.data[key] = std::move(decoded);
      }
    }
    return secret;
  }

  kube::Client client_;
  ObjectKey key_;
};

api::Kind KindOf(serve::InjectionTarget::Kind kind) {
  switch (kind) {
    case serve::InjectionTarget::Kind::kMutatingWebhookConfiguration:
      return api::Kind::kMutatingWebhookConfiguration;
    case serve::InjectionTarget::Kind::kValidatingWebhookConfiguration:
      return api::Kind::kValidatingWebhookConfiguration;
    case serve::InjectionTarget::Kind::kCustomResourceDefinition:
      break;
  }
  return api::Kind::kCustomResourceDefinition;
}

const std::vector<std::string>& ConvertedCrds() {
  static const std::vector<std::string> kNames = {
      "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io", "cohorts.kueue.x-k8s.io",
      "workloads.kueue.x-k8s.io", "multikueueclusters.kueue.x-k8s.io"};
  return kNames;
}

}  // namespace

CertificateKeeper::CertificateKeeper(kube::Client client, CertificateKeeperOptions options,
                                     loop::Log log)
    : client_(client), options_(std::move(options)), log_(std::move(log)) {
  // Whoever stops the process waits for the request that is under way.
  client_.defaults().deadline = absl::Seconds(10);
  client_.defaults().attempt_timeout = absl::Seconds(5);
  if (!options_.internal) {
    files_ = std::make_unique<serve::FileCertificateSource>(options_.directory);
    return;
  }
  const std::string host = options_.service_name + "." + options_.ns;
  serve::CertificateManagerOptions manager = options_.manager;
  manager.sans = {host + ".svc", host + ".svc.cluster.local"};
  manager.sans.insert(manager.sans.end(), options_.extra_sans.begin(), options_.extra_sans.end());
  store_ = std::make_unique<KubeSecretStore>(client_, ObjectKey{options_.ns, options_.secret_name});
  manager_ = std::make_unique<serve::CertificateManager>(store_.get(), std::move(manager));
}

CertificateKeeper::~CertificateKeeper() { Stop(); }

absl::StatusOr<serve::ServingCertificate> CertificateKeeper::Load() {
  if (files_ != nullptr) {
    const absl::StatusOr<bool> polled = files_->Poll();
    if (!polled.ok()) return polled.status();
    served_ = *files_->current();
    return served_;
  }
  ASSIGN_OR_RETURN(served_, manager_->Refresh(absl::Now()));
  return served_;
}

void CertificateKeeper::Start(OnCertificate on_certificate, std::function<void()> each_round) {
  on_certificate_ = std::move(on_certificate);
  each_round_ = std::move(each_round);
  thread_ = std::thread([this] { Run(); });
}

void CertificateKeeper::AskToStop() {
  absl::MutexLock lock(&mutex_);
  stopping_ = true;
}

void CertificateKeeper::Stop() {
  AskToStop();
  if (thread_.joinable()) thread_.join();
}

bool CertificateKeeper::Stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void CertificateKeeper::Run() {
  while (true) {
    Refresh();
    each_round_();
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.interval)) return;
  }
}

void CertificateKeeper::Refresh() {
  absl::Status failure;
  if (files_ != nullptr) {
    const absl::StatusOr<bool> polled = files_->Poll();
    failure = polled.status();
    if (polled.ok() && *polled) on_certificate_(*files_->current());
  } else {
    const absl::StatusOr<serve::ServingCertificate> current = manager_->Refresh(absl::Now());
    failure = current.status();
    if (current.ok()) {
      if (!(*current == served_)) {
        served_ = *current;
        on_certificate_(served_);
        log_.Info("serving certificate changed", {{"secret", options_.secret_name}});
      }
      if (Inject(served_.ca_bundle_pem)) {
        manager_->ConfirmInjected(served_.ca_bundle_pem, absl::Now());
      }
    }
  }
  const std::string complaint = failure.ok() ? "" : std::string(failure.message());
  if (!complaint.empty() && complaint != complaint_) {
    log_.Error("certificate cannot be refreshed; the former one stays in use",
               {{"error", failure}});
  }
  complaint_ = complaint;
}

bool CertificateKeeper::Inject(const std::string& bundle) {
  bool complete = true;
  for (const serve::InjectionTarget& target :
       serve::InjectionTargets(options_.service_name, ConvertedCrds())) {
    if (Stopping()) return false;
    const ObjectKey key{"", target.name};
    const absl::StatusOr<Json> object = client_.Get(KindOf(target.kind), key);
    if (!object.ok()) {
      // Not installed (yet): nobody to trust us through it.
      complete = complete && absl::IsNotFound(object.status());
      continue;
    }
    const std::optional<Json> patch = serve::CaInjectionPatch(*object, bundle);
    if (!patch) continue;
    const absl::StatusOr<Json> stored =
        client_.Patch(state::Verb::kJsonPatch, KindOf(target.kind), key, *patch);
    if (!stored.ok()) {
      complete = false;
      log_.Warn("CA bundle cannot be injected; trying again",
                {{"target", target.name}, {"error", stored.status()}});
    }
  }
  return complete;
}

}  // namespace sluice
