package appliance

import (
	"fmt"
	"slices"

	"github.com/tlspu/keel/core/drift"
)

// noteSegment ends the path of a leaf that is no value but the note of the one
// above it: what to know before that value is changed. No reader uses it for
// anything else, and Compare lets none through.
const noteSegment = "#note"

// noted is a leaf with its note, "" for none.
func noted(leaf drift.Leaf, note string) drift.State {
	if note == "" {
		return drift.State{leaf}
	}
	return drift.State{leaf, {Path: append(slices.Clone(leaf.Path), noteSegment), Value: note}}
}

// Compare gives the verdicts on both sides in the forms that the field table
// names, and shows the values as they are held: spelling is no drift, and
// nothing is shown that neither side says. A leaf that drifted carries the note
// that its reader left.
func (t *target) Compare(declared, observed drift.State) drift.Report {
	observed, notes := withoutNotes(observed)
	report := drift.Compare(formed(declared), formed(observed))
	spec, machine := held(declared), held(observed)
	for i := range report {
		f := &report[i]
		if v, ok := spec[key(f.Path)]; ok {
			f.Declared = v
		}
		if v, ok := machine[key(f.Path)]; ok && f.Observed != nil {
			f.Observed = v
		}
		if f.Verdict == drift.Drift {
			f.Note = notes[key(f.Path)]
		}
	}
	return report
}

// formed is a side in its comparable form.
func formed(s drift.State) drift.State {
	all := make(drift.State, len(s))
	for i, leaf := range s {
		form := ruling(leaf.Path).form
		if form == nil {
			form = text
		}
		all[i] = drift.Leaf{Path: leaf.Path, Value: form(drift.Canon(leaf.Value))}
	}
	return all
}

// held maps paths to the values of a side as it holds them.
func held(s drift.State) map[string]any {
	all := map[string]any{}
	for _, leaf := range s {
		switch v := drift.Canon(leaf.Value).(type) {
		case drift.Skip, drift.Unknown:
		default:
			all[key(leaf.Path)] = v
		}
	}
	return all
}

// withoutNotes tells the leaves of a side from the notes on them.
func withoutNotes(s drift.State) (leaves drift.State, notes map[string]string) {
	notes = map[string]string{}
	for _, leaf := range s {
		last := len(leaf.Path) - 1
		if last >= 0 && leaf.Path[last] == noteSegment {
			notes[key(leaf.Path[:last])] = drift.Text(leaf.Value)
			continue
		}
		leaves = append(leaves, leaf)
	}
	return leaves, notes
}

func key(p drift.Path) string { return fmt.Sprintf("%q", []string(p)) }
