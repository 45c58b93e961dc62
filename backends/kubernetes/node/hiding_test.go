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

	"github.com/tlspu/keel/test/nodetest"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
)

func TestHiding(t *testing.T) {
	h := hiding{values: []string{"hunter2\n", "-----BEGIN KEY-----\nAAAABBBB\n", "a\"b\x00\xffc", "no", ""}}
	for _, tt := range []struct {
		name, text string
		want       bool
	}{
		{"nothing", "", false},
		{"something else", "write /etc/db: no space left on device", false},
		{"a value", "cannot log in with hunter2.", true},
		{"a line of one", "unexpected AAAABBBB", true},
		{"quoted", `bad value "a\"b\x00\xffc"`, true},
		{"as it is", "bad value a\"b\x00\xffc", true},
		{"in base64", "Authorization: Basic aHVudGVyMgo=", true},
		{"short ones stand everywhere", "no such file", false},
		{"too long to be looked at", strings.Repeat("x", mostShown+1), true},
	} {
		if got := h.holds(tt.text); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if (hiding{}).holds("anything") {
		t.Error("without Secrets something is hidden")
	}
}

func TestHiding_errors(t *testing.T) {
	h := hiding{values: []string{"hunter2"}}
	plain := errors.New("disk on fire")
	if got := h.err(plain); !errors.Is(got, plain) {
		t.Errorf("an error without a secret became %v", got)
	}
	if h.err(nil) != nil {
		t.Error("no error became one")
	}
	wait := (*drift.Wait)(nil)
	until := time.Now()
	if err := h.err(&drift.Wait{Until: until, Reason: "user hunter2 is busy", GiveUp: time.Hour}); !errors.As(err, &wait) ||
		!wait.Until.Equal(until) || wait.GiveUp != time.Hour || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a Wait became %v", err)
	}
}

// A talker is a handler that shows what it is given, wherever it can, and knows
// nothing of Secrets.
type talker struct {
	nodetest.Setting
	how string
}

func (h talker) Ensure(ctx context.Context, root string, params map[string]string) (bool, error) {
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
	return h.Setting.Ensure(ctx, root, params)
}

func (h talker) Observe(ctx context.Context, m handler.Machine, params map[string]string) (declared, observed drift.State, err error) {
	switch h.how {
	case "cannot look":
		return nil, nil, errors.New("cannot compare " + params["value"])
	case "panics as it looks":
		regexp.MustCompile("(" + params["value"])
	case "does not know":
		return drift.State{{Path: drift.Path{"value"}, Value: params["value"]}},
			drift.State{{Path: drift.Path{"value"}, Value: drift.Unknown{Kind: drift.Offline, Reason: "is it " + params["value"] + "?"}, Note: params["value"]}}, nil
	}
	return h.Setting.Observe(ctx, m, params)
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
