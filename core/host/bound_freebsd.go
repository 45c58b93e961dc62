package host

import "context"

// bound is "": a single file cannot be mounted elsewhere.
func bound(context.Context, folder, string) string { return "" }
