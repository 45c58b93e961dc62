package v1alpha1

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// CheckName says what is wrong with name as the name of a NodeConfig: it must be
// a DNS-1123 subdomain, so that it may serve as a file name and a label.
func CheckName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return fmt.Errorf("%s is no name: use lower case letters, digits, '-' and '.', begin and end with a letter or digit, at most 253 characters", quote(name))
}

// CheckInterval says what is wrong with d as an interval.
func CheckInterval(d time.Duration) error {
	if d < MinInterval {
		return fmt.Errorf("%s is too short, the least is %s", d, MinInterval)
	}
	return nil
}

// CheckUnit says what is wrong with name as the name of a systemd unit. What it
// accepts is safe as an argument of systemctl after "--".
func CheckUnit(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("the name of a unit is empty")
	case len(name) > MaxUnitName:
		return fmt.Errorf("%s is too long for the name of a unit, at most %d characters", quote(name), MaxUnitName)
	case name[0] == '-' || strings.ContainsFunc(name, notInUnit):
		return fmt.Errorf(`%s is no name of a unit: use letters, digits and @ . _ : \ and, but not first, -`, quote(name))
	}
	return nil
}

func notInUnit(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune(`@._:\-`, r)
}

// quote shows a value in a message, cut where it is longer than a name may be.
func quote(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%q…", s[:64])
	}
	return fmt.Sprintf("%q", s)
}
