package host

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tlspu/keel/test/parts"
)

// flip exchanges two names, over and over, until the test is done with it.
func flip(t *testing.T, a, b string) (stop func() int) {
	t.Helper()
	var wg sync.WaitGroup
	done := make(chan struct{})
	times := 0
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err == nil {
				times++
			}
			if times%2 == 0 {
				runtime.Gosched()
			}
		}
	})
	return func() int {
		close(done)
		wg.Wait()
		return times
	}
}

// bobsSite has some more of bob's folders and files.
func bobsSite(t *testing.T) *site {
	parts.Need(t, "root")
	s := newSite(t)
	s.folder("root/home/bob/d", bob)
	s.file("root/home/bob/d/f", bob)
	s.file("root/home/bob/g", bob)
	return s
}

const rounds = 3000

func TestRace_folderAndLink(t *testing.T) {
	s := bobsSite(t)
	s.link("/etc", "root/home/bob/l", bob)
	race(t, s, "/home/bob/d", "/home/bob/l", "/home/bob/d/f")
}

func TestRace_folderAndRelativeLink(t *testing.T) {
	s := bobsSite(t)
	s.link("../../etc", "root/home/bob/l", bob)
	race(t, s, "/home/bob/d", "/home/bob/l", "/home/bob/d/f")
}

func TestRace_folderAndRootsFolder(t *testing.T) {
	s := bobsSite(t)
	s.folder("root/home/bob/r", 0)
	s.file("root/home/bob/r/f", 0)
	race(t, s, "/home/bob/d", "/home/bob/r", "/home/bob/d/f")
	for _, name := range []string{"root/home/bob/d", "root/home/bob/r"} { // root's is one of them
		info, err := lstatat(unix.AT_FDCWD, filepath.Join(s.dir, name))
		if f := s.look()[name+"/f"]; err != nil || info.UID == 0 && f != `-rw-r--r-- "root/home/bob/r/f" <nil>` {
			t.Errorf("root's file is %s, %v", f, err)
		}
	}
}

func TestRace_linkAndLink(t *testing.T) {
	s := bobsSite(t)
	s.link("d", "root/home/bob/good", bob)
	s.link("/etc", "root/home/bob/bad", bob)
	race(t, s, "/home/bob/good", "/home/bob/bad", "/home/bob/good/f")
}

func TestRace_rootsLinkAndUsersLink(t *testing.T) {
	s := bobsSite(t)
	// Text and owner of a link must be one answer: root's may lead anywhere, bob's
	// may not lead to root's.
	s.link("/home/bob/d", "root/opt/good", 0)
	s.link("/etc", "root/opt/bad", bob)
	raceRead(t, s, "/opt/good", "/opt/bad", "/opt/good/f")
}

func TestRace_fileAndLink(t *testing.T) {
	s := bobsSite(t)
	s.link("../../etc/f", "root/home/bob/l", bob) // where the kernel would find it too
	raceRead(t, s, "/home/bob/g", "/home/bob/l", "/home/bob/g")
	race(t, s, "/home/bob/g", "/home/bob/l", "/home/bob/g")
}

func TestRace_fileAndPipe(t *testing.T) {
	s := bobsSite(t)
	mknod(t, filepath.Join(s.root(), "home/bob/p"), unix.S_IFIFO|0o666, 0)
	raceRead(t, s, "/home/bob/g", "/home/bob/p", "/home/bob/g")
	race(t, s, "/home/bob/g", "/home/bob/p", "/home/bob/g")
}

func TestRace_filesBehindALink(t *testing.T) {
	s := bobsSite(t)
	s.file("root/home/bob/roots", 0)
	must(t, os.WriteFile(filepath.Join(s.root(), "home/bob/roots"), []byte("root's"), 0o600))
	s.link("g", "root/home/bob/l", bob)
	raceRead(t, s, "/home/bob/g", "/home/bob/roots", "/home/bob/l")
}

func TestRace_folderThatMoves(t *testing.T) {
	s := bobsSite(t)
	s.folder("root/home/bob/d/e", bob)
	s.folder("root/home/bob/x", bob)
	// Going up from a folder that was moved must not lead elsewhere.
	race(t, s, "/home/bob/d/e", "/home/bob/x", "/home/bob/d/e/../f")
}

// raceRead reads a path of bob's while two names are exchanged. Nothing of root's
// may come of it.
func raceRead(t *testing.T, s *site, a, b, path string) {
	t.Helper()
	tree := openTree(t, s.root())
	stop := flip(t, filepath.Join(s.root(), a), filepath.Join(s.root(), b))
	read := 0
	for range 3 * rounds {
		got, err := tree.Read(path, 1000)
		if err == nil && !strings.HasPrefix(string(got), "root/home/bob/") {
			t.Fatalf("Read = %q", got)
		}
		if err == nil {
			read++
		}
	}
	flips := stop()
	t.Logf("%d times exchanged, %d read", flips, read)
	if flips < rounds/10 || read == 0 || read == 3*rounds {
		t.Errorf("too few to mean anything")
	}
}

// race reads and writes a path of bob's while he exchanges two names. Root's
// files, and what is outside, must be neither read nor changed.
func race(t *testing.T, s *site, a, b, path string) {
	t.Helper()
	protected := func() map[string]string {
		all := s.look()
		for name := range all {
			if strings.HasPrefix(name, "root/home/bob") {
				delete(all, name)
			}
		}
		return all
	}
	before := protected()
	tree := openTree(t, s.root())
	attrs := []Attr{{UID: id(bob), Mode: mode(0o600)}, {UID: id(0), Mode: mode(0o644)}, {Mode: mode(0o640), Parents: 0o755}}
	stop := flip(t, filepath.Join(s.root(), a), filepath.Join(s.root(), b))
	written, refused := 0, 0
	for i := range rounds {
		attr := follow(attrs[i%len(attrs)])
		content := "new" + strings.Repeat("!", i/2%2) // equal every other time
		if _, err := tree.Put(t.Context(), path, strings.NewReader(content), attr); err == nil {
			written++
		} else {
			refused++
		}
		_, _ = tree.Chattr(path, attr) // an error is as good as none
		got, err := tree.Read(path, 1000)
		if err == nil && !strings.HasPrefix(string(got), "new") && !strings.HasPrefix(string(got), "root/home/bob/") {
			t.Fatalf("Read = %q", got)
		}
	}
	flips := stop()
	t.Logf("%d times exchanged, %d written, %d refused", flips, written, refused)
	if flips < rounds/10 || written == 0 {
		t.Errorf("too few to mean anything")
	}
	if diff := cmp.Diff(before, protected()); diff != "" {
		t.Errorf("changed beyond bob's directory (-want +got):\n%s", diff)
	}
}
