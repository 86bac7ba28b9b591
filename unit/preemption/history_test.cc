#include "preemption/history.h"

#include "unit/catch.h"
#include "unit/preemption/search_run.h"

namespace sluice::preemption {
namespace {

using Uids = absl::btree_set<std::string>;

absl::Time At(int seconds) { return absl::FromUnixSeconds(seconds); }

TEST_CASE("the evictors of a workload are found through others") {
  History history;
  CHECK(history.EvictorsOf("a").uids.empty());
  history.Record("a", "b");
  history.Record("b", "c");
  history.Record("x", "y");
  CHECK(history.EvictorsOf("a").uids == Uids{"b", "c"});
  CHECK(history.EvictorsOf("b").uids == Uids{"c"});
  CHECK(history.EvictorsOf("c").uids.empty());
  // An entitled workload may close a circle; that ends here too.
  history.Record("c", "a");
  CHECK(history.EvictorsOf("a").uids == Uids{"a", "b", "c"});
}

TEST_CASE("all that evicted a workload are remembered, up to a bound") {
  History history;
  history.Record("v", "p");
  history.Record("v", "q");
  history.Record("v", "p");
  CHECK(history.EvictorsOf("v").uids == Uids{"p", "q"});
  for (int i = 0; i < 40; ++i) history.Record("v", "r" + std::to_string(i));
  CHECK(history.EvictorsOf("v").uids.size() == 16);
  CHECK(history.EvictorsOf("v").uids.contains("r39"));
  CHECK_FALSE(history.EvictorsOf("v").uids.contains("p"));
  CHECK_FALSE(history.Forget("p"));
  CHECK(history.Forget("r39"));
}

TEST_CASE("what is gone leaves no trace, and who remembers it is told") {
  History history;
  history.Record("a", "b");
  history.Record("b", "c");
  CHECK_FALSE(history.Forget("other"));
  CHECK(history.Forget("b"));
  CHECK(history.EvictorsOf("a").uids == Uids{"b"});  // b may come back with its UID
  CHECK(history.EvictorsOf("b").uids.empty());
  CHECK(history.Forget("a"));
  CHECK(history.size() == 0);
  CHECK_FALSE(history.Forget("b"));
  history.Record("a", "b");
  history.Clear();
  CHECK(history.EvictorsOf("a").uids.empty());
}

TEST_CASE("three evictions with nothing else in between make tired") {
  History history;
  for (int i = 0; i < 2; ++i) history.Record("a", "b");
  CHECK_FALSE(history.EvictorsOf("a").tired);
  history.Record("a", "c");
  CHECK(history.EvictorsOf("a").tired);
  history.NoteEvent();
  CHECK_FALSE(history.EvictorsOf("a").tired);
  history.Record("a", "b");
  CHECK_FALSE(history.EvictorsOf("a").tired);
}

TEST_CASE("the rest after an eviction doubles from the third one on") {
  History history;
  const auto rests = [&](int at) {
    history.SetNow(At(at));
    return history.EvictorsOf("a").resting;
  };
  for (int i = 1; i <= 2; ++i) history.Record("a", "b");
  CHECK_FALSE(rests(0));
  history.Record("a", "b");
  CHECK(rests(59));
  CHECK_FALSE(rests(60));
  history.Record("a", "b");  // at 60
  CHECK(rests(179));
  CHECK_FALSE(rests(180));
  for (int i = 0; i < 30; ++i) history.Record("a", "b");
  CHECK(rests(180 + 3599));
  CHECK_FALSE(rests(180 + 3600));
}

// What the search does with it.
std::string Found(const Cluster& cluster, const Evictors& evictors) {
  std::vector<size_t> contested{0};
  SearchRun run(cluster, contested);
  run.SetEvictors(evictors);
  return Describe(cluster, run.Find());
}

TEST_CASE("one that borrows spares its evictors and takes others") {
  const Policies within{Policy::kLowerPriority, Policy::kAny, false, {}};
  Cluster c;
  c.Queue("a", "pool", {2}, within).Queue("b", "pool", {2}, within);
  c.Runs("a", "a1", {2}, {.reserved_at = 2}).Runs("a", "a2", {2}, {.reserved_at = 1});
  c.Needs("a", {3}, {.priority = 5});
  CHECK(Found(c, {}) == "a1 InClusterQueue, a2 InClusterQueue");
  CHECK(Found(c, {{"a1"}}).empty());
  c.Needs("a", {4}, {.priority = 5});
  CHECK(Found(c, {{"a1"}}).empty());
  c = Cluster();
  c.Queue("a", "pool", {2}, within).Queue("b", "pool", {2}, within);
  c.Runs("a", "a1", {3}, {.reserved_at = 2}).Runs("a", "a2", {1}, {.reserved_at = 1});
  // Alone a1 would do; it stays, and nothing else is enough.
  CHECK(Found(c.Needs("a", {3}, {.priority = 5}), {}) == "a1 InClusterQueue");
  CHECK(Found(c, {{"a1"}}).empty());
  CHECK(Found(c, {{"a2"}}) == "a1 InClusterQueue");
}

TEST_CASE("one that takes its own quota spares nobody, until it is tired") {
  const Policies reclaim{Policy::kLowerPriority, Policy::kAny, false, {}};
  Cluster c;
  c.Queue("a", "pool", {2}, reclaim).Queue("b", "pool", {2}, reclaim);
  c.Runs("b", "b1", {4});
  c.Needs("a", {2});
  CHECK(Found(c, {{"b1"}}) == "b1 InCohortReclamation");
  CHECK(Found(c, {{"b1"}, true, false}).empty());
  CHECK(Found(c, {{"b1"}, false, true}) == "b1 InCohortReclamation");
}

TEST_CASE("share tests decide between ClusterQueues, except during a rest") {
  const Policies reclaim{Policy::kLowerPriority, Policy::kAny, false, {}};
  Cluster c;
  c.Queue("a", "pool", {0}, reclaim).Queue("b", "pool", {0}, reclaim).Queue("s", "pool", {6});
  c.Fair();
  c.Runs("b", "b1", {3}, {.reserved_at = 1}).Runs("b", "b2", {3}, {.reserved_at = 2});
  c.Needs("a", {2});
  CHECK(Found(c, {{"b2"}}) == "b2 InCohortFairSharing");
  CHECK(Found(c, {{"b2"}, false, true}) == "b1 InCohortFairSharing");
  CHECK(Found(c, {{"b1", "b2"}, false, true}).empty());
}

}  // namespace
}  // namespace sluice::preemption
