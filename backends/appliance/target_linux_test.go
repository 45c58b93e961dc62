package appliance

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/test/parts"
)

func TestObserve_devicesAreUnknown(t *testing.T) {
	parts.Need(t, "root")
	root := plain().write(t)
	const zero = 1<<8 | 5
	for _, name := range []string{"etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/network/interfaces"} {
		file := filepath.Join(root, name)
		if err := errors.Join(os.Remove(file), syscall.Mknod(file, syscall.S_IFCHR|0o666, zero)); err != nil {
			t.Fatal(err)
		}
	}
	within(t, func() {
		if r := reportOf(t, plainSpec, root); r.Count(drift.NotRead) != 3 {
			t.Errorf("got\n%s", verdicts(r))
		}
	})
}
