// The worked cases of loading: what a file means, in both versions.
#include "config/load.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "config/file_codec.h"
#include "unit/catch.h"

namespace sluice::config {
namespace {

constexpr char kBeta1[] = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n";
constexpr char kBeta2[] = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n";

Config Good(const std::string& text, const Flags& flags = {},
            const std::string& pod_namespace = "") {
  absl::StatusOr<Config> config = Load(text, flags, pod_namespace);
  REQUIRE(config.status().message() == "");
  return *std::move(config);
}

ConfigurationFile Defaulted(const std::string& text) {
  absl::StatusOr<ConfigurationFile> file = ReadFileText(text, "");
  REQUIRE(file.status().message() == "");
  return *std::move(file);
}

std::string ErrorOf(const std::string& text, const Flags& flags = {}) {
  return std::string(Load(text, flags, "").status().message());
}

TEST_CASE("The three ways to say nothing mean the same") {
  const std::string text = GENERATE(std::string(), std::string(kBeta2), std::string("---\n{}\n"));
  const Config config = Good(text);
  const state::Settings& settings = config.settings;
  CHECK(settings.installation_namespace == "kueue-system");
  CHECK(settings.integrations.frameworks == std::vector<std::string>{"batch/job"});
  CHECK_FALSE(settings.manage_jobs_without_queue_name);
  CHECK_FALSE(settings.managed_jobs_namespace_selector.Matches(
      {{"kubernetes.io/metadata.name", "kube-system"}}));
  CHECK_FALSE(settings.managed_jobs_namespace_selector.Matches(
      {{"kubernetes.io/metadata.name", "kueue-system"}}));
  CHECK(
      settings.managed_jobs_namespace_selector.Matches({{"kubernetes.io/metadata.name", "team"}}));
  REQUIRE(settings.wait_for_pods_ready);
  CHECK(settings.wait_for_pods_ready == state::WaitForPodsReady{});
  CHECK_FALSE(settings.fair_sharing);
  CHECK_FALSE(settings.admission_fair_sharing);
  CHECK(config.file.leader_election.leader_elect);
  CHECK(config.file.leader_election.resource_name == "c1f6bfd2.kueue.x-k8s.io");
  CHECK(config.file.metrics.local_queue_metrics->enable);
  CHECK(config.webhook == Endpoint{"", 9443});
  CHECK(config.metrics == Endpoint{"", 8443});
  CHECK(config.health == Endpoint{"", 8081});
  CHECK(config.file.internal_cert_management.enable == true);
  CHECK(config.file.internal_cert_management.webhook_service_name == "kueue-webhook-service");
  CHECK(config.file.internal_cert_management.webhook_secret_name == "kueue-webhook-server-cert");
  CHECK(config.file.client_connection.qps == 300.0);
  CHECK(config.file.client_connection.burst == 500);
  CHECK(config.notices.empty());
}

TEST_CASE("Settings made by hand equal those of an empty file") {
  const state::Settings settings = Good("").settings;
  const state::Settings fresh;
  CHECK(settings.installation_namespace == fresh.installation_namespace);
  CHECK(settings.managed_jobs_namespace_selector == fresh.managed_jobs_namespace_selector);
  CHECK(settings.wait_for_pods_ready == fresh.wait_for_pods_ready);
  CHECK(settings.integrations.frameworks == fresh.integrations.frameworks);
  CHECK(settings.gates == fresh.gates);
}

TEST_CASE("The namespace comes from the file, else from the pod") {
  CHECK(Good("", {}, "here").settings.installation_namespace == "here");
  CHECK(Good("namespace: there", {}, "here").settings.installation_namespace == "there");
  CHECK_FALSE(Good("", {}, "here")
                  .settings.managed_jobs_namespace_selector.Matches(
                      {{"kubernetes.io/metadata.name", "here"}}));
}

TEST_CASE("LocalQueue metrics are off in an object that does not enable them") {
  const Config config =
      Good("metrics: {localQueueMetrics: {localQueueSelector: {matchLabels: {a: b}}}}");
  CHECK_FALSE(config.file.metrics.local_queue_metrics->enable);
}

TEST_CASE("Zero values stand for the defaults where Go cannot tell them apart") {
  const Config config = Good(
      "webhook: {port: 0, certDir: ''}\nmetrics: {bindAddress: ''}\n"
      "health: {healthProbeBindAddress: ''}\nwaitForPodsReady: {timeout: 0s}\n"
      "leaderElection: {leaseDuration: 0s}\nintegrations: {frameworks: []}");
  CHECK(config.webhook.port == 9443);
  CHECK(config.file.webhook.cert_dir == "/tmp/k8s-webhook-server/serving-certs");
  CHECK(config.metrics == Endpoint{"", 8443});
  CHECK(config.health == Endpoint{"", 8081});
  CHECK(config.settings.wait_for_pods_ready->timeout == absl::Minutes(30));
  CHECK(config.file.leader_election.lease_duration == absl::Seconds(15));
  CHECK(config.settings.integrations.Enabled("batch/job"));
}

TEST_CASE("Everything that is there arrives") {
  const Config config = Good(R"(
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
namespace: queues
webhook: {port: 10250, host: 127.0.0.1, certDir: /certs}
leaderElection: {leaderElect: false, resourceNamespace: leases}
metrics: {bindAddress: "127.0.0.1:0", enableClusterQueueResources: true}
health: {healthProbeBindAddress: "0", readinessEndpointName: /ready}
tls: {cipherSuites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256], curvePreferences: [29, 23]}
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {team: ml}}
internalCertManagement: {enable: false}
integrations: {frameworks: [batch/job], labelKeysToCopy: [team, example.com/cost]}
resources:
  excludeResourcePrefixes: [example.com/]
  transformations:
  - {input: nvidia.com/mig-1g.5gb, strategy: Replace, outputs: {example.com/mem: 5Gi, credits: 10}}
  - {input: gpu, multiplyBy: cpu, outputs: {credits: -1}}
objectRetentionPolicies: {workloads: {afterFinished: 1h, afterDeactivatedByKueue: 10m}}
featureGates: {ReclaimablePods: false}
)");
  const state::Settings& settings = config.settings;
  CHECK(settings.installation_namespace == "queues");
  CHECK(config.webhook == Endpoint{"127.0.0.1", 10250});
  CHECK(config.file.webhook.cert_dir == "/certs");
  CHECK_FALSE(config.file.leader_election.leader_elect);
  CHECK(config.metrics == Endpoint{"127.0.0.1", 0});
  CHECK(config.file.metrics.enable_cluster_queue_resources);
  CHECK_FALSE(config.health);
  CHECK(config.file.health.readiness_endpoint_name == "/ready");
  CHECK(config.tls == TlsOptions{false, "ECDHE-RSA-AES128-GCM-SHA256", "X25519:P-256"});
  CHECK(settings.manage_jobs_without_queue_name);
  CHECK(settings.managed_jobs_namespace_selector.Matches({{"team", "ml"}}));
  CHECK(config.file.internal_cert_management.webhook_service_name.empty());
  CHECK(settings.integrations.label_keys_to_copy ==
        std::vector<std::string>{"team", "example.com/cost"});
  CHECK(settings.resources.exclude_resource_prefixes == std::vector<std::string>{"example.com/"});
  REQUIRE(settings.resources.transformations.size() == 2);
  const state::ResourceTransformation& mig = settings.resources.transformations[0];
  CHECK(mig.input == "nvidia.com/mig-1g.5gb");
  CHECK(mig.strategy == state::ResourceTransformation::Strategy::kReplace);
  CHECK(mig.outputs.at("example.com/mem").ToString() == "5Gi");
  CHECK(mig.outputs.at("credits").Value() == 10);
  const state::ResourceTransformation& gpu = settings.resources.transformations[1];
  CHECK(gpu.strategy == state::ResourceTransformation::Strategy::kRetain);
  CHECK(gpu.multiply_by == "cpu");
  CHECK(gpu.outputs.at("credits").Value() == -1);
  CHECK(settings.object_retention.after_finished == absl::Hours(1));
  CHECK(settings.object_retention.after_deactivated_by_kueue == absl::Minutes(10));
  CHECK_FALSE(settings.gates.Enabled("ReclaimablePods"));
}

