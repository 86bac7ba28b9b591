// The watches of the API server: one reflector for each kind that the configuration asks for, nodes
// and all pods from the first flavor with a topology on, and PodGroups only while the API server
// serves them, which a probe finds out.
//
// Threads: Start, Stop and Clear belong to the main thread, Follow to the loop's; the probe calls
// back on its own. What is watched goes into the inbox.
#pragma once

#include <absl/base/thread_annotations.h>
#include <absl/synchronization/mutex.h>
#include <absl/synchronization/notification.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>

#include "kube/echo_filter.h"
#include "kube/feature_probe.h"
#include "kube/reflector.h"
#include "kube/transport.h"
#include "loop/inbox.h"
#include "loop/log.h"
#include "state/settings.h"
#include "state/world.h"

namespace sluice {

class Watches {
 public:
  // All of them outlive this; `ns` is the namespace of the installation.
  Watches(const state::Settings& settings, std::string ns, loop::Inbox& inbox,
          kube::Executor& timers, kube::Executor& delivery, loop::Log log);

  // Waits a few seconds for what the probe says: Jobs that are seen before do not become gangs.
  void Start(kube::Transport& transport);
  // Begins to watch nodes and all pods once the world needs them.
  void Follow(const state::World& world);
  // Has the watch of that kind show soon that it has brought all up to the version; see
  // Reflector::CatchUp. May wait. From any thread.
  void CatchUp(api::Kind kind, const std::string& version, bool few);
  // No new events after this.
  void Stop();
  // Waits for what is still under way.
  void Clear();

  // Told of every write of our own, so that its echo need not be read.
  kube::EchoFilter& echoes() { return echoes_; }

 private:
  std::string PodSelector() const;
  bool WatchesPods() const;
  void StartProbe();
  void StartReflector(api::Kind kind);
  void WatchPodGroups(bool served);
  void WatchNodes();

  const state::Settings& settings_;
  const std::string ns_;
  loop::Inbox& inbox_;
  kube::Executor& timers_;
  kube::Executor& delivery_;
  loop::Log log_;
  kube::Transport* transport_ = nullptr;
  kube::EchoFilter echoes_;
  std::unique_ptr<kube::FeatureProbe> probe_;
  absl::Notification features_known_;
  absl::Mutex mutex_;
  std::map<api::Kind, std::unique_ptr<kube::Reflector>> reflectors_;
  bool closed_ = false;
  std::atomic<bool> nodes_ = false;
};

}  // namespace sluice
