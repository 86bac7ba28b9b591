#include "serve/certificates.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <optional>

#include "base/status.h"
#include "serve/openssl.h"

namespace sluice::serve {
namespace {

using Key = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, OpenSslDeleter<X509_EXTENSION_free>>;
using Names = std::unique_ptr<GENERAL_NAMES, OpenSslDeleter<GENERAL_NAMES_free>>;
using Asn1Time = std::unique_ptr<ASN1_TIME, OpenSslDeleter<ASN1_TIME_free>>;
using BigNumber = std::unique_ptr<BIGNUM, OpenSslDeleter<BN_free>>;

absl::Status OpenSslError(const char* what) {
  char text[256] = "unknown error";
  if (const unsigned long code = ERR_get_error(); code != 0)
    ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  return Errorf(absl::StatusCode::kInternal, "{}: {}", what, text);
}

std::string Drain(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::StatusOr<std::string> CertificatePem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_X509(bio.get(), certificate) != 1) return OpenSslError("write certificate");
  return Drain(bio.get());
}

absl::StatusOr<std::string> KeyPem(EVP_PKEY* key) {
  const Bio bio(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
    return OpenSslError("write private key");
  }
  return Drain(bio.get());
}

absl::StatusOr<Certificate> ReadCertificate(const std::string& pem) {
  const Bio bio = ReadOnly(pem);
  Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (certificate == nullptr) return InvalidArgument("no PEM certificate");
  return certificate;
}

absl::StatusOr<Key> ReadKey(const std::string& pem) {
  const Bio bio = ReadOnly(pem);
  // Without a callback OpenSSL would ask for the password of an encrypted key on the terminal.
  const auto no_password = [](char*, int, int, void*) { return 0; };
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (key == nullptr) return InvalidArgument("no unencrypted PEM private key");
  return key;
}

absl::StatusOr<absl::Time> TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return InvalidArgument("certificate: bad time");
  return absl::FromTM(parts, absl::UTCTimeZone());
}

// X.509 knows whole seconds.
absl::Status SetValidity(X509* certificate, absl::Time not_before, absl::Time not_after) {
  const Asn1Time before(ASN1_TIME_set(nullptr, absl::ToTimeT(not_before)));
  const Asn1Time after(ASN1_TIME_set(nullptr, absl::ToTimeT(not_after)));
  if (before == nullptr || after == nullptr ||
      X509_set1_notBefore(certificate, before.get()) != 1 ||
      X509_set1_notAfter(certificate, after.get()) != 1) {
    return OpenSslError("set validity");
  }
  return absl::OkStatus();
}

// 127 random bits: positive, and at most the 20 octets of RFC 5280.
absl::Status SetRandomSerial(X509* certificate) {
  const BigNumber number(BN_new());
  if (number == nullptr || BN_rand(number.get(), 127, BN_RAND_TOP_ONE, BN_RAND_BOTTOM_ANY) != 1 ||
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate)) == nullptr) {
    return OpenSslError("serial number");
  }
  return absl::OkStatus();
}

absl::Status AddExtension(X509* certificate, X509* issuer, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  if (extension == nullptr || X509_add_ext(certificate, extension.get(), -1) != 1) {
    return OpenSslError("certificate extension");
  }
  return absl::OkStatus();
}

absl::Status SetCommonName(X509* certificate, const std::string& name) {
  constexpr size_t kMaxCommonName = 64;
  const std::string cut = name.substr(0, kMaxCommonName);
  if (X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(cut.data()),
                                 static_cast<int>(cut.size()), -1, 0) != 1) {
    return OpenSslError("common name");
  }
  return absl::OkStatus();
}

std::optional<std::string> IpBytes(const std::string& text) {
  unsigned char bytes[16];
  if (inet_pton(AF_INET, text.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<char*>(bytes), 4);
  }
  if (inet_pton(AF_INET6, text.c_str(), bytes) == 1) {
    return std::string(reinterpret_cast<char*>(bytes), 16);
  }
  return std::nullopt;
}

