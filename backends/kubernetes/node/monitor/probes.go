package monitor

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// scrapes is how many scrapes are answered at once; one more is told 503. Each
// needs memory for all series.
const scrapes = 4

// Handler serves /metrics.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelError), ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: scrapes,
	}))
	return mux
}

// Probes answer a kubelet. Both functions may be called at any time, from any
// goroutine; what they return is shown to everybody who asks.
type Probes struct {
	// Alive says why the process is to be killed and started again.
	Alive func(now time.Time) error
	// Ready says why the agent does not do its work yet, or at the moment.
	Ready func() error
	Now   func() time.Time
}

// Handler serves /healthz and /readyz: 200, or 503 with the reason as text.
func (p Probes) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.Alive(p.Now())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.Ready()) })
	return mux
}

// maxReason is how much of a reason is shown, in bytes.
const maxReason = 1024

func answer(w http.ResponseWriter, err error) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	text := "ok"
	if err != nil {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = cut(err.Error())
	}
	_, _ = fmt.Fprintln(w, text) // who asked may be gone
}

// cut shortens a reason between two characters.
func cut(s string) string {
	if len(s) <= maxReason {
		return s
	}
	end := maxReason
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// A Pulse tells whether a loop turns. The zero value is that of one which never
// did. It is safe for concurrent use.
type Pulse struct {
	mu     sync.Mutex
	last   time.Time
	within time.Duration
}

// Turn says that the loop goes on at now, and will say so again within some
// time. A loop that begins something long allows for it.
func (p *Pulse) Turn(now time.Time, within time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.within = now, within
}

// Alive is an error when the loop has not turned when it said it would.
func (p *Pulse) Alive(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.IsZero() {
		return errors.New("the reconcile loop has not begun")
	}
	if since := now.Sub(p.last); since > p.within {
		return fmt.Errorf("the reconcile loop stands still since %s, for %s; the limit is %s",
			p.last.UTC().Format(time.RFC3339), since.Round(time.Second), p.within)
	}
	return nil
}