TEST_CASE("How long pods may take to be ready, and what happens then") {
  const state::Settings settings =
      Good(
          "waitForPodsReady: {timeout: 7m, recoveryTimeout: 90s, requeuingStrategy: {timestamp: "
          "Creation, backoffLimitCount: 5, backoffBaseSeconds: 2, backoffMaxSeconds: 0}}")
          .settings;
  REQUIRE(settings.wait_for_pods_ready);
  CHECK(*settings.wait_for_pods_ready ==
        state::WaitForPodsReady{absl::Minutes(7),
                                absl::Seconds(90),
                                false,
                                {state::RequeuingTimestamp::kCreation, 5, 2, 0}});
  // What is not said follows: the recovery has as long as the start, and there is no limit.
  CHECK(*Good("waitForPodsReady: {timeout: 7m}").settings.wait_for_pods_ready ==
        state::WaitForPodsReady{absl::Minutes(7), absl::Minutes(7), false, {}});
  CHECK(Good("waitForPodsReady: {recoveryTimeout: 0s}").settings.wait_for_pods_ready ==
        state::WaitForPodsReady{absl::Minutes(30), absl::ZeroDuration(), false, {}});
  CHECK(Good("").settings.wait_for_pods_ready == state::WaitForPodsReady{});
}

TEST_CASE("What took effect can be used as a file again") {
  const Config config = Good(
      "namespace: queues\nmanagedJobsNamespaceSelector: {matchLabels: {a: b}}\n"
      "featureGates: {}\nobjectRetentionPolicies: {workloads: {afterFinished: 90s}}");
  const std::string text = EffectiveFile(config).Text();
  CHECK_THAT(text, Catch::Contains(R"("afterFinished":"1m30s")"));
  CHECK_THAT(text, Catch::Contains(R"("timeout":"30m0s")"));
  CHECK(EffectiveFile(Good(text)).Text() == text);
}