// Built by hand: the textual form of X509V3_EXT_conf gives commas and colons in a name a meaning.
absl::Status AddSans(X509* certificate, const std::vector<std::string>& sans) {
  const Names names(sk_GENERAL_NAME_new_null());
  for (const std::string& san : sans) {
    const std::optional<std::string> ip = IpBytes(san);
    const std::string& value = ip.has_value() ? *ip : san;
    ASN1_STRING* string = ip.has_value() ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
    ASN1_STRING_set(string, value.data(), static_cast<int>(value.size()));
    GENERAL_NAME* name = GENERAL_NAME_new();
    GENERAL_NAME_set0_value(name, ip.has_value() ? GEN_IPADD : GEN_DNS, string);
    sk_GENERAL_NAME_push(names.get(), name);
  }
  if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) !=
      1) {
    return OpenSslError("subject alternative names");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SansOf(const X509* certificate) {
  std::vector<std::string> sans;
  const Names names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int type = 0;
    const auto* value = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &type));
    if (type != GEN_DNS && type != GEN_IPADD) continue;
    const unsigned char* data = ASN1_STRING_get0_data(value);
    const int size = ASN1_STRING_length(value);
    if (type == GEN_DNS) {
      sans.emplace_back(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
      continue;
    }
    char text[INET6_ADDRSTRLEN] = "";
    if (inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text, sizeof text) == nullptr) {
      return InvalidArgument("certificate: bad IP address");
    }
    sans.emplace_back(text);
  }
  std::sort(sans.begin(), sans.end());
  return sans;
}

std::string CommonName(const X509* certificate) {
  char text[256] = "";
  X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, text, sizeof text);
  return text;
}

// A certificate with everything but its extensions and signature.
absl::StatusOr<Certificate> Unsigned(EVP_PKEY* key, const std::string& name, absl::Time not_before,
                                     absl::Time not_after) {
  Certificate certificate(X509_new());
  if (certificate == nullptr || X509_set_version(certificate.get(), X509_VERSION_3) != 1 ||
      X509_set_pubkey(certificate.get(), key) != 1) {
    return OpenSslError("new certificate");
  }
  RETURN_IF_ERROR(SetRandomSerial(certificate.get()));
  RETURN_IF_ERROR(SetValidity(certificate.get(), not_before, not_after));
  RETURN_IF_ERROR(SetCommonName(certificate.get(), name));
  return certificate;
}

absl::StatusOr<KeyPair> SignAndWrite(X509* certificate, EVP_PKEY* key, EVP_PKEY* signer) {
  if (X509_sign(certificate, signer, EVP_sha256()) == 0) return OpenSslError("sign certificate");
  KeyPair pair;
  ASSIGN_OR_RETURN(pair.cert_pem, CertificatePem(certificate));
  ASSIGN_OR_RETURN(pair.key_pem, KeyPem(key));
  return pair;
}

absl::StatusOr<Key> NewKey() {
  Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("generate key");
  return key;
}

absl::Status AddLeafExtensions(X509* leaf, X509* issuer, const std::vector<std::string>& sans) {
  RETURN_IF_ERROR(AddExtension(leaf, issuer, NID_basic_constraints, "critical,CA:FALSE"));
  RETURN_IF_ERROR(AddExtension(leaf, issuer, NID_key_usage, "critical,digitalSignature"));
  RETURN_IF_ERROR(AddExtension(leaf, issuer, NID_ext_key_usage, "serverAuth"));
  RETURN_IF_ERROR(AddExtension(leaf, issuer, NID_subject_key_identifier, "hash"));
  RETURN_IF_ERROR(AddExtension(leaf, issuer, NID_authority_key_identifier, "keyid"));
  return AddSans(leaf, sans);
}

}  // namespace

