// clang-format off: <utility> has to come before the first Boost.Asio header, which uses
// std::exchange without including it.
#include <utility>
// clang-format on
#include "kube/cpprest_transport.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <cpprest/http_client.h>
#include <pplx/threadpool.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/status.h"
#include "kube/keep_alive.h"
#include "kube/line_cutter.h"
#include "kube/piece_buffer.h"
#include "kube/tls_setup.h"

namespace sluice::kube {
namespace {

namespace http = web::http;
using ClientPtr = std::shared_ptr<http::client::http_client>;
using Pieces = concurrency::streams::streambuf<uint8_t>;

constexpr size_t kMaxErrorBody = size_t{64} << 10;
// The library's own timer restarts with every byte; ours are the ones that count.
constexpr std::chrono::hours kLibraryTimeout{2};

// The one place where failures of the library become a Status.
absl::Status Explain(const std::exception_ptr& failure, const std::string& server, bool timed_out,
                     bool cancelled) {
  if (timed_out) {
    return Errorf(absl::StatusCode::kDeadlineExceeded, "{}: no answer in time", server);
  }
  if (cancelled) return Errorf(absl::StatusCode::kCancelled, "{}: request cancelled", server);
  std::string text;
  try {
    std::rethrow_exception(failure);
  } catch (const pplx::task_canceled&) {
    return Errorf(absl::StatusCode::kCancelled, "{}: request cancelled", server);
  } catch (const std::exception& error) {
    text = error.what();
  } catch (...) {
    text = "unknown failure";
  }
  // Its texts for the system's errors are wrong ("No route to host" for a refused connection), so
  // only the kind of failure is taken from them.
  if (text.find("SSL") != std::string::npos) {
    return Unavailable(
        "{}: TLS handshake failed (is the server's certificate signed by the configured CA and "
        "issued for this host name, and is our client certificate accepted?)",
        server);
  }
  if (text.find("connect") != std::string::npos) return Unavailable("{}: cannot connect", server);
  if (text.find("resolv") != std::string::npos) {
    return Unavailable("{}: the host name cannot be resolved", server);
  }
  return Unavailable("{}: connection lost", server);
}

HeaderList HeadersOf(const http::http_response& response) {
  HeaderList headers;
  for (const auto& [name, value] : response.headers()) headers.emplace_back(name, value);
  return headers;
}

// One request or stream in flight: its way to be cancelled, and who may call back.
struct Flight {
  pplx::cancellation_token_source cancel;
  std::atomic<bool> timed_out{false};
  std::atomic<bool> cancelled{false};
  std::atomic<int64_t> last_byte_ns{0};  // steady clock
  std::atomic<int64_t> silence_ns{0};    // of a stream
  std::atomic<Executor::TimerId> timer{0};

  void Touch() { last_byte_ns = absl::ToUnixNanos(SteadyNow()); }
  absl::Time last_byte() const { return absl::FromUnixNanos(last_byte_ns); }
  void Cancel() {
    cancelled = true;
    cancel.cancel();
  }
};

class CpprestTransport : public Transport {
 public:
  CpprestTransport(std::shared_ptr<Credentials> credentials, Executor& timers, Executor& delivery,
                   TransportOptions options)
      : shared_(std::make_shared<Shared>(std::move(credentials), timers, delivery, fetcher_,
                                         std::move(options))) {}
  ~CpprestTransport() override {
    shared_->Close();
    fetcher_.Shutdown();
  }

  absl::Status Open() { return shared_->NewClient(); }
  void Send(HttpRequest request, ResponseCallback done) override {
    shared_->Send(std::move(request), std::move(done));
  }
  std::shared_ptr<StreamHandle> Stream(HttpRequest request, LineCallback on_line,
                                       ResponseCallback on_end) override {
    return shared_->Stream(std::move(request), std::move(on_line), std::move(on_end));
  }
  std::string server() const override { return shared_->credentials->server(); }

 private:
  struct SendState;
  struct StreamState;

  // Everything that callbacks need; they hold it by shared_ptr.
  struct Shared : std::enable_shared_from_this<Shared> {
    Shared(std::shared_ptr<Credentials> credentials_in, Executor& timers_in, Executor& delivery_in,
           Executor& fetcher_in, TransportOptions options_in)
        : credentials(std::move(credentials_in)),
          timers(timers_in),
          delivery(delivery_in),
          fetcher(fetcher_in),
          options(std::move(options_in)) {}

