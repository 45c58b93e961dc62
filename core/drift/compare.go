package drift

import "slices"

// Verdict is the outcome for one leaf. The text is part of the output format.
type Verdict string

// The five verdicts.
const (
	Same        Verdict = "same"
	Drift       Verdict = "drift"
	NotRead     Verdict = "unknown"
	NotDeclared Verdict = "not declared"
	NotCompared Verdict = "not compared"
)

// Finding is the verdict on one leaf. Reason says why it is unknown or not
// compared. Note warns where acting could destroy.
type Finding struct {
	Path               Path
	Verdict            Verdict
	Declared, Observed any
	Reason, Note       string
}

// Report holds the declared leaves in declared order, then the undeclared ones
// in observed order.
type Report []Finding

// Count is the number of findings with verdict v.
func (r Report) Count(v Verdict) int {
	n := 0
	for _, f := range r {
		if f.Verdict == v {
			n++
		}
	}
	return n
}

// At is the finding on the leaf at p.
func (r Report) At(p Path) (f Finding, ok bool) {
	for _, f := range r {
		if slices.Equal(f.Path, p) {
			return f, true
		}
	}
	return Finding{}, false
}

// Settled reports whether every declared leaf is the same or is not compared.
func (r Report) Settled() bool { return r.Count(Drift)+r.Count(NotRead) == 0 }

// Compare is pure. A declared leaf without an answer is unknown ("not
// observed"), never same and never drift; an Unknown at a prefix answers for
// every leaf below it, the longest prefix first, unless the leaf itself was
// observed. A declared Skip answers for every leaf below it. Undeclared leaves
// that are nil or Unknown tell nothing and are left out.
func Compare(declared, observed State) Report {
	seen := index(observed)
	var skipped []Path
	known := make(map[string]bool, len(declared))
	report := make(Report, 0, len(declared))
	for _, leaf := range declared {
		known[leaf.Path.key()] = true
		if _, ok := leaf.Value.(Skip); ok {
			skipped = append(skipped, leaf.Path)
		}
		report = append(report, judge(leaf, seen))
	}
	for _, leaf := range observed {
		key := leaf.Path.key()
		if known[key] || covered(skipped, leaf.Path) {
			continue
		}
		known[key] = true // an undeclared leaf is listed once
		if f, ok := undeclared(seen[key]); ok {
			report = append(report, f)
		}
	}
	return report
}

// judge gives the verdict on one declared leaf.
func judge(leaf Leaf, seen map[string]Leaf) Finding {
	f := Finding{Path: leaf.Path, Declared: leaf.shown()}
	answer, ok := seen[leaf.Path.key()]
	value := Canon(leaf.Value)
	switch declared := value.(type) {
	case Skip:
		f.Verdict, f.Reason, f.Declared = NotCompared, declared.Reason, Canon(declared.Value)
		if _, unknown := answer.Value.(Unknown); !unknown {
			f.Observed = answer.shown()
		}
		if declared.Withhold {
			f.Declared, f.Observed = nil, nil
		}
		return f
	case Unknown:
		f.Declared = nil
		return f.unknown(declared.Reason)
	}
	if !ok {
		answer.Value = above(leaf.Path, seen)
	}
	switch observed := answer.Value.(type) {
	case Unknown:
		return f.unknown(observed.Reason)
	case Skip:
		return f.unknown("its reader does not answer: " + observed.Reason)
	}
	f.Observed = answer.shown()
	if equal(value, answer.Value) {
		f.Verdict = Same
		return f
	}
	f.Verdict, f.Note = Drift, answer.Note
	return f
}

func (f Finding) unknown(reason string) Finding {
	f.Verdict, f.Reason = NotRead, reason
	return f
}

// above finds the Unknown at the longest prefix of p, or says that there is none.
func above(p Path, seen map[string]Leaf) Unknown {
	for n := len(p) - 1; n >= 0; n-- {
		if u, ok := seen[p[:n].key()].Value.(Unknown); ok {
			return u
		}
	}
	return Unknown{Bug, "not observed"}
}

// undeclared gives the finding for an observed leaf that nobody declared.
func undeclared(leaf Leaf) (f Finding, ok bool) {
	f = Finding{Path: leaf.Path, Verdict: NotDeclared, Observed: leaf.shown()}
	switch observed := leaf.Value.(type) {
	case nil, Unknown:
		return f, false
	case Skip:
		f.Verdict, f.Reason, f.Observed = NotCompared, observed.Reason, Canon(observed.Value)
		if observed.Withhold {
			f.Observed = nil
		}
	}
	return f, true
}

func covered(prefixes []Path, p Path) bool {
	for _, prefix := range prefixes {
		if prefix.Covers(p) {
			return true
		}
	}
	return false
}

// index maps each observed path to its leaf, in canonical form. A value beats
// an Unknown for the same path, the reasons of several Unknowns are joined, and
// two different values are an Unknown: a reader that contradicts itself has not
// answered.
func index(observed State) map[string]Leaf {
	contradiction := Unknown{Bug, "observed twice, with different values"}
	seen := make(map[string]Leaf, len(observed))
	for _, leaf := range observed {
		leaf.Value = Canon(leaf.Value)
		key := leaf.Path.key()
		before, again := seen[key]
		if !again {
			seen[key] = leaf
			continue
		}
		was, wasUnknown := before.Value.(Unknown)
		is, isUnknown := leaf.Value.(Unknown)
		switch {
		case wasUnknown && was == contradiction: // a third value settles nothing
		case wasUnknown && isUnknown:
			if is.Reason != was.Reason {
				before.Value = Unknown{was.Kind, was.Reason + "; " + is.Reason}
				seen[key] = before
			}
		case wasUnknown:
			seen[key] = leaf
		case isUnknown, equal(before.Value, leaf.Value):
		default:
			seen[key] = Leaf{Path: leaf.Path, Value: contradiction}
		}
	}
	return seen
}
