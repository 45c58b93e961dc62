package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/plugins/all"
)

// newPass makes a contender of one visit to each NodeConfig of dir, in this
// process: what is left of keel apply without its start and its reading of YAML.
func newPass(ctx context.Context, dir string) (*contender, error) {
	root := filepath.Join(dir, "root")
	run, err := command.Runners(root, "auto")
	if err != nil {
		return nil, err
	}
	set := all.Set()
	env := plugin.Env{Root: root, Run: run, Handlers: set.Handlers(run), Now: time.Now, Log: slog.New(slog.DiscardHandler), UID: os.Geteuid()}
	kind, err := nodeConfig(set)
	if err != nil {
		return nil, err
	}
	var docs []plugin.Doc
	paths, err := filepath.Glob(filepath.Join(dir, "nodeconfigs", "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		docs = append(docs, plugin.Doc{Source: filepath.Base(path), Data: data})
	}
	targets, err := kind.Targets(ctx, env, docs)
	if err != nil {
		return nil, err
	}
	return &contender{name: "the pass alone, in a process that has read the NodeConfigs", run: func(ctx context.Context) (time.Duration, error) {
		before, err := busy()
		if err != nil {
			return 0, err
		}
		for _, t := range targets {
			r := drift.Ensure(ctx, t.(drift.Planner), drift.Options{})
			if r.Err != nil || r.Changed {
				return 0, fmt.Errorf("visit %s: changed %v: %w", r.Target, r.Changed, r.Err)
			}
		}
		after, err := busy()
		return after - before, err
	}}, nil
}

// busy is the processor time that this process has taken.
func busy() (time.Duration, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("read the processor time: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// nodeConfig finds the kind of document in the set.
func nodeConfig(set plugin.Set) (plugin.Kind, error) {
	for _, name := range set.Backends.Names() {
		b, err := set.Backends.Lookup(name)
		if err != nil {
			return plugin.Kind{}, err
		}
		for _, k := range b.Kinds {
			if k.Name == "NodeConfig" {
				return k, nil
			}
		}
	}
	return plugin.Kind{}, fmt.Errorf("no backend has the kind NodeConfig")
}
