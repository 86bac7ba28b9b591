#include "api/kind.h"

#include <set>
#include <string>

#include "unit/catch.h"

namespace sluice::api {
namespace {

TEST_CASE("Every kind is found by group and name, and by its number") {
  std::set<std::string> names;
  for (const KindInfo& info : AllKinds()) {
    CHECK(&InfoOf(info.kind) == &info);
    CHECK(FindKind(info.group, info.name) == &info);
    CHECK(names.insert(std::string(info.group) + "/" + info.plural).second);
  }
  CHECK(FindKind("", "ClusterQueue") == nullptr);
  CHECK(FindKind("kueue.x-k8s.io", "Job") == nullptr);
}

TEST_CASE("Versions and paths are those of the API") {
  CHECK(ApiVersionOf(Kind::kPod) == "v1");
  CHECK(ApiVersionOf(Kind::kWorkload) == "kueue.x-k8s.io/v1beta2");
  CHECK(PathOf(Kind::kWorkload, {"ns", "w"}) ==
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w");
  CHECK(PathOf(Kind::kWorkload, {"ns", "w"}, "status") ==
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads/w/status");
  CHECK(PathOf(Kind::kWorkload, {"ns", ""}) ==
        "/apis/kueue.x-k8s.io/v1beta2/namespaces/ns/workloads");
  CHECK(PathOf(Kind::kWorkload, {}) == "/apis/kueue.x-k8s.io/v1beta2/workloads");
  CHECK(PathOf(Kind::kPod, {"ns", "p"}) == "/api/v1/namespaces/ns/pods/p");
  CHECK(PathOf(Kind::kNode, {"", "n"}) == "/api/v1/nodes/n");
  // The namespace of a cluster-wide kind is left out.
  CHECK(PathOf(Kind::kClusterQueue, {"ns", "q"}) == "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/q");
}

}  // namespace
}  // namespace sluice::api
