// Transport over the C++ REST SDK, with the bound on requests in flight in front of it.
//
// One TCP connection per request in flight (HTTP/1.1, kept alive), one per stream; one whose other
// side went away without a word is found dead in three quarters of a minute. TLS 1.2 or newer. A
// keep-alive connection that the server closed makes the library send the request again, whatever
// the method: creates must use names that do not change, so that the second one is AlreadyExists.
//
//   InitTransport();                                  // first thing in main
//   Executor timers("timers"), delivery("delivery");
//   ASSIGN_OR_RETURN(auto transport, MakeTransport(creds, timers, delivery, {}));
#pragma once

#include <absl/status/statusor.h>
#include <absl/time/time.h>

#include <functional>
#include <memory>
#include <string>

#include "kube/credentials.h"
#include "kube/executor.h"
#include "kube/request_gate.h"
#include "kube/transport.h"

namespace sluice::kube {

// Sizes the library's thread pool; later calls change nothing. Call before anything else of this
// room, and before other threads start. One thread is best: nothing on it waits, and the library
// hands each step of a request to the pool, which with more threads wakes another one for it (a
// third of what a request cost was such waking).
void InitTransport(int threads = 1);

struct TransportOptions {
  std::string user_agent = "sluice";
  GateOptions gate = {};
  // Told of each answer: method, HTTP code (0 without an answer), time taken. On transport threads.
  std::function<void(const std::string& method, int code, absl::Duration taken)> on_request = {};
  size_t max_line_bytes = size_t{32} << 20;  // a longer line of a stream ends it
};

// InvalidArgument names the field when the server's address is not usable.
//
// Order of the end: stop reflectors, sender and elector; shut `timers` down (no repetition starts
// any more); destroy the transport, which cancels everything and waits for the callbacks; shut
// `delivery` down. Not from one of its own threads, and not while a delivery waits for the
// destroying thread.
absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(std::shared_ptr<Credentials> credentials,
                                                         Executor& timers, Executor& delivery,
                                                         TransportOptions options);

}  // namespace sluice::kube
