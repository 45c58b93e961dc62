package file

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/host"
)

// maxPath and maxName are the limits of the systems Keel runs on, in bytes.
const (
	maxPath = 4096
	maxName = 255
)

// want is what the parameters ask for.
type want struct {
	path         string
	content      []byte
	mode         *fs.FileMode // nil: not named
	owner, group account
	absent       bool
	link         host.Link
}

// parse reads rendered parameters. The error names each offending key; it shows
// no value when the call is marked sensitive. What is sensitive is private: mode
// 0600 and Keel's own user and group, unless they are named.
func parse(l handler.Look) (want, error) {
	p := &params{values: l.Params, withhold: l.Sensitive}
	w := p.read()
	if l.Sensitive {
		w.private()
	}
	return w, errors.Join(p.errs...)
}

func (w *want) private() {
	if w.mode == nil {
		m := privateMode
		w.mode = &m
	}
	if !w.owner.named() {
		w.owner.text = strconv.Itoa(os.Geteuid())
	}
	if !w.group.named() {
		w.group.text = strconv.Itoa(os.Getegid())
	}
}

// params reads parameters and keeps everything that is wrong with them.
type params struct {
	values   map[string]string
	raw      bool // before rendering: a value that holds "{{" is not judged
	withhold bool // messages show no value
	errs     []error
}

func (p *params) read() want {
	w := want{}
	p.path(&w)
	p.ensure(&w)
	p.content(&w)
	p.mode(&w)
	w.owner = p.account("owner", users())
	w.group = p.account("group", groups())
	p.link(&w)
	return w
}

// get returns a parameter that is set and can be judged.
func (p *params) get(key string) (value string, ok bool) {
	value, ok = p.values[key]
	if !ok || p.raw && strings.Contains(value, "{{") {
		return "", false
	}
	return value, true
}

// show is how a message shows a value.
func (p *params) show(value string) string {
	if p.withhold {
		return "(withheld)"
	}
	return strconv.Quote(value)
}

func (p *params) fail(key, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(key+": "+format, args...))
}

func (p *params) path(w *want) {
	if _, set := p.values["path"]; !set {
		p.fail("path", `is missing: name the file, as in path: "/etc/motd"`)
		return
	}
	v, ok := p.get("path")
	if !ok {
		return
	}
	w.path = v
	switch {
	case v == "":
		p.fail("path", `is empty: name the file, as in path: "/etc/motd"`)
	case strings.ContainsRune(v, 0):
		p.fail("path", "%s holds a NUL byte, which no file name can", p.show(v))
	case v[0] != '/':
		p.fail("path", "%s must be absolute: begin it with a slash", p.show(v))
	case len(v) >= maxPath:
		p.fail("path", "is %d bytes long: the limit is %d", len(v), maxPath-1)
	case path.Clean(v) == "/":
		p.fail("path", "%s is the root directory: name a file", p.show(v))
	case path.Clean(v) != v:
		p.fail("path", "%s is not in its shortest form: write %s", p.show(v), p.show(path.Clean(v)))
	case host.OwnPath(v):
		p.fail("path", "%s is among the files of Keel itself: name another path", p.show(v))
	default:
		for name := range strings.SplitSeq(v, "/") {
			if len(name) > maxName {
				p.fail("path", "one name in it is %d bytes long: the limit is %d", len(name), maxName)
			}
		}
	}
}

func (p *params) ensure(w *want) {
	switch v, ok := p.get("ensure"); {
	case !ok, v == "present":
	case v == "absent":
		w.absent = true
	default:
		p.fail("ensure", `%s is not known: write "present" or "absent"`, p.show(v))
	}
}

func (p *params) content(w *want) {
	_, text := p.values["content"]
	_, coded := p.values["contentBase64"]
	ensure, judged := p.get("ensure")
	if _, set := p.values["ensure"]; set && !judged {
		ensure = "" // neither present nor absent yet
	} else if !set {
		ensure = "present"
	}
	switch {
	case text && coded:
		p.fail("contentBase64", "content is set too: give one of the two")
	case ensure == "absent" && text:
		p.fail("content", "an absent file has no content: remove content, or write ensure: present")
	case ensure == "absent" && coded:
		p.fail("contentBase64", "an absent file has no content: remove contentBase64, or write ensure: present")
	case ensure == "present" && !text && !coded:
		p.fail("content", `is missing: set content or contentBase64 (content: "" makes an empty file), or write ensure: absent`)
	}
	if v, ok := p.get("content"); ok {
		w.content = []byte(v)
	}
	if v, ok := p.get("contentBase64"); ok {
		b, err := base64.StdEncoding.DecodeString(v)
		var at base64.CorruptInputError
		if errors.As(err, &at) {
			p.fail("contentBase64", "is not base64 at byte %d: use the standard alphabet with padding, as base64(1) writes it", int64(at))
		}
		w.content = b
	}
}

func (p *params) mode(w *want) {
	v, ok := p.get("mode")
	if !ok {
		return
	}
	n, err := strconv.ParseUint(v, 8, 12)
	if err != nil || len(v) > 4 {
		p.fail("mode", `%s is not a mode: write one to four octal digits, as in "0644"`, p.show(v))
		return
	}
	m := fs.FileMode(n)
	if m > fs.ModePerm {
		p.fail("mode", `%s sets special bits (set-user-id, set-group-id, sticky), which Keel does not give: write %s`,
			p.show(v), p.show(fmt.Sprintf("%04o", m.Perm())))
		return
	}
	w.mode = &m
}

// account checks how an owner or group is named; whether there is one is known
// only on the machine.
func (p *params) account(key string, from source) account {
	a := account{key: key, from: from}
	v, ok := p.get(key)
	if !ok {
		return a
	}
	switch {
	case v == "":
		p.fail(key, "is empty: name a %s, or leave %s out", from.noun, key)
	case strings.Contains(v, ":"):
		p.fail(key, "%s holds a colon: owner and group are parameters of their own", p.show(v))
	case v[0] == '-', v[0] == '+', strings.ContainsAny(v, "/\x00\n"):
		p.fail(key, "%s is not the name or number of a %s", p.show(v), from.noun)
	case digits.MatchString(v):
		if _, err := number(v); err != nil {
			p.fail(key, "%s %w", p.show(v), err)
		}
	}
	a.text, a.shown = v, p.show(v)
	return a
}

func (p *params) link(w *want) {
	w.link = host.Follow
	switch v, ok := p.get("link"); {
	case !ok, v == "follow":
	case v == "replace":
		w.link = host.Replace
	case v == "refuse":
		w.link = host.Refuse
	default:
		p.fail("link", `%s is not known: write "follow", "replace" or "refuse"`, p.show(v))
	}
}
