package contract

import (
	"net/netip"
	"slices"

	"github.com/tlspu/keel/backends/jail"
)

// The names are those of the real thing: epair on FreeBSD, where the number is
// what the agent chose.
func link(name, owner, address, gateway string) jail.Link {
	return jail.Link{Name: name, Jail: owner, Bridge: "keel9999",
		Address: netip.MustParsePrefix(address), Gateway: netip.MustParsePrefix(gateway)}
}

func (b *jailBench) bridge() {
	b.Helper()
	b.do(b.d.Network.EnsureBridge(b.Context(), "keel9999"))
}

func (b *jailBench) noBridge() {
	b.jail("ka")
	b.is(b.d.Network.Attach(b.Context(), link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")), jail.ErrNotFound)
	b.noLink("epair9001")
}

func (b *jailBench) noJail() {
	b.bridge()
	b.is(b.d.Network.Attach(b.Context(), link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")), jail.ErrNotFound)
	b.noLink("epair9001")
	b.equal("addresses of the bridge", len(b.net().Bridges["keel9999"]), 0)
}

func (b *jailBench) noLink(name string) {
	b.Helper()
	if l, ok := b.net().Links[name]; ok {
		b.Errorf("there is a link: %+v", l)
	}
}

func (b *jailBench) hasLink(want jail.Link) {
	b.Helper()
	got := b.net().Links[want.Name]
	got.Gateway = want.Gateway // a host keeps it on the bridge
	if got != want {
		b.Errorf("link: got %+v, want %+v", got, want)
	}
	if !slices.Contains(b.net().Bridges[want.Bridge], want.Gateway) {
		b.Errorf("the bridge has no %s: %v", want.Gateway, b.net().Bridges[want.Bridge])
	}
}

func (b *jailBench) bridgeTwice() {
	b.attached()
	b.bridge()
	b.hasLink(link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24"))
}

func (b *jailBench) attached() {
	b.jail("ka")
	b.bridge()
	l := link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")
	b.do(b.d.Network.Attach(b.Context(), l))
	b.hasLink(l)
	b.do(b.d.Network.Attach(b.Context(), l))
	b.hasLink(l)
	b.equal("addresses of the bridge", len(b.net().Bridges["keel9999"]), 1)
}

func (b *jailBench) twoJails() {
	b.jail("ka")
	b.jail("kb")
	b.bridge()
	first := link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")
	second := link("epair9002", "kb", "10.99.1.6/24", "10.99.1.1/24")
	b.do(b.d.Network.Attach(b.Context(), first))
	b.do(b.d.Network.Attach(b.Context(), second))
	b.hasLink(first)
	b.hasLink(second)
}

func (b *jailBench) twoSubnets() {
	b.jail("ka")
	b.jail("kb")
	b.bridge()
	first := link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")
	second := link("epair9002", "kb", "10.99.2.5/24", "10.99.2.1/24")
	b.do(b.d.Network.Attach(b.Context(), first))
	b.do(b.d.Network.Attach(b.Context(), second))
	b.hasLink(first)
	b.hasLink(second)
}

func (b *jailBench) othersLink() {
	b.attached()
	b.jail("kb")
	b.is(b.d.Network.Attach(b.Context(), link("epair9001", "kb", "10.99.1.6/24", "10.99.1.1/24")), jail.ErrExists)
	b.hasLink(link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24"))
}

func (b *jailBench) otherBridge() {
	b.attached()
	b.do(b.d.Network.EnsureBridge(b.Context(), "keel9998"))
	l := link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")
	l.Bridge = "keel9998"
	b.is(b.d.Network.Attach(b.Context(), l), jail.ErrExists)
	b.hasLink(link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24"))
}

func (b *jailBench) foreignLink() {
	if b.h.Foreign == nil {
		b.Skip("this host cannot be given a link that is not Keel's")
	}
	b.jail("ka")
	b.bridge()
	b.h.Foreign(b.T, b.d, "epair9001")
	b.noLink("epair9001")
	b.is(b.d.Network.Attach(b.Context(), link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")), jail.ErrExists)
	b.noLink("epair9001")
}

func (b *jailBench) detached() {
	b.attached()
	b.do(b.d.Jails.Start(b.Context(), "ka", b.h.Sleep))
	b.do(b.d.Network.Detach(b.Context(), "epair9001"))
	b.noLink("epair9001")
	b.do(b.d.Network.Detach(b.Context(), "epair9001"))
	b.equal("alive", b.jails()["ka"].Alive, true)
}

func (b *jailBench) orphan() {
	b.attached()
	b.do(b.d.Jails.Destroy(b.Context(), "ka"))
	b.equal("owner", b.net().Links["epair9001"].Jail, "ka")
	b.do(b.d.Jails.Create(b.Context(), jail.Cell{Name: "ka", Hostname: "ka", Root: b.path("ka")}))
	l := link("epair9001", "ka", "10.99.1.5/24", "10.99.1.1/24")
	b.do(b.d.Network.Attach(b.Context(), l))
	b.hasLink(l)
}

func (b *jailBench) net() jail.Net {
	b.Helper()
	net, err := b.d.Network.List(b.Context())
	b.do(err)
	return net
}
