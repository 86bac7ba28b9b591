// The TLS side of a server: one immutable context per certificate. Private to this room.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <memory>
#include <string>

#include "serve/beast.h"
#include "serve/server.h"

namespace sluice::serve {

// Errors: InvalidArgument naming the certificate, suite or group that cannot be used. `warn` gets a
// line for each group that is left out.
absl::StatusOr<std::shared_ptr<asio::ssl::context>> MakeTlsContext(
    const ServingCertificate& certificate, const TlsOptions& options,
    const std::function<void(const std::string&)>& warn);

}  // namespace sluice::serve
