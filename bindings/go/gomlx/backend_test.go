package gomlx

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

func TestOptionsThatAreUnknownAreNamed(t *testing.T) {
	for config, named := range map[string]string{"threads=many": "many", "speed=9": "speed=9", "threads=-1": "-1"} {
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), named) {
			t.Errorf("%s: got %v", config, err)
		}
	}
	if _, err := New("library=/nowhere/librlx_c.so"); err == nil || !strings.Contains(err.Error(), "/nowhere/librlx_c.so") {
		t.Errorf("got %v", err)
	}
	backend(t, "")
	if _, err := New("abacus"); err == nil || !strings.Contains(err.Error(), "abacus") {
		t.Errorf("got %v", err)
	}
	b := backend(t, "cpu,threads=2,nofuse")
	if b.Name() != "rlx" || b.String() != "rlx:cpu" || b.Capabilities().Operations[compute.OpTypeFusedGelu] {
		t.Errorf("%s is %s", b.Name(), b)
	}
}

// built compiles a function of one parameter.
func built(t *testing.T, b *Backend, shape shapes.Shape, build func(f compute.Function, x compute.Value) (compute.Value, error)) compute.Executable {
	t.Helper()
	builder := b.Builder(t.Name())
	f := builder.Main()
	x, err := f.Parameter("x", shape, nil)
	if err != nil {
		t.Fatal(err)
	}
	y, err := build(f, x)
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
	return e
}

func TestManyGoroutinesShareAnExecutableAndMemoryStaysFlat(t *testing.T) {
	b := backend(t, "threads=1")
	shape := shapes.Make(dtypes.Float32, 128)
	e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) { return f.Add(x, x) })
	var all sync.WaitGroup
	for k := range 32 {
		all.Go(func() {
			for range 300 {
				x, flat, err := b.NewSharedBuffer(0, shape)
				if err != nil {
					t.Error(err)
					return
				}
				for i := range flat.([]float32) {
					flat.([]float32)[i] = float32(k)
				}
				results, err := e.Execute([]compute.Buffer{x}, []bool{true}, 0)
				if err != nil {
					t.Error(err)
					return
				}
				got, _ := results[0].Data()
				for _, each := range got.([]float32) {
					if each != float32(2*k) {
						t.Errorf("got %v, want %d", each, 2*k)
						return
					}
				}
				_ = results[0].Finalize()
			}
		})
	}
	all.Wait()
}

func TestDonatedBuffersAreGoneAndOthersStay(t *testing.T) {
	b := backend(t, "")
	shape := shapes.Make(dtypes.Int32, 3)
	e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) { return f.Neg(x) })
	x, err := b.BufferFromFlatData(0, []int32{1, 2, 3}, shape)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Execute([]compute.Buffer{x}, nil, 0); err != nil {
		t.Fatal(err)
	}
	if kept, _ := x.Data(); fmt.Sprint(kept) != "[1 2 3]" {
		t.Errorf("the input became %v", kept)
	}
	if _, err := e.Execute([]compute.Buffer{x}, []bool{true}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Execute([]compute.Buffer{x}, nil, 0); err == nil || !strings.Contains(err.Error(), "donated") {
		t.Errorf("got %v", err)
	}
	if _, err := b.BufferFromFlatData(0, []int32{1}, shape); err == nil {
		t.Error("a slice that is too short was taken")
	}
	if _, err := b.BufferFromFlatData(0, []float32{1, 2, 3}, shape); err == nil {
		t.Error("a slice of another type was taken")
	}
}

