package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// A victim is one case of testdata/put.
type victim struct {
	name, program string
	path          string
	content       string // of the old file; empty: there is none
}

const newContent = "new content\n"

// machine makes the root on which the victim works.
func (v victim) machine(t *testing.T) string {
	root := scratch(t)
	for _, d := range []string{"etc", "spool", "run"} {
		must(t, os.Mkdir(filepath.Join(root, d), 0o755))
	}
	if v.content != "" {
		create(t, filepath.Join(root, v.path), v.content, 0o600)
		must(t, unix.Setxattr(filepath.Join(root, v.path), "user.comment", []byte("kept"), 0))
	}
	return root
}

// strace runs the victim and returns what strace writes and how the victim ended.
func (v victim) strace(t *testing.T, root string, args ...string) (string, error) {
	log := filepath.Join(t.TempDir(), "strace")
	argv := append([]string{"-f", "-o", log}, args...)
	cmd := exec.CommandContext(t.Context(), "strace", append(argv, v.program, v.name, root)...)
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatalf("strace: %v\n%s", err, out)
	}
	return string(text), err
}

// calls counts the victim's system calls by name.
func (v victim) calls(t *testing.T) map[string]int {
	root := v.machine(t)
	log, err := v.strace(t, root, "-c", "-U", "calls,name")
	must(t, err)
	counts := map[string]int{}
	for line := range strings.Lines(log) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		if n, err := strconv.Atoi(f[0]); err == nil && f[1] != "total" {
			counts[f[1]] = n
		}
	}
	if counts["fchmod"] == 0 || counts["fsync"] == 0 {
		t.Fatalf("the victim did not do its work:\n%s", log)
	}
	return counts
}

// scheduling are calls of Go's runtime that touch nothing a file could feel.
var scheduling = []string{"mmap", "munmap", "madvise", "rt_sigaction", "rt_sigprocmask", "sigaltstack", "futex", "clone", "clone3", "gettid",
	"tgkill", "getpid", "rt_sigreturn", "sched_getaffinity", "sched_yield", "nanosleep", "epoll_pwait", "epoll_create1", "epoll_ctl", "eventfd2",
	"arch_prctl", "prlimit64", "brk", "execve", "exit_group", "getrandom", "restart_syscall", "set_tid_address", "rseq", "set_robust_list", "prctl", "timer_create"}

func TestPut_killedAtEverySystemCall(t *testing.T) {
	parts.Need(t, "strace")
	program := buildVictim(t)
	for _, v := range []victim{
		{"replace", program, "/etc/f", "old content\n"},
		{"mend", program, "/etc/f", newContent},
		{"new", program, "/a/b/f", ""},
		{"check", program, "/etc/f", "old content\n"},
		{"temp", program, "/etc/f", "old content\n"},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			type kill struct {
				call string
				n    int
			}
			kills := make(chan kill)
			var wg sync.WaitGroup
			var mu sync.Mutex
			killed := 0
			for range 2 {
				wg.Go(func() {
					for k := range kills {
						if v.survives(t, k.call, k.n) {
							mu.Lock()
							killed++
							mu.Unlock()
						}
					}
				})
			}
			calls := v.calls(t)
			for _, s := range scheduling {
				delete(calls, s)
			}
			for call, count := range calls {
				for n := 1; n <= count; n++ {
					kills <- kill{call, n}
				}
			}
			close(kills)
			wg.Wait()
			t.Logf("killed %d times at %v", killed, calls)
			if killed < 20 {
				t.Errorf("killed only %d times", killed)
			}
		})
	}
}

