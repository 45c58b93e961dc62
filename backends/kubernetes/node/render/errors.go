package render

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A problem is what a function of ours found wrong.
type problem struct {
	function string // that a template called; empty: none that has a name there
	text     string
	safe     bool // text holds only what stands in the NodeConfig, or in facts
}

func (p *problem) Error() string {
	if p.function == "" {
		return p.text
	}
	return p.function + ": " + p.text
}

// failure is the problem of a function whose text may hold what was in a value.
func failure(function, format string, args ...any) error {
	return &problem{function: function, text: fmt.Sprintf(format, args...)}
}

const withheld = "details are withheld, because this NodeConfig reads Secrets"

var (
	// position is how text/template begins an error:
	// template: value:LINE:COLUMN: executing "NAME" at <NODE>: REASON
	position = regexp.MustCompile(`^template: ` + mainName + `:(\d+)(?::(\d+))?: (?:executing ".*?" at <(?s:.*?)>: )?(?:error calling (\w+): )?`)
	// harmless are the reasons of text/template that hold no value.
	harmless = regexp.MustCompile(`^(wrong number of args for \w+: want (at least )?\d+ got \d+|wrong type for value; expected \S+; got \S+)$`)
)

// explain makes an error of text/template, or of ours, one for a person: position,
// function and reason, the last of which is withheld if it may repeat a Secret.
func explain(err error, withhold bool) error {
	text, where, function := err.Error(), "", ""
	if m := position.FindStringSubmatch(text); m != nil {
		text, where = text[len(m[0]):], "line "+m[1]
		if before, err := strconv.Atoi(m[2]); err == nil {
			where += fmt.Sprintf(", column %d", before+1)
		}
		where += ": "
		if function = m[3]; function != "" {
			function += ": "
		}
	}
	own := (*problem)(nil)
	switch {
	case errors.As(err, &own) && (own.safe || !withhold):
		text = own.Error()
	case withhold && (own != nil || !harmless.MatchString(text)):
		text = function + withheld
	case strings.HasPrefix(text, "bad character "):
		text += `: a key with other signs than letters, digits and _ is read by index, as in index .Node.Labels "example.com/pool"`
	}
	return errors.New(where + text)
}
