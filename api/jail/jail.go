// Package jail holds the documents of the jail agent: what a kind: Jail says,
// its strict parser and its rules. It looks at no machine.
package jail

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"gopkg.in/yaml.v3"
)

// What apiVersion and kind of a document must say.
const (
	APIVersion = "keel/v1"
	Kind       = "Jail"
)

// A Jail is one document of kind Jail. Fields with omitempty may be left out of
// a document, all others are required.
type Jail struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   Metadata `yaml:"metadata"`
	Spec       Spec     `yaml:"spec"`
}

// Metadata names a document. The name is its identity and never changes.
type Metadata struct {
	Name string `yaml:"name"`
}

// Spec is what a jail shall be.
type Spec struct {
	Image         string        `yaml:"image"`
	Command       []string      `yaml:"command"`
	Network       Network       `yaml:"network"`
	Resources     Resources     `yaml:"resources"`
	RestartPolicy RestartPolicy `yaml:"restartPolicy"`
	Volumes       []Volume      `yaml:"volumes,omitempty"`
}

// Network is a jail's own network stack on a bridge of its host.
type Network struct {
	VNET    bool   `yaml:"vnet"`
	Bridge  string `yaml:"bridge"`
	Address string `yaml:"address"`
}

// Prefix is the address with its prefix length, in a valid document.
func (n Network) Prefix() (netip.Prefix, error) {
	p, err := netip.ParsePrefix(n.Address)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("parse address %q: %w", n.Address, err)
	}
	return p, nil
}

// Resources are the limits of a jail as a whole.
type Resources struct {
	CPU    CPU    `yaml:"cpu"`
	Memory Memory `yaml:"memory"`
}

// A RestartPolicy says what happens once a jail's command has ended.
type RestartPolicy string

// Always starts it again. OnFailure does so unless it is known to have ended
// with status 0. Never leaves the jail as it is; a jail that is gone as a whole is made again.
const (
	Always    RestartPolicy = "Always"
	OnFailure RestartPolicy = "OnFailure"
	Never     RestartPolicy = "Never"
)

// A Volume is storage that outlives the jail. Its name is one of the whole node:
// two jails that name the same volume share it.
type Volume struct {
	Name      string `yaml:"name"`
	MountPath string `yaml:"mountPath"`
	Size      Memory `yaml:"size"`
}

// Parse reads exactly one document and checks it. The error joins everything
// that is wrong with it, in the order of its lines; each is a
// *FieldError that names the path, the line and the value.
func Parse(data []byte) (*Jail, error) {
	node, err := single(data)
	if err != nil {
		return nil, err
	}
	j := &Jail{}
	d := decode(node, j)
	for _, e := range j.check() {
		if !d.failed(e.Path) {
			e.Line = d.lines[e.Path]
			d.errs = append(d.errs, e)
		}
	}
	if len(d.errs) > 0 {
		slices.SortStableFunc(d.errs, func(a, b *FieldError) int { return cmp.Compare(a.Line, b.Line) })
		return nil, join(d.errs)
	}
	return j, nil
}

// UnmarshalYAML reads a jail inside another document as strictly as Parse, and
// does not check its values: see Validate.
func (j *Jail) UnmarshalYAML(node *yaml.Node) error {
	var read Jail
	if err := join(decode(node, &read).errs); err != nil {
		return err
	}
	*j = read
	return nil
}

// Validate checks every value. The error joins *FieldErrors.
func (j *Jail) Validate() error { return join(j.check()) }
