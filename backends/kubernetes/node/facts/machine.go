package facts

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tlspu/keel/core/host"
)

const (
	// maxTable bounds what is read of the tables of addresses.
	maxTable = 16 << 20

	internalIP = "InternalIP"
)

// AddMachine fills in what no Node object and no file gave and the machine itself
// tells: its name, its addresses, and how many processors and how much memory it
// has. What the machine does not tell stays as it is.
func (f *Facts) AddMachine(files *host.View) {
	unknown := func(fact string) bool { return f.reason(fact) != "" }
	if f.Node.Hostname == "" && unknown("Node.Hostname") {
		f.Node.Hostname = hostname(files)
	}
	if list := addresses(files); len(f.Node.Addresses) == 0 && unknown("Node.Addresses") && len(list) > 0 {
		for _, a := range list {
			f.Node.Addresses = append(f.Node.Addresses, Address{internalIP, a.String()})
		}
		// Which of several is meant nobody can tell.
		if f.Node.InternalIP == "" && unknown("Node.InternalIP") && len(list) == 1 {
			f.Node.InternalIP = list[0].String()
		}
	}
	if len(f.Node.Capacity) == 0 && unknown("Node.Capacity") {
		f.Node.Capacity = capacity(files)
	}
}

// hostname is the kernel's name of the machine. A container on it has another one,
// which the kernel tells whoever asks from there: then, and where no kernel runs,
// it is the name that /etc/hostname gives at boot.
func hostname(files *host.View) string {
	own, err := files.Readlink("/proc/self/ns/uts")
	machines, other := files.Readlink("/proc/1/ns/uts")
	name := ""
	if err == nil && other == nil && own == machines {
		name = oneWord(files, "/proc/sys/kernel/hostname")
	}
	if name == "" || name == "(none)" {
		name = oneWord(files, "/etc/hostname")
	}
	if strings.Contains(name, "?") { // systemd fills that in
		return ""
	}
	return name
}

// oneWord is the text of a file that holds one word, else "".
func oneWord(files *host.View, path string) string {
	data, err := files.Read(path, maxKernel)
	text := strings.Trim(string(data), " \t\r\n")
	if err != nil || plain(text) != nil || strings.ContainsAny(text, " #") {
		return ""
	}
	return text
}

// capacity is the number of processors that are online and the memory, as a
// kubelet writes them; nil unless both are told.
func capacity(files *host.View) map[string]string {
	online, err := files.Read("/sys/devices/system/cpu/online", maxKernel)
	cpus, ok := count(strings.TrimSpace(string(online)))
	if err != nil || !ok {
		return nil
	}
	data, err := files.Read("/proc/meminfo", maxRelease)
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(data)) {
		var kib uint64
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kib); n == 1 {
			return map[string]string{"cpu": strconv.Itoa(cpus), "memory": strconv.FormatUint(kib, 10) + "Ki"}
		}
	}
	return nil
}

// count is how many numbers a list such as 0-3,6 has.
func count(list string) (n int, ok bool) {
	for part := range strings.SplitSeq(list, ",") {
		from, to, more := strings.Cut(part, "-")
		if !more {
			to = from
		}
		first, err := strconv.ParseUint(from, 10, 16)
		last, wrong := strconv.ParseUint(to, 10, 16)
		if err != nil || wrong != nil || last < first {
			return 0, false
		}
		n += int(last-first) + 1
	}
	return n, true
}

// addresses are those of the machine that others can reach it by, IPv4 first, as
// the network namespace of its first process has them.
func addresses(files *host.View) (list []netip.Addr) {
	trie, err := files.Read("/proc/1/net/fib_trie", maxTable)
	if err != nil {
		return nil
	}
	last := netip.Addr{}
	for line := range strings.Lines(string(trie)) {
		words := strings.Fields(line)
		switch {
		case len(words) == 2 && words[0] == "|--":
			last, _ = netip.ParseAddr(words[1])
		case slices.Equal(words, []string{"/32", "host", "LOCAL"}) && last.IsValid() && !last.IsLoopback() && !slices.Contains(list, last):
			list = append(list, last)
		}
	}
	six, _ := files.Read("/proc/1/net/if_inet6", maxTable) // not there: no IPv6
	for line := range strings.Lines(string(six)) {
		words := strings.Fields(line)
		if len(words) != 6 || words[3] != "00" { // of a link, or of the machine to itself
			continue
		}
		if bytes, err := hex.DecodeString(words[0]); err == nil && len(bytes) == 16 {
			list = append(list, netip.AddrFrom16([16]byte(bytes)))
		}
	}
	slices.SortFunc(list, netip.Addr.Compare)
	return list
}
