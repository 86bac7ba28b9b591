// sluice-controller: the composition root. The only place that constructs everything.
//
// Exit codes: 0 after an orderly end, 1 when leadership was lost or the API server could not be
// reached at start, 2 for a mistake in flags, configuration, kubeconfig or certificates.
#include <absl/synchronization/mutex.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <thread>

#include "allocator.h"
#include "api/names.h"
#include "api/parse_object.h"
#include "certificate_keeper.h"
#include "config/load.h"
#include "kube/action_sender.h"
#include "kube/cpprest_transport.h"
#include "kube/leader_elector.h"
#include "loop/inbox.h"
#include "loop/loop.h"
#include "loop/pulse.h"
#include "loop/questions.h"
#include "observer.h"
#include "reconcile/what_if.h"
#include "serve/endpoints.h"
#include "serve/server.h"
#include "state/recording.h"
#include "succession.h"
#include "visibility_server.h"
#include "watches.h"
#include "webhook/conversion.h"
#include "webhook/review.h"

namespace sluice {
namespace {

constexpr int kMistake = 2;
constexpr int kFailed = 1;
// Events in memory between the sockets and the loop; an object is some ten kilobytes there.
constexpr size_t kInboxCapacity = 1000;
// A conversion has one object, of which etcd takes no more than 1.5 MiB.
constexpr size_t kConversionLimit = size_t{16} << 20;
// What bodies of the webhooks may hold together. One thread serves them, so one at a time is
// parsed.
constexpr size_t kWebhookBodies = size_t{64} << 20;
// A fraction of what a write to a busy API server takes.
constexpr absl::Duration kGather = absl::Milliseconds(10);
constexpr absl::Duration kTrimInterval = absl::Minutes(1);

int Complain(const std::string& text) {
  std::fprintf(stderr, "sluice-controller: %s\n", text.c_str());
  return kMistake;
}

class SystemClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

std::string EnvOr(const char* name, const std::string& fallback) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? fallback : std::string(value);
}

loop::Log MakeLog(const config::LogOptions& options) {
  loop::LogOptions log;
  log.format = options.encoder == config::LogOptions::Encoder::kJson ? loop::LogFormat::kJson
                                                                     : loop::LogFormat::kText;
  switch (options.level) {
    case config::LogOptions::Level::kDebug:
      log.level = loop::LogLevel::kDebug;
      break;
    case config::LogOptions::Level::kInfo:
      log.level = options.verbosity >= 3 ? loop::LogLevel::kDebug : loop::LogLevel::kInfo;
      break;
    case config::LogOptions::Level::kError:
      log.level = loop::LogLevel::kError;
      break;
    case config::LogOptions::Level::kPanic:
      log.level = loop::LogLevel::kOff;
      break;
  }
  return loop::Log(log);
}

serve::ServerOptions ServerOptionsFor(const char* name, const config::Endpoint& endpoint,
                                      const config::Config& config, const loop::Log& log) {
  serve::ServerOptions options;
  options.name = name;
  options.host = endpoint.host;
  options.port = endpoint.port;
  if (config.file.tls) {
    options.tls_options.min_version =
        config.tls.only_tls13 ? serve::TlsVersion::kTls13 : serve::TlsVersion::kTls12;
    for (const std::string& suite : config.file.tls->cipher_suites) {
      options.tls_options.cipher_suites.push_back(suite);
    }
    for (const int32_t curve : config.file.tls->curve_preferences) {
      options.tls_options.curve_preferences.push_back(curve);
    }
  }
  options.on_error = [log](const std::string& line) { log.Warn(line); };
  return options;
}

// The process's parts, in the order in which they are made; ended in the reverse order.
class Controller {
 public:
  Controller(config::Config config, loop::Log log)
      : config_(std::move(config)),
        log_(std::move(log)),
        metrics_(MetricsOptionsFor(config_), [this] { return observer_.metrics_view(); }),
        observer_(log_, metrics_, config_, [this] { inbox_.Wake(); }),
        ns_(config_.settings.installation_namespace) {}

