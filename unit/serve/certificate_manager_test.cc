#include "serve/certificate_manager.h"

#include <filesystem>
#include <functional>

#include "base/status.h"
#include "base/time.h"
#include "unit/catch.h"
#include "unit/serve/temporary_directory.h"

namespace sluice::serve {
namespace {

const absl::Time kNow = *ParseTime("2026-08-22T10:00:00Z");

// A Secret with the API server's rules for versions.
class MemorySecret : public SecretStore {
 public:
  absl::StatusOr<SecretData> Get() override {
    ++gets;
    if (!error.ok()) return error;
    if (!stored.has_value()) return NotFound("secret");
    return *stored;
  }
  absl::StatusOr<SecretData> Create(const SecretData& secret) override {
    Race();
    if (stored.has_value()) return absl::AlreadyExistsError("secret");
    return Put(secret);
  }
  absl::StatusOr<SecretData> Update(const SecretData& secret) override {
    Race();
    if (!stored.has_value()) return NotFound("secret");
    if (stored->resource_version != secret.resource_version) return absl::AbortedError("conflict");
    return Put(secret);
  }
  SecretData Put(SecretData secret) {
    ++writes;
    secret.resource_version = std::to_string(writes);
    stored = std::move(secret);
    return *stored;
  }
  std::string Value(const std::string& key) { return stored->data[key]; }

  std::optional<SecretData> stored;
  std::function<void()> before_write;  // another replica, once
  absl::Status error;
  int gets = 0;
  int writes = 0;

 private:
  void Race() {
    if (auto other = std::exchange(before_write, nullptr)) other();
  }
};

CertificateManagerOptions Options() {
  CertificateManagerOptions options;
  options.sans = {"sluice-webhook-service.sluice-system.svc"};
  return options;
}

void CheckServes(const ServingCertificate& certificate) {
  CHECK(CheckKeyPair(certificate.cert_pem, certificate.key_pem).ok());
  const auto bundle = SplitBundle(certificate.ca_bundle_pem);
  REQUIRE(bundle.ok());
  bool trusted = false;
  for (const std::string& ca : *bundle) trusted |= *IsSignedBy(certificate.cert_pem, ca);
  CHECK(trusted);
}

TEST_CASE("a missing Secret is created, and then left alone") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  CHECK_FALSE(manager.current().has_value());
  const auto first = manager.Refresh(kNow);
  REQUIRE(first.ok());
  CheckServes(*first);
  CHECK(ParseCertificate(first->cert_pem)->sans == Options().sans);
  CHECK(CheckKeyPair(secret.Value("ca.crt"), secret.Value("ca.key")).ok());
  const auto second = manager.Refresh(kNow + absl::Hours(24 * 200));
  REQUIRE(second.ok());
  CHECK(*second == *first);
  CHECK(secret.writes == 1);
  CHECK(*manager.current() == *first);
}

TEST_CASE("an empty Secret is filled and its other keys stay") {
  MemorySecret secret;
  secret.Put({"", {{"mine", "x"}, {"tls.crt", ""}}});
  CertificateManager manager(&secret, Options());
  const auto certificate = manager.Refresh(kNow);
  REQUIRE(certificate.ok());
  CheckServes(*certificate);
  CHECK(secret.Value("mine") == "x");
}

TEST_CASE("a replica uses what another one wrote first") {
  MemorySecret secret;
  CertificateManager mine(&secret, Options());
  CertificateManager other(&secret, Options());
  SECTION("create against create") {}
  SECTION("update against update") { secret.Put({"", {}}); }
  std::optional<ServingCertificate> theirs;
  secret.before_write = [&] { theirs = *other.Refresh(kNow); };
  const auto certificate = mine.Refresh(kNow);
  REQUIRE(certificate.ok());
  CHECK(*certificate == *theirs);
}

TEST_CASE("a Secret that is deleted under way is created again") {
  MemorySecret secret;
  secret.Put({"", {}});
  CertificateManager manager(&secret, Options());
  secret.before_write = [&] { secret.stored.reset(); };
  const auto certificate = manager.Refresh(kNow);
  REQUIRE(certificate.ok());
  CheckServes(*certificate);
}

TEST_CASE("endless conflicts end with an error, and the last good certificate stays") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  const auto first = manager.Refresh(kNow);
  REQUIRE(first.ok());
  std::function<void()> spoil = [&] {
    secret.stored->resource_version += "x";
    secret.before_write = spoil;
  };
  secret.before_write = spoil;
  const auto late = manager.Refresh(kNow + absl::Hours(24 * 300));
  CHECK(absl::IsAborted(late.status()));
  CHECK(*manager.current() == *first);
  secret.before_write = nullptr;
  secret.error = Unavailable("no answer");
  CHECK(absl::IsUnavailable(manager.Refresh(kNow).status()));
  CHECK(*manager.current() == *first);
}

TEST_CASE("the serving certificate is renewed under the same CA") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  const auto first = manager.Refresh(kNow);
  REQUIRE(first.ok());
  CHECK(*manager.Refresh(kNow + absl::Hours(24 * 242)) == *first);
  const auto second = manager.Refresh(kNow + absl::Hours(24 * 244));
  REQUIRE(second.ok());
  CHECK(second->cert_pem != first->cert_pem);
  CHECK(second->ca_bundle_pem == first->ca_bundle_pem);
  CheckServes(*second);
}

