#include "sim/scenario_objects.h"

#include <absl/strings/str_split.h>

#include <algorithm>
#include <map>

#include "api/names.h"
#include "api/pod_names.h"
#include "base/status.h"
#include "base/time.h"
#include "sim/job_controller.h"
#include "sim/scenario_queues.h"
#include "sim/scenario_words.h"

namespace sluice::sim {
namespace {

using api::Json;
using api::Kind;

using Word = ScenarioWord;  // the key of "label:team=a" is "label:team"
using Words = std::vector<Word>;

absl::Status Namespace(const Words& words, Json& object) {
  for (const Word& word : words) object["metadata"]["labels"].Set(word.key, word.value);
  return absl::OkStatus();
}

absl::Status Flavor(const Words& words, Json& object) {
  Json& spec = object["spec"];
  spec = Json::MakeObject();
  for (const Word& word : words) {
    if (const std::string label = After(word.key, "label:"); !label.empty()) {
      spec["nodeLabels"].Set(label, word.value);
    } else if (const std::string taint = After(word.key, "taint:"); !taint.empty()) {
      spec["nodeTaints"].Append(TaintOf(taint, word.value, false));
    } else if (const std::string key = After(word.key, "tolerate:"); !key.empty()) {
      spec["tolerations"].Append(TaintOf(key, word.value, true));
    } else if (word.key == "topology") {
      spec.Set("topologyName", word.value);
    } else {
      return Unknown(word);
    }
  }
  return absl::OkStatus();
}

absl::Status Topology(const Words& words, Json& object) {
  for (const Word& word : words) {
    if (word.key != "levels") return Unknown(word);
    for (const std::string& level : std::vector<std::string>(absl::StrSplit(word.value, ','))) {
      object["spec"]["levels"].Append(Json::MakeObject({{"nodeLabel", level}}));
    }
  }
  return absl::OkStatus();
}

Json NodeCondition(const std::string& type, const std::string& status) {
  return Json::MakeObject({{"type", type}, {"status", status}});
}

// A node that says nothing of itself is ready, has room for pods and the label of its name.
absl::Status Node(const std::string& name, const Words& words, Json& object, Json& status) {
  Json& labels = object["metadata"]["labels"];
  labels.Set("kubernetes.io/hostname", name);
  status["allocatable"].Set("pods", "110");
  std::string ready = "True";
  Json conditions = Json::MakeArray();
  for (const Word& word : words) {
    if (const std::string label = After(word.key, "label:"); !label.empty()) {
      labels.Set(label, word.value);
    } else if (const std::string note = After(word.key, "annotation:"); !note.empty()) {
      object["metadata"]["annotations"].Set(note, word.value);
    } else if (const std::string taint = After(word.key, "taint:"); !taint.empty()) {
      object["spec"]["taints"].Append(TaintOf(taint, word.value, false));
    } else if (const std::string type = After(word.key, "condition:"); !type.empty()) {
      conditions.Append(NodeCondition(type, word.value));
    } else if (word.key == "unschedulable") {
      object["spec"].Set("unschedulable", word.value == "true");
    } else if (word.key == "ready") {
      ready = word.value == "true" ? "True" : "False";
    } else if (LooksLikeResource(word.key)) {
      status["allocatable"].Set(word.key, word.value);
    } else {
      return Unknown(word);
    }
  }
  conditions.Append(NodeCondition("Ready", ready));
  status.Set("conditions", std::move(conditions));
  return absl::OkStatus();
}

absl::Status ClusterQueue(const Words& words, Json& object) {
  Json& spec = object["spec"];
  spec.Set("namespaceSelector", Json::MakeObject());
  for (const Word& word : words) {
    ASSIGN_OR_RETURN(const bool quota, QuotaWord(word, spec));
    if (quota) continue;
    ASSIGN_OR_RETURN(const bool policy, PolicyWord(word, spec));
    if (policy) continue;
    if (word.key == "strategy") {
      spec.Set("queueingStrategy", word.value);
    } else if (word.key == "stop") {
      spec.Set("stopPolicy", word.value);
    } else if (word.key == "cohort") {
      spec.Set("cohortName", word.value);
    } else if (const std::string note = After(word.key, "annotation:"); !note.empty()) {
      object["metadata"]["annotations"].Set(note, word.value);
    } else if (word.key == "mode") {
      spec["admissionScope"].Set("admissionMode", word.value);
    } else if (word.key == "check") {
      spec["admissionChecksStrategy"]["admissionChecks"].Append(
          Json::MakeObject({{"name", word.value}}));
    } else if (const std::string label = After(word.key, "selector:"); !label.empty()) {
      spec["namespaceSelector"]["matchLabels"].Set(label, word.value);
    } else {
      return Unknown(word);
    }
  }
  return absl::OkStatus();
}

absl::Status Cohort(const Words& words, Json& object) {
  Json& spec = object["spec"];
  spec = Json::MakeObject();
  for (const Word& word : words) {
    ASSIGN_OR_RETURN(const bool quota, QuotaWord(word, spec));
    if (quota) continue;
    if (word.key != "parent") return Unknown(word);
    spec.Set("parentName", word.value);
  }
  return absl::OkStatus();
}

absl::Status LocalQueue(const Words& words, Json& object) {
  for (const Word& word : words) {
    if (word.key == "cq") {
      object["spec"].Set("clusterQueue", word.value);
    } else if (word.key == "stop") {
      object["spec"].Set("stopPolicy", word.value);
    } else if (word.key == "weight") {
      object["spec"]["fairSharing"].Set("weight", word.value);
    } else {
      return Unknown(word);
    }
  }
  return absl::OkStatus();
}

absl::Status PriorityClass(const Words& words, Json& object) {
  for (const Word& word : words) {
    if (word.key == "value") {
      ASSIGN_OR_RETURN(const int64_t value, Integer(word));
      object.Set("value", value);
    } else if (word.key == "default") {
      object.Set("globalDefault", word.value == "true");
    } else if (word.key == "preemption") {
      object.Set("preemptionPolicy", word.value);
    } else {
      return Unknown(word);
    }
  }
  return absl::OkStatus();
}

absl::Status AdmissionCheck(const Words& words, Json& object, Json& status) {
  bool active = true;
  object["spec"].Set("controllerName", "example.com/checker");
  for (const Word& word : words) {
    if (word.key == "controller") {
      object["spec"].Set("controllerName", word.value);
    } else if (word.key == "active") {
      active = word.value == "true";
    } else {
      return Unknown(word);
    }
  }
  Json condition = Json::MakeObject({{"type", "Active"},
                                     {"status", active ? "True" : "False"},
                                     {"reason", active ? "Active" : "Inactive"},
                                     {"message", "set by the scenario"},
                                     {"lastTransitionTime", "2026-01-01T00:00:00Z"}});
  status["conditions"].Append(std::move(condition));
  return absl::OkStatus();
}

absl::Status RuntimeClass(const Words& words, Json& object) {
  object.Set("handler", "sandbox");
  for (const Word& word : words) {
    if (!LooksLikeResource(word.key)) return Unknown(word);
    object["overhead"]["podFixed"].Set(word.key, word.value);
  }
  return absl::OkStatus();
}

absl::Status LimitRange(const Words& words, Json& object) {
  Json item = Json::MakeObject({{"type", "Container"}});
  for (const Word& word : words) {
    if (const std::string name = After(word.key, "default:"); !name.empty()) {
      item["defaultRequest"].Set(name, word.value);
    } else if (const std::string max = After(word.key, "max:"); !max.empty()) {
      item["max"].Set(max, word.value);
    } else if (const std::string min = After(word.key, "min:"); !min.empty()) {
      item["min"].Set(min, word.value);
    } else {
      return Unknown(word);
    }
  }
  object["spec"].Set("limits", Json::MakeArray({std::move(item)}));
  return absl::OkStatus();
}

// Words that concern the pod template; false when the word is not one of them.
bool PodWord(const Word& word, Json& pod_template) {
  Json& spec = pod_template["spec"];
  Json& container = spec["containers"].MutableArray().front();
  if (word.key.find(':') == std::string::npos && LooksLikeResource(word.key)) {
    container["resources"]["requests"].Set(word.key, word.value);
  } else if (const std::string limit = After(word.key, "limit:"); !limit.empty()) {
    container["resources"]["limits"].Set(limit, word.value);
  } else if (const std::string label = After(word.key, "selector:"); !label.empty()) {
    spec["nodeSelector"].Set(label, word.value);
  } else if (const std::string key = After(word.key, "tolerate:"); !key.empty()) {
    spec["tolerations"].Append(TaintOf(key, word.value, true));
  } else if (const std::string note = After(word.key, "podannotation:"); !note.empty()) {
    pod_template["metadata"]["annotations"].Set(note, word.value);
  } else if (word.key == "runtimeclass") {
    spec.Set("runtimeClassName", word.value);
  } else if (word.key == "podpriority") {
    spec.Set("priorityClassName", word.value);
  } else {
    return false;
  }
  return true;
}

Json PodTemplate() {
  Json container = Json::MakeObject({{"name", "main"}, {"image", "registry.example/app:1"}});
  Json spec = Json::MakeObject(
      {{"restartPolicy", "Never"}, {"containers", Json::MakeArray({std::move(container)})}});
  return Json::MakeObject({{"spec", std::move(spec)}});
}

absl::Status JobMetadata(const Word& word, Json& metadata) {
  const auto label = [&](const char* key) { metadata["labels"].Set(key, word.value); };
  const auto annotation = [&](const std::string& key, const std::string& value) {
    metadata["annotations"].Set(key, value);
  };
  static const std::map<std::string, const char*> kLabels = {{"queue", api::kQueueNameLabel},
                                                             {"priority", api::kPriorityClassLabel},
                                                             {"prebuilt", api::kPrebuiltWorkload},
                                                             {"maxexec", api::kMaxExecTimeLabel}};
  static const std::map<std::string, const char*> kTimes = {{"run", kRunSecondsAnnotation},
                                                            {"stopping", kStopSecondsAnnotation},
                                                            {"ready", kReadySecondsAnnotation}};
  if (const auto known = kLabels.find(word.key); known != kLabels.end()) {
    label(known->second);
  } else if (word.key == "minparallelism") {
    annotation(api::kJobMinParallelism, word.value);
  } else if (const std::string key = After(word.key, "label:"); !key.empty()) {
    label(key.c_str());
  } else if (const std::string name = After(word.key, "annotation:"); !name.empty()) {
    annotation(name, word.value);
  } else if (const auto timed = kTimes.find(word.key); timed != kTimes.end()) {
    ASSIGN_OR_RETURN(const std::string seconds, Seconds(word.value));
    annotation(timed->second, seconds);
  } else if (word.key == "fail") {
    annotation(kFailAnnotation, word.value);
  } else {
    return Unknown(word);
  }
  return absl::OkStatus();
}

absl::Status Job(const Words& words, Json& object) {
  Json pod_template = PodTemplate();
  Json spec = Json::MakeObject();
  for (const Word& word : words) {
    if (PodWord(word, pod_template)) continue;
    if (word.key == "parallelism" || word.key == "completions") {
      ASSIGN_OR_RETURN(const int64_t value, Integer(word));
      spec.Set(word.key, value);
    } else if (word.key == "indexed") {
      spec.Set("completionMode", "Indexed");
    } else if (word.key == "suspend") {
      spec.Set("suspend", word.value == "true");
    } else {
      RETURN_IF_ERROR(JobMetadata(word, object["metadata"]));
    }
  }
  spec.Set("template", std::move(pod_template));
  object.Set("spec", std::move(spec));
  return absl::OkStatus();
}

// Words of a pod about its group; false when the word is not one of them.
bool GroupWord(const Word& word, Json& metadata) {
  static const std::vector<std::pair<std::string, const char*>> kAnnotations = {
      {"total", api::kPodGroupTotalCount},
      {"role", api::kRoleHash},
      {"fast", api::kPodGroupFastAdmission},
      {"serving", api::kPodGroupServing},
      {"retriable", api::kRetriableInGroup}};
  for (const auto& [key, annotation] : kAnnotations) {
    if (word.key != key) continue;
    metadata["annotations"].Set(annotation, word.value);
    return true;
  }
  if (word.key != "group" && word.key != "index") return false;
  metadata["labels"].Set(word.key == "group" ? api::kPodGroupName : api::kPodGroupPodIndex,
                         word.value);
  return true;
}

absl::Status Pod(const Words& words, Json& object) {
  Json pod_template = PodTemplate();
  for (const Word& word : words) {
    const bool named = word.key.starts_with("label:") || word.key.starts_with("annotation:");
    if (!named && PodWord(word, pod_template)) continue;
    if (GroupWord(word, object["metadata"])) continue;
    if (word.key == "node") {
      pod_template["spec"].Set("nodeName", word.value);
      continue;
    }
    if (word.key == "in") {
      pod_template["spec"]["schedulingGroup"].Set("podGroupName", word.value);
      continue;
    }
    RETURN_IF_ERROR(JobMetadata(word, object["metadata"]));
  }
  object.Set("spec", *pod_template.Find("spec"));
  return absl::OkStatus();
}

// LEVEL:SIZE, where the level may have colons of its own.
Json SliceOf(const std::string& text) {
  const size_t colon = text.rfind(':');
  int64_t size = 0;
  if (colon != std::string::npos && !absl::SimpleAtoi(text.substr(colon + 1), &size)) size = 0;
  return Json::MakeObject({{"topology", text.substr(0, colon)}, {"size", size}});
}

// Words of a pod set about topology; false when the word is not one of them.
bool TopologyWord(const Word& word, Json& pod_set) {
  static const std::vector<std::string> kPlain = {"group",         "required", "preferred",
                                                  "unconstrained", "slice",    "layers"};
  if (std::find(kPlain.begin(), kPlain.end(), word.key) == kPlain.end()) return false;
  Json& request = pod_set["topologyRequest"];
  if (word.key == "group") {
    request.Set("podSetGroupName", word.value);
  } else if (word.key == "unconstrained") {
    request.Set("unconstrained", word.value == "true");
  } else if (word.key == "slice") {
    const Json slice = SliceOf(word.value);
    request.Set("podSetSliceRequiredTopology", slice.GetString("topology"));
    request.Set("podSetSliceSize", *slice.Find("size"));
  } else if (word.key == "layers") {
    for (const std::string& layer : std::vector<std::string>(absl::StrSplit(word.value, '+'))) {
      request["podsetSliceRequiredTopologyConstraints"].Append(SliceOf(layer));
    }
  } else {
    request.Set(word.key, word.value);
  }
  return true;
}

// A pod set of a Workload: its words but those of the Workload itself.
class PodSetText {
 public:
  explicit PodSetText(const std::string& name)
      : pod_set_(Json::MakeObject({{"name", name}, {"count", 1}})) {}

