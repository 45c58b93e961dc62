package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// writeTime is how long a write may take.
const writeTime = 30 * time.Second

// scope is what a trouble means for what waits.
type scope int

const (
	scopeAll  scope = iota // nothing can be sent at the moment
	scopeOne               // the others may go on
	scopeSize              // there is no room, which another try does not change
	scopeGone              // the object is not there
	scopeNone              // what was sent is not known to be there: again, at once
)

// A trouble is why something was not sent.
type trouble struct {
	scope scope
	kind  string        // a line is logged for each
	after time.Duration // the server asks for this pause
	err   error
}

// write sends a request and returns the body of the answer. What it does is for
// messages: "patch", "nodeconfigs/status", "of motd".
func write(ctx context.Context, request *rest.Request, verb, resource, which string) ([]byte, *trouble) {
	ctx, cancel := context.WithTimeout(klog.NewContext(ctx, klog.New(logr.Discard().GetSink())), writeTime)
	defer cancel()
	result := request.MaxRetries(0).Do(ctx) // the pauses are this package's
	err := result.Error()
	body, plain := result.Raw()
	if err == nil {
		return body, nil
	}
	t := judge(err)
	// A Status in the answer hides its Retry-After.
	seconds, _ := apierrors.SuggestsClientDelay(plain)
	more, _ := apierrors.SuggestsClientDelay(err)
	t.after = time.Duration(max(seconds, more)) * time.Second
	t.err = fmt.Errorf("%s %s %s: %w", verb, resource, which, bare(err))
	if t.kind == "forbidden" && strings.Contains(err.Error(), fmt.Sprintf("cannot %s resource", verb)) {
		t.err = fmt.Errorf("%w: give the agent's ServiceAccount %s on %s, as deploy/kubernetes does", t.err, verb, resource)
	}
	return nil, t
}

// judge says what an error means for what waits.
func judge(err error) *trouble {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return &trouble{scope: scopeAll, kind: "unreachable"}
	}
	code := int(status.Status().Code)
	switch {
	case tooLarge(err):
		return &trouble{scope: scopeSize, kind: "size"}
	case notThere(err):
		return &trouble{scope: scopeGone, kind: "gone"}
	case stale(err):
		return &trouble{scope: scopeOne, kind: "generation"}
	case code == http.StatusForbidden:
		return &trouble{scope: scopeAll, kind: "forbidden"}
	case code == http.StatusUnauthorized:
		return &trouble{scope: scopeAll, kind: "unauthorized"}
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		return &trouble{scope: scopeAll, kind: "resource"}
	case code == http.StatusTooManyRequests:
		return &trouble{scope: scopeAll, kind: "throttled"}
	case code == http.StatusConflict:
		return &trouble{scope: scopeOne, kind: "conflict"}
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return &trouble{scope: scopeOne, kind: "refused"}
	}
	return &trouble{scope: scopeAll, kind: "server"}
}

// tooLarge reports whether the server, or etcd behind it, has no room for the
// object as it would be.
func tooLarge(err error) bool {
	for _, field := range []string{"status.nodes", "status.configs"} {
		if refused(err, field, metav1.CauseTypeTooMany) {
			return true
		}
	}
	return apierrors.IsRequestEntityTooLargeError(err) ||
		strings.Contains(err.Error(), "request is too large") || strings.Contains(err.Error(), "message larger than max")
}

// refused reports whether the server calls the value of a field invalid, for that
// reason.
func refused(err error, field string, reason metav1.CauseType) bool {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	for _, c := range status.Status().Details.Causes {
		if c.Field == field && c.Type == reason {
			return true
		}
	}
	return false
}

// notThere reports whether the server knows the resource and has no such object.
func notThere(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// stale reports whether a policy refuses an observedGeneration that the NodeConfig
// has not reached: it was made anew, or restored, and the watch will say so.
func stale(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "status.observedGeneration: is newer than the NodeConfig")
}
