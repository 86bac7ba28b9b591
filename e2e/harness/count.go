package harness

import (
	"os"
	"strconv"
	"testing"
)

// CountFrom is the number in an environment variable, with which a run by hand is longer or shorter, or
// the usual one. A smaller one than the least would prove nothing and is an error.
func CountFrom(t testing.TB, variable string, usual, least int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	count, err := strconv.Atoi(text)
	if err != nil || count < least {
		t.Fatalf("%s=%s is no number from %d on", variable, text, least)
	}
	return count
}
