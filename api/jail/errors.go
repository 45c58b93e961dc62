package jail

import (
	"errors"
	"fmt"
	"strings"
)

// A Category says which rule a value breaks.
type Category string

// The categories of a FieldError.
const (
	Syntax       Category = "syntax" // not YAML, or not one document
	TwiceGiven   Category = "field given twice"
	UnknownField Category = "unknown field"
	MissingField Category = "missing field"
	WrongType    Category = "type"
	WrongKind    Category = "kind" // apiVersion or kind
	BadName      Category = "name"
	BadImage     Category = "image"
	BadCommand   Category = "command"
	BadNetwork   Category = "network" // vnet or bridge
	BadAddress   Category = "address"
	BadCPU       Category = "cpu"
	BadMemory    Category = "memory" // also the size of a volume
	BadPolicy    Category = "restart policy"
	Duplicate    Category = "duplicate volume"
	BadMountPath Category = "mount path"
)

// A FieldError is one thing that is wrong with a document.
type FieldError struct {
	Category Category
	Path     string // "spec.volumes[1].size"; empty for the document as a whole
	Line     int    // in the document, from 1; 0 when it is not known
	Value    string // as it was written; empty when there is none
	Reason   string // what is wrong and what would be right
}

func (e *FieldError) Error() string {
	var b strings.Builder
	if e.Path != "" {
		b.WriteString(e.Path + ": ")
	}
	if e.Value != "" {
		b.WriteString(quote(e.Value) + " ")
	}
	b.WriteString(e.Reason)
	if e.Line > 0 {
		fmt.Fprintf(&b, " (line %d)", e.Line)
	}
	return b.String()
}

// An ImmutableError is a change that an existing jail cannot take.
type ImmutableError struct {
	Path     string // "spec.image", "spec.network.address" or "spec.volumes"
	Old, New string
}

func (e *ImmutableError) Error() string {
	return fmt.Sprintf("%s: cannot change from %s to %s: delete the jail and apply it again (its volumes stay)",
		e.Path, quote(e.Old), quote(e.New))
}

// quote shortens what an operator would not read to its end.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

func join(list []*FieldError) error {
	errs := make([]error, len(list))
	for i, e := range list {
		errs[i] = e
	}
	return errors.Join(errs...)
}
