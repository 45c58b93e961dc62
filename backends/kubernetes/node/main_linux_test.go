package node

import (
	"testing"

	"github.com/tlspu/keel/test/kubetest"
)

func TestMain(m *testing.M) { kubetest.Main(m) }
