package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tlspu/keel/api/v1alpha1"
	"github.com/tlspu/keel/backends/kubernetes/nodeconfig"
	"github.com/tlspu/keel/core/drift"
	"github.com/tlspu/keel/core/host"
	"github.com/tlspu/keel/core/plugin"
)

// maxStatus is the size of the largest status that is read.
const maxStatus = 64 << 10

// broken is added to the name of a status that cannot be read.
const broken = ".broken"

// status is what a visit that ended at now came to.
func (e *entry) status(res drift.Result, now time.Time) v1alpha1.NodeStatus {
	s := v1alpha1.NodeStatus{
		LastRunTime:        metav1.Time{Time: now.UTC().Truncate(time.Second)},
		LastResult:         v1alpha1.Success,
		Changed:            res.Changed,
		RestartPending:     e.pending,
		ObservedGeneration: e.config.Generation,
	}
	c := e.content
	if c != nil {
		s.TriggerDigest = c.Digest
	}
	switch {
	case res.Err != nil:
		s.LastResult, s.Message = v1alpha1.Error, cut(plugin.OneLine(res.Err), v1alpha1.MaxMessage)
	case c != nil && c.Idle() != "":
		s.Message = c.Idle()
	default:
		s.Message = did(res)
	}
	if len(e.config.Ignored) > 0 {
		s.Message = cut(s.Message+"; unknown and without effect: "+strings.Join(e.config.Ignored, ", "), v1alpha1.MaxMessage)
	}
	return s
}

// did says in words what a visit without an error did.
func did(res drift.Result) string {
	var applied, restarted bool
	for _, o := range res.Steps {
		if !o.Changed {
			continue
		}
		if writesRestart(o.Step) {
			restarted = true
		} else {
			applied = true
		}
	}
	switch {
	case applied && restarted:
		return "configuration applied, services restarted"
	case applied:
		return "configuration applied"
	case restarted:
		return "services restarted"
	}
	return "configuration in place"
}

func writesRestart(s drift.Step) bool {
	return len(s.Writes) == 1 && s.Writes[0].String() == nodeconfig.RestartLeaf
}

// cut shortens s to at most most bytes, between two characters, with a mark. It is
// one line that steers no terminal: what a command said may be in it.
func cut(s string, most int) string {
	const mark = "…"
	s = plugin.Printable(strings.NewReplacer("\n", " ", "\t", " ").Replace(strings.ToValidUTF8(s, "\uFFFD")))
	if len(s) <= most {
		return s
	}
	end := most - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}

// news reports whether s says anything that the status before does not. A visit
// that succeeded and found nothing to do is none.
func news(before, s v1alpha1.NodeStatus) bool {
	if s.Changed || s.LastResult != before.LastResult || s.RestartPending != before.RestartPending ||
		s.ObservedGeneration != before.ObservedGeneration || s.TriggerDigest != before.TriggerDigest {
		return true
	}
	idle := func(message string) bool {
		return strings.HasPrefix(message, nodeconfig.Suspended) || strings.HasPrefix(message, nodeconfig.Excluded)
	}
	return s.Message != before.Message && (s.LastResult == v1alpha1.Error || idle(before.Message) || idle(s.Message))
}

// statuses keeps the status of each NodeConfig in a file of its name.
type statuses struct {
	tree *host.Tree // this machine's: its errors name files as they are known here
	dir  string     // absolute
	log  *slog.Logger
}

// openStatuses makes the folder if it is not there. It must not be the folder
// of the NodeConfigs, which would read them.
func openStatuses(dir, configDir string, log *slog.Logger) (*statuses, error) {
	path, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return nil, &plugin.Exit{Code: plugin.ExitInvalid, Err: errors.New("state-dir: name a directory")}
	}
	this, err := host.OpenTree("/")
	if err != nil {
		return nil, err
	}
	w := &statuses{tree: this.Own(), dir: path, log: log}
	if err := w.make(); err != nil {
		return nil, errors.Join(fmt.Errorf("state-dir: %w", err), this.Close())
	}
	if state, err := os.Stat(path); err == nil {
		if configs, err := os.Stat(configDir); err == nil && os.SameFile(state, configs) {
			err := &plugin.Exit{Code: plugin.ExitInvalid, Err: fmt.Errorf("state-dir %s: is the config-dir too: name another directory", dir)}
			return nil, errors.Join(err, this.Close())
		}
	}
	return w, nil
}

