package host

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
)

// Load is Stat, or Lstat without follow, and Read in one walk: info describes
// the very file that content was read from. Content is nil for what is no regular
// file, and for a file of more than max bytes; that of an empty file is not.
func (v *View) Load(name string, follow bool, max int64) (info Info, content []byte, err error) {
	info, content, err = v.load(name, follow, max)
	if err != nil {
		return Info{}, nil, fmt.Errorf("read %s: %w", name, err)
	}
	info.name = path.Base(name)
	return info, content, nil
}

func (v *View) load(name string, follow bool, max int64) (Info, []byte, error) {
	p, err := v.walk(name, walkOptions{follow: follow})
	if err != nil {
		return Info{}, nil, err
	}
	defer p.close()
	if !p.there {
		return Info{}, nil, fs.ErrNotExist
	}
	if !p.info.mode.IsRegular() {
		err := p.ownGroup()
		p.info.dir = p.dir.id
		return p.info, nil, err
	}
	f, err := p.open()
	if err != nil {
		return Info{}, nil, err
	}
	defer f.close()
	if err := f.look(); err != nil {
		return Info{}, nil, err
	}
	f.info.ACL, f.info.dir = f.acl != nil, p.dir.id
	if f.info.size > max {
		return f.info, nil, nil
	}
	content, err := f.content(max)
	if err == nil && int64(len(content)) > max {
		content = nil
	}
	return f.info, content, err
}

// content reads a file from where it stands to its end, or a byte beyond max.
func (f *file) content(max int64) ([]byte, error) {
	size := f.info.size
	if size == 0 { // so say proc and sysfs, and a sysctl answers once, at the start
		size = 8 << 10
	}
	data := make([]byte, 0, min(size, max)+1)
	for {
		n, err := readFD(f.fd, data[len(data):min(int64(cap(data)), max+1)])
		if err != nil {
			return nil, err
		}
		data = data[:len(data)+n]
		if n == 0 || int64(len(data)) > max {
			return data, nil
		}
		data = slices.Grow(data, 1)
	}
}
