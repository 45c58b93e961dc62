package node

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	fileplugin "github.com/tlspu/keel/plugins/file"
	"github.com/tlspu/keel/test/kubetest"
)

// The bytes of a Secret reach the file, exactly, and nothing else.
func TestCluster_secretsAreNowhereElse(t *testing.T) {
	const secret = "\x00\xffhunter2-correct-horse\n"
	for name, dry := range map[string]bool{"for real": false, "in a dry run": true} {
		t.Run(name, func(t *testing.T) {
			w := newDebugWorld(t, kubetest.Shared(t))
			w.settings.DryRun = dry
			w.Env.Handlers.Register("file", fileplugin.New())
			for _, how := range []string{"fails", "panics", "does nothing", "cannot look", "does not know"} {
				w.Env.Handlers.Register(strings.ReplaceAll("tells "+how, " ", "-"), talker{w.Handler, how})
			}
			w.object(t, "secrets/hidden", body{"data": body{"key": base64.StdEncoding.EncodeToString([]byte(secret)), "mode": base64.StdEncoding.EncodeToString([]byte("hunter2"))}})
			config := func(kind string, params body) body {
				return body{"type": kind, "params": params, "secrets": []body{{"namespace": "default", "name": "hidden", "as": "it"}}}
			}
			good := []string{"hidden-file", "hidden-told"}
			w.apply(t, good[0], config("file", body{"path": "/etc/hidden", "content": "<{{ .Secrets.it.key }}>"}))
			w.apply(t, good[1], config("file", body{"path": "/etc/told", "content": "<{{ .Secrets.it.key }}>", "mode": "0640"}))
			bad := map[string]body{
				"hidden-render":  config("file", body{"path": "/etc/x", "content": "{{ fail .Secrets.it.key }}"}),
				"hidden-mode":    config("file", body{"path": "/etc/x", "content": "x", "mode": "{{ .Secrets.it.mode }}"}),
				"hidden-path":    config("file", body{"path": "/etc/{{ .Secrets.it.mode }}", "content": "x"}),
				"hidden-nokey":   config("file", body{"path": "/etc/x", "content": "{{ index .Secrets.it .Secrets.it.mode }}"}),
				"hidden-unit":    {"type": "file", "params": body{"path": "/etc/x", "content": "x"}, "services": []string{"{{ .Secrets.it.mode }}.service"}, "secrets": []body{{"namespace": "default", "name": "hidden", "as": "it"}}},
				"hidden-fails":   config("tells-fails", body{"path": "/etc/f", "value": "{{ .Secrets.it.key }}"}),
				"hidden-panics":  config("tells-panics", body{"path": "/etc/p", "value": "{{ .Secrets.it.key }}"}),
				"hidden-drifts":  config("tells-does-nothing", body{"path": "/etc/d", "value": "{{ .Secrets.it.key }}"}),
				"hidden-looks":   config("tells-cannot-look", body{"path": "/etc/l", "value": "{{ .Secrets.it.key }}"}),
				"hidden-unknown": config("tells-does-not-know", body{"path": "/etc/u", "value": "{{ .Secrets.it.key }}"}),
			}
			for name, spec := range bad {
				w.apply(t, name, spec)
			}
			w.start(t)
			w.turn(t)
			w.until(t, "the Secret", func() bool { v, _ := w.find("secrets/hidden"); return v != "" })
			w.after(t, maxSpread)
			for _, name := range good {
				w.until(t, "a visit of "+name, func() bool { return w.visits(name) > 0 })
			}
			for name := range bad {
				w.until(t, "a visit of "+name, func() bool { return w.visits(name) > 0 })
			}
			for file, mode := range map[string]os.FileMode{"hidden": 0o600, "told": 0o640} {
				info, err := os.Stat(w.Env.Root + "/etc/" + file)
				switch {
				case dry && err == nil:
					t.Errorf("a dry run wrote %s", file)
				case dry:
				case err != nil || info.Mode().Perm() != mode || w.content(file) != "<"+secret+">":
					t.Errorf("%s: %q, %v, %v; want mode %v", file, w.content(file), info, err, mode)
				}
			}
			if !dry {
				for name := range bad {
					w.until(t, "the status of "+name, func() bool { s, _ := w.status(t, name); return s.LastResult == v1alpha1.Error && s.Message != "" })
				}
				w.until(t, "an Event", func() bool { return w.events(t, "hidden-fails")["Warning Failed"] != "" })
			}
			said := map[string]string{"log": w.log.String(), "output": "", "ready": nodeconfig.Text(w.agent.health.Ready())}
			for _, path := range []string{nodeConfigs, "/api/v1/events", "/apis/keel.tlspu.io/v1alpha1/nodestates"} {
				var list json.RawMessage
				w.ask(t, path, &list)
				said[path] = string(list)
			}
			answer := httptest.NewRecorder()
			w.agent.metrics.Handler(w.Env.Log).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
			said["metrics"] = answer.Body.String()
			for where, text := range said {
				for _, form := range []string{"hunter2", "correct-horse", base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawStdEncoding.EncodeToString([]byte("hunter2"))} {
					if strings.Contains(text, form) {
						t.Errorf("%s shows the Secret", where)
					}
				}
			}
		})
	}
}
