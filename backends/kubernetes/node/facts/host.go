package facts

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/tlspu/keel/core/host"
)

const (
	// maxRelease is the size of the largest os-release that is read.
	maxRelease = 64 << 10
	// maxKernel is more than the longest release of a kernel.
	maxKernel = 4 << 10

	kernelFile = "/proc/sys/kernel/osrelease"
)

// notGiven is why a fact of the API server is not known where none is asked.
const notGiven = "nobody gave it: write it into the file of --facts"

// FromHost gives what the machine tells about itself: its operating system and
// its kernel. What only the Kubernetes API knows is not given.
func FromHost(files *host.View) Facts {
	f := Given()
	f.OS, f.Unread["OS"] = readRelease(files, f.Unread)
	f.Kernel.Release, f.Unread["Kernel"] = readKernel(files)
	for group, why := range f.Unread {
		if why == "" {
			delete(f.Unread, group)
		}
	}
	return f
}

// Given is the knowledge of nothing: the start for facts that are all given by a
// person, where no machine is looked at.
func Given() Facts {
	return Facts{Unread: map[string]string{"Node": notGiven, "OS": notGiven, "Kernel": notGiven, "Cluster": notGiven}}
}

// releaseFiles is where os-release(5) looks; the first that is there counts.
func releaseFiles() []string { return []string{"/etc/os-release", "/usr/lib/os-release"} }

// readRelease reads os-release, and notes in unread the fields that cannot be
// told; why is set when none can.
func readRelease(files *host.View, unread map[string]string) (os OS, why string) {
	for _, file := range releaseFiles() {
		data, err := files.Read(file, maxRelease)
		if host.IsMissing(err) {
			continue
		}
		if err != nil {
			return os, err.Error()
		}
		return parseRelease(file, data, unread), ""
	}
	return os, fmt.Sprintf("neither %s is there", strings.Join(releaseFiles(), " nor "))
}

// readKernel reads which kernel runs. A root without /proc, such as the disk of
// another machine, cannot tell: the kernel below Keel may be another.
func readKernel(files *host.View) (release, why string) {
	data, err := files.Read(kernelFile, maxKernel)
	if host.IsMissing(err) {
		return "", kernelFile + " is not there: is /proc mounted below the root?"
	}
	if err != nil {
		return "", err.Error()
	}
	release = strings.TrimSuffix(string(data), "\n")
	if err := plain(release); err != nil {
		return "", fmt.Sprintf("%s: %v", kernelFile, err)
	}
	return release, ""
}

// plain says why text is no value of one line for people.
func plain(text string) error {
	switch {
	case text == "":
		return errors.New("is empty")
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }):
		return errors.New("holds what cannot be printed")
	}
	return nil
}
