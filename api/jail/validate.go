package jail

import (
	"fmt"
	"net/netip"
	"path"
	"strings"
)

// checker collects what is wrong.
type checker struct{ errs []*FieldError }

func (c *checker) bad(cat Category, path, value, reason string) {
	c.errs = append(c.errs, &FieldError{Category: cat, Path: path, Value: value, Reason: reason})
}

// is notes the reason that err gives, if it is one.
func (c *checker) is(cat Category, path, value string, err error) {
	if err != nil {
		c.bad(cat, path, value, err.Error())
	}
}

func (j *Jail) check() []*FieldError {
	c := &checker{}
	if j.APIVersion != APIVersion {
		c.bad(WrongKind, "apiVersion", j.APIVersion, "must be "+APIVersion)
	}
	if j.Kind != Kind {
		c.bad(WrongKind, "kind", j.Kind, "must be "+Kind)
	}
	c.is(BadName, "metadata.name", j.Metadata.Name, CheckName(j.Metadata.Name))
	s := &j.Spec
	c.is(BadImage, "spec.image", s.Image, checkImage(s.Image))
	c.command(s.Command)
	if !s.Network.VNET {
		c.bad(BadNetwork, "spec.network.vnet", "", "must be true: jails that share the host's network are not supported")
	}
	c.is(BadNetwork, "spec.network.bridge", s.Network.Bridge, checkBridge(s.Network.Bridge))
	c.is(BadAddress, "spec.network.address", s.Network.Address, checkAddress(s.Network.Address))
	_, err := s.Resources.CPU.Percent()
	c.is(BadCPU, "spec.resources.cpu", string(s.Resources.CPU), err)
	_, err = s.Resources.Memory.Bytes()
	c.is(BadMemory, "spec.resources.memory", string(s.Resources.Memory), err)
	switch s.RestartPolicy {
	case Always, OnFailure, Never:
	default:
		c.bad(BadPolicy, "spec.restartPolicy", string(s.RestartPolicy), "must be Always, OnFailure or Never")
	}
	c.volumes(s.Volumes)
	return c.errs
}

// CheckName holds a name against the rule for jails and volumes: it is part of
// names of datasets, interfaces and files. The error completes "NAME …".
func CheckName(name string) error {
	const most = 63
	switch {
	case name == "":
		return fmt.Errorf("is empty: give a name of lower case letters, digits and hyphens")
	case len(name) > most:
		return fmt.Errorf("is longer than %d characters", most)
	case !only(name, lower+digits+"-"):
		return fmt.Errorf("may only hold lower case letters, digits and hyphens")
	case name[0] == '-' || name[len(name)-1] == '-':
		return fmt.Errorf("must begin and end with a letter or a digit")
	}
	return nil
}

// lower and digits are what names are made of.
const (
	lower  = "abcdefghijklmnopqrstuvwxyz"
	digits = "0123456789"
)

// only reports that s holds nothing but the characters of set.
func only(s, set string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(set, r) }) < 0
}

func checkImage(image string) error {
	rest, ok := strings.CutPrefix(image, "base/")
	if !ok {
		return fmt.Errorf("must begin with base/, such as base/15.0-web")
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "" || segment == "." || segment == ".." || !only(segment, lower+digits+"-.") {
			return fmt.Errorf("may only hold lower case letters, digits, hyphens and dots between its slashes")
		}
	}
	return nil
}

func (c *checker) command(argv []string) {
	if len(argv) == 0 {
		c.bad(BadCommand, "spec.command", "", "is empty: give the program and its arguments")
		return
	}
	if !strings.HasPrefix(argv[0], "/") {
		c.bad(BadCommand, "spec.command[0]", argv[0], "must be an absolute path inside the jail")
	}
	for i, arg := range argv {
		if strings.ContainsRune(arg, 0) {
			c.bad(BadCommand, fmt.Sprintf("spec.command[%d]", i), arg, "holds a NUL character, which no argument can")
		}
	}
}

// checkBridge keeps the name short enough for an interface.
func checkBridge(bridge string) error {
	number, ok := strings.CutPrefix(bridge, "keel")
	if !ok || len(number) < 1 || len(number) > 4 || !only(number, digits) {
		return fmt.Errorf("must be keel and one to four digits, such as keel0")
	}
	return nil
}

// Gateway is the first address of p's network, with p's length: the bridge has
// it, and jails on the bridge route through it.
func Gateway(p netip.Prefix) netip.Prefix {
	return netip.PrefixFrom(p.Masked().Addr().Next(), p.Bits())
}

func checkAddress(text string) error {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return fmt.Errorf("must be an IPv4 address with its prefix length, such as 10.0.60.5/24")
	case !p.Addr().Is4():
		return fmt.Errorf("must be IPv4, such as 10.0.60.5/24")
	case !unicast(p.Addr()):
		return fmt.Errorf("is no address that a jail can have: take one of a private network, such as 10.0.60.5/24")
	case !unicast(Gateway(p).Addr()):
		return fmt.Errorf("has a prefix length that is too short: the gateway of %v would be %v, which no host can have", p.Masked(), Gateway(p).Addr())
	case p.Addr() == p.Masked().Addr():
		return fmt.Errorf("is the network's own address: take another one of %v", p.Masked())
	case p.Addr() == broadcast(p):
		return fmt.Errorf("is the broadcast address: take another one of %v", p.Masked())
	case p.Addr() == Gateway(p).Addr():
		return fmt.Errorf("is the gateway, which the bridge itself has: take another one of %v", p.Masked())
	}
	return nil
}

// unicast reports that a host may have an IPv4 address for others to reach it.
func unicast(a netip.Addr) bool {
	first := a.As4()[0]
	return first != 0 && first != 127 && first < 224
}

// broadcast is the last address of an IPv4 network.
func broadcast(p netip.Prefix) netip.Addr {
	a := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		a[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(a)
}

func (c *checker) volumes(list []Volume) {
	for i, v := range list {
		at := func(field string) string { return fmt.Sprintf("spec.volumes[%d].%s", i, field) }
		c.is(BadName, at("name"), v.Name, CheckName(v.Name))
		for k, earlier := range list[:i] {
			if earlier.Name == v.Name {
				c.bad(Duplicate, at("name"), v.Name, fmt.Sprintf("is the name of spec.volumes[%d] already", k))
				break
			}
		}
		_, err := v.Size.Bytes()
		c.is(BadMemory, at("size"), string(v.Size), err)
		if err := checkMountPath(v.MountPath); err != nil {
			c.bad(BadMountPath, at("mountPath"), v.MountPath, err.Error())
			continue
		}
		for k, earlier := range list[:i] {
			if within(earlier.MountPath, v.MountPath) {
				c.bad(BadMountPath, at("mountPath"), v.MountPath,
					fmt.Sprintf("would hide spec.volumes[%d], mounted at %s before it", k, earlier.MountPath))
				break
			}
		}
	}
}

func checkMountPath(p string) error {
	switch {
	case !strings.HasPrefix(p, "/"):
		return fmt.Errorf("must be an absolute path inside the jail")
	case p == "/":
		return fmt.Errorf("is the jail's root: mount below it")
	case path.Clean(p) != p:
		return fmt.Errorf("must be written without .., ., empty parts and a slash at its end")
	case !only(p, lower+strings.ToUpper(lower)+digits+"/-._"):
		return fmt.Errorf("may only hold letters, digits, slashes, hyphens, dots and underscores")
	case within(p, "/dev"):
		return fmt.Errorf("lies in /dev, which every jail gets from its host")
	}
	return nil
}

// within reports that path is folder or lies below it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, folder+"/")
}
