// Who may read a non-resource path: TokenReview says who the caller is, SubjectAccessReview whether
// they may
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication).
//
// Contract: Authorize() may block for as long as the API server takes to answer and may be called
// from several threads. Unavailable when the API server cannot be asked; never "allowed" on an
// error.
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "api/json.h"

namespace sluice::serve {

enum class Access { kAllowed, kUnauthenticated, kForbidden };

class Authorizer {
 public:
  virtual ~Authorizer() = default;
  // `verb` in lower case ("get").
  virtual absl::StatusOr<Access> Authorize(const std::string& token, const std::string& path,
                                           const std::string& verb) = 0;
};

// Asks the API server. `post` sends an object to an API path and gives the object of the answer.
class ReviewAuthorizer : public Authorizer {
 public:
  using Post =
      std::function<absl::StatusOr<api::Json>(const std::string& api_path, const api::Json& body)>;
  explicit ReviewAuthorizer(Post post) : post_(std::move(post)) {}
  absl::StatusOr<Access> Authorize(const std::string& token, const std::string& path,
                                   const std::string& verb) override;

 private:
  Post post_;
};

// Remembers answers for a short time: allowed ones and refusals for `ttl`, errors not at all. Keeps
// digests of tokens, never tokens, and at most `max_entries` answers.
class CachingAuthorizer : public Authorizer {
 public:
  CachingAuthorizer(std::unique_ptr<Authorizer> inner, std::function<absl::Time()> now,
                    absl::Duration ttl = absl::Minutes(1), size_t max_entries = 256)
      : inner_(std::move(inner)), now_(std::move(now)), ttl_(ttl), max_entries_(max_entries) {}
  absl::StatusOr<Access> Authorize(const std::string& token, const std::string& path,
                                   const std::string& verb) override;

 private:
  struct Entry {
    Access access;
    absl::Time expires;
  };
  std::unique_ptr<Authorizer> inner_;
  std::function<absl::Time()> now_;
  absl::Duration ttl_;
  size_t max_entries_;
  std::mutex mutex_;  // guards entries_
  absl::btree_map<std::string, Entry> entries_;
};

}  // namespace sluice::serve
