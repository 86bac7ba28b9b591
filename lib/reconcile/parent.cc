// A Workload that tries several flavors at once: one variant per flavor waits and is admitted in
// its place; the parent shows the admission of one of them to its job.
//
// Order of what happens, each step by one look at the objects: the parent is marked, variants are
// made and kept like it; an admitted variant gives the parent its admission; a better one may take
// over later (the cycle evicts the worse one, the parent loses its reservation when its job has
// stopped, and only then the quota of the evicted variant is given back). Preemption gates let one
// variant at a time preempt, the best first.
// Source: KEP-8691 (concurrent admission).
#include <fmt/format.h>

#include <algorithm>

#include "admission/conditions.h"
#include "api/codec.h"
#include "api/names.h"
#include "jobs/construct.h"
#include "jobs/workload_name.h"
#include "queueing/variants.h"
#include "queueing/workload_info.h"
#include "reconcile/reconcilers.h"
#include "reconcile/workload_parts.h"

namespace sluice::reconcile {
namespace {

using api::ConditionStatus;
using api::Json;
using WorkloadPtr = std::shared_ptr<const api::Workload>;

// After one variant was allowed to preempt, the next one waits for so long.
constexpr absl::Duration kGatePause = absl::Minutes(5);

bool Has(const api::Workload& workload, const char* condition) {
  return api::IsTrue(workload.status.conditions, condition);
}

absl::Time Since(const api::Workload& workload, const char* condition) {
  const api::Condition* found = api::FindCondition(workload.status.conditions, condition);
  return found == nullptr ? absl::InfinitePast()
                          : found->last_transition_time.value_or(absl::InfinitePast());
}

// It is admitted and stays so.
bool Stands(const api::Workload& variant) {
  return Has(variant, api::kAdmitted) && !Has(variant, api::kEvicted) &&
         queueing::HoldsQuota(variant);
}

const api::PreemptionGateState* OpenGate(const api::Workload& variant) {
  for (const api::PreemptionGateState& gate : variant.status.preemption_gates) {
    if (gate.name == api::kConcurrentAdmissionGate && gate.position == "Open") return &gate;
  }
  return nullptr;
}

class ParentPass {
 public:
  ParentPass(const state::World& world, const api::Workload& parent, absl::Time now)
      : world_(world), parent_(parent), now_(now), options_(StatusOptionsOf(world.settings())) {
    std::string name = world.ClusterQueueOf(parent);
    if (parent.status.admission) name = parent.status.admission->cluster_queue;
    const auto queue = world.cluster_queues().Find({"", name});
    if (queue != nullptr) {
      known_ = true;
      if (const auto migration = queueing::MigrationOf(queue->spec)) migration_ = *migration;
    }
    variants_ = world.VariantsOf(parent.metadata);
    std::stable_sort(variants_.begin(), variants_.end(),
                     [this](const auto& a, const auto& b) { return Position(*a) < Position(*b); });
  }

  Plan Run() {
    for (const WorkloadPtr& variant : variants_) {
      if (world_.IsAssumed(variant->metadata.Key())) return {};  // its reply comes soon
    }
    if (parent_.metadata.Deleting()) return {};
    if (Ended() || !known_ || Mark() || Variants() || Follow() || Evict() || Adopt() || Release() ||
        Activate() || Ready() || OpenGates()) {
      return std::move(plan_);
    }
    return std::move(plan_);
  }

 private:
  static std::string NameOf(const api::Workload& workload) {
    return workload.metadata.Key().ToString();
  }
  size_t Position(const api::Workload& variant) const {
    return migration_.PositionOf(queueing::VariantFlavor(variant));
  }
  bool Reserved() const { return Has(parent_, api::kQuotaReserved); }
  bool Active() const { return parent_.spec.active.value_or(true); }

  Write& WriteStatus(api::Workload next) {
    return plan_.Add(WorkloadStatusAction(world_, std::move(next), now_, true));
  }
  Note ParentNote(const char* reason, std::string message) const {
    return WorkloadNote(parent_, kWorkloadSource, false, reason, std::move(message));
  }

