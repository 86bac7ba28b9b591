// TCP keepalive for the connections of the HTTP library.
//
// A watch can be silent for minutes; without probes a connection whose other side, or a NAT
// between, vanished looks the same. These find it in about 45 seconds, the time after which Go
// clients of Kubernetes give an HTTP/2 connection up (30 s without a frame, 15 s for the answer to
// a ping). Sources: tcp(7); k8s.io/apimachinery util/net, HTTP2_READ_IDLE_TIMEOUT_SECONDS.
#pragma once

#include <functional>
#include <string>

namespace sluice::kube {

// For http_client_config::set_nativehandle_options. The library calls it before it connects, when a
// new socket is not open yet: it is opened here where the server's address is an IP address, as it
// is for every client inside of a cluster. For host names only connections that are used again get
// the options.
std::function<void(void*)> SocketOptionsFor(const std::string& server);

}  // namespace sluice::kube
