// Package chart installs, upgrades and uninstalls the Helm chart on an empty cluster, and compares
// the rights it gives with what the controller asks for.
package chart

import (
	"testing"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	// With fair sharing the controller writes the status of Cohorts as well.
	harness.Main(m, harness.Options{Suite: "chart", Nodes: 2, NoChart: true, Audit: true, Configure: func(config map[string]any) {
		config["fairSharing"] = map[string]any{"preemptionStrategies": []string{"LessThanOrEqualToFinalShare", "LessThanInitialShare"}}
	}})
}
