package jail

import (
	"errors"
	"fmt"
	"strings"
)

// Transition says whether a jail that is old may become next. The error joins
// an *ImmutableError for each field that cannot change.
func Transition(old, next *Jail) error {
	var errs []error
	change := func(path, was, is string) {
		if was != is {
			errs = append(errs, &ImmutableError{Path: path, Old: was, New: is})
		}
	}
	change("spec.image", old.Spec.Image, next.Spec.Image)
	change("spec.network.address", old.Spec.Network.Address, next.Spec.Network.Address)
	change("spec.volumes", volumesText(old.Spec.Volumes), volumesText(next.Spec.Volumes))
	return errors.Join(errs...)
}

// volumesText writes volumes, in their order, for people.
func volumesText(list []Volume) string {
	parts := make([]string, len(list))
	for i, v := range list {
		parts[i] = fmt.Sprintf("%s at %s, %s", v.Name, v.MountPath, v.Size)
	}
	return strings.Join(parts, "; ")
}
