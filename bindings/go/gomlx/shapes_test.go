package gomlx

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// ran gives the elements of the one result of an executable.
func ran(t *testing.T, b *Backend, e compute.Executable, flat any, shape shapes.Shape) any {
	t.Helper()
	x, err := b.BufferFromFlatData(0, flat, shape)
	if err != nil {
		t.Fatal(err)
	}
	results, err := e.Execute([]compute.Buffer{x}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := results[0].Data()
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestShapesWithoutNamesHaveNoListOfNames(t *testing.T) {
	f := backend(t, "").Builder("names").Main()
	x, err := f.Parameter("x", shapes.Make(dtypes.Float32, 4, 3), nil)
	if err != nil {
		t.Fatal(err)
	}
	at, err := f.Constant([]int32{2, 0}, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := f.Gather(x, at, 1, []int{1}, []int{0}, []int{0}, []int{1, 3}, false)
	if err != nil {
		t.Fatal(err)
	}
	if shape, err := f.Shape(rows); err != nil || shape.AxisNames != nil {
		t.Errorf("got the names %q, %v", shape.AxisNames, err)
	}
}

func TestTheGreatestOfBoolsIsTheFirstThatIsTrue(t *testing.T) {
	b := backend(t, "")
	shape := shapes.Make(dtypes.Bool, 3, 4)
	e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) {
		return f.ArgMinMax(x, 1, dtypes.Int32, false)
	})
	given := []bool{false, false, true, true, false, false, false, false, true, false, true, false}
	if got := ran(t, b, e, given, shape).([]int32); !slices.Equal(got, []int32{2, 0, 0}) {
		t.Errorf("got %v", got)
	}
}

func TestAGatherTakesWholeAxesThatAreDynamic(t *testing.T) {
	b := backend(t, "")
	dynamic := shapes.MakeDynamic(dtypes.Float32, []int{2, shapes.DynamicDim}, []string{"", "width"})
	e := built(t, b, dynamic, func(f compute.Function, x compute.Value) (compute.Value, error) {
		last, err := f.Constant([]int32{1}, 1)
		if err != nil {
			return nil, err
		}
		return f.Gather(x, last, 0, []int{0}, []int{0}, []int{0}, []int{1, shapes.DynamicDim}, false)
	})
	for width := range 4 {
		flat := make([]float32, 2*width)
		for i := range flat {
			flat[i] = float32(i)
		}
		if got := ran(t, b, e, flat, shapes.Make(dtypes.Float32, 2, width)).([]float32); !slices.Equal(got, flat[width:]) {
			t.Errorf("a width of %d gave %v", width, got)
		}
	}
}

func TestBitsOfADynamicShapeAreThoseOfTheShapeThatItHas(t *testing.T) {
	b := backend(t, "")
	draw := func(drawn, given shapes.Shape) compute.Executable {
		return built(t, b, given, func(f compute.Function, x compute.Value) (compute.Value, error) {
			state, err := f.Constant([]uint64{1, 2, 3}, 3)
			if err != nil {
				return nil, err
			}
			_, bits, err := f.RNGBitGenerator(state, drawn)
			return bits, err
		})
	}
	names := []string{"rows", ""}
	e := draw(shapes.MakeDynamic(dtypes.Uint32, []int{shapes.DynamicDim, 5}, names), shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim, 1}, names))
	for _, rows := range []int{1, 3} {
		given := shapes.Make(dtypes.Float32, rows, 1)
		want := ran(t, b, draw(shapes.Make(dtypes.Uint32, rows, 5), given), make([]float32, rows), given).([]uint32)
		if got := ran(t, b, e, make([]float32, rows), given).([]uint32); !slices.Equal(got, want) {
			t.Errorf("%d rows: got %v, want %v", rows, got, want)
		}
	}
}

func TestCoreMLDrawsTheBitsOfTheCPU(t *testing.T) {
	draw := func(device string) []uint32 {
		b := backend(t, device)
		e := built(t, b, compute.RNGStateShape, func(f compute.Function, state compute.Value) (compute.Value, error) {
			_, bits, err := f.RNGBitGenerator(state, shapes.Make(dtypes.Uint32, 5))
			return bits, err
		})
		return ran(t, b, e, []uint64{1<<63 + 5, 1<<40 + 7, 9}, compute.RNGStateShape).([]uint32)
	}
	if cpu, coreml := draw("cpu"), draw("coreml"); !slices.Equal(cpu, coreml) {
		t.Errorf("the CPU draws %v, Core ML %v", cpu, coreml)
	}
}