  // Everything that can fail before work begins. The exit code, or 0.
  int Prepare() {
    if (int code = Connect(); code != 0) return code;
    if (int code = StartServers(); code != 0) return code;
    if (!config_.flags.record_path.empty()) {
      recording_.open(config_.flags.record_path, std::ios::app);
      if (!recording_) return Complain("--record: cannot write " + config_.flags.record_path);
    }
    return 0;
  }

  int Run() {
    StartKeeper();
    kube::ActionSenderOptions sender_options;
    sender_options.call.deadline = absl::Seconds(5);
    sender_options.call.send_within = absl::Seconds(15);
    if (const auto& election = config_.file.leader_election; election.leader_elect) {
      // What is on its way when the lease is lost must be over before a successor acts: the lease
      // outlives the renew deadline by this much. Nothing more is sent after it.
      sender_options.call.deadline =
          std::max(election.lease_duration - election.renew_deadline, absl::Seconds(1));
      sender_options.may_write = [this] { return elector_ != nullptr && elector_->IsLeader(); };
    }
    sender_options.try_reply = [this](state::Reply& reply) {
      state::Event event = std::move(reply);
      if (inbox_.TryPush(event)) return true;
      reply = std::get<state::Reply>(std::move(event));
      return false;
    };
    sender_options.on_version = [this](api::Kind kind, std::string_view version) {
      watches_.echoes().Note(kind, version);
    };
    sender_ = std::make_unique<kube::ActionSender>(
        client(), replies_, sender_options,
        [this](state::Reply reply) { inbox_.Push(std::move(reply)); });
    reconcile::OperatorOptions options;
    options.events.instance = EnvOr("POD_NAME", "sluice");
    op_ = std::make_unique<reconcile::Operator>(config_.settings, options, *sender_, &observer_);
    observer_.Follow(op_->world());
    watches_.Start(*transport_);
    StartElection();
    loop::LoopHooks hooks = MakeHooks();
    hooks.gather = kGather;
    hooks.stop = [this] { return stop_.load(); };
    pulse_.Beat(kube::SteadyNow(), loop::Pulse::kLongestFirstRound);
    loop::RunLoop(*op_, inbox_, clock_, hooks);
    return Shutdown();
  }

  // From the signal thread.
  void OnSignal() {
    signalled_ns_ = absl::ToUnixNanos(kube::SteadyNow());
    AskToStop();
  }

 private:
  void AskToStop() {
    stop_ = true;
    inbox_.Close();
  }

  loop::LoopHooks MakeHooks() {
    loop::LoopHooks hooks;
    if (recording_.is_open()) {
      hooks.on_event = [this](const state::Event& event, absl::Time now) {
        recording_ << state::EncodeEvent(event, now) << '\n' << std::flush;
      };
      hooks.on_run = [this](absl::Time now) { recording_ << state::EncodeRun(now) << '\n'; };
    }
    const absl::Time sync_deadline =
        absl::Now() + absl::Nanoseconds(config_.file.controller.cache_sync_timeout.value_or(0));
    hooks.after_batch = [this, sync_deadline](const reconcile::Operator& op, absl::Time now,
                                              absl::Duration work) {
      observer_.Publish(op, now, work);
      watches_.Follow(op.world());
      succession_.Follow(op);
      questions_.Answer(op_->asked_world(), now);
      if (!synced_ && !op.world().Synced() && now > sync_deadline && !stop_) {
        log_.Error("caches did not sync within controller.cacheSyncTimeout");
        failed_ = true;
        AskToStop();
      }
      if (now >= next_trim_) {
        next_trim_ = now + kTrimInterval;
        ReturnMemory();
      }
      if (!synced_ && op.world().Synced()) {
        synced_ = true;
        next_trim_ = now + absl::Seconds(2);
        log_.Info("caches synced",
                  {{"workloads", static_cast<int64_t>(op.world().workloads().size())}});
      }
      pulse_.Beat(kube::SteadyNow(),
                  synced_ ? loop::Pulse::kLongestRound : loop::Pulse::kLongestFirstRound);
    };
    return hooks;
  }

