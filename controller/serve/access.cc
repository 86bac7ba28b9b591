#include "serve/access.h"

#include "base/status.h"
#include "serve/openssl.h"

namespace sluice::serve {
namespace {

using api::Json;

Json Strings(const std::vector<std::string>& values) {
  Json list = Json::MakeArray();
  for (const std::string& value : values) list.Append(value);
  return list;
}

Json ReviewOf(const User& user, const AccessQuestion& question) {
  Json spec = Json::MakeObject();
  if (question.resource.empty()) {
    spec.Set("nonResourceAttributes",
             Json::MakeObject({{"path", question.path}, {"verb", question.verb}}));
  } else {
    spec.Set("resourceAttributes", Json::MakeObject({{"namespace", question.ns},
                                                     {"verb", question.verb},
                                                     {"group", question.group},
                                                     {"version", question.version},
                                                     {"resource", question.resource},
                                                     {"subresource", question.subresource},
                                                     {"name", question.name}}));
  }
  spec.Set("user", user.name);
  if (!user.uid.empty()) spec.Set("uid", user.uid);
  if (!user.groups.empty()) spec.Set("groups", Strings(user.groups));
  if (!user.extra.empty()) {
    Json extra = Json::MakeObject();
    for (const auto& [key, values] : user.extra) extra.Set(key, Strings(values));
    spec.Set("extra", std::move(extra));
  }
  return Json::MakeObject({{"apiVersion", "authorization.k8s.io/v1"},
                           {"kind", "SubjectAccessReview"},
                           {"spec", std::move(spec)}});
}

bool IsTrue(const Json* value) { return value != nullptr && value->AsBool(); }

}  // namespace

template <typename T>
std::optional<T> AccessReviewer::Recall(const Cache<T>& cache, const std::string& key) {
  const absl::Time now = now_();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = cache.find(key);
  if (found == cache.end() || found->second.expires <= now) return std::nullopt;
  return found->second.value;
}

template <typename T>
void AccessReviewer::Remember(Cache<T>& cache, const std::string& key, T value) {
  const absl::Time now = now_();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (cache.size() >= max_entries_) {
    for (auto it = cache.begin(); it != cache.end();) {
      it = it->second.expires <= now ? cache.erase(it) : std::next(it);
    }
  }
  // Still full: these are too many to be worth remembering.
  if (cache.size() < max_entries_ || cache.contains(key)) {
    cache.insert_or_assign(key, Entry<T>{std::move(value), now + ttl_});
  }
}

void AccessReviewer::MayDo(const User& user, const AccessQuestion& question,
                           std::function<void(absl::StatusOr<bool>)> done) {
  if (user.InGroup("system:masters")) return done(true);
  const Json review = ReviewOf(user, question);
  const std::string key = Digest(review.Text());
  if (const std::optional<bool> known = Recall(allowed_, key)) return done(*known);
  post_("/apis/authorization.k8s.io/v1/subjectaccessreviews", review,
        [self = shared_from_this(), key, done = std::move(done)](absl::StatusOr<Json> answer) {
          if (!answer.ok()) return done(Annotate(answer.status(), "SubjectAccessReview"));
          const bool allowed = IsTrue(answer->Find("status", "allowed"));
          self->Remember(self->allowed_, key, allowed);
          done(allowed);
        });
}

void AccessReviewer::OwnerOf(const std::string& token,
                             std::function<void(absl::StatusOr<std::optional<User>>)> done) {
  const std::string key = Digest(token);
  if (const auto known = Recall(owners_, key)) return done(*known);
  const Json review = Json::MakeObject({{"apiVersion", "authentication.k8s.io/v1"},
                                        {"kind", "TokenReview"},
                                        {"spec", Json::MakeObject({{"token", token}})}});
  post_("/apis/authentication.k8s.io/v1/tokenreviews", review,
        [self = shared_from_this(), key, done = std::move(done)](absl::StatusOr<Json> answer) {
          if (!answer.ok()) return done(Annotate(answer.status(), "TokenReview"));
          std::optional<User> owner;
          const Json* user = answer->Find("status", "user");
          if (IsTrue(answer->Find("status", "authenticated")) && user != nullptr) {
            owner = UserOfReview(*user);
          }
          self->Remember(self->owners_, key, owner);
          done(std::move(owner));
        });
}

}  // namespace sluice::serve
