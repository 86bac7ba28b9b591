#include "serve/visibility_documents.h"

#include <fmt/format.h>

#include <vector>

#include "serve/visibility.h"

namespace sluice::serve {
namespace {

using api::Json;

constexpr char kTitle[] = "Kueue visibility-server";
constexpr char kSummary[] = "PendingWorkloadsSummary";
constexpr char kWhatIf[] = "WhatIf";

struct Parent {
  const char* plural;
  const char* singular;
  bool namespaced;
};
constexpr Parent kParents[] = {{"clusterqueues", "clusterqueue", false},
                               {"localqueues", "localqueue", true}};

std::string GroupVersion(const std::string& version) {
  return fmt::format("{}/{}", kVisibilityGroup, version);
}

Json Kind(const std::string& version, const char* kind) {
  return Json::MakeObject({{"group", kVisibilityGroup}, {"version", version}, {"kind", kind}});
}

Json Resource(const std::string& name, const char* singular, bool namespaced, const char* kind,
              Json verbs) {
  return Json::MakeObject({{"name", name},
                           {"singularName", singular},
                           {"namespaced", namespaced},
                           {"kind", kind},
                           {"verbs", std::move(verbs)}});
}

// ---- schemas, by the word under which they refer to each other

std::string SchemaName(const std::string& version, const char* kind) {
  return fmt::format("io.x-k8s.kueue.visibility.{}.{}", version, kind);
}

Json Typed(const char* type, const char* description, const char* format = nullptr) {
  Json schema = Json::MakeObject({{"description", description}, {"type", type}});
  if (format != nullptr) schema.Set("format", format);
  return schema;
}

Json Object(const char* description, Json properties) {
  return Json::MakeObject(
      {{"description", description}, {"type", "object"}, {"properties", std::move(properties)}});
}

Json OwnerSchema() {
  return Object("The object that the workload was made for.",
                Json::MakeObject({{"apiVersion", Typed("string", "API version of the owner.")},
                                  {"kind", Typed("string", "Kind of the owner.")},
                                  {"name", Typed("string", "Name of the owner.")},
                                  {"uid", Typed("string", "UID of the owner.")}}));
}

Json MetadataSchema() {
  return Object(
      "Name, namespace, creation time and owners of the workload.",
      Json::MakeObject(
          {{"name", Typed("string", "Name of the workload.")},
           {"namespace", Typed("string", "Namespace of the workload.")},
           {"creationTimestamp", Typed("string", "When the workload was created.", "date-time")},
           {"ownerReferences", Json::MakeObject({{"description", "Owners of the workload."},
                                                 {"type", "array"},
                                                 {"items", OwnerSchema()}})}}));
}

Json PendingWorkloadSchema() {
  return Object(
      "One workload that waits for quota.",
      Json::MakeObject(
          {{"metadata", MetadataSchema()},
           {"priority", Typed("integer", "Priority of the workload, without any boost.", "int32")},
           {"localQueueName", Typed("string", "LocalQueue that the workload was sent to.")},
           {"positionInClusterQueue",
            Typed("integer", "How many workloads of the ClusterQueue come before it.", "int32")},
           {"positionInLocalQueue",
            Typed("integer", "How many workloads of the LocalQueue come before it.", "int32")},
           {"structuredReason",
            Typed("string",
                  "Why it waits, in one word, as of the last decision about it: QuotaExceeded, "
                  "TopologyFragmented, InsufficientCapacity, QueueStopped and others.")},
           {"sentence",
            Typed("string", "The same as the condition QuotaReserved of the workload says it.")}}));
}

Json TypeFields() {
  return Json::MakeObject({{"apiVersion", Typed("string", "Group and version of this object.")},
                           {"kind", Typed("string", "Kind of this object.")}});
}

// With the extension by which clients find the schema of a kind.
Json WithKind(Json schema, const std::string& version, const char* kind) {
  schema.Set("x-kubernetes-group-version-kind", Json::MakeArray({Kind(version, kind)}));
  return schema;
}

Json Schemas(const std::string& version, bool what_if, const std::string& prefix) {
  Json fields = TypeFields();
  fields.Set("metadata", Typed("object", "Empty."));
  fields.Set("items",
             Json::MakeObject(
                 {{"description", "Workloads in the order in which they are looked at."},
                  {"type", "array"},
                  {"items", Json::MakeObject(
                                {{"$ref", prefix + SchemaName(version, "PendingWorkload")}})}}));
  Json summary = Object("Workloads that wait in a queue, with their positions.", std::move(fields));
  summary.Set("required", Json::MakeArray({"items"}));
  Json schemas = Json::MakeObject(
      {{SchemaName(version, "PendingWorkload"), PendingWorkloadSchema()},
       {SchemaName(version, kSummary), WithKind(std::move(summary), version, kSummary)}});
  if (what_if) {
    Json question = TypeFields();
    question.Set("spec", Typed("object", "The job or Workload that is asked about."));
    question.Set("status", Typed("object", "What would happen to it, and why."));
    schemas.Set(SchemaName(version, kWhatIf),
                WithKind(Object("What would happen to a workload if it were created now.",
                                std::move(question)),
                         version, kWhatIf));
  }
  return schemas;
}

// ---- operations

// `v2` writes Swagger 2.0, else OpenAPI 3.0.
class Operations {
 public:
  Operations(std::string version, bool v2) : version_(std::move(version)), v2_(v2) {}