  // The variant whose admission the parent shows, while it stands.
  WorkloadPtr Source() const {
    const FlavorName flavor = queueing::AdmittedFlavor(parent_);
    for (const WorkloadPtr& variant : variants_) {
      if (queueing::VariantFlavor(*variant) == flavor && Stands(*variant)) return variant;
    }
    return nullptr;
  }
  // The best of those that stand.
  WorkloadPtr Best() const {
    for (const WorkloadPtr& variant : variants_) {
      if (Stands(*variant)) return variant;
    }
    return nullptr;
  }

  // Variants end with their parent, for the same reason.
  bool Ended() {
    const api::Condition* finished = api::FindCondition(parent_.status.conditions, api::kFinished);
    if (finished == nullptr || finished->status != ConditionStatus::kTrue) return false;
    for (const WorkloadPtr& variant : variants_) {
      api::Workload next = *variant;
      if (admission::SetFinished(next, finished->reason, finished->message, now_)) {
        WriteStatus(std::move(next));
      }
    }
    return true;
  }

  bool Mark() {
    if (queueing::IsMarkedParent(parent_)) return false;
    Json body = Json::MakeObject();
    body["metadata"]["labels"].Set(api::kConcurrentAdmissionParent, "true");
    plan_.Add(MergePatchAction(api::Kind::kWorkload, parent_.metadata.Key(), "", std::move(body),
                               parent_.metadata.resource_version));
    return true;
  }

  // One variant for each flavor of the ClusterQueue.
  bool Variants() {
    for (const FlavorName& flavor : migration_.flavors) {
      const bool there = std::any_of(
          variants_.begin(), variants_.end(),
          [&](const WorkloadPtr& variant) { return queueing::VariantFlavor(*variant) == flavor; });
      if (!there) Create(flavor);
    }
    std::vector<FlavorName> seen;
    for (const WorkloadPtr& variant : variants_) {
      const FlavorName flavor = queueing::VariantFlavor(*variant);
      const bool wanted = Position(*variant) < migration_.flavors.size() &&
                          std::find(seen.begin(), seen.end(), flavor) == seen.end();
      seen.push_back(flavor);
      if (wanted || variant->metadata.Deleting()) continue;
      plan_.Add(DeleteAction(api::Kind::kWorkload, variant->metadata.Key(), variant->metadata.uid))
          .notes.push_back(ParentNote("DeletedVariant", "Deleted variant: " + NameOf(*variant)));
    }
    return !plan_.writes.empty();
  }

  void Create(const FlavorName& flavor) {
    const api::ObjectMeta& from = parent_.metadata;
    const bool short_names = world_.settings().gates.Enabled("ShortWorkloadNames");
    const ObjectKey key{from.ns,
                        jobs::VariantName(from.name, from.uid, flavor, short_names ? 63 : 253)};
    Json labels = Json::MakeObject();
    for (const auto& [name, value] : from.labels) {
      if (name != api::kConcurrentAdmissionParent) labels.Set(name, value);
    }
    Json annotations = Json::MakeObject();
    for (const auto& [name, value] : from.annotations) annotations.Set(name, value);
    annotations.Set(api::kAllowedResourceFlavors, flavor);
    Json owner =
        jobs::ControllerReference(api::ApiVersionOf(api::Kind::kWorkload), "Workload", from);
    Json spec = api::Encode(parent_.spec);
    spec["preemptionGates"].Append(Json::MakeObject({{"name", api::kConcurrentAdmissionGate}}));
    Json metadata = Json::MakeObject({{"name", key.name},
                                      {"namespace", key.ns},
                                      {"labels", std::move(labels)},
                                      {"annotations", std::move(annotations)},
                                      {"ownerReferences", Json::MakeArray({std::move(owner)})}});
    plan_
        .Add(CreateAction(api::Kind::kWorkload, key,
                          Json::MakeObject({{"apiVersion", api::ApiVersionOf(api::Kind::kWorkload)},
                                            {"kind", "Workload"},
                                            {"metadata", std::move(metadata)},
                                            {"spec", std::move(spec)}})))
        .notes.push_back(ParentNote("CreatedVariant", "Created variant: " + key.ToString()));
  }

