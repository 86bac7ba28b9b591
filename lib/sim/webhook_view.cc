#include "sim/webhook_view.h"

#include <optional>
#include <utility>

#include "api/names.h"
#include "sim/api_server.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

class JobLookup : public webhook::OwnerLookup {
 public:
  explicit JobLookup(const ApiServer& api) : api_(api) {}

  Answer Find(const std::string& api_version, const std::string& kind,
              const ObjectKey& key) const override {
    Answer answer;
    if (api_version != "batch/v1" || kind != "Job") return answer;
    const Json* job = api_.Find(Kind::kJob, key);
    answer.kind = job == nullptr ? Answer::Kind::kMissing : Answer::Kind::kFound;
    if (job == nullptr) return answer;
    answer.owner.uid = job->GetString("metadata", "uid");
    answer.owner.queue_name = job->GetString("metadata", "labels", api::kQueueNameLabel);
    if (const Json* owners = job->Find("metadata", "ownerReferences")) {
      for (const Json& owner : owners->AsArray()) {
        const Json* controller = owner.Find("controller");
        if (controller == nullptr || !controller->AsBool()) continue;
        api::OwnerReference reference;
        reference.api_version = owner.GetString("apiVersion");
        reference.kind = owner.GetString("kind");
        reference.name = owner.GetString("name");
        reference.uid = owner.GetString("uid");
        reference.controller = true;
        answer.owner.controller = std::move(reference);
      }
    }
    return answer;
  }

 private:
  const ApiServer& api_;
};

webhook::NeverPreempting NeverPreemptingOf(const ApiServer& api) {
  webhook::NeverPreempting never;
  std::optional<int64_t> least;
  api.ForEach(Kind::kPriorityClass, [&](const Json& priority_class) {
    const bool is_never = priority_class.GetString("preemptionPolicy") == "Never";
    if (is_never) never.classes.insert(priority_class.GetString("metadata", "name"));
    const Json* is_default = priority_class.Find("globalDefault");
    if (is_default == nullptr || !is_default->AsBool()) return;
    const Json* value = priority_class.Find("value");
    const int64_t number = value == nullptr ? 0 : value->AsInt();
    if (least && *least <= number) return;
    least = number;
    never.by_default = is_never;
  });
  return never;
}

}  // namespace

webhook::View ViewOf(const ApiServer& api, const state::Settings& settings) {
  webhook::View view;
  view.settings = &settings;
  view.features = api.features();
  webhook::NamespaceViews namespaces;
  api.ForEach(Kind::kNamespace, [&](const Json& ns) {
    webhook::NamespaceView entry;
    const std::string name = ns.GetString("metadata", "name");
    if (const Json* labels = ns.Find("metadata", "labels")) {
      for (const auto& [key, value] : labels->AsObject()) entry.labels[key] = value.AsString();
    }
    entry.has_default_queue =
        api.Find(Kind::kLocalQueue, {name, api::kDefaultQueueName}) != nullptr;
    namespaces[name] = std::move(entry);
  });
  view.namespaces = std::make_shared<const webhook::NamespaceViews>(std::move(namespaces));
  view.has_default_priority_class =
      api.Find(Kind::kWorkloadPriorityClass, {"", "default"}) != nullptr;
  view.never_preempting = NeverPreemptingOf(api);
  view.owners = std::make_shared<const JobLookup>(api);
  return view;
}

}  // namespace sluice::sim
