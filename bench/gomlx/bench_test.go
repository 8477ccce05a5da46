// Package bench times compute's own cases, training and an empty call on three backends of GoMLX: RLX, XLA and GoMLX's own.
// run.py runs it in turns, with -test.benchtime=1x: what is timed, in processor time, is the first run of each executable
// (timed.go), or the steps of a training (training_test.go).
package bench

import (
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/support/backendtest"
	"github.com/gomlx/go-xla/compute/xla"
	"rlx.invalid/go/gomlx"
)

// opened is the backend of that name; XLA's is the plugin that PJRT_PLUGIN names.
func opened(name string) (compute.Backend, error) {
	switch name {
	case "xla":
		xla.EnableAutoInstall(false)
		made, err := xla.New(os.Getenv("PJRT_PLUGIN"))
		return unfused{made}, err
	case "go":
		return gobackend.New("")
	default:
		return gomlx.New("")
	}
}

// untouched is the backend as GoMLX's own graphs get it: they take fused ops apart themselves where there are none.
func untouched(made compute.Backend) compute.Backend {
	if inner, ok := made.(unfused); ok {
		return inner.Backend
	}
	return made
}

func BenchmarkCases(b *testing.B) {
	for _, name := range []string{"rlx", "xla", "go"} {
		b.Run(name, func(b *testing.B) {
			made, err := opened(name)
			if err != nil {
				b.Fatal(err)
			}
			b.Run("Training", func(b *testing.B) {
				b.Run("MNIST", func(b *testing.B) {
					b.Run("dense", func(b *testing.B) { measureTraining(b, untouched(made), dense) })
					b.Run("convolutional", func(b *testing.B) { measureTraining(b, untouched(made), convolutional) })
				})
			})
			b.Run("Call", func(b *testing.B) { b.Run("Neg", func(b *testing.B) { measureCall(b, untouched(made)) }) })
			made = timed{made}
			b.Run("Softmax", func(b *testing.B) { backendtest.BenchmarkSoftmax(b, made) })
			b.Run("Gelu", func(b *testing.B) { backendtest.BenchmarkGelu(b, made) })
			b.Run("LayerNorm", func(b *testing.B) { backendtest.BenchmarkLayerNorm(b, made) })
			b.Run("Dense", func(b *testing.B) { backendtest.BenchmarkDense(b, made) })
			b.Run("DotGeneral", func(b *testing.B) { backendtest.BenchmarkDotGeneral(b, made) })
		})
	}
}