  // What changes on the parent while it waits changes on its variants. The API does not let the
  // size of one that holds quota change.
  bool Follow() {
    for (const WorkloadPtr& variant : variants_) {
      if (variant->metadata.Deleting() || Has(*variant, api::kFinished)) continue;
      const api::WorkloadSpec& own = variant->spec;
      const api::WorkloadSpec& wanted = parent_.spec;
      Json spec = Json::MakeObject();
      if (own.priority != wanted.priority || own.priority_class_ref != wanted.priority_class_ref) {
        const Json all = api::Encode(wanted);
        for (const char* field : {"priority", "priorityClassRef"}) {
          const Json* value = all.Find(field);
          spec.Set(field, value == nullptr ? Json() : *value);
        }
      }
      if (!Has(*variant, api::kQuotaReserved)) {
        if (own.queue_name != wanted.queue_name) spec.Set("queueName", wanted.queue_name);
        Json pod_sets = jobs::PodSetsJson(world_, wanted.pod_sets);
        if (!(jobs::PodSetsJson(world_, own.pod_sets) == pod_sets)) {
          spec.Set("podSets", std::move(pod_sets));
        }
      }
      if (!spec.AsObject().empty()) PatchSpec(*variant, std::move(spec));
    }
    return !plan_.writes.empty();
  }

  Write& PatchSpec(const api::Workload& variant, Json spec) {
    return plan_.Add(MergePatchAction(api::Kind::kWorkload, variant.metadata.Key(), "",
                                      Json::MakeObject({{"spec", std::move(spec)}}),
                                      variant.metadata.resource_version));
  }

  // Parent and variant are evicted together, whoever was first.
  bool Evict() {
    const api::Condition* evicted = api::FindCondition(parent_.status.conditions, api::kEvicted);
    const bool parent_goes = evicted != nullptr && evicted->status == ConditionStatus::kTrue;
    // A parent that was deactivated says so itself.
    if (!Active() && !parent_goes) return false;
    if (Reserved() && !parent_goes && Source() == nullptr) return EvictParent();
    if (!parent_goes || evicted->reason == admission::kEvictedVariantEvicted) return false;
    for (const WorkloadPtr& variant : variants_) {
      // One that was admitted since is the next try.
      const bool older = Since(*variant, api::kAdmitted) <= Since(parent_, api::kEvicted);
      if (!Stands(*variant) || !older) continue;
      api::Workload next = *variant;
      admission::SetEvicted(next, evicted->reason, "", evicted->message, now_);
      next.status.requeue_state = parent_.status.requeue_state;
      WriteStatus(std::move(next))
          .notes.push_back(WorkloadNote(*variant, kWorkloadSource, false,
                                        "EvictedDueTo" + evicted->reason, evicted->message));
    }
    return !plan_.writes.empty();
  }

  bool EvictParent() {
    std::string message = "The admitted variant is gone";
    const FlavorName flavor = queueing::AdmittedFlavor(parent_);
    for (const WorkloadPtr& variant : variants_) {
      const api::Condition* cause = api::FindCondition(variant->status.conditions, api::kEvicted);
      if (queueing::VariantFlavor(*variant) != flavor || cause == nullptr ||
          cause->status != ConditionStatus::kTrue) {
        continue;
      }
      message =
          fmt::format("The variant {} was evicted: {}", variant->metadata.name, cause->message);
    }
    api::Workload next = parent_;
    admission::SetEvicted(next, admission::kEvictedVariantEvicted, "", message, now_);
    WriteStatus(std::move(next)).notes.push_back(ParentNote("EvictedDueToVariantEvicted", message));
    return true;
  }

  // The parent shows the admission of a variant.
  bool Adopt() {
    if (Reserved() || !Active()) return false;
    const WorkloadPtr best = Best();
    if (best == nullptr) return false;
    api::Workload next = parent_;
    if (!admission::SetQuotaReservation(next, *best->status.admission, {}, now_, options_)) {
      return false;
    }
    WriteStatus(std::move(next))
        .notes.push_back(
            ParentNote(api::kAdmitted,
                       fmt::format("Admitted by ClusterQueue {} as variant {}",
                                   best->status.admission->cluster_queue, best->metadata.name)));
    return true;
  }

  // An evicted variant keeps its quota until the job of the parent has no pods any more.
  bool Release() {
    const FlavorName in_use = Reserved() ? queueing::AdmittedFlavor(parent_) : FlavorName();
    for (const WorkloadPtr& variant : variants_) {
      if (!Has(*variant, api::kEvicted) || !Has(*variant, api::kQuotaReserved) ||
          Has(*variant, api::kFinished) ||
          (Reserved() && queueing::VariantFlavor(*variant) == in_use)) {
        continue;
      }
      api::Workload next = *variant;
      if (admission::ReleaseQuota(next, now_, options_)) WriteStatus(std::move(next));
    }
    return !plan_.writes.empty();
  }