func TestValuesOfOtherFunctionsAreRefusedByName(t *testing.T) {
	b := backend(t, "")
	builder := b.Builder("mine")
	x, _ := builder.Main().Parameter("x", shapes.Make(dtypes.Float32, 2), nil)
	other, _ := builder.NewFunction("other")
	if _, err := other.Neg(x); err == nil || !strings.Contains(err.Error(), `"main"`) || !strings.Contains(err.Error(), `"other"`) {
		t.Errorf("got %v", err)
	}
	foreign := b.Builder("theirs")
	if _, err := foreign.Main().Neg(x); err == nil || !strings.Contains(err.Error(), `"mine"`) {
		t.Errorf("got %v", err)
	}
	if _, err := builder.Main().Neg(7); err == nil || !strings.Contains(err.Error(), "int") {
		t.Errorf("got %v", err)
	}
	closure, _ := builder.Main().Closure()
	inner, err := closure.Neg(x)
	if err != nil {
		t.Errorf("a closure sees the values around it: %v", err)
	}
	if _, err := builder.Main().Neg(inner); err == nil {
		t.Error("a value of a closure was taken outside of it")
	}
	if _, err := builder.NewFunction("other"); err == nil {
		t.Error("a name was given twice")
	}
	y, _ := builder.Main().Parameter("y", shapes.Make(dtypes.Float32, 3), nil)
	if _, err := builder.Main().Add(x, y); err == nil {
		t.Error("shapes that do not go together were added")
	}
}

func TestLoopsAndBranchesCaptureWhatIsAround(t *testing.T) {
	b := backend(t, "")
	// Doubles x until its sum is at least a limit that is captured, two functions deep.
	e := built(t, b, shapes.Make(dtypes.Float32, 2), func(f compute.Function, x compute.Value) (compute.Value, error) {
		limit, _ := f.Constant([]float32{100})
		step, _ := f.Add(x, x) // captured too: 2 x
		condition, _ := f.Closure()
		state, _ := condition.Parameter("state", shapes.Make(dtypes.Float32, 2), nil)
		sum, _ := condition.ReduceSum(state)
		less, err := condition.LessThan(sum, limit)
		if err != nil {
			return nil, err
		}
		if err := condition.Return([]compute.Value{less}, nil); err != nil {
			return nil, err
		}
		body, _ := f.Closure()
		state, _ = body.Parameter("state", shapes.Make(dtypes.Float32, 2), nil)
		always, _ := body.Constant([]bool{true})
		yes, _ := body.Closure()
		no, _ := body.Closure()
		grown, err := yes.Add(state, step)
		if err != nil {
			return nil, err
		}
		if err := yes.Return([]compute.Value{grown}, nil); err != nil {
			return nil, err
		}
		if err := no.Return([]compute.Value{state}, nil); err != nil {
			return nil, err
		}
		next, err := body.If(always, yes, no)
		if err != nil {
			return nil, err
		}
		if err := body.Return(next, nil); err != nil {
			return nil, err
		}
		results, err := f.While(condition, body, x)
		if err != nil {
			return nil, err
		}
		return results[0], nil
	})
	x, _ := b.BufferFromFlatData(0, []float32{1, 2}, shapes.Make(dtypes.Float32, 2))
	results, err := e.Execute([]compute.Buffer{x}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	// x (1 + 2 n) with a sum of 3 (1 + 2 n) >= 100: n = 17.
	if got, _ := results[0].Data(); fmt.Sprint(got) != "[35 70]" {
		t.Errorf("got %v", got)
	}
}

func TestDynamicAxesAreCompiledOnce(t *testing.T) {
	b := backend(t, "")
	shape := shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim, 2}, []string{"batch", ""})
	e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) { return f.ReduceSum(x, 1) })
	for rows := range 4 {
		flat := make([]float32, 2*rows)
		for i := range flat {
			flat[i] = float32(i)
		}
		x, err := b.BufferFromFlatData(0, flat, shapes.Make(dtypes.Float32, rows, 2))
		if err != nil {
			t.Fatal(err)
		}
		results, err := e.Execute([]compute.Buffer{x}, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := results[0].Data()
		if len(got.([]float32)) != rows {
			t.Fatalf("%d rows gave %v", rows, got)
		}
		for i, each := range got.([]float32) {
			if each != float32(4*i+1) {
				t.Errorf("row %d of %d is %v", i, rows, each)
			}
		}
	}
}

