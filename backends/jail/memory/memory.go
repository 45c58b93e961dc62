// Package memory is a driver that keeps jails in memory, as strict as a real
// host: for tests, and as the model of what a driver promises.
package memory

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/tlspu/keel/backends/jail"
)

// A Machine is a host in memory. Every Driver of it sees the same state, so
// that an agent that starts again finds what an earlier one made. It is safe for
// concurrent use.
type Machine struct {
	mu     sync.Mutex
	state  state
	save   func([]byte) error
	faults map[[2]string]error // by operation and object
}

// state is what a snapshot holds.
type state struct {
	Serial   int // of the newest dataset
	Jails    map[string]*cell
	Limits   map[string]jail.Limits
	Datasets map[string]*dataset
	Mounts   []jail.Mounted
	Bridges  map[string][]netip.Prefix
	Links    map[string]jail.Link
	Foreign  []string // links that are not Keel's
}

type cell struct {
	Root   string
	Alive  bool
	Exit   *int
	Starts int
}

type dataset struct {
	Serial int
	Quota  int64
	Busy   bool
}

// New returns an empty machine.
func New() *Machine {
	return &Machine{faults: map[[2]string]error{}, state: state{
		Jails:    map[string]*cell{},
		Limits:   map[string]jail.Limits{},
		Datasets: map[string]*dataset{},
		Bridges:  map[string][]netip.Prefix{},
		Links:    map[string]jail.Link{},
	}}
}

// Load returns the machine of a snapshot, an empty one of an empty snapshot. It
// gives save a snapshot after every change, before the call that made it returns:
// who keeps them finds after a crash what a real host would still have.
func Load(snapshot []byte, save func([]byte) error) (*Machine, error) {
	m := New()
	m.save = save
	if len(snapshot) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(snapshot, &m.state); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	return m, nil
}

// Driver returns the facilities of the machine.
func (m *Machine) Driver() jail.Driver {
	return jail.Driver{Jails: jails{m}, Datasets: datasets{m}, Mounts: mounts{m}, Network: network{m}}
}

// read runs f under the lock, unless a fault is set for op.
func (m *Machine) read(op string, f func(*state)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.faults[[2]string{op, ""}]; err != nil {
		return err
	}
	f(&m.state)
	return nil
}

// change runs f under the lock, unless a fault is set for op on object, and
// saves a snapshot, also after an error: it may have left parts.
func (m *Machine) change(op, object string, f func(*state) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.faults[[2]string{op, object}]
	if err == nil {
		err = f(&m.state)
	}
	if err != nil {
		err = fmt.Errorf("%s %s: %w", op, object, err)
	}
	if m.save == nil {
		return err
	}
	snapshot, jsonErr := json.Marshal(&m.state)
	if jsonErr == nil {
		jsonErr = m.save(snapshot)
	}
	if jsonErr != nil {
		return fmt.Errorf("save snapshot: %w", jsonErr)
	}
	return err
}

// Fail makes an operation fail, until it is called again with a nil error. The
// operations are the first words of the errors of this driver, as "start", and
// "list jails", "list limits", "list datasets", "list mounts" and "list network",
// which have no object.
func (m *Machine) Fail(op, object string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults[[2]string{op, object}] = err
}

// AddImage puts an image there.
func (m *Machine) AddImage(name string) error {
	return m.change("add image", name, func(s *state) error {
		s.add(name, 0)
		return nil
	})
}

// AddForeignLink puts a link there that is not Keel's.
func (m *Machine) AddForeignLink(name string) error {
	return m.change("add link", name, func(s *state) error {
		s.Foreign = append(s.Foreign, name)
		return nil
	})
}

// MarkExited ends the process of a jail with a status.
func (m *Machine) MarkExited(name string, status int) error {
	return m.change("mark exited", name, func(s *state) error {
		c, ok := s.Jails[name]
		if !ok {
			return jail.ErrNotFound
		}
		c.Alive, c.Exit = false, &status
		return nil
	})
}

// MarkBusy makes a process of the host use a dataset, or no longer.
func (m *Machine) MarkBusy(name string, busy bool) error {
	return m.change("mark busy", name, func(s *state) error {
		d, ok := s.Datasets[name]
		if !ok {
			return jail.ErrNotFound
		}
		d.Busy = busy
		return nil
	})
}

// ForgetExits is the death of the agent, which waited for the processes: how
// they ended is no longer known.
func (m *Machine) ForgetExits() error {
	return m.change("forget", "exits", func(s *state) error {
		for _, c := range s.Jails {
			c.Exit = nil
		}
		return nil
	})
}

// Reboot starts the host again: only its datasets are still there.
func (m *Machine) Reboot() error {
	return m.change("reboot", "host", func(s *state) error {
		clear(s.Jails)
		clear(s.Limits)
		clear(s.Bridges)
		clear(s.Links)
		s.Mounts, s.Foreign = nil, nil
		for _, d := range s.Datasets {
			d.Busy = false
		}
		return nil
	})
}

// Serial tells one dataset from a later one of the same name; 0 is no such
// dataset.
func (m *Machine) Serial(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.state.Datasets[name]; ok {
		return d.Serial
	}
	return 0
}

// Starts is how often a command was started in a jail since it was made.
func (m *Machine) Starts(name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.state.Jails[name]; ok {
		return c.Starts
	}
	return 0
}

// Contents lists everything on the machine, a line each, in order: what a test
// of leftovers compares.
func (m *Machine) Contents() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for name, c := range m.state.Jails {
		add("jail %s alive=%v", name, c.Alive)
	}
	for name, l := range m.state.Limits {
		add("limits %s cpu=%d memory=%d", name, l.CPU, l.Memory)
	}
	for name, d := range m.state.Datasets {
		add("dataset %s quota=%d", name, d.Quota)
	}
	for _, mounted := range m.state.Mounts {
		add("mount %s on %s", mounted.Source, mounted.Target)
	}
	for name, l := range m.state.Links {
		add("link %s of %s on %s address=%s", name, l.Jail, l.Bridge, l.Address)
	}
	for _, name := range slices.Sorted(maps.Keys(m.state.Bridges)) {
		add("bridge %s %v", name, m.state.Bridges[name])
	}
	slices.Sort(lines)
	return lines
}
