#include "kube/feature_probe.h"

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace sluice::kube {
namespace {

using api::Json;

constexpr char kGroupVersion[] = "/apis/scheduling.k8s.io/v1beta1";

bool ListsPodGroups(const Json& discovery) {
  const Json* resources = discovery.Find("resources");
  if (resources == nullptr) return false;
  const auto& list = resources->AsArray();
  return std::any_of(list.begin(), list.end(),
                     [](const Json& entry) { return entry.GetString("name") == "podgroups"; });
}

// Never runs: it is created suspended, and only as a dry run.
std::string ProbeJob() {
  Json container = Json::MakeObject({{"name", "probe"}, {"image", "registry.invalid/none"}});
  container["securityContext"] =
      Json::MakeObject({{"allowPrivilegeEscalation", false}, {"runAsNonRoot", true}});
  Json job = Json::MakeObject({{"apiVersion", "batch/v1"}, {"kind", "Job"}});
  job["metadata"].Set("generateName", "sluice-probe-");
  job["spec"].Set("suspend", true);
  job["spec"]["scheduling"]["schedulingPolicy"].Set("gang", Json::MakeObject());
  job["spec"]["template"]["spec"].Set("restartPolicy", "Never");
  job["spec"]["template"]["spec"].Set("containers", Json::MakeArray({std::move(container)}));
  return job.Text();
}

}  // namespace

struct FeatureProbe::Core : std::enable_shared_from_this<FeatureProbe::Core> {
  Core(Client client_in, Executor& timers_in, FeatureProbeOptions options_in,
       ReportCallback on_report_in)
      : client(std::move(client_in)),
        timers(timers_in),
        options(std::move(options_in)),
        on_report(std::move(on_report_in)) {}

  using Answer = void (Core::*)(const CallResult&);
  void Ask(HttpRequest request, Answer answer) {
    CallOptions call;
    call.deadline = absl::Seconds(20);
    client.CallAsync(std::move(request), call,
                     [self = shared_from_this(), answer](const CallResult& result) {
                       self->timers.Post([self, answer, result] { (self.get()->*answer)(result); });
                     });
  }

  void Round() {
    {
      absl::MutexLock lock(&mutex);
      if (stopped || asking) return;
      asking = true;
      again = false;
    }
    HttpRequest request;
    request.path_and_query = kGroupVersion;
    Ask(std::move(request), &Core::OnDiscovery);
  }

  void OnDiscovery(const CallResult& result) {
    if (!result.ok()) {
      const bool absent = result.error().code == 404;
      return absent ? End({{}, "scheduling.k8s.io/v1beta1 is not served"}) : Failed();
    }
    const absl::StatusOr<Json> discovery = ParseBody(*result.response, kGroupVersion);
    if (!discovery.ok()) return Failed();
    if (!ListsPodGroups(*discovery)) {
      return End({{}, "scheduling.k8s.io/v1beta1 has no PodGroups"});
    }
    HttpRequest request;
    request.path_and_query = std::string(kGroupVersion) + "/podgroups?limit=1";
    Ask(std::move(request), &Core::OnList);
  }

  void OnList(const CallResult& result) {
    const int code = result.ok() ? 200 : result.error().code;
    if (code == 403) return End({{}, "PodGroups are served, but may not be read"});
    if (code == 404) return End({{}, "PodGroups are not served"});
    if (code != 200) return Failed();
    HttpRequest request;
    request.method = "POST";
    request.path_and_query =
        fmt::format("/apis/batch/v1/namespaces/{}/jobs?dryRun=All", options.ns);
    request.headers = {{"Content-Type", "application/json"}};
    request.body = ProbeJob();
    Ask(std::move(request), &Core::OnJob);
  }

  void OnJob(const CallResult& result) {
    FeatureReport report;
    report.features.pod_groups = true;
    if (!result.ok()) {
      const ApiError error = result.error();
      if (error.code < 400 || error.code >= 500 || error.code == 429) return Failed();
      report.detail = fmt::format("whether Jobs keep spec.scheduling cannot be found out: {} {}",
                                  error.code, error.message);
      return End(std::move(report));
    }
    const absl::StatusOr<Json> job = ParseBody(*result.response, "dry run");
    if (!job.ok()) return Failed();
    report.features.job_scheduling =
        job->Find("spec", "scheduling", "schedulingPolicy", "gang") != nullptr;
    if (!report.features.job_scheduling) report.detail = "Jobs do not keep spec.scheduling";
    End(std::move(report));
  }

  // The answer is not known: what was known stays.
  void Failed() { Next(options.soon); }

  void End(FeatureReport report) {
    bool news = false;
    {
      absl::MutexLock lock(&mutex);
      news = !stopped && last != report;
      if (news) last = report;
      calling = news;
    }
    if (news) {
      on_report(report);
      absl::MutexLock lock(&mutex);
      calling = false;
      idle.SignalAll();
    }
    Next(options.interval);
  }

  void Next(absl::Duration pause) {
    absl::MutexLock lock(&mutex);
    asking = false;
    if (stopped) return;
    After(again ? options.soon : pause);
  }

  void After(absl::Duration pause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    if (timer != 0) timers.Cancel(timer);
    timer = timers.PostAfter(pause, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->Round();
    });
  }

  void AskSoon() {
    absl::MutexLock lock(&mutex);
    if (stopped || again) return;
    again = true;
    if (!asking) After(options.soon);
  }

  void Stop() {
    absl::MutexLock lock(&mutex);
    stopped = true;
    while (calling) idle.Wait(&mutex);
  }

  Client client;
  Executor& timers;
  const FeatureProbeOptions options;
  const ReportCallback on_report;

  absl::Mutex mutex;
  absl::CondVar idle;
  std::optional<FeatureReport> last ABSL_GUARDED_BY(mutex);
  Executor::TimerId timer ABSL_GUARDED_BY(mutex) = 0;
  bool asking ABSL_GUARDED_BY(mutex) = false;
  bool again ABSL_GUARDED_BY(mutex) = false;  // a round was asked for
  bool calling ABSL_GUARDED_BY(mutex) = false;
  bool stopped ABSL_GUARDED_BY(mutex) = false;
};

FeatureProbe::FeatureProbe(Client client, Executor& timers, FeatureProbeOptions options,
                           ReportCallback on_report)
    : core_(std::make_shared<Core>(std::move(client), timers, std::move(options),
                                   std::move(on_report))) {}

FeatureProbe::~FeatureProbe() { core_->Stop(); }

void FeatureProbe::Start() {
  core_->timers.Post([core = core_] { core->Round(); });
}

void FeatureProbe::AskSoon() { core_->AskSoon(); }

void FeatureProbe::Stop() { core_->Stop(); }

}  // namespace sluice::kube
