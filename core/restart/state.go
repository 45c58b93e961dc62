package restart

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/tlspu/keel/core/command"
)

// properties are what state needs, as systemctl's -p takes them.
const properties = "LoadState,ActiveState,Type,Result,ConditionResult,ConditionTimestampMonotonic,InvocationID"

// reaching is how commands reach a machine that runs.
const reaching = "use exec mode nsenter from a pod (hostPID, privileged), direct on the machine itself"

// otherMode says what works where systemctl does nothing, or finds no systemd.
const otherMode = "commands do not reach the machine's own systemd: " + reaching + "; a root that does not run has nothing to restart, and the mark stays until keel runs on it"

// noSystemctl says what to do about a root that cannot restart anything.
const noSystemctl = "the machine's root has no systemctl: install systemd there, or declare no units to restart, and the next run drops the pending restart; where systemd runs outside of this root, " + reaching

// state is what systemd says of a unit.
type state struct {
	load      string // LoadState
	id        string // InvocationID; empty when it never ran, or is forgotten since
	active    string
	kind      string // Type of a service
	result    string // of its last run
	condition string // whether its conditions were met, when they were last judged
	judged    bool   // they ever were
}

// newer reports whether the unit was started after old was read.
func (s state) newer(old string) bool { return s.id != "" && s.id != old }

// succeeded reports whether this is a oneshot that has done its work.
func (s state) succeeded() bool {
	return s.kind == "oneshot" && s.active == "inactive" && s.result == "success"
}

// skipped reports whether systemd did not start the unit because a condition
// of it, or a command of ExecCondition, is not met, which to systemd is no failure.
func (s state) skipped() bool {
	unmet := s.result == "success" && s.judged && s.condition == "no"
	return s.active == "inactive" && (unmet || s.result == "exec-condition")
}

// stopped reports whether nothing of the unit runs, and none of its runs failed. A
// oneshot is inactive when it has done its work, which may be to do again.
func (s state) stopped() bool {
	there := s.load == "loaded" || s.load == "masked"
	return there && s.active == "inactive" && s.kind != "oneshot"
}

// look asks for a unit's state as it is now.
func look(ctx context.Context, run command.Runner, name string) (state, error) {
	if p, ok := run.(*command.Pass); ok {
		p.Forget() // a unit changes its state by itself
	}
	out, err := run.Run(ctx, command.Cmd{Argv: []string{"systemctl", "show", "-p", properties, "--", name}, Query: true})
	if err != nil {
		return state{}, explain(err)
	}
	said := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			said[key] = value
		}
	}
	for _, key := range []string{"ActiveState", "InvocationID"} {
		if _, ok := said[key]; !ok {
			// What systemctl does in a chroot, with exit code 0.
			return state{}, &stop{fmt.Errorf("systemctl answers without %s, as it does in a chroot, where it restarts nothing: %s", key, otherMode)}
		}
	}
	return state{
		load:      said["LoadState"],
		id:        said["InvocationID"],
		active:    said["ActiveState"],
		kind:      said["Type"],
		result:    said["Result"],
		condition: said["ConditionResult"],
		judged:    said["ConditionTimestampMonotonic"] != "" && said["ConditionTimestampMonotonic"] != "0",
	}, nil
}

// explain says what to do about a systemctl that is not there, or that finds no
// systemd.
func explain(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &stop{errors.New(noSystemctl)}
	}
	exit := new(command.ExitError)
	if !errors.As(err, &exit) {
		return err
	}
	for _, text := range []string{
		"not been booted with systemd",
		"Failed to connect to bus",
		"Transport endpoint is not connected",
		"Running in chroot",
	} {
		if strings.Contains(exit.Stderr, text) {
			return &stop{fmt.Errorf("%w: %s", err, otherMode)}
		}
	}
	return err
}
