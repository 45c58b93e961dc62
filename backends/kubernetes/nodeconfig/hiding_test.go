package nodeconfig

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/core/drift"
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
