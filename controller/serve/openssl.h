// What the files of this room that call OpenSSL have in common (private to this room): owners of
// its objects, and digests. Thread-safe.
#pragma once

#include <openssl/bio.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace sluice::serve {

template <auto Free>
struct OpenSslDeleter {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};
using Bio = std::unique_ptr<BIO, OpenSslDeleter<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, OpenSslDeleter<X509_free>>;

// Reads from the text, which must outlive it.
inline Bio ReadOnly(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// SHA-256, 32 bytes.
inline std::string Digest(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return std::string(reinterpret_cast<const char*>(digest), sizeof digest);
}

}  // namespace sluice::serve
