package facts

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 192.0.2.0\n        /24 link UNICAST\n" +
	"     |-- 192.0.2.10\n        /32 host LOCAL\n     |-- 192.0.2.255\n        /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\n"

// six is a table of IPv6 addresses: one that others reach, one of a link, one of lo.
const six = "20010db8000000000000000000000010 02 40 00 80     eth0\nfe800000000000000000000000000001 02 40 20 80     eth0\n" +
	"00000000000000000000000000000001 01 80 10 80       lo\n"

func machine() map[string]string {
	return map[string]string{
		"proc/self/ns/uts": "-> uts:[1]", "proc/1/ns/uts": "-> uts:[1]",
		"proc/sys/kernel/hostname": "web-1\n", "etc/hostname": "old\n",
		"proc/meminfo": "MemTotal:       16384 kB\nMemFree: 1 kB\n", "sys/devices/system/cpu/online": "0-2,5\n",
		"proc/1/net/fib_trie": trie + trie,
	}
}

func TestAddMachine(t *testing.T) {
	const unknown = " is not known: " + notGiven
	for _, tt := range []struct {
		name   string
		change map[string]string // of the machine; "": the file is not there
		given  string
		want   map[string]any
	}{
		{"all of it", nil, "", map[string]any{
			"Node.Hostname": "web-1", "Node.InternalIP": "192.0.2.10", "Node.Addresses": []Address{{"InternalIP", "192.0.2.10"}},
			"Node.Capacity": map[string]string{"cpu": "4", "memory": "16384Ki"}, "Node.Name": ".Node.Name" + unknown, "Node.Allocatable": ".Node.Allocatable" + unknown,
		}},
		{"several addresses", map[string]string{"proc/1/net/if_inet6": six}, "", map[string]any{
			"Node.InternalIP": ".Node.InternalIP" + unknown,
			"Node.Addresses":  []Address{{"InternalIP", "192.0.2.10"}, {"InternalIP", "2001:db8::10"}},
		}},
		{"in a container, the kernel tells its name", map[string]string{"proc/self/ns/uts": "-> uts:[2]"}, "", map[string]any{"Node.Hostname": "old"}},
		{"a pattern is no name", map[string]string{"proc/self/ns/uts": "", "etc/hostname": "edge-????\n"}, "", map[string]any{"Node.Hostname": ".Node.Hostname" + unknown}},
		{"a disk", map[string]string{
			"proc/self/ns/uts": "", "proc/1/ns/uts": "", "proc/meminfo": "", "sys/devices/system/cpu/online": "", "proc/1/net/fib_trie": "",
		}, "", map[string]any{"Node.Hostname": "old", "Node.Addresses": ".Node.Addresses" + unknown, "Node.Capacity": ".Node.Capacity" + unknown}},
		{"half a capacity is none", map[string]string{"proc/meminfo": "MemFree: 1 kB\n"}, "", map[string]any{"Node.Capacity": ".Node.Capacity" + unknown}},
		{"what a file gives", nil, "node: {hostname: given, capacity: {cpu: '9'}, internalIP: null, addresses: [{type: ExternalIP, address: 1.2.3.4}]}\n", map[string]any{
			"Node.Hostname": "given", "Node.Capacity": map[string]string{"cpu": "9"}, "Node.InternalIP": ".Node.InternalIP: this node has none",
			"Node.Addresses": []Address{{"ExternalIP", "1.2.3.4"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := machine()
			for name, content := range tt.change {
				if files[name] = content; content == "" {
					delete(files, name)
				}
			}
			view := root(t, files)
			f := FromHost(view)
			given, err := Parse([]byte(tt.given))
			if err != nil {
				t.Fatal(err)
			}
			f.Add(given)
			f.AddMachine(view)
			var names []string
			for name := range tt.want {
				names = append(names, name)
			}
			if diff := cmp.Diff(tt.want, got(f, names...)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}