func TestEqualStatesGiveEqualBits(t *testing.T) {
	b := backend(t, "")
	builder := b.Builder("random")
	f := builder.Main()
	state, _ := f.Parameter("state", compute.RNGStateShape, nil)
	next, bits, err := f.RNGBitGenerator(state, shapes.Make(dtypes.Uint64, 1000))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Return([]compute.Value{next, bits}, nil); err != nil {
		t.Fatal(err)
	}
	e, err := builder.Compile()
	if err != nil {
		t.Fatal(err)
	}
	draw := func(state []uint64) ([]uint64, []uint64) {
		x, _ := b.BufferFromFlatData(0, state, compute.RNGStateShape)
		results, err := e.Execute([]compute.Buffer{x}, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		next, _ := results[0].Data()
		bits, _ := results[1].Data()
		return next.([]uint64), bits.([]uint64)
	}
	after, first := draw([]uint64{1, 2, 3})
	_, again := draw([]uint64{1, 2, 3})
	_, second := draw(after)
	if fmt.Sprint(first) != fmt.Sprint(again) {
		t.Error("equal states gave different bits")
	}
	for _, other := range [][]uint64{second, func() []uint64 { _, bits := draw([]uint64{1, 3, 3}); return bits }()} {
		if fmt.Sprint(first) == fmt.Sprint(other) {
			t.Error("different states gave equal bits")
		}
	}
}

func TestAComparatorUsesScalarsThatAreAround(t *testing.T) {
	b := backend(t, "")
	// Sorts by the distance from a scalar, two functions deep, and ties by a flag: the places follow.
	shape := shapes.Make(dtypes.Float32, 2, 4)
	e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) {
		from, err := f.ReduceMin(x)
		if err != nil {
			return nil, err
		}
		yes, _ := f.Constant([]bool{true})
		then, _ := f.Closure()
		comparator, _ := then.Closure()
		lhs, _ := comparator.Parameter("lhs", shapes.Make(dtypes.Float32), nil)
		rhs, _ := comparator.Parameter("rhs", shapes.Make(dtypes.Float32), nil)
		far := func(v compute.Value) compute.Value {
			d, err := comparator.Sub(v, from)
			if err != nil {
				t.Fatal(err)
			}
			d, _ = comparator.Abs(d)
			return d
		}
		greater, err := comparator.GreaterThan(far(lhs), far(rhs))
		if err != nil {
			return nil, err
		}
		if err := comparator.Return([]compute.Value{greater}, nil); err != nil {
			return nil, err
		}
		sorted, err := then.Sort(comparator, 1, true, x)
		if err != nil {
			return nil, err
		}
		if err := then.Return(sorted, nil); err != nil {
			return nil, err
		}
		otherwise, _ := f.Closure()
		if err := otherwise.Return([]compute.Value{x}, nil); err != nil {
			return nil, err
		}
		results, err := f.If(yes, then, otherwise)
		if err != nil {
			return nil, err
		}
		return results[0], nil
	})
	x, _ := b.BufferFromFlatData(0, []float32{1, -3, 4, -2, 0, 7, -1, 2}, shape)
	results, err := e.Execute([]compute.Buffer{x}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := results[0].Data(); fmt.Sprint(got) != "[4 1 -2 -3 7 2 0 -1]" {
		t.Errorf("got %v", got)
	}
}

// The order is a table's that the comparator reads at its elements, and a sum of what is sorted: both are around it.
func TestAComparatorUsesTensorsThatAreAround(t *testing.T) {
	for _, config := range []string{"", "coreml"} {
		for _, axis := range []int{0, 1} {
			b := backend(t, config)
			shape := shapes.Make(dtypes.Int32, 5, 3)
			e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) {
				table, _ := f.Constant([]float32{5, 1, 4, 1, 3, 0, 2, 2}, 8)
				table, _ = f.Neg(table) // a constant would be written into the comparator
				places, _ := f.Iota(shape, axis)
				comparator, _ := f.Closure()
				var params []compute.Value
				for _, name := range []string{"lhs", "rhs", "lhsPlace", "rhsPlace"} {
					v, _ := comparator.Parameter(name, shapes.Make(dtypes.Int32), nil)
					params = append(params, v)
				}
				at := func(v compute.Value) compute.Value {
					part, err := comparator.DynamicSlice(table, []compute.Value{v}, []int{1})
					if err != nil {
						t.Fatal(err)
					}
					part, _ = comparator.Reshape(part)
					return part
				}
				less, err := comparator.GreaterThan(at(params[0]), at(params[1]))
				if err != nil {
					return nil, err
				}
				if err := comparator.Return([]compute.Value{less}, nil); err != nil {
					return nil, err
				}
				sorted, err := f.Sort(comparator, axis, true, x, places)
				if err != nil {
					return nil, err
				}
				// What is sorted and where it stood, in one number.
				ten, _ := f.Constant([]int32{10})
				wide, _ := f.BroadcastInDim(ten, shape, nil)
				tens, _ := f.Mul(sorted[0], wide)
				return f.Add(tens, sorted[1])
			})
			given := []int32{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6}
			x, _ := b.BufferFromFlatData(0, given, shape)
			results, err := e.Execute([]compute.Buffer{x}, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			keys := []float32{5, 1, 4, 1, 3, 0, 2, 2}
			want := make([]int32, len(given))
			strides, extents := []int{3, 1}, []int{5, 3}
			for row := range extents[1-axis] {
				order := make([]int, extents[axis])
				for i := range order {
					order[i] = i
				}
				element := func(i int) int32 { return given[row*strides[1-axis]+i*strides[axis]] }
				slices.SortStableFunc(order, func(i, k int) int { return cmp.Compare(keys[element(i)], keys[element(k)]) })
				for i, from := range order {
					want[row*strides[1-axis]+i*strides[axis]] = 10*element(from) + int32(from)
				}
			}
			if got, _ := results[0].Data(); !slices.Equal(got.([]int32), want) {
				t.Errorf("%q along axis %d: got %v, want %v", config, axis, got, want)
			}
		}
	}
}

