// Package all is the list of what one binary holds: the only package that
// imports both backends and plugins.
package all

import (
	"github.com/tlspu/keel/backends/appliance"
	"github.com/tlspu/keel/backends/jail"
	"github.com/tlspu/keel/backends/kubernetes/node"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/plugins/file"
)

// Set is everything in the keel binary.
func Set() plugin.Set {
	return plugin.Set{Backends: backends(), Handlers: handlers}
}

func backends() *plugin.Registry[plugin.Backend] {
	r := plugin.NewRegistry[plugin.Backend]("backend")
	r.Register("appliance", plugin.Backend{
		Name: "appliance", Summary: "compare an appliance with its description",
		Kinds: []plugin.Kind{appliance.Kind()},
	})
	r.Register("jail", plugin.Backend{
		Name: "jail", Summary: "manage jails; this version only validates their documents",
		Kinds: []plugin.Kind{jail.Kind()},
	})
	r.Register("kubernetes", plugin.Backend{
		Name: "kubernetes", Summary: "keep the hosts below the nodes of a cluster",
		Kinds: []plugin.Kind{nodeconfig.Kind()},
		Roles: []plugin.Role{node.Role(), nodeconfig.FactsRole()},
	})
	return r
}

func handlers(func(root string) command.Runner) *plugin.Registry[handler.Handler] {
	r := plugin.NewRegistry[handler.Handler]("handler")
	r.Register(file.New().Name(), file.New())
	return r
}