  Json Paths(bool what_if) const {
    Json paths = Json::MakeObject();
    for (const Parent& parent : kParents) {
      const std::string path =
          fmt::format("/apis/{}/{}{}/{{name}}", GroupVersion(version_),
                      parent.namespaced ? "namespaces/{namespace}/" : "", parent.plural);
      paths.Set(path + "/pendingworkloads", Get(parent));
      if (what_if && !parent.namespaced) paths.Set(path + "/whatif", Post(parent));
    }
    return paths;
  }

 private:
  std::string Reference(const char* kind) const {
    return (v2_ ? "#/definitions/" : "#/components/schemas/") + SchemaName(version_, kind);
  }

  Json Parameter(const char* name, const char* where, const char* type, const char* text) const {
    Json parameter = Json::MakeObject({{"name", name}, {"in", where}, {"description", text}});
    if (std::string_view(where) == "path") parameter.Set("required", true);
    Json schema = Json::MakeObject({{"type", type}, {"uniqueItems", true}});
    if (!v2_) {
      parameter.Set("schema", std::move(schema));
      return parameter;
    }
    for (auto& [key, value] : schema.MutableObject()) parameter.Set(key, std::move(value));
    return parameter;
  }

  Json Shared(const Parent& parent) const {
    Json parameters = Json::MakeArray({Parameter("name", "path", "string", "Name of the queue.")});
    if (parent.namespaced) {
      parameters.Append(Parameter("namespace", "path", "string", "Namespace of the queue."));
    }
    return parameters;
  }

  Json Operation(const Parent& parent, const char* verb, const char* action, const char* kind,
                 const char* description) const {
    const Json schema = Json::MakeObject({{"$ref", Reference(kind)}});
    Json ok = Json::MakeObject({{"description", "OK"}});
    if (v2_) {
      ok.Set("schema", schema);
    } else {
      ok.Set("content",
             Json::MakeObject({{"application/json", Json::MakeObject({{"schema", schema}})}}));
    }
    std::string camel = version_;
    camel[0] = 'V';
    Json operation = Json::MakeObject(
        {{"description", description},
         {"operationId", fmt::format("{}VisibilityKueueXK8sIo{}{}{}{}", verb, camel,
                                     parent.namespaced ? "Namespaced" : "",
                                     parent.namespaced ? "LocalQueue" : "ClusterQueue", kind)},
         {"tags", Json::MakeArray({fmt::format("visibilityKueueXK8sIo_{}", version_)})},
         {"responses", Json::MakeObject({{"200", std::move(ok)}})},
         {"x-kubernetes-action", action},
         {"x-kubernetes-group-version-kind", Kind(version_, kind)}});
    if (v2_) {
      operation.Set("produces", Json::MakeArray({"application/json"}));
      operation.Set("consumes", Json::MakeArray({"*/*"}));
      operation.Set("schemes", Json::MakeArray({"https"}));
    }
    return operation;
  }

  Json Get(const Parent& parent) const {
    Json operation = Operation(parent, "read", "get", kSummary,
                               "Workloads that wait in the queue, in order, with positions.");
    operation.Set("parameters",
                  Json::MakeArray({Parameter("limit", "query", "integer",
                                             "At most so many workloads: 1000 when absent or 0."),
                                   Parameter("offset", "query", "integer",
                                             "So many workloads are left out at the start.")}));
    return Json::MakeObject({{"get", std::move(operation)}, {"parameters", Shared(parent)}});
  }

  Json Post(const Parent& parent) const {
    Json operation =
        Operation(parent, "create", "post", kWhatIf,
                  "What would happen to a job or Workload if it were created now; nothing is.");
    const Json schema = Json::MakeObject({{"$ref", Reference(kWhatIf)}});
    if (v2_) {
      operation.Set(
          "parameters",
          Json::MakeArray({Json::MakeObject(
              {{"name", "body"}, {"in", "body"}, {"required", true}, {"schema", schema}})}));
    } else {
      operation.Set(
          "requestBody",
          Json::MakeObject(
              {{"required", true},
               {"content", Json::MakeObject(
                               {{"application/json", Json::MakeObject({{"schema", schema}})}})}}));
    }
    return Json::MakeObject({{"post", std::move(operation)}, {"parameters", Shared(parent)}});
  }