    absl::Status NewClient();
    void Send(HttpRequest request, ResponseCallback done);
    std::shared_ptr<StreamHandle> Stream(HttpRequest request, LineCallback on_line,
                                         ResponseCallback on_end);
    void Close();

    // Calls `start` with the headers of the credential, at once or on the fetcher when they have to
    // be fetched first.
    void WithAuth(std::function<void(absl::StatusOr<HeaderList>)> start);
    ClientPtr Client();
    http::http_request Build(const HttpRequest& request, const HeaderList& auth);
    void Replace(const ClientPtr& failed);

    bool Enter(const std::shared_ptr<Flight>& flight);
    void Leave(const std::shared_ptr<Flight>& flight);

    void StartSend(std::shared_ptr<SendState> state);
    void RunSend(std::shared_ptr<SendState> state, absl::StatusOr<HeaderList> auth);
    void FinishSend(std::shared_ptr<SendState> state, absl::StatusOr<HttpResponse> response);

    void RunStream(std::shared_ptr<StreamState> state, absl::StatusOr<HeaderList> auth);
    void OnStreamHeaders(std::shared_ptr<StreamState> state, const http::http_response& response);
    void FinishStream(std::shared_ptr<StreamState> state, absl::Status status);
    void WatchSilence(std::shared_ptr<StreamState> state);
    void LimitSilence(const std::weak_ptr<StreamState>& weak, absl::Duration silence);
    void ReportRequest(const std::string& method, int code, absl::Duration taken) const {
      if (options.on_request) options.on_request(method, code, taken);
    }

    const std::shared_ptr<Credentials> credentials;
    Executor& timers;
    Executor& delivery;
    Executor& fetcher;
    const TransportOptions options;

    absl::Mutex mutex;
    absl::CondVar idle;
    ClientPtr client ABSL_GUARDED_BY(mutex);
    std::vector<std::shared_ptr<Flight>> flights ABSL_GUARDED_BY(mutex);
    bool closed ABSL_GUARDED_BY(mutex) = false;
  };

  struct SendState {
    HttpRequest request;
    ResponseCallback done;
    std::shared_ptr<Flight> flight = std::make_shared<Flight>();
    absl::Time started = SteadyNow();
    bool credential_renewed = false;
  };

  struct StreamState {
    HttpRequest request;
    ResponseCallback on_end;
    std::shared_ptr<Flight> flight = std::make_shared<Flight>();
    std::unique_ptr<LineCutter> cutter;  // used on the delivery thread only
    bool oversized = false;              // a line was too long; the same
    // Complete when the code of the answer is known; body bytes can come earlier.
    pplx::task_completion_event<void> decided;
    std::atomic<bool> has_code{false};  // the same, for a look without a task
    HttpResponse response;              // written before `decided`, its body on the delivery thread
  };

  struct Handle : StreamHandle {
    Handle(std::weak_ptr<Shared> owner_in, const std::shared_ptr<StreamState>& state_in)
        : owner(std::move(owner_in)), state(state_in), flight(state_in->flight) {}
    void Cancel() override { flight->Cancel(); }
    void LimitSilence(absl::Duration silence) override {
      if (const auto shared = owner.lock()) shared->LimitSilence(state, silence);
    }
    const std::weak_ptr<Shared> owner;
    const std::weak_ptr<StreamState> state;
    const std::shared_ptr<Flight> flight;
  };

