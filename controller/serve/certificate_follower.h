// CertificateFollower: gives a running server the certificate of a directory, each time that it
// changes.
//
// For a server that may serve without it: where the files are not there yet, or cannot be used, a
// stand-in is served until they can. cert-manager writes a Secret some time after the pod has begun
// to run, and writes it again when it renews the certificate.
//
// Contract: blocks on I/O; one thread at a time. `complain` gets each reason once, until another
// follows or the files can be used.
//
//   CertificateFollower files("/visibility", complain);
//   options.certificate = files.First(stand_in);
//   ...
//   files.Look([&](const ServingCertificate& next) { return server->SetCertificate(next); });
#pragma once

#include <absl/status/status.h>

#include <functional>
#include <string>

#include "serve/certificate_manager.h"

namespace sluice::serve {

class CertificateFollower {
 public:
  using Use = std::function<absl::Status(const ServingCertificate&)>;
  using Complain = std::function<void(const absl::Status&)>;

  CertificateFollower(std::string directory, Complain complain)
      : source_(std::move(directory)), complain_(std::move(complain)) {}

  // What to serve at first.
  ServingCertificate First(const ServingCertificate& stand_in);
  // To be called every now and then: another certificate is given to `use`.
  void Look(const Use& use);

 private:
  // True when there is another certificate than before.
  bool Poll();
  void Tell(const absl::Status& status);

  FileCertificateSource source_;
  Complain complain_;
  std::string complaint_;  // the last one told
};

}  // namespace sluice::serve
