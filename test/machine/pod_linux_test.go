package machine

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

func TestStart_runsInAPod(t *testing.T) {
	h := Boot(t, Options{Name: "node1"})
	conf := t.TempDir()
	if err := os.WriteFile(filepath.Join(conf, "a.yaml"), []byte("a: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	pod := Pod{Image: Image(t, "/proc/self/exe"), Mounts: map[string]string{"/etc/conf": conf, "/etc/one": filepath.Join(conf, "a.yaml")}}
	// The pod's own root has no shell: the host's is run in the host's root.
	shell := func(script string) *exec.Cmd {
		cmd := exec.Command("/bin/sh", "-ec", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: "/host"}
		return cmd
	}
	inHostRoot := func(script string) string {
		t.Helper()
		var out bytes.Buffer
		cmd := shell(script)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := h.Start(t, pod, cmd).Wait(); err != nil {
			t.Errorf("%s: %v", script, err)
		}
		return out.String()
	}
	for _, tt := range []struct{ name, got, want string }{
		{"the host's root is at /host", inHostRoot("cat /etc/hostname; cat /proc/1/comm; stat -Lc %d:%i / >/run/a; stat -Lc %d:%i /proc/1/root >/run/b; cmp /run/a /run/b"), "node1\nsystemd\n"},
		{"its network is the test's", inHostRoot("readlink /proc/self/ns/net"), link(t, "/proc/self/ns/net")},
		{"its mounts are its own", inHostRoot("test $(readlink /proc/self/ns/mnt) != $(readlink /proc/1/ns/mnt) && echo own"), "own\n"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	for _, name := range []string{"bin/exe", "etc/conf", "host"} {
		if _, err := os.Lstat(filepath.Join(pod.Image, name)); err != nil {
			t.Errorf("the image: %v", err)
		}
	}
	if _, err := os.Lstat(filepath.Join(pod.Image, "host/etc")); !os.IsNotExist(err) {
		t.Errorf("the pod's mounts are seen here: %v", err)
	}

	// A mount that the host makes later is seen in the pod, not the other way round.
	cmd := shell("echo ready; read go; cat /srv/later; mount -t tmpfs none /opt; touch /opt/inner; echo done; read end")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p := h.Start(t, pod, cmd)
	say := func(want string) {
		t.Helper()
		got := make([]byte, len(want))
		if n, err := out.Read(got); string(got[:n]) != want {
			t.Errorf("the pod says %q, %v, want %q", got[:n], err, want)
		}
	}
	say("ready\n")
	h.Exec(t, "sh", "-ec", "mount -t tmpfs none /srv; echo mounted >/srv/later")
	if _, err := in.Write([]byte("\n")); err != nil {
		t.Error(err)
	}
	say("mounted\n")
	say("done\n")
	if got := h.Exec(t, "ls", "/opt"); got != "" {
		t.Errorf("the host sees the pod's mount: %s", got)
	}
	h.Off()
	if exit := (*exec.ExitError)(nil); !errors.As(p.Wait(), &exit) {
		t.Errorf("the pod outlived its host: %v", p.Wait())
	}
}

// On this machine a pod keeps a folder, and can write nothing of its own.
func TestPod_hasAnotherRoot(t *testing.T) {
	conf, root := t.TempDir(), parts.Debian(t)
	pod := Pod{Image: parts.Debian(t), Root: root, Mounts: map[string]string{"/etc/conf": conf}, ReadOnly: true}
	var out bytes.Buffer
	cmd := exec.Command("/bin/sh", "-c", `
		echo new >/host/etc/motd && echo new >/etc/conf/a || echo cannot write what is mounted
		touch /tmp/a 2>/dev/null && echo can write its root
		readlink /proc/self/ns/net /proc/self/ns/pid`)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := pod.Start(t, cmd).Wait(); err != nil {
		t.Error(err)
	}
	if want := link(t, "/proc/self/ns/net") + link(t, "/proc/self/ns/pid"); out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
	for _, name := range []string{filepath.Join(root, "etc/motd"), filepath.Join(conf, "a")} {
		if text, err := os.ReadFile(name); err != nil || string(text) != "new\n" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// The process that starts a pod stays where it is.
func TestInThread_leavesTheProcessAlone(t *testing.T) {
	for range 200 {
		var tid int
		done := make(chan struct{})
		go func() {
			inThread(func() { tid = unix.Gettid() })
			close(done)
		}()
		<-done
		if tid == 0 || tid == os.Getpid() {
			t.Fatalf("it ran in thread %d of process %d", tid, os.Getpid())
		}
	}
}

func link(t *testing.T, name string) string {
	t.Helper()
	to, err := os.Readlink(name)
	if err != nil {
		t.Fatal(err)
	}
	return to + "\n"
}
