// Command keel keeps machines as they are declared.
//
// A private build, with handlers of its own, is this file in a module of its
// own, and one statement more for each handler:
//
//	package main
//
//	import (
//		"context"
//		"os"
//
//		"example.com/keel/motd"
//
//		"github.com/tlspu/keel/cmd/cli"
//		"github.com/tlspu/keel/core/handler"
//		"github.com/tlspu/keel/core/host"
//		"github.com/tlspu/keel/plugins/all"
//	)
//
//	func main() {
//		set := all.Set()
//		set.AddHandler(func(run func(root string) host.Runner) handler.Handler { return motd.New(run) })
//		os.Exit(cli.Main(context.Background(), set))
//	}
package main

import (
	"context"
	"os"

	"github.com/tlspu/keel/cmd/cli"
	"github.com/tlspu/keel/plugins/all"
)

func main() {
	ctx := context.Background()
	set := all.Set()
	os.Exit(cli.Main(ctx, set))
}
