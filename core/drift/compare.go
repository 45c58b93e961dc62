package drift

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
		if f, ok := undeclared(leaf.Path, seen[key]); ok {
			report = append(report, f)
		}
	}
	return report
}

// judge gives the verdict on one declared leaf.
func judge(leaf Leaf, seen map[string]any) Finding {
	f := Finding{Path: leaf.Path, Declared: Canon(leaf.Value)}
	observed, ok := seen[leaf.Path.key()]
	switch declared := f.Declared.(type) {
	case Skip:
		f.Verdict, f.Reason, f.Declared = NotCompared, declared.Reason, Canon(declared.Value)
		if _, unknown := observed.(Unknown); !unknown {
			f.Observed = observed
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
		observed = above(leaf.Path, seen)
	}
	switch observed := observed.(type) {
	case Unknown:
		return f.unknown(observed.Reason)
	case Skip:
		return f.unknown("its reader does not answer: " + observed.Reason)
	}
	f.Verdict, f.Observed = Drift, observed
	if equal(f.Declared, observed) {
		f.Verdict = Same
	}
	return f
}

func (f Finding) unknown(reason string) Finding {
	f.Verdict, f.Reason = NotRead, reason
	return f
}

// above finds the Unknown at the longest prefix of p, or says that there is none.
func above(p Path, seen map[string]any) Unknown {
	for n := len(p) - 1; n >= 0; n-- {
		if u, ok := seen[p[:n].key()].(Unknown); ok {
			return u
		}
	}
	return Unknown{Bug, "not observed"}
}

// undeclared gives the finding for an observed leaf that nobody declared.
func undeclared(p Path, observed any) (f Finding, ok bool) {
	f = Finding{Path: p, Verdict: NotDeclared, Observed: observed}
	switch observed := observed.(type) {
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

// index maps each observed path to its value. A value beats an Unknown for the
// same path, the reasons of several Unknowns are joined, and two different
// values are an Unknown: a reader that contradicts itself has not answered.
func index(observed State) map[string]any {
	var contradiction any = Unknown{Bug, "observed twice, with different values"}
	seen := make(map[string]any, len(observed))
	for _, leaf := range observed {
		key, value := leaf.Path.key(), Canon(leaf.Value)
		before, again := seen[key]
		if !again {
			seen[key] = value
			continue
		}
		was, wasUnknown := before.(Unknown)
		is, isUnknown := value.(Unknown)
		switch {
		case equal(before, contradiction): // a third value settles nothing
		case wasUnknown && isUnknown:
			if is.Reason != was.Reason {
				seen[key] = Unknown{was.Kind, was.Reason + "; " + is.Reason}
			}
		case wasUnknown:
			seen[key] = value
		case isUnknown, equal(before, value):
		default:
			seen[key] = contradiction
		}
	}
	return seen
}
