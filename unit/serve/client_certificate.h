// Client certificates for tests, signed by a CA of certificates.h.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <string>

#include "serve/certificates.h"

namespace sluice::serve {

struct ClientCertificate {
  std::string cert_pem;
  std::string key_pem;
  std::string der;
};

inline std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

inline ClientCertificate IssueClient(const KeyPair& ca, const std::string& common_name,
                                     const std::string& organization = "") {
  BIO* ca_cert_bio = BIO_new_mem_buf(ca.cert_pem.data(), static_cast<int>(ca.cert_pem.size()));
  X509* ca_cert = PEM_read_bio_X509(ca_cert_bio, nullptr, nullptr, nullptr);
  BIO_free(ca_cert_bio);
  BIO* ca_key_bio = BIO_new_mem_buf(ca.key_pem.data(), static_cast<int>(ca.key_pem.size()));
  EVP_PKEY* ca_key = PEM_read_bio_PrivateKey(ca_key_bio, nullptr, nullptr, nullptr);
  BIO_free(ca_key_bio);

  EVP_PKEY* key = EVP_EC_gen("P-256");
  X509* cert = X509_new();
  X509_set_version(cert, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(cert), 7);
  X509_gmtime_adj(X509_getm_notBefore(cert), -60);
  X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
  X509_NAME* subject = X509_get_subject_name(cert);
  const auto add = [&](const char* field, const std::string& value) {
    X509_NAME_add_entry_by_txt(subject, field, MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(value.c_str()), -1, -1, 0);
  };
  if (!organization.empty()) add("O", organization);
  add("CN", common_name);
  X509_set_issuer_name(cert, X509_get_subject_name(ca_cert));
  X509_set_pubkey(cert, key);
  X509_EXTENSION* usage = X509V3_EXT_conf_nid(nullptr, nullptr, NID_ext_key_usage, "clientAuth");
  X509_add_ext(cert, usage, -1);
  X509_EXTENSION_free(usage);
  X509_sign(cert, ca_key, EVP_sha256());

  ClientCertificate result;
  BIO* out = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(out, cert);
  result.cert_pem = TextOf(out);
  out = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
  result.key_pem = TextOf(out);
  out = BIO_new(BIO_s_mem());
  i2d_X509_bio(out, cert);
  result.der = TextOf(out);
  X509_free(cert);
  EVP_PKEY_free(key);
  X509_free(ca_cert);
  EVP_PKEY_free(ca_key);
  return result;
}

}  // namespace sluice::serve
