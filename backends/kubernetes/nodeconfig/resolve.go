package nodeconfig

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/node/facts"
	"github.com/tlspu/keel/backends/kubernetes/node/render"
	"github.com/tlspu/keel/core/handler"
	"github.com/tlspu/keel/core/plugin"
)

// Inputs is what decides what a NodeConfig says on this node.
type Inputs struct {
	Facts facts.Facts
	// find gives a ConfigMap or Secret by its title, or nil when there is none. The
	// error says why nobody can tell, or why it cannot be used.
	Find func(title string) (*v1alpha1.Data, error)
}

// Resolve gives what c says on this node: nothing when its selector does not match,
// else its templates filled and judged anew. What is wrong is in the result's err.
// A config that depends on nothing is returned itself.
func (c *Config) Resolve(in Inputs, handlers *plugin.Registry[handler.Handler]) *Config {
	if !c.depends || c.Err != nil {
		return c
	}
	r := *c
	spec, err := c.Unpack()
	if err == nil {
		r.Excluded, err = Excludes(spec.NodeSelector, in.Facts)
	}
	switch {
	case err != nil:
	case r.Excluded:
		r.claims, r.vague = nil, false
	default:
		err = r.fill(&spec, in, handlers)
	}
	r.Err = err
	return &r
}

// Excludes reports whether a selector does not match this node.
func Excludes(selector *metav1.LabelSelector, f facts.Facts) (bool, error) {
	if selector == nil {
		return false, nil
	}
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("spec.nodeSelector: %w", err)
	}
	if s.Empty() {
		return false, nil
	}
	value, err := f.Lookup("Node.Labels")
	if err != nil {
		return false, fmt.Errorf("spec.nodeSelector: %w", err)
	}
	return !s.Matches(labels.Set(value.(map[string]string))), nil
}

// fill renders spec and judges the result.
func (c *Config) fill(spec *v1alpha1.NodeConfigSpec, in Inputs, handlers *plugin.Registry[handler.Handler]) error {
	read, err := collect(*spec, in.Find)
	if read.digest != "" {
		sum := sha256.Sum256([]byte(c.Digest + " " + read.digest))
		c.Digest, c.Secrets = "sha256:"+hex.EncodeToString(sum[:]), read.sum
	}
	c.sensitive = len(spec.Secrets) > 0
	if err != nil {
		return err
	}
	h, err := handlers.Lookup(spec.Type)
	if err != nil {
		return fmt.Errorf("spec.type: %w", err)
	}
	f := filling{spec: spec, raw: spec.Params, secret: map[string]bool{}}
	f.render(render.New(render.Data{Facts: in.Facts, ConfigMaps: read.configMaps, Secrets: read.secrets}))
	c.Hidden = f.hidden(read.secrets)
	c.claims = f.judge(h)
	_, described := h.(handler.Described)
	c.vague = !described || len(f.errs) > 0
	c.Spec, c.packed = *spec, nil
	return errors.Join(f.errs...)
}

// A filling is a spec whose templates are being filled.
type filling struct {
	spec   *v1alpha1.NodeConfigSpec // filled as far as that is possible
	raw    map[string]string        // the parameters before
	secret map[string]bool          // parameters that came from a Secret
	errs   []error
}

func (f *filling) fail(err error) {
	if err != nil {
		f.errs = append(f.errs, err)
	}
}

func (f *filling) render(run *render.Run) {
	params := maps.Clone(f.raw)
	for _, key := range slices.Sorted(maps.Keys(f.raw)) {
		value, secret, err := run.Value(f.raw[key])
		if f.secret[key] = secret; err != nil {
			f.fail(fmt.Errorf("spec.params.%s: %w", key, err))
			continue
		}
		params[key] = value
	}
	f.spec.Params = params
	services := slices.Clone(f.spec.Services)
	for i, unit := range services {
		value, secret, err := run.Value(unit)
		switch {
		case err != nil:
		case secret:
			err = errors.New("must not come from a Secret: names of units are shown")
		default:
			services[i], err = value, v1alpha1.CheckUnit(value)
		}
		if err != nil {
			f.fail(fmt.Errorf("spec.services[%d]: %w", i, err))
		}
	}
	f.spec.Services = services
}

// hidden lists what no message may show: what Secrets hold, and what was made of it.
func (f *filling) hidden(secrets []render.Object) (list []string) {
	for _, s := range secrets {
		list = slices.AppendSeq(list, maps.Values(s.Values))
	}
	for key, secret := range f.secret {
		if secret {
			list = append(list, f.spec.Params[key])
		}
	}
	return list
}

// judge lets the handler judge the parameters, and asks it what the NodeConfig
// owns. What came from a Secret may only go into text, of which a handler shows
// nothing, and not into what the NodeConfig owns.
func (f *filling) judge(h handler.Handler) (claims []string) {
	d, described := h.(handler.Described)
	var known []handler.Param
	if described {
		known = d.Params()
	}
	for _, p := range known {
		if f.secret[p.Name] && p.Kind != "text" {
			f.fail(fmt.Errorf("spec.params.%s: must not come from a Secret: it is shown in plans and messages", p.Name))
		}
	}
	shown := maps.Clone(f.spec.Params)
	for key, secret := range f.secret {
		if secret {
			shown[key] = f.raw[key] // a template, which is not judged
		}
	}
	if described {
		if !slices.Equal(d.Claims(shown), d.Claims(f.spec.Params)) {
			f.fail(errors.New("spec.params: what the NodeConfig owns must not come from a Secret: it is shown in plans and messages"))
		}
		claims = owned(d, shown)
	}
	if len(f.errs) > 0 {
		return claims
	}
	if err := h.Validate(shown); err != nil {
		f.fail(err)
	} else if h.Validate(f.spec.Params) != nil {
		f.fail(errors.New("spec.params: a value that came from a Secret is not valid; it is not shown"))
	}
	return claims
}

// Depends reports whether c may say something else with other facts or data.
func (c *Config) Depends() bool { return c.depends }
