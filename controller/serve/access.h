// AccessReviewer: whether a user may do something, and who the owner of a token is, asked of the
// API server without waiting.
//
// Answers are remembered for ten seconds, both kinds; errors are not. Members of system:masters may
// do everything, as in the API server itself, so that discovery works while RBAC starts.
//
// Contract: thread-safe. `done` is called exactly once, at once or from the thread that brings the
// answer; the reviewer must be held by a shared_ptr while answers are on their way. Unavailable
// when the API server cannot be asked; an error is never "allowed".
// Source: Kubernetes documentation, "Authorization" (SubjectAccessReview), "Authenticating"
// (TokenReview).
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "api/json.h"
#include "serve/identity.h"

namespace sluice::serve {

// Either a resource, or a path when `resource` is empty.
struct AccessQuestion {
  std::string verb;  // lower case
  std::string path;
  std::string group;
  std::string version;
  std::string resource;
  std::string subresource;
  std::string ns;
  std::string name;
};

class AccessReviewer : public std::enable_shared_from_this<AccessReviewer> {
 public:
  using Answer = std::function<void(absl::StatusOr<api::Json>)>;
  // Sends an object to an API path and gives the object of the answer to `done`.
  using Post = std::function<void(const std::string& path, const api::Json& body, Answer done)>;

  AccessReviewer(Post post, std::function<absl::Time()> now, absl::Duration ttl = absl::Seconds(10),
                 size_t max_entries = 4096)
      : post_(std::move(post)), now_(std::move(now)), ttl_(ttl), max_entries_(max_entries) {}

  void MayDo(const User& user, const AccessQuestion& question,
             std::function<void(absl::StatusOr<bool>)> done);
  // nullopt: the token is not valid.
  void OwnerOf(const std::string& token,
               std::function<void(absl::StatusOr<std::optional<User>>)> done);

 private:
  template <typename T>
  struct Entry {
    T value;
    absl::Time expires;
  };
  template <typename T>
  using Cache = absl::btree_map<std::string, Entry<T>>;
  template <typename T>
  std::optional<T> Recall(const Cache<T>& cache, const std::string& key);
  template <typename T>
  void Remember(Cache<T>& cache, const std::string& key, T value);

  Post post_;
  std::function<absl::Time()> now_;
  absl::Duration ttl_;
  size_t max_entries_;
  std::mutex mutex_;  // guards both caches
  Cache<bool> allowed_;
  Cache<std::optional<User>> owners_;  // by digest of the token
};

}  // namespace sluice::serve
