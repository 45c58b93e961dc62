package command

import "bytes"

// head keeps the first max bytes written to it; over says that there were more,
// and full, when set, is called then.
type head struct {
	max  int
	full func()
	over bool
	kept bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	room := h.max - h.kept.Len()
	if len(p) <= room {
		return h.kept.Write(p)
	}
	h.kept.Write(p[:room])
	h.over = true
	if h.full != nil {
		h.full()
	}
	return len(p), nil
}

// tail keeps the last max bytes written to it.
type tail struct {
	max  int
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.max; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(p), nil
}
