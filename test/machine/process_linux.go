package machine

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// Process was started by Start, here or on a host.
type Process struct {
	PID int // as seen from here

	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait, once ended is closed
}

// Wait waits for the end of the process; its error is that of exec.Cmd.Wait.
// Every call gives the same answer.
func (p *Process) Wait() error {
	<-p.ended
	return p.err
}

// Ended is closed when the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Signal sends a signal; a process that has ended is an error.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Kill kills the process and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// Start starts cmd on this machine. It is killed when this process is, in
// whatever way.
func Start(cmd *exec.Cmd) (*Process, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return start(cmd, func() error { return nil })
}

// start starts cmd in the namespaces that enter moves a thread to. The thread is
// kept as long as cmd runs: a Pdeathsig is sent when the thread ends that
// started a process, not when the program does.
func start(cmd *exec.Cmd, enter func() error) (*Process, error) {
	p := &Process{cmd: cmd, ended: make(chan struct{})}
	started := make(chan error)
	go inThread(func() {
		err := enter()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			p.PID = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
		}
		close(p.ended)
	})
	return p, <-started
}

// inThread runs f in a thread that ends with it, for nothing else could run in a
// thread that has changed namespaces. It is not the first one of the process,
// which cannot end, and whose mounts are those of /proc/self.
func inThread(f func()) {
	runtime.LockOSThread()
	if syscall.Gettid() != syscall.Getpid() {
		f()
		return
	}
	// While this goroutine holds the first thread, another gets another one.
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		f()
		close(done)
	}()
	<-done
	runtime.UnlockOSThread()
}
