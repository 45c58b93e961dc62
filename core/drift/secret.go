package drift

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

const withheld = "(withheld)"

// Secret holds a value that may be compared and never shown: every way of
// printing it gives "(withheld)". Only a keyed digest and the length are kept.
type Secret struct {
	digest [32]byte
	size   int
}

// digestKey is made once a process, so that a digest that leaks tells nothing
// about the value behind it.
//
//nolint:gochecknoglobals // the one key all Secrets of a process share, never changed
var digestKey = sync.OnceValue(func() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails: it ends the program instead
	return key
})

// NewSecret digests b with a key made once a process. b is not kept.
func NewSecret(b []byte) Secret {
	mac := hmac.New(sha256.New, digestKey())
	mac.Write(b)
	return Secret{digest: [32]byte(mac.Sum(nil)), size: len(b)}
}

// String gives "(withheld)".
func (Secret) String() string { return withheld }

// Format gives "(withheld)" for every verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, withheld) } //nolint:errcheck // fmt.State cannot fail

// MarshalText gives "(withheld)"; JSON and YAML encoders use it.
func (Secret) MarshalText() ([]byte, error) { return []byte(withheld), nil }

// LogValue gives "(withheld)".
func (Secret) LogValue() slog.Value { return slog.StringValue(withheld) }
