package drift

import (
	"context"
	"errors"
	"io/fs"
)

// Unread is the observed value where a question ended with err, which is not nil: why
// there is no answer. An error of no known kind is Malformed.
func Unread(err error) Unknown {
	u := Unknown{Kind: Malformed, Reason: err.Error()}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		u.Kind = Absent
	case errors.Is(err, fs.ErrPermission):
		u.Kind = Permission
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		u.Kind = Timeout
	}
	return u
}
