package host_test

import (
	"testing"

	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/contract"
	"github.com/tlspu/keel/test/parts"
)

func TestExec_contract(t *testing.T) {
	contract.Runner(t, func(*testing.T, []host.Exchange) host.Runner { return host.Exec{} })
}

func TestExec_contractBehindChroot(t *testing.T) {
	parts.Need(t, "root", "chroot")
	contract.Runner(t, func(t *testing.T, _ []host.Exchange) host.Runner {
		return runnerAt(t, host.Chroot, "/")
	})
}

func TestExec_contractBehindNsenter(t *testing.T) {
	parts.Need(t, "root", "nsenter")
	contract.Runner(t, func(*testing.T, []host.Exchange) host.Runner {
		// The machine's own mount namespace: what counts is what nsenter answers.
		return host.Exec{Prefix: []string{"/usr/bin/nsenter", "-m/proc/self/ns/mnt", "--"}}
	})
}

func TestRecorded_contract(t *testing.T) {
	contract.Runner(t, func(t *testing.T, script []host.Exchange) host.Runner {
		machine := &host.Recorded{Script: script}
		t.Cleanup(func() {
			if err := machine.Left(); err != nil {
				t.Error(err)
			}
		})
		return machine
	})
}

func TestPass_contract(t *testing.T) {
	contract.Runner(t, func(*testing.T, []host.Exchange) host.Runner { return host.NewPass(host.Exec{}) })
}

func TestReadOnly_contract(t *testing.T) {
	contract.Runner(t, func(*testing.T, []host.Exchange) host.Runner { return host.NewReadOnly(host.Exec{}) })
}

func runnerAt(t *testing.T, mode, root string) host.Runner {
	t.Helper()
	runners, err := host.Runners(root, mode)
	if err != nil {
		t.Fatal(err)
	}
	return runners(root)
}
