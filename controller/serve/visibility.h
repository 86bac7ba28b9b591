// The aggregated API visibility.kueue.x-k8s.io: what waits in which position, for people and
// programs that may see a queue but not everybody's Workloads.
//
// An API server of its own behind the aggregation layer: discovery, OpenAPI, two read-only
// subresources and a question (whatif). It stores nothing. Every answer is made from immutable
// views; authentication and authorization are asked of the main API server without waiting.
//
// Contract: Handle may be called from several threads; it never blocks.
// Source: Kueue documentation, "Pending Workloads on-demand"; Kubernetes documentation, "Configure
// the Aggregation Layer"; Kubernetes API conventions (Status).
#pragma once

#include <absl/container/btree_map.h>
#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "api/json.h"
#include "serve/access.h"
#include "serve/http.h"
#include "serve/identity.h"
#include "serve/pending_index.h"

namespace sluice::serve {

inline constexpr char kVisibilityGroup[] = "visibility.kueue.x-k8s.io";

struct VisibilityOptions {
  std::shared_ptr<PendingIndex> pending;
  std::shared_ptr<AccessReviewer> access;
  // nullptr as long as nobody is known to be trusted.
  std::function<std::shared_ptr<const RequestTrust>()> trust;
  std::function<absl::Time()> now;
  std::string version;  // of the product, for /version
  // The text of /metrics, for those who may get that path; empty: it is not there.
  std::function<std::string()> metrics;
  // Answers POST .../clusterqueues/NAME/whatif; `done` may be called later and from any thread, the
  // answer is written on one of the server. InvalidArgument and NotFound are the caller's mistakes.
  // Empty: the subresource is not there.
  using WhatIfAnswer = std::function<api::Json()>;
  using WhatIfDone = std::function<void(absl::StatusOr<WhatIfAnswer>)>;
  std::function<void(const std::string& cluster_queue, const api::Json& body, WhatIfDone done)>
      what_if;
};

class VisibilityApi : public std::enable_shared_from_this<VisibilityApi> {
 public:
  static std::shared_ptr<VisibilityApi> Make(VisibilityOptions options);
  // The probes, which anybody may ask, and everything else.
  static void AddTo(Router& router, std::shared_ptr<VisibilityApi> api);

  void Handle(const Request& request, Finish finish);

 private:
  struct Target;
  explicit VisibilityApi(VisibilityOptions options);
  Target TargetOf(const Request& request) const;
  void Authorize(const User& user, std::shared_ptr<const Request> request, Finish finish);
  void Answer(const Target& target, std::shared_ptr<const Request> request, Finish finish);
  Response AnswerNow(const Target& target, const Request& request) const;
  Response Pending(const Target& target, const Request& request) const;
  void AskWhatIf(const Target& target, const Request& request, Finish finish);

  const VisibilityOptions options_;
  // Texts by path; those with another form on demand have it under the media type's parameters.
  absl::btree_map<std::string, Response> documents_;
  absl::btree_map<std::string, Response> aggregated_;
};

// A Status object as the body of a refusal. `details` may be null.
Response StatusResponse(int code, const std::string& reason, const std::string& message,
                        api::Json details = {});

}  // namespace sluice::serve
