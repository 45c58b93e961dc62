package restart_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/core/restart"
	"github.com/tlspu/keel/test/recorded"
)

func TestProve(t *testing.T) {
	overdue := fmt.Errorf("run systemctl: it did not end within 1m30s: %w", context.DeadlineExceeded)
	reload := record(restart.Restarting, "a.service=old")
	reload.Reload = true
	tests := []struct {
		name    string
		rec     restart.Record
		script  []recorded.Exchange
		saved   []string
		wantErr []string // texts of the error; none: the journal is cleared
	}{
		{
			name: "a change that may have happened",
			rec:  record(restart.Ensuring, "a.service", "b.service"),
			script: []recorded.Exchange{
				show("a.service", running("a1")), show("b.service", unit("simple", "inactive", "success", "")),
				show("a.service", running("a1")), restarts("a.service"), show("a.service", running("a2")),
				show("b.service", unit("simple", "inactive", "success", "")), restarts("b.service"), show("b.service", running("b1")),
			},
			saved: []string{"restarting map[a.service:a1 b.service:] reload=false"},
		},
		{
			name:   "restarted before the crash",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", running("new"))},
		},
		{
			name:   "never ran before, runs now",
			rec:    record(restart.Restarting, "a.service="),
			script: []recorded.Exchange{show("a.service", running("new"))},
		},
		{
			name:   "one reload before the first restart",
			rec:    reload,
			script: []recorded.Exchange{show("a.service", running("old")), do("daemon-reload"), restarts("a.service"), show("a.service", running("new"))},
			saved:  []string{"restarting map[a.service:old] reload=false"},
		},
		{
			name:   "a reload that is due although nothing is to be restarted",
			rec:    reload,
			script: []recorded.Exchange{show("a.service", running("new")), do("daemon-reload")},
			saved:  []string{"restarting map[a.service:old] reload=false"},
		},
		{
			name:    "a failed reload stops restarts",
			rec:     restart.Record{Phase: restart.Restarting, Units: map[string]string{"a.service": "old", "b.service": "old"}, Reload: true},
			script:  []recorded.Exchange{show("a.service", running("old")), fails(do("daemon-reload"), exit(1, "Failed to reload daemon: No space left\n"))},
			wantErr: []string{"restart a.service: nothing is restarted before systemd has read its unit files", "No space left"},
		},
		{
			name: "one that fails does not keep others from it",
			rec:  record(restart.Restarting, "a.service=old", "b.service=old"),
			script: []recorded.Exchange{
				show("a.service", running("old")), fails(restarts("a.service"), exit(1, jobFailed)), show("a.service", unit("simple", "failed", "exit-code", "new")),
				show("b.service", running("old")), restarts("b.service"), show("b.service", running("new")),
			},
			saved:   []string{"restarting map[a.service:new b.service:old] reload=false"},
			wantErr: []string{"restart a.service: it was restarted and failed (exit-code): see journalctl -u a.service", "the control process exited"},
		},
		{
			name: "what failed is restarted by the next Prove",
			rec:  record(restart.Restarting, "a.service=failed"),
			script: []recorded.Exchange{
				show("a.service", unit("simple", "failed", "exit-code", "failed")), restarts("a.service"), show("a.service", running("new")),
			},
		},
		{
			name:    "what failed after a crash is not restarted at once",
			rec:     record(restart.Restarting, "a.service=old"),
			script:  []recorded.Exchange{show("a.service", unit("simple", "failed", "signal", "new"))},
			saved:   []string{"restarting map[a.service:new] reload=false"},
			wantErr: []string{"it was restarted and failed (signal)"},
		},
		{
			name: "a start limit does not leave the unit down",
			rec:  record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{
				show("a.service", running("old")), fails(restarts("a.service"), exit(1, limitHit)), show("a.service", unit("simple", "failed", "start-limit-hit", "old")),
				do("reset-failed", "--", "a.service"), do("start", "--", "a.service"), show("a.service", running("new")),
			},
		},
		{
			name: "a start limit that is met again",
			rec:  record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{
				show("a.service", running("old")), fails(restarts("a.service"), exit(1, limitHit)), show("a.service", unit("simple", "failed", "start-limit-hit", "old")),
				do("reset-failed", "--", "a.service"), fails(do("start", "--", "a.service"), exit(1, limitHit)), show("a.service", unit("simple", "failed", "start-limit-hit", "old")),
			},
			wantErr: []string{"Job for a.service failed."},
		},
		{
			name:   "an ExecCondition that is not met",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", running("old")), restarts("a.service"), show("a.service", unit("simple", "inactive", "exec-condition", "new"))},
			saved:  []string{"restarting map[] reload=false"},
		},
		{
			name:    "a unit that refuses to be stopped by hand",
			rec:     record(restart.Restarting, "a.service=old"),
			script:  []recorded.Exchange{show("a.service", running("old")), fails(restarts("a.service"), exit(4, refusesStop)), show("a.service", running("old"))},
			saved:   []string{"restarting map[] reload=false"},
			wantErr: []string{"RefuseManualStop=yes", "remove it from services"},
		},
		{
			name: "in the order of the record",
			rec:  restart.Record{Phase: restart.Restarting, Units: map[string]string{"z.service": "old", "a.service": "old"}, Order: []string{"z.service", "a.service"}},
			script: []recorded.Exchange{
				show("z.service", running("old")), restarts("z.service"), show("z.service", running("new")),
				show("a.service", running("old")), restarts("a.service"), show("a.service", running("new")),
			},
		},
		{
			name:    "a restart that did not end is not known",
			rec:     record(restart.Restarting, "a.service=old"),
			script:  []recorded.Exchange{show("a.service", running("old")), fails(restarts("a.service"), overdue)},
			wantErr: []string{"it did not end within 1m30s"},
		},
		{
			name:   "restarted although systemctl failed",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", running("old")), fails(restarts("a.service"), exit(1, "Job for a.service canceled.\n")), show("a.service", running("new"))},
		},
		{
			name:    "exit code 0 and nothing restarted",
			rec:     record(restart.Restarting, "a.service=old"),
			script:  []recorded.Exchange{show("a.service", running("old")), restarts("a.service"), show("a.service", running("old"))},
			wantErr: []string{`still has InvocationID "old": it was not restarted`},
		},
		{
			name:   "a oneshot that systemd knows",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", unit("oneshot", "inactive", "success", "old")), restarts("a.service"), show("a.service", unit("oneshot", "inactive", "success", "new"))},
		},
		{
			name:   "a oneshot that stays active",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", unit("oneshot", "active", "success", "old")), restarts("a.service"), show("a.service", unit("oneshot", "active", "success", "new"))},
		},
		{
			name:   "a oneshot that ran before the crash",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", unit("oneshot", "inactive", "success", "new"))},
		},
		{
			name: "a oneshot that systemd forgets is done once, whatever the others do",
			rec:  record(restart.Restarting, "a.service=", "b.service=old"),
			script: []recorded.Exchange{
				show("a.service", unit("oneshot", "inactive", "success", "")), restarts("a.service"), show("a.service", unit("oneshot", "inactive", "success", "")),
				show("b.service", running("old")), fails(restarts("b.service"), overdue),
			},
			saved:   []string{"restarting map[b.service:old] reload=false"},
			wantErr: []string{"restart b.service"},
		},
		{
			name:    "a oneshot that fails",
			rec:     record(restart.Restarting, "a.service="),
			script:  []recorded.Exchange{show("a.service", unit("oneshot", "inactive", "success", "")), fails(restarts("a.service"), exit(1, jobFailed)), show("a.service", unit("oneshot", "failed", "exit-code", "new"))},
			saved:   []string{"restarting map[a.service:new] reload=false"},
			wantErr: []string{"it was restarted and failed (exit-code)"},
		},
		{
			name:   "a condition that is not met",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", running("old")), restarts("a.service"), show("a.service", skipped)},
			saved:  []string{"restarting map[] reload=false"},
		},
		{
			name:   "a condition that is not met, of a unit that is forgotten",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", running("old")), restarts("a.service"), show("a.service", unit("simple", "inactive", "success", ""))},
			saved:  []string{"restarting map[] reload=false"},
		},
		{
			name:    "a service that ends at once",
			rec:     record(restart.Restarting, "a.service=old"),
			script:  []recorded.Exchange{show("a.service", running("old")), restarts("a.service"), show("a.service", unit("simple", "inactive", "success", "new"))},
			saved:   []string{"restarting map[] reload=false"},
			wantErr: []string{"it was restarted and has ended"},
		},
		{
			name:   "one that stopped since",
			rec:    record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{show("a.service", unit("simple", "inactive", "success", "new")), restarts("a.service"), show("a.service", running("newer"))},
		},
		{
			name:   "a timer has no type",
			rec:    record(restart.Restarting, "a.timer=old"),
			script: []recorded.Exchange{show("a.timer", unit("", "active", "success", "old")), restarts("a.timer"), show("a.timer", unit("", "active", "success", "new"))},
		},
		{
			name: "starting takes a while",
			rec:  record(restart.Restarting, "a.service=old"),
			script: []recorded.Exchange{
				show("a.service", unit("notify", "activating", "success", "new")), show("a.service", unit("notify", "activating", "success", "new")),
				show("a.service", unit("notify", "active", "success", "new")),
			},
		},
		{
			name:    "no such unit",
			rec:     record(restart.Ensuring, "a.service"),
			script:  []recorded.Exchange{show("a.service", notLoaded), show("a.service", notLoaded), fails(restarts("a.service"), exit(5, noSuchUnit)), show("a.service", notLoaded)},
			saved:   []string{"restarting map[a.service:] reload=false"},
			wantErr: []string{"restart a.service: run systemctl restart -- a.service: exit status 5: Failed to restart a.service: Unit a.service not found."},
		},
		{
			name:    "masked",
			rec:     record(restart.Restarting, "a.service="),
			script:  []recorded.Exchange{show("a.service", notLoaded), fails(restarts("a.service"), exit(1, isMasked)), show("a.service", notLoaded)},
			saved:   []string{"restarting map[] reload=false"},
			wantErr: []string{"Unit a.service is masked.", "unmask it"},
		},
		{
			name: "a unit that the change has made is not started",
			rec:  restart.Record{Phase: restart.Restarting, Units: map[string]string{"a.service": ""}, Reload: true},
			script: []recorded.Exchange{
				show("a.service", notLoaded), do("daemon-reload"), show("a.service", stopped),
			},
			saved: []string{"restarting map[a.service:] reload=false", "restarting map[] reload=false"},
		},
		{
			name:    "a chroot that systemctl ignores",
			rec:     record(restart.Ensuring, "a.service", "b.service"),
			script:  []recorded.Exchange{show("a.service", "")},
			wantErr: []string{"restart a.service: systemctl answers without ActiveState, as it does in a chroot", "use exec mode nsenter"},
		},
		{
			name:    "a chroot that systemctl ignores, after the change",
			rec:     record(restart.Restarting, "a.service=old", "b.service=old"),
			script:  []recorded.Exchange{show("a.service", "")},
			wantErr: []string{"use exec mode nsenter"},
		},
		{
			name:    "a systemd too old for ids",
			rec:     record(restart.Ensuring, "a.service"),
			script:  []recorded.Exchange{show("a.service", "ActiveState=active\n")},
			wantErr: []string{"systemctl answers without InvocationID"},
		},
		{
			name:    "no systemd",
			rec:     record(restart.Ensuring, "a.service", "b.service"),
			script:  []recorded.Exchange{fails(show("a.service", ""), exit(1, outsideIsNotSystemd))},
			wantErr: []string{"Failed to connect to bus: Host is down", "use exec mode nsenter"},
		},
		{
			name:    "no systemctl",
			rec:     record(restart.Ensuring, "a.service", "b.service"),
			script:  []recorded.Exchange{fails(show("a.service", ""), fmt.Errorf("run systemctl: chroot: %w", fs.ErrNotExist))},
			wantErr: []string{"restart a.service: the machine's root has no systemctl: ", "install systemd there, or declare no units to restart", "use exec mode nsenter"},
		},
		{
			name:    "from outside the PID namespace",
			rec:     record(restart.Restarting, "a.service=old", "b.service=old"),
			script:  []recorded.Exchange{fails(show("a.service", ""), exit(1, outsidePidNamespace))},
			wantErr: []string{"Transport endpoint is not connected", "use exec mode nsenter"},
		},
		{name: "no units", rec: record(restart.Ensuring), saved: []string{"restarting map[] reload=false"}},
		{name: "an unknown phase", rec: record("done"), wantErr: []string{`restart record: phase "done": want ensuring or restarting`}},
		{name: "a unit that is an option", rec: record(restart.Restarting, "--root"), wantErr: []string{`unit name "--root": must not begin with -`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				machine := &recorded.Runner{Script: tt.script}
				j := &memory{rec: tt.rec, open: true}
				err := restart.Prove(t.Context(), machine, j)
				if left := machine.Left(); left != nil {
					t.Error(left)
				}
				if diff := cmp.Diff(tt.saved, j.saved); diff != "" {
					t.Errorf("saved (-want +got):\n%s", diff)
				}
				if j.open != (tt.wantErr != nil) || (err != nil) != (tt.wantErr != nil) {
					t.Fatalf("got %v, and the journal open: %t; want an error and it open: %t", err, j.open, tt.wantErr != nil)
				}
				for _, text := range tt.wantErr {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("got %v, want an error that holds %q", err, text)
					}
				}
			})
		})
	}
}
