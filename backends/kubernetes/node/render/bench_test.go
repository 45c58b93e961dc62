package render

import "testing"

// BenchmarkValue fills what a NodeConfig typically holds; an agent does so for each
// when facts or data changed, and at each visit.
func BenchmarkValue(b *testing.B) {
	d := secretData()
	for b.Loop() {
		r := New(d)
		for _, value := range []string{"/etc/motd", "0644", `{{ .Node.Name }} {{ if eq .OS.ID "debian" }}{{ .Secrets.db.password | b64enc }}{{ end }}`} {
			if _, _, err := r.Value(value); err != nil {
				b.Fatal(err)
			}
		}
	}
}
