package appliance

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	apispec "github.com/tlspu/keel/api/appliance"
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
	options, problem := m.dnsOptions()
	if problem != nil {
		return nameservers{}, problem
	}
	file := m.file("/etc/resolv.conf")
	noFile := file.absent() || !file.ok() && file.problem.Kind == drift.Offline
	if !file.ok() && (!noFile || len(options) == 0) {
		return nameservers{}, file.problem
	}
	servers, local := split(append(options, resolvers(file.text)...))
	writer := m.writer("/etc/resolv.conf", file.text)
	switch {
	case len(servers) > 0 && len(local) > 0:
		return nameservers{servers, fmt.Sprintf("%s also names %s, a resolver on this machine whose own servers are not seen", file.source, texts(local)[0])}, nil
	case len(servers) > 0 || len(local) == 0:
		return nameservers{servers, writtenBy(file.source, writer)}, nil
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
		servers, _ := split(resolvers(file.text))
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

// resolvers returns the nameservers of a resolv.conf in order. What is no
// address is left out, as resolvers do.
func resolvers(text string) []netip.Addr {
	var found []netip.Addr
	for _, line := range lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		if a, err := apispec.ParseAddress(words[1]); err == nil {
			found = append(found, a)
		}
	}
	return found
}

// dnsOptions returns the dns-nameservers of interfaces(5), in the order of the
// stanzas.
func (m machine) dnsOptions() ([]netip.Addr, *drift.Unknown) {
	statements, problem := m.interfaces()
	if problem != nil {
		return nil, problem
	}
	var found []netip.Addr
	for _, s := range statements {
		if s.words[0] != "iface" {
			continue
		}
		for _, option := range s.options {
			if option[0] != "dns-nameservers" && option[0] != "dns-nameserver" {
				continue
			}
			for _, word := range option[1:] {
				if a, err := apispec.ParseAddress(word); err == nil {
					found = append(found, a)
				}
			}
		}
	}
	return found, nil
}

// writer names the program that writes resolv.conf, by where the file is or by
// what its comments say; "" when a person may have written it.
func (m machine) writer(name, text string) string {
	target := m.destination(name)
	var comments strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
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

func texts(addresses []netip.Addr) []string {
	words := make([]string, len(addresses))
	for i, a := range addresses {
		words[i] = a.String()
	}
	return words
}
