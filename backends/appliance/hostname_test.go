package appliance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/tlspu/keel/core/command"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/test/recorded"
)

func TestReadHostname(t *testing.T) {
	for _, tt := range []struct {
		name string
		tree tree
		want string
	}{
		{"a name", tree{"etc/hostname": "blog\n"}, "blog"},
		{"no line end", tree{"etc/hostname": "blog"}, "blog"},
		{"CRLF", tree{"etc/hostname": "blog\r\n"}, "blog"},
		{"comments and blanks", tree{"etc/hostname": "# the name\n\n \t blog  # mine\nshop\n"}, "blog"},
		{"as it is written", tree{"etc/hostname": "Blog.Example.ORG.\n"}, "Blog.Example.ORG."},
		{"absent", tree{"etc": "directory"}, "absent: ROOT/etc/hostname not present"},
		{"empty", tree{"etc/hostname": ""}, "absent: ROOT/etc/hostname file is empty"},
		{"comments only", tree{"etc/hostname": "# none\n"}, "absent: ROOT/etc/hostname file is empty"},
		{"a directory", tree{"etc/hostname": "directory"}, "malformed: ROOT/etc/hostname not readable: is a directory, not a regular file"},
		{"no text", tree{"etc/hostname": "bl\xffog\n"}, "malformed: ROOT/etc/hostname holds no name: its first word is not text"},
		{"NUL", tree{"etc/hostname": "blog\x00\n"}, "malformed: ROOT/etc/hostname holds no name: its first word is not text"},
		{"a pattern", tree{"etc/hostname": "edge-????\n"}, "unsupported: ROOT/etc/hostname holds a pattern, edge-????: systemd fills in a hexadecimal digit for each ? at boot"},
		{"a no-break space is no blank", tree{"etc/hostname": "blog\u00a0x\n"}, "malformed: ROOT/etc/hostname holds no name: its first word is not text"},
		{"a no-break space before the name", tree{"etc/hostname": "\u00a0blog\n"}, "malformed: ROOT/etc/hostname holds no name: its first word is not text"},
		{"a link inside", tree{"etc/hostname": "-> /srv/name", "srv/name": "blog\n"}, "blog"},
		{"a link to nothing", tree{"etc/hostname": "-> /srv/name"}, "absent: ROOT/etc/hostname leads to /srv/name: not present"},
		{"a link into run", tree{"etc/hostname": "-> ../run/name"}, "offline: ROOT/etc/hostname leads to /run/name, which is written at run time: not present"},
		{"a link to itself", tree{"etc/hostname": "-> hostname"}, "malformed: ROOT/etc/hostname not readable: /etc/hostname: more than 40 symlinks: too many levels of symbolic links"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tt.tree.write(t)
			if got := said(root, readHostname(t.Context(), machineAt(t, root, nil))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

const written = "; hostname -f not run: the root is not the live system; the system phase of apply writes it (spec apply --system-only)"

func TestReadFQDN_offline(t *testing.T) {
	none := "offline: ROOT/etc/hosts has no fully qualified name for blog"
	for _, tt := range []struct{ name, hostname, hosts, want string }{
		{"canonical name", "blog\n", "127.0.1.1 blog.example.org blog\n", "blog.example.org"},
		{"IPv6", "blog\n", "2001:db8::10\tblog.example.org\tblog\n", "blog.example.org"},
		{"localhost first", "blog\n", "127.0.0.1 localhost\n::1 localhost ip6-localhost\n127.0.1.1 blog.example.org blog\n", "blog.example.org"},
		{"CRLF", "blog\r\n", "127.0.0.1 localhost\r\n127.0.1.1 blog.example.org blog\r\n", "blog.example.org"},
		{"comment after the names", "blog\n", "192.0.2.5\tblog.example.org blog # was blog.example.net\n", "blog.example.org"},
		{"names in a comment only", "blog\n", "192.0.2.5 shop # blog.example.net blog\n", none + written},
		{"a comment without a blank", "blog\n", "192.0.2.5 blog.example.org blog#old\n", "blog.example.org"},
		{"a no-break space is no blank", "blog\n", "192.0.2.5\u00a0shop.example.org blog\n192.0.2.6 a\u00a0blog\n192.0.2.7 blog.example.org blog\n", "blog.example.org"},
		{"an address that inet_pton refuses", "blog\n", "192.0.2.010 a.example.org blog\nfe80::1%eth0 b.example.org blog\n192.0.2.7 blog.example.org blog\n", "blog.example.org"},
		{"upper case", "BLOG\n", "192.0.2.5 Blog.Example.Org blog\n", "Blog.Example.Org"},
		{"dot at the end", "blog\n", "192.0.2.5 blog.example.org. blog\n", "blog.example.org."},
		{"short name first on the line", "blog\n", "192.0.2.10 blog blog.example.org\n", none + ": line 1 answers for it, with blog, before blog.example.org" + written},
		{"only a dot at the end", "blog\n", "192.0.2.10 blog. blog\n", none + written},
		{"shadowed", "blog\n", "127.0.1.1 blog\n192.0.2.10 blog.example.org blog\n", none + ": line 1 answers for it, with blog, before blog.example.org" + written},
		{"shadowed by an alias", "blog\n", "127.0.0.1 localhost blog\n192.0.2.10 blog.example.org blog\n", none + ": line 1 answers for it, with localhost, before blog.example.org" + written},
		{"an alias of another name", "blog\n", "127.0.0.1 localhost.localdomain localhost blog\n", "localhost.localdomain"},
		{"shadow line is a comment", "blog\n", "#127.0.1.1 blog\n192.0.2.10 blog.example.org blog\n", "blog.example.org"},
		{"shadow line has no address", "blog\n", "127.0.1 blog\n192.0.2.10 blog.example.org blog\n", "blog.example.org"},
		{"an address alone", "blog\n", "127.0.1.1\n192.0.2.10 blog.example.org blog\n", "blog.example.org"},
		{"the short name is not listed", "blog\n", "192.0.2.10 blog.example.org\n", "blog.example.org"},
		{"a line for the short name wins over one that has it as first label", "blog\n", "192.0.2.10 blog.example.org\n127.0.1.1 blog\n", none + ": line 2 answers for it, with blog, before blog.example.org" + written},
		{"another host", "blog\n", "192.0.2.10 weblog.example.org weblog\n", none + written},
		{"no hosts", "blog\n", "", none + written},
		{"hostname with a domain", "blog.example.org\n", "127.0.0.1 localhost\n", "blog.example.org"},
		{"hostname with a domain, in hosts", "blog.example.org\n", "127.0.1.1 blog.example.net blog.example.org\n", "blog.example.net"},
		{
			"hostname with a domain, shadowed", "blog.example.org\n", "127.0.1.1 blog blog.example.org\n",
			"offline: ROOT/etc/hosts has no fully qualified name for blog.example.org" + written,
		},
		{"not UTF-8", "blog\n", "\xff\xfe\n192.0.2.9 caf\xe9 blog2\n192.0.2.10 blog.example.org blog\n", "blog.example.org"},
		{"a canonical name that is no text", "blog\n", "192.0.2.10 caf\xe9.example.org blog\n", none + written},
		{"no hostname", "", "192.0.2.10 blog.example.org blog\n", "absent: no hostname to look up: ROOT/etc/hostname file is empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree{"etc/hostname": tt.hostname, "etc/hosts": tt.hosts}.write(t)
			m := machineAt(t, root, nil)
			m.run = asked{t}
			if got := said(root, readFQDN(t.Context(), m)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestReadFQDN_hostsAbsent(t *testing.T) {
	root := tree{"etc/hostname": "blog\n"}.write(t)
	want := "offline: ROOT/etc/hosts not present" + written
	if got := said(root, readFQDN(t.Context(), machineAt(t, root, nil))); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReadFQDN_live(t *testing.T) {
	query := command.Cmd{Argv: []string{"hostname", "-f"}}
	writes := "; the system phase of apply writes it (spec apply --system-only)"
	none := "ROOT/etc/hosts has no fully qualified name for blog; hostname -f "
	for _, tt := range []struct {
		name, hosts, stdout string
		err                 error
		want                string
	}{
		{"answers", "", "blog.example.org\n", nil, "blog.example.org"},
		{"answers with more", "", "blog.example.org x\ny\n", nil, "blog.example.org"},
		{"hosts has a short name first", "127.0.1.1 blog\n", "blog.example.org\n", nil, "blog.example.org"},
		{"answers the short name", "", "blog\n", nil, "absent: " + none + `answered "blog"` + writes},
		{"answers nothing", "", "", nil, "absent: " + none + `answered ""` + writes},
		{"answers rubbish", "", "a\xff.b\n", nil, "absent: " + none + `answered "a` + "\uFFFD" + `.b"` + writes},
		{"fails", "", "", &command.ExitError{Code: 1}, "malformed: " + none[:len(none)-1] + " exited 1" + writes},
		{"is not there", "", "", fmt.Errorf("run hostname: %w", fs.ErrNotExist), "absent: " + none + "failed: file does not exist" + writes},
		{"hangs", "", "", fmt.Errorf("run hostname: %w", context.DeadlineExceeded), "timeout: " + none + "timed out after 10s" + writes},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := tree{"etc/hostname": "blog\n", "etc/hosts": tt.hosts}.write(t)
			run := &recorded.Runner{Script: []recorded.Exchange{{Cmd: query, Stdout: tt.stdout, Err: tt.err}}}
			if got := said(root, readFQDN(t.Context(), machineAt(t, root, command.NewReadOnly(run)))); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if err := run.Left(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestReadFQDN_liveAsksNobodyWhenHostsAnswers: what the file says is not asked again.
func TestReadFQDN_liveAsksNobodyWhenHostsAnswers(t *testing.T) {
	root := tree{"etc/hostname": "blog\n", "etc/hosts": "192.0.2.1 blog.example.org blog\n"}.write(t)
	if got := said(root, readFQDN(t.Context(), machineAt(t, root, asked{t}))); got != "blog.example.org" {
		t.Error(got)
	}
}

// partly reads everything but one file.
type partly struct {
	files
	name string
	err  error
}

func (p partly) Read(name string, max int64) ([]byte, error) {
	if name == p.name {
		return nil, fmt.Errorf("read %s: %w", name, p.err)
	}
	return p.files.Read(name, max)
}

func (p partly) Stat(name string) (host.Info, error) {
	if name == p.name {
		return host.Info{}, fmt.Errorf("stat %s: %w", name, p.err)
	}
	return p.files.Stat(name)
}

// TestReaders_whatCannotBeReadIsUnknown: an unreadable source is never an
// answer, whatever the other sources say.
func TestReaders_whatCannotBeReadIsUnknown(t *testing.T) {
	full := tree{
		"etc/hostname":                  "blog.example.org\n",
		"etc/hosts":                     "192.0.2.1 www.example.org blog.example.org\n",
		"etc/resolv.conf":               "nameserver 192.0.2.53\nnameserver 127.0.0.53\n",
		"etc/network/interfaces":        "source interfaces.d/*\niface eth0 inet manual\n  dns-nameservers 192.0.2.54\n",
		"etc/network/interfaces.d/eth1": "iface eth1 inet manual\n  dns-nameservers 192.0.2.55\n",
		"sbin/resolvconf":               "",
	}
	for _, tt := range []struct {
		name, kind, reason string
		err                error
	}{
		{"permission", drift.Permission, " permission denied (root only)", fs.ErrPermission},
		{"any other error", drift.Malformed, " not readable: input/output error", errors.New("input/output error")},
		{"time is up", drift.Timeout, " not read: context deadline exceeded", context.DeadlineExceeded},
	} {
		for file, affected := range map[string][]string{
			"/etc/hostname":                  {"instance.hostname", "instance.fqdn"},
			"/etc/hosts":                     {"instance.fqdn"},
			"/etc/resolv.conf":               {"network.nameservers"},
			"/etc/network/interfaces":        {"network.nameservers"},
			"/etc/network/interfaces.d/eth1": {"network.nameservers"},
			"/sbin/resolvconf":               {"network.nameservers"},
		} {
			t.Run(tt.name+" "+file, func(t *testing.T) {
				m := machineAt(t, full.write(t), command.NewReadOnly(&recorded.Runner{}))
				m.files = partly{m.files, file, tt.err}
				unknown := map[string]bool{}
				for _, r := range readers() {
					for _, leaf := range r.read(t.Context(), m) {
						u, ok := leaf.Value.(drift.Unknown)
						if !ok {
							continue
						}
						unknown[leaf.Path.String()] = true
						if u.Kind != tt.kind || !strings.Contains(u.Reason, file+tt.reason) {
							t.Errorf("%s: %s, %q", leaf.Path, u.Kind, u.Reason)
						}
					}
				}
				for _, path := range affected {
					if !unknown[path] {
						t.Errorf("%s is not unknown", path)
					}
				}
				if len(unknown) != len(affected) {
					t.Errorf("unknown are %v, want %v", unknown, affected)
				}
			})
		}
	}
}

func FuzzLookup(f *testing.F) {
	f.Add("127.0.1.1 blog\n192.0.2.10 blog.example.org blog # x\n", "blog")
	f.Add("::1 a.b.\r\n\xff \x00#", "a")
	f.Fuzz(func(t *testing.T, hosts, name string) {
		found := lookup(hosts, name)
		if found.line < 0 || found.line > strings.Count(hosts, "\n")+1 {
			t.Errorf("line %d of %q", found.line, hosts)
		}
		if !strings.Contains(hosts, found.canonical) || !strings.Contains(hosts, found.full) {
			t.Errorf("%+v is not in %q", found, hosts)
		}
		if (found.line > 0) != (found.canonical != "") {
			t.Errorf("%+v of %q", found, hosts)
		}
	})
}