  static metrics::MetricsOptions MetricsOptionsFor(const config::Config& config) {
    metrics::MetricsOptions options;
    options.build.git_version = SLUICE_VERSION;
    options.build.compiler = "g++ " __VERSION__;
    options.build.platform = "linux/amd64";
    options.role = config.file.leader_election.leader_elect ? metrics::ReplicaRole::kFollower
                                                            : metrics::ReplicaRole::kStandalone;
    options.cluster_queue_resources = config.file.metrics.enable_cluster_queue_resources;
    const auto& gates = config.settings.gates;
    options.local_queues = gates.Enabled("LocalQueueMetrics");
    options.cohorts = gates.Enabled("MetricsForCohorts");
    options.unadmitted_workloads = gates.Enabled("UnadmittedWorkloadsObservability");
    options.creation_latency = gates.Enabled("MetricForWorkloadCreationLatency");
    return options;
  }

  kube::Client client() { return kube::Client(*transport_, timers_); }

  int Connect() {
    absl::StatusOr<std::shared_ptr<kube::Credentials>> credentials =
        kube::LoadCredentials({.kubeconfig = config_.flags.kubeconfig, .kubeconfig_options = {}});
    if (!credentials.ok()) return Complain(std::string(credentials.status().message()));
    kube::TransportOptions options;
    options.user_agent = std::string("sluice-controller/") + SLUICE_VERSION;
    options.gate.qps = config_.file.client_connection.qps.value_or(0);
    options.gate.burst = config_.file.client_connection.burst.value_or(1);
    options.on_request = [this](const std::string& method, int code, absl::Duration taken) {
      metrics_.ApiRequest(method, code == 0 ? "<error>" : std::to_string(code), taken);
    };
    absl::StatusOr<std::unique_ptr<kube::Transport>> transport =
        kube::MakeTransport(*std::move(credentials), timers_, delivery_, options);
    if (!transport.ok()) return Complain(std::string(transport.status().message()));
    transport_ = *std::move(transport);
    return 0;
  }

  int StartServers() {
    CertificateKeeperOptions options;
    const auto& internal = config_.file.internal_cert_management;
    options.internal = internal.enable.value_or(true);
    options.ns = ns_;
    options.secret_name = EnvOr("WEBHOOK_SECRET_NAME", internal.webhook_secret_name);
    options.service_name = EnvOr("WEBHOOK_SERVICE_NAME", internal.webhook_service_name);
    options.directory = config_.file.webhook.cert_dir;
    options.extra_sans = {"localhost", "127.0.0.1", "::1"};
    keeper_ = std::make_unique<CertificateKeeper>(client(), options, log_);
    absl::StatusOr<serve::ServingCertificate> certificate = keeper_->Load();
    for (int attempt = 0; attempt < 30 && !certificate.ok() && options.internal && !stop_;
         ++attempt) {
      log_.Warn("waiting for the API server", {{"error", certificate.status()}});
      absl::SleepFor(absl::Seconds(1));
      certificate = keeper_->Load();
    }
    if (!certificate.ok()) {
      Complain(std::string(certificate.status().message()));
      return options.internal ? kFailed : kMistake;
    }
    if (int code = StartWebhooks(*certificate); code != 0) return code;
    if (int code = StartHealth(); code != 0) return code;
    if (int code = StartVisibility(); code != 0) return code;
    return StartMetrics();
  }

  int StartVisibility() {
    if (!config_.visibility) return 0;
    serve::VisibilityOptions api;
    api.pending = observer_.pending();
    api.version = SLUICE_VERSION;
    api.metrics = [this] { return metrics_.Text(); };
    api.what_if = [this](const std::string& cluster_queue, const api::Json& body,
                         const serve::VisibilityOptions::WhatIfDone& done) {
      const bool asked = questions_.Ask([=, this](state::World& world, absl::Time now) {
        if (!world.Synced()) return done(absl::UnavailableError("the queues are not known yet"));
        // A leader has just done so; on a follower nothing else does.
        if (!op_->leading()) reconcile::PrepareToAsk(world, now);
        absl::StatusOr<reconcile::WhatIf> answer =
            reconcile::AskWhatIf(world, body, cluster_queue, now, reconcile::WithForecast::kYes);
        if (!answer.ok()) return done(answer.status());
        answer->made = nullptr;  // may share parts with objects of the World
        done([answer = std::make_shared<const reconcile::WhatIf>(*std::move(answer))] {
          return api::Json::MakeObject({{"status", reconcile::WhatIfJson(*answer)}});
        });
      });
      if (!asked) done(absl::UnavailableError("too many questions wait"));
    };
    absl::StatusOr<std::unique_ptr<VisibilityServer>> started = VisibilityServer::Start(
        client(), timers_, config_,
        ServerOptionsFor("visibility", *config_.visibility, config_, log_), std::move(api), log_);
    if (!started.ok()) {
      Complain(std::string(started.status().message()));
      return absl::IsUnavailable(started.status()) ? kFailed : kMistake;
    }
    visibility_server_ = *std::move(started);
    log_.Info("serving", {{"server", "visibility"}, {"port", visibility_server_->port()}});
    return 0;
  }

