#include "cli/queues.h"

#include <absl/time/clock.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <ostream>
#include <utility>

#include "api/names.h"
#include "base/status.h"
#include "cli/table.h"
#include "queueing/backfill.h"
#include "topology/fragmentation.h"

namespace sluice::cli {
namespace {

using api::Json;

constexpr int kFailed = 1;

struct Shown {
  Table table;
  Json items;
};

std::string Amount(const ResourceName& resource, int64_t amount) {
  return QuantityOf(resource, amount).ToString();
}

std::string UsageText(const state::World& world, const api::ClusterQueue& queue) {
  std::string text;
  for (const api::ResourceGroup& group : queue.spec.resource_groups) {
    for (const api::FlavorQuotas& flavor : group.flavors) {
      for (const api::ResourceQuota& quota : flavor.resources) {
        const FlavorResource cell{flavor.name, quota.name};
        const std::string& name = queue.metadata.name;
        text += fmt::format("{}{}/{} {}/{}", text.empty() ? "" : ", ", flavor.name, quota.name,
                            Amount(quota.name, world.tree().Usage(name, cell)),
                            Amount(quota.name, world.tree().Nominal(name, cell)));
      }
    }
  }
  return text;
}

const char* BackfillName(const api::ClusterQueue& queue) {
  switch (queueing::BackfillOf(queue).mode) {
    case queueing::BackfillMode::kOff:
      break;
    case queueing::BackfillMode::kEasy:
      return "EASY";
    case queueing::BackfillMode::kConservative:
      return "Conservative";
  }
  return "";
}

Shown ClusterQueues(const state::World& world, bool wide) {
  std::vector<std::string> columns = {"NAME",    "COHORT",    "STRATEGY", "ACTIVE",
                                      "PENDING", "RESERVING", "ADMITTED"};
  if (wide) columns.insert(columns.end(), {"REASON", "USAGE", "NEXT"});
  Shown shown{Table(columns), Json::MakeArray()};
  for (const auto& [key, queue] : world.cluster_queues().all()) {
    const state::QueueActivity activity = world.ActivityOf(key.name);
    const state::QueueTotals& totals = world.ClusterQueueTotals(key.name);
    const queueing::PendingCounts pending = world.queues().Pending(key.name);
    const bool strict = queueing::StrategyOf(*queue) == queueing::QueueingStrategy::kStrictFifo;
    const std::string usage = UsageText(world, *queue);
    const std::string strategy = strict ? "StrictFIFO" : "BestEffortFIFO";
    const std::string backfill = BackfillName(*queue);
    // The one that is looked at next; with backfill the one that gets the first reservation.
    const std::vector<queueing::WorkloadInfoPtr> first = world.queues().First(key.name, 1);
    const std::string next = first.empty() ? "" : first.front()->Key().ToString();
    std::vector<std::string> cells = {key.name,
                                      queue->spec.cohort_name,
                                      backfill.empty() ? strategy : strategy + "/" + backfill,
                                      activity.active ? "True" : "False",
                                      std::to_string(pending.Total()),
                                      std::to_string(totals.reserving),
                                      std::to_string(totals.admitted)};
    if (wide) cells.insert(cells.end(), {activity.active ? "" : activity.reason, usage, next});
    shown.table.Add(std::move(cells), activity.active ? Tone::kGood : Tone::kBad, 3);
    Json item = Json::MakeObject({{"name", key.name},
                                  {"cohort", queue->spec.cohort_name},
                                  {"strategy", strategy},
                                  {"active", activity.active},
                                  {"pending", pending.Total()},
                                  {"reserving", totals.reserving},
                                  {"admitted", totals.admitted},
                                  {"usage", usage}});
    if (!backfill.empty()) item.Set("backfill", backfill);
    if (!next.empty()) item.Set("next", next);
    if (!activity.active) {
      item.Set("reason", activity.reason);
      item.Set("message", activity.message);
    }
    shown.items.Append(std::move(item));
  }
  return shown;
}

Shown LocalQueues(const state::World& world, const std::string& ns, bool wide) {
  std::vector<std::string> columns = {"NAMESPACE", "NAME",      "CLUSTERQUEUE", "ACTIVE",
                                      "PENDING",   "RESERVING", "ADMITTED"};
  if (wide) columns.insert(columns.end(), {"STOPPOLICY", "WEIGHT"});
  Shown shown{Table(columns), Json::MakeArray()};
  for (const auto& [key, queue] : world.local_queues().all()) {
    if (!ns.empty() && key.ns != ns) continue;
    const bool active = world.LocalQueueActive(key);
    const state::QueueTotals& totals = world.LocalQueueTotals(key);
    const int64_t pending = world.queues().PendingOfLocalQueue(key).Total();
    const std::string stop =
        queue->spec.stop_policy.empty() ? "None" : std::string(queue->spec.stop_policy);
    const auto& sharing = queue->spec.fair_sharing;
    const std::string weight =
        sharing && sharing->weight ? sharing->weight->ToString() : std::string("1");
    std::vector<std::string> cells = {key.ns,
                                      key.name,
                                      queue->spec.cluster_queue,
                                      active ? "True" : "False",
                                      std::to_string(pending),
                                      std::to_string(totals.reserving),
                                      std::to_string(totals.admitted)};
    if (wide) cells.insert(cells.end(), {stop, weight});
    shown.table.Add(std::move(cells), active ? Tone::kGood : Tone::kBad, 3);
    shown.items.Append(Json::MakeObject({{"namespace", key.ns},
                                         {"name", key.name},
                                         {"clusterQueue", queue->spec.cluster_queue},
                                         {"active", active},
                                         {"pending", pending},
                                         {"reserving", totals.reserving},
                                         {"admitted", totals.admitted},
                                         {"stopPolicy", stop},
                                         {"weight", weight}}));
  }
  return shown;
}

// What the workloads that wait in a ClusterQueue ask for, by resource.
absl::btree_map<ResourceName, int64_t> Waiting(const state::World& world, const std::string& name) {
  absl::btree_map<ResourceName, int64_t> waiting;
  for (const queueing::PendingWorkload& pending : world.queues().Snapshot(name)) {
    for (const queueing::PodSetRequests& pod_set : pending.info->requests) {
      for (const auto& [resource, amount] : pod_set.total) {
        waiting[resource] = SaturatingAdd(waiting[resource], amount);
      }
    }
  }
  return waiting;
}

// Balances of fair-share credits by account, where the cluster has accounts.
absl::btree_map<std::string, std::string> Balances(const Scene& scene) {
  absl::btree_map<std::string, std::string> balances;
  const auto accounts = scene.objects.kinds.find(api::Kind::kCreditAccount);
  if (accounts == scene.objects.kinds.end()) return balances;
  for (const Json& account : accounts->second) {
    balances[account.GetString("metadata", "name")] = account.GetString("status", "balance");
  }
  return balances;
}

// What part of the free capacity is lost to a gang that must stay within one domain, by level:
// "rack 25%". "" for flavors without a topology, and where nothing is lost.
std::string FragmentedText(state::World& world, const FlavorName& flavor,
                           const ResourceName& resource) {
  std::string text;
  const topology::Inventory* inventory = world.snapshot().topology;
  if (inventory == nullptr) return text;
  for (const topology::Fragmentation& level : topology::FragmentationOf(*inventory, flavor)) {
    if (level.resource != resource || level.PerMille() == 0) continue;
    text += fmt::format("{}{} {}%", text.empty() ? "" : ", ", level.level, level.PerMille() / 10);
  }
  return text;
}

// "no limit" where there is none.
std::string LimitText(const ResourceName& resource, const std::optional<Quantity>& limit) {
  return limit ? Amount(resource, AmountOf(resource, *limit)) : std::string("no limit");
}

Shown Usage(Scene& scene, bool wide) {
  state::World& world = *scene.world;
  const auto balances = Balances(scene);
  const bool topology = HasTopology(scene.objects);
  std::vector<std::string> columns = {"CLUSTERQUEUE", "COHORT",   "FLAVOR", "RESOURCE", "NOMINAL",
                                      "USED",         "BORROWED", "FREE",   "WAITING",  "SHARE"};
  if (!balances.empty()) columns.push_back("BALANCE");
  if (topology) columns.push_back("FRAGMENTED");
  if (wide) columns.insert(columns.end(), {"BORROWINGLIMIT", "LENDINGLIMIT"});
  Shown shown{Table(columns), Json::MakeArray()};
  for (const auto& [key, queue] : world.cluster_queues().all()) {
    const std::string& name = key.name;
    const quota::Node* node = world.tree().FindQueue(name);
    const bool sound = node != nullptr && quota::Tree::Sound(*node);
    const quota::Share share = sound ? world.tree().ShareOf(*node) : quota::Share();
    const auto waiting = Waiting(world, name);
    const auto balance = balances.find("cq-" + name);
    for (const api::ResourceGroup& group : queue->spec.resource_groups) {
      for (const api::FlavorQuotas& flavor : group.flavors) {
        for (const api::ResourceQuota& quota : flavor.resources) {
          const FlavorResource cell{flavor.name, quota.name};
          const auto amount = [&](int64_t value) { return Amount(quota.name, value); };
          const auto wanted = waiting.find(quota.name);
          const int64_t borrowed = world.tree().Borrowed(name, cell);
          const std::string share_text =
              share.IsInfinite()
                  ? "infinite"
                  : fmt::format("{:.3f}", static_cast<double>(share.Rounded()) / 1000);
          std::vector<std::string> cells = {name,
                                            queue->spec.cohort_name,
                                            flavor.name,
                                            quota.name,
                                            amount(world.tree().Nominal(name, cell)),
                                            amount(world.tree().Usage(name, cell)),
                                            amount(borrowed),
                                            amount(world.tree().Available(name, cell)),
                                            amount(wanted == waiting.end() ? 0 : wanted->second),
                                            share_text};
          Json item = Json::MakeObject();
          static constexpr const char* kKeys[] = {"clusterQueue", "cohort", "flavor",   "resource",
                                                  "nominal",      "used",   "borrowed", "free",
                                                  "waiting",      "share"};
          for (size_t i = 0; i < cells.size(); ++i) item.Set(kKeys[i], cells[i]);
          if (!balances.empty()) {
            cells.push_back(balance == balances.end() ? "" : balance->second);
            item.Set("balance", cells.back());
          }
          if (topology) {
            cells.push_back(FragmentedText(world, flavor.name, quota.name));
            item.Set("fragmented", cells.back());
          }
          const std::string borrowing = LimitText(quota.name, quota.borrowing_limit);
          const std::string lending = LimitText(quota.name, quota.lending_limit);
          if (wide) cells.insert(cells.end(), {borrowing, lending});
          if (quota.borrowing_limit) item.Set("borrowingLimit", borrowing);
          if (quota.lending_limit) item.Set("lendingLimit", lending);
          shown.table.Add(std::move(cells), borrowed > 0 ? Tone::kWarning : Tone::kPlain, 6);
          shown.items.Append(std::move(item));
        }
      }
    }
  }
  return shown;
}

// Prints what `make` gives, once or again and again.
int Print(const QueuesOptions& options, const std::function<Shown(Scene&)>& make, std::ostream& out,
          std::ostream& err) {
  const OutputOptions& output = options.output;
  const absl::Status status =
      PrintAgain(output, out, [&](bool first, std::string& text) -> absl::Status {
        ASSIGN_OR_RETURN(Scene scene, OpenScene(options.connect, absl::Now()));
        for (const std::string& note : scene.objects.notes) {
          if (first) err << "note: " << note << '\n';
        }
        const Shown shown = make(scene);
        if (output.structured()) {
          text = Structured(Json::MakeObject({{"items", shown.items}}), output.format);
        } else if (shown.table.empty()) {
          err << "there are no queues\n";
        } else {
          text = shown.table.Text(output.colours);
        }
        return absl::OkStatus();
      });
  if (status.ok()) return 0;
  err << std::string(status.message()) << '\n';
  return kFailed;
}

}  // namespace

void AddQueuesOptions(CLI::App& command, QueuesOptions& options) {
  AddConnectOptions(command, options.connect);
  AddOutputOptions(command, options.output);
  CLI::Option* local =
      command.add_flag("--local", options.local,
                       "LocalQueues (of one namespace with -n, else of all) and not ClusterQueues");
  command.get_option("--namespace")->needs(local);
}

void AddTopOptions(CLI::App& command, QueuesOptions& options) {
  AddConnectOptions(command, options.connect, false);
  AddOutputOptions(command, options.output);
}

int Queues(const QueuesOptions& options, std::ostream& out, std::ostream& err) {
  return Print(
      options,
      [&](Scene& scene) {
        const bool wide = options.output.wide();
        return options.local ? LocalQueues(*scene.world, options.connect.ns, wide)
                             : ClusterQueues(*scene.world, wide);
      },
      out, err);
}

int Top(const QueuesOptions& options, std::ostream& out, std::ostream& err) {
  return Print(
      options, [&](Scene& scene) { return Usage(scene, options.output.wide()); }, out, err);
}

}  // namespace sluice::cli
