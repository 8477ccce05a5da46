package gomlx

import (
	"os"
	"testing"

	"github.com/gomlx/compute/gobackend"
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

// TestComplianceOnMlx is the same by Apple's MLX, where the library was built with it.
func TestComplianceOnMlx(t *testing.T) {
	backend(t, "") // or there is no library to test
	b, err := New("mlx")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(b.Finalize)
	backendtest.RunAll(t, b, nil)
}

// BenchmarkBackends runs compute's own cases on RLX and on GoMLX's backend in Go; GOEXPERIMENT=simd makes the latter faster.
func BenchmarkBackends(b *testing.B) {
	b.Run("rlx", func(b *testing.B) { backendtest.RunAllBenchmarks(b, backend(b, "")) })
	b.Run("go", func(b *testing.B) {
		peer, err := gobackend.New("")
		if err != nil {
			b.Fatal(err)
		}
		defer peer.Finalize()
		backendtest.RunAllBenchmarks(b, peer)
	})
}
