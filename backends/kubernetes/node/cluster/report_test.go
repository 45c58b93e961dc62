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

	"github.com/tlspu/keel/api/v1alpha1"
)

const statusPath = " PATCH /apis/keel.tlspu.io/v1alpha1/nodeconfigs/motd/status "

// patched is a patch of motd's entry at a time, with more fields before it.
func patched(at, more, message string, generation int64) string {
	return at + statusPath + `{"status":{` + more + `"nodes":{"n1":` + entryOf(message, generation) + `}}}`
}

func TestReporter_writesItsEntry(t *testing.T) {
	const never = `{"causes":[{"reason":"FieldValueInvalid","message":"never goes back","field":"status.observedGeneration"}]}`
	const newer = "ValidatingAdmissionPolicy 'keel' denied request: status.observedGeneration: is newer than the NodeConfig"
	tests := []struct {
		name    string
		known   Known
		answers []answer
		then    Known // what the watch shows after the first requests
		want    []string
		again   []string // after a minute
	}{
		{"of a new generation", Known{UID: "a", Generation: 3, Observed: 2}, []answer{metadata("a", "8")}, Known{},
			[]string{patched("0s", `"observedGeneration":3,`, "m", 3)}, nil},
		{"of one that was observed", Known{UID: "a", Generation: 3, Observed: 3}, []answer{metadata("a", "8")}, Known{},
			[]string{patched("0s", "", "m", 3)}, nil},
		{"of one that is gone by a backup", Known{UID: "a", Generation: 2, Observed: 2}, []answer{metadata("a", "8")}, Known{},
			[]string{patched("0s", "", "m", 3)}, nil},
		{"of one that is older than another agent's", Known{UID: "a", Generation: 3, Observed: 2},
			[]answer{refusal(422, metav1.StatusReasonInvalid, "never goes back", never), metadata("a", "8")}, Known{},
			[]string{patched("0s", `"observedGeneration":3,`, "m", 3), patched("0s", "", "m", 3)}, nil},
		{"made anew, and the watch is late", Known{UID: "a", Generation: 3}, []answer{refusal(403, metav1.StatusReasonForbidden, newer, "")}, Known{UID: "b", Generation: 1},
			[]string{patched("0s", `"observedGeneration":3,`, "m", 3)}, nil},
		{"restored, and the watch is late", Known{UID: "a", Generation: 3},
			[]answer{refusal(403, metav1.StatusReasonForbidden, newer, ""), metadata("a", "8")}, Known{UID: "a", Generation: 2},
			[]string{patched("0s", `"observedGeneration":3,`, "m", 3)}, []string{patched("1s", "", "m", 3)}},
		{"gone", Known{UID: "a", Generation: 3, Observed: 3}, []answer{refusal(404, metav1.StatusReasonNotFound, "not found", "")}, Known{},
			[]string{patched("0s", "", "m", 3)}, nil},
		{"made anew", Known{UID: "b", Generation: 3, Observed: 3}, []answer{metadata("b", "8")}, Known{}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, FormMap, inOrder(tt.answers...))
				d.know("motd", tt.known)
				d.Report("motd", "a", statusOf("m", 3))
				if diff := cmp.Diff(tt.want, d.after(0)); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				for _, accept := range d.api.asks {
					if !strings.HasPrefix(accept, "application/json;as=PartialObjectMetadata;") {
						t.Errorf("asked for %s: with the statuses of all nodes", accept)
					}
				}
				if tt.then.UID != "" {
					d.know("motd", tt.then)
				}
				if diff := cmp.Diff(tt.again, d.after(time.Minute)); diff != "" {
					t.Errorf("requests later (-want +got):\n%s", diff)
				}
				if err := d.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestReporter_triesAgain(t *testing.T) {
	later := http.Header{"Retry-After": {"7"}, "Content-Type": {"text/plain"}}
	const forbidden = `nodeconfigs.keel.tlspu.io "motd" is forbidden: User "x" cannot patch resource "nodeconfigs/status" in API group "keel.tlspu.io" at the cluster scope`
	tests := []struct {
		name   string
		answer answer
		want   string // when requests came
		log    string // of the first failure; all others say nothing
	}{
		{"no connection", answer{}, "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "connection refused"},
		{"500", refusal(500, "", "etcdserver: mvcc: database space exceeded", ""), "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "database space exceeded"},
		{"503 with a pause", answer{503, "busy", later}, "0s 7s 14s 21s 29s 45s 1m17s 2m17s", "currently unable to handle"},
		{"429 with a pause, as a Status", refusal(429, metav1.StatusReasonTooManyRequests, "slow down", `{"retryAfterSeconds":90}`), "0s 1m30s", "slow down"},
		{"401", refusal(401, metav1.StatusReasonUnauthorized, "Unauthorized", ""), "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "Unauthorized"},
		{"403", refusal(403, metav1.StatusReasonForbidden, forbidden, ""), "0s 1s 3s 7s 15s 31s 1m3s 2m3s",
			"give the agent's ServiceAccount patch on nodeconfigs/status, as deploy/kubernetes does"},
		{"404 of a resource", answer{404, "404 page not found", http.Header{"Content-Type": {"text/plain"}}}, "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "could not find the requested resource"},
		{"409", refusal(409, metav1.StatusReasonConflict, "has been modified", ""), "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "has been modified"},
		{"422", refusal(422, metav1.StatusReasonInvalid, "is invalid", ""), "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "is invalid"},
		{"no JSON", answer{200, "{", nil}, "0s 1s 3s 7s 15s 31s 1m3s 2m3s", "read the answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ok := false
				d := newDesk(t, FormMap, func(string) answer {
					if ok {
						return metadata("a", "8")
					}
					return tt.answer
				})
				d.know("motd", Known{UID: "a", Generation: 1, Observed: 1})
				d.Report("motd", "a", statusOf("m", 1))
				var times []string
				for _, r := range d.after(150 * time.Second) {
					times = append(times, strings.Fields(r)[0])
				}
				if got := strings.Join(times, " "); got != tt.want {
					t.Errorf("requests at %s, want %s", got, tt.want)
				}
				if got := d.log.said(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, tt.log) ||
					!strings.Contains(got, "patch nodeconfigs/status of motd") {
					t.Errorf("log:\n%s", got)
				}
				if s, known := d.Before("motd"); !known || s.Message != "m" {
					t.Errorf("before: %v, %v", s, known)
				}
				d.api.change(func() { ok = true })
				d.after(time.Minute)
				if err := d.Flush(t.Context()); err != nil {
					t.Error(err)
				}
				if got := d.log.said(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "sent again") {
					t.Errorf("log:\n%s", got)
				}
				if d.wrote[Written] == 0 || d.wrote[Failed] < 2 && tt.name != "no JSON" {
					t.Errorf("metrics %v", d.wrote)
				}
			})
		})
	}
}

func TestReporter_latestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := true
		var d *desk
		d = newDesk(t, FormMap, func(request string) answer {
			switch {
			case away:
				return answer{}
			case strings.Contains(request, `"third"`):
				d.Report("motd", "a", statusOf("fourth", 1)) // while the third is on its way
			}
			return metadata("a", "8")
		})
		for _, name := range []string{"motd", "issue", "sshd"} {
			d.know(name, Known{UID: "a", Generation: 1, Observed: 1, ResourceVersion: "7"})
			d.Report(name, "a", statusOf("first", 1))
		}
		d.after(time.Minute)
		d.Report("motd", "a", statusOf("second", 1))
		d.Report("motd", "a", statusOf("third", 1))
		d.Sweep(but("issue"))
		d.Sweep(func(name string) bool { return name != "sshd" })
		d.after(0)
		d.api.change(func() { away = false })
		got := d.after(time.Minute)
		want := []string{patched("1m3s", "", "third", 1), patched("1m3s", "", "fourth", 1)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if s, ok := d.Before("motd"); !ok || s.Message != "fourth" {
			t.Errorf("before: %v, %v", s, ok)
		}
	})
}

// One that is refused does not hold up the others, and where all fail one request is
// enough to know.
func TestReporter_others(t *testing.T) {
	for name, refused := range map[string]answer{
		"invalid": refusal(422, metav1.StatusReasonInvalid, "is invalid", ""),
		"stale":   refusal(403, metav1.StatusReasonForbidden, "status.observedGeneration: is newer than the NodeConfig", ""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { others(t, refused) })
		})
	}
}

func others(t *testing.T, refused answer) {
	d := newDesk(t, FormMap, func(request string) answer {
		if strings.Contains(request, "/c5/") {
			return refused
		}
		return metadata("a", "8")
	})
	for i := range 10 {
		name := fmt.Sprint("c", i)
		d.know(name, Known{UID: "a"})
		d.Report(name, "a", statusOf("m", 0))
	}
	if got := d.after(0); len(got) != 10 || !strings.Contains(got[0], "/c0/") || !strings.Contains(got[9], "/c9/") {
		t.Errorf("requests:\n%s", strings.Join(got, "\n"))
	}
	d.after(time.Minute)
	d.know("new", Known{UID: "a"})
	d.Report("new", "a", statusOf("m", 0))
	if got := d.after(0); len(got) != 1 {
		t.Errorf("requests:\n%s", strings.Join(got, "\n"))
	}

	// Then nobody may write, and later again. Each time the pauses begin anew.
	for range 2 {
		d.api.say(inOrder(refusal(403, metav1.StatusReasonForbidden, "no", "")))
		for i := range 10 {
			d.Report(fmt.Sprint("c", i), "a", statusOf("m2", 0))
		}
		got := d.after(10 * time.Second)
		if len(got) != 4 { // after 0, 1, 3 and 7 s
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
		seen := map[string]bool{}
		for _, r := range got {
			seen[strings.Fields(r)[2]] = true
		}
		if len(seen) != len(got) {
			t.Errorf("one is tried again before the others: %v", seen)
		}
		d.api.say(inOrder(metadata("a", "8")))
		if got := d.after(time.Minute); len(got) != 10 {
			t.Errorf("requests:\n%s", strings.Join(got, "\n"))
		}
	}
}

// What waits is of the NodeConfig it was reported for, and of no other of that name.
func TestReporter_anotherOfThatName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(answer{}))
		d.know("motd", Known{UID: "a", ResourceVersion: "7"})
		d.Report("motd", "a", statusOf("of a", 1))
		d.after(0)
		d.know("motd", Known{UID: "b", ResourceVersion: "9"})
		if s, ok := d.Before("motd"); ok {
			t.Errorf("before %v", s)
		}
		d.Report("motd", "b", statusOf("of b", 1))
		d.api.say(func(string) answer {
			// While the old one's is on its way.
			d.know("motd", Known{UID: "c", ResourceVersion: "9"})
			d.Report("motd", "c", statusOf("of c", 1))
			d.api.says = inOrder(metadata("c", "10"))
			return refusal(404, metav1.StatusReasonNotFound, "not found", "")
		})
		if diff := cmp.Diff([]string{patched("1s", "", "of b", 1), patched("1s", "", "of c", 1)}, d.after(time.Minute)); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if s, ok := d.Before("motd"); !ok || s.Message != "of c" {
			t.Errorf("before %v", s)
		}
	})
}

