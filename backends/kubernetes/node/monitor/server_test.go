package monitor

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tlspu/keel/core/plugin"
)

const anyPort = "127.0.0.1:0"

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

// listening opens both addresses, with metrics and probes of an agent in order.
func listening(t *testing.T, metricsAddr, healthAddr string) *Server {
	t.Helper()
	s, err := Listen(t.Context(), metricsAddr, healthAddr, metrics().Handler(quiet(t)), probes().Handler(), quiet(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve lets s serve until stop is called, which returns what Serve did.
func serve(t *testing.T, s *Server) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	stop = func() error {
		cancel()
		select {
		case err := <-ended:
			ended <- err
			return err
		case <-time.After(patience):
			return errors.New("Serve does not end")
		}
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return stop
}

// dial connects to an address of s, for as long as the test may take.
func dial(t *testing.T, s *Server) net.Conn {
	t.Helper()
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", s.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// send sends text as it is, and reads the answer to the end of the connection.
func send(t *testing.T, s *Server, text string) string {
	t.Helper()
	c := dial(t, s)
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatalf("the connection stays open; it said %q", answer)
	}
	return string(answer) // an error is the end too: the server hung up on what it did not read
}

func get(t *testing.T, addr net.Addr, path string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestListen_addresses(t *testing.T) {
	const found, missing = http.StatusOK, http.StatusNotFound
	type paths map[string]int
	tests := []struct {
		name, metrics, health string
		want                  []paths // of each address
	}{
		{"one for both", anyPort, anyPort, []paths{{"/metrics": found, "/healthz": found, "/readyz": found, "/": missing, "/debug/vars": missing}}},
		{"one for each", anyPort, "localhost:0", []paths{
			{"/metrics": found, "/healthz": missing, "/readyz": missing, "/debug/vars": missing, "/debug/pprof/": missing},
			{"/metrics": missing, "/healthz": found, "/readyz": found},
		}},
		{"metrics off", "0", anyPort, []paths{{"/metrics": missing, "/healthz": found}}},
		{"metrics not given", "", anyPort, []paths{{"/metrics": missing, "/healthz": found}}},
		{"probes off", anyPort, "0", []paths{{"/metrics": found, "/healthz": missing}}},
		{"both off", "0", "0", nil},
		{"neither given", "", "", nil},
		{"one off, one not given", "", "0", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := listening(t, tt.metrics, tt.health)
			stop := serve(t, s)
			addrs := s.Addrs()
			if len(addrs) != len(tt.want) {
				t.Fatalf("got %v, want %d addresses", addrs, len(tt.want))
			}
			for i, want := range tt.want {
				for path, code := range want {
					if got := get(t, addrs[i], path); got != code {
						t.Errorf("address %d, %s: got %d, want %d", i, path, got, code)
					}
				}
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			for _, addr := range addrs {
				if c, err := net.Dial("tcp", addr.String()); err == nil {
					_ = c.Close()
					t.Errorf("%s is still open", addr)
				}
			}
		})
	}
}

func TestListen_refuses(t *testing.T) {
	var config net.ListenConfig
	other, err := config.Listen(t.Context(), "tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	taken := other.Addr().String()
	const write = `: is no address: write :PORT or HOST:PORT, such as :8080, or 0 for none`
	tests := []struct {
		name, metrics, health, want string
		code                        int
	}{
		{"only a port", "8080", "", `metrics-addr "8080"` + write, exitInvalid},
		{"only a host", "", "localhost", `health-addr "localhost"` + write, exitInvalid},
		{"no port", "localhost:", "", `metrics-addr "localhost:"` + write, exitInvalid},
		{"a name of a port", "", ":http", `health-addr ":http"` + write, exitInvalid},
		{"a port too large", ":65536", ":65536", `metrics-addr and health-addr ":65536"` + write, exitInvalid},
		{"a negative port", ":-1", "", `metrics-addr ":-1"` + write, exitInvalid},
		{"a URL", "http://localhost:8080", "", `metrics-addr "http://localhost:8080"` + write, exitInvalid},
		{"taken", taken, "0", "metrics-addr " + taken + ": listen tcp " + taken + ": bind: address already in use: give another address, or 0 for none", 0},
		{"the second is taken", anyPort, taken, "health-addr " + taken + ": listen tcp " + taken + ": bind: address already in use: give another address, or 0 for none", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Listen(t.Context(), tt.metrics, tt.health, http.NotFoundHandler(), http.NotFoundHandler(), quiet(t))
			if err == nil {
				s.Close()
				t.Fatal("accepted")
			}
			if err.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
			code := 0
			if exit := (*plugin.Exit)(nil); errors.As(err, &exit) {
				code = exit.Code
			}
			if code != tt.code {
				t.Errorf("exit code: got %d, want %d", code, tt.code)
			}
		})
	}
}

func TestServe_hostileRequests(t *testing.T) {
	s := listening(t, anyPort, anyPort)
	s.limits.header, s.limits.read, s.limits.idle = 200*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	stop := serve(t, s)
	const end = " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	tests := []struct{ name, send, want string }{
		{"as it should be", "GET /metrics" + end, "HTTP/1.1 200 OK\r\n"},
		{"HEAD", "HEAD /metrics" + end, "HTTP/1.1 200 OK\r\n"},
		{"POST", "POST /metrics" + end, "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"},
		{"POST to a probe", "POST /healthz" + end, "HTTP/1.1 405 Method Not Allowed\r\nAllow: GET, HEAD\r\n"},
		{"DELETE", "DELETE /readyz" + end, "HTTP/1.1 405 "},
		{"a made-up method", "STEAL /metrics" + end, "HTTP/1.1 405 "},
		{"a proxy's request", "CONNECT example.org:443" + end, "HTTP/1.1 404 "},
		{"another path", "GET /../../etc/passwd" + end, "HTTP/1.1 307 "},
		{"what imports offer by themselves", "GET /debug/vars" + end, "HTTP/1.1 404 "},
		{"profiles", "GET /debug/pprof/heap" + end, "HTTP/1.1 404 "},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400 "},
		{"no host", "GET /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "},
		{"big headers", "GET /metrics HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 16<<10) + "\r\n\r\n", "HTTP/1.1 431 "},
		{"a header without end", "GET /metrics HTTP/1.1\r\nHost: a\r\n", ""},
		{"nothing at all", "", ""},
		{"a body that does not come", "GET /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
		{"an idle connection", "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := send(t, s, tt.send)
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got %.200q, want %q", got, tt.want)
			}
			if _, body, _ := strings.Cut(got, "\r\n\r\n"); tt.name == "HEAD" && body != "" {
				t.Errorf("HEAD has a body: %.200q", body)
			}
		})
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// Whoever holds connections open keeps nobody out: one more closes the oldest.
func TestServe_limitsConnections(t *testing.T) {
	s := listening(t, anyPort, "0")
	s.limits.conns = 2
	serve(t, s)
	const request = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
	answered := func(c net.Conn) bool {
		_, err := io.WriteString(c, request)
		line := ""
		if err == nil {
			line, err = bufio.NewReader(c).ReadString('\n')
		}
		if err == nil && line != "HTTP/1.1 200 OK\r\n" {
			t.Fatalf("got %q", line)
		}
		return err == nil
	}
	first, second := dial(t, s), dial(t, s)
	if !answered(first) || !answered(second) {
		t.Fatal("a place is not to be had")
	}
	if !answered(dial(t, s)) {
		t.Error("the third connection was not answered")
	}
	if answered(first) {
		t.Error("the oldest connection was left open")
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if third, fourth := dial(t, s), dial(t, s); !answered(fourth) || !answered(third) {
		t.Error("a connection that has its place was closed")
	}
}

// slow is a handler that answers when it is let, or when it is cut off.
type slow struct{ entered, let, cut chan struct{} }

func (h slow) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	close(h.entered)
	select {
	case <-h.let:
		_, _ = io.WriteString(w, "late")
	case <-r.Context().Done():
		close(h.cut)
	}
}

func TestServe_ends(t *testing.T) {
	tests := []struct {
		name  string
		grace time.Duration
		let   bool
	}{
		{"with what is being answered", patience, true},
		{"without what takes too long", 50 * time.Millisecond, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := slow{make(chan struct{}), make(chan struct{}), make(chan struct{})}
			s, err := Listen(t.Context(), anyPort, "0", h, http.NotFoundHandler(), quiet(t))
			if err != nil {
				t.Fatal(err)
			}
			s.limits.grace = tt.grace
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(ctx) }()
			var silent net.Conn // nobody knows yet whether it will ask for anything
			if !tt.let {
				silent = dial(t, s)
			}
			c := dial(t, s)
			if _, err := io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			<-h.entered
			cancel()
			if tt.let {
				close(h.let)
			}
			answer, _ := io.ReadAll(c) // cut off is an error
			if got := strings.HasSuffix(string(answer), "late"); got != tt.let {
				t.Errorf("answer: %q", answer)
			}
			if !tt.let {
				<-h.cut
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("Serve does not end")
			}
			if silent == nil {
				return
			}
			if _, err := silent.Read(make([]byte, 1)); err == nil {
				t.Error("a connection that asked nothing is answered")
			}
		})
	}
}

// A server that can no longer accept says which setting it is of.
func TestServe_saysWhatEnded(t *testing.T) {
	s := listening(t, anyPort, "0")
	s.Close()
	err := s.Serve(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "metrics-addr: ") || !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v", err)
	}
}
