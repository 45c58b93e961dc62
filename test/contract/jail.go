package contract

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/backends/jail"
)

// JailHost is a host on which a jail driver is tested.
type JailHost struct {
	// Driver returns the driver of a host that has the image and nothing of an
	// earlier scenario, or cleans up after the test.
	Driver func(t *testing.T) jail.Driver
	Image  string   // a dataset
	Pool   string   // the dataset above those that the scenarios make
	Sleep  []string // a command in the image that runs until it is killed
	// Exit ends what Sleep started in a jail with status 3, when it can.
	Exit func(t *testing.T, d jail.Driver, name string)
	// Foreign, where the host can be given one, makes a link that is not Keel's.
	Foreign func(t *testing.T, d jail.Driver, name string)
}

// JailDriver holds a driver against everything that its facilities promise. The
// scenarios are where fakes and real hosts were found to differ.
func JailDriver(t *testing.T, h JailHost) {
	scenarios := []struct {
		name string
		run  func(*jailBench)
	}{
		{"jail: what is not there is ErrNotFound", (*jailBench).absentJail},
		{"jail: made, empty, listed", (*jailBench).createdJail},
		{"jail: a second one of its name is ErrExists", (*jailBench).secondJail},
		{"jail: started is alive, and destroyed is gone", (*jailBench).jailLives},
		{"jail: a command that ended tells how, until it is started again", (*jailBench).exited},
		{"jail: limits are replaced, outlive the jail and are removed", (*jailBench).limits},
		{"dataset: what is not there is ErrNotFound", (*jailBench).absentDataset},
		{"dataset: two clones of one image", (*jailBench).clones},
		{"dataset: a volume made twice keeps its quota", (*jailBench).volume},
		{"dataset: destroyed at once after its running jail", (*jailBench).destroyAtOnce},
		{"dataset: busy while a jail has it", (*jailBench).busyByJail},
		{"dataset: busy while it is mounted, and while something is mounted in it", (*jailBench).busyByMount},
		{"mount: listed after it was made", (*jailBench).mounted},
		{"mount: twice is once", (*jailBench).mountedTwice},
		{"mount: not over another", (*jailBench).mountedOver},
		{"mount: of what is not there is ErrNotFound", (*jailBench).mountedNothing},
		{"mount: unmounted twice is ErrNotMounted", (*jailBench).unmounted},
		{"network: without the bridge nothing is made", (*jailBench).noBridge},
		{"network: without the jail nothing is made", (*jailBench).noJail},
		{"network: a bridge made twice keeps its addresses", (*jailBench).bridgeTwice},
		{"network: attached, and attached again", (*jailBench).attached},
		{"network: two jails on one subnet", (*jailBench).twoJails},
		{"network: two subnets on one bridge keep both gateways", (*jailBench).twoSubnets},
		{"network: a link of another jail is ErrExists", (*jailBench).othersLink},
		{"network: a link to another bridge is ErrExists", (*jailBench).otherBridge},
		{"network: a link that is not Keel's is ErrExists", (*jailBench).foreignLink},
		{"network: detached while running, and again", (*jailBench).detached},
		{"network: a link outlives its jail and can be used again", (*jailBench).orphan},
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			b := &jailBench{T: t, h: h, d: h.Driver(t)}
			s.run(b)
		})
	}
}

// jailBench is one scenario's host.
type jailBench struct {
	*testing.T
	h JailHost
	d jail.Driver
}

func (b *jailBench) do(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *jailBench) is(err, want error) {
	b.Helper()
	if !errors.Is(err, want) {
		b.Errorf("got %v, want %v", err, want)
	}
}

func (b *jailBench) dataset(name string) string { return b.h.Pool + "/" + name }

func (b *jailBench) path(name string) string { return b.d.Datasets.Path(b.dataset(name)) }

// jail makes a jail with a root of its own.
func (b *jailBench) jail(name string) {
	b.Helper()
	b.do(b.d.Datasets.Clone(b.Context(), b.h.Image, b.dataset(name)))
	b.do(b.d.Jails.Create(b.Context(), jail.Cell{Name: name, Hostname: name, Root: b.path(name)}))
}

func (b *jailBench) jails() map[string]jail.Running {
	b.Helper()
	list, err := b.d.Jails.List(b.Context())
	b.do(err)
	return list
}

func (b *jailBench) datasets() map[string]jail.Dataset {
	b.Helper()
	list, err := b.d.Datasets.List(b.Context())
	b.do(err)
	return list
}