  int StartWebhooks(const serve::ServingCertificate& certificate) {
    serve::Router router;
    const auto view = [this]() -> std::shared_ptr<const webhook::View> {
      if (std::shared_ptr<const webhook::View> published = observer_.webhook_view()) {
        return published;
      }
      // Not synced yet: only the configuration is known.
      auto bare = std::make_shared<webhook::View>();
      bare->settings = &config_.settings;
      return bare;
    };
    for (const std::string_view path : webhook::AdmissionPaths()) {
      router.Post(std::string(path),
                  serve::JsonHandler(
                      [this, path, view](const api::Json& review) -> absl::StatusOr<api::Json> {
                        const absl::Time start = absl::Now();
                        api::Json answer = webhook::HandleAdmissionReview(path, review, *view());
                        metrics_.WebhookRequest(std::string(path), 200, absl::Now() - start);
                        return answer;
                      },
                      api::ParseObject));
    }
    router.Post(webhook::kConversionPath,
                serve::JsonHandler(
                    [this](const api::Json& review) -> absl::StatusOr<api::Json> {
                      return webhook::HandleConversionReview(
                          review, webhook::ConversionOptionsOf(config_.settings));
                    },
                    api::ParseObject),
                kConversionLimit);
    serve::ServerOptions options = ServerOptionsFor("webhook", config_.webhook, config_, log_);
    options.certificate = certificate;
    options.body_budget = kWebhookBodies;
    return StartServer(std::move(options), std::move(router), webhook_server_);
  }

  int StartHealth() {
    if (!config_.health) return 0;
    serve::Router router;
    serve::AddHealth(
        router,
        {config_.file.health.liveness_endpoint_name, config_.file.health.readiness_endpoint_name},
        [this] { return pulse_.Complaint(kube::SteadyNow()); },
        [this]() -> std::string {
          if (stop_) return "shutting down";
          if (observer_.webhook_view() == nullptr) return "caches are not synced";
          return succession_.Complaint();
        });
    serve::ServerOptions options = ServerOptionsFor("health", *config_.health, config_, log_);
    options.tls = false;
    return StartServer(std::move(options), std::move(router), health_server_);
  }

  int StartMetrics() {
    if (!config_.metrics) return 0;
    absl::StatusOr<serve::ServingCertificate> certificate = serve::SelfSigned(
        {"localhost", "127.0.0.1", "sluice-metrics"}, absl::Now(), serve::kDefaultLeafLifetime);
    if (!certificate.ok()) return Complain(std::string(certificate.status().message()));
    serve::Router router;
    auto ask = [this](const std::string& path, const api::Json& body) -> absl::StatusOr<api::Json> {
      kube::HttpRequest request;
      request.method = "POST";
      request.path_and_query = path;
      request.headers = {{"Content-Type", "application/json"}};
      request.body = body.Text();
      const kube::CallResult result = client().Call(std::move(request), {});
      if (!result.ok()) return kube::ToStatus(result.error(), path);
      return kube::ParseBody(*result.response, path);
    };
    auto authorizer = std::make_shared<serve::CachingAuthorizer>(
        std::make_unique<serve::ReviewAuthorizer>(ask), [] { return absl::Now(); });
    serve::AddMetrics(
        router, [this] { return metrics_.Text(); }, authorizer);
    serve::ServerOptions options = ServerOptionsFor("metrics", *config_.metrics, config_, log_);
    options.certificate = *certificate;
    return StartServer(std::move(options), std::move(router), metrics_server_);
  }