TEST_CASE("v1beta1: pods are awaited only when enabled, with other defaults") {
  CHECK_FALSE(Good(kBeta1).settings.wait_for_pods_ready);
  CHECK_FALSE(
      Good(std::string(kBeta1) + "waitForPodsReady: {timeout: -1s}").settings.wait_for_pods_ready);
  const ConfigurationFile file =
      Defaulted(std::string(kBeta1) + "waitForPodsReady: {enable: true}");
  REQUIRE(file.wait_for_pods_ready);
  CHECK(file.wait_for_pods_ready->timeout == absl::Minutes(5));
  CHECK(file.wait_for_pods_ready->recovery_timeout == absl::Minutes(5));
  CHECK(file.wait_for_pods_ready->block_admission == true);
  CHECK(file.wait_for_pods_ready->requeuing_strategy->backoff_base_seconds == 60);
}

TEST_CASE("v1beta1: fair sharing is on only when enabled, with both strategies") {
  CHECK_FALSE(Good(std::string(kBeta1) + "fairSharing: {enable: false}").settings.fair_sharing);
  const ConfigurationFile file = Defaulted(std::string(kBeta1) + "fairSharing: {enable: true}");
  REQUIRE(file.fair_sharing);
  CHECK(file.fair_sharing->preemption_strategies ==
        std::vector<std::string>{"LessThanOrEqualToFinalShare", "LessThanInitialShare"});
}

TEST_CASE("v1beta1: options that no longer do anything are noted") {
  const Config config =
      Good(std::string(kBeta1) +
           "queueVisibility: {clusterQueues: {maxCount: 5}, updateIntervalSeconds: 9}\n"
           "integrations: {podOptions: {namespaceSelector: {matchLabels: {a: b}}}}");
  REQUIRE(config.notices.size() == 2);
  CHECK_THAT(config.notices[0], Catch::StartsWith("queueVisibility has no effect"));
  CHECK_THAT(config.notices[1], Catch::StartsWith("integrations.podOptions has no effect"));
}

TEST_CASE("Where the visibility server listens") {
  CHECK(Good("").visibility == Endpoint{"", 8082});
  CHECK(Good("visibilityServer: {bindAddress: 127.0.0.1, bindPort: 9000}").visibility ==
        Endpoint{"127.0.0.1", 9000});
  CHECK(Good(kBeta1).visibility == Endpoint{"", 8082});
  CHECK_FALSE(Good("featureGates: {VisibilityOnDemand: false}").visibility);
}

TEST_CASE("Tuning of another implementation is accepted with a notice") {
  const Config config = Good(
      "controller: {groupKindConcurrency: {Job.batch: 5}}\n"
      "metrics: {customLabels: [{name: team}]}");
  REQUIRE(config.notices.size() == 2);
  CHECK_THAT(config.notices[0], Catch::StartsWith("controller.groupKindConcurrency has no effect"));
  CHECK_THAT(config.notices[1], Catch::StartsWith("metrics.customLabels has no effect"));
}

TEST_CASE("The gate DisableWaitForPodsReady switches the feature off, and its rules") {
  const Config config =
      Good("featureGates: {DisableWaitForPodsReady: true}\nwaitForPodsReady: {timeout: -5s}");
  CHECK_FALSE(config.settings.wait_for_pods_ready);
}

TEST_CASE("The gate QuotaCheckStrategy, and what it gates") {
  const std::string text = "resources: {quotaCheckStrategy: IgnoreUndeclared}\n";
  CHECK(Good(text).settings.resources.quota_check_strategy ==
        state::QuotaCheckStrategy::kIgnoreUndeclared);
  const Config off = Good(text + "featureGates: {QuotaCheckStrategy: false}");
  CHECK(off.settings.resources.quota_check_strategy == state::QuotaCheckStrategy::kBlockUndeclared);
  REQUIRE(off.notices.size() == 1);
  CHECK_THAT(off.notices[0], Catch::StartsWith("resources.quotaCheckStrategy has no effect"));
}

