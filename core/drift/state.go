package drift

import (
	"strconv"
	"strings"
)

// Path names one leaf, a segment an element; segments may hold dots. String
// joins them with dots for people; nothing ever splits that text again.
type Path []string

func (p Path) String() string { return strings.Join(p, ".") }

// Covers reports whether q is p or lies below it. The empty path covers all.
func (p Path) Covers(q Path) bool {
	if len(p) > len(q) {
		return false
	}
	for i, s := range p {
		if q[i] != s {
			return false
		}
	}
	return true
}

// key is the path as a map key: unlike String it keeps segments apart.
func (p Path) key() string {
	var b strings.Builder
	for _, s := range p {
		b.WriteString(strconv.Itoa(len(s)))
		b.WriteByte(':')
		b.WriteString(s)
	}
	return b.String()
}

// Leaf is one value of a State. Legal values: nil ("there is none"), string,
// bool, int64, float64, []string, Secret, Unknown, Skip. Canon brings what YAML
// and readers produce to these; anything else is an Unknown that names the bug.
type Leaf struct {
	Path  Path
	Value any
	// Shown is what people see where it is not Value: "2001:DB8::1" as the spec
	// spells it, while Value is the form in which both sides are compared.
	Shown any
	// Note warns, on an observed leaf, where mending its drift could destroy. A
	// leaf that drifted carries it into its Finding.
	Note string
}

// shown is the value that people see.
func (l Leaf) shown() any {
	if l.Shown != nil {
		return Canon(l.Shown)
	}
	return Canon(l.Value)
}

// State is one side of a comparison, in its own order: the order of the spec
// document, or the order in which a reader reads.
type State []Leaf

// Kinds of Unknown.
const (
	Permission  = "permission"  // not allowed to read
	Absent      = "absent"      // the source of the answer is not there
	Malformed   = "malformed"   // the source is there and makes no sense
	Offline     = "offline"     // only a running system could tell
	Timeout     = "timeout"     // asked, and no answer came in time
	Unsupported = "unsupported" // this system or handler cannot tell
	Bug         = "bug"         // a mistake in Keel itself
)

// Unknown stands in an observed State for what could not be read, at a leaf or
// at a prefix of leaves. Reason is shown to the operator as it is; Kind is one
// of the constants above.
type Unknown struct{ Kind, Reason string }

// Skip stands in a declared State for a leaf, or a prefix of leaves, that is
// not compared. Value is what the declaration holds, for display only. With
// Withhold neither side's value is ever shown. In an observed State it answers
// only for leaves that nobody declared: a reader cannot excuse a declared one.
type Skip struct {
	Value    any
	Reason   string
	Withhold bool
}
