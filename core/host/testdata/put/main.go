// Command put does one Put, for a test that kills it at every system call.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/tlspu/keel/core/host" //nolint:depguard // a program beside the package, for its tests
)

func main() {
	runtime.LockOSThread()                                                    // system calls are counted by thread
	if err := put(context.Background(), os.Args[1], os.Args[2]); err != nil { //nolint:forbidigo // this is main
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// put does what the named case says on the machine at root.
func put(ctx context.Context, name, root string) error {
	tree, err := host.OpenTree(root)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o640)
	attr := host.Attr{Mode: &mode}
	path := "/etc/f"
	switch name {
	case "new":
		path, attr.Parents = "/a/b/f", 0o755
	case "check":
		attr.Check = func(context.Context, string) error { return nil }
	case "temp":
		attr.Temp = "/spool"
	}
	_, err = tree.Put(ctx, path, strings.NewReader("new content\n"), attr)
	return err
}
