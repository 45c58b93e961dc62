// Command keel keeps machines as they are declared.
//
// A private build, with handlers of its own, is this file in a module of its
// own, as main.go, and one statement more for each handler:
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
//		"github.com/tlspu/keel/core/command"
//		"github.com/tlspu/keel/core/handler"
//		"github.com/tlspu/keel/plugins/all"
//	)
//
//	func main() {
//		set := all.Set()
//		set.AddHandler(func(run func(root string) command.Runner) handler.Handler { return handler.Adapt(motd.New(run)) })
//		os.Exit(cli.Main(context.Background(), set))
//	}
//
// With a checkout of Keel in ../keel, these commands build it. Keel's own
// replacement of its api counts in its checkout only, hence the second:
//
//	$ go mod init example.com/keel
//	$ go mod edit -replace github.com/tlspu/keel=../keel -replace github.com/tlspu/keel/api=../keel/api
//	$ CGO_ENABLED=0 go build -mod=mod -o keel .
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
