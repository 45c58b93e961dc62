package jail

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

const relay = `apiVersion: keel/v1
kind: Jail
metadata:
  name: mail-relay
spec:
  image: base/15.0-postfix
  command: ["/usr/local/libexec/postfix/master", "-d"]
  network:
    vnet: true
    bridge: keel0
    address: 10.0.131.20/24
  resources:
    cpu: "1.5"
    memory: "768M"
  restartPolicy: Always
  volumes:
    - name: mail-relay-spool
      mountPath: /var/spool/postfix
      size: 8G
`

func want() *Jail {
	return &Jail{
		APIVersion: "keel/v1", Kind: "Jail", Metadata: Metadata{Name: "mail-relay"},
		Spec: Spec{
			Image:         "base/15.0-postfix",
			Command:       []string{"/usr/local/libexec/postfix/master", "-d"},
			Network:       Network{VNET: true, Bridge: "keel0", Address: "10.0.131.20/24"},
			Resources:     Resources{CPU: "1.5", Memory: "768M"},
			RestartPolicy: Always,
			Volumes:       []Volume{{Name: "mail-relay-spool", MountPath: "/var/spool/postfix", Size: "8G"}},
		},
	}
}

// edit replaces a piece of the document that must be there.
func edit(t *testing.T, old, next string) string {
	t.Helper()
	if !strings.Contains(relay, old) {
		t.Fatalf("the document holds no %q", old)
	}
	return strings.Replace(relay, old, next, 1)
}

func TestParse_whole(t *testing.T) {
	got, err := Parse([]byte(relay))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want(), got); diff != "" {
		t.Error(diff)
	}
}