  int StartServer(serve::ServerOptions options, serve::Router router,
                  std::unique_ptr<serve::Server>& server) {
    const std::string name = options.name;
    absl::StatusOr<std::unique_ptr<serve::Server>> started =
        serve::Server::Start(std::move(options), std::move(router));
    if (!started.ok()) return Complain(std::string(started.status().message()));
    server = *std::move(started);
    log_.Info("serving", {{"server", name}, {"port", server->port()}});
    return 0;
  }

  void StartKeeper() {
    keeper_->Start(
        [this](const serve::ServingCertificate& certificate) {
          const absl::Status set = webhook_server_->SetCertificate(certificate);
          if (!set.ok()) log_.Error("new certificate refused", {{"error", set}});
        },
        [this] {
          if (visibility_server_ != nullptr) visibility_server_->LookForCertificate();
        });
  }

  void StartElection() {
    const auto& election = config_.file.leader_election;
    if (!election.leader_elect) {
      inbox_.Push(state::LeaderChange{true});
      return;
    }
    kube::LeaderElectorOptions options;
    const absl::StatusOr<std::string> ns = config::LeaseNamespace(config_, ns_);
    options.lease = {ns.ok() ? *ns : ns_, election.resource_name};
    options.lease_duration = election.lease_duration;
    options.renew_deadline = election.renew_deadline;
    options.retry_period = election.retry_period;
    kube::LeaderElectorCallbacks callbacks;
    callbacks.on_change = [this](bool leading) {
      if (!leading) {
        // Before anything else: nothing more is decided, and nothing that waits is sent.
        lost_ = !stop_;
        AskToStop();
        sender_->Stop(absl::ZeroDuration());
      }
      log_.Info(leading ? "leading" : "not leading any more");
      metrics_.SetRole(leading ? metrics::ReplicaRole::kLeader : metrics::ReplicaRole::kFollower);
      if (leading) {
        succession_.Begin(client(), [this] { return !stop_; });
      } else {
        inbox_.Push(state::LeaderChange{false});
      }
    };
    callbacks.on_error = [this](const absl::Status& status) {
      log_.Warn("lease", {{"error", status}});
    };
    elector_ = std::make_unique<kube::LeaderElector>(client(), options, callbacks);
    election_thread_ = std::thread([this] { elector_->Run(); });
  }

  // A pod that is deleted stays in the Service's endpoints for a moment, and clients that do not
  // know better come to it: they are served until then. Nobody writes any more. Source: Kubernetes
  // documentation, "Termination of Pods"; kube-apiserver's --shutdown-delay-duration.
  void ServeOn() {
    const int64_t signalled = signalled_ns_;
    if (signalled == 0) return;
    const absl::Time until = absl::FromUnixNanos(signalled) + config_.flags.shutdown_delay;
    absl::SleepFor(until - kube::SteadyNow());
  }

  // Order: no new events, no new writes, answers to the last ones, then everything else. The lease
  // is given back as soon as nothing is written any more, so that a successor need not wait.
  int Shutdown() {
    log_.Info("stopping");
    pulse_.Beat(kube::SteadyNow(), loop::Pulse::kLongestRound + config_.flags.shutdown_delay);
    inbox_.Close();
    watches_.Stop();
    questions_.Close();
    keeper_->AskToStop();
    // A deposed leader must not finish what it had begun.
    sender_->Stop(lost_ ? absl::ZeroDuration() : absl::Seconds(5));
    if (elector_ != nullptr) {
      elector_->Stop();
      election_thread_.join();
      if (!lost_) {
        const absl::Status released = elector_->Release();
        if (!released.ok()) log_.Warn("lease not released", {{"error", released}});
      }
    }
    ServeOn();
    keeper_->Stop();
    // Webhooks serve until the end: others may be up, but this one's clients are on their way.
    if (webhook_server_ != nullptr) webhook_server_->Stop(absl::Seconds(5));
    if (config_.visibility) observer_.pending()->Close();
    if (visibility_server_ != nullptr) visibility_server_->Stop();
    if (metrics_server_ != nullptr) metrics_server_->Stop(absl::ZeroDuration());
    if (health_server_ != nullptr) health_server_->Stop(absl::ZeroDuration());
    watches_.Clear();
    timers_.Shutdown();
    sender_.reset();
    transport_.reset();
    delivery_.Shutdown();
    replies_.Shutdown();
    log_.Info("stopped");
    return lost_ || failed_ ? kFailed : 0;
  }

