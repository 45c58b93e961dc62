package jail_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	apijail "github.com/tlspu/keel/api/jail"
)

func readPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/spec/jail.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

func TestPage_exampleIsValid(t *testing.T) {
	_, rest, _ := strings.Cut(readPage(t), "```yaml\n")
	example, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("the page has no example")
	}
	if _, err := apijail.Parse([]byte(example)); err != nil {
		t.Error(err)
	}
}

func TestPage_tableEqualsTheCode(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([a-z ]+) \\| (yes|no) \\|")
	var got []string
	for _, m := range row.FindAllStringSubmatch(readPage(t), -1) {
		got = append(got, strings.Join(m[1:], " | "))
	}
	if diff := cmp.Diff(fields(reflect.TypeFor[apijail.Jail](), ""), got); diff != "" {
		t.Errorf("-code +page:\n%s", diff)
	}
}

// fields lists the rows that a type makes.
func fields(t reflect.Type, path string) []string {
	var rows []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		at, required := path+name, "yes"
		if option == "omitempty" {
			required = "no"
		}
		switch kind := f.Type.Kind(); {
		case kind == reflect.Struct:
			rows = append(rows, fields(f.Type, at+".")...)
			continue
		case kind == reflect.Slice && f.Type.Elem().Kind() == reflect.Struct:
			rows = append(rows, fmt.Sprintf("%s | list | %s", at, required))
			rows = append(rows, fields(f.Type.Elem(), at+"[].")...)
			continue
		case kind == reflect.Slice:
			rows = append(rows, fmt.Sprintf("%s | list of strings | %s", at, required))
		case kind == reflect.Bool:
			rows = append(rows, fmt.Sprintf("%s | bool | %s", at, required))
		case f.Type == reflect.TypeFor[apijail.CPU]() || f.Type == reflect.TypeFor[apijail.Memory]():
			rows = append(rows, fmt.Sprintf("%s | quantity | %s", at, required))
		default:
			rows = append(rows, fmt.Sprintf("%s | string | %s", at, required))
		}
	}
	return rows
}
