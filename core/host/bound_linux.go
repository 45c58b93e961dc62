package host

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// bound describes the mounts that still show the file which had name in a folder
// before another took its name: a container to which a file was mounted goes on
// reading that one. They are looked for in the mounts of all processes that this
// one can see; "" when there is none.
func bound(ctx context.Context, f folder, name string) string {
	self, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.fd))
	if err != nil {
		return ""
	}
	dev, root := origin(string(self), strconv.FormatUint(mountOf(f.fd), 10), escaped(path))
	if dev == "" {
		return ""
	}
	gone := root + "/" + escaped(name) + "//deleted" // so the kernel calls a file that lost its name
	n, where := 0, ""
	for pid, mounts := range namespaces(ctx) {
		for line := range strings.Lines(mounts) {
			if m := strings.Fields(line); len(m) > 4 && m[2] == dev && m[3] == gone {
				n++
				where = fmt.Sprintf("%s of process %s", m[4], pid)
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d mount(s) of it, such as %s", n, where)
}

// escaped is how mountinfo writes a path.
func escaped(path string) string {
	return strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
}

// origin finds what is seen at path through the mount of that id: the device and
// the path on its file system, without a slash at its end.
func origin(mounts, id, path string) (dev, root string) {
	for line := range strings.Lines(mounts) {
		m := strings.Fields(line)
		if len(m) < 5 || m[0] != id {
			continue
		}
		below, ok := strings.CutPrefix(strings.TrimSuffix(path, "/"), strings.TrimSuffix(m[4], "/"))
		if ok && (below == "" || below[0] == '/') {
			return m[2], strings.TrimSuffix(m[3], "/") + below
		}
	}
	return "", ""
}

// namespaces yields the mounts of each mount namespace once, with a process in it.
func namespaces(ctx context.Context) func(yield func(pid, mounts string) bool) {
	return func(yield func(pid, mounts string) bool) {
		proc, err := os.Open("/proc")
		if err != nil {
			return
		}
		defer proc.Close() //nolint:errcheck // only read
		names, _ := proc.Readdirnames(-1)
		seen := map[string]bool{}
		for _, pid := range names {
			if _, err := strconv.Atoi(pid); err != nil || ctx.Err() != nil {
				continue
			}
			ns, err := os.Readlink("/proc/" + pid + "/ns/mnt")
			if err != nil || seen[ns] {
				continue
			}
			mounts, err := os.ReadFile("/proc/" + pid + "/mountinfo")
			if err != nil {
				continue // it ended
			}
			seen[ns] = true
			if !yield(pid, string(mounts)) {
				return
			}
		}
	}
}
