package appliance

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestParse_refuses(t *testing.T) {
	deep := strings.Repeat("a: {", 100) + strings.Repeat("}", 100)
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i, last := range []string{"a", "b", "c", "d", "e", "f"} {
		next := string(rune('b' + i))
		bomb += fmt.Sprintf("%s: &%s [%s]\n", next, next, strings.TrimSuffix(strings.Repeat("*"+last+", ", 10), ", "))
	}
	for _, tt := range []struct{ name, data, want string }{
		{"nothing", "", "file is empty"},
		{"only a comment", "# nothing\n", "file is empty"},
		{"only a document mark", "---\n", "file is empty"},
		{"null", "null\n", "file is empty"},
		{"a word", "hello\n", "top level must be a mapping"},
		{"false", "false\n", "top level must be a mapping"},
		{"a list", "- version: 1\n", "top level must be a mapping"},
		{"bad YAML", "version: 1\ninstance: [\n", "not valid YAML: line 2: did not find expected node content"},
		{"a tab", "version: 1\n\tinstance: {}\n", "not valid YAML: line 2: found a tab character that violates indentation"},
		{"no text", "version: \xff\xfe\n", "not valid YAML: invalid leading UTF-8 octet"},
		{"key twice", "version: 1\nversion: 1\n", "not valid YAML: line 2: the key version is already given on line 1"},
		{"key twice below", "instance:\n  fqdn: a\n  fqdn: b\n", "not valid YAML: line 3: the key fqdn is already given on line 2"},
		{"key twice in a section that is not judged", "users: {a: {}, a: {}}\n", "not valid YAML: line 1: the key a is already given on line 1"},
		{"a mapping as key", "{a: b}: c\n", "not valid YAML: line 1: a key must be a word"},
		{"unknown tag", "version: 1\napp: {email: !vault abc}\n", "not valid YAML: line 2: unknown tag !vault"},
		{"second document behind an empty one", "version: 1\n---\n---\nversion: 1\n", "not valid YAML: line 3: a second document"},
		{"second document", "version: 1\n---\nversion: 1\n", "not valid YAML: line 2: a second document"},
		{"unknown anchor", "version: *one\n", "not valid YAML: an alias (*) names no anchor; put a value that begins with * in quotes"},
		{"not the number it claims to be", "version: !!int hunter2\n", "not valid YAML: line 1: not a number"},
		{"an alias of what it is in", "app: &a\n  b: *a\n", "line 2: an alias stands for something that contains the alias itself"},
		{"aliases of aliases", bomb, "line 5: holds more than 100000 values once its aliases are replaced; write fewer aliases"},
		{"deep", deep, "line 1: lists and mappings are nested deeper than 64 levels"},
		{"merge of a word", "app: {<<: x}\n", "not valid YAML: line 1: << takes a mapping or a list of mappings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.data))
			if got := fmt.Sprint(err); got != tt.want {
				t.Errorf("Parse:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestSpec_Validate(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tt := range []struct {
		name, data string
		want       []string
	}{
		{"version alone", "version: 1\n", nil},
		{"a second document that holds nothing", "version: 1\n---\n", nil},
		{"empty sections", "version: 1\ninstance:\nnetwork: {}\ntls: ~\n", nil},
		{"null declares nothing", "version: 1\ninstance: {hostname: ~, fqdn: }\nnetwork: {nameservers: }\n", nil},
		{"every section", "version: 1\n" + strings.Join(Sections(), ":\n") + ":\n", nil},
		{"no version", "instance: {hostname: blog}\n", []string{"version: must be 1"}},
		{"no value as version", "version:\n", []string{"version: must be 1"}},
		{"version 2", "version: 2\n", []string{"version: must be 1"}},
		{"version as text", "version: \"1\"\n", []string{"version: must be 1"}},
		{"version as fraction", "version: 1.0\n", []string{"version: must be 1"}},
		{"version true", "version: true\n", []string{"version: must be 1"}},
		{"unknown section", "version: 1\nnetworks: {}\n", []string{"networks: unknown top level key"}},
		{"a number as section", "version: 1\n7: {}\n", []string{"7: unknown top level key"}},
		{"odd characters in a section", "version: 1\n\"a\\nb\": {}\n", []string{`"a\nb": unknown top level key`}},
		{"unknown keys", "version: 1\ninstance: {host: a}\nnetwork: {dns: b}\n", []string{"instance.host: unknown key; known are hostname, fqdn", "network.dns: unknown key; known are managed_by, interfaces, nameservers, overlay"}},
		{"no mapping", "version: 1\ninstance: blog\nusers: [a]\nmonitor: 1\n", []string{
			"instance: must be a mapping", "users: must be a mapping", "monitor: must be a mapping",
		}},
		{"interfaces no mapping", "version: 1\nnetwork: {interfaces: [eth0], overlay: x}\n", []string{
			"network.interfaces: must be a mapping", "network.overlay: must be a mapping",
		}},
		{"content that is not judged yet", "version: 1\nfirst_login_wizard: true\nusers: {bob: {shell: 7}}\nnetwork: {interfaces: {eth0: 1}}\n", nil},
		{"names", "version: 1\ninstance: {hostname: Blog-1., fqdn: \" blog.example.org. \"}\n", nil},
		{"long labels", "version: 1\ninstance: {fqdn: " + long + "." + long + "." + long + "." + long[:61] + "}\n", nil},
		{"a name too long", "version: 1\ninstance: {fqdn: " + long + "." + long + "." + long + "." + long[:62] + "}\n", []string{
			`instance.fqdn: domain "` + long + "." + long + "." + long + "." + long[:62] + `" is invalid`,
		}},
		{"a label too long", "version: 1\ninstance: {fqdn: a" + long + "}\n", []string{`instance.fqdn: domain "a` + long + `" is invalid`}},
		{"no names", "version: 1\ninstance: {hostname: 7, fqdn: \" \"}\n", []string{
			"instance.hostname: must be a domain name", "instance.fqdn: must be a domain name",
		}},
		{"a list as name", "version: 1\ninstance: {hostname: [a]}\n", []string{"instance.hostname: must be a domain name"}},
		{"bad names", "version: 1\ninstance: {hostname: my_host, fqdn: \"a\\nb\"}\n", []string{
			`instance.hostname: domain "my_host" is invalid`, `instance.fqdn: domain "a\nb" is invalid`,
		}},
		{"dots", "version: 1\ninstance: {hostname: ., fqdn: a..b}\n", []string{
			`instance.hostname: domain "." is invalid`, `instance.fqdn: domain "a..b" is invalid`,
		}},
		{"hyphens", "version: 1\ninstance: {hostname: -a, fqdn: b-.c}\n", []string{
			`instance.hostname: domain "-a" is invalid`, `instance.fqdn: domain "b-.c" is invalid`,
		}},
		{"a name with a port", "version: 1\ninstance: {hostname: \"a:80\"}\n", []string{`instance.hostname: domain "a:80" is invalid`}},
		{"letters of elsewhere", "version: 1\ninstance: {hostname: bücher}\n", []string{`instance.hostname: domain "bücher" is invalid`}},
		{"managed_by", "version: 1\nnetwork: {managed_by: both}\n", []string{"network.managed_by: must be host or file"}},
		{"nameservers", "version: 1\nnetwork:\n  nameservers: [2001:DB8::1, 192.0.2.1, \"fe80::1%eth0\", \"::1\"]\n", nil},
		{"no nameservers", "version: 1\nnetwork: {nameservers: []}\n", nil},
		{"one nameserver, no list", "version: 1\nnetwork: {nameservers: 192.0.2.1}\n", []string{"network.nameservers: must be a list"}},
		{"bad nameservers", "version: 1\nnetwork: {nameservers: [dns.example.org, 192.0.2.300, 7, {a: b}, [c], ~, \"192.0.2.1%eth0\", \"fe80::1%a b\", 192.0.2.1/24]}\n", []string{
			"network.nameservers: dns.example.org is not an address",
			"network.nameservers: 192.0.2.300 is not an address",
			"network.nameservers: 7 is not an address",
			"network.nameservers: a mapping is not an address",
			"network.nameservers: a list is not an address",
			"network.nameservers: nothing is not an address",
			"network.nameservers: 192.0.2.1%eth0 is not an address",
			"network.nameservers: fe80::1%a b is not an address",
			"network.nameservers: 192.0.2.1/24 is not an address",
		}},
		{"all of it", "instance: {hostname: a_b, x: 1}\nnetwork: {nameservers: x}\nversion: 3\nfoo: 1\n", []string{
			`instance.hostname: domain "a_b" is invalid`, "instance.x: unknown key; known are hostname, fqdn", "network.nameservers: must be a list",
			"version: must be 1", "foo: unknown top level key",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := Parse([]byte(tt.data))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, err := range spec.Validate() {
				got = append(got, err.Error())
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("Validate:\n got %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestSpec_Leaves_documentOrder(t *testing.T) {
	spec, err := Parse([]byte(`
network:
  nameservers: [2001:db8::53, 192.0.2.53]
  interfaces:
    eth0.45: {ipv4: {method: dhcp}}
users: {bob: , amy: {}, eve: {groups: []}}
version: 1
monitor: {checks: {load_per_core: {warn: 2.5}}, notify: &n {email: true}}
instance:
  fqdn: blog.example.org
  hostname: blog
first_login_wizard: false
preseed: {<<: [{A: 1, B: 2}, {B: 3, C: 0755}], A: 2026-01-02, D: on, E: .inf, F: 18446744073709551615}
database: {client: {replicas: [{host: "::1", port: 1}, [x, *n]]}}
app: *n
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []Leaf{
		{[]string{"network", "nameservers"}, []any{"2001:db8::53", "192.0.2.53"}},
		{[]string{"network", "interfaces", "eth0.45", "ipv4", "method"}, "dhcp"},
		{[]string{"users", "eve", "groups"}, []any{}},
		{[]string{"monitor", "checks", "load_per_core", "warn"}, 2.5},
		{[]string{"monitor", "notify", "email"}, true},
		{[]string{"instance", "fqdn"}, "blog.example.org"},
		{[]string{"instance", "hostname"}, "blog"},
		{[]string{"first_login_wizard"}, false},
		{[]string{"preseed", "B"}, int64(2)},
		{[]string{"preseed", "C"}, int64(493)},
		{[]string{"preseed", "A"}, "2026-01-02"},
		{[]string{"preseed", "D"}, "on"},
		{[]string{"preseed", "E"}, ".inf"},
		{[]string{"preseed", "F"}, "18446744073709551615"},
		{[]string{"database", "client", "replicas"}, []any{
			map[string]any{"host": "::1", "port": int64(1)}, []any{"x", map[string]any{"email": true}},
		}},
		{[]string{"app", "email"}, true},
	}
	got := spec.Leaves()
	if len(got) != len(want) {
		t.Errorf("got %d leaves, want %d: %v", len(got), len(want), got)
	}
	for i := range min(len(got), len(want)) {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("leaf %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestSections_canonicalOrder(t *testing.T) {
	want := strings.Fields(`instance network tls secrets app hub security first_login_wizard preseed users locale database monitor
		appliance installation overlays firewall cloud`)
	if got := Sections(); !slices.Equal(got, want) {
		t.Errorf("Sections:\n got %q\nwant %q", got, want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"version: 1\n", "a: &a [*a]\n", "a: {<<: *a}\n", "? [a]\n: b\n", "version: !!int x\n", "- a\n", "\xff", "a: !!binary x\n",
		"instance: {hostname: blog, fqdn: blog.example.org.}\nnetwork: {nameservers: [\"fe80::1%eth0\"]}\n", "a: !!bool yes\n", "a: !!float x\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		spec, err := Parse(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is more than a line: %q", err)
			}
			return
		}
		for _, err := range spec.Validate() {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error is more than a line: %q", err)
			}
		}
		seen := map[string]bool{}
		for _, leaf := range spec.Leaves() {
			key := fmt.Sprintf("%q", leaf.Path)
			if seen[key] {
				t.Errorf("leaf %s is there twice", key)
			}
			seen[key] = true
		}
	})
}
