// Every rule of the configuration file, as a file that breaks it.
#include "config/load.h"
#include "unit/catch.h"

namespace sluice::config {
namespace {

constexpr char kBeta1[] = "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n";

struct Row {
  std::string name;
  std::string file;
  // The whole message; violations are joined by "; ".
  std::string error;
};

void CheckRow(const Row& row) {
  DYNAMIC_SECTION(row.name) {
    CHECK(std::string(Load(row.file, {}, "").status().message()) == row.error);
  }
}

TEST_CASE("Reading is strict") {
  CheckRow(GENERATE(values<Row>({
      {"an unknown field", "webhook: {porto: 1}", "webhook.porto: unknown field"},
      {"names are case-sensitive", "webhook: {Port: 1}", "webhook.Port: unknown field"},
      {"several unknown fields", "a: 1\nmetrics: {customLabels: [{b: 1}]}",
       "metrics.customLabels[0].b: unknown field; a: unknown field"},
      {"a repeated key", "webhook: {port: 1, port: 2}",
       "webhook.port: the key is given twice (line 1)"},
      {"a string for a number", "webhook: {port: '1'}",
       "webhook.port: must be an integer, not a string"},
      {"a fraction for an integer", "webhook: {port: 1.5}",
       "webhook.port: must be an integer, not a number"},
      {"an integer beyond 32 bits", "webhook: {port: 4294967296}",
       "webhook.port: 4294967296 does not fit 32 bits"},
      {"a number for a string", "namespace: 5", "namespace: must be a string, not a number"},
      {"a word that is a boolean", "integrations: {labelKeysToCopy: [y]}",
       "integrations.labelKeysToCopy[0]: must be a string, not a boolean"},
      {"a string for a boolean", "manageJobsWithoutQueueName: 'true'",
       "manageJobsWithoutQueueName: must be a boolean, not a string"},
      {"an object for a list", "integrations: {frameworks: {}}",
       "integrations.frameworks: must be a list, not an object"},
      {"a list for an object", "webhook: []", "webhook: must be an object, not a list"},
      {"a bare number as duration", "waitForPodsReady: {timeout: 300}",
       "waitForPodsReady.timeout: must be a duration such as \"5m\", not a number"},
      {"a quoted number as duration", "waitForPodsReady: {timeout: '300'}",
       "waitForPodsReady.timeout: \"300\" is not a duration such as 90s or 1h30m"},
      {"an infinite duration", "waitForPodsReady: {timeout: inf}",
       "waitForPodsReady.timeout: \"inf\" is not a duration such as 90s or 1h30m"},
      {"a duration where nanoseconds are", "controller: {cacheSyncTimeout: 2m}",
       "controller.cacheSyncTimeout: must be an integer, not a string"},
      {"a gate that is no boolean", "featureGates: {MultiKueue: 1}",
       "featureGates[MultiKueue]: must be a boolean, not a number"},
      {"a bad quantity", "resources: {transformations: [{input: a, outputs: {b: 5X}}]}",
       "resources.transformations[0].outputs[b]: " +
           std::string(Quantity::Parse("5X").status().message())},
      {"no object at all", "- a", "the document must be an object"},
      {"another kind", "kind: Deployment", "kind: must be Configuration, not \"Deployment\""},
      {"no kind", "apiVersion: config.kueue.x-k8s.io/v1beta2",
       "kind: must be Configuration, not \"\""},
      {"another version", "kind: Configuration\napiVersion: config.kueue.x-k8s.io/v1",
       "apiVersion: must be config.kueue.x-k8s.io/v1beta2 or config.kueue.x-k8s.io/v1beta1 (it is "
       "\"config.kueue.x-k8s.io/v1\")"},
      {"fields of v1beta1 in v1beta2",
       "waitForPodsReady: {enable: true}\nfairSharing: {enable: true}\nqueueVisibility: {}\n"
       "integrations: {podOptions: {}}",
       "waitForPodsReady.enable: unknown field; integrations.podOptions: unknown field; "
       "fairSharing.enable: unknown field; queueVisibility: unknown field"},
      {"fields of v1beta2 in v1beta1",
       std::string(kBeta1) + "multiKueue: {clusterProfile: {}, incrementalDispatcherConfig: {}}\n"
                             "resources: {quotaCheckStrategy: BlockUndeclared, "
                             "deviceClassMappings: [{sources: []}]}\n"
                             "visibilityServer: {}\nmetrics: {customLabels: [{sourceKind: Cohort, "
                             "trackedValues: []}]}",
       "metrics.customLabels[0].sourceKind: unknown field; metrics.customLabels[0].trackedValues: "
       "unknown field; multiKueue.clusterProfile: unknown field; "
       "multiKueue.incrementalDispatcherConfig: unknown field; "
       "resources.deviceClassMappings[0].sources: unknown field; resources.quotaCheckStrategy: "
       "unknown field; visibilityServer: unknown field"},
  })));
}

TEST_CASE("Rules of servers, election and certificates") {
  CheckRow(GENERATE(values<Row>({
      {"webhook port", "webhook: {port: 70000}",
       "webhook.port: must be from 1 to 65535 (it is 70000)"},
      {"metrics address", "metrics: {bindAddress: nowhere}",
       "metrics.bindAddress: must have the form host:port or :port, or be \"0\" (it is "
       "\"nowhere\")"},
      {"IPv6 needs brackets", "metrics: {bindAddress: '::1:80'}",
       "metrics.bindAddress: must have the form host:port or :port, or be \"0\" (it is "
       "\"::1:80\")"},
      {"health address", "health: {healthProbeBindAddress: ':x'}",
       "health.healthProbeBindAddress: must have the form host:port or :port, or be \"0\" (it is "
       "\":x\")"},
      {"a probe path without slash", "health: {livenessEndpointName: alive}",
       "health.livenessEndpointName: must start with '/' (it is \"alive\")"},
      {"both probes at one path", "health: {livenessEndpointName: /readyz}",
       "health.livenessEndpointName: must differ from readinessEndpointName"},
      {"visibility port zero", "visibilityServer: {bindPort: 0}",
       "visibilityServer.bindPort: must be from 1 to 65535 (it is 0)"},
      {"visibility address", "visibilityServer: {bindAddress: localhost}",
       "visibilityServer.bindAddress: must be an IP address (it is \"localhost\")"},
      {"old TLS", "tls: {minVersion: VersionTLS11}",
       "tls: minVersion must be VersionTLS12 or VersionTLS13 (it is \"VersionTLS11\")"},
      {"an unknown suite", "tls: {cipherSuites: [NOPE]}", "tls: unknown cipher suite \"NOPE\""},
      {"a bad curve", "tls: {curvePreferences: [0, 65536]}",
       "tls: curvePreferences must be from 1 to 65535 (one is 0); tls: curvePreferences must be "
       "from "
       "1 to 65535 (one is 65536)"},
      {"suites with TLS 1.3",
       "tls: {minVersion: VersionTLS13, cipherSuites: [TLS_AES_128_GCM_SHA256]}",
       "tls.cipherSuites: must be empty with VersionTLS13, whose cipher suites are not "
       "configurable"},
      {"lease and renewal", "leaderElection: {leaseDuration: 10s}",
       "leaderElection.leaseDuration: must be longer than renewDeadline"},
      {"renewal and retry", "leaderElection: {renewDeadline: 12s, retryPeriod: 10s}",
       "leaderElection.renewDeadline: must be longer than 1.2 times retryPeriod"},
      {"no rule without election", "leaderElection: {leaderElect: false, leaseDuration: 1s}", ""},
      {"namespace", "namespace: No_Good",
       "namespace: must be lower case letters, digits and '-', with an alphanumeric at both ends"},
      {"service name", "internalCertManagement: {webhookServiceName: 1a}",
       "internalCertManagement.webhookServiceName: must start with a lower case letter"},
      {"secret name", "internalCertManagement: {webhookSecretName: a..b}",
       "internalCertManagement.webhookSecretName: must be lower case letters, digits, '-' and '.', "
       "with an alphanumeric at both ends of each part"},
      {"no rule when certificates are managed elsewhere",
       "internalCertManagement: {enable: false, webhookServiceName: 1a}", ""},
  })));
}

TEST_CASE("Rules of the managed namespaces") {
  const std::string key = "kubernetes.io/metadata.name";
  CheckRow(GENERATE_COPY(values<Row>({
      {"the own namespace is matched",
       "namespace: foo\nmanagedJobsNamespaceSelector: {matchExpressions: [{key: " + key +
           ", operator: NotIn, values: [kube-system, kueue-system]}]}",
       "managedJobsNamespaceSelector: must not match the namespace foo"},
      {"a label that the probes do not carry",
       "managedJobsNamespaceSelector: {matchLabels: {team: ml}}", ""},
      {"everything is matched", "managedJobsNamespaceSelector: {}",
       "managedJobsNamespaceSelector: must not match the namespace kube-system; "
       "managedJobsNamespaceSelector: must not match the namespace kueue-system"},
      {"installed into kube-system: one violation",
       "namespace: kube-system\nmanagedJobsNamespaceSelector: {}",
       "managedJobsNamespaceSelector: must not match the namespace kube-system"},
      {"a bad operator",
       "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: Near}]}",
       "managedJobsNamespaceSelector.matchExpressions[0].operator: must be In, NotIn, Exists or "
       "DoesNotExist (it is \"Near\")"},
      {"no values", "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: In}]}",
       "managedJobsNamespaceSelector.matchExpressions[0].values: are required for the operator In"},
      {"values too many",
       "managedJobsNamespaceSelector: {matchExpressions: [{key: a, operator: Exists, values: "
       "[b]}]}",
       "managedJobsNamespaceSelector.matchExpressions[0].values: must be absent for the operator "
       "Exists"},
      {"a bad key", "managedJobsNamespaceSelector: {matchLabels: {'a b': c}}",
       "managedJobsNamespaceSelector.matchLabels[a b]: must be letters, digits, '-', '_' and '.', "
       "with an alphanumeric at both ends"},
      {"a bad value", "managedJobsNamespaceSelector: {matchLabels: {a: 'b c'}}",
       "managedJobsNamespaceSelector.matchLabels[a]: must be letters, digits, '-', '_' and '.', "
       "with "
       "an alphanumeric at both ends"},
  })));
}

TEST_CASE("Rules of waitForPodsReady, retention and fair sharing") {
  CheckRow(GENERATE(values<Row>({
      {"negative times", "waitForPodsReady: {timeout: -1s, recoveryTimeout: -2s}",
       "waitForPodsReady.timeout: must not be negative (it is -1s); "
       "waitForPodsReady.recoveryTimeout: must not be negative (it is -2s)"},
      {"zero in v1beta1", std::string(kBeta1) + "waitForPodsReady: {enable: true, timeout: 0s}",
       "waitForPodsReady.timeout: must not be zero"},
      {"the timestamp", "waitForPodsReady: {requeuingStrategy: {timestamp: Now}}",
       "waitForPodsReady.requeuingStrategy.timestamp: must be Eviction or Creation (it is "
       "\"Now\")"},
      {"negative backoff",
       "waitForPodsReady: {requeuingStrategy: {backoffLimitCount: -1, backoffBaseSeconds: -2, "
       "backoffMaxSeconds: -3}}",
       "waitForPodsReady.requeuingStrategy.backoffLimitCount: must not be negative (it is -1); "
       "waitForPodsReady.requeuingStrategy.backoffBaseSeconds: must not be negative (it is -2); "
       "waitForPodsReady.requeuingStrategy.backoffMaxSeconds: must not be negative (it is -3)"},
      {"negative retention",
       "objectRetentionPolicies: {workloads: {afterFinished: -1s, afterDeactivatedByKueue: -1m}}",
       "objectRetentionPolicies.workloads.afterFinished: must not be negative (it is -1s); "
       "objectRetentionPolicies.workloads.afterDeactivatedByKueue: must not be negative (it is "
       "-1m0s)"},
      {"preemption", "preemption: {checkpointGracePeriod: -1s, maxPerWorkload: -1, window: 0s}",
       "preemption.checkpointGracePeriod: must not be negative (it is -1s); "
       "preemption.maxPerWorkload: must not be negative (it is -1); preemption.window: must be "
       "greater than 0 (it is 0s)"},
      {"more preemptions than are remembered", "preemption: {maxPerWorkload: 33}",
       "preemption.maxPerWorkload: must be at most 32 (it is 33)"},
      {"states of nodes", "topology: {nodeLifecycle: Exclude, maintenance: Ignore}", ""},
      {"no such states of nodes", "topology: {nodeLifecycle: exclude, maintenance: Avoid}",
       "topology.nodeLifecycle: must be Exclude or Ignore (it is \"exclude\"); "
       "topology.maintenance: must be Exclude or Ignore (it is \"Avoid\")"},
      {"no strategies", "fairSharing: {}", "fairSharing.preemptionStrategies: is required"},
      {"the wrong order",
       "fairSharing: {preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare]}",
       "fairSharing.preemptionStrategies: [LessThanInitialShare, LessThanOrEqualToFinalShare] is "
       "not "
       "supported; use [LessThanOrEqualToFinalShare], [LessThanInitialShare] or both in this "
       "order"},
      {"the sampling interval",
       "admissionFairSharing: {usageHalfLifeTime: 10m, usageSamplingInterval: -1s}",
       "admissionFairSharing.usageSamplingInterval: must be greater than 0 (it is -1s)"},
      {"half life and weight",
       "admissionFairSharing: {usageHalfLifeTime: -1m, resourceWeights: {cpu: -0.5, memory: 2}}",
       "admissionFairSharing.usageHalfLifeTime: must not be negative (it is -1m0s); "
       "admissionFairSharing.resourceWeights[cpu]: must not be negative (it is -0.5)"},
  })));
}

TEST_CASE("Rules of integrations and MultiKueue") {
  CheckRow(GENERATE(values<Row>({
      {"an unknown framework", "integrations: {frameworks: [batch/cronjob]}",
       "integrations.frameworks[0]: \"batch/cronjob\" is not a known framework; known are "
       "batch/job, "
       "jobset.x-k8s.io/jobset, kubeflow.org/mpijob, kubeflow.org/paddlejob, "
       "kubeflow.org/pytorchjob, kubeflow.org/tfjob, kubeflow.org/xgboostjob, kubeflow.org/jaxjob, "
       "trainer.kubeflow.org/trainjob, ray.io/rayjob, ray.io/raycluster, ray.io/rayservice, "
       "workload.codeflare.dev/appwrapper, sparkoperator.k8s.io/sparkapplication, pod, deployment, "
       "statefulset, leaderworkerset.x-k8s.io/leaderworkerset"},
      {"a framework twice", "integrations: {frameworks: [batch/job, batch/job]}",
       "integrations.frameworks[1]: \"batch/job\" is given twice"},
      {"external frameworks",
       "integrations: {externalFrameworks: [Foo.v1, Foo.v1.example.com, Foo.v1.example.com, "
       "Job.v1.batch]}",
       "integrations.externalFrameworks[0]: \"Foo.v1\" must have the form Kind.version.group; "
       "integrations.externalFrameworks[2]: \"Foo.v1.example.com\" is given twice or served by an "
       "enabled framework; integrations.externalFrameworks[3]: \"Job.v1.batch\" is given twice or "
       "served by an enabled framework"},
      {"a label key", "integrations: {labelKeysToCopy: [a/b/c]}",
       "integrations.labelKeysToCopy[0]: must be letters, digits, '-', '_' and '.', with an "
       "alphanumeric at both ends"},
      {"negative intervals", "multiKueue: {gcInterval: -1s, workerLostTimeout: -1s}",
       "multiKueue.gcInterval: must not be negative; multiKueue.workerLostTimeout: must not be "
       "negative"},
      {"the origin", "multiKueue: {origin: a b}",
       "multiKueue.origin: must be letters, digits, '-', '_' and '.', with an alphanumeric at both "
       "ends"},
      {"external kinds",
       "multiKueue: {externalFrameworks: [{name: x}, {name: Job.v1.batch}, {name: A.v1.b}, {name: "
       "A.v1.b}]}",
       "multiKueue.externalFrameworks[0].name: \"x\" must have the form kind.version.group; "
       "multiKueue.externalFrameworks[1].name: \"Job.v1.batch\" is served by an enabled framework; "
       "multiKueue.externalFrameworks[3].name: \"A.v1.b\" is given twice"},
      {"both lists of providers, none complete",
       "multiKueue: {clusterProfile: {accessProviders: [{}], credentialsProviders: [{name: a, "
       "execConfig: {command: c, apiVersion: v1, interactiveMode: Maybe, env: [{value: x}]}}]}}",
       "multiKueue.clusterProfile.credentialsProviders: must not be set beside accessProviders; "
       "multiKueue.clusterProfile.accessProviders.name: is required; "
       "multiKueue.clusterProfile.accessProviders.execConfig.command: is required; "
       "multiKueue.clusterProfile.accessProviders.execConfig.apiVersion: is required; "
       "multiKueue.clusterProfile.accessProviders.execConfig.interactiveMode: is required; "
       "multiKueue.clusterProfile.credentialsProviders.execConfig.env.name: is required; "
       "multiKueue.clusterProfile.credentialsProviders.execConfig.interactiveMode: must be Never, "
       "IfAvailable or Always (it is \"Maybe\")"},
      {"steps of another dispatcher",
       "multiKueue: {dispatcherName: example.com/mine, incrementalDispatcherConfig: {stepSize: 0}}",
       "multiKueue.incrementalDispatcherConfig: needs dispatcherName "
       "kueue.x-k8s.io/multikueue-dispatcher-incremental; "
       "multiKueue.incrementalDispatcherConfig.stepSize: must be at least 1 (it is 0)"},
  })));
}

std::string Mappings(const std::string& first, const std::string& second) {
  return "resources: {deviceClassMappings: [{name: m1, deviceClassNames: [gpu]" + first +
         "}, {name: m2, deviceClassNames: [gpu]" + second + "}]}";
}

std::string Counter(const std::string& name) {
  return ", sources: [{counter: {name: " + name +
         ", driver: d, deviceSelector: {cel: {expression: 'true'}}}}]";
}

TEST_CASE("Rules of resources") {
  const std::string not_yet =
      "resources.deviceClassMappings: accounting of dynamic resources is not supported yet";
  CheckRow(GENERATE_COPY(values<Row>({
      {"an unknown strategy", "resources: {quotaCheckStrategy: Maybe}",
       "resources.quotaCheckStrategy: must be BlockUndeclared or IgnoreUndeclared (it is "
       "\"Maybe\")"},
      {"prefixes with IgnoreUndeclared",
       "resources: {excludeResourcePrefixes: [example.com/], quotaCheckStrategy: IgnoreUndeclared}",
       "resources.quotaCheckStrategy: IgnoreUndeclared must not be combined with "
       "excludeResourcePrefixes"},
      {"transformations", "resources: {transformations: [{input: a, strategy: Keep}, {input: a}]}",
       "resources.transformations[0].strategy: must be Retain or Replace (it is \"Keep\"); "
       "resources.transformations[1].input: \"a\" is given twice"},
      {"a class in two mappings", Mappings("", ""),
       "resources.deviceClassMappings[1].deviceClassNames[0]: device class gpu is already mapped "
       "to "
       "m1"},
      {"a class shared by two counters", Mappings(Counter("memory"), Counter("compute")), not_yet},
      {"a class shared by one counter", Mappings(Counter("memory"), Counter("memory")),
       "resources.deviceClassMappings[1].deviceClassNames[0]: device class gpu is already mapped "
       "to "
       "m1"},
      {"names of a mapping",
       "resources: {deviceClassMappings: [{name: -x, deviceClassNames: []}, {name: ok, "
       "deviceClassNames: [a, a]}, {name: ok, deviceClassNames: [b]}]}",
       "resources.deviceClassMappings[0].name: must be letters, digits, '-', '_' and '.', with an "
       "alphanumeric at both ends; resources.deviceClassMappings[0].deviceClassNames: must have 1 "
       "to "
       "8 entries (there are 0); resources.deviceClassMappings[1].deviceClassNames[1]: \"a\" is "
       "given "
       "twice; resources.deviceClassMappings[2].name: \"ok\" is given twice"},
      {"sources",
       "resources: {deviceClassMappings: [{name: m, deviceClassNames: [a], sources: [{}, {counter: "
       "{}}, {capacity: {name: 1x, driver: UP, deviceSelector: {cel: {expression: x}}}}]}]}",
       "resources.deviceClassMappings[0].sources[0]: must have exactly one of counter and "
       "capacity; "
       "resources.deviceClassMappings[0].sources[1].counter.name: is required; "
       "resources.deviceClassMappings[0].sources[1].counter.driver: is required; "
       "resources.deviceClassMappings[0].sources[1].counter.deviceSelector.cel.expression: is "
       "required; resources.deviceClassMappings[0].sources[2].capacity: needs the feature gate "
       "KueueDRAIntegrationConsumableCapacity; "
       "resources.deviceClassMappings[0].sources[2].capacity.name: the name must be letters, "
       "digits "
       "and '_', not starting with a digit; "
       "resources.deviceClassMappings[0].sources[2].capacity.driver: must be lower case letters, "
       "digits, '-' and '.', with an alphanumeric at both ends of each part; "
       "resources.deviceClassMappings[0].sources: must not mix counter and capacity sources"},
  })));
}

std::string Labels(const std::vector<std::string>& entries) {
  std::string text = "metrics: {customLabels: [";
  for (const std::string& entry : entries) text += "{" + entry + "}, ";
  return text + "]}";
}

std::string TrackedValues(int count) {
  std::string text = "trackedValues: [";
  for (int i = 0; i < count; ++i) text += fmt::format("v{}, ", i);
  return text + "]";
}

TEST_CASE("Rules of custom metric labels") {
  const std::string of_workload = ", sourceKind: Workload, trackedValues: [a, b]";
  std::vector<std::string> many;
  std::vector<std::string> of_cohorts;
  for (int i = 0; i < 21; ++i) {
    const char* kinds[] = {"Cohort", "LocalQueue", "ClusterQueue", "ClusterQueue"};
    many.push_back(fmt::format("name: l{}, sourceKind: {}", i, kinds[i % 4]));
  }
  for (int i = 0; i < 7; ++i) of_cohorts.push_back(fmt::format("name: l{}, sourceKind: Cohort", i));
  CheckRow(GENERATE_COPY(values<Row>({
      {"three labels of workloads",
       Labels({"name: a" + of_workload, "name: b" + of_workload, "name: c" + of_workload}),
       "metrics.customLabels: must have at most 2 entries for Workload"},
      {"seven labels of one kind", Labels(of_cohorts),
       "metrics.customLabels: must have at most 6 entries for Cohort"},
      {"too many in total", Labels(many),
       "metrics.customLabels: must have at most 20 entries; metrics.customLabels: must have at "
       "most "
       "6 entries for ClusterQueue"},
      {"an unknown kind", Labels({"name: a, sourceKind: Pod"}),
       "metrics.customLabels: unknown sourceKind \"Pod\"; known are ClusterQueue, Cohort, "
       "LocalQueue, Workload"},
      {"a bad name", Labels({"name: 1a"}),
       "metrics.customLabels[0].name: must be letters, digits and '_', starting with a letter (it "
       "is "
       "\"1a\")"},
      {"a name twice, across kinds", Labels({"name: a", "name: a, sourceKind: Cohort"}),
       "metrics.customLabels[1].name: \"a\" is given twice"},
      {"both keys", Labels({"name: a, sourceLabelKey: b, sourceAnnotationKey: c"}),
       "metrics.customLabels[0]: sourceLabelKey and sourceAnnotationKey exclude each other"},
      {"a bad key", Labels({"name: a, sourceLabelKey: b/c/d"}),
       "metrics.customLabels[0].sourceLabelKey: must be letters, digits, '-', '_' and '.', with an "
       "alphanumeric at both ends"},
      {"a name that is no label key", Labels({"name: a_"}),
       "metrics.customLabels[0].name: must be letters, digits, '-', '_' and '.', with an "
       "alphanumeric at both ends"},
      {"workloads without values", Labels({"name: a, sourceKind: Workload"}),
       "metrics.customLabels[0].trackedValues: must have 1 to 12 entries for Workload (there are "
       "0)"},
      {"too many values of workloads",
       Labels({"name: a, sourceKind: Workload, " + TrackedValues(13)}),
       "metrics.customLabels[0].trackedValues: must have 1 to 12 entries for Workload (there are "
       "13)"},
      {"too many values", Labels({"name: a, " + TrackedValues(17)}),
       "metrics.customLabels[0].trackedValues: must have 0 to 16 entries for ClusterQueue (there "
       "are "
       "17)"},
      {"a value twice", Labels({"name: a, trackedValues: [x, x]"}),
       "metrics.customLabels[0].trackedValues[1]: \"x\" is given twice"},
      {"the selector of LocalQueue metrics",
       "metrics: {localQueueMetrics: {localQueueSelector: {matchExpressions: [{key: a, operator: "
       "X}]}}}",
       "metrics.localQueueMetrics.localQueueSelector.matchExpressions[0].operator: must be In, "
       "NotIn, "
       "Exists or DoesNotExist (it is \"X\")"},
  })));
}

TEST_CASE("What is not there yet is refused by its path") {
  CheckRow(GENERATE(values<Row>({
      {"lock", "leaderElection: {resourceLock: configmaps}",
       "leaderElection.resourceLock: a lock other than \"leases\" is not supported yet"},
      {"profiling", "pprofBindAddress: ':8083'",
       "pprofBindAddress: the profiling server is not supported yet"},
      {"blocking admission is fine", "waitForPodsReady: {timeout: 10m, blockAdmission: true}", ""},
      {"times and requeuing are fine",
       "waitForPodsReady: {timeout: 10m, recoveryTimeout: 3m, requeuingStrategy: {timestamp: "
       "Creation, backoffLimitCount: 0, backoffBaseSeconds: 0, backoffMaxSeconds: 0}}",
       ""},
      {"the defaults spelled out are fine",
       "waitForPodsReady: {timeout: 30m, recoveryTimeout: 1800s, blockAdmission: false, "
       "requeuingStrategy: {timestamp: Eviction, backoffLimitCount: null, backoffBaseSeconds: 60, "
       "backoffMaxSeconds: 3600}}\nmultiKueue: {gcInterval: 1m, origin: multikueue, "
       "workerLostTimeout: 15m, dispatcherName: kueue.x-k8s.io/multikueue-dispatcher-all-at-once}\n"
       "visibilityServer: {bindPort: 8082}\npprofBindAddress: ''\nleaderElection: {resourceLock: "
       "leases}\nresources: {deviceClassMappings: []}\nintegrations: {externalFrameworks: []}",
       ""},
      {"recovery switched off is fine", "waitForPodsReady: {recoveryTimeout: 0s}", ""},
      {"frameworks", "integrations: {frameworks: [batch/job, pod, ray.io/rayjob]}",
       "integrations.frameworks[2]: ray.io/rayjob is not supported yet"},
      {"external frameworks", "integrations: {externalFrameworks: [Foo.v1.example.com]}",
       "integrations.externalFrameworks: kinds of other controllers is not supported yet"},
      {"MultiKueue",
       "multiKueue: {gcInterval: 0s, origin: here, workerLostTimeout: 1m, dispatcherName: "
       "kueue.x-k8s.io/multikueue-dispatcher-incremental, externalFrameworks: [{name: A.v1.b}], "
       "clusterProfile: {}}",
       "multiKueue.gcInterval: MultiKueue is not supported yet; multiKueue.origin: MultiKueue is "
       "not "
       "supported yet; multiKueue.workerLostTimeout: MultiKueue is not supported yet; "
       "multiKueue.dispatcherName: MultiKueue is not supported yet; multiKueue.externalFrameworks: "
       "MultiKueue is not supported yet; multiKueue.clusterProfile: MultiKueue is not supported "
       "yet"},
      {"broken ciphers and new curves",
       "tls: {cipherSuites: [TLS_RSA_WITH_RC4_128_SHA], curvePreferences: [4588]}",
       "tls.cipherSuites[0]: TLS_RSA_WITH_RC4_128_SHA is not supported; tls.curvePreferences[0]: "
       "curve 4588 is not supported"},
      {"v1beta1 that waits for pods",
       std::string(kBeta1) + "waitForPodsReady: {enable: true, timeout: 30m}", ""},
      {"fair sharing is fine", "fairSharing: {preemptionStrategies: [LessThanInitialShare]}", ""},
      {"v1beta1 with fair sharing is fine", std::string(kBeta1) + "fairSharing: {enable: true}",
       ""},
  })));
}

}  // namespace
}  // namespace sluice::config
