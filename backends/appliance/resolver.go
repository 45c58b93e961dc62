package appliance

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	apispec "github.com/tlspu/keel/api/appliance"
	"github.com/tlspu/keel/core/drift"
)

// maxServers is how many nameservers of a resolv.conf the resolver of the C
// library asks; it passes over those that follow.
const maxServers = 3

// A server is a nameserver as a file names it.
type server struct {
	netip.Addr
	word   string // the address as it is written
	source string // the file
}

// inetAton reads an IPv4 address as the C library's inet_aton does: one to four
// numbers in decimal, octal (017) or hexadecimal (0x0f), the last one filling what
// is left of the 32 bits.
func inetAton(s string) (a netip.Addr, ok bool) {
	parts := strings.Split(s, ".")
	if len(parts) > 4 {
		return a, false
	}
	var all uint64
	for i, part := range parts {
		bits := 8
		if i == len(parts)-1 {
			bits = 8 * (5 - len(parts))
		}
		// ParseUint takes 0b, 0o and _ too, which the C library does not.
		if part == "" || part[0] < '0' || part[0] > '9' || len(part) > 1 && strings.ContainsAny(part[1:2], "bBoO") || strings.Contains(part, "_") {
			return a, false
		}
		n, err := strconv.ParseUint(part, 0, bits)
		if err != nil {
			return a, false
		}
		all = all<<bits | n
	}
	return netip.AddrFrom4([4]byte{byte(all >> 24), byte(all >> 16), byte(all >> 8), byte(all)}), true
}

// readServer reads the address of a server as resolvers do; ok is false for what
// they pass over.
func readServer(source, word string) (s server, ok bool) {
	a, err := apispec.ParseAddress(word)
	if err != nil {
		if a, ok = inetAton(word); !ok {
			return s, false
		}
	}
	return server{a, word, source}, true
}

// resolvers returns the nameservers of a resolv.conf in order, read as the C
// library does: the keyword is the first thing on its line, blanks are space and
// tab, and what is no address is passed over. The note names the first line that
// is passed over although a person reads an address in it.
func resolvers(source, text string) (found []server, note string) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if s, ok := readServer(source, nameserver(line)); ok {
			found = append(found, s)
			continue
		}
		if seen := strings.Fields(line); note == "" && len(seen) > 1 && seen[0] == "nameserver" {
			if _, ok := readServer(source, seen[1]); ok {
				note = fmt.Sprintf("the resolver passes over line %d of %s: begin it with nameserver, a space and the address, and end it with LF", number, source)
			}
		}
	}
	return found, note
}

// nameserver is what the C library takes for the address in a line of resolv.conf,
// or "".
func nameserver(line string) string {
	rest, ok := strings.CutPrefix(line, "nameserver")
	word := strings.TrimLeft(rest, " \t")
	if !ok || word == rest {
		return ""
	}
	if end := strings.IndexAny(word, " \t\n"); end >= 0 {
		word = word[:end]
	}
	return word
}

// ambiguous is the problem of an address that the C library reads in a way that a
// person may not mean, and other resolvers refuse: 192.0.2.053 is 192.0.2.43.
func ambiguous(servers []server) *drift.Unknown {
	for _, s := range servers {
		if _, err := netip.ParseAddr(s.word); err != nil {
			return &drift.Unknown{Kind: drift.Unsupported, Reason: fmt.Sprintf(
				"%s names %s, which the resolver reads as %v: write four decimal numbers without leading zeros", s.source, s.word, s.Addr)}
		}
	}
	return nil
}

// beyond notes the servers that follow those that are asked.
func beyond(source string, never []server) string {
	if len(never) == 0 {
		return ""
	}
	return fmt.Sprintf("%s also names %s, never asked: the resolver asks the first %d", source, strings.Join(texts(addressesOf(never)), ", "), maxServers)
}

// addressesOf leaves of servers their addresses.
func addressesOf(servers []server) []netip.Addr {
	addresses := make([]netip.Addr, len(servers))
	for i, s := range servers {
		addresses[i] = s.Addr
	}
	return addresses
}
