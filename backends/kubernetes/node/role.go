package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/core/plugin"
)

const (
	// poll is the time between two looks at the source, the root and the age of facts.
	// An API server's changes come by themselves besides.
	poll = 2 * time.Second
	// visitTime is how long one visit may take: a package transaction of half an
	// hour, and restarts.
	visitTime = time.Hour
)

// Where NodeConfigs come from.
const (
	fromCluster = "kubernetes"
	fromFolder  = "dir"
)

// settings of the agent. Those of one source are refused with the other.
type settings struct {
	Source string `flag:"source" enum:"kubernetes|dir" usage:"where NodeConfigs come from: the API server, or the files of a directory"`

	NodeName         string   `flag:"node-name" usage:"name of this machine's Node (kubernetes)"`
	Kubeconfig       string   `flag:"kubeconfig" usage:"file with the access to the API server; none: what a pod is given (kubernetes)"`
	SourceNamespaces []string `flag:"source-namespaces" usage:"namespaces whose ConfigMaps and Secrets may be read; none: the agent's own (kubernetes)"`
	Status           string   `flag:"status" enum:"map|node" usage:"where results go: into each NodeConfig, or into one NodeState of the node; none: map (kubernetes)"`

	ConfigDir string `flag:"config-dir" usage:"directory with the files of NodeConfigs; none: /etc/keel/nodeconfigs (dir)"`
	Facts     string `flag:"facts" usage:"file of what the machine itself cannot know, for templates and selectors (dir)"`
	StateDir  string `flag:"state-dir" usage:"directory for the status of each NodeConfig; none: /var/lib/keel/node-agent (dir)"`

	MetricsAddr string `flag:"metrics-addr" usage:"address that serves /metrics, 0: none; not given: :8080 (kubernetes), none (dir)"`
	HealthAddr  string `flag:"health-addr" usage:"address that serves /healthz and /readyz, 0: none; not given: :8081 (kubernetes), none (dir)"`

	HostRoot        string        `flag:"host-root" usage:"directory of the machine's root file system; / is this machine"`
	ExecMode        string        `flag:"exec-mode" enum:"auto|direct|chroot|nsenter" usage:"how commands reach the machine"`
	DefaultInterval time.Duration `flag:"default-interval" usage:"time between two runs of a NodeConfig that names none"`
	FactsInterval   time.Duration `flag:"facts-interval" usage:"time between two collections of facts"`
	LockTimeout     time.Duration `flag:"lock-timeout" usage:"how long a run waits for another run of keel on the machine"`
	Once            bool          `flag:"once" usage:"reconcile every NodeConfig once, print a line each, and end"`
	DryRun          bool          `flag:"dry-run" usage:"write nothing, and say what would be done"`
}

// complete fills in the defaults of the source, and refuses what has no effect with
// it.
func (s *settings) complete() error {
	var idle []string
	if s.Source == fromFolder {
		idle = given(map[string]bool{
			"node-name": s.NodeName != "", "kubeconfig": s.Kubeconfig != "",
			"source-namespaces": len(s.SourceNamespaces) > 0, "status": s.Status != "",
		})
		s.ConfigDir = cmp.Or(s.ConfigDir, "/etc/keel/nodeconfigs")
		s.StateDir = cmp.Or(s.StateDir, "/var/lib/keel/node-agent")
	} else {
		idle = given(map[string]bool{"config-dir": s.ConfigDir != "", "facts": s.Facts != "", "state-dir": s.StateDir != ""})
		s.Status = cmp.Or(s.Status, "map")
		s.MetricsAddr, s.HealthAddr = cmp.Or(s.MetricsAddr, ":8080"), cmp.Or(s.HealthAddr, ":8081")
	}
	switch {
	case len(idle) > 0:
		return invalid("%s: has no effect with source=%s: leave it out, or set another source", strings.Join(idle, ", "), s.Source)
	case s.Source == fromCluster && s.NodeName == "":
		return invalid("node-name: is missing: give the name of this machine's Node; a pod has it from spec.nodeName")
	case slices.ContainsFunc(s.SourceNamespaces, notNamespace):
		i := slices.IndexFunc(s.SourceNamespaces, notNamespace)
		return invalid("source-namespaces: %q is not a valid namespace: name each namespace, there is no wildcard", s.SourceNamespaces[i])
	case s.DefaultInterval < v1alpha1.MinInterval:
		return invalid("default-interval: %w", v1alpha1.CheckInterval(s.DefaultInterval))
	}
	return nil
}

// notNamespace reports whether no namespace can have that name.
func notNamespace(name string) bool { return len(validation.IsDNS1123Label(name)) > 0 }

// given lists the settings that were given.
func given(settings map[string]bool) (names []string) {
	for name, is := range settings {
		if is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func invalid(format string, args ...any) error {
	return &plugin.Exit{Code: plugin.ExitInvalid, Err: fmt.Errorf(format, args...)}
}

// Machine says which machine is kept.
func (s *settings) Machine() (root, execMode string) { return s.HostRoot, s.ExecMode }

// Role is the subcommand node-agent.
func Role() plugin.Role {
	return plugin.Role{
		Name:    "node-agent",
		Summary: "manage a machine as NodeConfigs say",
		Long: `Manage a machine as NodeConfigs say, until it is stopped: those of an API server, for
the machine below a Kubernetes node, or those in the files of a directory.

Keel reconciles new and edited NodeConfigs at once, those of an API server within a
minute, so that not all nodes begin together. It reconciles all of them on their
interval, and failed ones again after a growing pause. After SIGTERM or Ctrl-C the
running step ends first. With --once Keel reconciles every NodeConfig once, prints a
line each, and the exit code says how it went.`,
		Example: "  keel node-agent --node-name worker-1\n" +
			"  keel node-agent --source=dir --config-dir /etc/keel/nodeconfigs --host-root /\n" +
			"  keel node-agent --source=dir --config-dir nodeconfigs --state-dir state --host-root root --once --dry-run",
		Settings: func() any {
			return &settings{
				Source: fromCluster, HostRoot: "/host", ExecMode: "auto", FactsInterval: 5 * time.Minute,
				DefaultInterval: v1alpha1.DefaultInterval, LockTimeout: 5 * time.Minute,
			}
		},
		Run: func(ctx context.Context, env plugin.Env, s any) error {
			a, err := newAgent(ctx, env, *s.(*settings))
			if err != nil {
				return err
			}
			return errors.Join(a.run(ctx), a.close(ctx))
		},
	}
}
