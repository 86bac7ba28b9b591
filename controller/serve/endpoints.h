// Handlers for the probes and for /metrics.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/authorizer.h"
#include "serve/http.h"

namespace sluice::serve {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Says why the process is not ready, or "" when it is. Called on a server thread.
using ReadyCheck = std::function<std::string()>;

struct HealthPaths {
  std::string liveness = "/healthz";
  std::string readiness = "/readyz";
};

// Adds both probes: liveness always answers "ok" while the process serves; readiness answers 500
// with the reason until the check gives "". The checks can also be asked by name
// ("/healthz/healthz").
void AddHealth(Router& router, const HealthPaths& paths, ReadyCheck ready);

// GET /metrics in the Prometheus text format 0.0.4. With an authorizer: 401 without a valid bearer
// token, 403 for one that may not `get` the path, 503 when the API server cannot be asked.
void AddMetrics(Router& router, std::function<std::string()> text,
                std::shared_ptr<Authorizer> authorizer, const std::string& path = "/metrics");

}  // namespace sluice::serve
