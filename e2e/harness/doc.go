// Package harness runs Sluice beside a real Kubernetes control plane for the suites.
//
// A suite's TestMain calls Main, which starts a control plane with controlplane.sh (or uses the one
// in the directory that SLUICE_E2E_DIR names), installs the chart with helm, and leaves the running
// Cluster in Shared. The controller is the binary that SLUICE_BIN names (default
// build/release/bin/sluice-controller); it runs as a process on this machine with the rights of the
// chart's service account, and the API server reaches its webhooks through a small TCP forwarder
// that stands in for the Service.
//
// Checks that wait are patient for 90 s; SLUICE_E2E_PATIENCE ("2m") changes that.
//
// What a run writes (logs, configuration, kubeconfigs) stays in build/e2e/<suite>.
package harness
