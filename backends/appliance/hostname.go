package appliance

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"unicode"

	"github.com/tlspu/keel/core/drift"
)

// readHostname reads the name the machine takes at boot.
func readHostname(_ context.Context, m machine) drift.State {
	name, problem := m.hostname()
	if problem != nil {
		return drift.State{{Path: drift.Path{"instance", "hostname"}, Value: *problem}}
	}
	return drift.State{{Path: drift.Path{"instance", "hostname"}, Value: name}}
}

// hostname is the first word of the first line that is no comment.
func (m machine) hostname() (string, *drift.Unknown) {
	file := m.file("/etc/hostname")
	if !file.ok() {
		return "", file.problem
	}
	all := lines(file.text)
	if len(all) == 0 {
		return "", &drift.Unknown{Kind: drift.Absent, Reason: file.source + " file is empty"}
	}
	name := words(all[0])[0]
	if strings.ContainsFunc(name, unprintable) {
		return "", &drift.Unknown{Kind: drift.Malformed, Reason: file.source + " holds no name: its first word is not text"}
	}
	if strings.Contains(name, "?") {
		return "", &drift.Unknown{Kind: drift.Unsupported, Reason: fmt.Sprintf("%s holds a pattern, %s: systemd fills in a hexadecimal digit for each ? at boot", file.source, name)}
	}
	return name, nil
}

func unprintable(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }

// readFQDN reads the name that a resolver gives for the host name: what
// /etc/hosts answers, else, on the running system, what "hostname -f" does,
// else a host name that has its domain.
func readFQDN(ctx context.Context, m machine) drift.State {
	at := drift.Path{"instance", "fqdn"}
	name, problem := m.fqdn(ctx)
	if problem != nil {
		return drift.State{{Path: at, Value: *problem}}
	}
	return drift.State{{Path: at, Value: name}}
}

func (m machine) fqdn(ctx context.Context) (string, *drift.Unknown) {
	name, problem := m.hostname()
	if problem != nil {
		return "", &drift.Unknown{Kind: problem.Kind, Reason: "no hostname to look up: " + problem.Reason}
	}
	hosts := m.file("/etc/hosts")
	if !hosts.ok() && !hosts.absent() {
		return "", hosts.problem // what it holds would come first
	}
	found := lookup(hosts.text, name)
	if fqdn := found.fqdn(); fqdn != "" {
		return fqdn, nil
	}
	asked := m.command(ctx, "hostname", "-f")
	said := firstWord(asked.text)
	if asked.ok() && qualified(said) {
		return said, nil
	}
	if found.line == 0 && qualified(name) {
		return name, nil
	}

	kind, reasons := drift.Absent, make([]string, 0, 3)
	switch {
	case hosts.absent():
		reasons = append(reasons, hosts.problem.Reason)
	case found.full != "":
		reasons = append(reasons, fmt.Sprintf("%s has no fully qualified name for %s: line %d answers for it, with %s, before %s",
			hosts.source, name, found.line, found.canonical, found.full))
	default:
		reasons = append(reasons, fmt.Sprintf("%s has no fully qualified name for %s", hosts.source, name))
	}
	if asked.ok() {
		reasons = append(reasons, fmt.Sprintf("%s answered %q", asked.source, said))
	} else {
		kind = asked.problem.Kind
		reasons = append(reasons, asked.problem.Reason)
	}
	reasons = append(reasons, "the system phase of apply writes it (spec apply --system-only)")
	return "", &drift.Unknown{Kind: kind, Reason: strings.Join(reasons, "; ")}
}

// qualified reports whether a name has a domain.
func qualified(name string) bool {
	return strings.Contains(strings.TrimRight(name, "."), ".") && !strings.ContainsFunc(name, unprintable)
}

func firstWord(text string) string {
	line, _, _ := strings.Cut(strings.Trim(text, blanks), "\n")
	if found := words(line); len(found) > 0 {
		return found[0]
	}
	return ""
}

// entries is what /etc/hosts says about one name.
type entries struct {
	canonical string // the first name of the first line that carries the name
	line      int    // that line's number; 0: no line carries it
	full      string // the first name in the file that has it as first label, and a domain
}

// fqdn is what a resolver answers: the canonical name, if that has a domain.
// Where no line carries the name itself, nobody who asks for it is answered from
// the file, and its full name there stands uncontradicted.
func (e entries) fqdn() string {
	switch {
	case e.line == 0:
		return e.full
	case qualified(e.canonical):
		return e.canonical
	}
	return ""
}

// lookup reads /etc/hosts as a resolver does: names end at a "#", a line without
// an address is none, and the first line that carries name answers for it.
func lookup(hosts, name string) entries {
	var found entries
	number := 0
	for text := range strings.Lines(hosts) {
		number++
		text, _, _ = strings.Cut(text, "#")
		line := words(text)
		if len(line) < 2 || !isAddress(line[0]) {
			continue
		}
		for _, word := range line[1:] {
			if found.line == 0 && strings.EqualFold(word, name) {
				found.canonical, found.line = line[1], number
			}
			label, _, _ := strings.Cut(word, ".")
			if found.full == "" && qualified(word) && strings.EqualFold(label, name) {
				found.full = word
			}
		}
	}
	return found
}

// isAddress reports what inet_pton takes for an address: it knows no zones.
func isAddress(s string) bool {
	a, err := netip.ParseAddr(s)
	return err == nil && a.Zone() == ""
}