absl::StatusOr<KeyPair> GenerateCa(const std::string& name, absl::Time now,
                                   absl::Duration lifetime) {
  ASSIGN_OR_RETURN(const Key key, NewKey());
  const absl::Time not_before = now - kCertificateBackdate;
  ASSIGN_OR_RETURN(const Certificate ca, Unsigned(key.get(), name, not_before, now + lifetime));
  if (X509_set_issuer_name(ca.get(), X509_get_subject_name(ca.get())) != 1) {
    return OpenSslError("issuer name");
  }
  RETURN_IF_ERROR(
      AddExtension(ca.get(), ca.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0"));
  RETURN_IF_ERROR(AddExtension(ca.get(), ca.get(), NID_key_usage, "critical,keyCertSign,cRLSign"));
  RETURN_IF_ERROR(AddExtension(ca.get(), ca.get(), NID_subject_key_identifier, "hash"));
  return SignAndWrite(ca.get(), key.get(), key.get());
}

absl::StatusOr<KeyPair> IssueServing(const KeyPair& ca, const std::vector<std::string>& sans,
                                     absl::Time now, absl::Duration lifetime) {
  if (sans.empty()) return InvalidArgument("serving certificate: no names given");
  ASSIGN_OR_RETURN(const Certificate issuer, ReadCertificate(ca.cert_pem));
  ASSIGN_OR_RETURN(const Key issuer_key, ReadKey(ca.key_pem));
  ASSIGN_OR_RETURN(const absl::Time ca_end, TimeOf(X509_get0_notAfter(issuer.get())));
  ASSIGN_OR_RETURN(const Key key, NewKey());
  ASSIGN_OR_RETURN(const Certificate leaf,
                   Unsigned(key.get(), sans.front(), now - kCertificateBackdate,
                            std::min(now + lifetime, ca_end)));
  if (X509_set_issuer_name(leaf.get(), X509_get_subject_name(issuer.get())) != 1) {
    return OpenSslError("issuer name");
  }
  RETURN_IF_ERROR(AddLeafExtensions(leaf.get(), issuer.get(), sans));
  return SignAndWrite(leaf.get(), key.get(), issuer_key.get());
}

absl::StatusOr<ServingCertificate> SelfSigned(const std::vector<std::string>& sans, absl::Time now,
                                              absl::Duration lifetime) {
  // A CA that is forgotten right after: its single leaf can be verified, and nothing else be
  // signed.
  ASSIGN_OR_RETURN(const KeyPair ca, GenerateCa("self-signed", now, lifetime));
  ASSIGN_OR_RETURN(KeyPair leaf, IssueServing(ca, sans, now, lifetime));
  return ServingCertificate{std::move(leaf.cert_pem), std::move(leaf.key_pem), ca.cert_pem};
}

absl::StatusOr<CertificateInfo> ParseCertificate(const std::string& pem) {
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(pem));
  CertificateInfo info;
  info.subject = CommonName(certificate.get());
  ASSIGN_OR_RETURN(info.not_before, TimeOf(X509_get0_notBefore(certificate.get())));
  ASSIGN_OR_RETURN(info.not_after, TimeOf(X509_get0_notAfter(certificate.get())));
  info.is_ca = X509_check_ca(certificate.get()) == 1;
  ASSIGN_OR_RETURN(info.sans, SansOf(certificate.get()));
  return info;
}

absl::StatusOr<std::vector<std::string>> SplitBundle(const std::string& pem) {
  std::vector<std::string> certificates;
  const Bio bio = ReadOnly(pem);
  while (true) {
    const Certificate certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
    if (certificate == nullptr) break;
    ASSIGN_OR_RETURN(std::string text, CertificatePem(certificate.get()));
    certificates.push_back(std::move(text));
  }
  // "No start line" is how a clean end looks.
  const unsigned long error = ERR_peek_last_error();
  ERR_clear_error();
  if (error != 0 && ERR_GET_REASON(error) != PEM_R_NO_START_LINE) {
    return InvalidArgument("certificate bundle: entry {} is broken", certificates.size() + 1);
  }
  return certificates;
}

absl::Status CheckKeyPair(const std::string& cert_pem, const std::string& key_pem) {
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(cert_pem));
  ASSIGN_OR_RETURN(const Key key, ReadKey(key_pem));
  const bool same = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!same) return InvalidArgument("the private key does not belong to the certificate");
  return absl::OkStatus();
}

absl::StatusOr<bool> IsSignedBy(const std::string& cert_pem, const std::string& ca_pem) {
  ASSIGN_OR_RETURN(const Certificate certificate, ReadCertificate(cert_pem));
  ASSIGN_OR_RETURN(const Certificate ca, ReadCertificate(ca_pem));
  const bool verified = X509_verify(certificate.get(), X509_get0_pubkey(ca.get())) == 1;
  ERR_clear_error();
  return verified;
}

std::vector<std::string> NormalizedSans(std::vector<std::string> sans) {
  for (std::string& san : sans) {
    const std::optional<std::string> bytes = IpBytes(san);
    char text[INET6_ADDRSTRLEN] = "";
    if (bytes.has_value() && inet_ntop(bytes->size() == 4 ? AF_INET : AF_INET6, bytes->data(), text,
                                       sizeof text) != nullptr) {
      san = text;
    }
  }
  std::sort(sans.begin(), sans.end());
  sans.erase(std::unique(sans.begin(), sans.end()), sans.end());
  return sans;
}

bool NeedsRotation(const CertificateInfo& info, absl::Time now, double remaining_fraction) {
  if (now < info.not_before) return true;
  const absl::Duration life = info.not_after - info.not_before;
  return info.not_after - now <= life * remaining_fraction;
}

}  // namespace sluice::serve
