package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTally_reports(t *testing.T) {
	const pkg = `"Package":"github.com/tlspu/keel/core/x"`
	tests := []struct {
		name   string
		stream string
		want   string
		failed int
	}{
		{
			name: "passed tests are counted and silent",
			stream: `{"Action":"output",` + pkg + `,"Test":"TestA","Output":"noise\n"}
{"Action":"pass",` + pkg + `,"Test":"TestA"}
{"Action":"output",` + pkg + `,"Output":"PASS\n"}
{"Action":"pass",` + pkg + `,"Elapsed":0.26}
`,
			want: "ok   core/x 0.3s\n\n1 passed, 0 failed, 0 skipped\n",
		},
		{
			name: "a failed test is printed in full, its package is not counted again",
			stream: `{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    a_test.go:3: wrong\n"}
{"Action":"fail",` + pkg + `,"Test":"TestA"}
{"Action":"output",` + pkg + `,"Output":"FAIL\n"}
{"Action":"output",` + pkg + `,"Output":"FAIL\tgithub.com/tlspu/keel/core/x\t0.1s\n"}
{"Action":"fail",` + pkg + `,"Elapsed":0.1}
`,
			want: `github.com/tlspu/keel/core/x TestA
    a_test.go:3: wrong
FAIL core/x 0.1s

failed, see above:
  core/x TestA

0 passed, 1 failed, 0 skipped
`,
			failed: 1,
		},
		{
			name: "failures are named again at the end, after the skips, subtests instead of their test",
			stream: `{"Action":"output",` + pkg + `,"Test":"TestB","Output":"    b_test.go:3: wrong\n"}
{"Action":"fail",` + pkg + `,"Test":"TestB"}
{"Action":"fail",` + pkg + `,"Test":"TestA/one"}
{"Action":"fail",` + pkg + `,"Test":"TestA"}
{"Action":"skip",` + pkg + `,"Test":"TestC"}
{"Action":"fail",` + pkg + `,"Elapsed":0.1}
`,
			want: `github.com/tlspu/keel/core/x TestB
    b_test.go:3: wrong
github.com/tlspu/keel/core/x TestA/one
github.com/tlspu/keel/core/x TestA
FAIL core/x 0.1s

skipped, no reason given:
  core/x: TestC

failed, see above:
  core/x TestA/one
  core/x TestB

0 passed, 3 failed, 1 skipped
`,
			failed: 3,
		},
		{
			name: "skips are listed with their reason at the end",
			stream: `{"Action":"output",` + pkg + `,"Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output",` + pkg + `,"Test":"TestA","Output":"    parts.go:24: needs strace: install it\n"}
{"Action":"output",` + pkg + `,"Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip",` + pkg + `,"Test":"TestA"}
{"Action":"skip",` + pkg + `,"Test":"TestB"}
{"Action":"output",` + pkg + `,"Test":"TestC/a","Output":"    parts.go:24: needs strace: install it\n"}
{"Action":"skip",` + pkg + `,"Test":"TestC/a"}
{"Action":"output",` + pkg + `,"Test":"TestC/b","Output":"    parts.go:24: needs strace: install it\n"}
{"Action":"skip",` + pkg + `,"Test":"TestC/b"}
{"Action":"pass",` + pkg + `,"Test":"TestC"}
{"Action":"pass",` + pkg + `,"Elapsed":0}
`,
			want: `ok   core/x 0.0s

skipped, needs strace: install it:
  core/x: TestA, TestC (2 subtests)

skipped, no reason given:
  core/x: TestB

1 passed, 0 failed, 4 skipped
`,
		},
		{
			name: "a package that does not compile is a failure with the compiler's words",
			stream: `{"ImportPath":"x [x.test]","Action":"build-output","Output":"x.go:1: bad\n"}
{"ImportPath":"x [x.test]","Action":"build-fail"}
{"Action":"fail",` + pkg + `,"Elapsed":0,"FailedBuild":"x [x.test]"}
`,
			want:   "x.go:1: bad\nFAIL core/x 0.0s\n\nfailed, see above:\n  core/x (does not compile)\n\n0 passed, 1 failed, 0 skipped\n",
			failed: 1,
		},
		{
			name: "a process that dies in a test is a failure with that test's output",
			stream: `{"Action":"output",` + pkg + `,"Test":"TestA","Output":"half\n"}
{"Action":"fail",` + pkg + `,"Elapsed":2}
`,
			want:   "half\nFAIL core/x 2.0s\n\nfailed, see above:\n  core/x (ended before its tests did)\n\n0 passed, 1 failed, 0 skipped\n",
			failed: 1,
		},
		{
			name:   "what go test prints before it starts is kept",
			stream: "pattern ./nope: no such directory\n",
			want:   "pattern ./nope: no such directory\n\n0 passed, 0 failed, 0 skipped\n",
		},
		{
			name:   "a package without tests says nothing",
			stream: `{"Action":"skip",` + pkg + `,"Elapsed":0}` + "\n",
			want:   "\n0 passed, 0 failed, 0 skipped\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			tally := newTally(&out)
			if err := tally.read(strings.NewReader(tt.stream)); err != nil {
				t.Fatal(err)
			}
			tally.close()
			if diff := cmp.Diff(tt.want, out.String()); diff != "" {
				t.Error(diff)
			}
			if tally.failed != tt.failed {
				t.Errorf("failed = %d, want %d", tally.failed, tt.failed)
			}
		})
	}
}
