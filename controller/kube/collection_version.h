// AskCollectionVersion: how new the collection of a kind is in the API server.
//
// A LIST without a resourceVersion is answered from the most recent state, whatever cache it comes
// from, and metadata.resourceVersion of the answer says which state that is; one object of it is
// enough. Source: Kubernetes documentation, "API Concepts" (semantics of get and list); KEP-2340.
#pragma once

#include <functional>
#include <string>

#include "api/kind.h"
#include "kube/client.h"
#include "kube/executor.h"

namespace sluice::kube {

struct CollectionVersion {
  std::string version;  // "": the API server does not serve the kind
  bool few = true;      // a list of all has a few pages at most
};

struct CollectionQuestion {
  api::Kind kind = api::Kind::kWorkload;
  // Asked before each try; when it says no, nobody is told anything any more.
  std::function<bool()> go_on;
  std::function<void(const absl::Status&)> on_error;  // a try failed, the next one follows
  std::function<void(const CollectionVersion&)> done;
  BackoffOptions backoff = {.first = absl::Milliseconds(200), .cap = absl::Seconds(5)};
};

// Tries until there is an answer. The callbacks come on threads that must not be blocked. The
// executor must be shut down before the client's transport is destroyed.
void AskCollectionVersion(Client client, Executor& timers, CollectionQuestion question);

}  // namespace sluice::kube
