package gomlx

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
)

// given is a parameter and what a run gives it.
type given struct {
	flat  any
	shape shapes.Shape
}

// computed is the first result of a function of some parameters on a backend.
func computed(t *testing.T, b compute.Backend, all []given, build func(f compute.Function, x []compute.Value) (compute.Value, error)) []float32 {
	t.Helper()
	builder := b.Builder("computed")
	f := builder.Main()
	params, buffers := make([]compute.Value, len(all)), make([]compute.Buffer, len(all))
	for i, each := range all {
		var err error
		if params[i], err = f.Parameter(string(rune('a'+i)), each.shape, nil); err != nil {
			t.Fatal(err)
		}
		if buffers[i], err = b.BufferFromFlatData(0, each.flat, each.shape); err != nil {
			t.Fatal(err)
		}
	}
	y, err := build(f, params)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Return([]compute.Value{y}, nil); err != nil {
		t.Fatal(err)
	}
	e, err := builder.Compile()
	if err != nil {
		t.Fatal(err)
	}
	results, err := e.Execute(buffers, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	shape, _ := results[0].Shape()
	flat := make([]float32, shape.Size())
	if err := results[0].ToFlatData(flat); err != nil {
		t.Fatal(err)
	}
	return flat
}

func floatsOf(bytes []byte) []float32 {
	all := make([]float32, len(bytes)/4)
	for i := range all {
		all[i] = math.Float32frombits(binary.LittleEndian.Uint32(bytes[4*i:]))
	}
	return all
}

func closeTo(t *testing.T, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d numbers, want %d", len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i]-want[i])) <= tolerance*(1+math.Abs(float64(want[i])))) {
			t.Fatalf("number %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestBlocksOfGGMLAreReadAsThePackageGGUFReadsThem(t *testing.T) {
	text, err := os.ReadFile("testdata/quantized.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases map[string]struct {
		Bytes, Row, X []byte
		Product       []float32
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	b := backend(t, "")
	for format := range blockNames {
		t.Run(format.String(), func(t *testing.T) {
			c := cases[format.String()]
			weights := given{c.Bytes, shapes.Make(dtypes.Uint8, 3, len(c.Bytes)/3)}
			quantization := &compute.Quantization{Scheme: compute.QuantGGML, GGMLType: format}
			product := computed(t, b, []given{{floatsOf(c.X), shapes.Make(dtypes.Float32, 2, 512)}, weights},
				func(f compute.Function, x []compute.Value) (compute.Value, error) {
					return f.FusedQuantizedDense(x[0], x[1], nil, quantization, compute.ActivationNone)
				})
			closeTo(t, product, c.Product, 2e-5)
			row := computed(t, b, []given{weights, {[]int32{1}, shapes.Make(dtypes.Int32, 1, 1)}},
				func(f compute.Function, x []compute.Value) (compute.Value, error) {
					return f.QuantizedEmbeddingLookup(x[0], x[1], quantization)
				})
			closeTo(t, row, floatsOf(c.Row), 0)
		})
	}
}

func TestCodesBesideScalesAreMultipliedAsGoMLXsOwnBackendDoes(t *testing.T) {
	peer, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Finalize()
	b := backend(t, "")
	const rows, columns, blockSize, blocks = 6, 10, 4, 3 // the last block has two columns
	draw := rand.New(rand.NewPCG(3, 5))
	floats := func(count int) []float32 {
		made := make([]float32, count)
		for i := range made {
			made[i] = float32(draw.NormFloat64())
		}
		return made
	}
	bytes := make([]byte, rows*columns/2)
	for i := range bytes {
		bytes[i] = byte(draw.Uint32())
	}
	wide := make([]int8, rows*columns)
	for i := range wide {
		wide[i] = int8(draw.Uint32())
	}
	x := given{floats(2 * 3 * rows), shapes.Make(dtypes.Float32, 2, 3, rows)}
	scale := given{floats(rows * blocks), shapes.Make(dtypes.Float32, rows, blocks)}
	zero := given{floats(rows * blocks), shapes.Make(dtypes.Float32, rows, blocks)}
	bias := given{floats(columns), shapes.Make(dtypes.Float32, columns)}
	for name, c := range map[string]struct {
		scheme     compute.QuantizationScheme
		packed     dtypes.DType
		zero, bias bool
		activation compute.ActivationType
	}{
		"Int8":                   {packed: dtypes.Int8},
		"Int8 and a zero point":  {packed: dtypes.Int8, zero: true, bias: true, activation: compute.ActivationRelu},
		"Int4":                   {packed: dtypes.Int4, bias: true},
		"Uint4 and a zero point": {packed: dtypes.Uint4, zero: true, activation: compute.ActivationTanh},
		"NF4 of Uint4":           {scheme: compute.QuantNF4, packed: dtypes.Uint4, bias: true, activation: compute.ActivationGelu},
		"NF4 of Int4":            {scheme: compute.QuantNF4, packed: dtypes.Int4},
	} {
		t.Run(name, func(t *testing.T) {
			all := []given{x, scale, zero, bias}
			if c.packed == dtypes.Int8 {
				all = append(all, given{wide, shapes.Make(dtypes.Int8, rows, columns)})
			} else {
				all = append(all, given{bytes, shapes.Make(dtypes.Uint8, rows, columns/2)})
			}
			build := func(f compute.Function, x []compute.Value) (compute.Value, error) {
				w := x[4]
				if c.packed != dtypes.Int8 {
					var err error
					if w, err = f.Bitcast(w, c.packed); err != nil {
						return nil, err
					}
					if w, err = f.Reshape(w, rows, columns); err != nil {
						return nil, err
					}
				}
				quantization := &compute.Quantization{Scheme: c.scheme, Scale: x[1], BlockAxis: 1, BlockSize: blockSize}
				if c.zero {
					quantization.ZeroPoint = x[2]
				}
				var added compute.Value
				if c.bias {
					added = x[3]
				}
				return f.FusedQuantizedDense(x[0], w, added, quantization, c.activation)
			}
			closeTo(t, computed(t, b, all, build), computed(t, peer, all, build), 1e-5)
		})
	}
}

func TestQuantizedWeightsThatCannotBeAreNamed(t *testing.T) {
	b := backend(t, "")
	f := b.Builder("refused").Main()
	x, _ := f.Parameter("x", shapes.Make(dtypes.Float32, 2, 32), nil)
	rows, _ := f.Parameter("rows", shapes.Make(dtypes.Uint8, 4, 35), nil)
	blocks := &compute.Quantization{Scheme: compute.QuantGGML, GGMLType: compute.GGMLQ8_0}
	for _, c := range []struct {
		weights      compute.Value
		quantization *compute.Quantization
	}{{rows, nil}, {rows, blocks}, {x, blocks}, {rows, &compute.Quantization{Scale: x, BlockAxis: 1}},
		{rows, &compute.Quantization{Scale: x, BlockAxis: 1, BlockSize: 7}}} {
		if _, err := f.FusedQuantizedDense(x, c.weights, nil, c.quantization, compute.ActivationNone); err == nil {
			t.Errorf("%+v was taken", c.quantization)
		}
	}
	if _, err := f.QuantizedEmbeddingLookup(rows, x, blocks); err == nil {
		t.Error("indices that are floats were taken")
	}
}
