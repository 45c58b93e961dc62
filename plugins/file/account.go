package file

import (
	"cmp"
	"fmt"
	"io/fs"
	"regexp"
	"strconv"
	"strings"

	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
)

const (
	// maxID is the highest number a user or group can have; the next one, all
	// bits set, means "leave alone" to chown.
	maxID = 1<<32 - 2

	// maxAccounts bounds what is read of the account files.
	maxAccounts = 16 << 20
)

var digits = regexp.MustCompile(`^[0-9]+$`)

// A source is where one kind of account is listed.
type source struct {
	noun string // user or group
	name string // of its files
}

func users() source  { return source{"user", "passwd"} }
func groups() source { return source{"group", "group"} }

// dirs are where a machine lists its accounts. What /etc lacks, systems with an
// immutable /usr have there: nss-altfiles reads /usr/lib, Flatcar's nss-usrfiles
// the last. A name that several have is the first one's.
func dirs() []string { return []string{"/etc", "/usr/lib", "/usr/share/baselayout"} }

// An account is a user or group as a parameter gives it, by name or number; the
// zero value is none.
type account struct {
	key   string // the parameter
	text  string // what it says
	shown string // the same for messages
	from  source
}

func (a account) named() bool { return a.text != "" }

// id returns the account's number on the machine, nil when none is named. What
// is given as a number needs no account.
func (a account) id(files *host.View) (*int, error) {
	if !a.named() {
		return nil, nil
	}
	list := accounts{source: a.from}
	if !digits.MatchString(a.text) {
		var err error
		if list, err = a.from.load(files); err != nil {
			return nil, fmt.Errorf("%s: look up %s: %w", a.key, a.shown, err)
		}
	}
	id, err := list.id(a.text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s %w", a.key, a.shown, err)
	}
	return &id, nil
}

// observed is the leaf of a file that belongs to id: the account's own text when
// it is the same one, else the name or number of the other.
func (a account) observed(files *host.View, id int) any {
	want, err := a.id(files)
	switch {
	case err != nil:
		return drift.Unread(err)
	case *want == id:
		return a.text
	}
	list, err := a.from.load(files)
	if err != nil {
		return strconv.Itoa(id) // a number tells as much
	}
	return list.name(id)
}

// accounts is the text of a root's own passwd or group files. Both have the name
// in the first field and the number in the third.
type accounts struct {
	source
	files string // "/etc/passwd, /usr/lib/passwd"
	text  string
}

// load reads all files that are there; none is an error.
func (s source) load(files *host.View) (accounts, error) {
	var names, texts []string
	var missing error
	for _, dir := range dirs() {
		name := dir + "/" + s.name
		text, err := files.Read(name, maxAccounts)
		switch {
		case host.IsMissing(err):
			missing = cmp.Or(missing, err)
		case err != nil:
			return accounts{}, err
		default:
			names, texts = append(names, name), append(texts, string(text))
		}
	}
	if names == nil {
		return accounts{}, missing
	}
	return accounts{source: s, files: strings.Join(names, ", "), text: strings.Join(texts, "\n")}, nil
}

// id returns the number of an account that is given by name or by number. A
// name is looked up in the files only: whom the machine this process runs on
// knows says nothing about the machine below the root. The error follows on the
// name in a sentence.
func (a accounts) id(who string) (int, error) {
	if digits.MatchString(who) {
		return number(who)
	}
	err := error(&nobody{a.noun, a.files})
	for name, field := range a.entries() {
		if name != who {
			continue
		}
		id, e := number(field)
		if e == nil {
			return id, nil
		}
		err = fmt.Errorf("has a broken line in %s, whose number %w: correct it, or give the number", a.files, e)
	}
	return 0, err
}

// nobody is the error for an account that is not there.
type nobody struct{ noun, files string }

func (e *nobody) Error() string {
	return fmt.Sprintf("is no %s in %s: create it first, or give the number", e.noun, e.files)
}

func (e *nobody) Is(target error) bool { return target == fs.ErrNotExist }

// name returns what an account with this number is called, for people: a name
// that leads back to the number, else the number.
func (a accounts) name(id int) string {
	seen := map[string]bool{}
	for name, field := range a.entries() {
		if seen[name] || digits.MatchString(name) {
			continue // another line owns the name, or it would be read as a number
		}
		n, err := number(field)
		if err != nil {
			continue
		}
		seen[name] = true
		if n == id {
			return name
		}
	}
	return strconv.Itoa(id)
}

// entries yields the name and the number field of every line that describes an
// account: no comments, no NIS compat lines ("+", "-@staff"), no fragments.
func (a accounts) entries() func(yield func(name, field string) bool) {
	return func(yield func(name, field string) bool) {
		for line := range strings.Lines(a.text) {
			line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
			if line == "" || strings.ContainsRune("#+-", rune(line[0])) {
				continue
			}
			f := strings.Split(line, ":")
			if len(f) < 3 || f[0] == "" {
				continue
			}
			if !yield(f[0], f[2]) {
				return
			}
		}
	}
}

// number reads an account's number. Empty text is not 0: that would be root.
func number(s string) (int, error) {
	if !digits.MatchString(s) {
		return 0, fmt.Errorf("is %q", s)
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n > maxID {
		return 0, fmt.Errorf("is higher than any can be (%d)", uint64(maxID))
	}
	return int(n), nil
}
