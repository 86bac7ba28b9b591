// Package schema checks what the API server knows of our kinds: definitions, columns, defaults and
// both versions.
package schema

import (
	"testing"

	"sluice.dev/e2e/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, harness.Options{Suite: "schema", Nodes: 1})
}
