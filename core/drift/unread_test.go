package drift

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnread(t *testing.T) {
	for want, err := range map[string]error{
		Absent:     &fs.PathError{Op: "open", Path: "/etc/x", Err: fs.ErrNotExist},
		Permission: fmt.Errorf("read /etc/x: %w", fs.ErrPermission),
		Timeout:    errors.Join(errors.New("run systemctl"), context.DeadlineExceeded),
		Malformed:  errors.New("line 3: no field"),
	} {
		if diff := cmp.Diff(Unknown{Kind: want, Reason: err.Error()}, Unread(err)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	if got := Unread(context.Canceled).Kind; got != Timeout {
		t.Errorf("canceled: kind %s, want %s", got, Timeout)
	}
}