  std::string version_;
  bool v2_;
};

Json Info(const std::string& version) {
  return Json::MakeObject({{"title", kTitle}, {"version", version}});
}

}  // namespace

Json ApiGroup() {
  Json versions = Json::MakeArray();
  for (const char* version : kVisibilityVersions) {
    versions.Append(
        Json::MakeObject({{"groupVersion", GroupVersion(version)}, {"version", version}}));
  }
  const Json preferred = versions.AsArray().front();
  return Json::MakeObject({{"kind", "APIGroup"},
                           {"apiVersion", "v1"},
                           {"name", kVisibilityGroup},
                           {"versions", std::move(versions)},
                           {"preferredVersion", preferred}});
}

Json ApiGroupList() {
  return Json::MakeObject(
      {{"kind", "APIGroupList"}, {"apiVersion", "v1"}, {"groups", Json::MakeArray({ApiGroup()})}});
}

Json ApiResourceList(const std::string& version, bool what_if) {
  Json resources = Json::MakeArray();
  for (const Parent& parent : kParents) {
    const std::string plural = parent.plural;
    resources.Append(
        Resource(plural, parent.singular, parent.namespaced, kSummary, Json::MakeArray()));
    resources.Append(Resource(plural + "/pendingworkloads", "", parent.namespaced, kSummary,
                              Json::MakeArray({"get"})));
    if (what_if && !parent.namespaced) {
      resources.Append(
          Resource(plural + "/whatif", "", false, kWhatIf, Json::MakeArray({"create"})));
    }
  }
  return Json::MakeObject({{"kind", "APIResourceList"},
                           {"apiVersion", "v1"},
                           {"groupVersion", GroupVersion(version)},
                           {"resources", std::move(resources)}});
}

Json ApiGroupDiscoveryList(const std::string& discovery_version, bool what_if) {
  Json versions = Json::MakeArray();
  for (const char* version : kVisibilityVersions) {
    Json resources = Json::MakeArray();
    for (const Parent& parent : kParents) {
      Json below = Json::MakeArray({Json::MakeObject({{"subresource", "pendingworkloads"},
                                                      {"responseKind", Kind(version, kSummary)},
                                                      {"verbs", Json::MakeArray({"get"})}})});
      if (what_if && !parent.namespaced) {
        below.Append(Json::MakeObject({{"subresource", "whatif"},
                                       {"responseKind", Kind(version, kWhatIf)},
                                       {"verbs", Json::MakeArray({"create"})}}));
      }
      resources.Append(Json::MakeObject({{"resource", parent.plural},
                                         {"responseKind", Kind(version, kSummary)},
                                         {"scope", parent.namespaced ? "Namespaced" : "Cluster"},
                                         {"singularResource", parent.singular},
                                         {"verbs", Json::MakeArray()},
                                         {"subresources", std::move(below)}}));
    }
    versions.Append(Json::MakeObject(
        {{"version", version}, {"resources", std::move(resources)}, {"freshness", "Current"}}));
  }
  return Json::MakeObject(
      {{"kind", "APIGroupDiscoveryList"},
       {"apiVersion", "apidiscovery.k8s.io/" + discovery_version},
       {"metadata", Json::MakeObject()},
       {"items", Json::MakeArray({Json::MakeObject(
                     {{"metadata", Json::MakeObject({{"name", kVisibilityGroup},
                                                     {"creationTimestamp", nullptr}})},
                      {"versions", std::move(versions)}})})}});
}

Json OpenApiV3(const std::string& version, bool what_if) {
  return Json::MakeObject(
      {{"openapi", "3.0.0"},
       {"info", Info(version)},
       {"paths", Operations(version, false).Paths(what_if)},
       {"components",
        Json::MakeObject({{"schemas", Schemas(version, what_if, "#/components/schemas/")}})}});
}

Json OpenApiV3Index() {
  Json paths = Json::MakeObject();
  for (const char* version : kVisibilityVersions) {
    const std::string path = "apis/" + GroupVersion(version);
    // The text changes with the program only.
    paths.Set(path, Json::MakeObject({{"serverRelativeURL", "/openapi/v3/" + path}}));
  }
  return Json::MakeObject({{"paths", std::move(paths)}});
}

Json OpenApiV2(bool what_if) {
  Json paths = Json::MakeObject();
  Json definitions = Json::MakeObject();
  for (const char* version : kVisibilityVersions) {
    Json of_version = Operations(version, true).Paths(what_if);
    for (auto& [path, item] : of_version.MutableObject()) paths.Set(path, std::move(item));
    Json schemas = Schemas(version, what_if, "#/definitions/");
    for (auto& [name, schema] : schemas.MutableObject()) definitions.Set(name, std::move(schema));
  }
  return Json::MakeObject({{"swagger", "2.0"},
                           {"info", Info(kVisibilityVersions.front())},
                           {"paths", std::move(paths)},
                           {"definitions", std::move(definitions)}});
}

}  // namespace sluice::serve
