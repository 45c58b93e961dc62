package appliance

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// printable returns s as it is, or quoted where it holds what would spoil a line.
func printable(s string) string {
	odd := func(r rune) bool { return r == unicode.ReplacementChar || !unicode.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// text shows a value in an error.
func text(n node) string {
	switch {
	case n.kind == list:
		return "a list"
	case n.kind == mapping:
		return "a mapping"
	case n.scalar == nil:
		return "nothing"
	}
	return printable(fmt.Sprint(n.scalar))
}

func isVersion(n node) []string {
	if n.scalar != int64(Version) {
		return []string{fmt.Sprintf("must be %d", Version)}
	}
	return nil
}

func isOneOf(words ...string) func(node) []string {
	return func(n node) []string {
		if s, ok := n.scalar.(string); ok && slices.Contains(words, s) {
			return nil
		}
		return []string{"must be " + strings.Join(words, " or ")}
	}
}

func isDomain(n node) []string {
	s, ok := n.scalar.(string)
	switch {
	case !ok || strings.TrimSpace(s) == "":
		return []string{"must be a domain name"}
	case !IsDomain(s):
		return []string{fmt.Sprintf("domain %q is invalid", s)}
	}
	return nil
}

// IsDomain reports that s is a domain name, with or without blanks around it
// and dots at its end: at most 253 characters, in labels of 1 to 63 letters,
// digits and hyphens, none with a hyphen at an end.
func IsDomain(s string) bool {
	s = strings.TrimRight(strings.TrimSpace(s), ".")
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if len(label) < 1 || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		if strings.ContainsFunc(label, notLabel) {
			return false
		}
	}
	return true
}

func notLabel(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-':
		return false
	}
	return true
}

func isAddressList(n node) []string {
	if n.kind != list {
		return []string{"must be a list"}
	}
	var wrong []string
	for _, item := range n.items {
		s, ok := item.scalar.(string)
		if _, err := ParseAddress(s); !ok || err != nil {
			wrong = append(wrong, text(item)+" is not an address")
		}
	}
	return wrong
}

// ParseAddress reads an IPv4 or IPv6 literal. An IPv6 one may name its zone, as
// in fe80::1%eth0; the zone is the name or number of an interface.
func ParseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("parse address: %w", err)
	}
	bad := func(r rune) bool { return r == '/' || r == '%' || unicode.IsSpace(r) || !unicode.IsPrint(r) }
	if strings.ContainsFunc(a.Zone(), bad) {
		return netip.Addr{}, fmt.Errorf("parse address: zone %q names no interface", a.Zone())
	}
	return a, nil
}
