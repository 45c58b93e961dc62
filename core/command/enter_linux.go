package command

import (
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// canEnter says that this system has namespaces.
const canEnter = true

// namespace is one that a command on the host runs in.
type namespace struct {
	name string // in /proc/PID/ns
	flag int
}

// namespaces are entered in this order. After mnt the root is the host's.
func namespaces() []namespace {
	return []namespace{
		{"ipc", unix.CLONE_NEWIPC},
		{"uts", unix.CLONE_NEWUTS},
		{"net", unix.CLONE_NEWNET},
		{"pid", unix.CLONE_NEWPID},
		{"mnt", unix.CLONE_NEWNS},
	}
}

// enter calls start in the namespaces of a process, which is named by its
// directory in /proc. Paths that start opens are those of that process's mounts,
// and what it forks runs there. No other goroutine does: start has a thread of
// its own, which ends with it. An *EntryError means that start was not called.
func enter(process string, start func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // without Unlock: the thread ends with this goroutine
		if unix.Gettid() != os.Getpid() {
			done <- startInside(process, start)
			return
		}
		// The first thread cannot end, and its mounts are those of /proc/self.
		// While this goroutine holds it, another gets another thread.
		done <- enter(process, start)
		runtime.UnlockOSThread()
	}()
	return <-done
}

// startInside moves this thread into the namespaces and calls start.
func startInside(process string, start func() error) error {
	refused := func(name string, err error) error {
		return &EntryError{Into: "the " + name + " namespace of " + process, Why: err.Error() + ": " + privileges}
	}
	// All are opened first: /proc may be another one inside, or none.
	var inside []*os.File
	defer func() {
		for _, f := range inside {
			_ = f.Close()
		}
	}()
	for _, ns := range namespaces() {
		f, err := os.Open(filepath.Join(process, "ns", ns.name))
		if err != nil {
			return refused(ns.name, err)
		}
		inside = append(inside, f)
	}
	// A thread that shares its root and working directory may not enter mounts.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return refused("mnt", err)
	}
	for i, ns := range namespaces() {
		if err := unix.Setns(int(inside[i].Fd()), ns.flag); err != nil {
			return refused(ns.name, os.NewSyscallError("setns", err))
		}
	}
	return start()
}
