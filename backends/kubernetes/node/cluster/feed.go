package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

var errNoAnswer = errors.New("the API server did not answer, or closed the connection")

// A feed keeps a store in line with what the API server has of one resource.
type feed struct {
	client    rest.Interface
	resource  string // "nodeconfigs"
	namespace string // empty: of the cluster
	name      string // of the only object; empty: all
	example   runtime.Object
	store     cache.ReflectorStore
	// heard is told how every request to the server went.
	heard func(error)
}

// run follows the server until ctx ends. Requests that fail are tried again after a
// growing pause of at most a minute.
func (f feed) run(ctx context.Context) {
	quiet := klog.New(logr.Discard().GetSink()) // heard tells what went wrong
	r := cache.NewReflectorWithOptions(f.listWatch(), f.example, f.store, cache.ReflectorOptions{Name: f.String(), Logger: &quiet})
	r.RunWithContext(klog.NewContext(ctx, quiet))
}

// String names what is followed, as in messages.
func (f feed) String() string {
	s := f.resource
	if f.namespace != "" {
		s += " " + f.namespace + "/" + f.name
	} else if f.name != "" {
		s += " " + f.name
	}
	return s
}

func (f feed) listWatch() *cache.ListWatch {
	request := func(options *metav1.ListOptions) *rest.Request {
		if f.name != "" {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, f.name).String()
		}
		r := f.client.Get().Resource(f.resource).SpecificallyVersionedParams(options, metav1.ParameterCodec, metav1.SchemeGroupVersion)
		if f.namespace != "" {
			r.Namespace(f.namespace)
		}
		return r.MaxRetries(0) // the reflector tries again: minutes would pass before anybody heard of it
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := request(&options).Do(ctx).Get()
			f.tell(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.Watch = true
			w, err := request(&options).Watch(ctx)
			if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
				w, err = nil, errNoAnswer // client-go takes it for a watch that has ended
			}
			f.tell(ctx, err)
			return w, err
		},
	}
}

// tell passes on how a request went. One that the agent ended itself, or that the
// server answered by "too old", says nothing about the connection.
func (f feed) tell(ctx context.Context, err error) {
	if ctx.Err() != nil || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	f.heard(f.explain(err))
}

// explain says what an operator can do about an error.
func (f feed) explain(err error) error {
	err = bare(err)
	wrong := (*x509.UnknownAuthorityError)(nil)
	unknown := x509.UnknownAuthorityError{}
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		// A list and a watch are refused in turn: one trouble, so one text.
		reason := strings.NewReplacer(" cannot list ", " cannot read ", " cannot watch ", " cannot read ").Replace(err.Error())
		return &Forbidden{fmt.Sprintf("give the agent's ServiceAccount get, list and watch on %s: %s", f, reason), err}
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("read %s: the API server does not accept the agent's token: it has expired, or is of another cluster: %w", f, err)
	case apierrors.IsNotFound(err) && f.namespace == "":
		return fmt.Errorf("read %s: the API server does not know this resource: is the CRD installed, of this version? %w", f, err)
	case errors.As(err, &unknown), errors.As(err, &wrong):
		return fmt.Errorf("read %s: the API server's certificate is not of the authority that the agent was given: %w", f, err)
	}
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError {
		return fmt.Errorf("read %s: the API server has a problem: %w", f, err)
	}
	return fmt.Errorf("read %s: %w", f, err)
}

// bare is an error without the URL of the request, which is another one every time.
func bare(err error) error {
	if request := (*url.Error)(nil); errors.As(err, &request) {
		return request.Err
	}
	return err
}

// class is what an error is to an operator, who is told of it once: a list and a
// watch are refused in other words, and who is away is so in many.
func class(err error) string {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		return fmt.Sprint(status.Status().Code)
	}
	unknown, invalid := x509.UnknownAuthorityError{}, x509.CertificateInvalidError{}
	switch {
	case err == nil:
		return ""
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return "certificate"
	}
	return "unreachable"
}

// Forbidden is the error for something that the agent may not read.
type Forbidden struct {
	text string
	err  error
}

func (e *Forbidden) Error() string { return e.text }
func (e *Forbidden) Unwrap() error { return e.err }
