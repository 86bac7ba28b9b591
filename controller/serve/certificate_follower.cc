#include "serve/certificate_follower.h"

namespace sluice::serve {

ServingCertificate CertificateFollower::First(const ServingCertificate& stand_in) {
  Poll();
  return source_.current().value_or(stand_in);
}

void CertificateFollower::Look(const Use& use) {
  if (Poll()) Tell(use(*source_.current()));
}

bool CertificateFollower::Poll() {
  const absl::StatusOr<bool> changed = source_.Poll();
  Tell(changed.status());
  return changed.ok() && *changed;
}

void CertificateFollower::Tell(const absl::Status& status) {
  const std::string reason = status.ok() ? "" : std::string(status.message());
  if (!reason.empty() && reason != complaint_) complain_(status);
  complaint_ = reason;
}

}  // namespace sluice::serve
