package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReporter_tooLarge(t *testing.T) {
	const many = `{"causes":[{"reason":"FieldValueTooMany","message":"Too many: 5001","field":"status.nodes"}]}`
	tests := []struct {
		name     string
		size     int
		answer   answer
		requests int
	}{
		{"as the watch shows", maxSize - 100, answer{}, 0},
		{"for the server", 1000, answer{413, "Request entity too large", http.Header{"Content-Type": {"text/plain"}}}, 1},
		{"for etcd", 1000, refusal(500, "", "etcdserver: request is too large", ""), 1},
		{"for etcd's client", 1000, refusal(500, "", "rpc error: trying to send message larger than max (3 vs. 2)", ""), 1},
		{"too many nodes", 1000, refusal(422, metav1.StatusReasonInvalid, "is invalid", many), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, FormMap, inOrder(tt.answer))
				d.know("motd", Known{UID: "a", Size: tt.size})
				d.know("sshd", Known{UID: "b"})
				d.Report("motd", "a", statusOf("m", 0))
				if got := d.after(time.Hour); len(got) != tt.requests {
					t.Errorf("requests:\n%s", strings.Join(got, "\n"))
				}
				d.Report("motd", "a", statusOf("m2", 0))           // it stays withheld
				d.know("motd", Known{UID: "a", Size: tt.size - 1}) // it is tried again, and does not fit
				if got := d.after(time.Hour); len(got) != tt.requests {
					t.Errorf("requests:\n%s", strings.Join(got, "\n"))
				}
				d.api.say(inOrder(metadata("a", "8")))
				if got := d.after(time.Hour); len(got) != 0 {
					t.Errorf("requests:\n%s", strings.Join(got, "\n"))
				}
				if diff := cmp.Diff([]string{"motd a Warning StatusTooLarge"}, d.events); diff != "" {
					t.Errorf("Events (-want +got):\n%s", diff)
				}
				if got := d.log.said(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "--status=node") {
					t.Errorf("log:\n%s", got)
				}
				if s, ok := d.Before("motd"); !ok || s.Message != "m2" || d.wrote[Withheld] != 1 || d.Held() != 1 {
					t.Errorf("before: %v, %v; metrics %v", s, ok, d.wrote)
				}
				if err := d.Flush(t.Context()); err == nil || err.Error() != "status not sent of motd: there is no room for it: run the agents with --status=node" {
					t.Error(err)
				}
				d.Report("sshd", "b", statusOf("m", 0)) // others go on
				if got := d.after(time.Minute); len(got) != 1 {
					t.Errorf("requests:\n%s", strings.Join(got, "\n"))
				}
				d.know("motd", Known{UID: "a", Size: tt.size / 2})
				if got := d.after(time.Minute); len(got) != 1 || !strings.Contains(got[0], `"m2"`) || d.Held() != 0 {
					t.Errorf("requests:\n%s\n%d withheld", strings.Join(got, "\n"), d.Held())
				}
			})
		})
	}
}

func TestReporter_flush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(answer{}))
		if err := d.Flush(t.Context()); err != nil {
			t.Errorf("nothing waits: %v", err)
		}
		for i := range 7 {
			name := fmt.Sprint("c", i)
			d.know(name, Known{UID: "a"})
			d.Report(name, "a", statusOf("m", 0))
		}
		d.after(100 * time.Second)
		began := time.Now()
		err := d.Flush(deadline(t, 2500*time.Millisecond))
		if err == nil || !strings.HasPrefix(err.Error(), "status not sent of c0, c1, c2, c3, c4, 2 more: patch nodeconfigs/status of c") || !strings.HasSuffix(err.Error(), "connection refused") {
			t.Error(err)
		}
		if took := time.Since(began); took != 2500*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		if got := d.after(0); len(got) != 2 { // at once, and after 1 s
			t.Errorf("%d requests:\n%s", len(got), strings.Join(got, "\n"))
		}
		d.api.say(inOrder(metadata("a", "8")))
		if err := d.Flush(t.Context()); err != nil {
			t.Error(err)
		}
		if got := d.after(0); len(got) != 7 {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
	})
}

