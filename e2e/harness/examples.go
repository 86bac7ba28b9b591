package harness

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Examples gives a function that applies files of that folder of examples, but for the times that
// pods run: the test ends them, so that a slow machine sees the same. All is deleted in the end.
func (c *Cluster) Examples(t *testing.T, folder string) func(name string) {
	t.Helper()
	directory := filepath.Join(Root(), "examples", folder)
	t.Cleanup(func() {
		if _, err := c.Run(context.Background(), "", "kubectl", "delete", "--wait=false", "--filename", directory); err != nil {
			t.Error(err)
		}
	})
	return func(name string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(directory, name))
		if err == nil {
			untimed := strings.ReplaceAll(string(text), "sluice.dev/run-seconds:", "sluice.dev/ignored:")
			_, err = c.Run(t.Context(), untimed, "kubectl", "apply", "--filename", "-")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
