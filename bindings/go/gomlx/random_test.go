package gomlx

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// TestBitsAreThoseOfXLA compares with what GoMLX's backend "xla" draws (bench/gomlx/random_test.go writes the file).
func TestBitsAreThoseOfXLA(t *testing.T) {
	text, err := os.ReadFile("testdata/random.json")
	if err != nil {
		t.Fatal(err)
	}
	var draws []struct {
		State [3]uint64
		DType string
		Count int
		Next  []uint64
		Bits  []uint64
	}
	if err := json.Unmarshal(text, &draws); err != nil {
		t.Fatal(err)
	}
	for _, config := range []string{"", "coreml", "coreml,narrow"} {
		b := backend(t, config)
		for i, d := range draws {
			if config != "" && i%6 != 0 { // each dtype once, each state too
				continue
			}
			dtype, err := dtypes.DTypeString(d.DType)
			if err != nil {
				t.Fatal(err)
			}
			// Once of a shape that is known, once of a dynamic axis.
			for _, dynamic := range []bool{false, config == ""} {
				builder := b.Builder("bits")
				f := builder.Main()
				state, _ := f.Parameter("state", compute.RNGStateShape, nil)
				inputs := []compute.Buffer{}
				x, _ := b.BufferFromFlatData(0, d.State[:], compute.RNGStateShape)
				inputs = append(inputs, x)
				shape := shapes.Make(dtype, d.Count)
				if dynamic {
					shape = shapes.MakeDynamic(dtype, []int{shapes.DynamicDim}, []string{"count"})
					if _, err := f.Parameter("like", withDType(shape, dtypes.Uint8), nil); err != nil {
						t.Fatal(err)
					}
					like, _ := b.BufferFromFlatData(0, make([]uint8, d.Count), shapes.Make(dtypes.Uint8, d.Count))
					inputs = append(inputs, like)
				}
				next, bits, err := f.RNGBitGenerator(state, shape)
				if err != nil {
					t.Fatal(err)
				}
				if err := f.Return([]compute.Value{next, bits}, nil); err != nil {
					t.Fatal(err)
				}
				e, err := builder.Compile()
				if err != nil {
					t.Fatalf("%q: %+v", config, err)
				}
				results, err := e.Execute(inputs, nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				after := make([]uint64, 3)
				flat := reflect.MakeSlice(reflect.SliceOf(dtype.GoType()), d.Count, d.Count)
				if err := results[0].ToFlatData(after); err != nil {
					t.Fatal(err)
				}
				if err := results[1].ToFlatData(flat.Interface()); err != nil {
					t.Fatal(err)
				}
				drawn := make([]uint64, d.Count)
				for i := range drawn {
					drawn[i] = flat.Index(i).Uint()
				}
				if !slices.Equal(after, d.Next) || !slices.Equal(drawn, d.Bits) {
					t.Errorf("%q, dynamic %v: %s[%d] of %v: got %v and then %v, want %v and %v", config, dynamic, dtype, d.Count, d.State, drawn, after, d.Bits, d.Next)
				}
			}
		}
	}
}

// TestNarrowedStates splits a state and asks for its numbers: none of its bits is lost on the way to a result.
func TestNarrowedStates(t *testing.T) {
	text, err := os.ReadFile("testdata/random.json")
	if err != nil {
		t.Fatal(err)
	}
	var draws []struct {
		State [3]uint64
		DType string
		Next  []uint64
		Bits  []uint64
	}
	if err := json.Unmarshal(text, &draws); err != nil {
		t.Fatal(err)
	}
	b := backend(t, "coreml,narrow")
	for _, d := range draws {
		if d.DType != "Uint64" {
			continue
		}
		builder := b.Builder("split")
		f := builder.Main()
		state, _ := f.Parameter("state", compute.RNGStateShape, nil)
		_, split, err := f.RNGBitGenerator(state, compute.RNGStateShape)
		if err != nil {
			t.Fatal(err)
		}
		known, err := f.Constant(d.State[:], 3)
		if err != nil {
			t.Fatal(err)
		}
		_, ofConstant, err := f.RNGBitGenerator(known, compute.RNGStateShape)
		if err != nil {
			t.Fatal(err)
		}
		low, err := f.BitwiseAnd(split, split)
		if err != nil {
			t.Fatal(err)
		}
		if low, err = f.ConvertDType(low, dtypes.Uint32); err != nil {
			t.Fatal(err)
		}
		float, err := f.ConvertDType(split, dtypes.Float64)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Return([]compute.Value{state, split, ofConstant, low, float}, nil); err != nil {
			t.Fatal(err)
		}
		e, err := builder.Compile()
		if err != nil {
			t.Fatalf("%+v", err)
		}
		x, _ := b.BufferFromFlatData(0, d.State[:], compute.RNGStateShape)
		results, err := e.Execute([]compute.Buffer{x}, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range [][]uint64{d.State[:], d.Bits[:3], d.Bits[:3]} {
			got := make([]uint64, 3)
			if err := results[i].ToFlatData(got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: result %d is %v, want %v", d.State, i, got, want)
			}
		}
		got := make([]uint32, 3)
		if err := results[3].ToFlatData(got); err != nil {
			t.Fatal(err)
		}
		for i, each := range got {
			if each != uint32(d.Bits[i]) {
				t.Errorf("%v: the low halves are %v of %v", d.State, got, d.Bits[:3])
				break
			}
		}
		floats := make([]float64, 3)
		if err := results[4].ToFlatData(floats); err != nil {
			t.Fatal(err)
		}
		for i, each := range floats {
			if want := float64(d.Bits[i]); math.Abs(each-want) > want*1e-6 {
				t.Errorf("%v: as a float %d is %v", d.State, d.Bits[i], each)
			}
		}
	}
}
