package render

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
)

// data is a node of which something is known.
func data() Data {
	f := facts.Given()
	f.Node.Name, f.Node.Labels = "web-1", map[string]string{"role": "web", "topology.kubernetes.io/zone": "a", "empty": ""}
	f.Node.Addresses = []facts.Address{{Type: "InternalIP", Address: "10.0.0.1"}, {Type: "Hostname", Address: "web"}}
	f.Unread["Node.ExternalIP"] = ""
	f.OS, f.Unread["OS"] = facts.OS{ID: "debian", VersionID: "13"}, ""
	return Data{
		Facts: f,
		ConfigMaps: []Object{
			{As: "app", Title: "ConfigMap default/app", Values: map[string]string{"motd": "hello\nworld\n", "port": "8080", "tls.crt": "crt", "yes": "true"}},
			{As: "maybe", Title: "ConfigMap default/maybe", Absent: true},
		},
	}
}

const password = "hunter2-Zm9vYmFy"

// secretData is the same with Secrets.
func secretData() Data {
	d := data()
	d.Secrets = []Object{{As: "db", Title: "Secret default/db", Values: map[string]string{"password": password, "bytes": "\xff\x00\xfe"}}}
	return d
}

func TestValue(t *testing.T) {
	for _, tt := range []struct{ name, template, want string }{
		{"no template", "plain <no value> }}", "plain <no value> }}"},
		{"a fact", "on {{ .Node.Name }}", "on web-1"},
		{"a label by index", `{{ index .Node.Labels "topology.kubernetes.io/zone" }}`, "a"},
		{"a label by name", `{{ .Node.Labels.role }}`, "web"},
		{"an empty label is a value", `[{{ .Node.Labels.empty }}]`, "[]"},
		{"to be like no other is a value", `[{{ .OS.IDLike }}]`, "[]"},
		{"a ConfigMap", `{{ .ConfigMaps.app.motd }}`, "hello\nworld\n"},
		{"a key with a dot", `{{ index .ConfigMaps.app "tls.crt" }}`, "crt"},
		{"index over two", `{{ index .ConfigMaps "app" "tls.crt" }}`, "crt"},
		{"a piped index", `{{ "tls.crt" | index .ConfigMaps.app }}`, "crt"},
		{"an optional one that is not there", `{{ with .ConfigMaps.maybe }}{{ .x }}{{ else }}none{{ end }}`, "none"},
		{"the same by hasKey", `{{ hasKey .ConfigMaps "maybe" }} {{ hasKey .ConfigMaps "app" }}`, "false true"},
		{"range over a mapping, in order", `{{ range $k, $v := .Node.Labels }}{{ $k }}={{ $v }};{{ end }}`, "empty=;role=web;topology.kubernetes.io/zone=a;"},
		{"range over a ConfigMap", `{{ range $k, $v := .ConfigMaps.app }}{{ $k }} {{ end }}`, "motd port tls.crt yes "},
		{"range over addresses", `{{ range .Node.Addresses }}{{ .Type }}={{ .Address }} {{ end }}`, "InternalIP=10.0.0.1 Hostname=web "},
		{"range over an optional one that is not there", `{{ range .ConfigMaps.maybe }}x{{ else }}none{{ end }}`, "none"},
		{"the root in a range", `{{ range .Node.Addresses }}{{ $.OS.ID }} {{ end }}`, "debian debian "},
		{"variables", `{{ $os := .OS }}{{ $id := $os.ID }}{{ $id = upper $id }}{{ $id }}`, "DEBIAN"},
		{"a part of parentheses", `{{ (index .Node.Addresses 1).Address }}`, "web"},
		{"with", `{{ with .Node }}{{ .Name }}{{ end }}`, "web-1"},
		{"if, else if", `{{ if eq .OS.ID "rocky" }}dnf{{ else if eq .OS.ID "debian" "ubuntu" }}apt{{ end }}`, "apt"},
		{"and and or stop early", `{{ if or (eq .OS.ID "debian") (fail "no") }}a{{ end }}{{ if and (eq .OS.ID "rocky") (fail "no") }}b{{ end }}`, "a"},
		{"not", `{{ not (eq .OS.ID "rocky") }}`, "true"},
		{"break and continue", `{{ range $i, $a := .Node.Addresses }}{{ if eq $i 0 }}{{ continue }}{{ end }}{{ $a.Type }}{{ break }}{{ end }}`, "Hostname"},
		{"whitespace is trimmed", "a\n{{- if true }} b {{- end }}\n{{/* no */ -}}\n", "a b\n"},
		{"define", `{{ define "x" }}<{{ . }}>{{ end }}{{ template "x" .OS.ID }}{{ template "x" "y" }}`, "<debian><y>"},
		{"block", `{{ block "x" .OS }}{{ .ID }}{{ end }}`, "debian"},
		{"braces", `{{ "{{" }} .Name {{ "}}" }}`, "{{ .Name }}"},
		{"raw strings", "{{ `a\"b` }}", `a"b`},
		{"numbers", `{{ 7 }} {{ 1.5 }} {{ -3 }} {{ true }}`, "7 1.5 -3 true"},
		{"a version", `{{ if ge (int .OS.VersionID) 12 }}new{{ end }}`, "new"},
		{"whether a fact has a value", `{{ if hasKey .Node "ExternalIP" }}{{ .Node.ExternalIP }}{{ else }}inside{{ end }}`, "inside"},
		{"print of nothing", `[{{ print }}]`, "[]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, secret, err := New(data()).Value(tt.template)
			if err != nil || secret {
				t.Fatalf("error %v, secret %v", err, secret)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValue_functions(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{`{{ upper "aB" }}{{ lower "aB" }}{{ trim " a\n" }}`, "ABaba"},
		{`{{ trimPrefix "v" "v1" }}{{ trimSuffix "." "a." }}`, "1a"},
		{`{{ replace "a" "bb" "aXa" }}`, "bbXbb"},
		{`{{ "x\ny\n" | indent 2 }}`, "  x\n  y\n  "},
		{`a:{{ "x\ny" | nindent 2 }}`, "a:\n  x\n  y"},
		{`{{ contains "b" "abc" }}{{ hasPrefix "a" "abc" }}{{ hasSuffix "a" "abc" }}`, "truetruefalse"},
		{`{{ b64enc "a:b" }} {{ b64dec "YTpi" }}`, "YTpi a:b"},
		{`{{ sha256sum "a" }}`, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
		{`{{ quote "a\"b\n" }} {{ quote 7 }}`, `"a\"b\n" "7"`},
		{`{{ join "+" (split "," "a,b,,c") }} {{ len (split "," "") }}`, "a+b++c 1"},
		{`{{ default "d" "" }}{{ "v" | default "d" }}`, "dv"},
		{`{{ required "no role" .Node.Labels.role }}{{ required "m" 0 }}`, "web0"},
		{`{{ print "a" 1 "b" true }}`, "a1btrue"},
		{`{{ printf "%s=%02d %q %x %v%%|%-4s|" "a" 7 "b" "c" true "d" }}`, `a=07 "b" 63 true%|d   |`},
		{`{{ len "äb" }} {{ len .Node.Labels }} {{ len .ConfigMaps.app }} {{ len .ConfigMaps.maybe }} {{ len .Node.Addresses }}`, "3 3 4 0 2"},
		{`{{ int "-12" }} {{ int 3 }} {{ int "007" }}`, "-12 3 7"},
		{`{{ lt 1 2 }}{{ le 2 2 }}{{ gt 1 2 }}{{ ge 1.5 1 }}`, "truetruefalsetrue"},
		{`{{ eq 1 1.0 }}{{ ne "a" "b" }}{{ eq true false }}{{ eq "a" "b" "a" }}`, "truetruefalsetrue"},
		{`{{ hasKey .Node.Labels "role" }}{{ hasKey .Node.Labels "x" }}{{ hasKey .ConfigMaps.app "motd" }}{{ hasKey . "Secrets" }}`, "truefalsetruetrue"},
		{`{{ index (split "," "a,b") 1 }}`, "b"},
		{`{{ toJson .Node.Labels }}`, `{"empty":"","role":"web","topology.kubernetes.io/zone":"a"}`},
		{`{{ toJson .Node.Addresses }} {{ toJson "<&>" }} {{ toJson .ConfigMaps.maybe }}`, `[{"Address":"10.0.0.1","Type":"InternalIP"},{"Address":"web","Type":"Hostname"}] "<&>" {}`},
		{`{{ toYaml .ConfigMaps.app }}`, "motd: |\n    hello\n    world\nport: \"8080\"\ntls.crt: crt\n\"yes\": \"true\""},
		{`{{ toYaml (split "," "a,b") }}`, "- a\n- b"},
	} {
		t.Run(tt.template, func(t *testing.T) {
			got, _, err := New(data()).Value(tt.template)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValue_refuses(t *testing.T) {
	many := strings.Repeat("{{ 1 }}", maxActions+1)
	for _, tt := range []struct{ name, template, want string }{
		{"a fact nobody gave", "a\n{{ .Node.Hostname }}", "line 2, column 4: .Node.Hostname is not known: nobody gave it: write it into the file of --facts"},
		{"there is none", `{{ .Node.ExternalIP }}`, "line 1, column 4: .Node.ExternalIP: this node has none"},
		{"no such fact", `{{ .Node.Nam }}`, "line 1, column 4: there is no fact .Node.Nam (did you mean .Node.Name?)"},
		{"in a condition", `{{ if .Node.Hostname }}a{{ end }}`, "line 1, column 7: .Node.Hostname is not known: nobody gave it: write it into the file of --facts"},
		{"piped into default", `{{ .Node.Hostname | default "a" }}`, "line 1, column 4: .Node.Hostname is not known: nobody gave it: write it into the file of --facts"},
		{"whether there is one, nobody knows", `{{ hasKey .Node "Hostname" }}`, "line 1, column 4: hasKey: .Node.Hostname is not known: nobody gave it: write it into the file of --facts"},
		{"no such data", `{{ .Values.x }}`, "line 1, column 4: there is no .Values: use .Node, .OS, .Kernel, .Cluster, .ConfigMaps or .Secrets"},
		{"a missing label", `{{ .Node.Labels.rack }}`, `line 1, column 4: .Node.Labels has no key "rack"`},
		{"index of a missing label", `{{ index .Node.Labels "rack" }}`, `line 1, column 4: this value has no key "rack"`},
		{"piped index of a missing label", `{{ "rack" | index .Node.Labels }}`, `line 1, column 13: index: this value has no key "rack"`},
		{"a missing key", `{{ .ConfigMaps.app.mots }}`, `line 1, column 4: ConfigMap default/app has no key "mots"`},
		{"a missing key of a variable", `{{ $a := .ConfigMaps.app }}{{ $a.mots }}`, `line 1, column 31: ConfigMap default/app has no key "mots"`},
		{"a key of what is not there", `{{ .ConfigMaps.maybe.a }}`, `line 1, column 4: .ConfigMaps.maybe is optional and not there, so it has no "a": ask first, as in {{ with … }}`},
		{"a ConfigMap that is not listed", `{{ .ConfigMaps.other.a }}`, `line 1, column 4: there is no .ConfigMaps.other: spec.configMaps lists nothing as "other"`},
		{"a part of a text", `{{ .Node.Name.x }}`, `line 1, column 4: .Node.Name is a text and has no "x"`},
		{"a part of nothing", `{{ nil.x }}`, "line 1: unexpected . after term \"nil\""},
		{"nothing", `{{ nil }}`, "line 1, column 4: nil is not a command"},
		{"nothing, printed", `{{ print nil }}`, "line 1, column 4: print: nothing cannot be printed"},
		{"an unset variable", `{{ $x := nil }}{{ $x }}`, "line 1, column 10: nil is not a command"},
		{"everything", `{{ . }}`, "line 1, column 4: a group cannot be written: name a part of it, repeat it with range, or use toYaml or toJson"},
		{"everything as JSON", `{{ toJson . }}`, "line 1, column 4: toJson: a group cannot be encoded"},
		{"a mapping", `{{ .Node.Labels }}`, "line 1, column 4: a mapping cannot be written: name a part of it, repeat it with range, or use toYaml or toJson"},
		{"a ConfigMap", `{{ .ConfigMaps.app }}`, "line 1, column 4: a mapping cannot be written: name a part of it, repeat it with range, or use toYaml or toJson"},
		{"a method", `{{ .Node.String }}`, "line 1, column 4: there is no fact .Node.String: keel facts lists all of them"},
		{"arguments of a value", `{{ .Node.Name "x" }}`, "line 1, column 9: .Node.Name is a value and takes nothing"},
		{"a value in the middle", `{{ 1 | .Node.Name }}`, "line 1, column 13: .Node.Name is a value and takes nothing"},
		{"range over a number", `{{ range 1000000000 }}{{ end }}`, "line 1, column 10: range over a number is refused: only lists and mappings are repeated"},
		{"range over a length", `{{ range len "abc" }}{{ end }}`, "line 1, column 10: range over a number is refused: only lists and mappings are repeated"},
		{"range over text", `{{ range $i := .Node.Name }}{{ end }}`, "line 1, column 10: range over a text is refused: only lists and mappings are repeated"},
		{"range over facts", `{{ range .Node }}{{ end }}`, "line 1, column 10: range over a group is refused: only lists and mappings are repeated"},
		{"a template that calls itself", `{{ define "x" }}{{ template "x" }}{{ end }}{{ template "x" }}`, `line 1, column 29: template "x" calls itself`},
		{"two that call each other", `{{ define "x" }}{{ template "y" }}{{ end }}{{ define "y" }}{{ template "x" }}{{ end }}{{ template "x" }}`, `line 1, column 72: template "x" calls itself`},
		{"no such template", `{{ template "x" }}`, `line 1, column 13: there is no template "x"`},
		{"no such function", `{{ env "HOME" }}`, `line 1: function "env" not defined`},
		{"functions of Go that are not wanted", `{{ call .Node.Name }}`, `line 1: function "call" not defined`},
		{"html", `{{ html "a" }}`, `line 1: function "html" not defined`},
		{"slice", `{{ slice "a" 0 1 }}`, `line 1: function "slice" not defined`},
		{"a hook", `{{ each 0 .Node.Labels }}`, `line 1: function "each" not defined`},
		{"half an action", `{{ .Node.Name`, `line 1: unclosed action`},
		{"half a block", "{{ if true }}", `line 1: unexpected EOF`},
		{"more actions than anybody writes", many, "the template has more than 10000 actions"},
		{"a long template", "{{ 1 }}" + strings.Repeat(" ", maxSource), "the template is longer than 1 MiB"},
		{"fail", `{{ fail "this OS is not known" }}`, "line 1, column 4: fail: this OS is not known"},
		{"required", `{{ required "a role is needed" "" }}`, "line 1, column 4: required: a role is needed"},
		{"required, an empty mapping", `{{ required "some keys are needed" .ConfigMaps.maybe }}`, "line 1, column 4: required: some keys are needed"},
		{"b64dec", `{{ b64dec "rubbish!" }}`, "line 1, column 4: b64dec: the text is no base64 (standard alphabet, with padding)"},
		{"b64dec without padding", `{{ b64dec "YQ" }}`, "line 1, column 4: b64dec: the text is no base64 (standard alphabet, with padding)"},
		{"int of rubbish", `{{ int "1x" }}`, "line 1, column 4: int: the text is no whole number"},
		{"int of nothing", `{{ int "" }}`, "line 1, column 4: int: the text is no whole number"},
		{"int of a fraction", `{{ int 1.5 }}`, "line 1, column 4: int: a number is no whole number"},
		{"order of texts", `{{ lt "9" "10" }}`, "line 1, column 4: lt: a text and a text have no order: compare numbers, which int makes of text"},
		{"eq of two kinds", `{{ eq .OS.VersionID 13 }}`, "line 1, column 4: eq: a text and a number cannot be compared"},
		{"eq of mappings", `{{ eq .Node.Labels .Node.Labels }}`, "line 1, column 4: eq: a mapping and a mapping cannot be compared"},
		{"eq of one", `{{ eq "a" }}`, "line 1, column 4: eq: there is nothing to compare with"},
		{"replace nothing", `{{ replace "" "a" "b" }}`, "line 1, column 4: replace: the text to replace is empty"},
		{"split by nothing", `{{ split "" "b" }}`, "line 1, column 4: split: the separator is empty"},
		{"indent by less than none", `{{ indent -1 "a" }}`, "line 1, column 4: indent: the number of spaces is less than none"},
		{"printf, too few", `{{ printf "%s" }}`, "line 1, column 4: printf: the format wants more values"},
		{"printf, too many", `{{ printf "a" 1 }}`, "line 1, column 4: printf: the format wants fewer values"},
		{"printf, a wrong kind", `{{ printf "%d" "7" }}`, "line 1, column 4: printf: %d does not take a text"},
		{"printf, nothing", `{{ printf "%v" nil }}`, "line 1, column 4: printf: %v does not take nothing"},
		{"printf, a strange verb", `{{ printf "%T" 1 }}`, "line 1, column 4: printf: the format wants fewer values"},
		{"printf, a width from a value", `{{ printf "%*d" 9 1 }}`, "line 1, column 4: printf: the format wants fewer values"},
		{"printf, a wide one", `{{ printf "%999999d" 1 }}`, "line 1, column 4: printf: the format wants fewer values"},
		{"printf, a percent sign alone", `{{ printf "100%" }}`, "line 1, column 4: printf: the format has a verb that is not known: use %s %q %d %x %v %%"},
		{"printf, a long format", `{{ printf "` + strings.Repeat("%", maxFormat+1) + `" }}`, "line 1, column 4: printf: the format is longer than 4096 bytes"},
		{"text where a number goes", `{{ indent "2" "a" }}`, `line 1, column 11: expected integer; found "2"`},
		{"a mapping where text goes", `{{ upper .Node.Labels }}`, "line 1, column 15: wrong type for value; expected string; got map[string]string"},
		{"one argument too few", `{{ replace "a" "b" }}`, "line 1, column 4: wrong number of args for replace: want 3 got 2"},
		{"len of a group", `{{ len .Node }}`, "line 1, column 4: len: a group has no length"},
		{"index past the end", `{{ index (split "," "a") 1 }}`, "line 1, column 4: index: the list has no such part, only 0 to 0"},
		{"index of text", `{{ index "abc" 1 }}`, "line 1, column 4: index: a text has no parts"},
		{"index of a mapping by number", `{{ index .Node.Labels 1 }}`, "line 1, column 4: index: a mapping has no part by the number"},
		{"a complex number", `{{ 1i }}`, "line 1, column 4: a complex128 cannot be written: name a part of it, repeat it with range, or use toYaml or toJson"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := New(data()).Value(tt.template)
			if err == nil || got != "" {
				t.Fatalf("gives %q, want an error", got)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Nobody waits long for a template, and none eats the memory.
func TestValue_hasBounds(t *testing.T) {
	d := data()
	big := strings.Repeat("a", MaxOutput-1)
	d.ConfigMaps[0].Values = map[string]string{"big": big, "commas": strings.Repeat(",", MaxOutput-1)}
	double := "{{ define \"t0\" }}{{ $.OS.ID }}{{ end }}"
	for i := range 40 {
		double += fmt.Sprintf(`{{ define "t%d" }}{{ template "t%d" . }}{{ template "t%d" . }}{{ end }}`, i+1, i, i)
	}
	const steps = "the templates of this NodeConfig run more than 200000 actions"
	const work = "the templates of this NodeConfig handle more than 32 MiB"
	for _, tt := range []struct{ name, template, want string }{
		{"written", `{{ .ConfigMaps.app.big }}ab`, "gives more than 1 MiB"},
		{"written in a range", `{{ range split "," .ConfigMaps.app.commas }}{{ end }}`, steps},
		{"templates that double", double + `{{ template "t40" . }}`, steps},
		{"ranges within ranges", `{{ $l := split "," "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a" }}` +
			`{{ range $l }}{{ range $l }}{{ range $l }}{{ range $l }}{{ range $l }}{{ range $l }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}{{ end }}`, steps},
		{"text that doubles", `{{ $x := "aaaaaaaa" }}{{ range split "," "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a" }}{{ $x = print $x $x }}{{ end }}`, "print: gives more than 1 MiB"},
		{"replace", `{{ replace "a" "bbbbbbbbbb" .ConfigMaps.app.big }}`, "replace: gives more than 1 MiB"},
		{"indent", `{{ indent 1000000000 "a\nb" }}`, "indent: gives more than 1 MiB"},
		{"indent, many lines", `{{ replace "a" "\n" .ConfigMaps.app.big | nindent 9223372036854775807 }}`, "nindent: gives more than 1 MiB"},
		{"b64enc", `{{ b64enc .ConfigMaps.app.big }}`, "b64enc: gives more than 1 MiB"},
		{"quote", `{{ replace "a" "\x01" .ConfigMaps.app.big | quote }}`, "quote: gives more than 1 MiB"},
		{"join", `{{ join .ConfigMaps.app.big (split "," "a,b,c") }}`, "join: gives more than 1 MiB"},
		{"toJson", `{{ replace "a" "\x01" .ConfigMaps.app.big | toJson }}`, "toJson: gives more than 1 MiB"},
		{"toYaml", `{{ toYaml .ConfigMaps.app }}`, "toYaml: gives more than 1 MiB"},
		{"many long texts", strings.Repeat(`{{ $x := upper .ConfigMaps.app.big }}`, 40), work},
		{"many digests", strings.Repeat(`{{ $x := sha256sum .ConfigMaps.app.big }}`, 40), work},
		{"many parts", strings.Repeat(`{{ $x := split "," .ConfigMaps.app.commas }}`, 40), work},
		{"many comparisons", strings.Repeat(`{{ $x := eq .ConfigMaps.app.big .ConfigMaps.app.big }}`, 40), work},
		{"deep parentheses", "{{ " + strings.Repeat("(", 9_000) + "1" + strings.Repeat(")", 9_000) + " }}", ""},
		{"deep conditions", strings.Repeat("{{ if true }}", maxActions/2) + strings.Repeat("{{ end }}", maxActions/2), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _, err := New(d).Value(tt.template)
			if tt.want == "" {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			if err == nil || !strings.HasSuffix(err.Error(), tt.want) {
				t.Errorf("%d bytes, error %v; want %s", len(got), err, tt.want)
			}
		})
	}
}

// The limits are those of all values of a NodeConfig together.
func TestValue_sharesTheLimits(t *testing.T) {
	r := New(data())
	r.data.ConfigMaps[0].Values["big"] = strings.Repeat("a", MaxOutput)
	for i := 0; ; i++ {
		text, _, err := r.Value("{{ .ConfigMaps.app.big }}")
		if err != nil {
			if i < 20 || !strings.HasSuffix(err.Error(), "handle more than 32 MiB") {
				t.Errorf("value %d: %v", i, err)
			}
			return
		}
		if i > 100 || len(text) != MaxOutput {
			t.Fatalf("value %d: %d bytes", i, len(text))
		}
	}
}

func TestValue_saysWhatCameFromASecret(t *testing.T) {
	for _, tt := range []struct {
		template string
		want     string
		secret   bool
	}{
		{`{{ .Secrets.db.password }}`, password, true},
		{`{{ .Secrets.db.bytes }}`, "\xff\x00\xfe", true},
		{`{{ $ }}`, "", false},
		{`{{ $s := .Secrets }}{{ with $s.db }}{{ len .password }}{{ end }}`, fmt.Sprint(len(password)), true},
		{`{{ if hasKey .Secrets.db "x" }}a{{ end }}`, "", true},
		{`{{ index . "Secrets" "db" "password" | b64enc | b64dec }}`, password, true},
		{`{{ .Node.Name }}`, "web-1", false},
		{`plain`, "plain", false},
	} {
		r := New(secretData())
		if got, secret, _ := r.Value(tt.template); got != tt.want || secret != tt.secret {
			t.Errorf("%s gives %q, secret %v; want %q, %v", tt.template, got, secret, tt.want, tt.secret)
		}
		if _, secret, _ := r.Value("{{ .OS.ID }}"); secret {
			t.Errorf("after %s a value without Secrets has the mark", tt.template)
		}
	}
}

// An error of a NodeConfig with Secrets shows position and function; what it names
// stands in the template.
func TestValue_showsNothingOfASecret(t *testing.T) {
	for _, tt := range []struct{ template, want string }{
		{`{{ .Secrets.db.passwrod }}`, `line 1, column 4: Secret default/db has no key "passwrod"`},
		{`{{ index .Secrets.db "tls.key" }}`, `line 1, column 4: Secret default/db has no key "tls.key"`},
		{`{{ .Secrets.other.a }}`, `line 1, column 4: there is no .Secrets.other: spec.secrets lists nothing as "other"`},
		{`{{ .Node.Hostname }}`, "line 1, column 4: .Node.Hostname is not known: nobody gave it: write it into the file of --facts"},
		{`{{ range .Secrets.db.password }}{{ end }}`, "line 1, column 10: range over a text is refused: only lists and mappings are repeated"},
		{`{{ index .Node.Labels .Secrets.db.password }}`, "line 1, column 4: index: " + withheld},
		{`{{ hasKey .Secrets .Secrets.db.password }}`, "line 1, column 4: hasKey: " + withheld},
		{`{{ hasKey .Node .Secrets.db.password }}`, "line 1, column 4: hasKey: " + withheld},
		{`{{ fail .Secrets.db.password }}`, "line 1, column 4: fail: " + withheld},
		{`{{ required .Secrets.db.password "" }}`, "line 1, column 4: required: " + withheld},
		{`{{ b64dec .Secrets.db.password }}`, "line 1, column 4: b64dec: " + withheld},
		{`{{ int .Secrets.db.password }}`, "line 1, column 4: int: " + withheld},
		{`{{ printf .Secrets.db.password 1 }}`, "line 1, column 4: printf: " + withheld},
		{`{{ toJson .Secrets.db }}`, "line 1, column 4: toJson: " + withheld},
		{`{{ indent .Secrets.db.password "a" }}`, "line 1, column 19: wrong type for value; expected int; got string"},
		{`{{ lt .Secrets.db.password 1 }}`, "line 1, column 4: lt: " + withheld},
		{`{{ index (split "" .Secrets.db.password) 1 }}`, "line 1, column 11: split: " + withheld},
		{`{{ .Secrets.db.password | nosuch }}`, "line 1: " + withheld},
		{`{{ "` + password + `" "x" }}`, "line 1, column 4: " + withheld},
		{`{{ ` + password + ` }}`, "line 1: " + withheld},
		{`{{ replace "a" }}`, "line 1, column 4: wrong number of args for replace: want 3 got 1"},
	} {
		t.Run(tt.template, func(t *testing.T) {
			got, _, err := New(secretData()).Value(tt.template)
			if err == nil || got != "" {
				t.Fatalf("gives %q, want an error", got)
			}
			if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows the password: %v", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		template string
		withhold bool
		want     string
	}{
		{"plain }}", false, ""},
		{"{{ .Node.ProviderID | upper }}{{ .ConfigMaps.site.anything }}{{ .Node.Labels.anything }}{{ index .ConfigMaps \"site\" \"a.b\" }}", false, ""},
		{"{{ .ImageName }}", false, "line 1, column 4: there is no .ImageName: use .Node, .OS, .Kernel, .Cluster, .ConfigMaps or .Secrets"},
		{"a\n{{ if .Node.Nmee }}{{ end }}", false, "line 2, column 12: there is no fact .Node.Nmee (did you mean .Node.Name?)"},
		{"{{ with .Node }}{{ .Name }}{{ .Nmee }}{{ end }}", false, "line 1, column 31: there is no fact .Node.Nmee (did you mean .Node.Name?)"},
		{"{{ range .Node.Addresses }}{{ .Type }}{{ $.Node.Nmee }}{{ else }}{{ .OS.ID }}{{ end }}", false, "line 1, column 43: there is no fact .Node.Nmee (did you mean .Node.Name?)"},
		{"{{ range .Node.Addresses }}{{ else }}{{ .Type }}{{ end }}", false, "line 1, column 41: there is no .Type: use .Node, .OS, .Kernel, .Cluster, .ConfigMaps or .Secrets"},
		{"{{ printf \"%s\" .OS.Nmee | upper }}", false, "line 1, column 19: there is no fact .OS.Nmee (did you mean .OS.Name?)"},
		{"{{ .ConfigMaps.other.key }}", false, `line 1, column 15: there is no .ConfigMaps.other: spec.configMaps lists nothing as "other"`},
		{`{{ index .ConfigMaps "other" "key" }}`, false, `line 1, column 4: there is no .ConfigMaps.other: spec.configMaps lists nothing as "other"`},
		{"{{ .Secrets.db.key }}{{ .Secrets.other.key }}", true, `line 1, column 33: there is no .Secrets.other: spec.secrets lists nothing as "other"`},
		{"{{ .Secrets.db.key }}", false, `line 1, column 12: there is no .Secrets.db: spec.secrets lists nothing as "db"`},
		{`{{ define "a" }}{{ .Anything }}{{ $.Anything }}{{ end }}{{ template "a" . }}{{ $x := .Node }}{{ $x.Anything }}`, false, ""},
		{"{{ .Node.Name | uper }}", false, `line 1: function "uper" not defined`},
		{"{{ .Node.Name | uper }}", true, "line 1: " + withheld},
		{"a\n{{ if }}", false, "line 2: missing value for if"},
		{"{{ .Node.Labels.a/b }}", false, `line 1: bad character U+002F '/': a key with other signs than letters, digits and _ is read by index, as in index .Node.Labels "example.com/pool"`},
		{"{{ .Node.Labels.a/b }}", true, "line 1: " + withheld},
	} {
		d := Data{ConfigMaps: []Object{{As: "site"}}}
		if tt.withhold {
			d.Secrets = []Object{{As: "db"}}
		}
		err := Check(tt.template, d)
		if got := fmt.Sprint(err); err != nil && got != tt.want || (err == nil) != (tt.want == "") {
			t.Errorf("Check(%q) = %v, want %s", tt.template, err, tt.want)
		}
	}
}

// The list is what users may rely on: a name that goes breaks them, one that comes
// is one more thing that must fail loudly, in the tables above.
func TestFunctions_areTheseAndNoOthers(t *testing.T) {
	want := strings.Fields("and b64dec b64enc contains default eq fail ge gt hasKey hasPrefix hasSuffix indent index int join le len lower lt ne nindent not or " +
		"print printf quote replace required sha256sum split toJson toYaml trim trimPrefix trimSuffix upper")
	if diff := cmp.Diff(want, Functions()); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{
		"{{ .Node.Name }}", `{{ index .Node.Labels "role" }}`, "{{ range $k, $v := .ConfigMaps.app }}{{ $k }}{{ else }}{{ break }}{{ end }}",
		`{{ define "a" }}{{ . }}{{ end }}{{ template "a" .OS.ID }}`, `{{ with $x := .Secrets.db }}{{ $x.password | b64enc | printf "%q" }}{{ end }}`,
		"{{- /* a */ -}} {{ if and (eq 1 2) (not true) }}{{ else if lt 1 2 }}{{ end }}", "{{ (index .Node.Addresses 0).Type }}", "{{ nil }}", "{{ print nil 1i 'a' 0x7f 1e9 }}",
		"{{ toYaml .Node.Labels | nindent 4 | quote | sha256sum }}", "{{ block \"a\" . }}{{ template \"a\" }}{{ end }}", "{{ $ | .a.b }}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		began := time.Now()
		text, _, err := New(secretData()).Value(value)
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("took %v", took)
		}
		if err != nil {
			if text != "" || strings.Contains(err.Error(), password) && !strings.Contains(value, password) {
				t.Errorf("text %q, error %v", text, err)
			}
			return
		}
		if len(text) > MaxOutput && v1alpha1.IsTemplate(value) {
			t.Errorf("%d bytes", len(text))
		}
		for _, mark := range []string{"<no value>", "<nil>", "%!"} {
			// Parts of it may stand in the template, and be put together.
			if strings.Contains(text, mark) && !strings.Contains(value, mark[:1]) && !strings.ContainsAny(value, `\`) {
				t.Errorf("gives %q", text)
			}
		}
		// What it refuses may stand where nothing led this time.
		if err := Check(value, secretData()); err != nil && !strings.Contains(err.Error(), "there is no ") {
			t.Errorf("is rendered and does not pass the check: %v", err)
		}
	})
}
