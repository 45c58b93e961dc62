package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/tlspu/keel/core/plugin"
)

// logSettings are what every role takes beside its own settings.
type logSettings struct {
	Format string `flag:"log-format" usage:"form of the log on standard error" enum:"text|json"`
	Level  string `flag:"log-level" usage:"least level that is logged" enum:"debug|info|warn|error"`
}

// logger is the logger of a role.
func (s logSettings) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.Level)) // one of the enum
	options := &slog.HandlerOptions{Level: level}
	if s.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// log is the logger of cli's own commands: warnings and errors as lines for a
// person.
func (a *app) log() *slog.Logger {
	return slog.New(&lines{w: a.err, mu: &sync.Mutex{}})
}

// lines is a slog.Handler that prints "Warning: message key=value".
type lines struct {
	w      io.Writer
	mu     *sync.Mutex
	attrs  string // " key=value" of WithAttrs
	prefix string // "group." of WithGroup
}

func (l *lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	word := "Warning"
	if r.Level >= slog.LevelError {
		word = "Error"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s%s", word, plugin.Printable(r.Message), l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		l.attr(&b, l.prefix, a)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := fmt.Fprintln(l.w, b.String())
	return err
}

// attr appends " key=value", quoted where it would not be one word.
func (l *lines) attr(b *strings.Builder, prefix string, a slog.Attr) {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range value.Group() {
			l.attr(b, prefix, member)
		}
		return
	}
	if a.Equal(slog.Attr{}) {
		return
	}
	text := value.String()
	if text == "" || strings.ContainsAny(text, " \"=") || plugin.Printable(text) != text {
		text = strconv.Quote(text)
	}
	fmt.Fprintf(b, " %s=%s", plugin.Printable(prefix+a.Key), text)
}

func (l *lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	var b strings.Builder
	for _, a := range attrs {
		l.attr(&b, l.prefix, a)
	}
	with := *l
	with.attrs += b.String()
	return &with
}

func (l *lines) WithGroup(name string) slog.Handler {
	with := *l
	if name != "" {
		with.prefix += name + "."
	}
	return &with
}
