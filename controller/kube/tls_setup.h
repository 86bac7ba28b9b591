// What a connection to the API server trusts, and how it identifies itself.
//
// Called by the HTTP library for each new connection, on its threads. Problems cannot be returned
// from here: the handshake fails then, and start-up has checked the same material before. With an
// authority in the credentials only that one is trusted, else those of the system (as they were at
// the first connection).
#pragma once

#include "kube/credentials.h"

namespace boost::asio::ssl {
class context;
}

namespace sluice::kube {

void SetUpTls(Credentials& credentials, boost::asio::ssl::context& context);

}  // namespace sluice::kube
