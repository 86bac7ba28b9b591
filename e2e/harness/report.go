package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// rows are what was measured, in the order in which it came.
var rows [][2]string

// Report keeps a row for the table at the end, and prints it at once in case that the rest does not end
// well.
func Report(what, format string, arguments ...any) {
	row := [2]string{what, fmt.Sprintf(format, arguments...)}
	fmt.Printf("%s: %s\n", row[0], row[1])
	rows = append(rows, row)
}

// Printer runs the tests and prints the table after them.
type Printer struct{ M *testing.M }

// Run is that of a Runner.
func (p Printer) Run() int {
	code := p.M.Run()
	fmt.Printf("\n| %-80s | %-44s |\n| %s | %s |\n", "measured", "result", strings.Repeat("-", 80), strings.Repeat("-", 44))
	for _, row := range rows {
		fmt.Printf("| %-80s | %-44s |\n", row[0], row[1])
	}
	return code
}

// Each calls the function for 0 .. count-1 from so many goroutines, and ends the test with the first
// error.
func Each(t testing.TB, count, goroutines int, do func(i int) error) {
	t.Helper()
	numbers, failed := make(chan int), make(chan error, goroutines)
	var workers sync.WaitGroup
	for range goroutines {
		workers.Go(func() {
			for i := range numbers {
				if err := do(i); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			}
		})
	}
	for i := range count {
		numbers <- i
	}
	close(numbers)
	workers.Wait()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
}

// Lead restarts the controller and waits until it leads.
func (c *Cluster) Lead(t testing.TB) {
	t.Helper()
	c.Controller().Kill()
	if err := c.ReleaseLease(); err != nil {
		t.Fatal(err)
	}
	if err := c.Controller().Start(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the controller leads", func() error {
		if !c.Controller().Leading() {
			return ErrNotYet
		}
		return nil
	})
}
