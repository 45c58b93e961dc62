package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/drift"
)

// Where systemd-resolved writes the servers behind its own address, and that
// address.
const upstreams = "/run/systemd/resolve/resolv.conf"

func isStub(a netip.Addr) bool {
	return a == netip.AddrFrom4([4]byte{127, 0, 0, 53}) || a == netip.AddrFrom4([4]byte{127, 0, 0, 54})
}

// readNameservers reads the servers that the machine asks for names: those of
// the dns-nameservers options of interfaces(5), then those of resolv.conf, each
// once, IPv6 before IPv4. A loopback address is a resolver on this machine,
// which hides the servers that it asks: it is left out and noted.
func readNameservers(_ context.Context, m machine) drift.State {
	at := drift.Path{"network", "nameservers"}
	found, problem := m.nameservers()
	if problem != nil {
		return drift.State{{Path: at, Value: *problem}}
	}
	var value any // nil: there is none
	if len(found.servers) > 0 {
		value = texts(found.servers)
	}
	return drift.State{{Path: at, Value: value, Note: found.note}}
}

// nameservers are the servers found, and what to know before changing them.
type nameservers struct {
	servers []netip.Addr
	note    string
}

func (m machine) nameservers() (nameservers, *drift.Unknown) {
	asked, noted, problem := m.dnsOptions()
	if problem != nil {
		return nameservers{}, problem
	}
	file := m.file("/etc/resolv.conf")
	noFile := file.absent() || !file.ok() && file.problem.Kind == drift.Offline
	if !file.ok() && (!noFile || len(asked) == 0) {
		return nameservers{}, file.problem
	}
	named, odd := resolvers(file.source, file.text)
	first := min(len(named), maxServers)
	asked = append(asked, named[:first]...)
	if problem := ambiguous(asked); problem != nil {
		return nameservers{}, problem
	}
	notes := []string{noted, odd, beyond(file.source, named[first:])}
	servers, local := split(addressesOf(asked))
	switch {
	case len(servers) > 0 && len(local) > 0:
		notes = append(notes, fmt.Sprintf("%s also names %s, a resolver on this machine whose own servers are not seen", file.source, texts(local)[0]))
		return nameservers{servers, sentence(notes)}, nil
	case len(servers) > 0 || len(local) == 0:
		notes = append(notes, writtenBy(file.source, m.writer("/etc/resolv.conf", file.text)))
		return nameservers{servers, sentence(notes)}, nil
	case !slices.ContainsFunc(local, func(a netip.Addr) bool { return !isStub(a) }):
		return m.upstream(file.source, local[0])
	}
	return nameservers{}, &drift.Unknown{
		Kind:   drift.Unsupported,
		Reason: fmt.Sprintf("%s names only %s, a resolver on this machine whose own servers are not seen", file.source, texts(local)[0]),
	}
}

// upstream reads the servers that systemd-resolved asks.
func (m machine) upstream(source string, stub netip.Addr) (nameservers, *drift.Unknown) {
	file := m.file(upstreams)
	switch {
	case file.ok():
		named, _ := resolvers(file.source, file.text)
		servers, _ := split(addressesOf(named)) // it asks all of them
		return nameservers{servers, writtenBy(file.source, "systemd-resolved")}, nil
	case file.absent():
		kind := drift.Absent
		if !m.live {
			kind = drift.Offline
		}
		return nameservers{}, &drift.Unknown{Kind: kind, Reason: fmt.Sprintf(
			"%s names %v, the address of systemd-resolved; %s, where its servers are written at run time, not present", source, stub, file.source)}
	}
	return nameservers{}, file.problem
}

// split tells servers from resolvers on this machine, leaves each once and puts
// IPv6 first.
func split(all []netip.Addr) (servers, local []netip.Addr) {
	for _, a := range all {
		list := &servers
		if a.Unmap().IsLoopback() || a.IsUnspecified() { // resolvers take 0.0.0.0 for themselves
			list = &local
		}
		if !slices.Contains(*list, a) {
			*list = append(*list, a)
		}
	}
	slices.SortStableFunc(servers, func(a, b netip.Addr) int { return family(a) - family(b) })
	return servers, local
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 1
	}
	return 0
}

// dnsOptions returns the dns-nameservers of interfaces(5), in the order of the
// stanzas. They reach resolv.conf only through a program of resolvconf(8); where
// none is installed they have no effect, which is noted.
func (m machine) dnsOptions() (found []server, note string, problem *drift.Unknown) {
	statements, problem := m.interfaces()
	if problem != nil {
		return nil, "", problem
	}
	for _, s := range statements {
		if s.words[0] != "iface" {
			continue
		}
		for _, option := range s.options {
			if option[0] != "dns-nameservers" && option[0] != "dns-nameserver" {
				continue
			}
			for _, word := range option[1:] {
				if a, ok := readServer(s.source, word); ok {
					found = append(found, a)
				}
			}
		}
	}
	if len(found) == 0 {
		return nil, "", nil
	}
	installed, problem := m.resolvconf()
	if problem != nil {
		return nil, "", problem
	}
	if !installed {
		return nil, fmt.Sprintf("dns-nameservers in %s has no effect: no resolvconf is installed", found[0].source), nil
	}
	return found, "", nil
}

// resolvconf reports whether a program is installed that brings dns-nameservers to
// the resolver: resolvconf, openresolv, systemd's, or ifupdown's own script for
// systemd-resolved.
func (m machine) resolvconf() (bool, *drift.Unknown) {
	for _, name := range []string{"/sbin/resolvconf", "/usr/sbin/resolvconf", "/etc/network/if-up.d/resolved"} {
		_, err := m.files.Stat(name)
		switch {
		case err == nil:
			return true, nil
		case !errors.Is(err, fs.ErrNotExist):
			return false, problem(m.shown(name), err)
		}
	}
	return false, nil
}

// writer names the program that writes resolv.conf, by where the file is or by
// what its comments say; "" when a person may have written it.
func (m machine) writer(name, text string) string {
	target := m.destination(name)
	var comments strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.Trim(line, blanks); strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
			comments.WriteString(strings.ToLower(line) + "\n")
		}
	}
	for _, w := range []struct{ name, folder, mark string }{
		{"systemd-resolved", "/run/systemd/resolve/", "managed by man:systemd-resolved"},
		{"resolvconf", "/run/resolvconf/", "resolvconf"},
		{"NetworkManager", "/run/NetworkManager/", "generated by networkmanager"},
		{"connman", "/run/connman/", "generated by connection manager"},
		{"dhcpcd", "/run/dhcpcd/", "generated by dhcpcd"},
		{"tailscale", "/run/tailscale/", "generated by tailscale"},
	} {
		if strings.HasPrefix(target, w.folder) || strings.Contains(comments.String(), w.mark) {
			return w.name
		}
	}
	return ""
}

func writtenBy(source, program string) string {
	if program == "" {
		return ""
	}
	return fmt.Sprintf("%s is written by %s: change the servers there", source, program)
}

// sentence joins what is to be noted; what is empty is nothing.
func sentence(notes []string) string {
	return strings.Join(slices.DeleteFunc(notes, func(note string) bool { return note == "" }), "; ")
}

func texts(addresses []netip.Addr) []string {
	words := make([]string, len(addresses))
	for i, a := range addresses {
		words[i] = a.String()
	}
	return words
}