  bool Wanted(const api::Workload& variant, const WorkloadPtr& best) const {
    if (!Active()) return false;
    if (best == nullptr || best->metadata.uid == variant.metadata.uid) return true;
    if (migration_.retain_first) return false;
    const FlavorName flavor = queueing::VariantFlavor(variant);
    return migration_.Better(flavor, queueing::VariantFlavor(*best)) &&
           migration_.Acceptable(flavor);
  }

  bool Activate() {
    const WorkloadPtr best = Best();
    for (const WorkloadPtr& variant : variants_) {
      if (variant->metadata.Deleting() || Has(*variant, api::kFinished)) continue;
      const bool active = variant->spec.active.value_or(true);
      const bool wanted = Wanted(*variant, best);
      if (active == wanted) continue;
      // What the controller has given up on (a rejected check) stays down.
      const api::Condition* evicted = api::FindCondition(variant->status.conditions, api::kEvicted);
      if (wanted && evicted != nullptr && evicted->reason.starts_with("DeactivatedDueTo")) continue;
      PatchSpec(*variant, Json::MakeObject({{"active", wanted}}))
          .notes.push_back(
              wanted
                  ? ParentNote("ActivatedVariant", "Activated variant: " + NameOf(*variant))
                  : ParentNote("DeactivatedVariant", "Deactivated variant: " + NameOf(*variant)));
    }
    return !plan_.writes.empty();
  }

  // What holds quota and has ready pods is told apart by the condition of the variant.
  bool Ready() {
    const api::Condition* ready = api::FindCondition(parent_.status.conditions, api::kPodsReady);
    const WorkloadPtr source = Reserved() ? Source() : nullptr;
    if (ready == nullptr || source == nullptr) return false;
    const api::Condition* own = api::FindCondition(source->status.conditions, api::kPodsReady);
    if (own != nullptr && own->status == ready->status && own->reason == ready->reason) {
      return false;
    }
    Json status = Json::MakeObject({{"conditions", Json::MakeArray({api::Encode(*ready)})}});
    plan_.Add(OwnPartAction(*source, std::move(status), api::kPodsReadyManager));
    return true;
  }

  // The best variant that has to preempt may do so, one after the other.
  bool OpenGates() {
    absl::Time last = absl::InfinitePast();
    for (const WorkloadPtr& variant : variants_) {
      const api::PreemptionGateState* gate = OpenGate(*variant);
      if (gate != nullptr && gate->last_transition_time) {
        last = std::max(last, *gate->last_transition_time);
      }
    }
    for (const WorkloadPtr& variant : variants_) {
      if (!queueing::IsAdmissible(*variant, world_.order_options()) || OpenGate(*variant)) continue;
      if (api::FindCondition(variant->status.conditions, api::kQuotaReserved) == nullptr) {
        return false;  // it may still fit without
      }
      if (!Has(*variant, api::kBlockedOnPreemptionGates)) continue;
      if (now_ < last + kGatePause) {
        plan_.RecheckAt(last + kGatePause);
        return false;
      }
      Open(*variant);
      return true;
    }
    return false;
  }

  void Open(const api::Workload& variant) {
    api::Workload next = variant;
    auto& gates = next.status.preemption_gates;
    std::erase_if(gates,
                  [](const auto& gate) { return gate.name == api::kConcurrentAdmissionGate; });
    api::PreemptionGateState& gate = gates.emplace_back();
    gate.name = api::kConcurrentAdmissionGate;
    gate.position = "Open";
    gate.last_transition_time = now_;
    WriteStatus(std::move(next))
        .notes.push_back(ParentNote("PreemptionUngatedVariant",
                                    "Opened the preemption gate of variant: " + NameOf(variant)));
  }

  const state::World& world_;
  const api::Workload& parent_;
  absl::Time now_;
  admission::StatusOptions options_;
  bool known_ = false;
  queueing::Migration migration_;  // without flavors where the ClusterQueue has no policy
  std::vector<WorkloadPtr> variants_;
  Plan plan_;
};

}  // namespace

Plan ReconcileParent(const state::World& world, const api::Workload& parent, absl::Time now) {
  return ParentPass(world, parent, now).Run();
}

}  // namespace sluice::reconcile