// resident is the memory of the process in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skipf("the memory of a process is not told here: %v", err)
	}
	var total, pages int
	if _, err := fmt.Sscan(string(text), &total, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestTenThousandRunsTakeNoMoreMemoryThanAThousand(t *testing.T) {
	b := backend(t, "threads=1")
	for name, shape := range map[string]shapes.Shape{
		"static":  shapes.Make(dtypes.Float32, 64, 256),
		"dynamic": shapes.MakeDynamic(dtypes.Float32, []int{shapes.DynamicDim, 256}, []string{"rows", ""}),
	} {
		e := built(t, b, shape, func(f compute.Function, x compute.Value) (compute.Value, error) { return f.FusedSoftmax(x, 1) })
		given := make([]float32, 64*256)
		run := func(count int) {
			for i := range count {
				rows := 64
				if name == "dynamic" {
					rows -= i % 3
				}
				x, err := b.BufferFromFlatData(0, given[:rows*256], shapes.Make(dtypes.Float32, rows, 256))
				if err != nil {
					t.Fatal(err)
				}
				results, err := e.Execute([]compute.Buffer{x}, nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				_ = results[0].Finalize()
				_ = x.Finalize()
			}
			runtime.GC()
		}
		run(1000)
		before := resident(t)
		run(10000)
		grown := resident(t) - before
		t.Logf("%s: %d bytes after 10,000 runs of 64 KiB each", name, grown)
		// 10,000 results of 64 KiB that are kept would be 640 MiB.
		if grown > 8<<20 {
			t.Errorf("%s: the memory grew by %d bytes", name, grown)
		}
		e.Finalize()
	}
}

func TestEachDeviceRunsOrSaysWhyItDoesNot(t *testing.T) {
	cpu := backend(t, "")
	devices, err := cpu.lib.Devices()
	if err != nil {
		t.Fatal(err)
	}
	flat := []float32{0, 1, 2, 3, 2, 1}
	shape := shapes.Make(dtypes.Float32, 2, 3)
	softmax := func(b compute.Backend) []float32 {
		return computed(t, b, []given{{flat, shape}}, func(f compute.Function, x []compute.Value) (compute.Value, error) {
			return f.FusedSoftmax(x[0], 1)
		})
	}
	want := softmax(cpu)
	for _, each := range devices {
		b, err := New(each.Name)
		if !each.Available {
			if err == nil || !strings.Contains(err.Error(), each.Name) {
				t.Errorf("%s is not here, which New does not say: %v", each.Name, err)
			}
			t.Logf("%s: %v", each.Name, err)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", each.Name, err)
			continue
		}
		if b.Capabilities().PreferConstantsForVariables != strings.HasPrefix(each.Name, "coreml") {
			t.Errorf("%s: constants are preferred, or not", each.Name)
		}
		closeTo(t, softmax(b), want, 1e-6)
		t.Logf("%s runs", each.Name)
		b.Finalize()
	}
}
