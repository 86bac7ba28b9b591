#include "webhook/conversion.h"

#include "unit/webhook/fixture.h"

namespace sluice::webhook {
namespace {

const std::string kBeta1 = "kueue.x-k8s.io/v1beta1";
const std::string kBeta2 = "kueue.x-k8s.io/v1beta2";

api::Json Object(const std::string& version, const std::string& kind, const std::string& body) {
  return With(J("{'apiVersion': '" + version + "', 'kind': '" + kind +
                "', 'metadata': {'name': 'x', 'uid': 'u', 'managedFields': [{'manager': 'm'}]}}"),
              body);
}

api::Json Convert(const api::Json& object, const std::string& version) {
  const absl::StatusOr<api::Json> result = ConvertObject(object, version, {});
  INFO(result.status().message());
  REQUIRE(result.ok());
  return *result;
}

void CheckUp(const std::string& kind, const std::string& from, const std::string& to) {
  CHECK(Convert(Object(kBeta1, kind, from), kBeta2) == Object(kBeta2, kind, to));
}
void CheckDown(const std::string& kind, const std::string& from, const std::string& to) {
  CHECK(Convert(Object(kBeta2, kind, from), kBeta1) == Object(kBeta1, kind, to));
}
void CheckBoth(const std::string& kind, const std::string& beta1, const std::string& beta2) {
  CheckUp(kind, beta1, beta2);
  CheckDown(kind, beta2, beta1);
}

TEST_CASE("conversion of a ClusterQueue") {
  SECTION("names, checks and fungibility up") {
    CheckUp("ClusterQueue",
            "{'spec': {'cohort': 'a', 'admissionChecks': ['c1', 'c2'], 'flavorFungibility': "
            "{'whenCanBorrow': 'Borrow', 'whenCanPreempt': 'TryNextFlavor'}}}",
            "{'spec': {'cohortName': 'a', 'admissionChecksStrategy': {'admissionChecks': [{'name': "
            "'c1'}, {'name': 'c2'}]}, 'flavorFungibility': {'whenCanBorrow': 'MayStopSearch', "
            "'whenCanPreempt': 'TryNextFlavor'}}}");
  }
  SECTION("and down, where nothing old-fashioned comes back") {
    CheckDown(
        "ClusterQueue",
        "{'spec': {'cohortName': 'a', 'admissionChecksStrategy': {'admissionChecks': [{'name': "
        "'c1'}, {'name': 'c2'}]}, 'flavorFungibility': {'whenCanBorrow': 'MayStopSearch', "
        "'whenCanPreempt': 'TryNextFlavor'}}}",
        "{'spec': {'cohort': 'a', 'admissionChecksStrategy': {'admissionChecks': [{'name': "
        "'c1'}, {'name': 'c2'}]}, 'flavorFungibility': {'whenCanBorrow': 'MayStopSearch', "
        "'whenCanPreempt': 'TryNextFlavor'}}}");
  }
  SECTION("Preempt") {
    CheckUp("ClusterQueue", "{'spec': {'flavorFungibility': {'whenCanPreempt': 'Preempt'}}}",
            "{'spec': {'flavorFungibility': {'whenCanPreempt': 'MayStopSearch'}}}");
  }
  SECTION("checks override a strategy, an empty list does not") {
    const std::string strategy = "'admissionChecksStrategy': {'admissionChecks': [{'name': 's'}]}";
    CheckUp("ClusterQueue", "{'spec': {'admissionChecks': ['c'], " + strategy + "}}",
            "{'spec': {'admissionChecksStrategy': {'admissionChecks': [{'name': 'c'}]}}}");
    CheckUp("ClusterQueue", "{'spec': {'admissionChecks': [], " + strategy + "}}",
            "{'spec': {" + strategy + "}}");
  }
  SECTION("what v1beta1 cannot say is left out") {
    CheckDown("ClusterQueue",
              "{'spec': {'concurrentAdmissionPolicy': {'migration': {'mode': 'x'}}}}",
              "{'spec': {}}");
  }
  SECTION("status that v1beta2 has not") {
    CheckUp("ClusterQueue",
            "{'status': {'pendingWorkloads': 1, 'pendingWorkloadsStatus': {'head': []}, "
            "'fairSharing': {'weightedShare': 3, 'admissionFairSharingStatus': {}}}}",
            "{'status': {'pendingWorkloads': 1, 'fairSharing': {'weightedShare': 3}}}");
  }
  SECTION("unknown members survive both ways") {
    CheckBoth("ClusterQueue", "{'spec': {'cohort': 'a', 'tomorrow': {'x': [1]}}, 'extra': true}",
              "{'spec': {'cohortName': 'a', 'tomorrow': {'x': [1]}}, 'extra': true}");
  }
}

TEST_CASE("conversion of a LocalQueue") {
  const std::string usage = "[{'name': 'f', 'resources': []}]";
  CheckBoth("LocalQueue", "{'status': {'flavorUsage': " + usage + "}}",
            "{'status': {'flavorsUsage': " + usage + "}}");
  CheckBoth("LocalQueue", "{'status': {'flavorUsage': []}}", "{'status': {'flavorsUsage': []}}");
  CheckBoth("LocalQueue", "{'spec': {'clusterQueue': 'c'}}", "{'spec': {'clusterQueue': 'c'}}");
  CheckUp("LocalQueue", "{'status': {'flavors': [{'name': 'f'}], 'flavorUsage': []}}",
          "{'status': {'flavorsUsage': []}}");
  const std::string fair = "'fairSharing': {'weightedShare': 0, 'admissionFairSharingStatus': {}}";
  CheckBoth("LocalQueue", "{'status': {" + fair + "}}", "{'status': {" + fair + "}}");
  SECTION("null stays null") {
    api::Json object = Object(kBeta1, "LocalQueue", "{'status': {'pendingWorkloads': 0}}");
    object.Find("status")->Set("flavorUsage", api::Json());
    const api::Json converted = Convert(object, kBeta2);
    REQUIRE(converted.Find("status", "flavorsUsage") != nullptr);
    CHECK(converted.Find("status", "flavorsUsage")->IsNull());
  }
}

TEST_CASE("conversion of a Cohort") {
  CheckUp("Cohort",
          "{'spec': {'parentName': 'p'}, 'status': {'fairSharing': {'weightedShare': 1, "
          "'admissionFairSharingStatus': {}}}}",
          "{'spec': {'parentName': 'p'}, 'status': {'fairSharing': {'weightedShare': 1}}}");
  CheckDown("Cohort", "{'spec': {'parentName': 'p'}}", "{'spec': {'parentName': 'p'}}");
}

TEST_CASE("conversion of a Workload's priority class") {
  CheckBoth("Workload",
            "{'spec': {'priorityClassSource': 'kueue.x-k8s.io/workloadpriorityclass', "
            "'priorityClassName': 'high', 'priority': 5}}",
            "{'spec': {'priorityClassRef': {'group': 'kueue.x-k8s.io', 'kind': "
            "'WorkloadPriorityClass', 'name': 'high'}, 'priority': 5}}");
  CheckBoth("Workload",
            "{'spec': {'priorityClassSource': 'scheduling.k8s.io/priorityclass', "
            "'priorityClassName': 'high'}}",
            "{'spec': {'priorityClassRef': {'group': 'scheduling.k8s.io', 'kind': "
            "'PriorityClass', 'name': 'high'}}}");
  CheckBoth("Workload", "{'spec': {'priorityClassSource': 'scheduling.k8s.io/priorityclass'}}",
            "{'spec': {'priorityClassRef': {'group': 'scheduling.k8s.io', 'kind': "
            "'PriorityClass'}}}");
  CheckUp("Workload",
          "{'spec': {'priorityClassSource': '', 'priorityClassName': 'high', 'priority': 5}}",
          "{'spec': {'priority': 5}}");
  CheckUp("Workload", "{'spec': {'priorityClassSource': 'x', 'priorityClassName': 'high'}}",
          "{'spec': {}}");
}

TEST_CASE("conversion of the rest of a Workload") {
  CheckBoth("Workload", "{'status': {'accumulatedPastExexcutionTimeSeconds': 7}}",
            "{'status': {'accumulatedPastExecutionTimeSeconds': 7}}");
  CheckBoth("Workload", "{'status': {'accumulatedPastExexcutionTimeSeconds': 0}}",
            "{'status': {'accumulatedPastExecutionTimeSeconds': 0}}");
  CheckDown("Workload",
            "{'spec': {'preemptionGates': [{'name': 'g'}], 'podSets': [{'name': 'a', "
            "'topologyRequest': {'required': 'r', 'podsetSliceRequiredTopologyConstraints': []}}, "
            "{'name': 'b'}]}, 'status': {'preemptionGates': []}}",
            "{'spec': {'podSets': [{'name': 'a', 'topologyRequest': {'required': 'r'}}, {'name': "
            "'b'}]}, 'status': {}}");
}

std::string Assignment(const std::string& members) {
  return "{'status': {'admission': {'clusterQueue': 'q', 'podSetAssignments': [{'name': 'main', "
         "'topologyAssignment': {" +
         members + "}}, {'name': 'other'}]}}}";
}

TEST_CASE("conversion of topology assignments") {
  SECTION("slices are written out as domains") {
    CheckDown("Workload",
              Assignment("'levels': ['a', 'b'], 'slices': [{'domainCount': 2, 'valuesPerLevel': "
                         "[{'universal': 'a1'}, {'individual': {'prefix': 'b', 'roots': ['1', "
                         "'2']}}], 'podCounts': {'individual': [10, 20]}}, {'domainCount': 2, "
                         "'valuesPerLevel': [{'universal': 'a2'}, {'individual': {'roots': "
                         "['first', 'second'], 'suffix': '-in-a2'}}], 'podCounts': {'universal': "
                         "50}}]"),
              Assignment("'levels': ['a', 'b'], 'domains': [{'values': ['a1', 'b1'], 'count': 10}, "
                         "{'values': ['a1', 'b2'], 'count': 20}, {'values': ['a2', 'first-in-a2'], "
                         "'count': 50}, {'values': ['a2', 'second-in-a2'], 'count': 50}]"));
  }
  SECTION("domains become slices") {
    CheckBoth("Workload",
              Assignment("'levels': ['a'], 'domains': [{'values': ['r-1'], 'count': 1}, {'values': "
                         "['r-2'], 'count': 1}]"),
              Assignment("'levels': ['a'], 'slices': [{'domainCount': 2, 'valuesPerLevel': "
                         "[{'individual': {'prefix': 'r-', 'roots': ['1', '2']}}], 'podCounts': "
                         "{'universal': 1}}]"));
  }
  SECTION("no domains, no slices") {
    CheckUp("Workload", Assignment("'levels': ['a'], 'domains': []"),
            Assignment("'levels': ['a']"));
    CheckDown("Workload", Assignment("'levels': ['a']"),
              Assignment("'levels': ['a'], 'domains': []"));
  }
  SECTION("the gate decides how host names are encoded") {
    std::string domains;
    for (const char* pool : {"gke-pool-a-7f3c-000", "gke-pool-b-91de-000"}) {
      for (int i = 0; i < 8; ++i) {
        domains += (domains.empty() ? "" : ",") + ("{'values': ['" + (pool + std::to_string(i))) +
                   "'], 'count': 1}";
      }
    }
    const api::Json object =
        Object(kBeta1, "Workload",
               Assignment("'levels': ['kubernetes.io/hostname'], 'domains': [" + domains + "]"));
    for (const bool by_prefix : {true, false}) {
      const auto result = ConvertObject(object, kBeta2, {.by_hostname_prefix = by_prefix});
      REQUIRE(result.ok());
      const api::Json& assignment =
          result->Find("status", "admission", "podSetAssignments")->AsArray()[0];
      CHECK(assignment.Find("topologyAssignment", "slices")->AsArray().size() ==
            (by_prefix ? 2U : 1U));
    }
  }
}

TEST_CASE("conversion of a MultiKueueCluster") {
  const std::string config = "'kubeConfig': {'location': 'l', 'locationType': 'Secret'}";
  const std::string profile = "'clusterProfileRef': {'name': 'p'}";
  const std::string zero = "'kubeConfig': {'location': '', 'locationType': ''}";
  CheckBoth("MultiKueueCluster", "{'spec': {" + config + "}}",
            "{'spec': {'clusterSource': {" + config + "}}}");
  CheckBoth("MultiKueueCluster", "{'spec': {" + zero + ", " + profile + "}}",
            "{'spec': {'clusterSource': {" + profile + "}}}");
}

api::Json ReviewOf(const std::string& version, api::Json::Array objects) {
  api::Json review =
      J("{'kind': 'ConversionReview', 'apiVersion': 'apiextensions.k8s.io/v1', 'request': {'uid': "
        "'u1'}}");
  review.Find("request")->Set("desiredAPIVersion", version);
  review.Find("request")->Set("objects", std::move(objects));
  return review;
}

TEST_CASE("a ConversionReview with several objects") {
  const api::Json same = Object(kBeta2, "Cohort", "{'spec': {'parentName': 'p'}}");
  const api::Json answer = HandleConversionReview(
      ReviewOf(kBeta2, {Object(kBeta1, "ClusterQueue", "{'spec': {'cohort': 'a'}}"), same}), {});
  CHECK(answer.GetString("kind") == "ConversionReview");
  CHECK(answer.GetString("apiVersion") == "apiextensions.k8s.io/v1");
  CHECK(answer.GetString("response", "uid") == "u1");
  CHECK(answer.GetString("response", "result", "status") == "Success");
  const api::Json::Array& converted = answer.Find("response", "convertedObjects")->AsArray();
  REQUIRE(converted.size() == 2);
  CHECK(converted[0] == Object(kBeta2, "ClusterQueue", "{'spec': {'cohortName': 'a'}}"));
  CHECK(converted[1] == same);
}

TEST_CASE("a ConversionReview that cannot be served fails with a reason") {
  struct Row {
    std::string name;
    api::Json review;
    std::string message;  // part of it
  };
  const api::Json good = Object(kBeta1, "Cohort", "{}");
  const Row row = GENERATE_COPY(values<Row>({
      {"not an object", J("[]"), "not a ConversionReview"},
      {"another kind", J("{'kind': 'AdmissionReview'}"), "not a ConversionReview"},
      {"no request", J("{'kind': 'ConversionReview'}"), "no request"},
      {"old review",
       With(ReviewOf(kBeta2, {good}), "{'apiVersion': 'apiextensions.k8s.io/v1beta1'}"),
       "apiextensions.k8s.io/v1"},
      {"no objects", With(ReviewOf(kBeta2, {}), "{'request': {'objects': null}}"), "no list"},
      {"not an object inside", ReviewOf(kBeta2, {J("1")}), "not an object"},
      {"unknown version wanted", ReviewOf("kueue.x-k8s.io/v1", {good}), "kueue.x-k8s.io/v1"},
      {"unknown version given",
       ReviewOf(kBeta2, {With(good, "{'apiVersion': 'kueue.x-k8s.io/v1alpha1'}")}),
       "Cohort x: unknown apiVersion"},
      {"a kind without conversion", ReviewOf(kBeta2, {Object(kBeta1, "Topology", "{}")}),
       "Topology x"},
      {"domains and levels disagree",
       ReviewOf(kBeta2, {Object(kBeta1, "Workload",
                                Assignment("'levels': ['a', 'b'], 'domains': [{'values': ['x'], "
                                           "'count': 1}]"))}),
       "Workload x: status.admission.podSetAssignments[0].topologyAssignment: domains[0]"},
      {"roots and domains disagree",
       ReviewOf(kBeta1, {Object(kBeta2, "Workload",
                                Assignment("'levels': ['a'], 'slices': [{'domainCount': 2, "
                                           "'valuesPerLevel': [{'individual': {'roots': ['x']}}], "
                                           "'podCounts': {'universal': 1}}]"))}),
       "slices[0]"},
  }));
  DYNAMIC_SECTION(row.name) {
    const api::Json answer = HandleConversionReview(row.review, {});
    CHECK(answer.GetString("response", "result", "status") == "Failure");
    const std::string message = answer.GetString("response", "result", "message");
    INFO(message);
    CHECK(message.find(row.message) != std::string::npos);
    CHECK_FALSE(answer.Find("response")->Has("convertedObjects"));
  }
}

TEST_CASE("the conversion options follow the gate") {
  CHECK(ConversionOptionsOf(state::Settings()).by_hostname_prefix);
}

}  // namespace
}  // namespace sluice::webhook
