#include "serve/identity.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>

#include "base/status.h"
#include "serve/openssl.h"

namespace sluice::serve {
namespace {

using api::Json;

using Store = std::unique_ptr<X509_STORE, OpenSslDeleter<X509_STORE_free>>;
using StoreContext = std::unique_ptr<X509_STORE_CTX, OpenSslDeleter<X509_STORE_CTX_free>>;

constexpr char kAnonymousName[] = "system:anonymous";
constexpr char kAuthenticatedGroup[] = "system:authenticated";
constexpr char kUnauthenticatedGroup[] = "system:unauthenticated";

// Null for an empty text.
absl::StatusOr<Store> StoreOf(const std::string& pem) {
  if (pem.empty()) return Store();
  Store store(X509_STORE_new());
  const Bio bio = ReadOnly(pem);
  int count = 0;
  while (Certificate ca{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    X509_STORE_add_cert(store.get(), ca.get());
    ++count;
  }
  ERR_clear_error();
  if (count == 0) return InvalidArgument("there is no PEM certificate in it");
  return store;
}

Certificate Decode(const std::string& der) {
  const auto* data = reinterpret_cast<const unsigned char*>(der.data());
  return Certificate(d2i_X509(nullptr, &data, static_cast<long>(der.size())));
}

bool Verifies(X509_STORE* store, X509* leaf, const std::vector<std::string>& chain,
              absl::Time now) {
  if (store == nullptr) return false;
  STACK_OF(X509)* between = sk_X509_new_null();
  for (size_t i = 1; i < chain.size(); ++i) {
    if (Certificate certificate = Decode(chain[i])) sk_X509_push(between, certificate.release());
  }
  const StoreContext context(X509_STORE_CTX_new());
  bool ok = X509_STORE_CTX_init(context.get(), store, leaf, between) == 1;
  if (ok) {
    X509_VERIFY_PARAM* rules = X509_STORE_CTX_get0_param(context.get());
    X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(now));
    X509_VERIFY_PARAM_set_purpose(rules, X509_PURPOSE_SSL_CLIENT);
    ok = X509_verify_cert(context.get()) == 1;
  }
  ERR_clear_error();
  sk_X509_pop_free(between, X509_free);
  return ok;
}

std::vector<std::string> NamesOf(X509* certificate, int nid) {
  std::vector<std::string> names;
  X509_NAME* subject = X509_get_subject_name(certificate);
  for (int at = -1; (at = X509_NAME_get_index_by_NID(subject, nid, at)) >= 0;) {
    unsigned char* text = nullptr;
    const int size =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size < 0) continue;
    names.emplace_back(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
    OPENSSL_free(text);
  }
  return names;
}

bool SameHeader(const std::string& a, const std::string& b) { return absl::EqualsIgnoreCase(a, b); }

std::vector<std::string> ValuesOf(const Request& request, const std::vector<std::string>& names) {
  std::vector<std::string> values;
  for (const std::string& name : names) {
    for (const auto& [header, value] : request.headers) {
      if (SameHeader(header, name)) values.push_back(value);
    }
  }
  return values;
}

std::string FirstOf(const Request& request, const std::vector<std::string>& names) {
  for (std::string& value : ValuesOf(request, names)) {
    if (!value.empty()) return std::move(value);
  }
  return "";
}

absl::Status ReadList(const Json& data, const char* key, std::vector<std::string>& out) {
  const std::string text = data.GetString(key);
  if (text.empty()) return absl::OkStatus();
  const absl::StatusOr<Json> list = api::ParseJson(text);
  if (!list.ok() || !list->IsArray()) return InvalidArgument("{}: not a JSON list", key);
  for (const Json& item : list->AsArray()) out.push_back(item.AsString());
  return absl::OkStatus();
}

// As every API server does behind its authentication: the aggregator, for one, comes without
// groups.
void AddAuthenticated(User& user) {
  if (user.name == kAnonymousName) return;
  for (const std::string& group : user.groups) {
    if (group == kAuthenticatedGroup || group == kUnauthenticatedGroup) return;
  }
  user.groups.push_back(kAuthenticatedGroup);
}

}  // namespace

struct RequestTrust::Stores {
  Store proxy;
  Store clients;
};

RequestTrust::RequestTrust() : stores_(std::make_unique<Stores>()) {}
RequestTrust::~RequestTrust() = default;

bool User::InGroup(std::string_view group) const {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

User Anonymous() {
  User user;
  user.name = kAnonymousName;
  user.groups = {kUnauthenticatedGroup};
  return user;
}

User UserOfReview(const Json& review) {
  User user;
  user.name = review.GetString("username");
  user.uid = review.GetString("uid");
  if (const Json* groups = review.Find("groups")) {
    for (const Json& group : groups->AsArray()) user.groups.push_back(group.AsString());
  }
  if (const Json* extra = review.Find("extra")) {
    for (const auto& [key, values] : extra->AsObject()) {
      for (const Json& value : values.AsArray()) user.extra[key].push_back(value.AsString());
    }
  }
  return user;
}

absl::StatusOr<std::shared_ptr<const RequestTrust>> RequestTrust::Parse(const Json& config_map) {
  std::shared_ptr<RequestTrust> trust(new RequestTrust);
  const Json* data = config_map.Find("data");
  if (data == nullptr) return std::shared_ptr<const RequestTrust>(std::move(trust));
  const auto read_store = [&](const char* key, Store& out) -> absl::Status {
    absl::StatusOr<Store> store = StoreOf(data->GetString(key));
    if (!store.ok()) return Annotate(store.status(), key);
    out = *std::move(store);
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(read_store("requestheader-client-ca-file", trust->stores_->proxy));
  RETURN_IF_ERROR(read_store("client-ca-file", trust->stores_->clients));
  RETURN_IF_ERROR(ReadList(*data, "requestheader-allowed-names", trust->allowed_names_));
  RETURN_IF_ERROR(ReadList(*data, "requestheader-username-headers", trust->user_headers_));
  RETURN_IF_ERROR(ReadList(*data, "requestheader-uid-headers", trust->uid_headers_));
  RETURN_IF_ERROR(ReadList(*data, "requestheader-group-headers", trust->group_headers_));
  RETURN_IF_ERROR(ReadList(*data, "requestheader-extra-headers-prefix", trust->extra_prefixes_));
  return std::shared_ptr<const RequestTrust>(std::move(trust));
}

std::optional<User> RequestTrust::FromHeaders(const Request& request) const {
  User user;
  user.name = FirstOf(request, user_headers_);
  if (user.name.empty()) return std::nullopt;
  user.uid = FirstOf(request, uid_headers_);
  user.groups = ValuesOf(request, group_headers_);
  for (const auto& [header, value] : request.headers) {
    for (const std::string& prefix : extra_prefixes_) {
      if (header.size() <= prefix.size() || !SameHeader(header.substr(0, prefix.size()), prefix)) {
        continue;
      }
      const std::string key = PercentDecoded(absl::AsciiStrToLower(header.substr(prefix.size())));
      user.extra[key].push_back(value);
      break;
    }
  }
  AddAuthenticated(user);
  return user;
}

std::optional<User> RequestTrust::UserOf(const Request& request, absl::Time now) const {
  if (request.client_certificates == nullptr || request.client_certificates->empty()) {
    return std::nullopt;
  }
  const std::vector<std::string>& chain = *request.client_certificates;
  const Certificate leaf = Decode(chain.front());
  if (leaf == nullptr) return std::nullopt;
  const std::vector<std::string> names = NamesOf(leaf.get(), NID_commonName);
  const std::string name = names.empty() ? "" : names.back();
  const bool allowed =
      allowed_names_.empty() ||
      std::find(allowed_names_.begin(), allowed_names_.end(), name) != allowed_names_.end();
  if (allowed && Verifies(stores_->proxy.get(), leaf.get(), chain, now)) {
    if (std::optional<User> user = FromHeaders(request)) return user;
  }
  if (name.empty() || !Verifies(stores_->clients.get(), leaf.get(), chain, now)) {
    return std::nullopt;
  }
  User user;
  user.name = name;
  user.groups = NamesOf(leaf.get(), NID_organizationName);
  AddAuthenticated(user);
  return user;
}

std::string PercentDecoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) {
      const char c =
          at < text.size() ? absl::ascii_tolower(static_cast<unsigned char>(text[at])) : 'x';
      if (c >= '0' && c <= '9') return c - '0';
      return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    };
    const int high = text[i] == '%' ? digit(i + 1) : -1;
    const int low = high >= 0 ? digit(i + 2) : -1;
    if (low >= 0) {
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace sluice::serve