func TestReporter_before(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, FormMap, inOrder(answer{}))
		before := func(want string) {
			t.Helper()
			s, ok := d.Before("motd")
			if ok != (want != "") || s.Message != want {
				t.Errorf("before: %v, %v, want %q", s, ok, want)
			}
		}
		own := func(message string) *v1alpha1.NodeStatus { s := statusOf(message, 1); return &s }
		before("")
		d.know("motd", Known{UID: "a", ResourceVersion: "9"})
		before("")
		d.know("motd", Known{UID: "a", ResourceVersion: "9", Own: own("watched")})
		before("watched")
		d.Report("motd", "a", statusOf("waits", 1))
		d.after(0)
		before("waits")
		d.api.say(inOrder(metadata("a", "10")))
		d.after(time.Minute)
		before("waits")
		d.know("motd", Known{UID: "a", ResourceVersion: "9", Own: own("old")}) // the watch is late
		before("waits")
		d.know("motd", Known{UID: "a", ResourceVersion: "10", Own: own("waits")})
		before("waits")
		d.know("motd", Known{UID: "a", ResourceVersion: "11"}) // somebody removed it
		before("")
		d.know("motd", Known{UID: "b", ResourceVersion: "12"})
		before("")

		// Made anew while the watch is late: the new one has got the old one's.
		d.api.say(inOrder(metadata("c", "20")))
		d.Report("motd", "b", statusOf("of b", 1))
		d.after(0)
		d.know("motd", Known{UID: "c", ResourceVersion: "20", Own: own("of b")})
		before("")
		d.Report("motd", "c", statusOf("of c", 1))
		before("of c")
		d.api.say(inOrder(metadata("c", "21")))
		d.after(0)
		before("of c")
		d.know("motd", Known{UID: "c", ResourceVersion: "21", Own: own("of c, watched")})
		before("of c, watched")
	})
}
