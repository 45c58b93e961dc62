package cluster

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
)

// slack is how much earlier than asked for a server may end a watch.
const slack = 5 * time.Second

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
	line  *connection // nil: the reflector's pauses alone

	ends time.Time // of the last watch, about, if the server lets it come to its end
	cut  bool      // a request got no answer since what is known was compared last
}

// run follows the server until ctx ends. What gets no answer is asked again as soon
// as the server is ready, and what is refused after a growing pause of at most a
// minute. When the server has gone back to an earlier state, all is listed again.
func (f feed) run(ctx context.Context) {
	quiet := klog.New(logr.Discard().GetSink()) // heard tells what went wrong
	for ctx.Err() == nil {
		round, end := context.WithCancel(klog.NewContext(ctx, quiet))
		epoch := f.line.current()
		go func() {
			select {
			case <-epoch:
				end()
			case <-round.Done():
			}
		}()
		r := cache.NewReflectorWithOptions(f.listWatch(round), f.example, f.store, cache.ReflectorOptions{Name: f.String(), Logger: &quiet})
		r.RunWithContext(round)
		end()
	}
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

// listWatch makes what a reflector asks by. Its requests end with round too: one that
// lists is given a context without an end.
func (f feed) listWatch(round context.Context) *cache.ListWatch {
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
		ListWithContextFunc: func(_ context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			err = f.ask(round, func() error {
				list, err = request(&options).Do(round).Get()
				return err
			})
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (w watch.Interface, err error) {
			options.Watch = true
			f.cut = f.cut || f.line != nil && f.line.now().Before(f.ends)
			err = f.ask(ctx, func() error {
				if err := f.compare(ctx, options.ResourceVersion, request); err != nil {
					return err
				}
				w, err = request(&options).Watch(ctx)
				if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
					w, err = nil, errNoAnswer // client-go takes it for a watch that has ended
				}
				return err
			})
			if f.line != nil {
				f.ends = f.line.now().Add(time.Duration(ptr.Deref(options.TimeoutSeconds, 0))*time.Second - slack)
			}
			return w, err
		},
	}
}

// ask makes a request, again as soon as the server is ready if it got no answer: the
// reflector would list everything, after a pause that has grown with the outage.
func (f *feed) ask(ctx context.Context, request func() error) error {
	for {
		err := request()
		f.tell(ctx, err)
		if f.line == nil || ctx.Err() != nil || !noAnswer(err) && !serverError(err) {
			return err
		}
		f.cut = f.cut || noAnswer(err)
		if down := f.line.wait(ctx); ctx.Err() != nil || !down && !noAnswer(err) {
			return err
		}
	}
}

// compare sees, after an outage, whether the server has gone back to an earlier state
// than the version that is known, as when its etcd was restored from a backup. It
// would take a watch from that version, and show nothing that is older.
func (f *feed) compare(ctx context.Context, known string, request func(*metav1.ListOptions) *rest.Request) error {
	if !f.cut || f.line == nil || known == "" || known == "0" {
		return nil
	}
	body, err := request(&metav1.ListOptions{Limit: 1}).Do(ctx).Raw()
	if err != nil {
		return err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("read the version of the list: %w", err)
	}
	f.cut = false
	if newer(known, list.ResourceVersion) {
		f.line.relist()
	}
	return nil
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
