package facts

import (
	"errors"
	"fmt"
	"strings"
)

// releaseFields are the variables of os-release that are facts.
func releaseFields(os *OS) map[string]field {
	return map[string]field{
		"ID":               {"OS.ID", &os.ID},
		"ID_LIKE":          {"OS.IDLike", &os.IDLike},
		"VERSION_ID":       {"OS.VersionID", &os.VersionID},
		"VERSION_CODENAME": {"OS.VersionCodename", &os.VersionCodename},
		"NAME":             {"OS.Name", &os.Name},
		"PRETTY_NAME":      {"OS.PrettyName", &os.PrettyName},
	}
}

// A field is where the value of a variable goes.
type field struct {
	fact string
	to   *string
}

// parseRelease reads os-release as a shell would: the last assignment counts. A
// value that is not written as os-release(5) says is noted in unread; no default
// is put in the place of what is not set.
func parseRelease(file string, data []byte, unread map[string]string) (os OS) {
	fields := releaseFields(&os)
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		name, raw, ok := strings.Cut(strings.TrimSpace(line), "=")
		f, known := fields[name]
		if !ok || !known {
			continue
		}
		value, err := unquote(raw)
		if err == nil && value != "" {
			err = plain(value)
		}
		if err != nil {
			*f.to, unread[f.fact] = "", fmt.Sprintf("line %d of %s: %v", number, file, err)
			continue
		}
		delete(unread, f.fact)
		*f.to = value
	}
	return os
}

// special is what a value without quotes must not hold.
const special = " \t\"'$`;&|<>()"

// unquote reads the value of an assignment: in double quotes, where a backslash
// takes the meaning from $ " ` and itself; in single ones, where nothing has a
// meaning; or without quotes, where it does so from everything.
func unquote(raw string) (string, error) {
	if raw == "" {
		return "", nil
	}
	quote, start, escapable, stop := raw[0], 1, "", ""
	switch quote {
	case '"':
		escapable, stop = "$\"`\\", "$`"
	case '\'':
	default:
		quote, start, stop = 0, 0, special
	}
	var b strings.Builder
	for i := start; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quote != 0 && c == quote:
			if i+1 < len(raw) {
				return "", errors.New("something follows the closing quote")
			}
			return b.String(), nil
		case c == '\\' && quote != '\'':
			if i+1 == len(raw) {
				return "", errors.New("ends with a backslash")
			}
			if quote == 0 || strings.IndexByte(escapable, raw[i+1]) >= 0 {
				i++
				c = raw[i]
			}
		case strings.IndexByte(stop, c) >= 0:
			return "", fmt.Errorf("%q must be escaped, or the value put in quotes", c)
		}
		b.WriteByte(c)
	}
	if quote != 0 {
		return "", errors.New("the closing quote is missing")
	}
	return b.String(), nil
}
