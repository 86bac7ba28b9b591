#include "serve/pending_index.h"

#include <string>

#include "unit/build/builders.h"
#include "unit/catch.h"

namespace sluice::serve {
namespace {

using build::At;
queueing::WorkloadInfoPtr Info(const std::string& name, int created, int priority,
                               const std::string& local_queue, const std::string& cluster_queue) {
  return queueing::MakeWorkloadInfo(build::Workload(name)
                                        .Queue(local_queue)
                                        .Created(At(created))
                                        .Priority(priority)
                                        .Request("cpu", std::to_string(1 + created % 3))
                                        .Shared(),
                                    cluster_queue, {}, {});
}

TEST_CASE("what waits out a backoff is not listed until it is over") {
  PendingIndex index;
  const auto item = [](const build::Workload& workload) {
    return MakePendingItem(*queueing::MakeWorkloadInfo(workload.Shared(), "cq", {}, {}));
  };
  PendingUpdate update;
  update.cluster_queues = {{"cq", true}};
  update.workloads = {
      {{"ns", "now"}, item(build::Workload("now").Queue("lq"))},
      {{"ns", "soon"}, item(build::Workload("soon").Queue("lq").RequeueAt(At(10)))},
      {{"ns", "held"},
       item(build::Workload("held").Queue("lq").RequeueAt(At(10)).Requeued(false, "Backoff"))}};
  index.Apply(update);
  CHECK(index.OfClusterQueue("cq", At(9))->entries.size() == 1);
  CHECK(index.OfClusterQueue("cq", At(9))->valid_until == At(10));
  CHECK(index.OfClusterQueue("cq", At(10))->entries.size() == 2);
  CHECK(index.OfClusterQueue("cq", At(10))->valid_until == absl::InfiniteFuture());
}

TEST_CASE("a view stays as it is while the queue goes on, and is shared until then") {
  PendingIndex index;
  PendingUpdate update;
  update.cluster_queues = {{"cq", true}};
  update.local = {{{"ns", "lq"}, "cq"}, {{"ns", "lost"}, "none"}};
  update.workloads = {{{"ns", "a"}, MakePendingItem(*Info("a", 0, 0, "lq", "cq"))}};
  index.Apply(update);
  const auto before = index.OfClusterQueue("cq", At(0));
  CHECK(index.OfLocalQueue({"ns", "lq"}, At(0)) == before);
  PendingUpdate gone;
  gone.workloads = {{{"ns", "a"}, nullptr}};
  index.Apply(gone);
  CHECK(before->entries.size() == 1);
  CHECK(index.OfClusterQueue("cq", At(0))->entries.empty());
  CHECK(index.OfLocalQueue({"ns", "lost"}, At(0))->entries.empty());
  CHECK(index.OfLocalQueue({"ns", "other"}, At(0)) == nullptr);
  CHECK(index.OfClusterQueue("none", At(0)) == nullptr);
  PendingUpdate removed;
  removed.cluster_queues = {{"cq", false}};
  removed.local = {{{"ns", "lq"}, std::nullopt}};
  index.Apply(removed);
  CHECK(index.OfClusterQueue("cq", At(0)) == nullptr);
  CHECK(index.OfLocalQueue({"ns", "lq"}, At(0)) == nullptr);
}

}  // namespace
}  // namespace sluice::serve
