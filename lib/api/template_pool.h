// TemplatePool: lets pod templates that came as the same text share what was read from it.
//
// Thousands of Workloads and Jobs are usually made from a few templates. Share() replaces the pod
// spec and the raw text of a template by those of an equal one that was seen before; values do not
// change. What nobody else holds any more is dropped in sweeps whose cost is constant per call on
// average; the rest of a call is O(log templates). Thread-compatible; templates may outlive the
// pool.
//
//   pool.Share(workload.spec.pod_sets[0].pod_template);
#pragma once

#include <absl/container/btree_set.h>

#include <cstddef>
#include <memory>
#include <string>

#include "api/core_types.h"
#include "api/kueue_types.h"

namespace sluice::api {

class TemplatePool {
 public:
  // A template that was built in memory (without raw text) stays as it is.
  void Share(PodTemplate& pod_template);
  // All templates of an object.
  void Share(Workload& workload);
  void Share(Job& job) { Share(job.spec.pod_template); }
  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::shared_ptr<const std::string> raw;
    SharedValue<PodSpec> spec;
  };
  // By the text alone: equal texts are read to equal specs.
  struct Less {
    using is_transparent = void;
    static const std::string& Of(const Entry& entry) { return *entry.raw; }
    static const std::string& Of(const std::string& text) { return text; }
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      return Of(a) < Of(b);
    }
  };
  void Sweep();

  absl::btree_set<Entry, Less> entries_;
  size_t sweep_at_ = 64;
};

}  // namespace sluice::api
