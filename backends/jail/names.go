package jail

import (
	"fmt"

	apijail "github.com/tlspu/keel/api/jail"
)

// Names on the host are pure functions of names in specs, so that nothing has to
// be remembered to find it again. A pool is the dataset above Keel's.

func imageDataset(pool, image string) string { return pool + "/keel/" + image }

func rootDataset(pool, name string) string { return pool + "/keel/jails/" + name }

func volumeDataset(pool, volume string) string { return pool + "/keel/volumes/" + volume }

// HostName is the name of a jail on its host.
func HostName(name string) string { return "keel-" + name }

// linkOf is the link that a jail has, or shall have.
func linkOf(r *Record) Link {
	address, _ := r.Spec.Spec.Network.Prefix() // a record holds valid specs only
	return Link{
		Name:    fmt.Sprintf("epair%d", r.EpairOrdinal),
		Jail:    HostName(r.Spec.Metadata.Name),
		Bridge:  r.Spec.Spec.Network.Bridge,
		Address: address,
		Gateway: apijail.Gateway(address),
	}
}

// limitsOf are the limits that a jail shall have.
func limitsOf(s *apijail.Spec) Limits {
	percent, _ := s.Resources.CPU.Percent() // valid, as above
	bytes, _ := s.Resources.Memory.Bytes()
	return Limits{CPU: percent, Memory: bytes}
}