// The entry of a node that has one is replaced beyond the limit for new ones.
func TestReporter_tooLargeForNewEntriesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(metadata("a", "8"), metadata("a", "9")))
		own := statusOf("before", 0)
		d.know("motd", Known{UID: "a", Size: maxSize + 1000, Own: &own})
		d.Report("motd", "a", statusOf("m", 0))
		if got := d.after(time.Minute); len(got) != 1 || len(d.events) != 0 {
			t.Errorf("requests:\n%s\nEvents %v", strings.Join(got, "\n"), d.events)
		}
		d.know("motd", Known{UID: "a", ResourceVersion: "8", Size: maxReplaced, Own: &own})
		d.Report("motd", "a", statusOf("m2", 0))
		if got := d.after(time.Minute); len(got) != 0 || len(d.events) != 1 {
			t.Errorf("requests:\n%s\nEvents %v", strings.Join(got, "\n"), d.events)
		}
	})
}

func TestReporter_err(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(refusal(403, metav1.StatusReasonForbidden, "is forbidden", ""), metadata("a", "8")))
		d.know("motd", Known{UID: "a"})
		if err := d.Err(); err != nil {
			t.Error(err)
		}
		d.Report("motd", "a", statusOf("m", 0))
		if got := d.after(time.Millisecond); len(got) != 1 || d.Err() == nil {
			t.Errorf("after %d requests: %v", len(got), d.Err())
		}
		if got := d.after(time.Minute); len(got) != 1 || d.Err() != nil {
			t.Errorf("after %d requests: %v", len(got), d.Err())
		}
	})
}

// What is not to be sent any more takes its error with it: readiness would else wait
// for a write that nobody makes.
func TestReporter_errIsOnlyOfWhatIsToBeSent(t *testing.T) {
	forbidden := refusal(403, metav1.StatusReasonForbidden, "is forbidden", "")
	gone := refusal(404, metav1.StatusReasonNotFound, "not found", "")
	forget := func(d *desk) { d.mu.Lock(); delete(d.known, "motd"); d.mu.Unlock() }
	tests := []struct {
		name   string
		answer answer        // to what is sent for motd, at first
		later  answer        // and later
		then   func(d *desk) // after the first failure
	}{
		{"deleted, and swept", forbidden, forbidden, func(d *desk) { forget(d); d.Sweep(but("motd")) }},
		{"deleted, and not swept yet", answer{}, answer{}, forget},
		{"made anew", forbidden, forbidden, func(d *desk) { d.know("motd", Known{UID: "b"}) }},
		{"answered 404", answer{}, gone, func(*desk) {}},
		{"withheld", forbidden, answer{413, "Request entity too large", http.Header{"Content-Type": {"text/plain"}}}, func(*desk) {}},
		{"refused for itself", forbidden, refusal(422, metav1.StatusReasonInvalid, "is invalid", ""), func(*desk) {}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, FormMap, inOrder(tt.answer, tt.later))
				d.know("motd", Known{UID: "a"})
				d.Report("motd", "a", statusOf("m", 0))
				d.after(time.Millisecond)
				if d.Err() == nil {
					t.Fatal("no error while it cannot be sent")
				}
				tt.then(d)
				if d.after(time.Minute); d.Err() != nil {
					t.Errorf("nothing is to be sent, and yet: %v", d.Err())
				}
			})
		})
	}
}

// An error stays as long as anything else is to be sent.
func TestReporter_errOfWhatIsStillToBeSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(answer{}))
		d.know("motd", Known{UID: "a"})
		d.know("sshd", Known{UID: "b"})
		d.Report("motd", "a", statusOf("m", 0))
		d.Report("sshd", "b", statusOf("m", 0))
		d.after(time.Minute)
		d.Sweep(but("motd"))
		if d.after(time.Minute); d.Err() == nil {
			t.Error("no error, although one cannot be sent")
		}
	})
}

// Each status that is withheld counts once, however often anything wakes the Reporter.
func TestReporter_countsWithheldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(metadata("x", "8")))
		d.know("fits", Known{UID: "x"})
		for i := range 200 {
			name := fmt.Sprint("large-", i)
			d.know(name, Known{UID: "a", Size: maxSize})
			d.Report(name, "a", statusOf("m", 0))
		}
		for range 10 {
			d.Report("fits", "x", statusOf("m", 0))
			d.after(lookTime)
		}
		if d.wrote[Withheld] != 200 || d.Held() != 200 {
			t.Errorf("%d counted and %d withheld, want 200", d.wrote[Withheld], d.Held())
		}
	})
}
