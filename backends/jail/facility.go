// Package jail keeps the jails of one host: their records, their roots, volumes,
// network and limits. What a kind of system does differently is a Driver.
package jail

import (
	"context"
	"errors"
	"net/netip"
)

// What a caller branches on. A driver wraps them with the name of the thing;
// any other error says nothing about whether the thing is there.
var (
	ErrNotFound   = errors.New("not found")
	ErrExists     = errors.New("exists already")
	ErrBusy       = errors.New("busy")
	ErrNotMounted = errors.New("not mounted")
)

// A Driver is what jails are made of on one kind of system. Every call has its
// own deadline, may be repeated, and survives the death of its caller: what was
// done is done, and a listing shows it. A listing is whole or an error.
type Driver struct {
	Jails    Jails
	Datasets Datasets
	Mounts   Mounts
	Network  Network
}

// Jails runs jails. It takes names as the host knows them and nothing of specs.
type Jails interface {
	// List returns every jail of the host by name, those of others too.
	List(ctx context.Context) (map[string]Running, error)
	// Limits returns the limits in force by jail, also those of jails that are gone.
	Limits(ctx context.Context) (map[string]Limits, error)
	// Create makes an empty jail that stays without a process, with a network
	// stack and a /dev of its own. ErrExists when there is one of that name,
	// ErrNotFound when the root is not there.
	Create(ctx context.Context, c Cell) error
	// Start starts the command in the jail and does not wait for it; it outlives
	// the caller. No error means only that it was started. ErrNotFound: no such jail.
	Start(ctx context.Context, name string, argv []string) error
	// Destroy ends all processes and removes the jail. Once it returned, nothing
	// of the jail keeps its root busy; limits and links stay. ErrNotFound: no such jail.
	Destroy(ctx context.Context, name string) error
	// SetLimits replaces the limits of a jail. An error may leave one of them set.
	// ErrNotFound: no such jail.
	SetLimits(ctx context.Context, name string, l Limits) error
	// RemoveLimits is no error where none are set, or the jail is gone.
	RemoveLimits(ctx context.Context, name string) error
}

// A Cell is a jail to be made.
type Cell struct{ Name, Hostname, Root string }

// Running is what a host knows about one of its jails.
type Running struct {
	Root string
	// Alive: it has a process. One that ended and was not yet waited for is none.
	Alive bool
	// Exit is the status with which the process that Start started ended, -1 for
	// a signal. Nil is unknown: it lives, it was never started, or whoever waited for it is gone.
	Exit *int
}

// Limits of a jail as a whole; 0 is none.
type Limits struct {
	CPU    int64 // percent of one core
	Memory int64 // bytes
}

// Datasets holds root file systems and volumes.
type Datasets interface {
	// List returns the datasets of Keel by name: images, jails, volumes.
	List(ctx context.Context) (map[string]Dataset, error)
	// Path is where a dataset is, or would be, mounted on the host.
	Path(name string) string
	// Clone makes target from an image. ErrNotFound: no such image. ErrExists: target is there.
	Clone(ctx context.Context, image, target string) error
	// Create makes an empty dataset. One that exists stays as it is, with its quota.
	Create(ctx context.Context, name string, quota int64) error
	// SetQuota bounds the bytes in a dataset. ErrNotFound: no such dataset.
	SetQuota(ctx context.Context, name string, quota int64) error
	// Destroy removes a dataset with what it holds. ErrNotFound: no such dataset.
	// ErrBusy: a jail, a mount or a process uses it, after a bounded wait; nothing was removed.
	Destroy(ctx context.Context, name string) error
}

// Dataset is a file system of its own. Quota is in bytes; 0 is none.
type Dataset struct{ Quota int64 }

// Mounts shows volumes inside jails. The target of a mount is root and path, one
// after the other.
type Mounts interface {
	// List returns the mounts of the host, a target given twice when mounts are
	// stacked on it, the topmost last.
	List(ctx context.Context) ([]Mounted, error)
	// Mount makes the mount point where it is missing and mounts source on it. It
	// never leaves root: a link on the way to path is an error. Mounted already is
	// no error and no second mount; something else mounted there is ErrExists, no
	// such source or root ErrNotFound.
	Mount(ctx context.Context, source, root, path string) error
	// Unmount ends the mount at target. ErrNotMounted: there is none. ErrBusy: it is in use.
	Unmount(ctx context.Context, target string) error
}

// Mounted is one mount of the host.
type Mounted struct{ Source, Target string }

// Network connects jails to bridges.
type Network interface {
	// List returns the bridges and the links that are Keel's own.
	List(ctx context.Context) (Net, error)
	// EnsureBridge makes the bridge, up, where it is missing. It is never removed.
	EnsureBridge(ctx context.Context, name string) error
	// Attach gives the bridge the gateway's address beside those it has, and the
	// jail a link to the bridge with its address and a default route. Parts that are there already are left; an error
	// may leave parts. ErrNotFound: no such bridge or jail, and nothing was made.
	// ErrExists: a link of that name is somebody else's, or leads to another bridge; it is not touched.
	Attach(ctx context.Context, l Link) error
	// Detach removes a link from the jail and the host, also after the jail is
	// gone. No such link is no error.
	Detach(ctx context.Context, link string) error
}

// Net is what a host knows about Keel's network.
type Net struct {
	Bridges map[string][]netip.Prefix // the addresses of each, in no order
	Links   map[string]Link
}

// Link joins a jail and a bridge.
type Link struct {
	Name    string // "epair7"
	Jail    string // whose it is, also after that jail is gone
	Bridge  string // empty: on none
	Address netip.Prefix
	Gateway netip.Prefix
}
