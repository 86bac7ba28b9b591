#include "watches.h"

#include "api/names.h"
#include "api/pod_names.h"
#include "preemption/checkpoint.h"

namespace sluice {
namespace {

// Jobs that come before the API server's features are known do not become gangs.
constexpr absl::Duration kFeaturePatience = absl::Seconds(10);

}  // namespace

Watches::Watches(const state::Settings& settings, std::string ns, loop::Inbox& inbox,
                 kube::Executor& timers, kube::Executor& delivery, loop::Log log)
    : settings_(settings),
      ns_(std::move(ns)),
      inbox_(inbox),
      timers_(timers),
      delivery_(delivery),
      log_(std::move(log)) {}

void Watches::Start(kube::Transport& transport) {
  transport_ = &transport;
  StartProbe();
  for (const api::Kind kind : state::World::WatchedKinds(settings_)) {
    if (kind == api::Kind::kNode || (kind == api::Kind::kPod && !WatchesPods())) continue;
    StartReflector(kind);
  }
}

void Watches::Follow(const state::World& world) {
  if (!nodes_ && world.NeedsNodes()) WatchNodes();
}

void Watches::CatchUp(api::Kind kind, const std::string& version, bool few) {
  absl::MutexLock lock(&mutex_);
  const auto found = reflectors_.find(kind);
  if (found != reflectors_.end() && found->second != nullptr) found->second->CatchUp(version, few);
}

void Watches::Stop() {
  probe_->Stop();
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (const auto& [kind, reflector] : reflectors_) reflector->Stop();
}

void Watches::Clear() {
  absl::MutexLock lock(&mutex_);
  reflectors_.clear();
}

// Of all the pods of a cluster only those that are managed are even seen, until topology needs to
// know what every node has room for.
std::string Watches::PodSelector() const {
  if (nodes_) return "";
  std::string values;
  if (settings_.integrations.Enabled(api::kPodFramework)) values = "true";
  if (state::World::WatchesSlicePods(settings_)) {
    values += (values.empty() ? "" : ",") + std::string(api::kManagedElastic) + "," +
              preemption::kManagedCheckpoint;
  }
  return std::string(api::kManagedLabel) + " in (" + values + ")";
}

bool Watches::WatchesPods() const {
  return nodes_ || settings_.integrations.Enabled(api::kPodFramework) ||
         state::World::WatchesSlicePods(settings_);
}

void Watches::StartProbe() {
  kube::FeatureProbeOptions options;
  options.ns = ns_;
  probe_ = std::make_unique<kube::FeatureProbe>(
      kube::Client(*transport_, timers_), timers_, options,
      [this](const kube::FeatureReport& report) {
        log_.Info("native gangs", {{"podGroups", report.features.pod_groups},
                                   {"jobScheduling", report.features.job_scheduling},
                                   {"detail", report.detail}});
        inbox_.Push(report.features);
        WatchPodGroups(report.features.pod_groups);
        if (!features_known_.HasBeenNotified()) features_known_.Notify();
      });
  probe_->Start();
  if (!features_known_.WaitForNotificationWithTimeout(kFeaturePatience)) {
    log_.Warn("native gangs: the API server does not say whether it has them");
  }
}

void Watches::StartReflector(api::Kind kind) {
  kube::ReflectorOptions options;
  options.kind = kind;
  if (kind == api::Kind::kPod) options.label_selector = PodSelector();
  options.echoes = &echoes_;
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  auto& reflector = reflectors_[kind];
  reflector = nullptr;  // waits for the old one, if any, so that the two never mix
  reflector = std::make_unique<kube::Reflector>(
      *transport_, timers_, delivery_, options,
      [this](state::ObjectEvent event) { inbox_.Push(std::move(event)); },
      [this, kind](const kube::ReflectorReport& report) {
        if (report.status.ok()) return;
        if (report.what == kube::ReflectorReport::What::kUndecodable) {
          log_.Warn("not read in full",
                    {{"kind", api::InfoOf(kind).name}, {"error", report.status}});
          return;
        }
        log_.Warn(
            "watch interrupted",
            {{"kind", api::InfoOf(kind).name}, {"error", report.status}, {"wait", report.wait}});
        probe_->AskSoon();
      });
  reflector->Start();
}

void Watches::WatchPodGroups(bool served) {
  {
    absl::MutexLock lock(&mutex_);
    if (reflectors_.contains(api::Kind::kPodGroup) == served) return;
    if (!served) reflectors_.erase(api::Kind::kPodGroup);
  }
  if (served) StartReflector(api::Kind::kPodGroup);
}

void Watches::WatchNodes() {
  nodes_ = true;
  log_.Info("watching nodes and all pods, for topology");
  // Not on the loop's thread: the old watch may wait for room in the inbox.
  timers_.Post([this] {
    StartReflector(api::Kind::kNode);
    StartReflector(api::Kind::kPod);
  });
}

}  // namespace sluice
