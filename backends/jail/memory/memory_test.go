package memory_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tlspu/keel/backends/jail"
	"github.com/tlspu/keel/backends/jail/memory"
	"github.com/tlspu/keel/test/contract"
)

func TestMachine_keepsTheContract(t *testing.T) {
	machines := map[*testing.T]*memory.Machine{}
	contract.JailDriver(t, contract.JailHost{
		Image: "tank/keel/base/x", Pool: "tank/keel/jails", Sleep: []string{"/bin/sleep", "1000"},
		Driver: func(t *testing.T) jail.Driver {
			m := memory.New()
			machines[t] = m
			if err := m.AddImage("tank/keel/base/x"); err != nil {
				t.Fatal(err)
			}
			return m.Driver()
		},
		Exit: func(t *testing.T, _ jail.Driver, name string) {
			if err := machines[t].MarkExited(name, 3); err != nil {
				t.Fatal(err)
			}
		},
		Foreign: func(t *testing.T, _ jail.Driver, name string) {
			if err := machines[t].AddForeignLink(name); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func TestLoad_findsWhatWasThere(t *testing.T) {
	var kept []byte
	save := func(b []byte) error { kept = b; return nil }
	m, err := memory.Load(nil, save)
	if err != nil {
		t.Fatal(err)
	}
	d := m.Driver()
	for _, err := range []error{
		m.AddImage("tank/base"),
		d.Datasets.Clone(t.Context(), "tank/base", "tank/web"),
		d.Datasets.Create(t.Context(), "tank/v", 5),
		d.Jails.Create(t.Context(), jail.Cell{Name: "web", Root: "/tank/web"}),
		d.Mounts.Mount(t.Context(), "/tank/v", "/tank/web", "/v"),
		d.Jails.Start(t.Context(), "web", nil),
		m.MarkExited("web", 3),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	again, err := memory.Load(kept, save)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.Contents(), again.Contents()); diff != "" || len(again.Contents()) != 5 {
		t.Errorf("%s\n%v", diff, again.Contents())
	}
	list, err := again.Driver().Jails.List(t.Context())
	if err != nil || list["web"].Exit == nil || *list["web"].Exit != 3 || again.Starts("web") != 1 || again.Serial("tank/web") != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := memory.Load([]byte("{"), save); err == nil {
		t.Error("a broken snapshot was read")
	}
}

func TestLoad_saysThatItCannotSave(t *testing.T) {
	full := errors.New("no space")
	m, err := memory.Load(nil, func([]byte) error { return full })
	if err != nil {
		t.Fatal(err)
	}
	if err := m.AddImage("x"); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

func TestMachine_injected(t *testing.T) {
	m := memory.New()
	if err := m.AddImage("base"); err != nil {
		t.Fatal(err)
	}
	d, boom := m.Driver(), errors.New("boom")
	m.Fail("clone", "web", boom)
	if err := d.Datasets.Clone(t.Context(), "base", "web"); !errors.Is(err, boom) || err.Error() != "clone web: boom" {
		t.Errorf("got %v", err)
	}
	m.Fail("clone", "web", nil)
	if err := d.Datasets.Clone(t.Context(), "base", "web"); err != nil {
		t.Error(err)
	}
	for _, op := range []string{"list jails", "list limits", "list datasets", "list mounts", "list network"} {
		m.Fail(op, "", boom)
	}
	_, err1 := d.Jails.List(t.Context())
	_, err2 := d.Jails.Limits(t.Context())
	_, err3 := d.Datasets.List(t.Context())
	_, err4 := d.Mounts.List(t.Context())
	_, err5 := d.Network.List(t.Context())
	for i, err := range []error{err1, err2, err3, err4, err5} {
		if !errors.Is(err, boom) {
			t.Errorf("listing %d: %v", i+1, err)
		}
	}
	if err := m.MarkBusy("web", true); err != nil {
		t.Fatal(err)
	}
	if err := d.Datasets.Destroy(t.Context(), "web"); !errors.Is(err, jail.ErrBusy) {
		t.Errorf("busy: %v", err)
	}
	if err := m.Reboot(); err != nil {
		t.Fatal(err)
	}
	if err := d.Datasets.Destroy(t.Context(), "web"); err != nil {
		t.Errorf("after the reboot: %v", err)
	}
}
