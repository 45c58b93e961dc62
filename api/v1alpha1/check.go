package v1alpha1

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// CheckName says what is wrong with name as the name of a NodeConfig: it must be
// a DNS-1123 subdomain, so that it may serve as a file name and a label.
func CheckName(name string) error {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return nil
	}
	return fmt.Errorf("%s is not a valid name: use lower case letters, digits, '-' and '.', begin and end with a letter or digit, at most 253 characters", quote(name))
}

// CheckInterval says what is wrong with d as an interval.
func CheckInterval(d time.Duration) error {
	switch {
	case d < MinInterval:
		return fmt.Errorf("%s is too short, the least is %s", d, MinInterval)
	case d > MaxInterval:
		return fmt.Errorf("%s is too long, the most is 8760h", d)
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
		return fmt.Errorf(`%s is not a valid systemd unit name: use letters, digits and @ . _ : \ and, but not first, -`, quote(name))
	}
	return nil
}

// CheckRef says what is wrong with a reference to a ConfigMap or a Secret.
func CheckRef(r DataRef) error {
	switch {
	case len(validation.IsDNS1123Label(r.Namespace)) > 0:
		return fmt.Errorf("namespace: %s is not a valid namespace: use lower case letters, digits and '-', at most 63 characters", quote(r.Namespace))
	case len(validation.IsDNS1123Subdomain(r.Name)) > 0:
		return fmt.Errorf("name: %s is not a valid name: use lower case letters, digits, '-' and '.', at most 253 characters", quote(r.Name))
	case len(validation.IsCIdentifier(r.As)) > 0 || len(r.As) > 63:
		return fmt.Errorf("as: %s is not a valid name in templates: use letters, digits and '_', begin with no digit, at most 63 characters", quote(r.As))
	}
	return nil
}

// CheckSelector says what is wrong with a selector of nodes; nil is none.
func CheckSelector(s *metav1.LabelSelector) error {
	_, err := metav1.LabelSelectorAsSelector(s)
	return err
}

// IsTemplate reports whether a parameter or the name of a service is to be
// rendered before it is used.
func IsTemplate(value string) bool { return strings.Contains(value, "{{") }

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
