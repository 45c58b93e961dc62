package jail

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	apijail "github.com/tlspu/keel/api/jail"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/plugin"
)

// Kind is the kind Jail for the command line.
func Kind() plugin.Kind {
	return plugin.Kind{Name: apijail.Kind, Validate: validate, Targets: targets}
}

func validate(_ context.Context, _ plugin.Env, docs []plugin.Doc) []error {
	_, errs := parse(docs)
	return errs
}

// parse reads documents, each beside the others. A name that comes again is an
// error of the later one.
func parse(docs []plugin.Doc) (jails []*apijail.Jail, errs []error) {
	jails, errs = make([]*apijail.Jail, len(docs)), make([]error, len(docs))
	first := map[string]string{}
	for i, doc := range docs {
		j, err := apijail.Parse(doc.Data)
		if err != nil {
			errs[i] = &plugin.Exit{Code: code(err), Err: err}
			continue
		}
		name := j.Metadata.Name
		if source, again := first[name]; again {
			errs[i] = &plugin.Exit{Code: plugin.ExitInvalid, Err: fmt.Errorf("metadata.name: jail %s is in %s already", name, source)}
			continue
		}
		jails[i], first[name] = j, doc.Source
	}
	return jails, errs
}

// code tells what cannot be read from what is not valid.
func code(err error) int {
	errs := []error{err}
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		errs = many.Unwrap()
	}
	for _, err := range errs {
		var field *apijail.FieldError
		if errors.As(err, &field) && (field.Category == apijail.Syntax || field.Category == apijail.TwiceGiven) {
			return plugin.ExitUnreadable
		}
	}
	return plugin.ExitInvalid
}

// targets answers every sound document with the same true error: no driver for
// a real system is in this binary.
func targets(_ context.Context, _ plugin.Env, docs []plugin.Doc) ([]drift.Target, error) {
	jails, errs := parse(docs)
	list := make([]drift.Target, len(docs))
	for i, j := range jails {
		list[i] = drift.Refused(docs[i].Source, errs[i])
		if j != nil {
			list[i] = drift.Refused(targetID(j.Metadata.Name), fmt.Errorf("this keel checks jails and cannot make them: it has no jail driver for %s "+
				"(a driver for freebsd comes first, then one for linux)", runtime.GOOS))
		}
	}
	return list, nil
}
