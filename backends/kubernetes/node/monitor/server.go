package monitor

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tlspu/keel/core/plugin"
)

// exitInvalid is the exit code for a setting that breaks a rule; cmd/cli has the
// table.
const exitInvalid = 3

// limits of a server that anybody in the cluster may reach.
type limits struct {
	header, read, write, idle time.Duration
	grace                     time.Duration // for what is being answered at the end
	headers                   int           // bytes
	conns                     int           // an address
}

func defaults() limits {
	return limits{
		header: 5 * time.Second, read: 10 * time.Second, write: 30 * time.Second, idle: 60 * time.Second,
		grace: 3 * time.Second, headers: 8 << 10, conns: 64,
	}
}

// A Server serves metrics and probes.
type Server struct {
	log     *slog.Logger
	limits  limits
	serving []serving
}

// serving is one address.
type serving struct {
	settings string // that name it
	listener net.Listener
	handler  http.Handler
}

// Listen opens the addresses of the settings metrics-addr and health-addr. "0"
// and "" open none; where both are the same, one address has everything. Every
// error names the setting and says what to do.
func Listen(ctx context.Context, metricsAddr, healthAddr string, metrics, probes http.Handler, log *slog.Logger) (*Server, error) {
	s := &Server{log: log, limits: defaults()}
	open := func(settings, addr string, h http.Handler) error {
		if off(addr) {
			return nil
		}
		l, err := listen(ctx, settings, addr)
		if err == nil {
			s.serving = append(s.serving, serving{settings, l, h})
		}
		return err
	}
	var err error
	if metricsAddr == healthAddr {
		mux := http.NewServeMux()
		mux.Handle("/metrics", metrics)
		mux.Handle("/", probes)
		err = open("metrics-addr and health-addr", metricsAddr, mux)
	} else if err = open("metrics-addr", metricsAddr, metrics); err == nil {
		err = open("health-addr", healthAddr, probes)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func off(addr string) bool { return addr == "" || addr == "0" }

func listen(ctx context.Context, settings, addr string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(addr)
	if _, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil {
		return nil, &plugin.Exit{Code: exitInvalid, Err: fmt.Errorf("%s %q: is no address: write :PORT or HOST:PORT, such as :8080, or 0 for none", settings, addr)}
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: give another address, or 0 for none", settings, addr, err)
	}
	return l, nil
}

// Close closes the addresses of a Server that is not to serve.
func (s *Server) Close() {
	for _, a := range s.serving {
		_ = a.listener.Close() // nothing was accepted
	}
}

// Addrs are the addresses that are open, that of metrics first.
func (s *Server) Addrs() (list []net.Addr) {
	for _, a := range s.serving {
		list = append(list, a.listener.Addr())
	}
	return list
}

// Serve answers until ctx ends, and returns nil then, after at most a few
// seconds for what is being answered. It may be called once.
func (s *Server) Serve(ctx context.Context) error {
	ended := make(chan error, len(s.serving))
	servers := make([]*http.Server, 0, len(s.serving))
	for _, a := range s.serving {
		server := s.server(a.handler)
		servers = append(servers, server)
		s.log.Info("serving", "settings", a.settings, "addr", a.listener.Addr().String())
		go func() {
			err := server.Serve(&limited{Listener: a.listener, most: s.limits.conns})
			ended <- fmt.Errorf("%s: %w", a.settings, err)
		}()
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-ended: // a server ends by itself only when it cannot accept
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.limits.grace)
	defer cancel()
	var stopping sync.WaitGroup
	for _, server := range servers {
		stopping.Go(func() {
			if server.Shutdown(last) != nil {
				_ = server.Close() // who still reads is cut off
			}
		})
	}
	stopping.Wait()
	return failed
}

func (s *Server) server(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.limits.header, ReadTimeout: s.limits.read, WriteTimeout: s.limits.write, IdleTimeout: s.limits.idle,
		MaxHeaderBytes: s.limits.headers,
		ErrorLog:       slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}
}

// A limited listener has most connections: one more closes the oldest. Whoever holds
// many open and asks nothing would else keep the kubelet's probes out, and have the
// agent killed.
type limited struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*place // oldest first
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &place{Conn: c, of: l}
	l.mu.Lock()
	l.open = append(l.open, p)
	oldest := l.open[0]
	full := len(l.open) > l.most
	l.mu.Unlock()
	if full {
		_ = oldest.Close() // who holds it sees it
	}
	return p, nil
}

// A place is a connection that counts.
type place struct {
	net.Conn
	of *limited
}

func (p *place) Close() error {
	p.of.mu.Lock()
	p.of.open = slices.DeleteFunc(p.of.open, func(other *place) bool { return other == p })
	p.of.mu.Unlock()
	return p.Conn.Close()
}
