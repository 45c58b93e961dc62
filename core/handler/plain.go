package handler

import (
	"context"

	"github.com/tlspu/keel/core/drift"
)

// Plain is the least that a private build must offer: a handler that cannot look
// without acting, and reaches the machine at root by itself.
type Plain interface {
	Name() string
	Validate(params map[string]string) error
	Ensure(ctx context.Context, root string, params map[string]string) (changed bool, err error)
}

// Adapt makes a Handler of p, which is Described when p is. It has one declared leaf,
// "applied", which is unknown until Ensure succeeded in the same run: every run that
// may change something calls Ensure.
func Adapt(p Plain) Handler {
	if d, ok := p.(Described); ok {
		return struct {
			adapted
			Described
		}{adapted{p}, d}
	}
	return adapted{p}
}

// applied is the one leaf of an adapted handler.
const applied = "applied"

type adapted struct{ Plain }

func (a adapted) Observe(context.Context, Look) (declared, observed drift.State, err error) {
	path := drift.Path{applied}
	unknown := drift.Unknown{Kind: drift.Unsupported, Reason: "the handler " + a.Name() + " cannot look without acting"}
	return drift.State{{Path: path, Value: true}}, drift.State{{Path: path, Value: unknown}}, nil
}

func (a adapted) Ensure(ctx context.Context, c Call) (changed bool, err error) {
	return a.Plain.Ensure(ctx, c.root, c.Params)
}

func (adapted) blind() {}

// blind reports whether a handler cannot look.
func blind(h Handler) bool {
	_, is := h.(interface{ blind() })
	return is
}
