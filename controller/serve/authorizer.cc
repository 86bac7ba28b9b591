#include "serve/authorizer.h"

#include <algorithm>

#include "base/status.h"
#include "serve/openssl.h"

namespace sluice::serve {
namespace {

using api::Json;

constexpr char kTokenReviews[] = "/apis/authentication.k8s.io/v1/tokenreviews";
constexpr char kSubjectAccessReviews[] = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

bool IsTrue(const Json* value) { return value != nullptr && value->AsBool(); }

Json TokenReview(const std::string& token) {
  return Json::MakeObject({{"apiVersion", "authentication.k8s.io/v1"},
                           {"kind", "TokenReview"},
                           {"spec", Json::MakeObject({{"token", token}})}});
}

// The user as TokenReview gave it, asked for a non-resource path.
Json SubjectAccessReview(const Json& user, const std::string& path, const std::string& verb) {
  Json spec = Json::MakeObject(
      {{"nonResourceAttributes", Json::MakeObject({{"path", path}, {"verb", verb}})},
       {"user", user.GetString("username")}});
  for (const char* key : {"uid", "groups", "extra"}) {
    if (const Json* value = user.Find(key)) spec.Set(key, *value);
  }
  return Json::MakeObject({{"apiVersion", "authorization.k8s.io/v1"},
                           {"kind", "SubjectAccessReview"},
                           {"spec", std::move(spec)}});
}

}  // namespace

absl::StatusOr<Access> ReviewAuthorizer::Authorize(const std::string& token,
                                                   const std::string& path,
                                                   const std::string& verb) {
  absl::StatusOr<Json> token_review = post_(kTokenReviews, TokenReview(token));
  if (!token_review.ok()) return Annotate(token_review.status(), "TokenReview");
  if (!IsTrue(token_review->Find("status", "authenticated"))) return Access::kUnauthenticated;
  const Json* user = token_review->Find("status", "user");
  if (user == nullptr) return Unavailable("TokenReview: the answer names no user");

  absl::StatusOr<Json> access =
      post_(kSubjectAccessReviews, SubjectAccessReview(*user, path, verb));
  if (!access.ok()) return Annotate(access.status(), "SubjectAccessReview");
  return IsTrue(access->Find("status", "allowed")) ? Access::kAllowed : Access::kForbidden;
}

absl::StatusOr<Access> CachingAuthorizer::Authorize(const std::string& token,
                                                    const std::string& path,
                                                    const std::string& verb) {
  const std::string key = Digest(token) + verb + " " + path;
  const absl::Time now = now_();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = entries_.find(key);
    if (found != entries_.end() && now < found->second.expires) return found->second.access;
  }
  // Without the lock: a slow API server must not hold up callers whose answer is known.
  ASSIGN_OR_RETURN(const Access access, inner_->Authorize(token, path, verb));
  const std::lock_guard<std::mutex> lock(mutex_);
  if (entries_.size() >= max_entries_) {
    for (auto it = entries_.begin(); it != entries_.end();) {
      it = it->second.expires <= now ? entries_.erase(it) : std::next(it);
    }
  }
  // Still full: somebody tries many tokens. They are not worth remembering.
  if (entries_.size() < max_entries_ || entries_.contains(key)) {
    entries_[key] = Entry{access, now + ttl_};
  }
  return access;
}

}  // namespace sluice::serve