  absl::StatusOr<bool> Take(const Word& word) {
    if (word.key == "count" || word.key == "mincount") {
      ASSIGN_OR_RETURN(const int64_t count, Integer(word));
      pod_set_.Set(word.key == "count" ? "count" : "minCount", count);
    } else if (TopologyWord(word, pod_set_)) {
      return true;
    } else {
      return PodWord(word, template_);
    }
    return true;
  }
  Json Finish() {
    pod_set_.Set("template", std::move(template_));
    return std::move(pod_set_);
  }

 private:
  Json pod_set_;
  Json template_ = PodTemplate();
};

absl::Status Workload(const Words& words, Json& object) {
  PodSetText main("main");
  bool other = false;
  Json& spec = object["spec"];
  for (const Word& word : words) {
    if (word.key == "queue") {
      spec.Set("queueName", word.value);
    } else if (word.key == "priority") {
      ASSIGN_OR_RETURN(const int64_t priority, Integer(word));
      spec.Set("priority", priority);
    } else if (word.key == "maxexec") {
      ASSIGN_OR_RETURN(const int64_t seconds, Integer(word));
      spec.Set("maximumExecutionTimeSeconds", seconds);
    } else if (word.key == "gate") {
      spec["preemptionGates"].Append(Json::MakeObject({{"name", word.value}}));
    } else if (const std::string note = After(word.key, "annotation:"); !note.empty()) {
      object["metadata"]["annotations"].Set(note, word.value);
    } else if (const std::string name = After(word.key, "podset:"); !name.empty()) {
      other = true;
      PodSetText pod_set(name);
      ASSIGN_OR_RETURN(const auto pairs, SplitPairs(word.value));
      for (const auto& [key, value] : pairs) {
        ASSIGN_OR_RETURN(const bool taken, pod_set.Take({key, value}));
        if (!taken) return Unknown({key, value});
      }
      spec["podSets"].Append(pod_set.Finish());
    } else {
      ASSIGN_OR_RETURN(const bool taken, main.Take(word));
      if (!taken) return Unknown(word);
    }
  }
  if (!other) spec["podSets"].Append(main.Finish());
  return absl::OkStatus();
}

// cohort=NAME resource=NAME[:WEIGHT]... and the other fields of the spec by their names.
absl::Status CreditPolicy(const Words& words, Json& object) {
  Json& spec = object["spec"];
  for (const Word& word : words) {
    if (word.key == "cohort") {
      spec["selector"].Set("cohort", word.value);
    } else if (word.key == "resource") {
      const size_t colon = word.value.find(':');
      spec["resources"].Append(Json::MakeObject(
          {{"name", word.value.substr(0, colon)},
           {"weight", colon == std::string::npos ? "1" : word.value.substr(colon + 1)}}));
    } else if (const std::string cell = After(word.key, "burst:"); !cell.empty()) {
      const size_t colon = cell.find(':');
      if (colon == std::string::npos) return InvalidArgument("burst:FLAVOR:RESOURCE=LIMIT");
      spec["burstLimit"].Append(Json::MakeObject({{"flavor", cell.substr(0, colon)},
                                                  {"resource", cell.substr(colon + 1)},
                                                  {"limit", word.value}}));
    } else if (word.key == "horizon" || word.key == "halfLife" || word.key == "maxBank" ||
               word.key == "maxDebt" || word.key == "effect" || word.key == "maxLenderDelay") {
      spec.Set(word.key, word.value);
    } else {
      return Unknown(word);
    }
  }
  return absl::OkStatus();
}

absl::Status Fill(Kind kind, const Words& words, Json& object, Json& status) {
  switch (kind) {
    case Kind::kTopology:
      return Topology(words, object);
    case Kind::kNode:
      return Node(object.GetString("metadata", "name"), words, object, status);
    case Kind::kNamespace:
      return Namespace(words, object);
    case Kind::kResourceFlavor:
      return Flavor(words, object);
    case Kind::kClusterQueue:
      return ClusterQueue(words, object);
    case Kind::kCohort:
      return Cohort(words, object);
    case Kind::kLocalQueue:
      return LocalQueue(words, object);
    case Kind::kCreditPolicy:
      return CreditPolicy(words, object);
    case Kind::kWorkloadPriorityClass:
    case Kind::kPriorityClass:
      return PriorityClass(words, object);
    case Kind::kAdmissionCheck:
      return AdmissionCheck(words, object, status);
    case Kind::kRuntimeClass:
      return RuntimeClass(words, object);
    case Kind::kLimitRange:
      return LimitRange(words, object);
    case Kind::kJob:
      return Job(words, object);
    case Kind::kPod:
      return Pod(words, object);
    case Kind::kWorkload:
      return Workload(words, object);
    default:
      return InvalidArgument("{} has no short notation; use yaml", api::InfoOf(kind).name);
  }
}

}  // namespace

absl::StatusOr<Kind> ParseKind(const std::string& word) {
  static const std::vector<std::pair<std::string, Kind>> kWords = {
      {"cq", Kind::kClusterQueue},
      {"lq", Kind::kLocalQueue},
      {"wl", Kind::kWorkload},
      {"flavor", Kind::kResourceFlavor},
      {"account", Kind::kCreditAccount},
      {"policy", Kind::kCreditPolicy},
      {"priorityclass", Kind::kWorkloadPriorityClass},
      {"podpriorityclass", Kind::kPriorityClass}};
  for (const auto& [text, kind] : kWords) {
    if (word == text) return kind;
  }
  for (const api::KindInfo& info : api::AllKinds()) {
    std::string name = info.name;
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    if (word == name) return info.kind;
  }
  return InvalidArgument("\"{}\" is no kind", word);
}

std::vector<std::string> SplitWords(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  bool any = false;
  int depth = 0;
  for (const char c : line) {
    if (c == '"' && depth == 0) {
      quoted = !quoted;
      any = true;
      continue;
    }
    if (c == '{') ++depth;
    if (c == '}') --depth;
    if (c == ' ' && !quoted && depth == 0) {
      if (any) words.push_back(word);
      word.clear();
      any = false;
      continue;
    }
    word += c;
    any = true;
  }
  if (any) words.push_back(word);
  return words;
}

absl::StatusOr<ObjectText> ParseObject(const std::vector<std::string>& words) {
  if (words.size() < 2) return InvalidArgument("an object needs a kind and a name");
  ObjectText text;
  ASSIGN_OR_RETURN(text.kind, ParseKind(words[0]));
  const bool namespaced = api::InfoOf(text.kind).namespaced;
  if (namespaced) text.ns = "ns";
  Words rest;
  for (size_t i = 2; i < words.size(); ++i) {
    const size_t equals = words[i].find('=');
    if (equals == std::string::npos) return InvalidArgument("\"{}\" is not KEY=VALUE", words[i]);
    Word word{words[i].substr(0, equals), words[i].substr(equals + 1)};
    // In "taint:KEY=VALUE:EFFECT" and the like the key is everything before the equals sign.
    if (namespaced && word.key == "ns") {
      text.ns = word.value;
    } else {
      rest.push_back(std::move(word));
    }
  }
  text.object["metadata"].Set("name", words[1]);
  RETURN_IF_ERROR(Fill(text.kind, rest, text.object, text.status));
  return text;
}

}  // namespace sluice::sim