// make makes the folder, which may have been removed since it was last needed.
func (w *statuses) make() error {
	if _, err := w.tree.Mkdir(filepath.Dir(w.dir), 0o755); err != nil {
		return err
	}
	_, err := w.tree.Mkdir(w.dir, 0o700) // messages and digests are for root alone
	return err
}

// path is the file of that name.
func (w *statuses) path(file string) string { return filepath.Join(w.dir, file) }

// save writes a status if it is news. A status is only told, nothing depends on
// it: that it cannot be written is logged, and the next visit tries again.
func (w *statuses) save(ctx context.Context, name string, _ types.UID, s v1alpha1.NodeStatus) {
	file := nodeconfig.FileName(name)
	before, there, err := w.load(file)
	if err != nil {
		w.setAside(ctx, file, err)
	}
	if there && err == nil && !news(before, s) {
		return
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = w.put(ctx, file, append(data, '\n'))
	}
	if err != nil {
		w.log.Error("status cannot be written", "target", name, "err", err)
	}
}

func (w *statuses) put(ctx context.Context, file string, data []byte) error {
	if err := w.make(); err != nil {
		return err
	}
	mode := fs.FileMode(0o600)
	_, err := w.tree.Put(ctx, w.path(file), bytes.NewReader(data), host.Attr{Mode: &mode})
	return err
}

// load reads a status; there is false when none was written yet.
func (w *statuses) load(file string) (s v1alpha1.NodeStatus, there bool, err error) {
	data, err := w.tree.Read(w.path(file), maxStatus)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err != nil {
		return s, true, err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, true, err
	}
	if dec.More() || s.LastRunTime.IsZero() || s.LastResult != v1alpha1.Success && s.LastResult != v1alpha1.Error {
		return s, true, errors.New("is no status")
	}
	return s, true, nil
}

// setAside keeps a broken status under another name, for a person to look at.
func (w *statuses) setAside(ctx context.Context, file string, why error) {
	data, err := w.tree.Read(w.path(file), maxStatus)
	if err == nil {
		err = w.put(ctx, file+broken, data)
	}
	if err != nil {
		w.log.Error("status is broken and is replaced", "file", w.path(file), "err", why)
		return
	}
	w.log.Error("status is broken; setting it aside and writing it again", "file", w.path(file), "aside", w.path(file+broken), "err", why)
}

// err never says anything: each status that cannot be written is logged.
func (w *statuses) err() error { return nil }

// close closes the folder; everything was written when save returned.
func (w *statuses) close(context.Context) error { return w.tree.Close() }

// names lists the NodeConfigs that have a status and were for this machine, without
// those whose names are too long for a file.
func (w *statuses) names() map[string]bool {
	names := map[string]bool{}
	files, err := w.tree.List(w.dir)
	if err != nil && !host.IsMissing(err) {
		w.log.Error("statuses cannot be listed", "err", err)
	}
	for _, file := range files {
		name, ours := strings.CutSuffix(file, nodeconfig.Suffix)
		if !ours || nodeconfig.FileName(name) != file {
			continue
		}
		s, there, err := w.load(file)
		if err == nil && there && !strings.HasPrefix(s.Message, nodeconfig.Excluded) {
			names[name] = true
		}
	}
	return names
}

// sweep removes the statuses of NodeConfigs that are gone. What does not look
// like a status is somebody else's and stays.
func (w *statuses) sweep(names map[string]bool) {
	keep := make(map[string]bool, len(names))
	for name := range names {
		keep[nodeconfig.FileName(name)] = true
	}
	files, err := w.tree.List(w.dir)
	if host.IsMissing(err) {
		return
	}
	if err != nil {
		w.log.Error("statuses cannot be listed", "err", err)
		return
	}
	for _, file := range files {
		if !strings.HasSuffix(file, nodeconfig.Suffix) || keep[file] {
			continue
		}
		if _, there, err := w.load(file); err != nil || !there {
			continue
		}
		if _, err := w.tree.Remove(w.path(file)); err != nil {
			w.log.Error("status of a NodeConfig that is gone cannot be removed", "file", w.path(file), "err", err)
		}
	}
}
