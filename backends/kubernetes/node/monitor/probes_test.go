package monitor

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// quiet is a log that goes to the test's output.
func quiet(t testing.TB) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }

// probes are those of an agent in order.
func probes() Probes {
	return Probes{
		Alive: func(time.Time) error { return nil },
		Ready: func() error { return nil },
		Now:   func() time.Time { return noon },
	}
}

func TestProbes(t *testing.T) {
	stuck := probes()
	stuck.Alive = func(now time.Time) error { return errors.New("stuck at " + now.Format(time.TimeOnly)) }
	waiting := probes()
	waiting.Ready = func() error { return errors.New(`no node "web-1": name it with node-name`) }
	wordy := probes()
	wordy.Ready = func() error { return errors.New(strings.Repeat("ä", 1<<20)) }
	tests := []struct {
		name         string
		probes       Probes
		method, path string
		want         int
		body         string
	}{
		{"alive", probes(), "GET", "/healthz", 200, "ok\n"},
		{"ready", probes(), "GET", "/readyz", 200, "ok\n"},
		{"with a query", probes(), "GET", "/readyz?verbose", 200, "ok\n"},
		{"not alive", stuck, "GET", "/healthz", 503, "stuck at 12:00:00\n"},
		{"not alive is another thing than not ready", stuck, "GET", "/readyz", 200, "ok\n"},
		{"not ready", waiting, "GET", "/readyz", 503, "no node \"web-1\": name it with node-name\n"},
		{"not ready is alive", waiting, "GET", "/healthz", 200, "ok\n"},
		{"a long reason is cut", wordy, "GET", "/readyz", 503, strings.Repeat("ä", 512) + "…\n"},
		{"no other path", probes(), "GET", "/", 404, "404 page not found\n"},
		{"no metrics here", probes(), "GET", "/metrics", 404, "404 page not found\n"},
		{"only reading", probes(), "POST", "/healthz", 405, "Method Not Allowed\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			tt.probes.Handler().ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
			body, err := io.ReadAll(w.Body)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.body, string(body)); w.Code != tt.want || diff != "" {
				t.Errorf("got %d, want %d; body (-want +got):\n%s", w.Code, tt.want, diff)
			}
			if kind := w.Header().Get("Content-Type"); !strings.HasPrefix(kind, "text/plain") || w.Header().Get("X-Content-Type-Options") != "nosniff" && tt.want != http.StatusMethodNotAllowed {
				t.Errorf("headers: %v", w.Header())
			}
		})
	}
}

func TestPulse(t *testing.T) {
	turned := func(within time.Duration) *Pulse {
		p := &Pulse{}
		p.Turn(noon.Add(-time.Hour), time.Second)
		p.Turn(noon, within)
		return p
	}
	tests := []struct {
		name    string
		pulse   *Pulse
		at      time.Time
		wantErr string
	}{
		{"never turned", &Pulse{}, noon, "the reconcile loop has not begun"},
		{"just now", turned(time.Minute), noon, ""},
		{"within its time", turned(time.Minute), noon.Add(time.Minute), ""},
		{"a long visit", turned(time.Hour), noon.Add(59 * time.Minute), ""},
		{"a clock that was set back", turned(time.Minute), noon.Add(-time.Hour), ""},
		{"stands still", turned(time.Minute), noon.Add(61 * time.Second),
			"the reconcile loop stands still since 2026-10-15T12:00:00Z, for 1m1s; the limit is 1m0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if err := tt.pulse.Alive(tt.at); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.wantErr, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
