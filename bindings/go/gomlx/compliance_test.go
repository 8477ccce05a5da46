package gomlx

import (
	"os"
	"testing"

	"github.com/gomlx/compute/support/backendtest"
)

// backend is the one under test, or the test is skipped, visibly.
func backend(t testing.TB, config string) *Backend {
	t.Helper()
	if os.Getenv("RLX_LIBRARY") == "" {
		t.Skip("RLX_LIBRARY does not name the library to test")
	}
	b, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

func TestCompliance(t *testing.T) { backendtest.RunAll(t, backend(t, ""), nil) }