  // Waits for programs and files that give credentials, which no request of others should.
  Executor fetcher_{"credentials"};
  const std::shared_ptr<Shared> shared_;
};

// Waits for the task and gives its outcome to `done`; no exception of it stays unobserved.
template <typename T, typename Done>
void Consume(pplx::task<T> task, Done done) {
  task.then([done](pplx::task<T> finished) {
    std::exception_ptr failure;
    if constexpr (std::is_void_v<T>) {
      try {
        finished.get();
      } catch (...) {
        failure = std::current_exception();
      }
      done(failure);
    } else {
      T value;
      try {
        value = finished.get();
      } catch (...) {
        failure = std::current_exception();
      }
      done(failure, std::move(value));
    }
  });
}

void OnPool(std::function<void()> body) {
  Consume(pplx::create_task(std::move(body)), [](const std::exception_ptr&) {});
}

absl::Status CpprestTransport::Shared::NewClient() {
  try {
    http::client::http_client_config config;
    config.set_timeout(kLibraryTimeout);
    config.set_max_redirects(0);
    config.set_validate_certificates(!credentials->insecure_skip_tls_verify());
    config.set_nativehandle_options(SocketOptionsFor(credentials->server()));
    config.set_ssl_context_callback(
        [creds = credentials](boost::asio::ssl::context& context) { SetUpTls(*creds, context); });
    auto fresh = std::make_shared<http::client::http_client>(web::uri(credentials->server()),
                                                             std::move(config));
    absl::MutexLock lock(&mutex);
    client = std::move(fresh);
  } catch (const std::exception& error) {
    return InvalidArgument("server \"{}\" is not a usable address: {}", credentials->server(),
                           error.what());
  }
  return absl::OkStatus();
}

ClientPtr CpprestTransport::Shared::Client() {
  absl::MutexLock lock(&mutex);
  return client;
}

// A lost connection says that the others in the client's pool are dead as well, for example after
// the server was restarted: start a new one, unless another request did so already.
void CpprestTransport::Shared::Replace(const ClientPtr& failed) {
  {
    absl::MutexLock lock(&mutex);
    if (closed || client != failed) return;
  }
  NewClient().IgnoreError();  // the address was accepted before
}

http::http_request CpprestTransport::Shared::Build(const HttpRequest& request,
                                                   const HeaderList& auth) {
  http::http_request built(request.method);
  built.set_request_uri(web::uri(request.path_and_query));
  auto& headers = built.headers();
  headers.add("User-Agent", options.user_agent);
  headers.add("Accept", "application/json");
  // The library takes the name for SNI and verification from this header.
  if (!credentials->tls_server_name().empty()) headers.add("Host", credentials->tls_server_name());
  std::string content_type = "application/json";
  for (const auto& [name, value] : request.headers) {
    if (name == "Content-Type") {
      content_type = value;
    } else {
      headers.add(name, value);
    }
  }
  for (const auto& [name, value] : auth) headers.add(name, value);
  if (!request.body.empty()) built.set_body(std::string(request.body), content_type);
  return built;
}

void CpprestTransport::Shared::WithAuth(std::function<void(absl::StatusOr<HeaderList>)> start) {
  if (credentials->Fresh()) {
    start(credentials->AuthHeaders());
    return;
  }
  fetcher.Post([self = shared_from_this(), start = std::move(start)] {
    start(self->credentials->AuthHeaders());
  });
}

bool CpprestTransport::Shared::Enter(const std::shared_ptr<Flight>& flight) {
  absl::MutexLock lock(&mutex);
  if (closed) return false;
  flights.push_back(flight);
  return true;
}

void CpprestTransport::Shared::Leave(const std::shared_ptr<Flight>& flight) {
  absl::MutexLock lock(&mutex);
  const auto found = std::find(flights.begin(), flights.end(), flight);
  if (found != flights.end()) {
    *found = std::move(flights.back());
    flights.pop_back();
  }
  if (flights.empty()) idle.SignalAll();
}

void CpprestTransport::Shared::Close() {
  std::vector<std::shared_ptr<Flight>> pending;
  {
    absl::MutexLock lock(&mutex);
    closed = true;
    pending = flights;
  }
  for (const auto& flight : pending) flight->Cancel();
  absl::MutexLock lock(&mutex);
  while (!flights.empty()) idle.Wait(&mutex);
  client.reset();
}

void CpprestTransport::Shared::Send(HttpRequest request, ResponseCallback done) {
  auto state = std::make_shared<SendState>();
  state->request = std::move(request);
  state->done = std::move(done);
  if (!Enter(state->flight)) {
    OnPool([state] { state->done(absl::CancelledError("the transport is shut down")); });
    return;
  }
  state->flight->timer =
      timers.PostAfter(state->request.timeout, [flight = std::weak_ptr<Flight>(state->flight)] {
        if (const auto late = flight.lock()) {
          late->timed_out = true;
          late->cancel.cancel();
        }
      });
  StartSend(std::move(state));
}

void CpprestTransport::Shared::StartSend(std::shared_ptr<SendState> state) {
  WithAuth([self = shared_from_this(), state](absl::StatusOr<HeaderList> auth) {
    self->RunSend(state, std::move(auth));
  });
}

void CpprestTransport::Shared::RunSend(std::shared_ptr<SendState> state,
                                       absl::StatusOr<HeaderList> auth) {
  auto self = shared_from_this();
  if (!auth.ok()) {
    OnPool([self, state, status = auth.status()] { self->FinishSend(state, status); });
    return;
  }
  const auto current = Client();
  auto body_of = [](http::http_response response) {
    return response.extract_vector().then([response](const std::vector<unsigned char>& body) {
      HttpResponse value;
      value.code = response.status_code();
      value.headers = HeadersOf(response);
      value.body.assign(reinterpret_cast<const char*>(body.data()), body.size());
      return value;
    });
  };
  pplx::task<HttpResponse> task;
  try {
    const auto token = state->flight->cancel.get_token();
    task = current->request(Build(state->request, *auth), token).then(body_of, token);
  } catch (...) {
    task = pplx::task_from_exception<HttpResponse>(std::current_exception());
  }
  Consume(task, [self, state, current](const std::exception_ptr& failure, HttpResponse response) {
    if (failure != nullptr) {
      if (!state->flight->cancelled) self->Replace(current);
      self->FinishSend(state, Explain(failure, self->credentials->server(),
                                      state->flight->timed_out, state->flight->cancelled));
    } else if (response.code == 401 && !state->credential_renewed &&
               self->credentials->Invalidate()) {
      state->credential_renewed = true;
      self->StartSend(state);
    } else {
      self->FinishSend(state, std::move(response));
    }
  });
}

void CpprestTransport::Shared::FinishSend(std::shared_ptr<SendState> state,
                                          absl::StatusOr<HttpResponse> response) {
  timers.Cancel(state->flight->timer);
  ReportRequest(state->request.method, response.ok() ? response->code : 0,
                SteadyNow() - state->started);
  state->done(std::move(response));
  state->done = nullptr;
  Leave(state->flight);
}

std::shared_ptr<StreamHandle> CpprestTransport::Shared::Stream(HttpRequest request,
                                                               LineCallback on_line,
                                                               ResponseCallback on_end) {
  auto state = std::make_shared<StreamState>();
  state->request = std::move(request);
  state->on_end = std::move(on_end);
  // Part of the state, so that it does not own it.
  StreamState* const raw = state.get();
  state->cutter =
      std::make_unique<LineCutter>(options.max_line_bytes, std::move(on_line), [raw](size_t) {
        raw->oversized = true;
        raw->flight->Cancel();
      });
  state->flight->silence_ns = absl::ToInt64Nanoseconds(state->request.timeout);
  auto handle = std::make_shared<Handle>(weak_from_this(), state);
  if (!Enter(state->flight)) {
    delivery.Post([state] { state->on_end(absl::CancelledError("the transport is shut down")); });
    return handle;
  }
  state->flight->Touch();
  WatchSilence(state);
  WithAuth([self = shared_from_this(), state](absl::StatusOr<HeaderList> auth) {
    self->RunStream(state, std::move(auth));
  });
  return handle;
}

// A timer that looks at the time of the last byte costs nothing per byte.
void CpprestTransport::Shared::WatchSilence(std::shared_ptr<StreamState> state) {
  const absl::Duration left = state->flight->last_byte() +
                              absl::Nanoseconds(state->flight->silence_ns.load()) - SteadyNow();
  if (left <= absl::ZeroDuration()) {
    state->flight->timed_out = true;
    state->flight->cancel.cancel();
    return;
  }
  state->flight->timer =
      timers.PostAfter(left, [self = weak_from_this(), weak = std::weak_ptr<StreamState>(state)] {
        const auto shared = self.lock();
        const auto alive = weak.lock();
        if (shared != nullptr && alive != nullptr) shared->WatchSilence(alive);
      });
}

void CpprestTransport::Shared::LimitSilence(const std::weak_ptr<StreamState>& weak,
                                            absl::Duration silence) {
  const auto limited = weak.lock();
  if (limited == nullptr) return;
  limited->flight->silence_ns = absl::ToInt64Nanoseconds(silence);
  // On the thread of the timer that is replaced, so that the two never run at once.
  timers.Post([self = weak_from_this(), weak] {
    const auto shared = self.lock();
    const auto state = weak.lock();
    if (shared == nullptr || state == nullptr) return;
    shared->timers.Cancel(state->flight->timer);
    shared->WatchSilence(state);
  });
}

void CpprestTransport::Shared::RunStream(std::shared_ptr<StreamState> state,
                                         absl::StatusOr<HeaderList> auth) {
  auto self = shared_from_this();
  if (!auth.ok()) {
    FinishStream(state, auth.status());
    return;
  }
  // Each piece waits until the code is known and the delivery thread has taken the piece before.
  auto sink = [self, state](std::string piece) {
    const size_t count = piece.size();
    state->flight->Touch();
    pplx::task_completion_event<size_t> taken;
    auto deliver = [self, state, taken, count, piece = std::move(piece)] {
      self->delivery.Post([state, taken, count, piece] {
        if (state->response.code == 200) {
          if (state->cutter != nullptr && !state->flight->cancelled) state->cutter->Feed(piece);
        } else if (state->response.body.size() < kMaxErrorBody) {
          state->response.body.append(piece, 0, kMaxErrorBody - state->response.body.size());
        }
        state->flight->Touch();
        taken.set(count);
      });
    };
    if (state->has_code) {
      deliver();
    } else {
      pplx::task<void>(state->decided).then(std::move(deliver));
    }
    return pplx::task<size_t>(taken);
  };
  const auto current = Client();
  pplx::task<void> task;
  try {
    http::http_request built = Build(state->request, *auth);
    const auto token = state->flight->cancel.get_token();
    built.set_response_stream(
        concurrency::streams::ostream(Pieces(std::make_shared<PieceBuffer>(std::move(sink)))));
    task = current->request(built, token)
               .then([self, state](http::http_response response) {
                 self->OnStreamHeaders(state, response);
                 return response.content_ready();
               })
               .then([](http::http_response) {});
  } catch (...) {
    task = pplx::task_from_exception<void>(std::current_exception());
  }
  Consume(task, [self, state, current](const std::exception_ptr& failure) {
    if (failure != nullptr && !state->flight->cancelled) self->Replace(current);
    self->FinishStream(state, failure == nullptr
                                  ? absl::OkStatus()
                                  : Explain(failure, self->credentials->server(),
                                            state->flight->timed_out, state->flight->cancelled));
  });
}

void CpprestTransport::Shared::OnStreamHeaders(std::shared_ptr<StreamState> state,
                                               const http::http_response& response) {
  state->response.code = response.status_code();
  state->response.headers = HeadersOf(response);
  if (state->response.code == 401) credentials->Invalidate();
  state->flight->Touch();
  state->has_code = true;
  state->decided.set();
}

// on_end goes through the delivery thread like the lines, so it comes after the last of them.
void CpprestTransport::Shared::FinishStream(std::shared_ptr<StreamState> state,
                                            absl::Status status) {
  state->decided.set();  // pieces that still wait are dropped: the code is 0 when there was none
  delivery.Post([self = shared_from_this(), state, status] {
    self->timers.Cancel(state->flight->timer);
    if (state->oversized) {
      state->on_end(Errorf(absl::StatusCode::kResourceExhausted,
                           "{}: a line of the stream has more than {} bytes",
                           self->credentials->server(), self->options.max_line_bytes));
    } else if (status.ok()) {
      state->on_end(std::move(state->response));
    } else {
      state->on_end(status);
    }
    state->on_end = nullptr;
    state->cutter.reset();  // it owns the caller's callback
    self->Leave(state->flight);
  });
}

}  // namespace

void InitTransport(int threads) {
  static std::once_flag once;
  std::call_once(once, [threads] {
    crossplat::threadpool::initialize_with_threads(static_cast<size_t>(std::max(threads, 1)));
  });
}

absl::StatusOr<std::unique_ptr<Transport>> MakeTransport(std::shared_ptr<Credentials> credentials,
                                                         Executor& timers, Executor& delivery,
                                                         TransportOptions options) {
  InitTransport();
  const GateOptions gate = options.gate;
  auto transport = std::make_unique<CpprestTransport>(std::move(credentials), timers, delivery,
                                                      std::move(options));
  RETURN_IF_ERROR(transport->Open());
  return std::make_unique<RequestGate>(std::move(transport), timers, gate);
}

}  // namespace sluice::kube
