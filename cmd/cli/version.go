package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what was built, as git describes it. The linker sets it:
// -ldflags "-X github.com/tlspu/keel/cmd/cli.version=…".
var version string

// commit is the whole name of its commit, set in the same way.
var commit string //nolint:gochecknoglobals // only the linker sets it

// build is what `keel version` tells.
type build struct {
	Version string `json:"version"`
	Commit  string `json:"commit"`
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// thisBuild asks the linker's stamp first, then what the go command recorded.
func thisBuild() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && b.Commit == "" {
				b.Commit = s.Value
			}
		}
	}
	if b.Version == "" {
		b.Version = "unknown"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
	}
	form := outputFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := thisBuild()
		if *form == formJSON {
			return writeJSON(a.out, b)
		}
		_, err := fmt.Fprintf(a.out, "keel %s\ncommit %s\n%s %s/%s\n", b.Version, b.Commit, b.Go, b.OS, b.Arch)
		return err
	}
	return cmd
}
