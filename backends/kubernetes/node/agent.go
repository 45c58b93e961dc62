package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

const (
	// poll is the time between two looks at the folder.
	poll = 2 * time.Second
	// visitTime is how long one visit may take: a package transaction of half an
	// hour, and restarts.
	visitTime = time.Hour
)

// settings of the agent.
type settings struct {
	Source          string        `flag:"source" enum:"dir" usage:"where NodeConfigs come from"`
	ConfigDir       string        `flag:"config-dir" usage:"keep the NodeConfigs in the files of this folder"`
	Facts           string        `flag:"facts" usage:"file of what the machine itself cannot know, for templates and selectors"`
	FactsInterval   time.Duration `flag:"facts-interval" usage:"time between two collections of facts"`
	StateDir        string        `flag:"state-dir" usage:"folder for the status of each NodeConfig"`
	HostRoot        string        `flag:"host-root" usage:"folder in which the machine's root file system lies; / is this machine"`
	ExecMode        string        `flag:"exec-mode" enum:"auto|direct|chroot|nsenter" usage:"how commands reach the machine"`
	DefaultInterval time.Duration `flag:"default-interval" usage:"time between two visits of a NodeConfig that names none"`
	LockTimeout     time.Duration `flag:"lock-timeout" usage:"how long a visit waits for another run of keel on the machine"`
	Once            bool          `flag:"once" usage:"visit every NodeConfig once, print a line each, and end"`
	DryRun          bool          `flag:"dry-run" usage:"write nothing, and say what would be done"`
}

// Machine says which machine is kept.
func (s *settings) Machine() (root, execMode string) { return s.HostRoot, s.ExecMode }

// Role is the subcommand node-agent.
func Role() plugin.Role {
	return plugin.Role{
		Name:    "node-agent",
		Summary: "keep a machine as NodeConfigs say",
		Long: `Keep a machine as the NodeConfigs in the files of a folder say, and go on doing so.

New and edited NodeConfigs are visited at once, all of them on their interval, and
failed ones again after a growing pause. SIGTERM and Ctrl-C let the step that runs
come to its end. With --once every NodeConfig is visited once, a line each is
printed, and the exit code tells how it went.`,
		Example: "  keel node-agent --config-dir /etc/keel/nodeconfigs --host-root /\n" +
			"  keel node-agent --config-dir nodeconfigs --state-dir state --host-root root --once --dry-run",
		Settings: func() any {
			return &settings{
				Source: "dir", ConfigDir: "/etc/keel/nodeconfigs", StateDir: "/var/lib/keel/node-agent",
				HostRoot: "/host", ExecMode: "auto", FactsInterval: 5 * time.Minute,
				DefaultInterval: v1alpha1.DefaultInterval, LockTimeout: 5 * time.Minute,
			}
		},
		Run: func(ctx context.Context, env plugin.Env, s any) error {
			a, err := newAgent(env, *s.(*settings))
			if err != nil {
				return err
			}
			defer a.close()
			if a.settings.Once {
				return a.once(ctx)
			}
			return a.keep(ctx)
		},
	}
}

// An agent keeps a machine as the NodeConfigs of a folder say. What it remembers
// of them belongs to the loop's goroutine.
type agent struct {
	settings settings
	env      plugin.Env
	machine  *machine
	sweeper  host.Sweeper // of one pass
	folder   *folder
	statuses *statuses // nil in a dry run

	facts     facts.Store
	collected time.Time // when facts were collected
	edition   int       // number of the facts
	inputs    inputs    // of the last time that NodeConfigs were resolved
	unknown   error     // why they could not be collected last time

	entries   map[string]*entry // by target ID
	looked    bool              // the folder was read once
	blind     error             // why the folder could not be read last time
	unreached error             // why the machine's root could not be opened
	unswept   bool              // statuses of what is gone may be there
	visiting  string            // target ID, for notes
	tally     tally
}

