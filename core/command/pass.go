package command

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Pass remembers answers to equal queries until a command that is no query
// runs: nothing acts on an observation older than the last write, and observers
// may ask for whole listings without cost. Safe for concurrent use; equal queries
// in flight are asked once; errors are not remembered; its owner drops it.
type Pass struct {
	next Runner

	mu      sync.Mutex
	answers map[string][]byte
	flights map[string]*flight
}

// flight is a query that is being asked. It runs on its own context, which ends
// when nobody waits for it any more: one caller's cancel is not another's error.
type flight struct {
	waiting int // guarded by Pass.mu
	cancel  context.CancelFunc
	done    chan struct{} // closed once out and err are set
	out     []byte
	err     error
}

// NewPass returns a Pass that knows nothing yet.
func NewPass(r Runner) *Pass {
	p := &Pass{next: r}
	p.Forget()
	return p
}

// Forget drops every answer, and those of queries in flight: their callers get
// them, nobody later does. For changes that were not made through this Pass.
func (p *Pass) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = map[string][]byte{}
	p.flights = map[string]*flight{}
}

// Run answers a query from memory where it can. Any other command is run, and
// everything is forgotten, whether it succeeded or not. Queries are equal when
// their arguments, environment and input are.
func (p *Pass) Run(ctx context.Context, c Cmd) ([]byte, error) {
	if !c.Query {
		p.Forget()
		defer p.Forget()
		return p.next.Run(ctx, c)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c, err)
	}
	key := queryKey(c)
	p.mu.Lock()
	if out, ok := p.answers[key]; ok {
		p.mu.Unlock()
		return bytes.Clone(out), nil
	}
	f := p.flights[key]
	if f == nil {
		f = p.ask(ctx, key, c)
	}
	f.waiting++
	p.mu.Unlock()

	select {
	case <-f.done:
	case <-ctx.Done():
		if p.leave(key, f) {
			<-f.done // the last one out sees the command's end
		}
		return nil, fmt.Errorf("run %s: %w", c, ctx.Err())
	}
	return bytes.Clone(f.out), f.err
}

// ask starts a query; p.mu is held.
func (p *Pass) ask(ctx context.Context, key string, c Cmd) *flight {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f := &flight{cancel: cancel, done: make(chan struct{})}
	p.flights[key] = f
	go func() {
		defer cancel()
		defer close(f.done)
		f.out, f.err = runSafely(ctx, p.next, c)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.flights[key] != f {
			return // forgotten meanwhile
		}
		delete(p.flights, key)
		if f.err == nil {
			p.answers[key] = f.out
		}
	}()
	return f
}

// leave gives up waiting for f and reports whether nobody is left, in which
// case f ends and no later caller joins it.
func (p *Pass) leave(key string, f *flight) (last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.waiting--
	if f.waiting > 0 {
		return false
	}
	if p.flights[key] == f {
		delete(p.flights, key)
	}
	f.cancel()
	return true
}

// runSafely makes a panic an error: on a goroutine of its own it would end the
// process, where the caller would have caught it.
func runSafely(ctx context.Context, r Runner, c Cmd) (out []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			out, err = nil, fmt.Errorf("run %s: panic: %v", c, v)
		}
	}()
	return r.Run(ctx, c)
}

// queryKey is equal for equal queries and for no others.
func queryKey(c Cmd) string {
	var b strings.Builder
	part := func(s string) {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	for _, list := range [][]string{c.Argv, c.Env} {
		b.WriteString(strconv.Itoa(len(list)))
		b.WriteByte(';')
		for _, s := range list {
			part(s)
		}
	}
	part(string(c.Stdin))
	return b.String()
}
