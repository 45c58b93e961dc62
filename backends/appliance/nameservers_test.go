package appliance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadNameservers(t *testing.T) {
	resolv := func(text string) tree { return tree{"etc/resolv.conf": text} }
	for _, tt := range []struct {
		name       string
		tree       tree
		want, note string
	}{
		{"one", resolv("nameserver 192.0.2.53\n"), "192.0.2.53", ""},
		{"IPv6 first, else in order", resolv("nameserver 192.0.2.54\nnameserver 2001:db8::2\nnameserver 2001:db8::1\n"), "2001:db8::2, 2001:db8::1, 192.0.2.54", ""},
		{"each once", resolv("nameserver 2001:db8::1\nnameserver 2001:DB8:0::1\nnameserver 192.0.2.53\n"), "2001:db8::1, 192.0.2.53", ""},
		{
			"three are asked", resolv("nameserver 192.0.2.4\nnameserver 192.0.2.3\nnameserver x\nnameserver 192.0.2.3\nnameserver 192.0.2.2\nnameserver 2001:db8::1\n"),
			"192.0.2.4, 192.0.2.3", "ROOT/etc/resolv.conf also names 192.0.2.2, 2001:db8::1, never asked: the resolver asks the first 3",
		},
		{
			"three are asked, resolvers on this machine among them", resolv("nameserver 127.0.0.1\nnameserver ::1\nnameserver 127.0.0.1\nnameserver 192.0.2.2\n"),
			"unsupported: ROOT/etc/resolv.conf names only 127.0.0.1, a resolver on this machine whose own servers are not seen", "",
		},
		{"blanks before the keyword", resolv(" nameserver 192.0.2.53\n\tnameserver 192.0.2.54\nnameserver 192.0.2.55\n"), "192.0.2.55", "the resolver passes over line 1 of ROOT/etc/resolv.conf: begin it with nameserver, a space and the address, and end it with LF"},
		{"only space and tab are blanks", resolv("nameserver\v192.0.2.1\nnameserver 192.0.2.2\f\nnameserver \t 192.0.2.3\t; x\n"), "192.0.2.3", "the resolver passes over line 1 of ROOT/etc/resolv.conf: begin it with nameserver, a space and the address, and end it with LF"},
		{"a no-break space is no blank", resolv("nameserver\u00a0192.0.2.1\nnameserver 192.0.2.2\u00a0\nnameserver 192.0.2.3\n"), "192.0.2.3", "the resolver passes over line 1 of ROOT/etc/resolv.conf: begin it with nameserver, a space and the address, and end it with LF"},
		{
			"a leading zero is octal", resolv("nameserver 192.0.2.1\nnameserver 192.000.002.053\n"),
			"unsupported: ROOT/etc/resolv.conf names 192.000.002.053, which the resolver reads as 192.0.2.43: write four decimal numbers without leading zeros", "",
		},
		{
			"loopback, in octal", resolv("nameserver 127.0.0.01\n"),
			"unsupported: ROOT/etc/resolv.conf names 127.0.0.01, which the resolver reads as 127.0.0.1: write four decimal numbers without leading zeros", "",
		},
		{"octal where nobody asks", resolv("nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.010\n"), "192.0.2.1, 192.0.2.2, 192.0.2.3", "ROOT/etc/resolv.conf also names 192.0.2.8, never asked: the resolver asks the first 3"},
		{
			"a CR is part of the address", resolv("nameserver 192.0.2.1\r\nnameserver 192.0.2.2\n"),
			"192.0.2.2", "the resolver passes over line 1 of ROOT/etc/resolv.conf: begin it with nameserver, a space and the address, and end it with LF",
		},
		{"with a zone", resolv("search example.org\nnameserver 192.0.2.53\nnameserver fe80::c256:27ff:fe00:53%eth0\n"), "fe80::c256:27ff:fe00:53%eth0, 192.0.2.53", ""},
		{"one address in two zones", resolv("nameserver fe80::1%eth0\nnameserver fe80::1%eth1\n"), "fe80::1%eth0, fe80::1%eth1", ""},
		{"CRLF, tabs, comments", resolv("# a\r\n; b\r\n\r\nnameserver\t192.0.2.53 # home\r\n#nameserver 192.0.2.55\r\n"), "192.0.2.53", ""},
		{"no address", resolv("nameserver dns.example.org\nnameserver\nnameserver 192.0.2.300\nnameserver 192.0.2.53\n"), "192.0.2.53", ""},
		{"other keywords", resolv("nameservers 192.0.2.1\noptions nameserver 192.0.2.1\ndomain 192.0.2.1\n"), "nothing", ""},
		{"empty", resolv(""), "nothing", ""},
		{"not UTF-8", resolv("\xff\xfe\nnameserver 192.0.2.53\nnameserver 192.0.2.\xff\n"), "192.0.2.53", ""},
		{"absent", tree{"etc": "directory"}, "absent: ROOT/etc/resolv.conf not present", ""},
		{"a directory", tree{"etc/resolv.conf": "directory"}, "malformed: ROOT/etc/resolv.conf not readable: is a directory, not a regular file", ""},
		{"a resolver on this machine", resolv("nameserver 127.0.0.1\nnameserver ::1\n"), "unsupported: ROOT/etc/resolv.conf names only 127.0.0.1, a resolver on this machine whose own servers are not seen", ""},
		{"no address in particular", resolv("nameserver 0.0.0.0\n"), "unsupported: ROOT/etc/resolv.conf names only 0.0.0.0, a resolver on this machine whose own servers are not seen", ""},
		{
			"a resolver on this machine beside a server", resolv("nameserver 127.0.0.53\nnameserver 192.0.2.2\n"),
			"192.0.2.2", "ROOT/etc/resolv.conf also names 127.0.0.53, a resolver on this machine whose own servers are not seen",
		},
		{
			"link out of an offline root, to what is not there", tree{"etc/resolv.conf": "-> /run/systemd/resolve/stub-resolv.conf"},
			"offline: ROOT/etc/resolv.conf leads to /run/systemd/resolve/stub-resolv.conf, which is written at run time: not present", "",
		},
		{
			"links of links, relative", tree{"etc/resolv.conf": "-> resolvconf/run/resolv.conf", "etc/resolvconf/run": "-> ../../run/resolvconf"},
			"offline: ROOT/etc/resolv.conf leads to /run/resolvconf/resolv.conf, which is written at run time: not present", "",
		},
		{
			"var/run is run", tree{"etc/resolv.conf": "-> ../var/run/NetworkManager/resolv.conf", "var/run": "-> /run"},
			"offline: ROOT/etc/resolv.conf leads to /run/NetworkManager/resolv.conf, which is written at run time: not present", "",
		},
		{"link to nothing", tree{"etc/resolv.conf": "-> /srv/resolv.conf"}, "absent: ROOT/etc/resolv.conf leads to /srv/resolv.conf: not present", ""},
		{
			"the stub of systemd-resolved", tree{
				"etc/resolv.conf":                      "-> ../run/systemd/resolve/stub-resolv.conf",
				"run/systemd/resolve/stub-resolv.conf": "nameserver 127.0.0.53\noptions edns0 trust-ad\n",
				"run/systemd/resolve/resolv.conf":      "# managed by man:systemd-resolved(8)\nnameserver 192.0.2.53\nnameserver 2001:db8::53\n",
			},
			"2001:db8::53, 192.0.2.53", "ROOT/run/systemd/resolve/resolv.conf is written by systemd-resolved: change the servers there",
		},
		{
			"the stub of systemd-resolved, copied", resolv("nameserver 127.0.0.53\n"),
			"offline: ROOT/etc/resolv.conf names 127.0.0.53, the address of systemd-resolved; ROOT/run/systemd/resolve/resolv.conf, where its servers are written at run time, not present", "",
		},
		{
			"written by resolvconf", resolv("# Dynamic resolv.conf(5) file for glibc resolver(3) generated by resolvconf(8)\nnameserver 192.0.2.53\n"),
			"192.0.2.53", "ROOT/etc/resolv.conf is written by resolvconf: change the servers there",
		},
		{
			"written by NetworkManager", resolv("# Generated by NetworkManager\nnameserver 192.0.2.53\n"),
			"192.0.2.53", "ROOT/etc/resolv.conf is written by NetworkManager: change the servers there",
		},
		{
			"written by systemd-resolved, without its stub", tree{
				"etc/resolv.conf":                 "-> /run/systemd/resolve/resolv.conf",
				"run/systemd/resolve/resolv.conf": "nameserver 192.0.2.53\n",
			},
			"192.0.2.53", "ROOT/etc/resolv.conf is written by systemd-resolved: change the servers there",
		},
		{"a program named in no comment", resolv("search resolvconf.example.org\nnameserver 192.0.2.53\n"), "192.0.2.53", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.tree.write(t)
			s := readNameservers(t.Context(), machineAt(t, root, nil))
			if got := said(root, s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := strings.ReplaceAll(s[0].Note, root, "ROOT"); got != tt.note {
				t.Errorf("got note  %s\nwant note %s", got, tt.note)
			}
		})
	}
}

