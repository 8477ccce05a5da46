package bench

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// unfused gives a backend without fused ops what GoMLX gives it: their decompositions, which its compiler fuses.
type unfused struct{ compute.Backend }

type unfusedBuilder struct {
	compute.Builder
	main *unfusedFunction
}

type unfusedFunction struct {
	compute.Function
	builder compute.Builder
}

func (b unfused) Builder(name string) compute.Builder {
	made := b.Backend.Builder(name)
	return &unfusedBuilder{made, &unfusedFunction{made.Main(), made}}
}

func (b *unfusedBuilder) Main() compute.Function { return b.main }

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (f *unfusedFunction) shape(x compute.Value) shapes.Shape { return must(f.builder.OpShape(x)) }

// filled is a number in the dtype and dims of x.
func (f *unfusedFunction) filled(number float32, x compute.Value) compute.Value {
	return must(f.BroadcastInDim(must(f.Constant([]float32{number})), shapes.Make(dtypes.Float32, f.shape(x).Dimensions...), nil))
}

// overLast reduces the last axis, and gives the result x's dims again.
func (f *unfusedFunction) overLast(reduce func(compute.Value, ...int) (compute.Value, error), x compute.Value) compute.Value {
	shape := f.shape(x)
	axes := make([]int, shape.Rank()-1)
	for i := range axes {
		axes[i] = i
	}
	return must(f.BroadcastInDim(must(reduce(x, shape.Rank()-1)), shape, axes))
}

func (f *unfusedFunction) FusedSoftmax(x compute.Value, _ int) (compute.Value, error) {
	powers := must(f.Exp(must(f.Sub(x, f.overLast(f.ReduceMax, x)))))
	return f.Div(powers, f.overLast(f.ReduceSum, powers))
}

func (f *unfusedFunction) FusedGelu(x compute.Value, _ bool) (compute.Value, error) {
	erf := must(f.Erf(must(f.Mul(x, f.filled(math.Sqrt2/2, x)))))
	return f.Mul(must(f.Mul(x, f.filled(0.5, x))), must(f.Add(erf, f.filled(1, x))))
}

func (f *unfusedFunction) FusedLayerNorm(x compute.Value, _ []int, epsilon float64, gamma, beta compute.Value) (compute.Value, error) {
	shape := f.shape(x)
	size := f.filled(float32(shape.Dimensions[shape.Rank()-1]), x)
	away := must(f.Sub(x, must(f.Div(f.overLast(f.ReduceSum, x), size))))
	variance := must(f.Div(f.overLast(f.ReduceSum, must(f.Mul(away, away))), size))
	normal := must(f.Mul(away, must(f.Rsqrt(must(f.Add(variance, f.filled(float32(epsilon), x)))))))
	last := []int{shape.Rank() - 1}
	return f.Add(must(f.Mul(normal, must(f.BroadcastInDim(gamma, shape, last)))), must(f.BroadcastInDim(beta, shape, last)))
}

func (f *unfusedFunction) FusedDense(x, weight, bias compute.Value, _ compute.DenseConfig) (compute.Value, error) {
	y := must(f.DotGeneral(x, []int{f.shape(x).Rank() - 1}, nil, weight, []int{0}, nil, compute.DotGeneralConfig{}))
	return f.Add(y, must(f.BroadcastInDim(bias, f.shape(y), []int{f.shape(y).Rank() - 1})))
}
