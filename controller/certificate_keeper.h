// CertificateKeeper: the serving certificate of the webhooks, kept valid and trusted.
//
// With internal management: own CA in a Secret, rotated before it expires, and its bundle injected
// into webhook configurations and CRDs. Otherwise: files that somebody else writes, read again when
// they change. Runs on a thread of its own.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/status/statusor.h>
#include <absl/synchronization/mutex.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "config/config.h"
#include "kube/client.h"
#include "loop/log.h"
#include "serve/certificate_manager.h"

namespace sluice {

struct CertificateKeeperOptions {
  bool internal = true;
  std::string ns;  // of the Secret
  std::string secret_name;
  std::string service_name;  // names the certificate and the webhook configurations
  std::string directory;     // without internal management
  std::vector<std::string> extra_sans;
  absl::Duration interval = absl::Seconds(20);
  serve::CertificateManagerOptions manager;  // sans are filled in
};

class CertificateKeeper {
 public:
  using OnCertificate = std::function<void(const serve::ServingCertificate&)>;
  CertificateKeeper(kube::Client client, CertificateKeeperOptions options, loop::Log log);
  ~CertificateKeeper();

  // The first certificate; blocks on the API server. The files' errors are InvalidArgument.
  absl::StatusOr<serve::ServingCertificate> Load();
  // Goes on in the background; changed certificates are given to the callback. `each_round` is
  // called on the same thread, for other files that have to be looked at.
  void Start(OnCertificate on_certificate, std::function<void()> each_round);
  // Nothing new is begun. Does not wait.
  void AskToStop();
  void Stop();

 private:
  void Run();
  void Refresh();
  bool Stopping();
  // Brings the bundle into every target. True when all carry it.
  bool Inject(const std::string& bundle);

  kube::Client client_;
  CertificateKeeperOptions options_;
  loop::Log log_;
  std::unique_ptr<serve::SecretStore> store_;
  std::unique_ptr<serve::CertificateManager> manager_;
  std::unique_ptr<serve::FileCertificateSource> files_;
  OnCertificate on_certificate_;
  std::function<void()> each_round_;
  serve::ServingCertificate served_;
  std::string complaint_;  // the last one logged
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace sluice
