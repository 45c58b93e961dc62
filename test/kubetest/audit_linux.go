package kubetest

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
	"time"
)

// AuditLog is the file with a line of JSON for each answer, written when it was
// sent, which its client may see a moment earlier: see Requests. The start of a
// watch and its end have one each.
func (s *Server) AuditLog() string { return s.path("audit.log") }

// Request is one that the server has answered.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, delete, deletecollection; of other paths the method
	Path        string // with the query
	Group       string
	Resource    string
	Subresource string
	Namespace   string
	Name        string
	User        string
	UserAgent   string
	Code        int
	At          time.Time     // when it came
	Took        time.Duration // until the end of the answer, or of a watch its beginning
}

// Writes reports whether the request was one that can change something.
func (r Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Requests lists the requests that came at or after from, in the order of their
// answers. A watch is listed once, when it has begun.
func (s *Server) Requests(t testing.TB, from time.Time) []Request {
	t.Helper()
	f, err := os.Open(s.AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []Request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct {
			Stage      string
			Verb       string
			RequestURI string
			UserAgent  string
			User       struct{ Username string }
			ObjectRef  struct {
				APIGroup, Resource, Subresource, Namespace, Name string
			}
			ResponseStatus           struct{ Code int }
			RequestReceivedTimestamp time.Time
			StageTimestamp           time.Time
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			break // the last line is being written
		}
		// What fails before it has begun is a watch too.
		begun := e.Verb == "watch" && e.ResponseStatus.Code == 200
		if begun != (e.Stage == "ResponseStarted") || e.RequestReceivedTimestamp.Before(from) {
			continue
		}
		all = append(all, Request{
			Verb: e.Verb, Path: e.RequestURI,
			Group: e.ObjectRef.APIGroup, Resource: e.ObjectRef.Resource, Subresource: e.ObjectRef.Subresource,
			Namespace: e.ObjectRef.Namespace, Name: e.ObjectRef.Name,
			User: e.User.Username, UserAgent: e.UserAgent,
			Code: e.ResponseStatus.Code, At: e.RequestReceivedTimestamp, Took: e.StageTimestamp.Sub(e.RequestReceivedTimestamp),
		})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
