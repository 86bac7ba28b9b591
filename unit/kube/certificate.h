// Certificates made on the fly, so that no test depends on a date or a checked-in key.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <string>
#include <utility>
#include <vector>

namespace sluice::kube {

struct Certificate {
  std::string cert_pem;
  std::string key_pem;
  std::string der;
};

struct CertificateOptions {
  std::string common_name = "test";
  std::string organization{};
  // Signed by this one; by itself where it is null.
  const Certificate* issuer = nullptr;
  // Extensions by their number in OpenSSL, in its form of a configuration file.
  std::vector<std::pair<int, std::string>> extensions{};
};

inline std::string TakeText(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

// Valid from a minute ago for an hour.
inline Certificate MakeCertificate(const CertificateOptions& options) {
  const auto read = [](const std::string& pem, auto parse) {
    BIO* bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    auto* result = parse(bio, nullptr, nullptr, nullptr);
    BIO_free(bio);
    return result;
  };
  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509* issuer = cert;
  EVP_PKEY* issuer_key = key;
  if (options.issuer != nullptr) {
    issuer = read(options.issuer->cert_pem, PEM_read_bio_X509);
    issuer_key = read(options.issuer->key_pem, PEM_read_bio_PrivateKey);
  }
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_set_pubkey(cert, key);
  const auto name = [&](const char* field, const std::string& value) {
    if (value.empty()) return;
    X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), field, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0);
  };
  name("O", options.organization);
  name("CN", options.common_name);
  X509_set_issuer_name(cert, X509_get_subject_name(issuer));
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, cert, nullptr, nullptr, 0);
  for (const auto& [number, value] : options.extensions) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, number, value.c_str());
    X509_add_ext(cert, extension, -1);
    X509_EXTENSION_free(extension);
  }
  X509_sign(cert, issuer_key, EVP_sha256());

  Certificate result;
  BIO* out = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(out, cert);
  result.cert_pem = TakeText(out);
  out = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  result.key_pem = TakeText(out);
  out = BIO_new(BIO_s_mem());
  i2d_X509_bio(out, cert);
  result.der = TakeText(out);
  if (options.issuer != nullptr) {
    X509_free(issuer);
    EVP_PKEY_free(issuer_key);
  }
  X509_free(cert);
  EVP_PKEY_free(key);
  return result;
}

// Of a client, signed by a CA.
inline Certificate IssueClient(const Certificate& ca, const std::string& common_name,
                               const std::string& organization = "") {
  return MakeCertificate({.common_name = common_name,
                          .organization = organization,
                          .issuer = &ca,
                          .extensions = {{NID_ext_key_usage, "clientAuth"}}});
}

// A CA certificate, signed by itself, that is also valid for the address or DNS name.
inline Certificate SelfSigned(const std::string& host) {
  const bool address = host.find_first_not_of("0123456789.") == std::string::npos;
  return MakeCertificate({.extensions = {{NID_subject_alt_name, (address ? "IP:" : "DNS:") + host},
                                         {NID_basic_constraints, "critical,CA:TRUE"}}});
}

}  // namespace sluice::kube
