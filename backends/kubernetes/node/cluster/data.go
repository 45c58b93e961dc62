package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tlspu/keel/api/v1alpha1"
)

// ErrPending says that nobody knows yet whether an object is there: its watch has
// just begun, or the API server cannot be reached.
var ErrPending = errors.New("is being read from the API server")

// data follows the ConfigMaps and Secrets that are asked for, one watch each, and
// no others.
type data struct {
	client     *Client
	namespaces []string // that may be read
	changed    func()
	log        *slog.Logger

	mu      sync.Mutex
	watches map[string]*datum // by title
	renewed map[string]bool   // titles of those that hold something else than when taken
}

// enough is how many refusals in a row count for what is known. With the pauses
// between them they take about ten seconds.
const enough = 7

// A datum is one ConfigMap or Secret that is followed.
type datum struct {
	stop func()
	mu   sync.Mutex
	data *v1alpha1.Data // nil: there is none
	err  error          // why nobody can tell
	last error          // of the last request

	refusals int // in a row, up to the last request
}

// want follows the objects of these titles, "Secret ns/name", and stops following
// all others.
func (d *data) want(titles []string, begin func(feed) (stop func())) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := map[string]bool{}
	for _, title := range titles {
		wanted[title] = true
		if d.watches[title] != nil || d.outside(title) != nil {
			continue
		}
		w := &datum{err: fmt.Errorf("%s %w", title, ErrPending)}
		d.watches[title] = w
		w.stop = begin(d.feed(title, w))
	}
	for title, w := range d.watches {
		if !wanted[title] {
			w.stop()
			delete(d.watches, title)
			delete(d.renewed, title)
		}
	}
}

// find gives an object that is wanted, or nil when there is none. The error says
// why it may not be read, or that nobody knows.
func (d *data) find(title string) (*v1alpha1.Data, error) {
	if err := d.outside(title); err != nil {
		return nil, err
	}
	d.mu.Lock()
	w := d.watches[title]
	d.mu.Unlock()
	if w == nil {
		return nil, fmt.Errorf("%s %w", title, ErrPending)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data, w.err
}

// taken gives the titles of those that hold something else than when it was called
// last.
func (d *data) taken() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	titles := slices.Sorted(maps.Keys(d.renewed))
	clear(d.renewed)
	return titles
}

// outside says why an object may not even be asked for.
func (d *data) outside(title string) error {
	_, namespace, _ := split(title)
	if slices.Contains(d.namespaces, namespace) {
		return nil
	}
	return fmt.Errorf("%s is outside the namespaces that the agent reads: add %s to source-namespaces (now %s) and give the agent's ServiceAccount get, list and watch there",
		title, namespace, cmp.Or(strings.Join(d.namespaces, ", "), "none"))
}

// split takes a title of v1alpha1.Data apart.
func split(title string) (kind, namespace, name string) {
	kind, rest, _ := strings.Cut(title, " ")
	namespace, name, _ = strings.Cut(rest, "/")
	return kind, namespace, name
}

func (d *data) feed(title string, w *datum) feed {
	kind, namespace, name := split(title)
	f := feed{client: d.client.core, namespace: namespace, name: name, heard: func(err error) { d.told(title, w, err) }}
	if kind == v1alpha1.SecretKind {
		f.resource, f.example = "secrets", &corev1.Secret{}
		f.store = &single[corev1.Secret]{taken: func(s *corev1.Secret, synced bool) { d.take(title, w, fromSecret(s), synced) }}
		return f
	}
	f.resource, f.example = "configmaps", &corev1.ConfigMap{}
	f.store = &single[corev1.ConfigMap]{taken: func(c *corev1.ConfigMap, synced bool) { d.take(title, w, fromConfigMap(c), synced) }}
	return f
}

// take notes what an object holds.
func (d *data) take(title string, w *datum, data *v1alpha1.Data, synced bool) {
	w.mu.Lock()
	w.data = data
	if synced || data != nil {
		w.err = nil
	}
	w.mu.Unlock()
	d.renew(title)
}

// told notes how a request for an object went. What the server refuses is an answer,
// and that it is forbidden counts also for an object that is known: the right was
// taken away. A server that has just started knows of no rights for some seconds, so
// that it has to say so again and again. While the server has a problem, or is away,
// what is known stays.
func (d *data) told(title string, w *datum, err error) {
	w.mu.Lock()
	before, was := w.last, text(w.err)
	w.last = err
	forbidden, answer := (*Forbidden)(nil), apierrors.APIStatus(nil)
	if errors.As(err, &forbidden) {
		w.refusals++
	} else {
		w.refusals = 0
	}
	switch {
	case err == nil:
	case w.refusals > 0 && w.refusals < enough && w.err == nil:
	case w.refusals > 0:
		w.data, w.err = nil, err
	case w.err == nil:
	case errors.As(err, &answer):
		w.err = err
	default:
		w.err = fmt.Errorf("%s %w: %w", title, ErrPending, err)
	}
	renewed := text(w.err) != was
	w.mu.Unlock()
	say(d.log, title, before, err)
	if renewed {
		d.renew(title)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// renew notes that an object holds something else now.
func (d *data) renew(title string) {
	d.mu.Lock()
	if d.watches[title] != nil {
		d.renewed[title] = true
	}
	d.mu.Unlock()
	d.changed()
}

func fromConfigMap(c *corev1.ConfigMap) *v1alpha1.Data {
	if c == nil {
		return nil
	}
	d := named(v1alpha1.ConfigMapKind, c.ObjectMeta)
	for key, value := range c.BinaryData {
		d.Values[key] = string(value)
	}
	for key, value := range c.Data {
		d.Values[key] = value
	}
	return d
}

func fromSecret(s *corev1.Secret) *v1alpha1.Data {
	if s == nil {
		return nil
	}
	d := named(v1alpha1.SecretKind, s.ObjectMeta)
	for key, value := range s.Data {
		d.Values[key] = string(value)
	}
	return d
}

func named(kind string, m metav1.ObjectMeta) *v1alpha1.Data {
	return &v1alpha1.Data{
		Kind: kind, Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion, Values: map[string]string{},
	}
}
