// Handlers for the probes and for /metrics.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "serve/authorizer.h"
#include "serve/http.h"

namespace sluice::serve {

inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// Says what is wrong, or "" when nothing is. Called on a server thread.
using HealthCheck = std::function<std::string()>;

struct HealthPaths {
  std::string liveness = "/healthz";
  std::string readiness = "/readyz";
};

// Adds both probes: "ok", or 500 with the reason while the check gives one. The checks can also be
// asked by name ("/healthz/healthz").
void AddHealth(Router& router, const HealthPaths& paths, HealthCheck live, HealthCheck ready);

// GET /metrics in the Prometheus text format 0.0.4. With an authorizer: 401 without a valid bearer
// token, 403 for one that may not `get` the path, 503 when the API server cannot be asked.
void AddMetrics(Router& router, std::function<std::string()> text,
                std::shared_ptr<Authorizer> authorizer, const std::string& path = "/metrics");

}  // namespace sluice::serve