struct GateRow {
  std::string name;
  std::string file;
  absl::btree_map<std::string, bool> flag;
  std::vector<std::string> errors;  // each must be in the message; none: accepted
};

TEST_CASE("Feature gates") {
  const GateRow row = GENERATE(values<GateRow>({
      {"by the flag", "", {{"ReclaimablePods", false}}, {}},
      {"an empty map beside the flag",
       "featureGates: {}",
       {{"MultiKueue", false}},
       {"featureGates: must not be given beside the flag"}},
      {"an unknown gate",
       "featureGates: {QueueVisibility: true}",
       {},
       {"unknown feature gate QueueVisibility"}},
      {"an unknown gate by the flag",
       "",
       {{"Nope", true}},
       {"--feature-gates: unknown feature gate Nope"}},
      {"a locked gate with its default", "featureGates: {TLSOptions: true}", {}, {}},
      {"a locked gate with the other value",
       "featureGates: {TLSOptions: false}",
       {},
       {"TLSOptions is locked to true"}},
      {"a disabled dependency",
       "featureGates: {TopologyAwareScheduling: false}",
       {},
       {"TASProfileMixed needs TopologyAwareScheduling", "TASFailedNodeReplacement needs",
        "TASFailedNodeReplacementFailFast needs", "TASReplaceNodeOnPodTermination needs",
        "TASReplaceNodeOnNodeTaints needs", "TASMultiLayerTopology needs",
        "TASHandleOverlappingFlavors needs", "TASRecomputeAssignmentWithinSchedulingCycle needs"}},
      {"all dependents disabled too",
       "featureGates: {FlavorFungibility: false, FlavorFungibilityPreserveScanProgress: false}",
       {},
       {}},
      {"a feature that is not there",
       "featureGates: {FailureRecoveryPolicy: true}",
       {},
       {"featureGates: FailureRecoveryPolicy: this feature is not supported yet"}},
      {"a missing feature switched off", "featureGates: {MultiKueue: false}", {}, {}},
      {"a missing feature at its default", "featureGates: {MultiKueue: true}", {}, {}},
      {"all of a stage",
       "featureGates: {AllAlpha: true}",
       {},
       {"FailureRecoveryPolicy: this feature", "SparkApplicationIntegration: this feature"}},
      {"all of a stage off", "featureGates: {AllAlpha: false}", {}, {}},
      {"a gate error hides other errors",
       "featureGates: {Nope: true}\nnamespace: UPPER",
       {},
       {"unknown feature gate Nope"}},
  }));
  DYNAMIC_SECTION(row.name) {
    Flags flags;
    flags.feature_gates = row.flag;
    const std::string error = ErrorOf(row.file, flags);
    if (row.errors.empty()) CHECK(error == "");
    for (const std::string& part : row.errors) CHECK_THAT(error, Catch::Contains(part));
    CHECK_THAT(error, !Catch::Contains("namespace:"));
  }
}

TEST_CASE("An explicit gate wins over its stage") {
  const Config config = Good("featureGates: {AllBeta: true, ReclaimablePods: false}");
  CHECK_FALSE(config.settings.gates.Enabled("ReclaimablePods"));
  CHECK(config.settings.gates.Enabled("UnadmittedWorkloadsExplicitStatus"));
}

TEST_CASE("The Lease needs a namespace") {
  CHECK(*LeaseNamespace(Good("leaderElection: {resourceNamespace: a}"), "b") == "a");
  CHECK(*LeaseNamespace(Good("namespace: c"), "b") == "b");
  CHECK_THAT(std::string(LeaseNamespace(Good("namespace: c"), "").status().message()),
             Catch::StartsWith("leaderElection.resourceNamespace: is required outside a pod"));
}

TEST_CASE("Files that are missing, no file, or fine") {
  Flags flags;
  flags.config_path = "/nonexistent/config.yaml";
  CHECK(std::string(LoadFile(flags, "").status().message()) ==
        "/nonexistent/config.yaml: No such file or directory");
  flags.config_path = "/";
  CHECK(std::string(LoadFile(flags, "").status().message()) == "/: cannot be read");
  flags.config_path = "";
  CHECK(LoadFile(flags, "").ok());

  char path[] = "/tmp/sluice_config_XXXXXX";
  const int descriptor = mkstemp(path);
  REQUIRE(descriptor >= 0);
  close(descriptor);
  flags.config_path = path;
  CHECK(LoadFile(flags, "").ok());  // an empty file
  std::ofstream(path) << "namespace: queues\n";
  CHECK(LoadFile(flags, "")->settings.installation_namespace == "queues");
  std::ofstream(path) << "porto: 1\n";
  CHECK(std::string(LoadFile(flags, "").status().message()) ==
        std::string(path) + ": porto: unknown field");
  std::remove(path);
}

}  // namespace
}  // namespace sluice::config
