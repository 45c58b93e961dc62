// Package facts is what is known about a node: what its machine tells, what a
// file of the operator adds, and what nobody told, with the reason. What is not
// known is an error and never a guess.
package facts

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tlspu/keel/core/plugin"
)

// Facts is what is known about a node. A field that is empty is not known when
// Unread has a reason for it; else it is known that there is none.
type Facts struct {
	Node    Node    `json:"node"`
	OS      OS      `json:"os"`
	Kernel  Kernel  `json:"kernel"`
	Cluster Cluster `json:"cluster"`

	// Unread says why what is empty is not known: by field, "Node.Name", where
	// the empty reason means that there is none, else by group, "Node".
	Unread map[string]string `json:"-"`
}

// Node is what the Node object of the Kubernetes API says of this node.
type Node struct {
	Name             string            `json:"name"`
	InternalIP       string            `json:"internalIP"`
	ExternalIP       string            `json:"externalIP"`
	Hostname         string            `json:"hostname"`
	Addresses        []Address         `json:"addresses"`
	Labels           map[string]string `json:"labels"`
	Conditions       map[string]string `json:"conditions"` // status by type: "Ready" is "True"
	Capacity         map[string]string `json:"capacity"`
	Allocatable      map[string]string `json:"allocatable"`
	KubeletVersion   string            `json:"kubeletVersion"`
	ContainerRuntime string            `json:"containerRuntime"`
	MachineID        string            `json:"machineID"`
	BootID           string            `json:"bootID"`
	SystemUUID       string            `json:"systemUUID"`
	ProviderID       string            `json:"providerID"`
	Architecture     string            `json:"architecture"`
}

// Address is one address of a node.
type Address struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// OS is what os-release says of the operating system.
type OS struct {
	ID              string `json:"id"`
	IDLike          string `json:"idLike"` // IDs separated by spaces; empty is "like no other"
	VersionID       string `json:"versionID"`
	VersionCodename string `json:"versionCodename"`
	Name            string `json:"name"`
	PrettyName      string `json:"prettyName"`
}

// Kernel is the kernel that runs.
type Kernel struct {
	Release string `json:"release"`
}

// Cluster is what the API server says of the cluster.
type Cluster struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Platform string `json:"platform"`
	Version  string `json:"version"`
	Server   string `json:"server"`
}

// Names lists the facts in the order of the types, as templates name them:
// "Node.Name".
func Names() []string {
	var names []string
	each(&Facts{}, func(group, field reflect.StructField, _ reflect.Value) {
		names = append(names, group.Name+"."+field.Name)
	})
	return names
}

// each calls f for every fact, with the field that holds it.
func each(f *Facts, do func(group, field reflect.StructField, value reflect.Value)) {
	all := reflect.ValueOf(f).Elem()
	for i := range all.NumField() {
		group := all.Type().Field(i)
		for j := 0; group.Type.Kind() == reflect.Struct && j < group.Type.NumField(); j++ {
			do(group, group.Type.Field(j), all.Field(i).Field(j))
		}
	}
}

// A Missing is the error for a fact that has no value.
type Missing struct {
	Fact   string // "Node.Name"
	Reason string // why it is not known; empty: it is known that there is none
}

func (m *Missing) Error() string {
	if m.Reason == "" {
		return "." + m.Fact + ": this node has none"
	}
	return "." + m.Fact + " is not known: " + m.Reason
}

// Lookup gives a fact by its name: a string, a map of strings or []Address that
// is the caller's own. The error for one without a value is a *Missing; a list, a
// map and OS.IDLike may be known to be empty.
func (f *Facts) Lookup(fact string) (any, error) {
	group, field, _ := strings.Cut(fact, ".")
	of := reflect.ValueOf(f).Elem().FieldByName(group)
	if !of.IsValid() || of.Kind() != reflect.Struct {
		return nil, Unknown(fact)
	}
	value := of.FieldByName(field)
	if !value.IsValid() {
		return nil, Unknown(fact)
	}
	if reason := f.reason(fact); empty(value) && (reason != "" || value.Kind() == reflect.String && fact != "OS.IDLike") {
		return nil, &Missing{Fact: fact, Reason: reason}
	}
	switch v := value.Interface().(type) {
	case map[string]string:
		return clone(v), nil
	case []Address:
		return slices.Clone(v), nil
	default:
		return v, nil
	}
}

// Unknown is the error for the name of a fact that there is not.
func Unknown(fact string) error {
	if near := plugin.Nearest(fact, Names()); near != "" {
		return fmt.Errorf("there is no fact .%s (did you mean .%s?)", fact, near)
	}
	return fmt.Errorf("there is no fact .%s: keel facts lists all of them", fact)
}

// empty reports whether a field holds nothing.
func empty(field reflect.Value) bool {
	return field.Len() == 0 // of a text, a list or a map
}

// reason is why a fact is not known, if it is empty.
func (f *Facts) reason(fact string) string {
	reason, ok := f.Unread[fact]
	if !ok {
		group, _, _ := strings.Cut(fact, ".")
		reason = f.Unread[group]
	}
	return reason
}

// clone is a copy of m that is not nil.
func clone(m map[string]string) map[string]string {
	c := make(map[string]string, len(m))
	maps.Copy(c, m)
	return c
}

// Add fills what f does not know with what given says, and what given says there
// is none of. It returns the facts that f knows to be something else: the file of
// an operator does not overrule the machine.
func (f *Facts) Add(given Facts) (overruled []string) {
	from := reflect.ValueOf(&given).Elem()
	each(f, func(group, field reflect.StructField, value reflect.Value) {
		fact := group.Name + "." + field.Name
		other := from.FieldByName(group.Name).FieldByName(field.Name)
		switch {
		case !empty(other) && empty(value):
			value.Set(other)
		case !empty(other):
			if !reflect.DeepEqual(value.Interface(), other.Interface()) {
				overruled = append(overruled, fact)
			}
		case empty(value) && f.reason(fact) != "" && given.reason(fact) != notGiven:
			f.note(fact, given.reason(fact))
		}
	})
	return overruled
}

// note takes down why a fact, or a group of them, is not known where it is empty;
// with no reason it is known that there is none.
func (f *Facts) note(what, why string) {
	if f.Unread == nil {
		f.Unread = map[string]string{}
	}
	f.Unread[what] = why
}
