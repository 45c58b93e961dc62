package nodeconfig

import (
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"github.com/tlspu/keel/core/drift"
)

const (
	// hiddenText stands for a text that holds a secret.
	hiddenText = "details are withheld, because they hold what came from a Secret"
	// leastHidden is the length of the shortest value that is looked for: shorter ones
	// stand in every other text by chance, and can be guessed.
	leastHidden = 4
	// mostShown is the length of the longest text that is searched. A longer one is
	// withheld unread.
	mostShown = 64 << 10
)

// A hiding withholds texts that hold what came from a Secret: a value as a whole, a
// line of it, quoted, or in base64.
type hiding struct{ values []string }

// holds reports whether a text must not be shown.
func (h hiding) holds(text string) bool {
	if len(text) > mostShown {
		return true
	}
	has := func(part string) bool { return len(part) >= leastHidden && strings.Contains(text, part) }
	for _, value := range h.values {
		quoted := strconv.Quote(value)
		if has(value) || has(quoted[1:len(quoted)-1]) || has(base64.RawStdEncoding.EncodeToString([]byte(value))) {
			return true
		}
		for line := range strings.Lines(value) {
			if has(strings.TrimSpace(line)) {
				return true
			}
		}
	}
	return false
}

func (h hiding) text(text string) string {
	if h.holds(text) {
		return hiddenText
	}
	return text
}

// err is an error that shows nothing. A Wait stays one.
func (h hiding) err(err error) error {
	if err == nil || !h.holds(err.Error()) {
		return err
	}
	if wait := (*drift.Wait)(nil); errors.As(err, &wait) {
		return &drift.Wait{Until: wait.Until, GiveUp: wait.GiveUp, Reason: hiddenText}
	}
	return errors.New(hiddenText)
}
