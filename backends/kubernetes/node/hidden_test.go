package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
	"github.com/tlspu/keel/test/nodetest"
)

type talker struct {
	nodetest.Setting
	how string
}

func (h talker) Ensure(ctx context.Context, c handler.Call) (bool, error) {
	params := c.Params
	switch h.how {
	case "fails":
		return false, fmt.Errorf("cannot set %q", params["value"])
	case "waits":
		return false, &drift.Wait{Until: time.Now().Add(time.Hour), Reason: "busy with " + params["value"]}
	case "panics":
		regexp.MustCompile("(" + params["value"]) // panics, and shows what it was given
	case "does nothing":
		return false, nil
	}
	return h.Setting.Ensure(ctx, c)
}

func (h talker) Observe(ctx context.Context, l handler.Look) (declared, observed drift.State, err error) {
	params := l.Params
	switch h.how {
	case "cannot look":
		return nil, nil, errors.New("cannot compare " + params["value"])
	case "panics as it looks":
		regexp.MustCompile("(" + params["value"])
	case "does not know":
		return drift.State{{Path: drift.Path{"value"}, Value: params["value"]}},
			drift.State{{Path: drift.Path{"value"}, Value: drift.Unknown{Kind: drift.Offline, Reason: "is it " + params["value"] + "?"}, Note: params["value"]}}, nil
	}
	return h.Setting.Observe(ctx, l)
}

// Whatever a handler does that knows nothing of Secrets, none is shown.
func TestAgent_handlerThatTells(t *testing.T) {
	for _, how := range []string{"works", "fails", "waits", "panics", "does nothing", "cannot look", "panics as it looks", "does not know"} {
		for _, dry := range []bool{false, true} {
			w := newAgentWorld(t)
			w.osRelease(t, "ID=debian\n")
			w.Env.Handlers = plugin.NewRegistry[handler.Handler]("handler")
			w.Env.Handlers.Register("file", talker{w.Handler, how})
			w.settings.DryRun = dry
			if err := os.WriteFile(filepath.Join(w.Env.Root, "etc/a"), []byte("password=old-hunter2\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			w.write(t, "a.yaml", strings.Replace(secretConfig, "content:", "value:", 1))
			w.write(t, "db.yaml", secretDoc(pass))
			w.pass(t)
			if got := w.content(t, "a"); how == "works" && !dry && got != "password="+pass+"\n" {
				t.Errorf("content %q", got)
			}
			if said := w.agent.entries["a"].said; strings.Contains(said, "hunter2") || said == "" && how != "works" && !dry {
				t.Errorf("%s: said %q", how, said)
			}
			if !dry && how != "waits" {
				w.grep(t)
			} else if said := w.log.String() + w.out.String(); strings.Contains(said, "hunter2") {
				t.Errorf("%s: the log shows it:\n%s", how, said)
			}
		}
	}
}
