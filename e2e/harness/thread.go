package harness

import (
	"os/exec"
	"runtime"
)

// The kernel delivers a parent-death signal when the thread that started the child ends, not the
// process; so children are started from one thread that lives as long as we do.
var starts = func() chan func() {
	queue := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range queue {
			start()
		}
	}()
	return queue
}()

func startOnFixedThread(command *exec.Cmd) error {
	result := make(chan error)
	starts <- func() { result <- command.Start() }
	return <-result
}
