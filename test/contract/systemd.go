package contract

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
)

// Systemd is a fake systemd whose units live in a file of Dir, so that what was
// restarted is counted across processes that die. As a command.Runner it answers
// what systemctl of systemd 252 answers to show, restart and daemon-reload;
// Systemctl holds it to that.
type Systemd struct{ Dir string }

// A SystemdUnit is a unit of Systemd.
type SystemdUnit struct {
	Type      string // simple, or oneshot
	Forgotten bool   // nothing refers to the oneshot: it is unloaded once it has ended
	Fails     int    // how many of the next starts fail

	Active, Result, ID string // as systemctl shows them; kept by Systemd
}

// systemd is what Systemd keeps.
type systemd struct {
	Starts  int
	Actions []string
	Units   map[string]*SystemdUnit
}

// Add makes a unit; a simple one runs.
func (s Systemd) Add(t testing.TB, name string, u SystemdUnit) {
	t.Helper()
	err := s.change(func(d *systemd) error {
		u.Active, u.Result = "inactive", "success"
		d.Units[name] = &u
		if u.Type == "simple" {
			d.start(&u)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Note adds a line to Actions.
func (s Systemd) Note(action string) error {
	return s.change(func(d *systemd) error {
		d.Actions = append(d.Actions, action)
		return nil
	})
}

// Actions lists, in their order, what changed something: "daemon-reload",
// "restart a.service", and what was noted.
func (s Systemd) Actions(t testing.TB) []string {
	t.Helper()
	d, err := s.read()
	if err != nil {
		t.Fatal(err)
	}
	return d.Actions
}

// Run answers as systemctl does.
func (s Systemd) Run(ctx context.Context, c command.Cmd) (out []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("run %s: %w", c, err)
	}
	err = s.change(func(d *systemd) error {
		switch argv := c.Argv; {
		case len(argv) == 6 && slices.Equal(argv[:3], []string{"systemctl", "show", "-p"}) && argv[4] == "--" && c.Query:
			out = []byte(d.show(argv[5], strings.Split(argv[3], ",")))
		case len(argv) == 4 && slices.Equal(argv[:3], []string{"systemctl", "restart", "--"}):
			return d.restart(c, argv[3])
		case slices.Equal(argv, []string{"systemctl", "daemon-reload"}):
			d.Actions = append(d.Actions, "daemon-reload")
		default:
			return fmt.Errorf("run %s: the fake systemd does not know this", c)
		}
		return nil
	})
	return out, err
}

func (d *systemd) show(name string, properties []string) string {
	said := map[string]string{"Type": "", "Result": "success", "Id": name, "LoadState": "not-found", "ActiveState": "inactive", "ConditionResult": "no", "ConditionTimestampMonotonic": "0", "InvocationID": ""}
	if u := d.Units[name]; u != nil {
		said["Type"], said["Result"], said["LoadState"], said["ActiveState"], said["InvocationID"] = u.Type, u.Result, "loaded", u.Active, u.ID
		if u.ID != "" {
			said["ConditionResult"], said["ConditionTimestampMonotonic"] = "yes", fmt.Sprint(1000+d.Starts)
		}
	}
	var b strings.Builder
	for _, p := range properties {
		if value, ok := said[p]; ok {
			fmt.Fprintf(&b, "%s=%s\n", p, value)
		}
	}
	return b.String()
}

func (d *systemd) restart(c command.Cmd, name string) error {
	u := d.Units[name]
	if u == nil {
		return &command.ExitError{Cmd: c, Code: 5, Stderr: "Failed to restart " + name + ": Unit " + name + " not found.\n"}
	}
	d.Actions = append(d.Actions, "restart "+name)
	d.start(u)
	if u.Active == "failed" {
		return &command.ExitError{Cmd: c, Code: 1, Stderr: "Job for " + name + " failed because the control process exited with error code.\n" +
			"See \"systemctl status " + name + "\" and \"journalctl -xeu " + name + "\" for details.\n"}
	}
	return nil
}

func (d *systemd) start(u *SystemdUnit) {
	d.Starts++
	u.ID = fmt.Sprintf("%032x", d.Starts)
	switch {
	case u.Fails > 0:
		u.Fails--
		u.Active, u.Result = "failed", "exit-code"
	case u.Type == "oneshot":
		u.Active, u.Result = "inactive", "success"
		if u.Forgotten {
			u.ID = ""
		}
	default:
		u.Active, u.Result = "active", "success"
	}
}

func (s Systemd) file() string { return filepath.Join(s.Dir, "systemd.json") }

func (s Systemd) read() (*systemd, error) {
	d := &systemd{Units: map[string]*SystemdUnit{}}
	text, err := os.ReadFile(s.file())
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err != nil {
		return nil, err
	}
	return d, json.Unmarshal(text, d)
}

// change keeps what f made of the units, also when f fails.
func (s Systemd) change(f func(d *systemd) error) error {
	d, err := s.read()
	if err != nil {
		return err
	}
	failed := f(d)
	text, err := json.Marshal(d)
	if err == nil {
		err = os.WriteFile(s.file()+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(s.file()+".new", s.file())
	}
	if err != nil {
		return err
	}
	return failed
}
