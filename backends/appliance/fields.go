package appliance

import (
	"context"

	"github.com/tlspu/keel/core/drift"
)

// A field is one row of the field table: how the leaves at and below its path
// are compared, or why they are not. The row with the longest path rules.
type field struct {
	path drift.Path
	// form brings a value to the form in which it is compared; both sides are
	// shown as they are held. nil: as trimmed text.
	form func(any) any
	// skip is why these leaves are not compared.
	skip string
	// withhold keeps values out of every output.
	withhold bool
	// whole makes one line of all that is declared below path.
	whole bool
}

// The reasons why nothing here compares a field. Only the first will go away.
const (
	notYet   = "this version of keel compares only instance.hostname, instance.fqdn and network.nameservers"
	channels = "notification channels are neither compared nor repeated: their URLs can be credentials"
)

// fields is the field table. A field that is compared has one row here and is
// read by one row of readers.
func fields() []field {
	return []field{
		{path: drift.Path{"instance", "hostname"}, form: domain},
		{path: drift.Path{"instance", "fqdn"}, form: domain},
		{path: drift.Path{"network", "managed_by"}, skip: notYet},
		{path: drift.Path{"network", "nameservers"}, form: addresses},

		{path: drift.Path{"secrets"}, skip: "values are never read, on either side", withhold: true, whole: true},
		{path: drift.Path{"app"}, skip: "inithooks.conf is root only and consumed at first boot, so these values leave no trace", withhold: true, whole: true},
		{path: drift.Path{"first_login_wizard"}, skip: "a switch of the first boot that leaves no trace", whole: true},
		{path: drift.Path{"preseed"}, skip: "answers for the first boot that leave no trace", withhold: true, whole: true},
		{path: drift.Path{"installation"}, skip: "chosen once, and recorded nowhere on the machine", withhold: true, whole: true},
		{path: drift.Path{"monitor", "notify"}, skip: channels, withhold: true},

		// What this version does not compare it does not judge either: a value in
		// there may be a secret in the wrong place, so none is repeated.
		{path: drift.Path{}, skip: notYet, withhold: true},
	}
}

// A reader answers for leaves of one section: with values, with Unknown for
// what could not be read, and with an explicit nil for what is not there. It
// only reads.
type reader struct {
	section string
	read    func(ctx context.Context, m machine) drift.State
}

// readers are asked in this order, which is that of undeclared leaves.
func readers() []reader {
	return []reader{
		{"instance", readHostname},
		{"instance", readFQDN},
		{"network", readNameservers},
	}
}

// ruling returns the row of the table for a path.
func ruling(path drift.Path) field {
	var best field
	for _, f := range fields() {
		if f.path.Covers(path) && len(f.path) >= len(best.path) {
			best = f
		}
	}
	return best
}