func TestParse_accepts(t *testing.T) {
	tests := []struct {
		name, old, next string
		change          func(*Jail)
	}{
		{"cpu as a whole number", `cpu: "1.5"`, `cpu: 2`, func(j *Jail) { j.Spec.Resources.CPU = "2" }},
		{"cpu as a fraction", `cpu: "1.5"`, `cpu: 0.5`, func(j *Jail) { j.Spec.Resources.CPU = "0.5" }},
		{"memory as a number", `memory: "768M"`, `memory: 1048576`, func(j *Jail) { j.Spec.Resources.Memory = "1048576" }},
		{"size as a number", `size: 8G`, `size: 4096`, func(j *Jail) { j.Spec.Volumes[0].Size = "4096" }},
		{"an alias", `bridge: keel0`, `bridge: &b keel0`, func(*Jail) {}},
		{"no volumes", relay[strings.Index(relay, "  volumes"):], "", func(j *Jail) { j.Spec.Volumes = nil }},
		{"volumes that are null", relay[strings.Index(relay, "  volumes"):], "  volumes:\n", func(j *Jail) { j.Spec.Volumes = nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse([]byte(edit(t, tt.old, tt.next)))
			if err != nil {
				t.Fatal(err)
			}
			want := want()
			tt.change(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse_json(t *testing.T) {
	got, err := Parse([]byte(`{"apiVersion":"keel/v1","kind":"Jail","metadata":{"name":"web"},"spec":{"image":"base/x",
		"command":["/bin/sh"],"network":{"vnet":true,"bridge":"keel0","address":"10.0.0.5/24"},
		"resources":{"cpu":1,"memory":"1G"},"restartPolicy":"Never"}}`))
	if err != nil || got.Metadata.Name != "web" || got.Spec.RestartPolicy != Never {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParse_refuses(t *testing.T) {
	long := strings.Repeat("a", 64)
	second := "\n    - {name: %, mountPath: /srv, size: 1G}"
	tests := []struct {
		name, old, next string
		category        Category
		want            string
	}{
		{"apiVersion", "keel/v1", "keel/v2", WrongKind, `apiVersion: "keel/v2" must be keel/v1 (line 1)`},
		{"kind", "kind: Jail", "kind: Jale", WrongKind, `kind: "Jale" must be Jail (line 2)`},
		{"unknown field", "bridge: keel0", "bridge: keel0\n    mtu: 9000", UnknownField,
			"spec.network.mtu: there is no such field: known here are vnet, bridge, address (line 11)"},
		{"field of the control plane", "restartPolicy: Always", "restartPolicy: Always\n  replicateTo: 192.0.2.1:7622", UnknownField,
			"spec.replicateTo: there is no such field"},
		{"merge key", "bridge: keel0", "bridge: keel0\n    <<: {vnet: true}", UnknownField, "spec.network.<<: there is no such field"},
		{"field given twice", "bridge: keel0", "bridge: keel0\n    bridge: keel1", TwiceGiven,
			"spec.network.bridge: is given twice: keep one (line 11)"},
		{"missing field", "  restartPolicy: Always\n", "", MissingField, "spec.restartPolicy: is missing (line 6)"},
		{"null for a required field", "image: base/15.0-postfix", "image:", MissingField, "spec.image: is missing"},
		{"missing part of a volume", "      size: 8G\n", "", MissingField, "spec.volumes[0].size: is missing (line 17)"},
		{"number for a string", "name: mail-relay\n", "name: 12\n", WrongType,
			`metadata.name: "12" must be a string: write it in quotes (line 4)`},
		{"bool for a number", `cpu: "1.5"`, "cpu: true", WrongType, `spec.resources.cpu: "true" must be a string`},
		{"word for a bool", "vnet: true", "vnet: yes", WrongType, `spec.network.vnet: "yes" must be true or false (line 9)`},
		{"string for a list", `["/usr/local/libexec/postfix/master", "-d"]`, "/bin/sh", WrongType, `spec.command: "/bin/sh" must be a list (line 7)`},
		{"number in the command", `"-d"]`, "1]", WrongType, `spec.command[1]: "1" must be a string: write it in quotes`},
		{"list for a string", "image: base/15.0-postfix", "image: [a]", WrongType, "spec.image: must be one value"},
		{"list for a mapping", "metadata:\n  name: mail-relay", "metadata: [a]", WrongType, "metadata: must be a mapping of fields (line 3)"},

		{"name empty", "name: mail-relay\n", "name: ''\n", BadName, "metadata.name: is empty"},
		{"name of 64", "name: mail-relay\n", "name: " + long + "\n", BadName, "is longer than 63 characters (line 4)"},
		{"name with a hyphen first", "name: mail-relay\n", "name: -a\n", BadName, `metadata.name: "-a" must begin and end`},
		{"name with a hyphen last", "name: mail-relay\n", "name: a-\n", BadName, `"a-" must begin and end`},
		{"name upper", "name: mail-relay\n", "name: Web\n", BadName, `"Web" may only hold`},
		{"name underscore", "name: mail-relay\n", "name: a_b\n", BadName, `"a_b" may only hold`},
		{"name dot", "name: mail-relay\n", "name: a.b\n", BadName, `"a.b" may only hold`},

		{"image elsewhere", "base/15.0-postfix", "15.0-postfix", BadImage, `spec.image: "15.0-postfix" must begin with base/`},
		{"image climbing", "base/15.0-postfix", "base/../x", BadImage, `"base/../x" may only hold`},
		{"image with an empty part", "base/15.0-postfix", "base//x", BadImage, `"base//x" may only hold`},
		{"image that is only base", "base/15.0-postfix", "base/", BadImage, `"base/" may only hold`},
		{"image as a snapshot", "base/15.0-postfix", "base/x@y", BadImage, `"base/x@y" may only hold`},

		{"no command", `["/usr/local/libexec/postfix/master", "-d"]`, "[]", BadCommand, "spec.command: is empty"},
		{"relative command", `"/usr/local/libexec/postfix/master"`, "master", BadCommand, `spec.command[0]: "master" must be an absolute path`},
		{"NUL in the command", `"-d"`, `"a\0b"`, BadCommand, `spec.command[1]: "a\x00b" holds a NUL character`},

		{"no vnet", "vnet: true", "vnet: false", BadNetwork, "spec.network.vnet: must be true"},
		{"bridge of somebody else", "keel0", "bridge0", BadNetwork, `spec.network.bridge: "bridge0" must be keel and one to four digits`},
		{"bridge without a number", "keel0", "keel", BadNetwork, `"keel" must be keel and`},
		{"bridge too long for an interface", "keel0", "keel12345", BadNetwork, `"keel12345" must be keel and`},

		{"address without a length", "10.0.131.20/24", "10.0.131.20", BadAddress, `spec.network.address: "10.0.131.20" must be an IPv4 address with`},
		{"address of length 33", "10.0.131.20/24", "10.0.131.20/33", BadAddress, "must be an IPv4 address with"},
		{"address IPv6", "10.0.131.20/24", "2001:db8::5/64", BadAddress, `"2001:db8::5/64" must be IPv4`},
		{"address mapped", "10.0.131.20/24", "\"::ffff:10.0.0.5/120\"", BadAddress, "must be"},
		{"network", "10.0.131.20/24", "10.0.131.0/24", BadAddress, "is the network's own address: take another one of 10.0.131.0/24"},
		{"broadcast", "10.0.131.20/24", "10.0.131.255/24", BadAddress, "is the broadcast address"},
		{"broadcast of an odd length", "10.0.131.20/24", "10.0.135.255/21", BadAddress, "is the broadcast address: take another one of 10.0.128.0/21"},
		{"gateway", "10.0.131.20/24", "10.0.131.1/24", BadAddress, "is the gateway"},
		{"single address", "10.0.131.20/24", "10.0.131.20/32", BadAddress, "is the network's own address"},

		{"address in no network", "10.0.131.20/24", "0.0.0.5/24", BadAddress, `"0.0.0.5/24" is no address that a jail can have`},
		{"address of the loopback", "10.0.131.20/24", "127.0.0.5/8", BadAddress, "is no address that a jail can have"},
		{"address of a group", "10.0.131.20/24", "224.0.0.5/24", BadAddress, "is no address that a jail can have"},
		{"address of length 0", "10.0.131.20/24", "10.0.131.20/0", BadAddress, "the gateway of 0.0.0.0/0 would be 0.0.0.1, which"},
		{"cpu like octal", `"1.5"`, "010", BadCPU, `spec.resources.cpu: "010" begins with 0`},
		{"memory like octal", `"768M"`, "010", BadMemory, `spec.resources.memory: "010" begins with 0`},
		{"cpu zero", `"1.5"`, `"0"`, BadCPU, `spec.resources.cpu: "0" must be at least 0.01 cores (line 13)`},
		{"cpu tiny", `"1.5"`, "0.009", BadCPU, `"0.009" must be at least 0.01`},
		{"cpu negative", `"1.5"`, "-1", BadCPU, `"-1" must be at least 0.01`},
		{"cpu not a number", `"1.5"`, ".nan", BadCPU, `".nan" is not a decimal number`},
		{"cpu infinite", `"1.5"`, `"Inf"`, BadCPU, `"Inf" is not a decimal number`},
		{"cpu beyond floats", `"1.5"`, `"1e999"`, BadCPU, `"1e999" is not a decimal number`},
		{"cpu absurd", `"1.5"`, `"1e30"`, BadCPU, `"1e30" must be at most 65536`},
		{"cpu hexadecimal", `"1.5"`, "0x10", BadCPU, `"0x10" is not a decimal number`},
		{"cpu empty", `"1.5"`, `""`, BadCPU, "spec.resources.cpu: is not a decimal number"},

		{"memory zero", `"768M"`, `"0"`, BadMemory, `spec.resources.memory: "0" must be more than nothing`},
		{"memory negative", `"768M"`, `"-1M"`, BadMemory, `"-1M" is not a whole number`},
		{"memory fractional", `"768M"`, `1.5`, BadMemory, `"1.5" is not a whole number`},
		{"memory in T", `"768M"`, `1T`, BadMemory, `"1T" is not a whole number`},
		{"memory in Mi", `"768M"`, `512Mi`, BadMemory, `"512Mi" is not a whole number`},
		{"memory only a unit", `"768M"`, `M`, BadMemory, `"M" is not a whole number`},
		{"memory empty", `"768M"`, `""`, BadMemory, "spec.resources.memory: is not a whole number"},
		{"memory too large", `"768M"`, `9223372036854775808`, BadMemory, "is larger than can be counted"},
		{"memory too large by its unit", `"768M"`, `9007199254740992K`, BadMemory, "is larger than can be counted"},

		{"policy", "Always", "always", BadPolicy, `spec.restartPolicy: "always" must be Always, OnFailure or Never`},

		{"volume name", "name: mail-relay-spool", "name: Spool", BadName, `spec.volumes[0].name: "Spool" may only hold`},
		{"volume size", "size: 8G", "size: lots", BadMemory, `spec.volumes[0].size: "lots" is not a whole number`},
		{"volume twice", "size: 8G", "size: 8G" + strings.Replace(second, "%", "mail-relay-spool", 1), Duplicate,
			`spec.volumes[1].name: "mail-relay-spool" is the name of spec.volumes[0] already (line 20)`},
		{"mount path relative", "/var/spool/postfix", "var", BadMountPath, `spec.volumes[0].mountPath: "var" must be an absolute path`},
		{"mount path root", "/var/spool/postfix", "/", BadMountPath, `"/" is the jail's root`},
		{"mount path climbing", "/var/spool/postfix", "/var/../etc", BadMountPath, `"/var/../etc" must be written without ..`},
		{"mount path with a last slash", "/var/spool/postfix", "/var/", BadMountPath, `"/var/" must be written without`},
		{"mount path with a space", "/var/spool/postfix", "/var/a b", BadMountPath, `"/var/a b" may only hold`},
		{"mount path with a letter that folds", "/var/spool/postfix", "/var/\u212a", BadMountPath, "may only hold"},
		{"mount path in dev", "/var/spool/postfix", "/dev/x", BadMountPath, `"/dev/x" lies in /dev`},
		{"mount path that hides another", "size: 8G", "size: 8G\n    - {name: b, mountPath: /var/spool, size: 1G}", BadMountPath,
			`spec.volumes[1].mountPath: "/var/spool" would hide spec.volumes[0], mounted at /var/spool/postfix before it`},

		{"not YAML", "kind: Jail", "kind: [", Syntax, "not valid YAML: "},
		{"two documents", "apiVersion", "a: b\n---\napiVersion", Syntax, "a second document begins: put it into a file of its own (line 2)"},
		{"nothing", relay, "", Syntax, "the document is empty"},
		{"only a comment", relay, "# later\n", Syntax, "the document is empty"},
		{"a word", relay, "jail\n", WrongType, `"jail" must be a mapping of fields (line 1)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			j, err := Parse([]byte(edit(t, tt.old, tt.next)))
			if err == nil {
				t.Fatalf("accepted as %+v", j)
			}
			var field *FieldError
			if !errors.As(err, &field) || field.Category != tt.category {
				t.Errorf("category %v, want %v: %v", field, tt.category, err)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("one mistake, several errors:\n%v", err)
			}
		})
	}
}

func TestParse_allAtOnce(t *testing.T) {
	text := strings.NewReplacer("keel0", "br0", "1.5", "none", "restartPolicy", "restartpolicy", "8G", "8T").Replace(relay)
	_, err := Parse([]byte(text))
	want := `spec.restartPolicy: is missing (line 6)
spec.network.bridge: "br0" must be keel and one to four digits, such as keel0 (line 10)
spec.resources.cpu: "none" is not a decimal number of cores, such as 2 or 0.5 (line 13)
spec.restartpolicy: there is no such field: known here are image, command, network, resources, restartPolicy, volumes (line 15)
spec.volumes[0].size: "8T" is not a whole number with an optional K, M or G, such as 512M (line 19)`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestJail_insideAnotherDocument(t *testing.T) {
	type record struct {
		Spec *Jail `yaml:"spec"`
	}
	text, err := yaml.Marshal(record{want()})
	if err != nil {
		t.Fatal(err)
	}
	var got record
	if err := yaml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want(), got.Spec); diff != "" {
		t.Error(diff)
	}
	text = []byte(strings.Replace(string(text), "bridge:", "brigde:", 1))
	if err := yaml.Unmarshal(text, &got); err == nil || !strings.Contains(err.Error(), "spec.network.brigde: there is no such field") {
		t.Errorf("got %v", err)
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[CPU]int64{"2": 200, "0.5": 50, "0.01": 1, "1.005": 100, "1e1": 1000, ".25": 25} {
		if got, err := text.Percent(); got != want || err != nil {
			t.Errorf("CPU %s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for text, want := range map[Memory]int64{"1": 1, "1k": 1 << 10, "2K": 2 << 10, "768M": 768 << 20, "3g": 3 << 30} {
		if got, err := text.Bytes(); got != want || err != nil {
			t.Errorf("Memory %s: got %d, %v, want %d", text, got, err, want)
		}
	}
}

func TestGateway(t *testing.T) {
	for address, want := range map[string]string{"10.0.60.5/24": "10.0.60.1/24", "10.0.135.9/21": "10.0.128.1/21", "192.0.2.6/30": "192.0.2.5/30"} {
		p, err := Network{Address: address}.Prefix()
		if got := Gateway(p).String(); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", address, got, err, want)
		}
	}
}

func TestTransition(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Spec)
		want   []string
	}{
		{"nothing", func(*Spec) {}, nil},
		{"what may change", func(s *Spec) {
			s.Command, s.Network.Bridge, s.Resources, s.RestartPolicy = []string{"/bin/x"}, "keel1", Resources{"3", "1G"}, Never
		}, nil},
		{"image", func(s *Spec) { s.Image = "base/y" }, []string{"spec.image"}},
		{"address", func(s *Spec) { s.Network.Address = "10.0.131.21/24" }, []string{"spec.network.address"}},
		{"size of a volume", func(s *Spec) { s.Volumes[0].Size = "9G" }, []string{"spec.volumes"}},
		{"order of volumes", func(s *Spec) { s.Volumes = append([]Volume{{"b", "/b", "1G"}}, s.Volumes...) }, []string{"spec.volumes"}},
		{"all, in order", func(s *Spec) { s.Volumes, s.Network.Address, s.Image = nil, "10.0.131.21/24", "base/y" },
			[]string{"spec.image", "spec.network.address", "spec.volumes"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next := want()
			tt.change(&next.Spec)
			err := Transition(want(), next)
			var got []string
			if many, ok := err.(interface{ Unwrap() []error }); ok {
				for _, err := range many.Unwrap() {
					var e *ImmutableError
					if errors.As(err, &e) {
						got = append(got, e.Path)
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s\nfrom %v", diff, err)
			}
		})
	}
}

func TestImmutableError_saysWhatToDo(t *testing.T) {
	next := want()
	next.Spec.Image = "base/y"
	got := Transition(want(), next).Error()
	if want := `spec.image: cannot change from "base/15.0-postfix" to "base/y": delete the jail and apply it again (its volumes stay)`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// FuzzParse holds that whatever is accepted is valid and reads back as itself,
// and that whatever is refused says where.
func FuzzParse(f *testing.F) {
	f.Add(relay)
	f.Add("a: &x [*x]")
	f.Add("spec: {volumes: [&v {name: a}, *v]}")
	f.Add("? [a]\n: b")
	f.Add("apiVersion: !!binary aGk=\n")
	f.Add("--- |\n x\n...\n---")
	f.Fuzz(func(t *testing.T, text string) {
		j, err := Parse([]byte(text))
		if err != nil {
			var field *FieldError
			if !errors.As(err, &field) || field.Reason == "" {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		if err := j.Validate(); err != nil {
			t.Fatalf("accepted, and invalid: %v", err)
		}
		text2, err := yaml.Marshal(j)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text2)
		if err != nil {
			t.Fatalf("does not read back: %v\n%s", err, text2)
		}
		if diff := cmp.Diff(j, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
