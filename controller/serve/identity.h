// Who a caller of an aggregated API server is: the front proxy's word, a client certificate, or
// nobody (then a bearer token may say it).
//
// The API server authenticates its own clients and passes the request on over a connection with the
// front proxy's client certificate and the user's name in headers. Such headers count only when
// that certificate chains to the front proxy's CA and its common name is allowed; from everybody
// else they are ignored. Trust comes from ConfigMap kube-system/extension-apiserver-authentication.
//
// Contract: immutable after Parse, any thread. UserOf costs the verification of a signature.
// Source: Kubernetes documentation, "Authenticating" (authenticating proxy, X.509 client
// certificates) and "Configure the Aggregation Layer".
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/json.h"
#include "serve/http.h"

namespace sluice::serve {

struct User {
  std::string name;
  std::string uid;
  std::vector<std::string> groups;
  absl::btree_map<std::string, std::vector<std::string>> extra;
  bool operator==(const User&) const = default;

  bool InGroup(std::string_view group) const;
};

User Anonymous();
// The `user` of the status of a TokenReview.
User UserOfReview(const api::Json& user);

inline constexpr char kTrustPath[] =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

class RequestTrust {
 public:
  // From the ConfigMap. InvalidArgument names the key that cannot be read; absent keys mean that
  // this way of authentication is off.
  static absl::StatusOr<std::shared_ptr<const RequestTrust>> Parse(const api::Json& config_map);
  ~RequestTrust();

  // nullopt: neither a trusted front proxy with a name, nor a trusted client certificate.
  std::optional<User> UserOf(const Request& request, absl::Time now) const;

 private:
  struct Stores;
  RequestTrust();
  std::optional<User> FromHeaders(const Request& request) const;

  std::unique_ptr<Stores> stores_;
  std::vector<std::string> allowed_names_;  // empty: any
  std::vector<std::string> user_headers_;
  std::vector<std::string> uid_headers_;
  std::vector<std::string> group_headers_;
  std::vector<std::string> extra_prefixes_;
};

// "%41" -> "A"; what is no escape stays.
std::string PercentDecoded(std::string_view text);

}  // namespace sluice::serve
