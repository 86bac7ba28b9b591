#include "serve/certificates.h"

#include "base/time.h"
#include "unit/catch.h"

namespace sluice::serve {
namespace {

const absl::Time kNow = *ParseTime("2026-08-22T10:00:00Z");

TEST_CASE("a generated CA is a CA for as long as asked") {
  const auto ca = GenerateCa("sluice-ca", kNow, kDefaultCaLifetime);
  REQUIRE(ca.ok());
  CHECK(CheckKeyPair(ca->cert_pem, ca->key_pem).ok());
  CHECK(*IsSignedBy(ca->cert_pem, ca->cert_pem));
  const auto info = ParseCertificate(ca->cert_pem);
  REQUIRE(info.ok());
  CHECK(info->subject == "sluice-ca");
  CHECK(info->is_ca);
  CHECK(info->not_before == kNow - kCertificateBackdate);
  CHECK(info->not_after == kNow + kDefaultCaLifetime);
  CHECK(info->sans.empty());
}

TEST_CASE("a serving certificate carries its names and the CA's signature") {
  const auto ca = GenerateCa("ca", kNow, kDefaultCaLifetime);
  const auto other = GenerateCa("ca", kNow, kDefaultCaLifetime);
  REQUIRE(ca.ok());
  const std::string long_name = std::string(60, 'a') + ".namespace.svc";
  const auto leaf =
      IssueServing(*ca, {long_name, "10.0.0.1", "::1", "b.svc"}, kNow, kDefaultLeafLifetime);
  REQUIRE(leaf.ok());
  CHECK(CheckKeyPair(leaf->cert_pem, leaf->key_pem).ok());
  CHECK_FALSE(CheckKeyPair(leaf->cert_pem, ca->key_pem).ok());
  CHECK(*IsSignedBy(leaf->cert_pem, ca->cert_pem));
  CHECK_FALSE(*IsSignedBy(leaf->cert_pem, other->cert_pem));
  const auto info = ParseCertificate(leaf->cert_pem);
  REQUIRE(info.ok());
  CHECK_FALSE(info->is_ca);
  CHECK(info->subject == long_name.substr(0, 64));
  CHECK(info->sans == std::vector<std::string>{"10.0.0.1", "::1", long_name, "b.svc"});
  CHECK(info->not_after == kNow + kDefaultLeafLifetime);
}

TEST_CASE("a serving certificate does not outlive its CA") {
  const auto ca = GenerateCa("ca", kNow, absl::Hours(10));
  const auto leaf = IssueServing(*ca, {"a"}, kNow, absl::Hours(100));
  REQUIRE(leaf.ok());
  CHECK(ParseCertificate(leaf->cert_pem)->not_after == kNow + absl::Hours(10));
}

TEST_CASE("rotation is due when a third of the life remains") {
  CertificateInfo info;
  info.not_before = kNow;
  info.not_after = kNow + absl::Hours(90);
  CHECK_FALSE(NeedsRotation(info, kNow));
  CHECK_FALSE(NeedsRotation(info, kNow + absl::Hours(59)));
  CHECK(NeedsRotation(info, kNow + absl::Hours(60) + absl::Seconds(1)));
  CHECK(NeedsRotation(info, kNow + absl::Hours(1000)));
  CHECK_FALSE(NeedsRotation(info, kNow + absl::Hours(80), 0.1));
  CHECK(NeedsRotation(info, kNow + absl::Hours(90), 0));
  CHECK(NeedsRotation(info, kNow - absl::Seconds(1)));
}

TEST_CASE("bundles are split and broken PEM is refused") {
  const auto a = GenerateCa("a", kNow, absl::Hours(1));
  const auto b = GenerateCa("b", kNow, absl::Hours(1));
  const auto both = SplitBundle("comment\n" + a->cert_pem + "\n" + b->cert_pem);
  REQUIRE(both.ok());
  CHECK(*both == std::vector<std::string>{a->cert_pem, b->cert_pem});
  CHECK(SplitBundle("")->empty());
  std::string broken = a->cert_pem;
  broken[100] = '!';
  CHECK_FALSE(SplitBundle(broken).ok());
  CHECK_FALSE(ParseCertificate("").ok());
  CHECK_FALSE(ParseCertificate(a->key_pem).ok());
  CHECK_FALSE(CheckKeyPair(a->cert_pem, "").ok());
  CHECK_FALSE(CheckKeyPair(a->cert_pem, b->key_pem).ok());
}

TEST_CASE("issuing needs names and a usable CA") {
  const auto ca = GenerateCa("ca", kNow, absl::Hours(1));
  CHECK(absl::IsInvalidArgument(IssueServing(*ca, {}, kNow, absl::Hours(1)).status()));
  CHECK(absl::IsInvalidArgument(
      IssueServing({ca->cert_pem, "no key"}, {"a"}, kNow, absl::Hours(1)).status()));
  CHECK(absl::IsInvalidArgument(
      IssueServing({"no cert", ca->key_pem}, {"a"}, kNow, absl::Hours(1)).status()));
}

TEST_CASE("names are normalized as a certificate shows them") {
  CHECK(NormalizedSans({"b", "a", "b", "0:0:0::1", "127.0.0.1"}) ==
        std::vector<std::string>{"127.0.0.1", "::1", "a", "b"});
}

TEST_CASE("a self-signed pair verifies against its own bundle") {
  const auto pair = SelfSigned({"localhost"}, kNow, absl::Hours(1));
  REQUIRE(pair.ok());
  CHECK(*IsSignedBy(pair->cert_pem, pair->ca_bundle_pem));
  CHECK(CheckKeyPair(pair->cert_pem, pair->key_pem).ok());
}

}  // namespace
}  // namespace sluice::serve
