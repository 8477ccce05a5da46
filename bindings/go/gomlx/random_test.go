package gomlx

import (
	"encoding/json"
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
	for _, config := range []string{"", "coreml"} {
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
