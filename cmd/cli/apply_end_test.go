package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestApply_interruptFinishesTheStepAndBeginsNoOther(t *testing.T) {
	b := newBench(t)
	ctx, interrupt := context.WithCancel(t.Context())
	b.ctx = ctx
	b.during = interrupt
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n---\nkind: Note\nname: b\nwant: two\n---\nkind: Order\nname: c\n")
	code, out, errs := b.run("apply", "-f", file, "--root", b.dir)
	if code != 130 || errs != "Interrupted\n" {
		t.Errorf("exit %d, want 130; err %q", code, errs)
	}
	if want := "changed   a\nnot begun b\nnot begun " + file + " document 3\n"; out != want {
		t.Errorf("out %q, want %q", out, want)
	}
	if diff := cmp.Diff(map[string]string{"a": "one"}, b.have); diff != "" {
		t.Error(diff)
	}
}

func TestApply_interruptInTheFirstLook(t *testing.T) {
	b := newBench(t)
	ctx, interrupt := context.WithCancel(t.Context())
	b.ctx = ctx
	b.looking = interrupt
	file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n")
	code, out, _ := b.run("apply", "-f", file, "--root", b.dir, "-o", "json")
	if code != 130 || !strings.Contains(out, `"result": "not begun"`) || !strings.Contains(out, `"not_begun": 1`) || len(b.have) > 0 {
		t.Errorf("exit %d, out %s, changed %v", code, out, b.have)
	}
}

// full is a reader who went away, or a full disk, after n writes.
type full struct {
	n   int
	err error
}

func (f *full) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, f.err
	}
	return len(p), nil
}

func TestApply_lostOutputStopsNothing(t *testing.T) {
	tests := []struct {
		name    string
		err     error
		want    int
		wantErr string
	}{
		{"broken pipe", &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}, 141, ""},
		{"disk full", syscall.ENOSPC, 16, "Error: write standard output: no space left on device\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			file := b.write("notes.yaml", "kind: Note\nname: a\nwant: one\n---\nkind: Note\nname: b\nwant: two\n---\nkind: Note\nname: c\nwant: three\n")
			var errs safeBuffer
			code := b.app(&full{1, tt.err}, &errs, "apply", "-f", file, "--root", b.dir).run(t.Context())
			if code != tt.want || errs.String() != tt.wantErr {
				t.Errorf("exit %d, want %d; err %q", code, tt.want, errs.String())
			}
			if diff := cmp.Diff(map[string]string{"a": "one", "b": "two", "c": "three"}, b.have); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReading_comesBackWhenInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	stuck := make(chan struct{})
	defer close(stuck)
	start := time.Now()
	a := newBench(t).app(io.Discard, io.Discard)
	err := a.reading(ctx, func(context.Context) error { <-stuck; return nil })
	if !errors.Is(err, context.Canceled) || time.Since(start) > 30*time.Second {
		t.Errorf("reading: %v after %s", err, time.Since(start))
	}
}

func TestReading_endsWithItsOutput(t *testing.T) {
	a := newBench(t).app(&full{0, syscall.EPIPE}, io.Discard)
	err := a.reading(t.Context(), func(ctx context.Context) error {
		_, _ = a.out.Write([]byte("x"))
		<-ctx.Done()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("reading: %v", err)
	}
}

func TestApply_standardInputIsInterrupted(t *testing.T) {
	b := newBench(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(r.Close(), w.Close()); err != nil {
			t.Error(err)
		}
	})
	b.in = r
	ctx, interrupt := context.WithCancel(t.Context())
	b.ctx = ctx
	interrupt()
	if code, _, errs := b.run("apply", "-f", "-", "--root", b.dir); code != 130 {
		t.Errorf("exit %d, want 130; err %q", code, errs)
	}
}