// mountsOn lists what is mounted on target.
func (b *jailBench) mountsOn(target string) []string {
	b.Helper()
	list, err := b.d.Mounts.List(b.Context())
	b.do(err)
	var sources []string
	for _, m := range list {
		if m.Target == target {
			sources = append(sources, m.Source)
		}
	}
	return sources
}

func (b *jailBench) equal(what string, got, want any) {
	b.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (b *jailBench) absentJail() {
	ctx, j := b.Context(), b.d.Jails
	b.is(j.Destroy(ctx, "ka"), jail.ErrNotFound)
	b.is(j.Start(ctx, "ka", b.h.Sleep), jail.ErrNotFound)
	b.is(j.SetLimits(ctx, "ka", jail.Limits{CPU: 100, Memory: 1 << 30}), jail.ErrNotFound)
	b.is(j.RemoveLimits(ctx, "ka"), nil)
	b.is(j.Create(ctx, jail.Cell{Name: "ka", Hostname: "ka", Root: b.path("ka")}), jail.ErrNotFound)
	if _, ok := b.jails()["ka"]; ok {
		b.Error("a jail that was never made is listed")
	}
}

func (b *jailBench) createdJail() {
	b.jail("ka")
	b.equal("jail", b.jails()["ka"], jail.Running{Root: b.path("ka")})
}

func (b *jailBench) secondJail() {
	b.jail("ka")
	b.do(b.d.Datasets.Clone(b.Context(), b.h.Image, b.dataset("kb")))
	b.is(b.d.Jails.Create(b.Context(), jail.Cell{Name: "ka", Hostname: "ka", Root: b.path("kb")}), jail.ErrExists)
	b.equal("jail", b.jails()["ka"].Root, b.path("ka"))
}

func (b *jailBench) jailLives() {
	b.jail("ka")
	b.do(b.d.Jails.Start(b.Context(), "ka", b.h.Sleep))
	b.equal("jail", b.jails()["ka"], jail.Running{Root: b.path("ka"), Alive: true})
	b.do(b.d.Jails.Destroy(b.Context(), "ka"))
	if _, ok := b.jails()["ka"]; ok {
		b.Error("a destroyed jail is listed")
	}
	b.is(b.d.Jails.Destroy(b.Context(), "ka"), jail.ErrNotFound)
}

func (b *jailBench) exited() {
	if b.h.Exit == nil {
		b.Skip("this host cannot end a command with a status")
	}
	b.jail("ka")
	b.do(b.d.Jails.Start(b.Context(), "ka", b.h.Sleep))
	b.h.Exit(b.T, b.d, "ka")
	status := 3
	b.equal("jail", b.jails()["ka"], jail.Running{Root: b.path("ka"), Exit: &status})
	b.do(b.d.Jails.Start(b.Context(), "ka", b.h.Sleep))
	b.equal("jail", b.jails()["ka"], jail.Running{Root: b.path("ka"), Alive: true})
}

func (b *jailBench) limits() {
	ctx, j := b.Context(), b.d.Jails
	in := func() (l jail.Limits, ok bool) {
		list, err := j.Limits(ctx)
		b.do(err)
		l, ok = list["ka"]
		return l, ok
	}
	b.jail("ka")
	if l, ok := in(); ok {
		b.Errorf("a new jail has limits: %v", l)
	}
	b.do(j.SetLimits(ctx, "ka", jail.Limits{CPU: 200, Memory: 1 << 30}))
	b.do(j.SetLimits(ctx, "ka", jail.Limits{CPU: 50, Memory: 1 << 28}))
	b.do(j.Destroy(ctx, "ka"))
	l, _ := in()
	b.equal("limits", l, jail.Limits{CPU: 50, Memory: 1 << 28})
	b.do(j.RemoveLimits(ctx, "ka"))
	b.do(j.RemoveLimits(ctx, "ka"))
	if l, ok := in(); ok {
		b.Errorf("limits after their removal: %v", l)
	}
}

func (b *jailBench) absentDataset() {
	ctx, d := b.Context(), b.d.Datasets
	b.is(d.Destroy(ctx, b.dataset("ka")), jail.ErrNotFound)
	b.is(d.SetQuota(ctx, b.dataset("ka"), 1<<20), jail.ErrNotFound)
	b.is(d.Clone(ctx, b.h.Image+"-none", b.dataset("ka")), jail.ErrNotFound)
	if _, ok := b.datasets()[b.dataset("ka")]; ok {
		b.Error("a clone of nothing is listed")
	}
}

func (b *jailBench) clones() {
	ctx, d := b.Context(), b.d.Datasets
	b.do(d.Clone(ctx, b.h.Image, b.dataset("ka")))
	b.do(d.Clone(ctx, b.h.Image, b.dataset("kb")))
	b.is(d.Clone(ctx, b.h.Image, b.dataset("ka")), jail.ErrExists)
	for _, name := range []string{b.h.Image, b.dataset("ka"), b.dataset("kb")} {
		if _, ok := b.datasets()[name]; !ok {
			b.Errorf("%s is not listed", name)
		}
	}
	b.do(d.Destroy(ctx, b.dataset("ka")))
	b.is(d.Destroy(ctx, b.dataset("ka")), jail.ErrNotFound)
}

func (b *jailBench) volume() {
	ctx, d := b.Context(), b.d.Datasets
	quota := func(want int64) {
		b.Helper()
		b.equal("quota", b.datasets()[b.dataset("v")].Quota, want)
	}
	b.do(d.Create(ctx, b.dataset("v"), 64<<20))
	quota(64 << 20)
	b.do(d.Create(ctx, b.dataset("v"), 128<<20))
	quota(64 << 20)
	b.do(d.SetQuota(ctx, b.dataset("v"), 128<<20))
	quota(128 << 20)
}

func (b *jailBench) destroyAtOnce() {
	b.jail("ka")
	b.do(b.d.Jails.Start(b.Context(), "ka", b.h.Sleep))
	b.do(b.d.Jails.Destroy(b.Context(), "ka"))
	b.do(b.d.Datasets.Destroy(b.Context(), b.dataset("ka")))
}

func (b *jailBench) busyByJail() {
	b.jail("ka")
	b.is(b.d.Datasets.Destroy(b.Context(), b.dataset("ka")), jail.ErrBusy)
	if _, ok := b.datasets()[b.dataset("ka")]; !ok {
		b.Error("a busy dataset is gone")
	}
}

// mount makes a root and a volume and shows it at /data.
func (b *jailBench) mount() (source, target string) {
	b.Helper()
	b.do(b.d.Datasets.Clone(b.Context(), b.h.Image, b.dataset("ka")))
	b.do(b.d.Datasets.Create(b.Context(), b.dataset("v"), 64<<20))
	b.do(b.d.Mounts.Mount(b.Context(), b.path("v"), b.path("ka"), "/data/deep"))
	return b.path("v"), b.path("ka") + "/data/deep"
}

func (b *jailBench) busyByMount() {
	_, target := b.mount()
	b.is(b.d.Datasets.Destroy(b.Context(), b.dataset("v")), jail.ErrBusy)
	b.is(b.d.Datasets.Destroy(b.Context(), b.dataset("ka")), jail.ErrBusy)
	b.do(b.d.Mounts.Unmount(b.Context(), target))
	b.do(b.d.Datasets.Destroy(b.Context(), b.dataset("v")))
	b.do(b.d.Datasets.Destroy(b.Context(), b.dataset("ka")))
}

func (b *jailBench) mounted() {
	source, target := b.mount()
	b.equal("mounts", b.mountsOn(target), []string{source})
}

func (b *jailBench) mountedTwice() {
	source, target := b.mount()
	b.do(b.d.Mounts.Mount(b.Context(), source, b.path("ka"), "/data/deep"))
	b.equal("mounts", b.mountsOn(target), []string{source})
}

func (b *jailBench) mountedOver() {
	source, target := b.mount()
	b.do(b.d.Datasets.Create(b.Context(), b.dataset("w"), 64<<20))
	b.is(b.d.Mounts.Mount(b.Context(), b.path("w"), b.path("ka"), "/data/deep"), jail.ErrExists)
	b.equal("mounts", b.mountsOn(target), []string{source})
}

func (b *jailBench) mountedNothing() {
	b.do(b.d.Datasets.Clone(b.Context(), b.h.Image, b.dataset("ka")))
	b.is(b.d.Mounts.Mount(b.Context(), b.path("v"), b.path("ka"), "/data"), jail.ErrNotFound)
	b.is(b.d.Mounts.Mount(b.Context(), b.path("ka"), b.path("kb"), "/data"), jail.ErrNotFound)
	b.equal("mounts", b.mountsOn(b.path("ka")+"/data"), []string(nil))
}

func (b *jailBench) unmounted() {
	_, target := b.mount()
	b.do(b.d.Mounts.Unmount(b.Context(), target))
	b.equal("mounts", b.mountsOn(target), []string(nil))
	b.is(b.d.Mounts.Unmount(b.Context(), target), jail.ErrNotMounted)
	b.is(b.d.Mounts.Unmount(b.Context(), b.path("ka")+"/never"), jail.ErrNotMounted)
}
