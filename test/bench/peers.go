package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// peers are other programs of the kind that keep the same files of root; those
// that are not installed are named in a line of their own.
func peers(dir, root string) ([]*contender, error) {
	var found []*contender
	for _, p := range []struct {
		name, command, file string
		policy              func(root string) string
		args                func(file string) []string
	}{
		{"cfengine3", "cf-agent", "policy.cf", cfenginePolicy,
			func(file string) []string { return []string{"--no-lock", "--file", file} }},
		{"puppet-agent", "puppet", "manifest.pp", puppetManifest,
			func(file string) []string {
				return []string{"apply", "--confdir", dir + "/puppet", "--vardir", dir + "/puppet/var", file}
			}},
	} {
		if _, err := exec.LookPath(p.command); err != nil {
			fmt.Printf("| (%s is not installed: apt-get install %s) | | | |\n", p.command, p.name)
			continue
		}
		file := filepath.Join(dir, p.file)
		if err := os.WriteFile(file, []byte(p.policy(root)), 0o600); err != nil {
			return nil, err
		}
		argv := append([]string{p.command}, p.args(file)...)
		found = append(found, program(fmt.Sprintf("no-op `%s`", p.command), "", argv...))
	}
	return found, nil
}

func cfenginePolicy(root string) string {
	var b strings.Builder
	b.WriteString("body common control\n{\n  bundlesequence => { \"main\" };\n}\nbundle agent main\n{\n  files:\n")
	for i := range fileCount {
		fmt.Fprintf(&b, "    %q\n      create => \"true\",\n      content => \"%s\";\n", root+benchPath(i), content(i, fileSize))
	}
	b.WriteString("}\n")
	return b.String()
}

func puppetManifest(root string) string {
	var b strings.Builder
	for i := range fileCount {
		fmt.Fprintf(&b, "file { '%s':\n  ensure  => file,\n  content => '%s',\n}\n", root+benchPath(i), content(i, fileSize))
	}
	return b.String()
}
