package command_test

import (
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/parts"
	"github.com/tlspu/keel/test/recorded"
)

func TestExec_contract(t *testing.T) {
	contract.Runner(t, func(*testing.T, []recorded.Exchange) command.Runner { return command.Exec{} })
}

func TestExec_contractInARoot(t *testing.T) {
	parts.Need(t, "root")
	contract.Runner(t, func(t *testing.T, _ []recorded.Exchange) command.Runner {
		return runnerAt(t, command.Chroot, "/")
	})
}

func TestRecorded_contract(t *testing.T) {
	contract.Runner(t, func(t *testing.T, script []recorded.Exchange) command.Runner {
		machine := &recorded.Runner{Script: script}
		t.Cleanup(func() {
			if err := machine.Left(); err != nil {
				t.Error(err)
			}
		})
		return machine
	})
}

func TestPass_contract(t *testing.T) {
	contract.Runner(t, func(*testing.T, []recorded.Exchange) command.Runner { return command.NewPass(command.Exec{}) })
}

func TestReadOnly_contract(t *testing.T) {
	contract.Runner(t, func(*testing.T, []recorded.Exchange) command.Runner { return command.NewReadOnly(command.Exec{}) })
}

func runnerAt(t *testing.T, mode, root string) command.Runner {
	t.Helper()
	runners, err := command.Runners(root, mode)
	if err != nil {
		t.Fatal(err)
	}
	return runners(root)
}