// survives kills the victim at one call and looks at what is left, before and
// after one more Put. It reports whether the victim died.
func (v victim) survives(t *testing.T, call string, n int) bool {
	root := v.machine(t)
	at := fmt.Sprintf("%s, killed at %s %d", v.name, call, n)
	_, err := v.strace(t, root, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:signal=KILL:when=%d", call, n))

	file := filepath.Join(root, v.path)
	got, readErr := os.ReadFile(file)
	missing := v.content == "" && errors.Is(readErr, fs.ErrNotExist)
	if !missing && (readErr != nil || string(got) != v.content && string(got) != newContent) {
		t.Errorf("%s: the file holds %q, %v", at, got, readErr)
	}
	if again := exec.CommandContext(t.Context(), v.program, v.name, root); again.Run() != nil {
		t.Errorf("%s: the next Put fails", at)
	}
	tree := openTree(t, root)
	got, readErr = tree.Read(v.path, 100)
	info, statErr := tree.Stat(v.path)
	if err := errors.Join(readErr, statErr); err != nil || string(got) != newContent || info.Mode() != 0o640 {
		t.Errorf("%s: after the next Put it is %v, %q, %v", at, info.Mode(), got, err)
	}
	if v.content != "" {
		value := make([]byte, 10)
		if n, err := unix.Getxattr(file, "user.comment", value); err != nil || !bytes.Equal(value[:n], []byte("kept")) {
			t.Errorf("%s: its attribute is %q, %v", at, value[:max(n, 0)], err)
		}
	}
	for dir := filepath.Dir(v.path); v.name == "new" && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := tree.Stat(dir); err != nil || info.Mode() != fs.ModeDir|0o755 {
			t.Errorf("%s: %s is %v, %v", at, dir, info.Mode(), err)
		}
	}
	if l := leftovers(t, root); l != nil {
		t.Errorf("%s: left behind: %v", at, l)
	}
	return err != nil
}

// A call that fails at any point leaves nothing behind: no temporary name and, when
// the whole Put failed, no directory that it made.
func TestPut_failsAtEverySystemCall(t *testing.T) {
	parts.Need(t, "strace")
	program := buildVictim(t)
	for _, v := range []victim{{"new", program, "/a/b/f", ""}, {"check", program, "/etc/f", "old content\n"}} {
		calls, failed := v.calls(t), 0
		for call, fault := range map[string]string{
			"openat": "EMFILE", "mkdirat": "ENOSPC", "write": "ENOSPC", "fchmod": "EIO", "fsync": "EIO", "renameat": "EIO", "renameat2": "EIO",
		} {
			for n := 1; n <= calls[call]; n++ {
				at := fmt.Sprintf("%s, %s %d fails with %s", v.name, call, n, fault)
				root := v.machine(t)
				_, err := v.strace(t, root, "-e", "trace="+call, "-e", fmt.Sprintf("inject=%s:error=%s:when=%d", call, fault, n))
				if l := leftovers(t, root); l != nil {
					t.Errorf("%s: left behind: %v", at, l)
				}
				if err == nil {
					continue // a call that may fail
				}
				failed++
				got, readErr := os.ReadFile(filepath.Join(root, v.path))
				if readErr == nil && string(got) == newContent {
					continue // only the sync of its directory failed
				}
				if v.content == "" {
					if _, err := os.Lstat(filepath.Join(root, "a")); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s: the new directory: %v", at, err)
					}
				} else if string(got) != v.content {
					t.Errorf("%s: the file holds %q, %v", at, got, readErr)
				}
			}
		}
		if failed < 10 {
			t.Errorf("%s failed only %d times of %v", v.name, failed, calls)
		}
	}
}

// The order of calls is what keeps content secret and whole; a test of its
// effects cannot see a missing sync.
func TestPut_orderOfCalls(t *testing.T) {
	parts.Need(t, "strace", "root", "setfacl")
	v := victim{name: "replace", program: buildVictim(t), path: "/etc/f", content: "old content\n"}
	root := v.machine(t)
	acls(t, "setfacl", "-m", "u:1:r", filepath.Join(root, v.path))
	log, err := v.strace(t, root, "-y", "-e", "trace=openat,write,fchown,fsetxattr,fchmod,fsync,renameat,renameat2")
	must(t, err)
	var got []string
	for line := range strings.Lines(log) {
		_, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, args, _ := strings.Cut(strings.TrimSpace(call), "(")
		switch {
		case name == "openat" && strings.Contains(args, "O_CREAT|O_EXCL|O_NOFOLLOW") && strings.Contains(args, ", 0600)"):
			got = append(got, "create 0600")
		case name == "fsetxattr" && strings.Contains(args, "posix_acl"):
			got = append(got, "ACL")
		case name == "fsetxattr":
			got = append(got, "attribute")
		case name == "fsync" && strings.Contains(args, "/etc>"):
			got = append(got, "fsync directory")
		case (name == "write" || name == "fsync") && strings.Contains(args, ".keel-"), name == "fchown", name == "fchmod", name == "renameat", name == "renameat2":
			got = append(got, name)
		}
	}
	want := []string{"create 0600", "write", "fchown", "ACL", "fchmod", "attribute", "fsync", "renameat", "fsync directory"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s\n%s", diff, log)
	}
}

// buildVictim builds testdata/put.
func buildVictim(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "put")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./testdata/put").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