  config::Config config_;
  loop::Log log_;
  SystemClock clock_;
  metrics::Metrics metrics_;
  ShellObserver observer_;
  std::string ns_;
  loop::Pulse pulse_;
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> signalled_ns_{0};  // steady clock; 0: not yet
  loop::Inbox inbox_{kInboxCapacity};
  loop::Questions questions_{[this] { inbox_.Wake(); }, [] { return absl::Now(); },
                             [this](absl::Duration held) { metrics_.HeldByQuestions(held); }};
  kube::Executor timers_{"timers"};
  kube::Executor delivery_{"delivery"};
  kube::Executor replies_{"replies"};
  Watches watches_{config_.settings, ns_, inbox_, timers_, delivery_, log_};
  Succession succession_{config_.settings, watches_, inbox_, timers_, replies_, log_};
  std::unique_ptr<kube::Transport> transport_;
  std::unique_ptr<CertificateKeeper> keeper_;
  std::unique_ptr<serve::Server> webhook_server_;
  std::unique_ptr<serve::Server> health_server_;
  std::unique_ptr<serve::Server> metrics_server_;
  std::unique_ptr<VisibilityServer> visibility_server_;
  std::unique_ptr<kube::ActionSender> sender_;
  std::unique_ptr<reconcile::Operator> op_;
  std::unique_ptr<kube::LeaderElector> elector_;
  std::thread election_thread_;
  std::ofstream recording_;
  std::atomic<bool> lost_{false};
  bool failed_ = false;  // the loop's thread only
  bool synced_ = false;
  absl::Time next_trim_ = absl::InfinitePast();
};

int ReplayFile(const config::Config& config) {
  std::ifstream file(config.flags.replay_path);
  if (!file) return Complain("--replay: cannot read " + config.flags.replay_path);
  const absl::Status status = loop::Replay(file, config.settings, std::cout);
  return status.ok() ? 0
                     : Complain(config.flags.replay_path + ": " + std::string(status.message()));
}

int Main(int argc, char** argv) {
  // The search for cycles in the order of locks is a tool for development: it costs each lock more
  // than the lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  // Before any thread exists: all of them inherit the mask, and one thread waits for the signals.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  const config::FlagsResult flags = config::ParseFlags(argc, argv, SLUICE_VERSION);
  if (!flags.flags) {
    std::fputs(flags.text.c_str(), flags.exit_code == 0 ? stdout : stderr);
    return flags.exit_code;
  }
  const std::string pod_namespace = EnvOr("POD_NAMESPACE", config::ReadServiceAccountNamespace());
  absl::StatusOr<config::Config> config = config::LoadFile(*flags.flags, pod_namespace);
  if (!config.ok()) return Complain(std::string(config.status().message()));
  if (!config->flags.replay_path.empty()) return ReplayFile(*config);

  kube::InitTransport();
  loop::Log log = MakeLog(config->flags.log);
  log.Info("starting", {{"version", SLUICE_VERSION}});
  for (const std::string& notice : config->notices) log.Info(notice);
  Controller controller(*std::move(config), log);
  std::thread signal_thread([&controller, &signals] {
    int number = 0;
    sigwait(&signals, &number);
    controller.OnSignal();
  });
  int code = controller.Prepare();
  if (code == 0) code = controller.Run();
  // Wakes the signal thread when it was not a signal that ended us.
  kill(getpid(), SIGTERM);
  signal_thread.join();
  return code;
}

}  // namespace
}  // namespace sluice

int main(int argc, char** argv) { return sluice::Main(argc, argv); }