TEST_CASE("other names or a broken pair give a new serving certificate at once") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  const auto first = manager.Refresh(kNow);
  REQUIRE(first.ok());
  auto options = Options();
  SECTION("names") { options.sans.push_back("::1"); }
  SECTION("key of another certificate") { secret.stored->data["tls.key"] = secret.Value("ca.key"); }
  SECTION("no certificate") { secret.stored->data["tls.crt"] = "broken"; }
  CertificateManager next(&secret, options);
  const auto second = next.Refresh(kNow);
  REQUIRE(second.ok());
  CHECK(second->cert_pem != first->cert_pem);
  CHECK(second->ca_bundle_pem == first->ca_bundle_pem);
  CheckServes(*second);
  CHECK(*next.Refresh(kNow) == *second);
}

TEST_CASE("a CA changes in three steps, each trusted by those that saw the one before") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  manager.Refresh(kNow).IgnoreError();
  const absl::Time due = kNow + absl::Hours(24 * 2500);
  // A leaf that is fresh when the CA becomes due.
  const auto before = manager.Refresh(due - absl::Hours(24 * 100));
  REQUIRE(before.ok());
  manager.ConfirmInjected(before->ca_bundle_pem, due - absl::Hours(24 * 100));

  const auto announced = manager.Refresh(due);
  REQUIRE(announced.ok());
  CHECK(announced->cert_pem == before->cert_pem);
  const auto bundle = *SplitBundle(announced->ca_bundle_pem);
  REQUIRE(bundle.size() == 2);
  CHECK(bundle[1] == before->ca_bundle_pem);
  CheckServes(*announced);
  CHECK(CheckKeyPair(bundle[0], secret.Value("ca.key")).ok());

  // Nobody said that the new bundle is in place: the old leaf stays.
  CHECK(*manager.Refresh(due + absl::Hours(5)) == *announced);
  manager.ConfirmInjected(announced->ca_bundle_pem, due + absl::Hours(5));
  CHECK(*manager.Refresh(due + absl::Hours(5) + absl::Seconds(59)) == *announced);

  const auto switched = manager.Refresh(due + absl::Hours(5) + absl::Seconds(60));
  REQUIRE(switched.ok());
  CHECK(*IsSignedBy(switched->cert_pem, bundle[0]));
  CHECK(switched->ca_bundle_pem == announced->ca_bundle_pem);

  CHECK(*manager.Refresh(due + absl::Hours(6)) == *switched);
  const auto done = manager.Refresh(due + absl::Hours(7));
  REQUIRE(done.ok());
  CHECK(done->cert_pem == switched->cert_pem);
  CHECK(done->ca_bundle_pem == bundle[0]);
}

TEST_CASE("a lost CA key starts a new CA without dropping the old one's trust") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  const auto first = manager.Refresh(kNow);
  REQUIRE(first.ok());
  secret.stored->data.erase("ca.key");
  const auto second = manager.Refresh(kNow);
  REQUIRE(second.ok());
  CHECK(second->cert_pem == first->cert_pem);
  CHECK(second->ca_bundle_pem.find(first->ca_bundle_pem) != std::string::npos);
  CHECK(SplitBundle(second->ca_bundle_pem)->size() == 2);
}

TEST_CASE("an unconfirmed CA is used when the old leaf is about to end") {
  MemorySecret secret;
  CertificateManager manager(&secret, Options());
  const auto first = manager.Refresh(kNow);
  secret.stored->data.erase("ca.key");
  manager.Refresh(kNow).IgnoreError();
  CHECK(manager.Refresh(kNow + absl::Hours(24 * 340))->cert_pem == first->cert_pem);
  const auto last = manager.Refresh(kNow + absl::Hours(24 * 350));
  REQUIRE(last.ok());
  CHECK(last->cert_pem != first->cert_pem);
  CheckServes(*last);
}

TEST_CASE("certificate files are read again when they change") {
  const TemporaryDirectory directory;
  FileCertificateSource source(directory.path());
  const auto missing = source.Poll();
  CHECK(absl::IsNotFound(missing.status()));
  CHECK(std::string(missing.status().message()).find("/tls.crt") != std::string::npos);

  const auto a = *SelfSigned({"a"}, kNow, absl::Hours(1));
  const auto b = *SelfSigned({"b"}, kNow, absl::Hours(1));
  directory.Write("tls.crt", a.cert_pem);
  directory.Write("tls.key", a.key_pem);
  REQUIRE(source.Poll().ok());
  CHECK(source.current()->cert_pem == a.cert_pem);
  CHECK(source.current()->ca_bundle_pem.empty());
  CHECK_FALSE(*source.Poll());

  // Half of the change: the pair does not fit, the former is served.
  directory.Write("tls.crt", b.cert_pem);
  CHECK_FALSE(source.Poll().ok());
  CHECK(source.current()->cert_pem == a.cert_pem);
  directory.Write("tls.key", b.key_pem);
  CHECK(*source.Poll());
  CHECK(source.current()->cert_pem == b.cert_pem);
  directory.Write("ca.crt", b.ca_bundle_pem);
  CHECK(*source.Poll());
  CHECK(*source.current() == b);

  // The same content in new files is no change.
  directory.Write("ca.crt", b.ca_bundle_pem);
  CHECK_FALSE(*source.Poll());
  std::filesystem::remove(directory.path() + "/tls.key");
  CHECK_FALSE(source.Poll().ok());
  CHECK(*source.current() == b);
}

}  // namespace
}  // namespace sluice::serve
