package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tlspu/keel/api/v1alpha1"
)

// What is known of an object after answers of the server, one after the other.
func TestData_answers(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	away := errors.New("connection refused")
	problem := error(apierrors.NewInternalError(errors.New("etcd")))
	forbidden := error(&Forbidden{text: "give it rights", err: apierrors.NewForbidden(secrets, "db", errors.New("no rights"))})
	for _, tt := range []struct {
		name    string
		known   bool
		answers []error
		pending bool
		refused bool
		still   bool // what was known is
	}{
		{name: "nothing yet", pending: true},
		{name: "away from the start", answers: []error{away}, pending: true},
		{name: "a problem from the start", answers: []error{problem}, refused: true},
		{name: "forbidden from the start", answers: []error{forbidden}, refused: true},
		{name: "forbidden, and then away", answers: []error{forbidden, away}, pending: true},
		{name: "known", known: true, still: true},
		{name: "known, and then away", known: true, answers: []error{away, away}, still: true},
		{name: "known, and then a problem", known: true, answers: []error{problem, away}, still: true},
		{name: "a server that has just started", known: true, answers: slices.Concat([]error{away}, slices.Repeat([]error{forbidden}, enough-1), []error{nil}), still: true},
		{name: "forbidden once, now and then", known: true, answers: slices.Repeat([]error{forbidden, nil}, enough), still: true},
		{name: "the right was taken away", known: true, answers: slices.Repeat([]error{forbidden}, enough), refused: true},
	} {
		d := &data{changed: func() {}, log: slog.New(slog.DiscardHandler), watches: map[string]*datum{}, renewed: map[string]bool{}}
		const title = "Secret default/db"
		w := &datum{err: fmt.Errorf("%s %w", title, ErrPending)}
		if tt.known {
			d.take(title, w, &v1alpha1.Data{}, true)
		}
		for _, err := range tt.answers {
			d.told(title, w, err)
		}
		pending := errors.Is(w.err, ErrPending)
		if pending != tt.pending || (w.err != nil && !pending) != tt.refused || (w.data != nil) != tt.still {
			t.Errorf("%s: %v, %v", tt.name, w.data, w.err)
		}
	}
}
