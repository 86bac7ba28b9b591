package harness

import (
	"io"
	"os/exec"
	"path/filepath"
	"syscall"
)

// guardScript waits for a word on its input. Without one, the test process ended in a way that let it
// do nothing more (a timeout of `go test`, a signal), and the control plane has to be stopped for it.
const guardScript = `read -r word || exec "$1" down --dir "$2"`

// startGuard starts a process that outlives us and stops the control plane if we do not. It has a
// session of its own, so that a signal to our process group does not end it with us.
func (c *Cluster) startGuard() error {
	guard := exec.Command("bash", "-c", guardScript, "sluice-e2e-guard",
		filepath.Join(Root(), "e2e", "controlplane.sh"), c.Dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	input, err := guard.StdinPipe()
	if err != nil {
		return err
	}
	if err := guard.Start(); err != nil {
		return err
	}
	c.guard, c.guardInput = guard, input
	return nil
}

// dismissGuard ends the guard after a regular stop.
func (c *Cluster) dismissGuard() {
	if c.guard == nil {
		return
	}
	_, _ = io.WriteString(c.guardInput, "done\n")
	_ = c.guardInput.Close()
	_ = c.guard.Wait()
}
