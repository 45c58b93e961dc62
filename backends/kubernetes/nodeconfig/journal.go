package nodeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"path"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/restart"
)

// Suffix ends the name of every file that Keel writes for a NodeConfig.
const Suffix = ".json"

// JournalDir is where the journals of NodeConfigs lie below the machine's root.
const JournalDir = "/var/lib/keel/restart"

// FileName is the name of a file that Keel writes for a NodeConfig. A name that is
// too long for a file ends in a part of its digest instead, behind a character
// that no other name holds.
func FileName(name string) string {
	const most = 200
	if len(name) > most {
		sum := sha256.Sum256([]byte(name))
		name = name[:most] + "~" + hex.EncodeToString(sum[:16])
	}
	return name + Suffix
}

// Journal is the restart record in a file of JournalDir.
func (m *Machine) Journal(file string) restart.Journal {
	return restart.NewFile(m.Tree, path.Join(JournalDir, file))
}

// Leftover is the target that proves the restarts of a record whose NodeConfig is
// gone, or no longer says what to manage. name is the record's file without Suffix.
func (m *Machine) Leftover(name string) drift.Planner {
	return leftover{m.restarts(name, name+Suffix)}
}

// restarts are those of the NodeConfig of a name, recorded in a file of JournalDir.
func (m *Machine) restarts(name, file string) restarts {
	return restarts{
		name: name, journal: m.Journal(file), run: m.run, forget: m.Handled.Forget,
		proved: func(units int) { m.Proven += units },
	}
}
