#include "api/crd.h"

#include <fstream>
#include <sstream>
#include <string>

#include "api/schema.h"
#include "unit/catch.h"

namespace sluice::api {
namespace {

std::string FileText(const std::string& path) {
  std::ifstream file(std::string(SLUICE_SOURCE_DIR) + "/" + path, std::ios::binary);
  INFO(path);
  REQUIRE(file.good());
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST_CASE("crds/ and the chart's copy are what the generator writes") {
  for (const Kind kind : DefinedKinds()) {
    const std::string name = CrdFileName(kind);
    INFO("run: generate-crds crds charts/sluice/files/crds");
    CHECK(FileText("crds/" + name) == CrdFileText(kind));
    CHECK(FileText("charts/sluice/files/crds/" + name) == CrdFileText(kind));
  }
}

const Json& VersionOf(const Json& crd, const std::string& name) {
  for (const Json& version : crd.Find("spec", "versions")->AsArray()) {
    if (version.GetString("name") == name) return version;
  }
  FAIL("no version " << name);
  return crd;
}

TEST_CASE("Definitions serve two versions and store the newer") {
  for (const Kind kind : KueueKinds()) {
    const Json crd = MakeCrd(kind);
    INFO(crd.GetString("metadata", "name"));
    CHECK(crd.Find("spec", "versions")->AsArray().size() == 2);
    CHECK(VersionOf(crd, "v1beta2").Find("storage")->AsBool());
    CHECK_FALSE(VersionOf(crd, "v1beta1").Find("storage")->AsBool());
    CHECK(VersionOf(crd, "v1beta1").Has("deprecated") == (kind != Kind::kMultiKueueConfig));
    CHECK_FALSE(VersionOf(crd, "v1beta2").Has("deprecated"));
    CHECK(crd.GetString("spec", "conversion", "strategy") == "None");
  }
}

TEST_CASE("Kinds of sluice.dev have one version, with the columns of an account") {
  for (const Kind kind : {Kind::kCreditPolicy, Kind::kCreditAccount}) {
    const Json crd = MakeCrd(kind);
    CHECK(crd.Find("spec", "versions")->AsArray().size() == 1);
    CHECK(VersionOf(crd, "v1alpha1").Find("storage")->AsBool());
    CHECK(crd.GetString("spec", "group") == "sluice.dev");
    CHECK(crd.GetString("spec", "scope") == "Cluster");
    CHECK(VersionOf(crd, "v1alpha1").Find("subresources")->Text() == R"({"status":{}})");
  }
  const Json account = MakeCrd(Kind::kCreditAccount);
  CHECK(account.Find("spec", "names", "shortNames")->Text() == R"(["cra"])");
  std::string columns;
  for (const Json& column :
       VersionOf(account, "v1alpha1").Find("additionalPrinterColumns")->AsArray()) {
    columns += column.GetString("name") + " ";
  }
  CHECK(columns == "Balance Bank-Limit Entitlement Usage Rate Empty-At ");
}

TEST_CASE("Kinds with a conversion webhook are marked for the chart") {
  int marked = 0;
  for (const Kind kind : KueueKinds()) {
    const Json crd = MakeCrd(kind);
    const std::string mark = crd.GetString("metadata", "annotations", kConversionAnnotation);
    CHECK((mark.empty() || mark == "webhook"));
    marked += mark.empty() ? 0 : 1;
  }
  CHECK(marked == 5);
}

TEST_CASE("Names, columns and subresources are those of the API") {
  const Json workload = MakeCrd(Kind::kWorkload);
  CHECK(workload.GetString("metadata", "name") == "workloads.kueue.x-k8s.io");
  CHECK(workload.Find("spec", "names", "shortNames")->Text() ==
        R"(["wl","kwl","kueueworkload","kueueworkloads"])");
  CHECK(workload.GetString("spec", "scope") == "Namespaced");
  CHECK(VersionOf(workload, "v1beta2").Find("selectableFields")->Text() ==
        R"([{"jsonPath":".status.admission.clusterQueue"}])");
  CHECK_FALSE(VersionOf(workload, "v1beta1").Has("selectableFields"));
  CHECK(VersionOf(workload, "v1beta2").Find("subresources")->Text() == R"({"status":{}})");
  const Json queue = MakeCrd(Kind::kClusterQueue);
  CHECK(VersionOf(queue, "v1beta2")
            .Find("additionalPrinterColumns")
            ->AsArray()[0]
            .GetString("jsonPath") == ".spec.cohortName");
  CHECK(VersionOf(queue, "v1beta1")
            .Find("additionalPrinterColumns")
            ->AsArray()[0]
            .GetString("jsonPath") == ".spec.cohort");
  CHECK_FALSE(VersionOf(MakeCrd(Kind::kResourceFlavor), "v1beta2").Has("subresources"));
}

TEST_CASE("YAML quotes what would be read as something else") {
  const Json json = *ParseJson(
      R"({"a":"text","b":"true","c":"1","d":"","e":[],"f":{},"g":["x",{"k":1,"l":[2]},[3]],)"
      R"("h":"a: b","i":"No","j":"-x","k":"x # y","l":null,"m":"a\nb","n":"x=y","o":" x","y":"z"})");
  CHECK(ToYaml(json) ==
        "a: text\nb: \"true\"\nc: \"1\"\nd: \"\"\ne: []\nf: {}\n"
        "g:\n- x\n- k: 1\n  l:\n  - 2\n-\n  - 3\n"
        "h: \"a: b\"\ni: \"No\"\nj: \"-x\"\nk: \"x # y\"\nl: null\nm: \"a\\nb\"\n\"n\": x=y\n"
        "o: \" x\"\n\"y\": z\n");
  CHECK(ToYaml(Json("x")) == "x\n");
  CHECK(ToYaml(Json::MakeArray()) == "[]\n");
}

TEST_CASE("The reference names every field with its rules") {
  const std::string text = ReferenceText();
  for (const Kind kind : KueueKinds()) {
    CHECK(text.find(std::string("## ") + InfoOf(kind).name + "\n") != std::string::npos);
  }
  CHECK(text.find("| `spec.resourceGroups[].flavors[].resources[].nominalQuota` | quantity | "
                  "required |") != std::string::npos);
  CHECK(text.find("| `spec.active` | boolean | default true |") != std::string::npos);
  CHECK(text.find("| `status.admission.podSetAssignments[].flavors` | map to string |") !=
        std::string::npos);
}

}  // namespace
}  // namespace sluice::api