// newAgent opens everything the agent needs, and touches nothing in a dry run.
func newAgent(env plugin.Env, s settings) (*agent, error) {
	if s.DefaultInterval < v1alpha1.MinInterval {
		return nil, &plugin.Exit{Code: exitInvalid, Err: fmt.Errorf("default-interval: %w", v1alpha1.CheckInterval(s.DefaultInterval))}
	}
	if err := mayChange(env, s); err != nil {
		return nil, err
	}
	if _, err := os.ReadDir(s.ConfigDir); err != nil {
		return nil, &plugin.Exit{Code: exitUnreadable, Err: fmt.Errorf("config-dir %s: %w", s.ConfigDir, cause(err))}
	}
	m, err := openMachine(env)
	if err != nil {
		return nil, err
	}
	a := &agent{
		settings: s, env: env, machine: m, entries: map[string]*entry{},
		folder: &folder{dir: s.ConfigDir, handlers: env.Handlers, now: env.Now, log: env.Log},
	}
	if a.collect(); a.unknown != nil {
		a.close()
		return nil, a.unknown
	}
	if !s.DryRun {
		if a.statuses, err = openStatuses(s.StateDir, s.ConfigDir, env.Log); err != nil {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

// loop makes the loop that visits what is due. The end of ctx keeps no status
// from being written.
func (a *agent) loop(ctx context.Context) *drift.Loop {
	writing := context.WithoutCancel(ctx)
	return &drift.Loop{
		List: a.list,
		Done: func(res drift.Result) {
			if ctx.Err() != nil && errors.Is(res.Err, context.Canceled) {
				a.stopped(res)
				return
			}
			a.done(writing, res)
		},
		Interval: poll, Deadline: visitTime, Now: a.env.Now,
		Options: drift.Options{DryRun: a.settings.DryRun, Lock: a.lock},
	}
}

// mayChange refuses to change this machine without uid 0. A link to / is / too.
func mayChange(env plugin.Env, s settings) error {
	if env.UID == 0 || s.DryRun {
		return nil
	}
	this, err := os.Stat("/")
	if err != nil {
		return err
	}
	that, err := os.Stat(env.Root)
	if err != nil {
		return &plugin.Exit{Code: exitUnreadable, Err: fmt.Errorf("host-root %s: %w", env.Root, cause(err))}
	}
	if !os.SameFile(this, that) {
		return nil
	}
	return &plugin.Exit{Code: exitNeedsRoot, Err: fmt.Errorf("host-root %s is this machine: changing it needs uid 0; run keel as root, or look with --dry-run", env.Root)}
}

func (a *agent) close() {
	_ = a.machine.tree.Close() // what was written was synced
	if a.statuses != nil {
		_ = a.statuses.tree.Close()
	}
}

// lock takes the machine's lock for one visit.
func (a *agent) lock(ctx context.Context) (func(), error) {
	waiting, cancel := context.WithTimeout(ctx, a.settings.LockTimeout)
	defer cancel()
	unlock, err := a.machine.tree.Lock(waiting, "keel node-agent")
	if held := (*host.Held)(nil); errors.As(err, &held) && ctx.Err() == nil {
		return nil, fmt.Errorf("the lock of this machine is held by %s, waited %s (lock-timeout) for it", held.By, a.settings.LockTimeout)
	}
	return unlock, err
}

// keep visits NodeConfigs as they fall due until ctx ends. A step that began is
// finished first.
func (a *agent) keep(ctx context.Context) error {
	a.env.Log.Info("agent started", "config-dir", a.settings.ConfigDir, "root", a.env.Root, "dry-run", a.settings.DryRun)
	err := a.loop(ctx).Run(a.marked(ctx))
	if ctx.Err() != nil {
		a.env.Log.Info("agent ended")
		return nil
	}
	return err
}

// marked is ctx with the log for what is worth knowing and no error: attributes a
// file lost, whom the lock waits for. In one pass a folder is swept once.
func (a *agent) marked(ctx context.Context) context.Context {
	return host.WithNotes(host.WithSweeper(ctx, &a.sweeper), func(note string) {
		a.env.Log.Warn("noted", "target", a.visiting, "note", note)
	})
}

// list looks at the folder and gives the targets that are due.
func (a *agent) list(ctx context.Context) ([]drift.Target, error) {
	changed := a.look()
	if changed {
		a.load()
		a.unswept = a.statuses != nil
	}
	a.arrive()
	if a.collect() || changed {
		a.resolve()
	}
	if a.unswept && a.blind == nil && a.folder.whole() {
		a.unswept = false
		a.statuses.sweep(a.named())
	}
	now := a.env.Now()
	if !changed && !a.anyDue(now) {
		return nil, nil
	}
	a.machine.look.Forget() // a new pass looks anew, also at where links lead
	a.sweeper.Forget()
	if a.unreached == nil {
		a.contest()
		a.adopt()
	}
	var due []drift.Target
	for _, id := range a.order() {
		if e := a.entries[id]; e.due(now, a.settings.DefaultInterval) {
			due = append(due, a.target(id, e))
		}
	}
	return due, ctx.Err()
}

// look reads what changed in the folder, and reports whether there is anything
// new in it. That the folder cannot be read is said once.
func (a *agent) look() (changed bool) {
	first := !a.looked
	changed, err := a.folder.scan(first || a.settings.Once)
	if text(err) != text(a.blind) {
		if err != nil {
			a.env.Log.Error("folder cannot be read; everything goes on being kept", "err", err)
		} else {
			a.env.Log.Info("folder can be read again", "config-dir", a.settings.ConfigDir)
		}
	}
	a.blind = err
	a.looked = a.looked || err == nil
	return changed || first && a.looked
}

// order lists the entries: what is owed by NodeConfigs that are gone first.
func (a *agent) order() []string {
	return slices.SortedFunc(maps.Keys(a.entries), func(x, y string) int {
		if gone := strings.HasPrefix(x, leftoverID); gone != strings.HasPrefix(y, leftoverID) {
			if gone {
				return -1
			}
			return 1
		}
		return strings.Compare(x, y)
	})
}

// load brings the entries in line with what the folder holds.
func (a *agent) load() {
	configs := a.folder.configs()
	there := map[string]bool{}
	for _, c := range configs {
		if c.name == "" || there[c.name] {
			continue
		}
		there[c.name] = true
		e := a.entries[c.name]
		if e == nil {
			e = &entry{}
			a.entries[c.name] = e
		}
		e.config = c
	}
	for id, e := range a.entries {
		if e.config != nil && !there[id] {
			a.env.Log.Info("NodeConfig is gone; what it did stays", "target", id)
			delete(a.entries, id)
		}
	}
}

// contest finds out which NodeConfigs claim what an older one owns.
func (a *agent) contest() {
	var all []*config
	for _, e := range a.entries {
		if e.config != nil {
			all = append(all, e.claimant())
		}
	}
	lost := conflicts(all, &a.machine.tree.View)
	for _, e := range a.entries {
		if e.config != nil {
			e.lost = lost[e.claimant()]
		}
	}
}

// adopt finds the journals that no visit of a NodeConfig will bring to their end.
func (a *agent) adopt() {
	for id, e := range a.entries {
		if e.kept() {
			delete(a.entries, leftoverID+strings.TrimSuffix(fileName(id), suffix)) // it is the NodeConfig's again
		}
	}
	files, err := a.machine.tree.List(journalDir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			a.env.Log.Error("journals of restarts cannot be listed; those of NodeConfigs that are gone wait", "err", err)
		}
		return
	}
	mine := map[string]bool{}
	for id, e := range a.entries {
		mine[fileName(id)] = e.kept()
	}
	for _, file := range files {
		name, ok := strings.CutSuffix(file, suffix)
		if !ok || mine[file] || a.entries[leftoverID+name] != nil {
			continue
		}
		a.env.Log.Info("restarts of a NodeConfig that is not kept are pending", "target", name)
		a.entries[leftoverID+name] = &entry{}
	}
}

// named lists the files of the statuses of what the folder holds.
func (a *agent) named() map[string]bool {
	files := make(map[string]bool, len(a.entries))
	for id, e := range a.entries {
		files[fileName(id)] = e.config != nil
	}
	return files
}

// anyDue reports whether any entry is due.
func (a *agent) anyDue(now time.Time) bool {
	for _, e := range a.entries {
		if e.due(now, a.settings.DefaultInterval) {
			return true
		}
	}
	return false
}
