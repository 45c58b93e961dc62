package host

import (
	"context"
	"fmt"
)

type notesKey struct{}

// WithNotes marks a call whose side effects are to be said: f gets one sentence
// for each thing that an operator should know of and that is no error, such as
// attributes a file lost with its old content, or whom the lock waits for. It is
// called on the goroutine of the call, and never with content.
func WithNotes(ctx context.Context, f func(note string)) context.Context {
	return context.WithValue(ctx, notesKey{}, f)
}

// note says something to whoever asked by WithNotes.
func note(ctx context.Context, format string, args ...any) {
	if f, ok := ctx.Value(notesKey{}).(func(string)); ok {
		f(fmt.Sprintf(format, args...))
	}
}