func TestReadNameservers_liveStubWithoutItsFile(t *testing.T) {
	root := tree{"etc/resolv.conf": "nameserver 127.0.0.54\n"}.write(t)
	want := "absent: ROOT/etc/resolv.conf names 127.0.0.54, the address of systemd-resolved; ROOT/run/systemd/resolve/resolv.conf, where its servers are written at run time, not present"
	if got := said(root, readNameservers(t.Context(), machineAt(t, root, asked{t}))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReadNameservers_interfaces(t *testing.T) {
	const options = "auto eth0\niface eth0 inet6 static\n  address 2001:db8::2/64\n  dns-nameservers 2001:db8::53 192.0.2.53\niface eth0 inet dhcp\n\tdns-nameservers 192.0.2.54\n"
	for _, tt := range []struct {
		name string
		tree tree
		want string
	}{
		{"options alone", tree{"etc/network/interfaces": options}, "2001:db8::53, 192.0.2.53, 192.0.2.54"},
		{
			"options come first", tree{"etc/network/interfaces": options, "etc/resolv.conf": "nameserver 192.0.2.54\nnameserver 192.0.2.55\nnameserver 2001:db8::54\n"},
			"2001:db8::53, 2001:db8::54, 192.0.2.53, 192.0.2.54, 192.0.2.55",
		},
		{
			"options answer for a file that is written at run time",
			tree{"etc/network/interfaces": options, "etc/resolv.conf": "-> /run/resolvconf/resolv.conf"}, "2001:db8::53, 192.0.2.53, 192.0.2.54",
		},
		{"what is no address, and loopback", tree{"etc/network/interfaces": "iface eth0 inet manual\n dns-nameservers dns.example.org 127.0.0.1 192.0.2.53 fe80::1%eth0\n"}, "fe80::1%eth0, 192.0.2.53"},
		{"outside of a stanza", tree{"etc/network/interfaces": "dns-nameservers 192.0.2.1\nmapping eth0\n dns-nameservers 192.0.2.2\n"}, "absent: ROOT/etc/resolv.conf not present"},
		{"sourced, relative", tree{"etc/network/interfaces": "source interfaces.d/*\n", "etc/network/interfaces.d/eth0.conf": options}, "2001:db8::53, 192.0.2.53, 192.0.2.54"},
		{"not sourced", tree{"etc/network/interfaces": "auto lo\n", "etc/network/interfaces.d/eth0": options}, "absent: ROOT/etc/resolv.conf not present"},
		{
			"continued lines, comments, CRLF", tree{"etc/network/interfaces": "iface eth0 inet \\\r\n  manual\r\n# dns-nameservers 192.0.2.9\r\ndns-nameservers \\\r\n# 192.0.2.8\r\n 192.0.2.7\r\n"},
			"192.0.2.7",
		},
		{
			"a file that names itself", tree{"etc/network/interfaces": "source /etc/network/interfaces\n"},
			"malformed: ROOT/etc/network/interfaces is named by too many files: one names itself",
		},
		{
			"a shell's work", tree{"etc/network/interfaces": "source $HOME/*\n"},
			`unsupported: ROOT/etc/network/interfaces names "$HOME/*", which only a shell can expand`,
		},
		{
			"a bad pattern", tree{"etc/network/interfaces": "source /etc/[a\n", "etc/x": ""},
			`malformed: ROOT/etc: bad pattern "[a"`,
		},
		{
			"what cannot be read is not passed over", tree{"etc/network/interfaces": "source /etc/network/*/eth0\n", "etc/network/a/eth0": options, "etc/network/b": "-> b"},
			"malformed: ROOT/etc/network/b/eth0 not readable: /etc/network/b: more than 40 symlinks: too many levels of symbolic links",
		},
		{
			"octal", tree{"etc/network/interfaces": "iface eth0 inet manual\n dns-nameservers 192.0.2.053\n"},
			"unsupported: ROOT/etc/network/interfaces names 192.0.2.053, which the resolver reads as 192.0.2.43: write four decimal numbers without leading zeros",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.tree["usr/sbin/resolvconf"] = ""
			root := tt.tree.write(t)
			if got := said(root, readNameservers(t.Context(), machineAt(t, root, nil))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// Without a program that reads them the options of interfaces(5) do nothing.
func TestReadNameservers_interfacesWithoutResolvconf(t *testing.T) {
	const options = "iface eth0 inet dhcp\n\tdns-nameservers 192.0.2.54\n"
	for _, tt := range []struct {
		name       string
		tree       tree
		want, note string
	}{
		{
			"none is installed", tree{"etc/network/interfaces": options, "etc/resolv.conf": "nameserver 192.0.2.1\n"},
			"192.0.2.1", "dns-nameservers in ROOT/etc/network/interfaces has no effect: no resolvconf is installed",
		},
		{"none, and no resolv.conf", tree{"etc/network/interfaces": options}, "absent: ROOT/etc/resolv.conf not present", ""},
		{"openresolv", tree{"etc/network/interfaces": options, "etc/resolv.conf": "", "sbin/resolvconf": ""}, "192.0.2.54", ""},
		{"systemd-resolved", tree{"etc/network/interfaces": options, "etc/resolv.conf": "", "etc/network/if-up.d/resolved": ""}, "192.0.2.54", ""},
		{
			"nobody can tell", tree{"etc/network/interfaces": options, "etc/resolv.conf": "", "sbin": "-> sbin"},
			"malformed: ROOT/sbin/resolvconf not readable: /sbin: more than 40 symlinks: too many levels of symbolic links", "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.tree.write(t)
			s := readNameservers(t.Context(), machineAt(t, root, nil))
			if got := said(root, s); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := strings.ReplaceAll(s[0].Note, root, "ROOT"); got != tt.note {
				t.Errorf("got note  %s\nwant note %s", got, tt.note)
			}
		})
	}
}

func TestInterfaces_sources(t *testing.T) {
	iface := func(name string) string { return "iface " + name + " inet dhcp\n" }
	root := tree{
		"etc/network/interfaces": "source interfaces.d/*\nsource /etc/a.cfg /etc/b.cfg /etc/gone.cfg\niface last inet dhcp\n" +
			"source-directory more.d gone.d\nsource none.d/*\n",
		"etc/network/interfaces.d/z":            iface("z"),
		"etc/network/interfaces.d/a.b~":         iface("odd-name"),
		"etc/network/interfaces.d/.hidden":      iface("hidden"),
		"etc/network/interfaces.d/directory/in": iface("below"),
		"etc/a.cfg":                             iface("a") + "source c.cfg\n",
		"etc/c.cfg":                             iface("c"),
		"etc/b.cfg":                             "-> /srv/b",
		"srv/b":                                 iface("b"),
		"etc/network/more.d/plain-1_X":          iface("more"),
		"etc/network/more.d/dotted.cfg":         iface("dotted"),
		"etc/network/more.d/directory/in":       iface("below2"),
	}.write(t)
	statements, problem := machineAt(t, root, nil).interfaces()
	if problem != nil {
		t.Fatal(problem)
	}
	var got []string
	for _, s := range statements {
		got = append(got, s.words[1]+" "+strings.TrimPrefix(s.source, root))
	}
	want := []string{
		"odd-name /etc/network/interfaces.d/a.b~", "z /etc/network/interfaces.d/z", "a /etc/a.cfg", "c /etc/c.cfg", "b /etc/b.cfg",
		"last /etc/network/interfaces", "more /etc/network/more.d/plain-1_X",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func FuzzResolvers(f *testing.F) {
	f.Add("nameserver 192.0.2.1\nnameserver fe80::1%eth0\r\n#\nnameserver")
	f.Add("nameserver \xff\nnameserver ::ffff:127.0.0.1\n")
	f.Fuzz(func(t *testing.T, text string) {
		named, _ := resolvers("resolv.conf", text)
		servers, local := split(addressesOf(named))
		for i, a := range servers {
			if a.IsLoopback() || i > 0 && family(servers[i-1]) > family(a) {
				t.Errorf("%v of %q", servers, text)
			}
		}
		again, none := split(append(servers, servers...))
		if len(none) > 0 || !cmp.Equal(texts(again), texts(servers)) {
			t.Errorf("%v becomes %v, beside %v", servers, again, local)
		}
	})
}

func FuzzParseInterfaces(f *testing.F) {
	f.Add("auto eth0\niface eth0 inet static\n address 192.0.2.1/24 \\\n# x\n y\n\\\nsource a b\n")
	f.Add("\\\n\\\r\n#\\\nallow-hotplug x\x00\n")
	f.Fuzz(func(t *testing.T, text string) {
		words := 0
		for _, s := range parseInterfaces(text) {
			if len(s.words) == 0 || !opens(s.words[0]) {
				t.Errorf("statement %q of %q", s.words, text)
			}
			words += len(s.words)
			for _, option := range s.options {
				if len(option) == 0 || opens(option[0]) {
					t.Errorf("option %q of %q", option, text)
				}
				words += len(option)
			}
		}
		if words > len(strings.Fields(text)) {
			t.Errorf("%d words of %q", words, text)
		}
	})
}
