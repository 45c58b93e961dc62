package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const lockRoot = "KEEL_TEST_LOCK_ROOT"

// TestLock_child is the other process of the tests below: it takes the lock,
// says so, and holds it until its input ends.
func TestLock_child(t *testing.T) {
	root := os.Getenv(lockRoot)
	if root == "" {
		return
	}
	unlock, err := openTree(t, root).Lock(t.Context(), "keel apply -f site")
	must(t, err)
	defer unlock()
	fmt.Println("locked")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // or killed
}

// holder starts another process that holds a root's lock.
func holder(t *testing.T, root string) (cmd *exec.Cmd, release func()) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLock_child$")
	cmd.Env = append(os.Environ(), lockRoot+"="+root)
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "locked\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return cmd, func() { must(t, in.Close()) }
}

func TestLock_waitsForAnotherProcess(t *testing.T) {
	root := scratch(t)
	tree := openTree(t, root)
	tree.patience = 10 * time.Millisecond
	cmd, release := holder(t, root)
	who := fmt.Sprintf("process %d (keel apply -f site)", cmd.Process.Pid)

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := tree.Lock(ctx, "test")
	if want := "lock /run/keel/lock: held by " + who + ": context deadline exceeded"; !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
		t.Errorf("Lock = %v, want %s", err, want)
	}

	said := make(chan string, 10)
	go func() {
		if got, want := <-said, "waiting for the lock of this machine, held by "+who; got != want {
			t.Errorf("said %q, want %q", got, want)
		}
		release() // only now
	}()
	unlock, err := tree.Noting(func(s string) { said <- s }).Lock(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestLock_endsWithItsHolder(t *testing.T) {
	root := scratch(t)
	cmd, _ := holder(t, root)
	must(t, cmd.Process.Kill())
	unlock, err := openTree(t, root).Lock(t.Context(), "test")
	must(t, err)
	defer unlock()
	content, err := os.ReadFile(filepath.Join(root, "run/keel/lock"))
	if want := fmt.Sprintf("%d test\n", os.Getpid()); err != nil || string(content) != want {
		t.Errorf("the lock file says %q, %v, want %q", content, err, want)
	}
	info, err := os.Stat(filepath.Join(root, "run/keel"))
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("its directory is %v, %v", info.Mode(), err)
	}
}

func TestLock_isNotReentrant(t *testing.T) {
	root := scratch(t)
	tree := openTree(t, root)
	unlock, err := tree.Lock(t.Context(), "one\ntwo")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = tree.Lock(ctx, "three")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "(one two)") {
		t.Errorf("Lock = %v", err)
	}
	unlock()
	again, err := tree.Lock(t.Context(), "four")
	must(t, err)
	unlock() // a second time is none of the new holder's business
	ctx, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := tree.Lock(ctx, "five"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Lock = %v", err)
	}
	again()
}

func TestLock_cancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	root := scratch(t)
	if _, err := openTree(t, root).Lock(ctx, "test"); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock = %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "run")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cancelled call made something: %v", err)
	}
}

func TestLock_oddFiles(t *testing.T) {
	tests := []struct {
		name  string
		build func(t *testing.T, root string)
		want  string
	}{
		{"a stale file", func(t *testing.T, root string) {
			create(t, filepath.Join(root, "run/keel/lock"), "1 gone\nmore", 0o600)
		}, ""},
		{"an open directory", func(t *testing.T, root string) { must(t, os.MkdirAll(filepath.Join(root, "run/keel"), 0o755)) }, ""},
		{"a symlink", func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "run/keel"), 0o700))
			create(t, filepath.Join(root, "victim"), "victim", 0o600)
			must(t, os.Symlink("../../victim", filepath.Join(root, "run/keel/lock")))
		}, "lock /run/keel/lock: is a symlink, not a regular file: remove it, then run again"},
		{"a directory", func(t *testing.T, root string) { must(t, os.MkdirAll(filepath.Join(root, "run/keel/lock"), 0o700)) }, "lock /run/keel/lock: is a directory, not a regular file: remove it, then run again"},
		{"a named pipe", func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "run/keel"), 0o700))
			must(t, unix.Mkfifo(filepath.Join(root, "run/keel/lock"), 0o600))
		}, "lock /run/keel/lock: is a named pipe, not a regular file: remove it, then run again"},
		{"a file in its directory's place", func(t *testing.T, root string) { create(t, filepath.Join(root, "run/keel"), "", 0o600) }, "not a directory"},
		{"run is a symlink", func(t *testing.T, root string) {
			must(t, os.MkdirAll(filepath.Join(root, "var/run"), 0o755))
			must(t, os.Symlink("var/run", filepath.Join(root, "run")))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := scratch(t)
			tt.build(t, root)
			unlock, err := openTree(t, root).Lock(t.Context(), "test")
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Lock = %v, want %q", err, tt.want)
				}
				if got, err := os.ReadFile(filepath.Join(root, "victim")); err == nil && string(got) != "victim" {
					t.Errorf("behind the link: %q", got)
				}
				return
			}
			must(t, err)
			defer unlock()
			got, err := os.ReadFile(filepath.Join(root, "run/keel/lock"))
			if want := fmt.Sprintf("%d test\n", os.Getpid()); err != nil || string(got) != want {
				t.Errorf("the lock file says %q, %v", got, err)
			}
			info, err := os.Stat(filepath.Join(root, "run/keel"))
			if err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("its directory is %v, %v", info.Mode(), err)
			}
		})
	}
}

func TestLock_contention(t *testing.T) {
	root := scratch(t)
	counter := filepath.Join(root, "counter")
	create(t, counter, "", 0o600)
	const workers, turns = 4, 25
	done := make(chan error)
	for i := range workers {
		tree := openTree(t, root)
		go func() {
			for range turns {
				unlock, err := tree.Lock(t.Context(), fmt.Sprint("worker ", i))
				if err != nil {
					done <- err
					return
				}
				content, err := os.ReadFile(counter)
				err = errors.Join(err, os.WriteFile(counter, append(content, 'x'), 0o600))
				unlock()
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range workers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	content, err := os.ReadFile(counter)
	if err != nil || len(content) != workers*turns {
		t.Errorf("%d turns were taken, %v, want %d", len(content), err, workers*turns)
	}
}

func TestFailed_advisesOnce(t *testing.T) {
	err := failed("lock", "/run/keel/lock", failed("make directory", "/run/keel", unix.EROFS))
	if want := "lock /run/keel/lock: make directory /run/keel: read-only file system: remount it writable, then run again"; err.Error() != want || !IsReadOnly(err) {
		t.Errorf("got %v, want %s", err, want)
	}
}
